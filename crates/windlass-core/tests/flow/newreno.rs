//! Flows without SACK: what duplicates and partial acknowledgements tell (core/flow/newreno.h).

use super::{MSS, ack};
use windlass_core::{Flow, abi};

/// A receiver without SACK acknowledges what came long ago with what fills the hole before it: Karn's algorithm.
#[test]
fn what_waited_for_a_repair_times_nothing() {
    let mut f = Flow::new(0, MSS, abi::WL_FLOW_PACED_JUDGED);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    f.send(MSS, 0);
    f.ack(&ack(MSS, 10_000, &[]));
    for i in 2..=10 {
        f.send(i * MSS, 10_000);
    }
    for _ in 0..3 {
        f.ack(&ack(MSS, 20_000, &[]));
    }
    assert_eq!(f.next_repair(), Some((MSS, MSS)));
    f.repaired(MSS, 20_000);
    let s = f.ack(&ack(10 * MSS, 90_000, &[]));
    // three were counted as the duplicates came
    assert_eq!((s.newly_delivered_bytes, s.rtt_us, f.state().srtt_us), (6 * MSS, 0, 10_000));
}

/// ... nor is it a rate, where duplicates have told of three only: of twenty segments that are acknowledged with the repair of the
/// first, the others arrived long before.
#[test]
fn what_waited_for_a_repair_gives_no_rate() {
    let mut f = Flow::new(0, MSS, abi::WL_FLOW_PACED_JUDGED);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    (1..=20).for_each(|i| f.send(i * MSS, i * 1000));
    (0..3).for_each(|i| {
        f.ack(&ack(0, 22_000 + i * 1000, &[]));
    });
    assert_eq!(f.next_repair(), Some((0, MSS)));
    f.repaired(0, 25_000);
    f.send(21 * MSS, 25_000);
    let s = f.ack(&ack(20 * MSS, 45_000, &[]));
    assert_eq!((s.newly_delivered_bytes, s.rate_interval_us), (17 * MSS, 0));
    f.send(22 * MSS, 45_000);
    let s = f.ack(&ack(21 * MSS, 46_000, &[]));
    assert_eq!(s.rate_delivered_bytes, 18 * MSS);
    assert!(s.rate_interval_us >= 22_000, "{}", s.rate_interval_us);
}

/// Each duplicate says that a segment has been delivered: rates and rounds go on in a recovery without SACK, and what is acknowledged
/// with the repair is not counted again.
#[test]
fn duplicates_without_sack_count_as_delivered_once() {
    let mut f = Flow::new(0, MSS, abi::WL_FLOW_PACED_JUDGED);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    (1..=20).for_each(|i| f.send(i * MSS, i * 1000));
    for i in 1..20 {
        let s = f.ack(&ack(0, 21_000 + i * 1000, &[]));
        assert_eq!((s.newly_delivered_bytes, s.acked_bytes, f.state().delivered_bytes), (MSS, 0, i * MSS));
        if let Some((seq, _)) = f.next_repair() {
            f.repaired(seq, 25_000);
        }
        if i == 5 {
            f.send(21 * MSS, 26_000);
        }
    }
    let s = f.ack(&ack(20 * MSS, 45_000, &[]));
    assert_eq!((s.newly_delivered_bytes, f.state().delivered_bytes), (MSS, 20 * MSS));
    assert_ne!(s.events & abi::WL_EV_ROUND_START, 0);
    // 17 segments in 20 ms, one a millisecond nearly; where retransmissions set the pace, the path may be faster
    assert_eq!((s.rate_delivered_bytes, s.is_app_limited), (17 * MSS, 1));
    assert!((20_000..25_000).contains(&s.rate_interval_us), "{}", s.rate_interval_us);
}

