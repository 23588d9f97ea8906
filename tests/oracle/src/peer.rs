//! Both ends of one connection, and the network between the box and its client, which delays, loses and reorders.

use crate::{
    client::{Client, ClientKind},
    dice::Dice,
    gate::{Account, Gate, Sent},
    ledger::{Fault, Ledger, NOT_HANDED_BACK},
    programs::Verdict,
    server::{Server, ServerKind, Spec},
    terms::Terms,
    wire::{ACK, Checksum, FIN, PSH, RST, TcpOptions, URG},
};
use anyhow::Result;
use std::{cmp::Reverse, collections::BinaryHeap};

/// A server's retransmissions may be absorbed for so long without progress; counted while the datapath is at work.
const HAND_BACK_US: u64 = 2_000_000;
/// Beyond what a lossy path explains, in time and in steps: on a busy machine a connection takes few of them in a second.
const STALL_US: u64 = 15_000_000;
const STALL_STEPS: u32 = 1000;
const CLIENT_RTO_US: u64 = 300_000;

/// How a connection ends, but for its server's FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Fin,
    ServerResets,
    ClientResets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// It has ended; the slot can be used again.
    Over,
}

/// On its way to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Down {
    due_us: u64,
    number: u64,
    offset: i64,
    len: i64,
    has_fin: bool,
    ack: i64,
    tsval: u32,
}

/// On its way from the client to the box.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Up {
    due_us: u64,
    number: u64,
    seq: i64,
    len: i64,
    flags: u8,
    ack: i64,
    window_field: u16,
    blocks: [(i64, i64); 4],
    blocks_count: usize,
    tsval: u32,
    tsecr: u32,
}

/// What the path between box and client is like.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub delay_us: u64,
    pub loss_permille: u32,
    pub reorder_permille: u32,
    pub damage_permille: u32,
    /// The path loses all now and then.
    pub has_outages: bool,
}

pub struct Peer {
    terms: Terms,
    pub server: Server,
    pub client: Client,
    path: Path,
    down: BinaryHeap<Reverse<Down>>,
    up: BinaryHeap<Reverse<Up>>,
    number: u64,
    phase: Phase,
    ending: Ending,
    /// Of the server's stream, when the connection is reset.
    reset_at: i64,
    outage_until_us: u64,
    /// Of the client's stream.
    server_rcv_nxt: i64,
    client_fin_at: Option<i64>,
    tsval_from_client: u32,
    tsval_from_server: u32,
    /// Absorbed since, while nothing was acknowledged: when the server first gave up waiting.
    absorbed_since_us: Option<u64>,
    /// From then to its last retransmission by timeout that was absorbed.
    absorbed_for_us: u64,
    progress_at_us: u64,
    /// Steps since then.
    steps_without_progress: u32,
    /// What the client had read when it was last looked at.
    read_bytes: i64,
    specs: Vec<Spec>,
    uploads_permille: u32,
}

fn ts(base: u32, now_us: u64, began_us: u64) -> u32 {
    base.wrapping_add(((now_us - began_us) / 1000) as u32)
}

