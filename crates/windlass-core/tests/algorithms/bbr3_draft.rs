//! The example test cases of BBRv3's draft (appendix of draft-ietf-ccwg-bbr), as far as an algorithm by itself can show them. Which
//! other tests show the rest is in docs/algorithms/bbr3.md.

use crate::{
    MSS,
    bbr::round_of_33,
    bbr3::{BDP_SEGS, Path, RTT_US, drained, lose_in_a_probe},
    sample, start,
};
use std::ops::Range;
use windlass_core::abi::{self, wl_sample};

/// Pacing of each phase in thousandths of the bottleneck's rate, one per cent below the gain.
const DRAINING: Range<u64> = 450..600;
const DOWN: Range<u64> = 850..920;
const UP: Range<u64> = 1150..1400;

/// A path in DRAIN.
fn draining() -> Path {
    let mut path = Path::new(800);
    while path.flow.decision.ssthresh_bytes == abi::WL_CWND_MAX_BYTES {
        path.round(0, |_| ());
        assert!(path.round < 40, "it never left its startup");
    }
    assert!(DRAINING.contains(&path.pacing_permille()), "{}", path.pacing_permille());
    path
}

/// A path in UP.
fn probing() -> Path {
    let mut path = Path::new(800);
    path.settle();
    path.stay_within(0..UP.start, 300);
    assert!(UP.contains(&path.pacing_permille()), "{}", path.pacing_permille());
    path
}

/// Rounds for which pacing stays within `permille` while more is in flight than the path holds, 300 at most.
fn rounds_while_full(path: &mut Path, permille: Range<u64>) -> u32 {
    let began = path.round;
    while permille.contains(&path.pacing_permille()) && path.round < began + 300 {
        path.round(0, |ack| ack.inflight_bytes = 2 * BDP_SEGS * MSS);
    }
    path.round - began
}

/// "Exiting STARTUP on Loss When Application-Limited"
#[test]
fn bbr3s_startup_ends_on_loss_though_the_sender_is_short_of_data() {
    let mut path = Path::new(800);
    for _ in 0..3 {
        path.round(0, |ack| ack.is_app_limited = 1);
    }
    assert_eq!(path.flow.decision.ssthresh_bytes, abi::WL_CWND_MAX_BYTES);
    for _ in 0..3 {
        path.round(0, |ack| (ack.is_app_limited, ack.is_in_recovery, ack.lost_bytes) = (1, 1, 4 * MSS));
    }
    assert!(path.flow.decision.ssthresh_bytes < abi::WL_CWND_MAX_BYTES);
}

/// "Exiting DRAIN Based on Inflight"
#[test]
fn bbr3s_drain_ends_when_the_path_holds_what_is_in_flight() {
    let mut path = draining();
    let (queue_segs, began) = (path.queue_segs, path.round);
    path.stay_within(DRAINING, 10);
    assert!(queue_segs > BDP_SEGS / 2 && path.queue_segs < BDP_SEGS / 10, "{queue_segs} {}", path.queue_segs);
    assert!(path.round - began <= 3, "{} rounds", path.round - began);
}

/// "Exiting DRAIN Based on Time": more than three rounds after it began.
#[test]
fn bbr3s_drain_ends_after_three_rounds() {
    let mut path = draining();
    let rounds = rounds_while_full(&mut path, DRAINING);
    assert!((3..=5).contains(&rounds), "{rounds}");
    assert!(DOWN.contains(&path.pacing_permille()), "{}", path.pacing_permille());
}

/// "Exiting PROBE_UP on Bandwidth Plateau": three rounds without growth, and what is sent before they are seen.
#[test]
fn bbr3s_probe_ends_on_a_plateau() {
    let mut path = probing();
    let (began, lost_segs) = (path.round, path.lost_segs);
    path.stay_within(UP, 30);
    assert!((3..=6).contains(&(path.round - began)), "{} rounds", path.round - began);
    assert!(DOWN.contains(&path.pacing_permille()), "{}", path.pacing_permille());
    assert_eq!(path.lost_segs, lost_segs);
}

