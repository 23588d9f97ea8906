//! Commands that only look at what is under control: filters of flows, rates of counters, an interface's doctor, and what another
//! policy would change.

use crate::{
    control::{put, with_talker},
    foreign::{accepting, attach_first},
    net::{Net, with_transfer},
};
use serde_json::Value;
use windlass_tests::is_root_or_skip;

fn document(net: &Net, words: &[&str]) -> Value {
    serde_json::from_str(&net.answer(words)).expect("JSON")
}

/// The verdict, and all that speaks against full control.
fn doctor(net: &Net, iface: &str) -> (String, String) {
    let out = net.windlass(&["doctor", iface, "--json"]).output().expect("windlass runs");
    let found: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let verdict = found["verdict"].as_str().expect("a word").to_string();
    assert_eq!(out.status.code(), Some(i32::from(verdict == "off")), "{found}");
    (verdict, found["reasons"].to_string())
}

#[test]
fn commands_that_look_show_the_flow_of_a_transfer_and_change_nothing() {
    if !is_root_or_skip("commands_that_look_show_the_flow_of_a_transfer_and_change_nothing") {
        return;
    }
    let (net, folder, file, mut agent) = with_talker("bbr");
    let file = file.to_str().expect("UTF-8");
    assert_eq!(net.answer(&["flows"]), "no flow\n");
    assert_eq!(doctor(&net, "r1").0, "full", "{}", doctor(&net, "r1").1);
    with_transfer(&net, |progress| {
        let flow = net.flows().remove(0);
        let receiver = flow["receiver"].as_str().expect("an address");
        assert_eq!((&flow["rule_name"], flow["rcv_wscale"].is_u64()), (&"all".into(), true), "{flow}");
        let filter =
            ["flows", "state", "controlled", "and", "rule", "all", "sport", "7000", "and", "dst", receiver];
        let table = net.answer(&[&filter[..], &["--columns", "receiver,rule"]].concat());
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows, [["receiver", "rule"], [receiver, "all"]]);
        assert_eq!(net.answer(&["flows", "state", "off"]), "no flow matches\n");
        assert_eq!(document(&net, &["flows", "sport", "1", "--json"])["flows"], serde_json::json!([]));
        let looks =
            net.answer(&["counters", "r1", "--watch", "--json", "--interval-ms", "100", "--count", "2"]);
        let looks: Vec<Value> = looks.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let rate = |look: &Value| look["datapaths"][0]["per_s"]["packets_from_sender"].as_f64();
        assert!(looks.len() == 2 && looks.iter().all(|look| rate(look) > Some(0.0)), "{looks:?}");
        assert_eq!(doctor(&net, "r1").0, "full", "{}", doctor(&net, "r1").1);
        let (verdict, why) = doctor(&net, "r2");
        assert!(verdict == "off" && why.contains("no agent") && why.contains("side of the clients"), "{why}");
        let other = folder.path().join("other.toml");
        std::fs::write(&other, "[[rule]]\nname = \"all\"\nmatch.iface = \"r*\"\nmode = \"watch\"\n")
            .expect("room");
        let other = other.to_str().expect("UTF-8");
        let changes = document(&net, &["policy", "diff", file, other, "--json"]);
        assert_eq!((&changes["flows"][0]["before"], &changes["flows_seen"]), (&"all: bbr".into(), &1.into()));
        let places: Vec<_> =
            changes["interfaces"].as_array().expect("a list").iter().map(|c| &c["change"]).collect();
        assert_eq!(places, ["rules", "attached"], "{changes}");
        let plan = document(&net, &["agent", "--policy", other, "--dry-run", "--json"]);
        let steps: Vec<_> =
            plan["interfaces"].as_array().expect("a list").iter().map(|step| &step["does"]).collect();
        assert_eq!(steps, ["refuse", "attach"], "{plan}");
        assert_eq!(net.flows()[0]["mode"], "transparent");
        progress();
    });
    let program = accepting();
    if let Some(_link) = attach_first(&net, &program) {
        let (verdict, why) = doctor(&net, "r1");
        assert!(verdict == "partial" && why.contains("foreign runs before Windlass' programs"), "{why}");
    }
    put(folder.path(), "[[rule]]\nname = \"all\"\nmatch.iface = \"nosuch\"\nalgorithm = \"bbr\"\n");
    agent.says("r1: released");
    assert!(net.answer(&["flows"]).contains("no interface of this network namespace"));
    agent.end(libc::SIGTERM);
}
