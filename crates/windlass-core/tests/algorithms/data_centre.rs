//! DCTCP, L2DCT and TRIM.

mod losses;

use crate::{MSS, sample, start};
use proptest::prelude::*;
use windlass_core::{
    Algorithm, AlgorithmState,
    abi::{self, wl_alg_params, wl_decision, wl_sample},
};

/// An algorithm's private state, to be looked at or set up.
///
/// # Safety
/// T must be the state of the flow's algorithm.
unsafe fn private<T>(flow: &mut AlgorithmState) -> &mut T {
    // SAFETY: the words are aligned for any state and at least as large, which the core asserts.
    unsafe { &mut *(&raw mut flow.state).cast() }
}

fn dctcp(flow: &mut AlgorithmState) -> &mut abi::wl_dctcp {
    // SAFETY: called on flows of DCTCP only.
    unsafe { private(flow) }
}

fn l2dct(flow: &mut AlgorithmState) -> &mut abi::wl_l2dct {
    // SAFETY: called on flows of L2DCT only.
    unsafe { private(flow) }
}

fn trim(flow: &mut AlgorithmState) -> &mut abi::wl_trim {
    // SAFETY: called on flows of TRIM only.
    unsafe { private(flow) }
}

/// D and K of a TRIM flow.
fn bounds(flow: &mut AlgorithmState) -> (u32, u32) {
    (trim(flow).min_rtt_us, trim(flow).k_us)
}

fn phase(flow: &mut AlgorithmState) -> u32 {
    trim(flow).phase.into()
}

/// A window of a hundred segments in one ACK, `marked` of which were marked.
fn window_of_marks(flow: &mut AlgorithmState, total: &mut u32, marked: u32) {
    *total = total.wrapping_add(100 * MSS);
    flow.on_ack(&wl_sample {
        newly_delivered_bytes: 100 * MSS,
        delivered_bytes: *total,
        ce_bytes: marked * MSS,
        is_cwnd_limited: 0,
        ..sample(0)
    });
}

/// RFC 8257, section 3.3, in Linux' integers.
#[test]
fn dctcp_follows_the_share_of_marks() {
    let mut flow = start("dctcp");
    let mut total = 0u32;
    assert_eq!(dctcp(&mut flow).alpha, 1024);
    for (marked, alpha) in [(0, 960), (50, 932), (0, 874)] {
        window_of_marks(&mut flow, &mut total, marked);
        assert_eq!(dctcp(&mut flow).alpha, alpha);
    }
}

#[test]
fn dctcp_forgets_marks_in_75_windows_and_stays_at_full_alpha_while_all_is_marked() {
    let mut flow = start("dctcp");
    let mut total = 0u32;
    for _ in 0..20 {
        window_of_marks(&mut flow, &mut total, 100);
        assert_eq!(dctcp(&mut flow).alpha, 1024);
    }
    let windows = (1..).find(|_| {
        window_of_marks(&mut flow, &mut total, 0);
        dctcp(&mut flow).alpha == 0
    });
    assert_eq!(windows, Some(75));
}

#[test]
fn dctcp_cuts_by_half_of_alpha_and_by_half_at_a_loss() {
    let mut flow = start("dctcp");
    let cut = |flow: &mut AlgorithmState, why| {
        flow.decision.cwnd_bytes = 100 * MSS;
        flow.on_congestion(&wl_sample { inflight_before_bytes: 100 * MSS, ..sample(0) }, why);
        flow.decision.cwnd_bytes / MSS
    };
    assert_eq!(cut(&mut flow, abi::WL_CONGESTION_ECN), 50);
    dctcp(&mut flow).alpha = 512;
    assert_eq!(cut(&mut flow, abi::WL_CONGESTION_ECN), 75);
    dctcp(&mut flow).alpha = 0;
    assert_eq!(cut(&mut flow, abi::WL_CONGESTION_ECN), 100);
    assert_eq!(cut(&mut flow, abi::WL_CONGESTION_LOSS), 50);
}

