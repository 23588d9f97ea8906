//! The flow machine against the worked examples of the drafts and RFCs, and against random networks.

use proptest::prelude::*;
use std::collections::BTreeMap;
use windlass_core::{
    Flow,
    abi::{self, wl_ack, wl_sample},
};

const MSS: u32 = 1448;

fn flow(base: u32) -> Flow {
    Flow::new(base, MSS, abi::WL_FLOW_SACK | abi::WL_FLOW_PACED_JUDGED)
}

fn ack(ack: u32, now_us: u32, sacks: &[(u32, u32)]) -> wl_ack {
    let mut a = wl_ack { ack, now_us, sack_count: sacks.len().min(4) as u8, ..wl_ack::default() };
    for (i, (start, end)) in sacks.iter().take(4).enumerate() {
        a.sack_start[i] = *start;
        a.sack_end[i] = *end;
    }
    a
}

/// draft-cheng-iccrg-delivery-rate-estimation: ten packets at once into 1 packet/ms with 40 ms of propagation.
#[test]
fn delivery_rates_match_the_worked_example() {
    let mut f = flow(0);
    for i in 1..=10 {
        f.send(i * MSS, 0);
    }
    let mut rates = BTreeMap::new();
    for i in 1..=25u32 {
        // p1..p10 arrive 41..50 ms after the start, the later ones 41 ms after they were released by an ACK
        let now_ms = if i <= 10 {
            40 + i
        } else if i <= 20 {
            82 + (i - 11)
        } else {
            123 + (i - 21)
        };
        let s = f.ack(&ack(i * MSS, now_ms * 1000, &[]));
        rates.insert(i, (s.rate_delivered_bytes / MSS, s.rate_interval_us / 1000));
        f.send((i + 10) * MSS, now_ms * 1000);
    }
    for (packet, delivered, interval_ms) in
        [(1, 1, 41), (5, 5, 45), (10, 10, 50), (11, 10, 41), (15, 10, 45), (20, 10, 50), (21, 10, 41)]
    {
        assert_eq!(rates[&packet], (delivered, interval_ms), "p{packet}");
    }
}

/// RFC 8985: P2 of four is lost; with no reordering seen, three SACKed segments are enough at once.
#[test]
fn three_sacked_segments_show_a_loss() {
    let mut f = flow(1000);
    for i in 1..=5u32 {
        f.send(1000 + i * MSS, i * 1000);
    }
    f.ack(&ack(1000 + MSS, 41_000, &[]));
    let hole = 1000 + MSS;
    let s = f.ack(&ack(hole, 43_000, &[(hole + MSS, hole + 2 * MSS)]));
    assert_eq!(s.lost_bytes, 0, "one segment may only be overtaken");
    f.ack(&ack(hole, 44_000, &[(hole + MSS, hole + 3 * MSS)]));
    let s = f.ack(&ack(hole, 45_000, &[(hole + MSS, hole + 4 * MSS)]));
    assert_eq!(s.lost_bytes, MSS);
    assert_ne!(s.events & abi::WL_EV_RECOVERY_ENTER, 0);
    f.state_mut().decision.cwnd_bytes = 10 * MSS;
    assert_eq!(f.next_repair(), Some((hole, MSS)));
}

#[test]
fn a_segment_overtaken_within_the_reordering_window_is_not_lost() {
    let mut f = flow(0);
    for i in 1..=3u32 {
        f.send(i * MSS, i * 1000);
    }
    f.ack(&ack(MSS, 41_000, &[]));
    // P3 before P2: a quarter of min_rtt (10 ms) is allowed
    let s = f.ack(&ack(MSS, 43_000, &[(2 * MSS, 3 * MSS)]));
    assert_eq!(s.lost_bytes, 0);
    assert_eq!(f.detect(50_000), 0);
    let s = f.ack(&ack(3 * MSS, 50_500, &[]));
    assert_eq!(s.lost_bytes, 0);
    assert_eq!(f.state().lost_segs, 0);
}

#[test]
fn a_lost_repair_is_found_without_a_timeout() {
    let mut f = flow(0);
    for i in 1..=20u32 {
        f.send(i * MSS, i);
    }
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    f.ack(&ack(0, 40_020, &[(MSS, 10 * MSS)]));
    assert_eq!(f.next_repair(), Some((0, MSS)));
    f.repaired(0, 40_100);
    assert_eq!(f.next_repair(), None);
    f.send(21 * MSS, 40_200);
    // the new segment is delivered, the repair sent before it is not
    f.ack(&ack(0, 80_300, &[(MSS, 21 * MSS)]));
    assert_eq!(f.next_repair(), Some((0, MSS)));
}

