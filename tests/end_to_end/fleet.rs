//! A fleet: three agents, each with its server and its transfer, and a real etcd.

use crate::{
    control::{put, release, too_many_rules_and},
    net::{Net, with_transfer},
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use windlass_lab::netns::{self, Netns};
use windlass_tests::{
    is_root_or_skip,
    process::{Process, until},
    windlass_path,
};

/// So short that the test sees leases end.
const SHORT_LEASE: [&str; 2] = ["--lease-s", "3"];
/// What it loses, the servers retransmit themselves where they are only watched: a slip of an operator.
const GUARD: &str = "retransmits<0.3%,3x,2s";

/// etcd in a network of its own. Other namespaces reach it by a socket in its folder.
struct Etcd {
    host: Netns,
    folder: TempDir,
    process: Option<Process>,
}

impl Etcd {
    fn start() -> Etcd {
        let host = Netns::create(netns::next_run(), "etcd").expect("a namespace");
        let mut etcd = Etcd { host, folder: tempfile::tempdir().expect("a folder"), process: None };
        etcd.go_on();
        etcd
    }

    /// With the data that it has.
    fn go_on(&mut self) {
        let mut command = self.host.command("etcd");
        let peers = "http://127.0.0.1:2380";
        command
            .current_dir(self.folder.path())
            .args(["--data-dir", "data", "--listen-client-urls", "http://127.0.0.1:2379,unix://localhost:1"])
            .args(["--advertise-client-urls", "http://127.0.0.1:2379", "--listen-peer-urls", peers])
            .args(["--initial-advertise-peer-urls", peers, "--initial-cluster", &format!("default={peers}")]);
        // one that was killed leaves its socket, at which the next one would not start
        let _ = fs::remove_file(self.folder.path().join("localhost:1"));
        // its log is long
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(Process::start_as_is(&mut command));
        until("etcd answers", || self.try_fleet(&["status"]).status.success());
    }

    fn kill(&mut self) {
        self.process.take().expect("it runs").end(libc::SIGKILL);
    }

    /// `windlass fleet`, on etcd's machine.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.host.command(windlass_path().to_str().expect("UTF-8"));
        command.env("USER", "operator").env_remove("SUDO_USER").arg("fleet").args(words);
        command
    }

    fn try_fleet(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("windlass runs")
    }

    /// Its answer; it must succeed.
    fn fleet(&self, words: &[&str]) -> String {
        let out = self.try_fleet(words);
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.fleet(&["status", "--json"])).expect("JSON")
    }

    /// The state of a node, by the status.
    fn state(&self, node: &str) -> String {
        let status = self.status();
        let nodes = status["nodes"].as_array().expect("a list");
        let node = nodes.iter().find(|one| one["node"] == node);
        node.map_or("none".into(), |node| node["state"].as_str().expect("a word").into())
    }

    /// Since when each node has had in force what it has.
    fn since_when(&self) -> Vec<(String, u64)> {
        let of = |node: &Value| {
            (node["node"].to_string(), node["in_force_since_unix_s"].as_u64().expect("a time"))
        };
        self.status()["nodes"].as_array().expect("a list").iter().map(of).collect()
    }

    fn are_all(&self, state: &str) -> bool {
        ["a", "b", "c"].iter().all(|node| self.state(node) == state)
    }

    /// Each stage is watched for so long.
    fn rollout(&self, policy: &Path, wait: &str) -> Process {
        let own = ["rollout", policy.to_str().expect("UTF-8"), "--json", "--canary", "1", "--steps", "2"];
        let terms = ["--wait", wait, "--apply-within", "20s", "--guard", GUARD];
        Process::start(&mut self.command(&[&own[..], &terms].concat()))
    }
}

/// An agent, its server and client, and the fleet's process beside it.
struct Member {
    net: Net,
    folder: TempDir,
    agent: Process,
    node: Process,
}

impl Member {
    /// Its node has this name, and these options besides.
    fn new(name: &str, etcd: &Etcd, options: &[&str]) -> Member {
        let net = Net::create("cubic");
        // hardly a buffer, so that a share of what is sent is lost that no busy machine adds to
        let line = "tc qdisc add dev r2 root tbf rate 20mbit burst 10kb limit 15kb";
        net.middle.run(&line.split(' ').collect::<Vec<_>>()).expect("tc");
        let folder = tempfile::tempdir().expect("a folder");
        let file = put(folder.path(), &controlled("own"));
        let agent = net.agent_with(&file, &["--metrics"], "under control");
        let socket = format!("unix:{}", etcd.folder.path().join("localhost:1").display());
        let mut node = net.middle.command(windlass_path().to_str().expect("UTF-8"));
        node.args(["fleet", "node", "--json", "--node", name, "--label", "site=here"]).args(options);
        node.args(["--etcd", &socket, "--policy"]).arg(&file);
        let node = Process::start(&mut node);
        node.event("connected");
        Member { net, folder, agent, node }
    }

