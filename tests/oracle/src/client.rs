//! The client of one connection: what it acknowledges, and what it claims.

use crate::dice::Dice;

/// How the client behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    Honest,
    /// Reads slowly, and at times not at all.
    SlowReader,
    /// Forgets what it has reported to hold (RFC 2018, section 8).
    Reneges,
    /// Takes room back that it has offered.
    Shrinks,
    /// Acknowledges a few bytes at a time.
    Divides,
    /// Acknowledges what it has not got.
    Optimistic,
    /// Reports to hold what it has not got.
    LiesInSack,
    /// Reports to have got twice what came once.
    ForgesDsack,
    /// Never acknowledges again.
    Silent,
}

pub const CLIENT_KINDS: [ClientKind; 9] = [
    ClientKind::Honest,
    ClientKind::SlowReader,
    ClientKind::Reneges,
    ClientKind::Shrinks,
    ClientKind::Divides,
    ClientKind::Optimistic,
    ClientKind::LiesInSack,
    ClientKind::ForgesDsack,
    ClientKind::Silent,
];

impl ClientKind {
    /// Does it acknowledge, sooner or later, all that is sent?
    pub fn makes_progress(self) -> bool {
        use ClientKind::{Divides, Honest, Reneges, Shrinks, SlowReader};
        matches!(self, Honest | SlowReader | Reneges | Divides | Shrinks)
    }
}

const DELAYED_ACK_US: u64 = 20_000;
const BLOCKS: usize = 4;

/// What an ACK carries, as offsets of the server's stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    pub ack: i64,
    pub window_field: u16,
    pub blocks: [(i64, i64); BLOCKS],
    pub blocks_count: usize,
}

#[derive(Clone, Debug)]
pub struct Client {
    pub kind: ClientKind,
    shift: u8,
    has_sack: bool,
    pub rcv_nxt: i64,
    /// Out of order, sorted; the last one that grew first in reports.
    pub held: Vec<(i64, i64)>,
    newest: (i64, i64),
    duplicate: Option<(i64, i64)>,
    buffer: i64,
    read: i64,
    edge: i64,
    read_at_us: u64,
    unacked: u32,
    pub ack_at_us: Option<u64>,
    /// One past the server's last byte, if its FIN was seen.
    fin_at: Option<i64>,
    /// Its own stream.
    pub snd_una: i64,
    pub snd_nxt: i64,
    pub is_fin_sent: bool,
    pub resend_at_us: u64,
    divided: i64,
    silent_from: i64,
}

impl Client {
    pub fn new(kind: ClientKind, shift: u8, has_sack: bool, dice: &mut Dice) -> Client {
        let most = (65535i64 << shift).min(16 << 20);
        // some segments, whatever the windows' unit
        let least = (8 << shift).max(16 << 10).min(most);
        Client {
            kind,
            shift,
            has_sack,
            rcv_nxt: 0,
            held: Vec::new(),
            newest: (0, 0),
            duplicate: None,
            buffer: dice.magnitude(least, most),
            read: 0,
            edge: 0,
            read_at_us: 0,
            unacked: 0,
            ack_at_us: None,
            fin_at: None,
            snd_una: 0,
            snd_nxt: 0,
            is_fin_sent: false,
            resend_at_us: 0,
            divided: 0,
            silent_from: dice.magnitude(1, 200_000),
        }
    }

    /// The server's stream has arrived, its FIN included.
    pub fn has_all(&self) -> bool {
        self.fin_at.is_some_and(|end| self.rcv_nxt > end)
    }

    /// A segment has arrived. Returns whether it is to be acknowledged at once.
    pub fn on_data(&mut self, start: i64, len: i64, has_fin: bool, now_us: u64) -> bool {
        let end = start + len;
        if has_fin {
            self.fin_at = Some(end);
        }
        if len == 0 && !has_fin {
            // a keep-alive or a probe of the window is answered, a plain ACK is not
            if start >= self.rcv_nxt {
                return false;
            }
            return true;
        }
        let end_taken = end.min(self.edge.max(self.rcv_nxt));
        if end <= self.rcv_nxt.min(self.fin_at.map_or(i64::MAX, |f| f.max(end)))
            && !(has_fin && self.rcv_nxt == end)
        {
            self.duplicate = (len > 0).then_some((start, end));
            return true;
        }
        if start > self.rcv_nxt {
            self.hold(start, end_taken);
            return true;
        }
        if end_taken > self.rcv_nxt {
            self.rcv_nxt = end_taken;
        }
        let had_held = !self.held.is_empty();
        while let Some((first, last)) = self.held.first().copied() {
            if first > self.rcv_nxt {
                break;
            }
            self.rcv_nxt = self.rcv_nxt.max(last);
            self.held.remove(0);
        }
        if self.fin_at == Some(self.rcv_nxt) {
            self.rcv_nxt += 1;
            return true;
        }
        self.unacked += 1;
        if self.unacked >= 2 || had_held || len > 2 * 1460 {
            return true;
        }
        self.ack_at_us.get_or_insert(now_us + DELAYED_ACK_US);
        false
    }

