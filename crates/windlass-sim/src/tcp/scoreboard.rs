//! The segments in flight, in order of the stream, and what is known of each (RFC 2018, 6675).

use super::{
    rate::Delivery,
    seg::{Seg, seg_flag::*},
};
use crate::packet::Block;
use std::collections::VecDeque;

/// Places that an idle connection keeps for its next segments.
const IDLE_SEGS: usize = 8;

/// All segments in flight. A segment's id counts from the first one of the connection and never changes.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    segs: VecDeque<Seg>,
    /// Id of the first one in flight.
    first_id: u64,
    sacked_segs: u32,
    /// Without SACK: segments that have arrived out of order, whichever they are.
    dup_segs: u32,
    lost_segs: u32,
    resent_segs: u32,
    /// Segments that wait to be retransmitted.
    waiting_segs: u32,
    /// Super-packets whose first segment is in flight.
    super_packets: u32,
    /// Copies ever sent.
    sent: u32,
    /// No segment below this id waits to be retransmitted.
    waiting_from: u64,
    /// SACK blocks of the last ACK: what they cover need not be looked at again.
    known: [Block; 4],
    /// Highest sequence number that has arrived.
    pub fack: u64,
    /// A segment sent once has arrived after one sent later (RFC 8985, section 6.2, step 3).
    pub has_seen_reordering: bool,
    /// Segments ever marked lost.
    pub lost_total: u64,
}

impl Scoreboard {
    /// Segments in flight by name: sent, not delivered, and not known to be lost.
    pub fn pipe_segs(&self) -> u32 {
        (self.out_segs() + self.resent_segs).saturating_sub(self.sacked_segs + self.dup_segs + self.lost_segs)
    }

    /// Segments that have arrived out of order by duplicate ACKs, on connections without SACK.
    pub fn dup_segs(&self) -> u32 {
        self.dup_segs
    }

    /// Sets their number; there is a hole before them (tcp_limit_reno_sacked()).
    pub fn set_dup_segs(&mut self, segs: u32) {
        self.dup_segs = segs.min(self.out_segs().saturating_sub(self.lost_segs.max(1)));
    }

    /// Segments sent and not acknowledged cumulatively.
    pub fn out_segs(&self) -> u32 {
        self.segs.len() as u32
    }

    /// Super-packets in flight.
    pub fn super_packets(&self) -> u32 {
        self.super_packets
    }

    /// Segments that have arrived out of order.
    pub fn sacked_segs(&self) -> u32 {
        self.sacked_segs
    }

    /// Segments found lost, retransmitted or not.
    pub fn lost_segs(&self) -> u32 {
        self.lost_segs
    }

    /// Segments whose retransmission is on its way.
    pub fn resent_segs(&self) -> u32 {
        self.resent_segs
    }

    /// The oldest segment in flight.
    pub fn first(&self) -> Option<&Seg> {
        self.segs.front()
    }

    /// Its id, or that of the next one to be sent.
    pub fn first_id(&self) -> u64 {
        self.first_id
    }

    /// The newest segment's id and itself.
    pub fn last(&self) -> Option<(u64, &Seg)> {
        self.segs.back().map(|seg| (self.first_id + self.segs.len() as u64 - 1, seg))
    }

    /// A segment in flight by its id.
    pub fn get(&self, id: u64) -> Option<&Seg> {
        self.segs.get(usize::try_from(id.checked_sub(self.first_id)?).ok()?)
    }

    fn get_mut(&mut self, id: u64) -> Option<&mut Seg> {
        self.segs.get_mut(usize::try_from(id.checked_sub(self.first_id)?).ok()?)
    }

    /// A new segment leaves.
    pub fn push(&mut self, seg: Seg) {
        self.super_packets += u32::from(seg.flags & HEAD != 0);
        self.sent += 1;
        self.segs.push_back(Seg { order: self.sent, ..seg });
    }

    /// The segment leaves once more.
    pub fn resend(&mut self, id: u64, now_ns: u64) -> Option<&mut Seg> {
        let before = *self.probe(id, now_ns)?;
        self.resent_segs += u32::from(!before.is_resent());
        self.waiting_segs -= u32::from(before.is_waiting());
        let seg = self.get_mut(id)?;
        seg.flags |= RESENT;
        Some(seg)
    }

