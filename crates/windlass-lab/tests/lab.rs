//! Runs of the testbed itself, without Windlass. As root, in namespaces of their own; skipped by name otherwise.

use std::{
    fs,
    num::NonZeroU64,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
use windlass_lab::{Cgroup, Emulator, Family, RunOptions, RunReport, Server, clean_leftovers, files, netns};
use windlass_scenario::{Bytes, Flow, Plan, Scenario, Span};

const VICTIM: &str = "WINDLASS_LAB_VICTIM";

/// Tests that look at all of this process' namespaces must not see those of another test.
static ALONE: Mutex<()> = Mutex::new(());

fn is_root_or_skip(test: &str) -> Option<MutexGuard<'static, ()>> {
    if !netns::is_root() {
        println!("skipped: {test}: needs root");
        return None;
    }
    Some(ALONE.lock().unwrap_or_else(|e| e.into_inner()))
}

fn scenario(algorithm: &str, size: &str) -> Scenario {
    let text = format!(
        r#"
name = "{algorithm}"
time_limit = "60 s"
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
rate = "20 Mbit/s"
delay = "20 ms"
buffer = "2 BDP"
[[flow]]
from = "server"
to = "client"
size = "{size}"
algorithm = "{algorithm}"
"#
    );
    Scenario::parse("test", &text).unwrap()
}

fn options() -> RunOptions<'static> {
    RunOptions::new("not needed here".into())
}

fn run(scenario: &Scenario, options: &RunOptions) -> RunReport {
    windlass_lab::run(scenario, options).unwrap_or_else(|e| panic!("{}: {e:#}", scenario.name))
}

/// Every byte arrived, the link never sent faster than it may, and the emulator lost nothing of its own.
fn check(report: &RunReport) {
    assert!(report.is_complete(), "{report}");
    // 1448 bytes of payload in each packet of 1514 bytes on the wire
    assert!(report.flows[0].goodput_bps < 20e6 * 1448.0 / 1514.0, "{report}");
    for link in &report.links {
        let s = &link.stats;
        assert_eq!((s.drops_device, s.drops_refused, s.drops_foreign), (0, 0, 0), "{s:?}");
        assert_eq!(s.drops_random, 0, "{s:?}");
    }
}

fn namespaces_of(pid: u32) -> Vec<String> {
    let prefix = format!("wl{pid}.");
    let Ok(entries) = fs::read_dir("/run/netns") else { return Vec::new() };
    entries
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|n| n.starts_with(&prefix))
        .collect()
}

/// How many processes of this name run on a host of process `pid`.
fn processes_on(host: &str, pid: u32, name: &str) -> usize {
    let end = format!("-{host}");
    let Some(namespace) = namespaces_of(pid).into_iter().find(|n| n.ends_with(&end)) else { return 0 };
    let out = Command::new("ip").args(["netns", "pids", &namespace]).output().unwrap();
    // one that has ended meanwhile has no name
    let name_of = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&out.stdout).lines().filter(|pid| name_of(pid).trim() == name).count()
}

#[test]
fn cubic_and_bbr_transfers_in_parallel_arrive_whole() {
    let Some(_alone) = is_root_or_skip("cubic_and_bbr_transfers_in_parallel_arrive_whole") else { return };
    thread::scope(|scope| {
        for algorithm in ["cubic", "bbr"] {
            scope.spawn(move || check(&run(&scenario(algorithm, "2 MB"), &options())));
        }
    });
    assert_eq!(namespaces_of(std::process::id()), Vec::<String>::new(), "nothing is left behind");
}

#[test]
fn ipv6_transfers_arrive_whole() {
    let Some(_alone) = is_root_or_skip("ipv6_transfers_arrive_whole") else { return };
    if !fs::exists("/proc/net/if_inet6").unwrap() {
        println!("skipped: ipv6_transfers_arrive_whole: needs IPv6");
        return;
    }
    check(&run(&scenario("cubic", "1 MB"), &RunOptions { family: Family::V6, ..options() }));
}

/// Two megabytes are 224 segments of 8948 bytes. The queue is counted in such packets, and the cable has the MTU, too.
#[test]
fn jumbo_frames_arrive_whole() {
    let Some(_alone) = is_root_or_skip("jumbo_frames_arrive_whole") else { return };
    let mut jumbo = scenario("cubic", "2 MB");
    jumbo.tcp.mtu = Some(Bytes(9000.0));
    let report = run(&jumbo, &options());
    assert!(report.is_complete(), "{report}");
    let stats = &report.links[0].stats;
    assert_eq!((stats.drops_device, stats.drops_refused, stats.drops_random), (0, 0, 0), "{stats:?}");
    let most = 224 + report.sender_retrans_segs + 40;
    assert!((224..most).contains(&stats.packets), "{stats:?}");
    assert!(stats.queue_max_bytes > 9014, "{stats:?}");
}

