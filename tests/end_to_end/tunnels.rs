//! A tunnel whose key stands beside each packet: VXLAN in collect-metadata mode, as switches have it for many tenants.
//!
//!     server --- vx0 === underlay === vx0 (box) client

use crate::site::{Missing, Possibly, cable, feature, ok};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    thread,
};
use windlass_lab::{
    BoxProcess,
    netns::{self, Netns},
};
use windlass_tests::{is_root_or_skip, process::LIMIT, windlass_path};

const BYTES: usize = 300_000;
const MACS: [&str; 2] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];

fn address(host: usize) -> String {
    format!("10.83.0.{}", host + 1)
}

/// Server and client, each with its end of the tunnel, which has a key of its own for each route.
fn build() -> Possibly<[Netns; 2]> {
    let run = netns::next_run();
    let hosts = ["server", "client"].map(|h| Netns::create(run, h).unwrap_or_else(|e| panic!("{e:#}")));
    cable(&hosts[0], "under", &hosts[1], "under");
    for (i, host) in hosts.iter().enumerate() {
        let other = 1 - i;
        ok(host, &["ip", "addr", "add", &format!("10.84.0.{}/24", i + 1), "dev", "under"]);
        let tunnel = ["ip", "link", "add", "vx0", "type", "vxlan", "external", "dstport", "4789"];
        feature(host, "VXLAN with metadata", &tunnel)?;
        ok(host, &["ip", "link", "set", "vx0", "address", MACS[i], "mtu", "1400", "up"]);
        ok(host, &["ip", "addr", "add", &format!("{}/24", address(i)), "dev", "vx0"]);
        ok(host, &["ip", "neigh", "add", &address(other), "lladdr", MACS[other], "dev", "vx0"]);
        let (to, underlay) = (format!("{}/32", address(other)), format!("10.84.0.{}", other + 1));
        let route = ["ip", "route", "add", &to, "encap", "ip", "id", "100", "dst", &underlay, "dev", "vx0"];
        feature(host, "routes with a tunnel's key", &route)?;
    }
    Ok(hosts)
}

/// The box cannot give the key to packets of its own, and tenants of two keys may have one name: such connections are only watched.
#[test]
fn connections_in_a_tunnel_with_metadata_are_only_watched() {
    let test = "connections_in_a_tunnel_with_metadata_are_only_watched";
    if !is_root_or_skip(test) {
        return;
    }
    let [server, client] = match build() {
        Ok(built) => built,
        Err(Missing(why)) => return println!("skipped: {test}: {why}"),
    };
    let args = ["--alg", "bbr"].map(String::from);
    let windlass: &Path = &windlass_path();
    let process = BoxProcess::start(&client, windlass, "vx0", &args).unwrap_or_else(|e| panic!("{e:#}"));
    let listener = server.enter(|| Ok(TcpListener::bind((address(0), 7000))?)).expect("a free port");
    let mut end = client.enter(|| Ok(TcpStream::connect((address(0), 7000))?)).expect("a connection");
    end.set_read_timeout(Some(LIMIT)).expect("a timeout");
    let sent: Vec<u8> = (0..BYTES).map(|i| (i ^ i >> 8) as u8).collect();
    let mut got = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| listener.accept().expect("a connection").0.write_all(&sent).expect("sent"));
        end.read_to_end(&mut got).expect("received");
    });
    assert!(got == sent, "{} of {BYTES} bytes", got.len());
    let (counters, _) = process.finish().unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!((counters["flows_created"], counters["flows_watch_only"]), (1, 1), "{counters:#?}");
    assert_eq!((counters["stored_bytes"], counters["window_rewritten"]), (0, 0), "{counters:#?}");
}
