//! What an acknowledgement does (tcp_ack() and tcp_fastretrans_alert() in Linux): the scoreboard learns what arrived,
//! RACK what is lost, the state machine whether to reduce the window or to take a reduction back; then the algorithm
//! gets its sample and what may be sent is sent.

use super::{
    prr::Prr,
    rate::Delivery,
    receiver::Receiver,
    seg::Seg,
    sender::{CaState, Pending, Round, Sender, Wire},
    usage::current_ssthresh,
};
use crate::{
    packet::{Block, Packet, flag},
    time::{duration_us, echo_rtt_ns},
};
use windlass_core::abi::{
    WL_CONGESTION_ECN, WL_CONGESTION_LOSS, WL_EV_MARKED, WL_EV_MORE_WAITS, WL_EV_RECOVERY_ENTER,
    WL_EV_RECOVERY_EXIT, WL_EV_ROUND_START, WL_EV_UNDO, wl_decision, wl_sample,
};

/// An ACK while it is worked on.
#[derive(Debug)]
struct Ack {
    now_ns: u64,
    ack: u64,
    tsecr_us: u32,
    delivery: Delivery,
    sample: wl_sample,
    /// una has advanced.
    is_advance: bool,
    /// It neither moved una nor brought data, a SACK block or a window.
    is_pure_duplicate: bool,
    has_ece: bool,
    /// What arrived twice.
    duplicate: Option<Block>,
    lost_before: u64,
    /// The timer counts from now on.
    restarts_timer: bool,
    /// A later one has come before it.
    is_old: bool,
}

/// What to send after an ACK.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Send {
    LostThenNew,
    /// What counts as lost was only late, it seems.
    NewOnly,
    /// F-RTO wants to see what becomes of new data (RFC 5682, section 2.1, step 2b); what was lost if there is none.
    NewElseLost,
}

impl Sender {
    /// Takes the acknowledgement of a packet.
    pub fn on_ack(&mut self, packet: &Packet, wire: &mut Wire, receiver: &mut Receiver) {
        if packet.ack > self.nxt {
            return;
        }
        if packet.ack < self.una {
            return self.on_old_ack(packet, wire, receiver);
        }
        // with nothing in flight, too, a report of a duplicate is new, and so is what becomes of a probe
        if self.is_idle() && packet.sack_count == 0 && self.probe.is_none() {
            return self.on_window_only(packet, wire, receiver);
        }
        let mut ack = self.begin(packet, wire);
        self.take_delivery(packet, &mut ack, wire);
        self.take_rtt(&mut ack, wire);
        self.take_probe(&mut ack, wire);
        let send = self.judge(&mut ack, wire);
        if ack.restarts_timer {
            self.arm_after_ack(wire);
        }
        self.decide(ack, wire);
        self.send(send, wire, receiver);
        if self.is_done() {
            self.group = None;
        }
    }

    fn send(&mut self, send: Send, wire: &mut Wire, receiver: &mut Receiver) {
        match send {
            Send::LostThenNew => self.push(wire, receiver),
            Send::NewOnly => self.push_new(wire, receiver),
            Send::NewElseLost => {
                self.push_new(wire, receiver);
                if self.nxt == self.high_seq {
                    self.has_frto = false;
                    self.push_lost(wire, receiver);
                }
            }
        }
    }

    /// A stale ACK: only its SACK blocks can be new. Windows neither grow by it nor come down (tcp_ack(), old_ack).
    fn on_old_ack(&mut self, packet: &Packet, wire: &mut Wire, receiver: &mut Receiver) {
        if packet.sack_count == 0 {
            return;
        }
        let now_ns = wire.now_ns();
        let sample = self.sample(now_ns);
        let mut ack = Ack { tsecr_us: packet.tsecr_us, is_old: true, ..self.no_news(sample, now_ns) };
        self.take_delivery(packet, &mut ack, wire);
        let send = self.judge(&mut ack, wire);
        self.decide(ack, wire);
        self.send(send, wire, receiver);
    }

