//! Links with a queue discipline: packets wait in its queue, and an event takes the next one out when the link has sent the one
//! before it. Only such links have these events; all others know at once when a packet will leave (`network.rs`).

use crate::{engine::Kind, link::Flight, network::Network};
use windlass_scenario::{Codepoint, Label};

/// How disciplines treat the packets of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// 0 is sent first.
    pub priority: u8,
    /// Its congestion control is scalable (DCTCP): what understands ECN has ECT(1), not ECT(0).
    pub is_scalable: bool,
}

impl Network {
    /// A packet comes to a link with a discipline.
    pub(crate) fn enqueue(&mut self, index: u32, flight: Flight) {
        let label = self.label(&flight);
        let link = &mut self.links[index as usize];
        if let Some(queue) = &mut link.queue {
            queue.offer(&mut link.model, self.now_ns, label, flight);
        }
        self.forget_dropped(index);
        let link = &self.links[index as usize];
        match link.model.idle_from_ns() {
            _ if link.is_armed => {}
            idle_ns if idle_ns <= self.now_ns => self.take_next(index),
            idle_ns => self.arm(index, idle_ns),
        }
    }

    /// The link has sent what it had: it takes the next packet.
    pub(crate) fn take_next(&mut self, index: u32) {
        let link = &mut self.links[index as usize];
        link.is_armed = false;
        let Some(queue) = &mut link.queue else { return };
        let next = queue.next(&mut link.model, self.now_ns);
        let (is_empty, idle_ns) = (queue.is_empty(), link.model.idle_from_ns());
        self.forget_dropped(index);
        if let Some((flight, verdict)) = next {
            self.carry(index, flight, verdict);
        }
        if !is_empty {
            self.arm(index, idle_ns);
        }
    }

    fn arm(&mut self, index: u32, at_ns: u64) {
        self.links[index as usize].is_armed = true;
        self.events.schedule(at_ns, Kind::Dequeue, index);
    }

    fn forget_dropped(&mut self, index: u32) {
        while let Some(queue) = &mut self.links[index as usize].queue
            && let Some(dropped) = queue.take_dropped()
        {
            self.drop(dropped.place);
        }
    }

    fn label(&self, flight: &Flight) -> Label {
        let class = self.class(flight.to >> 1);
        let ecn = match (flight.is_ce, flight.is_ect) {
            (true, _) => Codepoint::Ce,
            (false, false) => Codepoint::NotEct,
            (false, true) if class.is_scalable => Codepoint::Ect1,
            (false, true) => Codepoint::Ect0,
        };
        let ack = self.plain_ack(flight.place);
        Label { bytes: flight.wire_bytes.into(), flow: flight.to, ecn, priority: class.priority, ack }
    }
}
