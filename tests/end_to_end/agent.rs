//! The agent's life: killed, restarted, its policy changed, its clock spoilt, all in the middle of a transfer.

use crate::net::{Net, with_transfer};
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    fs,
    io::{BufRead, BufReader, Lines},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Child, ChildStderr, ChildStdout, Stdio},
    sync::atomic::{AtomicU64, Ordering},
};
use tempfile::TempDir;
use windlass_tests::{is_root_or_skip, windlass_path};

/// Writes the policy.
pub fn put(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("policy.toml");
    // renamed into place: the agent must never read half a policy
    let draft = folder.join("draft.toml");
    fs::write(&draft, text).expect("a writable folder");
    fs::rename(&draft, &file).expect("the same folder");
    file
}

pub fn policy(folder: &Path, algorithm: &str) -> PathBuf {
    let text =
        format!("[[rule]]\nname = \"all\"\nmatch = {{ iface = \"r1\" }}\nalgorithm = \"{algorithm}\"\n");
    put(folder, &text)
}

pub fn send(child: &Child, signal: i32) {
    // SAFETY: our own child, not yet waited for.
    unsafe { libc::kill(child.id() as i32, signal) };
}

/// Stops the agent where it has no lock for which others would wait until it goes on.
pub fn stop(child: &Child) {
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let is_stopped = || {
        let stat = fs::read_to_string(process.join("stat")).expect("our child");
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    };
    let has_lock = || {
        let files = fs::read_dir(process.join("fd")).expect("our child").flatten();
        files.flat_map(|f| fs::read_link(f.path())).any(|f| f.extension().is_some_and(|e| e == "lock"))
    };
    loop {
        send(child, libc::SIGSTOP);
        while !is_stopped() {}
        if !has_lock() {
            return;
        }
        send(child, libc::SIGCONT);
    }
}

pub fn kill(child: &mut Child, signal: i32) {
    send(child, signal);
    child.wait().expect("it ends");
}

/// A network on whose box an agent runs, the folder of its policy, and the policy.
pub fn with_agent(algorithm: &str) -> (Net, TempDir, PathBuf, Child) {
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), algorithm);
    let agent = net.agent(&file, "under control");
    (net, folder, file, agent)
}

/// Ends the agent, and then what it leaves under control.
pub fn release(net: &Net, mut agent: Child) {
    kill(&mut agent, libc::SIGTERM);
    net.answer(&["detach", "--all"]);
}

/// Whether `windlass counters` tells what was counted behind r1, the only interface under control.
fn counters_are_told(net: &Net) {
    let document: Value = serde_json::from_str(&net.answer(&["counters", "--json"])).expect("JSON");
    let of_r1 = document["counters"]["r1"].as_object().expect("by name");
    assert_eq!(of_r1.len(), windlass_core::counters().len());
    assert!(["flows_created", "stored_bytes"].iter().all(|name| of_r1[*name] != 0), "{document}");
    let table = net.answer(&["counters", "r1"]);
    assert!(table.contains("payload bytes stored") && !table.contains("pass_internal"), "{table}");
    assert!(net.answer(&["counters", "--all"]).contains("pass_internal"));
    let out = net.windlass(&["counters", "r1", "r2"]).output().expect("windlass runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.code() == Some(2) && said.contains("'r2'") && said.contains("under control: r1"),
        "{said}"
    );
}

#[test]
fn control_survives_the_agent_and_follows_the_policy() {
    if !is_root_or_skip("control_survives_the_agent_and_follows_the_policy") {
        return;
    }
    let (net, folder, file, mut agent) = with_agent("bbr");
    with_transfer(&net, |progress| {
        let before = net.flows();
        assert_eq!(before[0]["algorithm"], "bbr", "{before:?}");
        kill(&mut agent, libc::SIGKILL);
        progress();
        assert_eq!(net.flows()[0]["mode"], "transparent");
        counters_are_told(&net);
        agent = net.agent(&file, "taken over");
        progress();
        policy(folder.path(), "cubic");
        while net.flows()[0]["algorithm"] != "cubic" {
            progress();
        }
        assert_eq!(net.flows().len(), 1, "still the same flow");
    });
    release(&net, agent);
    assert!(net.clocks().is_empty(), "the clock is gone");
    let tc = net.middle.run(&["tc", "filter", "show", "dev", "r1", "ingress"]).expect("tc").stdout;
    assert!(tc.is_empty(), "{}", String::from_utf8_lossy(&tc));
}

