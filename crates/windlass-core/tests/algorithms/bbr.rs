//! BBR.

use crate::{MSS, sample, start};
use windlass_core::{
    Algorithm, AlgorithmState,
    abi::{self, wl_sample},
};

/// 33 segments in 40 ms are 1194582 B/s; one per cent below that is what BBR paces at with gain 1.
#[test]
fn bbr_paces_at_the_measured_bandwidth() {
    let mut flow = start("bbr");
    // one ACK for each of the 33 segments of a round, evenly spaced: nothing is aggregated
    for i in 1..60 * 33u32 {
        flow.on_ack(&one_of_33(i));
    }
    let rates = [1_182_636u64 * 5 / 4, 1_182_636 * 3 / 4, 1_182_636];
    let got = flow.decision.pacing_bytes_ps;
    assert!(rates.iter().any(|r| r.abs_diff(got) < 2000), "{got}");
    // cwnd gain 2 of a BDP of 33 segments and three bursts of two: 72; two more in the probing phase, and what the
    // ACKs' grain of one segment looks like as aggregation
    assert!((72..=78).contains(&(flow.decision.cwnd_bytes / MSS)), "{}", flow.decision.cwnd_bytes / MSS);
}

/// BBR in a home with these flags of `wl_alg_param_flag`.
fn start_with(flags: u32) -> AlgorithmState {
    let params = abi::wl_alg_params { flags: flags as u8, ..abi::wl_alg_params::default() };
    AlgorithmState::with_params(Algorithm::by_name("bbr").unwrap(), &params, &sample(0))
}

/// The ACK of segment `i`, from 1 on, one of 33 in each 40 ms.
fn one_of_33(i: u32) -> wl_sample {
    wl_sample {
        newly_delivered_bytes: MSS,
        rate_delivered_bytes: 33 * MSS,
        rate_interval_us: 40_000,
        delivered_bytes: i * MSS,
        prior_delivered_bytes: i.saturating_sub(33) * MSS,
        rtt_us: 40_000,
        srtt_us: 40_000,
        inflight_bytes: 33 * MSS,
        inflight_before_bytes: 34 * MSS,
        ..sample(i * 1212)
    }
}

/// The one ACK of a round, from 1 on: 33 segments in 40 ms, as in all before.
pub fn round_of_33(round: u32) -> wl_sample {
    wl_sample {
        newly_delivered_bytes: 33 * MSS,
        rate_delivered_bytes: 33 * MSS,
        rate_interval_us: 40_000,
        delivered_bytes: round * 33 * MSS,
        prior_delivered_bytes: (round - 1) * 33 * MSS,
        rtt_us: 40_000,
        srtt_us: 40_000,
        inflight_bytes: 33 * MSS,
        ..sample(round * 40_000)
    }
}

/// The handshake's packets are small, and its round trip is part of Linux' model: data, at 40 ms, never moves it.
#[test]
fn bbrs_model_begins_with_the_handshake() {
    let first = wl_sample { handshake_rtt_us: 30_000, ..sample(0) };
    let mut flow = AlgorithmState::new(Algorithm::by_name("bbr").unwrap(), &first);
    for i in 1..60 * 33u32 {
        // few enough to end the drain
        flow.on_ack(&wl_sample { inflight_bytes: 24 * MSS, ..one_of_33(i) });
    }
    // twice 24.75 segments and three bursts of two; two more in the probing phase, and the ACKs' grain
    let segs = flow.decision.cwnd_bytes / MSS;
    assert!((56..=62).contains(&segs), "{segs}");
}

