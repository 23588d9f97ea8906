//! What a sender does when nothing comes back: retransmission timeouts (RFC 6298), tail loss probes (RFC 8985,
//! section 7), probes of a closed window (RFC 9293, section 3.8.6.1). One timer serves all, and RACK's reordering.

use super::{
    receiver::Receiver,
    sender::{CaState, Pending, Sender, TailProbe, Wire},
    tso::Place,
};
use crate::{engine::Kind, packet::flag, time::MS};
use windlass_core::abi::{WL_EV_TIMEOUT, WL_EV_TIMEOUT_AGAIN};

/// Added to timers that must not fire early (TCP_TIMEOUT_MIN).
const SLACK_NS: u64 = 2 * MS;

impl Sender {
    fn arm(&mut self, pending: Pending, delay_ns: u64, wire: &mut Wire) {
        self.pending = pending;
        let deadline_ns = wire.now_ns() + delay_ns;
        self.xmit.arm(&mut wire.net.events, deadline_ns, Kind::Xmit, wire.id);
    }

    /// A full timeout from now on.
    pub(super) fn arm_timeout(&mut self, wire: &mut Wire) {
        self.arm(Pending::Timeout, self.rtt.rto_ns(wire.config), wire);
    }

    /// Time until the oldest segment's timeout; none: it is past.
    fn timeout_left_ns(&self, wire: &Wire) -> Option<u64> {
        let sent_at_ns = self.board.first().map_or(wire.now_ns(), |s| s.sent_at_ns);
        (sent_at_ns + self.rtt.rto_ns(wire.config)).checked_sub(wire.now_ns()).filter(|left_ns| *left_ns > 0)
    }

    /// The oldest segment's timeout, at once if it is past.
    fn arm_timeout_left(&mut self, wire: &mut Wire) {
        self.arm(Pending::Timeout, self.timeout_left_ns(wire).unwrap_or(1), wire);
    }

    /// A timeout for what is in flight; where a shorter timer was armed, counted from the oldest segment
    /// (tcp_rearm_rto()).
    pub(super) fn arm_timeout_of_head(&mut self, wire: &mut Wire) {
        if self.is_idle() {
            return self.xmit.disarm();
        }
        match self.pending {
            Pending::Probe | Pending::Reorder => self.arm_timeout_left(wire),
            Pending::Timeout | Pending::Window => self.arm_timeout(wire),
        }
    }

    /// After new data: a probe, no later than the timeout; if that is past, new data puts both off.
    pub(super) fn schedule_probe(&mut self, wire: &mut Wire) {
        self.try_schedule_probe(self.timeout_left_ns(wire).unwrap_or(u64::MAX), wire);
    }

    /// After an ACK: a probe, or a timeout.
    pub(super) fn arm_after_ack(&mut self, wire: &mut Wire) {
        let rto_ns = self.rtt.rto_ns(wire.config);
        if !self.try_schedule_probe(rto_ns, wire) {
            self.arm_timeout_of_head(wire);
        }
    }

    /// RFC 8985, section 7.2: not while losses are repaired, nor with anything SACKed. The ACK of a lone segment may be delayed,
    /// for which the smallest timeout is added (tcp_schedule_loss_probe()).
    fn try_schedule_probe(&mut self, at_most_ns: u64, wire: &mut Wire) -> bool {
        let is_calm = matches!(self.state, CaState::Open | CaState::Cwr) && self.board.sacked_segs() == 0;
        let is_probing = wire.config.is_probing_tails && wire.config.has_sack;
        if !is_probing || !is_calm || self.board.out_segs() == 0 || self.rtt.srtt_ns() == 0 {
            return false;
        }
        let is_alone = self.board.out_segs() == 1;
        let slack_ns = if is_alone { wire.config.rto_min_ns } else { SLACK_NS };
        let probe_ns = 2 * self.rtt.srtt_ns() + slack_ns;
        self.arm(Pending::Probe, probe_ns.min(at_most_ns), wire);
        true
    }

    /// Losses can be judged further after `rest_ns`.
    pub(super) fn arm_reorder(&mut self, rest_ns: u64, wire: &mut Wire) {
        self.arm(Pending::Reorder, rest_ns + SLACK_NS, wire);
    }

    /// The peer's window is too small for the next segment and nothing is in flight.
    pub(super) fn arm_window_probe(&mut self, wire: &mut Wire) {
        self.arm(Pending::Window, self.rtt.window_probe_ns(wire.config), wire);
    }

