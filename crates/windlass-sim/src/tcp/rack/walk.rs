//! The same found by walking over all that is in flight, to compare with.

use super::*;
use crate::{
    packet::{Block, MSS_BYTES},
    tcp::{Config, rate::Delivery},
    time::MS,
};
use proptest::prelude::*;

const MSS: u64 = MSS_BYTES as u64;

/// What a walk has to remember.
#[derive(Default)]
struct Walk {
    /// No first copy below this id is still to be judged.
    judged: u64,
    /// All retransmissions, oldest first.
    resent: VecDeque<(u64, u32)>,
}

impl Walk {
    fn judge_again(&mut self, board: &Scoreboard) {
        self.judged = board.first_id();
        let resent = board.unjudged().filter(|(_, seg)| seg.was_retransmitted());
        self.resent = resent.map(|(id, seg)| (id, seg.order)).collect();
        self.resent.make_contiguous().sort_unstable_by_key(|(_, order)| *order);
    }

    /// As [`Rack::detect`], of which `rack` knows what has arrived.
    fn detect(&mut self, rack: &Rack, board: &mut Scoreboard, patience_ns: u64, now_ns: u64) -> u64 {
        let is_rest = |seg: &Seg| seg.order >= rack.order || seg.sent_at_ns + patience_ns > now_ns;
        self.judged = self.judged.max(board.first_id());
        while let Some(seg) = board.get(self.judged) {
            if is_first_copy_out(seg) {
                if is_rest(seg) {
                    break;
                }
                board.judge_lost(self.judged);
            }
            self.judged += 1;
        }
        while let Some(&(id, order)) = self.resent.front() {
            if let Some(seg) = newest_copy_out(board, id, order) {
                if is_rest(seg) {
                    break;
                }
                board.judge_lost(id);
            }
            self.resent.pop_front();
        }
        let first_copies = (self.judged..).map_while(|id| board.get(id)).filter(|seg| is_first_copy_out(seg));
        let copies = self.resent.iter().filter_map(|(id, order)| newest_copy_out(board, *id, *order));
        let overtaken = first_copies.chain(copies).filter(|seg| seg.order < rack.order);
        overtaken.map(|seg| seg.sent_at_ns).max().map_or(0, |sent_at_ns| sent_at_ns + patience_ns - now_ns)
    }
}

/// A segment that was sent once and that nothing is known of.
fn is_first_copy_out(seg: &Seg) -> bool {
    !(seg.is_sacked() || seg.was_retransmitted() || seg.is_judged())
}

/// A retransmission that nothing is known of; none: it has arrived, was found lost, or there is a later one.
fn newest_copy_out(board: &Scoreboard, id: u64, order: u32) -> Option<&Seg> {
    board.get(id).filter(|s| s.order == order && !s.is_sacked() && !s.is_waiting())
}

/// A sender's losses, found in both ways.
struct Both {
    board: Scoreboard,
    rack: Rack,
    walked: Scoreboard,
    walk: Walk,
    rtt: Rtt,
    now_ns: u64,
    segs: u64,
}

impl Both {
    fn new() -> Both {
        let mut rtt = Rtt::default();
        rtt.sample(44 * MS, 0, 1, &Config::default());
        rtt.sample_min(40 * MS);
        Both {
            board: Scoreboard::default(),
            rack: Rack::default(),
            walked: Scoreboard::default(),
            walk: Walk::default(),
            rtt,
            now_ns: 0,
            segs: 0,
        }
    }

    fn send(&mut self, n: u64) {
        for _ in 0..n {
            let seg = Seg::new(self.segs * MSS, MSS_BYTES as u16, false, self.now_ns);
            self.board.push(seg);
            self.walked.push(seg);
            self.segs += 1;
        }
    }

    /// The `at`th in flight.
    fn id(&self, at: u64) -> u64 {
        self.board.first_id() + at % u64::from(self.board.out_segs().max(1))
    }

    fn sack(&mut self, at: u64, n: u64) {
        let first = self.id(at);
        let block = Block { start: first * MSS, end: (first + n).min(self.segs) * MSS };
        let Both { board, rack, walked, rtt, now_ns, .. } = self;
        board.sack(block, 0, &mut Delivery::default(), |seg| rack.on_arrival(seg, *now_ns, rtt));
        walked.sack(block, 0, &mut Delivery::default(), |_| {});
    }

    fn acknowledge(&mut self, n: u64) {
        let ack = (self.board.first_id() + n).min(self.segs) * MSS;
        let Both { board, rack, walked, rtt, now_ns, .. } = self;
        let fack = board.fack;
        board.acknowledge(ack, fack, 0, &mut Delivery::default(), |seg| rack.on_arrival(seg, *now_ns, rtt));
        walked.acknowledge(ack, fack, 0, &mut Delivery::default(), |_| {});
    }

    /// Sends what waits, or the last one as a probe.
    fn resend(&mut self, n: u64, is_probe: bool) {
        for _ in 0..n {
            let id = if is_probe { self.board.last().map(|(id, _)| id) } else { self.board.next_waiting() };
            let Some(id) = id else { return };
            for board in [&mut self.board, &mut self.walked] {
                if is_probe {
                    board.probe(id, self.now_ns)
                } else {
                    board.resend(id, self.now_ns)
                };
            }
            let order = self.board.get(id).unwrap().order;
            self.rack.on_resend(id, order);
            self.walk.resent.push_back((id, order));
            self.now_ns += MS / 8;
        }
    }

    fn time_out(&mut self) {
        self.rack.lose_on_timeout(&mut self.board, self.now_ns);
        self.rack.lose_on_timeout(&mut self.walked, self.now_ns);
    }

    fn undo(&mut self, unmarks: bool) {
        for board in [&mut self.board, &mut self.walked].into_iter().filter(|_| unmarks) {
            board.clear_losses();
        }
        self.rack.judge_again(&self.board);
        self.walk.judge_again(&self.walked);
    }

    /// Both find the same lost, and have the timer wait equally long.
    fn detect(&mut self, is_recovering: bool) -> Result<(), TestCaseError> {
        let Both { board, rack, walked, walk, rtt, now_ns, .. } = self;
        let patience_ns = rack.rtt_ns + rack.reo_wnd_ns(walked, rtt, is_recovering);
        let walked_ns = walk.detect(rack, walked, patience_ns, *now_ns);
        prop_assert_eq!(rack.detect(board, rtt, *now_ns, is_recovering), walked_ns);
        prop_assert_eq!(board.lost_total, walked.lost_total);
        let segs = |board: &Scoreboard| -> Vec<_> {
            let all = (board.first_id()..).map_while(|id| board.get(id));
            all.map(|s| (s.order, s.is_lost(), s.is_judged(), s.is_waiting())).collect()
        };
        prop_assert_eq!(segs(board), segs(walked));
        Ok(())
    }
}

proptest! {
    #[test]
    fn a_walk_over_all_in_flight_finds_the_same(
        steps in proptest::collection::vec((0u8..12, 0u64..60, 1u64..8), 1..300),
    ) {
        let mut both = Both::new();
        both.send(30);
        for (act, at, n) in steps {
            both.now_ns += at * MS / 8;
            match act {
                0..3 => both.send(n * 2),
                3..6 => both.sack(at, n),
                6 => both.acknowledge(n),
                7 | 8 => both.resend(n, false),
                9 => both.resend(1, true),
                10 if n < 3 => both.time_out(),
                11 if n < 4 => both.undo(at % 2 == 0),
                _ => {}
            }
            both.detect(at % 2 == 0)?;
        }
    }
}
