//! What ACKs of one or several segments report beside what has arrived.

use super::{MSS, ack, flow, ten_sent, timeout_after};
use windlass_core::abi;

/// The newest stretch comes first among SACK blocks (RFC 2018, section 4). An ACK that was not lost reports two
/// stretches: whatever its order, they were not reordered.
#[test]
fn new_data_in_two_blocks_is_no_reordering() {
    let has_reordered = |acks: &[&[(u32, u32)]]| {
        let mut f = flow(0);
        (1..=20).for_each(|i| f.send(i * MSS, 1000));
        for (blocks, now_us) in acks.iter().zip(41_000..) {
            let blocks: Vec<_> = blocks.iter().map(|(start, end)| (start * MSS, end * MSS)).collect();
            f.ack(&ack(0, now_us, &blocks));
        }
        f.state().flags & abi::WL_FLOW_REORDERING != 0
    };
    assert!(!has_reordered(&[&[(1, 2)], &[(4, 5), (1, 3)]]));
    assert!(!has_reordered(&[&[(1, 2)], &[(6, 7), (4, 5), (1, 3)]]));
    assert!(has_reordered(&[&[(4, 5)], &[(1, 3), (4, 5)]]));
    assert!(has_reordered(&[&[(4, 5)], &[(6, 7), (4, 5), (1, 3)]]));
}

/// As Linux judges it (FLAG_ACK_MAYBE_DELAYED): the ACK of a full segment, or of one that followed others, did not wait.
#[test]
fn only_the_ack_of_a_lone_short_segment_may_have_waited() {
    let mut f = flow(0);
    f.send(MSS, 1000);
    assert_eq!(f.ack(&ack(MSS, 41_000, &[])).is_ack_delayed, 0);
    let end = MSS + 244;
    f.send(end, 50_000);
    assert_eq!(f.ack(&ack(end, 130_000, &[])).is_ack_delayed, 1);
    f.send(end + MSS, 140_000);
    f.send(end + MSS + 244, 140_000);
    assert_eq!(f.ack(&ack(end + MSS, 180_000, &[])).is_ack_delayed, 0);
    assert_eq!(f.ack(&ack(end + MSS + 244, 181_000, &[])).is_ack_delayed, 0);
    // nor does one that reports a hole
    let end = end + MSS + 244;
    f.send(end + MSS, 200_000);
    f.send(end + MSS + 244, 200_000);
    assert_eq!(f.ack(&ack(end, 240_000, &[(end + MSS, end + MSS + 244)])).is_ack_delayed, 0);
}

/// A receiver cannot have what was not sent. Were it believed, a block that begins alike would not be new up to there.
#[test]
fn a_block_beyond_what_was_sent_hides_none_that_follows() {
    let mut f = flow(0);
    (1..=10).for_each(|i| f.send(i * MSS, i));
    assert_eq!(f.ack(&ack(0, 40_000, &[(2 * MSS, 100 * MSS)])).newly_delivered_bytes, 0);
    (11..=20).for_each(|i| f.send(i * MSS, 50_000 + i));
    assert_eq!(f.ack(&ack(0, 90_000, &[(2 * MSS, 20 * MSS)])).newly_delivered_bytes, 18 * MSS);
}

/// What begins where the receiver still waits would be acknowledged (RFC 2018, section 3): the head would count as delivered.
#[test]
fn a_block_that_begins_at_the_acknowledgement_is_none() {
    let mut f = flow(0);
    (1..=10).for_each(|i| f.send(i * MSS, i));
    assert_eq!(f.ack(&ack(MSS, 40_000, &[(MSS, 3 * MSS)])).newly_delivered_bytes, MSS);
    assert_eq!(f.state().sacked_bytes, 0);
}

