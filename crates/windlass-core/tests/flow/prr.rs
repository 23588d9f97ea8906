//! Proportional rate reduction (RFC 9937): what is delivered clocks what recovery retransmits.

use super::{MSS, ack, flow};
use windlass_core::{Algorithm, Flow, abi};

/// Segments of a window of 60 that are retransmitted by the time of the ACK which reports the `reported`th to have arrived. Of each three
/// the first two are lost, by a policer or a small buffer, and the window has room for all of them.
fn resent(f: &mut Flow, reported: u32) -> Vec<u32> {
    f.state_mut().decision.cwnd_bytes = 60 * MSS;
    (1..=60).for_each(|i| f.send(i * MSS, i));
    let mut resent = vec![0];
    for arrived in 1..=reported {
        let end = 3 * arrived * MSS;
        let now_us = 40_000 + 1000 * arrived;
        let blocks: Vec<_> =
            (0..arrived.min(3)).map(|i| (end - (3 * i + 1) * MSS, end - 3 * i * MSS)).collect();
        f.ack(&ack(0, now_us, &blocks));
        f.detect(now_us);
        let mut segs = 0;
        while let Some((seq, _)) = f.next_repair() {
            f.repaired(seq, now_us);
            segs += 1;
        }
        resent.push(resent.last().unwrap() + segs);
    }
    resent
}

/// Two of three are lost, and for each that arrives one is retransmitted, not two: the path has no room for more.
#[test]
fn prr_retransmits_no_more_than_is_delivered() {
    let resent = resent(&mut flow(0), 20);
    assert!(resent[20] >= 15, "{resent:?}");
    for (arrived, segs) in resent.iter().enumerate() {
        // the first loss is retransmitted in any case
        assert!(*segs as usize <= arrived + 1, "{resent:?}");
    }
}

/// With each ACK that moves una and reports no further loss there is room for one segment more, as in slow start.
#[test]
fn prr_goes_faster_where_nothing_more_is_lost() {
    let mut f = flow(0);
    resent(&mut f, 20);
    let now_us = 100_000;
    f.detect(now_us);
    let before = f.state().repair_room_bytes;
    f.ack(&ack(MSS, now_us, &[]));
    assert_eq!(f.state().repair_room_bytes - before, 2 * MSS);
}

/// BBR's own window says what recovery may send.
#[test]
fn prr_leaves_out_bbr() {
    let mut f = flow(0);
    f.state_mut().algorithm = Algorithm::by_name("bbr").unwrap().id() as u8;
    let resent = resent(&mut f, 20);
    assert!(resent[20] > 30, "{resent:?}");
}

/// Without SACK each duplicate says that a segment was delivered, and is room for one: what a partial acknowledgement has retransmitted
/// does not leave in one burst.
#[test]
fn prr_counts_duplicates_of_flows_without_sack() {
    let mut f = flow(0);
    f.state_mut().flags &= !abi::WL_FLOW_SACK;
    f.state_mut().decision.cwnd_bytes = 60 * MSS;
    (1..=20).for_each(|i| f.send(i * MSS, i));
    (0..4).for_each(|i| {
        f.ack(&ack(0, 40_000 + i, &[]));
    });
    assert_ne!(f.state().flags & abi::WL_FLOW_RECOVERY, 0);
    // a segment as recovery begins, one for the duplicate that began it and one for the next
    assert_eq!(f.state().repair_room_bytes, 3 * MSS);
}

/// Copies of the first two are lost again, and what is in flight fills the window. Nothing counts until una is there, and the sender's own
/// copies of it are absorbed while it is to be sent here: it goes first, and does not wait for room.
#[test]
fn the_head_of_the_line_is_repaired_without_room_whatever_was_lost_after_it() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 60 * MSS;
    (1..=12).for_each(|i| f.send(i * MSS, i));
    f.ack(&ack(0, 40_000, &[(6 * MSS, 12 * MSS)]));
    f.detect(40_000);
    for wanted in [0, MSS] {
        let (seq, _) = f.next_repair().expect("six are lost");
        assert_eq!(seq, wanted);
        f.repaired(seq, 41_000);
    }
    (13..=14).for_each(|i| f.send(i * MSS, 42_000));
    f.ack(&ack(0, 82_000, &[(12 * MSS, 14 * MSS), (6 * MSS, 12 * MSS)]));
    f.detect(200_000);
    assert_eq!(f.state().lost_bytes, 6 * MSS);
    (15..=20).for_each(|i| f.send(i * MSS, 200_000));
    f.state_mut().decision.cwnd_bytes = 4 * MSS;
    let (seq, _) = f.next_repair().expect("una waits");
    assert_eq!(seq, 0);
    f.repaired(seq, 201_000);
    assert_eq!(f.next_repair(), None);
}

/// What a far server was granted before the window is reduced comes by after it, and is part of the same window: its losses do not reduce
/// the window once more. Where the server does not use it, recovery ends when nothing is in flight.
#[test]
fn recovery_lasts_for_what_a_far_server_was_granted() {
    for (near_rtt_us, reductions) in [(0, 2), (20_000, 1)] {
        let mut f = flow(0);
        f.state_mut().near_rtt_us = near_rtt_us;
        f.state_mut().decision.cwnd_bytes = 60 * MSS;
        (1..=10).for_each(|i| f.send(i * MSS, i));
        f.state_mut().edge = 20 * MSS;
        let mut entered = 0;
        let mut lose = |f: &mut Flow, una: u32, to: u32, now_us: u32| {
            let s = f.ack(&ack(una * MSS, now_us, &[((una + 1) * MSS, to * MSS)]));
            entered += u32::from(s.events & abi::WL_EV_RECOVERY_ENTER != 0);
        };
        lose(&mut f, 0, 10, 40_000);
        let (seq, _) = f.next_repair().expect("the first is lost");
        f.repaired(seq, 41_000);
        (11..=16).for_each(|i| f.send(i * MSS, 45_000));
        f.ack(&ack(10 * MSS, 81_000, &[]));
        lose(&mut f, 10, 16, 90_000);
        assert_eq!(entered, reductions, "{near_rtt_us}");
        let (seq, _) = f.next_repair().expect("the eleventh is lost");
        f.repaired(seq, 91_000);
        f.ack(&ack(16 * MSS, 131_000, &[]));
        assert_eq!(f.state().flags & abi::WL_FLOW_RECOVERY, 0, "{near_rtt_us}");
    }
}
