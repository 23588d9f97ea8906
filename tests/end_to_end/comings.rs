//! Interfaces that an agent lost, in any way, and has again.

use crate::{
    control::{is_controlled, policy, put, stop, talker, talker_with},
    net::Net,
};
use std::fs;
use tempfile::TempDir;
use windlass_tests::{
    is_root_or_skip,
    process::{Process, until},
};

/// An agent under whose policy both of the box's interfaces are, and are under control.
fn of_both() -> (Net, TempDir, Process) {
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[[rule]]\nname = \"all\"\nmatch.iface = \"r[12]\"\nalgorithm = \"bbr\"\n";
    let agent = talker(&net, &put(folder.path(), text));
    agent.says("r2: under control");
    (net, folder, agent)
}

/// What the user released is left alone; whatever else the policy names the agent waits for, also if nothing is left.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_agent_that_lost_its_last_interface_waits_though_another_was_released() {
    if !is_root_or_skip("an_agent_that_lost_its_last_interface_waits_though_another_was_released") {
        return;
    }
    let (net, folder, mut agent) = of_both();
    net.answer(&["detach", "r1"]);
    let complaint = agent.complaint();
    assert!(complaint.contains("'r1' was released by another process"), "{complaint}");
    net.middle.run(&["ip", "link", "del", "r2"]).expect("iproute2");
    agent.says("r2: the interface is gone");
    // some looks later
    put(folder.path(), "no policy");
    let complaint = agent.complaint();
    assert!(complaint.contains("stays"), "{complaint}");
    net.middle.run(&["ip", "link", "add", "r2", "type", "veth", "peer", "name", "x2"]).expect("iproute2");
    agent.says("r2: under control");
    // that one was not released
    net.replace_interface("cubic");
    agent.says("r1: under control");
    agent.end(libc::SIGTERM);
}

/// Its tables are made when it is attached, and flows are in them.
#[test]
fn an_agent_reports_what_it_cannot_change_of_what_it_takes_over() {
    if !is_root_or_skip("an_agent_reports_what_it_cannot_change_of_what_it_takes_over") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    let words = ["--flows", "1000", "--store-mib", "32", "--idle-timeout-s", "600"];
    net.agent_with(&file, &words, "under control").end(libc::SIGKILL);
    let mut agent = talker_with(&net, &file, &["--store-mib", "32", "--clock-hz", "1000"]);
    let complaint = agent.complaint();
    let words = "r1 keeps --flows 1000 --clock-hz 2000 --idle-timeout-s 600, ";
    assert!(complaint.contains(words) && complaint.contains("`windlass detach r1`"), "{complaint}");
    agent.end(libc::SIGTERM);
}

/// Before tcx no link shows that the interface is gone; nor is there one here.
#[test]
fn without_links_what_is_pinned_for_an_interface_that_is_gone_is_removed() {
    if !is_root_or_skip("without_links_what_is_pinned_for_an_interface_that_is_gone_is_removed") {
        return;
    }
    let (net, folder, mut agent) = of_both();
    agent.end(libc::SIGKILL);
    for link in ["link1", "link2"].map(|link| net.pins().join(link)).iter().filter(|link| link.exists()) {
        fs::remove_file(link).expect("a link");
    }
    net.middle.run(&["ip", "link", "del", "r1"]).expect("iproute2");
    let mut agent = talker(&net, &policy(folder.path(), "bbr"));
    until("nothing is pinned any more", || {
        assert!(agent.is_running(), "the agent goes on");
        !net.pins().exists()
    });
    let is_pinned = |iface| net.pins_of(iface).exists();
    assert!(is_pinned("r2"), "which is another agent's");
    agent.end(libc::SIGTERM);
    net.answer(&["detach", "--all"]);
}

/// Udev and administrators give interfaces other names, and the policy may have other rules for those.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_interface_with_another_name_is_controlled_under_that() {
    if !is_root_or_skip("an_interface_with_another_name_is_controlled_under_that") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[[rule]]\nname = \"all\"\nmatch.iface = \"r[19]\"\nalgorithm = \"bbr\"\n";
    let file = put(folder.path(), text);
    let rename = |name: &str, other: &str| {
        net.middle.run(&["ip", "link", "set", name, "down"]).expect("iproute2");
        net.middle.run(&["ip", "link", "set", name, "name", other, "up"]).expect("iproute2");
    };
    let is_pinned = |name: &str| net.pins_of(name).exists();
    let mut agent = talker(&net, &file);
    agent.says("r1: under control");
    rename("r1", "r9");
    agent.says("r1: the interface is called r9 now");
    agent.says("r9: under control");
    assert!(!is_pinned("r1") && net.clocks().len() == 2, "nothing is left under its old name");
    is_controlled(&net);
    // and while no agent is there
    agent.end(libc::SIGKILL);
    rename("r9", "r1");
    let mut agent = talker(&net, &file);
    agent.says("r1: under control");
    assert!(!is_pinned("r9") && net.clocks().len() == 2, "nothing is left under its old name");
    is_controlled(&net);
    agent.end(libc::SIGTERM);
    assert!(net.clocks().is_empty() && !is_pinned("r1"), "released");
}

/// What cannot be read of one interface, as it is just being taken under control, is no reason not to look at the others.
#[test]
fn what_is_pinned_in_part_is_in_nobodys_way() {
    if !is_root_or_skip("what_is_pinned_in_part_is_in_nobodys_way") {
        return;
    }
    let (net, _folder, mut agent) = of_both();
    agent.end(libc::SIGKILL);
    // as if killed just before it noted whose pins these are
    fs::remove_file(net.record_of("r2", "")).expect("its record");
    fs::remove_file(net.pins_of("r2").join("state")).expect("which is among the pins, too");
    for words in [&["flows", "--json"][..], &["counters", "--json"], &["top", "--json", "--count", "1"]] {
        net.answer(words);
    }
    assert!(
        net.answer(&["counters", "--all"]).contains("r1")
            && !net.answer(&["counters", "--all"]).contains("r2")
    );
    let out = net.windlass(&["counters", "r2"]).output().expect("windlass runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("the next agent makes it anew"), "{said}");
    net.answer(&["detach", "--all"]);
}

/// As with a full disk: people see numbers then.
#[test]
fn rules_are_in_force_though_their_names_cannot_be_noted() {
    if !is_root_or_skip("rules_are_in_force_though_their_names_cannot_be_noted") {
        return;
    }
    let net = Net::create("cubic");
    let in_the_way = net.record(":rules");
    fs::create_dir_all(&in_the_way).expect("a folder where a file should be");
    let folder = tempfile::tempdir().expect("a folder");
    let mut agent = talker(&net, &policy(folder.path(), "bbr"));
    agent.says("r1: under control");
    policy(folder.path(), "cubic");
    agent.says("in force");
    agent.end(libc::SIGTERM);
    fs::remove_dir(&in_the_way).expect("it is there");
}

/// The agent may get the order to take it back before it has noticed.
#[test]
fn a_hangup_takes_back_what_was_released_just_before() {
    if !is_root_or_skip("a_hangup_takes_back_what_was_released_just_before") {
        return;
    }
    let (net, _folder, mut agent) = of_both();
    stop(&agent);
    net.answer(&["detach", "r1"]);
    agent.signal(libc::SIGHUP);
    agent.signal(libc::SIGCONT);
    agent.says("in force");
    agent.says("r1: under control");
    agent.end(libc::SIGTERM);
}
