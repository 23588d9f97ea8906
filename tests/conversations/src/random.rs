//! Conversations of random ends over a random path, for a comparison of two homes: what the box does is not judged here.

use crate::{
    conversation::Conversation,
    home::{Home, Mode},
    packet::{Packet, Timestamps},
    play::{ROUND_US, Stage},
    script::Ends,
};
use anyhow::Result;
use std::collections::VecDeque;
use windlass_core::is_after;
use windlass_oracle::{
    dice::Dice,
    wire::{ACK, CWR, ECE, FIN, PSH, Parsed, RST, SYN},
};

/// Connections at one time.
const TALKS: usize = 3;
/// In flight at most, as far as the server knows.
const FLIGHT_MAX_BYTES: u32 = 400_000;
/// SACK blocks that fit beside timestamps.
const BLOCKS_MAX: usize = 3;
const WINDOW_FIELD_MAX: u32 = 65_535;

/// A connection: what its ends know, and what is on its way. Numbers count from the initial ones.
struct Talk {
    conversation: Conversation,
    ends: Ends,
    /// What the server has sent, what is acknowledged to its knowledge, and its right edge.
    nxt: u32,
    una: u32,
    edge: u32,
    /// What the client has received: apart, the newest first; all before `rcv_nxt` besides.
    received: Vec<(u32, u32)>,
    rcv_nxt: u32,
    window_bytes: u32,
    to_client: VecDeque<Vec<u8>>,
}

impl Talk {
    fn server_receives(&mut self, frame: &[u8]) -> Result<()> {
        self.conversation.note_received(true, frame)?;
        let packet = self.conversation.read(false, frame)?;
        if let (Some(ack), Some(window_bytes)) = (packet.ack, packet.window_bytes)
            && packet.flags & (SYN | RST) == 0
        {
            let is_sane = !is_after(ack, self.nxt) && !is_after(self.una, ack);
            if is_sane {
                self.una = ack;
                let edge = ack.wrapping_add(window_bytes);
                self.edge = if is_after(edge, self.edge) { edge } else { self.edge };
            }
        }
        Ok(())
    }

    fn client_receives(&mut self, frame: &[u8]) -> Result<()> {
        self.conversation.note_received(false, frame)?;
        let Some((start, end)) = self.conversation.read(true, frame)?.range else { return Ok(()) };
        let is_near = end.wrapping_sub(self.rcv_nxt) < 1 << 30;
        if start == end || !is_near {
            return Ok(());
        }
        let (mut start, mut end) = (start, end);
        self.received.retain(|&(from, to)| {
            let is_apart = is_after(from, end) || is_after(start, to);
            if !is_apart {
                start = if is_after(start, from) { from } else { start };
                end = if is_after(to, end) { to } else { end };
            }
            is_apart
        });
        if is_after(start, self.rcv_nxt) {
            self.received.insert(0, (start, end));
        } else {
            self.rcv_nxt = end;
        }
        Ok(())
    }

    fn ack(&self) -> Packet {
        let blocks = if self.ends.permits_sack { BLOCKS_MAX } else { 0 };
        Packet {
            flags: ACK,
            ack: Some(self.rcv_nxt),
            window_bytes: Some(self.window_bytes),
            sack: self.received.iter().copied().take(blocks).collect(),
            ..Packet::default()
        }
    }
}

/// Connections at one box.
struct World<'a, H> {
    stage: &'a mut Stage<H>,
    dice: &'a mut Dice,
    began_us: u64,
    is_clock_running: bool,
    talks: Vec<Talk>,
    packets: u64,
}

fn random_ends(dice: &mut Dice) -> Ends {
    Ends {
        mss_bytes: dice.one_of(&[1460, 1460, 1460, 536, 1200, 100]),
        wscale: dice.one_of(&[Some(0), Some(2), Some(7), Some(7), None]),
        permits_sack: !dice.permille(200),
        has_timestamps: dice.permille(400),
        has_ecn: dice.permille(300),
        server_isn: dice.bits(),
        server: dice.one_of(&[1, 2]),
        is_ipv6: dice.permille(200),
    }
}

