use super::*;
use etherparse::{Ethernet2Header, IpNumber, Ipv4Header, Ipv6Header, SingleVlanHeader, TcpHeader};
use pcap_file::{
    DataLink, Endianness, TsResolution,
    pcap::{PcapHeader, PcapWriter, RawPcapPacket},
    pcapng::{
        PcapNgBlock, PcapNgWriter,
        blocks::{
            enhanced_packet::EnhancedPacketBlock,
            interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
        },
    },
};
use proptest::prelude::*;
use std::{borrow::Cow, time::Duration};

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 443);

/// A packet of a capture, without a link-layer header.
#[derive(Clone)]
struct Seen {
    at_ns: u64,
    ip: Vec<u8>,
    payload_bytes: u32,
}

/// A segment from one end to the other, its numbers and its payload.
fn seen(
    at_ns: u64,
    (from, to): (([u8; 4], u16), ([u8; 4], u16)),
    flags: &str,
    (seq, ack): (u32, u32),
    payload_bytes: u32,
) -> Seen {
    let mut tcp = TcpHeader::new(from.1, to.1, seq, 1000);
    (tcp.syn, tcp.ack, tcp.acknowledgment_number) = (flags.contains('S'), flags.contains('.'), ack);
    let length = tcp.header_len() as u32 + payload_bytes;
    let ip = Ipv4Header::new(length as u16, 64, IpNumber::TCP, from.0, to.0).unwrap();
    let mut bytes = Vec::new();
    ip.write(&mut bytes).unwrap();
    tcp.write(&mut bytes).unwrap();
    bytes.resize(bytes.len() + payload_bytes as usize, 0);
    Seen { at_ns, ip: bytes, payload_bytes }
}

const DOWN: (([u8; 4], u16), ([u8; 4], u16)) = (SERVER, CLIENT);
const UP: (([u8; 4], u16), ([u8; 4], u16)) = (CLIENT, SERVER);

/// A handshake, and a request of 80 bytes that is answered by 2000 in two segments, one of which is sent twice; after 300 ms another
/// 1000 without a request. Sequence numbers wrap.
fn download(at_ns: u64) -> Vec<Seen> {
    let first = u32::MAX - 500;
    let s = |after: u32| first.wrapping_add(after);
    let at = |ms: u64| at_ns + ms * MS;
    vec![
        seen(at(0), UP, "S", (100, 0), 0),
        seen(at(1), DOWN, "S.", (first, 101), 0),
        seen(at(2), UP, ".", (101, s(1)), 0),
        seen(at(3), UP, ".", (101, s(1)), 80),
        seen(at(4), DOWN, ".", (s(1), 181), 1000),
        seen(at(4), DOWN, ".", (s(1001), 181), 1000),
        seen(at(30), DOWN, ".", (s(1), 181), 1000),
        seen(at(31), UP, ".", (181, s(2001)), 0),
        seen(at(331), DOWN, ".", (s(2001), 181), 1000),
        seen(at(332), UP, ".", (181, s(3001)), 0),
    ]
}

fn framed(link: DataLink, ip: &[u8]) -> Vec<u8> {
    let ether_type = if ip[0] >> 4 == 6 { 0x86dd } else { 0x0800u16 };
    let mut frame = Vec::new();
    match link {
        DataLink::ETHERNET => {
            let vlan = SingleVlanHeader { ether_type: ether_type.into(), ..SingleVlanHeader::default() };
            let ethernet = Ethernet2Header { ether_type: 0x8100.into(), ..Ethernet2Header::default() };
            ethernet.write(&mut frame).unwrap();
            vlan.write(&mut frame).unwrap();
        }
        DataLink::LINUX_SLL => {
            frame.extend([0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0]);
            frame.extend(ether_type.to_be_bytes());
        }
        DataLink::LINUX_SLL2 => {
            frame.extend(ether_type.to_be_bytes());
            frame.extend([0; 18]);
        }
        _ => {}
    }
    frame.extend(ip);
    frame
}