#[test]
fn one_flow_has_an_algorithm_of_its_own() {
    if !is_root_or_skip("one_flow_has_an_algorithm_of_its_own") {
        return;
    }
    let (net, folder, file, mut agent) = with_agent("bbr");
    with_transfer(&net, |progress| {
        let busy = net.flows().remove(0);
        let [sender, receiver] = ["sender", "receiver"].map(|end| busy[end].as_str().expect("an address"));
        let _others = net.idle_connections(1);
        let algorithm = |of_busy: bool| {
            let flows = net.flows();
            assert_eq!(flows.len(), 2, "still the same flows");
            let flow = flows.iter().find(|f| (f["receiver"] == receiver) == of_busy).expect("both are there");
            let is_own = flow["has_own_algorithm"].as_bool().expect("a boolean");
            (flow["algorithm"].as_str().expect("a name").to_string(), is_own)
        };
        let until = |name: &str, is_own: bool| {
            while algorithm(true) != (name.to_string(), is_own) {
                progress();
            }
        };
        let refused = |words: &[&str], why: &str| {
            let out = net.windlass(&[&["set"], words].concat()).output().expect("windlass runs");
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.code() == Some(2) && said.contains(why), "{said}");
        };
        refused(&[sender, receiver, "--alg", "cubik"], "cubic");
        refused(&[receiver, sender, "--alg", "cubic"], "windlass flows");
        net.answer(&["set", sender, receiver, "--alg", "cubic"]);
        until("cubic", true);
        assert_eq!(algorithm(false), ("bbr".to_string(), false), "the other one is left alone");
        // it outlives the agent, and a policy that is read again
        kill(&mut agent, libc::SIGKILL);
        let mut next = Talker::start(&net, &file);
        assert!(next.says("taken over"));
        policy(folder.path(), "reno");
        assert!(next.says("in force"));
        progress();
        assert_eq!(algorithm(true), ("cubic".to_string(), true));
        net.answer(&["set", sender, receiver, "--by-rule", "--json"]);
        until("reno", false);
        kill(&mut next.child, libc::SIGTERM);
    });
}

/// The file has not changed: nothing but the signal has it read.
#[test]
fn a_hangup_has_the_policy_read_at_once() {
    if !is_root_or_skip("a_hangup_has_the_policy_read_at_once") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let mut agent = Talker::start(&net, &policy(folder.path(), "bbr"));
    assert!(agent.says("under control"));
    with_transfer(&net, |progress| {
        send(&agent.child, libc::SIGHUP);
        assert!(agent.says("in force"), "the agent goes on");
        progress();
        assert_eq!(net.flows()[0]["mode"], "transparent");
    });
    kill(&mut agent.child, libc::SIGTERM);
}

/// Said of what another agent has left under control.
pub const OF_EARLIER: &str = "is still under the rules of an earlier agent";

/// An agent that releases at its end what it controls, and what it says.
pub struct Talker {
    pub child: Child,
    pub out: Lines<BufReader<ChildStdout>>,
    pub errors: Lines<BufReader<ChildStderr>>,
}

impl Talker {
    pub fn start(net: &Net, policy: &Path) -> Talker {
        Self::start_with(net, policy, &[])
    }

    /// The same with further words.
    pub fn start_with(net: &Net, policy: &Path, words: &[&str]) -> Talker {
        let own = ["agent", "--detach-on-exit", "--policy", policy.to_str().expect("UTF-8")];
        let mut command = net.windlass(&[&own, words].concat());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the agent starts");
        let out = BufReader::new(child.stdout.take().expect("piped")).lines();
        let errors = BufReader::new(child.stderr.take().expect("piped")).lines();
        Talker { child, out, errors }
    }

    /// Reads on until it says so.
    pub fn says(&mut self, word: &str) -> bool {
        self.out.any(|l| l.is_ok_and(|l| l.contains(word)))
    }

    /// The next line that it complains in, if not of other tests' cgroups.
    pub fn complaint(&mut self) -> String {
        let is_of_others = |line: &str| line.contains("detach --cgroup") && line.contains(OF_EARLIER);
        let mut lines = self.errors.by_ref().map(|l| l.expect("a line"));
        lines.find(|l| !is_of_others(l)).expect("it goes on")
    }
}

