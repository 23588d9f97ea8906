//! Names of interfaces: alternative ones, those of clocks that another program chose, and those of interfaces that cannot be controlled.

use crate::{
    control::{attached_with, put, talker},
    net::Net,
};
use std::path::Path;
use windlass_tests::{is_root_or_skip, process::Process};

/// Longer than the name by which an interface is listed can be.
const OTHER_NAME: &str = "the-side-of-the-servers";

fn rule(iface: &str) -> String {
    format!("[[rule]]\nname = \"all\"\nmatch = {{ iface = \"{iface}\" }}\nalgorithm = \"bbr\"\n")
}

fn ip(net: &Net, words: &str) {
    net.middle.run(&words.split(' ').collect::<Vec<_>>()).expect("iproute2");
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_interface_is_controlled_and_released_by_an_alternative_name() {
    if !is_root_or_skip("an_interface_is_controlled_and_released_by_an_alternative_name") {
        return;
    }
    let net = Net::create("cubic");
    ip(&net, &format!("ip link property add dev r1 altname {OTHER_NAME}"));
    ip(&net, "ip link property add dev r1 altname side0");
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["side*", OTHER_NAME] {
        let mut agent = talker(&net, &put(folder.path(), &rule(name)));
        agent.says("r1: under control");
        agent.signal(libc::SIGHUP);
        agent.says("in force");
        assert!(net.answer(&["counters", OTHER_NAME]).contains("rounds of the clock"));
        net.answer(&["detach", "side0"]);
        assert_eq!(agent.wait().code(), Some(2), "nothing is left");
    }
    let words = ["attach", OTHER_NAME, "--json", "--sample-ms", "20"];
    let mut attach = Process::start(&mut net.windlass(&words));
    assert_eq!(attach.event("attached")["iface"], "r1");
    // it goes on after it has looked what the interface is called
    let ticks = |attach: &Process| attach.event("sample")["t_ms"].as_u64().expect("a time");
    while ticks(&attach) < 1500 {}
    attach.end(libc::SIGINT);
}

/// Nothing but its name makes it a clock's.
#[test]
fn a_device_of_another_program_that_has_a_clocks_name_is_left_alone() {
    if !is_root_or_skip("a_device_of_another_program_that_has_a_clocks_name_is_left_alone") {
        return;
    }
    let net = Net::create("cubic");
    ip(&net, "ip link add wlc4242a type bridge");
    ip(&net, "ip link add wlc4243a type veth peer name other");
    let is_there = |name: &str| net.clocks().iter().any(|clock| clock.trim_end_matches(':') == name);
    let (mut attach, _) = attached_with(&net, &[]);
    attach.end(libc::SIGINT);
    net.answer(&["detach", "--all"]);
    assert!(is_there("wlc4242a") && is_there("wlc4243a"), "{:?}", net.clocks());
    // and where it is in the way, that is reported
    let index =
        net.middle.enter(|| Ok(windlass_agent::interface_index("r1"))).expect("its index").expect("r1");
    let name = format!("wlc{index}a");
    ip(&net, &format!("ip link add {name} type bridge"));
    let out = net.windlass(&["attach", "r1"]).output().expect("windlass runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains(&format!("ip link set {name} name")), "{said}");
    assert!(is_there(&name));
}

fn refusal(net: &Net, policy: &Path) -> (Option<i32>, String) {
    let words = ["agent", "--policy", policy.to_str().expect("UTF-8")];
    let out = net.windlass(&words).output().expect("windlass runs");
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_interface_without_ethernet_frames_that_a_policy_names_is_refused() {
    if !is_root_or_skip("an_interface_without_ethernet_frames_that_a_policy_names_is_refused") {
        return;
    }
    let net = Net::create("cubic");
    if net.middle.run(&["ip", "tuntap", "add", "mode", "tun", "name", "tun0"]).is_err() {
        return println!(
            "skipped: an_interface_without_ethernet_frames_that_a_policy_names_is_refused: no TUN"
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["tun0", "tun*"] {
        let (code, said) = refusal(&net, &put(folder.path(), &rule(name)));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("'tun0' carries no Ethernet frames") && !said.contains("matches"), "{said}");
    }
    // a policy of all interfaces is of those that can be controlled
    let mut agent = talker(&net, &put(folder.path(), &rule("*")));
    agent.says("r2: under control");
    agent.end(libc::SIGTERM);
    assert_eq!(agent.complaints(), Vec::<String>::new());
}
