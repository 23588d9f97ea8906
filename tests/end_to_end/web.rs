//! `windlass web`: what it shows of an agent, and what hostile clients of it, and of the agent's metrics, come to.

use crate::{
    control::{policy, release},
    metrics::{address, get},
    net::{Net, with_transfer},
};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde_json::Value;
use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    process::Command,
    time::Duration,
};
use tempfile::TempDir;
use windlass_agent::raise_limits;
use windlass_tests::{
    is_root_or_skip,
    process::{LIMIT, Process, until},
    windlass,
};

/// Starts it; returns where it serves its pages.
fn web(net: &Net) -> (Process, String) {
    let web = Process::start(&mut net.windlass(&["web", "--listen", "127.0.0.1:0"]));
    let line = web.says("pages at http://");
    let address = line.split('/').nth(2).expect("an address").to_string();
    (web, address)
}

/// A document, and the status line before it.
fn document(net: &Net, address: &str, path: &str) -> (String, Value) {
    let (head, body) = get(net, address, &format!("/api/v1/{path}"));
    (head, serde_json::from_str(&body).unwrap_or_else(|why| panic!("{path}: {why}: {body}")))
}

fn is_ok(net: &Net, address: &str, path: &str) -> bool {
    get(net, address, path).0.starts_with("HTTP/1.1 200")
}

/// A field of a process' status.
fn status(process: &Process, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{}/status", process.id())).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
    line.trim_start_matches(':').trim().to_string()
}

/// Which ledgers the datapath keeps; 0: none.
fn kept(net: &Net) -> u32 {
    let map = MapHandle::from_pinned_path(net.pins().join("wl_ledgers_kept")).expect("a map");
    let bytes = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).expect("readable").expect("there");
    u32::from_ne_bytes(bytes.try_into().expect("a number"))
}

/// The next overview of the event stream of which this is true.
fn event(net: &Net, address: &str, is_it: impl Fn(&Value) -> bool) {
    event_of(net.middle.enter(|| Ok(ask(address, "/api/v1/events")?)).expect("a connection"), is_it);
}

/// A request to this address.
fn ask(address: &str, path: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    Ok(stream)
}

fn event_of(stream: TcpStream, is_it: impl Fn(&Value) -> bool) {
    let mut lines = BufReader::new(stream).lines();
    let mut data = lines.by_ref().map(|line| line.expect("events go on"));
    let mut next =
        || data.find_map(|line| line.strip_prefix("data: ").map(String::from)).expect("events go on");
    until("such an event", || is_it(&serde_json::from_str(&next()).expect("JSON")));
}