/// Rules for r1 that the datapath has no room for, which shows only when the interface is there: their patterns differ.
fn too_many_rules(folder: &Path) {
    too_many_rules_and(folder, "");
}

/// The same, and further rules.
pub fn too_many_rules_and(folder: &Path, more: &str) {
    let letters = || 'a'..='q';
    let pairs = letters().flat_map(|a| letters().map(move |b| (a, b)));
    let rule = |(a, b)| {
        format!("[[rule]]\nname = \"{a}{b}\"\nmatch = {{ iface = \"r[1{a}{b}]\" }}\nalgorithm = \"reno\"\n")
    };
    put(folder, &(pairs.map(rule).collect::<String>() + more));
}

#[test]
fn a_policy_that_cannot_be_put_in_force_leaves_the_old_one() {
    if !is_root_or_skip("a_policy_that_cannot_be_put_in_force_leaves_the_old_one") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    let mut agent = Talker::start(&net, &file);
    assert!(agent.says("under control"));
    with_transfer(&net, |progress| {
        too_many_rules(folder.path());
        let complaint = agent.complaint();
        assert!(complaint.contains("289 rules") && complaint.contains("stays"), "{complaint}");
        progress();
        assert_eq!(
            (&net.flows()[0]["algorithm"], &net.flows()[0]["mode"]),
            (&"bbr".into(), &"transparent".into())
        );
        policy(folder.path(), "cubic");
        assert!(agent.says("in force"), "the agent goes on");
    });
    kill(&mut agent.child, libc::SIGTERM);
    assert!(!net.pins().exists(), "released");
}

/// There is room for 256 groups, and that of those that no rule names any more is used again.
#[test]
fn groups_that_no_rule_names_make_room() {
    if !is_root_or_skip("groups_that_no_rule_names_make_room") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let with_groups = |letter: char, count: u32| {
        let rule = |i| {
            format!(
                "[[rule]]\nname = \"{i}\"\nmatch = {{ iface = \"r1\" }}\nalgorithm = \"reno\"\n\
                 group = {{ name = \"{letter}{i}\", rule = \"ccc\" }}\n"
            )
        };
        put(folder.path(), &(0..count).map(rule).collect::<String>())
    };
    let mut agent = Talker::start(&net, &with_groups('a', 200));
    assert!(agent.says("under control"));
    with_groups('b', 100);
    let complaint = agent.complaint();
    assert!(complaint.contains("room for 56 more") && complaint.contains("fewer groups"), "{complaint}");
    with_groups('b', 50);
    assert!(agent.says("in force"));
    with_groups('c', 150);
    assert!(agent.says("in force"), "the first ones are named by no rule any more");
    kill(&mut agent.child, libc::SIGTERM);
}

/// `detach` is about one interface: the agent goes on with the others, leaves that one alone until another policy is in force,
/// and ends when nothing is left.
#[test]
fn an_interface_that_somebody_released_is_left_alone_and_the_others_are_not() {
    if !is_root_or_skip("an_interface_that_somebody_released_is_left_alone_and_the_others_are_not") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let rule = |algorithm| {
        format!("[[rule]]\nname = \"all\"\nmatch = {{ iface = \"r[12]\" }}\nalgorithm = \"{algorithm}\"\n")
    };
    let mut agent = Talker::start(&net, &put(folder.path(), &rule("reno")));
    assert!(agent.says("r2: under control"));
    net.answer(&["detach", "r1"]);
    let complaint = agent.complaint();
    assert!(complaint.contains("'r1' was released by somebody else"), "{complaint}");
    let is_pinned = |iface| net.pins().with_file_name(iface).exists();
    assert!(!is_pinned("r1") && is_pinned("r2"));
    put(folder.path(), &rule("bbr"));
    assert!(agent.says("in force"));
    assert!(agent.says("r1: under control"), "the policy, which is new, names it");
    net.answer(&["detach", "--all"]);
    assert_eq!(agent.child.wait().expect("it ends").code(), Some(2));
    assert!(!is_pinned("r1") && !is_pinned("r2") && net.clocks().is_empty(), "nothing is left");
}

