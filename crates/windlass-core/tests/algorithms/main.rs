//! The worked numbers of the RFCs and papers, and invariants under any order of events.

mod bbr;
mod bbr3;
mod bbr3_draft;
mod data_centre;
mod kcubic;

use proptest::prelude::*;
use windlass_core::{
    Algorithm, AlgorithmState,
    abi::{self, wl_sample},
};

const MSS: u32 = 1448;

fn sample(now_us: u32) -> wl_sample {
    wl_sample { now_us, mss_bytes: MSS, is_cwnd_limited: 1, ..wl_sample::default() }
}

fn start(name: &str) -> AlgorithmState {
    AlgorithmState::new(Algorithm::by_name(name).unwrap(), &sample(0))
}

#[test]
fn a_new_flow_begins_with_ten_segments() {
    for algorithm in Algorithm::all() {
        let flow = AlgorithmState::new(algorithm, &sample(0));
        assert_eq!(flow.decision.cwnd_bytes, 10 * MSS, "{algorithm:?}");
    }
}

#[test]
fn reno_doubles_then_halves_then_grows_by_one_segment() {
    let mut flow = start("reno");
    for _ in 0..10 {
        flow.on_ack(&wl_sample { newly_delivered_bytes: MSS, ..sample(0) });
    }
    assert_eq!(flow.decision.cwnd_bytes, 20 * MSS);
    flow.on_congestion(&wl_sample { inflight_before_bytes: 20 * MSS, ..sample(0) }, abi::WL_CONGESTION_LOSS);
    assert_eq!(flow.decision.cwnd_bytes, 10 * MSS);
    for _ in 0..10 {
        flow.on_ack(&wl_sample { newly_delivered_bytes: MSS, ..sample(0) });
    }
    assert_eq!(flow.decision.cwnd_bytes, 11 * MSS);
}

#[test]
fn reno_never_halves_below_two_segments() {
    let mut flow = start("reno");
    flow.on_congestion(&wl_sample { inflight_before_bytes: MSS, ..sample(0) }, abi::WL_CONGESTION_LOSS);
    assert_eq!(flow.decision.ssthresh_bytes, 2 * MSS);
}

/// Of a window of 20 segments 12 were in use: RFC 5681, equation 4, halves these; Linux the window.
#[test]
fn the_kernels_reno_halves_its_window_not_what_is_in_flight() {
    for (name, segs) in [("reno", 6), ("kreno", 10)] {
        let mut flow = start(name);
        flow.decision.cwnd_bytes = 20 * MSS;
        flow.on_congestion(
            &wl_sample { inflight_before_bytes: 12 * MSS, ..sample(0) },
            abi::WL_CONGESTION_LOSS,
        );
        assert_eq!(
            (flow.decision.cwnd_bytes, flow.decision.ssthresh_bytes),
            (segs * MSS, segs * MSS),
            "{name}"
        );
    }
}

/// RFC 5681, section 3.1: after a timeout the window doubles up to ssthresh though old losses are still being repaired,
/// and it does not grow beyond while they are.
#[test]
fn slow_start_goes_on_while_losses_of_a_timeout_are_repaired() {
    for name in ["reno", "cubic"] {
        let mut flow = start(name);
        flow.decision.cwnd_bytes = 20 * MSS;
        flow.on_timeout(&wl_sample { inflight_before_bytes: 20 * MSS, ..sample(0) });
        assert_eq!(flow.decision.cwnd_bytes, MSS);
        flow.on_ack(&wl_sample { lost_bytes: 20 * MSS, is_in_recovery: 1, ..sample(0) });
        assert_eq!(flow.decision.cwnd_bytes, MSS, "{name}: what tells of the timeout delivers nothing");
        let ssthresh = flow.decision.ssthresh_bytes;
        for _ in 0..40 {
            flow.on_ack(&wl_sample { newly_delivered_bytes: MSS, is_in_recovery: 1, ..sample(1) });
        }
        assert_eq!(flow.decision.cwnd_bytes, ssthresh, "{name}");
    }
}

