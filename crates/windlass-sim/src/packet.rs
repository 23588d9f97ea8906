//! Packets, and the slab they live in while they travel.
//!
//! Sequence numbers do not wrap: a connection's SYN is number 0, its first byte is 1, and what the wire would carry is
//! the lower 32 bits.

/// Payload of a full segment: 1500 bytes of IP, minus headers and the 12 bytes of timestamps (RFC 7323).
pub const MSS_BYTES: u32 = 1448;
/// Ethernet, IPv4 and TCP headers with timestamps.
pub const HEADER_BYTES: u32 = 14 + 20 + 20 + 12;
/// Ethernet and IPv4 headers, and a TCP header with MSS, SACK permitted, timestamps and window scale.
pub const SYN_BYTES: u32 = 14 + 20 + 40;
/// Two paddings, kind and length of the SACK option (RFC 2018, section 3).
const SACK_OPTION_BYTES: u32 = 4;
const SACK_BLOCK_BYTES: u32 = 8;
/// Blocks that fit beside timestamps.
pub const SACK_BLOCKS: usize = 3;
/// No packet: the end of a list.
pub const NONE: u32 = u32::MAX;

/// Flags of a packet.
pub mod flag {
    /// Opens a connection.
    pub const SYN: u8 = 1 << 0;
    /// Nothing follows; takes the sequence number after the payload.
    pub const FIN: u8 = 1 << 1;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 1 << 2;
    /// Congestion was experienced (RFC 3168).
    pub const ECE: u8 = 1 << 3;
    /// The window has been reduced (RFC 3168).
    pub const CWR: u8 = 1 << 4;
    /// IP: the sender understands ECN.
    pub const ECT: u8 = 1 << 5;
    /// IP: a queue on the way was long.
    pub const CE: u8 = 1 << 6;
}

/// A stretch of the stream, `start..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// First byte.
    pub start: u64,
    /// One past the last.
    pub end: u64,
}

impl Block {
    /// How long it is.
    pub fn len_bytes(&self) -> u32 {
        (self.end - self.start) as u32
    }
}

/// One TCP segment on its way. All but its SACK blocks shares one cache line: of thousands of packets in flight, each
/// is cold when it arrives.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct Packet {
    /// In the slab: the next place that is free.
    pub next_free: u32,
    /// Where it is on its path (see `topology.rs`).
    pub hop: u32,
    /// To which endpoint it goes.
    pub to: u32,
    /// Bytes the sender of this packet is ready to receive from `ack` on.
    pub window_bytes: u32,
    /// First sequence number.
    pub seq: u64,
    /// Next sequence number expected.
    pub ack: u64,
    /// Timestamp in the core's microseconds (RFC 7323).
    pub tsval_us: u32,
    /// Timestamp echoed.
    pub tsecr_us: u32,
    /// Payload.
    pub len_bytes: u16,
    /// Bits of [`flag`].
    pub flags: u8,
    /// SACK blocks in use.
    pub sack_count: u8,
    /// What arrived beyond a hole; the first one may be a duplicate report (RFC 2883).
    pub sack: [Block; SACK_BLOCKS],
}

impl Packet {
    /// What is there of it: without SACK blocks, half of it need not be looked at.
    fn copy_to(&self, to: &mut Packet) {
        let Packet { next_free, hop, to: end, window_bytes, seq, ack, tsval_us, tsecr_us, .. } = *self;
        let Packet { len_bytes, flags, sack_count, .. } = *self;
        to.next_free = next_free;
        to.hop = hop;
        to.to = end;
        to.window_bytes = window_bytes;
        to.seq = seq;
        to.ack = ack;
        to.tsval_us = tsval_us;
        to.tsecr_us = tsecr_us;
        to.len_bytes = len_bytes;
        to.flags = flags;
        to.sack_count = sack_count;
        if sack_count > 0 {
            to.sack = self.sack;
        }
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// One past the last sequence number it takes.
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len_bytes) + u64::from(self.has(flag::SYN)) + u64::from(self.has(flag::FIN))
    }

    /// What it costs on the wire, link-layer header included.
    pub fn wire_bytes(&self) -> u64 {
        if self.has(flag::SYN) {
            return SYN_BYTES.into();
        }
        let sack = match self.sack_count {
            0 => 0,
            n => SACK_OPTION_BYTES + SACK_BLOCK_BYTES * u32::from(n),
        };
        u64::from(HEADER_BYTES + sack) + u64::from(self.len_bytes)
    }

    /// Its SACK blocks.
    pub fn sacks(&self) -> &[Block] {
        &self.sack[..usize::from(self.sack_count)]
    }
}

/// All packets on their way. Places are used again, so that a run allocates no more than it ever has in flight.
#[derive(Debug)]
pub struct Slab {
    packets: Vec<Packet>,
    free: u32,
    live: u32,
}

impl Default for Slab {
    fn default() -> Slab {
        Slab { packets: Vec::new(), free: NONE, live: 0 }
    }
}

impl Slab {
    /// Keeps a packet; returns its place.
    pub fn put(&mut self, packet: &Packet) -> u32 {
        self.live += 1;
        if self.free == NONE {
            self.packets.push(*packet);
            return self.packets.len() as u32 - 1;
        }
        let place = self.free;
        let slot = &mut self.packets[place as usize];
        self.free = slot.next_free;
        packet.copy_to(slot);
        place
    }

    /// Takes a packet out.
    pub fn take(&mut self, place: u32, packet: &mut Packet) {
        self.packets[place as usize].copy_to(packet);
        self.release(place);
    }

    /// Gives a place back.
    pub fn release(&mut self, place: u32) {
        self.live -= 1;
        self.packets[place as usize].next_free = self.free;
        self.free = place;
    }

    /// Packets on their way.
    pub fn live(&self) -> u64 {
        self.live.into()
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Packet;

    fn index(&self, place: u32) -> &Packet {
        &self.packets[place as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    fn index_mut(&mut self, place: u32) -> &mut Packet {
        &mut self.packets[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let mut slab = Slab::default();
        let first = slab.put(&Packet::default());
        let second = slab.put(&Packet::default());
        slab.release(first);
        assert_eq!(slab.put(&Packet::default()), first);
        assert_eq!(slab.live(), 2);
        assert_ne!(first, second);
    }

    #[test]
    fn a_packet_costs_what_it_costs_on_ethernet() {
        let full = Packet { len_bytes: MSS_BYTES as u16, ..Packet::default() };
        assert_eq!(full.wire_bytes(), 1514);
        assert_eq!(Packet::default().wire_bytes(), 66);
        assert_eq!(Packet { flags: flag::SYN, ..Packet::default() }.wire_bytes(), 74);
        assert_eq!(Packet { sack_count: 3, ..Packet::default() }.wire_bytes(), 66 + 28);
    }
}
