//! Flows of datagrams: their senders neither connect nor listen, so there is no endpoint, only a plan of what is sent when.

use super::Sim;
use crate::{
    packet::{Packet, flag},
    time::{US, core_us, seconds},
};
use windlass_scenario::Response;

impl Sim<'_> {
    /// Sends what is due of a flow, each response as full datagrams and a rest.
    pub(super) fn send_datagrams(&mut self, index: u32) {
        let flow = &self.scenario.flows[index as usize];
        let now_ns = self.net.now_ns;
        let session = &mut self.sessions[index as usize];
        let hop = session.hops[1];
        while let Some((_, size_bytes)) = session.take_due(flow, now_ns) {
            let (mut left_bytes, mut count) = (size_bytes.unwrap_or(0), 0);
            while left_bytes > 0 {
                let len_bytes = left_bytes.min(self.config.datagram_bytes);
                let tsval_us = core_us(now_ns);
                let (to, flags, len_bytes_16) = (2 * index, flag::DATAGRAM, len_bytes as u16);
                self.net.send(
                    hop,
                    &Packet { hop, to, flags, len_bytes: len_bytes_16, tsval_us, ..Packet::default() },
                );
                left_bytes -= len_bytes;
                count += 1;
            }
            session.on_datagrams_sent(flow, count, now_ns);
        }
        self.open -= usize::from(session.is_over());
    }

    /// A datagram has arrived. How long it took is known to a microsecond.
    pub(super) fn on_datagram(&mut self, packet: &Packet) {
        let now_ns = self.net.now_ns;
        let age_us = core_us(now_ns).wrapping_sub(packet.tsval_us);
        let age_ns = (u64::from(age_us) * US).min(now_ns);
        let response = Response {
            asked_s: seconds(now_ns - age_ns),
            took_s: seconds(age_ns),
            bytes: packet.len_bytes.into(),
        };
        self.sessions[(packet.to >> 1) as usize].on_datagram(response, now_ns);
    }
}
