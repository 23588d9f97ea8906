//! What the box's own probes, and the first silences, show of losses.

use super::{MSS, ack, flow, silence};
use windlass_core::{Flow, abi};

fn flow_without_sack() -> Flow {
    Flow::new(0, MSS, abi::WL_FLOW_PACED_JUDGED)
}

/// Of a hundred segments some are lost, the eleventh first, which three duplicates show. What do they show, and the
/// others that each segment behind it draws, when its copy has arrived? Returns the flow, and the bytes found lost
/// then.
fn lost_behind_the_first(is_lost: impl Fn(u32) -> bool) -> (Flow, u32) {
    let mut f = flow_without_sack();
    f.state_mut().decision.cwnd_bytes = 100 * MSS;
    for i in 1..=100 {
        f.send(i * MSS, i * 10);
    }
    f.ack(&ack(10 * MSS, 10_100, &[]));
    for i in (11..100).filter(|i| !is_lost(*i)) {
        f.ack(&ack(10 * MSS, 10_100 + i * 10, &[]));
        if f.next_repair() == Some((10 * MSS, MSS)) {
            f.repaired(10 * MSS, 10_100 + i * 10);
        }
    }
    assert_eq!(f.state().lost_segs, 1);
    let next = (11..100).find(|i| is_lost(*i)).unwrap();
    let mut lost_bytes = f.ack(&ack(next * MSS, 30_200, &[])).lost_bytes;
    // more than one event may judge
    while f.is_behind() {
        lost_bytes += f.go_on(30_200).0.lost_bytes;
    }
    lost_bytes += f.detect(30_200);
    (f, lost_bytes)
}

/// One more: nothing was reported of those behind that, which had arrived.
#[test]
fn without_sack_a_repair_reveals_the_next_hole_only() {
    let (mut f, lost_bytes) = lost_behind_the_first(|i| i == 50);
    assert_eq!(lost_bytes, MSS);
    assert_eq!(f.next_repair(), Some((50 * MSS, MSS)));
    f.repaired(50 * MSS, 30_200);
    assert_eq!(f.detect(40_000), 0);
    f.ack(&ack(100 * MSS, 40_200, &[]));
    while f.is_behind() {
        f.go_on(40_200);
    }
    assert_eq!((f.state().lost_segs, f.state().flags & abi::WL_FLOW_RECOVERY), (2, 0));
}

/// Twenty more: each by itself would take a round trip, and with all behind them thirty would be needless. Duplicates have told how many
/// arrived.
#[test]
fn without_sack_a_repair_that_finds_many_holes_has_as_many_retransmitted_as_are_missing() {
    let (mut f, lost_bytes) = lost_behind_the_first(|i| (50..70).contains(&i));
    assert_eq!(lost_bytes, 20 * MSS);
    // duplicates have told that the rest is not in flight: a window of twenty holds them
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    for i in 50..70 {
        assert_eq!(f.next_repair(), Some((i * MSS, MSS)));
        f.repaired(i * MSS, 30_200 + i);
    }
    assert_eq!(f.next_repair(), None);
}

/// What was sent since recovery began draws duplicates, too, once the head's copy is acknowledged: they say nothing of what is missing.
#[test]
fn without_sack_duplicates_of_new_data_do_not_hide_holes() {
    let (mut f, _) = lost_behind_the_first(|i| (50..52).contains(&i) || (60..62).contains(&i));
    let dupacks = f.state().dupacks;
    for i in 1..=10 {
        f.ack(&ack(50 * MSS, 30_300 + i, &[]));
    }
    assert_eq!(f.state().dupacks, dupacks);
    // three hundred are counted as well
    let mut f = flow_without_sack();
    f.state_mut().decision.cwnd_bytes = 400 * MSS;
    f.send(400 * MSS, 0);
    (0..300).for_each(|i| {
        f.ack(&ack(0, 10_000 + i, &[]));
    });
    assert_eq!(f.state().dupacks, 300);
}

/// Else each segment of a flight that was lost would wait for a probe of its own.
#[test]
fn without_sack_a_probe_that_arrives_alone_shows_that_the_flight_was_lost() {
    let mut f = flow_without_sack();
    f.send(2 * MSS, 0);
    f.ack(&ack(2 * MSS, 10_000, &[]));
    f.state_mut().decision.cwnd_bytes = 100 * MSS;
    f.send(12 * MSS, 10_000);
    assert_eq!(f.on_silence(90_000), abi::WL_SILENCE_PROBE);
    assert_eq!(f.next_repair(), Some((2 * MSS, MSS)));
    f.repaired(2 * MSS, 90_000);
    assert_eq!(f.ack(&ack(3 * MSS, 100_000, &[])).lost_bytes, 9 * MSS);
}

/// What was sent a moment before the timeout may arrive (RFC 8985, section 6.3): if it does not, RACK finds it lost, by the copy
/// of what was.
#[test]
fn a_timeout_spares_what_was_sent_a_moment_ago() {
    let two_lost = || {
        let mut f = flow(0);
        f.send(2 * MSS, 0);
        f.ack(&ack(2 * MSS, 10_000, &[]));
        f.state_mut().decision.cwnd_bytes = 10 * MSS;
        f.send(3 * MSS, 20_000);
        f.send(4 * MSS, 20_000);
        f
    };
    let (_, at_us) = silence(&mut two_lost(), 20_000);
    for arrives in [true, false] {
        let mut f = two_lost();
        for now_us in (20_000..at_us - 1000).step_by(100) {
            if f.on_silence(now_us) == abi::WL_SILENCE_PROBE {
                f.repaired(2 * MSS, now_us);
            }
        }
        f.send(5 * MSS, at_us - 1000);
        assert_eq!(f.silence(at_us), (abi::WL_SILENCE_TIMEOUT, 2 * MSS));
        for i in 2..4 {
            assert_eq!(f.next_repair(), Some((i * MSS, MSS)));
            f.repaired(i * MSS, at_us);
        }
        assert_eq!(f.next_repair(), None);
        let sample = f.ack(&ack(if arrives { 5 } else { 4 } * MSS, at_us + 10_000, &[]));
        assert_eq!(sample.lost_bytes, if arrives { 0 } else { MSS });
    }
}