impl Peer {
    /// Opens a connection through the box.
    pub fn open(
        gate: &mut Gate,
        account: &mut Account,
        kinds: (ServerKind, ClientKind),
        path: Path,
        now_us: u64,
        dice: &mut Dice,
    ) -> Result<Peer> {
        let terms = account.ledger.terms;
        let total = dice.magnitude(1, 4 << 20);
        let mss = i64::from(terms.mss_bytes) - if terms.has_timestamps { 12 } else { 0 };
        let rtt_us = 2 * path.delay_us + 1000;
        let mut peer = Peer {
            server: Server::new(kinds.0, mss, total, rtt_us, dice),
            client: Client::new(kinds.1, terms.shift(), terms.has_sack, dice),
            terms,
            path,
            down: BinaryHeap::new(),
            up: BinaryHeap::new(),
            number: 0,
            phase: Phase::Open,
            ending: dice.one_of(&[
                Ending::Fin,
                Ending::Fin,
                Ending::Fin,
                Ending::ServerResets,
                Ending::ClientResets,
            ]),
            reset_at: dice.between(0, total),
            outage_until_us: 0,
            server_rcv_nxt: 0,
            client_fin_at: None,
            tsval_from_client: terms.client_ts,
            tsval_from_server: terms.server_ts,
            absorbed_since_us: None,
            absorbed_for_us: 0,
            progress_at_us: now_us,
            steps_without_progress: 0,
            read_bytes: 0,
            specs: Vec::new(),
            uploads_permille: if dice.permille(300) { 20 } else { 0 },
        };
        let again = dice.permille(50);
        for _ in 0..1 + i32::from(again) {
            gate.client_sends(account, &terms.syn(), terms.client_ts)?;
        }
        gate.server_sends(account, &terms.syn_ack(), terms.server_ts)?;
        peer.client_reports(now_us, dice, account, true);
        Ok(peer)
    }

    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The client sends: data of its own, or an ACK.
    fn client_reports(&mut self, now_us: u64, dice: &mut Dice, account: &Account, is_first: bool) {
        let sent_end = account.ledger.sent_end;
        let Some(report) = self.client.report(now_us, dice, sent_end) else { return };
        self.number += 1;
        let mut up = Up {
            due_us: now_us + self.path.delay_us,
            number: self.number,
            seq: self.client.snd_nxt,
            len: 0,
            flags: ACK,
            ack: report.ack,
            window_field: report.window_field,
            blocks: report.blocks,
            blocks_count: report.blocks_count,
            tsval: ts(self.terms.client_ts, now_us, 0),
            tsecr: self.tsval_from_server,
        };
        let is_closing = self.client.has_all() && !self.client.is_fin_sent;
        let len = dice.between(1, 300);
        let has_room =
            self.client.snd_nxt + len + 1 - self.client.snd_una <= self.terms.server_window_bytes();
        let sends = is_first || dice.permille(self.uploads_permille);
        if !self.client.is_fin_sent && !is_closing && has_room && sends {
            up.len = len;
            up.flags |= PSH;
            self.client.snd_nxt += up.len;
        }
        if is_closing {
            self.client.is_fin_sent = true;
            up.flags |= FIN;
            self.client_fin_at = Some(self.client.snd_nxt);
            self.client.snd_nxt += 1;
        }
        if up.len > 0 || is_closing {
            self.client.resend_at_us = now_us + CLIENT_RTO_US;
        }
        // what completes the handshake comes through at once
        if !is_first && self.is_lost(now_us, dice) {
            return;
        }
        if dice.permille(self.path.reorder_permille) {
            up.due_us += dice.magnitude(50, 5000) as u64;
        }
        self.up.push(Reverse(up));
        if dice.permille(5) {
            self.number += 1;
            self.up.push(Reverse(Up { number: self.number, due_us: up.due_us + 300, ..up }));
        }
    }

    fn client_resends(&mut self, now_us: u64) {
        self.number += 1;
        let end = self.client.snd_nxt - i64::from(self.client.is_fin_sent);
        let len = (end - self.client.snd_una).clamp(0, 300);
        let has_fin = self.client.is_fin_sent && self.client.snd_una + len == end;
        self.client.resend_at_us = now_us + CLIENT_RTO_US;
        self.up.push(Reverse(Up {
            due_us: now_us + self.path.delay_us,
            number: self.number,
            seq: self.client.snd_una,
            len,
            flags: ACK | if has_fin { FIN } else { 0 },
            ack: self.client.rcv_nxt,
            window_field: self.client.window_again(),
            blocks: [(0, 0); 4],
            blocks_count: 0,
            tsval: ts(self.terms.client_ts, now_us, 0),
            tsecr: self.tsval_from_server,
        }));
    }

    fn is_lost(&mut self, now_us: u64, dice: &mut Dice) -> bool {
        if now_us < self.outage_until_us {
            return true;
        }
        if self.path.has_outages && dice.permille(1) {
            self.outage_until_us = now_us + dice.magnitude(1_000, 900_000) as u64;
        }
        dice.permille(self.path.loss_permille)
    }

