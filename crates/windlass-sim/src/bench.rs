//! How fast the simulator is: packet-hops per second of real time, one core, over loads of known size. And how many idle
//! connections fit into memory.

use crate::{Config, Ecn, RunOptions, SimError, memory, run};
use serde::Serialize;
use std::{sync::atomic::AtomicBool, time::Instant};
use windlass_scenario::Scenario;

const IDLE_CONNECTIONS: usize = 10_000;

/// Something to simulate.
#[derive(Clone, Debug)]
pub struct Load {
    /// Its name.
    pub name: String,
    /// Connections in it.
    pub connections: usize,
    scenario: Scenario,
    config: Config,
}

/// What a load cost.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Which load.
    pub load: String,
    /// Connections in it.
    pub connections: usize,
    /// Links crossed by packets, or died on.
    pub hops: u64,
    /// Virtual time that it took.
    pub simulated_s: f64,
    /// Real time that it took.
    pub seconds: f64,
    /// Packet-hops per second of real time.
    pub hops_per_s: f64,
    /// Retransmission timeouts in it: what kind of load it was.
    pub timeouts: u64,
    /// Whether all flows have finished.
    pub is_complete: bool,
}

impl Cost {
    /// Real time per packet-hop in ns.
    pub fn ns_per_hop(&self) -> f64 {
        1e9 / self.hops_per_s
    }
}

impl Load {
    fn new(name: &str, connections: usize, text: &str) -> Load {
        let scenario = Scenario::parse(name, text).unwrap_or_else(|e| panic!("{e}"));
        Load { name: name.into(), connections, scenario, config: Config::default() }
    }

    /// What does not fit into caches: a fat-tree with k = 16, whose 1024 hosts send 1 MB each, and a GB over 80,000 connections.
    pub fn large() -> Vec<Load> {
        let shared_out = Load { name: "large-shared-out-80000".into(), ..Load::shared_out(80_000) };
        vec![Load::fat_tree("large-fat-tree", 16, 1_000_000), shared_out]
    }

    /// The loads that are compared with ns-3 (`benches/ns3`): five flows over a switch, an incast of 40 hosts with 25
    /// connections each, and a fat-tree whose 128 hosts send 10 MB each.
    pub fn compared() -> Vec<Load> {
        vec![Load::five_flows(), Load::incast(1000), Load::fat_tree("fat-tree", 8, 10_000_000)]
    }

    /// The same amount of data over ever more connections.
    pub fn growing() -> Vec<Load> {
        [10, 100, 1000, 4000].map(Load::shared_out).into()
    }

    /// Ten thousand connections, each of which transfers 20 kB within the first four seconds and the same once more after a
    /// pause of four to eight: all are idle in between.
    pub fn idle() -> Load {
        let text = format!(
            "name = \"idle\"\ntime_limit = \"20 s\"\n[topology]\nshape = \"many-to-one\"\nsenders = 10\n\
             edge = {{ rate = \"1 Gbit/s\", delay = \"50 us\" }}\n\
             bottleneck = {{ rate = \"10 Gbit/s\", delay = \"50 us\", buffer = \"1 MB\" }}\n\
             [[flow]]\nfrom = \"sender-*\"\nto = \"receiver\"\ncount = {}\nstart = {{ uniform = [\"0 s\", \"4 s\"] }}\n\
             [[flow.train]]\ncount = 2\nsize = \"20 kB\"\ngap = {{ uniform = [\"4 s\", \"8 s\"] }}\n",
            IDLE_CONNECTIONS / 10
        );
        Load::new("idle", IDLE_CONNECTIONS, &text)
    }

    /// Five flows of 50 MB over one switch, all links 1 Gbit/s and 50 us, 100 packets of buffer.
    fn five_flows() -> Load {
        let mut text = String::from(
            "name = \"five-flows\"\n[topology]\nshape = \"many-to-one\"\nsenders = 5\n\
             edge = { rate = \"1 Gbit/s\", delay = \"50 us\" }\n\
             bottleneck = { rate = \"1 Gbit/s\", delay = \"50 us\", buffer = \"100 packets\" }\n",
        );
        (1..=5).for_each(|i| text += &flow(&format!("sender-{i}"), "receiver", 50_000_000, "reno"));
        Load::new("five-flows", 5, &text)
    }

    /// `n` connections of 40 hosts with 1 Gbit/s, 512 KB each, to one host with 10 Gbit/s; 1 MB of buffer.
    fn incast(n: usize) -> Load {
        Load::from_40("incast", n, 524_288, "buffer = \"1 MiB\"")
    }

    /// A GB over `n` connections; nothing is lost.
    fn shared_out(n: usize) -> Load {
        Load::from_40(&format!("shared-out-{n}"), n, 1_000_000_000 / n, "")
    }

    fn from_40(name: &str, connections: usize, size_bytes: usize, buffer: &str) -> Load {
        let mut text = format!(
            "name = \"{name}\"\n[topology]\nshape = \"many-to-one\"\nsenders = 40\n\
             edge = {{ rate = \"1 Gbit/s\", delay = \"50 us\" }}\n\
             bottleneck = {{ rate = \"10 Gbit/s\", delay = \"25 us\", {buffer} }}\n"
        )
        .replace(",  }", " }");
        for i in 0..connections {
            text += &flow(&format!("sender-{}", i % 40 + 1), "receiver", size_bytes, "reno");
        }
        Load::new(name, connections, &text)
    }

    /// Each host of a fat-tree sends so much to the host half the network further, by DCTCP.
    fn fat_tree(name: &str, k: usize, size_bytes: usize) -> Load {
        let mut text = format!(
            "name = \"{name}\"\n[topology]\nshape = \"fat-tree\"\nk = {k}\n\
             edge = {{ rate = \"10 Gbit/s\", delay = \"5 us\" }}\nfabric = {{ rate = \"10 Gbit/s\", delay = \"5 us\" }}\n\
             switch = {{ port_buffer = \"350 kB\", ecn = \"65 packets\" }}\n"
        );
        // k pods, k/2 edge switches in each, k/2 hosts at each
        let half = k / 2;
        let host =
            |i: usize| format!("host-{}-{}-{}", i / (half * half) % k + 1, i / half % half + 1, i % half + 1);
        let hosts = k * half * half;
        for i in 0..hosts {
            text += &flow(&host(i), &host(i + hosts / 2), size_bytes, "dctcp");
        }
        let config = Config { ecn: Ecn::Exact, ..Config::default() };
        Load { config, ..Load::new(name, hosts, &text) }
    }

    /// The most memory that it may take, as estimated before it begins.
    pub fn needed_bytes(&self) -> u64 {
        memory::needed_bytes(&self.scenario, &self.config, None)
    }

    /// Runs it once, unless `cancel` is set before the end.
    pub fn measure(&self, cancel: &AtomicBool) -> Result<Cost, SimError> {
        let options = RunOptions { config: self.config, cancel: Some(cancel), ..RunOptions::default() };
        let start = Instant::now();
        let outcome = run(&self.scenario, &options)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Cost {
            load: self.name.clone(),
            connections: self.connections,
            hops: outcome.count.hops,
            simulated_s: crate::time::seconds(outcome.ended_at_ns),
            seconds,
            hops_per_s: outcome.count.hops as f64 / seconds,
            timeouts: outcome.report.sender_timeouts,
            is_complete: outcome.report.is_complete(),
        })
    }
}

fn flow(from: &str, to: &str, size_bytes: usize, algorithm: &str) -> String {
    format!(
        "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nsize = \"{size_bytes} B\"\nalgorithm = \"{algorithm}\"\n"
    )
}
