//! Plays a script against a home of the box.

use crate::{
    conversation::Conversation,
    home::{Home, Mode},
    packet::{Packet, Timestamps},
    script::{Action, Place, Script, Seen, Step},
};
use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, VecDeque};
use windlass_oracle::wire::{PSH, Parsed};

/// From one round of the box's clock to the next.
pub(crate) const ROUND_US: u64 = 500;
/// Longer than the box remembers a silent flow. Scripts begin at multiples of it: as these are powers of two in nanoseconds, too (times
/// 125), each finds the box's timers in the same phase.
const FORGET_US: u64 = 1 << 29;
/// Rounds within which the box's clock has looked at all entries of its table.
const SWEEPS_MAX: u32 = 100_000;

/// A home, and how late it is there.
pub struct Stage<H> {
    pub(crate) home: H,
    pub(crate) now_us: u64,
    pub(crate) next_round_us: u64,
    /// Connections of earlier scripts.
    pub(crate) connections: u32,
    /// What was seen in the script that was played last, in the words of scripts.
    trace: Vec<String>,
}

impl<H: Home> Stage<H> {
    /// One on which nothing has happened yet.
    pub fn new(home: H) -> Stage<H> {
        Stage { home, now_us: FORGET_US, next_round_us: FORGET_US, connections: 0, trace: Vec::new() }
    }

    /// What was seen in the script that was played last, a line each, with times.
    pub fn trace(&self) -> &[String] {
        &self.trace
    }

    /// Plays the script; the error names the line, and what was expected there.
    pub fn play(&mut self, script: &Script) -> Result<()> {
        self.trace.clear();
        self.home.set_now(self.now_us)?;
        let mut conversations = BTreeMap::new();
        for (name, ends) in &script.connections {
            self.connections += 1;
            conversations.insert(name.as_str(), Conversation::new(self.connections, ends));
        }
        let mut play = Play {
            began_us: self.now_us,
            is_clock_running: true,
            mode: Mode::Control,
            controls_paced: true,
            to_client: VecDeque::new(),
            to_server: VecDeque::new(),
            conversations,
            stage: self,
        };
        let result = play.all(&script.steps);
        // whatever the script has left behind, the next one finds nothing of it
        result.and(self.home.set_policy(Mode::Control, true)).and(self.forget())
    }

    /// The box forgets all connections, as they are silent for long.
    pub(crate) fn forget(&mut self) -> Result<()> {
        self.now_us = (self.now_us / FORGET_US + 1) * FORGET_US;
        self.next_round_us = self.now_us;
        for _ in 0..SWEEPS_MAX {
            if self.home.flows()? == 0 {
                self.now_us = (self.now_us / FORGET_US + 1) * FORGET_US;
                self.next_round_us = self.now_us;
                return Ok(());
            }
            self.now_us += ROUND_US;
            self.next_round_us = self.now_us;
            self.home.set_now(self.now_us)?;
            self.home.tick()?;
        }
        bail!("flows that were silent for {} s are still known", FORGET_US / 1_000_000)
    }
}

/// A script that is being played.
struct Play<'a, H> {
    stage: &'a mut Stage<H>,
    began_us: u64,
    is_clock_running: bool,
    mode: Mode,
    controls_paced: bool,
    conversations: BTreeMap<&'a str, Conversation>,
    /// What the box has sent and no line has named yet.
    to_client: VecDeque<OfBox>,
    to_server: VecDeque<OfBox>,
}

/// A packet that the box has sent.
struct OfBox {
    connection: String,
    frame: Vec<u8>,
    is_to_client: bool,
    at_us: u64,
}

