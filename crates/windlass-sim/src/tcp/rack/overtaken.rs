//! Copies of segments behind which something sent later has arrived: lost, once time enough has passed.

use crate::tcp::{scoreboard::Scoreboard, seg::Seg};
use std::collections::VecDeque;

/// Whether nothing is known of a segment's newest copy: it has not arrived, nor was it found lost. A timeout's
/// verdict on one that was sent once does not count.
pub fn is_out(seg: &Seg) -> bool {
    !seg.is_sacked() && if seg.was_retransmitted() { !seg.is_waiting() } else { !seg.is_judged() }
}

/// A segment whose newest copy is this one and is out; none: it is not, and will not be unless all is judged anew.
pub fn copy_out(board: &Scoreboard, id: u64, order: u32) -> Option<&Seg> {
    board.get(id).filter(|seg| seg.order == order && is_out(seg))
}

/// Such copies as (id, order), in order of sending. One that is not out any more may be among them, but is not the last after a
/// judgement.
#[derive(Clone, Debug, Default)]
pub struct Overtaken(VecDeque<(u64, u32)>);

impl Overtaken {
    /// One more, which was sent after those before it.
    pub fn push(&mut self, id: u64, order: u32) {
        self.0.push_back((id, order));
    }

    /// Finds those lost that are late, of which those sent first are. Returns when the last of the rest was sent; none: there
    /// is no rest.
    pub fn judge(&mut self, board: &mut Scoreboard, is_late: impl Fn(&Seg) -> bool) -> Option<u64> {
        while let Some(&(id, order)) = self.0.front() {
            if let Some(seg) = copy_out(board, id, order) {
                if !is_late(seg) {
                    break;
                }
                board.judge_lost(id);
            }
            self.0.pop_front();
        }
        while let Some(&(id, order)) = self.0.back() {
            if let Some(seg) = copy_out(board, id, order) {
                return Some(seg.sent_at_ns);
            }
            self.0.pop_back();
        }
        // thousands of connections that lose nothing keep no room for it
        self.0.shrink_to(0);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        packet::{Block, MSS_BYTES},
        tcp::rate::Delivery,
    };

    /// Ten segments, sent at 0 to 9 ns: the first four are late, then the last three arrive, then all.
    #[test]
    fn the_last_one_that_is_out_counts_and_no_room_is_kept_when_there_is_none() {
        let mss = u64::from(MSS_BYTES);
        let (mut board, mut overtaken) = (Scoreboard::default(), Overtaken::default());
        for id in 0..10 {
            board.push(Seg::new(id * mss, MSS_BYTES as u16, false, id));
            overtaken.push(id, id as u32 + 1);
        }
        let mut judge = |board: &mut Scoreboard| overtaken.judge(board, |seg| seg.sent_at_ns < 4);
        assert_eq!(judge(&mut board), Some(9));
        assert_eq!(board.lost_segs(), 4);
        board.sack(Block { start: 7 * mss, end: 10 * mss }, 0, &mut Delivery::default(), |_| {});
        assert_eq!(judge(&mut board), Some(6));
        board.acknowledge(10 * mss, 0, 0, &mut Delivery::default(), |_| {});
        assert_eq!(judge(&mut board), None);
        assert_eq!(overtaken.0.capacity(), 0);
    }
}
