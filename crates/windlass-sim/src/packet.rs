//! Packets, and the slab they live in while they travel.
//!
//! Sequence numbers do not wrap: a connection's SYN is number 0, its first byte is 1, and what the wire would carry is
//! the lower 32 bits.

/// Payload of a full segment of hosts without an `mtu`: 1500 bytes of IP, minus headers and the 12 bytes of timestamps (RFC 7323).
pub const MSS_BYTES: u32 = 1448;
/// Ethernet, IPv4 and TCP headers with timestamps.
pub const HEADER_BYTES: u32 = 14 + 20 + 20 + 12;
/// Ethernet and IPv4 headers, and a TCP header with MSS, SACK permitted, timestamps and window scale.
pub const SYN_BYTES: u32 = 14 + 20 + 40;
/// Ethernet, IPv4 and UDP headers.
const DATAGRAM_HEADER_BYTES: u32 = 14 + 20 + 8;
/// Payload of a full datagram of the same.
pub const DATAGRAM_BYTES: u64 = 1472;
/// Two paddings, kind and length of the SACK option (RFC 2018, section 3).
const SACK_OPTION_BYTES: u32 = 4;
const SACK_BLOCK_BYTES: u32 = 8;
/// Blocks that fit beside timestamps.
pub const SACK_BLOCKS: usize = 3;
/// No packet: the end of a list.
pub const NONE: u32 = u32::MAX;

/// Flags of a packet: those of TCP are the bits of its header, those of IP take the place of RST and URG, which no packet has.
pub mod flag {
    /// Nothing follows; takes the sequence number after the payload.
    pub const FIN: u8 = 0x01;
    /// Opens a connection.
    pub const SYN: u8 = 0x02;
    /// What was sent together ends here: nothing follows for the moment (RFC 9293, section 3.9.1.2).
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;
    /// Congestion was experienced (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// The window has been reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
    /// IP: the sender understands ECN.
    pub const ECT: u8 = 0x04;
    /// IP: a queue on the way was long.
    pub const CE: u8 = 0x20;
    /// Not a segment, of which none has both: a datagram of UDP.
    pub const DATAGRAM: u8 = SYN | FIN;
    /// Those of TCP.
    pub const OF_TCP: u8 = !(ECT | CE);
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

/// One TCP segment on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
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
    /// Whether a flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether it is a datagram.
    pub fn is_datagram(&self) -> bool {
        self.flags & flag::DATAGRAM == flag::DATAGRAM
    }

    /// Whether what was sent together ends here: the sender marks it, or there was no more, as it is shorter than `mss_bytes`.
    pub fn is_pushed(&self, mss_bytes: u32) -> bool {
        self.len_bytes > 0 && (self.has(flag::PSH) || u32::from(self.len_bytes) < mss_bytes)
    }

    /// One past the last sequence number it takes.
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len_bytes) + u64::from(self.has(flag::SYN)) + u64::from(self.has(flag::FIN))
    }

    /// Its SACK blocks.
    pub fn sacks(&self) -> &[Block] {
        &self.sack[..usize::from(self.sack_count)]
    }
}

/// A packet in the slab, but for its SACK blocks: one cache line, as of thousands of packets in flight each is cold when
/// it arrives.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Slot {
    /// As in [`Packet`].
    pub hop: u32,
    /// As in [`Packet`].
    pub to: u32,
    window_bytes: u32,
    seq: u64,
    ack: u64,
    tsval_us: u32,
    tsecr_us: u32,
    len_bytes: u16,
    /// As in [`Packet`].
    pub flags: u8,
    sack_count: u8,
    /// Place of its SACK blocks if it has any; of a free slot: the next free one.
    link: u32,
}

impl Slot {
    fn new(packet: &Packet, link: u32) -> Slot {
        let Packet {
            hop, to, window_bytes, seq, ack, tsval_us, tsecr_us, len_bytes, flags, sack_count, ..
        } = *packet;
        Slot { hop, to, window_bytes, seq, ack, tsval_us, tsecr_us, len_bytes, flags, sack_count, link }
    }

    fn copy_to(&self, packet: &mut Packet) {
        packet.hop = self.hop;
        packet.to = self.to;
        packet.window_bytes = self.window_bytes;
        packet.seq = self.seq;
        packet.ack = self.ack;
        packet.tsval_us = self.tsval_us;
        packet.tsecr_us = self.tsecr_us;
        packet.len_bytes = self.len_bytes;
        packet.flags = self.flags;
        packet.sack_count = self.sack_count;
    }

    /// The acknowledgement number of a packet that carries and reports nothing else; none: it does.
    pub fn plain_ack(&self) -> Option<u64> {
        let is_plain = self.len_bytes == 0 && self.sack_count == 0 && self.flags & flag::OF_TCP == flag::ACK;
        is_plain.then_some(self.ack)
    }

    /// What it costs on the wire, link-layer header included.
    pub fn wire_bytes(&self) -> u64 {
        if self.flags & flag::SYN != 0 {
            let is_datagram = self.flags & flag::FIN != 0;
            return match is_datagram {
                true => u64::from(DATAGRAM_HEADER_BYTES) + u64::from(self.len_bytes),
                false => SYN_BYTES.into(),
            };
        }
        let sack = match self.sack_count {
            0 => 0,
            n => SACK_OPTION_BYTES + SACK_BLOCK_BYTES * u32::from(n),
        };
        u64::from(HEADER_BYTES + sack) + u64::from(self.len_bytes)
    }
}

