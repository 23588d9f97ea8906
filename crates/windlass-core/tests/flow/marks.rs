//! Marks of congestion (RFC 3168): one reduction for all that was in flight, and nothing is lost for it.

use crate::{MSS, ack, flow};
use windlass_core::{
    Algorithm, Flow,
    abi::{self, wl_ack, wl_sample},
};

/// Ten segments in flight, of a flow with ECN.
fn ten_in_flight(flags: u32) -> Flow {
    let mut f = Flow::new(0, MSS, abi::WL_FLOW_ECN | abi::WL_FLOW_PACED_JUDGED | flags);
    (1..=10).for_each(|i| f.send(i * MSS, 1000));
    f
}

/// An ACK up to `segs` segments that reports a mark: its sample, and whether the algorithm is notified.
fn marked(f: &mut Flow, segs: u32, now_us: u32) -> (wl_sample, bool) {
    let mut sample = f.ack(&wl_ack { has_ece: 1, ..ack(segs * MSS, now_us, &[]) });
    let is_told = f.mark(&mut sample);
    (sample, is_told)
}

/// Section 6.1.2: the receiver repeats a mark until it gets the answer, which new data carry. So the ACK of all that was in
/// flight repeats it, and whatever the receiver sends while its sender has nothing new.
#[test]
fn a_mark_reduces_once_for_all_that_was_in_flight() {
    let mut f = ten_in_flight(abi::WL_FLOW_SACK);
    let (sample, is_told) = marked(&mut f, 2, 41_000);
    assert!(is_told && sample.ce_bytes == 2 * MSS && sample.events & abi::WL_EV_RECOVERY_ENTER != 0);
    assert_ne!(f.state().flags & abi::WL_FLOW_CWR, 0);
    for segs in [4, 9, 10, 10, 10] {
        let (sample, is_told) = marked(&mut f, segs, 42_000);
        assert!(!is_told, "{segs}");
        assert_eq!(
            sample.events & abi::WL_EV_RECOVERY_EXIT != 0,
            f.state().una == 10 * MSS && sample.acked_bytes > 0
        );
    }
    // what is sent from then on may be marked anew
    f.send(12 * MSS, 50_000);
    assert!(marked(&mut f, 11, 91_000).1);
}

/// A loss in a window that a mark has reduced is repaired, and reduces it no more; one without a mark is answered for both.
#[test]
fn a_loss_and_a_mark_of_one_window_reduce_it_once() {
    let lose = |f: &mut Flow| f.ack(&ack(2 * MSS, 43_000, &[(3 * MSS, 10 * MSS)]));
    let mut f = ten_in_flight(abi::WL_FLOW_SACK);
    assert!(marked(&mut f, 2, 41_000).1);
    let sample = lose(&mut f);
    assert_eq!((sample.lost_bytes, sample.events & abi::WL_EV_RECOVERY_ENTER), (MSS, 0));
    let mut f = ten_in_flight(abi::WL_FLOW_SACK);
    f.ack(&ack(2 * MSS, 41_000, &[]));
    let sample = lose(&mut f);
    assert_eq!((sample.lost_bytes, sample.events), (MSS, abi::WL_EV_RECOVERY_ENTER));
    assert_ne!(f.state().flags & abi::WL_FLOW_CWR, 0, "the receiver learns of it");
    assert!(!marked(&mut f, 10, 84_000).1);
}

/// Windows stand while a mark is answered; an algorithm that paces goes by no marks (`tcp_bbr.c` in Linux knows no CWR).
#[test]
fn a_mark_holds_windows_and_not_rates() {
    for (name, is_in_recovery) in [("reno", 1), ("bbr", 0)] {
        let mut f = ten_in_flight(abi::WL_FLOW_SACK);
        f.state_mut().algorithm = Algorithm::by_name(name).unwrap().id() as u8;
        f.call(abi::WL_CALL_INIT, &mut wl_sample::default(), 0, 0);
        let (mut sample, is_told) = marked(&mut f, 2, 41_000);
        f.call(abi::WL_CALL_ACK, &mut sample, 0, 41_000_000);
        assert!(is_told && sample.is_in_recovery == is_in_recovery, "{name}");
        // either is reported to its group
        assert_ne!(sample.events & abi::WL_EV_MARKED, 0, "{name}");
        let mut after = f.ack(&ack(10 * MSS, 82_000, &[]));
        f.call(abi::WL_CALL_ACK, &mut after, 0, 82_000_000);
        assert_eq!(after.events & abi::WL_EV_MARKED, 0, "{name}");
    }
}

