//! The flow machine against the worked examples of the drafts and RFCs, and against random networks.

mod absorb;
mod deliveries;
mod echo;
mod edge;
mod first;
mod forgotten;
mod handshake;
mod hooks;
mod large;
mod leaving;
mod marks;
mod network;
mod newreno;
mod paced;
mod pacing;
mod probes;
mod prr;
mod sent;
mod short_segments;
mod shown;
mod silence;
mod start;
mod undo;
mod watched;
mod work;
mod wraps;

use std::collections::BTreeMap;
use windlass_core::{
    Flow,
    abi::{self, wl_ack},
};

const MSS: u32 = 1448;
const SECOND_NS: u64 = 1_000_000_000;

/// What the clock, run every 0.1 ms, finds when nothing arrives until the next timeout: times of the tail's probes,
/// each of which is sent, and of the timeout.
fn silence(f: &mut Flow, from_us: u32) -> (Vec<u32>, u32) {
    let mut probes_us = Vec::new();
    for now_us in (from_us..from_us + 10_000_000).step_by(100) {
        match f.on_silence(now_us) {
            abi::WL_SILENCE_PROBE => {
                let una = f.state().una;
                assert_eq!(f.next_repair(), Some((una, MSS)));
                f.repaired(una, now_us);
                probes_us.push(now_us);
            }
            abi::WL_SILENCE_TIMEOUT | abi::WL_SILENCE_TIMEOUT_AGAIN => return (probes_us, now_us),
            _ => {}
        }
    }
    panic!("the flow stands still");
}

/// When the clock, run every millisecond, finds that the tail is to be probed.
fn probe_after(f: &mut Flow, from_us: u32) -> u32 {
    let mut now_us = from_us;
    while f.on_silence(now_us) != abi::WL_SILENCE_PROBE {
        now_us += 1000;
        assert!(now_us < from_us + 10_000_000, "the flow stands still");
    }
    now_us
}

/// When the clock, run every millisecond, answers the silence of a recovery: by a timeout.
fn timeout_after(f: &mut Flow, from_us: u32) -> u32 {
    let mut now_us = from_us;
    while f.on_silence(now_us) != abi::WL_SILENCE_TIMEOUT_AGAIN {
        now_us += 1000;
        assert!(now_us < from_us + 10_000_000, "the flow stands still");
    }
    now_us
}

/// Of ten segments in flight, one behind the other, with room for more.
fn ten_sent() -> Flow {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    (1..=10).for_each(|i| f.send(i * MSS, i));
    f
}

