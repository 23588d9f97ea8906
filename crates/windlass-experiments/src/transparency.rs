//! What a box must never do, checked on captures at both of its sides: send one side what the other has not sent, an
//! acknowledgement above all, or, when it only watches, change a packet.

use crate::{claim::Verdict, record::RunRecord, report::Outcome, settings::Settings, wan::Point};
use anyhow::{Context, Result};
use etherparse::{NetSlice, SlicedPacket, TcpOptionElement, TcpSlice, TransportSlice};
use pcap_file::{DataLink, pcap::PcapReader};
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    path::Path,
    time::Duration,
};
use windlass_core::is_after;
use windlass_lab::RunOptions;
use windlass_scenario::{Buffer, Bytes, Fraction, Rate, Span};

/// Its name among the experiments.
pub const NAME: &str = "transparency";
/// What it is about, in a line.
pub const TITLE: &str = "No acknowledgement before its time; watched packets leave as they came";

const SERVER_PORT: u16 = 80;

/// One TCP packet of a capture.
struct Seen {
    at: Duration,
    /// Port of the client: names the connection.
    client_port: u16,
    to_server: bool,
    ack: Option<u32>,
    /// All of it that a box which only watches has to leave as it is, from the IP header on.
    bytes: Vec<u8>,
    /// Length of the IP header.
    ip_bytes: usize,
}

impl Seen {
    /// TCP header and payload.
    fn tcp(&self) -> &[u8] {
        &self.bytes[self.ip_bytes..]
    }
}

/// One's complement sum (RFC 1071) of all parts, each but the last of an even length.
fn sum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u64 = words.map(|w| u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Of an IP and a TCP packet all that has to leave as it came. Every router changes the time to live, and the header's checksum
/// with it. The TCP checksum may be left to the device, and is the pseudo-header's sum until then: so both checksums are
/// compared where they are wrong only.
fn to_be_left(ip: &[u8], tcp: &[u8]) -> Vec<u8> {
    let mut bytes = [ip, tcp].concat();
    let length = (tcp.len() as u32).to_be_bytes();
    let addresses = if ip[0] >> 4 == 4 {
        // time to live
        bytes[8] = 0;
        if sum(&[ip]) == 0xffff {
            bytes[10..12].fill(0);
        }
        &ip[12..20]
    } else {
        // hop limit
        bytes[7] = 0;
        &ip[8..40]
    };
    let pseudo_header: [&[u8]; 3] = [addresses, &[0, libc::IPPROTO_TCP as u8], &length];
    let is_whole = sum(&[&pseudo_header[..], &[tcp]].concat()) == 0xffff;
    if is_whole || tcp[16..18] == sum(&pseudo_header).to_be_bytes() {
        bytes[ip.len() + 16..][..2].fill(0);
    }
    bytes
}

fn read(path: &Path) -> Result<Vec<Seen>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let mut reader = PcapReader::new(file).with_context(|| path.display().to_string())?;
    let link = reader.header().datalink;
    let mut all = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet?;
        let sliced = if link == DataLink::ETHERNET {
            SlicedPacket::from_ethernet(&packet.data)
        } else {
            SlicedPacket::from_ip(&packet.data)
        };
        let Ok(SlicedPacket { net: Some(net), transport: Some(TransportSlice::Tcp(tcp)), .. }) = sliced
        else {
            continue;
        };
        let ip = match &net {
            NetSlice::Ipv4(ip) => ip.header().slice(),
            NetSlice::Ipv6(ip) => ip.header().slice(),
            _ => continue,
        };
        let to_server = tcp.destination_port() == SERVER_PORT;
        all.push(Seen {
            at: packet.timestamp,
            client_port: if to_server { tcp.source_port() } else { tcp.destination_port() },
            to_server,
            ack: tcp.ack().then(|| tcp.acknowledgment_number()),
            bytes: to_be_left(ip, tcp.slice()),
            ip_bytes: ip.len(),
        });
    }
    // two CPUs write into one capture: not quite in the order of their clocks
    all.sort_by_key(|p| p.at);
    Ok(all)
}

/// Time of the last packet of one direction: the two captures do not end at once, and what came later proves nothing.
fn end_of(capture: &[Seen], to_server: bool) -> Duration {
    capture.iter().filter(|p| p.to_server == to_server).map(|p| p.at).max().unwrap_or_default()
}

