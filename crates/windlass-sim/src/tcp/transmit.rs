//! What leaves when: what was lost first, then what is new, as far as window, peer and pacing allow.

use super::{
    receiver::Receiver,
    seg::Seg,
    sender::{CaState, Pending, Sender, Wire},
    small_queue::OF_RETRANSMISSIONS,
    tso::{Place, WaitsFor},
};
use crate::{
    engine::Kind,
    packet::flag,
    time::{US, core_us, duration_us},
};

impl Sender {
    /// The next new segment: payload and whether it is the FIN; none if there is nothing to send.
    fn next_new(&self) -> Option<(u16, bool)> {
        if self.nxt < self.buffered {
            let len_bytes = (self.buffered - self.nxt).min(self.mss_bytes.into());
            return Some((len_bytes as u16, false));
        }
        (self.is_closing && self.nxt == self.written).then_some((0, true))
    }

    /// Sends what may be sent: first what was lost, then what is new.
    pub(super) fn push(&mut self, wire: &mut Wire, receiver: &mut Receiver) {
        if self.una == 0 {
            return; // not established yet
        }
        self.push_lost(wire, receiver);
        self.push_new(wire, receiver);
    }

    /// Retransmits lost segments, in order, as far as window, pacing and the host's queue allow: those that follow each other in one
    /// super-packet (tcp_xmit_retransmit_queue()).
    pub(super) fn push_lost(&mut self, wire: &mut Wire, receiver: &mut Receiver) {
        while let Some(first) = self.board.next_waiting() {
            if self.room_segs() == 0 || !self.may_pace(wire) {
                return;
            }
            let longest_segs = if wire.config.has_offload { self.longest_super_packet_segs() } else { 1 };
            let segs = self.board.waiting_run(first, longest_segs.min(self.room_segs()));
            if !self.may_queue(segs, OF_RETRANSMISSIONS, wire) {
                return;
            }
            for id in first..first + u64::from(segs) {
                self.resend(id, id == first, wire, receiver);
                if self.is_reducing() {
                    self.prr.on_sent(1);
                }
                if id == self.board.first_id() && self.pending != Pending::Reorder {
                    self.arm_timeout(wire);
                }
            }
        }
    }

    /// Sends new segments as far as window, peer and pacing allow.
    pub(super) fn push_new(&mut self, wire: &mut Wire, receiver: &mut Receiver) {
        let mut sent = 0;
        let mut is_full = self.push_buffered(&mut sent, wire, receiver);
        let mut is_writing = false;
        while self.fill_buffer(is_writing, wire.config) {
            is_full |= self.push_buffered(&mut sent, wire, receiver);
            is_writing = true;
        }
        is_full |= self.room_segs() == 0;
        if sent > 0 || is_full {
            self.validate(is_full, wire);
        }
        if sent > 0 {
            if self.is_reducing() {
                self.prr.on_sent(sent);
            }
            self.schedule_probe(wire);
        }
        let waits_for_window = self.board.out_segs() == 0 && !self.algorithm.is_held();
        if waits_for_window && !self.xmit.is_armed() && self.next_new().is_some() {
            self.arm_window_probe(wire);
        }
        self.arm_wake(wire);
    }

    /// Sends what the send buffer holds as far as it may leave, counting it. Returns whether the window is in use.
    fn push_buffered(&mut self, sent: &mut u32, wire: &mut Wire, receiver: &mut Receiver) -> bool {
        let (mut segs, mut left_segs) = (0, 0); // of the super-packet that has begun
        while let Some((len_bytes, is_fin)) = self.next_new() {
            if self.algorithm.is_held() {
                break;
            }
            if self.room_segs() == 0 {
                return true;
            }
            let is_head = left_segs == 0;
            if is_head && *sent > 0 && self.buffered < self.written {
                self.grow_buffer(wire.config);
            }
            if is_head {
                match self.super_packet_segs(wire) {
                    Ok(all) => (segs, left_segs) = (all, all),
                    Err(why) => return why == WaitsFor::Cwnd,
                }
            }
            let may_leave = !is_head || (self.may_pace(wire) && self.may_queue(segs, 0, wire));
            if !self.fits_window(len_bytes, is_fin) || !may_leave {
                break;
            }
            if self.is_after_pause(wire.now_ns()) {
                self.on_send_after_idle(wire.now_ns());
                if self.algorithm.is_held() || self.room_segs() == 0 {
                    break;
                }
            }
            left_segs -= 1;
            let place = Place { is_head, ends_several: segs > 1 && left_segs == 0 };
            self.send_new(len_bytes, is_fin, place, wire, receiver);
            *sent += 1;
        }
        false
    }

