//! The server of one connection: what it sends, and when. An honest one is a plain TCP; others do what no TCP would.

use crate::{dice::Dice, programs::FRAME_MAX_BYTES};

/// How the server behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    Honest,
    /// Retransmissions carry other bytes.
    ChangesBytes,
    IgnoresWindow,
    /// Segments of a few bytes.
    Tiny,
    /// Segments that overlap what was sent before, in any way.
    Overlaps,
    /// Leaves stretches out, and may come back to them.
    Holes,
}

pub const SERVER_KINDS: [ServerKind; 6] = [
    ServerKind::Honest,
    ServerKind::ChangesBytes,
    ServerKind::IgnoresWindow,
    ServerKind::Tiny,
    ServerKind::Overlaps,
    ServerKind::Holes,
];

const RTO_MIN_US: u64 = 200_000;
const RTO_MAX_US: u64 = 800_000;
const KEEPALIVE_US: u64 = 400_000;
/// Beyond the window, of a server that ignores it.
const IGNORED_BYTES: i64 = 1 << 20;
/// Longest payload of a packet: what a test run takes, less the headers.
const PAYLOAD_MAX_BYTES: i64 = FRAME_MAX_BYTES as i64 - 120;
const INITIAL_SEGMENTS: i64 = 10;

/// A packet that the server is about to send. Offsets are of its stream.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub offset: i64,
    pub len: i64,
    pub has_fin: bool,
    pub is_super: bool,
    pub version: u64,
    pub is_urgent: bool,
    /// The retransmission timer expired for the oldest unacknowledged byte.
    pub is_timeout: bool,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub kind: ServerKind,
    mss: i64,
    /// Length of its stream.
    pub total: i64,
    pub una: i64,
    pub nxt: i64,
    pub is_fin_sent: bool,
    cwnd: i64,
    cwnd_max: i64,
    dupacks: u32,
    recovery_end: Option<i64>,
    resend_at: Option<i64>,
    rto_us: u64,
    backoff: u32,
    /// When it next gives up waiting; 0: nothing is in flight.
    timeout_us: u64,
    probe_us: u64,
    idle_us: u64,
    has_super: bool,
    is_probing: bool,
    urgent_permille: u32,
}

impl Server {
    pub fn new(kind: ServerKind, mss: i64, total: i64, rtt_us: u64, dice: &mut Dice) -> Server {
        Server {
            kind,
            mss,
            total,
            una: 0,
            nxt: 0,
            is_fin_sent: false,
            cwnd: INITIAL_SEGMENTS * mss,
            cwnd_max: dice.magnitude(4 * mss, 4 << 20),
            dupacks: 0,
            recovery_end: None,
            resend_at: None,
            rto_us: RTO_MIN_US.max(3 * rtt_us),
            backoff: 0,
            timeout_us: 0,
            probe_us: 2 * rtt_us + 2_000,
            idle_us: 0,
            has_super: dice.permille(500),
            is_probing: dice.permille(500),
            urgent_permille: if dice.permille(30) { 20 } else { 0 },
        }
    }

    pub fn is_honest(&self) -> bool {
        self.kind == ServerKind::Honest
    }

    fn max(&self) -> i64 {
        self.nxt + i64::from(self.is_fin_sent)
    }

    /// All of it has arrived, its FIN included.
    pub fn is_done(&self) -> bool {
        self.is_fin_sent && self.una > self.total
    }

    /// Is something unacknowledged?
    pub fn waits(&self) -> bool {
        self.una < self.max()
    }

    fn arm(&mut self, now_us: u64) {
        let rto_us = (self.rto_us << self.backoff.min(3)).min(RTO_MAX_US.max(self.rto_us));
        self.timeout_us = if self.waits() { now_us + rto_us } else { 0 };
    }

    /// An acceptable acknowledgement came. `is_pure`: nothing but that.
    pub fn on_ack(&mut self, ack: i64, is_pure: bool, now_us: u64) {
        self.idle_us = now_us;
        if ack > self.max() {
            return;
        }
        if ack > self.una {
            let acked = ack - self.una;
            self.una = ack;
            self.backoff = 0;
            self.dupacks = 0;
            match self.recovery_end {
                Some(end) if ack >= end => self.recovery_end = None,
                Some(_) => self.resend_at = Some(ack),
                None => self.cwnd = (self.cwnd + acked).min(self.cwnd_max),
            }
            self.arm(now_us);
        } else if ack == self.una && is_pure && self.waits() {
            self.dupacks += 1;
            if self.dupacks == 3 && self.recovery_end.is_none() {
                self.recovery_end = Some(self.nxt);
                self.resend_at = Some(self.una);
                self.cwnd = (self.cwnd / 2).max(2 * self.mss);
            }
        }
    }