/// The curve begins where the window is: an ACK of all of it brings what it would bring Reno, 0.53 segments.
#[test]
fn cubic_does_not_jump_to_its_curve() {
    let mut flow = start("cubic");
    flow.decision.cwnd_bytes = 100 * MSS;
    flow.on_congestion(&sample(0), abi::WL_CONGESTION_LOSS);
    let before = flow.decision.cwnd_bytes;
    flow.on_ack(&wl_sample { newly_delivered_bytes: before, ..sample(0) });
    let growth = f64::from(flow.decision.cwnd_bytes - before) / f64::from(MSS);
    assert!((growth - 0.53).abs() < 0.01, "{growth}");
}

/// RFC 9438, figures for W_max = 100: K = 4.217 s, W(1 s) = 86.68, W(K) = 100, W(2K) = 130 segments.
#[test]
fn cubic_follows_its_curve() {
    // the window lags the curve of one round trip later by up to one round trip
    follows_the_curve("cubic", |now_us| wl_sample { min_rtt_us: 100_000, ..sample(now_us) }, 0.02);
}

/// `sample_at`: of an ACK of the path of 100 ms; `tolerance`: how far beside the curve the window may be, as a share of it.
fn follows_the_curve(name: &str, sample_at: impl Fn(u32) -> wl_sample, tolerance: f64) {
    let mut flow = start(name);
    flow.decision.cwnd_bytes = 100 * MSS;
    flow.on_congestion(&sample(0), abi::WL_CONGESTION_LOSS);
    assert_eq!(flow.decision.cwnd_bytes / MSS, 70);
    // ten ACKs of a tenth of the window per 100 ms round trip
    let mut at = Vec::new();
    for step in 0..=900u32 {
        let newly_delivered_bytes = flow.decision.cwnd_bytes / 10;
        flow.on_ack(&wl_sample { newly_delivered_bytes, ..sample_at(step * 10_000) });
        at.push(f64::from(flow.decision.cwnd_bytes) / f64::from(MSS));
    }
    for (seconds, expected) in [(1.0f64, 86.68), (4.217, 100.0), (8.434, 130.0)] {
        let got = at[(seconds * 100.0) as usize];
        assert!((got - expected).abs() < tolerance * expected, "W({seconds}) = {got}, expected {expected}");
    }
}

/// The window at 8.434 s of a flow that has been on the curve for W_max = 100 since 0 s. At 2 s it is cut, `cuts` times; at
/// 2.1 s that is undone, and the window is what `undone` makes of that before.
fn after_a_spurious_cut(cuts: u32, undone: impl Fn(u32) -> u32) -> f64 {
    let mut flow = start("cubic");
    flow.decision.cwnd_bytes = 100 * MSS;
    flow.on_congestion(&sample(0), abi::WL_CONGESTION_LOSS);
    let mut prior = flow.decision;
    for step in 0..=843u32 {
        let newly_delivered_bytes = flow.decision.cwnd_bytes / 10;
        let at = wl_sample { newly_delivered_bytes, min_rtt_us: 100_000, ..sample(step * 10_000) };
        if step == 200 {
            prior = flow.decision;
            flow.on_congestion(&at, abi::WL_CONGESTION_LOSS);
            (1..cuts).for_each(|_| flow.on_timeout(&at));
        }
        if (200..210).contains(&step) {
            flow.on_ack(&wl_sample { is_in_recovery: 1, newly_delivered_bytes: 0, ..at });
            continue;
        }
        let mut events = 0;
        if step == 210 {
            flow.decision.cwnd_bytes = undone(prior.cwnd_bytes);
            flow.decision.ssthresh_bytes = prior.ssthresh_bytes;
            events = abi::WL_EV_UNDO;
        }
        flow.on_ack(&wl_sample { events, ..at });
    }
    f64::from(flow.decision.cwnd_bytes) / f64::from(MSS)
}