    /// The timer has fired.
    pub fn on_timer(&mut self, wire: &mut Wire, receiver: &mut Receiver) {
        match std::mem::take(&mut self.pending) {
            Pending::Timeout => self.on_timeout(wire, receiver),
            Pending::Probe => self.send_probe(wire, receiver),
            Pending::Reorder => self.on_reorder_timer(wire, receiver),
            Pending::Window => self.probe_window(wire, receiver),
        }
    }

    /// RFC 6298, section 5: the oldest segment once more, with a window of one, and twice the patience.
    fn on_timeout(&mut self, wire: &mut Wire, receiver: &mut Receiver) {
        if self.board.out_segs() == 0 {
            return;
        }
        self.stats.timeouts += 1;
        self.enter_loss(wire);
        self.resend(self.board.first_id(), true, wire, receiver);
        self.timeouts_in_row += 1;
        self.rtt.backoff += 1;
        self.arm_timeout(wire);
    }

    fn enter_loss(&mut self, wire: &mut Wire) {
        let now_ns = wire.now_ns();
        let is_new = !self.is_repairing();
        // one reduction for one window of data, however many timeouts it takes
        let reduces = match self.state {
            CaState::Open => true,
            CaState::Loss => self.una >= self.high_seq || self.timeouts_in_row == 0,
            CaState::Cwr | CaState::Recovery => self.una >= self.high_seq,
        };
        let mut sample = self.sample(now_ns);
        if reduces {
            self.begin_undo(Some(self.algorithm.decision));
            self.stats.reductions += 1;
        }
        self.board.set_dup_segs(0);
        let lost_before = self.board.lost_total;
        self.rack.lose_on_timeout(&mut self.board, now_ns);
        sample.lost_bytes = (self.board.lost_total - lost_before) as u32 * self.mss_bytes;
        self.state = CaState::Loss;
        sample.events |= WL_EV_TIMEOUT;
        sample.inflight_bytes = self.pipe_bytes();
        sample.is_in_recovery = 1;
        if !reduces {
            sample.events |= WL_EV_TIMEOUT_AGAIN;
        }
        self.algorithm.on_timeout(&sample);
        // on_timeout() looks ahead to what was lost, and here it counts
        self.algorithm.on_ack(&sample);
        self.algorithm.decision.cwnd_bytes = self.pipe_bytes() + self.mss_bytes;
        self.usage.on_change(now_ns);
        self.high_seq = self.nxt;
        self.probe = None;
        self.owes_cwr = wire.has_ecn;
        self.has_frto = is_new || self.timeouts_in_row > 0;
        self.tell_group(&sample, wire);
    }

    /// RFC 8985, section 7.3: a new segment if there is one, else the newest once more; one probe at a time.
    fn send_probe(&mut self, wire: &mut Wire, receiver: &mut Receiver) {
        if self.board.out_segs() == 0 {
            return;
        }
        if self.probe.is_some() {
            return self.arm_timeout_left(wire);
        }
        let is_retrans = !self.send_one_new(wire, receiver);
        if is_retrans && let Some((id, _)) = self.board.last() {
            self.resend_as_probe(id, wire, receiver);
        }
        self.stats.probes += 1;
        self.probe = Some(TailProbe { end_seq: self.nxt, is_retrans });
        self.arm_timeout(wire);
    }

    /// RACK's timer: more may be lost by now, and only that leaves; the timeout counts from the oldest segment
    /// (tcp_rack_reo_timeout()).
    fn on_reorder_timer(&mut self, wire: &mut Wire, receiver: &mut Receiver) {
        self.pending = Pending::Reorder;
        if self.judge_by_time(wire) {
            self.push_lost(wire, receiver);
            self.arm_wake(wire);
        }
        self.arm_timeout_of_head(wire);
    }

    /// What fits into the peer's window, or an old byte, so that the peer reports how large its window is.
    fn probe_window(&mut self, wire: &mut Wire, receiver: &mut Receiver) {
        if self.board.out_segs() > 0 {
            return self.arm_timeout_of_head(wire);
        }
        let room = self.wnd_edge.saturating_sub(self.nxt).min(self.mss_bytes.into());
        let len_bytes = room.min(self.written.saturating_sub(self.nxt)) as u16;
        if len_bytes > 0 {
            return self.send_new(len_bytes, false, Place::ALONE, wire, receiver);
        }
        self.rtt.backoff += 1;
        wire.send(receiver, self.una - 1, 0, flag::ACK);
        self.arm_window_probe(wire);
    }
}