    /// One turn: what is due, then what its server sends.
    pub fn step(
        &mut self,
        gate: &mut Gate,
        account: &mut Account,
        now_us: u64,
        dice: &mut Dice,
    ) -> Result<()> {
        while let Some(Reverse(down)) = self.down.peek().copied().filter(|d| d.0.due_us <= now_us) {
            self.down.pop();
            self.arrives(&down, account, now_us, dice);
        }
        if self.client.ack_at_us.is_some_and(|at| at <= now_us) || self.client.has_more_room(now_us, dice) {
            self.client_reports(now_us, dice, account, false);
        }
        let has_unacked = self.client.snd_una < self.client.snd_nxt;
        if has_unacked && now_us >= self.client.resend_at_us && self.client.kind != ClientKind::Silent {
            self.client_resends(now_us);
        }
        while let Some(Reverse(up)) = self.up.peek().copied().filter(|u| u.0.due_us <= now_us) {
            self.up.pop();
            self.reaches_box(&up, gate, account, now_us, dice)?;
            if self.is_over() {
                return Ok(());
            }
        }
        self.server_polls(gate, account, now_us, dice)
    }

    fn arrives(&mut self, down: &Down, account: &Account, now_us: u64, dice: &mut Dice) {
        self.tsval_from_server = down.tsval;
        if down.ack > self.client.snd_una && down.ack <= self.client.snd_nxt {
            self.client.snd_una = down.ack;
            self.client.resend_at_us = now_us + CLIENT_RTO_US;
        }
        if self.client.on_data(down.offset, down.len, down.has_fin, now_us) {
            self.client_reports(now_us, dice, account, false);
        }
    }

    fn reaches_box(
        &mut self,
        up: &Up,
        gate: &mut Gate,
        account: &mut Account,
        now_us: u64,
        dice: &mut Dice,
    ) -> Result<()> {
        let t = self.terms;
        let mut options = TcpOptions::default();
        if t.has_timestamps {
            options.timestamps(up.tsval, up.tsecr);
        }
        let blocks: Vec<(u32, u32)> =
            up.blocks[..up.blocks_count].iter().map(|b| (t.server_seq(b.0), t.server_seq(b.1))).collect();
        options.sack(&blocks);
        let mut segment = self.terms.segment(false, options);
        segment.seq = t.client_seq(up.seq);
        segment.ack = t.server_seq(up.ack);
        segment.flags = up.flags;
        segment.window = up.window_field;
        segment.offset = up.seq;
        segment.len = up.len as usize;
        let resets = self.ending == Ending::ClientResets && self.client.rcv_nxt >= self.reset_at;
        if resets && up.flags & FIN == 0 {
            segment.flags = RST | ACK;
            segment.len = 0;
            segment.seq = t.client_seq(self.server_rcv_nxt);
            gate.client_sends(account, &segment, up.tsval)?;
            self.phase = Phase::Over;
            return Ok(());
        }
        let una = account.ledger.shown_una;
        let verdict = gate.client_sends(account, &segment, up.tsval)?;
        if verdict == Verdict::Drop {
            return Ok(());
        }
        self.tsval_from_client = up.tsval;
        let end = up.seq + up.len + i64::from(up.flags & FIN != 0);
        if up.seq <= self.server_rcv_nxt && end > self.server_rcv_nxt {
            self.server_rcv_nxt = end;
        }
        let is_pure = up.len == 0 && up.flags & FIN == 0;
        self.server_receives(account, una, is_pure, now_us);
        // what carries data is acknowledged
        if !is_pure {
            self.server_sends(gate, account, &self.plain_ack(), now_us, dice)?;
        }
        let is_complete = self.server.is_done()
            && self.client_fin_at.is_some_and(|fin| self.server_rcv_nxt > fin)
            && self.client.has_all();
        if is_complete {
            self.phase = Phase::Over;
        }
        Ok(())
    }

    fn server_receives(&mut self, account: &Account, una_before: i64, is_pure: bool, now_us: u64) {
        let una = account.ledger.shown_una;
        if una > una_before {
            self.makes_progress(now_us);
            self.absorbed_since_us = None;
        }
        self.server.on_ack(una, is_pure, now_us);
    }