/// RFC 9438, section 4.9: with the window, W(2 s) = 95.64 segments, the curve is what it was, and leads to W(8.434 s) = 130. A
/// new one from 95.64 on would be at 197 by then. The same for cuts without growth in between, and for a window rounded up
/// as the box keeps it.
#[test]
fn cubic_goes_on_with_its_curve_after_a_spurious_cut() {
    for (cuts, rounded_bytes) in [(1, 0), (1, 255), (2, 0)] {
        let got = after_a_spurious_cut(cuts, |prior_bytes| prior_bytes + rounded_bytes);
        assert!((got - 130.0).abs() < 0.02 * 130.0, "{cuts} cut(s), {rounded_bytes} bytes more: {got}");
    }
}

/// By the RFC, a flow that has grown beyond the window of before goes by what is now: by W(6.334 s) = 110 + 0.4 *
/// 6.334^3 of a curve that begins there. The old one is at 110 only at 7.1 s.
#[test]
fn cubic_begins_a_new_curve_where_the_old_one_does_not_lead() {
    let got = after_a_spurious_cut(1, |_| 110 * MSS);
    assert!((got - 211.6).abs() < 0.02 * 211.6, "{got}");
}

/// A policy that changes the algorithm, or its parameters, of a flow that fills its path must not have it double its window.
#[test]
fn a_flow_that_comes_from_another_algorithm_does_not_begin_again() {
    for name in ["reno", "cubic", "kcubic", "kreno", "dctcp", "l2dct", "trim"] {
        let mut flow = start("reno");
        flow.decision.cwnd_bytes = 100 * MSS;
        flow.on_congestion(
            &wl_sample { inflight_before_bytes: 100 * MSS, ..sample(0) },
            abi::WL_CONGESTION_LOSS,
        );
        assert_eq!((flow.decision.cwnd_bytes, flow.decision.ssthresh_bytes), (50 * MSS, 50 * MSS));
        let (id, mut state) = (Algorithm::by_name(name).unwrap().id(), Default::default());
        let delivered =
            wl_sample { newly_delivered_bytes: 50 * MSS, acked_bytes: 50 * MSS, ..sample(100_000) };
        // SAFETY: all pointers are to live values; the hooks write through two of them only.
        unsafe {
            abi::wln_alg_init(id, &mut state, &Default::default(), &sample(0), &mut flow.decision);
            abi::wln_alg_on_ack(id, &mut state, &delivered, &mut flow.decision);
        }
        let segs = flow.decision.cwnd_bytes / MSS;
        assert!((50..=52).contains(&segs), "{name}: 50 segments became {segs} in a round trip");
    }
}

/// RFC 9438, section 4.2: time in which the application, not the window, limited the flow is not on the curve. A
/// persistent connection requests a little every 200 ms, a hundred times, and then much: its window goes on from
/// where it was, and its epoch does not begin in the future.
#[test]
fn short_answers_do_not_move_the_curve() {
    for name in ["cubic", "kcubic"] {
        let mut flow = start(name);
        flow.decision.cwnd_bytes = 100 * MSS;
        flow.on_congestion(&sample(0), abi::WL_CONGESTION_LOSS);
        let at = |now_us| wl_sample { min_rtt_us: 100_000, rtt_us: 100_000, ..sample(now_us) };
        let ack = |now_us, bytes, is_cwnd_limited| wl_sample {
            newly_delivered_bytes: bytes,
            acked_bytes: bytes,
            is_cwnd_limited,
            ..at(now_us)
        };
        flow.on_ack(&ack(100_000, MSS, 1));
        let mut sent_at_us = 100_000;
        for _ in 0..100 {
            flow.on_ack(&ack(sent_at_us + 100_000, 2 * MSS, 0));
            let resumed_at_us = sent_at_us + 200_000;
            flow.on_send_after_idle(&at(resumed_at_us), resumed_at_us - sent_at_us);
            sent_at_us = resumed_at_us;
        }
        let before = flow.decision.cwnd_bytes;
        // the first ACK a little sooner than those before
        flow.on_ack(&ack(sent_at_us + 95_000, before, 1));
        // towards W(0.195 s) = 73.98 segments, a round trip ahead, from 70
        let grown = flow.decision.cwnd_bytes - before;
        assert!(grown <= 5 * MSS, "{name}: {} segments grew by {}", before / MSS, grown / MSS);
    }
}

