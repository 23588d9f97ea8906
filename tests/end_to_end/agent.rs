//! The agent's life: killed, restarted, its policy changed, all in the middle of a transfer.

use crate::{
    control::{is_controlled, policy, put, release, talker, too_many_rules_and, with_agent, with_talker},
    net::{Net, with_transfer},
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink, process::Stdio};
use windlass_tests::{
    is_root_or_skip,
    process::{OF_EARLIER, Process, until},
    windlass_path,
};

/// Whether `windlass counters` shows what was counted behind r1, the only interface under control.
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
    net.bottleneck();
    with_transfer(&net, |progress| {
        let before = net.flows();
        assert_eq!(before[0]["algorithm"], "bbr", "{before:?}");
        net.repairs_go_on(progress);
        agent.end(libc::SIGKILL);
        (0..3).for_each(|_| net.repairs_go_on(progress));
        counters_are_told(&net);
        agent = net.agent(&file, "taken over");
        progress();
        policy(folder.path(), "cubic");
        until("the policy's algorithm", || {
            progress();
            net.flows()[0]["algorithm"] == "cubic"
        });
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
        let becomes = |name: &str, is_own: bool| {
            until(name, || {
                progress();
                algorithm(true) == (name.to_string(), is_own)
            });
        };
        let refused = |words: &[&str], why: &str| {
            let out = net.windlass(&[&["set"], words].concat()).output().expect("windlass runs");
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(out.status.code() == Some(2) && said.contains(why), "{said}");
        };
        refused(&[sender, receiver, "--alg", "cubik"], "cubic");
        refused(&[receiver, sender, "--alg", "cubic"], "windlass flows");
        net.answer(&["set", sender, receiver, "--alg", "cubic"]);
        becomes("cubic", true);
        assert_eq!(algorithm(false), ("bbr".to_string(), false), "the other one is left alone");
        // it outlives the agent, and a policy that is read again
        agent.end(libc::SIGKILL);
        let mut next = talker(&net, &file);
        next.says("taken over");
        policy(folder.path(), "reno");
        next.says("in force");
        progress();
        assert_eq!(algorithm(true), ("cubic".to_string(), true));
        net.answer(&["set", sender, receiver, "--by-rule", "--json"]);
        becomes("reno", false);
        next.end(libc::SIGTERM);
    });
}

/// The file has not changed: nothing but the signal has it read.
#[test]
fn a_hangup_has_the_policy_read_at_once() {
    if !is_root_or_skip("a_hangup_has_the_policy_read_at_once") {
        return;
    }
    let (net, _folder, _file, mut agent) = with_talker("bbr");
    with_transfer(&net, |progress| {
        agent.signal(libc::SIGHUP);
        agent.says("in force");
        progress();
        assert_eq!(net.flows()[0]["mode"], "transparent");
    });
    agent.end(libc::SIGTERM);
}

#[test]
fn a_policy_that_cannot_be_put_in_force_leaves_the_old_one() {
    if !is_root_or_skip("a_policy_that_cannot_be_put_in_force_leaves_the_old_one") {
        return;
    }
    let (net, folder, _file, mut agent) = with_talker("bbr");
    with_transfer(&net, |progress| {
        too_many_rules_and(folder.path(), "");
        let complaint = agent.complaint();
        assert!(complaint.contains("289 rules") && complaint.contains("stays"), "{complaint}");
        progress();
        assert_eq!(
            (&net.flows()[0]["algorithm"], &net.flows()[0]["mode"]),
            (&"bbr".into(), &"transparent".into())
        );
        policy(folder.path(), "cubic");
        agent.says("in force");
    });
    agent.end(libc::SIGTERM);
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
    let mut agent = talker(&net, &with_groups('a', 200));
    agent.says("under control");
    with_groups('b', 100);
    let complaint = agent.complaint();
    assert!(complaint.contains("room for 56 more") && complaint.contains("fewer groups"), "{complaint}");
    with_groups('b', 50);
    agent.says("in force");
    with_groups('c', 150);
    agent.says("in force");
    agent.end(libc::SIGTERM);
}

/// `detach` is about one interface: the agent goes on with the others, leaves that one alone until another policy is in force,
/// and ends when nothing is left.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_interface_that_was_released_is_left_alone_and_the_others_are_not() {
    if !is_root_or_skip("an_interface_that_was_released_is_left_alone_and_the_others_are_not") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let rule = |algorithm| {
        format!("[[rule]]\nname = \"all\"\nmatch = {{ iface = \"r[12]\" }}\nalgorithm = \"{algorithm}\"\n")
    };
    let mut agent = talker(&net, &put(folder.path(), &rule("reno")));
    agent.says("r2: under control");
    net.answer(&["detach", "r1"]);
    let complaint = agent.complaint();
    assert!(complaint.contains("'r1' was released by another process"), "{complaint}");
    let is_pinned = |iface| net.pins_of(iface).exists();
    assert!(!is_pinned("r1") && is_pinned("r2"));
    put(folder.path(), &rule("bbr"));
    agent.says("in force");
    agent.says("r1: under control");
    net.answer(&["detach", "--all"]);
    assert_eq!(agent.wait().code(), Some(2));
    assert!(!is_pinned("r1") && !is_pinned("r2") && net.clocks().is_empty(), "nothing is left");
}

#[test]
fn the_datapath_of_another_version_is_refused_with_the_cure() {
    if !is_root_or_skip("the_datapath_of_another_version_is_refused_with_the_cure") {
        return;
    }
    let (net, _folder, file, mut agent) = with_agent("bbr");
    with_transfer(&net, |progress| {
        agent.end(libc::SIGKILL);
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
fn an_agent_whose_interface_is_released_ends_and_reports_it() {
    if !is_root_or_skip("an_agent_whose_interface_is_released_ends_and_reports_it") {
        return;
    }
    let (net, _folder, _file, mut agent) = with_agent("bbr");
    net.answer(&["detach", "--all"]);
    assert_eq!(agent.wait().code(), Some(2));
    assert!(net.clocks().is_empty() && !net.pins().exists(), "nothing is made anew");
}

/// For example a full disk: programs that stayed attached without a clock would hide losses and mend none.
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
#[ignore = "long: `make test-long` runs it"]
fn what_was_pinned_in_part_is_made_anew() {
    if !is_root_or_skip("what_was_pinned_in_part_is_made_anew") {
        return;
    }
    let (net, _folder, file, mut agent) = with_agent("bbr");
    agent.end(libc::SIGKILL);
    // as if killed just before it noted whose pins these are
    fs::remove_file(net.record("")).expect("the record of who pinned it");
    fs::remove_file(net.noted_state()).expect("which is among the pins, too");
    agent = net.agent(&file, "under control");
    assert_eq!(net.clocks().len(), 2);
    is_controlled(&net);
    release(&net, agent);
}

#[test]
fn an_agent_reports_events_as_json() {
    if !is_root_or_skip("an_agent_reports_events_as_json") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    let path = file.to_str().expect("UTF-8");
    let words = ["agent", "--json", "--detach-on-exit", "--policy", path];
    let mut agent = Process::start(&mut net.windlass(&words));
    let next = || loop {
        let line = agent.line().expect("it goes on");
        let event: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
        // of other namespaces, whose interfaces have gone, and of other tests' cgroups
        let is_gone = event["event"] == "gone" && event["cgroup"].is_string();
        let is_of_others = is_gone || event["event"] == "removed" || line.contains(OF_EARLIER);
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
    agent.signal(libc::SIGTERM);
    assert_eq!(next(), json!({ "event": "detached", "iface": "r1" }));
    assert!(agent.wait().success());
}
