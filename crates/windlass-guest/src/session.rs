//! The guest's side of the port: greets the host, sends what the flows report, and hands the answers on. No clock, no
//! file descriptors: time comes in, bytes come and go.

use crate::wire::{Frame, Message, Nonsense, Op, Outcome, Reader, Reply, Report, State, encode};
use std::collections::HashMap;
use windlass_core::abi;

/// How long the host may leave a greeting or a report unanswered before it is greeted again.
pub const PATIENCE_US: u64 = 1_000_000;
/// What a path of 40 Gbit/s and 100 ms holds: a joiner's ten segments may become that at once, if its group fills one.
const ANSWER_ANY_BYTES: u32 = 1 << 29;
/// How many times a flow's own window an answer may be that is larger.
const ANSWER_MOST_TIMES: u32 = 1024;
/// Losses of a flow, of which the host may answer each with no less than before, as long as it reacts to no flow's.
const UNHEARD_MOST: u8 = 3;
/// Flows of which that takes, unless there is only one: of many with small cuts (`efcm`, `multcp`) others grow by more than a
/// thin one's loss takes from all.
const UNHEARD_FLOWS: usize = 2;
/// Times that the host may not know a flow that was just reported to it.
const UNKNOWN_MOST: u8 = 3;
/// Reports that are in no hurry wait for others for a quarter of a round trip, at most this long.
const BATCH_MOST_US: u64 = 25_000;
/// A flow that reports nothing for so long is forgotten: the kernel's report of its end may be lost. If it speaks
/// again, it registers again; the host lets go of silent flows much sooner.
pub const FORGET_US: u64 = 60_000_000;
/// More than this waiting to be written: the port is stuck.
const BACKLOG_MOST_BYTES: usize = 256 << 10;

/// Why flows are on their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// No program is at the other end of the port.
    Closed,
    /// The host reported that the session is over.
    Ended,
    /// The host sent something that makes no sense.
    Nonsense(Nonsense),
    /// The host answered without a report.
    NotAsked,
    /// The host grants a window out of all proportion to the flow's own.
    TooMuch,
    /// Whatever flows lose, the host grants them as much as before, and more than they can use.
    Deaf,
    /// The host does not know flows that are reported to it again and again.
    Forgetful,
    /// The host does not answer.
    Silent,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Why::Closed => f.write_str("no program is at the other end of the port"),
            Why::Ended => f.write_str("the host ended the session"),
            Why::Nonsense(what) => write!(f, "the host talks nonsense: {what}"),
            Why::NotAsked => f.write_str("the host talks nonsense: an answer without a report"),
            Why::TooMuch => f.write_str("the host talks nonsense: a window out of all proportion"),
            Why::Deaf => f.write_str("the host talks nonsense: losses change nothing for it"),
            Why::Forgetful => f.write_str("the host talks nonsense: it knows no flow that is reported to it"),
            Why::Silent => f.write_str("the host does not answer"),
        }
    }
}

/// What the caller has to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The host answers from now on.
    Coupled,
    /// No answer so far counts any longer; flows go on by themselves.
    Alone(Why),
    /// A flow's share.
    Answer(Reply),
    /// The host has no room for the flow.
    Refused(u64),
    /// The flow has ended, as far as is known.
    Forgotten(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The port is closed.
    Away,
    /// Until the welcome; the greeting is sent, or repeated, at that time.
    Greeting {
        again_at_us: u64,
        is_said: bool,
    },
    Coupled,
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug)]
struct Flow {
    last: Report,
    heard_at_us: u64,
    /// Largest window of its own that it has reported.
    most_bytes: u32,
    /// Last answer.
    granted_bytes: u32,
    /// What it had in flight when it last entered recovery, and was granted then; none: answered since.
    loss: Option<(u32, u32)>,
    /// Times in a row that the host did not know it.
    unknown: u8,
    /// When the oldest report was sent that has no answer yet.
    unanswered_at_us: Option<u64>,
}

impl Flow {
    fn new(first: Report) -> Flow {
        Flow {
            last: first,
            heard_at_us: 0,
            most_bytes: 0,
            granted_bytes: 0,
            loss: None,
            unknown: 0,
            unanswered_at_us: None,
        }
    }

