//! Metrics of an agent: what it serves over HTTP, and what a Prometheus makes of it.

use crate::{
    control::{policy, put, release},
    net::{Net, with_transfer},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use windlass_tests::{
    is_root_or_skip,
    process::{LIMIT, Process, until},
};

/// What is served to the box itself at this address: status line and headers, and the rest.
pub fn get(net: &Net, address: &str, path: &str) -> (String, String) {
    let answer = net.middle.enter(|| {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LIMIT))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    });
    let answer = answer.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    (head.to_string(), body.to_string())
}

/// Where this agent serves its metrics.
pub fn address(agent: &Process) -> String {
    let line = agent.says("metrics at http://");
    line.split('/').nth(2).expect("an address").to_string()
}

/// Values by name and labels.
fn values(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let of = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("name and value");
        (name.to_string(), value.parse().expect("a number"))
    };
    lines.map(of).collect()
}

/// How many flows have ended that delivered something.
const GOODPUTS: &str = "windlass_flow_goodput_bytes_per_second_count";

/// Connections that begin, carry something and end, and the metrics thereafter.
fn with_flows(net: &Net, address: &str, created: u64) -> BTreeMap<String, f64> {
    drop(net.idle_connections(3));
    let mut now = BTreeMap::new();
    until("they are counted", || {
        now = values(&get(net, address, "/metrics").1);
        let is = |name: &str| now.get(name) == Some(&(created as f64));
        is("windlass_flows_created_total")
            && is("windlass_flows_ended_total{reason=\"closed\"}")
            && is(GOODPUTS)
    });
    now
}

fn no_counter_falls(before: &BTreeMap<String, f64>, now: &BTreeMap<String, f64>) {
    let is_sum = |name: &str| ["_total", "_bucket", "_count", "_sum"].iter().any(|part| name.contains(part));
    for (name, value) in before.iter().filter(|(name, _)| is_sum(name)) {
        assert!(now[name] >= *value, "{name}: {value}, then {}", now[name]);
    }
}

#[test]
fn metrics_are_served_and_their_counters_outlive_agents_and_datapaths() {
    if !is_root_or_skip("metrics_are_served_and_their_counters_outlive_agents_and_datapaths") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "cubic");
    let own = ["agent", "--metrics", "127.0.0.1:0", "--policy", file.to_str().expect("UTF-8")];
    let start = |more: &[&str]| Process::start(&mut net.windlass(&[&own[..], more].concat()));
    let mut agent = start(&[]);
    let at = address(&agent);
    until("it is ready", || get(&net, &at, "/readyz").0.starts_with("HTTP/1.1 200"));
    let first = with_flows(&net, &at, 3);
    assert_eq!(first["windlass_ready"], 1.0);
    assert_eq!(first["windlass_device_flows{device=\"r1\"}"], 0.0);
    let hash = Command::new("sha256sum").arg(&file).output().expect("coreutils").stdout;
    let hash = String::from_utf8_lossy(&hash).split(' ').next().map(String::from).expect("a hash");
    assert_eq!(first[&format!("windlass_policy_hash_info{{hash=\"{hash}\"}}")], 1.0);
    let open = net.idle_connections(2);
    until("they are in it", || {
        let flows = values(&get(&net, &at, "/metrics").1);
        let of_rule = r#"windlass_flows{rule="all",algorithm="cubic",state="controlled"}"#;
        flows.get(of_rule) == Some(&2.0) && !get(&net, &at, "/metrics").1.contains("10.79.")
    });
    drop(open);
    // what was shown is not lost with the agent
    until("they have ended", || values(&get(&net, &at, "/metrics").1)[GOODPUTS] == 5.0);

    agent.end(libc::SIGKILL);
    // which makes a larger ring
    let records = folder.path().join("records");
    agent = start(&["--records", records.to_str().expect("UTF-8")]);
    let at = address(&agent);
    until("it is ready", || get(&net, &at, "/readyz").0.starts_with("HTTP/1.1 200"));
    let taken_over = values(&get(&net, &at, "/metrics").1);
    no_counter_falls(&first, &taken_over);
    assert!(taken_over[GOODPUTS] == 5.0 && taken_over["windlass_rtt_seconds_count"] >= 5.0, "{taken_over:?}");
    let second = with_flows(&net, &at, 8);
    no_counter_falls(&first, &second);
    let lines = fs::read_to_string(records.join("records.jsonl")).expect("records");
    assert_eq!(lines.lines().count(), 3, "those of its own time: {lines}");
    // another datapath counts from zero
    release(&net, agent);
    let agent = start(&[]);
    let at = address(&agent);
    until("it is ready", || get(&net, &at, "/readyz").0.starts_with("HTTP/1.1 200"));
    let third = with_flows(&net, &at, 11);
    no_counter_falls(&second, &third);
    let printed = values(&net.answer(&["metrics"]));
    assert_eq!((printed["windlass_flows_created_total"], printed[GOODPUTS]), (11.0, 11.0));
    release(&net, agent);
}