    /// Sends one new segment whatever the congestion window is. Returns whether there was one.
    pub(super) fn send_one_new(&mut self, wire: &mut Wire, receiver: &mut Receiver) -> bool {
        match self.next_new() {
            Some((len_bytes, is_fin)) if self.fits_window(len_bytes, is_fin) => {
                self.send_new(len_bytes, is_fin, Place::ALONE, wire, receiver);
                true
            }
            _ => false,
        }
    }

    fn fits_window(&self, len_bytes: u16, is_fin: bool) -> bool {
        self.nxt + u64::from(len_bytes) + u64::from(is_fin) <= self.wnd_edge
    }

    fn validate(&mut self, is_full: bool, wire: &Wire) {
        self.usage.validate(is_full, self.board.out_segs(), self.una, self.nxt);
        if !self.is_validating {
            return;
        }
        // not while it is the send buffer that holds the application back (tcp_cwnd_application_limited())
        let is_blocked = self.buffered < self.written;
        let may_shrink = self.state == CaState::Open && !is_blocked;
        let after_ns = self.restarts(wire.config).then(|| self.rtt.rto_ns(wire.config));
        let (out_segs, initial_segs) = (self.board.out_segs(), wire.config.initial_segs());
        let decision = &mut self.algorithm.decision;
        let now_ns = wire.now_ns();
        self.usage.decay(decision, out_segs, initial_segs, now_ns, after_ns, may_shrink);
    }

    /// Sends one new segment.
    pub(super) fn send_new(
        &mut self,
        len_bytes: u16,
        is_fin: bool,
        place: Place,
        wire: &mut Wire,
        receiver: &mut Receiver,
    ) {
        let now_ns = wire.now_ns();
        if self.board.out_segs() == 0 {
            self.rate.on_first_send(now_ns);
        }
        let mut seg = Seg::new(self.nxt, len_bytes, is_fin, now_ns);
        seg.set_head(place.is_head);
        self.rate.stamp(&mut seg);
        let mut flags = flag::ACK | if is_fin { flag::FIN } else { 0 };
        flags |= if place.ends_several || seg.end() == self.written { flag::PSH } else { 0 };
        if wire.has_ecn && len_bytes > 0 {
            flags |= flag::ECT;
            flags |= if std::mem::take(&mut self.owes_cwr) { flag::CWR } else { 0 };
        }
        self.pacing.charge(self.algorithm.decision.rate_bytes_ps(), len_bytes, now_ns);
        self.nxt = seg.end();
        self.burst_segs = if self.burst_at_ns == now_ns { self.burst_segs + 1 } else { 1 };
        self.burst_at_ns = now_ns;
        self.stats.longest_burst_segs = self.stats.longest_burst_segs.max(self.burst_segs);
        self.sent_at_ns = now_ns;
        let is_first = self.board.out_segs() == 0;
        self.board.push(seg);
        if is_first || self.pending == Pending::Probe {
            self.arm_timeout_of_head(wire);
        }
        self.send_segment(&seg, flags, place.is_head, wire, receiver);
    }

    /// Puts a segment on the network, and notes it as long as it is in the host's queue.
    fn send_segment(
        &mut self,
        seg: &Seg,
        flags: u8,
        is_head: bool,
        wire: &mut Wire,
        receiver: &mut Receiver,
    ) {
        if let Some(departs_ns) = wire.send(receiver, seg.seq, seg.len_bytes, flags) {
            self.host_queue.get_or_insert_default().add(is_head, seg.len_bytes, departs_ns);
        }
    }

    /// Is what is about to be sent the first after a pause, as algorithms understand it (core/alg/alg.h)?
    fn is_after_pause(&self, now_ns: u64) -> bool {
        let idle_ns = now_ns - self.sent_at_ns;
        let is_pause = self.board.out_segs() == 0 || (self.needs_pauses && idle_ns > self.rtt.srtt_ns());
        is_pause && (self.nxt > 1 || self.wants_first) && idle_ns > 0
    }