#[test]
fn a_silent_tail_is_probed_before_the_timeout() {
    let mut f = flow(0);
    for i in 1..=4u32 {
        f.send(i * MSS, 0);
    }
    f.ack(&ack(2 * MSS, 40_000, &[]));
    f.state_mut().decision.cwnd_bytes = 10 * MSS;
    assert_eq!(f.on_silence(60_000), abi::WL_SILENCE_NONE);
    assert_eq!(f.on_silence(140_000), abi::WL_SILENCE_PROBE);
    assert_eq!(f.next_repair(), Some((2 * MSS, MSS)));
    f.repaired(2 * MSS, 140_000);
    assert_eq!(f.on_silence(200_000), abi::WL_SILENCE_NONE);
    assert_eq!(f.on_silence(500_000), abi::WL_SILENCE_TIMEOUT);
}

/// The receiver's application does not get to read, so its ACK of the flight waits for the delayed-ACK timer.
#[test]
fn after_a_probe_in_vain_a_delayed_ack_is_waited_for() {
    let mut f = flow(0);
    f.send(2 * MSS, 0);
    f.ack(&ack(2 * MSS, 1_000, &[]));
    f.state_mut().decision.cwnd_bytes = 10 * MSS;
    f.send(6 * MSS, 2_000);
    assert_eq!(f.on_silence(6_000), abi::WL_SILENCE_PROBE);
    f.repaired(2 * MSS, 6_000);
    f.ack(&ack(6 * MSS, 6_100, &[(2 * MSS, 3 * MSS)]));
    f.send(10 * MSS, 8_000);
    assert_eq!(f.on_silence(40_000), abi::WL_SILENCE_NONE);
    assert_eq!(f.on_silence(70_000), abi::WL_SILENCE_PROBE);
}

/// Without SACK nothing counts but the head: it must not queue behind others whose copies change nothing.
#[test]
fn after_each_timeout_the_head_goes_first() {
    let mut f = Flow::new(0, MSS, abi::WL_FLOW_PACED_JUDGED);
    for i in 1..=6u32 {
        f.send(i * MSS, 0);
    }
    f.ack(&ack(MSS, 40_000, &[]));
    f.state_mut().decision.cwnd_bytes = MSS;
    let mut now_us = 40_000;
    for _ in 0..5 {
        while f.on_silence(now_us) != abi::WL_SILENCE_TIMEOUT {
            now_us += 10_000;
        }
        assert_eq!(f.next_repair(), Some((MSS, MSS)), "at {now_us} us");
        // this copy is lost like those before
        f.repaired(MSS, now_us);
        assert_eq!(f.next_repair(), None, "the window is full");
    }
    assert_eq!(f.state().lost_bytes, 4 * MSS, "the others still wait");
    // the head arrives at last
    f.ack(&ack(2 * MSS, now_us + 40_000, &[]));
    assert_eq!(f.next_repair(), Some((2 * MSS, MSS)));
}

#[test]
fn what_is_outside_is_recognised() {
    let mut f = flow(5000);
    f.send(5000 + MSS, 0);
    assert_eq!(f.ack_kind(5000 + MSS + 1), abi::WL_ACK_OUTSIDE);
    assert_eq!(f.ack_kind(4000), abi::WL_ACK_STALE);
    assert_eq!(f.ack_kind(5000), abi::WL_ACK_SAME);
    assert_eq!(f.data_kind(5000 + 2 * MSS, 10), abi::WL_DATA_GAP);
    assert_eq!(f.data_kind(4999, 1), abi::WL_DATA_OLD);
    assert_eq!(f.data_kind(5000, MSS), abi::WL_DATA_RETRANS);
    assert_eq!(f.data_kind(5000 + MSS, 9 << 20), abi::WL_DATA_TOO_MUCH);
}