impl<H: Home> Play<'_, H> {
    /// A packet in the words of a script.
    fn words(&self, place: Place, connection: &str, is_to_client: bool, packet: &Packet) -> String {
        let conversation = &self.conversations[connection];
        // what goes to the client is of the server, and the other way round
        let packet = conversation.in_short(is_to_client, packet);
        Seen { place, connection: connection.to_string(), is_to_client, packet: Some(packet) }.to_string()
    }

    fn note(&mut self, line: &str) {
        let at_us = self.stage.now_us - self.began_us;
        self.stage.trace.push(format!("{:>6}.{:03} ms  {line}", at_us / 1000, at_us % 1000));
    }

    fn all(&mut self, steps: &[Step]) -> Result<()> {
        let mut rest = steps;
        while let Some((step, others)) = rest.split_first() {
            // what becomes of a packet stands in the line behind it
            let fate = others.first().and_then(|next| fate_in(step, next));
            let line = if fate.is_some() { others[0].line } else { step.line };
            self.step(step, fate).with_context(|| format!("line {line}"))?;
            rest = if fate.is_some() { &others[1..] } else { others };
        }
        self.nothing_unexpected().context("at the end")
    }

    fn step(&mut self, step: &Step, fate: Option<&Seen>) -> Result<()> {
        if let Action::Packet(seen) = &step.action
            && seen.place == Place::Box
        {
            return match &seen.packet {
                Some(packet) => self.box_sends(seen, packet, step.after_us),
                None => self.box_is_silent(seen, step.after_us),
            };
        }
        self.pass_time(step.after_us)?;
        if step.action == Action::BoxSendsAnything {
            self.to_client.clear();
        }
        self.nothing_unexpected()?;
        self.to_server.clear();
        match &step.action {
            Action::Packet(seen) if seen.is_received() => {
                bail!("`{seen}` must follow the line in which the other end sends it")
            }
            Action::Packet(seen) => {
                let packet = seen.packet.as_ref().context("what an end sends is a packet")?;
                for piece in self.pieces(seen, packet) {
                    self.send(seen, &piece, fate)?;
                }
                Ok(())
            }
            Action::Open { connection, rtt_us } => self.open(connection, *rtt_us),
            Action::Clock(runs) => {
                self.is_clock_running = *runs;
                self.stage.next_round_us = self.stage.now_us;
                Ok(())
            }
            Action::Mode(mode) => {
                self.mode = *mode;
                self.stage.home.set_policy(self.mode, self.controls_paced)
            }
            Action::PacedServers(controls) => {
                self.controls_paced = *controls;
                self.stage.home.set_policy(self.mode, self.controls_paced)
            }
            Action::BoxSendsAnything | Action::Wait => Ok(()),
        }
    }

    /// Long data of a server leave as full segments.
    fn pieces(&self, seen: &Seen, packet: &Packet) -> Vec<Packet> {
        let conversation = &self.conversations[seen.connection.as_str()];
        let segment = conversation.segment_bytes();
        let packet = &conversation.in_numbers(seen.is_to_client, packet);
        let Some((start, end)) = packet.range else { return vec![packet.clone()] };
        if packet.gso_bytes.is_some() || packet.len() <= segment {
            return vec![packet.clone()];
        }
        let mut pieces = Vec::new();
        let mut at = start;
        while at != end {
            let next = at.wrapping_add(segment.min(end.wrapping_sub(at)));
            pieces.push(Packet { range: Some((at, next)), ..packet.clone() });
            at = next;
        }
        pieces
    }

    fn open(&mut self, connection: &str, rtt_us: u64) -> Result<()> {
        let [syn, syn_ack, ack] = self.conversations[connection].handshake();
        for (packet, is_to_client, after_us) in [(syn, false, 0), (syn_ack, true, 0), (ack, false, rtt_us)] {
            self.pass_time(after_us)?;
            let place = if is_to_client { Place::Server } else { Place::Client };
            let seen = Seen { place, connection: connection.to_string(), is_to_client, packet: None };
            self.send(&seen, &packet, None)?;
        }
        Ok(())
    }

    fn now_ms(&self) -> u32 {
        ((self.stage.now_us - self.began_us) / 1000) as u32
    }

    fn pass_time(&mut self, after_us: u64) -> Result<()> {
        let until_us = self.stage.now_us + after_us;
        while self.is_clock_running && self.stage.next_round_us <= until_us {
            self.round()?;
        }
        self.stage.now_us = until_us;
        self.stage.home.set_now(until_us)
    }

    /// The box's clock comes by.
    fn round(&mut self) -> Result<()> {
        let stage = &mut self.stage;
        stage.now_us = stage.next_round_us;
        stage.next_round_us += ROUND_US;
        stage.home.set_now(stage.now_us)?;
        for sent in stage.home.tick()? {
            let parsed = Parsed::of(&sent.frame).context("the box sends a frame that is no TCP segment")?;
            let of = self.conversations.iter_mut().find(|(_, c)| c.has(&parsed, sent.is_to_server));
            let Some((&name, conversation)) = of else {
                bail!("the box sends a packet of no connection of the script: {parsed:?}")
            };
            let checked = if sent.is_to_server {
                conversation.check_to_server(&sent.frame, true)
            } else {
                conversation.check_repair(&sent.frame)
            };
            conversation.note_received(sent.is_to_server, &sent.frame)?;
            let packet = conversation.read(!sent.is_to_server, &sent.frame)?;
            let text = self.words(Place::Box, name, !sent.is_to_server, &packet);
            self.note(&text);
            checked.with_context(|| format!("of `{text}`"))?;
            let queue = if sent.is_to_server { &mut self.to_server } else { &mut self.to_client };
            let (is_to_client, at_us) = (!sent.is_to_server, self.stage.now_us);
            queue.push_back(OfBox { connection: name.to_string(), frame: sent.frame, is_to_client, at_us });
        }
        Ok(())
    }

    fn read(&self, of_box: &OfBox) -> Result<Packet> {
        self.conversations[of_box.connection.as_str()].read(of_box.is_to_client, &of_box.frame)
    }

    /// As a line that a script could have.
    fn line_of(&self, of_box: &OfBox) -> Result<String> {
        let packet = self.read(of_box)?;
        let text = self.words(Place::Box, &of_box.connection, of_box.is_to_client, &packet);
        Ok(format!("{text}  # at {} us", of_box.at_us - self.began_us))
    }

    fn nothing_unexpected(&self) -> Result<()> {
        let Some(first) = self.to_client.front() else { return Ok(()) };
        bail!("of the box\n  expected box > nothing until this line\n  actual   {}", self.line_of(first)?)
    }

    fn send(&mut self, seen: &Seen, packet: &Packet, fate: Option<&Seen>) -> Result<()> {
        let now_ms = self.now_ms();
        let is_from_server = seen.is_to_client;
        let name = seen.connection.as_str();
        let conversation = &self.conversations[name];
        let (frame, gso_bytes) = conversation.frame(is_from_server, packet, now_ms)?;
        let sent_text =
            self.words(seen.place, name, is_from_server, &conversation.read(is_from_server, &frame)?);
        let conversation = self.conversations.get_mut(name).context("checked when it was read")?;
        conversation.note_sent(is_from_server, packet, &frame)?;
        let out = self.stage.home.pass(is_from_server, &frame, gso_bytes)?;
        let sent = conversation.read(is_from_server, &frame)?;
        let expected = match fate {
            Some(fate) => fate.to_string(),
            None if is_from_server || packet.is_discarded() => "that it passes unchanged".to_string(),
            None => "that it passes unchanged, but for its window".to_string(),
        };
        let receiver = if is_from_server { Place::Client } else { Place::Server };
        let Some(out) = out else {
            let actual = Seen { place: receiver, packet: None, ..seen.clone() };
            self.note(&sent_text);
            self.note(&actual.to_string());
            ensure!(
                fate.is_some_and(|fate| fate.packet.is_none()),
                "of `{sent_text}`\n  expected {expected}\n  actual   {actual}"
            );
            return Ok(());
        };
        let actual = conversation.read(is_from_server, &out)?;
        let actual_text = self.words(receiver, name, is_from_server, &actual);
        self.note(&sent_text);
        self.note(&actual_text);
        let is_right = match fate {
            Some(Seen { packet: Some(expected), .. }) => agrees(expected, &sent, &actual),
            Some(_) => false,
            None if is_from_server || packet.is_discarded() => out == frame,
            None => {
                let has_no_more_room = actual.window_bytes <= sent.window_bytes;
                Packet { window_bytes: sent.window_bytes, ..actual } == sent && has_no_more_room
            }
        };
        ensure!(is_right, "of `{sent_text}`\n  expected {expected}\n  actual   {actual_text}");
        if packet.is_discarded() {
            return Ok(());
        }
        let conversation = self.conversations.get_mut(name).context("checked when it was read")?;
        if !is_from_server {
            conversation.check_to_server(&out, false).with_context(|| format!("of `{actual_text}`"))?;
        }
        conversation.note_received(!is_from_server, &out)
    }

    fn box_sends(&mut self, seen: &Seen, expected: &Packet, within_us: u64) -> Result<()> {
        let until_us = self.stage.now_us + within_us;
        let mut at = expected.range.map(|(start, _)| start);
        let mut actual_text = format!("nothing until {} us", until_us - self.began_us);
        loop {
            let Some(of_box) = self.next_of_box(seen, until_us)? else {
                bail!("of the box\n  expected {seen}\n  actual   {actual_text}")
            };
            actual_text = self.line_of(&of_box)?;
            let actual = self.read(&of_box)?;
            // a repair of several segments may come in several packets
            let (start, end) = actual.range.context("all that is read has a range")?;
            let wanted_end = expected.range.map_or(end, |(_, end)| end);
            let is_within = at.is_none_or(|at| at == start) && (wanted_end.wrapping_sub(end) as i32) >= 0;
            let mut as_expected = Packet { range: Some((start, end)), ..expected.clone() };
            if end != wanted_end {
                as_expected.flags &= !PSH;
            }
            let is_of_it = of_box.connection == seen.connection && agrees(&as_expected, &actual, &actual);
            if !is_of_it && !seen.is_to_client {
                // room may be granted in steps, of which a script has the one that it is about
                continue;
            }
            ensure!(is_within && is_of_it, "of the box\n  expected {seen}\n  actual   {actual_text}");
            if end == wanted_end {
                return Ok(());
            }
            at = Some(end);
        }
    }

    fn next_of_box(&mut self, seen: &Seen, until_us: u64) -> Result<Option<OfBox>> {
        loop {
            let queue = if seen.is_to_client { &mut self.to_client } else { &mut self.to_server };
            if let Some(next) = queue.pop_front() {
                return Ok(Some(next));
            }
            if !self.is_clock_running || self.stage.next_round_us > until_us {
                self.stage.now_us = until_us;
                self.stage.home.set_now(until_us)?;
                return Ok(None);
            }
            self.round()?;
        }
    }

    fn box_is_silent(&mut self, seen: &Seen, during_us: u64) -> Result<()> {
        match self.next_of_box(seen, self.stage.now_us + during_us)? {
            None => Ok(()),
            Some(of_box) => bail!("of the box\n  expected {seen}\n  actual   {}", self.line_of(&of_box)?),
        }
    }
}