    fn hear(&mut self, report: Report, now_us: u64) {
        if report.state == State::Recovery && self.last.state != State::Recovery {
            self.loss = Some((report.inflight_bytes, self.granted_bytes));
        }
        let least = report.mss_bytes.saturating_mul(abi::WL_INIT_CWND_SEGS);
        self.most_bytes = self.most_bytes.max(report.cwnd_bytes).max(least);
        self.last = report;
        self.heard_at_us = now_us;
    }

    /// The flow's share is this from now on. Whether it is less than before the flow's last loss, or as good as used up; none:
    /// nothing was lost since the last answer, or it is not known.
    fn grant(&mut self, reply: &Reply) -> Option<bool> {
        let mut is_heard = None;
        // what was reported before it left recovery was answered without knowing of the loss
        if self.last.state != State::Recovery
            && reply.seq == self.last.seq
            && let Some((inflight_bytes, before_bytes)) = self.loss.take()
            && before_bytes > 0
        {
            // with many flows a share is at its floor, and no loss makes it less
            let floor_bytes = self.last.mss_bytes.saturating_mul(abi::WL_GROUP_FLOOR_SEGS);
            is_heard = Some(
                reply.cwnd_bytes <= floor_bytes
                    || reply.cwnd_bytes < before_bytes
                    || reply.cwnd_bytes / 2 <= inflight_bytes,
            );
        }
        self.granted_bytes = reply.cwnd_bytes;
        is_heard
    }
}

/// One guest at its port.
#[derive(Debug)]
pub struct Session {
    id: u64,
    phase: Phase,
    reader: Reader,
    flows: HashMap<u64, Flow>,
    /// Losses that were answered as if there were none, by flow; since one was not.
    unheard: HashMap<u64, u8>,
    pending: Vec<Report>,
    /// When `pending` is to be sent.
    flush_at_us: Option<u64>,
    out: Vec<u8>,
    patience_checked_at_us: u64,
    sifted_at_us: u64,
}

impl Default for Session {
    fn default() -> Self {
        Session {
            id: 0,
            phase: Phase::Away,
            reader: Reader::default(),
            flows: HashMap::new(),
            unheard: HashMap::new(),
            pending: Vec::new(),
            flush_at_us: None,
            out: Vec::new(),
            patience_checked_at_us: 0,
            sifted_at_us: 0,
        }
    }
}

impl Session {
    /// Whether the host answers.
    pub fn is_coupled(&self) -> bool {
        self.phase == Phase::Coupled
    }

    /// Whether a program is at the other end of the port, as far as is known.
    pub fn is_connected(&self) -> bool {
        self.phase != Phase::Away
    }

    /// Flows of this guest.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// A program is at the other end of the port.
    pub fn connected(&mut self, now_us: u64) {
        if self.phase == Phase::Away {
            self.out.clear();
            self.reader = Reader::default();
            self.greet(now_us);
        }
    }

    /// None is any more.
    pub fn disconnected(&mut self) -> Option<Event> {
        let was_coupled = self.is_coupled();
        self.out.clear();
        self.forget_pending();
        self.phase = Phase::Away;
        was_coupled.then_some(Event::Alone(Why::Closed))
    }

    /// A flow reports something.
    pub fn report(&mut self, report: Report, now_us: u64) {
        if report.op == Op::Leave {
            self.unheard.remove(&report.flow);
            if self.flows.remove(&report.flow).is_none() {
                return;
            }
        } else {
            let flow = self.flows.entry(report.flow).or_insert(Flow::new(report));
            flow.hear(report, now_us);
        }
        if self.is_coupled() {
            self.ask(report, now_us);
        }
    }

    fn ask(&mut self, report: Report, now_us: u64) {
        let wait_us = match report.op {
            Op::Update if !report.is_timeout && report.state != State::Recovery => {
                (u64::from(report.srtt_us) / 4).min(BATCH_MOST_US)
            }
            // what changes others' shares, or follows from a loss
            _ => 0,
        };
        if let Some(flow) = self.flows.get_mut(&report.flow) {
            flow.unanswered_at_us.get_or_insert(now_us);
        }
        self.pending.push(report);
        let at_us = now_us + wait_us;
        self.flush_at_us = Some(self.flush_at_us.map_or(at_us, |other| other.min(at_us)));
    }