/// bbr_packets_in_net_at_edt(): 50 segments in flight end the probing phase of a BDP of 33. With 49 the burst that leaves
/// next makes it enough, unless so much is delivered before it leaves.
#[test]
fn bbr_probes_until_what_leaves_next_fills_the_path() {
    for (departs_in_us, ends) in [(0u32, true), (2500, false)] {
        let mut flow = start_with(abi::WL_ALG_SENDS_BURSTS);
        let mut probing = 0;
        for i in 1..60 * 33u32 {
            flow.on_ack(&wl_sample { inflight_before_bytes: 49 * MSS, departs_in_us, ..one_of_33(i) });
            probing += u32::from(i > 40 * 33 && flow.decision.pacing_bytes_ps > 1_300_000);
        }
        assert_eq!(probing < 20 * 33 / 4, ends, "{probing} of {} ACKs, {departs_in_us} us", 20 * 33);
    }
}

/// Of a path that holds 33 segments: Linux drains what a probe put into the queue for a round trip, or down to 40 segments. A
/// home that sends no bursts drains down to 35, and for up to two round trips.
#[test]
fn bbr_drains_further_where_nothing_is_sent_in_bursts() {
    for (flags, left_segs, most_rounds) in [
        (abi::WL_ALG_SENDS_BURSTS, 41, 1.1),
        (abi::WL_ALG_SENDS_BURSTS, 40, 0.1),
        (0, 40, 2.1),
        (0, 36, 2.1),
        (0, 35, 0.1),
    ] {
        let mut flow = start_with(flags);
        let mut draining = vec![0];
        for i in 1..60 * 33u32 {
            // enough to end a probe, until the drain that follows it has begun
            let is_draining = flow.decision.pacing_bytes_ps < 1_000_000;
            let inflight_before_bytes = if is_draining { left_segs } else { 60 } * MSS;
            flow.on_ack(&wl_sample { inflight_before_bytes, ..one_of_33(i) });
            if flow.decision.pacing_bytes_ps < 1_000_000 {
                *draining.last_mut().unwrap() += 1;
            } else if *draining.last().unwrap() > 0 {
                draining.push(0);
            }
        }
        let rounds = f64::from(*draining[2..draining.len() - 1].iter().max().unwrap()) / 33.0;
        assert!(
            (most_rounds - 0.1..=most_rounds).contains(&rounds),
            "{flags} {left_segs}: {rounds} of {draining:?}"
        );
    }
}

/// The window of PROBE_RTT is four segments for longer than the ten round trips that a bandwidth is remembered.
#[test]
fn bbr_remembers_its_bandwidth_in_probe_rtt() {
    let mut flow = start("bbr");
    let mut delivered_bytes = 0;
    let mut rounds_of_four = 0;
    for round in 1..1200u32 {
        let newly_delivered_bytes = flow.decision.cwnd_bytes.min(33 * MSS);
        rounds_of_four += u32::from(newly_delivered_bytes == 4 * MSS);
        let prior_delivered_bytes = delivered_bytes;
        delivered_bytes += newly_delivered_bytes;
        flow.on_ack(&wl_sample {
            newly_delivered_bytes,
            rate_delivered_bytes: newly_delivered_bytes,
            rate_interval_us: 10_000,
            delivered_bytes,
            prior_delivered_bytes,
            rtt_us: 10_000,
            srtt_us: 10_000,
            inflight_bytes: newly_delivered_bytes.min(flow.decision.cwnd_bytes),
            ..sample(round * 10_000)
        });
    }
    assert!(rounds_of_four > 10, "{rounds_of_four}");
    // 33 segments in 10 ms, at the lowest gain
    let got = flow.decision.pacing_bytes_ps;
    assert!(got > 4 * 1_182_636 * 7 / 10, "{got}");
}

#[test]
fn bbr_keeps_its_rate_when_segments_are_lost() {
    let mut flow = start("bbr");
    for round in 1..100u32 {
        let sample = wl_sample { lost_bytes: MSS, ..round_of_33(round) };
        flow.on_congestion(&sample, abi::WL_CONGESTION_LOSS);
        flow.on_ack(&sample);
    }
    assert!(flow.decision.cwnd_bytes >= 33 * MSS);
    assert!(flow.decision.pacing_bytes_ps > 800_000);
}