    /// Nothing is in flight, and only the window can be new.
    fn on_window_only(&mut self, packet: &Packet, wire: &mut Wire, receiver: &mut Receiver) {
        if !self.takes_window(packet) {
            return;
        }
        self.set_window(packet.window_bytes, packet.seq);
        if self.pending == Pending::Window {
            self.xmit.disarm();
            self.rtt.backoff = 0;
        }
        self.push(wire, receiver);
    }

    /// RFC 9293, section 3.10.7.4: not from a segment older than the one that updated it last.
    fn takes_window(&self, packet: &Packet) -> bool {
        packet.ack > self.una
            || packet.seq > self.wnd_seq
            || (packet.seq == self.wnd_seq && packet.window_bytes > self.wnd_bytes)
    }

    fn begin(&mut self, packet: &Packet, wire: &Wire) -> Ack {
        let now_ns = wire.now_ns();
        let takes_window = self.takes_window(packet);
        let is_advance = packet.ack > self.una;
        let mut sample = self.sample(now_ns);
        sample.acked_bytes = (packet.ack - self.una) as u32;
        let edge = packet.ack + u64::from(packet.window_bytes);
        let has_window = takes_window && edge != self.wnd_edge;
        let is_pure_duplicate = !is_advance && packet.len_bytes == 0 && !has_window && packet.sack_count == 0;
        if takes_window {
            self.wnd_edge = edge;
            self.wnd_bytes = packet.window_bytes;
            self.wnd_seq = packet.seq;
        }
        Ack {
            ack: packet.ack,
            tsecr_us: packet.tsecr_us,
            is_advance,
            is_pure_duplicate,
            has_ece: wire.has_ecn && packet.has(flag::ECE),
            restarts_timer: is_advance,
            ..self.no_news(sample, now_ns)
        }
    }

    /// An ACK of which nothing is known yet.
    fn no_news(&self, sample: wl_sample, now_ns: u64) -> Ack {
        Ack {
            now_ns,
            ack: self.una,
            tsecr_us: 0,
            delivery: Delivery::default(),
            sample,
            is_advance: false,
            is_pure_duplicate: false,
            has_ece: false,
            duplicate: None,
            lost_before: self.board.lost_total,
            restarts_timer: false,
            is_old: false,
        }
    }

    /// What arrived, selectively and cumulatively.
    fn take_delivery(&mut self, packet: &Packet, ack: &mut Ack, wire: &Wire) {
        let Sender { board, rack, rtt, .. } = self;
        let (now_ns, prior_fack) = (ack.now_ns, board.fack);
        if let [first, rest @ ..] = packet.sacks()
            && (first.end <= packet.ack
                || rest.first().is_some_and(|b| b.start <= first.start && first.end <= b.end))
        {
            ack.duplicate = Some(*first);
        }
        let mut copy = packet.sack;
        let blocks = &mut copy[usize::from(ack.duplicate.is_some())..packet.sack_count.into()];
        // they come newest first, but what one ACK reports was not reordered (tcp_sacktag_write_queue())
        blocks.sort_unstable_by_key(|b| b.start);
        for block in blocks.iter().filter(|b| b.start > packet.ack) {
            board.sack(*block, self.high_seq, &mut ack.delivery, |seg| rack.on_arrival(seg, now_ns, rtt));
        }
        board.remember(blocks);
        if ack.is_advance {
            // RACK needs SACK: without it a timeout spares nothing (tcp_clean_rtx_queue(), tcp_timeout_mark_lost())
            board.acknowledge(packet.ack, prior_fack, self.high_seq, &mut ack.delivery, |seg| {
                if wire.config.has_sack {
                    rack.on_arrival(seg, now_ns, rtt);
                }
            });
            self.una = packet.ack;
            self.timeouts_in_row = 0;
        }
        if !wire.config.has_sack {
            self.count_duplicates(ack.is_advance, ack.is_pure_duplicate, &mut ack.delivery);
        }
        if let Some(block) = ack.duplicate {
            let segs = ((block.end - block.start) as u32).div_ceil(self.mss_bytes).max(1);
            self.undo.on_dsack(segs, block.end);
            // a probe's copy left by the clock, not because of reordering
            if self.probe.is_none_or(|p| !p.is_retrans || block.end != p.end_seq) {
                let delivered = self.rate.delivered_bytes;
                self.rack.on_dsack(&self.board, delivered.wrapping_sub(self.pipe_bytes()), delivered);
            }
        }
    }