#[test]
fn web_shows_an_agents_flows_without_capabilities_and_what_it_asked_for_ends_with_it() {
    if !is_root_or_skip("web_shows_an_agents_flows_without_capabilities_and_what_it_asked_for_ends_with_it") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "cubic");
    let (web, at) = web(&net);
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status(&web, set), "0000000000000000", "{set}");
    }
    assert_eq!((status(&web, "NoNewPrivs"), status(&web, "Seccomp")), ("1".into(), "2".into()));
    assert_eq!(status(&web, "THP_enabled"), "0", "what waits takes no pages of 2 MiB");
    let (head, page) = get(&net, &at, "/");
    assert!(head.contains("default-src 'none'") && page.contains("app.js"), "{head}");
    assert!(!page.contains("//"), "nothing is fetched from elsewhere");
    assert!(is_ok(&net, &at, "/healthz") && !is_ok(&net, &at, "/readyz"));
    let (head, none) = document(&net, &at, "overview");
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert!(none["why"].as_str().is_some_and(|why| why.starts_with("no agent runs")), "{none}");

    let mut agent = net.agent(&file, "under control");
    until("it shows the agent", || is_ok(&net, &at, "/readyz"));
    let ends = net.idle_connections(3);
    let client = ends[1][1].local_addr().expect("it is connected");
    until("all of them are there", || {
        document(&net, &at, "flows?filter=state+controlled+and+rule+all").1["matching"] == 3
    });
    event(&net, &at, |look| look["flows"] == 3 && look["totals"][0]["rule_name"] == "all");
    let (_, page) = document(&net, &at, "flows?sort=receiver&reverse=1&offset=2&limit=5");
    assert_eq!((&page["matching"], page["rows"].as_array().map(Vec::len)), (&3.into(), Some(1)));
    let (_, page) = document(&net, &at, &format!("flows?filter=dport+{}", client.port()));
    assert_eq!(page["rows"][0]["receiver"], client.to_string());
    let (head, why) = document(&net, &at, "flows?filter=state+open");
    assert!(
        head.starts_with("HTTP/1.1 400") && why["why"].to_string().contains("known: controlled"),
        "{why}"
    );

    assert_eq!(kept(&net), 0);
    let of_flow = |receiver| format!("flow?iface=r1&sender=10.79.1.2:7000&receiver={receiver}");
    let (_, flow) = document(&net, &at, &of_flow(client));
    assert_eq!((&flow["word"], &flow["flow"]["rule_name"]), (&"controlled".into(), &"all".into()));
    assert!(flow["why"]["words"].is_string() && flow["why"]["decisions"].is_array(), "{flow}");
    assert_ne!(kept(&net), 0, "its ledger is kept while it is followed");
    let (head, _) = document(&net, &at, &of_flow(([10, 79, 2, 2], 1).into()));
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    let counted = document(&net, &at, "counters").1["datapaths"][0]["counters"].clone();
    let created = counted.as_array().expect("counters").iter().find(|c| c["name"] == "flows_created");
    assert_eq!(created.map(|c| c["count"].clone()), Some(3.into()));
    let groups = document(&net, &at, "groups").1;
    assert_eq!(groups["shares"][0]["accounts"][0]["server"], "10.79.1.2");

    agent.end(libc::SIGTERM);
    assert_eq!(kept(&net), 0, "nothing is followed any more");
    until("it shows that there is no agent", || !is_ok(&net, &at, "/readyz"));
    agent = net.agent(&file, "taken over");
    until("it shows the next one", || is_ok(&net, &at, "/readyz"));
    // leaves its socket, which another's start removes
    agent.end(libc::SIGKILL);
    until("it shows that there is no agent", || !is_ok(&net, &at, "/readyz"));
    agent = net.agent(&file, "taken over");
    until("it shows the next one", || is_ok(&net, &at, "/readyz"));
    let of_here = format!("readers-{}-", net.namespace());
    let sockets = || {
        let all = fs::read_dir("/run/windlass").expect("a folder").flatten();
        all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&of_here)).count()
    };
    assert_eq!(sockets(), 1);
    drop(ends);
    release(&net, agent);
    assert_eq!(sockets(), 0);
}

const CONNECTIONS: usize = 10_000;
/// What a server may take more than before, in KiB, whatever its clients do.
const MORE_MOST_KIB: u64 = 16 << 10;

/// Memory of a process that is its own, in KiB.
fn own_kib(process: &Process) -> u64 {
    status(process, "RssAnon").trim_end_matches(" kB").parse().expect("a number")
}

/// What a client sends before it waits for an answer or goes.
fn hostile_requests(address: &str) -> Vec<Vec<u8>> {
    let with =
        |lines: &str| format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n{lines}\r\n\r\n").into_bytes();
    vec![
        format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 20)).into_bytes(),
        with(&"X: y\r\n".repeat(10_000)),
        with(&format!("X: {}", "y".repeat(1 << 20))),
        format!("POST / HTTP/1.1\r\nHost: {address}\r\nContent-Length: 99999999999\r\n\r\n").into_bytes(),
        format!(
            "POST / HTTP/1.1\r\nHost: {address}\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"
        )
        .into_bytes(),
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"GET /api/v1/flows?filter=%ff%00&limit=999999999999999999999 HTTP/1.1\r\nHost: localhost\r\n\r\n"
            .to_vec(),
        b"GET /healthz HTTP/1.1\r\nHost: example.net\r\n\r\n".to_vec(),
        b"GET http://example.net/ HTTP/1.1\r\n\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        vec![0; 1 << 20],
        vec![0xff; 1 << 20],
        b"\x16\x03\x01\x02\x00\x01\x00".to_vec(),
    ]
}

