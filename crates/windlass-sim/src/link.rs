//! One direction of a link: the model that the testbed's emulator uses as well, and the packets on their way.

use crate::{
    engine::Event,
    packet::{NONE, Packet, Slot, flag},
};
use std::collections::VecDeque;
use windlass_scenario::{DisciplineQueue, LinkModel};

/// A packet on a link: what links need of it, so that it is not looked at before it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    /// When it comes to the far end of the link.
    pub arrival: Event,
    /// The packet's place in the slab.
    pub place: u32,
    /// Where it is on its path.
    pub hop: u32,
    /// To which endpoint it goes.
    pub to: u32,
    /// What it costs on the wire.
    pub wire_bytes: u16,
    /// Its sender understands ECN.
    pub is_ect: bool,
    /// A queue on the way was long.
    pub is_ce: bool,
}

impl Flight {
    /// A packet that is in the slab.
    pub fn new(place: u32, slot: &Slot) -> Flight {
        Flight {
            arrival: Event::default(),
            place,
            hop: slot.hop,
            to: slot.to,
            wire_bytes: slot.wire_bytes() as u16,
            is_ect: slot.flags & flag::ECT != 0,
            is_ce: slot.flags & flag::CE != 0,
        }
    }

    /// The packet in the slab learns what has happened to it.
    pub fn keep(&self, slot: &mut Slot) {
        slot.hop = self.hop;
        slot.flags |= self.marks();
    }

    /// So does the packet that leaves the network.
    pub fn tell(&self, packet: &mut Packet) {
        packet.hop = self.hop;
        packet.flags |= self.marks();
    }

    fn marks(&self) -> u8 {
        if self.is_ce { flag::CE } else { 0 }
    }
}

/// A direction of a link.
#[derive(Debug)]
pub struct Link {
    /// Decides on each packet.
    pub model: LinkModel,
    /// Packets may be reordered: each has an event of its own.
    pub reorders: bool,
    /// The buffer that it shares with other ports of its switch; [`NONE`]: none.
    pub pool: u32,
    /// It is among those of which its pool knows that they may hold packets.
    pub is_held: bool,
    /// Its queue is that of the host at which it begins (see `tcp/small_queue.rs`).
    pub is_host_queue: bool,
    /// Its discipline's queue, in front of the model (see `discipline.rs`); none: the model queues.
    pub queue: Option<Box<DisciplineQueue<Flight>>>,
    /// An event will take the next packet out of that.
    pub is_armed: bool,
    /// Packets on their way in order of arrival, unless they may be reordered.
    pub flights: VecDeque<Flight>,
    /// Packets that get lost, counted from 1 in the order in which they come.
    #[cfg(test)]
    pub loses: Vec<u64>,
    /// Packets that are marked, counted likewise.
    #[cfg(test)]
    pub marks: Vec<u64>,
    /// Packets that come later than they should, counted likewise, and by how much.
    #[cfg(test)]
    pub late: (std::ops::Range<u64>, u64),
}

impl Link {
    /// A direction with nothing on its way.
    pub fn new(model: LinkModel, reorders: bool) -> Link {
        Link {
            model,
            reorders,
            pool: NONE,
            is_held: false,
            is_host_queue: false,
            queue: None,
            is_armed: false,
            flights: VecDeque::new(),
            #[cfg(test)]
            loses: Vec::new(),
            #[cfg(test)]
            marks: Vec::new(),
            #[cfg(test)]
            late: (0..0, 0),
        }
    }
}