/// Where the kernel has no netem, it reports so; the tests in a virtual machine run it where there is one.
#[test]
fn netem_carries_a_transfer_or_is_reported_missing() {
    let Some(_alone) = is_root_or_skip("netem_carries_a_transfer_or_is_reported_missing") else { return };
    let options = RunOptions { emulator: Emulator::Netem, ..options() };
    match windlass_lab::run(&scenario("cubic", "1 MB"), &options) {
        Ok(report) => assert!(report.is_complete() && report.mean_rtt_ms.is_none(), "{report}"),
        Err(error) => {
            let said = format!("{error:#}");
            assert!(said.contains("modprobe sch_netem") && said.contains("--emulator"), "{said}");
        }
    }
    assert_eq!(namespaces_of(std::process::id()), Vec::<String>::new(), "nothing is left behind");
}

/// A transfer of a size, which curl would fetch, and an open-ended one that begins later.
#[test]
fn intervals_show_when_what_arrived_and_how_long_queues_were() {
    let Some(_alone) = is_root_or_skip("intervals_show_when_what_arrived_and_how_long_queues_were") else {
        return;
    };
    let mut two = scenario("cubic", "1 MB");
    let late = scenario("cubic", "unlimited").flows.remove(0);
    two.flows.push(Flow { start: Span(0.5), stop: Some(Span(1.5)), ..late });
    let report = run(&two, &RunOptions { interval_ns: NonZeroU64::new(100_000_000), ..options() });
    assert!(report.is_complete(), "{report}");
    let intervals = report.intervals.as_ref().expect("asked for");
    assert_eq!((intervals.every_s, intervals.flow_bytes.len()), (0.1, 2));
    for (flow, bytes) in report.flows.iter().zip(&intervals.flow_bytes) {
        assert_eq!(bytes.iter().sum::<u64>(), flow.bytes, "{bytes:?}");
    }
    let [first, second] = &intervals.flow_bytes[..] else { panic!("two flows") };
    assert_eq!(first.len(), second.len());
    assert!(second[..5].iter().all(|n| *n == 0), "{second:?}");
    assert!(first[..5].iter().sum::<u64>() > 0, "{first:?}");
    let [queue, ..] = &intervals.link_packets[..] else { panic!("no queues: {report}") };
    assert_eq!((intervals.link_packets.len(), queue.len()), (report.links.len(), first.len()));
    let longest = queue.iter().copied().max().map(u64::from);
    assert!(longest > Some(0) && longest <= Some(report.links[0].stats.queue_max_packets), "{queue:?}");
    assert!(run(&scenario("cubic", "100 kB"), &options()).intervals.is_none(), "not asked for");
}

/// Flows of several responses, on one connection and on one for each, and one that is stopped.
#[test]
fn responses_follow_each_other_as_planned() {
    let Some(_alone) = is_root_or_skip("responses_follow_each_other_as_planned") else { return };
    let text = r#"
name = "trains"
time_limit = "20 s"
[[host]]
name = "server"
[[host]]
name = "client"
[[link]]
between = ["server", "client"]
rate = "20 Mbit/s"
delay = "5 ms"
[[flow]]
from = "server"
to = "client"
[[flow.train]]
count = 20
size = { uniform = ["1 kB", "20 kB"] }
gap = { exponential = "5 ms" }
[[flow.train]]
start = "1 s"
count = 10
size = "2 kB"
interval = "2 ms"
[[flow]]
from = "server"
to = "client"
connections = "per-response"
[[flow.train]]
count = 10
size = { exponential = "5 kB" }
[[flow]]
from = "server"
to = "client"
size = "unlimited"
start = "1500 ms"
stop = "2500 ms"
"#;
    let scenario = Scenario::parse("t", text).unwrap();
    let report = run(&scenario, &options());
    for (index, flow) in scenario.flows.iter().enumerate().take(2) {
        let mut plan = Plan::new(scenario.seed, index);
        let planned: Vec<u64> = std::iter::from_fn(|| plan.next(flow)).filter_map(|p| p.size_bytes).collect();
        let got: Vec<u64> = report.flows[index].responses.iter().map(|r| r.bytes).collect();
        assert_eq!(got, planned, "{report}");
        assert!(report.flows[index].completion_s.is_some());
    }
    // a request and its response cross the link once each; with a connection for each there is a handshake before
    let quickest =
        |index: usize| report.flows[index].responses.iter().map(|r| r.took_s).fold(f64::MAX, f64::min);
    assert!(quickest(0) >= 0.01 && quickest(1) >= 0.02, "{report}");
    let asked = &report.flows[0].responses[20..];
    assert!(asked.windows(2).all(|w| (w[1].asked_s - w[0].asked_s - 0.002).abs() < 1e-6), "by the clock");
    let last = &report.flows[2];
    assert!(last.is_open_ended && last.bytes > 1_000_000 && last.goodput_bps < 20e6, "{report}");
    assert!(report.is_complete(), "{report}");
    assert_eq!(namespaces_of(std::process::id()), Vec::<String>::new());
}