/// alpha = 0.25, window 100: what is left after a mark, by what was sent before; DCTCP would keep 87.5.
#[test]
fn l2dct_backs_off_more_the_more_was_sent() {
    for (sent, left) in
        [(0, 98.44), (200_000, 98.44), (600_000, 91.89), (1_000_000, 57.96), (9_000_000, 57.96)]
    {
        let mut flow = start("l2dct");
        flow.decision.cwnd_bytes = 100 * MSS;
        let state = l2dct(&mut flow);
        (state.dctcp.alpha, state.delivered_bytes) = (256, sent);
        flow.on_congestion(&sample(0), abi::WL_CONGESTION_ECN);
        let got = f64::from(flow.decision.cwnd_bytes) / f64::from(MSS);
        assert!((got - left).abs() < 0.01, "{sent}: {got}, expected {left}");
    }
}

/// A window that is all marked halves and one without marks stays, whatever was sent.
#[test]
fn l2dct_is_within_the_bounds_of_dctcp() {
    for (alpha, left) in [(1024, 50), (0, 100)] {
        for sent in [0, 500_000, 5_000_000] {
            let mut flow = start("l2dct");
            flow.decision.cwnd_bytes = 100 * MSS;
            let state = l2dct(&mut flow);
            (state.dctcp.alpha, state.delivered_bytes) = (alpha, sent);
            flow.on_congestion(&sample(0), abi::WL_CONGESTION_ECN);
            assert_eq!(flow.decision.cwnd_bytes / MSS, left);
        }
    }
}

/// A round trip brings a fresh flow a segment, and one that has sent more than a megabyte a twentieth.
#[test]
fn l2dct_lets_long_flows_grow_at_a_twentieth() {
    for (sent, rounds) in [(0u32, 1), (2_000_000, 20)] {
        let mut flow = start("l2dct");
        (flow.decision.cwnd_bytes, flow.decision.ssthresh_bytes) = (20 * MSS, 20 * MSS);
        l2dct(&mut flow).delivered_bytes = sent;
        // the share of each ACK is rounded down to a byte: a hundredth later at most
        let acks = (1..)
            .find(|_| {
                flow.on_ack(&wl_sample { newly_delivered_bytes: MSS, ..sample(0) });
                flow.decision.cwnd_bytes > 20 * MSS
            })
            .unwrap();
        assert!((20 * rounds..=20 * rounds * 101 / 100).contains(&acks), "{sent}: {acks}");
    }
}

fn threshold_us(rate: u64, buffer: u32, permille: i32, mss: u32, d_us: u32) -> u32 {
    // SAFETY: pure function.
    unsafe { abi::wln_trim_threshold_us(rate, buffer, permille, mss, d_us) }
}

/// TRIM, section III-A.3, worked with packets of 1500 bytes in all (payload 1434).
#[test]
fn trim_chooses_k_between_its_bounds() {
    let at_1g = |permille| threshold_us(125_000_000, 150_000, permille, 1434, 200);
    assert_eq!((at_1g(0), at_1g(500), at_1g(1000)), (273, 486, 700));
    let at_10g = |permille| threshold_us(1_250_000_000, 349_500, permille, 1434, 100);
    assert_eq!((at_10g(0), at_10g(1000)), (170, 189));
    // a buffer of 20 packets is below the bound of (28), 28.9: no loss comes first (25)
    assert_eq!(threshold_us(125_000_000, 30_000, 0, 1434, 200), 220);
    // one so small that even slow start's first round trip would fill it: not below D
    assert_eq!(threshold_us(125_000_000, 1_500, 0, 1434, 200), 200);
    // nothing is known, or only the rate: 2D, or up to it
    assert_eq!(threshold_us(0, 0, 0, 1434, 200), 400);
    assert_eq!(threshold_us(125_000_000, 0, 1000, 1434, 200), 400);
}