    /// The segment leaves once more to see whether it had arrived: it is in the network once, by name.
    pub fn probe(&mut self, id: u64, now_ns: u64) -> Option<&mut Seg> {
        let order = self.sent + 1;
        let seg = self.get_mut(id)?;
        seg.sent_at_ns = now_ns;
        seg.order = order;
        seg.flags = (seg.flags | EVER_RESENT) & !JUDGED;
        self.sent = order;
        self.get_mut(id)
    }

    /// Acknowledges everything below `ack`. `prior_fack`: what had arrived before this ACK; its own blocks, which
    /// came behind what they report, show no reordering (prior_fack in tcp_clean_rtx_queue()).
    pub fn acknowledge(
        &mut self,
        ack: u64,
        prior_fack: u64,
        high_seq: u64,
        delivery: &mut Delivery,
        mut arrived: impl FnMut(&Seg),
    ) {
        while let Some(seg) = self.segs.front().filter(|s| s.end() <= ack) {
            let seg = *seg;
            self.segs.pop_front();
            self.first_id += 1;
            self.super_packets -= u32::from(seg.flags & HEAD != 0);
            self.leave_lists(&seg);
            if seg.is_sacked() {
                self.sacked_segs -= 1;
                delivery.has_acked_retrans |= seg.was_retransmitted();
                continue;
            }
            self.note_arrival(&seg, prior_fack, high_seq, delivery);
            delivery.add(&seg, false);
            arrived(&seg);
        }
        if self.segs.is_empty() && self.segs.capacity() > IDLE_SEGS {
            self.segs.shrink_to(IDLE_SEGS);
        }
        self.fack = self.fack.max(ack);
        self.waiting_from = self.waiting_from.max(self.first_id);
    }

    /// Marks what has arrived by a SACK block. `arrived` is called with each segment.
    pub fn sack(
        &mut self,
        block: Block,
        high_seq: u64,
        delivery: &mut Delivery,
        mut arrived: impl FnMut(&Seg),
    ) {
        let mut start = block.start;
        // what the last ACK reported is known already: look at the gaps between only
        for known in self.known {
            if known.start > start && known.start < block.end {
                self.sack_gap(Block { start, end: known.start }, high_seq, delivery, &mut arrived);
            }
            if known.start < block.end {
                start = start.max(known.end);
            }
        }
        self.sack_gap(Block { start, end: block.end }, high_seq, delivery, &mut arrived);
    }

    /// Remembers the blocks of this ACK, in order of the stream, for the next one.
    pub fn remember(&mut self, blocks: &[Block]) {
        self.known[..blocks.len()].copy_from_slice(blocks);
        // the unused ones behind, where they do nothing
        self.known[blocks.len()..].fill(Block { start: u64::MAX, end: 0 });
    }

    fn sack_gap(
        &mut self,
        gap: Block,
        high_seq: u64,
        delivery: &mut Delivery,
        arrived: &mut impl FnMut(&Seg),
    ) {
        let mut index = self.index_from(gap.start);
        while let Some(seg) = self.segs.get_mut(index).filter(|s| s.end() <= gap.end) {
            index += 1;
            if seg.is_sacked() {
                continue;
            }
            let before = *seg;
            seg.flags = (seg.flags | SACKED) & !(LOST | RESENT);
            self.leave_lists(&before);
            self.sacked_segs += 1;
            self.note_arrival(&before, self.fack, high_seq, delivery);
            delivery.add(&before, true);
            arrived(&before);
        }
    }

    /// The segment was lost. `true` if that is new.
    pub fn mark_lost(&mut self, id: u64) -> bool {
        let Some(seg) = self.get_mut(id).filter(|s| !s.is_sacked() && !s.is_waiting()) else { return false };
        let before = *seg;
        seg.flags = (seg.flags | LOST) & !RESENT;
        self.resent_segs -= u32::from(before.is_resent());
        self.lost_segs += u32::from(before.flags & LOST == 0);
        self.waiting_segs += 1;
        self.lost_total += 1;
        self.waiting_from = self.waiting_from.min(id);
        true
    }

    /// The same by RACK's verdict, which is the last one on this copy.
    pub fn judge_lost(&mut self, id: u64) {
        if self.mark_lost(id)
            && let Some(seg) = self.get_mut(id)
        {
            seg.flags |= JUDGED;
        }
    }

