//! Two VLANs behind one trunk, of tenants that know nothing of each other and chose the same addresses and ports.
//!
//!     server 42 --- switch --- (trunk) box --- client 42
//!     server 43 ---'                      `--- client 43

use crate::site::{Missing, Possibly, bridge, cable, feature, ok, run_at, sysctl};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    thread,
};
use windlass_lab::{
    BoxProcess,
    netns::{self, Netns},
    tcp_counters,
};
use windlass_tests::{is_root_or_skip, process::LIMIT, windlass_path};

const SERVER: &str = "10.82.0.1";
const CLIENT: &str = "10.82.0.2";
const PORT: u16 = 7000;
const CLIENT_PORT: u16 = 40_000;
const BYTES: usize = 4_000_000;
/// Sections of bpf/tests/tagger.bpf.c, one for each VLAN.
const TAGGERS: [&str; 2] = ["tc", "other"];

struct Tenant {
    server: Netns,
    client: Netns,
    /// Differs from tenant to tenant.
    seed: u8,
}

impl Tenant {
    /// A connection of the client, the server's end first.
    fn connect(&self) -> [TcpStream; 2] {
        let listener = self.server.enter(|| Ok(TcpListener::bind((SERVER, PORT))?)).expect("a free port");
        let client = self.client.enter(|| Ok(TcpStream::connect((SERVER, PORT))?)).expect("a connection");
        let ends = [listener.accept().expect("a connection").0, client];
        for end in &ends {
            end.set_read_timeout(Some(LIMIT)).expect("a timeout");
            end.set_write_timeout(Some(LIMIT)).expect("a timeout");
        }
        assert_eq!(ends[1].local_addr().expect("an address").to_string(), format!("{CLIENT}:{CLIENT_PORT}"));
        ends
    }

    fn bytes(&self) -> Vec<u8> {
        (0..BYTES).map(|i| (i ^ i >> 8 ^ i >> 16) as u8 ^ self.seed).collect()
    }

    /// Data that the server's kernel retransmitted.
    fn retrans_segs(&self) -> u64 {
        tcp_counters(&self.server).expect("counters")["RetransSegs"]
    }
}

/// The tenants, and the box between their servers and clients.
fn build() -> Possibly<(Vec<Tenant>, Netns, Netns)> {
    let run = netns::next_run();
    let create = |host: &str| Netns::create(run, host).unwrap_or_else(|e| panic!("{e:#}"));
    let (switch, middle) = (create("switch"), create("bridge"));
    let tenant = |i, seed| Tenant {
        server: create(&format!("server{i}")),
        client: create(&format!("client{i}")),
        seed,
    };
    let tenants = vec![tenant(0, 0), tenant(1, 0xff)];
    cable(&middle, "trunk", &switch, "uplink");
    let (mut inner, mut outer) = (vec!["uplink".to_string()], vec!["trunk".to_string()]);
    for (i, (tenant, tagger)) in tenants.iter().zip(TAGGERS).enumerate() {
        let port = format!("port{i}");
        cable(&tenant.server, "eth0", &switch, &port);
        cable(&tenant.client, "eth0", &middle, &port);
        for (host, address) in [(&tenant.server, SERVER), (&tenant.client, CLIENT)] {
            ok(host, &["ip", "addr", "add", &format!("{address}/24"), "dev", "eth0"]);
            run_at(host, "eth0", &["ingress", "egress"], tagger)?;
        }
        // or one loss would be of many segments
        let one_by_one = ["ip", "link", "set", "eth0", "gso_max_segs", "1"];
        feature(&tenant.server, "segments one by one", &one_by_one)?;
        let ports = format!("{CLIENT_PORT} {CLIENT_PORT}");
        sysctl(&tenant.client, "net/ipv4/ip_local_port_range", &ports)
            .map_err(|e| Missing(format!("a port of one's own: {e}")))?;
        run_at(&middle, &port, &["egress"], "loss")?;
        inner.push(port.clone());
        outer.push(port);
    }
    bridge(&switch, &inner)?;
    bridge(&middle, &outer)?;
    Ok((tenants, switch, middle))
}

/// The first has the name, and is controlled; the other is left alone, and none of its bytes get to the first, nor the other way.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn tenants_with_the_same_addresses_and_ports() {
    let test = "tenants_with_the_same_addresses_and_ports";
    if !is_root_or_skip(test) {
        return;
    }
    let (tenants, _switch, middle) = match build() {
        Ok(built) => built,
        Err(Missing(why)) => return println!("skipped: {test}: {why}"),
    };
    let args = ["--alg", "bbr", "--paced-servers", "control"].map(String::from);
    let windlass: &Path = &windlass_path();
    let process = BoxProcess::start(&middle, windlass, "trunk", &args).unwrap_or_else(|e| panic!("{e:#}"));
    let mut connections: Vec<_> = tenants.iter().map(Tenant::connect).collect();
    thread::scope(|scope| {
        for (tenant, [server, client]) in tenants.iter().zip(&mut connections) {
            let expected = tenant.bytes();
            let sent = expected.clone();
            scope.spawn(move || server.write_all(&sent).expect("sent"));
            scope.spawn(move || {
                let mut got = vec![0; BYTES];
                client.read_exact(&mut got).expect("received");
                let differs = got.iter().zip(&expected).position(|(a, b)| a != b);
                assert_eq!(differs, None, "the first byte that is another");
            });
        }
    });
    let (counters, _) = process.finish().unwrap_or_else(|e| panic!("{e:#}"));
    assert_eq!(counters["flows_created"], 1, "{counters:#?}");
    assert!(counters["pass_other_vlan"] > 0, "{counters:#?}");
    assert!(counters["repaired_segs"] > 0, "{counters:#?}");
    assert!(tenants[1].retrans_segs() > 0, "its losses are its server's to repair");
}
