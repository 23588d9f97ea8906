//! Packets as a TUN device with IFF_VNET_HDR gives and takes them (tun.rs makes a TAP device's alike): possibly
//! super-packets of many TCP segments, with checksums still to be completed. The emulator judges each segment on its own and
//! sends the survivors on.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
};
use windlass_scenario::Codepoint;

/// Length of struct virtio_net_hdr.
pub const VNET_HDR_BYTES: usize = 10;
const NEEDS_CSUM: u8 = 1;
const GSO_ECN: u8 = 0x80;
/// What a packet costs on the wire beyond its IP length: an Ethernet header.
pub const LINK_HEADER_BYTES: u64 = 14;

const SYN: u8 = 0x02;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;
const ACK: u8 = 0x10;
/// Of TCP with timestamps, and no room for SACK blocks.
const PLAIN_HEADER_BYTES: usize = 32;

/// A packet read from a TUN device.
#[derive(Debug)]
pub struct Packet {
    vnet: [u8; VNET_HDR_BYTES],
    data: Vec<u8>,
    l4_off: usize,
    header_bytes: usize,
    gso_bytes: usize,
    /// Segments it will be on the wire; 1 unless it is a super-packet.
    pub segments: usize,
    /// ECN-capable (RFC 3168).
    pub is_ect: bool,
    /// Its ECN field.
    pub codepoint: Codepoint,
}

/// The TCP segments of a packet that carry data, or its SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Source and destination.
    pub addresses: [IpAddr; 2],
    /// The same of the ports.
    pub ports: [u16; 2],
    /// Sequence number of the first.
    pub seq: u32,
    /// Payload of all together.
    pub payload_bytes: u32,
    /// How many they are on the wire.
    pub count: u32,
    /// It is a SYN, which carries none.
    pub is_syn: bool,
}

fn be16(data: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([data[at], data[at + 1]])
}

fn sum16(data: &[u8]) -> u32 {
    data.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0))).sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

impl Packet {
    /// Takes what one read returned; none if it is no IP packet.
    pub fn parse(read: &[u8]) -> Option<Packet> {
        let vnet: [u8; VNET_HDR_BYTES] = read.get(..VNET_HDR_BYTES)?.try_into().ok()?;
        let data = read[VNET_HDR_BYTES..].to_vec();
        let (l4_off, protocol, tos) = match data.first()? >> 4 {
            4 if data.len() >= 20 => (usize::from(data[0] & 15) * 4, data[9], data[1]),
            6 if data.len() >= 40 => (40, data[6], data[0] << 4 | data[1] >> 4),
            _ => return None,
        };
        if l4_off < 20 || l4_off > data.len() {
            return None;
        }
        let is_gso = vnet[1] & !GSO_ECN != 0 && protocol == 6 && data.len() > l4_off + 20;
        let mut packet = Packet {
            vnet,
            l4_off,
            header_bytes: data.len(),
            gso_bytes: 0,
            segments: 1,
            is_ect: matches!(tos & 3, 1 | 2),
            codepoint: match tos & 3 {
                0 => Codepoint::NotEct,
                1 => Codepoint::Ect1,
                2 => Codepoint::Ect0,
                _ => Codepoint::Ce,
            },
            data,
        };
        if is_gso {
            packet.header_bytes = l4_off + usize::from(packet.data[l4_off + 12] >> 4) * 4;
            packet.gso_bytes = usize::from(u16::from_le_bytes([vnet[4], vnet[5]])).max(1);
            if packet.header_bytes < l4_off + 20 {
                return None;
            }
            let payload = packet.data.len().checked_sub(packet.header_bytes)?;
            packet.segments = payload.div_ceil(packet.gso_bytes).max(1);
        }
        Some(packet)
    }

    /// What it carries; none if it is not TCP, or neither data nor a SYN.
    pub fn segments(&self) -> Option<Segments> {
        let data = &self.data;
        let (protocol, at, bytes) = if data[0] >> 4 == 4 { (data[9], 12, 4) } else { (data[6], 8, 16) };
        let tcp = data.get(self.l4_off..).filter(|tcp| protocol == 6 && tcp.len() >= 20)?;
        let payload_bytes = tcp.len().checked_sub(usize::from(tcp[12] >> 4) * 4)? as u32;
        let is_syn = tcp[13] & SYN != 0;
        if payload_bytes == 0 && !is_syn {
            return None;
        }
        let address = |at: usize| -> IpAddr {
            match <[u8; 4]>::try_from(&data[at..at + bytes]) {
                Ok(v4) => v4.into(),
                Err(_) => <[u8; 16]>::try_from(&data[at..at + bytes]).expect("sixteen bytes").into(),
            }
        };
        Some(Segments {
            addresses: [address(at), address(at + bytes)],
            ports: [be16(tcp, 0), be16(tcp, 2)],
            seq: u32::from_be_bytes(tcp[4..8].try_into().expect("four bytes")),
            payload_bytes,
            count: self.segments as u32,
            is_syn,
        })
    }

