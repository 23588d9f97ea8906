//! One direction of a link: the model that the testbed's emulator uses as well, and the packets on their way.

use crate::packet::NONE;
use windlass_scenario::LinkModel;

/// A direction of a link.
#[derive(Debug)]
pub struct Link {
    /// Decides on each packet.
    pub model: LinkModel,
    /// Packets may overtake each other: each has an event of its own.
    pub reorders: bool,
    /// The buffer that it shares with other ports of its switch; [`NONE`]: none.
    pub pool: u32,
    /// First packet on its way, by its place in the slab; the others hang behind it in order of arrival.
    pub head: u32,
    /// Last packet on its way.
    pub tail: u32,
    /// Packets that get lost, counted from 1 in the order in which they come.
    #[cfg(test)]
    pub loses: Vec<u64>,
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
            head: NONE,
            tail: NONE,
            #[cfg(test)]
            loses: Vec::new(),
            #[cfg(test)]
            late: (0..0, 0),
        }
    }
}
