//! Whether the sender paces itself.

use super::{MSS, ack, flow};
use windlass_core::{Flow, abi};

const RTT_US: u32 = 40_000;

/// A sender that has room for more, and sends two segments every millisecond: ten, 18, and in the third round trip the others up to
/// the 80th.
fn paced_for_eighty_segments() -> (Flow, u32) {
    paced_in_rounds(&[5, 9, 21])
}

/// The same, of so many pairs in each round trip.
fn paced_in_rounds(pairs: &[u32]) -> (Flow, u32) {
    let mut f = flow(0);
    f.state_mut().flags &= !abi::WL_FLOW_PACED_JUDGED;
    f.state_mut().edge = 1000 * MSS;
    let (mut now_us, mut sent) = (0, 0);
    let mut send = |f: &mut Flow, segs: u32, now_us: u32| {
        for _ in 0..segs {
            sent += MSS;
            assert!(!f.paced_on_data(sent, now_us), "{sent}");
            f.state_mut().sent_at_us = now_us;
            f.send(sent, now_us);
        }
    };
    send(&mut f, 10, 0);
    for (i, n) in pairs.iter().enumerate() {
        now_us += RTT_US;
        // all but the last segment of the round trip before is acknowledged
        let acked = 9 + 2 * pairs[..i].iter().sum::<u32>();
        f.ack(&ack(acked * MSS, now_us, &[]));
        for _ in 0..*n {
            now_us += 1000;
            send(&mut f, 2, now_us);
        }
    }
    (f, now_us + 1000)
}

/// A socket whose rate is limited, or an application that writes little by little, sends as much in each round trip and fills no
/// queue. What it sends next is judged likewise: it may be controlled, and left alone when it grows.
#[test]
fn pauses_without_growth_are_an_applications() {
    let (mut f, now_us) = paced_in_rounds(&[7; 5]);
    assert!(!f.paced_on_data(81 * MSS, now_us));
    assert_eq!(f.state().flags & abi::WL_FLOW_PACED_JUDGED, 0, "not judged yet");
    assert_eq!(f.state().paced_from, 81 * MSS, "judged anew from here on");

    let (mut f, now_us) = paced_in_rounds(&[7; 5]);
    f.state_mut().srtt_us = f.state().min_rtt_us * 3 / 2;
    assert!(f.paced_on_data(81 * MSS, now_us), "it fills the path's queue");
}

/// What a sender sends when an ACK comes is paced by ACKs: a small send buffer, or a client that acknowledges each segment.
#[test]
fn pauses_that_acks_end_are_none() {
    let mut f = flow(0);
    f.state_mut().flags &= !abi::WL_FLOW_PACED_JUDGED;
    f.state_mut().edge = 1000 * MSS;
    for i in 1..=85 {
        let now_us = if i <= 10 { 0 } else { RTT_US + i * 1000 };
        if i > 10 {
            f.ack(&ack((i - 8) * MSS, now_us - 100, &[]));
        }
        assert!(!f.paced_on_data(i * MSS, now_us), "{i}");
        f.state_mut().sent_at_us = now_us;
        f.send(i * MSS, now_us);
    }
    assert_eq!(f.state().own_pauses, 0);
    assert_ne!(f.state().flags & abi::WL_FLOW_PACED_JUDGED, 0, "window-driven");
}

/// Data of a server far from the box answer ACKs of a while ago, and what was granted since is room that it does not know of: 60 ms of
/// the 100 ms that its round trip takes.
#[test]
fn room_that_a_far_server_does_not_know_of_yet_makes_no_pauses() {
    for (room_segs, are_pauses) in [(16, false), (40, true)] {
        let mut most = 0;
        let mut f = flow(0);
        f.state_mut().flags &= !abi::WL_FLOW_PACED_JUDGED;
        f.state_mut().near_rtt_us = 60_000;
        f.state_mut().srtt_us = 40_000;
        for i in 1..=85 {
            let now_us = if i <= 10 { 0 } else { 100_000 + i * 5_000 };
            if i > 10 {
                f.ack(&ack((i - 8) * MSS, now_us - 2_500, &[]));
                f.state_mut().srtt_us = 40_000;
            }
            f.state_mut().edge = (i + room_segs) * MSS;
            assert!(!f.paced_on_data(i * MSS, now_us), "{i}");
            f.state_mut().sent_at_us = now_us;
            f.send(i * MSS, now_us);
            most = most.max(f.state().pauses);
        }
        assert_eq!(most > 60, are_pauses, "{room_segs}: {most}");
        assert_eq!(most == 0, !are_pauses, "{room_segs}: {most}");
    }
}