/// RFC 5681, section 3.1, and RFC 9438, section 4.2: slow start ends exactly at the threshold, and a window that was not in use does
/// not grow.
#[test]
fn slow_start_ends_at_the_threshold_and_grows_no_window_that_is_not_in_use() {
    for name in ["reno", "kreno", "cubic", "kcubic"] {
        let ack = |is_cwnd_limited| wl_sample {
            newly_delivered_bytes: 10 * MSS,
            acked_bytes: 10 * MSS,
            is_cwnd_limited,
            ..sample(1000)
        };
        let mut flow = start(name);
        (flow.decision.cwnd_bytes, flow.decision.ssthresh_bytes) = (10 * MSS, 15 * MSS);
        flow.on_ack(&ack(0));
        assert_eq!(flow.decision.cwnd_bytes, 10 * MSS, "{name}");
        flow.on_ack(&ack(1));
        let after = flow.decision.cwnd_bytes / MSS;
        assert!((15..=16).contains(&after), "{name}: {after}");
        let before = flow.decision.cwnd_bytes;
        (0..100).for_each(|_| flow.on_ack(&ack(0)));
        assert_eq!(flow.decision.cwnd_bytes, before, "{name}");
    }
}

/// Appropriate byte counting, or a home, may report more in flight than the window allows: half of the window is left
/// at most. And what was earned before the cut is not worth a segment after it.
#[test]
fn reno_halves_its_window_whatever_is_in_flight_and_earns_anew() {
    let mut flow = start("reno");
    (flow.decision.cwnd_bytes, flow.decision.ssthresh_bytes) = (20 * MSS, 20 * MSS);
    flow.on_ack(&wl_sample { newly_delivered_bytes: 19 * MSS, ..sample(0) });
    assert_eq!(flow.decision.cwnd_bytes, 20 * MSS);
    flow.on_congestion(&wl_sample { inflight_before_bytes: 40 * MSS, ..sample(0) }, abi::WL_CONGESTION_LOSS);
    assert_eq!(flow.decision.cwnd_bytes, 10 * MSS);
    flow.on_ack(&wl_sample { newly_delivered_bytes: 9 * MSS, ..sample(0) });
    assert_eq!(flow.decision.cwnd_bytes, 10 * MSS);
    flow.on_ack(&wl_sample { newly_delivered_bytes: MSS, ..sample(0) });
    assert_eq!(flow.decision.cwnd_bytes, 11 * MSS);
}

/// RFC 9438, section 4.2: far behind its curve, as after a long recovery, the window grows by a half in a round trip at most.
#[test]
fn cubic_grows_by_half_in_a_round_trip_at_most() {
    let mut flow = start("cubic");
    flow.decision.cwnd_bytes = 100 * MSS;
    flow.on_congestion(&sample(0), abi::WL_CONGESTION_LOSS);
    let at =
        |now_us, bytes| wl_sample { newly_delivered_bytes: bytes, min_rtt_us: 100_000, ..sample(now_us) };
    flow.on_ack(&at(1000, MSS));
    let before = flow.decision.cwnd_bytes;
    flow.on_ack(&at(60_000_000, before));
    let grown = flow.decision.cwnd_bytes - before;
    assert!(grown <= before / 2 && grown > before * 4 / 10, "{grown} of {before}");
}