/// A classic capture that keeps `snap_bytes` of each packet.
fn pcap(
    link: DataLink,
    ts_resolution: TsResolution,
    endianness: Endianness,
    snap_bytes: usize,
    all: &[Seen],
) -> Vec<u8> {
    let header = PcapHeader {
        datalink: link,
        ts_resolution,
        endianness,
        snaplen: snap_bytes as u32,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    let of_fraction = if ts_resolution == TsResolution::NanoSecond { 1 } else { 1000 };
    for seen in all {
        let mut frame = framed(link, &seen.ip);
        let orig_len = frame.len() as u32;
        frame.truncate(snap_bytes);
        let packet = RawPcapPacket {
            ts_sec: (seen.at_ns / S) as u32,
            ts_frac: (seen.at_ns % S / of_fraction) as u32,
            incl_len: frame.len() as u32,
            orig_len,
            data: Cow::Owned(frame),
        };
        writer.write_raw_packet(&packet).unwrap();
    }
    writer.into_writer()
}

fn usual(all: &[Seen]) -> Vec<u8> {
    pcap(DataLink::ETHERNET, TsResolution::MicroSecond, Endianness::native(), 65_535, all)
}

/// A pcapng whose times are in ticks of `resolution`, of which a second has `ticks_ps`.
fn pcapng(resolution: Option<u8>, ticks_ps: u64, all: &[Seen]) -> Vec<u8> {
    let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
    let options = resolution.map(InterfaceDescriptionOption::IfTsResol).into_iter().collect();
    let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
    writer.write_block(&interface.into_block()).unwrap();
    for seen in all {
        let frame = framed(DataLink::ETHERNET, &seen.ip);
        let ticks = (u128::from(seen.at_ns) * u128::from(ticks_ps) / u128::from(S)) as u64;
        let packet = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(ticks),
            original_len: frame.len() as u32,
            data: Cow::Owned(frame),
            options: Vec::new(),
        };
        writer.write_block(&packet.into_block()).unwrap();
    }
    writer.into_inner()
}

fn read(capture: &[u8]) -> Vec<Transfer> {
    transfers(capture).unwrap_or_else(|e| panic!("{e}"))
}

fn bursts(transfer: &Transfer) -> Vec<(u64, u64)> {
    transfer.bursts.iter().map(|burst| (burst.at_ns / MS, burst.bytes)).collect()
}

#[test]
fn a_download_is_its_bytes_at_their_times_whatever_the_format() {
    let all = download(1_700_000_000 * S);
    let expected = [Transfer {
        began_ns: 0,
        server: 0,
        client: 0,
        is_upload: false,
        bursts: vec![Burst { at_ns: 3 * MS, bytes: 2000 }, Burst { at_ns: 331 * MS, bytes: 1000 }],
    }];
    for link in [DataLink::ETHERNET, DataLink::RAW, DataLink::IPV4, DataLink::LINUX_SLL, DataLink::LINUX_SLL2]
    {
        for (resolution, endianness) in
            [(TsResolution::MicroSecond, Endianness::Big), (TsResolution::NanoSecond, Endianness::Little)]
        {
            // 20 and 20 bytes of headers, and those of the link
            for snap_bytes in [64, 65_535] {
                let capture = pcap(link, resolution, endianness, snap_bytes, &all);
                assert_eq!(read(&capture), expected, "{link:?} {endianness:?} {snap_bytes}");
            }
        }
    }
    for (resolution, ticks_ps) in [(None, 1_000_000), (Some(9), S), (Some(0x80 | 20), 1 << 20)] {
        let read = read(&pcapng(resolution, ticks_ps, &all));
        // a tick of 2^-20 s is a little less than a microsecond
        let rounded = |burst: &Burst| (burst.at_ns.div_ceil(1000) / 1000, burst.bytes);
        assert_eq!(
            read[0].bursts.iter().map(rounded).collect::<Vec<_>>(),
            [(3, 2000), (331, 1000)],
            "{resolution:?}"
        );
    }
    let mut ip6 = Vec::new();
    let tcp = TcpHeader::new(443, 40_000, 7, 1000);
    let header = Ipv6Header { payload_length: 20 + 700, next_header: IpNumber::TCP, ..Ipv6Header::default() };
    header.write(&mut ip6).unwrap();
    tcp.write(&mut ip6).unwrap();
    let one = Seen { at_ns: 0, ip: ip6, payload_bytes: 700 };
    for link in [DataLink::ETHERNET, DataLink::IPV6, DataLink::LINUX_SLL2] {
        let capture =
            pcap(link, TsResolution::MicroSecond, Endianness::native(), 90, std::slice::from_ref(&one));
        assert_eq!(bursts(&read(&capture)[0]), [(0, u64::from(one.payload_bytes))], "{link:?}");
    }
}

/// A second request on the same connection begins a burst at once; without a request, a pause must be one.
#[test]
fn requests_and_pauses_begin_bursts() {
    let mut all = download(0);
    let s = |after: u32| (u32::MAX - 500).wrapping_add(after);
    all.push(seen(333 * MS, UP, ".", (181, s(3001)), 80));
    all.push(seen(334 * MS, DOWN, ".", (s(3001), 261), 500));
    all.push(seen(335 * MS, UP, ".", (261, s(3501)), 0));
    all.push(seen(336 * MS, DOWN, ".", (s(3501), 261), 400));
    let [transfer] = &read(&usual(&all))[..] else { panic!("one") };
    assert_eq!(bursts(transfer), [(3, 2000), (331, 1000), (333, 900)]);
}