/// Hostile clients of one server; `progress` shows that other traffic goes on.
fn attack(net: &Net, process: &Process, address: &str, progress: &dyn Fn()) {
    assert!(is_ok(net, address, "/healthz"));
    let before_kib = own_kib(process);
    let connect = || {
        let stream = TcpStream::connect(address).expect("it listens");
        stream
            .set_read_timeout(Some(LIMIT))
            .and_then(|()| stream.set_write_timeout(Some(LIMIT)))
            .expect("a socket");
        stream
    };
    let within = |what: &str| {
        let more_kib = own_kib(process).saturating_sub(before_kib);
        eprintln!("{address}: {more_kib} KiB more than {before_kib} after {what}");
        assert!(more_kib <= MORE_MOST_KIB, "{what}: {more_kib} KiB more than {before_kib}");
        progress();
    };
    net.middle
        .enter(|| {
            for request in hostile_requests(address) {
                let mut stream = connect();
                // it may have been refused, and closed, before all is sent
                let _ = stream.write_all(&request);
                let _ = stream.shutdown(Shutdown::Write);
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer);
                let answer = String::from_utf8_lossy(&answer);
                assert!(
                    !answer.contains(" 200 "),
                    "{}: {answer}",
                    String::from_utf8_lossy(&request[..20.min(request.len())])
                );
            }
            within("what is no request");
            // each has sent the beginning of one
            let slow: Vec<TcpStream> = (0..CONNECTIONS)
                .map(|_| {
                    let mut stream = connect();
                    let _ = stream.write_all(b"GET /");
                    stream
                })
                .collect();
            within("10,000 connections");
            drop(slow);
            // which ask for all that there is, and read nothing
            let deaf: Vec<TcpStream> = (0..200)
                .map(|n| {
                    let mut stream = connect();
                    let path = ["/api/v1/events", "/metrics", "/uplot/uPlot.iife.min.js"][n % 3];
                    let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
                    stream
                })
                .collect();
            within("clients that read nothing");
            drop(deaf);
            Ok(())
        })
        .expect("the box's namespace");
    until("it answers again", || {
        net.middle
            .enter(|| {
                let mut stream = connect();
                stream.set_read_timeout(Some(Duration::from_secs(1)))?;
                let _ = write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n");
                let mut answer = String::new();
                let _ = stream.read_to_string(&mut answer);
                Ok(answer.contains(" 200 "))
            })
            .expect("the box's namespace")
    });
}

#[test]
fn hostile_clients_of_metrics_and_web_take_bounded_memory_and_no_traffic() {
    if !is_root_or_skip("hostile_clients_of_metrics_and_web_take_bounded_memory_and_no_traffic") {
        return;
    }
    // of this process, for its ends of the connections
    raise_limits();
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "cubic");
    let own = ["agent", "--metrics", "127.0.0.1:0", "--policy", file.to_str().expect("UTF-8")];
    let agent = Process::start(&mut net.windlass(&own));
    let metrics = address(&agent);
    agent.says("under control");
    let (web, pages) = web(&net);
    with_transfer(&net, |progress| {
        until("it has a view of the transfer", || document(&net, &pages, "overview").1["flows"] == 1);
        attack(&net, &web, &pages, progress);
        attack(&net, &agent, &metrics, progress);
        let own_kib = own_kib(&web);
        eprintln!(
            "web: {own_kib} KiB of its own, {} in all with the pages of the program",
            status(&web, "VmRSS")
        );
        assert!(own_kib <= 20 << 10);
    });
    release(&net, agent);
}

/// Two links, and two megabytes.
const SCENARIO: &str = r#"
name = "shown"
[windlass]
at = "box"
facing = "server"
algorithm = "bbr"
[[host]]
name = "server"
[[host]]
name = "box"
[[host]]
name = "client"
[[link]]
between = ["server", "box"]
[[link]]
between = ["box", "client"]
rate = "10 Mbit/s"
delay = "10 ms"
[[flow]]
from = "server"
to = "client"
size = "2 MB"
"#;

#[test]
fn a_run_that_is_shown_begins_with_its_viewer_and_the_pages_name_it_as_a_demo() {
    if !is_root_or_skip("a_run_that_is_shown_begins_with_its_viewer_and_the_pages_name_it_as_a_demo") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shown.toml");
    fs::write(&file, SCENARIO).expect("a writable folder");
    let mut command = windlass();
    command.arg("run").arg(&file).args(["--web", "127.0.0.1:0", "--json"]);
    let mut run = Process::start(&mut command);
    let line = run.complains_of("pages at http://");
    let address = line.split('/').nth(2).expect("an address");
    let mut page = String::new();
    ask(address, "/").expect("it listens").read_to_string(&mut page).expect("an answer");
    assert!(page.contains("Demo: scenario shown, real Linux kernels"), "{page}");
    let has_flow = |overview: &Value| {
        overview["states"]["controlled"] == 1 && overview["totals"][0]["rule_name"] == "all"
    };
    event_of(ask(address, "/api/v1/events").expect("it listens"), has_flow);
    let report: Value = serde_json::from_str(&run.says("\"flows\"")).expect("a report");
    assert_eq!((&report["flows"][0]["checksum_ok"], &report["box_error"]), (&true.into(), &Value::Null));
    assert!(report["windlass"]["clock_ticks"].as_u64() > Some(0), "{report}");
    assert!(run.wait().success());
    assert!(TcpStream::connect(address).is_err(), "the pages end with the run");
}

