//! TCP segments in Ethernet frames: written by etherparse, read without the payload.

use anyhow::{Context, Result};
use etherparse::{Ipv4HeaderSlice, PacketBuilder, TcpHeader, TcpHeaderSlice};
use std::net::{Ipv4Addr, SocketAddrV4};

/// Hop limit of a host's own packets.
pub const TTL: u8 = 64;
const ETHERNET_BYTES: usize = 14;
/// Ethernet, IPv4 and TCP headers without a payload are not longer.
pub const HEADERS_MOST_BYTES: usize = ETHERNET_BYTES + 60 + 60;

/// Bits of the flags' byte (RFC 9293, section 3.1).
pub const FIN: u8 = 0x01;
/// Synchronize sequence numbers.
pub const SYN: u8 = 0x02;
/// Reset the connection.
pub const RST: u8 = 0x04;
/// Push.
pub const PSH: u8 = 0x08;
/// The acknowledgement field is significant.
pub const ACK: u8 = 0x10;

/// Where a frame leaves and which router or host takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Macs {
    /// Source address.
    pub own: [u8; 6],
    /// Destination address.
    pub next_hop: [u8; 6],
}

/// A segment to send.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Source.
    pub from: SocketAddrV4,
    /// Destination.
    pub to: SocketAddrV4,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// SYN, ACK and so on.
    pub flags: u8,
    /// The window field, unscaled.
    pub window: u16,
    /// A multiple of four bytes, at most 40.
    pub options: &'a [u8],
    /// Data.
    pub payload: &'a [u8],
    /// Hop limit.
    pub ttl: u8,
}

impl Segment<'_> {
    /// A segment without options and data.
    pub fn bare(from: SocketAddrV4, to: SocketAddrV4, flags: u8, seq: u32, ack: u32) -> Segment<'static> {
        let (window, options, payload) = (u16::MAX, &[][..], &[][..]);
        Segment { from, to, seq, ack, flags, window, options, payload, ttl: TTL }
    }

    /// Writes it into `frame`, in the place of what is there, with its checksums.
    pub fn write(&self, macs: Macs, frame: &mut Vec<u8>) -> Result<()> {
        frame.clear();
        let mut tcp = TcpHeader::new(self.from.port(), self.to.port(), self.seq, self.window);
        tcp.acknowledgment_number = self.ack;
        let has = |flag: u8| self.flags & flag != 0;
        (tcp.fin, tcp.syn, tcp.rst, tcp.psh, tcp.ack) = (has(FIN), has(SYN), has(RST), has(PSH), has(ACK));
        tcp.set_options_raw(self.options).context("TCP options")?;
        let builder = PacketBuilder::ethernet2(macs.own, macs.next_hop);
        let builder = builder.ipv4(self.from.ip().octets(), self.to.ip().octets(), self.ttl);
        builder.tcp_header(tcp).write(frame, self.payload).context("a TCP segment")
    }
}

/// What the headers of a received segment contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Source.
    pub from: SocketAddrV4,
    /// Destination.
    pub to: SocketAddrV4,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// SYN, ACK and so on.
    pub flags: u8,
    /// Length of the data, by the IPv4 header: the frame may be cut off behind its headers.
    pub payload_bytes: u32,
}

impl Received {
    /// Reads a frame; none if it is not TCP over IPv4. Checksums are not verified: a virtual cable leaves them to be
    /// completed.
    pub fn parse(frame: &[u8]) -> Option<Received> {
        let ip = Ipv4HeaderSlice::from_slice(frame.get(ETHERNET_BYTES..)?).ok()?;
        if ip.protocol() != etherparse::IpNumber::TCP {
            return None;
        }
        let tcp = TcpHeaderSlice::from_slice(frame.get(ETHERNET_BYTES + ip.slice().len()..)?).ok()?;
        let headers = ip.slice().len() + tcp.slice().len();
        let address = |octets: [u8; 4], port: u16| SocketAddrV4::new(Ipv4Addr::from(octets), port);
        Some(Received {
            from: address(ip.source(), tcp.source_port()),
            to: address(ip.destination(), tcp.destination_port()),
            seq: tcp.sequence_number(),
            ack: tcp.acknowledgment_number(),
            flags: tcp.slice()[13],
            payload_bytes: u32::from(ip.total_len()).saturating_sub(headers as u32),
        })
    }
}

/// The option SACK with these blocks, padded (RFC 2018); at most four.
pub fn sack(blocks: &[[u32; 2]]) -> Vec<u8> {
    let blocks = &blocks[..blocks.len().min(4)];
    let mut option = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
    option.extend(blocks.iter().flatten().flat_map(|edge| edge.to_be_bytes()));
    option
}

/// Options of a SYN: MSS, window scale, SACK permitted.
pub fn syn_options(mss_bytes: u16, wscale: u8) -> [u8; 12] {
    let [high, low] = mss_bytes.to_be_bytes();
    [2, 4, high, low, 4, 2, 1, 3, 3, wscale, 1, 0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{SlicedPacket, TransportSlice};

    const MACS: Macs = Macs { own: [2, 0, 0, 0, 0, 1], next_hop: [2, 0, 0, 0, 0, 2] };

    fn segment() -> Segment<'static> {
        let (from, to) = ("10.0.0.1:1000".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        Segment::bare(from, to, ACK | PSH, 7, 9)
    }

    #[test]
    fn a_written_segment_has_right_checksums() {
        let mut frame = vec![9; 3];
        let options = sack(&[[1, 2], [3, 4]]);
        Segment { options: &options, payload: b"data", ttl: 1, ..segment() }.write(MACS, &mut frame).unwrap();
        assert_eq!((&frame[..6], &frame[6..12]), (&MACS.next_hop[..], &MACS.own[..]));
        let packet = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(etherparse::NetSlice::Ipv4(ip)) = &packet.net else { panic!("no IPv4") };
        let header = ip.header().to_header();
        assert_eq!((header.time_to_live, header.calc_header_checksum()), (1, header.header_checksum));
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { panic!("no TCP") };
        assert_eq!(
            tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()),
            Ok(tcp.checksum())
        );
        assert_eq!((tcp.options(), tcp.payload()), (&options[..], &b"data"[..]));
        assert_eq!(
            (tcp.ack(), tcp.psh(), tcp.syn(), tcp.rst(), tcp.fin()),
            (true, true, false, false, false)
        );
    }

    #[test]
    fn what_was_written_is_read_although_its_data_are_cut_off() {
        let mut frame = Vec::new();
        let segment = Segment { payload: &[0; 1000], ..segment() };
        segment.write(MACS, &mut frame).unwrap();
        let expected = Received {
            from: segment.from,
            to: segment.to,
            seq: 7,
            ack: 9,
            flags: ACK | PSH,
            payload_bytes: 1000,
        };
        assert_eq!(Received::parse(&frame[..HEADERS_MOST_BYTES]), Some(expected));
        assert_eq!(Received::parse(&frame[..40]), None);
        frame[ETHERNET_BYTES + 9] = 17;
        assert_eq!(Received::parse(&frame), None, "UDP");
    }

    #[test]
    fn options_are_padded_to_words() {
        assert_eq!(sack(&[[1, 2]]), [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!(sack(&[[0, 0]; 5]).len(), 36);
        assert_eq!(syn_options(1460, 14), [2, 4, 5, 180, 4, 2, 1, 3, 3, 14, 1, 0]);
    }
}