    /// Bytes that came from the host.
    pub fn receive(&mut self, bytes: &[u8], now_us: u64) -> Vec<Event> {
        let mut events = Vec::new();
        if self.phase == Phase::Away {
            return events;
        }
        self.reader.push(bytes);
        loop {
            match self.reader.next_frame() {
                Ok(Some(frame)) => self.frame(frame, now_us, &mut events),
                Ok(None) => return events,
                Err(what) => self.give_up(Why::Nonsense(what), now_us + PATIENCE_US, &mut events),
            }
        }
    }

    fn frame(&mut self, frame: Frame, now_us: u64, events: &mut Vec<Event>) {
        let is_mine = frame.session == self.id;
        match frame.message {
            Message::Welcome if is_mine && !self.is_coupled() => {
                self.phase = Phase::Coupled;
                events.push(Event::Coupled);
                let all: Vec<Report> =
                    self.flows.values().map(|f| Report { op: Op::Register, ..f.last }).collect();
                all.into_iter().for_each(|r| self.ask(r, now_us));
            }
            Message::Replies(all) if is_mine && self.is_coupled() => {
                for reply in all {
                    self.reply(reply, now_us, events);
                    if !self.is_coupled() {
                        // one of them made no sense: nor need the others
                        return;
                    }
                }
            }
            // a host that has just come, and has not read the greeting yet
            Message::Bye if matches!(self.phase, Phase::Greeting { is_said: true, .. }) => {}
            // or that goes: it may know nothing of this session's number
            Message::Bye => {
                self.give_up(Why::Ended, now_us, events);
                self.greet(now_us);
            }
            // a guest's words, from a host
            Message::Hello | Message::Reports(_) => {
                self.give_up(Why::NotAsked, now_us + PATIENCE_US, events);
            }
            // what is left of an earlier session
            Message::Welcome | Message::Replies(_) => {}
        }
    }

    fn reply(&mut self, reply: Reply, now_us: u64, events: &mut Vec<Event>) {
        // a flow that has ended since
        let Some(flow) = self.flows.get_mut(&reply.flow) else { return };
        if reply.seq.wrapping_sub(flow.last.seq) as i32 > 0 {
            return self.give_up(Why::NotAsked, now_us + PATIENCE_US, events);
        }
        let is_last = reply.seq == flow.last.seq;
        flow.unanswered_at_us = (!is_last).then_some(now_us);
        if reply.outcome != Outcome::Unknown {
            flow.unknown = 0;
        } else if is_last {
            flow.unknown += 1;
        }
        match reply.outcome {
            Outcome::Coupled => match self.judge(&reply) {
                Ok(()) => events.push(Event::Answer(reply)),
                Err(why) => self.give_up(why, now_us + PATIENCE_US, events),
            },
            Outcome::Refused => events.push(Event::Refused(reply.flow)),
            Outcome::Unknown if flow.unknown >= UNKNOWN_MOST => {
                self.give_up(Why::Forgetful, now_us + PATIENCE_US, events);
            }
            Outcome::Unknown if is_last => {
                let again = Report { op: Op::Register, ..flow.last };
                self.ask(again, now_us);
            }
            // nor will it know of what was reported since: the answer to that counts
            Outcome::Unknown => {}
        }
    }

