//! Connections that send nothing for long.

use crate::{
    control::{policy, release},
    net::Net,
};
use serde_json::Value;
use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};
use windlass_tests::is_root_or_skip;

/// Much longer than anything takes on a busy machine, and shorter than what is forgotten unless configured otherwise.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_flow_idle_for_longer_than_configured_is_forgotten_and_then_only_watched() {
    if !is_root_or_skip("a_flow_idle_for_longer_than_configured_is_forgotten_and_then_only_watched") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    // of so few flows each has its turn every few milliseconds
    let words = ["--flows", "16", "--idle-timeout-s", "2"];
    let agent = net.agent_with(&policy(folder.path(), "bbr"), &words, "under control");
    let counter = |name: &str| {
        let document: Value = serde_json::from_str(&net.answer(&["counters", "--json"])).expect("JSON");
        document["counters"]["r1"][name].as_u64().expect("a number")
    };
    let begin = Instant::now();
    let until = |name: &str| {
        while counter(name) == 0 {
            assert!(begin.elapsed() < LIMIT, "{name}");
        }
    };
    let [mut server, mut client] = net.idle_connections(1).remove(0);
    until("flows_expired");
    assert!(begin.elapsed() >= Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!((counter("flows_created"), counter("flows_mid_stream")), (1, 0));
    assert_eq!(net.flows(), Vec::<Value>::new());
    server.write_all(&[7; 1000]).expect("sent");
    client.read_exact(&mut [0; 1000]).expect("received");
    until("flows_mid_stream");
    let flows = net.flows();
    assert!(flows.len() == 1 && flows[0]["only_watched"] == "foreign", "{flows:?}");
    release(&net, agent);
}