/// bbr_undo_cwnd(): two rounds that brought nothing, and a reduction that was not needed. The pipe is not called full before
/// three more have.
#[test]
fn bbrs_startup_goes_on_after_a_spurious_reduction() {
    for (events, ends_after) in [(0, 4), (abi::WL_EV_UNDO, 6)] {
        let mut flow = start("bbr");
        let mut rounds = 0;
        let is_startup = |flow: &AlgorithmState| flow.decision.ssthresh_bytes == abi::WL_CWND_MAX_BYTES;
        while is_startup(&flow) {
            rounds += 1;
            let events = if rounds == 3 { events } else { 0 };
            flow.on_ack(&wl_sample { events, ..round_of_33(rounds) });
        }
        assert_eq!(rounds, ends_after, "rounds of startup");
    }
}

/// Nor is it overrun by what a timeout took for lost, and was not; unless a queue has held up the ACKs.
#[test]
fn bbrs_startup_goes_on_after_a_timeout_that_lost_nothing() {
    for (events, queue_us, is_starting) in
        [(0, 0, false), (abi::WL_EV_UNDO, 0, true), (abi::WL_EV_UNDO, 100_000, false)]
    {
        let mut flow = start("bbr");
        flow.on_ack(&round_of_33(1));
        let silent = wl_sample { lost_bytes: 33 * MSS, events: abi::WL_EV_TIMEOUT, ..sample(500_000) };
        flow.on_timeout(&silent);
        flow.on_ack(&silent);
        let late = round_of_33(2);
        let srtt_us = late.srtt_us + queue_us;
        flow.on_ack(&wl_sample { events, srtt_us, min_rtt_us: late.srtt_us, ..late });
        assert_eq!(flow.decision.ssthresh_bytes == abi::WL_CWND_MAX_BYTES, is_starting, "{queue_us}");
    }
}

/// Nor does a rate between losses that were none count as a policer's.
#[test]
fn bbr_forgets_the_rate_between_losses_that_were_none() {
    let rounds = |events: u32| {
        let mut flow = start("bbr");
        let mut probes = 0;
        for round in 1..40u32 {
            // a fifth is lost every fifth round: two intervals alike are a policer
            let lost_bytes = if round > 8 && round % 5 == 0 { 40 * MSS } else { 0 };
            let events = if round % 5 == 1 { events } else { 0 };
            flow.on_ack(&wl_sample { lost_bytes, events, ..round_of_33(round) });
            probes += u32::from(round > 24 && flow.decision.pacing_bytes_ps > 1_300_000);
        }
        probes
    };
    assert_eq!(rounds(0), 0, "paced at the policer's rate");
    assert!(rounds(abi::WL_EV_UNDO) > 0, "it probes for more");
}

/// bbr_set_state(): where a policer lets so little pass that timeouts end its intervals, its rate is found all the same; the silence
/// before them is no part of it.
#[test]
fn bbr_finds_a_policers_rate_by_timeouts() {
    let probes = |lost_segs: u32| {
        let mut flow = start("bbr");
        let mut probes = 0;
        for round in 1..40u32 {
            let after = round_of_33(round);
            flow.on_ack(&after);
            probes += u32::from(round > 24 && flow.decision.pacing_bytes_ps > 1_300_000);
            if round > 8 && round % 5 == 0 {
                let silent_us = 300_000 * (round % 3);
                let timeout = wl_sample {
                    since_delivery_us: silent_us,
                    delivered_bytes: after.delivered_bytes,
                    srtt_us: after.srtt_us,
                    lost_bytes: lost_segs * MSS,
                    events: abi::WL_EV_TIMEOUT,
                    is_in_recovery: 1,
                    ..sample(after.now_us + silent_us)
                };
                flow.on_timeout(&timeout);
                flow.on_ack(&timeout);
            }
        }
        probes
    };
    assert_eq!(probes(40), 0, "paced at the policer's rate");
    assert!(probes(4) > 0, "it probes for more");
}

