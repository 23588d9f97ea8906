//! Between frames and the segments of the core: what `bpf/packet/parse.h`, `bpf/packet/rewrite.h` and `bpf/packet/build.h` do in the kernel.

use anyhow::{Result, ensure};
use etherparse::{
    EtherType, Ethernet2Header, IpDscp, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, ip_number,
};
use windlass_core::{
    Segment,
    abi::{self, wl_flow, wl_header, wl_segment, wl_sent, wl_verdict},
    tcp_options,
};
use windlass_oracle::wire::{Parsed, Tuple, mapped};

const ETH_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
/// Where the TCP header has what describes its sender's receiver: acknowledgement, flags, window.
const ACK_AT: usize = 8;
const FLAGS_AT: usize = 13;
const WINDOW_AT: usize = 14;
const CHECK_AT: usize = 16;
/// As the box writes it where it does not know a better one.
const TTL: u8 = 64;
const ECN_MASK: u8 = 3;
const IPV6_LABEL_MASK: u32 = 0xf_ffff;

/// A frame as the box takes it.
pub struct Frame<'a> {
    /// Names its connection.
    pub tuple: Tuple,
    /// What its headers carry.
    pub segment: Segment,
    /// What follows these.
    pub payload: &'a [u8],
    /// Its addresses are of IPv6.
    pub is_ipv6: bool,
    /// It was not damaged on the way, as far as its checksum shows.
    pub is_intact: bool,
}

/// Where the TCP header of a frame begins.
fn tcp_at(frame: &[u8]) -> usize {
    ETH_BYTES + if frame[12] == 8 { IPV4_BYTES } else { IPV6_BYTES }
}

/// What stands below TCP in a frame.
fn lower_header(frame: &[u8], parsed: &Parsed) -> wl_header {
    let mut header = wl_header {
        snd_mac: parsed.source_mac,
        rcv_mac: parsed.destination_mac,
        ttl: parsed.ttl,
        tos: parsed.tos & !ECN_MASK,
        ..wl_header::default()
    };
    let ip = &frame[ETH_BYTES..];
    if tcp_at(frame) == ETH_BYTES + IPV4_BYTES {
        header.set_may_fragment(u32::from(ip[6] & 0x40 == 0));
    } else {
        header.set_flow_label(u32::from_be_bytes([ip[0], ip[1], ip[2], ip[3]]) & IPV6_LABEL_MASK);
    }
    header
}