#[test]
fn the_datapath_of_another_version_is_refused_with_the_cure() {
    if !is_root_or_skip("the_datapath_of_another_version_is_refused_with_the_cure") {
        return;
    }
    let (net, _folder, file, mut agent) = with_agent("bbr");
    with_transfer(&net, |progress| {
        kill(&mut agent, libc::SIGKILL);
        // as another build would have left it
        fs::write(net.record(""), "1").expect("the record of who pinned it");
        fs::remove_file(net.noted_state()).expect("the note among the pins");
        symlink("1", net.noted_state()).expect("bpffs has links");
        let policy = file.to_str().expect("UTF-8");
        for words in [&["agent", "--policy", policy][..], &["flows"], &["top", "--json"]] {
            let out = net.windlass(words).output().expect("windlass runs");
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(2), "{words:?}: {said}");
            assert!(
                said.contains("another version") && said.contains("windlass detach"),
                "{words:?}: {said}"
            );
        }
        progress();
        net.answer(&["detach", "--all"]);
        progress();
        agent = net.agent(&file, "under control");
        // the flow was there before: it is first seen in mid-stream now, and only watched
        progress();
        let flows = net.flows();
        assert!(flows.len() == 1 && flows[0]["mode"] == "watch", "{flows:?}");
        assert_eq!(flows[0]["only_watched"], "foreign");
        let [sender, receiver] =
            ["sender", "receiver"].map(|end| flows[0][end].as_str().expect("an address"));
        let out = net.windlass(&["set", sender, receiver, "--alg", "cubic"]).output().expect("windlass runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && said.contains("older than the box"), "{said}");
    });
    with_transfer(&net, |progress| {
        progress();
        assert_eq!(net.flows()[0]["mode"], "transparent");
    });
    release(&net, agent);
}