/// Two CPUs of the sender's host may hand over a burst in the wrong order.
#[test]
fn data_that_was_overtaken_closes_the_hole() {
    let mut f = flow(0);
    f.send(2 * MSS, 0);
    assert_eq!(f.data_kind(3 * MSS, MSS), abi::WL_DATA_GAP);
    assert!(f.send_at(3 * MSS, 5 * MSS, 10));
    assert!(!f.is_whole());
    assert_eq!(f.data_kind(2 * MSS, MSS), abi::WL_DATA_LATE);
    assert!(f.send_at(2 * MSS, 3 * MSS, 20));
    assert!(f.is_whole());
    assert_eq!(f.data_kind(2 * MSS, MSS), abi::WL_DATA_RETRANS);
    f.state_mut().decision.cwnd_bytes = 10 * MSS;
    f.ack(&ack(0, 40_000, &[(MSS, 5 * MSS)]));
    assert_eq!(f.state().sacked_bytes, 4 * MSS);
    assert_eq!(f.next_repair(), Some((0, MSS)));
    f.ack(&ack(5 * MSS, 80_000, &[]));
    assert_eq!((f.state().sacked_bytes, f.state().lost_bytes), (0, 0));
}

#[test]
fn holes_end_when_they_are_acknowledged() {
    let mut f = flow(u32::MAX - 3 * MSS);
    let base = f.state().base;
    f.send(base + MSS, 0);
    assert!(f.send_at(base.wrapping_add(4 * MSS), base.wrapping_add(5 * MSS), 10));
    assert!(f.send_at(base.wrapping_add(6 * MSS), base.wrapping_add(7 * MSS), 20), "a second one");
    f.ack(&ack(base.wrapping_add(5 * MSS), 40_000, &[]));
    assert!(!f.is_whole());
    f.ack(&ack(base.wrapping_add(6 * MSS), 40_100, &[]));
    assert!(f.is_whole());
    assert_eq!(f.state().una_seg, base.wrapping_add(6 * MSS));
}

/// What the NIC will cut into segments has one record, until something is known of some of them only.
#[test]
fn the_record_of_a_packet_is_cut_where_the_receiver_tells_its_segments_apart() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    f.send(30 * MSS, 1000);
    assert_eq!(f.seg(0).map(|s| u32::from(s.len_bytes)), Some(30 * MSS));
    let s = f.ack(&ack(2 * MSS, 41_000, &[]));
    assert_eq!((s.newly_delivered_bytes, s.rtt_us, f.state().una_seg), (2 * MSS, 40_000, 2 * MSS));
    let s = f.ack(&ack(2 * MSS, 42_000, &[(3 * MSS, 7 * MSS)]));
    assert_eq!((s.newly_delivered_bytes, s.lost_bytes), (4 * MSS, MSS), "what is behind was sent later");
    let records = [2, 3, 7].map(|i| f.seg(i * MSS).map(|s| u32::from(s.len_bytes)));
    assert_eq!(records, [Some(MSS), Some(4 * MSS), Some(23 * MSS)]);
    assert!(
        f.is_taken_care_of(2 * MSS, 3) && f.is_taken_care_of(5 * MSS, 3) && !f.is_taken_care_of(9 * MSS, 3)
    );
    assert_eq!(f.next_repair(), Some((2 * MSS, MSS)));
    f.repaired(2 * MSS, 42_000);
    // the server sends one in the middle again
    f.sender_retrans(9 * MSS, 10 * MSS, 43_000);
    assert!(
        f.is_taken_care_of(9 * MSS, 3) && !f.is_taken_care_of(8 * MSS, 3) && !f.is_taken_care_of(10 * MSS, 3)
    );
    assert_eq!(f.ack(&ack(30 * MSS, 90_000, &[])).newly_delivered_bytes, 24 * MSS);
    assert_eq!((f.state().una_seg, f.state().sacked_bytes), (30 * MSS, 0));
}

#[test]
fn a_packet_lost_as_a_whole_is_sent_again_segment_by_segment() {
    let mut f = flow(0);
    f.send(10 * MSS, 0);
    f.send(20 * MSS, 10);
    f.ack(&ack(0, 40_000, &[(10 * MSS, 20 * MSS)]));
    assert_eq!((f.state().lost_bytes, f.state().lost_segs), (10 * MSS, 10));
    f.state_mut().decision.cwnd_bytes = 3 * MSS;
    for i in 0..3 {
        assert_eq!(f.next_repair(), Some((i * MSS, MSS)));
        f.repaired(i * MSS, 40_000);
    }
    assert_eq!(f.next_repair(), None, "the window is full");
    assert_eq!(f.state().lost_bytes, 7 * MSS);
}