    /// Whether a host that couples flows could have granted this.
    fn judge(&mut self, reply: &Reply) -> Result<(), Why> {
        let Some(flow) = self.flows.get_mut(&reply.flow).filter(|_| reply.is_change) else { return Ok(()) };
        if reply.cwnd_bytes > ANSWER_ANY_BYTES && reply.cwnd_bytes / ANSWER_MOST_TIMES > flow.most_bytes {
            return Err(Why::TooMuch);
        }
        match flow.grant(reply) {
            Some(true) => self.unheard.clear(),
            Some(false) => {
                let losses = self.unheard.entry(reply.flow).or_default();
                *losses = losses.saturating_add(1);
                let unheard = self.unheard.values().filter(|losses| **losses >= UNHEARD_MOST).count();
                if unheard >= UNHEARD_FLOWS.min(self.flows.len()) {
                    return Err(Why::Deaf);
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Looks whether the host has been silent for too long, repeats greetings, and forgets flows that have ended.
    pub fn tick(&mut self, now_us: u64) -> Vec<Event> {
        let mut events = self.sift(now_us);
        match self.phase {
            Phase::Away => {}
            Phase::Greeting { again_at_us, .. } => {
                if now_us >= again_at_us {
                    self.greet(now_us);
                }
            }
            Phase::Coupled => {
                if self.out.len() > BACKLOG_MOST_BYTES || self.is_silent(now_us) {
                    self.give_up(Why::Silent, now_us, &mut events);
                    self.greet(now_us);
                }
            }
        }
        events
    }

    /// Forgets flows that have been silent for so long; looks through all flows a few times in that time.
    fn sift(&mut self, now_us: u64) -> Vec<Event> {
        if now_us < self.sifted_at_us + FORGET_US / 4 {
            return Vec::new();
        }
        self.sifted_at_us = now_us;
        let silent = self.flows.extract_if(|_, flow| now_us >= flow.heard_at_us + FORGET_US);
        let events = silent.map(|(id, _)| Event::Forgotten(id)).collect();
        self.unheard.retain(|id, _| self.flows.contains_key(id));
        events
    }

    /// Whether a report has waited too long; looks through all flows a few times per patience.
    fn is_silent(&mut self, now_us: u64) -> bool {
        if now_us < self.patience_checked_at_us + PATIENCE_US / 4 {
            return false;
        }
        self.patience_checked_at_us = now_us;
        self.flows.values().filter_map(|f| f.unanswered_at_us).any(|at| now_us > at + PATIENCE_US)
    }

    /// When [`Session::tick`] or [`Session::flush`] has something to do; none: not before something else happens.
    pub fn next_at_us(&self) -> Option<u64> {
        let own = match self.phase {
            Phase::Away => None,
            Phase::Greeting { again_at_us, .. } => Some(again_at_us),
            Phase::Coupled if self.flows.is_empty() => None,
            Phase::Coupled => Some(self.patience_checked_at_us + PATIENCE_US / 4),
        };
        own.into_iter().chain(self.flush_at_us).min()
    }

    /// Puts what is due into the bytes to be written.
    pub fn flush(&mut self, now_us: u64) {
        if self.flush_at_us.is_some_and(|at| now_us >= at) {
            self.flush_at_us = None;
            encode(self.id, &Message::Reports(std::mem::take(&mut self.pending)), &mut self.out);
        }
    }

    /// Sends that this is the end, if there was a beginning.
    pub fn finish(&mut self) {
        if self.is_connected() {
            self.forget_pending();
            encode(self.id, &Message::Bye, &mut self.out);
        }
    }

    /// Bytes to be written to the port.
    pub fn outgoing(&self) -> &[u8] {
        &self.out
    }

    /// That many of them are written.
    pub fn written(&mut self, bytes: usize) {
        self.out.drain(..bytes);
    }

    fn greet(&mut self, now_us: u64) {
        self.id = rand::random();
        self.forget_pending();
        self.phase = Phase::Greeting { again_at_us: now_us + PATIENCE_US, is_said: true };
        if self.out.len() > BACKLOG_MOST_BYTES {
            // what the port has half of is nonsense to the host; the next greeting is not
            self.out.clear();
        }
        encode(self.id, &Message::Hello, &mut self.out);
    }

    fn forget_pending(&mut self) {
        self.pending.clear();
        self.flush_at_us = None;
        // what another session grants has nothing to do with what this one did
        self.unheard.clear();
        for f in self.flows.values_mut() {
            (f.unanswered_at_us, f.loss, f.granted_bytes, f.unknown) = (None, None, 0, 0);
        }
    }

    fn give_up(&mut self, why: Why, again_at_us: u64, events: &mut Vec<Event>) {
        if self.is_coupled() {
            events.push(Event::Alone(why));
        }
        self.forget_pending();
        // so that a late welcome to this session counts for none
        self.id = rand::random();
        self.phase = Phase::Greeting { again_at_us, is_said: false };
    }
}