/// How many seconds `curl` took for a scrape.
fn seconds_of_scrape(net: &Net, address: &str) -> f64 {
    let accept = "Accept: application/openmetrics-text; version=1.0.0";
    let url = format!("http://{address}/metrics");
    let words = ["-s", "-o", "/dev/null", "-w", "%{time_total}", "-H", accept, &url];
    let out = net.middle.command("curl").args(words).output().expect("curl runs");
    String::from_utf8_lossy(&out.stdout).parse().expect("seconds")
}

/// For a release build: `cargo test --release --test end_to_end -- --ignored --nocapture scrapes_of_2000_flows`.
#[test]
#[ignore = "measures: `make test-long` runs it"]
fn scrapes_of_2000_flows_take_as_long_as_is_printed() {
    if !is_root_or_skip("scrapes_of_2000_flows_take_as_long_as_is_printed") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "cubic");
    let own =
        ["agent", "--metrics", "127.0.0.1:0", "--policy", file.to_str().expect("UTF-8"), "--flows", "4096"];
    let agent = Process::start(&mut net.windlass(&own));
    let at = address(&agent);
    agent.says("under control");
    let _open = net.idle_connections(2000);
    let mut seconds = Vec::new();
    let mut reading = Vec::new();
    // a scrape within a second of the one before reads nothing
    let mut before = 0.0;
    until("twenty scrapes have read all flows", || {
        let took = seconds_of_scrape(&net, &at);
        let now = values(&get(&net, &at, "/metrics").1);
        assert!(now["windlass_flow_table_entries"] >= 2000.0);
        let read = now["windlass_read_duration_seconds"];
        if read != before {
            seconds.push(took);
            reading.push(read);
            before = read;
        }
        seconds.len() == 20
    });
    seconds.sort_by(f64::total_cmp);
    reading.sort_by(f64::total_cmp);
    eprintln!(
        "scrape of 2,000 flows: median {:.1} ms, most {:.1} ms; of that reading {:.1} ms",
        seconds[10] * 1e3,
        seconds[19] * 1e3,
        reading[10] * 1e3
    );
    release(&net, agent);
}

/// Alerts and board, as they are installed.
fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging").join(file)
}

fn is_there_or_skip(program: &str, test: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("skipped: {test}: {program} is not installed (Debian: prometheus, nftables)");
    }
    is_there
}

fn promtool(words: &[&str], input: Option<&str>) -> Output {
    let mut command = Command::new("promtool");
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool runs");
    child.stdin.take().expect("piped").write_all(input.unwrap_or_default().as_bytes()).expect("it reads");
    let out = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).into_owned();
    assert!(out.status.success(), "{words:?}: {said}");
    out
}

#[test]
fn alert_rules_of_metrics_pass_their_own_tests() {
    const NAME: &str = "alert_rules_of_metrics_pass_their_own_tests";
    if !is_there_or_skip("promtool", NAME) {
        return;
    }
    promtool(&["check", "rules", packaging("prometheus/windlass.rules.yml").to_str().expect("UTF-8")], None);
    let tests = packaging("prometheus/windlass.rules.test.yml");
    promtool(&["test", "rules", tests.to_str().expect("UTF-8")], None);
}

/// What Grafana puts in the place of its variables.
fn without_variables(expression: &str) -> String {
    expression.replace("$__rate_interval", "10s").replace("$job", ".*").replace("$instance", ".*")
}