/// That scenario, or the same without a box; and an event of a run of it, which begins with that.
struct Simulated {
    folder: TempDir,
    run: Process,
    address: String,
}

impl Simulated {
    fn start(has_box: bool, size: &str, speed: &str) -> Simulated {
        let folder = tempfile::tempdir().expect("a folder");
        let mut text = SCENARIO.replace("2 MB", size);
        if !has_box {
            text = text.replace("[windlass]\nat = \"box\"\nfacing = \"server\"\nalgorithm = \"bbr\"\n", "");
        }
        fs::write(folder.path().join("shown.toml"), text).expect("a writable folder");
        let more = ["--web", "127.0.0.1:0", "--speed", speed];
        let run = Process::start(Simulated::command(&folder).args(more));
        let line = run.complains_of("pages at http://");
        let address = line.split('/').nth(2).expect("an address").into();
        Simulated { folder, run, address }
    }

    fn command(folder: &TempDir) -> Command {
        let mut command = windlass();
        command.arg("run").arg(folder.path().join("shown.toml")).args(["--on", "sim", "--json"]);
        command
    }

    /// Waits for such an event.
    fn event(&self, is_it: impl Fn(&Value) -> bool) {
        event_of(ask(&self.address, "/api/v1/events").expect("it listens"), is_it);
    }

    fn answer(&self, path: &str) -> String {
        let mut answer = String::new();
        ask(&self.address, path).expect("it listens").read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// Status line and document below /api/v1/.
    fn document(&self, path: &str) -> (String, Value) {
        let answer = self.answer(&format!("/api/v1/{path}"));
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.lines().next().unwrap_or_default().into(), serde_json::from_str(body).expect("JSON"))
    }
}

// these need neither root nor a namespace

#[test]
fn a_simulated_run_is_shown_as_it_goes() {
    for has_box in [true, false] {
        let mut shown = Simulated::start(has_box, "12 MB", "0.3");
        let page = shown.answer("/");
        assert!(page.contains("Demo: scenario shown, simulated, 0.3 times as fast as real time."), "{page}");
        let (word, rule) = if has_box { ("controlled", "all") } else { ("off", "(no box)") };
        // the link's rate, by virtual time
        shown.event(|look| {
            let total = &look["totals"][0];
            look["states"][word] == 1
                && total["rule_name"] == rule
                && total["rate_bps"].as_u64().is_some_and(|bps| (8_000_000..11_000_000).contains(&bps))
        });
        let row = shown.document("flows?limit=1").1["rows"][0].clone();
        assert_eq!((&row["iface"], &row["word"]), (&"server".into(), &word.into()));
        let sender = row["sender"].as_str().expect("an address");
        let flow = |receiver: &str| {
            shown.document(&format!("flow?iface=server&sender={sender}&receiver={receiver}"))
        };
        let (_, followed) = flow(row["receiver"].as_str().expect("an address"));
        assert_eq!(followed["between"], serde_json::json!(["server", "client"]));
        assert!(followed["flow"]["cwnd_bytes"].as_u64() > Some(0), "{followed}");
        assert!(followed["flow"]["srtt_us"].as_u64() >= Some(20_000), "{followed}");
        assert!(followed["queued_packets"].is_u64() && followed["why"].is_null(), "{followed}");
        assert!(followed["no_why"].as_str().is_some_and(|why| why.contains("--on lab")), "{followed}");
        assert!(flow("192.0.2.1:1").0.contains(" 404 "));
        // what a simulation has not
        let (head, counters) = shown.document("counters");
        match has_box {
            true => assert_eq!(counters["datapaths"][0]["counters"][0]["name"], "packets_from_sender"),
            false => assert!(head.contains(" 404 ") && counters["why"].to_string().contains("no counters")),
        }
        let (head, groups) = shown.document("groups");
        assert!(head.contains(" 404 ") && groups["why"].to_string().contains("its report"), "{groups}");
        shown.run.end(libc::SIGTERM);
        assert!(TcpStream::connect(&shown.address).is_err(), "the pages end with the run");
    }
}

#[test]
fn a_simulated_run_that_is_shown_is_the_one_that_is_not() {
    for has_box in [true, false] {
        let mut shown = Simulated::start(has_box, "2 MB", "1000");
        // it begins with a viewer
        let _viewer = ask(&shown.address, "/api/v1/events").expect("it listens");
        let report = shown.run.says("\"flows\"");
        assert!(shown.run.wait().success());
        let alone = Simulated::command(&shown.folder).output().expect("it runs");
        assert_eq!(report, String::from_utf8_lossy(&alone.stdout).trim_end());
    }
}