impl<'a> Frame<'a> {
    /// None: the box takes it for no segment of TCP, or its options lie about their lengths.
    pub fn of(frame: &'a [u8], is_from_server: bool, gso_bytes: u32) -> Option<Frame<'a>> {
        let parsed = Parsed::of(frame)?;
        let options = tcp_options(parsed.options).filter(|options| options.is_bad == 0)?;
        let mut segment = Segment::new(wl_segment {
            seq: parsed.seq,
            ack: parsed.ack,
            payload_bytes: parsed.payload.len() as u32,
            window_field: parsed.window,
            flags: parsed.flags,
            ns: parsed.has_ae.into(),
            is_summed: (gso_bytes == 0 && parsed.is_tcp_sum_right).into(),
            header: lower_header(frame, &parsed),
            ..wl_segment::default()
        });
        let start = usize::from(options.sack_off) + 2;
        let end = usize::from(options.sack_off) + usize::from(options.sack_len);
        let blocks = parsed.options.get(start..end).unwrap_or_default().chunks_exact(8);
        let be32 = |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        segment.add_sack(blocks.map(|block| (be32(block), be32(&block[4..]))));
        // with the true length of the SACK option
        segment.tcp.options = options;
        segment.gso_bytes = gso_bytes;
        Some(Frame {
            tuple: if is_from_server { parsed.tuple } else { parsed.turned().tuple },
            segment,
            payload: parsed.payload,
            is_ipv6: tcp_at(frame) == ETH_BYTES + IPV6_BYTES,
            is_intact: gso_bytes > 0 || parsed.is_tcp_sum_right,
        })
    }
}

/// Replaces bytes of the TCP header, from an even place on, and keeps its checksum as right or wrong as it was (RFC 1624).
fn replace(tcp: &mut [u8], at: usize, new: &[u8]) {
    let word = |bytes: &[u8]| u32::from(u16::from_be_bytes([bytes[0], bytes[1]]));
    let mut sum = 0xffff - word(&tcp[CHECK_AT..]);
    for (old, new) in tcp[at..].chunks_exact(2).zip(new.chunks_exact(2)) {
        sum += 0xffff - word(old) + word(new);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    tcp[at..at + new.len()].copy_from_slice(new);
    tcp[CHECK_AT..CHECK_AT + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Writes the verdict on a segment into its frame.
pub fn write_verdict(frame: &mut [u8], segment: &wl_segment, verdict: &wl_verdict) {
    let at = tcp_at(frame);
    let tcp = &mut frame[at..];
    if (verdict.ack, verdict.flags, verdict.window_field)
        != (segment.ack, segment.flags, segment.window_field)
    {
        let mut words: [u8; 8] = tcp[ACK_AT..CHECK_AT].try_into().expect("eight bytes");
        words[..4].copy_from_slice(&verdict.ack.to_be_bytes());
        words[FLAGS_AT - ACK_AT] = verdict.flags;
        words[WINDOW_AT - ACK_AT..].copy_from_slice(&verdict.window_field.to_be_bytes());
        replace(tcp, ACK_AT, &words);
    }
    if verdict.hides_sack != 0 {
        let options_end = usize::from(tcp[12] >> 4) * 4;
        let mut options = tcp[TCP_BYTES..options_end].to_vec();
        let start = usize::from(segment.options.sack_off);
        options[start..start + usize::from(segment.options.sack_len)].fill(1);
        replace(tcp, TCP_BYTES, &options);
    }
}

/// The TCP header of a segment of the box.
fn tcp_header(tuple: &Tuple, sent: &wl_sent) -> Result<TcpHeader> {
    let ports = (tuple.server_port, tuple.client_port);
    let (source, destination) = if sent.to_sender != 0 { (ports.1, ports.0) } else { ports };
    let mut header = TcpHeader::new(source, destination, sent.seq, sent.window_field);
    let has = |flag: u32| u32::from(sent.flags) & flag != 0;
    header.acknowledgment_number = sent.ack;
    (header.ack, header.psh, header.fin) = (has(abi::WL_TCP_ACK), has(abi::WL_TCP_PSH), has(abi::WL_TCP_FIN));
    ensure!(
        u32::from(sent.flags) & !(abi::WL_TCP_ACK | abi::WL_TCP_PSH | abi::WL_TCP_FIN) == 0,
        "the box sends a segment with flags {:#x}",
        sent.flags
    );
    let mut options = Vec::new();
    let mut push = |kind: u8, values: [u32; 2]| {
        options.extend([1, 1, kind, 10]);
        values.iter().for_each(|value| options.extend(value.to_be_bytes()));
    };
    if sent.has_ts != 0 {
        push(8, [sent.tsval, sent.tsecr]);
    }
    if sent.has_report != 0 {
        push(5, [sent.report_start, sent.report_end]);
    }
    header.set_options_raw(&options)?;
    Ok(header)
}

/// A segment of the box as a frame.
pub fn build(flow: &wl_flow, tuple: &Tuple, sent: &wl_sent, payload: &[u8]) -> Result<Vec<u8>> {
    let is_to_sender = sent.to_sender != 0;
    let lower = &flow.header;
    let mut tcp = tcp_header(tuple, sent)?;
    let ends = (tuple.server, tuple.client);
    let (source, destination) = if is_to_sender { (ends.1, ends.0) } else { ends };
    let macs = (lower.snd_mac, lower.rcv_mac);
    let (source_mac, destination_mac) = if is_to_sender { (macs.1, macs.0) } else { macs };
    let (tos, ttl) = if is_to_sender { (0, TTL) } else { (lower.tos, lower.ttl) };
    let is_ipv6 = flow.flags & abi::WL_FLOW_IPV6 != 0;
    let mut frame = Vec::new();
    Ethernet2Header {
        source: source_mac,
        destination: destination_mac,
        ether_type: if is_ipv6 { EtherType::IPV6 } else { EtherType::IPV4 },
    }
    .write(&mut frame)?;
    let tcp_bytes = tcp.header_len() + payload.len();
    if is_ipv6 {
        let label = if is_to_sender { 0 } else { lower.flow_label() };
        let ip = Ipv6Header {
            traffic_class: tos,
            flow_label: Ipv6FlowLabel::try_new(label)?,
            payload_length: tcp_bytes.try_into()?,
            next_header: ip_number::TCP,
            hop_limit: ttl,
            source,
            destination,
        };
        tcp.checksum = tcp.calc_checksum_ipv6(&ip, payload)?;
        ip.write(&mut frame)?;
    } else {
        let ipv4 = |address: [u8; 16]| [address[12], address[13], address[14], address[15]];
        debug_assert_eq!(mapped(ipv4(source)), source);
        let mut ip =
            Ipv4Header::new(tcp_bytes.try_into()?, ttl, IpNumber::TCP, ipv4(source), ipv4(destination))?;
        ip.dscp = IpDscp::try_new(tos >> 2)?;
        let may_fragment = !is_to_sender && lower.may_fragment() != 0;
        ip.dont_fragment = !may_fragment;
        // of what may be fragmented it is random, and so 0 here
        ip.identification = if may_fragment { 0 } else { flow.repaired_segs as u16 };
        tcp.checksum = tcp.calc_checksum_ipv4(&ip, payload)?;
        ip.write(&mut frame)?;
    }
    tcp.write(&mut frame)?;
    frame.extend_from_slice(payload);
    Ok(frame)
}