/// Without SACK a partial ACK reports the next loss, but not while only a mark has been reported.
#[test]
fn a_mark_is_no_loss() {
    let mut f = ten_in_flight(0);
    assert!(marked(&mut f, 1, 41_000).1);
    for segs in 2..10 {
        assert_eq!(marked(&mut f, segs, 41_000 + segs).0.lost_bytes, 0, "{segs}");
    }
    // nor is what is reordered lost at once: it has a quarter of the round trip
    let mut f = ten_in_flight(abi::WL_FLOW_SACK);
    assert!(marked(&mut f, 1, 41_000).1);
    assert_eq!(f.ack(&ack(MSS, 41_100, &[(2 * MSS, 3 * MSS)])).lost_bytes, 0);
}

/// RFC 5681, section 2: an ACK is a duplicate only with the same window. A receiver whose application reads reports
/// that three times.
#[test]
fn window_updates_are_no_duplicates() {
    for (says_more, lost_bytes) in [(1, 0), (0, MSS)] {
        let mut f = Flow::new(0, MSS, abi::WL_FLOW_PACED_JUDGED);
        (1..=10).for_each(|i| f.send(i * MSS, 1000));
        f.ack(&ack(MSS, 41_000, &[]));
        let updates = (1..=3).map(|i| f.ack(&wl_ack { says_more, ..ack(MSS, 41_000 + i, &[]) }).lost_bytes);
        assert_eq!(updates.sum::<u32>(), lost_bytes, "{says_more}");
    }
}

/// A flow that was only watched may have more in flight than slots can distinguish: what of that is retransmitted is
/// not taken for what has no record, or the records and chunks of what lies before it would be given up for it.
#[test]
fn what_is_beyond_the_store_is_not_late() {
    let mut f = flow(0);
    let (far, most) = (abi::WL_FLOW_STORE_BYTES + (1 << 20), abi::WL_FLOW_STORE_BYTES - abi::WL_CHUNK_BYTES);
    // all of it went past unrecorded: one hole
    let state = f.state_mut();
    (state.nxt, state.hole_bytes, state.hole_start, state.hole_end) = (far + MSS, far + MSS, 0, far + MSS);
    assert_eq!(f.data_kind(most - MSS, MSS), abi::WL_DATA_LATE);
    assert_eq!(f.data_kind(far, MSS), abi::WL_DATA_RETRANS);
}

/// Answers to probes of a window without room repeat the acknowledgement, too.
#[test]
fn answers_to_probes_of_a_closed_window_are_no_duplicates() {
    let mut f = Flow::new(0, MSS, abi::WL_FLOW_PACED_JUDGED);
    (1..=10).for_each(|i| f.send(i * MSS, 1000));
    f.ack(&ack(MSS, 41_000, &[]));
    f.offered(MSS, MSS, 41_000);
    assert_eq!((1..=5).map(|i| f.ack(&ack(MSS, 41_000 + i, &[])).lost_bytes).sum::<u32>(), 0);
    assert_eq!(f.state().dupacks, 0);
}

/// What is lost in a window that a mark has reduced is repaired as ever: in a recovery, which lasts until all of it has arrived.
#[test]
fn a_loss_after_a_mark_is_recovered_from() {
    let mut f = ten_in_flight(abi::WL_FLOW_SACK);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    assert!(marked(&mut f, 1, 41_000).1);
    f.send(12 * MSS, 41_500);
    let s = f.ack(&ack(MSS, 42_000, &[(2 * MSS, 10 * MSS)]));
    assert_eq!((s.lost_bytes, s.events & abi::WL_EV_RECOVERY_ENTER), (MSS, 0), "reduced already");
    f.repaired(MSS, 42_000);
    f.ack(&ack(10 * MSS, 82_000, &[]));
    assert_ne!(
        f.state().flags & abi::WL_FLOW_RECOVERY,
        0,
        "what was in flight as it was found is not all there"
    );
    assert_ne!(f.ack(&ack(12 * MSS, 83_000, &[])).events & abi::WL_EV_RECOVERY_EXIT, 0);
}
