//! What a box must never do, checked on captures at both of its sides: tell one side what the other has not said, an
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

const SERVER_PORT: u16 = 80;

/// One TCP packet of a capture.
struct Seen {
    at: Duration,
    /// Port of the client: names the connection.
    client_port: u16,
    to_server: bool,
    ack: Option<u32>,
    /// TCP header and payload.
    bytes: Vec<u8>,
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
        let (NetSlice::Ipv4(_) | NetSlice::Ipv6(_)) = net else { continue };
        let to_server = tcp.destination_port() == SERVER_PORT;
        let mut bytes = tcp.slice().to_vec();
        // a capture before the checksum is completed shows the pseudo-header's: no change of ours
        bytes[16..18].fill(0);
        all.push(Seen {
            at: packet.timestamp,
            client_port: if to_server { tcp.source_port() } else { tcp.destination_port() },
            to_server,
            ack: tcp.ack().then(|| tcp.acknowledgment_number()),
            bytes,
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

/// What one side of a connection has said so far.
#[derive(Default)]
struct Said {
    wscale: u8,
    /// Highest acknowledgement, and highest right edge of a window.
    ack: Option<u32>,
    edge: Option<u32>,
    tsvals: HashSet<u32>,
    tsecrs: HashSet<u32>,
}

/// What a packet says: how windows are scaled from now on, acknowledgement, right edge of the window, timestamps.
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
    let Ok(tcp) = TcpSlice::from_slice(&packet.bytes) else { return saying };
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

    /// Were the packet's other numbers said: its window no further to the right, its timestamps as they are?
    fn covers_rest(&self, packet: &Seen) -> bool {
        let saying = parse(packet, self.wscale);
        saying.edge.is_none_or(|edge| self.edge.is_some_and(|highest| !is_after(edge, highest)))
            && saying
                .timestamps
                .is_none_or(|(tsval, tsecr)| self.tsvals.contains(&tsval) && self.tsecrs.contains(&tsecr))
    }
}

/// Packets of one direction that leave the box with what their side had not said by then.
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

/// Packets of one direction that do not leave as they came, or do not leave at all, and how many came.
fn changed(came: &[Seen], left: &[Seen], to_server: bool) -> (usize, usize) {
    let mut waiting: HashMap<&[u8], usize> = HashMap::new();
    for packet in left.iter().filter(|p| p.to_server == to_server) {
        *waiting.entry(&packet.bytes).or_insert(0) += 1;
    }
    let until = end_of(left, to_server);
    let (mut changed, mut total) = (0, 0);
    for packet in came.iter().filter(|p| p.to_server == to_server && p.at <= until) {
        total += 1;
        match waiting.get_mut(packet.bytes.as_slice()) {
            Some(n) if *n > 0 => *n -= 1,
            _ => changed += 1,
        }
    }
    (changed, total)
}

/// The captures of a run at both sides of its box: of the servers' side, and of the clients'.
fn captures(folder: &Path) -> Result<[Vec<Seen>; 2]> {
    Ok([read(&folder.join("servers.pcap"))?, read(&folder.join("clients.pcap"))?])
}

/// What a box said that nobody had told it, by the captures of whole packets that its run has left in the folder: to the
/// servers, and to the clients.
///
/// # Errors
/// There are no such captures.
pub fn untold_in(folder: &Path) -> Result<[Untold; 2]> {
    let [servers, clients] = captures(folder)?;
    Ok([untold(&clients, &servers, true), untold(&servers, &clients, false)])
}

fn verdict(id: &str, bad: usize, of: usize, runs: usize) -> Verdict {
    Verdict {
        id: id.into(),
        paper: None,
        ours: Some(bad as f64),
        bound: "<= 0".into(),
        holds: bad == 0 && of > 0,
        unit: "packets".into(),
        runs,
        note: format!("of {of} packets"),
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
    let (mut early, mut acks, mut altered, mut packets, mut wrong) = (0, 0, 0, 0, 0);
    let (mut invented, mut sayings) = (0, 0);
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
            if variant == "windlass" {
                let [to_server, to_client] = untold_in(&folder)?;
                early += to_server.acks;
                acks += to_server.packets;
                invented += to_server.others + to_client.acks + to_client.others;
                sayings += to_server.packets + to_client.packets;
            } else {
                let [servers, clients] = captures(&folder)?;
                for (came, left, to_server) in [(&servers, &clients, false), (&clients, &servers, true)] {
                    let (bad, of) = changed(came, left, to_server);
                    altered += bad;
                    packets += of;
                }
            }
        }
    }
    let runs = seeds as usize;
    let verdicts = vec![
        verdict("acks-before-the-client-sent-them", early, acks, runs),
        verdict("windows-and-timestamps-nobody-sent", invented, sayings, runs),
        verdict("packets-changed-while-watching", altered, packets, runs),
        verdict("wrong-payloads", wrong, 2 * runs, 2 * runs),
    ];
    let title = "No acknowledgement before its time; watched packets leave as they came".into();
    let outcome =
        Outcome { name: NAME.into(), title, verdicts, tables: Vec::new(), runs: Vec::<RunRecord>::new() };
    outcome.write(&folder, settings.quick, &[], &[])?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::TcpHeader;

    fn seen(ms: u64, to_server: bool, ack: u32, bytes: &[u8]) -> Seen {
        Seen {
            at: Duration::from_millis(ms),
            client_port: 1,
            to_server,
            ack: Some(ack),
            bytes: bytes.to_vec(),
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
    fn windows_and_timestamps_that_nobody_sent_are_found() {
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
    fn a_changed_packet_is_found() {
        let came = [seen(1, true, 0, b"abc"), seen(2, true, 0, b"abd")];
        let left = [seen(1, true, 0, b"abc"), seen(2, true, 0, b"abX")];
        assert_eq!(changed(&came, &left, true), (1, 2));
    }
}