/// A handshake shows what its small packets take. Three full ones take 360 us at 100 Mbit/s: that is no queue, and the
/// window neither shrinks for it nor forgets what it was.
#[test]
fn trim_takes_no_full_packet_for_a_queue() {
    let params = wl_alg_params {
        bottleneck_bytes_ps: 12_500_000,
        buffer_bytes: 150_000,
        flags: abi::WL_ALG_SYNCHRONOUS as u8,
        ..wl_alg_params::default()
    };
    let s = wl_sample { mss_bytes: TRIM_MSS, is_cwnd_limited: 1, now_us: 1, ..wl_sample::default() };
    let established = wl_sample { min_rtt_us: 222, ..s };
    let algorithm = Algorithm::by_name("trim").unwrap();
    let mut trim = Trim { flow: AlgorithmState::with_params(algorithm, &params, &established), s };
    assert_eq!(bounds(&mut trim.flow), (222, 222 + 360));
    trim.flow.decision.cwnd_bytes = 8 * TRIM_MSS;
    trim.ack(1, 7, 582);
    assert!(trim.cwnd() > 8.0, "{}", trim.cwnd());
    let before = trim.cwnd();
    trim.probe(582);
    trim.go_on();
    assert_eq!(trim.cwnd(), before);
    trim.ack(1, 7, 600);
    assert!(trim.cwnd() < before, "{}", trim.cwnd());
    // a smaller round trip of data is what it is
    trim.ack(1, 7, 200);
    assert_eq!(bounds(&mut trim.flow), (200, 200));
}

const TRIM_MSS: u32 = 1434;

/// A TRIM flow behind 1 Gbit/s and 100 packets, which has seen a round-trip time of `rtt_us`, at its next send after a
/// pause; its window was `cwnd_segs`. The sample is that of the send.
struct Trim {
    flow: AlgorithmState,
    s: wl_sample,
}

impl Trim {
    fn new(rtt_us: u32, cwnd_segs: u32, flags: u32) -> Trim {
        let params = wl_alg_params {
            bottleneck_bytes_ps: 125_000_000,
            buffer_bytes: 150_000,
            flags: flags as u8,
            ..wl_alg_params::default()
        };
        let s =
            wl_sample { mss_bytes: TRIM_MSS, is_cwnd_limited: 1, now_us: 1_000_000, ..wl_sample::default() };
        let flow = AlgorithmState::with_params(Algorithm::by_name("trim").unwrap(), &params, &s);
        let mut trim = Trim { flow, s };
        trim.ack(1, 1, rtt_us);
        trim.flow.decision.cwnd_bytes = cwnd_segs * TRIM_MSS;
        trim.flow.decision.ssthresh_bytes = cwnd_segs * TRIM_MSS;
        trim
    }

    /// `segs` more are delivered, `left` stay in flight.
    fn ack(&mut self, segs: u32, left: u32, rtt_us: u32) {
        self.s.delivered_bytes = self.s.delivered_bytes.wrapping_add(segs * TRIM_MSS);
        let sample = wl_sample {
            newly_delivered_bytes: segs * TRIM_MSS,
            acked_bytes: segs * TRIM_MSS,
            inflight_bytes: left * TRIM_MSS,
            rtt_us,
            ..self.s
        };
        self.flow.on_ack(&sample);
    }

    fn after(&mut self, us: u32) -> &mut Trim {
        self.s.now_us += us;
        self
    }

    fn send_after(&mut self, idle_us: u32) {
        self.s.now_us += idle_us;
        self.flow.on_send_after_idle(&self.s, idle_us);
    }

    fn timer(&mut self) {
        self.s.now_us = self.flow.wake_at_us().expect("it asked for it");
        self.flow.on_timer(&self.s);
    }

    fn cwnd(&self) -> f64 {
        f64::from(self.flow.decision.cwnd_bytes) / f64::from(TRIM_MSS)
    }

    /// Two probes leave after a pause and come back after `rtt_us` each.
    fn probe(&mut self, rtt_us: u32) {
        self.send_after(5000);
        assert_eq!((self.cwnd(), self.flow.is_held()), (2.0, false));
        self.after(rtt_us).ack(1, 1, rtt_us);
        if rtt_us <= 200 {
            assert!(self.flow.is_held(), "one probe is still out");
        }
        self.ack(1, 0, rtt_us);
    }

    /// Half of the window is taken for a loss that has been repaired. Returns what held before.
    fn reduce(&mut self) -> wl_decision {
        let prior = self.flow.decision;
        let s = wl_sample { inflight_before_bytes: prior.cwnd_bytes, ..self.s };
        self.flow.on_congestion(&s, abi::WL_CONGESTION_LOSS);
        prior
    }

