//! Records of flows: they outlive the agent that reads them, their sums are the counters, and what is lost is counted.

use crate::{
    control::{policy, release},
    net::Net,
};
use serde_json::Value;
use std::{cell::RefCell, fs, path::Path, rc::Rc, time::Duration};
use windlass_agent::{Pinned, RecordReader};
use windlass_tests::{is_root_or_skip, process::until};

/// What each of the connections carries.
const BYTES: u64 = 64 << 10;
/// A ring of one page has room for so many.
const IN_A_PAGE: usize = 5;

fn records(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("records.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn counter(net: &Net, name: &str) -> u64 {
    let document: Value = serde_json::from_str(&net.answer(&["counters", "--json"])).expect("JSON");
    document["counters"]["r1"][name].as_u64().expect("a counter")
}

/// Connections that begin, carry something and end.
fn short_flows(net: &Net, count: usize) {
    let before = counter(net, "flows_closed");
    drop(net.idle_connections(count));
    until("the flows have ended", || counter(net, "flows_closed") == before + count as u64);
}

#[test]
fn records_outlive_the_agent_and_add_up_to_the_counters() {
    if !is_root_or_skip("records_outlive_the_agent_and_add_up_to_the_counters") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "cubic");
    let out = folder.path().join("records");
    let words = ["--records", out.to_str().expect("UTF-8")];
    let mut agent = net.agent_with(&file, &words, "under control");
    until("ledgers are kept", || {
        let pinned = net.middle.enter(|| Ok(Pinned::open("r1")?)).expect("it is pinned");
        pinned.keeps_records().expect("readable")
    });
    short_flows(&net, 5);
    until("records of five flows", || records(&out).len() == 5);
    agent.end(libc::SIGKILL);
    short_flows(&net, 3);
    assert_eq!(records(&out).len(), 5, "no agent reads");
    agent = net.agent_with(&file, &words, "taken over");
    until("records of all flows", || records(&out).len() == 8);

    let all = records(&out);
    let sum = |name: &str| -> u64 { all.iter().map(|r| r[name].as_u64().expect("a number")).sum() };
    let numbers: Vec<_> = all.iter().map(|r| r["number"].as_u64()).collect();
    assert_eq!(numbers, (1..=8).map(Some).collect::<Vec<_>>(), "none is lost, and none twice");
    assert_eq!(sum("delivered_bytes"), 8 * BYTES);
    for (field, name) in [
        ("lost_segs", "lost_segs"),
        ("repaired_segs", "repaired_segs"),
        ("sender_absorbed_segs", "sender_retrans_absorbed"),
        ("timeouts", "timeouts"),
    ] {
        assert_eq!(sum(field), counter(&net, name), "{field}");
    }
    assert_eq!(counter(&net, "flow_records"), counter(&net, "flows_closed"));
    assert_eq!(counter(&net, "flow_records_lost"), 0);
    for record in &all {
        assert_eq!((&record["iface"], &record["end"]), (&"r1".into(), &"fin".into()), "{record}");
        assert_eq!(record["rule_name"], "all", "{record}");
        let limited: u64 =
            record["limited_us"].as_object().expect("by name").values().filter_map(Value::as_u64).sum();
        assert_eq!(Some(limited), record["duration_us"].as_u64(), "{record}");
    }
    let shown = net.answer(&["records", out.to_str().expect("UTF-8"), "--json"]);
    assert_eq!(shown.lines().count(), 8, "{shown}");
    release(&net, agent);
}

#[test]
fn records_that_find_no_room_in_the_ring_are_counted() {
    if !is_root_or_skip("records_that_find_no_room_in_the_ring_are_counted") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let agent = net.agent(&policy(folder.path(), "cubic"), "under control");
    let pinned = net.middle.enter(|| Ok(Pinned::open("r1")?)).expect("it is pinned");
    let ring = pinned.make_records(4096).expect("a small ring");
    short_flows(&net, 8);
    assert_eq!(pinned.records_made().expect("readable"), (8, 8 - IN_A_PAGE as u64));
    assert_eq!(counter(&net, "flow_records_lost"), 8 - IN_A_PAGE as u64);
    let taken = Rc::new(RefCell::new(Vec::new()));
    let noted = taken.clone();
    let reader =
        RecordReader::new(ring, move |record| noted.borrow_mut().push((record.number, record.records_lost)));
    let reader = reader.expect("a reader");
    reader.wait(Duration::ZERO).expect("readable");
    short_flows(&net, 1);
    reader.wait(Duration::ZERO).expect("readable");
    let expected = [(1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (9, 3)];
    assert_eq!(*taken.borrow(), expected, "numbers have a gap where records were lost");
    drop(reader);
    pinned.end_records().expect("switched off");
    short_flows(&net, 1);
    assert_eq!(pinned.records_made().expect("readable").0, 9, "none is made without a reader");
    release(&net, agent);
}