/// A flow whose start is over.
fn flow(base: u32) -> Flow {
    let mut f = Flow::new(base, MSS, abi::WL_FLOW_SACK | abi::WL_FLOW_PACED_JUDGED);
    f.state_mut().start = abi::WL_START_OVER as u8;
    f
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
fn a_segment_reordered_within_the_reordering_window_is_not_lost() {
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

/// What is sent instead of a lost segment may be lost, and the probe for it: the next probe is not left to the timeout.
#[test]
fn a_silent_tail_is_probed_as_often_as_the_timeout_leaves_time() {
    // round trip, probes at the least: 1.5 round trips and their variance, then twice as long each time; timeout
    let rows: [(u32, &[u32], u32); 3] = [
        (10_000, &[20_000, 40_000, 80_000, 160_000], 20_000 + 210_000),
        (40_000, &[80_000, 160_000], 80_000 + 240_000),
        (200_000, &[400_000], 400_000 + 600_000),
    ];
    for (rtt_us, least_us, timeout_us) in rows {
        let mut f = flow(0);
        f.send(4 * MSS, 0);
        f.ack(&ack(2 * MSS, rtt_us, &[]));
        f.state_mut().decision.cwnd_bytes = 10 * MSS;
        let (probes_us, at_us) = silence(&mut f, rtt_us);
        assert_eq!(probes_us.len(), least_us.len(), "{rtt_us} us: {probes_us:?}");
        for (probe_us, least_us) in probes_us.iter().map(|at_us| at_us - rtt_us).zip(least_us) {
            assert!((*least_us..2 * least_us).contains(&probe_us), "{rtt_us} us: {probe_us}");
        }
        // only the first of them puts it off
        assert!(
            (timeout_us..=timeout_us + timeout_us / 8).contains(&(at_us - rtt_us)),
            "{rtt_us} us: {at_us}"
        );
    }
}

/// A path that stands still for a while: what comes when it goes on acknowledges the flight, not the probe.
#[test]
fn a_probe_into_a_flight_that_is_late_makes_no_losses() {
    for is_one_by_one in [false, true] {
        let mut f = flow(0);
        f.send(2 * MSS, 0);
        f.ack(&ack(2 * MSS, 10_000, &[]));
        f.state_mut().decision.cwnd_bytes = 100 * MSS;
        for i in 3..=50 {
            f.send(i * MSS, 10_000 + i * 10);
        }
        assert_eq!(f.on_silence(80_000), abi::WL_SILENCE_PROBE);
        assert_eq!(f.next_repair(), Some((2 * MSS, MSS)));
        f.repaired(2 * MSS, 80_000);
        let probes = f.state().lost_segs;
        for i in if is_one_by_one { 4..=50 } else { 12..=50 } {
            let s = f.ack(&ack(i * MSS, 120_000 + i * 10, &[]));
            assert_eq!((s.lost_bytes, s.events & abi::WL_EV_RECOVERY_ENTER), (0, 0), "{i}");
        }
        assert_eq!(f.state().lost_segs, probes);
    }
}

/// What the probe repeats was lost, and so was all behind it: the next one that RACK knows of is its time.
#[test]
fn a_probe_that_arrives_alone_shows_that_the_flight_was_lost() {
    let mut f = flow(0);
    f.send(2 * MSS, 0);
    f.ack(&ack(2 * MSS, 10_000, &[]));
    f.state_mut().decision.cwnd_bytes = 100 * MSS;
    f.send(12 * MSS, 10_000);
    assert_eq!(f.on_silence(80_000), abi::WL_SILENCE_PROBE);
    f.next_repair();
    f.repaired(2 * MSS, 80_000);
    assert_eq!(f.ack(&ack(3 * MSS, 90_000, &[])).lost_bytes, 9 * MSS);
}

/// The receiver's application does not get to read, so its ACK of the flight waits for the delayed-ACK timer.
#[test]
fn after_a_spurious_probe_a_delayed_ack_is_waited_for() {
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

/// RFC 2018, section 8: what a receiver has reported it may throw away, and then acknowledges up to there only.
#[test]
fn what_a_receiver_takes_back_is_retransmitted() {
    for base in [0, u32::MAX - 5 * MSS] {
        let mut f = flow(base);
        let at = |seg: u32| base.wrapping_add(seg * MSS);
        f.state_mut().decision.cwnd_bytes = 20 * MSS;
        for i in 1..=10 {
            f.send(at(i), i * 1000);
        }
        f.ack(&ack(at(0), 41_000, &[(at(1), at(10))]));
        assert_eq!(f.next_repair(), Some((at(0), MSS)));
        f.repaired(at(0), 41_000);
        let s = f.ack(&ack(at(1), 81_000, &[]));
        assert_eq!((s.newly_delivered_bytes, f.state().delivered_bytes), (MSS, 10 * MSS));
        assert_eq!(f.next_repair(), None);
        // reports may have been reordered: not before a silence
        let now_us = timeout_after(&mut f, 81_000);
        assert!(now_us < 400_000, "the flow stands still");
        assert_eq!((f.state().sacked_bytes, f.state().delivered_bytes), (0, MSS));
        assert_eq!(f.next_repair(), Some((at(1), MSS)));
        f.repaired(at(1), now_us);
        // the rest was found lost by the timeout
        let s = f.ack(&ack(at(2), now_us + 40_000, &[]));
        assert!(s.rate_delivered_bytes <= 10 * MSS, "{}", s.rate_delivered_bytes);
        for i in 2..10 {
            assert_eq!(f.next_repair(), Some((at(i), MSS)));
            f.repaired(at(i), now_us + 40_000);
        }
        f.ack(&ack(at(10), now_us + 80_000, &[]));
        assert_eq!((f.state().una, f.state().delivered_bytes), (at(10), 10 * MSS));
    }
}

/// A client that keeps the ACK of a lone segment for 200 ms: one spurious probe is sent. That it was shows how late
/// it is, and the ACK of the next one, which is sent once, what to expect.
#[test]
fn a_client_that_delays_its_acks_for_long_gets_one_spurious_probe() {
    let mut f = flow(0);
    f.send(2 * MSS, 0);
    f.ack(&ack(2 * MSS, 30_000, &[]));
    let mut probes = 0;
    for n in 0..20 {
        let (begin_us, end) = (1_000_000 * (n + 1), (3 + n) * MSS);
        f.send(end, begin_us);
        let is_probed = |f: &mut Flow, now_us| match f.on_silence(now_us) {
            abi::WL_SILENCE_NONE => false,
            abi::WL_SILENCE_PROBE => true,
            said => panic!("segment {n}: {said}"),
        };
        match (begin_us..begin_us + 230_000).step_by(100).find(|now_us| is_probed(&mut f, *now_us)) {
            // the copy brings the ACK about
            Some(probed_at_us) => {
                f.repaired(end - MSS, probed_at_us);
                f.ack(&ack(end, probed_at_us + 30_000, &[(end - MSS, end)]));
                probes += 1;
            }
            None => {
                f.ack(&ack(end, begin_us + 230_000, &[]));
            }
        }
    }
    assert_eq!(probes, 1);
}

/// A sender whose data is not acknowledged retransmits it, sooner or later: one that does not has got ACKs by another way.
#[test]
fn a_sender_that_does_not_wait_is_left_alone() {
    for waits in [false, true] {
        let mut f = flow(0);
        f.send(2 * MSS, 0);
        f.ack(&ack(MSS, 40_000, &[]));
        let mut now_us = 40_000;
        let mut answers = [0; 5];
        for _ in 0..8 {
            let answer = loop {
                now_us += 10_000;
                match f.on_silence(now_us) {
                    abi::WL_SILENCE_NONE => {}
                    answer => break answer,
                }
            };
            answers[answer as usize] += 1;
            if answer != abi::WL_SILENCE_UNHEARD {
                f.repaired(MSS, now_us);
            }
            if waits && f.state().backoff == 3 {
                f.insists(MSS);
            }
        }
        assert_eq!(answers, if waits { [0, 1, 0, 1, 6] } else { [0, 1, 2, 1, 4] });
        f.ack(&ack(2 * MSS, now_us, &[]));
        assert_eq!(f.state().flags & (abi::WL_FLOW_SENDER_WAITS | abi::WL_FLOW_HEARS_MORE), 0);
    }
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
        while f.on_silence(now_us) < abi::WL_SILENCE_TIMEOUT {
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
    assert_eq!(f.data_kind(5000 + MSS, abi::WL_FLOW_STORE_BYTES), abi::WL_DATA_TOO_MUCH);
}

/// Two CPUs of the sender's host may hand over a burst in the wrong order.
#[test]
fn reordered_data_closes_the_hole() {
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
fn the_record_of_a_packet_is_cut_where_the_receiver_distinguishes_its_segments() {
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
        f.is_taken_care_of(2 * MSS, 3, 43_000)
            && f.is_taken_care_of(5 * MSS, 3, 43_000)
            && !f.is_taken_care_of(9 * MSS, 3, 43_000)
    );
    assert_eq!(f.next_repair(), Some((2 * MSS, MSS)));
    f.repaired(2 * MSS, 42_000);
    // the server sends one in the middle again
    f.sender_retrans(9 * MSS, 10 * MSS, 43_000);
    assert!(
        f.is_taken_care_of(9 * MSS, 3, 43_000)
            && !f.is_taken_care_of(8 * MSS, 3, 43_000)
            && !f.is_taken_care_of(10 * MSS, 3, 43_000)
    );
    assert_eq!(f.ack(&ack(30 * MSS, 90_000, &[])).newly_delivered_bytes, 24 * MSS);
    assert_eq!((f.state().una_seg, f.state().sacked_bytes), (30 * MSS, 0));
}

#[test]
fn a_packet_lost_as_a_whole_is_retransmitted_segment_by_segment() {
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

/// A longer segment than the path is known to take may be the sender's probe of the path (RFC 4821). It is not
/// repaired, and what becomes of it shows how long segments may be.
#[test]
fn the_path_takes_longer_segments_when_a_probe_has_arrived() {
    const LONG: u32 = MSS + 1200;
    let begin = || {
        let mut f = flow(0);
        f.send(MSS, 0);
        assert!(!f.mtu_probe(MSS, 1000), "no longer than others");
        assert!(f.mtu_probe(LONG, 1000));
        f.state_mut().state = abi::WL_FLOW_BYPASS as u8;
        assert!(!f.mtu_probe(LONG, 2000), "one is out already");
        f.send(5 * MSS + LONG, 2000);
        assert_eq!((f.state().hole_start, f.state().hole_bytes), (MSS, LONG));
        f
    };
    let end = 5 * MSS + LONG;

    let mut f = begin();
    f.ack(&ack(end, 40_000, &[]));
    assert_eq!(u32::from(f.state().mss_bytes), LONG);
    assert!(!f.mtu_probe(LONG, 41_000));

    // lost, and retransmitted in shorter ones by the sender
    let mut f = begin();
    f.ack(&ack(MSS, 40_000, &[(MSS + LONG, end)]));
    assert_eq!(f.state().lost_bytes, 0, "the hole is none of the box's");
    assert!(f.send_at(MSS, 2 * MSS, 41_000) && f.send_at(2 * MSS, MSS + LONG, 41_000));
    assert!(f.is_whole());
    f.ack(&ack(end, 80_000, &[]));
    assert_eq!(u32::from(f.state().mss_bytes), MSS);
    assert!(f.mtu_probe(LONG, 81_000));

    // beside an older hole it is no less the sender's
    let mut f = flow(0);
    f.send_at(MSS, 2 * MSS, 0);
    f.state_mut().state = abi::WL_FLOW_BYPASS as u8;
    assert!(f.mtu_probe(LONG, 1000));
    assert!(!f.mtu_probe(LONG, 2000), "one is out already");
    assert_eq!((f.state().hole_start, f.state().hole_bytes), (0, MSS + LONG));
    f.ack(&ack(2 * MSS + LONG, 40_000, &[]));
    assert_eq!(u32::from(f.state().mss_bytes), MSS);

    // a hole that is more than the probe, or forgotten with the rest, is no evidence
    let mut f = begin();
    f.send_at(end + MSS, end + 2 * MSS, 3000);
    f.ack(&ack(end + 2 * MSS, 40_000, &[]));
    assert_eq!(u32::from(f.state().mss_bytes), MSS);
    let mut f = begin();
    f.forget(end);
    f.ack(&ack(end, 40_000, &[]));
    assert_eq!(u32::from(f.state().mss_bytes), MSS);
}

/// The first segment took 40 ms; the second one is missing when the third comes by, at 50 ms.
fn flow_with_hole() -> Flow {
    let mut f = flow(0);
    f.send(MSS, 0);
    f.ack(&ack(MSS, 40_000, &[]));
    assert!(f.send_at(2 * MSS, 3 * MSS, 50_000));
    f
}

/// The receiver's report of a hole comes after a round trip; by then it is not merely late.
#[test]
fn a_hole_stays_after_half_a_round_trip() {
    let f = flow_with_hole();
    assert!(!f.hole_stays(70_000));
    assert!(f.hole_stays(70_001));
}

/// Karn's rule: a copy that fills a hole in a bypass may not be the one that is acknowledged.
#[test]
fn what_the_sender_mends_in_a_bypass_gives_no_rtt() {
    let mut f = flow_with_hole();
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
    assert_eq!(f.state().una_seg, 9 * 2048 + 50);
}

/// The receiver reports a FIN that has arrived as the byte behind the data (RFC 2018 knows sequence numbers only).
#[test]
fn a_block_that_reports_the_fin_reports_the_data_before_it() {
    for from in [1, 3] {
        let mut f = flow(0);
        for i in 1..=4 {
            f.send(i * MSS, i);
        }
        let state = f.state_mut();
        (state.flags, state.fin_seq) = (state.flags | abi::WL_FLOW_FIN, 4 * MSS);
        let s = f.ack(&ack(0, 40_000, &[(from * MSS, 4 * MSS + 1)]));
        assert_eq!(s.newly_delivered_bytes, (4 - from) * MSS);
        assert_eq!(f.state().sacked_bytes, (4 - from) * MSS);
        let s = f.ack(&ack(4 * MSS + 1, 80_000, &[]));
        assert_eq!((s.newly_delivered_bytes, f.state().una), (from * MSS, 4 * MSS));
    }
}

/// Nothing is in front of the data that a block of the FIN alone could report.
#[test]
fn a_block_that_reports_the_fin_alone_delivers_nothing() {
    let mut f = flow(0);
    f.send(MSS, 0);
    let state = f.state_mut();
    (state.flags, state.fin_seq) = (state.flags | abi::WL_FLOW_FIN, MSS);
    assert_eq!(f.ack(&ack(0, 40_000, &[(MSS, MSS + 1)])).newly_delivered_bytes, 0);
    assert_eq!(f.state().sacked_bytes, 0);
}