    /// A hash of its addresses, protocol and ports: the same for all packets of one direction of a connection.
    pub fn flow(&self) -> u32 {
        let mut hasher = DefaultHasher::new();
        let (addresses, protocol) =
            if self.data[0] >> 4 == 4 { (12..20, self.data[9]) } else { (8..40, self.data[6]) };
        let ports = self.data.get(self.l4_off..self.l4_off + 4).filter(|_| matches!(protocol, 6 | 17));
        (self.data.get(addresses), protocol, ports).hash(&mut hasher);
        hasher.finish() as u32
    }

    /// The acknowledgement number of a TCP segment that carries and reports nothing else, but for timestamps; none: it does.
    pub fn plain_ack(&self) -> Option<u64> {
        let protocol = if self.data[0] >> 4 == 4 { self.data[9] } else { self.data[6] };
        let tcp = self.data.get(self.l4_off..).filter(|tcp| protocol == 6 && tcp.len() >= 20)?;
        let header_bytes = usize::from(tcp[12] >> 4) * 4;
        let is_plain = tcp.len() == header_bytes && header_bytes <= PLAIN_HEADER_BYTES && tcp[13] == ACK;
        is_plain.then(|| u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]).into())
    }

    /// Length on the wire of segment `i`.
    pub fn wire_bytes(&self, i: usize) -> u64 {
        let ip =
            if self.segments == 1 { self.data.len() } else { self.header_bytes + self.payload(i, i).len() };
        ip as u64 + LINK_HEADER_BYTES
    }

    fn payload(&self, first: usize, last: usize) -> &[u8] {
        let start = self.header_bytes + first * self.gso_bytes;
        let end = (self.header_bytes + (last + 1) * self.gso_bytes).min(self.data.len());
        &self.data[start.min(end)..end]
    }

    /// Writes segments first..=last, as one packet for a TUN device, into `out`. With `mark` set CE.
    pub fn emit(&self, first: usize, last: usize, mark: bool, out: &mut Vec<u8>) {
        out.clear();
        if self.segments == 1 || (first == 0 && last == self.segments - 1) {
            out.extend_from_slice(&self.vnet);
            out.extend_from_slice(&self.data);
        } else {
            self.emit_part(first, last, out);
        }
        if mark {
            set_ce(&mut out[VNET_HDR_BYTES..]);
        }
    }

    fn emit_part(&self, first: usize, last: usize, out: &mut Vec<u8>) {
        let payload = self.payload(first, last);
        let mut vnet = [0; VNET_HDR_BYTES];
        vnet[0] = NEEDS_CSUM;
        if last > first {
            vnet[1] = self.vnet[1];
            vnet[2..4].copy_from_slice(&(self.header_bytes as u16).to_le_bytes());
            vnet[4..6].copy_from_slice(&(self.gso_bytes as u16).to_le_bytes());
        }
        vnet[6..8].copy_from_slice(&(self.l4_off as u16).to_le_bytes());
        vnet[8..10].copy_from_slice(&16u16.to_le_bytes());
        out.extend_from_slice(&vnet);
        out.extend_from_slice(&self.data[..self.header_bytes]);
        out.extend_from_slice(payload);
        let packet = &mut out[VNET_HDR_BYTES..];
        let l4_bytes = packet.len() - self.l4_off;
        let at = self.l4_off;
        let seq = u32::from_be_bytes(packet[at + 4..at + 8].try_into().expect("four bytes"));
        let seq = seq.wrapping_add((first * self.gso_bytes) as u32);
        packet[at + 4..at + 8].copy_from_slice(&seq.to_be_bytes());
        if last != self.segments - 1 {
            packet[at + 13] &= !FIN_PSH;
        }
        if first != 0 {
            packet[at + 13] &= !CWR;
        }
        let addresses = if packet[0] >> 4 == 4 {
            let total = packet.len() as u16;
            packet[2..4].copy_from_slice(&total.to_be_bytes());
            let id = be16(packet, 4).wrapping_add(first as u16);
            packet[4..6].copy_from_slice(&id.to_be_bytes());
            fix_ipv4_checksum(packet);
            sum16(&packet[12..20])
        } else {
            packet[4..6].copy_from_slice(&(l4_bytes as u16).to_be_bytes());
            sum16(&packet[8..40])
        };
        // the kernel completes the checksum from that of the pseudo-header
        let pseudo = fold(addresses + 6 + l4_bytes as u32);
        packet[at + 16..at + 18].copy_from_slice(&pseudo.to_be_bytes());
    }
}