/// The expressions of the board, with those of its variables.
fn of_board() -> Vec<String> {
    let text = fs::read_to_string(packaging("grafana/windlass.json")).expect("the board");
    let board: Value = serde_json::from_str(&text).expect("JSON");
    let panels = board["panels"].as_array().expect("panels");
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let all: Vec<String> =
        targets.map(|target| without_variables(target["expr"].as_str().expect("an expression"))).collect();
    assert!(all.len() > 30, "{all:?}");
    all
}

/// What the alerts compare: without the comparison that makes them fire.
fn of_alerts(rules: &Value) -> Vec<String> {
    let groups = rules["data"]["groups"].as_array().expect("groups");
    let rules = groups.iter().flat_map(|group| group["rules"].as_array().expect("rules"));
    let compared = |rule: &Value| {
        let expression = rule["query"].as_str().expect("an expression");
        let at =
            [" > ", " == "].iter().filter_map(|sign| expression.rfind(sign)).max().expect("a comparison");
        expression[..at].to_string()
    };
    rules.map(compared).collect()
}

/// A Prometheus on the box.
struct Prometheus<'a> {
    net: &'a Net,
    _process: Process,
    _data: tempfile::TempDir,
}

impl Prometheus<'_> {
    /// With these rules of alerts, and a feature that it does not have of itself.
    fn start<'a>(net: &'a Net, agent: &str, rules: &Path, feature: &str) -> Prometheus<'a> {
        let data = tempfile::tempdir().expect("a folder");
        let config = data.path().join("prometheus.yml");
        let text = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{}]\nscrape_configs:\n\
             - job_name: windlass\n  static_configs: [{{ targets: [\"{agent}\"] }}]\n",
            rules.display()
        );
        fs::write(&config, text).expect("a writable folder");
        let mut command = net.middle.command("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.path().join("data").display()))
            .args(["--web.listen-address=127.0.0.1:9090", "--log.level=error"]);
        command.arg(format!("--enable-feature={feature}"));
        let prometheus = Prometheus { net, _process: Process::start(&mut command), _data: data };
        until("it scrapes", || {
            prometheus.ask("query", Some("up")).is_some() && prometheus.has_data("up == 1")
        });
        prometheus
    }

    /// Does one of a bucket name a flow?
    fn has_exemplar(&self, series: &str) -> bool {
        let answer = self.ask("query_exemplars?start=0&end=99999999999", Some(series)).unwrap_or_default();
        let all = answer["data"].as_array().cloned().unwrap_or_default();
        let flow = |series: &Value| series["exemplars"][0]["labels"]["flow"].as_str().map(String::from);
        all.iter()
            .filter_map(flow)
            .any(|flow| flow.starts_with("10.79.1.2:") && flow.contains(" to 10.79.2.2:"))
    }

    /// Is this alert not only about to fire?
    fn fires(&self, alert: &str) -> bool {
        self.has_data(&format!("ALERTS{{alertname=\"{alert}\", alertstate=\"firing\"}}"))
    }

    /// What it answers; none: it does not yet.
    fn ask(&self, path: &str, query: Option<&str>) -> Option<Value> {
        let mut command = self.net.middle.command("curl");
        command.args(["-sG", "-m", "10", &format!("http://127.0.0.1:9090/api/v1/{path}")]);
        command.args(query.iter().flat_map(|query| ["--data-urlencode".into(), format!("query={query}")]));
        serde_json::from_slice(&command.output().ok()?.stdout).ok()
    }

    fn has_data(&self, query: &str) -> bool {
        let answer = self.ask("query", Some(query)).unwrap_or_default();
        assert_ne!(answer["status"], "error", "{query}: {answer}");
        answer["data"]["result"].as_array().is_some_and(|all| !all.is_empty())
    }

    fn value(&self, query: &str) -> f64 {
        let answer = self.ask("query", Some(query)).expect("an answer");
        let value = answer["data"]["result"][0]["value"][1].as_str().expect("a value");
        value.parse().expect("a number")
    }
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn every_expression_of_board_and_alerts_has_data_of_a_real_prometheus() {
    const NAME: &str = "every_expression_of_board_and_alerts_has_data_of_a_real_prometheus";
    if !is_root_or_skip(NAME) || !is_there_or_skip("prometheus", NAME) || !is_there_or_skip("promtool", NAME)
    {
        return;
    }
    let net = Net::create("cubic");
    net.bottleneck();
    let folder = tempfile::tempdir().expect("a folder");
    let rule = |n: u32| {
        format!(
            "[[rule]]\nname = \"rule{n}\"\nmatch = {{ iface = \"r1\", client = \"10.{n}.0.0/16\" }}\nalgorithm = \"bbr\"\n"
        )
    };
    // which loses more than others where there is hardly a buffer
    let last = "[[rule]]\nname = \"all\"\nmatch = { iface = \"r1\" }\nalgorithm = \"bbr\"\n";
    let file = put(folder.path(), &((1..10).map(rule).collect::<String>() + last));
    let records = folder.path().join("records");
    let own = ["agent", "--metrics", "127.0.0.1:0", "--policy", file.to_str().expect("UTF-8")];
    let more = ["--records", records.to_str().expect("UTF-8"), "--flows", "4096"];
    let words = [&own[..], &more].concat();
    let mut agent = Process::start(&mut net.windlass(&words));
    let at = address(&agent);
    agent.says("under control");
    // whose records come at once
    drop(net.idle_connections(3));
    let _open = net.idle_connections(2000);
    let prometheus =
        Prometheus::start(&net, &at, &packaging("prometheus/windlass.rules.yml"), "exemplar-storage");
    let mut expressions = of_board();
    expressions.extend(of_alerts(&prometheus.ask("rules", None).expect("an answer")));
    with_transfer(&net, |progress| {
        progress();
        for expression in &expressions {
            until(&format!("data of {expression}"), || {
                prometheus.has_data(expression) || {
                    progress();
                    false
                }
            });
        }
        let printed = net.answer(&["metrics"]);
        promtool(&["check", "metrics"], Some(&printed));
        until("an exemplar", || prometheus.has_exemplar("windlass_rtt_seconds_bucket"));
        let series = prometheus.value("scrape_samples_scraped{job=\"windlass\"}");
        assert!(series <= 500.0, "{series} series for 10 rules");
        eprintln!(
            "{series} series for 10 rules; scrape of 2,000 flows {} s, of which reading {} s",
            prometheus.value("avg_over_time(scrape_duration_seconds{job=\"windlass\"}[1m])"),
            prometheus.value("avg_over_time(windlass_read_duration_seconds[1m])")
        );
    });
    agent.end(libc::SIGKILL);
    let fires = |alert: &str| prometheus.has_data(&format!("ALERTS{{alertname=\"{alert}\"}}"));
    until("it is missed", || fires("WindlassAgentGone"));
    release(&net, agent);
}

/// The rules as they are installed, but for how long each must hold and over how long rates are: seconds.
fn hasty_rules(folder: &Path) -> PathBuf {
    let text = fs::read_to_string(packaging("prometheus/windlass.rules.yml")).expect("the rules");
    let hasty = |line: &str| match line.split_once("for: ") {
        Some((indent, _)) => format!("{indent}for: 1s\n"),
        None => {
            ["[1m]", "[5m]", "[10m]", "[15m]"]
                .iter()
                .fold(line.to_string(), |line, range| line.replace(range, "[5s]"))
                + "\n"
        }
    };
    let path = folder.join("hasty.rules.yml");
    fs::write(&path, text.lines().map(hasty).collect::<String>()).expect("a writable folder");
    path
}

/// Connections to further servers, over a bottleneck with a queue of many times a store of a MiB.
fn bulk_connections(net: &Net) -> Vec<[TcpStream; 2]> {
    let long = "tc qdisc replace dev r2 root tbf rate 20mbit burst 20kb limit 8mb";
    net.middle.run(&long.split(' ').collect::<Vec<_>>()).expect("tc");
    let mut all = Vec::new();
    for server in ["10.79.1.3", "10.79.1.4", "10.79.1.5"] {
        net.server.run(&["ip", "addr", "add", &format!("{server}/24"), "dev", "eth0"]).expect("iproute2");
        let listener = net.server.enter(|| Ok(TcpListener::bind((server, 7001))?)).expect("a free port");
        let connect = |_| {
            let client = net.client.enter(|| Ok(TcpStream::connect((server, 7001))?));
            let ends = [listener.accept().expect("the client").0, client.expect("a connection")];
            ends.iter().for_each(|end| end.set_nonblocking(true).expect("a socket"));
            ends
        };
        all.extend((0..4).map(connect));
    }
    all
}

/// Sends what the servers' sockets take, and receives what has come.
fn keep_sending(all: &[[TcpStream; 2]]) {
    let mut block = vec![7; 1 << 16];
    for [server, client] in all {
        while matches!((&*server).write(&block), Ok(1..)) {}
        while matches!((&*client).read(&mut block), Ok(1..)) {}
    }
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn planted_faults_fire_their_alerts_in_a_real_prometheus() {
    const NAME: &str = "planted_faults_fire_their_alerts_in_a_real_prometheus";
    if !is_root_or_skip(NAME) || !is_there_or_skip("prometheus", NAME) || !is_there_or_skip("nft", NAME) {
        return;
    }
    let net = Net::create("cubic");
    net.bottleneck();
    let folder = tempfile::tempdir().expect("a folder");
    // of which one is fast in spite of losses, and the other fills queues
    let rules = "[[rule]]\nname = \"fast\"\nmatch = { iface = \"r1\", server = \"10.79.1.2\" }\nalgorithm = \"bbr\"\n\
                 [[rule]]\nname = \"bulk\"\nmatch = { iface = \"r1\" }\nalgorithm = \"cubic\"\n";
    let file = put(folder.path(), rules);
    let own = ["agent", "--metrics", "127.0.0.1:0", "--policy", file.to_str().expect("UTF-8")];
    let mut agent = Process::start(&mut net.windlass(&[&own[..], &["--store-mib", "1"]].concat()));
    let at = address(&agent);
    until("it is ready", || get(&net, &at, "/readyz").0.starts_with("HTTP/1.1 200"));
    let prometheus = Prometheus::start(&net, &at, &hasty_rules(folder.path()), "native-histograms");
    let fires = |alert: &str, meanwhile: &dyn Fn()| {
        until(&format!("{alert} fires"), || {
            meanwhile();
            prometheus.fires(alert)
        });
        eprintln!("{alert} fires");
    };
    let planted = ["WindlassLossBurst", "WindlassStoreFull", "WindlassClockStopped", "WindlassAgentGone"];
    until("a sound clock", || prometheus.has_data("windlass_clock_running == 1"));
    until("none fires", || !planted.iter().any(|alert| prometheus.fires(alert)));

    with_transfer(&net, |progress| {
        progress();
        assert!(!prometheus.fires("WindlassLossBurst"), "nothing is planted yet");
        // behind the box: one packet of six
        let lossy = "table inet loss { chain forward { type filter hook forward priority 0; \
                     oifname r2 numgen random mod 6 == 0 drop; }; }";
        net.middle.run(&["nft", lossy]).expect("nft");
        fires("WindlassLossBurst", progress);
        net.middle.run(&["nft", "delete table inet loss"]).expect("nft");
    });
    until("a native histogram of its round trips", || {
        prometheus.has_data("histogram_count(windlass_rtt_seconds) > 100")
            && prometheus.has_data("histogram_quantile(0.5, windlass_rtt_seconds) < 1")
    });
    assert!(!prometheus.fires("WindlassStoreFull"), "nothing is planted yet");
    let bulk = bulk_connections(&net);
    fires("WindlassStoreFull", &|| keep_sending(&bulk));
    drop(bulk);
    assert!(!prometheus.fires("WindlassClockStopped"), "nothing is planted yet");
    // the agent makes another one each time
    fires("WindlassClockStopped", &|| {
        let shaped = net.clocks().into_iter().find(|name| name.ends_with('a'));
        shaped.into_iter().for_each(|name| drop(net.middle.run(&["ip", "link", "del", &name])));
    });
    assert!(!prometheus.fires("WindlassAgentGone"), "nothing is planted yet");
    agent.end(libc::SIGKILL);
    fires("WindlassAgentGone", &|| ());
    release(&net, agent);
}