    /// Segments that RACK may judge, with their ids: they have not arrived, as far as is known, nor has it found them lost.
    pub fn unjudged(&self) -> impl Iterator<Item = (u64, &Seg)> {
        let with_ids = (self.first_id..).zip(&self.segs);
        with_ids.filter(|(_, seg)| !seg.is_sacked() && !seg.is_judged())
    }

    /// Takes all verdicts of loss back, as after a timeout that was not needed.
    pub fn clear_losses(&mut self) {
        for seg in &mut self.segs {
            seg.flags &= !LOST;
        }
        self.lost_segs = 0;
        self.waiting_segs = 0;
    }

    /// The first segment that waits to be retransmitted.
    pub fn next_waiting(&mut self) -> Option<u64> {
        if self.waiting_segs == 0 {
            return None;
        }
        self.waiting_from = self.waiting_from.max(self.first_id);
        let from = (self.waiting_from - self.first_id) as usize;
        let steps = self.segs.range(from.min(self.segs.len())..).position(Seg::is_waiting)?;
        self.waiting_from += steps as u64;
        Some(self.waiting_from)
    }

    /// How many segments from `id` on, which waits to be retransmitted, do so one after the other, `most` at most, and were of one
    /// super-packet.
    pub fn waiting_run(&self, id: u64, most: u32) -> u32 {
        let behind = self.segs.range((id - self.first_id) as usize..).skip(1);
        let is_one = |seg: &&Seg| seg.is_waiting() && seg.flags & HEAD == 0;
        1 + behind.take(most.saturating_sub(1) as usize).take_while(is_one).count() as u32
    }

    /// Takes a segment's marks out of the counts.
    fn leave_lists(&mut self, seg: &Seg) {
        self.lost_segs -= u32::from(seg.flags & LOST != 0);
        self.resent_segs -= u32::from(seg.is_resent());
        self.waiting_segs -= u32::from(seg.is_waiting());
    }

    /// Reordering, if something beyond the segment, below `fack`, was there before it; and whether an original has arrived after
    /// all.
    fn note_arrival(&mut self, seg: &Seg, fack: u64, high_seq: u64, delivery: &mut Delivery) {
        if !seg.was_retransmitted() {
            self.has_seen_reordering |= seg.seq < fack;
            delivery.has_original |= seg.end() <= high_seq;
        }
        self.fack = self.fack.max(seg.end());
    }