/// RFC 9438, section 4.8: after a timeout there is no window to go back to: the curve begins where slow start ends. Of a further one
/// no more is left of the first: as long as the window is less than it was before, it grows slower than Reno's.
#[test]
fn cubic_forgets_its_window_in_a_timeout() {
    for events in [0, abi::WL_EV_TIMEOUT | abi::WL_EV_TIMEOUT_AGAIN] {
        let mut flow = start("cubic");
        flow.decision.cwnd_bytes = 100 * MSS;
        flow.on_timeout(&sample(0));
        if events != 0 {
            flow.on_timeout(&wl_sample { events, ..sample(1000) });
        }
        assert_eq!((flow.decision.cwnd_bytes, flow.decision.ssthresh_bytes / MSS), (MSS, 70));
        flow.decision.cwnd_bytes = flow.decision.ssthresh_bytes;
        let mut at_us = 100_000;
        for _ in 0..10 {
            at_us += 100_000;
            let newly_delivered_bytes = flow.decision.cwnd_bytes;
            flow.on_ack(&wl_sample { newly_delivered_bytes, min_rtt_us: 100_000, ..sample(at_us) });
        }
        // 0.53 segments a round trip as Reno, where the way back to 100 would bring some 17
        let segs = flow.decision.cwnd_bytes / MSS;
        assert!((74..=77).contains(&segs), "{segs}");
    }
}

/// RFC 9438, section 4.7: a second loss below W_max remembers less than the window it had.
#[test]
fn cubic_converges_fast() {
    let mut flow = start("cubic");
    flow.decision.cwnd_bytes = 100 * MSS;
    flow.on_congestion(&sample(0), abi::WL_CONGESTION_LOSS);
    flow.on_congestion(&sample(1), abi::WL_CONGESTION_LOSS);
    assert_eq!(flow.decision.cwnd_bytes / MSS, 49);
}

/// RFC 9406: with a last minimum of 40 ms, 45 ms in eight samples begins conservative slow start.
#[test]
fn hystart_slows_growth_to_a_quarter() {
    let mut flow = start("cubic");
    let ack =
        |rtt_us, round_count| wl_sample { newly_delivered_bytes: MSS, rtt_us, round_count, ..sample(0) };
    for _ in 0..10 {
        flow.on_ack(&ack(40_000, 1));
    }
    for _ in 0..8 {
        flow.on_ack(&ack(45_000, 2));
    }
    let before = flow.decision.cwnd_bytes;
    flow.on_ack(&ack(45_000, 2));
    assert_eq!(flow.decision.cwnd_bytes - before, MSS / 4);
}

/// Of a far server a window comes as a burst, which takes several of the home's rounds and queues behind itself: these are none of
/// the sender's. A queue that the next burst finds is one.
#[test]
fn hystart_goes_by_the_senders_rounds() {
    let mut flow = start("cubic");
    let mut grows = |at_us: u32, rtt_us, round_count| {
        let before = flow.decision.cwnd_bytes;
        flow.on_ack(&wl_sample {
            newly_delivered_bytes: MSS,
            rtt_us,
            round_count,
            near_rtt_us: 80_000,
            ..sample(at_us)
        });
        flow.decision.cwnd_bytes - before
    };
    for burst in 0..3 {
        let at_us = 90_000 * (burst + 1);
        for i in 0..100 {
            // a round trip of 5 ms, and a queue of up to 10 more
            assert_eq!(grows(at_us + i * 200, 5_000 + i * 100, 1 + 2 * burst + i / 50), MSS, "{burst} {i}");
        }
    }
    (0..8).for_each(|i| {
        grows(360_000 + i * 200, 10_000, 7);
    });
    assert_eq!(grows(362_000, 10_000, 7), MSS / 4);
}