/// What one side of a connection has sent so far.
#[derive(Default)]
struct Said {
    wscale: u8,
    /// Highest acknowledgement, and highest right edge of a window.
    ack: Option<u32>,
    edge: Option<u32>,
    tsvals: HashSet<u32>,
    tsecrs: HashSet<u32>,
}

/// What a packet carries: how windows are scaled from now on, acknowledgement, right edge of the window, timestamps.
struct Saying {
    wscale: Option<u8>,
    ack: Option<u32>,
    edge: Option<u32>,
    timestamps: Option<(u32, u32)>,
}

fn raise(highest: &mut Option<u32>, to: Option<u32>) {
    if let Some(to) = to
        && highest.is_none_or(|h| is_after(to, h))
    {
        *highest = Some(to);
    }
}

/// Reads a packet whose sender scales its windows by `wscale`.
fn parse(packet: &Seen, wscale: u8) -> Saying {
    let mut saying = Saying { wscale: None, ack: packet.ack, edge: None, timestamps: None };
    let Ok(tcp) = TcpSlice::from_slice(packet.tcp()) else { return saying };
    for option in tcp.options_iterator().flatten() {
        match option {
            TcpOptionElement::WindowScale(shift) => saying.wscale = Some(shift),
            TcpOptionElement::Timestamp(tsval, tsecr) => saying.timestamps = Some((tsval, tsecr)),
            _ => {}
        }
    }
    // the window of a SYN is not scaled
    let window = u32::from(tcp.window_size()) << if tcp.syn() { 0 } else { wscale };
    saying.edge = packet.ack.map(|ack| ack.wrapping_add(window));
    saying
}

impl Said {
    fn hear(&mut self, packet: &Seen) {
        let saying = parse(packet, self.wscale);
        self.wscale = saying.wscale.unwrap_or(self.wscale);
        raise(&mut self.ack, saying.ack);
        raise(&mut self.edge, saying.edge);
        if let Some((tsval, tsecr)) = saying.timestamps {
            self.tsvals.insert(tsval);
            self.tsecrs.insert(tsecr);
        }
    }

    fn covers_ack(&self, ack: u32) -> bool {
        self.ack.is_some_and(|highest| !is_after(ack, highest))
    }

    /// Were the packet's other numbers sent before: its window no further to the right, its timestamps as they are?
    fn covers_rest(&self, packet: &Seen) -> bool {
        let saying = parse(packet, self.wscale);
        saying.edge.is_none_or(|edge| self.edge.is_some_and(|highest| !is_after(edge, highest)))
            && saying
                .timestamps
                .is_none_or(|(tsval, tsecr)| self.tsvals.contains(&tsval) && self.tsecrs.contains(&tsecr))
    }
}

/// Packets of one direction that leave the box with what their side had not sent by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untold {
    /// Of how many.
    pub packets: usize,
    /// With an acknowledgement that it had not sent.
    pub acks: usize,
    /// With a window that it had not offered, or timestamps that it had not sent.
    pub others: usize,
}

fn untold(came: &[Seen], left: &[Seen], to_server: bool) -> Untold {
    let mut said: HashMap<u16, Said> = HashMap::new();
    let mut coming = came.iter().filter(|p| p.to_server == to_server).peekable();
    let until = end_of(came, to_server);
    let mut found = Untold::default();
    for packet in left.iter().filter(|p| p.to_server == to_server && p.at <= until) {
        while let Some(before) = coming.next_if(|c| c.at <= packet.at) {
            said.entry(before.client_port).or_default().hear(before);
        }
        let said = said.entry(packet.client_port).or_default();
        found.packets += 1;
        found.acks += usize::from(packet.ack.is_some_and(|ack| !said.covers_ack(ack)));
        found.others += usize::from(!said.covers_rest(packet));
    }
    found
}

/// Packets of one direction that are in one capture and not, as they are, in the other; and of how many.
fn missing(from: &[Seen], of: &[Seen], to_server: bool) -> (usize, usize) {
    let mut waiting: HashMap<&[u8], usize> = HashMap::new();
    for packet in from.iter().filter(|p| p.to_server == to_server) {
        *waiting.entry(&packet.bytes).or_insert(0) += 1;
    }
    let until = end_of(from, to_server);
    let (mut missing, mut total) = (0, 0);
    for packet in of.iter().filter(|p| p.to_server == to_server && p.at <= until) {
        total += 1;
        match waiting.get_mut(packet.bytes.as_slice()) {
            Some(n) if *n > 0 => *n -= 1,
            _ => missing += 1,
        }
    }
    (missing, total)
}