/// A web server's answer begins with its headers in a small segment of their own, the ACK of which may be a delayed one.
#[test]
fn bbr_does_not_shrink_the_answer_that_follows_a_pause() {
    let mut flow = start("bbr");
    for round in 1..20u32 {
        flow.on_ack(&round_of_33(round));
    }
    let before = flow.decision.cwnd_bytes;
    let resumed_at_us = 20_000_000;
    flow.on_send_after_idle(&wl_sample { is_app_limited: 1, ..sample(resumed_at_us) }, resumed_at_us);
    let headers =
        wl_sample { newly_delivered_bytes: 244, is_ack_delayed: 1, is_app_limited: 1, ..round_of_33(20) };
    flow.on_ack(&wl_sample { now_us: resumed_at_us + 40_000, ..headers });
    flow.on_ack(&wl_sample { now_us: resumed_at_us + 40_100, is_app_limited: 1, ..round_of_33(21) });
    assert_eq!(flow.decision.cwnd_bytes, before);
}

/// As Linux has it, whatever phase the pause fell into.
#[test]
fn bbr_resumes_at_the_measured_bandwidth() {
    for rounds in 20..40u32 {
        let mut flow = start("bbr");
        for round in 1..rounds {
            flow.on_ack(&round_of_33(round));
        }
        let resumed_at_us = 2_000_000;
        flow.on_send_after_idle(&wl_sample { is_app_limited: 1, ..sample(resumed_at_us) }, 400_000);
        let got = flow.decision.pacing_bytes_ps;
        assert!(got.abs_diff(1_182_636) < 2000, "{got} bytes a second after {rounds} rounds");
    }
}

/// A flow that has nothing to send in PROBE_RTT gets its window back when it resumes.
#[test]
fn bbr_leaves_probe_rtt_when_it_resumes_after_it() {
    for (resumed_after_us, is_over) in [(100_000, false), (300_000, true)] {
        let mut flow = start("bbr");
        for round in 1..20u32 {
            flow.on_ack(&round_of_33(round));
        }
        let before = flow.decision.cwnd_bytes;
        let now_us = 12_000_000;
        let low = wl_sample { inflight_bytes: 3 * MSS, rtt_us: 41_000, ..round_of_33(20) };
        flow.on_ack(&wl_sample { now_us, ..low });
        assert_eq!(flow.decision.cwnd_bytes, 4 * MSS, "PROBE_RTT");
        let resumed = wl_sample { is_app_limited: 1, ..sample(now_us + resumed_after_us) };
        flow.on_send_after_idle(&resumed, resumed_after_us);
        assert_eq!(flow.decision.cwnd_bytes == before, is_over, "after {resumed_after_us} us");
    }
}

/// Is the sender short of data, only an overrun ends the startup: its buffer may be full of what waits behind holes. If it is not,
/// that need not go on for three more rounds. Linux' BBR looks at bandwidth alone.
#[test]
fn bbrs_startup_ends_where_the_path_is_overrun() {
    let startup_bytes_ps = 33 * 25 * u64::from(MSS) * 2885 / 1000 * 99 / 100;
    let as_linux = abi::WL_ALG_AS_LINUX;
    for (flags, is_app_limited, rounds, lost_segs, ends) in [
        (0, 1, 9u32, 0u32, false),
        (0, 1, 9, 7, false),
        (0, 1, 9, 8, true),
        (as_linux, 1, 9, 8, false),
        (0, 0, 2, 7, false),
        (0, 0, 2, 8, true),
        (as_linux, 0, 2, 8, false),
    ] {
        let mut flow = start_with(flags);
        for round in 1..=rounds {
            flow.on_ack(&wl_sample { lost_bytes: lost_segs * MSS, is_app_limited, ..round_of_33(round) });
        }
        let got = flow.decision.pacing_bytes_ps;
        assert_eq!(
            got < startup_bytes_ps / 2,
            ends,
            "{lost_segs} of 33 lost: {got}, in startup {startup_bytes_ps}"
        );
    }
}

