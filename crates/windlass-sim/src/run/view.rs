//! What a viewer sees of a run in hand: connections that are open, queues on their way, and what was counted.

use super::Sim;
use crate::{fetch::Fetch, tap, tcp::Phase, topology::Hop};
use std::{collections::BTreeMap, net::SocketAddr};
use windlass_core::Flow;

/// An open connection.
#[derive(Clone, Debug)]
pub struct Connection<'a> {
    /// Number of its flow in the scenario.
    pub flow: usize,
    /// Its place among connections; one that begins later may have it.
    pub place: u32,
    /// When it took that place, modulo 2^32.
    pub since_us: u32,
    /// Hosts of its sender and its receiver.
    pub hosts: [&'a str; 2],
    /// Their addresses, as in the captures of a trace.
    pub addresses: [SocketAddr; 2],
    /// The sender's congestion control.
    pub algorithm: &'static str,
    /// The sender's congestion window.
    pub cwnd_bytes: u32,
    /// Rate at which the sender's data leaves; none: it is not paced.
    pub pacing_bytes_ps: Option<u64>,
    /// Payload of a full segment.
    pub mss_bytes: u32,
    /// Sent, not delivered and not lost, as the sender has it.
    pub inflight_bytes: u32,
    /// Smoothed round-trip time of the sender; 0: none was measured yet.
    pub srtt_us: u64,
    /// Smallest one; 0: none was measured yet.
    pub min_rtt_us: u64,
    /// Segments of data that the sender has retransmitted.
    pub sender_retrans_segs: u64,
    /// What has arrived at the receiver in order, with the heads of responses.
    pub received_bytes: u64,
    /// In the queues on the way from sender to receiver, whatever connections these packets are of.
    pub queued_packets: usize,
    /// What the box knows of it; none: there is none on its way, or it has nothing to do with it.
    pub boxed: Option<&'a Flow>,
}

impl<'a> Sim<'a> {
    /// Connections over which data may pass.
    pub(crate) fn connections(&self) -> impl Iterator<Item = Connection<'_>> {
        let is_open = |fetch: &Fetch| fetch.ends[1].phase() == Phase::Established && !fetch.is_over();
        (0u32..)
            .zip(&self.fetches)
            .filter(move |(_, fetch)| is_open(fetch))
            .map(|(place, fetch)| self.connection(place, fetch))
    }

    fn connection(&self, place: u32, fetch: &Fetch) -> Connection<'_> {
        let spec = &self.scenario.flows[fetch.session as usize];
        let [client, server] = &fetch.ends;
        let sender = &server.sender;
        let (mut to, mut queued_packets) = (spec.to.as_str(), 0);
        for step in server.path(&self.net.paths) {
            let Hop::Link(link) = step else { continue };
            let link = link as usize;
            queued_packets += self.net.links[link].model.queued_packets(self.net.now_ns);
            to = &self.scenario.links[link / 2].between[(link & 1) ^ 1];
        }
        let hosts = [spec.from.as_str(), to];
        let numbers = [to, &spec.from].map(|host| self.router.host(host) as u32);
        let [receiver, sender_address] = tap::addresses(place, numbers);
        Connection {
            flow: fetch.session as usize,
            place,
            since_us: fetch.placed_at_us() as u32,
            hosts,
            addresses: [sender_address, receiver],
            algorithm: self.sessions[fetch.session as usize].algorithm.name(),
            cwnd_bytes: sender.cwnd_segs() * sender.mss_bytes(),
            pacing_bytes_ps: sender.algorithm.decision.rate_bytes_ps(),
            mss_bytes: sender.mss_bytes(),
            inflight_bytes: sender.inflight_segs() * sender.mss_bytes(),
            srtt_us: sender.srtt_us(),
            min_rtt_us: sender.min_rtt_us(),
            sender_retrans_segs: sender.stats.retrans_segs,
            received_bytes: client.receiver.received_bytes(),
            queued_packets,
            boxed: self.boxed.as_ref().and_then(|boxed| boxed.flow(place as usize)),
        }
    }

    /// What the box has counted, by name; none: there is no box.
    pub(crate) fn counters(&self) -> Option<BTreeMap<String, u64>> {
        self.boxed.as_ref().map(|boxed| boxed.counters())
    }

    /// Payload that has arrived at all clients.
    pub(crate) fn all_arrived_bytes(&self) -> u64 {
        self.arrived_bytes().iter().sum()
    }

    /// Segments of data that all senders have retransmitted.
    pub(crate) fn all_retrans_segs(&self) -> u64 {
        let past: u64 = self.sessions.iter().map(|session| session.past.retrans_segs).sum();
        past + self.fetches.iter().map(|fetch| fetch.ends[1].sender.stats.retrans_segs).sum::<u64>()
    }
}