    /// That was spurious: a home has `prior` in force again, and reports so with the next ACK, that leaves so much in flight.
    fn undo(&mut self, prior: wl_decision, left: u32) {
        let d = &mut self.flow.decision;
        d.cwnd_bytes = d.cwnd_bytes.max(prior.cwnd_bytes);
        d.ssthresh_bytes = d.ssthresh_bytes.max(prior.ssthresh_bytes);
        let s = wl_sample { events: abi::WL_EV_UNDO, inflight_bytes: left * TRIM_MSS, ..self.s };
        self.flow.on_ack(&s);
    }

    /// What follows the train of probes at once.
    fn go_on(&mut self) {
        self.flow.on_send_after_idle(&self.s, 1);
    }
}

/// Whatever a train waits for, a timeout ends it: what is lost must be retransmitted at once.
#[test]
fn trim_holds_nothing_back_after_a_timeout() {
    let mut trim = Trim::new(200, 20, 0);
    trim.after(200).ack(1, 0, 200);
    trim.s.random = u32::MAX;
    trim.send_after(5000);
    assert!(trim.flow.is_held(), "a random wait before the probes");
    trim.flow.on_timeout(&trim.s);
    assert_eq!((trim.flow.is_held(), trim.flow.wake_at_us()), (false, None));
}

/// A train of one segment has one probe, which is all that can come back.
#[test]
fn trim_does_not_wait_for_a_probe_that_was_not_sent() {
    let mut trim = Trim::new(200, 20, abi::WL_ALG_SYNCHRONOUS);
    trim.send_after(5000);
    assert_eq!(trim.cwnd(), 2.0);
    trim.after(200).ack(1, 0, 200);
    assert!(!trim.flow.is_held());
    trim.go_on();
    assert!(trim.cwnd() > 15.0, "{}", trim.cwnd());
}

/// Round trips while losses are repaired measure these, not a queue: the cut that they have brought is enough.
#[test]
fn trim_takes_no_repair_for_a_queue() {
    for (is_in_recovery, is_cut) in [(0, true), (1, false)] {
        let mut trim = Trim::new(200, 20, abi::WL_ALG_SYNCHRONOUS);
        trim.s.is_in_recovery = is_in_recovery;
        trim.after(2000).ack(1, 19, 2000);
        assert_eq!(trim.cwnd() < 20.0, is_cut);
    }
}

/// A real receiver may acknowledge a whole window at once: that is a pause only if nothing waits behind it.
#[test]
fn trim_probes_no_train_that_goes_on() {
    let mut trim = Trim::new(200, 20, abi::WL_ALG_SYNCHRONOUS);
    trim.s.events = abi::WL_EV_MORE_WAITS;
    trim.after(200).ack(20, 0, 200);
    assert!(trim.cwnd() >= 20.0, "{}", trim.cwnd());
    trim.s.events = 0;
    trim.after(200).ack(20, 0, 200);
    assert_eq!(trim.cwnd(), 2.0);
}

/// (3): RTT 300 us with K = 273: ep = 0.09, a window of 20 becomes 19.1.
#[test]
fn trim_shrinks_in_proportion_to_the_queue() {
    let mut trim = Trim::new(200, 20, abi::WL_ALG_SYNCHRONOUS);
    trim.ack(1, 19, 300);
    assert!((trim.cwnd() - 19.1).abs() < 0.01, "{}", trim.cwnd());
    // without a queue it grows, by a segment a window
    let before = trim.cwnd();
    for _ in 0..20 {
        trim.ack(1, 19, 210);
    }
    assert!((trim.cwnd() - before - 1.0).abs() < 0.01, "{}", trim.cwnd());
}