/// Where the home judges the start: the window stays while the pipe seems full, for however many rounds, and STARTUP is over when it
/// is.
#[test]
fn bbrs_startup_ends_with_a_full_pipe() {
    for name in ["bbr", "bbr3"] {
        let mut flow = start(name);
        flow.on_ack(&round_of_33(1));
        let (startup, cwnd_bytes) = (flow.decision.pacing_bytes_ps, flow.decision.cwnd_bytes);
        for round in 2..8 {
            flow.on_ack(&wl_sample { events: abi::WL_EV_START_HELD, ..round_of_33(round) });
            assert_eq!(flow.decision.cwnd_bytes, cwnd_bytes, "{name}");
        }
        assert_eq!(flow.decision.pacing_bytes_ps, startup, "{name}: the rounds do not count");
        flow.on_ack(&wl_sample { events: abi::WL_EV_START_FULL, ..round_of_33(8) });
        assert!(flow.decision.pacing_bytes_ps < startup / 2, "{name}");
    }
}

/// The first sample of a path that is overrun is of an interval so long that no bandwidth is left of it.
#[test]
fn bbr_does_not_pace_at_no_bandwidth() {
    let mut flow = start("bbr");
    flow.on_ack(&wl_sample { rate_interval_us: u32::MAX, lost_bytes: 8 * MSS, ..round_of_33(1) });
    // 2.885 times ten segments in 40 ms, as before the first sample
    assert_eq!(flow.decision.pacing_bytes_ps / 1000, 1034);
    flow.on_ack(&round_of_33(2));
    assert!(flow.decision.pacing_bytes_ps < 2 * 33 * 25 * u64::from(MSS), "the startup is over");
}

/// Every other round there is a loss, and the round after it no more is sent than what comes out, so it could not have been faster.
/// A queue shows that the pipe is full all the same. Linux' BBR counts all rounds.
#[test]
fn bbrs_startup_does_not_count_rounds_in_which_packets_were_conserved() {
    let rounds_of_startup = |is_held: bool, srtt_us: u32, flags: u32| {
        let mut flow = start_with(flags);
        let mut rounds = 0;
        while flow.decision.pacing_bytes_ps > 2 * 33 * 25 * u64::from(MSS) {
            rounds += 1;
            assert!(rounds < 50);
            let is_in_recovery = (is_held && rounds % 2 == 0).into();
            flow.on_ack(&wl_sample { srtt_us, min_rtt_us: 40_000, is_in_recovery, ..round_of_33(rounds) });
        }
        rounds
    };
    let free = rounds_of_startup(false, 40_000, 0);
    assert_eq!(rounds_of_startup(true, 49_000, 0), free + 1);
    assert_eq!(rounds_of_startup(true, 50_000, 0), free, "a quarter more than the path's own");
    assert_eq!(rounds_of_startup(true, 40_000, abi::WL_ALG_AS_LINUX), free);
}

/// A flow that has filled its path of 33 segments, and its window.
fn at_work() -> (AlgorithmState, u32) {
    let mut flow = start("bbr");
    for round in 1..20u32 {
        flow.on_ack(&round_of_33(round));
    }
    let cwnd_bytes = flow.decision.cwnd_bytes;
    assert!(cwnd_bytes > 60 * MSS);
    (flow, cwnd_bytes)
}

/// A server's model has the path before the box as well: its window is twice what the whole of it holds.
#[test]
fn bbrs_window_has_room_for_the_path_before_the_box() {
    for name in ["bbr", "bbr3"] {
        let window_segs = |near_rtt_us| {
            let mut flow = start(name);
            for round in 1..20u32 {
                flow.on_ack(&wl_sample { near_rtt_us, ..round_of_33(round) });
            }
            flow.decision.cwnd_bytes / MSS
        };
        let (alone, far) = (window_segs(0), window_segs(80_000));
        assert!((far - alone).abs_diff(2 * 66) <= 8, "{name}: {alone} {far}");
    }
}