/// Where the home judges the start, the window stays while the pipe seems full, and is the threshold when it is.
#[test]
fn slow_start_ends_where_the_pipe_is_full() {
    for name in ["reno", "cubic"] {
        let mut flow = start(name);
        flow.decision.cwnd_bytes = 40 * MSS;
        let mut grows = |events, bytes| {
            let before = flow.decision.cwnd_bytes;
            flow.on_ack(&wl_sample { newly_delivered_bytes: bytes, events, ..sample(0) });
            flow.decision.cwnd_bytes - before
        };
        assert_eq!(grows(abi::WL_EV_START_HELD, 2 * MSS), 0, "{name}");
        assert_eq!(grows(0, 2 * MSS), 2 * MSS, "{name}: it only seemed to be");
        grows(abi::WL_EV_START_FULL, 2 * MSS);
        assert!(grows(0, 30 * MSS) <= MSS, "{name}");
        assert_eq!(flow.decision.ssthresh_bytes / MSS, 42, "{name}");
    }
}

/// What a cut or a group has made of the threshold stands.
#[test]
fn a_full_pipe_raises_no_threshold() {
    for name in ["reno", "cubic"] {
        let mut flow = start(name);
        flow.decision.cwnd_bytes = 40 * MSS;
        flow.on_congestion(
            &wl_sample { inflight_before_bytes: 40 * MSS, ..sample(0) },
            abi::WL_CONGESTION_LOSS,
        );
        let decision = flow.decision;
        let events = abi::WL_EV_START_FULL | abi::WL_EV_START_HELD;
        flow.on_ack(&wl_sample { newly_delivered_bytes: MSS, events, ..sample(0) });
        assert_eq!(flow.decision.ssthresh_bytes, decision.ssthresh_bytes, "{name}");
    }
}

/// Slow start that goes on, as its end had been spurious, must still find the true one.
#[test]
fn hystart_watches_on_after_a_spurious_loss() {
    let mut flow = start("cubic");
    let ack =
        |rtt_us, round_count| wl_sample { newly_delivered_bytes: MSS, rtt_us, round_count, ..sample(0) };
    let prior = flow.decision;
    flow.on_congestion(&sample(0), abi::WL_CONGESTION_LOSS);
    flow.decision = prior;
    flow.on_ack(&wl_sample { events: abi::WL_EV_UNDO, ..ack(40_000, 1) });
    (0..10).for_each(|_| flow.on_ack(&ack(40_000, 1)));
    (0..8).for_each(|_| flow.on_ack(&ack(45_000, 2)));
    let before = flow.decision.cwnd_bytes;
    flow.on_ack(&ack(45_000, 2));
    assert_eq!(flow.decision.cwnd_bytes - before, MSS / 4);
}