/// A short last segment often begins in the slot of the next packet's record: it stays with the one before it.
#[test]
fn what_no_slot_is_left_for_stays_with_the_segment_before() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    let (end, tail) = (10 * MSS + 100, 10 * MSS);
    f.send(end, 0);
    f.send(end + 10 * MSS, 10);
    assert_eq!(f.ack(&ack(tail, 40_000, &[])).newly_delivered_bytes, 10 * MSS);
    assert_eq!(f.state().una_seg, 9 * MSS);
    f.ack(&ack(tail, 41_000, &[(end, end + 10 * MSS)]));
    assert_eq!(f.next_repair(), Some((9 * MSS, MSS + 100)));
    assert_eq!(f.ack(&ack(end + 10 * MSS, 80_000, &[])).newly_delivered_bytes, 100);
    assert_eq!(f.state().delivered_bytes, end + 10 * MSS);
}

/// A record is a slot's only one: short segments on both sides of a hole may not have room.
#[test]
fn a_slot_taken_on_the_other_side_of_a_hole_is_reported() {
    let mut f = flow(0);
    f.send(100, 0);
    assert!(!f.send_at(200, 300, 10));
    assert_eq!(f.seg(0).map(|s| s.len_bytes), Some(100));
}

/// A receiver may take back what it has reported (RFC 2018, section 8): here within a record.
#[test]
fn a_delivered_record_acknowledged_in_part_is_counted_once() {
    let mut f = flow(0);
    for i in 1..=3u32 {
        f.send(i * MSS, i);
    }
    assert_eq!(f.ack(&ack(0, 40_000, &[(MSS, 3 * MSS)])).newly_delivered_bytes, 2 * MSS);
    assert_eq!(f.ack(&ack(MSS + 1, 41_000, &[])).newly_delivered_bytes, MSS);
    assert_eq!(f.ack(&ack(3 * MSS, 42_000, &[])).newly_delivered_bytes, 0);
    assert_eq!(f.state().delivered_bytes, 3 * MSS);
}

#[test]
fn what_was_delivered_before_all_is_forgotten_is_counted_once() {
    let mut f = flow(0);
    f.send(3 * MSS, 0);
    f.ack(&ack(0, 40_000, &[(MSS, 3 * MSS)]));
    f.forget(3 * MSS);
    f.ack(&ack(3 * MSS, 41_000, &[]));
    assert_eq!(f.state().delivered_bytes, 3 * MSS);
}

#[test]
fn several_holes_are_filled_in_any_order() {
    let mut f = flow(0);
    f.send(MSS, 0);
    assert!(f.send_at(2 * MSS, 3 * MSS, 10));
    assert!(f.send_at(5 * MSS, 6 * MSS, 20));
    assert_eq!(f.state().hole_bytes, 3 * MSS);
    assert_eq!(f.data_kind(MSS, 2 * MSS), abi::WL_DATA_RETRANS, "its second half has a record");
    assert_eq!(f.data_kind(4 * MSS, MSS), abi::WL_DATA_LATE);
    assert!(f.send_at(4 * MSS, 5 * MSS, 30));
    assert_eq!(f.data_kind(4 * MSS, MSS), abi::WL_DATA_RETRANS);
    assert!(f.send_at(MSS, 2 * MSS, 40));
    assert!(!f.is_whole());
    assert_eq!(f.data_kind(3 * MSS, MSS), abi::WL_DATA_LATE);
    assert!(f.send_at(3 * MSS, 4 * MSS, 50));
    assert!(f.is_whole());
}

/// What the receiver says of a hole comes after a round trip; by then it is not merely late.
#[test]
fn a_hole_stays_after_half_a_round_trip() {
    let mut f = flow(0);
    f.send(MSS, 0);
    f.ack(&ack(MSS, 40_000, &[]));
    assert!(f.send_at(2 * MSS, 3 * MSS, 50_000));
    assert!(!f.hole_stays(70_000));
    assert!(f.hole_stays(70_001));
}

/// Karn's rule: a copy that fills a hole in a bypass may not be the one that is acknowledged.
#[test]
fn what_the_sender_mends_in_a_bypass_gives_no_rtt() {
    let mut f = flow(0);
    f.send(MSS, 0);
    f.ack(&ack(MSS, 40_000, &[]));
    assert!(f.send_at(2 * MSS, 3 * MSS, 50_000));
    f.state_mut().state = abi::WL_FLOW_BYPASS as u8;
    assert!(f.send_at(MSS, 2 * MSS, 90_000));
    assert_eq!(f.ack(&ack(2 * MSS, 90_100, &[])).rtt_us, 0);
    assert_eq!(f.state().min_rtt_us, 40_000);
}