/// One that is left alone, and then sends whole windows at once, is window-driven after all.
#[test]
fn bursts_of_a_sender_that_is_left_alone_end_that() {
    for (burst_segs, is_driven) in [(2, false), (4, false), (10, true)] {
        let mut f = flow(0);
        f.state_mut().srtt_us = RTT_US;
        let (mut sent, mut now_us, mut driven) = (0, 0, false);
        while sent < 200 * MSS && !driven {
            now_us += RTT_US;
            for _ in 0..burst_segs {
                driven |= f.paced_on_watched(MSS, now_us);
                sent += MSS;
                f.state_mut().nxt = sent;
            }
            f.state_mut().una = sent;
        }
        assert_eq!(driven, is_driven, "bursts of {burst_segs}");
    }
}

/// At high rates Linux paces in packets of a millisecond, which are no bursts.
#[test]
fn packets_of_a_fast_pacing_sender_are_no_bursts() {
    let mut f = flow(0);
    f.state_mut().srtt_us = RTT_US;
    for i in 41..500u32 {
        f.state_mut().nxt = i * 40 * MSS;
        f.state_mut().una = (i - 40) * 40 * MSS;
        assert!(!f.paced_on_watched(40 * MSS, i * 1000));
    }
}

/// The reports that it was not shown come no more: it would have to wait for a timeout.
#[test]
fn a_sender_that_paces_itself_is_left_alone_when_what_was_hidden_is_repaired() {
    let (mut f, now_us) = paced_for_eighty_segments();
    assert!(f.paced_on_data(81 * MSS, now_us));

    let (mut f, now_us) = paced_for_eighty_segments();
    f.state_mut().decision.cwnd_bytes = 100 * MSS;
    f.ack(&ack(37 * MSS, now_us, &[(38 * MSS, 42 * MSS)]));
    assert_eq!(f.next_repair(), Some((37 * MSS, MSS)));
    assert!(!f.paced_on_data(81 * MSS, now_us));
    f.repaired(37 * MSS, now_us);
    f.ack(&ack(37 * MSS, now_us, &[(38 * MSS, 52 * MSS)]));
    assert!(!f.paced_on_data(81 * MSS, now_us));
    assert_eq!(f.state().flags & abi::WL_FLOW_PACED_JUDGED, 0);
    f.ack(&ack(80 * MSS, now_us + RTT_US, &[]));
    assert!(f.paced_on_data(81 * MSS, now_us + RTT_US));
}

/// Losses without end must not keep it from being judged: it stays controlled then.
#[test]
fn a_sender_that_paces_itself_and_loses_all_the_time_is_not_left_alone() {
    let (mut f, now_us) = paced_for_eighty_segments();
    f.ack(&ack(37 * MSS, now_us, &[(38 * MSS, 42 * MSS)]));
    // it is judged for as much longer as it takes
    f.state_mut().paced_from = 0u32.wrapping_sub(909 * MSS);
    assert!(!f.paced_on_data(81 * MSS, now_us));
    assert_eq!(f.state().flags & abi::WL_FLOW_PACED_JUDGED, 0);
    f.state_mut().paced_from = 0u32.wrapping_sub(910 * MSS);
    assert!(!f.paced_on_data(81 * MSS, now_us));
    assert_ne!(f.state().flags & abi::WL_FLOW_PACED_JUDGED, 0);
}
