//! The start: where slow start ends, before the queue overflows, and where it does not.

use crate::{MSS, ack, flow};
use std::collections::VecDeque;
use windlass_core::{
    Flow,
    abi::{self, wl_sample},
};

const RTT_US: u32 = 40_000;

/// A flow in slow start on a path of a round trip of 40 ms, whose receiver acknowledges every second segment.
struct Start {
    flow: Flow,
    cwnd_segs: u32,
    /// Time on the bottleneck link of a segment.
    seg_us: u32,
    busy_until_us: u32,
    /// When the receiver's ACKs arrive, and what they acknowledge.
    acks: VecDeque<(u32, u32)>,
}

/// A flow that begins.
fn growing() -> Flow {
    let mut f = flow(0);
    f.state_mut().start = abi::WL_START_GROWING as u8;
    f.state_mut().decision.ssthresh_bytes = abi::WL_CWND_MAX_BYTES;
    f
}

impl Start {
    fn new(seg_us: u32) -> Start {
        let mut start =
            Start { flow: growing(), cwnd_segs: 10, seg_us, busy_until_us: 0, acks: VecDeque::new() };
        (1..=10).for_each(|_| start.send(0));
        start
    }

    /// One segment, which leaves at `now_us`.
    fn send(&mut self, now_us: u32) {
        let end = self.flow.state().nxt + MSS;
        self.flow.send(end, now_us);
        self.busy_until_us = self.busy_until_us.max(now_us) + self.seg_us;
        if (end / MSS).is_multiple_of(2) {
            self.acks.push_back((self.busy_until_us + RTT_US, end));
        }
    }

    /// The next ACK, which is `late_us` late; what the window then lets out leaves at once.
    fn next(&mut self, late_us: u32) -> wl_sample {
        let (at_us, end) = self.acks.pop_front().unwrap();
        let now_us = at_us + late_us;
        let s = self.flow.ack(&ack(end, now_us, &[]));
        if s.events & (abi::WL_EV_START_HELD | abi::WL_EV_START_FULL) == 0 {
            self.cwnd_segs += 2;
        }
        while self.flow.state().nxt - self.flow.state().una < self.cwnd_segs * MSS {
            self.send(now_us);
        }
        s
    }

    /// The window in segments when the pipe was found to be full.
    fn full_segs(&mut self) -> u32 {
        for _ in 0..10_000 {
            if self.next(0).events & abi::WL_EV_START_FULL != 0 {
                return self.cwnd_segs;
            }
        }
        panic!("the start does not end");
    }
}

/// HyStart (Ha, Rhee, 2008) ends slow start between one and two bandwidth-delay products: all of the path is in use, and a buffer of
/// one does not overflow. 100 to 0.8 Mbit/s hold 342 to 16 segments with one on the link.
#[test]
fn the_start_ends_with_a_full_pipe_and_before_a_buffer_as_large_overflows() {
    for seg_us in [116, 200, 390, 580, 800, 1160, 1700, 2320] {
        let bdp_segs = RTT_US / seg_us + 1;
        let got = Start::new(seg_us).full_segs();
        assert!((bdp_segs..=2 * bdp_segs).contains(&got), "{got} segments, and the path holds {bdp_segs}");
    }
}

/// ACKs of a sender that paces at twice its window come close to each other for half a round trip, however fast the path.
#[test]
fn what_a_sender_spreads_over_half_a_round_trip_fills_no_pipe() {
    let mut f = growing();
    for (round, segs) in [20u32, 40, 80, 160].into_iter().enumerate() {
        let at_us = |i: u32| round as u32 * RTT_US + i * (RTT_US / 2) / segs;
        let first = f.state().nxt;
        (1..=segs).for_each(|i| f.send(first + i * MSS, at_us(i)));
        for i in (2..=segs).step_by(2) {
            let s = f.ack(&ack(first + i * MSS, at_us(i) + RTT_US, &[]));
            assert_eq!(s.events & (abi::WL_EV_START_HELD | abi::WL_EV_START_FULL), 0, "{segs}: {i}");
        }
    }
}

/// RFC 9406, section 4.2: a rise that is over when what was sent meanwhile arrives was of another's making.
#[test]
fn the_start_goes_on_where_no_queue_stands() {
    let mut start = Start::new(12);
    let mut held = 0;
    while held < 3 {
        // 4 ms at least, for all of a round
        let late_us = if start.cwnd_segs >= 40 { 8000 } else { 0 };
        held += u32::from(start.next(late_us).events & abi::WL_EV_START_HELD != 0);
    }
    let held_segs = start.cwnd_segs;
    for _ in 0..200 {
        assert_eq!(start.next(0).events & abi::WL_EV_START_FULL, 0);
    }
    assert!(start.cwnd_segs > 2 * held_segs, "{held_segs} {}", start.cwnd_segs);
}

