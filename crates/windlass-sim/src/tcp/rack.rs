//! Which segments are lost, judged by time (RFC 8985, section 6): one is lost when another that was sent later has
//! arrived, and enough time has passed for it to have arrived as well.
//!
//! First copies leave in order, so a cursor over them finds those behind which a later one has arrived; retransmissions
//! stand in a queue in order of sending. Both then wait in one list until time has judged them, so that an ACK need not
//! look at all that is in flight. Each copy is judged once, unless it was a timeout that had found it lost and was not
//! needed.

mod overtaken;
#[cfg(test)]
mod walk;

use super::{rtt::Rtt, scoreboard::Scoreboard, seg::Seg};
use overtaken::{Overtaken, copy_out, is_out};
use std::collections::VecDeque;

/// RFC 8985: recoveries for which a wider window is kept after a duplicate report.
const PERSIST_RECOVERIES: u8 = 16;
const DUPACK_THRESHOLD: u32 = 3;

/// The most recently sent segment that has arrived, and how much reordering is tolerated.
#[derive(Clone, Debug)]
pub struct Rack {
    sent_at_ns: u64,
    order: u32,
    rtt_ns: u64,
    /// Something has arrived since losses were last judged.
    has_advanced: bool,
    /// Quarters of the smallest round-trip time that reordering may take.
    reo_wnd_steps: u8,
    reo_wnd_persist: u8,
    /// Delivered bytes at which another duplicate report counts.
    dsack_round: u32,
    /// First copies below this id have arrived, or a later one has.
    passed: u64,
    /// Retransmissions behind which nothing newer has arrived, as (id, order), oldest first; one that has since
    /// arrived or been retransmitted is out of date.
    resent: VecDeque<(u64, u32)>,
    /// Copies behind which a later one has arrived, until they are judged.
    overtaken: Overtaken,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            sent_at_ns: 0,
            order: 0,
            rtt_ns: 0,
            has_advanced: false,
            reo_wnd_steps: 1,
            reo_wnd_persist: 0,
            dsack_round: 0,
            passed: 0,
            resent: VecDeque::new(),
            overtaken: Overtaken::default(),
        }
    }
}

impl Rack {
    /// A segment has arrived (section 6.2, steps 1 and 2).
    pub fn on_arrival(&mut self, seg: &Seg, now_ns: u64, rtt: &Rtt) {
        let rtt_ns = now_ns - seg.sent_at_ns;
        // faster than the path ever was: the ACK is for an earlier copy
        if seg.was_retransmitted() && rtt_ns < rtt.min_ns() {
            return;
        }
        self.has_advanced = true;
        self.rtt_ns = rtt_ns;
        if seg.order > self.order {
            self.sent_at_ns = seg.sent_at_ns;
            self.order = seg.order;
        }
    }

    /// A segment was retransmitted.
    pub fn on_resend(&mut self, id: u64, order: u32) {
        self.resent.push_back((id, order));
    }

    /// A report of a duplicate: tolerate more, once a round trip (step 4), if packets are reordered
    /// (tcp_dsack_seen()).
    pub fn on_dsack(&mut self, board: &Scoreboard, prior_delivered: u32, delivered: u32) {
        if !board.has_seen_reordering || (prior_delivered.wrapping_sub(self.dsack_round) as i32) < 0 {
            return;
        }
        self.dsack_round = delivered;
        self.reo_wnd_steps = self.reo_wnd_steps.saturating_add(1);
        self.reo_wnd_persist = PERSIST_RECOVERIES;
    }