/// Slots that are allocated together: one array that grew would be copied each time, and the pages of each copy cleared by the
/// kernel.
const SLOTS: usize = 1024;

/// All packets on their way. Places are used again, so that a run allocates no more than it ever has in flight.
#[derive(Debug)]
pub struct Slab {
    /// All of them full, but for the last one.
    chunks: Vec<Vec<Slot>>,
    free: u32,
    live: u32,
    /// SACK blocks of those packets that have any, and which of these places are free.
    blocks: Vec<[Block; SACK_BLOCKS]>,
    free_blocks: Vec<u32>,
}

impl Default for Slab {
    fn default() -> Slab {
        Slab { chunks: Vec::new(), free: NONE, live: 0, blocks: Vec::new(), free_blocks: Vec::new() }
    }
}

impl Slab {
    /// Keeps a packet; returns its place.
    pub fn put(&mut self, packet: &Packet) -> u32 {
        self.live += 1;
        let link = if packet.sack_count > 0 { self.put_blocks(&packet.sack) } else { NONE };
        let slot = Slot::new(packet, link);
        if self.free == NONE {
            return self.append(slot);
        }
        let place = self.free;
        let free = &mut self[place];
        let next = std::mem::replace(free, slot).link;
        self.free = next;
        place
    }

    fn append(&mut self, slot: Slot) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == SLOTS) {
            self.chunks.push(Vec::with_capacity(SLOTS));
        }
        let before = (self.chunks.len() - 1) * SLOTS;
        let chunk = &mut self.chunks[before / SLOTS];
        chunk.push(slot);
        (before + chunk.len() - 1) as u32
    }

    fn put_blocks(&mut self, blocks: &[Block; SACK_BLOCKS]) -> u32 {
        if let Some(place) = self.free_blocks.pop() {
            self.blocks[place as usize] = *blocks;
            return place;
        }
        self.blocks.push(*blocks);
        self.blocks.len() as u32 - 1
    }

    /// Takes a packet out.
    pub fn take(&mut self, place: u32, packet: &mut Packet) {
        let slot = &self[place];
        slot.copy_to(packet);
        if slot.sack_count > 0 {
            packet.sack = self.blocks[slot.link as usize];
        }
        self.release(place);
    }

    /// Gives a place back.
    pub fn release(&mut self, place: u32) {
        self.live -= 1;
        let Slot { sack_count, link, .. } = self[place];
        if sack_count > 0 {
            self.free_blocks.push(link);
        }
        self[place].link = self.free;
        self.free = place;
    }

    /// Packets on their way.
    pub fn live(&self) -> u64 {
        self.live.into()
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Slot;

    fn index(&self, place: u32) -> &Slot {
        &self.chunks[place as usize / SLOTS][place as usize % SLOTS]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    fn index_mut(&mut self, place: u32) -> &mut Slot {
        &mut self.chunks[place as usize / SLOTS][place as usize % SLOTS]
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
    fn a_packet_is_found_whatever_comes_behind_it() {
        let (mut slab, mut out) = (Slab::default(), Packet::default());
        let count = 3 * SLOTS as u64 + 1;
        let places: Vec<u32> = (0..count).map(|seq| slab.put(&Packet { seq, ..Packet::default() })).collect();
        for (place, seq) in places.into_iter().zip(0..) {
            slab.take(place, &mut out);
            assert_eq!(out.seq, seq);
        }
        assert_eq!((slab.live(), slab.chunks.len()), (0, 4));
    }

    #[test]
    fn sack_blocks_come_out_with_their_packet_and_their_places_are_used_again() {
        let with = |sack_count: u8, at: u64| {
            let sack =
                std::array::from_fn(|i| Block { start: at + 2 * i as u64, end: at + 2 * i as u64 + 1 });
            Packet { seq: at, sack_count, sack, ..Packet::default() }
        };
        let (mut slab, mut out) = (Slab::default(), Packet::default());
        let places = [with(3, 10), with(0, 20), with(1, 30)].map(|p| slab.put(&p));
        slab.take(places[1], &mut out);
        assert_eq!((out.seq, out.sacks().len()), (20, 0));
        slab.take(places[0], &mut out);
        assert_eq!((out.seq, out.sacks()), (10, with(3, 10).sacks()));
        slab.put(&with(2, 40));
        assert_eq!(slab.blocks.len(), 2);
        slab.release(places[2]);
        let place = slab.put(&with(1, 50));
        slab.take(place, &mut out);
        assert_eq!((out.sacks(), slab.blocks.len(), slab.live()), (with(1, 50).sacks(), 2, 1));
    }

    #[test]
    fn a_packet_costs_what_it_costs_on_ethernet() {
        let full = Packet { len_bytes: MSS_BYTES as u16, ..Packet::default() };
        let wire_bytes = |p: Packet| Slot::new(&p, NONE).wire_bytes();
        assert_eq!(wire_bytes(full), 1514);
        assert_eq!(wire_bytes(Packet::default()), 66);
        assert_eq!(wire_bytes(Packet { flags: flag::SYN, ..Packet::default() }), 74);
        let datagram =
            Packet { flags: flag::DATAGRAM, len_bytes: DATAGRAM_BYTES as u16, ..Packet::default() };
        assert_eq!((wire_bytes(datagram), datagram.is_datagram(), full.is_datagram()), (1514, true, false));
        assert_eq!(wire_bytes(Packet { sack_count: 3, ..Packet::default() }), 66 + 28);
    }
}