#[test]
fn data_partly_acknowledged_fills_no_hole() {
    let mut f = flow(0);
    f.send(MSS, 0);
    f.forget(3 * MSS);
    f.ack(&ack(100, 40_000, &[]));
    assert_eq!(f.data_kind(0, MSS), abi::WL_DATA_RETRANS);
}

/// Records shorter than a slot, holes between them: a walk must still reach the last one.
#[test]
fn holes_do_not_cut_a_walk_short() {
    let mut f = flow(0);
    for i in 0..10u32 {
        assert!(f.send_at(2048 * i, 2048 * i + 100, i));
    }
    f.ack(&ack(9 * 2048 + 50, 40_000, &[]));
    assert_eq!(f.state().una_seg, 9 * 2048);
}

/// Segment i of ten full ones waits for room that was shown 110 us before; what was shown to a sender that had room left, or
/// from whom nothing is in flight, tells nothing.
#[test]
fn the_senders_own_round_trip_is_from_room_to_what_waited_for_it() {
    const FIRST: u32 = 46 * MSS;
    let send = |f: &mut Flow, segs: u32, now_us: u32| {
        f.state_mut().sent_at_us = now_us;
        f.send(FIRST + segs * MSS, now_us);
    };
    let shown = |f: &mut Flow, segs: u32, now_us: u32| {
        f.edge_shown(u64::from(now_us) * 1000, FIRST + segs * MSS);
    };
    for (granted, acked, sent_us, near_rtt_us) in
        [(4, 1, 1110, 110), (8, 1, 1110, 0), (4, 4, 1110, 0), (4, 1, 1000, 0)]
    {
        let mut f = flow(0);
        shown(&mut f, granted, 0);
        send(&mut f, 4, 10);
        f.ack(&ack(FIRST + acked * MSS, 1000, &[]));
        shown(&mut f, 9, 1000);
        send(&mut f, 9, sent_us);
        assert_eq!(f.state().near_rtt_us, near_rtt_us, "{granted} {acked} {sent_us}");
    }
    // what a SYN may have granted tells nothing either, and the least counts
    let mut f = flow(0);
    for (at_us, near_us) in [(0, 20), (1000, 20), (2000, 200), (3000, 250)] {
        let nxt = f.state().nxt;
        f.ack(&ack(nxt.saturating_sub(MSS), at_us, &[]));
        f.edge_shown(u64::from(at_us) * 1000, nxt + 40 * MSS);
        f.state_mut().sent_at_us = at_us + near_us;
        f.send(nxt + 40 * MSS, at_us + near_us);
    }
    assert_eq!(f.state().near_rtt_us, 200);
}

/// The right edge never moves left, whatever the window does.
#[test]
fn the_edge_never_moves_left() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    f.state_mut().decision.pacing_bytes_ps = u64::MAX;
    f.edge_advance(1_000_000);
    let edge = f.state().edge;
    assert_eq!(edge, 20 * MSS);
    f.state_mut().decision.cwnd_bytes = 4 * MSS;
    f.edge_advance(2_000_000);
    assert_eq!(f.state().edge, edge);
}

/// With parts of segments left over at both ends of what is granted, the window is in use all the same.
#[test]
fn a_window_is_in_use_when_no_further_segment_fits() {
    let is_limited = |cwnd_bytes: u32, edge: u32, nxt: u32| {
        let mut f = flow(0);
        let state = f.state_mut();
        (state.decision.cwnd_bytes, state.decision.ssthresh_bytes, state.edge) = (cwnd_bytes, MSS, edge);
        f.send(nxt, 0);
        f.cwnd_limited_check();
        f.state().flags & abi::WL_FLOW_CWND_LIMITED != 0
    };
    assert!(is_limited(10 * MSS, 10 * MSS, 9 * MSS));
    // two and a half were granted of three and a half: two can be sent, and the next half is not worth a packet
    assert!(is_limited(3 * MSS + MSS / 2, 2 * MSS + MSS / 2, 2 * MSS));
    // the sender had more room, and left it
    assert!(!is_limited(3 * MSS + MSS / 2, 3 * MSS + MSS / 2, 2 * MSS));
    assert!(!is_limited(10 * MSS, 8 * MSS, 8 * MSS));
}