/// Copies that were not needed draw duplicates, too. More than what is in flight is not counted, and none of it when recovery is over.
#[test]
fn duplicates_without_sack_count_no_more_than_what_is_in_flight() {
    let mut f = Flow::new(0, MSS, abi::WL_FLOW_PACED_JUDGED);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    (1..=10).for_each(|i| f.send(i * MSS, i * 1000));
    (1..=30).for_each(|i| {
        f.ack(&ack(0, 20_000 + i * 100, &[]));
    });
    assert_eq!(f.state().delivered_bytes, 9 * MSS);
    let (seq, _) = f.next_repair().unwrap();
    f.repaired(seq, 24_000);
    f.state_mut().hardship = 20;
    f.ack(&ack(5 * MSS, 45_000, &[]));
    // though most of it was counted before, it is progress
    assert_eq!((f.state().hardship, f.state().progress_at_us), (15, 45_000));
    // the five behind may have drawn all but four of the duplicates
    assert_eq!(f.state().delivered_bytes, 10 * MSS);
    for i in 6..=10 {
        (0..5).for_each(|n| {
            f.ack(&ack((i - 1) * MSS, 46_000 + i * 100 + n, &[]));
        });
        f.ack(&ack(i * MSS, 46_000 + i * 100 + 50, &[]));
        let counted_bytes = f.state().delivered_bytes - f.state().dup_delivered_bytes;
        assert_eq!(counted_bytes, i * MSS);
        assert!(f.state().dup_delivered_bytes <= (10 - i) * MSS, "{i}");
    }
    assert_eq!(f.state().delivered_bytes, 10 * MSS);
}

/// A partial acknowledgement of one hole, of which duplicates behind it have told, is not late: there is a rate.
#[test]
fn a_partial_acknowledgement_without_sack_gives_a_rate() {
    let mut f = Flow::new(0, MSS, abi::WL_FLOW_PACED_JUDGED);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    (1..=20).for_each(|i| f.send(i * MSS, i * 1000));
    for i in 0..15 {
        f.ack(&ack(0, 21_000 + i * 1000, &[]));
        if let Some((seq, _)) = f.next_repair() {
            f.repaired(seq, 24_000);
        }
    }
    let s = f.ack(&ack(MSS, 44_000, &[]));
    assert!(s.rate_interval_us >= 20_000 && s.rate_delivered_bytes > 10 * MSS, "{s:?}");
}

/// Behind a second hole as much is retransmitted as is missing, though part of that has been delivered: the duplicate ACKs of spurious
/// retransmissions report no loss of what was sent later. Further ones do.
#[test]
fn dupacks_of_spurious_retransmissions_without_sack_begin_no_recovery() {
    let mut f = Flow::new(0, MSS, abi::WL_FLOW_PACED_JUDGED);
    f.state_mut().decision.cwnd_bytes = 60 * MSS;
    f.send(MSS, 0);
    f.ack(&ack(MSS, 20_000, &[]));
    (2..=20).for_each(|i| f.send(i * MSS, 20_000 + i * 1000));
    // of nineteen segments nine are lost
    for i in 0..10 {
        f.ack(&ack(MSS, 46_000 + i * 1000, &[]));
        if let Some((seq, _)) = f.next_repair() {
            f.repaired(seq, 49_000);
        }
    }
    f.send(21 * MSS, 60_000);
    f.ack(&ack(2 * MSS, 70_000, &[]));
    let mut retransmitted = 0;
    while let Some((seq, _)) = f.next_repair() {
        f.repaired(seq, 70_000 + retransmitted * 3000);
        retransmitted += 1;
    }
    let recovery_seq = f.state().recovery_seq;
    // the fourth of them has filled the last hole, and others are in flight
    f.ack(&ack(21 * MSS, 91_000, &[]));
    assert!(f.state().flags & abi::WL_FLOW_RECOVERY == 0 && f.state().una != recovery_seq);
    let spurious = u32::from(f.state().spurious_dupacks);
    assert!(spurious > 3 && spurious < retransmitted, "{spurious} of {retransmitted}");
    (22..=40).for_each(|i| f.send(i * MSS, 91_000));
    for i in 0..spurious {
        let s = f.ack(&ack(21 * MSS, 92_000 + i * 1000, &[]));
        assert_eq!((s.lost_bytes, s.newly_delivered_bytes, f.next_repair()), (0, 0, None), "{i}");
    }
    (0..3).for_each(|i| {
        f.ack(&ack(21 * MSS, 112_000 + i, &[]));
    });
    assert_eq!(f.next_repair(), Some((21 * MSS, MSS)));
}