/// A block may end within what has one record, which cannot be cut there: when it grows, that record is delivered, too.
#[test]
fn a_record_that_a_block_ends_in_is_delivered_when_the_block_grows() {
    let mut f = flow(0);
    let end = 10 * MSS + 100;
    (1..=9).for_each(|i| f.send(i * MSS, 0));
    f.send(end, 0);
    f.send(end + MSS, 10);
    assert_eq!(f.seg(9 * MSS).map(|seg| u32::from(seg.len_bytes)), Some(MSS + 100));
    f.ack(&ack(0, 40_000, &[(8 * MSS, 10 * MSS)]));
    f.ack(&ack(0, 41_000, &[(8 * MSS, end + MSS)]));
    assert_eq!(f.state().sacked_bytes, end + MSS - 8 * MSS);
}

/// What is sent with the ACK that ends a round is of the next one, which its own ACK ends.
#[test]
fn a_round_ends_with_the_first_segment_that_it_has_let_out() {
    let mut f = flow(0);
    (1..=10).for_each(|i| f.send(i * MSS, 0));
    let mut ends = Vec::new();
    for i in 1..=40 {
        let now_us = 40_000 * (1 + (i - 1) / 10) + i;
        if f.ack(&ack(i * MSS, now_us, &[])).events & abi::WL_EV_ROUND_START != 0 {
            ends.push(i);
        }
        f.send((10 + i) * MSS, now_us);
    }
    assert_eq!(ends, [1, 11, 21, 31]);
    assert_eq!(f.state().round_count, 4);
}

/// The network makes copies, too: only one that the box has sent by mistake shows how late ACKs are.
#[test]
fn what_arrives_twice_without_a_probe_makes_no_ack_late() {
    for is_probed in [false, true] {
        let mut f = flow(0);
        f.send(2 * MSS, 0);
        f.ack(&ack(2 * MSS, 10_000, &[]));
        f.state_mut().decision.cwnd_bytes = 10 * MSS;
        f.send(6 * MSS, 20_000);
        if is_probed {
            assert_eq!(f.on_silence(60_000), abi::WL_SILENCE_PROBE);
            f.repaired(2 * MSS, 60_000);
        }
        f.ack(&ack(6 * MSS, 60_100, &[(2 * MSS, 3 * MSS)]));
        assert_eq!(f.state().flags & abi::WL_FLOW_ACKS_LATE != 0, is_probed);
    }
}

/// Where segments are reordered three behind a hole prove nothing (RFC 8985, section 6.2): it is waited for, as long
/// as spurious retransmissions have taught, and no longer than a round trip and four times what it varies by. A step is a quarter of
/// the shortest round trip, or what round trips vary by if that is more: the box may be near the receiver, and the jitter behind it.
#[test]
fn where_segments_are_reordered_a_hole_is_waited_for() {
    let of_short_jitter = [(1, 10_000), (2, 20_000), (6, 60_000), (16, 70_000), (255, 70_000)];
    let of_long_jitter = [(1, 22_500), (2, 45_000), (5, 112_500), (16, 130_000)];
    let cases = of_short_jitter.map(|case| (10_000, case)).into_iter();
    for (rttvar_us, (reo_wnd_mult, wait_us)) in cases.chain(of_long_jitter.map(|case| (30_000, case))) {
        let mut f = flow(0);
        f.send(MSS, 0);
        f.ack(&ack(MSS, 40_000, &[]));
        // of which the next sample, of a round trip as long, leaves three quarters
        f.state_mut().rttvar_us = rttvar_us;
        f.state_mut().flags |= abi::WL_FLOW_REORDERING;
        f.state_mut().reo_wnd_mult = reo_wnd_mult;
        (2..=10).for_each(|i| f.send(i * MSS, 50_000));
        let (s, until_us) = f.ack_and_wait(&ack(MSS, 90_000, &[(2 * MSS, 10 * MSS)]));
        assert_eq!((s.lost_bytes, until_us), (0, wait_us));
        assert_eq!(f.detect(90_000 + wait_us - 1), 0);
        assert_eq!(f.detect(90_000 + wait_us), MSS);
    }
}

