//! Flows that are only watched.

use crate::{MSS, ack, flow};
use proptest::prelude::*;
use windlass_core::{Flow, abi};

/// A flow that is only watched: what round trips it has, and what it delivers.
fn watched(base: u32) -> Flow {
    let mut f = flow(base);
    f.state_mut().state = abi::WL_FLOW_WATCHED as u8;
    f.state_mut().rcv_edge = base;
    f
}

#[test]
fn watched_one_stretch_per_round_trip_is_timed() {
    let base = u32::MAX - MSS;
    let mut f = watched(base);
    for i in 0..4u32 {
        let kind = f.watch_data(base.wrapping_add(i * MSS), MSS, 1000 + i * 1000);
        assert_eq!(kind, abi::WL_DATA_NEW);
    }
    // the first segment is timed; later ones are not, until its ACK came
    f.watch_ack(base.wrapping_add(MSS), base.wrapping_add(65535), 41_000);
    assert_eq!((f.state().srtt_us, f.state().round_count), (40_000, 1));
    f.watch_ack(base.wrapping_add(2 * MSS), base.wrapping_add(65535), 90_000);
    assert_eq!((f.state().min_rtt_us, f.state().round_count), (40_000, 1));
    assert_eq!(f.state().delivered_bytes, 2 * MSS);
    assert_eq!(f.state().rcv_edge, base.wrapping_add(65535));
    f.watch_data(base.wrapping_add(4 * MSS), MSS, 100_000);
    f.watch_ack(base.wrapping_add(5 * MSS), base.wrapping_add(65535), 130_000);
    assert_eq!((f.state().min_rtt_us, f.state().delivered_bytes), (30_000, 5 * MSS));
}

/// Karn: the ACK may be of either copy, or have waited for the one that was lost.
#[test]
fn watched_a_round_trip_with_a_retransmission_is_not_timed() {
    let mut f = watched(0);
    f.watch_data(0, 2 * MSS, 1000);
    assert_eq!(f.watch_data(0, MSS, 200_000), abi::WL_DATA_RETRANS);
    f.watch_ack(2 * MSS, 65535, 240_000);
    assert_eq!((f.state().srtt_us, f.state().sender_retrans_segs), (0, 1));
    assert_eq!(f.watch_data(MSS, MSS, 250_000), abi::WL_DATA_OLD);
    assert_eq!(f.watch_data(2 * MSS, (1 << 30) + 1, 250_000), abi::WL_DATA_TOO_MUCH);
    assert_eq!(f.state().nxt, 2 * MSS);
}

#[test]
fn watched_data_that_was_reordered_was_not_retransmitted() {
    let mut f = watched(0);
    assert_eq!(f.watch_data(2 * MSS, MSS, 0), abi::WL_DATA_GAP);
    assert_eq!(f.watch_data(0, MSS, 0), abi::WL_DATA_LATE);
    assert_eq!(f.watch_data(MSS, MSS, 0), abi::WL_DATA_LATE);
    assert_eq!(f.watch_data(MSS, MSS, 0), abi::WL_DATA_RETRANS);
    // a hole of an earlier window is no evidence about this one
    f.watch_ack(3 * MSS, 65535, 10);
    assert_eq!(f.watch_data(4 * MSS, MSS, 20), abi::WL_DATA_GAP);
    f.watch_ack(5 * MSS, 65535, 30);
    assert_eq!(f.watch_data(6 * MSS, MSS, 40), abi::WL_DATA_GAP);
    assert_eq!((f.state().hole_start, f.state().hole_bytes), (5 * MSS, MSS));
}

/// However much went by: what was in flight has no record, and what comes then is measured and repaired like any other.
#[test]
fn a_watched_flow_that_is_controlled_takes_up_a_clean_scoreboard() {
    let mut f = watched(0);
    let mut at = 0u32;
    for i in 0..3000u32 {
        f.watch_data(at, 1 << 20, i * 1000);
        at = at.wrapping_add(1 << 20);
        f.watch_ack(at.wrapping_sub(10 * MSS), at.wrapping_add(100_000), i * 1000 + 500);
    }
    let now_us = 3_000_000;
    f.state_mut().state = abi::WL_FLOW_ACTIVE as u8;
    f.watch_end(now_us);
    let s = *f.state();
    assert_eq!((s.edge, s.hole_bytes, f.pipe_bytes()), (at.wrapping_add(100_000), 10 * MSS, 10 * MSS));
    for i in 1..=4 {
        f.send(at.wrapping_add(i * MSS), now_us + i);
    }
    let sample = f.ack(&ack(at, now_us + 20_000, &[]));
    assert_eq!((sample.acked_bytes, sample.rtt_us, sample.rate_interval_us), (10 * MSS, 0, 0));
    assert!(f.is_whole());
    let sample = f.ack(&ack(at.wrapping_add(MSS), now_us + 40_001, &[]));
    assert_eq!((sample.acked_bytes, sample.rtt_us, sample.lost_bytes), (MSS, 40_000, 0));
    let end = at.wrapping_add(4 * MSS);
    assert_eq!(f.ack(&ack(end, now_us + 41_000, &[])).newly_delivered_bytes, 3 * MSS);
    assert_eq!(f.pipe_bytes(), 0);
}

proptest! {
    /// Whatever passes, near or far, in whatever order: what is known of a watched flow stays sound.
    #[test]
    fn watched_any_packets_leave_the_flow_sound(
        base in prop_oneof![any::<u32>(), Just(u32::MAX - 20_000)],
        packets in proptest::collection::vec((any::<bool>(), any::<bool>(), any::<u32>(), 1u32..65_536), 0..200),
    ) {
        let mut f = watched(base);
        for (i, (is_data, is_near, at, len)) in packets.into_iter().enumerate() {
            let seq = if is_near { f.state().una.wrapping_add(at % 200_000) } else { at };
            let now_us = i as u32 * 100;
            if is_data {
                f.watch_data(seq, len, now_us);
            } else if f.ack_kind(seq) >= abi::WL_ACK_SAME {
                f.watch_ack(seq, seq.wrapping_add(len), now_us);
            }
            let s = f.state();
            let in_flight = s.nxt.wrapping_sub(s.una);
            prop_assert!(in_flight <= abi::WL_CWND_MAX_BYTES);
            prop_assert_eq!(s.delivered_bytes, s.una.wrapping_sub(base));
            if s.flags & abi::WL_FLOW_TIMED != 0 {
                let timed = s.round_end_seq.wrapping_sub(s.una);
                prop_assert!(timed > 0 && timed <= in_flight, "{} of {}", timed, in_flight);
            }
        }
        f.watch_end(1_000_000);
        prop_assert_eq!(f.pipe_bytes(), f.state().nxt.wrapping_sub(f.state().una));
    }
}
