//! One connection as its two ends know it: from a script's packets to frames and back, and what must hold of any frame of the box.

use crate::{
    packet::{Packet, Timestamps},
    script::Ends,
};
use anyhow::{Context, Result, bail, ensure};
use windlass_oracle::{
    stream::Key,
    terms::Terms,
    wire::{ACK, Checksum, FIN, Parsed, RST, SYN, Segment, TcpOptions, Tuple, URG, mapped},
};

const FORGER_MAC: [u8; 6] = [2, 0x77, 0, 0, 0, 1];
/// First values of the clocks of timestamps, which count milliseconds.
const SERVER_CLOCK: u32 = 1000;
const CLIENT_CLOCK: u32 = 5000;
const TIMESTAMP_BYTES: u32 = 12;
const WSCALE_MAX: u8 = 14;

/// What one end has sent and received.
#[derive(Clone, Debug, Default)]
struct End {
    /// The sequence number behind the last byte that it has sent, SYN and FIN counted.
    nxt: u32,
    /// What it acknowledges unless a script has something else.
    ack: u32,
    /// Its window as it was announced last.
    window_bytes: u32,
    /// Window scale that its SYN announced.
    wscale: Option<u8>,
    offers_timestamps: bool,
    /// The last timestamp value that it received.
    ts_recent: u32,
}

/// A connection.
pub struct Conversation {
    terms: Terms,
    ends: Ends,
    server: End,
    client: End,
    /// The last acknowledgement that the server has received, and the right edge of the window.
    forwarded: Option<(u32, u32)>,
    /// The same as the client has sent it.
    offered: (u32, u32),
}

fn is_after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

fn latest(a: u32, b: u32) -> u32 {
    if is_after(a, b) { a } else { b }
}