#[test]
fn pacing_releases_room_at_its_rate() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 1 << 20;
    f.state_mut().decision.pacing_bytes_ps = 1_000_000;
    f.state_mut().srtt_us = 40_000;
    for ms in 0..1000u64 {
        f.edge_advance(10_000_000_000 + ms * 1_000_000);
        let edge = f.state().edge;
        if edge != f.state().nxt {
            f.send(edge, (ms * 1000) as u32);
            let nxt = f.state().nxt;
            f.ack(&ack(nxt, (ms * 1000) as u32, &[]));
        }
    }
    let sent = f64::from(f.state().nxt);
    assert!((sent - 1e6).abs() < 0.01e6 + 3.0 * f64::from(MSS), "{sent}");
}

/// A flow paced by departure times at 1 MB/s, in the middle of its life.
fn departing() -> Flow {
    let mut f = flow(0);
    f.state_mut().flags |= abi::WL_FLOW_DEPARTS;
    f.state_mut().decision.cwnd_bytes = 1 << 20;
    f.state_mut().decision.pacing_bytes_ps = 1_000_000;
    f.state_mut().srtt_us = 40_000;
    f
}

const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn departures_are_spaced_at_the_rate_and_the_sender_runs_ahead_by_milliseconds_only() {
    let mut f = departing();
    let mut last_ns = 0;
    let mut grants = 0;
    for tick in 0..2000u64 {
        let now_ns = 10 * SECOND_NS + tick * 500_000;
        // nothing but the edge asks for the clock
        f.state_mut().shown_una = f.state().una;
        let deadline_ns = f.deadline_ns(now_ns, 0);
        if deadline_ns != 0 && deadline_ns <= now_ns {
            f.edge_advance(now_ns);
            grants += 1;
        }
        // the sender uses at once what it is granted
        while f.state().edge.wrapping_sub(f.state().nxt) >= MSS {
            let at_ns = f.depart_ns(now_ns, MSS);
            assert!(at_ns >= now_ns && at_ns - now_ns <= 8_000_000, "{} ns ahead", at_ns - now_ns);
            // a millisecond may be caught up with
            assert!(
                last_ns == 0 || at_ns - last_ns >= u64::from(MSS) * 1000 - 1_000_000,
                "{last_ns} {at_ns}"
            );
            last_ns = at_ns;
            let nxt = f.state().nxt;
            f.send(nxt + MSS, (at_ns / 1000) as u32);
        }
        let nxt = f.state().nxt;
        f.ack(&ack(nxt, (last_ns / 1000) as u32, &[]));
    }
    let sent = f64::from(f.state().nxt);
    assert!((sent - 1e6).abs() < 0.02e6, "{sent}");
    // not one a segment, of which there are 690
    assert!(grants <= 400, "{grants}");
}

#[test]
fn a_sender_that_overruns_its_window_waits_a_tenth_of_a_second_at_most() {
    let mut f = departing();
    let now_ns = 10 * SECOND_NS;
    let at_ns = (0..1000).map(|_| f.depart_ns(now_ns, MSS)).last();
    assert_eq!(at_ns, Some(now_ns + SECOND_NS / 10));
}

/// No fq keeps the departure times: an ACK comes before its segment should have left.
#[test]
fn an_ack_that_comes_before_the_departure_is_no_long_round_trip() {
    let mut f = departing();
    f.send(MSS, 50_000);
    let sample = f.ack(&ack(MSS, 48_000, &[]));
    assert_eq!(sample.rtt_us, 1);
    assert_eq!(f.on_silence(48_000), abi::WL_SILENCE_NONE);
}

type Blocks = Vec<(u32, u32)>;

/// A receiver that has every byte range it was given, and says so.
#[derive(Default)]
struct Receiver {
    next: u32,
    ahead: BTreeMap<u32, u32>,
}

impl Receiver {
    /// Takes stream offsets [start, end).
    fn take(&mut self, start: u32, end: u32) {
        self.ahead.insert(start, end.max(self.ahead.get(&start).copied().unwrap_or(0)));
        while let Some((&s, &e)) = self.ahead.iter().find(|(s, _)| **s <= self.next) {
            self.next = self.next.max(e);
            self.ahead.remove(&s);
        }
    }