/// (1): a window of 40, least round-trip time 200 us. The deadline is smooth_rtt, so it must have been seen longer.
#[test]
fn trim_tunes_the_window_to_what_the_probes_find() {
    for (probe_us, segs) in [(200, 40.0), (260, 28.0), (399, 2.0), (400, 2.0), (900, 2.0)] {
        let mut trim = Trim::new(200, 40, abi::WL_ALG_SYNCHRONOUS);
        // a smoothed time of 1000 us, which shrinks nothing here
        (0..40).for_each(|_| trim.ack(1, 39, 1000));
        (trim.flow.decision.cwnd_bytes, trim.flow.decision.ssthresh_bytes) = (40 * TRIM_MSS, 40 * TRIM_MSS);
        trim.probe(probe_us);
        trim.go_on();
        assert!((trim.cwnd() - segs).abs() < 0.001, "{probe_us}: {}", trim.cwnd());
    }
}

#[test]
fn trim_keeps_two_segments_if_the_probes_are_late() {
    let mut trim = Trim::new(200, 40, abi::WL_ALG_SYNCHRONOUS);
    trim.send_after(1000);
    trim.timer();
    assert_eq!((trim.cwnd(), trim.flow.is_held(), trim.flow.wake_at_us()), (2.0, false, None));
    trim.after(50).ack(2, 0, 251);
    trim.go_on();
    assert_eq!(trim.cwnd(), 2.0);
    // a home without timers comes to the same
    let mut trim = Trim::new(200, 40, abi::WL_ALG_CANNOT_WAKE);
    trim.send_after(1000);
    trim.after(251).ack(2, 0, 251);
    trim.go_on();
    assert_eq!((trim.cwnd(), trim.flow.is_held()), (2.0, false));
}

/// A tail loss probe has mended the end of a train, of which the kernel learns with the first ACK of the next one's probes. That takes half
/// of the window that is put by, as it would have taken of the train's; a lost probe takes all.
#[test]
fn trim_halves_what_is_put_by_for_a_loss_of_the_train_before() {
    for (is_resting, lost_bytes) in [(true, 0), (false, 0), (false, TRIM_MSS)] {
        let mut trim = Trim::new(200, 40, abi::WL_ALG_CANNOT_WAKE | abi::WL_ALG_CANNOT_DELAY);
        trim.ack(1, 0, 200);
        if !is_resting {
            trim.send_after(5000);
            trim.after(200);
        }
        let before = phase(&mut trim.flow);
        trim.flow.on_congestion(
            &wl_sample { lost_bytes, inflight_before_bytes: 2 * TRIM_MSS, ..trim.s },
            abi::WL_CONGESTION_LOSS,
        );
        assert_eq!(trim.cwnd(), 2.0);
        if lost_bytes > 0 {
            assert_eq!(phase(&mut trim.flow), abi::WL_TRIM_OPEN);
            assert_eq!(trim.flow.decision.ssthresh_bytes, 2 * TRIM_MSS);
            continue;
        }
        assert_eq!(phase(&mut trim.flow), before);
        assert_eq!(trim.flow.decision.ssthresh_bytes, 20 * TRIM_MSS);
        if is_resting {
            trim.send_after(5000);
            trim.after(200);
        }
        trim.ack(1, 1, 200);
        trim.ack(1, 0, 200);
        trim.go_on();
        assert_eq!(trim.cwnd(), 20.0);
    }
}

/// Whether the window is put by when it is halved, or is put by since, and whether or not the probes are out by then: it is put
/// by whole again, and two segments are in its place.
#[test]
fn trim_gives_back_what_was_put_by() {
    let flags = abi::WL_ALG_CANNOT_WAKE | abi::WL_ALG_CANNOT_DELAY;
    for (is_cut_open, is_probing) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut trim = Trim::new(200, 40, flags);
        if !is_cut_open {
            trim.ack(1, 0, 200);
        }
        let prior = trim.reduce();
        if is_cut_open {
            assert_eq!(trim.cwnd(), 20.0);
            trim.ack(1, 0, 200);
        }
        assert_eq!(trim.cwnd(), 2.0);
        if is_probing {
            trim.send_after(5000);
            trim.undo(prior, 2);
        } else {
            trim.undo(prior, 0);
        }
        assert_eq!(trim.cwnd(), 2.0, "cut open: {is_cut_open}, probing: {is_probing}");
        if !is_probing {
            trim.send_after(5000);
        }
        trim.after(200).ack(1, 1, 200);
        trim.ack(1, 0, 200);
        trim.go_on();
        assert_eq!(trim.cwnd(), 40.0, "cut open: {is_cut_open}, probing: {is_probing}");
        assert_eq!(trim.flow.decision.ssthresh_bytes, 40 * TRIM_MSS);
    }
}