    fn hold(&mut self, start: i64, end: i64) {
        if start >= end {
            return;
        }
        if self.held.iter().any(|h| h.0 <= start && end <= h.1) {
            self.duplicate = Some((start, end));
            return;
        }
        let mut grown = (start, end);
        self.held.retain(|h| {
            let apart = h.1 < grown.0 || h.0 > grown.1;
            if !apart {
                grown = (grown.0.min(h.0), grown.1.max(h.1));
            }
            apart
        });
        let at = self.held.partition_point(|h| h.0 < grown.0);
        self.held.insert(at, grown);
        self.newest = grown;
    }

    /// How much of the stream the application has taken.
    pub fn read_bytes(&self) -> i64 {
        self.read
    }

    fn reads(&mut self, now_us: u64, dice: &mut Dice) {
        let is_waiting = now_us < self.read_at_us;
        if self.kind != ClientKind::SlowReader || self.has_all() {
            self.read = self.rcv_nxt;
        } else if !is_waiting {
            self.read = self.rcv_nxt.min(self.read + dice.magnitude(1, self.buffer.max(2)));
            self.read_at_us = now_us + dice.magnitude(100, 300_000) as u64;
        }
    }

    /// Has a slow reader made room that no ACK has announced?
    pub fn has_more_room(&mut self, now_us: u64, dice: &mut Dice) -> bool {
        if self.kind != ClientKind::SlowReader {
            return false;
        }
        self.reads(now_us, dice);
        self.read + self.buffer - self.edge >= (self.buffer / 2).max(1 << self.shift)
    }

    /// The window field for acknowledgement `ack`; the right edge moves left only of a kind that shrinks it.
    fn window(&mut self, ack: i64, dice: &mut Dice) -> u16 {
        let mut edge = self.read + self.buffer;
        if self.kind == ClientKind::Shrinks {
            if dice.permille(50) {
                edge = self.rcv_nxt + dice.between(0, self.buffer);
            }
        } else {
            edge = edge.max(self.edge);
        }
        let unit = 1i64 << self.shift;
        let keeps = self.kind != ClientKind::Shrinks;
        let mut field = (edge - ack).max(0) >> self.shift;
        if keeps && ack + (field << self.shift) < self.edge {
            field = (self.edge - ack + unit - 1) >> self.shift;
        }
        let field = field.clamp(0, 65535);
        self.edge =
            if keeps { self.edge.max(ack + (field << self.shift)) } else { ack + (field << self.shift) };
        field as u16
    }

    /// The window field that repeats its right edge.
    pub fn window_again(&self) -> u16 {
        let unit = 1i64 << self.shift;
        ((self.edge - self.rcv_nxt + unit - 1) >> self.shift).clamp(0, 65535) as u16
    }

    /// Its next ACK; none: it sends none. `sent_end`: up to where the server may have sent.
    pub fn report(&mut self, now_us: u64, dice: &mut Dice, sent_end: i64) -> Option<Report> {
        self.unacked = 0;
        self.ack_at_us = None;
        self.reads(now_us, dice);
        if self.kind == ClientKind::Silent && self.rcv_nxt > self.silent_from {
            return None;
        }
        let mut ack = self.rcv_nxt;
        match self.kind {
            ClientKind::Divides => {
                self.divided = (self.divided + dice.magnitude(1, 3000)).min(self.rcv_nxt);
                if self.has_all() {
                    self.divided = self.rcv_nxt;
                }
                ack = self.divided;
                if self.divided < self.rcv_nxt {
                    self.ack_at_us = Some(now_us + dice.magnitude(10, 1000) as u64);
                }
            }
            ClientKind::Optimistic if dice.permille(300) => {
                ack = dice.between(self.rcv_nxt, sent_end.max(self.rcv_nxt));
            }
            ClientKind::Reneges if dice.permille(20) => self.held.clear(),
            _ => {}
        }
        let window_field = self.window(ack, dice);
        let mut report = Report { ack, window_field, ..Report::default() };
        let duplicate = self.duplicate.take();
        if !self.has_sack {
            return Some(report);
        }
        let mut add = |block: (i64, i64)| {
            if report.blocks_count < BLOCKS && block.0 < block.1 {
                report.blocks[report.blocks_count] = block;
                report.blocks_count += 1;
            }
        };
        match self.kind {
            ClientKind::LiesInSack if dice.permille(500) => {
                for _ in 0..BLOCKS {
                    let start = dice.between(ack - 5000, sent_end.max(ack));
                    add((start, start + dice.magnitude(1, 100_000)));
                }
            }
            ClientKind::ForgesDsack if dice.permille(500) && ack > 1 => {
                let start = dice.between((ack - 100_000).max(0), ack - 1);
                add((start, (start + dice.magnitude(1, 3000)).min(ack)));
            }
            _ => {}
        }
        if let Some(block) =
            duplicate.filter(|b| b.1 <= ack || self.held.iter().any(|h| h.0 <= b.0 && b.1 <= h.1))
        {
            add(block);
        }
        let newest = self.held.iter().find(|h| h.0 <= self.newest.0 && self.newest.0 < h.1).copied();
        newest.into_iter().for_each(&mut add);
        let others: Vec<_> =
            self.held.iter().rev().filter(|h| Some(**h) != newest).take(3).copied().collect();
        others.into_iter().for_each(&mut add);
        Some(report)
    }
}