/// A recovery ends with the window before it, or with the largest that it had if more than one loss was reported.
#[test]
fn bbr_goes_back_to_its_window_after_a_recovery() {
    for is_told_twice in [false, true] {
        let (mut flow, before) = at_work();
        let few = wl_sample { newly_delivered_bytes: MSS, inflight_bytes: 10 * MSS, ..round_of_33(20) };
        let in_recovery = wl_sample { is_in_recovery: 1, prior_delivered_bytes: 0, ..few };
        if is_told_twice {
            flow.decision.cwnd_bytes = before / 2;
            flow.on_congestion(&in_recovery, abi::WL_CONGESTION_LOSS);
            flow.on_ack(&in_recovery);
            flow.decision.cwnd_bytes = before;
        }
        flow.on_congestion(&in_recovery, abi::WL_CONGESTION_LOSS);
        flow.decision.cwnd_bytes = 11 * MSS;
        flow.on_ack(&in_recovery);
        assert_eq!(flow.decision.cwnd_bytes, 11 * MSS, "one in, one out");
        flow.on_ack(&few);
        assert!(flow.decision.cwnd_bytes.abs_diff(before) <= 8 * MSS, "{}", flow.decision.cwnd_bytes / MSS);
    }
}

/// Nor is it forgotten in a timeout, which begins a recovery.
#[test]
fn bbr_goes_back_to_its_window_after_a_timeout() {
    let (mut flow, before) = at_work();
    flow.on_timeout(&wl_sample { inflight_bytes: 0, inflight_before_bytes: 33 * MSS, ..sample(1_000_000) });
    assert_eq!(flow.decision.cwnd_bytes, MSS);
    flow.on_ack(&wl_sample { newly_delivered_bytes: MSS, is_app_limited: 1, ..round_of_33(26) });
    assert!(flow.decision.cwnd_bytes.abs_diff(before) <= 8 * MSS, "{}", flow.decision.cwnd_bytes / MSS);
}

/// What was in flight before the window became smaller may be lost, and is more than the window then.
#[test]
fn bbr_loses_more_than_its_window() {
    let (mut flow, _) = at_work();
    let in_recovery = wl_sample {
        newly_delivered_bytes: MSS,
        inflight_bytes: 2 * MSS,
        is_in_recovery: 1,
        prior_delivered_bytes: 0,
        ..round_of_33(20)
    };
    flow.on_congestion(&in_recovery, abi::WL_CONGESTION_LOSS);
    for lost_segs in [0, 30] {
        flow.on_ack(&wl_sample { lost_bytes: lost_segs * MSS, ..in_recovery });
        assert_eq!(flow.decision.cwnd_bytes, 3 * MSS, "{lost_segs}");
    }
}

/// Until the pipe is full samples only lag behind: the rate never falls, and does when it is.
#[test]
fn bbrs_rate_does_not_fall_in_startup() {
    let mut flow = start("bbr");
    let slow = wl_sample { newly_delivered_bytes: MSS, rate_delivered_bytes: MSS, ..round_of_33(1) };
    flow.on_ack(&slow);
    // 2.885 times ten segments in 40 ms
    assert_eq!(flow.decision.pacing_bytes_ps / 1000, 1034);
}

/// PROBE_RTT lasts for a round trip, too, where that is longer than its 200 ms.
#[test]
fn bbr_stays_in_probe_rtt_for_a_round_trip() {
    for (is_round_over, leaves) in [(false, false), (true, true)] {
        let (mut flow, before) = at_work();
        let low = wl_sample {
            newly_delivered_bytes: MSS,
            inflight_bytes: 3 * MSS,
            rtt_us: 41_000,
            ..round_of_33(20)
        };
        flow.on_ack(&wl_sample { now_us: 12_000_000, ..low });
        assert_eq!(flow.decision.cwnd_bytes, 4 * MSS, "PROBE_RTT");
        let prior_delivered_bytes = if is_round_over { low.delivered_bytes } else { 0 };
        let late = wl_sample { now_us: 12_201_000, prior_delivered_bytes, ..low };
        for _ in 0..2 {
            flow.on_ack(&late);
        }
        assert_eq!(flow.decision.cwnd_bytes >= before / 2, leaves);
    }
}

