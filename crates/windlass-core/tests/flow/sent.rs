//! What is known of what the sender sends, in whatever order it is seen.

use super::{MSS, ack, flow, ten_sent};
use windlass_core::abi;

/// What acknowledges more than was seen may be of what took another way, if no more than one flow may have in flight; or forged.
#[test]
fn an_ack_far_beyond_is_no_evidence_of_another_path() {
    let hears_more = |sent: u32, ack: u32| {
        let mut f = flow(0);
        f.send(sent, 0);
        f.beyond(ack);
        f.state().flags & abi::WL_FLOW_HEARS_MORE != 0
    };
    assert!(hears_more(MSS, 2 * MSS));
    assert!(hears_more(MSS, MSS + abi::WL_FLOW_STORE_BYTES));
    assert!(!hears_more(MSS, MSS + abi::WL_FLOW_STORE_BYTES + 1));
    assert!(!hears_more(0, MSS), "nothing is in flight that it could be for");
}

/// A chunk of the store may be in use only partly at each end of what is in flight: so much less fits.
#[test]
fn what_is_in_flight_leaves_a_chunk_of_the_store_free() {
    const MOST: u32 = abi::WL_FLOW_STORE_BYTES - abi::WL_CHUNK_BYTES;
    let mut f = flow(5000);
    f.send(5000 + MSS, 0);
    assert_eq!(f.data_kind(5000 + MSS, MOST - MSS), abi::WL_DATA_NEW);
    assert_eq!(f.data_kind(5000 + MSS, MOST - MSS + 1), abi::WL_DATA_TOO_MUCH);
}

/// So many retransmissions may fail before the sender's own passes.
#[test]
fn what_was_sent_as_often_as_allowed_is_taken_care_of() {
    let mut f = ten_sent();
    assert!(!f.is_taken_care_of(0, 3, 40_000), "nothing is known of it");
    f.ack(&ack(0, 40_000, &[(MSS, 10 * MSS)]));
    assert!(f.is_taken_care_of(0, 1, 41_000));
    f.repaired(0, 41_000);
    assert!(f.is_taken_care_of(0, 2, 42_000) && !f.is_taken_care_of(0, 1, 42_000));
}

/// A copy of the head that is not acknowledged within a round trip may be lost as well; of what is behind it SACK would tell.
#[test]
fn a_retransmission_of_the_head_takes_care_of_it_for_a_round_trip() {
    let mut f = ten_sent();
    f.ack(&ack(0, 40_000, &[(MSS, 5 * MSS), (6 * MSS, 10 * MSS)]));
    f.repaired(0, 41_000);
    f.repaired(5 * MSS, 41_000);
    let rtt_us = f.state().srtt_us;
    assert!(f.is_taken_care_of(0, 3, 41_000 + rtt_us - 1) && !f.is_taken_care_of(0, 3, 41_000 + rtt_us));
    assert!(f.is_taken_care_of(5 * MSS, 3, 41_000 + rtt_us));
}

/// What was reordered is recorded when all around it is judged already: it may be lost like anything else.
#[test]
fn what_fills_a_hole_late_is_found_lost_without_a_silence() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    f.send(MSS, 0);
    assert!(f.send_at(2 * MSS, 6 * MSS, 10));
    f.ack(&ack(MSS, 40_000, &[(2 * MSS, 6 * MSS)]));
    assert!(f.send_at(MSS, 2 * MSS, 41_000));
    f.send(8 * MSS, 42_000);
    let s = f.ack(&ack(MSS, 82_000, &[(2 * MSS, 8 * MSS)]));
    assert_eq!((s.lost_bytes, f.next_repair()), (MSS, Some((MSS, MSS))));
}

/// Only one that sends the head again waits for its acknowledgement; any other copy may be a probe of its tail.
#[test]
fn a_sender_waits_if_it_sends_the_head_again() {
    for (seq, waits) in [(0, true), (MSS, true), (MSS + 1, false), (2 * MSS, false)] {
        let mut f = flow(0);
        f.send(4 * MSS, 0);
        f.ack(&ack(MSS, 40_000, &[]));
        f.insists(seq);
        assert_eq!(f.state().flags & abi::WL_FLOW_SENDER_WAITS != 0, waits, "{seq}");
    }
}

/// Data was not observed, and the FIN behind it shows that: the sender has used room up to there.
#[test]
fn the_edge_is_not_behind_a_fin() {
    let mut f = flow(0);
    f.send(MSS, 0);
    f.state_mut().edge = 2 * MSS;
    assert!(!f.fin(MSS, 10));
    assert!(f.fin(5 * MSS, 10));
    assert_eq!((f.state().nxt, f.state().edge, f.state().hole_bytes), (5 * MSS, 5 * MSS, 4 * MSS));
}