/// Two connections of the same ports, one after the other; an upload; one of which the beginning is missing, to another server; and
/// one that carries nothing.
#[test]
fn connections_are_told_apart() {
    let other = ([10, 0, 0, 3], 443);
    let mut all = download(5 * S);
    all.extend(download(7 * S).into_iter().take(6).enumerate().map(|(i, seen)| match i {
        // its SYN has another number
        0 => self::seen(7 * S, UP, "S", (90, 0), 0),
        _ => seen,
    }));
    let client = (CLIENT.0, 40_001);
    all.push(seen(8 * S, (client, SERVER), "S", (1, 0), 0));
    all.push(seen(8 * S + 1, (SERVER, client), "S.", (1, 2), 0));
    all.push(seen(8 * S + 2, (client, SERVER), ".", (2, 2), 5000));
    all.push(seen(8 * S + 3, (SERVER, client), ".", (2, 5002), 100));
    all.push(seen(9 * S, (other, CLIENT), ".", (77, 1), 1234));
    all.push(seen(9 * S, ((CLIENT.0, 50_000), SERVER), "S", (1, 0), 0));
    let read = read(&usual(&all));
    let seen: Vec<_> = read
        .iter()
        .map(|t| {
            (t.began_ns / S, t.server, t.client, t.is_upload, t.bursts.iter().map(|b| b.bytes).sum::<u64>())
        })
        .collect();
    assert_eq!(
        seen,
        [(0, 0, 0, false, 3000), (2, 0, 0, false, 2000), (3, 0, 0, true, 5000), (4, 1, 0, false, 1234)]
    );
    let all = connections(&usual(&all)[..]).unwrap();
    assert_eq!(all.iter().map(Connection::bytes).collect::<Vec<_>>()[2], [5000, 100]);
}

#[test]
fn what_is_no_capture_is_refused_with_the_place_and_the_cure() {
    let error = |bytes: &[u8]| transfers(bytes).unwrap_err();
    for text in [&b""[..], b"abc", b"name = \"x\"\n", &[0; 64]] {
        assert!(error(text).contains("is no capture; name a file of tcpdump or Wireshark"), "{text:?}");
    }
    let whole = usual(&download(0));
    assert!(error(&whole[..20]).starts_with(": the file ends within header 1; record it again"));
    // 24 bytes of header; the first packet has 16 and 58
    assert!(
        error(&whole[..90]).starts_with(": the file ends within packet 1; record it again"),
        "{}",
        error(&whole[..90])
    );
    assert!(error(&whole[..whole.len() - 1]).starts_with(": the file ends within packet 10;"));
    let wifi = pcap(DataLink::IEEE802_11, TsResolution::MicroSecond, Endianness::native(), 100, &[]);
    assert!(error(&wifi).contains("link type 105; Ethernet, IP"), "{}", error(&wifi));
    let nothing = usual(&download(0)[..3]);
    assert!(error(&nothing).starts_with(" has no TCP connection with payload; record with: tcpdump"));
    let ng = pcapng(None, 1_000_000, &download(0));
    assert!(
        error(&ng[..ng.len() - 1]).starts_with(": the file ends within block 12;"),
        "{}",
        error(&ng[..ng.len() - 1])
    );
    let mut stray = ng.clone();
    // the first packet's interface: behind the blocks of the section and the interface, and its own type and length
    let at = 28 + 20 + 8;
    stray[at] = 9;
    assert!(
        error(&stray).starts_with(": block 3 is of interface 9, which is not described"),
        "{}",
        error(&stray)
    );
}

proptest! {
    /// Whatever stands in a file, and wherever it is damaged: transfers or an error.
    #[test]
    fn any_bytes_are_transfers_or_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        format in 0..3,
        damages in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut capture = match format {
            0 => usual(&download(0)),
            1 => pcapng(Some(9), S, &download(0)),
            _ => Vec::new(),
        };
        let whole = capture.len();
        for (at, byte) in damages.iter().filter(|_| whole > 0) {
            capture[at.index(whole)] = *byte;
        }
        capture.extend(&bytes);
        let _ = transfers(&capture[..]);
    }

    /// Any packets in a file that is whole, of any link type.
    #[test]
    fn any_packets_are_transfers_or_none(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..120), 1..20),
        header in 0..6usize,
    ) {
        let links = [DataLink::ETHERNET, DataLink::RAW, DataLink::IPV4, DataLink::IPV6, DataLink::LINUX_SLL, DataLink::LINUX_SLL2];
        // the version of a packet that could be IP, more often than by chance
        let ip = |mut ip: Vec<u8>, at_ns| { ip[0] = if ip[0] < 128 { 0x45 } else { 0x60 }; Seen { at_ns, ip, payload_bytes: 0 } };
        let all: Vec<Seen> = packets.into_iter().zip(0..).map(|(bytes, at)| ip(bytes, at)).collect();
        let _ = transfers(&pcap(links[header], TsResolution::MicroSecond, Endianness::native(), 65_535, &all)[..]);
    }
}