#[test]
fn top_shows_rates_and_leaves_the_terminal_as_it_was() {
    if !is_root_or_skip("top_shows_rates_and_leaves_the_terminal_as_it_was") {
        return;
    }
    let net = Net::create("cubic");
    let refused = |words: &[&str], saying: &str| {
        let out = net.windlass(words).output().expect("windlass runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(saying), "{said}");
    };
    refused(&["top"], "windlass agent");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    let agent = net.agent(&file, "under control");
    refused(&["top"], "windlass flows");
    with_transfer(&net, |_| {
        let looks = net.answer(&["top", "--json", "--interval-ms", "100", "--count", "2"]);
        let looks: Vec<Value> = looks.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        assert_eq!(looks.len(), 2);
        assert!(looks[0]["flows"][0]["rate_bps"].is_null(), "{looks:?}");
        assert!(looks[1]["flows"][0]["rate_bps"].as_u64().is_some_and(|r| r > 0), "{looks:?}");
        assert_eq!(looks[1]["flows"][0]["rate_bps"], looks[1]["totals"][0]["rate_bps"]);
        assert_eq!(looks[1]["totals"][0]["rule_name"], "all");
        // script(1) gives it a terminal
        let windlass = windlass_path();
        let line = format!("stty cols 140 rows 30; {} top --count 2 --interval-ms 100", windlass.display());
        let mut script = net.middle.command("script");
        let out = script
            .args(["-qec", &line, "/dev/null"])
            .stdin(Stdio::null())
            .output()
            .expect("script (Debian: bsdutils)");
        let drawn = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{drawn}");
        assert!(drawn.contains("controlled") && drawn.contains("inflight"), "{drawn}");
        // to the other screen and back
        let (there, back) = (drawn.find("\x1b[?1049h"), drawn.rfind("\x1b[?1049l"));
        assert!(there.is_some() && there < back, "{drawn}");
    });
    release(&net, agent);
}

#[test]
fn a_transfer_outlives_attach_killed_or_ended() {
    if !is_root_or_skip("a_transfer_outlives_attach_killed_or_ended") {
        return;
    }
    for signal in [libc::SIGKILL, libc::SIGINT] {
        let net = Net::create("cubic");
        let (mut attach, _) = attached(&net);
        with_transfer(&net, |progress| {
            kill(&mut attach, signal);
            progress();
        });
    }
}

/// Nobody reads any more what it says: the reader was ended by the same Ctrl-C, or the disk is full.
#[test]
fn what_cannot_say_so_lets_go_all_the_same() {
    if !is_root_or_skip("what_cannot_say_so_lets_go_all_the_same") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    let agent = ["agent", "--detach-on-exit", "--policy", file.to_str().expect("UTF-8")];
    for words in [&["attach", "r1"][..], &agent] {
        let mut child =
            net.windlass(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut String::new()).expect("a line");
        drop((out, child.stderr.take()));
        kill(&mut child, libc::SIGINT);
        assert!(net.clocks().is_empty() && !net.pins().exists(), "{words:?}");
    }
    // whoever started it through a pipe may be killed while there is nothing to say
    let mut attach = net.windlass(&["attach", "r1"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut out = BufReader::new(attach.stdout.take().expect("piped"));
    out.read_line(&mut String::new()).expect("a line");
    drop(out);
    assert_eq!(attach.wait().expect("it ends").code(), Some(1));
    assert!(net.clocks().is_empty());
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").expect("it is everywhere");
    let mut attach =
        net.windlass(&["attach", "r1"]).stdout(full()).stderr(full()).spawn().expect("it starts");
    assert_eq!(attach.wait().expect("it ends").code(), Some(1));
    assert!(net.clocks().is_empty());
    // an agent goes on without a word
    let mut agent = net.windlass(&agent).stdout(full()).stderr(full()).spawn().expect("it starts");
    while !net.record("").exists() {
        assert!(agent.try_wait().expect("our child").is_none(), "the agent goes on");
    }
    is_controlled(&net);
    send(&agent, libc::SIGTERM);
    assert!(agent.wait().expect("it ends").success());
    assert!(net.clocks().is_empty() && !net.pins().exists());
}

/// `windlass attach` of the interface that faces the server, once control is there, and what it said then.
pub fn attached(net: &Net) -> (Child, Value) {
    attached_with(net, &[])
}

/// The same with more words on its command line.
pub fn attached_with(net: &Net, words: &[&str]) -> (Child, Value) {
    let words = [&["attach", "r1", "--json"], words].concat();
    let mut attach = net.windlass(&words).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(attach.stdout.as_mut().expect("piped")).read_line(&mut line).expect("a line");
    let said: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(said["event"], "attached");
    (attach, said)
}

/// It looks at its clock more often than that.
#[test]
fn attach_samples_as_often_as_it_is_told() {
    if !is_root_or_skip("attach_samples_as_often_as_it_is_told") {
        return;
    }
    let net = Net::create("cubic");
    let (mut attach, _) = attached_with(&net, &["--sample-ms", "700"]);
    let lines = BufReader::new(attach.stdout.as_mut().expect("piped")).lines();
    let samples = lines.map(|l| serde_json::from_str::<Value>(&l.expect("a line")).expect("JSON"));
    let times: Vec<u64> = samples.take(2).map(|s| s["t_ms"].as_u64().expect("a sample")).collect();
    assert!(times[0] >= 700 && times[1] >= 1400, "{times:?}");
    kill(&mut attach, libc::SIGINT);
}

/// Tables have places for flows that may never come: what each takes without stored data is bounded.
#[test]
fn a_flow_takes_a_kibibyte_at_most() {
    if !is_root_or_skip("a_flow_takes_a_kibibyte_at_most") {
        return;
    }
    let net = Net::create("cubic");
    let (mut attach, attached) = attached(&net);
    kill(&mut attach, libc::SIGINT);
    let of_store = ["wl_store", "wl_segs", "wl_free_chunks", "wl_spare_chunks"];
    let maps = attached["memory_bytes"].as_object().expect("by map");
    let bytes: u64 = maps
        .iter()
        .filter(|(name, _)| !of_store.contains(&name.as_str()))
        .map(|(_, bytes)| bytes.as_u64().expect("bytes"))
        .sum();
    let flows_max = attached["flows_max"].as_u64().expect("a number");
    assert!((500 * flows_max..=1024 * flows_max).contains(&bytes), "{} bytes a flow", bytes / flows_max);
}

pub fn is_controlled(net: &Net) {
    with_transfer(net, |progress| {
        progress();
        assert_eq!(net.flows()[0]["mode"], "transparent");
    });
}

/// What somebody does to the two ends of a clock, which are named.
type Spoil<'a> = &'a dyn Fn(&str, &str);

/// Spoils the clock by hand in the middle of a transfer over a path that loses packets; control must go on with another.
fn with_spoilt_clocks(net: &Net, ways: &[Spoil<'_>], repaired: &dyn Fn() -> u64) {
    let bottleneck = "tc qdisc add dev r2 root tbf rate 200mbit burst 20kb limit 60kb";
    net.middle.run(&bottleneck.split(' ').collect::<Vec<_>>()).expect("tc");
    with_transfer(net, |progress| {
        for spoil in ways {
            let (before, _) = net.clock().expect("a clock");
            let [shaped, far] =
                ["a", "b"].map(|end| net.clocks().into_iter().find(|n| n.ends_with(end)).expect("two ends"));
            spoil(&shaped, &far);
            while net.clock().is_none_or(|(index, frames)| index == before || frames < 10) {
                progress();
            }
            let repairs = repaired();
            while repaired() == repairs {
                progress();
            }
        }
    });
}

#[test]
fn a_clock_that_is_deleted_or_changed_is_made_anew() {
    if !is_root_or_skip("a_clock_that_is_deleted_or_changed_is_made_anew") {
        return;
    }
    let (net, _folder, file, agent) = with_agent("cubic");
    let agent = RefCell::new(agent);
    let ip = |words: &[&str]| drop(net.middle.run(words).expect("iproute2"));
    let delete = |shaped: &str, _: &str| ip(&["ip", "link", "del", shaped]);
    let take_down = |_: &str, far: &str| ip(&["ip", "link", "set", far, "down"]);
    let delete_without_agent = |shaped: &str, far: &str| {
        let mut agent = agent.borrow_mut();
        kill(&mut agent, libc::SIGKILL);
        delete(shaped, far);
        *agent = net.agent(&file, "taken over");
    };
    with_spoilt_clocks(&net, &[&delete, &take_down, &delete_without_agent, &delete], &|| {
        let flows = net.flows();
        assert_eq!(flows.len(), 1, "still the same flow");
        flows[0]["repaired_segs"].as_u64().expect("a number")
    });
    release(&net, agent.into_inner());
    assert!(net.clocks().is_empty(), "the last clock is gone");
}

/// As on a kernel without tbf.
#[test]
fn of_a_clock_that_cannot_be_made_nothing_is_left() {
    if !is_root_or_skip("of_a_clock_that_cannot_be_made_nothing_is_left") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
    std::os::unix::fs::symlink("/bin/false", folder.path().join("tc")).expect("a writable folder");
    for (words, status) in [(&["attach", "r1"][..], 2), (&["doctor"], 1)] {
        let out = net.windlass(words).env("PATH", &path).output().expect("windlass runs");
        let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        assert!(out.status.code() == Some(status) && said.contains("`tc qdisc"), "{words:?}: {said}");
        assert_eq!(net.clocks(), Vec::<String>::new(), "{words:?}");
    }
}

/// Nobody is there to send the clock's frame again: what is lost the server sends again, as it would without a box.
#[test]
fn without_agent_and_clock_a_transfer_goes_on() {
    if !is_root_or_skip("without_agent_and_clock_a_transfer_goes_on") {
        return;
    }
    let (net, _folder, _file, mut agent) = with_agent("cubic");
    let bottleneck = "tc qdisc add dev r2 root tbf rate 200mbit burst 20kb limit 60kb";
    net.middle.run(&bottleneck.split(' ').collect::<Vec<_>>()).expect("tc");
    with_transfer(&net, |progress| {
        kill(&mut agent, libc::SIGKILL);
        let shaped = net.clocks().into_iter().find(|n| n.ends_with('a')).expect("a clock");
        net.middle.run(&["ip", "link", "del", &shaped]).expect("iproute2");
        (0..32).for_each(|_| progress());
    });
    net.answer(&["detach", "--all"]);
}

#[test]
fn attach_makes_a_deleted_clock_anew_and_says_so() {
    if !is_root_or_skip("attach_makes_a_deleted_clock_anew_and_says_so") {
        return;
    }
    let net = Net::create("cubic");
    let mut attach = net
        .windlass(&["attach", "r1", "--alg", "cubic", "--json", "--sample-ms", "20"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(attach.stdout.take().expect("piped")).lines();
    assert!(lines.next().expect("it says so").expect("a line").contains("attached"));
    let delete = |shaped: &str, _: &str| {
        net.middle.run(&["ip", "link", "del", shaped]).expect("iproute2");
    };
    let repaired = AtomicU64::new(0);
    let said = std::thread::scope(|scope| {
        // what it says has to be read, or it would wait with its work
        let listener = scope.spawn(|| {
            let mut said = Vec::new();
            for line in lines.map_while(Result::ok) {
                let event: Value = serde_json::from_str(&line).expect("JSON");
                match event["event"].as_str() {
                    Some("complaint") => said.push(event["why"].as_str().expect("words").to_string()),
                    _ => {
                        let of_flow = event["flows"][0]["repaired_segs"].as_u64();
                        repaired.store(of_flow.unwrap_or(0), Ordering::Relaxed);
                    }
                }
            }
            said
        });
        with_spoilt_clocks(&net, &[&delete], &|| repaired.load(Ordering::Relaxed));
        send(&attach, libc::SIGINT);
        listener.join().expect("JSON")
    });
    let out = attach.wait_with_output().expect("it ends");
    assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.len() == 1 && said[0].contains("made anew"), "{said:?}");
    assert!(net.clocks().is_empty());
}

#[test]
fn an_agent_whose_interface_is_released_ends_and_says_so() {
    if !is_root_or_skip("an_agent_whose_interface_is_released_ends_and_says_so") {
        return;
    }
    let (net, _folder, _file, mut agent) = with_agent("bbr");
    net.answer(&["detach", "--all"]);
    assert_eq!(agent.wait().expect("it ends").code(), Some(2));
    assert!(net.clocks().is_empty() && !net.pins().exists(), "nothing is made anew");
}

/// A disk that is full, say: programs that stayed attached without a clock would hide losses and mend none.
#[test]
fn what_cannot_be_pinned_does_not_stay_attached() {
    if !is_root_or_skip("what_cannot_be_pinned_does_not_stay_attached") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    let in_the_way = net.record(":index");
    fs::create_dir_all(&in_the_way).expect("a folder where a file should be");
    let out = net.windlass(&["agent", "--policy", file.to_str().expect("UTF-8")]).output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("r1 is not under control"), "{said}");
    assert!(net.clocks().is_empty() && !net.pins().exists(), "nothing is left");
    fs::remove_dir(&in_the_way).expect("it is there");
    let agent = net.agent(&file, "under control");
    is_controlled(&net);
    release(&net, agent);
}

#[test]
fn what_was_pinned_in_part_is_made_anew() {
    if !is_root_or_skip("what_was_pinned_in_part_is_made_anew") {
        return;
    }
    let (net, _folder, file, mut agent) = with_agent("bbr");
    kill(&mut agent, libc::SIGKILL);
    // as if killed just before it noted whose pins these are
    fs::remove_file(net.record("")).expect("the record of who pinned it");
    fs::remove_file(net.noted_state()).expect("which is among the pins, too");
    agent = net.agent(&file, "under control");
    assert_eq!(net.clocks().len(), 2);
    is_controlled(&net);
    release(&net, agent);
}

#[test]
fn an_agent_tells_programs_what_happens() {
    if !is_root_or_skip("an_agent_tells_programs_what_happens") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    let path = file.to_str().expect("UTF-8");
    let words = ["agent", "--json", "--detach-on-exit", "--policy", path];
    let mut agent = net.windlass(&words).stdout(Stdio::piped()).spawn().expect("the agent starts");
    let mut lines = BufReader::new(agent.stdout.take().expect("piped")).lines();
    let mut next = || loop {
        let line = lines.next().expect("it goes on").expect("UTF-8");
        let event: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
        // of other namespaces, whose interfaces have gone, and of other tests' cgroups
        let is_of_others = event["event"] == "removed" || line.contains(OF_EARLIER);
        if !is_of_others {
            break event;
        }
    };
    assert_eq!(next(), json!({ "event": "attached", "iface": "r1" }));
    policy(folder.path(), "cubic");
    assert_eq!(next(), json!({ "event": "in_force", "policy": path }));
    policy(folder.path(), "cubik");
    let complaint = next();
    assert_eq!(complaint["event"], "complaint");
    assert!(complaint["why"].as_str().is_some_and(|why| why.contains("cubik")), "{complaint}");
    send(&agent, libc::SIGTERM);
    assert_eq!(next(), json!({ "event": "detached", "iface": "r1" }));
    assert!(agent.wait().expect("it ends").success());
}