    fn on_send_after_idle(&mut self, now_ns: u64) {
        let mut sample = self.sample(now_ns);
        sample.is_app_limited = self.rate.is_app_limited().into();
        self.algorithm.on_send_after_idle(&sample, duration_us(now_ns - self.sent_at_ns));
        if let Some(group) = &self.group {
            group.resume(sample.now_us, &mut self.algorithm.decision);
        }
    }

    /// The algorithm wants to be woken: the pacing timer serves for that as well.
    pub(super) fn arm_wake(&mut self, wire: &mut Wire) {
        let Some(at_us) = self.algorithm.wake_at_us() else { return };
        let now_ns = wire.now_ns();
        let left_us = (at_us.wrapping_sub(core_us(now_ns)) as i32).max(0) as u64;
        let due_ns = (now_ns / US * US + left_us * US).max(now_ns);
        self.pace.arm_by(&mut wire.net.events, due_ns, Kind::Pace, wire.id);
    }

    /// The pacing timer has fired.
    pub(super) fn on_pace(&mut self, wire: &mut Wire, receiver: &mut Receiver) {
        if self.algorithm.is_due(core_us(wire.now_ns())) {
            let sample = self.sample(wire.now_ns());
            self.algorithm.on_timer(&sample);
        }
        self.push(wire, receiver);
    }

    /// Sends a segment once more; `is_head`: it begins a super-packet.
    pub(super) fn resend(&mut self, id: u64, is_head: bool, wire: &mut Wire, receiver: &mut Receiver) {
        if let Some(seg) = self.board.resend(id, wire.now_ns()) {
            self.rate.stamp(seg);
            let seg = *seg;
            self.undo.on_resend(wire.now_ns());
            self.send_copy(id, seg, is_head, wire, receiver);
        }
    }

    /// Sends a segment once more as a tail loss probe.
    pub(super) fn resend_as_probe(&mut self, id: u64, wire: &mut Wire, receiver: &mut Receiver) {
        if let Some(seg) = self.board.probe(id, wire.now_ns()) {
            self.rate.stamp(seg);
            let seg = *seg;
            self.send_copy(id, seg, true, wire, receiver);
        }
    }

    fn send_copy(&mut self, id: u64, seg: Seg, is_head: bool, wire: &mut Wire, receiver: &mut Receiver) {
        let now_ns = wire.now_ns();
        if wire.config.has_sack {
            self.rack.on_resend(id, seg.order);
        }
        self.stats.retrans_segs += 1;
        self.pacing.charge(self.algorithm.decision.rate_bytes_ps(), seg.len_bytes, now_ns);
        self.sent_at_ns = now_ns;
        let flags = flag::ACK | if seg.is_fin() { flag::FIN } else { 0 };
        self.send_segment(&seg, flags, is_head, wire, receiver);
    }

    /// Whether pacing lets another super-packet go; if not, the timer is armed for when it will.
    fn may_pace(&mut self, wire: &mut Wire) -> bool {
        let rate_bytes_ps = self.algorithm.decision.rate_bytes_ps();
        let admitted = self.pacing.admit(rate_bytes_ps, wire.now_ns());
        if let Err(due_ns) = admitted {
            self.pace.arm(&mut wire.net.events, due_ns, Kind::Pace, wire.id);
        }
        admitted.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rng,
        tcp::{Config, Ecn, cable::cable},
        time::MS,
    };
    use windlass_core::Algorithm;

    /// Ten segments leave at once. Later the first is retransmitted and one new segment follows: a burst of one, not of eleven.
    #[test]
    fn a_retransmission_makes_no_burst_longer() {
        let (mut net, hop) = cable();
        let config = Config::default();
        let mut receiver = Receiver::new(&config, Ecn::Off);
        let mut sender =
            Sender::new(Algorithm::by_name("reno").unwrap(), rng::of_endpoint(1, 0), config.mss_bytes, false);
        let mut wire = Wire { net: &mut net, config: &config, id: 0, peer: 1, hop, has_ecn: false };
        sender.on_established(Some(100 * MS), 64_000, false, &mut wire);
        sender.write(10_000_000, &mut wire, &mut receiver);
        assert_eq!(sender.stats.longest_burst_segs, 10);
        wire.net.now_ns = 200 * MS;
        sender.resend(0, true, &mut wire, &mut receiver);
        assert!(sender.send_one_new(&mut wire, &mut receiver));
        assert_eq!((sender.stats.longest_burst_segs, sender.stats.retrans_segs), (10, 1));
    }
}