/// Packets are conserved for the first round of a recovery only, and losses that a timer has found, which were
/// reported to the algorithm before, shrink no window (`rate_sample.losses` in Linux).
#[test]
fn bbr_conserves_packets_for_one_round() {
    let (mut flow, _) = at_work();
    let in_recovery = |round| wl_sample { inflight_bytes: 10 * MSS, is_in_recovery: 1, ..round_of_33(round) };
    let of_before = wl_sample { prior_delivered_bytes: 0, ..in_recovery(20) };
    flow.on_congestion(&of_before, abi::WL_CONGESTION_LOSS);
    flow.on_ack(&of_before);
    assert_eq!(flow.decision.cwnd_bytes, 43 * MSS);
    let lost = |lost_before_segs| wl_sample {
        newly_delivered_bytes: MSS,
        lost_bytes: 5 * MSS,
        lost_before_bytes: lost_before_segs * MSS,
        ..of_before
    };
    flow.on_ack(&lost(5));
    assert_eq!(flow.decision.cwnd_bytes, 43 * MSS);
    flow.on_ack(&lost(0));
    assert_eq!(flow.decision.cwnd_bytes, 38 * MSS);
    flow.on_ack(&in_recovery(21));
    assert!(flow.decision.cwnd_bytes >= 60 * MSS, "{}", flow.decision.cwnd_bytes / MSS);
}

/// A window is counted in segments by a server: recovery begins with one at least, though no more than a response's short head was
/// delivered and all behind it is lost.
#[test]
fn bbr_begins_a_recovery_with_a_segment_at_least() {
    let mut flow = start("bbr");
    let head =
        wl_sample { newly_delivered_bytes: 240, lost_bytes: 6 * MSS, is_in_recovery: 1, ..sample(40_000) };
    flow.on_congestion(&head, abi::WL_CONGESTION_LOSS);
    flow.on_ack(&head);
    assert_eq!(flow.decision.cwnd_bytes, MSS);
}

/// Each PROBE_RTT lasts for its 200 ms, not the first alone.
#[test]
fn bbr_probes_the_round_trip_anew_each_time() {
    let (mut flow, _) = at_work();
    let mut round = 20;
    let mut low = |flow: &mut AlgorithmState, now_us| {
        round += 1;
        let low = wl_sample { inflight_bytes: 3 * MSS, rtt_us: 41_000, ..round_of_33(round) };
        flow.on_ack(&wl_sample { now_us, ..low });
        flow.decision.cwnd_bytes == 4 * MSS
    };
    for begins_us in [12_000_000, 24_000_000] {
        assert!(!low(&mut flow, begins_us - 2_000_000));
        for after_us in [0, 50_000, 100_000, 190_000] {
            assert!(low(&mut flow, begins_us + after_us), "{begins_us} {after_us}");
        }
        assert!(!low(&mut flow, begins_us + 240_000));
    }
}

/// The ACK of a lone short segment may have waited: its round trip, however old the least is, is none of the path's.
#[test]
fn bbr_takes_no_delayed_ack_for_the_round_trip() {
    let (mut flow, before) = at_work();
    let delayed = |round, now_us| wl_sample {
        now_us,
        inflight_bytes: 3 * MSS,
        rtt_us: 240_000,
        is_ack_delayed: 1,
        ..round_of_33(round)
    };
    flow.on_ack(&delayed(20, 12_000_000));
    assert_eq!(flow.decision.cwnd_bytes, 4 * MSS, "PROBE_RTT");
    for round in 21..40 {
        flow.on_ack(&delayed(round, 12_000_000 + (round - 20) * 250_000));
    }
    assert!(flow.decision.cwnd_bytes.abs_diff(before) <= 8 * MSS, "{}", flow.decision.cwnd_bytes / MSS);
}