/// After a short pause no probe goes first: what is left of the window is in force before the proof comes.
#[test]
fn trim_gives_back_what_was_put_by_for_a_short_pause() {
    let mut trim = Trim::new(200, 40, abi::WL_ALG_CANNOT_WAKE | abi::WL_ALG_CANNOT_DELAY);
    trim.ack(1, 0, 200);
    let prior = trim.reduce();
    trim.send_after(100);
    assert_eq!(trim.cwnd(), 20.0);
    trim.undo(prior, 1);
    assert_eq!(trim.cwnd(), 40.0);
    // only of that reduction: another is undone by itself
    let prior = trim.reduce();
    trim.undo(prior, 1);
    assert_eq!(trim.cwnd(), 40.0);
}

/// Five times as long as K for all that is in flight: 19 of 20 segments would be gone.
#[test]
fn trim_takes_no_more_than_half_in_a_round_trip() {
    let mut trim = Trim::new(200, 20, abi::WL_ALG_SYNCHRONOUS);
    (1..20).for_each(|_| trim.ack(1, 19, 1500));
    assert_eq!(trim.cwnd(), 10.0);
    trim.ack(1, 9, 1500);
    assert!((5.0..10.0).contains(&trim.cwnd()), "{}", trim.cwnd());
}

/// With a window of two that one ACK covers, what waits leaves a round trip after the last: no pause, as long as it is no more
/// than two.
#[test]
fn trim_takes_no_round_trip_of_a_train_for_a_pause() {
    for (events, idle_us, is_held) in
        [(abi::WL_EV_MORE_WAITS, 300, false), (abi::WL_EV_MORE_WAITS, 1000, true), (0, 300, true)]
    {
        let mut trim = Trim::new(200, 2, 0);
        trim.s.events = events;
        trim.ack(2, 0, 200);
        trim.s.events = 0;
        trim.send_after(idle_us);
        assert_eq!(trim.flow.is_held(), is_held, "{events} {idle_us}");
    }
}

/// A box measures 100 of 200 us: what it takes for a queue is what a sender would, and so is a pause.
#[test]
fn trim_counts_the_part_of_a_round_trip_that_is_not_measured() {
    let k_us = |d_us| threshold_us(125_000_000, 150_000, 0, TRIM_MSS, d_us);
    let mut trim = Trim::new(100, 20, abi::WL_ALG_CANNOT_DELAY);
    assert_eq!(bounds(&mut trim.flow), (100, k_us(100)));
    trim.s.near_rtt_us = 100;
    trim.ack(1, 19, 100);
    assert_eq!(bounds(&mut trim.flow), (100, k_us(200) - 100));
    // ep = 0.09, as with 300 us of the whole
    (trim.flow.decision.cwnd_bytes, trim.flow.decision.ssthresh_bytes) = (20 * TRIM_MSS, 20 * TRIM_MSS);
    trim.ack(1, 19, 200);
    assert!((trim.cwnd() - 19.1).abs() < 0.01, "{}", trim.cwnd());
    for (idle_us, phase_after) in [(220, abi::WL_TRIM_OPEN), (230, abi::WL_TRIM_PROBING)] {
        let mut trim = Trim::new(100, 20, abi::WL_ALG_CANNOT_DELAY);
        trim.s.near_rtt_us = 100;
        (0..9).for_each(|_| trim.ack(1, 19, 125));
        trim.ack(1, 0, 125);
        trim.send_after(idle_us);
        assert_eq!(phase(&mut trim.flow), phase_after, "{idle_us}");
    }
}