/// Each page on three connections of its own, one after the other: a handshake and three objects in a row are four round trips.
#[test]
fn pages_are_loaded_on_several_connections() {
    let Some(_alone) = is_root_or_skip("pages_are_loaded_on_several_connections") else { return };
    let text = "name = \"pages\"\ntime_limit = \"20 s\"\n[[host]]\nname = \"server\"\n[[host]]\nname = \"client\"\n\
        [[link]]\nbetween = [\"server\", \"client\"]\nrate = \"50 Mbit/s\"\ndelay = \"10 ms\"\n[[flow]]\nfrom = \"server\"\n\
        to = \"client\"\n[[flow.train]]\ncount = 4\ngap = \"20 ms\"\n\
        size = { objects = 9, each = { uniform = [\"1 kB\", \"40 kB\"] }, connections = 3 }\n";
    let scenario = Scenario::parse("t", text).unwrap();
    let report = run(&scenario, &options());
    let mut plan = Plan::new(scenario.seed, 0);
    let planned = std::iter::from_fn(|| plan.next(&scenario.flows[0])).filter_map(|p| p.size_bytes);
    let flow = &report.flows[0];
    assert!(report.is_complete() && flow.completion_s.is_some(), "{report}");
    assert_eq!(flow.pages.iter().map(|page| page.bytes).collect::<Vec<_>>(), planned.collect::<Vec<_>>());
    assert!(flow.pages.iter().all(|page| page.objects == 9 && page.load_s >= 0.08), "{report}");
    let pauses = flow.pages.windows(2).map(|pair| pair[1].begun_s - pair[0].begun_s - pair[0].load_s);
    assert!(pauses.into_iter().all(|pause_s| pause_s >= 0.02 - 1e-6), "{report}");
    assert_eq!(flow.bytes, flow.pages.iter().map(|page| page.bytes).sum::<u64>());
    assert_eq!(namespaces_of(std::process::id()), Vec::<String>::new());
}

#[test]
fn a_stopped_run_ends_early_and_reports_it() {
    let Some(_alone) = is_root_or_skip("a_stopped_run_ends_early_and_reports_it") else { return };
    let cancel = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        // 100 MB would take 40 s
        let running = scope
            .spawn(|| run(&scenario("cubic", "100 MB"), &RunOptions { cancel: Some(&cancel), ..options() }));
        while processes_on("client", std::process::id(), "curl") == 0 && !running.is_finished() {
            thread::yield_now();
        }
        cancel.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert!(report.flows[0].error.as_ref().unwrap().contains("stopped"), "{report}");
    assert_eq!(namespaces_of(std::process::id()), Vec::<String>::new());
}

#[test]
fn a_run_that_is_stopped_while_its_network_is_made_reports_it() {
    let test = "a_run_that_is_stopped_while_its_network_is_made_reports_it";
    let Some(_alone) = is_root_or_skip(test) else { return };
    let cancel = AtomicBool::new(true);
    let error =
        windlass_lab::run(&scenario("cubic", "1 MB"), &RunOptions { cancel: Some(&cancel), ..options() });
    assert_eq!(format!("{:#}", error.expect_err("a run that was stopped")), "stopped");
    assert_eq!(namespaces_of(std::process::id()), Vec::<String>::new());
}

#[test]
fn a_server_that_cannot_join_its_cgroup_does_not_run() {
    let Some(_alone) = is_root_or_skip("a_server_that_cannot_join_its_cgroup_does_not_run") else { return };
    let run = netns::next_run();
    let host = netns::Netns::create(run, "server").unwrap();
    let cgroup = Cgroup::create(run, "server").unwrap();
    fs::remove_dir(cgroup.path()).unwrap();
    let error = Server::start_in(&host, 1, Some(&cgroup)).expect_err("no cgroup to join").to_string();
    assert!(error.contains("cgroup.procs"), "{error}");
}

