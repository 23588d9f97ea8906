//! The native home: Windlass' algorithms as congestion control of the kernel's own sockets.

use crate::{
    flow,
    net::{Net, with_transfer},
    run_whole, scenario,
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};
use windlass_core::Algorithm;
use windlass_lab::{
    Cgroup, Client, Family, Server, Topology, files,
    netns::{self, Netns},
    tcp_counters,
};
use windlass_scenario::{Dist, Rate, Span};
use windlass_tests::{
    is_root_or_skip,
    process::{LIMIT, Process, until},
    windlass,
};

/// Algorithms registered under names of a test's own; names are the same in all namespaces.
pub struct Loaded {
    pub prefix: String,
    is_loaded: bool,
}

/// What names begin with that no other test has.
pub fn own_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let kind = char::from_digit(10 + number / 36, 16).expect("'a' to 'f': the testbed has others");
    windlass_lab::own_prefix(kind, number)
}

impl Loaded {
    pub fn new() -> Loaded {
        Self::under(own_prefix())
    }

    pub fn under(prefix: String) -> Loaded {
        let out = windlass().args(["native", "load", "--prefix", &prefix]).output().expect("windlass runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Loaded { prefix, is_loaded: true }
    }

    pub fn name(&self, algorithm: &str) -> String {
        format!("{}{algorithm}", self.prefix)
    }

    /// What [`native_list`] reports of one algorithm.
    fn number(&self, algorithm: &str, key: &str) -> u64 {
        let value = native_list();
        let all = value["native"].as_array().expect("a list");
        let mine = all.iter().find(|i| i["name"] == self.name(algorithm).as_str()).expect("it is registered");
        mine[key].as_u64().expect("a number")
    }

    pub fn unload(&mut self) {
        self.is_loaded = false;
        let out =
            windlass().args(["native", "unload", "--prefix", &self.prefix]).output().expect("windlass runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if self.is_loaded {
            let _ = windlass().args(["native", "unload", "--prefix", &self.prefix]).output();
        }
    }
}

/// What `windlass native list` prints, whatever other tests are just loading and unloading.
pub fn native_list() -> Value {
    let out = windlass().args(["native", "list", "--json"]).output().expect("windlass runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// Congestion control of the sockets that the server has to its clients.
pub fn in_use(server: &Netns) -> String {
    let out = server.run(&["ss", "-tinH", "state", "established"]).expect("iproute2");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Waits until no socket uses what is `ours`, which is unloaded: sockets go over to the kernel's own when they next
/// send or receive something. What a busy machine still has on its way does not show when that is.
pub fn gone_over(server: &Netns, ours: &str, own: &str) {
    let mut now = String::new();
    until("sockets go over to the kernel's algorithm", || {
        now = in_use(server);
        !now.contains(ours)
    });
    assert!(now.contains(own), "{now}");
}

pub fn registered() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("the kernel's list")
}

#[test]
fn every_algorithm_carries_a_lossy_transfer_natively() {
    if !is_root_or_skip("every_algorithm_carries_a_lossy_transfer_natively") {
        return;
    }
    let loaded = Loaded::new();
    let lossy = "rate = \"50 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"2 BDP\"\nloss = \"2 %\"";
    for name in Algorithm::all().map(|a| a.name()) {
        let report = run_whole(&scenario(name, lossy, &flow("1 MB", &loaded.name(name))));
        assert!(report.links[0].stats.drops_random > 0, "{name}: {report}");
        assert!(loaded.number(name, "started") >= 1, "{name} was used");
        assert_eq!(loaded.number(name, "handed_back"), 0, "{name}");
    }
}

#[test]
fn scenarios_name_the_algorithms_of_the_native_home() {
    if !is_root_or_skip("scenarios_name_the_algorithms_of_the_native_home") {
        return;
    }
    let link = "rate = \"50 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"2 BDP\"";
    run_whole(&scenario("named", link, &flow("500 kB", "wl_bbr")));
    let own = format!("{}bbr", windlass_lab::own_prefix('w', 0));
    assert!(registered().contains(&own), "{}", registered());
    // those with other parameters of the path are others
    let mut told = scenario("told", link, &flow("500 kB", "wl_trim"));
    told.parameters.bottleneck = Some(Rate(50e6));
    told.parameters.tunables = "trim.k_without_rate=3".parse().expect("a constant, which is none of the box");
    run_whole(&told);
    let own = format!("{}trim", windlass_lab::own_prefix('w', 1));
    assert!(registered().contains(&own), "{}", registered());
}

/// At 10 Mbit/s a millisecond of data is a segment, so that packets have two.
#[test]
fn packets_are_no_larger_than_the_pacing_rate_allows() {
    if !is_root_or_skip("packets_are_no_larger_than_the_pacing_rate_allows") {
        return;
    }
    let loaded = Loaded::new();
    let lossy = "rate = \"10 Mbit/s\"\ndelay = \"17.5 ms\"\nbuffer = \"1 BDP\"\nloss = \"1 %\"";
    let text = scenario("packets", lossy, &flow("10 MB", &loaded.name("bbr")));
    let topology = Topology::create(&text, 0, Family::V4).expect("a network");
    let device = topology.interface("server", "box").expect("a cable");
    let mut large = topology.host("server").command("tcpdump");
    large.args(["-i", &device, "-n", "-l", "--immediate-mode", "tcp and greater 8000"]);
    let mut large = Process::start(&mut large);
    large.complains_of("listening on");
    let server = Server::start(topology.host("server"), 64).expect("nginx");
    let file = files::file_of(10_000_000).expect("a file");
    let address = topology.address_of("server");
    let client =
        Client::start(topology.host("client"), &address, &file, Duration::from_secs(60)).expect("curl");
    client.finish(None).expect("a whole transfer");
    drop(server);
    large.end(libc::SIGKILL);
    assert_eq!(large.line(), None, "more than five segments");
    assert!(loaded.number("bbr", "started") >= 1, "BBR was used");
}

#[test]
fn receivers_echo_exactly_what_was_marked() {
    if !is_root_or_skip("receivers_echo_exactly_what_was_marked") {
        return;
    }
    let loaded = Loaded::new();
    let marking = "rate = \"50 Mbit/s\"\ndelay = \"2 ms\"\nbuffer = \"200 packets\"\necn = \"10 packets\"";
    let text = scenario("marks", marking, &flow("5 MB", &loaded.name("dctcp")));
    let topology = Topology::create(&text, 0, Family::V4).expect("a network");
    let server = Server::start(topology.host("server"), 64).expect("nginx");
    let file = files::file_of(5_000_000).expect("a file");
    let address = topology.address_of("server");
    let client =
        Client::start(topology.host("client"), &address, &file, Duration::from_secs(60)).expect("curl");
    client.finish(None).expect("a whole transfer");
    let told = tcp_counters(topology.host("server")).expect("the kernel's counters")["TCPDeliveredCE"];
    drop(server);
    let links = topology.finish().expect("statistics");
    let marks: u64 = links.iter().flat_map(|(_, stats)| stats).map(|s| s.marks).sum();
    // as RFC 3168 has it, every acknowledgement from a mark to the sender's answer would carry one
    assert!(marks >= 20 && told.abs_diff(marks) * 10 <= marks, "{marks} segments marked, {told} reported");
}

/// RFC 8257: the window swings with what is marked beyond the threshold, so that queues stay there, and nothing is lost.
#[test]
fn dctcp_keeps_the_queue_at_the_threshold() {
    if !is_root_or_skip("dctcp_keeps_the_queue_at_the_threshold") {
        return;
    }
    const THRESHOLD: f64 = 20.0;
    // as many packets as at 50 Mbit/s and 2 ms, but a host that waits for a processor for some milliseconds idles no link:
    // these queues last for 24 ms
    let marking = "rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nbuffer = \"200 packets\"\necn = \"20 packets\"";
    let loaded = Loaded::new();
    let mean_queue = |algorithm: &str| {
        let report = run_whole(&scenario(algorithm, marking, &flow("8 MB", algorithm)));
        let link = &report.links[0].stats;
        assert!(link.marks > 0 && link.drops_tail == 0, "{algorithm}: {report}");
        assert!(link.utilisation > 0.9, "{algorithm}: {} of the link is used", link.utilisation);
        link.mean_queue_packets
    };
    let ours = mean_queue(&loaded.name("dctcp"));
    assert!((0.5 * THRESHOLD..1.5 * THRESHOLD).contains(&ours), "{ours} packets");
    if registered().split_whitespace().any(|name| name == "dctcp") {
        let kernels = mean_queue("dctcp");
        assert!((ours - kernels).abs() < 0.25 * kernels, "{ours} packets, the kernel's own {kernels}");
    } else {
        println!(
            "skipped: dctcp_keeps_the_queue_at_the_threshold: against the kernel's own: it has no dctcp"
        );
    }
}

/// The kernel leaves it to algorithms like ours whether a window outlasts a pause, but it is the host's setting that counts.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn the_host_decides_whether_windows_outlast_a_pause() {
    if !is_root_or_skip("the_host_decides_whether_windows_outlast_a_pause") {
        return;
    }
    let loaded = Loaded::new();
    let link = "rate = \"100 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"2 BDP\"";
    for algorithm in ["reno", "cubic"] {
        let second_s = |restarts| {
            let mut text = scenario("pause", link, &flow("300 kB", &loaded.name(algorithm)));
            text.tcp.restart_after_idle = Some(restarts);
            text.flows[0].trains[0].count = Some(2);
            text.flows[0].trains[0].gap = Some(Dist::Constant(Span(2.0)));
            run_whole(&text).flows[0].responses[1].took_s
        };
        let (kept, anew) = (second_s(false), second_s(true));
        // one round trip after the other of slow start, or one
        assert!(anew > 2.0 * kept, "{algorithm}: {kept} s, {anew} s");
    }
}

/// What scripts read: which names there are, whether they are new, and what became of them.
#[test]
fn load_and_unload_answer_in_json() {
    if !is_root_or_skip("load_and_unload_answer_in_json") {
        return;
    }
    let mut loaded = Loaded::new();
    let ask = |command: &str| -> Value {
        let out = windlass().args(["native", command, "--json", "--prefix", &loaded.prefix]).output();
        serde_json::from_slice(&out.expect("windlass runs").stdout).expect("JSON")
    };
    let again = ask("load");
    assert_eq!(again["is_new"], false);
    let names = again["loaded"].as_array().expect("names");
    assert!(names.contains(&loaded.name("bbr").into()), "{again}");
    let gone = ask("unload");
    assert_eq!(gone["unloaded"].as_array().expect("a list").len(), names.len(), "{gone}");
    assert_eq!(gone["unloaded"][0]["sockets"], 0, "{gone}");
    assert_eq!(gone["released"], serde_json::json!([]));
    loaded.is_loaded = false;
    assert!(!registered().contains(&loaded.prefix));
}

#[test]
fn unloading_in_mid_transfer_hands_the_socket_back() {
    if !is_root_or_skip("unloading_in_mid_transfer_hands_the_socket_back") {
        return;
    }
    for algorithm in ["bbr", "cubic", "reno"] {
        let mut loaded = Loaded::new();
        let name = loaded.name(algorithm);
        let net = Net::create(&name);
        with_transfer(&net, |progress| {
            assert!(in_use(&net.server).contains(&name), "{}", in_use(&net.server));
            progress();
            loaded.unload();
            progress();
            gone_over(&net.server, &name, algorithm);
            progress();
        });
        assert!(!registered().contains(&name), "{}", registered());
    }
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_lossy_transfer_outlives_unloading() {
    if !is_root_or_skip("a_lossy_transfer_outlives_unloading") {
        return;
    }
    let lossy = "rate = \"4 Mbit/s\"\ndelay = \"10 ms\"\nbuffer = \"1 BDP\"\nloss = \"2 %\"";
    // ten seconds, of a slow link: on a busy machine it takes some to see that the algorithm is in use and to unload it
    for (algorithm, size) in [("bbr", "5 MB"), ("cubic", "5 MB")] {
        let mut loaded = Loaded::new();
        let run = scenario(algorithm, lossy, &flow(size, &loaded.name(algorithm)));
        thread::scope(|scope| {
            // nginx, curl and SHA-256, as everywhere
            let transfer = scope.spawn(|| run_whole(&run));
            until(algorithm, || {
                assert!(!transfer.is_finished(), "{algorithm} was never used");
                loaded.number(algorithm, "sockets") > 0
            });
            loaded.unload();
            assert!(!transfer.is_finished(), "{algorithm} was unloaded in mid-transfer");
            assert!(transfer.join().expect("it completes").is_complete());
        });
    }
}

#[test]
fn a_default_that_is_unloaded_means_the_kernels_own() {
    if !is_root_or_skip("a_default_that_is_unloaded_means_the_kernels_own") {
        return;
    }
    let mut loaded = Loaded::new();
    let name = loaded.name("cubic");
    let net = Net::create("cubic");
    net.server.run(&["ip", "route", "replace", "default", "via", "10.79.1.1"]).expect("iproute2");
    let default = format!("net.ipv4.tcp_congestion_control={name}");
    net.server.run(&["sysctl", "-qw", &default]).expect("any namespace may choose it");
    with_transfer(&net, |_| assert!(in_use(&net.server).contains(&name), "{}", in_use(&net.server)));
    loaded.unload();
    with_transfer(&net, |_| {
        let now = in_use(&net.server);
        assert!(!now.contains(&name) && now.contains("cubic"), "{now}");
    });
}

/// A cgroup of its own; none, and reported so, if the machine has none of version 2.
pub fn cgroup_or_skip(test: &str) -> Option<Cgroup> {
    if windlass_agent::root_cgroup().is_err() {
        println!("skipped: {test}: no cgroup v2");
        return None;
    }
    Some(Cgroup::create(netns::next_run(), "sockets").expect("a cgroup"))
}

/// An nginx on the server, in a cgroup if one is given.
pub fn nginx(net: &Net, folder: &Path, cgroup: Option<&Cgroup>, ports: &[u16]) -> Process {
    let folder = folder.join(ports[0].to_string());
    fs::create_dir(&folder).expect("a writable folder");
    let listen: String = ports.iter().map(|p| format!("listen {p};")).collect();
    let at = folder.display();
    let conf = format!(
        "daemon off; worker_processes 1; pid {at}/pid; error_log {at}/log;\nevents {{ }}\n\
         http {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f;\n\
         uwsgi_temp_path {at}/u; scgi_temp_path {at}/s; server {{ {listen} return 200 \"fetched\"; }} }}\n"
    );
    let file = folder.join("conf");
    fs::write(&file, conf).expect("a writable folder");
    let join = if cgroup.is_some() { "echo $$ > \"$2\"/cgroup.procs && " } else { "" };
    let mut command: Command = net.server.command("sh");
    command.arg("-c").arg(format!("{join}exec nginx -c \"$0\" -p \"$1\"")).arg(&file).arg(&folder);
    Process::start(command.arg(cgroup.map_or(Path::new(""), Cgroup::path)))
}

/// Fetches from the server's port, once it listens.
pub fn fetch(net: &Net, port: u16) {
    let url = format!("http://10.79.1.2:{port}/");
    until(&url, || {
        let most = LIMIT.as_secs().to_string();
        let curl = ["-sS", "--max-time", &most, &url];
        let out = net.client.command("curl").args(curl).output().expect("curl");
        let is_there = out.status.success();
        assert!(!is_there || out.stdout == b"fetched", "{}", String::from_utf8_lossy(&out.stdout));
        is_there
    });
}

fn write_policy(folder: &Path, cgroup: &Cgroup, of_8001: &str) -> PathBuf {
    let rule = |name: &str, matches: &str, algorithm: &str| {
        format!(
            "[[rule]]\nname = \"{name}\"\nmode = \"native\"\nalgorithm = \"{algorithm}\"\n\
             match = {{ cgroup = \"{}\", {matches} }}\n",
            cgroup.path().display()
        )
    };
    let text = rule("port", "server_port = [8001, 8004]", of_8001)
        + &rule("elsewhere", "client = \"10.9.9.0/24\"", "reno")
        + &rule("client", "client = \"10.79.2.0/24\", server_port = [8002]", "cubic");
    let (draft, file) = (folder.join("draft.toml"), folder.join("policy.toml"));
    fs::write(&draft, text).expect("a writable folder");
    fs::rename(&draft, &file).expect("the same folder");
    file
}

/// An agent with these algorithms that has its cgroup under control.
fn controlling(policy: &Path, loaded: &Loaded) -> Process {
    let words = ["agent", "--policy", policy.to_str().expect("UTF-8"), "--prefix", &loaded.prefix];
    let agent = Process::start(windlass().args(words));
    agent.says("under control");
    agent
}

#[test]
fn a_policy_chooses_for_the_sockets_of_a_cgroup() {
    if !is_root_or_skip("a_policy_chooses_for_the_sockets_of_a_cgroup") {
        return;
    }
    let Some(cgroup) = cgroup_or_skip("a_policy_chooses_for_the_sockets_of_a_cgroup") else {
        return;
    };
    let loaded = Loaded::new();
    let used = |names: [&str; 3]| names.map(|n| loaded.number(n, "started"));
    let names = ["bbr", "cubic", "reno"];
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_policy(folder.path(), &cgroup, "bbr");
    let _inside = nginx(&net, folder.path(), Some(&cgroup), &[8001, 8002, 8003]);
    let _outside = nginx(&net, folder.path(), None, &[8004]);
    let mut agent = controlling(&file, &loaded);

    [8001, 8002, 8003, 8004].into_iter().for_each(|port| fetch(&net, port));
    assert_eq!(used(names), [1, 1, 0], "by port, by client, by neither, outside the cgroup");
    write_policy(folder.path(), &cgroup, "reno");
    agent.says("in force");
    fetch(&net, 8001);
    assert_eq!(used(names), [1, 1, 1], "another algorithm for new sockets");
    agent.end(libc::SIGKILL);
    fetch(&net, 8002);
    assert_eq!(used(names), [1, 2, 1], "what the agent set up outlives it");
    let out =
        windlass().args(["detach", "--json", "--cgroup"]).arg(cgroup.path()).output().expect("windlass runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let document: Value = serde_json::from_slice(&out.stdout).expect("one document");
    assert_eq!(document, json!({ "released": [cgroup.path()] }));
    fetch(&net, 8002);
    assert_eq!(used(names), [1, 2, 1], "released");
}

/// Two that choose for the same sockets would take turns, and one cgroup that cannot be controlled is no reason not
/// to control another.
#[test]
fn a_cgroup_has_one_process_that_chooses_for_it() {
    let test = "a_cgroup_has_one_process_that_chooses_for_it";
    if !is_root_or_skip(test) {
        return;
    }
    let Some(cgroup) = cgroup_or_skip(test) else { return };
    let loaded = Loaded::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_policy(folder.path(), &cgroup, "bbr");
    let no_cgroup =
        "[[rule]]\nname = \"none\"\nmode = \"native\"\nalgorithm = \"bbr\"\nmatch.cgroup = \"/etc\"\n";
    let rules = no_cgroup.to_string() + &fs::read_to_string(&file).expect("a policy");
    fs::write(&file, rules).expect("a writable folder");
    let agent = || {
        let mut command = windlass();
        command.args(["agent", "--policy", file.to_str().expect("UTF-8"), "--prefix", &loaded.prefix]);
        command
    };
    let attach = || {
        let mut command = windlass();
        command.args(["attach", "--native", "--alg", "bbr", "--prefix", &loaded.prefix, "--cgroup"]);
        command.arg(cgroup.path());
        command
    };
    let is_refused = |command: &mut Command, why: &str| {
        let out = command.output().expect("windlass runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && said.contains(why), "{said}");
    };
    let has_begun = |command: &mut Command| {
        let process = Process::start(command);
        process.says(cgroup.path().to_str().expect("UTF-8"));
        process
    };
    let mut first = has_begun(&mut agent());
    let complaint = first.complaint();
    assert!(
        complaint.contains("/etc is not under control") && complaint.contains("cgroup v2"),
        "{complaint}"
    );
    is_refused(&mut agent(), &format!("another agent (process {})", first.id()));
    is_refused(&mut attach(), "under an agent's control");
    first.end(libc::SIGKILL);
    is_refused(&mut attach(), "under an agent's control");
    let out = windlass().args(["detach", "--cgroup"]).arg(cgroup.path()).output().expect("windlass runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let mut attached = has_begun(&mut attach());
    is_refused(&mut agent(), "by a `windlass attach --native`");
    is_refused(&mut attach(), "by a `windlass attach --native`");
    attached.end(libc::SIGKILL);
    drop(has_begun(&mut agent()));
}

/// Algorithms of another build under the names that a policy wants are one thing, interfaces are another.
#[test]
fn an_agent_controls_interfaces_though_it_cannot_have_its_algorithms() {
    let test = "an_agent_controls_interfaces_though_it_cannot_have_its_algorithms";
    if !is_root_or_skip(test) {
        return;
    }
    let Some(cgroup) = cgroup_or_skip(test) else { return };
    let loaded = Loaded::new();
    fs::write(format!("/run/windlass/native-{}", loaded.prefix), "1").expect("the record of who pinned them");
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_policy(folder.path(), &cgroup, "bbr");
    let rules = fs::read_to_string(&file).expect("a policy")
        + "[[rule]]\nname = \"all\"\nmatch = { iface = \"r1\" }\nalgorithm = \"bbr\"\n";
    fs::write(&file, rules).expect("a writable folder");
    let path = file.to_str().expect("UTF-8");
    let words = ["agent", "--detach-on-exit", "--policy", path, "--prefix", &loaded.prefix];
    let mut agent = Process::start(&mut net.windlass(&words));
    let complaint = agent.complaint();
    assert!(complaint.contains("another version"), "{complaint}");
    assert_eq!(net.clocks().len(), 2, "under control");
    assert!(agent.end(libc::SIGTERM).success(), "it went on until told to end");
}

/// An interrupt comes before it has taken over anything of what the agent before it left, which was killed.
#[test]
fn an_agent_that_lets_go_releases_what_it_had_not_taken_over_yet() {
    let test = "an_agent_that_lets_go_releases_what_it_had_not_taken_over_yet";
    if !is_root_or_skip(test) {
        return;
    }
    let Some(cgroup) = cgroup_or_skip(test) else { return };
    let loaded = Loaded::new();
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_policy(folder.path(), &cgroup, "bbr");
    let rules = fs::read_to_string(&file).expect("a policy")
        + "[[rule]]\nname = \"all\"\nmatch = { iface = \"r[12]\" }\nalgorithm = \"bbr\"\n";
    fs::write(&file, rules).expect("a writable folder");
    let path = file.to_str().expect("UTF-8");
    let words = ["agent", "--detach-on-exit", "--policy", path, "--prefix", &loaded.prefix];
    let mut first = Process::start(&mut net.windlass(&words));
    first.says(cgroup.path().to_str().expect("UTF-8"));
    first.end(libc::SIGKILL);
    assert!(net.pins().exists() && net.pins_of("r2").exists());
    // which any process could have
    let lock = File::open("/run/windlass/attach.lock").expect("the lock");
    windlass_agent::flock(&lock, libc::LOCK_EX).expect("the lock is free");
    let mut next = Process::start(&mut net.windlass(&words));
    next.waits_for_attach_lock();
    next.signal(libc::SIGTERM);
    assert!(next.wait().success());
    drop(lock);
    assert!(!net.pins().exists() && !net.pins_of("r2").exists() && net.clocks().is_empty(), "released");
    let out = windlass().args(["detach", "--cgroup"]).arg(cgroup.path()).output().expect("windlass runs");
    assert!(!out.status.success(), "nothing is left: {}", String::from_utf8_lossy(&out.stdout));
}

/// What all sockets of a namespace have by default, or by their route, is no choice that a policy leaves alone.
#[test]
fn a_policy_chooses_where_the_default_is_ours() {
    let test = "a_policy_chooses_where_the_default_is_ours";
    if !is_root_or_skip(test) {
        return;
    }
    let Some(cgroup) = cgroup_or_skip(test) else { return };
    let loaded = Loaded::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_policy(folder.path(), &cgroup, "bbr");
    let _agent = controlling(&file, &loaded);
    let ours = loaded.name("reno");
    let (by_route, by_default) = (Net::create(&ours), Net::create("cubic"));
    let default = "default via 10.79.1.1".split(' ');
    let words: Vec<_> = ["ip", "route", "replace"].into_iter().chain(default).collect();
    by_default.server.run(&words).expect("iproute2");
    let sysctl = format!("net.ipv4.tcp_congestion_control={ours}");
    by_default.server.run(&["sysctl", "-qw", &sysctl]).expect("sysctl");
    for (at, net) in [by_route, by_default].iter().enumerate() {
        let folder = folder.path().join(at.to_string());
        fs::create_dir(&folder).expect("a folder");
        let _server = nginx(net, &folder, Some(&cgroup), &[8001, 8003]);
        [8001, 8003].into_iter().for_each(|port| fetch(net, port));
        let started = loaded.number("bbr", "started");
        assert_eq!(started, at as u64 + 1, "the policy's for one port, the default for the other");
    }
    assert!(loaded.number("reno", "started") > 0, "{ours} was the default");
}

#[test]
fn what_is_held_ends_with_its_pipe() {
    if !is_root_or_skip("what_is_held_ends_with_its_pipe") {
        return;
    }
    let prefix = own_prefix();
    let mut command = windlass();
    command.args(["native", "load", "--hold", "--prefix", &prefix]);
    let mut holder = Process::start_as_is(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    let name = format!("{prefix}bbr");
    let first = holder.line().expect("a line");
    assert!(first.contains(&name), "{first}");
    let net = Net::create(&name);
    with_transfer(&net, |progress| {
        assert!(in_use(&net.server).contains(&name), "{}", in_use(&net.server));
        holder.close_input();
        assert!(holder.wait().success());
        progress();
        gone_over(&net.server, &name, "bbr");
    });
    assert!(!registered().contains(&name), "{}", registered());
}

/// Whether its namespace, its own process or a policy chose: a socket for which there is no memory is not stuck with us.
#[test]
fn without_memory_for_its_state_a_socket_is_the_kernels() {
    let test = "without_memory_for_its_state_a_socket_is_the_kernels";
    if !is_root_or_skip(test) {
        return;
    }
    let Some(cgroup) = cgroup_or_skip(test) else { return };
    let loaded = Loaded::new();
    let net = Net::create("cubic");
    let scarce = net.server.run(&["sysctl", "-qw", "net.core.optmem_max=64"]);
    if scarce.is_err() {
        println!("skipped: {test}: this kernel has one optmem_max for all namespaces");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_policy(folder.path(), &cgroup, "bbr");
    let _agent = controlling(&file, &loaded);
    let _inside = nginx(&net, folder.path(), Some(&cgroup), &[8001]);
    fetch(&net, 8001);
    let of = |algorithm: &str| ["started", "handed_back"].map(|key| loaded.number(algorithm, key));
    assert_eq!(of("bbr"), [0, 1], "by policy");
    net.server.run(&["ip", "route", "replace", "default", "via", "10.79.1.1"]).expect("iproute2");
    let default = format!("net.ipv4.tcp_congestion_control={}", loaded.name("reno"));
    net.server.run(&["sysctl", "-qw", &default]).expect("any namespace may choose it");
    let _outside = nginx(&net, folder.path(), None, &[8004]);
    fetch(&net, 8004);
    assert_eq!(of("reno"), [0, 1], "by default");
}

/// Its SYN is acknowledged before the algorithm begins.
#[test]
fn a_socket_that_connects_keeps_its_algorithm() {
    if !is_root_or_skip("a_socket_that_connects_keeps_its_algorithm") {
        return;
    }
    let loaded = Loaded::new();
    let net = Net::create(&loaded.name("bbr"));
    let folder = tempfile::tempdir().expect("a folder");
    let _server = nginx(&net, folder.path(), None, &[8001]);
    fetch(&net, 8001);
    assert_eq!(["started", "handed_back"].map(|key| loaded.number("bbr", key)), [2, 0]);
}