    /// Round-trip times: the oldest segment's for the timeout, the newest one's for the algorithm; of segments sent
    /// once, else by timestamp (RFC 7323, section 4).
    fn take_rtt(&mut self, ack: &mut Ack, wire: &Wire) {
        let Ack { now_ns, delivery, .. } = *ack;
        let acked = delivery.acked_sent_at_ns.filter(|_| !delivery.has_acked_retrans);
        let times = match (acked, delivery.sacked_sent_at_ns) {
            (Some((first, last)), None) => Some((first, last)),
            (Some((first, _)), Some((_, last))) => Some((first, last)),
            (None, Some((first, last))) => Some((first, last)),
            (None, None) => None,
        };
        let by_timestamp = || {
            let rtt_ns = echo_rtt_ns(ack.tsecr_us, now_ns);
            (ack.is_advance && ack.tsecr_us != 0).then_some((rtt_ns, rtt_ns))
        };
        let rtts = times.map(|(first, last)| (now_ns - first, now_ns - last)).or_else(by_timestamp);
        let Some((oldest_ns, newest_ns)) = rtts else { return };
        // a SACK of something sent after the oldest segment in flight: the timeout counts from now
        let head_age_ns = self.board.first().map_or(0, |s| now_ns - s.sent_at_ns);
        ack.restarts_timer |= !ack.is_advance && oldest_ns > head_age_ns;
        self.rtt.sample_min(newest_ns);
        self.rtt.sample(oldest_ns, self.una, self.nxt, wire.config);
        ack.sample.rtt_us = duration_us(newest_ns);
    }

    /// A tail loss probe comes back (RFC 8985, section 7.4): did it repair a loss?
    fn take_probe(&mut self, ack: &mut Ack, wire: &Wire) {
        let Some(probe) = self.probe.filter(|p| ack.ack >= p.end_seq) else { return };
        let is_reported = ack.duplicate.is_some_and(|d| d.end == probe.end_seq);
        if !probe.is_retrans || is_reported {
            self.probe = None;
        } else if ack.ack > probe.end_seq {
            // the original was lost: once, as for any loss
            self.reduce(WL_CONGESTION_LOSS, ack, wire);
            self.undo.forget();
            self.leave(ack);
        } else if ack.is_pure_duplicate {
            self.probe = None;
        }
    }

