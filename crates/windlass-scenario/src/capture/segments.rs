//! TCP segments of capture files: pcap and pcapng, of Ethernet (VLAN tags, too), of IP by itself, and of Linux' cooked sockets.
//! Packets may be cut short behind their TCP headers; lengths are those of the IP headers. What is no TCP, or a fragment, is passed
//! over.

use etherparse::{EtherType, LaxPacketHeaders, NetHeaders, TcpHeader, TransportHeader};
use pcap_file::{
    DataLink, Endianness, PcapError, TsResolution,
    pcap::PcapReader,
    pcapng::{
        Block, PcapNgReader,
        blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
    },
};
use std::{
    io::{Cursor, Read},
    net::{IpAddr, SocketAddr},
};

/// A TCP segment as a capture has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// When it was captured, on the capture's clock.
    pub at_ns: u64,
    /// Its sender.
    pub from: SocketAddr,
    /// Its receiver.
    pub to: SocketAddr,
    pub seq: u32,
    pub ack: u32,
    /// Payload on the wire, captured or not.
    pub payload_bytes: u32,
    pub is_syn: bool,
    pub has_ack: bool,
}

/// What the files of other formats begin with, and ours: a pcapng's first block.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const PCAP_MAGICS: [[u8; 4]; 4] =
    [[0xa1, 0xb2, 0xc3, 0xd4], [0xd4, 0xc3, 0xb2, 0xa1], [0xa1, 0xb2, 0x3c, 0x4d], [0x4d, 0x3c, 0xb2, 0xa1]];

const AGAIN: &str =
    "record it again, or write what is whole into another file, e.g. with tcpdump -r OLD -w NEW";

/// Gives `each` the segments of a capture, in its order. An error begins with the packet, from 1, or the block of a pcapng.
pub(super) fn read(mut file: impl Read, each: &mut dyn FnMut(Segment)) -> Result<(), String> {
    let mut magic = [0; 4];
    let mut count = 0;
    // a pipe may give less at a time
    while count < magic.len() {
        match file.read(&mut magic[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(e) => return Err(format!(" cannot be read: {e}")),
        }
    }
    let whole = Cursor::new(magic[..count].to_vec()).chain(file);
    match magic {
        PCAPNG_MAGIC => read_pcapng(whole, each),
        magic if PCAP_MAGICS.contains(&magic) => read_pcap(whole, each),
        _ => Err(" is no capture; name a file of tcpdump or Wireshark, pcap or pcapng".into()),
    }
}

/// What is wrong with a packet or block.
fn explain(what: &str, number: u64, error: &PcapError) -> String {
    match error {
        PcapError::IncompleteBuffer => format!(": {what} {number} is incomplete; {AGAIN}"),
        PcapError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            format!(": the file ends within {what} {number}; {AGAIN}")
        }
        PcapError::IoError(e) => format!(": {what} {number} cannot be read: {e}"),
        other => format!(": {what} {number}: {other}; {AGAIN}"),
    }
}

fn read_pcap(file: impl Read, each: &mut dyn FnMut(Segment)) -> Result<(), String> {
    let mut reader = PcapReader::new(file).map_err(|e| explain("header", 1, &e))?;
    let header = reader.header();
    check_link(header.datalink)?;
    let of_fraction = if header.ts_resolution == TsResolution::NanoSecond { 1 } else { 1000 };
    let mut number = 0;
    // the reader's own check refuses packets that are longer than what was kept of them
    while let Some(packet) = reader.next_raw_packet() {
        number += 1;
        let packet = packet.map_err(|e| explain("packet", number, &e))?;
        let at_ns = u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_frac) * of_fraction;
        if let Some(segment) = segment(header.datalink, at_ns, &packet.data, packet.orig_len) {
            each(segment);
        }
    }
    Ok(())
}

fn read_pcapng(file: impl Read, each: &mut dyn FnMut(Segment)) -> Result<(), String> {
    let mut reader = PcapNgReader::new(file).map_err(|e| explain("block", 1, &e))?;
    let mut number = 1;
    // of the interfaces of the section: link type, and the resolution of its times
    let mut interfaces: Vec<(DataLink, Resolution)> = Vec::new();
    while let Some(block) = reader.next_block() {
        number += 1;
        let block = block.map_err(|e| explain("block", number, &e))?;
        let (interface, ticks, data, orig_len) = match block {
            Block::SectionHeader(section) => {
                debug_assert!(matches!(section.endianness, Endianness::Big | Endianness::Little));
                interfaces.clear();
                continue;
            }
            Block::InterfaceDescription(interface) => {
                check_link(interface.linktype)?;
                interfaces.push((interface.linktype, Resolution::of(&interface)));
                continue;
            }
            // the reader takes a tick for a nanosecond, whatever it is
            Block::EnhancedPacket(p) => (p.interface_id, p.timestamp.as_nanos(), p.data, p.original_len),
            Block::Packet(p) => (p.interface_id.into(), p.timestamp.into(), p.data, p.original_len),
            Block::SimplePacket(_) => {
                return Err(format!(
                    ": block {number} is a packet without a time; record it with times, as tcpdump and Wireshark do"
                ));
            }
            _ => continue,
        };
        let Some((link, resolution)) = interfaces.get(interface as usize) else {
            return Err(format!(
                ": block {number} is of interface {interface}, which is not described; {AGAIN}"
            ));
        };
        if let Some(segment) = segment(*link, resolution.ns(ticks), &data, orig_len) {
            each(segment);
        }
    }
    Ok(())
}

