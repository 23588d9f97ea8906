//! What is reported of a run in intervals.

use crate::{network::Network, time::seconds};
use windlass_scenario::{Intervals, Scenario};

/// Looks at flows and links at equal intervals. That needs no events, so it cannot change a run.
#[derive(Debug)]
pub(super) struct Sampler {
    pub(super) due_ns: u64,
    every_ns: u64,
    /// Payload of each flow at the last look.
    arrived_bytes: Vec<u64>,
    /// Directions of links that are looked at.
    links: Vec<usize>,
    pub(super) intervals: Intervals,
}

impl Sampler {
    pub(super) fn new(every_ns: u64, scenario: &Scenario) -> Sampler {
        let links: Vec<usize> =
            (0..2 * scenario.links.len()).filter(|i| scenario.links[i / 2].is_emulated()).collect();
        let flows = scenario.flows.len();
        let intervals = Intervals {
            every_s: seconds(every_ns),
            flow_bytes: vec![Vec::new(); flows],
            link_packets: vec![Vec::new(); links.len()],
        };
        Sampler { due_ns: every_ns, every_ns, arrived_bytes: vec![0; flows], links, intervals }
    }

    pub(super) fn take(&mut self, now_ns: u64, net: &Network, arrived_bytes: &[u64]) {
        for ((arrived, bytes), last) in
            arrived_bytes.iter().zip(&mut self.intervals.flow_bytes).zip(&mut self.arrived_bytes)
        {
            bytes.push(arrived - *last);
            *last = *arrived;
        }
        for (&link, packets) in self.links.iter().zip(&mut self.intervals.link_packets) {
            packets.push(net.links[link].model.queued_packets(now_ns) as u32);
        }
        self.due_ns += self.every_ns;
    }
}
