//! What losses, and what is not counted twice, leave of the windows and the shares of marks.

use super::{Trim, dctcp, l2dct, window_of_marks};
use crate::{MSS, sample, start};
use windlass_core::{
    Algorithm, AlgorithmState,
    abi::{self, wl_alg_params, wl_sample},
};

/// While losses are repaired an empty path is no end of a train: what was lost is still to come.
#[test]
fn trim_does_not_rest_while_losses_are_repaired() {
    for (is_in_recovery, segs) in [(0, 2.0), (1, 20.0)] {
        let mut trim = Trim::new(200, 20, abi::WL_ALG_SYNCHRONOUS);
        trim.s.is_in_recovery = is_in_recovery;
        trim.after(200).ack(1, 0, 200);
        assert_eq!(trim.cwnd(), segs);
    }
}

/// What was halved while it was put by is made up for when it is in force again: a later spurious reduction gives
/// back what that one has taken.
#[test]
fn trim_gives_back_what_the_last_reduction_has_taken() {
    let mut trim = Trim::new(200, 40, abi::WL_ALG_SYNCHRONOUS);
    trim.after(200).ack(1, 0, 200);
    trim.reduce();
    trim.probe(200);
    trim.go_on();
    assert_eq!(trim.cwnd(), 20.0);
    let prior = trim.reduce();
    assert_eq!(trim.cwnd(), 10.0);
    trim.undo(prior, 5);
    assert_eq!(trim.cwnd(), 20.0);
}

/// RFC 8257, section 3.3: a window of data ends when what was in flight at its beginning is delivered, and is not an ACK.
#[test]
fn dctcp_judges_a_window_of_data_by_all_its_acks() {
    let mut flow = start("dctcp");
    let mut alphas = Vec::new();
    for i in 1..=21u32 {
        flow.on_ack(&wl_sample {
            newly_delivered_bytes: MSS,
            delivered_bytes: i * MSS,
            inflight_bytes: 10 * MSS,
            ..sample(0)
        });
        alphas.push(dctcp(&mut flow).alpha);
    }
    // the first window of data was that before anything was in flight
    assert_eq!((alphas[0], alphas[9], alphas[10], alphas[19], alphas[20]), (960, 960, 900, 900, 844));
}

/// No more was marked than delivered, whatever a receiver reports.
#[test]
fn dctcp_believes_in_no_more_marks_than_bytes() {
    let mut flow = start("dctcp");
    let mut total = 0;
    (0..40).for_each(|_| window_of_marks(&mut flow, &mut total, 0));
    let before = dctcp(&mut flow).alpha;
    window_of_marks(&mut flow, &mut total, 100_000);
    let all = before - (before >> 4) + (1024 >> 4);
    assert_eq!(dctcp(&mut flow).alpha, all);
    (0..200).for_each(|_| window_of_marks(&mut flow, &mut total, 100));
    assert!(dctcp(&mut flow).alpha <= 1024);
}

/// Of a policy that wants the share of marks to be followed faster.
#[test]
fn dctcp_follows_marks_as_fast_as_configured() {
    for (gain_shift, alpha) in [(0, 960), (4, 960), (2, 768)] {
        let params = wl_alg_params { gain_shift, ..wl_alg_params::default() };
        let algorithm = Algorithm::by_name("dctcp").unwrap();
        let mut flow = AlgorithmState::with_params(algorithm, &params, &sample(0));
        window_of_marks(&mut flow, &mut 0, 0);
        assert_eq!(dctcp(&mut flow).alpha, alpha);
    }
}

/// What was earned before a cut is not worth a segment after it.
#[test]
fn dctcp_earns_anew_after_a_cut() {
    let mut flow = start("dctcp");
    (flow.decision.cwnd_bytes, flow.decision.ssthresh_bytes) = (20 * MSS, 20 * MSS);
    let ack = |segs| wl_sample { newly_delivered_bytes: segs * MSS, ..sample(0) };
    flow.on_ack(&ack(19));
    dctcp(&mut flow).alpha = 512;
    flow.on_congestion(&sample(0), abi::WL_CONGESTION_ECN);
    assert_eq!(flow.decision.cwnd_bytes, 15 * MSS);
    flow.on_ack(&ack(14));
    assert_eq!(flow.decision.cwnd_bytes, 15 * MSS);
    flow.on_ack(&ack(1));
    assert_eq!(flow.decision.cwnd_bytes, 16 * MSS);
}

/// What is on its way was sent, too; a loss halves, whatever was marked; and marks count as for DCTCP.
#[test]
fn l2dct_counts_what_is_sent_and_marked_and_halves_at_a_loss() {
    let after = |inflight_bytes, why| {
        let mut flow = start("l2dct");
        flow.decision.cwnd_bytes = 100 * MSS;
        l2dct(&mut flow).dctcp.alpha = 256;
        let s = wl_sample { inflight_bytes, inflight_before_bytes: 100 * MSS, ..sample(0) };
        flow.on_congestion(&s, why);
        flow.decision.cwnd_bytes / MSS
    };
    assert_eq!(after(0, abi::WL_CONGESTION_ECN), 98);
    assert_eq!(after(2_000_000, abi::WL_CONGESTION_ECN), 57);
    assert_eq!(after(0, abi::WL_CONGESTION_LOSS), 50);
    let mut flow = start("l2dct");
    window_of_marks(&mut flow, &mut 0, 0);
    assert_eq!(l2dct(&mut flow).dctcp.alpha, 960);
}

/// A flow of many gibibytes stays a long one.
#[test]
fn l2dct_does_not_forget_how_much_was_sent() {
    let mut flow = start("l2dct");
    l2dct(&mut flow).delivered_bytes = u32::MAX - MSS;
    flow.on_ack(&wl_sample { newly_delivered_bytes: 2 * MSS, ..sample(0) });
    assert_eq!(l2dct(&mut flow).delivered_bytes, u32::MAX);
}

/// Linux' Reno halves its window in a timeout, too, whatever is in flight.
#[test]
fn the_kernels_reno_halves_its_window_in_a_timeout() {
    let mut flow = start("kreno");
    flow.decision.cwnd_bytes = 20 * MSS;
    flow.on_timeout(&wl_sample { inflight_before_bytes: 12 * MSS, ..sample(0) });
    assert_eq!((flow.decision.cwnd_bytes, flow.decision.ssthresh_bytes), (MSS, 10 * MSS));
}