/// The captures of a run at both sides of its box: of the servers' side, and of the clients'.
fn captures(folder: &Path) -> Result<[Vec<Seen>; 2]> {
    Ok([read(&folder.join("servers.pcap"))?, read(&folder.join("clients.pcap"))?])
}

/// What a box sent without having received it, by the captures of whole packets that its run has left in the folder:
/// to the servers, and to the clients.
///
/// # Errors
/// There are no such captures.
pub fn untold_in(folder: &Path) -> Result<[Untold; 2]> {
    let [servers, clients] = captures(folder)?;
    Ok([untold(&clients, &servers, true), untold(&servers, &clients, false)])
}

fn verdict(id: &str, (bad, of): (usize, usize), unit: &str, runs: usize) -> Verdict {
    Verdict {
        id: id.into(),
        ours: Some(bad as f64),
        bound: "<= 0".into(),
        holds: bad == 0 && of > 0,
        unit: unit.into(),
        runs,
        note: format!("of {of} {unit}"),
        ..Verdict::default()
    }
}

fn point(loss: f64) -> Point {
    Point {
        name: "wan".into(),
        rate: Rate(20e6),
        rtt: Span(0.04),
        loss: Fraction(loss),
        buffer: Buffer::Bdp(1.0),
        size: Bytes(2e6),
        runs: 1,
        quick_runs: 1,
        variants: Vec::new(),
        quick_size: None,
    }
}