/// A box lets the first train of a connection begin with two segments, too; the kernel's own sockets keep their window.
#[test]
fn trim_in_a_box_begins_with_two_segments() {
    for (flags, segs) in
        [(0, 10), (abi::WL_ALG_CANNOT_DELAY, 2), (abi::WL_ALG_CANNOT_DELAY | abi::WL_ALG_CANNOT_WAKE, 10)]
    {
        let params = wl_alg_params { flags: flags as u8, ..wl_alg_params::default() };
        let s = wl_sample { mss_bytes: TRIM_MSS, ..wl_sample::default() };
        let flow = AlgorithmState::with_params(Algorithm::by_name("trim").unwrap(), &params, &s);
        assert_eq!(flow.decision.cwnd_bytes, segs * TRIM_MSS, "{flags}");
    }
}

/// If so configured, the first train of a connection waits and probes, too, whether the home has measured the handshake as a round
/// trip or beside them: for up to 200 us, and 36 more for full packets. A queue that the probes find takes of its
/// window, but gives no evidence of where slow start should end. The kernel's own sockets have no timers, and keep
/// their window.
#[test]
fn trim_probes_with_the_first_train() {
    let begin = |handshake: wl_sample, flags: u32| {
        let params = wl_alg_params {
            bottleneck_bytes_ps: 125_000_000,
            buffer_bytes: 150_000,
            flags: (flags | abi::WL_ALG_PROBES_AT_ONCE) as u8,
            ..wl_alg_params::default()
        };
        let s =
            wl_sample { mss_bytes: TRIM_MSS, now_us: 1_000_000, is_cwnd_limited: 1, ..wl_sample::default() };
        let flow = AlgorithmState::with_params(
            Algorithm::by_name("trim").unwrap(),
            &params,
            &wl_sample { min_rtt_us: 120, ..wl_sample { mss_bytes: TRIM_MSS, ..handshake } },
        );
        Trim { flow, s: wl_sample { random: u32::MAX, ..s } }
    };
    let measured = wl_sample { srtt_us: 200, ..wl_sample::default() };
    let beside = wl_sample { handshake_rtt_us: 200, ..wl_sample::default() };
    for handshake in [measured, beside] {
        let mut trim = begin(handshake, 0);
        trim.send_after(0);
        assert_eq!((trim.flow.is_held(), trim.flow.wake_at_us().unwrap() - trim.s.now_us), (true, 235));
        trim.timer();
        assert_eq!((trim.cwnd(), trim.flow.is_held()), (2.0, false));
    }
    // D is 156 us with full packets, which the path has shown to others
    for (probe_us, segs) in [(156, 10.0), (234, 5.0), (300, 2.0)] {
        let mut trim = begin(measured, abi::WL_ALG_SYNCHRONOUS);
        trim.send_after(0);
        trim.after(probe_us).ack(2, 0, probe_us);
        trim.go_on();
        assert!((trim.cwnd() - segs).abs() < 0.001, "{probe_us}: {}", trim.cwnd());
        assert_eq!(trim.flow.decision.ssthresh_bytes, abi::WL_CWND_MAX_BYTES);
    }
    let mut trim = begin(measured, abi::WL_ALG_CANNOT_WAKE | abi::WL_ALG_CANNOT_DELAY);
    trim.send_after(0);
    assert_eq!((trim.cwnd(), trim.flow.is_held()), (10.0, false));
}

/// A pause no longer than smooth_rtt, and the first train of a connection unless configured, need no probes.
#[test]
fn trim_probes_only_after_pauses() {
    let mut trim = Trim::new(200, 40, 0);
    trim.ack(1, 0, 200);
    trim.send_after(200);
    assert_eq!((trim.cwnd(), trim.flow.is_held()), (40.0, false));
    let mut trim = Trim::new(0, 10, 0);
    trim.send_after(10_000);
    assert_eq!((trim.cwnd(), trim.flow.is_held()), (10.0, false));
}

/// AD: up to the longest round-trip time. AS: probe RTT 240 us make N = 10; a window of 12 waits for 9 * 12 packets, 1296
/// us, at most.
#[test]
fn trim_waits_are_random_within_their_bounds() {
    let mut trim = Trim::new(240, 12, 0);
    trim.s.random = u32::MAX;
    trim.send_after(1000);
    assert!(trim.flow.is_held());
    let wait_us = trim.flow.wake_at_us().unwrap() - trim.s.now_us;
    assert_eq!(wait_us, 239);
    trim.timer();
    assert!(!trim.flow.is_held());
    trim.after(240).ack(2, 0, 240);
    assert!(trim.flow.is_held());
    assert_eq!(trim.flow.wake_at_us().unwrap() - trim.s.now_us, 1295);
    trim.timer();
    assert_eq!((trim.cwnd(), trim.flow.is_held()), (12.0, false));
}

