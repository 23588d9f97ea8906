//! What a box must never do, checked on captures at both of its sides: show the server an acknowledgement that the
//! client has not sent, or, when it only watches, change a packet.

use crate::{
    claim::Verdict,
    report::Outcome,
    runner::{RunRecord, Settings},
    wan::Point,
};
use anyhow::{Context, Result};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::{DataLink, pcap::PcapReader};
use std::{collections::HashMap, fs::File, path::Path, time::Duration};
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

/// ACKs towards the server that no ACK of the client had covered by then, and how many ACKs were looked at.
fn early_acks(clients: &[Seen], servers: &[Seen]) -> (usize, usize) {
    let mut sent: HashMap<u16, u32> = HashMap::new();
    let mut from_client = clients.iter().filter(|p| p.to_server).peekable();
    let until = end_of(clients, true);
    let (mut early, mut looked_at) = (0, 0);
    for packet in servers.iter().filter(|p| p.to_server && p.at <= until) {
        while let Some(before) = from_client.next_if(|c| c.at <= packet.at) {
            if let Some(ack) = before.ack {
                let highest = sent.entry(before.client_port).or_insert(ack);
                if (ack.wrapping_sub(*highest) as i32) > 0 {
                    *highest = ack;
                }
            }
        }
        let Some(ack) = packet.ack else { continue };
        looked_at += 1;
        let covered = sent.get(&packet.client_port).is_some_and(|h| (ack.wrapping_sub(*h) as i32) <= 0);
        early += usize::from(!covered);
    }
    (early, looked_at)
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
    let folder = settings.out.join(NAME);
    let seeds = if settings.quick { 2 } else { 10 };
    let (mut early, mut acks, mut altered, mut packets, mut wrong) = (0, 0, 0, 0, 0);
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
            let (servers, clients) =
                (read(&folder.join("servers.pcap"))?, read(&folder.join("clients.pcap"))?);
            if variant == "windlass" {
                let (bad, of) = early_acks(&clients, &servers);
                early += bad;
                acks += of;
            } else {
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

    fn seen(ms: u64, to_server: bool, ack: u32, bytes: &[u8]) -> Seen {
        Seen {
            at: Duration::from_millis(ms),
            client_port: 1,
            to_server,
            ack: Some(ack),
            bytes: bytes.to_vec(),
        }
    }

    #[test]
    fn an_ack_before_its_time_is_found() {
        let clients = [seen(1, true, 100, b""), seen(5, true, 200, b""), seen(9, true, 200, b"")];
        let honest = [seen(2, true, 100, b""), seen(6, true, 150, b"")];
        assert_eq!(early_acks(&clients, &honest), (0, 2));
        let early = [seen(2, true, 150, b"")];
        assert_eq!(early_acks(&clients, &early), (1, 1));
    }

    #[test]
    fn a_changed_packet_is_found() {
        let came = [seen(1, true, 0, b"abc"), seen(2, true, 0, b"abd")];
        let left = [seen(1, true, 0, b"abc"), seen(2, true, 0, b"abX")];
        assert_eq!(changed(&came, &left, true), (1, 2));
    }
}