/// With the window held, a queue keeps its length. Round trips that are all longer, but not alike, are jitter.
#[test]
fn the_start_goes_on_where_round_trips_vary_with_the_same_window() {
    let mut start = Start::new(12);
    let mut held = 0;
    for _ in 0..1000 {
        let late_us = if start.cwnd_segs >= 40 { 8000 + 5000 * (held % 8) } else { 0 };
        let events = start.next(late_us).events;
        assert_eq!(events & abi::WL_EV_START_FULL, 0);
        held += u32::from(events & abi::WL_EV_START_HELD != 0);
    }
    assert!(held > 8 && start.cwnd_segs > 80, "{held} {}", start.cwnd_segs);
}

/// Segments that jitter has let arrive together are late together: all round trips of one round are alike, and not those of the next.
#[test]
fn the_start_goes_on_where_only_the_round_trips_of_one_round_are_alike() {
    let mut start = Start::new(12);
    let (mut round, mut held) = (0, 0);
    for _ in 0..400 {
        let late_us = if start.cwnd_segs >= 40 { [8000, 34_000][round % 2] } else { 0 };
        let events = start.next(late_us).events;
        assert_eq!(events & abi::WL_EV_START_FULL, 0);
        round += usize::from(events & abi::WL_EV_ROUND_START != 0);
        held += u32::from(events & abi::WL_EV_START_HELD != 0);
    }
    assert!(held > 8 && start.cwnd_segs > 80, "{held} {}", start.cwnd_segs);
}

/// A window that arrives as one burst queues behind itself, but for its head: the pipe is empty when that comes. Of twenty ACKs a round
/// the first few are of round trips without a queue, and a dozen in a row of longer ones.
#[test]
fn the_start_goes_on_where_the_head_of_each_round_finds_no_queue() {
    let queue_ms = [0, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 6, 4, 2, 0];
    for phase in 0..queue_ms.len() {
        let mut start = Start::new(1000);
        let mut held = 0;
        for i in 0..2000 {
            let is_burst = (40..60).contains(&start.cwnd_segs);
            let late_us = if is_burst { 1000 * queue_ms[(i + phase) % queue_ms.len()] } else { 0 };
            let events = start.next(late_us).events;
            held += u32::from(events & abi::WL_EV_START_HELD != 0);
            if start.cwnd_segs >= 60 {
                break;
            }
            assert_eq!(events & abi::WL_EV_START_FULL, 0, "{phase} {i}: {held} {}", start.cwnd_segs);
        }
        assert!(start.cwnd_segs >= 60, "{phase}: {held} {}", start.cwnd_segs);
    }
}

/// A window of what the path holds, which has left in bursts: the bottleneck does not rest for a whole round trip, though in front of a
/// burst there is no queue. Twice that window would overflow a buffer of one bandwidth-delay product before a round trip shows it.
#[test]
fn the_start_is_held_again_after_a_quarter_where_the_bottleneck_does_not_rest() {
    // 41 were in flight, and a quarter
    for (pause_us, held_segs) in [(0, Some(52)), (RTT_US / 4, None)] {
        let mut f = growing();
        f.send(MSS, 0);
        f.ack(&ack(MSS, RTT_US, &[]));
        // one a millisecond leaves and arrives, but for a pause of the bottleneck
        let at_us = |i: u32| RTT_US + i * 1000 + if i % 40 >= 20 { pause_us } else { 0 };
        (0..40).for_each(|i| f.send((i + 2) * MSS, at_us(i)));
        let state = f.state_mut();
        (state.start, state.start_held_seq) = (abi::WL_START_HELD as u8, state.nxt);
        (state.start_round_at_us, state.start_train_at_us) =
            (at_us(0) + RTT_US - 2000, at_us(0) + RTT_US - 1000);
        for i in 0..41 {
            f.send((i + 42) * MSS, at_us(i) + RTT_US);
            f.ack(&ack((i + 2) * MSS, at_us(i) + RTT_US, &[]));
        }
        assert_eq!(u32::from(f.state().start), abi::WL_START_GROWING, "{pause_us}");
        // with each that is acknowledged leave two
        let mut got_segs = None;
        for i in 0..30 {
            let now_us = at_us(i + 41) + RTT_US;
            let inflight_segs = (f.state().nxt - f.state().una) / MSS;
            let s = f.ack(&ack((i + 43) * MSS, now_us, &[]));
            if s.events & abi::WL_EV_START_HELD != 0 {
                got_segs = Some(inflight_segs);
                break;
            }
            (0..2).for_each(|_| f.send(f.state().nxt + MSS, now_us));
        }
        assert_eq!(got_segs, held_segs, "{pause_us}");
    }
}

/// Without SACK a recovery times nothing. A round of it, all of which was retransmitted, is no reason to hold the window for ever.
#[test]
fn the_start_ends_where_nothing_of_a_round_comes_at_the_first_try() {
    let mut f = growing();
    let state = f.state_mut();
    state.flags &= !abi::WL_FLOW_SACK;
    state.start = abi::WL_START_HELD as u8;
    state.start_held_seq = 12 * MSS;
    (1..=20).for_each(|i| f.send(i * MSS, i));
    let mut events = f.ack(&ack(10 * MSS, RTT_US, &[])).events;
    assert_eq!(events & abi::WL_EV_START_FULL, 0);
    (0..4).for_each(|i| {
        f.ack(&ack(10 * MSS, RTT_US + 100 + i, &[]));
    });
    for i in 10..20 {
        assert_eq!(events & abi::WL_EV_START_FULL, 0, "{i}");
        let now_us = (i - 8) * RTT_US;
        assert_eq!(f.next_repair(), Some((i * MSS, MSS)));
        f.repaired(i * MSS, now_us);
        events |= f.ack(&ack((i + 1) * MSS, now_us + RTT_US, &[])).events;
        if events & abi::WL_EV_START_FULL != 0 {
            return;
        }
    }
    panic!("the window is held");
}