/// "Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss"; the startup is another test's.
#[test]
fn bbr3s_probe_goes_on_while_the_sender_is_short_of_data() {
    let mut path = probing();
    let began = path.round;
    while UP.contains(&path.pacing_permille()) && path.round < began + 60 {
        // of half the rate; each round trip is the shortest so far, or PROBE_RTT would end the probe
        let rtt_us = RTT_US - (path.round - began);
        path.round(0, |ack| {
            (ack.is_app_limited, ack.rtt_us) = (1, rtt_us);
            ack.rate_delivered_bytes /= 2;
        });
    }
    assert_eq!(path.round - began, 60);
}

/// "Exiting PROBE_DOWN on Inflight"
#[test]
fn bbr3_cruises_when_its_probe_has_drained() {
    let mut path = probing();
    path.stay_within(UP, 30);
    assert!(DOWN.contains(&path.pacing_permille()), "{}", path.pacing_permille());
    let began = path.round;
    path.stay_within(DOWN, 100);
    assert!((980..1000).contains(&path.pacing_permille()), "{}", path.pacing_permille());
    assert!(
        path.round - began < 20 && path.queue_segs <= BDP_SEGS / 20,
        "{} {}",
        path.round - began,
        path.queue_segs
    );
}

/// "Exiting PROBE_DOWN After Max Time": two to three seconds after it began the path is filled for a round, and probed.
#[test]
fn bbr3_probes_again_though_the_last_probe_has_not_drained() {
    let mut path = probing();
    path.stay_within(UP, 30);
    let rounds = rounds_while_full(&mut path, DOWN);
    assert!((2_000_000..=3_000_000).contains(&(rounds * RTT_US)), "{rounds} rounds");
    let began = path.round;
    path.stay_within(980..1000, 5);
    assert!(path.round - began <= 2 && UP.contains(&path.pacing_permille()), "{} rounds", path.round - began);
}

/// "Skipping PROBE_RTT Due to Application-Limited Sending"
#[test]
fn bbr3_needs_no_probe_rtt_behind_a_pause() {
    for has_paused in [false, true] {
        let (mut flow, low) = drained();
        let now_us = 12_000_000;
        if has_paused {
            flow.on_send_after_idle(&wl_sample { is_app_limited: 1, ..sample(now_us) }, 10_000_000);
        }
        flow.on_ack(&low(now_us + RTT_US, true));
        assert_eq!(flow.decision.cwnd_bytes >= 20 * MSS, has_paused, "{}", flow.decision.cwnd_bytes / MSS);
    }
}

/// "Entering and Exiting PROBE_RTT During STARTUP"
#[test]
fn bbr3_goes_back_to_its_startup_from_probe_rtt() {
    let mut flow = start("bbr3");
    for round in 1..8u32 {
        flow.on_ack(&wl_sample { is_app_limited: 1, ..round_of_33(round) });
    }
    let of = round_of_33(8);
    let low = |now_us, prior_delivered_bytes| wl_sample {
        now_us,
        prior_delivered_bytes,
        newly_delivered_bytes: MSS,
        inflight_bytes: 3 * MSS,
        rtt_us: 41_000,
        is_app_limited: 1,
        ..of
    };
    let window = flow.decision.cwnd_bytes;
    for after_us in [0, 100_000, 201_000, 300_000] {
        flow.on_ack(&low(6_000_000 + after_us, of.delivered_bytes));
        if after_us == 100_000 {
            assert!(flow.decision.cwnd_bytes < window * 6 / 10, "{} of {window}", flow.decision.cwnd_bytes);
        }
    }
    assert!(flow.decision.cwnd_bytes >= window, "{} of {window}", flow.decision.cwnd_bytes);
    assert_eq!(flow.decision.ssthresh_bytes, abi::WL_CWND_MAX_BYTES, "the pipe is not full");
    // twice as much in the next round is paced with the gain of STARTUP again
    let twice = wl_sample {
        rate_delivered_bytes: 66 * MSS,
        inflight_bytes: 66 * MSS,
        ..low(6_340_000, of.delivered_bytes)
    };
    flow.on_ack(&wl_sample { is_app_limited: 0, ..twice });
    let rate_bytes_ps = 66 * u64::from(MSS) * 25;
    assert!(flow.decision.pacing_bytes_ps * 10 > rate_bytes_ps * 27, "{}", flow.decision.pacing_bytes_ps);
}