proptest! {
    /// Any order of events: two segments at least, K between D and its bounds and changed by a smaller D only, never halved
    /// by one ACK, no wait longer than a second.
    #[test]
    fn trim_keeps_its_invariants(events in proptest::collection::vec((0u8..4, 0u32..5000, 1u32..2000, 0u32..60), 1..300)) {
        let mut trim = Trim::new(1500, 10, 0);
        for (kind, us, rtt_us, left) in events {
            let before = trim.flow.clone();
            let (d_us, k_us) = bounds(&mut trim.flow);
            trim.s.random = us.wrapping_mul(0x9e37_79b9);
            match (kind, trim.flow.wake_at_us()) {
                (0, _) => trim.send_after(us),
                (1, Some(_)) => trim.timer(),
                _ => trim.after(us % 300).ack(1, left, rtt_us),
            }
            let (new_d_us, new_k_us) = bounds(&mut trim.flow);
            prop_assert!(trim.cwnd() >= 2.0);
            prop_assert!(new_k_us >= new_d_us && (new_k_us == k_us || new_d_us < d_us));
            let (was, is) = (before.decision.cwnd_bytes, trim.flow.decision.cwnd_bytes);
            if phase(&mut before.clone()) == abi::WL_TRIM_OPEN && left > 0 && kind > 1 {
                prop_assert!(is >= was / 2);
            }
            if let Some(at_us) = trim.flow.wake_at_us() {
                let wait_us = at_us.wrapping_sub(trim.s.now_us) as i32;
                prop_assert!(wait_us <= 1 << 20, "{wait_us}");
            }
            prop_assert!(!trim.flow.is_held() || trim.flow.wake_at_us().is_some(), "held for ever");
        }
    }

    /// Within (22) and (25) wherever they leave room, in real numbers.
    #[test]
    fn trim_k_is_as_in_the_equations(
        mbit in 10u64..100_000, packets in 1u32..20_000, permille in 0i32..=1000, d_us in 1u32..100_000
    ) {
        let (c, d, b) = (mbit as f64 * 1e6 / 8.0 / 1500.0, f64::from(d_us) / 1e6, f64::from(packets));
        let root = (2.0 * c * d).sqrt() - 1.0;
        let lower = if root > 0.0 { (root * root / c).max(d) } else { d };
        // no packet takes longer than that in a data centre: 2^21 us
        let upper = ((b + c * d) / (2.0 * c)).min(2.097152);
        let place = f64::from(permille) / 1000.0;
        let k = if upper < lower { upper.max(d) } else { lower + (upper - lower) * place };
        let got = f64::from(threshold_us(mbit * 125_000, packets * 1500, permille, 1434, d_us));
        let exact = k * 1e6;
        // what one packet takes is less than the resolution of the root's 8 bits of fraction allows for
        prop_assert!((got - exact).abs() <= 2.0 + exact / 100.0, "{got} {exact}");
    }

    /// More sent is never a gentler cut, a window keeps at least its half, and no window grows by a cut.
    #[test]
    fn l2dct_cuts_are_in_order(alpha in 0u32..=1024, a in 0u32..2_000_000, b in 0u32..2_000_000, segs in 4u32..10_000) {
        let after = |sent| {
            let mut flow = start("l2dct");
            flow.decision.cwnd_bytes = segs * MSS;
            let state = l2dct(&mut flow);
            (state.dctcp.alpha, state.delivered_bytes) = (alpha, sent);
            flow.on_congestion(&sample(0), abi::WL_CONGESTION_ECN);
            flow.decision.cwnd_bytes
        };
        let (few, many) = (after(a.min(b)), after(a.max(b)));
        prop_assert!(many <= few && few <= segs * MSS && many >= segs * MSS / 2);
    }
}