impl Conversation {
    /// Connection `number` of a run, which no other shares a name with.
    pub fn new(number: u32, ends: &Ends) -> Conversation {
        let [.., high, low] = number.to_be_bytes();
        let address = |net: [u8; 3], last: u8| {
            if ends.is_ipv6 {
                let mut address = [0; 16];
                address[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
                address[12..].copy_from_slice(&[net[0], net[1], net[2], last]);
                address
            } else {
                mapped([net[0], net[1], net[2], last])
            }
        };
        let terms = Terms {
            tuple: Tuple {
                server: address([192, 0, 2], ends.server),
                client: address([198, 51, 100], 1),
                server_port: 80,
                client_port: 0x8000 | u16::from_be_bytes([high, low]),
            },
            key: Key(u64::from(number) << 8),
            server_isn: ends.server_isn,
            mss_bytes: ends.mss_bytes.into(),
            ..Terms::plain()
        };
        let end = End { window_bytes: 65_535, ..End::default() };
        let (server, client) = (end.clone(), end);
        Conversation { terms, ends: ends.clone(), server, client, forwarded: None, offered: (0, 0) }
    }

    /// Is the frame of this connection?
    pub fn has(&self, parsed: &Parsed, is_to_server: bool) -> bool {
        let parsed = if is_to_server { parsed.turned() } else { *parsed };
        parsed.tuple == self.terms.tuple
    }

    fn has_timestamps(&self) -> bool {
        self.server.offers_timestamps && self.client.offers_timestamps
    }

    /// Payload of the server's full segments.
    pub fn segment_bytes(&self) -> u32 {
        let timestamps = if self.has_timestamps() { TIMESTAMP_BYTES } else { 0 };
        u32::from(self.ends.mss_bytes) - timestamps
    }

    /// Shift of the window field of packets of one end.
    fn shift(&self, is_from_server: bool, flags: u8) -> u8 {
        let shifts = (self.server.wscale, self.client.wscale);
        match shifts {
            (Some(server), Some(client)) if flags & SYN == 0 => {
                if is_from_server { server } else { client }.min(WSCALE_MAX)
            }
            _ => 0,
        }
    }

    /// The handshake's packets, the last one apart: it comes a round trip later.
    pub fn handshake(&self) -> [Packet; 3] {
        let e = &self.ends;
        let with_options = |flags: u8, stamps| Packet {
            flags: flags | SYN,
            mss_bytes: Some(e.mss_bytes),
            wscale: e.wscale,
            permits_sack: e.permits_sack,
            timestamps: if e.has_timestamps { stamps } else { Timestamps::Absent },
            ..Packet::default()
        };
        use windlass_oracle::wire::{CWR, ECE};
        let [ecn, ecn_answer] = if e.has_ecn { [ECE | CWR, ECE] } else { [0, 0] };
        [
            with_options(ecn, Timestamps::Given(CLIENT_CLOCK, 0)),
            with_options(ACK | ecn_answer, Timestamps::Given(SERVER_CLOCK, CLIENT_CLOCK)),
            Packet { flags: ACK, ..Packet::default() },
        ]
    }

    fn isns(&self, is_from_server: bool) -> (u32, u32) {
        let (server, client) = (self.terms.server_isn, self.terms.client_isn);
        if is_from_server { (server, client) } else { (client, server) }
    }

    fn end(&self, is_server: bool) -> &End {
        if is_server { &self.server } else { &self.client }
    }

    /// The packet with numbers where a line counts from what the end has sent and acknowledged.
    pub fn in_numbers(&self, is_from_server: bool, packet: &Packet) -> Packet {
        let end = self.end(is_from_server);
        let next = packet.next_bytes.map(|bytes| (end.nxt, end.nxt.wrapping_add(bytes)));
        let ack = packet.ack_more_bytes.map(|bytes| end.ack.wrapping_add(bytes));
        Packet {
            range: packet.range.or(next),
            ack: packet.ack.or(ack),
            next_bytes: None,
            ack_more_bytes: None,
            ..packet.clone()
        }
    }

    fn timestamps_of(&self, is_from_server: bool, packet: &Packet, now_ms: u32) -> Option<(u32, u32)> {
        match packet.timestamps {
            Timestamps::Absent => None,
            Timestamps::Given(value, echo) => Some((value, echo)),
            Timestamps::Implied => self.has_timestamps().then(|| {
                let clock = if is_from_server { SERVER_CLOCK } else { CLIENT_CLOCK };
                (clock + now_ms, self.end(is_from_server).ts_recent)
            }),
        }
    }

    fn options_of(&self, is_from_server: bool, packet: &Packet, now_ms: u32) -> TcpOptions {
        let mut options = TcpOptions::default();
        if let Some(bytes) = packet.mss_bytes {
            options.push(&[2, 4]);
            options.push(&bytes.to_be_bytes());
        }
        if packet.permits_sack {
            options.push(&[1, 1, 4, 2]);
        }
        if let Some((value, echo)) = self.timestamps_of(is_from_server, packet, now_ms) {
            options.timestamps(value, echo);
        }
        if let Some(shift) = packet.wscale {
            options.push(&[1, 3, 3, shift]);
        }
        let base = self.isns(!is_from_server).0;
        let block = |(start, end): &(u32, u32)| (base.wrapping_add(*start), base.wrapping_add(*end));
        options.sack(&packet.sack.iter().map(block).collect::<Vec<_>>());
        options.push(&packet.options);
        options
    }

    /// One packet of one end as a frame, and its size of segments. What it leaves open is as the end would have it.
    pub fn frame(&self, is_from_server: bool, packet: &Packet, now_ms: u32) -> Result<(Vec<u8>, u32)> {
        let from = self.end(is_from_server);
        let (seq_base, ack_base) = self.isns(is_from_server);
        let default = if packet.flags & SYN != 0 { 0 } else { from.nxt };
        let start = packet.range.map_or(default, |(start, _)| start);
        let shift = self.shift(is_from_server, packet.flags);
        let bytes = packet.window_bytes.unwrap_or(from.window_bytes >> shift << shift);
        let field = u16::try_from(bytes >> shift).ok().filter(|field| u32::from(*field) << shift == bytes);
        let field = field.with_context(|| {
            format!("win {bytes}: with window scale {shift} it must be a multiple of {}", 1u32 << shift)
        })?;
        let own = self.terms.segment(is_from_server, TcpOptions::default());
        let variant = if packet.is_forged { 2 } else { u64::from(packet.has_other_bytes) };
        let has_ack = packet.flags & ACK != 0;
        let segment = Segment {
            seq: seq_base.wrapping_add(start),
            ack: if has_ack { ack_base.wrapping_add(packet.ack.unwrap_or(from.ack)) } else { 0 },
            flags: packet.flags | if packet.urgent.is_some() { URG } else { 0 },
            has_ae: packet.has_ae,
            window: field,
            urgent: packet.urgent.unwrap_or(0),
            options: self.options_of(is_from_server, packet, now_ms),
            key: if variant > 0 { own.key.variant(variant) } else { own.key },
            offset: i64::from(start.wrapping_sub(1) as i32),
            len: packet.len() as usize,
            ttl: if packet.is_forged { 1 } else { own.ttl },
            source_mac: if packet.is_forged { FORGER_MAC } else { own.source_mac },
            checksum: if packet.is_damaged { Checksum::Damaged } else { Checksum::Full },
            gso_bytes: packet.gso_bytes.unwrap_or(0),
            ..own
        };
        let mut frame = Vec::new();
        segment.write(&self.terms.tuple, &mut frame);
        Ok((frame, segment.gso_bytes))
    }

    /// An end has sent this: what it knows from now on.
    pub fn note_sent(&mut self, is_from_server: bool, packet: &Packet, frame: &[u8]) -> Result<()> {
        if packet.is_discarded() {
            return Ok(());
        }
        let sent = self.read(is_from_server, frame)?;
        let end = if is_from_server { &mut self.server } else { &mut self.client };
        let (_, end_of_data) = sent.range.context("all that is read has a range")?;
        let ones = u32::from(sent.flags & SYN != 0) + u32::from(sent.flags & FIN != 0);
        if sent.flags & SYN != 0 {
            end.nxt = 1;
            end.wscale = packet.wscale;
            end.offers_timestamps = !matches!(packet.timestamps, Timestamps::Absent | Timestamps::Implied);
            end.ts_recent = 0;
        } else {
            end.nxt = latest(end.nxt, end_of_data.wrapping_add(ones));
        }
        if let Some(bytes) = sent.window_bytes {
            end.window_bytes = bytes;
        }
        if let (Some(ack), Some(bytes), false) = (sent.ack, sent.window_bytes, is_from_server) {
            if !is_after(end.ack, ack) {
                end.ack = ack;
            }
            if !is_after(self.offered.0, ack) {
                self.offered = (ack, ack.wrapping_add(bytes));
            }
        }
        Ok(())
    }

    /// An end has received this frame.
    pub fn note_received(&mut self, is_server: bool, frame: &[u8]) -> Result<()> {
        let received = self.read(!is_server, frame)?;
        let end = if is_server { &mut self.server } else { &mut self.client };
        if let Timestamps::Given(value, _) = received.timestamps
            && !is_after(end.ts_recent, value)
        {
            end.ts_recent = value;
        }
        let (_, end_of_data) = received.range.context("all that is read has a range")?;
        let ones = u32::from(received.flags & (SYN | FIN) != 0);
        // the client's own acknowledgements are in the script
        if is_server || received.flags & SYN != 0 {
            end.ack = latest(end.ack, end_of_data.wrapping_add(ones));
        }
        Ok(())
    }

    /// A frame as a script would have it, all in full.
    pub fn read(&self, is_from_server: bool, frame: &[u8]) -> Result<Packet> {
        let parsed = Parsed::of(frame).context("a frame that is no TCP segment")?;
        let (seq_base, ack_base) = self.isns(is_from_server);
        let start = parsed.seq.wrapping_sub(seq_base);
        let shift = self.shift(is_from_server, parsed.flags);
        let of_other = |number: u32| number.wrapping_sub(ack_base);
        let mut packet = Packet {
            flags: parsed.flags,
            has_ae: parsed.has_ae,
            range: Some((start, start.wrapping_add(parsed.payload.len() as u32))),
            ack: (parsed.flags & ACK != 0).then(|| of_other(parsed.ack)),
            window_bytes: Some(u32::from(parsed.window) << shift),
            urgent: (parsed.flags & URG != 0).then_some(parsed.urgent),
            sack: parsed.sack().map(|(start, end)| (of_other(start), of_other(end))).collect(),
            timestamps: match parsed.timestamps() {
                Some((value, echo)) => Timestamps::Given(value, echo),
                None if self.has_timestamps() => Timestamps::Absent,
                None => Timestamps::Implied,
            },
            ..Packet::default()
        };
        read_options(&mut packet, parsed.options);
        Ok(packet)
    }

    /// The same for people: without what is as usual.
    pub fn in_short(&self, is_from_server: bool, packet: &Packet) -> Packet {
        let is_usual = packet.is_empty() && packet.range.is_some_and(|r| r.0 == self.end(is_from_server).nxt);
        Packet { range: packet.range.filter(|_| !is_usual), ..packet.clone() }
    }

    /// What must hold of all that the server receives.
    pub fn check_to_server(&mut self, frame: &[u8], is_of_box: bool) -> Result<()> {
        let parsed = Parsed::of(frame).context("a frame that is no TCP segment")?;
        ensure!(parsed.is_tcp_sum_right && parsed.is_ip_sum_right, "its checksum is wrong");
        if is_of_box {
            self.check_addresses(&parsed, false)?;
            ensure!(parsed.payload.is_empty(), "the box sends the server no data");
        }
        if parsed.flags & (SYN | RST) != 0 || parsed.flags & ACK == 0 {
            return Ok(());
        }
        let packet = self.read(false, frame)?;
        let (ack, bytes) = (packet.ack.unwrap_or(0), packet.window_bytes.unwrap_or(0));
        ensure!(
            !is_after(ack, self.offered.0),
            "the client has acknowledged no more than {}",
            self.offered.0
        );
        let edge = ack.wrapping_add(bytes);
        if let Some((last_ack, last_edge)) = self.forwarded {
            if is_after(last_ack, ack) {
                return Ok(());
            }
            // the client itself may take room back
            let least = if is_after(last_edge, self.offered.1) { self.offered.1 } else { last_edge };
            ensure!(
                !is_after(least, edge),
                "the right edge of the window moves left, from {least} to {edge}"
            );
        }
        self.forwarded = Some((ack, edge));
        Ok(())
    }

    /// What must hold of all that the box itself sends to the client.
    pub fn check_repair(&self, frame: &[u8]) -> Result<()> {
        let parsed = Parsed::of(frame).context("a frame that is no TCP segment")?;
        ensure!(parsed.is_tcp_sum_right && parsed.is_ip_sum_right, "its checksum is wrong");
        self.check_addresses(&parsed, true)?;
        let start = parsed.seq.wrapping_sub(self.terms.server_isn).wrapping_sub(1);
        let offset = i64::from(start as i32);
        if let Some(at) = self.terms.key.first_difference(offset, parsed.payload) {
            bail!("byte {} of the stream is not what the server sent", offset + at as i64 + 1);
        }
        Ok(())
    }

    /// The box sends in the name of one end.
    fn check_addresses(&self, parsed: &Parsed, is_as_server: bool) -> Result<()> {
        let own = self.terms.segment(is_as_server, TcpOptions::default());
        ensure!(
            (parsed.source_mac, parsed.destination_mac) == (own.source_mac, own.destination_mac),
            "Ethernet addresses {:02x?} and {:02x?} are not those of the connection",
            parsed.source_mac,
            parsed.destination_mac
        );
        // what goes to the server is only seen on the last hop
        let is_right = !is_as_server || parsed.ttl == own.ttl;
        ensure!(is_right, "its TTL is {}, that of the server's packets is {}", parsed.ttl, own.ttl);
        Ok(())
    }
}

/// Takes MSS, window scale and SACK-permitted over, and what else there is but padding, timestamps and SACK blocks.
fn read_options(packet: &mut Packet, mut rest: &[u8]) {
    loop {
        match *rest {
            [] | [0, ..] => return,
            [1, ..] => rest = &rest[1..],
            [kind, len, ..] if len >= 2 && usize::from(len) <= rest.len() => {
                let (option, others) = rest.split_at(len.into());
                match (kind, &option[2..]) {
                    (2, [high, low]) => packet.mss_bytes = Some(u16::from_be_bytes([*high, *low])),
                    (3, [shift]) => packet.wscale = Some(*shift),
                    (4, []) => packet.permits_sack = true,
                    (5 | 8, _) => {}
                    _ => packet.options.extend_from_slice(option),
                }
                rest = others;
            }
            _ => return packet.options.extend_from_slice(rest),
        }
    }
}