/// Whose handshake never gets through.
fn unreachable() -> Scenario {
    let text = "name = \"unreachable\"\ntime_limit = \"60 s\"\n[[host]]\nname = \"server\"\n[[host]]\nname = \"client\"\n\
        [[link]]\nbetween = [\"server\", \"client\"]\nrate = \"1 Mbit/s\"\nloss = \"100 %\"\n[[flow]]\nfrom = \"server\"\n\
        to = \"client\"\nsize = \"unlimited\"\n";
    Scenario::parse("test", text).unwrap()
}

#[test]
fn a_flow_that_never_connects_ends_when_it_is_to() {
    let Some(_alone) = is_root_or_skip("a_flow_that_never_connects_ends_when_it_is_to") else { return };
    let mut scenario = unreachable();
    scenario.flows[0].stop = Some("200 ms".parse().unwrap());
    let report = run(&scenario, &options());
    assert!(report.flows[0].is_open_ended && report.flows[0].bytes == 0, "{report}");
    assert!(report.ended_s < scenario.time_limit.0, "{report}");
}

#[test]
fn a_flow_that_never_connects_is_stopped() {
    let Some(_alone) = is_root_or_skip("a_flow_that_never_connects_is_stopped") else { return };
    let cancel = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        let running = scope.spawn(|| run(&unreachable(), &RunOptions { cancel: Some(&cancel), ..options() }));
        while !is_connecting(std::process::id()) && !running.is_finished() {
            thread::yield_now();
        }
        cancel.store(true, Ordering::Relaxed);
        running.join().unwrap()
    });
    assert_eq!(report.flows[0].error.as_deref(), Some("stopped"), "{report}");
}

/// Whether a socket of the client waits for an answer to its SYN.
fn is_connecting(pid: u32) -> bool {
    let Some(client) = namespaces_of(pid).into_iter().find(|n| n.ends_with("-client")) else { return false };
    let out = Command::new("ip").args(["netns", "exec", &client, "cat", "/proc/net/tcp"]).output().unwrap();
    String::from_utf8_lossy(&out.stdout).lines().any(|l| l.split_whitespace().nth(3) == Some("02"))
}

/// Not a test of its own: what the next one kills.
#[test]
fn victim() {
    if std::env::var_os(VICTIM).is_some() {
        run(&scenario("cubic", "100 MB"), &options());
    }
}

#[test]
fn what_a_killed_run_left_is_cleaned_up_by_the_next() {
    let Some(_alone) = is_root_or_skip("what_a_killed_run_left_is_cleaned_up_by_the_next") else { return };
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "victim"])
        .env(VICTIM, "1")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // nginx keeps running when its run is killed
    let pid = child.id();
    while processes_on("server", pid, "nginx") < 2 {
        assert!(child.try_wait().unwrap().is_none(), "it should not have ended");
        thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(namespaces_of(pid).len(), 3);
    let left = Leftovers::beside(&namespaces_of(pid));
    let bystander = Command::new("ip").args(["netns", "add", "wl-lab-test-bystander"]).status().unwrap();
    assert!(bystander.success());
    // at least: leftovers of others may have been there too
    let cleaned = clean_leftovers();
    let is_bystander_there = fs::exists("/run/netns/wl-lab-test-bystander").unwrap();
    Command::new("ip").args(["netns", "del", "wl-lab-test-bystander"]).status().unwrap();
    assert!(cleaned >= 3, "{cleaned}");
    assert!(is_bystander_there, "what is not ours stays");
    assert_eq!(namespaces_of(pid), Vec::<String>::new());
    assert!(!left.draft.exists(), "a file that it was making");
    assert!(!left.cgroup.exists(), "a cgroup whose last process is that of a namespace");
}

/// What a run can leave besides its namespaces.
struct Leftovers {
    draft: PathBuf,
    cgroup: PathBuf,
}

impl Leftovers {
    /// Of the run to which the namespaces belong, with the server in the cgroup.
    fn beside(namespaces: &[String]) -> Leftovers {
        let server = namespaces.iter().find(|n| n.ends_with("-server")).expect("a server");
        let draft = files::folder().join(server.replace("-server", "-5.bin"));
        fs::write(&draft, "half").unwrap();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mount = mounts.lines().find(|l| l.split(' ').nth(2) == Some("cgroup2")).expect("a cgroup v2");
        let cgroup = Path::new(mount.split(' ').nth(1).unwrap()).join(server);
        fs::create_dir(&cgroup).unwrap();
        let pids = Command::new("ip").args(["netns", "pids", server]).output().unwrap();
        for pid in String::from_utf8(pids.stdout).unwrap().lines() {
            fs::write(cgroup.join("cgroup.procs"), pid).unwrap();
        }
        Leftovers { draft, cgroup }
    }
}