/// Of a probe's answer it is not known whether it is to the original: no sample (Karn), and the timeout stays backed off until there
/// is one (RFC 6298, section 5.7). Where the path has become slower than the timeout, a probe of each segment would else be spurious.
#[test]
fn after_a_probe_that_gives_no_sample_comes_no_other() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    f.send(2 * MSS, 0);
    f.ack(&ack(2 * MSS, 10_000, &[]));
    f.send(12 * MSS, 10_000);
    assert_eq!(f.on_silence(30_000), abi::WL_SILENCE_PROBE);
    f.repaired(2 * MSS, 30_000);
    f.ack(&ack(4 * MSS, 45_000, &[]));
    assert_eq!((f.state().srtt_us, f.state().backoff), (10_000, 1));
    assert_eq!(f.on_silence(200_000), abi::WL_SILENCE_NONE);
    f.ack(&ack(6 * MSS, 210_000, &[]));
    assert_eq!((f.state().min_rtt_us, f.state().backoff), (10_000, 0));
    assert!(f.state().srtt_us > 30_000);
}

/// An answer sooner than a round trip after the probe is to the original: what was sent once is a sample, and nothing is lost.
#[test]
fn an_answer_that_comes_too_soon_is_to_the_original() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    f.send(MSS, 0);
    f.ack(&ack(MSS, 20_000, &[]));
    f.send(11 * MSS, 100_000);
    assert_eq!(f.on_silence(320_000), abi::WL_SILENCE_PROBE);
    f.repaired(MSS, 320_000);
    assert_eq!(f.ack(&ack(2 * MSS, 330_000, &[])).lost_bytes, 0);
    assert_eq!(f.ack(&ack(3 * MSS, 430_000, &[])).rtt_us, 330_000);
    assert_eq!(f.next_repair(), None);
}

/// RFC 8985, section 7.2: in recovery RACK and the timeout find what is lost.
#[test]
fn with_sack_nothing_is_probed_in_recovery() {
    let mut f = super::ten_sent();
    f.ack(&ack(0, 40_000, &[(MSS, 10 * MSS)]));
    f.repaired(0, 40_000);
    let (probes_us, timeout_us) = silence(&mut f, 40_000);
    assert!(probes_us.is_empty() && timeout_us >= 240_000, "{probes_us:?} {timeout_us}");
}

/// 128 kbit/s and 4 ms, nothing lost: the head of a response, 240 B, takes 19 ms, a full segment 95 ms, and every second is
/// acknowledged. RFC 6298, section 2.2: what is timed first of such segments is their first sample.
#[test]
fn a_short_head_does_not_show_how_long_full_segments_take() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    f.rtt_begin(9_000);
    f.send(240, 0);
    f.send(240 + 10 * MSS, 0);
    f.ack(&ack(240, 23_000, &[]));
    for i in 1..=5 {
        let at_us = 23_000 + i * 190_000;
        for now_us in (at_us - 189_000..at_us).step_by(1000) {
            assert_eq!(f.on_silence(now_us), abi::WL_SILENCE_NONE, "{i}: {now_us}");
        }
        f.ack(&ack(240 + 2 * i * MSS, at_us, &[]));
    }
}

/// ... and no longer than as much longer than the handshake took as it is larger: 1.4 ms, so 32 ms at most. That the rest of a first
/// flight was lost shows long before the timeout.
#[test]
fn a_flight_lost_behind_a_short_head_is_probed_before_the_timeout() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    f.rtt_begin(1_400);
    f.send(240, 0);
    f.send(240 + 10 * MSS, 0);
    f.ack(&ack(240, 12_000, &[]));
    let wait_us = super::probe_after(&mut f, 12_000) - 12_000;
    assert!((24_000 + 31_000..24_000 + 33_000).contains(&wait_us), "{wait_us}");
}

/// ... but a flow that sends only short ones knows its round trip by them.
#[test]
fn a_flow_of_short_segments_is_probed_by_their_round_trip() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    f.rtt_begin(20_000);
    (1..=30).for_each(|i| f.send(i * 100, i));
    f.ack(&ack(100, 20_000, &[]));
    assert!(super::probe_after(&mut f, 20_000) < 20_000 + 2 * 20_000 + 1000);
}

/// The handshake shows how short the round trip can be, where a queue has stood ever since: an answer within that, and not within less, is
/// to the copy. 20 ms, and 80 with the queue, which is gone when the copy is sent.
#[test]
fn an_answer_no_sooner_than_the_handshakes_is_to_the_copy() {
    for (answer_us, moves_rack) in [(15_000, false), (25_000, true)] {
        let mut f = flow(0);
        f.rtt_begin(20_000);
        f.state_mut().decision.cwnd_bytes = 20 * MSS;
        (1..=10).for_each(|i| f.send(i * MSS, i));
        f.ack(&ack(MSS, 80_000, &[]));
        f.ack(&ack(MSS, 80_100, &[(2 * MSS, 6 * MSS)]));
        assert_eq!(f.next_repair(), Some((MSS, MSS)));
        f.repaired(MSS, 100_000);
        f.ack(&ack(6 * MSS, 100_000 + answer_us, &[]));
        assert_eq!(f.state().rack_sent_at_us == 100_000, moves_rack, "{answer_us}");
    }
}