/// What becomes of the packet of a line, if the next one has that.
fn fate_in<'a>(step: &Step, next: &'a Step) -> Option<&'a Seen> {
    let (Action::Packet(sent), Action::Packet(fate)) = (&step.action, &next.action) else { return None };
    let is_of_it = sent.is_to_client == fate.is_to_client && sent.connection == fate.connection;
    (sent.is_sent() && fate.is_received() && is_of_it).then_some(fate)
}

/// Is `actual` what a line expects? What the line leaves open is as in `sent`, but for the window, which may be any.
fn agrees(expected: &Packet, sent: &Packet, actual: &Packet) -> bool {
    let wanted = Packet {
        range: expected.range.or(sent.range),
        ack: expected.ack.or(sent.ack),
        window_bytes: expected.window_bytes.or(actual.window_bytes),
        urgent: expected.urgent.or(sent.urgent),
        timestamps: match expected.timestamps {
            Timestamps::Absent if sent.timestamps == Timestamps::Implied => Timestamps::Implied,
            Timestamps::Implied => sent.timestamps,
            given => given,
        },
        mss_bytes: expected.mss_bytes.or(sent.mss_bytes),
        wscale: expected.wscale.or(sent.wscale),
        permits_sack: sent.permits_sack,
        options: sent.options.clone(),
        gso_bytes: None,
        ..expected.clone()
    };
    wanted == *actual
}