    fn makes_progress(&mut self, now_us: u64) {
        self.progress_at_us = now_us;
        self.steps_without_progress = 0;
    }

    fn plain_ack(&self) -> Spec {
        Spec {
            offset: self.server.nxt + i64::from(self.server.is_fin_sent),
            len: 0,
            has_fin: false,
            is_super: false,
            version: 0,
            is_urgent: false,
            is_timeout: false,
        }
    }

    fn server_polls(
        &mut self,
        gate: &mut Gate,
        account: &mut Account,
        now_us: u64,
        dice: &mut Dice,
    ) -> Result<()> {
        let mut specs = std::mem::take(&mut self.specs);
        specs.clear();
        self.server.poll(account.ledger.shown_edge, now_us, dice, &mut specs);
        for spec in &specs {
            self.server_sends(gate, account, spec, now_us, dice)?;
        }
        self.specs = specs;
        if self.ending == Ending::ServerResets && self.server.nxt >= self.reset_at {
            let mut segment = self.terms.segment(true, TcpOptions::default());
            segment.seq = self.terms.server_seq(self.server.nxt + i64::from(self.server.is_fin_sent));
            segment.ack = self.terms.client_seq(self.server_rcv_nxt);
            segment.flags = RST | ACK;
            gate.server_sends(account, &segment, ts(self.terms.server_ts, now_us, 0))?;
            self.phase = Phase::Over;
        }
        Ok(())
    }

    fn server_sends(
        &mut self,
        gate: &mut Gate,
        account: &mut Account,
        spec: &Spec,
        now_us: u64,
        dice: &mut Dice,
    ) -> Result<()> {
        let t = self.terms;
        let tsval = ts(t.server_ts, now_us, 0);
        let mut options = TcpOptions::default();
        if t.has_timestamps {
            options.timestamps(tsval, self.tsval_from_client);
        }
        let mut segment = self.terms.segment(true, options);
        segment.seq = t.server_seq(spec.offset);
        segment.ack = t.client_seq(self.server_rcv_nxt);
        segment.flags = ACK | if spec.has_fin { FIN } else { 0 };
        segment.key = if spec.version == 0 { t.key } else { t.key.variant(spec.version) };
        segment.offset = spec.offset;
        segment.len = spec.len as usize;
        if spec.len > 0 && dice.permille(200) {
            segment.flags |= PSH;
        }
        if spec.is_urgent {
            segment.flags |= URG;
            segment.urgent = 1;
        }
        if spec.is_super {
            segment.gso_bytes = (t.mss_bytes - if t.has_timestamps { 12 } else { 0 }).min(spec.len as u32);
        }
        if !t.has_sums {
            segment.checksum = Checksum::Partial;
        } else if !spec.is_super && dice.permille(self.path.damage_permille) {
            segment.checksum = Checksum::Damaged;
        }
        let is_damaged = segment.checksum == Checksum::Damaged;
        let verdict = gate.server_sends(account, &segment, tsval)?;
        let covers_una = spec.offset <= self.server.una && spec.offset + spec.len.max(1) > self.server.una;
        match verdict {
            Verdict::Drop => {
                if spec.is_timeout {
                    let since_us = *self.absorbed_since_us.get_or_insert(now_us);
                    self.absorbed_for_us = now_us - since_us;
                }
                return Ok(());
            }
            Verdict::Pass if covers_una => self.absorbed_since_us = None,
            Verdict::Pass => {}
        }
        if !is_damaged {
            self.goes_down(
                spec.offset,
                spec.len,
                spec.has_fin,
                tsval,
                i64::from(segment.gso_bytes),
                now_us,
                dice,
            );
        }
        Ok(())
    }