    fn policy(&self) -> String {
        fs::read_to_string(self.folder.path().join("policy.toml")).expect("a policy")
    }

    fn is_controlled(&self) {
        let flows = self.net.flows();
        assert!(flows.iter().all(|flow| flow["mode"] == "transparent") && !flows.is_empty(), "{flows:?}");
    }
}

fn controlled(name: &str) -> String {
    format!("[[rule]]\nname = \"{name}\"\nmatch = {{ iface = \"r1\" }}\nalgorithm = \"cubic\"\n")
}

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    fs::write(&file, text).expect("a writable folder");
    file
}

fn is_etcd_there_or_skip(test: &str) -> bool {
    let is_there = Command::new("etcd").arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: {test}: etcd is not installed (Debian: etcd-server)");
    }
    is_there
}

/// Transfers at all three at once.
fn with_transfers(members: &[Member; 3], during: impl FnOnce(&dyn Fn())) {
    let [a, b, c] = members;
    with_transfer(&a.net, |of_a| {
        with_transfer(&b.net, |of_b| {
            with_transfer(&c.net, |of_c| {
                during(&|| [of_a, of_b, of_c].iter().for_each(|goes_on| goes_on()));
            });
        });
    });
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_fleet_of_three_agents_rolls_out_and_back_and_goes_on_without_etcd() {
    const NAME: &str = "a_fleet_of_three_agents_rolls_out_and_back_and_goes_on_without_etcd";
    if !is_root_or_skip(NAME) || !is_etcd_there_or_skip(NAME) {
        return;
    }
    let mut etcd = Etcd::start();
    let members = ["a", "b", "c"].map(|name| Member::new(name, &etcd, &SHORT_LEASE));
    let folder = tempfile::tempdir().expect("a folder");
    until("all nodes report", || etcd.are_all("ok"));
    no_capability_is_kept(&members[0].node);
    with_transfers(&members, |progress| {
        let good = written(folder.path(), "good.toml", &controlled("good"));
        goes_to_all(&etcd, &members, &good);
        progress();
        a_bad_policy_stops_at_the_canary(&etcd, &members, folder.path());
        progress();
        a_policy_that_an_agent_refuses_goes_back(&etcd, &members, folder.path());
        etcd_is_killed(&mut etcd, &members, folder.path(), Duration::from_secs(4), progress);
        a_node_lags(&etcd, &members, folder.path());
        progress();
        two_writers(&etcd, &members, folder.path());
        progress();
        members.iter().for_each(Member::is_controlled);
    });
    for Member { net, agent, mut node, .. } in members {
        assert!(node.end(libc::SIGTERM).success());
        release(&net, agent);
    }
    assert!(etcd.are_all("stale"), "they have left");
    etcd.fleet(&["forget", "a"]);
    assert_eq!(etcd.state("a"), "none");
}

fn no_capability_is_kept(node: &Process) {
    let status = fs::read_to_string(format!("/proc/{}/status", node.id())).expect("our child");
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        let line = status.lines().find(|line| line.starts_with(set)).expect("a set");
        assert!(line.ends_with("\t0000000000000000"), "{line}");
    }
}

fn goes_to_all(etcd: &Etcd, members: &[Member; 3], good: &Path) {
    let mut rollout = etcd.rollout(good, "2s");
    for stage in 1..=3 {
        let at = rollout.find("stage", |event| event["phase"] == "watch");
        assert_eq!((&at["stage"], &at["nodes"]), (&stage.into(), &stage.into()));
    }
    rollout.event("done");
    assert!(rollout.wait().success());
    until("all have it in force", || etcd.are_all("ok"));
    for member in members {
        assert_eq!(member.policy(), controlled("good"));
    }
    let out = etcd.try_fleet(&["rollout", good.to_str().expect("UTF-8")]);
    assert_eq!(out.status.code(), Some(2), "they have it already");
}