/// "Handling Spurious RTO Recovery": what the timeout was for has arrived, and the probe in hand goes on with its window.
#[test]
fn bbr3_goes_on_with_its_probe_after_a_spurious_timeout() {
    let mut path = probing();
    let (window, rate) = (path.cwnd_segs(), path.pacing_permille());
    let timeout = wl_sample { inflight_bytes: 0, is_in_recovery: 1, ..sample(path.round * RTT_US) };
    path.flow.on_timeout(&timeout);
    assert!(path.cwnd_segs() <= 4, "{}", path.cwnd_segs());
    path.flow.on_ack(&wl_sample { events: abi::WL_EV_UNDO, ..sample(path.round * RTT_US) });
    assert!(path.cwnd_segs() >= window, "{} of {window}", path.cwnd_segs());
    assert!(path.pacing_permille() * 100 >= rate * 99, "{} of {rate}", path.pacing_permille());
}

/// "Handling Loss During PROBE_UP After inflight_longterm is Set"
#[test]
fn bbr3s_probe_ends_with_its_first_round_of_losses() {
    let mut path = probing();
    lose_in_a_probe(&mut path, |_| ());
    let bound = path.cwnd_segs();
    // the next one is a careful one, the one after it goes beyond
    for _ in 0..2 {
        path.stay_within(0..UP.start, 300);
        path.stay_within(UP, 2);
    }
    path.stay_within(0..UP.start, 300);
    let (began, lost_segs) = (path.round, path.lost_segs);
    while UP.contains(&path.pacing_permille()) {
        path.round(20, |_| ());
    }
    assert!(path.round - began <= 3 && path.lost_segs > lost_segs, "{} rounds", path.round - began);
    let segs = path.cwnd_segs();
    assert!((BDP_SEGS * 69 / 100..=bound.max(BDP_SEGS * 14 / 10)).contains(&segs), "{segs}, {bound} before");
}

/// Headroom: in CRUISE the window is 0.15 below the bound that a probe has found, which it is in DOWN.
#[test]
fn bbr3_leaves_headroom_while_it_cruises() {
    let mut path = probing();
    lose_in_a_probe(&mut path, |_| ());
    let bound = path.cwnd_segs();
    path.stay_within(DOWN, 100);
    path.round(0, |_| ());
    let percent = path.cwnd_segs() * 100 / bound;
    assert!((83..=86).contains(&percent), "{percent} % of {bound}");
}

/// "Handling Application-Limited Sending During PROBE_REFILL": the round before the probe is of half the rate.
#[test]
fn bbr3s_bandwidth_is_not_that_of_a_sender_short_of_data() {
    let probes_at = probing().round;
    let mut path = Path::new(800);
    path.settle();
    while path.round < probes_at - 1 {
        path.round(0, |_| ());
    }
    path.round(0, |ack| {
        ack.is_app_limited = 1;
        ack.rate_delivered_bytes /= 2;
    });
    assert!((1200..1250).contains(&path.pacing_permille()), "{}", path.pacing_permille());
    path.stay_within(UP, 30);
    path.stay_within(DOWN, 60);
    assert!((980..1000).contains(&path.pacing_permille()), "{}", path.pacing_permille());
}