    /// The state machine.
    fn judge(&mut self, ack: &mut Ack, wire: &mut Wire) -> Send {
        let mut send = Send::LostThenNew;
        if ack.has_ece {
            self.undo.forbid();
        }
        if self.una >= self.high_seq && !self.holds_state(wire) {
            match self.state {
                // the echo of CWR must be seen: something beyond the window must be acknowledged
                CaState::Cwr if self.una > self.high_seq => self.leave(ack),
                CaState::Recovery => {
                    self.take_back_if_spurious(false, ack);
                    self.leave(ack);
                }
                _ => {}
            }
        }
        let was_in_recovery = self.state == CaState::Recovery;
        match self.state {
            CaState::Recovery => {
                if ack.is_advance && self.undo.is_original(ack.tsecr_us) {
                    // what filled the hole had been reordered, and so may what seems lost besides: with copies out
                    // that is not known yet, and nothing more is judged or retransmitted (tcp_try_undo_partial())
                    self.board.has_seen_reordering = true;
                    if self.board.resent_segs() > 0 && !self.is_given_up(ack.is_advance, wire) {
                        return Send::NewOnly;
                    }
                    self.take_back(true, ack);
                    self.leave(ack);
                } else if self.undo.is_all_duplicate() {
                    self.take_back(false, ack);
                    self.leave(ack);
                }
            }
            CaState::Loss => send = self.judge_timeout(ack, wire),
            CaState::Open | CaState::Cwr => {
                if self.undo.is_all_duplicate() {
                    self.take_back(false, ack);
                }
            }
        }
        let resent_before = self.board.resent_segs();
        let rest_ns = self.detect_losses(ack, wire);
        let has_lost_again = self.board.resent_segs() < resent_before;
        let is_settled = self.state == CaState::Recovery || (self.state == CaState::Loss && !has_lost_again);
        if rest_ns > 0 {
            self.arm_reorder(rest_ns, wire);
            ack.restarts_timer = false;
        }
        if !is_settled && self.board.lost_segs() > 0 {
            self.enter_recovery(ack, wire);
        } else if !is_settled && !was_in_recovery && ack.has_ece && self.state == CaState::Open {
            self.reduce(WL_CONGESTION_ECN, ack, wire);
            self.undo.forget();
            self.state = CaState::Cwr;
        }
        send
    }

    /// RACK or duplicates, after an ACK. Returns after how long the rest can be judged; 0: there is no rest.
    fn detect_losses(&mut self, ack: &mut Ack, wire: &Wire) -> u64 {
        if !wire.config.has_sack {
            if self.is_given_up(ack.is_advance, wire) {
                self.board.set_dup_segs(0);
                self.leave(ack);
            }
            self.detect_by_duplicates(ack.is_advance, wire);
            return 0;
        }
        let is_recovering = self.is_repairing();
        self.rack.detect_after_ack(&mut self.board, &self.rtt, ack.now_ns, is_recovering)
    }

    /// Without SACK, duplicates of spurious retransmissions must not begin another recovery: this one lasts until
    /// something beyond it is acknowledged (RFC 6582, section 4).
    fn holds_state(&self, wire: &Wire) -> bool {
        !wire.config.has_sack && self.una == self.high_seq
    }

    /// After a timeout: was it needed (RFC 5682)? If not all is well again, though there may be no reduction to be taken back
    /// (tcp_try_undo_loss()). Is everything of before repaired?
    fn judge_timeout(&mut self, ack: &mut Ack, wire: &Wire) -> Send {
        let is_repaired = self.una >= self.high_seq && !self.holds_state(wire);
        let is_spurious = (ack.is_advance && self.undo.is_original(ack.tsecr_us))
            || self.undo.is_all_duplicate()
            || (self.has_frto && ack.delivery.has_original);
        if is_spurious {
            self.take_back(true, ack);
            self.leave(ack);
            return Send::LostThenNew;
        }
        if self.has_frto {
            if self.nxt > self.high_seq {
                // new data was sent to see: duplicates show that the loss was real
                self.has_frto &= ack.delivery.sacked_sent_at_ns.is_none() && !ack.is_pure_duplicate;
            } else if ack.is_advance && !is_repaired {
                self.high_seq = self.nxt;
                return Send::NewElseLost;
            }
        }
        if is_repaired {
            self.take_back_if_spurious(false, ack);
            self.leave(ack);
        }
        Send::LostThenNew
    }

    fn enter_recovery(&mut self, ack: &mut Ack, wire: &Wire) {
        // a reduction in hand, for a mark, is enough, and stands: one for one window of data (RFC 3168, section 6.1.2). DCTCP's may be
        // a small one, for which Linux reduces its window to half after all (dctcp_react_to_loss()); RFC 8257,
        // section 3.5, does not require that
        if self.state == CaState::Cwr {
            self.begin_undo(None);
        } else {
            self.reduce(WL_CONGESTION_LOSS, ack, wire);
        }
        self.state = CaState::Recovery;
    }