/// Servers that are only watched repair what is lost themselves: the guard sees that at the canary.
fn a_bad_policy_stops_at_the_canary(etcd: &Etcd, members: &[Member; 3], folder: &Path) {
    let text = controlled("bad").replace("algorithm = \"cubic\"", "mode = \"watch\"");
    let bad = written(folder, "bad.toml", &text);
    let before = (etcd.status()["generation"].as_u64().expect("a number"), etcd.since_when());
    let mut rollout = etcd.rollout(&bad, "60s");
    let why = rollout.event("rolled_back")["why"].as_str().expect("words").to_string();
    assert!(why.contains("guard retransmits") && why.contains("before"), "{why}");
    println!("the guard: {why}");
    assert_eq!(rollout.wait().code(), Some(1));
    until("the canary has the older one again", || {
        etcd.are_all("ok") && members.iter().all(|member| member.policy() == controlled("good"))
    });
    let history: Value = serde_json::from_str(&etcd.fleet(&["history", "--json"])).expect("JSON");
    let since = history
        .as_array()
        .expect("a list")
        .iter()
        .filter(|change| change["generation"].as_u64().is_some_and(|generation| generation > before.0));
    let stages: Vec<&str> = since.filter_map(|change| change["what"].as_str()).collect();
    assert!(!stages.iter().any(|what| what.contains("stage 2")), "{stages:?}");
    // only the canary has had another one in force meanwhile
    let unchanged = etcd.since_when().into_iter().filter(|since| before.1.contains(since)).count();
    assert_eq!(unchanged, 2);
    let text = etcd.fleet(&["status"]);
    assert!(text.contains("operator@") && text.contains("rolled back: guard retransmits"), "{text}");
}

fn a_policy_that_an_agent_refuses_goes_back(etcd: &Etcd, members: &[Member; 3], folder: &Path) {
    too_many_rules_and(folder, "");
    let mut rollout = etcd.rollout(&folder.join("policy.toml"), "2s");
    let why = rollout.event("rolled_back")["why"].as_str().expect("words").to_string();
    assert!(why.contains("agent refuses"), "{why}");
    assert_eq!(rollout.wait().code(), Some(1));
    until("all are well", || etcd.are_all("ok"));
    assert!(members.iter().all(|member| member.policy() == controlled("good")));
    // what no parser takes is not even begun
    let unsound = written(folder, "unsound.toml", "[[rule]]\nnam = 1\n");
    let out = etcd.try_fleet(&["rollout", unsound.to_str().expect("UTF-8")]);
    assert_eq!(out.status.code(), Some(2));
}

/// Its subject is an outage of a minute, in real time, which is longer than a lease is unless given.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_fleet_goes_on_without_etcd_for_a_minute() {
    const NAME: &str = "a_fleet_goes_on_without_etcd_for_a_minute";
    if !is_root_or_skip(NAME) || !is_etcd_there_or_skip(NAME) {
        return;
    }
    let mut etcd = Etcd::start();
    let members = ["a", "b", "c"].map(|name| Member::new(name, &etcd, &[]));
    let folder = tempfile::tempdir().expect("a folder");
    until("all nodes report", || etcd.are_all("ok"));
    with_transfers(&members, |progress| {
        goes_to_all(&etcd, &members, &written(folder.path(), "good.toml", &controlled("good")));
        let outage = Duration::from_secs(60);
        let look = || {
            progress();
            members.iter().for_each(Member::is_controlled);
        };
        let looks = etcd_is_killed(&mut etcd, &members, folder.path(), outage, &look);
        println!("{looks} looks within {outage:?}: all transfers went on, under control");
    });
    for Member { net, agent, mut node, .. } in members {
        assert!(node.end(libc::SIGTERM).success());
        release(&net, agent);
    }
}