    /// Index of the first segment that begins at `seq` or later.
    fn index_from(&self, seq: u64) -> usize {
        let (Some(first), Some(last)) = (self.segs.front(), self.segs.back()) else { return 0 };
        // nearly all segments are full: guess, then look
        let mss_bytes = first.len_bytes.max(last.len_bytes).max(1);
        let guess = (seq.saturating_sub(first.seq) / u64::from(mss_bytes)) as usize;
        if self.segs.get(guess).is_some_and(|s| s.seq == seq) {
            return guess;
        }
        self.segs.partition_point(|s| s.seq < seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::MSS_BYTES;
    use proptest::prelude::*;

    const MSS: u64 = MSS_BYTES as u64;

    fn board(segs: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        (0..segs).for_each(|i| board.push(Seg::new(i * MSS, MSS_BYTES as u16, false, i)));
        board
    }

    fn block(start: u64, end: u64) -> Block {
        Block { start: start * MSS, end: end * MSS }
    }

    /// Blocks in order of the stream.
    fn sack(board: &mut Scoreboard, blocks: &[Block]) -> u32 {
        let mut delivery = Delivery::default();
        blocks.iter().for_each(|b| board.sack(*b, u64::MAX, &mut delivery, |_| {}));
        board.remember(blocks);
        delivery.segs
    }

    #[test]
    fn a_growing_block_is_counted_once() {
        let mut board = board(20);
        assert_eq!(sack(&mut board, &[block(3, 5)]), 2);
        assert_eq!(sack(&mut board, &[block(3, 9)]), 4);
        assert_eq!(sack(&mut board, &[block(3, 9), block(11, 12)]), 1);
        // the hole between them is filled
        assert_eq!(sack(&mut board, &[block(3, 12)]), 2);
        assert_eq!((board.sacked_segs(), board.pipe_segs()), (9, 11));
    }

    #[test]
    fn the_pipe_counts_what_is_in_the_network() {
        let mut board = board(10);
        sack(&mut board, &[block(4, 8)]);
        (0..4).for_each(|id| assert!(board.mark_lost(id)));
        assert_eq!(board.pipe_segs(), 2);
        assert_eq!(board.next_waiting(), Some(0));
        board.resend(0, 100);
        assert_eq!((board.pipe_segs(), board.next_waiting()), (3, Some(1)));
        // the retransmission is lost too: it waits again, before all others
        assert!(board.mark_lost(0));
        assert_eq!((board.pipe_segs(), board.next_waiting()), (2, Some(0)));
        board.acknowledge(8 * MSS, 0, u64::MAX, &mut Delivery::default(), |_| {});
        assert_eq!((board.pipe_segs(), board.next_waiting(), board.first_id()), (2, None, 8));
    }

    /// As in tcp_send_loss_probe(): the copy does not count as a retransmission.
    #[test]
    fn a_probe_takes_no_room() {
        let mut board = board(10);
        let seg = *board.probe(9, 500).unwrap();
        assert_eq!((seg.sent_at_ns, seg.order, seg.was_retransmitted()), (500, 11, true));
        assert_eq!((board.pipe_segs(), board.resent_segs()), (10, 0));
        assert!(board.mark_lost(9));
        assert_eq!((board.pipe_segs(), board.next_waiting()), (9, Some(9)));
    }

    #[test]
    fn a_segment_that_arrives_after_a_later_one_shows_reordering() {
        let mut board = board(10);
        sack(&mut board, &[block(4, 5)]);
        assert!(!board.has_seen_reordering);
        sack(&mut board, &[block(3, 5)]);
        assert!(board.has_seen_reordering);
    }

    /// A delayed ACK was still to come for the first two when the fourth arrived without the third.
    #[test]
    fn what_an_ack_reports_beyond_a_hole_shows_no_reordering_of_what_it_acknowledges() {
        let mut board = board(10);
        let prior_fack = board.fack;
        sack(&mut board, &[block(3, 4)]);
        board.acknowledge(2 * MSS, prior_fack, 0, &mut Delivery::default(), |_| {});
        assert!(!board.has_seen_reordering);
        // the third does come, sent once, and the fourth was there before it
        let prior_fack = board.fack;
        board.acknowledge(4 * MSS, prior_fack, 0, &mut Delivery::default(), |_| {});
        assert!(board.has_seen_reordering);
    }

    /// A tail loss probe is SACKed, and what is before it arrives late: how long that took the ACK of both does not
    /// show (FLAG_RETRANS_DATA_ACKED).
    #[test]
    fn an_ack_over_a_copy_that_was_sacked_is_no_time_either() {
        let mut board = board(2);
        board.probe(1, 300);
        sack(&mut board, &[block(1, 2)]);
        let mut delivery = Delivery::default();
        board.acknowledge(2 * MSS, 0, 0, &mut delivery, |_| {});
        assert!(delivery.has_acked_retrans);
    }

    proptest! {
        /// Any SACKs, losses, retransmissions and ACKs: the counts are those of the segments themselves.
        #[test]
        fn counts_are_those_of_the_segments(steps in proptest::collection::vec((0u8..4, 0u64..40, 1u64..8), 1..100)) {
            let mut board = board(40);
            let mut delivered = 0;
            for (act, at, n) in steps {
                match act {
                    0 if at * MSS > board.first().map_or(0, |s| s.seq) =>
                        delivered += sack(&mut board, &[block(at, (at + n).min(40))]),
                    1 => { board.mark_lost(at); }
                    2 => if let Some(id) = board.next_waiting() { board.resend(id, 1000 + at); },
                    _ if n == 1 => {
                        let mut delivery = Delivery::default();
                        board.acknowledge(at * MSS, 0, 0, &mut delivery, |_| {});
                        delivered += delivery.segs;
                    }
                    _ => {}
                }
                let count = |f: &dyn Fn(&Seg) -> bool| board.segs.iter().filter(|s| f(s)).count() as u32;
                prop_assert_eq!(board.sacked_segs, count(&Seg::is_sacked));
                prop_assert_eq!(board.resent_segs, count(&Seg::is_resent));
                prop_assert_eq!(board.lost_segs, count(&|s| s.flags & LOST != 0));
                prop_assert_eq!(board.first_id + board.segs.len() as u64, 40);
                let first = board.segs.iter().position(Seg::is_waiting).map(|i| board.first_id + i as u64);
                prop_assert_eq!(board.next_waiting(), first);
            }
            prop_assert_eq!(delivered, 40 - board.segs.iter().filter(|s| !s.is_sacked()).count() as u32);
        }
    }
}
