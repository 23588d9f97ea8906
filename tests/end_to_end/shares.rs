//! Silent clients of one server do not take store and flow table from another server's.

use crate::{
    control::{policy, release},
    net::{Net, with_transfer},
};
use serde_json::Value;
use std::{
    io::Write,
    net::{TcpListener, TcpStream},
};
use windlass_tests::{is_root_or_skip, process::until};

const STORE_MIB: u64 = 4;
/// Their first windows of 14 kB, in blocks of 4 KiB, are more than the store.
const SILENT: usize = 400;
const OTHER_SERVER: &str = "10.79.1.3";
const OTHER_PORT: u16 = 7001;

/// What `windlass counters` has of the box's interface, under that key.
fn number(net: &Net, table: &str, name: &str) -> u64 {
    let document: Value = serde_json::from_str(&net.answer(&["counters", "--json"])).expect("JSON");
    document[table]["r1"][name].as_u64().unwrap_or_else(|| panic!("{name} in {document}"))
}

/// Connections to another server, whose client sends nothing from the server's first byte on.
fn silent_connections(net: &Net) -> Vec<[TcpStream; 2]> {
    let address = format!("{OTHER_SERVER}/24");
    net.server.run(&["ip", "addr", "add", &address, "dev", "eth0"]).expect("iproute2");
    let listener =
        net.server.enter(|| Ok(TcpListener::bind((OTHER_SERVER, OTHER_PORT))?)).expect("a free port");
    let connect = |_| {
        let client = net.client.enter(|| Ok(TcpStream::connect((OTHER_SERVER, OTHER_PORT))?));
        [listener.accept().expect("the client").0, client.expect("a connection")]
    };
    let mut all: Vec<[TcpStream; 2]> = (0..SILENT).map(connect).collect();
    net.client.run(&["ip", "route", "add", "blackhole", OTHER_SERVER]).expect("iproute2");
    for [server, _] in &mut all {
        server.write_all(&[7; 30_000]).expect("room in the socket");
    }
    all
}

/// The flow of the transfer.
fn victim(net: &Net) -> Value {
    let flows = net.flows();
    let is_victim = |flow: &&Value| flow["sender"].as_str().is_some_and(|s| s.starts_with("10.79.1.2:"));
    flows.iter().find(is_victim).cloned().expect("it is there")
}

#[test]
fn a_flow_keeps_its_share_of_the_store_beside_silent_connections_of_another_server() {
    let test = "a_flow_keeps_its_share_of_the_store_beside_silent_connections_of_another_server";
    if !is_root_or_skip(test) {
        return;
    }
    let net = Net::create("cubic");
    net.bottleneck();
    let folder = tempfile::tempdir().expect("a folder");
    let policy = policy(folder.path(), "bbr");
    let store_mib = STORE_MIB.to_string();
    let words = ["--store-mib", &store_mib, "--flows", "2048"];
    let mut agent = net.agent_with(&policy, &words, "under control");
    let silent = silent_connections(&net);
    until("the store is used up", || {
        number(&net, "counters", "bypass_store_full") + number(&net, "counters", "bypass_store_share") > 0
    });
    with_transfer(&net, |progress| {
        let is_bypassed = || {
            progress();
            victim(&net)["state"] != "active"
        };
        let seen = (0..5).filter(|_| is_bypassed()).count();
        // a tail of a burst may be the server's own to repair for a moment
        assert!(seen <= 1, "{seen} of 5 times it was left to its server");
        let repaired = victim(&net)["repaired_segs"].as_u64().expect("a number");
        until("a repair", || {
            progress();
            victim(&net)["repaired_segs"].as_u64().expect("a number") > repaired
        });
        let by_server: Value =
            serde_json::from_str(&net.answer(&["flows", "--by", "server", "--json"])).expect("JSON");
        let accounts = by_server["interfaces"][0]["accounts"].as_array().expect("a list");
        let other = accounts.iter().find(|a| a["server"] == OTHER_SERVER).expect("it has flows");
        assert!(
            other["flows"] == SILENT && other["held_bytes"].as_u64() < Some(STORE_MIB << 20),
            "{by_server}"
        );
        assert!(net.answer(&["flows", "--by", "client"]).contains("10.79.2.2"));
    });
    // whose clients are silent give back what they hold
    until("chunks are reclaimed", || number(&net, "counters", "bypass_reclaimed") > 0);
    // whichever is the agent
    agent.end(libc::SIGKILL);
    let agent = net.agent(&policy, "taken over");
    until("shares are what flows hold", || {
        let held: u64 = net.flows().iter().map(|f| f["held_bytes"].as_u64().expect("a number")).sum();
        let flows = net.flows().len() as u64;
        (number(&net, "use", "store_used_bytes"), number(&net, "use", "flows_used")) == (held, flows)
    });
    drop(silent);
    release(&net, agent);
}