/// Spurious retransmissions, however many in one round trip, teach one step of patience, which fades in sixteen
/// recoveries (RFC 8985, 6.2).
#[test]
fn patience_is_learned_once_a_round_trip_and_fades() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    (1..=10).for_each(|i| f.send(i * MSS, 0));
    f.ack(&ack(2 * MSS, 40_000, &[(0, MSS)]));
    f.ack(&ack(4 * MSS, 40_001, &[(MSS, 2 * MSS)]));
    assert_eq!(f.state().reo_wnd_mult, 2);
    f.ack(&ack(10 * MSS, 40_002, &[]));
    for recovery in 1..=16 {
        let (una, now_us) = (f.state().una, 100_000 * recovery);
        (1..=10).for_each(|i| f.send(una + i * MSS, now_us));
        f.ack(&ack(una, now_us + 40_000, &[(una + MSS, una + 10 * MSS)]));
        f.detect(now_us + 60_000);
        assert_eq!(f.state().reo_wnd_mult, 2, "{recovery}");
        let mut sample = abi::wl_sample::default();
        if f.state().flags & abi::WL_FLOW_RECOVERY == 0 {
            f.recovery_enter(&mut sample);
        }
        f.repaired(una, now_us + 60_000);
        f.ack(&ack(una + 10 * MSS, now_us + 99_000, &[]));
    }
    assert_eq!(f.state().reo_wnd_mult, 1);
}

/// What is in flight after a receiver has taken back what it had reported has not been reordered by that.
#[test]
fn what_a_receiver_takes_back_shows_no_reordering() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    (1..=10).for_each(|i| f.send(i * MSS, i * 1000));
    f.ack(&ack(0, 41_000, &[(MSS, 9 * MSS)]));
    f.repaired(0, 41_000);
    f.ack(&ack(MSS, 81_000, &[]));
    let now_us = timeout_after(&mut f, 81_000);
    f.ack(&ack(5 * MSS, now_us + 1000, &[]));
    assert_eq!(f.state().flags & abi::WL_FLOW_REORDERING, 0);
}

/// The sender retransmits all that it thinks missing, after a timeout of its own: what has arrived stays delivered,
/// and what waited to be retransmitted does not any more.
#[test]
fn what_the_sender_retransmits_is_counted_once() {
    let mut f = ten_sent();
    f.ack(&ack(0, 40_000, &[(MSS, 3 * MSS), (4 * MSS, 10 * MSS)]));
    assert_eq!(f.state().lost_bytes, 2 * MSS);
    f.sender_retrans(0, 10 * MSS, 50_000);
    assert_eq!((f.state().lost_bytes, f.state().sacked_bytes, f.next_repair()), (0, 8 * MSS, None));
    assert_eq!(f.pipe_bytes(), 2 * MSS);
    f.send(11 * MSS, 51_000);
    // both copies are lost, and found so by what was sent behind them
    f.ack(&ack(0, 92_000, &[(10 * MSS, 11 * MSS), (4 * MSS, 10 * MSS), (MSS, 3 * MSS)]));
    assert_eq!((f.state().lost_bytes, f.state().sacked_bytes), (2 * MSS, 9 * MSS));
}

/// Sooner than light allows: the ACK is of the first copy, which was only late. Measured by the second, the rate would be too high.
#[test]
fn an_ack_of_the_first_copy_gives_no_rate() {
    for (acked_us, rate) in [(139_000, (0, 0)), (140_000, (40_000, 2 * MSS))] {
        let mut f = flow(0);
        f.send(MSS, 0);
        f.ack(&ack(MSS, 40_000, &[]));
        f.send(3 * MSS, 100_000);
        f.sender_retrans(MSS, 3 * MSS, 130_000);
        let s = f.ack(&ack(3 * MSS, acked_us, &[]));
        assert_eq!((s.rate_interval_us, s.rate_delivered_bytes), rate);
    }
}