proptest! {
    /// Any order of events: a window between the floor and the largest TCP can express, a rate that is not zero; and whatever
    /// the random bits of their samples are, the same to an algorithm that does not use any.
    #[test]
    fn decisions_stay_in_range(events in proptest::collection::vec((0u8..5, any::<[u32; 6]>(), 64u32..9000), 1..200)) {
        for algorithm in Algorithm::all() {
            let mut flow = AlgorithmState::new(algorithm, &sample(0));
            let mut other_luck = AlgorithmState::new(algorithm, &wl_sample { random: !0, ..sample(0) });
            let (mut now_us, mut delivered) = (0u32, 0u32);
            for (kind, r, mss) in &events {
                now_us = now_us.wrapping_add(r[0] % 1_000_000);
                let newly = r[1] % (1 << 20);
                delivered = delivered.wrapping_add(newly);
                let s = wl_sample {
                    now_us,
                    mss_bytes: *mss,
                    newly_delivered_bytes: newly,
                    acked_bytes: newly,
                    lost_bytes: r[2] % 10 * mss,
                    rtt_us: r[3] % 400_000,
                    srtt_us: r[3] % 400_000,
                    min_rtt_us: r[3] % 400_000,
                    handshake_rtt_us: r[3] % 300_000,
                    departs_in_us: r[4],
                    rate_delivered_bytes: newly,
                    rate_interval_us: r[4] % 400_000,
                    delivered_bytes: delivered,
                    prior_delivered_bytes: delivered.wrapping_sub(newly),
                    inflight_bytes: r[5] % (1 << 24),
                    inflight_before_bytes: r[5] % (1 << 24),
                    random: r[5],
                    is_cwnd_limited: (r[5] & 1) as u8,
                    is_in_recovery: (r[5] >> 1 & 1) as u8,
                    is_app_limited: (r[5] >> 2 & 1) as u8,
                    ..wl_sample::default()
                };
                let step = |flow: &mut AlgorithmState, s: &wl_sample| match kind {
                    0 | 1 => flow.on_ack(s),
                    2 => flow.on_congestion(s, r[0] & 1),
                    3 => flow.on_timeout(s),
                    4 if flow.wake_at_us().is_some() => flow.on_timer(s),
                    _ => flow.on_send_after_idle(s, r[0]),
                };
                step(&mut flow, &s);
                if !algorithm.needs_random() {
                    step(&mut other_luck, &wl_sample { random: !s.random, ..s });
                    prop_assert_eq!(&flow, &other_luck);
                }
                prop_assert!(flow.decision.cwnd_bytes >= 64, "{:?}", algorithm);
                prop_assert!(flow.decision.cwnd_bytes <= abi::WL_CWND_MAX_BYTES, "{:?} {}", algorithm, flow.decision.cwnd_bytes);
            }
        }
    }

    #[test]
    fn the_cube_root_is_exact(a in 0u64..(1 << 62)) {
        // SAFETY: pure function.
        let r = u128::from(unsafe { abi::wln_cbrt(a) });
        prop_assert!(r * r * r <= u128::from(a) && (r + 1) * (r + 1) * (r + 1) > u128::from(a));
    }

    #[test]
    fn the_square_root_is_exact(a in 0u64..(1 << 62)) {
        // SAFETY: pure function.
        let r = u128::from(unsafe { abi::wln_sqrt(a) });
        prop_assert!(r * r <= u128::from(a) && (r + 1) * (r + 1) > u128::from(a));
    }

    #[test]
    fn powers_are_within_their_error(base in 0u32..=1024, exponent in 0u32..(1 << 18)) {
        let exact = (f64::from(base) / 1024.0).powf(f64::from(exponent) / 65536.0) * 65536.0;
        prop_assume!(base > 0 || exponent > 0);
        // SAFETY: pure function.
        let got = f64::from(unsafe { abi::wln_pow_q16(base, exponent) });
        prop_assert!((got - exact).abs() <= exact / 1000.0 + 1.0, "{got} {exact}");
    }

    /// As with 128-bit products, wherever the result has 64 bits.
    #[test]
    fn proportions_are_exact(a in 0u64..(1 << 56), b: u32, c: u32) {
        let exact = u128::from(a) * u128::from(b) / u128::from(c.max(1));
        prop_assume!(exact <= u128::from(u64::MAX));
        // SAFETY: pure function.
        prop_assert_eq!(u128::from(unsafe { abi::wln_mul_div(a, b, c.max(1)) }), exact);
        // SAFETY: pure function.
        prop_assert_eq!(unsafe { abi::wln_mul_div(a, b, 0) }, 0);
    }

    /// The windowed maximum is never below what a full memory would yield of the last quarter of the window.
    #[test]
    fn the_windowed_maximum_forgets_in_time(values in proptest::collection::vec(1u32..1000, 1..100)) {
        let mut m = abi::wl_minmax::default();
        for (at, value) in values.iter().enumerate() {
            // SAFETY: the reference is live.
            unsafe { abi::wln_minmax_running_max(&mut m, 10, at as u32, *value) };
            let exact = values[at.saturating_sub(10)..=at].iter().max().unwrap();
            prop_assert!(m.best[0].value <= *exact && m.best[0].value >= *value);
        }
    }
}

