//! TCP segments as Ethernet frames, written and read fast enough for some hundred thousand a second.

use crate::stream::Key;

/// The flags of RFC 9293, section 3.1, as in byte 13 of the header.
pub const FIN: u8 = 1;
/// See [`FIN`].
pub const SYN: u8 = 2;
/// See [`FIN`].
pub const RST: u8 = 4;
/// See [`FIN`].
pub const PSH: u8 = 8;
/// See [`FIN`].
pub const ACK: u8 = 16;
/// See [`FIN`].
pub const URG: u8 = 32;
/// Of explicit congestion notification (RFC 3168).
pub const ECE: u8 = 64;
/// See [`ECE`].
pub const CWR: u8 = 128;

const ETH_BYTES: usize = 14;
const TCP_BYTES: usize = 20;
const OPTIONS_MAX: usize = 40;
const ETH_P_IP: [u8; 2] = [8, 0];
const ETH_P_IPV6: [u8; 2] = [0x86, 0xdd];
const DONT_FRAGMENT: [u8; 2] = [0x40, 0];

/// Names a connection, seen from its server. IPv4 addresses are written as IPv4-mapped ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Address of the server.
    pub server: [u8; 16],
    /// Address of the client.
    pub client: [u8; 16],
    /// Port of the server.
    pub server_port: u16,
    /// Port of the client.
    pub client_port: u16,
}

impl Tuple {
    fn is_ipv6(&self) -> bool {
        self.server[..12] != MAPPED
    }
}

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// An IPv4-mapped address.
pub fn mapped(address: [u8; 4]) -> [u8; 16] {
    let mut mapped = [0; 16];
    mapped[..12].copy_from_slice(&MAPPED);
    mapped[12..].copy_from_slice(&address);
    mapped
}

/// Options as bytes, padded when they are written.
#[derive(Clone, Copy, Debug)]
pub struct TcpOptions {
    bytes: [u8; OPTIONS_MAX],
    len: usize,
}

impl Default for TcpOptions {
    fn default() -> Self {
        TcpOptions { bytes: [0; OPTIONS_MAX], len: 0 }
    }
}

impl TcpOptions {
    /// Adds bytes; those for which there is no room are left out.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.len + bytes.len() <= OPTIONS_MAX {
            self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// Adds timestamps, behind two NOPs.
    pub fn timestamps(&mut self, value: u32, echo: u32) {
        self.push(&[1, 1, 8, 10]);
        self.push(&value.to_be_bytes());
        self.push(&echo.to_be_bytes());
    }

    /// Adds as many SACK blocks as there is room for, behind two NOPs.
    pub fn sack(&mut self, blocks: &[(u32, u32)]) {
        let room = OPTIONS_MAX.saturating_sub(self.len + 4) / 8;
        let blocks = &blocks[..blocks.len().min(room)];
        if blocks.is_empty() {
            return;
        }
        self.push(&[1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (start, end) in blocks {
            self.push(&start.to_be_bytes());
            self.push(&end.to_be_bytes());
        }
    }

    /// Starts and ends of its SACK blocks.
    pub fn sack_blocks(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        blocks(find_option(&self.bytes[..self.len], SACK))
    }

    fn padded_bytes(&self) -> usize {
        self.len.next_multiple_of(4)
    }
}

/// How a frame's TCP checksum is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Of all that it covers.
    Full,
    /// Of the pseudo-header alone, for the network card to complete.
    Partial,
    /// Full, and one bit of the frame was damaged on the way.
    Damaged,
}

/// One TCP segment, or a super-packet of several.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Which side sends it.
    pub is_from_server: bool,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// As in byte 13 of the header.
    pub flags: u8,
    /// The AE flag of accurate ECN (RFC 9768), the lowest bit of byte 12.
    pub has_ae: bool,
    /// Window field, as it is on the wire.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options of the header.
    pub options: TcpOptions,
    /// Stream that its payload is of.
    pub key: Key,
    /// Where in that stream its payload begins.
    pub offset: i64,
    /// Bytes of payload.
    pub len: usize,
    /// TTL, or hop limit.
    pub ttl: u8,
    /// Ethernet address of the sender of the frame.
    pub source_mac: [u8; 6],
    /// Ethernet address of its receiver.
    pub destination_mac: [u8; 6],
    /// How its checksum is.
    pub checksum: Checksum,
    /// Payload of each of its segments; 0: it is one.
    pub gso_bytes: u32,
}

fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let mut sum: u64 = words.by_ref().map(|w| u64::from(u32::from_be_bytes([w[0], w[1], w[2], w[3]]))).sum();
    let rest = words.remainder();
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        sum += u64::from(u32::from_be_bytes(last));
    }
    sum
}

fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn pseudo_sum(addresses: &[u8], tcp_bytes: usize) -> u64 {
    sum(addresses) + 6 + tcp_bytes as u64
}

impl Segment {
    /// Writes the segment of that connection as a frame.
    pub fn write(&self, tuple: &Tuple, frame: &mut Vec<u8>) {
        frame.clear();
        let (from, to, from_port, to_port) = if self.is_from_server {
            (&tuple.server, &tuple.client, tuple.server_port, tuple.client_port)
        } else {
            (&tuple.client, &tuple.server, tuple.client_port, tuple.server_port)
        };
        let option_bytes = self.options.padded_bytes();
        let tcp_bytes = TCP_BYTES + option_bytes + self.len;
        frame.extend_from_slice(&self.destination_mac);
        frame.extend_from_slice(&self.source_mac);
        let addresses = if tuple.is_ipv6() {
            frame.extend_from_slice(&ETH_P_IPV6);
            frame.extend_from_slice(&[0x60, 0, 0, 0]);
            // a jumbogram has none (BIG TCP)
            frame.extend_from_slice(&u16::try_from(tcp_bytes).unwrap_or(0).to_be_bytes());
            frame.extend_from_slice(&[6, self.ttl]);
            frame.extend_from_slice(from);
            frame.extend_from_slice(to);
            ETH_BYTES + 8..ETH_BYTES + 40
        } else {
            frame.extend_from_slice(&ETH_P_IP);
            frame.extend_from_slice(&[0x45, 0]);
            frame.extend_from_slice(&u16::try_from(20 + tcp_bytes).unwrap_or(0).to_be_bytes());
            frame.extend_from_slice(&[0, 0]);
            frame.extend_from_slice(&DONT_FRAGMENT);
            frame.extend_from_slice(&[self.ttl, 6, 0, 0]);
            frame.extend_from_slice(&from[12..]);
            frame.extend_from_slice(&to[12..]);
            let check = !fold(sum(&frame[ETH_BYTES..]));
            frame[ETH_BYTES + 10..ETH_BYTES + 12].copy_from_slice(&check.to_be_bytes());
            ETH_BYTES + 12..ETH_BYTES + 20
        };
        let l4 = frame.len();
        frame.extend_from_slice(&from_port.to_be_bytes());
        frame.extend_from_slice(&to_port.to_be_bytes());
        frame.extend_from_slice(&self.seq.to_be_bytes());
        frame.extend_from_slice(&self.ack.to_be_bytes());
        let offset_and_ae = ((TCP_BYTES + option_bytes) << 2) as u8 | u8::from(self.has_ae);
        frame.extend_from_slice(&[offset_and_ae, self.flags]);
        frame.extend_from_slice(&self.window.to_be_bytes());
        frame.extend_from_slice(&[0, 0]);
        frame.extend_from_slice(&self.urgent.to_be_bytes());
        frame.extend_from_slice(&self.options.bytes[..option_bytes]);
        self.key.append(self.offset, self.len, frame);
        let pseudo = pseudo_sum(&frame[addresses], tcp_bytes);
        let check = match self.checksum {
            Checksum::Partial => fold(pseudo),
            Checksum::Full | Checksum::Damaged => !fold(pseudo + sum(&frame[l4..])),
        };
        frame[l4 + 16..l4 + 18].copy_from_slice(&check.to_be_bytes());
        if self.checksum == Checksum::Damaged {
            let last = frame.len() - 1;
            frame[if self.len > 0 { last } else { l4 + 15 }] ^= 0x10;
        }
    }
}