/// 480 kbit/s and a second: a full segment takes 25 ms on the link, a response's head 5. That is no queue.
#[test]
fn the_start_goes_on_where_a_slow_link_takes_its_time_for_full_segments() {
    let mut f = growing();
    f.rtt_begin(951_000);
    f.send(240, 0);
    f.ack(&ack(240, 955_000, &[]));
    let mut sent = 240;
    let mut at_us = 955_000;
    for _ in 0..6 {
        for i in 0..30u32 {
            f.send(sent + (i + 1) * MSS, at_us + i * 26_000);
        }
        for i in 0..30u32 {
            let s = f.ack(&ack(sent + (i + 1) * MSS, at_us + i * 26_000 + 975_000, &[]));
            assert_eq!(s.events & (abi::WL_EV_START_HELD | abi::WL_EV_START_FULL), 0);
        }
        sent += 30 * MSS;
        at_us += 30 * 26_000 + 975_000;
    }
}

/// A queue that packet conservation lets shrink, and the next round fill again, is a queue: it is fourteen times the path's own delay.
#[test]
fn the_start_ends_where_a_long_queue_varies_by_less_than_the_least_of_it() {
    let mut start = Start::new(12);
    let mut events = 0;
    for i in 0..2000 {
        let late_us = if start.cwnd_segs >= 40 { 560_000 + 30_000 * (i % 8) } else { 0 };
        events |= start.next(late_us).events;
    }
    assert_ne!(events & abi::WL_EV_START_FULL, 0);
}

/// Round trips that were as long while no queue stood are no sign of one later: the window is not held again and again.
#[test]
fn the_start_is_not_held_for_round_trips_as_long_as_those_without_a_queue() {
    let mut start = Start::new(12);
    let (mut holds, mut was_held) = (0, false);
    for i in 0..1000 {
        let late_us = if start.cwnd_segs >= 40 { 8000 + 5000 * (i % 8) } else { 0 };
        let is_held = start.next(late_us).events & abi::WL_EV_START_HELD != 0;
        holds += u32::from(is_held && !was_held);
        was_held = is_held;
    }
    assert!(holds <= 2 && start.cwnd_segs > 400, "{holds} {}", start.cwnd_segs);
}

/// From a loss on the algorithm has its pace, also where it goes on with its start. That the loss was none is known by DSACK.
#[test]
fn a_loss_ends_the_start_unless_it_was_spurious() {
    let mut f = crate::ten_sent();
    let state = f.state_mut();
    (state.start, state.decision.ssthresh_bytes) = (abi::WL_START_GROWING as u8, abi::WL_CWND_MAX_BYTES);
    f.ack(&ack(0, RTT_US, &[(MSS, 5 * MSS)]));
    assert_eq!(u32::from(f.state().start), abi::WL_START_OVER);
    assert_eq!(f.next_repair(), Some((0, MSS)));
    f.repaired(0, RTT_US + 100);
    f.ack(&ack(6 * MSS, RTT_US + 200, &[]));
    f.ack(&ack(7 * MSS, 2 * RTT_US + 200, &[(0, MSS)]));
    assert_eq!(u32::from(f.state().start), abi::WL_START_GROWING);
}

/// A server 84 ms before the box, and 5 ms behind it: each window comes as one burst at twice the bottleneck's rate, and queues behind
/// itself, for longer than several of the box's round trips at last. Where is the window held first?
#[test]
fn the_bursts_of_a_far_server_fill_no_pipe() {
    const SEG_US: u32 = 35;
    let mut f = growing();
    f.state_mut().near_rtt_us = 84_000;
    let is_held = |s: wl_sample| s.events & (abi::WL_EV_START_HELD | abi::WL_EV_START_FULL) != 0;
    let held_segs = (0..9u32).find_map(|round| {
        let (begin_us, segs, first) = (round * 89_000, 10 << round, f.state().nxt);
        let sent = (1..=segs).map(|i| (begin_us + i * SEG_US / 2, i, false));
        let acked = (2..=segs).step_by(2).map(|i| (begin_us + 5_000 + i * SEG_US, i, true));
        let mut events: Vec<(u32, u32, bool)> = sent.chain(acked).collect();
        events.sort_unstable();
        let held = events.into_iter().map(|(at_us, i, is_ack)| {
            let end = first + i * MSS;
            if !is_ack {
                f.send(end, at_us);
            }
            is_ack && is_held(f.ack(&ack(end, at_us, &[])))
        });
        // all of the burst, held or not
        held.fold(false, |any, is| any | is).then_some(segs)
    });
    // the path holds 2,540
    assert_eq!(held_segs, Some(2560));
}