/// For so long, in the midst of a rollout. Returns how often it looked meanwhile.
fn etcd_is_killed(
    etcd: &mut Etcd,
    members: &[Member; 3],
    folder: &Path,
    outage: Duration,
    look: &dyn Fn(),
) -> u32 {
    let mut rollout = etcd.rollout(&written(folder, "later.toml", &controlled("later")), "60s");
    rollout.find("stage", |event| event["phase"] == "watch");
    let (generation, since_when) = (etcd.status()["generation"].clone(), etcd.since_when());
    etcd.kill();
    let since = Instant::now();
    for member in members {
        member.node.find("complaint", |event| event["why"].as_str().is_some_and(|why| why.contains("stays")));
    }
    rollout.find("complaint", |event| event["why"].as_str().is_some_and(|why| why.contains("stands still")));
    let mut looks = 0;
    while since.elapsed() < outage {
        look();
        looks += 1;
    }
    let status = etcd.try_fleet(&["status"]);
    let words = String::from_utf8_lossy(&status.stderr).into_owned();
    assert!(status.status.code() == Some(2) && words.contains("http://127.0.0.1:2379"), "{words}");
    members.iter().for_each(Member::is_controlled);
    etcd.go_on();
    for member in members {
        member.node.event("connected");
    }
    until("all are there again", || etcd.are_all("ok"));
    let status = etcd.status();
    assert_eq!((&status["generation"], &status["rollout"]["stage"]), (&generation, &1.into()));
    assert_eq!(etcd.since_when(), since_when, "each has had in force what it has all the time");
    assert!(rollout.is_running(), "it goes on");
    etcd.fleet(&["rollback"]);
    assert_eq!(rollout.wait().code(), Some(2));
    until("the canary has the older one again", || {
        etcd.are_all("ok") && members.iter().all(|member| member.policy() == controlled("good"))
    });
    looks
}

fn a_node_lags(etcd: &Etcd, members: &[Member; 3], folder: &Path) {
    let [.., last] = members;
    last.node.signal(libc::SIGSTOP);
    until("its lease ends", || etcd.state("c") == "stale");
    let next = written(folder, "next.toml", &controlled("next"));
    let mut rollout = etcd.rollout(&next, "2s");
    rollout.event("done");
    assert!(rollout.wait().success(), "a node that is gone at the start keeps no rollout from its end");
    assert_eq!((etcd.state("c").as_str(), last.policy()), ("stale", controlled("good")));
    let text = etcd.fleet(&["status"]);
    assert!(text.lines().any(|line| line.starts_with("c ") && line.contains("stale")), "{text}");
    last.node.signal(libc::SIGCONT);
    until("it catches up", || etcd.are_all("ok"));
    assert_eq!(last.policy(), controlled("next"));
}

fn two_writers(etcd: &Etcd, members: &[Member; 3], folder: &Path) {
    let [one, other] =
        ["one", "other"].map(|name| written(folder, &format!("{name}.toml"), &controlled(name)));
    let mut rollouts = [&one, &other].map(|policy| etcd.rollout(policy, "60s"));
    let mut lost = None;
    until("one of them has lost", || {
        lost = rollouts.iter_mut().position(|rollout| !rollout.is_running());
        lost.is_some()
    });
    let lost = lost.expect("one has");
    assert_eq!(rollouts[lost].wait().code(), Some(2));
    let complaint = rollouts[lost].complaint();
    assert!(complaint.contains("under way") || complaint.contains("faster"), "{complaint}");
    let [winner, loser] = if lost == 0 { [&other, &one] } else { [&one, &other] };
    let won = &mut rollouts[1 - lost];
    won.find("stage", |event| event["phase"] == "watch");
    let out = etcd.try_fleet(&["rollout", loser.to_str().expect("UTF-8")]);
    let words = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(words.contains("driven by operator@") && words.contains("stage 1 of 3"), "{words}");
    // a driver that is killed leaves it where it is
    won.end(libc::SIGKILL);
    until("its lease ends", || etcd.status()["rollout"]["driver"].is_null());
    let text = etcd.fleet(&["status"]);
    assert!(text.contains("stands still") && text.contains("1 of 3 nodes should have it"), "{text}");
    let mut resumed = Process::start(&mut etcd.command(&["rollout", "--resume", "--json"]));
    resumed.event("started");
    // and another writer ends it under its driver
    let rolled_back = etcd.fleet(&["rollback", "--because", "another plan"]);
    assert!(rolled_back.contains("another plan"), "{rolled_back}");
    let complaint = resumed.complaint();
    assert!(complaint.contains("ended by operator@") && complaint.contains("another plan"), "{complaint}");
    assert_eq!(resumed.wait().code(), Some(2));
    until("all have the older one", || {
        etcd.are_all("ok") && members.iter().all(|member| member.policy() == controlled("next"))
    });
    // without a rollout, to what was there before the last one
    etcd.fleet(&["rollback"]);
    until("all have the one before", || {
        etcd.are_all("ok") && members.iter().all(|member| member.policy() == controlled("good"))
    });
    assert!(fs::read_to_string(winner).is_ok());
}