/// RFC 7323 worked: ten segments with scale 7 need 114 granules, as 113 cut the last segment off.
#[test]
fn window_fields_round_up_and_stay_within_the_offer() {
    // SAFETY: pure function.
    let field = |window, scale, offer| unsafe { abi::wln_rwnd_field(window, scale, offer) };
    assert_eq!(field(14480, 7, 65535), 114);
    assert_eq!(field(14480, 0, 65535), 14480);
    assert_eq!(field(1, 14, 65535), 1);
    assert_eq!(field(14480, 7, 50), 50);
    assert_eq!(field(0, 7, 50), 0);
    assert_eq!(field(u32::MAX, 0, 1 << 20), 65535);
}

/// RFC 5681, section 3.1: when the same segment times out again, the threshold stays. Of a flow that paces it means nothing.
#[test]
fn a_further_timeout_leaves_the_threshold() {
    for algorithm in Algorithm::all() {
        let mut flow = AlgorithmState::new(algorithm, &sample(0));
        flow.decision.cwnd_bytes = 1000 * MSS;
        let first = wl_sample { inflight_before_bytes: 1000 * MSS, events: abi::WL_EV_TIMEOUT, ..sample(1) };
        flow.on_timeout(&first);
        let threshold = flow.decision.ssthresh_bytes;
        let again = first.events | abi::WL_EV_TIMEOUT_AGAIN;
        flow.on_timeout(&wl_sample { inflight_before_bytes: MSS, events: again, ..sample(600_000) });
        assert_eq!(flow.decision.ssthresh_bytes, threshold, "{algorithm:?}");
        if flow.decision.pacing_bytes_ps == u64::MAX {
            assert!(threshold >= 500 * MSS, "{algorithm:?}: {threshold}");
            assert_eq!(flow.decision.cwnd_bytes, MSS, "{algorithm:?}");
        }
    }
}

/// Of 1000 segments a pause leaves ten, and three quarters of it as threshold. Where slow start ends, the curve of before goes
/// on, which is quick, but not at once.
#[test]
fn after_a_pause_the_window_does_not_jump_to_where_it_was() {
    let mut flow = start("cubic");
    flow.decision.cwnd_bytes = 1000 * MSS;
    flow.decision.ssthresh_bytes = 900 * MSS;
    let ack =
        |now_us| wl_sample { newly_delivered_bytes: MSS, min_rtt_us: 4000, srtt_us: 4000, ..sample(now_us) };
    (0..5000).for_each(|i| flow.on_ack(&ack(i * 4)));
    flow.on_send_after_idle(&sample(1_000_000), 980_000);
    flow.decision.ssthresh_bytes = flow.decision.cwnd_bytes / 4 * 3;
    flow.decision.cwnd_bytes = 10 * MSS;
    for i in 0..3000 {
        let before = flow.decision.cwnd_bytes;
        flow.on_ack(&ack(1_004_000 + i * 4));
        let growth = flow.decision.cwnd_bytes - before;
        assert!(growth <= MSS, "ACK {i}: {} segments at once", growth / MSS);
    }
}

/// As many bytes as are nearly a window of 1000 segments are no reason to grow one of ten by more than a segment.
#[test]
fn what_was_earned_at_a_larger_window_is_worth_one_segment() {
    let mut flow = start("reno");
    (flow.decision.cwnd_bytes, flow.decision.ssthresh_bytes) = (1000 * MSS, MSS);
    let ack = |newly_delivered_bytes| wl_sample { newly_delivered_bytes, ..sample(0) };
    flow.on_ack(&ack(999 * MSS));
    flow.decision.cwnd_bytes = 10 * MSS;
    (0..9).for_each(|_| flow.on_ack(&ack(MSS)));
    assert_eq!(flow.decision.cwnd_bytes, 11 * MSS);
}