    fn spec(&self, offset: i64, len: i64) -> Spec {
        Spec {
            offset,
            len,
            has_fin: self.is_fin_sent && offset + len == self.total && self.nxt == self.total,
            is_super: false,
            version: 0,
            is_urgent: false,
            is_timeout: false,
        }
    }

    fn resend(&mut self, from: i64, dice: &mut Dice, out: &mut Vec<Spec>, is_timeout: bool) {
        let from = from.max(self.una);
        let left = self.nxt - from;
        if left <= 0 {
            if self.is_fin_sent && self.una <= self.total {
                out.push(Spec { is_timeout, ..self.spec(self.total, 0) });
            }
            return;
        }
        let most = if dice.permille(900) { self.mss } else { dice.between(1, self.mss) };
        let mut spec = self.spec(from, left.min(most));
        spec.is_timeout = is_timeout;
        if self.kind == ServerKind::ChangesBytes {
            spec.version = dice.between(0, 3) as u64;
        }
        out.push(spec);
    }

    /// What the server sends now, at most some packets. `edge`: up to where it may.
    pub fn poll(&mut self, edge: i64, now_us: u64, dice: &mut Dice, out: &mut Vec<Spec>) {
        if let Some(from) = self.resend_at.take() {
            self.resend(from, dice, out, false);
        }
        if self.timeout_us != 0 && now_us >= self.timeout_us {
            self.backoff += 1;
            self.recovery_end = Some(self.nxt);
            self.cwnd = 2 * self.mss;
            self.resend(self.una, dice, out, true);
            self.arm(now_us);
            self.idle_us = now_us;
            return;
        }
        // a tail loss probe: the last segment once more
        if self.is_probing && self.waits() && self.backoff == 0 && now_us > self.idle_us + self.probe_us {
            self.is_probing = false;
            let from = self.una.max(self.nxt - self.mss);
            if from < self.nxt {
                out.push(self.spec(from, self.nxt - from));
            }
        }
        let edge = if self.kind == ServerKind::IgnoresWindow { self.una + IGNORED_BYTES } else { edge };
        let limit = edge.min(self.una + self.cwnd).min(self.total);
        let burst = dice.between(1, 8);
        for _ in 0..burst {
            if self.nxt >= limit || self.is_fin_sent {
                break;
            }
            self.send_new(limit, dice, out);
        }
        if !self.waits() && self.nxt >= edge.min(self.total) && now_us > self.idle_us + KEEPALIVE_US {
            // a probe of a closed window, or a keep-alive: Linux', or with a byte
            self.idle_us = now_us;
            if self.nxt < self.total && dice.permille(300) {
                let spec = self.spec(self.nxt, 1);
                self.nxt += 1;
                out.push(spec);
            } else if self.nxt > 0 {
                out.push(self.spec(self.una - 1, dice.between(0, 1)));
            }
        }
        if self.nxt == self.total && !self.is_fin_sent && dice.permille(100) {
            self.is_fin_sent = true;
            out.push(self.spec(self.total, 0));
        }
        if self.timeout_us == 0 && self.waits() {
            self.idle_us = now_us;
            self.arm(now_us);
        }
    }

    fn send_new(&mut self, limit: i64, dice: &mut Dice, out: &mut Vec<Spec>) {
        let mut spec = self.spec(self.nxt, self.mss);
        match self.kind {
            ServerKind::Tiny => spec.len = dice.between(1, 64),
            ServerKind::Overlaps if dice.permille(300) => {
                spec.offset = (self.nxt - dice.between(0, 4 * self.mss)).max(0);
                spec.len = dice.between(1, self.mss);
            }
            ServerKind::Holes if dice.permille(100) => {
                spec.offset = self.nxt + dice.magnitude(1, 4 * self.mss);
                spec.len = dice.between(1, self.mss);
            }
            ServerKind::Holes if dice.permille(150) && self.nxt - self.una > self.mss => {
                spec.offset = dice.between(self.una, self.nxt - 1);
                spec.len = dice.between(1, self.mss);
            }
            _ if self.has_super && dice.permille(400) => {
                spec.len = self.mss * dice.magnitude(2, 45);
                spec.is_super = true;
            }
            _ if dice.permille(60) => spec.len = dice.between(1, self.mss),
            _ => {}
        }
        spec.len = spec.len.min(limit - spec.offset).min(PAYLOAD_MAX_BYTES);
        if spec.len <= 0 {
            return;
        }
        spec.is_super &= spec.len > self.mss;
        spec.is_urgent = dice.permille(self.urgent_permille);
        self.nxt = self.nxt.max(spec.offset + spec.len);
        self.is_probing |= dice.permille(50);
        if self.nxt == self.total && dice.permille(300) {
            self.is_fin_sent = true;
            spec.has_fin = spec.offset + spec.len == self.total;
            if !spec.has_fin {
                self.is_fin_sent = false;
            }
        }
        out.push(spec);
    }
}