    /// To the client, segment by segment.
    #[expect(clippy::too_many_arguments, reason = "a packet's fields")]
    fn goes_down(
        &mut self,
        offset: i64,
        len: i64,
        has_fin: bool,
        tsval: u32,
        gso_bytes: i64,
        now_us: u64,
        dice: &mut Dice,
    ) {
        let piece = if gso_bytes > 0 { gso_bytes } else { len.max(1) };
        let mut at = 0;
        loop {
            let n = piece.min(len - at);
            let is_last = at + n >= len;
            if !self.is_lost(now_us, dice) {
                self.number += 1;
                let late_us = if dice.permille(self.path.reorder_permille) {
                    dice.magnitude(50, 5000) as u64
                } else {
                    0
                };
                self.down.push(Reverse(Down {
                    due_us: now_us + self.path.delay_us + late_us,
                    number: self.number,
                    offset: offset + at,
                    len: n,
                    has_fin: has_fin && is_last,
                    ack: self.server_rcv_nxt,
                    tsval,
                }));
            }
            at += n;
            if is_last {
                break;
            }
        }
    }

    /// The box has sent something in the name of one end to the other. `una`: what the server knew of before.
    pub fn on_sent(&mut self, sent: &Sent, account: &Account, una: i64, now_us: u64, dice: &mut Dice) {
        if sent.is_to_server {
            self.server_receives(account, una, false, now_us);
            return;
        }
        let offset = account.ledger.offset_of_server(sent.seq);
        let tsval = sent.tsval.unwrap_or(self.tsval_from_server);
        self.goes_down(offset, sent.len as i64, sent.flags & FIN != 0, tsval, 0, now_us, dice);
    }

    /// Has the box kept the server from what it would have done by itself?
    pub fn check_progress(&mut self, gate: &mut Gate, account: &mut Account, now_us: u64) {
        if !self.server.is_honest() || !self.client.kind.makes_progress() {
            return;
        }
        if self.absorbed_since_us.is_some() && self.absorbed_for_us > HAND_BACK_US {
            let detail = format!(
                "byte {} is acknowledged no further, and its retransmissions by timeout were absorbed for {} ms; the client has got {}",
                self.server.una,
                self.absorbed_for_us / 1000,
                self.client.rcv_nxt
            );
            gate.condemn(account, Fault { kind: NOT_HANDED_BACK, detail });
            self.absorbed_since_us = None;
        }
        // while a slow reader has something to read, its window may stay closed
        if self.client.read_bytes() > self.read_bytes {
            self.read_bytes = self.client.read_bytes();
            self.makes_progress(now_us);
        }
        self.steps_without_progress += 1;
        let is_supplied = self.server.waits() || self.server.nxt < self.server.total;
        // an insider can have the server believe what it likes
        let is_long = now_us - self.progress_at_us > STALL_US && self.steps_without_progress > STALL_STEPS;
        if is_supplied && !account.ledger.is_insiders && is_long {
            let detail = format!(
                "no progress for {} s, edge {}; {:?}; {:?}",
                (now_us - self.progress_at_us) / 1_000_000,
                account.ledger.shown_edge,
                self.server,
                self.client
            );
            gate.condemn(account, Fault { kind: "a connection stalled", detail });
            self.makes_progress(now_us);
        }
    }

    /// The server resets the connection, wherever it is.
    pub fn reset(&mut self, gate: &mut Gate, account: &mut Account, now_us: u64) -> Result<()> {
        for is_from_server in [true, false] {
            let mut segment = self.terms.segment(is_from_server, TcpOptions::default());
            let (server, client) =
                (self.server.nxt + i64::from(self.server.is_fin_sent), self.server_rcv_nxt);
            (segment.seq, segment.ack) = if is_from_server {
                (self.terms.server_seq(server), self.terms.client_seq(client))
            } else {
                (self.terms.client_seq(client), self.terms.server_seq(account.ledger.client_acked))
            };
            segment.flags = RST | ACK;
            if is_from_server {
                gate.server_sends(account, &segment, ts(self.terms.server_ts, now_us, 0))?;
            } else {
                gate.client_sends(account, &segment, ts(self.terms.client_ts, now_us, 0))?;
            }
        }
        self.phase = Phase::Over;
        Ok(())
    }
}

/// A new account for a connection of these terms.
pub fn account(terms: Terms) -> Account {
    Account::new(Ledger::new(terms))
}
