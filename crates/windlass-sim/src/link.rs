//! One direction of a link: the model that the testbed's emulator uses as well, and the packets on their way.

use crate::{
    engine::Event,
    packet::{NONE, Packet, Slot, flag},
    prefetch::{prefetch, prefetch_next},
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
    const NONE: Flight = Flight {
        arrival: Event::NONE,
        place: NONE,
        hop: 0,
        to: 0,
        wire_bytes: 0,
        is_ect: false,
        is_ce: false,
    };

    /// A packet that is in the slab.
    pub fn new(place: u32, slot: &Slot) -> Flight {
        Flight {
            arrival: Event::NONE,
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

/// The packets on their way on a direction of a link in order of arrival, unless they may be reordered. One cache line, apart from
/// the link, so that those of thousands of links stay near.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Flights {
    /// Of a packet that has no place: there is none.
    first: Flight,
    behind: VecDeque<Flight>,
}

impl Default for Flights {
    fn default() -> Flights {
        Flights { first: Flight::NONE, behind: VecDeque::new() }
    }
}

impl Flights {
    /// Whether nothing is on its way.
    pub fn is_empty(&self) -> bool {
        self.first.place == NONE
    }

    /// The first one.
    pub fn first(&self) -> Option<&Flight> {
        Some(&self.first).filter(|first| first.place != NONE)
    }

    /// A packet comes behind the others.
    pub fn push(&mut self, flight: Flight) {
        match self.is_empty() {
            true => self.first = flight,
            false => {
                self.behind.push_back(flight);
                self.behind.back().into_iter().for_each(prefetch_next);
            }
        }
    }

    /// Takes the first one out; the next one is the first then.
    pub fn take(&mut self) -> Option<Flight> {
        let first = *self.first()?;
        match self.behind.pop_front() {
            Some(next) => {
                self.first = next;
                self.behind.front().into_iter().for_each(prefetch);
            }
            None => {
                self.first = Flight::NONE;
                // what comes next takes the same place again, not one that has left the caches
                self.behind.clear();
            }
        }
        Some(first)
    }

    /// Requests what taking one and pushing one will touch.
    pub fn prefetch(&self) {
        self.behind.front().into_iter().for_each(prefetch);
        self.behind.back().into_iter().for_each(prefetch);
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
            #[cfg(test)]
            loses: Vec::new(),
            #[cfg(test)]
            marks: Vec::new(),
            #[cfg(test)]
            late: (0..0, 0),
        }
    }
}