/// Runs transfers with captures on both sides of the box and judges them.
pub fn transparency(settings: &Settings) -> Result<Outcome> {
    let folder = settings.folder(NAME);
    let seeds = if settings.quick { 2 } else { 10 };
    let (mut early, mut invented, mut changed, mut added) = ((0, 0), (0, 0), (0, 0), (0, 0));
    let (mut wrong, mut idle) = (0, 0);
    let add = |to: &mut (usize, usize), (bad, of): (usize, usize)| *to = (to.0 + bad, to.1 + of);
    for seed in 1..=seeds {
        for (variant, loss) in [("windlass", 0.02), ("cubic-watched", 0.005)] {
            let scenario = point(loss).scenario(variant, seed, Bytes(2e6))?;
            let mut options = RunOptions::new(settings.windlass.clone());
            options.cancel = Some(settings.cancel);
            options.captures = Some(folder.clone());
            options.capture_bytes = 262_144;
            settings.check_stopped()?;
            let report = windlass_lab::run(&scenario, &options)?;
            wrong += usize::from(!report.is_complete());
            // a box that does nothing sends nothing wrong either
            let at_work = if variant == "windlass" { "repaired_segs" } else { "flows_created" };
            idle += usize::from(report.counter(at_work) == 0);
            if variant == "windlass" {
                let [to_server, to_client] = untold_in(&folder)?;
                add(&mut early, (to_server.acks, to_server.packets));
                add(&mut invented, (to_server.others, to_server.packets));
                add(&mut invented, (to_client.acks + to_client.others, to_client.packets));
            } else {
                let [servers, clients] = captures(&folder)?;
                for (came, left, to_server) in [(&servers, &clients, false), (&clients, &servers, true)] {
                    add(&mut changed, missing(left, came, to_server));
                    add(&mut added, missing(came, left, to_server));
                }
            }
        }
    }
    let runs = seeds as usize;
    let verdicts = vec![
        verdict("acks-before-the-client-sent-them", early, "packets", runs),
        verdict("windows-and-timestamps-nobody-sent", invented, "packets", runs),
        verdict("packets-changed-while-watching", changed, "packets", runs),
        verdict("packets-added-while-watching", added, "packets", runs),
        verdict("runs-with-an-idle-box", (idle, 2 * runs), "runs", 2 * runs),
        verdict("wrong-payloads", (wrong, 2 * runs), "runs", 2 * runs),
    ];
    let title = TITLE.into();
    let outcome =
        Outcome { name: NAME.into(), title, verdicts, tables: Vec::new(), runs: Vec::<RunRecord>::new() };
    outcome.write(&folder, settings.quick, &[], &[])?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{IpHeaders, Ipv4Header, Ipv6Header, PacketBuilder, TcpHeader, ip_number};

    fn seen(ms: u64, to_server: bool, ack: u32, bytes: &[u8]) -> Seen {
        Seen {
            at: Duration::from_millis(ms),
            client_port: 1,
            to_server,
            ack: Some(ack),
            bytes: bytes.to_vec(),
            ip_bytes: 0,
        }
    }

    /// A packet with a window field, of a side that does not scale, and timestamps.
    fn said(ms: u64, ack: u32, window: u16, (tsval, tsecr): (u32, u32)) -> Seen {
        let mut tcp = TcpHeader::new(1, SERVER_PORT, 0, window);
        (tcp.ack, tcp.acknowledgment_number) = (true, ack);
        tcp.set_options(&[TcpOptionElement::Timestamp(tsval, tsecr)]).expect("room for them");
        seen(ms, true, ack, &tcp.to_bytes())
    }

    #[test]
    fn an_ack_before_its_time_is_found() {
        let clients = [seen(1, true, 100, b""), seen(5, true, 200, b""), seen(9, true, 200, b"")];
        let honest = [seen(2, true, 100, b""), seen(6, true, 150, b"")];
        assert_eq!(untold(&clients, &honest, true), Untold { packets: 2, acks: 0, others: 0 });
        let early = [seen(2, true, 150, b"")];
        assert_eq!(untold(&clients, &early, true), Untold { packets: 1, acks: 1, others: 0 });
    }

    #[test]
    fn windows_and_timestamps_that_no_host_sent_are_found() {
        let clients = [said(1, 100, 50, (7, 3)), said(5, 200, 50, (9, 4)), said(9, 200, 50, (9, 4))];
        for (packet, others) in [
            (said(6, 100, 150, (9, 4)), 0),
            (said(6, 200, 40, (7, 3)), 0),
            (said(6, 200, 51, (9, 4)), 1),
            (said(4, 100, 50, (9, 4)), 1),
            (said(6, 200, 50, (8, 4)), 1),
            (said(6, 200, 50, (0, 0)), 1),
        ] {
            assert_eq!(untold(&clients, &[packet], true), Untold { packets: 1, acks: 0, others });
        }
    }

    #[test]
    fn changed_and_added_packets_are_found() {
        let came = [seen(1, true, 0, b"abc"), seen(2, true, 0, b"abd")];
        let left = [seen(1, true, 0, b"abc"), seen(2, true, 0, b"abX"), seen(2, true, 0, b"abc")];
        assert_eq!(missing(&left, &came, true), (1, 2));
        assert_eq!(missing(&came, &left, true), (2, 3));
        assert_eq!(missing(&came, &came, true), (0, 2));
    }

    #[test]
    fn what_a_router_and_a_device_do_is_no_change_and_all_else_is() {
        let packet = |ip: IpHeaders| {
            let tcp = TcpHeader::new(1, SERVER_PORT, 5, 50);
            let mut packet = Vec::new();
            PacketBuilder::ip(ip).tcp_header(tcp).write(&mut packet, b"payload").expect("a sound packet");
            packet
        };
        let v4 = |ttl| {
            packet(IpHeaders::Ipv4(
                Ipv4Header::new(0, ttl, ip_number::TCP, [10, 0, 0, 1], [10, 0, 0, 2]).expect("short"),
                Default::default(),
            ))
        };
        let v6 = |hop_limit| {
            let header =
                Ipv6Header { hop_limit, source: [1; 16], destination: [2; 16], ..Default::default() };
            packet(IpHeaders::Ipv6(header, Default::default()))
        };
        for (before, after, ip_bytes) in [(v4(64), v4(63), 20), (v6(64), v6(63), 40)] {
            let left = |packet: &[u8]| to_be_left(&packet[..ip_bytes], &packet[ip_bytes..]);
            assert_ne!(before, after);
            assert_eq!(left(&before), left(&after));
            // until a device completes it, the TCP checksum is that of the pseudo-header
            let addresses = if ip_bytes == 20 { &before[12..20] } else { &before[8..40] };
            let length = (before.len() - ip_bytes) as u16;
            let sum = sum(&[addresses, &[0, 6], &length.to_be_bytes()]);
            let mut partial = before.clone();
            partial[ip_bytes + 16..][..2].copy_from_slice(&sum.to_be_bytes());
            assert_eq!(left(&partial), left(&after));
            for at in (0..before.len()).filter(|at| *at != if ip_bytes == 20 { 8 } else { 7 }) {
                let mut changed = before.clone();
                changed[at] ^= 1;
                assert_ne!(left(&changed), left(&before), "byte {at}");
            }
        }
    }
}