fn fix_ipv4_checksum(packet: &mut [u8]) {
    let header = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = !fold(sum16(&packet[..header]));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn set_ce(packet: &mut [u8]) {
    if packet[0] >> 4 == 4 {
        packet[1] |= 3;
        fix_ipv4_checksum(packet);
    } else {
        packet[1] |= 0x30;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn super_packet(payload: usize, mss: u16) -> Vec<u8> {
        let mut read = vec![0; VNET_HDR_BYTES + 40 + payload];
        read[0] = NEEDS_CSUM;
        read[1] = 1;
        read[4..6].copy_from_slice(&mss.to_le_bytes());
        let ip = &mut read[VNET_HDR_BYTES..];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
        ip[9] = 6;
        ip[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        ip[24..28].copy_from_slice(&0xffff_ff00u32.to_be_bytes());
        ip[32] = 0x50;
        ip[33] = 0x19;
        for (i, byte) in ip[40..].iter_mut().enumerate() {
            *byte = i as u8;
        }
        read
    }

    #[test]
    fn segments_add_up_to_the_super_packet() {
        let read = super_packet(4000, 1448);
        let packet = Packet::parse(&read).unwrap();
        assert_eq!(packet.segments, 3);
        let (mut out, mut joined) = (Vec::new(), Vec::new());
        for i in 0..3 {
            packet.emit(i, i, false, &mut out);
            let ip = &out[VNET_HDR_BYTES..];
            assert_eq!(fold(sum16(&ip[..20])), 0xffff, "IPv4 checksum");
            let seq = u32::from_be_bytes(ip[24..28].try_into().unwrap());
            assert_eq!(seq, 0xffff_ff00u32.wrapping_add(1448 * i as u32));
            assert_eq!(ip[33] & FIN_PSH != 0, i == 2, "PSH and FIN only on the last");
            assert_eq!(packet.wire_bytes(i), (ip.len() as u64) + LINK_HEADER_BYTES);
            joined.extend_from_slice(&ip[40..]);
        }
        assert_eq!(joined, read[VNET_HDR_BYTES + 40..]);
    }

    #[test]
    fn a_super_packet_carries_several_segments() {
        let carries = Packet::parse(&super_packet(4000, 1448)).unwrap().segments().unwrap();
        assert_eq!((carries.count, carries.payload_bytes, carries.seq), (3, 4000, 0xffff_ff00));
        assert_eq!(carries.addresses, [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from));
        assert_eq!(Packet::parse(&super_packet(0, 1448)).unwrap().segments(), None, "an acknowledgement");
    }

    #[test]
    fn a_flow_is_known_by_its_ports_and_a_plain_ack_by_its_number() {
        let data = super_packet(4000, 1448);
        let mut ack = super_packet(0, 1448);
        ack[1] = 0;
        let tcp = VNET_HDR_BYTES + 20;
        ack[tcp + 8..tcp + 12].copy_from_slice(&7000u32.to_be_bytes());
        ack[tcp + 13] = ACK;
        let [data, ack_packet] = [&data, &ack].map(|read| Packet::parse(read).unwrap());
        assert_eq!((data.plain_ack(), ack_packet.plain_ack()), (None, Some(7000)));
        assert_eq!(data.flow(), ack_packet.flow());
        let mut other = ack.clone();
        other[tcp + 1] = 1;
        assert_ne!(Packet::parse(&other).unwrap().flow(), data.flow());
        // with SACK blocks
        let mut report = ack.clone();
        report[tcp + 12] = 0x90;
        report.resize(VNET_HDR_BYTES + 20 + 36, 0);
        assert_eq!(Packet::parse(&report).unwrap().plain_ack(), None);
    }

    #[test]
    fn a_mark_is_ce_with_a_right_checksum() {
        let packet = Packet::parse(&super_packet(100, 1448)).unwrap();
        let mut out = Vec::new();
        packet.emit(0, 0, true, &mut out);
        assert_eq!(out[VNET_HDR_BYTES + 1] & 3, 3);
        assert_eq!(fold(sum16(&out[VNET_HDR_BYTES..][..20])), 0xffff);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(read in proptest::collection::vec(any::<u8>(), 0..3000)) {
            if let Some(packet) = Packet::parse(&read) {
                packet.segments();
                packet.flow();
                packet.plain_ack();
                let mut out = Vec::new();
                for i in 0..packet.segments.min(100) {
                    packet.wire_bytes(i);
                    packet.emit(i, i, true, &mut out);
                }
            }
        }
    }
}