    /// A recovery is over: what was tolerated for a duplicate's sake fades.
    pub fn on_recovery_exit(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_steps = 1;
        }
    }

    /// A reduction was not needed, and what had seemed lost may not be: all is looked at anew (tcp_undo_cwnd_reduction()). What
    /// was found lost here is not judged twice, but what a timeout has marked is still to be judged.
    pub fn judge_again(&mut self, board: &Scoreboard) {
        self.has_advanced = true;
        self.passed = board.first_id();
        self.overtaken = Overtaken::default();
        let resent = board.unjudged().filter(|(_, seg)| seg.was_retransmitted());
        self.resent = resent.map(|(id, seg)| (id, seg.order)).collect();
        self.resent.make_contiguous().sort_unstable_by_key(|(_, order)| *order);
    }

    /// How long a segment may be reordered before it counts as lost (step 4).
    fn reo_wnd_ns(&self, board: &Scoreboard, rtt: &Rtt, is_recovering: bool) -> u64 {
        if !board.has_seen_reordering && (is_recovering || board.sacked_segs() >= DUPACK_THRESHOLD) {
            return 0;
        }
        (rtt.min_ns() / 4 * u64::from(self.reo_wnd_steps)).min(rtt.srtt_ns())
    }

    /// Finds losses after an ACK (step 5). Returns after how long the rest can be judged; 0: there is no rest.
    pub fn detect_after_ack(
        &mut self,
        board: &mut Scoreboard,
        rtt: &Rtt,
        now_ns: u64,
        is_recovering: bool,
    ) -> u64 {
        if !std::mem::take(&mut self.has_advanced) {
            return 0;
        }
        self.detect(board, rtt, now_ns, is_recovering)
    }

    /// Finds losses. Returns after how long the rest can be judged, for which the timer waits (tcp_rack_detect_loss()); 0: there
    /// is no rest.
    pub fn detect(&mut self, board: &mut Scoreboard, rtt: &Rtt, now_ns: u64, is_recovering: bool) -> u64 {
        self.find_overtaken(board);
        let patience_ns = self.rtt_ns + self.reo_wnd_ns(board, rtt, is_recovering);
        let last_sent_at_ns = self.overtaken.judge(board, |seg| seg.sent_at_ns + patience_ns <= now_ns);
        last_sent_at_ns.map_or(0, |sent_at_ns| sent_at_ns + patience_ns - now_ns)
    }

    /// Looks for copies behind which a later one has arrived since the last time. What has arrived was sent ever
    /// later, so nothing is looked at twice.
    fn find_overtaken(&mut self, board: &Scoreboard) {
        loop {
            let first_copy = self.next_first_copy(board);
            let both = first_copy.into_iter().chain(self.next_resent(board));
            let next = both.min_by_key(|(_, order)| *order);
            let Some((id, order)) = next.filter(|(_, order)| *order < self.order) else { return };
            self.overtaken.push(id, order);
            if next == first_copy {
                self.passed += 1;
            } else {
                self.resent.pop_front();
            }
        }
    }

    /// The first copy that is out and was sent before all others behind which no later one has arrived, as (id, order).
    fn next_first_copy(&mut self, board: &Scoreboard) -> Option<(u64, u32)> {
        self.passed = self.passed.max(board.first_id());
        loop {
            let seg = board.get(self.passed)?;
            if !seg.was_retransmitted() && is_out(seg) {
                return Some((self.passed, seg.order));
            }
            self.passed += 1;
        }
    }

    /// The same of retransmissions.
    fn next_resent(&mut self, board: &Scoreboard) -> Option<(u64, u32)> {
        loop {
            let &(id, order) = self.resent.front()?;
            if copy_out(board, id, order).is_some() {
                return Some((id, order));
            }
            self.resent.pop_front();
        }
    }

    /// A timeout loses the head of the line, and all that by its time should have arrived (section 6.3; nothing is allowed
    /// for reordering any more, tcp_timeout_mark_lost()).
    pub fn lose_on_timeout(&mut self, board: &mut Scoreboard, now_ns: u64) {
        let first = board.first_id();
        for id in first..first + u64::from(board.out_segs()) {
            if board.get(id).is_some_and(|s| id == first || s.sent_at_ns + self.rtt_ns <= now_ns) {
                board.mark_lost(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        packet::{Block, MSS_BYTES},
        tcp::{Config, rate::Delivery},
        time::MS,
    };

    /// Four segments sent at 0, 1, 2 and 3 ms over a path of 40 ms.
    fn flight() -> (Scoreboard, Rack, Rtt) {
        let mut board = Scoreboard::default();
        for i in 0..4 {
            board.push(Seg::new(i * u64::from(MSS_BYTES), MSS_BYTES as u16, false, i * MS));
        }
        let mut rtt = Rtt::default();
        rtt.sample(44 * MS, 0, 1, &Config::default());
        rtt.sample_min(40 * MS);
        (board, Rack::default(), rtt)
    }

    fn sack(board: &mut Scoreboard, rack: &mut Rack, rtt: &Rtt, segs: std::ops::Range<u64>, now_ns: u64) {
        let mss = u64::from(MSS_BYTES);
        let block = Block { start: segs.start * mss, end: segs.end * mss };
        board.sack(block, 0, &mut Delivery::default(), |seg| rack.on_arrival(seg, now_ns, rtt));
    }

    /// One later arrival at 42 ms gives the second segment until 51 ms: its time, the RTT and a quarter of the
    /// smallest RTT. The timer waits for it, not for as long as what has arrived would have.
    #[test]
    fn a_quarter_of_the_round_trip_is_allowed_for_reordering() {
        let (mut board, mut rack, rtt) = flight();
        board.acknowledge(u64::from(MSS_BYTES), 0, 0, &mut Delivery::default(), |_| {});
        sack(&mut board, &mut rack, &rtt, 2..3, 42 * MS);
        let rest_ns = rack.detect_after_ack(&mut board, &rtt, 42 * MS, false);
        assert_eq!((rest_ns, board.lost_segs()), (9 * MS, 0));
        rack.detect(&mut board, &rtt, 51 * MS, false);
        assert_eq!(board.next_waiting(), Some(1));
    }

    /// The first has until 51 ms and the third until 53: the timer waits for both. The fifth was sent after what has arrived.
    #[test]
    fn the_timer_waits_for_the_last_that_was_reordered() {
        let (mut board, mut rack, rtt) = flight();
        board.push(Seg::new(4 * u64::from(MSS_BYTES), 100, false, 4 * MS));
        sack(&mut board, &mut rack, &rtt, 1..2, 42 * MS);
        sack(&mut board, &mut rack, &rtt, 3..4, 44 * MS);
        assert_eq!(rack.detect_after_ack(&mut board, &rtt, 44 * MS, false), 9 * MS);
        assert_eq!(rack.detect(&mut board, &rtt, 53 * MS, false), 0);
        assert_eq!(board.lost_segs(), 2);
    }

    #[test]
    fn three_later_arrivals_are_proof() {
        let (mut board, mut rack, rtt) = flight();
        sack(&mut board, &mut rack, &rtt, 1..4, 43 * MS);
        assert_eq!(rack.detect_after_ack(&mut board, &rtt, 43 * MS, false), 0);
        assert_eq!(board.next_waiting(), Some(0));
    }

    #[test]
    fn a_lost_retransmission_is_found_when_a_later_one_arrives() {
        let (mut board, mut rack, rtt) = flight();
        sack(&mut board, &mut rack, &rtt, 3..4, 43 * MS);
        rack.detect(&mut board, &rtt, 90 * MS, true);
        assert_eq!(board.lost_segs(), 3);
        for id in 0..3 {
            let order = board.resend(id, (100 + id) * MS).unwrap().order;
            rack.on_resend(id, order);
        }
        sack(&mut board, &mut rack, &rtt, 2..3, 142 * MS);
        rack.detect(&mut board, &rtt, 142 * MS, true);
        // 100 and 101 ms plus 40 ms are past
        assert_eq!((board.next_waiting(), board.pipe_segs()), (Some(0), 0));
    }

    /// A timeout at 300 ms marks all four, the first of which is retransmitted. The fourth one's SACK of 310 ms finds all before it
    /// lost already; that of the second, of 312, shows that the timeout was not needed: the third has until 323 ms, its time, the
    /// RTT of 311 ms and a quarter of the smallest one. The copy was sent later than what has arrived.
    #[test]
    fn what_a_timeout_lost_is_judged_again_when_it_was_not_needed() {
        let (mut board, mut rack, rtt) = flight();
        rack.lose_on_timeout(&mut board, 300 * MS);
        let order = board.resend(0, 300 * MS).unwrap().order;
        rack.on_resend(0, order);
        sack(&mut board, &mut rack, &rtt, 3..4, 310 * MS);
        assert_eq!(rack.detect_after_ack(&mut board, &rtt, 310 * MS, true), 0);
        sack(&mut board, &mut rack, &rtt, 1..2, 312 * MS);
        board.clear_losses();
        rack.judge_again(&board);
        assert_eq!(rack.detect_after_ack(&mut board, &rtt, 312 * MS, false), 11 * MS);
        assert_eq!(board.lost_segs(), 0);
        rack.detect(&mut board, &rtt, 324 * MS, false);
        assert_eq!((board.lost_segs(), board.next_waiting()), (1, Some(2)));
    }

    /// ... but not what was found lost here: its verdict stands until it is retransmitted.
    #[test]
    fn what_was_found_lost_in_time_is_not_judged_twice() {
        let (mut board, mut rack, rtt) = flight();
        sack(&mut board, &mut rack, &rtt, 3..4, 43 * MS);
        rack.detect(&mut board, &rtt, 90 * MS, true);
        assert_eq!(board.lost_segs(), 3);
        board.clear_losses();
        rack.judge_again(&board);
        rack.detect(&mut board, &rtt, 90 * MS, true);
        assert_eq!(board.lost_segs(), 0);
    }

    /// Sent at 60 ms, 45 ms ago, over a path of 40 ms: lost, even where packets are known to be reordered.
    #[test]
    fn a_timeout_allows_nothing_for_reordering() {
        let (mut board, mut rack, rtt) = flight();
        board.push(Seg::new(4 * u64::from(MSS_BYTES), 100, false, 60 * MS));
        sack(&mut board, &mut rack, &rtt, 2..3, 42 * MS);
        sack(&mut board, &mut rack, &rtt, 1..2, 42 * MS);
        assert!(board.has_seen_reordering);
        rack.lose_on_timeout(&mut board, 105 * MS);
        assert_eq!(board.lost_segs(), 3);
    }

    /// Only where packets are reordered may RACK have been the reason for a duplicate.
    #[test]
    fn reports_of_duplicates_widen_the_window_where_there_is_reordering() {
        let (mut board, mut rack, rtt) = flight();
        rack.on_dsack(&board, 0, 1000);
        assert_eq!(rack.reo_wnd_ns(&board, &rtt, false), 10 * MS);
        board.has_seen_reordering = true;
        rack.on_dsack(&board, 0, 1000);
        assert_eq!(rack.reo_wnd_ns(&board, &rtt, false), 20 * MS);
    }

    #[test]
    fn a_timeout_spares_what_was_sent_lately() {
        let (mut board, mut rack, rtt) = flight();
        board.push(Seg::new(4 * u64::from(MSS_BYTES), 100, false, 300 * MS));
        sack(&mut board, &mut rack, &rtt, 2..3, 42 * MS);
        rack.lose_on_timeout(&mut board, 310 * MS);
        assert_eq!(board.lost_segs(), 3);
        assert_eq!(board.pipe_segs(), 1);
    }
}