    /// Up to three merged blocks, the highest first.
    fn blocks(&self) -> Blocks {
        let mut merged: Vec<(u32, u32)> = Vec::new();
        for (&s, &e) in &self.ahead {
            match merged.last_mut() {
                Some(last) if s <= last.1 => last.1 = last.1.max(e),
                _ => merged.push((s, e)),
            }
        }
        merged.reverse();
        merged.truncate(3);
        merged
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A network that loses, duplicates and reorders, any start of the sequence space, segments of any length:
    /// every byte arrives, is counted once, and the scoreboard stays sound.
    #[test]
    fn every_byte_arrives_and_is_counted_once(
        base in prop_oneof![any::<u32>(), Just(u32::MAX - 20_000)],
        seed in any::<u64>(),
        loss in 0u64..20,
        short in any::<bool>(),
    ) {
        let mut f = flow(base);
        f.state_mut().decision.cwnd_bytes = 30 * MSS;
        let mut rng = seed | 1;
        let mut random = move || { rng ^= rng << 13; rng ^= rng >> 7; rng ^= rng << 17; rng };
        let total = 200 * MSS;
        let mut receiver = Receiver::default();
        // (arrival time, order, start, end) of data, and ACKs on their way back
        let mut wire: BTreeMap<(u32, u32), (u32, u32)> = BTreeMap::new();
        let mut acks: BTreeMap<(u32, u32), (u32, Blocks)> = BTreeMap::new();
        let mut order = 0;
        let mut counted = 0u64;
        let mut now = 1000u32;
        let mut sent = 0u32;
        for _ in 0..200_000 {
            if f.state().una == base.wrapping_add(total) { break; }
            now += 200;
            let mut transmit = |start: u32, end: u32, r: u64, wire: &mut BTreeMap<_, _>| {
                order += 1;
                if r % 100 >= loss {
                    wire.insert((now + 20_000 + (r >> 32) as u32 % 3000, order), (start, end));
                }
            };
            while let Some((seq, len)) = f.next_repair() {
                let start = seq.wrapping_sub(base);
                transmit(start, start + len, random(), &mut wire);
                f.repaired(seq, now);
            }
            while sent < total && f.state().nxt.wrapping_sub(f.state().una) < 30 * MSS {
                let len = if short { 1 + random() as u32 % MSS } else { MSS }.min(total - sent);
                f.send(base.wrapping_add(sent + len), now);
                transmit(sent, sent + len, random(), &mut wire);
                sent += len;
            }
            while let Some((&key, &(start, end))) = wire.iter().next() && key.0 <= now {
                wire.remove(&key);
                receiver.take(start, end);
                order += 1;
                if random() % 100 >= loss {
                    acks.insert((now + 20_000, order), (receiver.next, receiver.blocks()));
                }
            }
            while let Some((key, (next, blocks))) = acks.pop_first() {
                if key.0 > now { acks.insert(key, (next, blocks)); break; }
                let a = base.wrapping_add(next);
                if f.ack_kind(a) < abi::WL_ACK_SAME { continue; }
                let blocks: Vec<_> = blocks.iter().map(|(s, e)| (base.wrapping_add(*s), base.wrapping_add(*e))).collect();
                let s: wl_sample = f.ack(&ack(a, now, &blocks));
                counted += u64::from(s.newly_delivered_bytes);
                let state = f.state();
                let out = state.nxt.wrapping_sub(state.una_seg);
                prop_assert!(state.sacked_bytes + state.lost_bytes <= out, "{} {} {}", state.sacked_bytes, state.lost_bytes, out);
                prop_assert_eq!(s.inflight_bytes, out - state.sacked_bytes - state.lost_bytes);
            }
            f.detect(now);
            f.on_silence(now);
        }
        prop_assert_eq!(f.state().una, base.wrapping_add(total));
        if !short {
            prop_assert_eq!(counted, u64::from(total));
            prop_assert_eq!(f.state().delivered_bytes, total);
        }
        prop_assert_eq!(f.state().sacked_bytes, 0);
        prop_assert_eq!(f.state().lost_bytes, 0);
    }

    /// However many segments go into a record, all that is said of the flow is the same.
    #[test]
    fn packets_are_judged_as_their_segments_are(
        base in prop_oneof![any::<u32>(), Just(u32::MAX - 20_000)],
        seed in any::<u64>(),
        loss in 0u64..20,
        packet_segs in 2u32..60,
    ) {
        let mut rng = seed | 1;
        let mut random = move || { rng ^= rng << 13; rng ^= rng >> 7; rng ^= rng << 17; rng };
        let (mut by_packet, mut by_segment) = (flow(base), flow(base));
        for f in [&mut by_packet, &mut by_segment] {
            f.state_mut().decision.cwnd_bytes = 100 * MSS;
        }
        let total = 400;
        let mut receiver = Receiver::default();
        let mut wire: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let (mut now, mut sent, mut order) = (1000u32, 0, 0);
        let seq = |segs: u32| base.wrapping_add(segs * MSS);
        for _ in 0..100_000 {
            if by_packet.state().una == seq(total) { break; }
            now += 200;
            let mut transmit = |seg: u32, r: u64| {
                order += 1;
                if r % 100 >= loss {
                    wire.insert((now + 40_000 + (r >> 32) as u32 % 3000, order), seg);
                }
            };
            if sent < total && by_packet.state().nxt.wrapping_sub(by_packet.state().una) < 100 * MSS {
                let segs = (1 + random() as u32 % packet_segs).min(total - sent);
                by_packet.send(seq(sent + segs), now);
                for seg in sent..sent + segs {
                    by_segment.send(seq(seg + 1), now);
                    transmit(seg, random());
                }
                sent += segs;
            }
            while let Some((at, len)) = by_packet.next_repair() {
                prop_assert_eq!(by_segment.next_repair(), Some((at, len)));
                transmit(at.wrapping_sub(base) / MSS, random());
                by_packet.repaired(at, now);
                by_segment.repaired(at, now);
            }
            prop_assert_eq!(by_segment.next_repair(), None);
            while let Some((&key, &seg)) = wire.iter().next() && key.0 <= now {
                wire.remove(&key);
                receiver.take(seg * MSS, (seg + 1) * MSS);
                if random() % 100 < loss { continue; }
                let blocks: Vec<_> = receiver.blocks().iter().map(|(s, e)| (base.wrapping_add(*s), base.wrapping_add(*e))).collect();
                let ack = ack(base.wrapping_add(receiver.next), now, &blocks);
                prop_assert_eq!(by_packet.ack_and_wait(&ack), by_segment.ack_and_wait(&ack));
            }
            prop_assert_eq!(by_packet.judge(now), by_segment.judge(now));
            prop_assert_eq!(by_packet.silence(now), by_segment.silence(now));
            prop_assert_eq!(by_packet.state().lost_segs, by_segment.state().lost_segs);
        }
        prop_assert_eq!(by_packet.state().una, seq(total));
    }

    /// Nonsense in SACK blocks is ignored and leaves the scoreboard sound.
    #[test]
    fn lying_sack_blocks_do_no_harm(blocks in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..4), near in any::<bool>()) {
        let mut f = flow(0);
        for i in 1..=30 { f.send(i * MSS, i); }
        let blocks: Vec<_> = blocks.iter().map(|(s, e)| if near { (s % (40 * MSS), e % (40 * MSS)) } else { (*s, *e) }).collect();
        f.ack(&ack(MSS, 40_000, &blocks));
        f.ack(&ack(2 * MSS, 41_000, &blocks));
        let s = f.state();
        prop_assert!(s.sacked_bytes + s.lost_bytes <= 28 * MSS);
        prop_assert!(s.una == 2 * MSS && s.nxt == 30 * MSS);
    }
}

/// A flow that is only watched: what round trips it has, and what it delivers.
fn watched(base: u32) -> Flow {
    let mut f = flow(base);
    f.state_mut().mode = abi::WL_MODE_WATCH as u8;
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
fn watched_data_that_was_overtaken_was_not_sent_again() {
    let mut f = watched(0);
    assert_eq!(f.watch_data(2 * MSS, MSS, 0), abi::WL_DATA_GAP);
    assert_eq!(f.watch_data(0, MSS, 0), abi::WL_DATA_LATE);
    assert_eq!(f.watch_data(MSS, MSS, 0), abi::WL_DATA_LATE);
    assert_eq!(f.watch_data(MSS, MSS, 0), abi::WL_DATA_RETRANS);
    // a hole of an earlier window says nothing of this one
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
    f.state_mut().mode = abi::WL_MODE_ENFORCE as u8;
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
                let timed = s.rack_end_seq.wrapping_sub(s.una);
                prop_assert!(timed > 0 && timed <= in_flight, "{} of {}", timed, in_flight);
            }
        }
        f.watch_end(1_000_000);
        prop_assert_eq!(f.pipe_bytes(), f.state().nxt.wrapping_sub(f.state().una));
    }
}