    /// The algorithm reduces its window; PRR brings the pipe down to it.
    fn reduce(&mut self, why: u32, ack: &mut Ack, wire: &Wire) {
        let prior_cwnd = self.cwnd_segs();
        let before = Some(self.algorithm.decision).filter(|_| !ack.has_ece);
        self.begin_undo(before);
        ack.sample.lost_bytes = self.lost_since_segs(ack) * self.mss_bytes;
        self.algorithm.on_congestion(&ack.sample, why);
        self.prr = Prr::begin(prior_cwnd, (self.algorithm.decision.cwnd_bytes / self.mss_bytes).max(1));
        self.high_seq = self.nxt;
        self.probe = None;
        self.owes_cwr = wire.has_ecn;
        self.stats.reductions += 1;
        ack.sample.events |= WL_EV_RECOVERY_ENTER;
    }

    /// What was found lost with this ACK, so far.
    fn lost_since_segs(&self, ack: &Ack) -> u32 {
        (self.board.lost_total - ack.lost_before) as u32
    }

    /// A reduction begins that may turn out not to have been needed: then what was in force `before` is so again.
    pub(super) fn begin_undo(&mut self, before: Option<wl_decision>) {
        // of retransmitted segments that are still out, a tail loss probe among them, there may be reports (tcp_init_undo())
        let resent_segs = self.board.resent_segs();
        let copies_out = resent_segs + u32::from(self.probe.is_some_and(|p| p.is_retrans));
        let has_copies = resent_segs > 0 || self.board.first().is_some_and(Seg::was_retransmitted);
        let before = before.map(|d| wl_decision { ssthresh_bytes: current_ssthresh(&d), ..d });
        self.undo.begin(before, self.una, copies_out, has_copies);
    }

    /// All is well again.
    fn leave(&mut self, ack: &mut Ack) {
        if self.state == CaState::Recovery {
            self.rack.on_recovery_exit();
        }
        self.state = CaState::Open;
        self.has_frto = false;
        ack.sample.events |= WL_EV_RECOVERY_EXIT;
    }

    fn take_back_if_spurious(&mut self, unmarks: bool, ack: &mut Ack) {
        if self.undo.is_original(ack.tsecr_us) || self.undo.is_all_duplicate() {
            self.take_back(unmarks, ack);
        }
    }

    /// The reduction was spurious: what was in force before is so again, unless the algorithm models the path by
    /// itself or a mark shows that it was needed all the same (tcp_undo_cwnd_reduction()).
    fn take_back(&mut self, unmarks: bool, ack: &mut Ack) {
        if unmarks {
            self.board.clear_losses();
        }
        self.rack.judge_again(&self.board);
        if !self.is_pacing() && self.state != CaState::Loss {
            self.state = CaState::Open;
        }
        let Some(saved) = self.undo.take() else { return };
        self.stats.undos += 1;
        ack.sample.events |= WL_EV_UNDO;
        if !self.is_pacing() {
            let decision = &mut self.algorithm.decision;
            decision.cwnd_bytes = decision.cwnd_bytes.max(saved.cwnd_bytes);
            if saved.ssthresh_bytes > decision.ssthresh_bytes {
                decision.ssthresh_bytes = saved.ssthresh_bytes;
                // nor need the receiver learn of it any more (tcp_ecn_withdraw_cwr())
                self.owes_cwr = false;
            }
        }
    }