impl<H: Home> World<'_, H> {
    fn between(&mut self, low: u32, high: u32) -> u32 {
        self.dice.between(low.into(), high.into()) as u32
    }

    fn pass_time(&mut self, us: u64) -> Result<()> {
        let until_us = self.stage.now_us + us;
        while self.is_clock_running && self.stage.next_round_us <= until_us {
            self.stage.now_us = self.stage.next_round_us;
            self.stage.next_round_us += ROUND_US;
            self.stage.home.set_now(self.stage.now_us)?;
            for sent in self.stage.home.tick()? {
                self.packets += 1;
                let Some(parsed) = Parsed::of(&sent.frame) else { continue };
                let of = self.talks.iter_mut().find(|t| t.conversation.has(&parsed, sent.is_to_server));
                match of {
                    Some(talk) if sent.is_to_server => talk.server_receives(&sent.frame)?,
                    Some(talk) => talk.to_client.push_back(sent.frame),
                    None => {}
                }
            }
        }
        self.stage.now_us = until_us;
        self.stage.home.set_now(until_us)
    }

    fn send(&mut self, at: usize, is_from_server: bool, packet: &Packet) -> Result<()> {
        self.packets += 1;
        let now_ms = ((self.stage.now_us - self.began_us) / 1000) as u32;
        let talk = &mut self.talks[at];
        let (frame, gso_bytes) = talk.conversation.frame(is_from_server, packet, now_ms)?;
        talk.conversation.note_sent(is_from_server, packet, &frame)?;
        let Some(out) = self.stage.home.pass(is_from_server, &frame, gso_bytes)? else { return Ok(()) };
        if packet.is_discarded() {
            return Ok(());
        }
        if is_from_server {
            talk.to_client.push_back(out);
        } else if !self.dice.permille(5) {
            talk.server_receives(&out)?;
        }
        Ok(())
    }

    fn open(&mut self) -> Result<Talk> {
        self.stage.connections += 1;
        let ends = random_ends(self.dice);
        let window_bytes = self.window(&ends);
        Ok(Talk {
            conversation: Conversation::new(self.stage.connections, &ends),
            ends,
            nxt: 1,
            una: 1,
            edge: 1,
            received: Vec::new(),
            rcv_nxt: 1,
            window_bytes,
            to_client: VecDeque::new(),
        })
    }

    /// A window as that client can announce it.
    fn window(&mut self, ends: &Ends) -> u32 {
        let shift = ends.wscale.unwrap_or(0);
        self.dice.magnitude(2000, WINDOW_FIELD_MAX.into()) as u32 >> (shift / 2) << shift
    }

    /// A connection in the place of another one, with its handshake.
    fn begin(&mut self, at: usize) -> Result<()> {
        let talk = self.open()?;
        let handshake = talk.conversation.handshake();
        if at < self.talks.len() {
            self.talks[at] = talk;
        } else {
            self.talks.push(talk);
        }
        let rtt_us = self.dice.magnitude(200, 100_000) as u64;
        for (packet, is_from_server) in handshake.iter().zip([false, true, false]) {
            let copies = if self.dice.permille(50) { 2 } else { 1 };
            for _ in 0..copies {
                self.send(at, is_from_server, packet)?;
            }
            self.pass_time(rtt_us)?;
        }
        self.talks[at].to_client.clear();
        let window_bytes = self.talks[at].window_bytes;
        self.send(at, false, &Packet { window_bytes: Some(window_bytes), ..self.talks[at].ack() })
    }

    fn server_sends(&mut self, at: usize) -> Result<()> {
        let talk = &self.talks[at];
        let segment = talk.conversation.segment_bytes();
        let room = if is_after(talk.edge, talk.nxt) { talk.edge.wrapping_sub(talk.nxt) } else { 0 };
        let flight = talk.nxt.wrapping_sub(talk.una);
        if room == 0 || flight > FLIGHT_MAX_BYTES {
            return Ok(());
        }
        let (start, is_small, is_super) =
            (talk.nxt, self.dice.permille(100), segment <= 1460 && self.dice.permille(300));
        let len = if is_small {
            self.between(1, segment)
        } else if is_super {
            2 * segment
        } else {
            segment
        };
        let end = start.wrapping_add(len.min(room));
        let packet = Packet {
            flags: ACK | if self.dice.permille(100) { PSH } else { 0 },
            range: Some((start, end)),
            gso_bytes: (len.min(room) > segment).then_some(segment),
            ..Packet::default()
        };
        self.talks[at].nxt = end;
        if self.dice.permille(3) {
            // it takes another way, past the box
            return Ok(());
        }
        self.send(at, true, &packet)
    }

    fn server_retransmits(&mut self, at: usize) -> Result<()> {
        let talk = &self.talks[at];
        let flight = talk.nxt.wrapping_sub(talk.una);
        if flight == 0 {
            return Ok(());
        }
        let (una, segment) = (talk.una, talk.conversation.segment_bytes());
        let ahead = if self.dice.permille(700) { 0 } else { self.between(0, flight - 1) };
        let least = if self.dice.permille(800) { segment } else { self.between(1, segment) };
        let start = una.wrapping_add(ahead);
        let packet = Packet {
            flags: ACK,
            range: Some((start, start.wrapping_add(least.min(flight - ahead)))),
            has_other_bytes: self.dice.permille(10),
            ..Packet::default()
        };
        self.send(at, true, &packet)
    }

    fn delivers(&mut self, at: usize) -> Result<()> {
        for _ in 0..self.between(1, 3) {
            let is_lost = self.dice.permille(30);
            let is_late = self.dice.permille(50);
            let talk = &mut self.talks[at];
            let Some(frame) = talk.to_client.pop_front() else { return Ok(()) };
            if is_late {
                talk.to_client.push_back(frame);
            } else if !is_lost {
                talk.client_receives(&frame)?;
            }
        }
        Ok(())
    }

    fn client_acknowledges(&mut self, at: usize) -> Result<()> {
        if self.dice.permille(30) {
            let ends = self.talks[at].ends.clone();
            self.talks[at].window_bytes = if self.dice.permille(100) { 0 } else { self.window(&ends) };
        }
        let mut packet = self.talks[at].ack();
        if self.dice.permille(30) {
            packet.flags |= ECE;
        }
        if self.dice.permille(20) {
            packet.next_bytes = Some(self.between(1, 500));
        }
        if self.dice.permille(20) {
            let rcv_nxt = self.talks[at].rcv_nxt;
            // a duplicate has arrived (RFC 2883)
            packet.sack.insert(0, (rcv_nxt.wrapping_sub(self.between(1, 3000)), rcv_nxt));
            packet.sack.truncate(BLOCKS_MAX);
        }
        self.send(at, false, &packet)
    }

    /// Somewhere near the server's stream in flight.
    fn place(&mut self, at: usize) -> u32 {
        let (una, nxt) = (self.talks[at].una, self.talks[at].nxt);
        match self.between(0, 5) {
            0 => una,
            1 => nxt,
            2 => una.wrapping_sub(self.dice.magnitude(1, 100_000) as u32),
            3 => nxt.wrapping_add(self.dice.magnitude(1, 100_000) as u32),
            4 => self.dice.bits(),
            _ => una.wrapping_add(self.between(0, nxt.wrapping_sub(una) & 0xf_ffff)),
        }
    }

    /// What no honest server sends, or seldom.
    fn server_is_odd(&mut self, at: usize) -> Result<()> {
        let start = self.place(at);
        let len = self.between(0, 2000);
        let mut packet =
            Packet { flags: ACK, range: Some((start, start.wrapping_add(len))), ..Packet::default() };
        match self.between(0, 9) {
            0 => packet.ack = Some(self.dice.magnitude(1, 100_000) as u32),
            1 => packet.urgent = Some(1),
            2 => packet.flags |= FIN,
            3 => (packet.flags, packet.range) = (RST, Some((start, start))),
            4 => (packet.flags, packet.range) = (RST | ACK, Some((start, start))),
            5 => packet.has_other_bytes = true,
            6 => packet.is_forged = true,
            7 => packet.is_damaged = true,
            8 => packet.timestamps = Timestamps::Given(self.dice.bits() >> 8, 0),
            _ => packet.flags |= CWR,
        }
        self.send(at, true, &packet)
    }

    /// The same of a client.
    fn client_is_odd(&mut self, at: usize) -> Result<()> {
        let mut packet = self.talks[at].ack();
        match self.between(0, 9) {
            0 => packet.ack = Some(self.place(at)),
            1 => {
                let start = self.place(at);
                packet.sack = vec![(start, start.wrapping_add(self.between(0, 5000)))];
            }
            2 => packet.sack = vec![(self.place(at), self.place(at))],
            3 => {
                let start = self.dice.magnitude(1, 200_000) as u32;
                packet.range = Some((start, start));
            }
            4 => packet.flags |= FIN,
            5 => packet.flags |= RST,
            6 => {
                let start = self.dice.bits();
                (packet.flags, packet.range) = (RST, Some((start, start)));
            }
            7 => packet.is_damaged = true,
            8 => packet.timestamps = Timestamps::Given(self.dice.bits() >> 8, self.dice.bits() >> 20),
            _ => packet.timestamps = Timestamps::Absent,
        }
        self.send(at, false, &packet)
    }

    /// The two close, or one of them.
    fn closes(&mut self, at: usize) -> Result<()> {
        let nxt = self.talks[at].nxt;
        if self.dice.permille(500) {
            let fin = Packet { flags: FIN | ACK, range: Some((nxt, nxt)), ..Packet::default() };
            self.send(at, true, &fin)?;
            let all = Packet { ack: Some(nxt.wrapping_add(1)), sack: Vec::new(), ..self.talks[at].ack() };
            self.send(at, false, &Packet { flags: FIN | ACK, ..all })?;
        } else {
            self.send(at, true, &Packet { flags: RST, range: Some((nxt, nxt)), ..Packet::default() })?;
        }
        self.begin(at)
    }

    fn changes_policy(&mut self) -> Result<()> {
        let mode = self.dice.one_of(&[Mode::Control, Mode::Control, Mode::Watch, Mode::Off]);
        let controls_paced = self.dice.permille(500);
        self.stage.home.set_policy(mode, controls_paced)
    }

    fn step(&mut self) -> Result<()> {
        let at = self.between(0, TALKS as u32 - 1) as usize;
        match self.between(0, 999) {
            0..300 => self.server_sends(at),
            300..560 => self.delivers(at),
            560..800 => self.client_acknowledges(at),
            800..930 => {
                let us = self.dice.magnitude(10, 10_000) as u64;
                self.pass_time(us)
            }
            930..933 => {
                let us = self.dice.magnitude(10_000, 3_000_000) as u64;
                self.pass_time(us)
            }
            933..960 => self.server_retransmits(at),
            960..975 => self.server_is_odd(at),
            975..994 => self.client_is_odd(at),
            994..996 => self.changes_policy(),
            996..998 => {
                self.is_clock_running = !self.is_clock_running;
                self.stage.next_round_us = self.stage.now_us;
                Ok(())
            }
            _ => self.closes(at),
        }
    }
}

impl<H: Home> Stage<H> {
    /// Has random ends converse for so many steps. Returns how many packets came by or were the box's.
    pub fn converse(&mut self, dice: &mut Dice, steps: u32) -> Result<u64> {
        self.home.set_now(self.now_us)?;
        let began_us = self.now_us;
        let mut world =
            World { stage: self, dice, began_us, is_clock_running: true, talks: Vec::new(), packets: 0 };
        for at in 0..TALKS {
            world.begin(at)?;
        }
        for _ in 0..steps {
            world.step()?;
        }
        let packets = world.packets;
        self.home.set_policy(Mode::Control, true)?;
        self.forget()?;
        Ok(packets)
    }
}
