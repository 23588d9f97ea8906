//! What is left of a flow's records when all in flight is forgotten.

use super::{MSS, ack, flow, ten_sent};
use windlass_core::abi;

/// A copy that was under way when all was forgotten is of no record any more, and is not found lost.
#[test]
fn what_was_retransmitted_before_all_is_forgotten_is_not_lost_later() {
    let mut f = ten_sent();
    f.ack(&ack(0, 40_000, &[(MSS, 10 * MSS)]));
    f.repaired(0, 40_000);
    f.forget(10 * MSS);
    (11..=20).for_each(|i| f.send(i * MSS, 50_000 + i));
    f.ack(&ack(10 * MSS, 80_000, &[]));
    let s = f.ack(&ack(19 * MSS, 90_100, &[]));
    assert_eq!((s.lost_bytes, f.detect(200_000)), (0, 0));
    assert_eq!((f.state().lost_bytes, f.next_repair(), f.pipe_bytes()), (0, None, MSS));
}

/// What was reported is not counted any more when all is forgotten: the round that its report began ends with what is sent next.
#[test]
fn a_round_does_not_outlast_what_is_forgotten() {
    let mut f = flow(0);
    (1..=10).for_each(|i| f.send(i * MSS, i));
    f.ack(&ack(0, 40_000, &[(MSS, 10 * MSS)]));
    f.forget(10 * MSS);
    (11..=20).for_each(|i| f.send(i * MSS, 50_000 + i));
    f.ack(&ack(10 * MSS, 80_000, &[]));
    assert_ne!(f.ack(&ack(20 * MSS, 90_100, &[])).events & abi::WL_EV_ROUND_START, 0);
}

/// Nor does an earlier report cover what fills the hole: a shorter report that begins alike is new.
#[test]
fn what_was_reported_before_all_is_forgotten_hides_no_new_report() {
    let mut f = flow(0);
    (1..=10).for_each(|i| f.send(i * MSS, i));
    f.ack(&ack(0, 40_000, &[(6 * MSS, 10 * MSS)]));
    f.state_mut().state = abi::WL_FLOW_BYPASS as u8;
    f.forget(10 * MSS);
    assert_eq!(f.data_kind(6 * MSS, 2 * MSS), abi::WL_DATA_LATE);
    assert!(f.send_at(6 * MSS, 8 * MSS, 50_000));
    f.send(11 * MSS, 50_001);
    f.ack(&ack(0, 90_000, &[(10 * MSS, 11 * MSS)]));
    let s = f.ack(&ack(0, 90_001, &[(6 * MSS, 8 * MSS), (10 * MSS, 11 * MSS)]));
    assert_eq!((s.newly_delivered_bytes, f.state().sacked_bytes), (2 * MSS, 3 * MSS));
}