/// A frame's fields.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'a> {
    /// Ethernet address of the sender of the frame.
    pub source_mac: [u8; 6],
    /// Ethernet address of its receiver.
    pub destination_mac: [u8; 6],
    /// Type of service, or traffic class.
    pub tos: u8,
    /// TTL, or hop limit.
    pub ttl: u8,
    /// Both addresses and ports, as if its source were the server.
    pub tuple: Tuple,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// As in byte 13 of the header.
    pub flags: u8,
    /// The AE flag of accurate ECN (RFC 9768).
    pub has_ae: bool,
    /// Window field, as it is on the wire.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options of the header, with their padding.
    pub options: &'a [u8],
    /// Payload.
    pub payload: &'a [u8],
    /// The checksum of the IPv4 header is right, or it is IPv6.
    pub is_ip_sum_right: bool,
    /// The TCP checksum is right.
    pub is_tcp_sum_right: bool,
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl<'a> Parsed<'a> {
    /// None: no TCP segment, or not a whole one.
    pub fn of(frame: &'a [u8]) -> Option<Parsed<'a>> {
        let ethertype = frame.get(12..14)?;
        let ip = &frame[ETH_BYTES..];
        let (l4, l3_bytes, addresses, tos, ttl, is_ip_sum_right) = if ethertype == ETH_P_IP {
            if ip.len() < 20 || ip[0] != 0x45 || ip[9] != 6 {
                return None;
            }
            (20, usize::from(be16(ip, 2)), 12..20, ip[1], ip[8], fold(sum(&ip[..20])) == 0xffff)
        } else if ethertype == ETH_P_IPV6 {
            if ip.len() < 40 || ip[6] != 6 {
                return None;
            }
            (40, 40 + usize::from(be16(ip, 4)), 8..40, (be16(ip, 0) >> 4) as u8, ip[7], true)
        } else {
            return None;
        };
        let tcp = ip.get(l4..l3_bytes)?;
        if tcp.len() < TCP_BYTES {
            return None;
        }
        let payload_at = usize::from(tcp[12] >> 4) * 4;
        let address = |at: usize| {
            if l4 == 20 {
                mapped([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]])
            } else {
                ip[at..at + 16].try_into().expect("sixteen bytes")
            }
        };
        Some(Parsed {
            destination_mac: frame[..6].try_into().expect("six bytes"),
            source_mac: frame[6..12].try_into().expect("six bytes"),
            tos,
            ttl,
            tuple: Tuple {
                server: address(addresses.start),
                client: address(addresses.start + addresses.len() / 2),
                server_port: be16(tcp, 0),
                client_port: be16(tcp, 2),
            },
            seq: be32(tcp, 4),
            ack: be32(tcp, 8),
            flags: tcp[13],
            has_ae: tcp[12] & 1 != 0,
            urgent: be16(tcp, 18),
            window: be16(tcp, 14),
            options: tcp.get(TCP_BYTES..payload_at)?,
            payload: tcp.get(payload_at..)?,
            is_ip_sum_right,
            is_tcp_sum_right: fold(pseudo_sum(&ip[addresses], tcp.len()) + sum(tcp)) == 0xffff,
        })
    }

    /// The same with its source taken for the client.
    pub fn turned(mut self) -> Parsed<'a> {
        let Tuple { server, client, server_port, client_port } = self.tuple;
        self.tuple =
            Tuple { server: client, client: server, server_port: client_port, client_port: server_port };
        self
    }

    /// Value and echo.
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        find_option(self.options, TIMESTAMPS).filter(|o| o.len() == 8).map(|o| (be32(o, 0), be32(o, 4)))
    }

    /// Starts and ends of its SACK blocks.
    pub fn sack(&self) -> impl Iterator<Item = (u32, u32)> + 'a {
        blocks(find_option(self.options, SACK))
    }
}

const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// What follows kind and length of the first option of that kind.
fn find_option(options: &[u8], wanted: u8) -> Option<&[u8]> {
    let mut rest = options;
    loop {
        match *rest {
            [] | [0, ..] => return None,
            [1, ..] => rest = &rest[1..],
            [kind, len, ..] if len >= 2 && usize::from(len) <= rest.len() => {
                if kind == wanted {
                    return Some(&rest[2..usize::from(len)]);
                }
                rest = &rest[usize::from(len)..];
            }
            _ => return None,
        }
    }
}

fn blocks(option: Option<&[u8]>) -> impl Iterator<Item = (u32, u32)> + '_ {
    option.unwrap_or_default().chunks_exact(8).map(|block| (be32(block, 0), be32(block, 4)))
}