    /// Completes the sample and runs the algorithm.
    fn decide(&mut self, ack: Ack, wire: &mut Wire) {
        let lost_segs = self.lost_since_segs(&ack);
        let Ack { now_ns, delivery, mut sample, .. } = ack;
        let min_rtt_us = duration_us(self.rtt.min_ns());
        self.tell_path(wire);
        self.rate.finish(&delivery, now_ns, min_rtt_us, &mut sample);
        // of a stale ACK algorithms receive only what was lost (tcp_ack(), old_ack)
        let delivered_segs = if ack.is_old { 0 } else { delivery.segs };
        if ack.is_old {
            (sample.rate_interval_us, sample.rate_delivered_bytes) = (0, 0);
        }
        let is_round = (sample.prior_delivered_bytes.wrapping_sub(self.round_delivered) as i32) >= 0;
        if sample.rate_interval_us > 0 && is_round {
            self.round_delivered = self.rate.delivered_bytes;
            self.round_count += 1;
            sample.events |= WL_EV_ROUND_START;
        }
        if delivered_segs > 0 && self.has_unsent() {
            sample.events |= WL_EV_MORE_WAITS;
        }
        sample.newly_delivered_bytes = delivered_segs * self.mss_bytes;
        sample.lost_bytes = lost_segs * self.mss_bytes;
        sample.ce_bytes = if ack.has_ece { delivery.bytes(self.mss_bytes) } else { 0 };
        sample.srtt_us = duration_us(self.rtt.srtt_ns());
        sample.min_rtt_us = min_rtt_us;
        sample.delivered_bytes = self.rate.delivered_bytes;
        sample.inflight_bytes = self.pipe_bytes();
        sample.round_count = self.round_count;
        sample.is_in_recovery = self.is_in_recovery().into();
        // out of order, the window waits; unless reordering is nothing unusual here (tcp_may_raise_cwnd())
        let may_grow = (ack.is_advance || self.board.has_seen_reordering) && !ack.is_old;
        sample.is_cwnd_limited &= u8::from(may_grow);
        if self.is_reducing() && !ack.is_old {
            self.prr.on_delivered(delivery.segs, self.board.pipe_segs(), ack.is_advance, lost_segs > 0);
        }
        // tcp_cong_avoid(), tcp_end_cwnd_reduction(), tcp_undo_cwnd_reduction()
        let is_asked = may_grow && delivery.segs > 0 && !self.is_reducing();
        if is_asked || sample.events & (WL_EV_RECOVERY_EXIT | WL_EV_UNDO) != 0 {
            self.usage.on_change(now_ns);
        }
        if delivered_segs > 0 || lost_segs > 0 || sample.events != 0 {
            if self.state == CaState::Cwr {
                sample.events |= WL_EV_MARKED;
            }
            self.algorithm.on_ack(&sample);
            self.tell_group(&sample, wire);
        }
        if sample.events & WL_EV_ROUND_START != 0 {
            self.note_round(now_ns);
        }
    }

    fn note_round(&mut self, now_ns: u64) {
        let round = Round {
            at_ns: now_ns,
            round: self.round_count,
            cwnd_segs: self.cwnd_segs(),
            pipe_segs: self.board.pipe_segs(),
            srtt_us: duration_us(self.rtt.srtt_ns()),
        };
        if let Some(rounds) = &mut self.rounds {
            rounds.push(round);
        }
    }

    /// RACK's timer: losses that time alone shows. Returns whether there are any.
    pub(super) fn judge_by_time(&mut self, wire: &mut Wire) -> bool {
        let now_ns = wire.now_ns();
        let sample = self.sample(now_ns);
        let mut ack = self.no_news(sample, now_ns);
        let is_recovering = self.is_repairing();
        // it has waited for the last one: no rest is left
        self.rack.detect(&mut self.board, &self.rtt, now_ns, is_recovering);
        if self.board.lost_total == ack.lost_before {
            return false;
        }
        if self.state != CaState::Recovery {
            self.enter_recovery(&mut ack, wire);
            // as if a segment had been delivered, so that the first copy leaves; later ones wait for what is
            if self.is_reducing() {
                self.prr.on_delivered(1, self.board.pipe_segs(), false, true);
            }
        }
        self.decide(ack, wire);
        true
    }
}

#[cfg(test)]
mod tests;