/// That a sender is short of data ends when what it had in flight is delivered, wherever the count of that wraps.
#[test]
fn a_sender_is_short_of_data_until_its_flight_is_delivered() {
    for delivered in [0, u32::MAX - 3 * MSS, u32::MAX - MSS, (1 << 31) - 3 * MSS] {
        let mut f = flow(0);
        f.state_mut().delivered_bytes = delivered;
        f.state_mut().edge = 40 * MSS;
        (1..=10).for_each(|i| f.send(i * MSS, 0));
        f.supply_check(10_000);
        f.supply_check(100_000);
        f.send(11 * MSS, 100_000);
        assert_ne!(f.state().app_limited_until, 0);
        for segs in [1, 9] {
            f.ack(&ack(segs * MSS, 140_000, &[]));
            assert_ne!(f.state().app_limited_until, 0, "{delivered} {segs}");
        }
        assert_eq!(f.ack(&ack(11 * MSS, 141_000, &[])).is_app_limited, 1, "sent meanwhile");
        assert_eq!(f.state().app_limited_until, 0, "{delivered}");
    }
}

/// A copy that is lost again holds up everything behind it: it goes before what has waited for longer.
#[test]
fn a_copy_that_is_lost_again_goes_first() {
    let mut f = ten_sent();
    f.ack(&ack(0, 40_000, &[(MSS, 5 * MSS), (6 * MSS, 10 * MSS)]));
    f.repaired(0, 40_000);
    assert_eq!(f.next_repair(), Some((5 * MSS, MSS)));
    f.send(11 * MSS, 41_000);
    f.ack(&ack(0, 82_000, &[(10 * MSS, 11 * MSS), (6 * MSS, 10 * MSS), (MSS, 5 * MSS)]));
    assert_eq!(f.next_repair(), Some((0, MSS)));
}

/// After a receiver has taken back what it had reported, its reports begin alike, and shorter than before.
#[test]
fn what_is_reported_anew_after_it_was_taken_back_is_newly_delivered() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    (1..=10).for_each(|i| f.send(i * MSS, i * 1000));
    f.ack(&ack(0, 41_000, &[(MSS, 5 * MSS), (6 * MSS, 10 * MSS)]));
    f.repaired(0, 41_000);
    f.ack(&ack(MSS, 81_000, &[]));
    let mut now_us = timeout_after(&mut f, 81_000);
    assert_eq!(f.state().sacked_bytes, 0);
    for end in [7, 8, 9] {
        now_us += 1000;
        let s = f.ack(&ack(MSS, now_us, &[(6 * MSS, end * MSS)]));
        assert_eq!(s.newly_delivered_bytes, MSS, "{end}");
    }
}

/// Two things are waited for where segments are reordered: what was sent once, and what was retransmitted later. The
/// clock comes for the first of them.
#[test]
fn the_earlier_of_two_waits_counts() {
    for (sent_at_us, resent_at_us, wait_us) in [(48_000, 50_000, 7_000), (49_500, 44_000, 3_000)] {
        let mut f = flow(0);
        f.state_mut().decision.cwnd_bytes = 40 * MSS;
        (1..=10).for_each(|i| f.send(i * MSS, 0));
        f.ack(&ack(0, 40_000, &[(MSS, 10 * MSS)]));
        f.state_mut().flags |= abi::WL_FLOW_REORDERING;
        f.state_mut().rttvar_us = 10_000;
        if resent_at_us < sent_at_us {
            f.repaired(0, resent_at_us);
        }
        f.send(11 * MSS, sent_at_us);
        if resent_at_us > sent_at_us {
            f.repaired(0, resent_at_us);
        }
        f.send(12 * MSS, 51_000);
        let (s, until_us) = f.ack_and_wait(&ack(0, 91_000, &[(11 * MSS, 12 * MSS), (MSS, 10 * MSS)]));
        assert_eq!((s.lost_bytes, until_us), (0, wait_us));
    }
}

/// A record that the acknowledgement has entered is cut behind that only: as long as it stands it counts whole.
#[test]
fn a_record_is_not_cut_where_it_is_acknowledged() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    f.send(5000, 0);
    f.send(5000 + 10 * MSS, 10);
    f.ack(&ack(4400, 40_000, &[]));
    // what begins at 5000 belongs to the slot of the second part, too
    f.ack(&ack(4400, 41_000, &[(4990, 5000 + 10 * MSS)]));
    assert_eq!((f.state().sacked_bytes, f.pipe_bytes()), (10 + 10 * MSS, 0));
}