/// How long a tick of an interface's times is.
#[derive(Clone, Copy, Debug)]
struct Resolution {
    /// Ticks of a second.
    ticks_ps: u128,
}

impl Resolution {
    /// `if_tsresol`: a power of ten, or of two if the highest bit is set; microseconds without it.
    fn of(interface: &InterfaceDescriptionBlock) -> Resolution {
        let resolution = interface.options.iter().find_map(|option| match option {
            InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
            _ => None,
        });
        let exponent = u32::from(resolution.unwrap_or(6) & 0x7f);
        let base: u128 = if resolution.is_some_and(|resolution| resolution & 0x80 != 0) { 2 } else { 10 };
        Resolution { ticks_ps: base.saturating_pow(exponent) }
    }

    fn ns(self, ticks: u128) -> u64 {
        // a tick counter has 64 bits, 10^9 has 30
        u64::try_from(ticks * 1_000_000_000 / self.ticks_ps).unwrap_or(u64::MAX)
    }
}

fn check_link(link: DataLink) -> Result<(), String> {
    match link {
        DataLink::ETHERNET
        | DataLink::RAW
        | DataLink::IPV4
        | DataLink::IPV6
        | DataLink::LINUX_SLL
        | DataLink::LINUX_SLL2 => Ok(()),
        other => Err(format!(
            " is of link type {}; Ethernet, IP by itself and Linux' cooked sockets (tcpdump -i any) can be read",
            u32::from(other)
        )),
    }
}

/// Where the EtherType is in the header of a cooked socket, and how long that is.
const SLL: (usize, usize) = (14, 16);
const SLL2: (usize, usize) = (0, 20);

/// The TCP segment in a packet; none: it is something else.
fn segment(link: DataLink, at_ns: u64, data: &[u8], orig_len: u32) -> Option<Segment> {
    let of_cooked = |(at, len): (usize, usize)| {
        let kind = u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?);
        Some((LaxPacketHeaders::from_ether_type(EtherType(kind), data.get(len..)?), len))
    };
    let (headers, link_bytes) = match link {
        DataLink::ETHERNET => {
            let headers = LaxPacketHeaders::from_ethernet(data).ok()?;
            let tags_bytes: usize = headers.link_exts.iter().map(|tag| tag.header_len()).sum();
            (headers, 14 + tags_bytes)
        }
        DataLink::LINUX_SLL => of_cooked(SLL)?,
        DataLink::LINUX_SLL2 => of_cooked(SLL2)?,
        _ => (LaxPacketHeaders::from_ip(data).ok()?, 0),
    };
    let Some(TransportHeader::Tcp(tcp)) = &headers.transport else { return None };
    // of a super-packet of segmentation offload the IP header may have no length
    let on_wire = u64::from(orig_len).saturating_sub(link_bytes as u64);
    let (from, to, ip_bytes, headers_bytes) = match headers.net? {
        NetHeaders::Ipv4(ip, _) if ip.is_fragmenting_payload() => return None,
        NetHeaders::Ipv4(ip, more) => {
            let length = if ip.total_len == 0 { on_wire } else { ip.total_len.into() };
            let headers_bytes = ip.header_len() + more.header_len();
            (IpAddr::from(ip.source), IpAddr::from(ip.destination), length, headers_bytes)
        }
        NetHeaders::Ipv6(_, more) if more.is_fragmenting_payload() => return None,
        NetHeaders::Ipv6(ip, more) => {
            let length = if ip.payload_length == 0 { on_wire } else { 40 + u64::from(ip.payload_length) };
            (IpAddr::from(ip.source), IpAddr::from(ip.destination), length, 40 + more.header_len())
        }
        NetHeaders::Arp(_) => return None,
    };
    let payload_bytes = ip_bytes.saturating_sub((headers_bytes + tcp.header_len()) as u64);
    Some(of_headers(at_ns, [from, to], tcp, u32::try_from(payload_bytes).ok()?))
}

fn of_headers(at_ns: u64, [from, to]: [IpAddr; 2], tcp: &TcpHeader, payload_bytes: u32) -> Segment {
    Segment {
        at_ns,
        from: SocketAddr::new(from, tcp.source_port),
        to: SocketAddr::new(to, tcp.destination_port),
        seq: tcp.sequence_number,
        ack: tcp.acknowledgment_number,
        payload_bytes,
        is_syn: tcp.syn,
        has_ack: tcp.ack,
    }
}
