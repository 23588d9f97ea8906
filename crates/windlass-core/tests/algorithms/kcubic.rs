//! CUBIC as Linux has it (core/alg/kcubic.h).

use super::{MSS, follows_the_curve, sample, start};
use windlass_core::abi::{self, wl_sample};

/// Linux' integers for W_max = 100: K = 4317 ticks of 1/1024 s, and the same curve, less by rounding.
#[test]
fn the_kernels_cubic_follows_the_same_curve() {
    follows_the_curve(
        "kcubic",
        |now_us| wl_sample { rtt_us: 100_000, acked_bytes: MSS, ..sample(now_us) },
        0.03,
    );
}

/// The window in segments, after a cut from `cwnd_segs` and so many round trips in each of which all of it is acknowledged.
fn segs_after_a_cut(cwnd_segs: u32, rtt_us: u32, rounds: u32) -> u32 {
    let mut flow = start("kcubic");
    flow.decision.cwnd_bytes = cwnd_segs * MSS;
    flow.on_congestion(&sample(0), abi::WL_CONGESTION_LOSS);
    for round in 0..rounds {
        let acked_bytes = flow.decision.cwnd_bytes;
        flow.on_ack(&wl_sample {
            newly_delivered_bytes: acked_bytes,
            acked_bytes,
            rtt_us,
            ..sample(round * rtt_us)
        });
    }
    flow.decision.cwnd_bytes / MSS
}

/// 8/15 of a segment a round trip where Reno's window is the larger: RTT 10 ms, fifteen round trips after a cut from 20 to 14.
#[test]
fn the_kernels_cubic_is_not_slower_than_reno_would_be() {
    assert_eq!(segs_after_a_cut(20, 10_000, 0), 14);
    let segs = segs_after_a_cut(20, 10_000, 15);
    assert!((20..=23).contains(&segs), "14 + 15 x 8/15 = 22 segments, got {segs}");
}

/// bictcp_update(): within a tick of 4 ms each ACK follows Reno, so that a window of some segments grows on where a round trip takes
/// 0.3 ms. Looked at once for 31 ms, it would stay at three.
#[test]
fn the_kernels_cubic_follows_reno_within_a_tick() {
    assert_eq!(segs_after_a_cut(4, 300, 0), 2);
    let segs = segs_after_a_cut(4, 300, 40);
    assert!(segs > 4, "forty round trips, {segs} segments");
}

/// tcp_may_raise_cwnd() and tcp_init_cwnd_reduction(): what only SACK reports does not count towards growth, and what
/// counted before a reduction is forgotten with it.
#[test]
fn the_kernels_cubic_counts_in_order_and_anew_after_a_cut() {
    let ack = |acked_bytes| wl_sample { newly_delivered_bytes: MSS, acked_bytes, ..sample(1000) };
    let segments_to_grow = |sacked: u32, acked_before_cut: u32| {
        let mut flow = start("kcubic");
        flow.decision.cwnd_bytes = 20 * MSS;
        flow.on_congestion(&sample(0), abi::WL_CONGESTION_LOSS);
        (0..acked_before_cut).for_each(|_| flow.on_ack(&ack(MSS)));
        flow.decision.cwnd_bytes = 20 * MSS;
        flow.on_congestion(&sample(500), abi::WL_CONGESTION_LOSS);
        (0..sacked).for_each(|_| flow.on_ack(&ack(0)));
        let before = flow.decision.cwnd_bytes;
        (1..1000).find(|_| {
            flow.on_ack(&ack(MSS));
            flow.decision.cwnd_bytes > before
        })
    };
    let alone = segments_to_grow(0, 0);
    assert!(alone.is_some_and(|n| n > 2), "{alone:?}");
    assert_eq!(segments_to_grow(10, 0), alone, "SACKed segments");
    assert_eq!(segments_to_grow(0, 2), alone, "segments before the cut");
}

/// HyStart (Ha and Rhee, 2008): ACKs less than 2 ms apart for more than half a round trip end slow start; so do eight
/// samples that are an eighth above the least.
#[test]
fn the_kernels_cubic_ends_slow_start_by_train_or_by_delay() {
    let ack = |now_us, rtt_us, round_count| wl_sample {
        newly_delivered_bytes: MSS,
        rtt_us,
        round_count,
        ..sample(now_us)
    };
    let mut train = start("kcubic");
    train.decision.cwnd_bytes = 20 * MSS;
    let mut acks = 0;
    while train.decision.ssthresh_bytes == abi::WL_CWND_MAX_BYTES {
        acks += 1;
        train.on_ack(&ack(acks * 1000, 40_000, 1));
        assert!(acks < 30, "a train of {acks} ms");
    }
    assert!(acks > 20, "a train of {acks} ms only");
    let mut delay = start("kcubic");
    delay.decision.cwnd_bytes = 20 * MSS;
    delay.on_ack(&ack(0, 40_000, 1));
    for i in 1..=8 {
        delay.on_ack(&ack(100_000 + i * 5000, 45_001, 2));
        assert_eq!(delay.decision.ssthresh_bytes, abi::WL_CWND_MAX_BYTES, "sample {i}");
    }
    delay.on_ack(&ack(145_000, 45_001, 2));
    assert_eq!(delay.decision.ssthresh_bytes, delay.decision.cwnd_bytes);
}

/// bictcp_reset() of Linux: after a timeout a train ends slow start again, before the threshold does.
#[test]
fn the_kernels_hystart_watches_on_after_a_timeout() {
    let mut flow = start("kcubic");
    let mut train = |from_us: u32, round_count| {
        flow.decision.cwnd_bytes = 20 * MSS;
        let before = flow.decision.ssthresh_bytes;
        let acks = (1..100).find(|i| {
            flow.on_ack(&wl_sample {
                newly_delivered_bytes: MSS,
                rtt_us: 40_000,
                round_count,
                ..sample(from_us + i * 1000)
            });
            flow.decision.ssthresh_bytes < before
        });
        assert!(acks.is_some_and(|n| n < 30), "{round_count}: {acks:?}");
        flow.decision.cwnd_bytes = 200 * MSS;
        flow.on_timeout(&sample(from_us + 500_000));
        assert_eq!(flow.decision.ssthresh_bytes / MSS, 140);
    };
    train(0, 1);
    train(1_000_000, 2);
}

/// A pause that began before the curve did puts its beginning no later than now: there is no time before it.
#[test]
fn a_pause_that_began_before_the_kernels_curve_moves_it_to_now_at_most() {
    let mut flow = start("kcubic");
    flow.decision.cwnd_bytes = 100 * MSS;
    flow.on_congestion(&sample(0), abi::WL_CONGESTION_LOSS);
    let ack = |now_us, bytes| wl_sample {
        newly_delivered_bytes: bytes,
        acked_bytes: bytes,
        rtt_us: 100_000,
        ..sample(now_us)
    };
    flow.on_ack(&ack(100_000, MSS));
    flow.on_send_after_idle(&sample(1_000_000), 1_000_000);
    let before = flow.decision.cwnd_bytes;
    flow.on_ack(&ack(1_050_000, before));
    let grown = flow.decision.cwnd_bytes - before;
    assert!(grown <= 5 * MSS, "{}", grown / MSS);
}
