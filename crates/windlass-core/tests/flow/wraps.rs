//! Streams longer than sequence numbers: what lies half the sequence space behind seems to lie ahead.

use crate::{MSS, ack, flow};
use windlass_core::{
    Flow,
    abi::{self, wl_sample},
};

/// Sends and has acknowledged so many MiB, from `now_us` on.
fn pass(f: &mut Flow, mib: u32, now_us: u32) {
    for i in 0..mib {
        let end = f.state().nxt.wrapping_add(1 << 20);
        f.send(end, now_us + i * 10);
        f.ack(&ack(end, now_us + i * 10 + 5, &[]));
    }
}

#[test]
fn a_bypass_ends_when_all_is_acknowledged_whatever_was_missed() {
    let mut f = flow(0);
    f.send(10 * MSS, 0);
    f.state_mut().state = abi::WL_FLOW_BYPASS as u8;
    f.state_mut().hole_bytes = 0u32.wrapping_sub(MSS);
    f.ack(&ack(9 * MSS, 40_000, &[]));
    assert!(!f.is_whole());
    f.ack(&ack(10 * MSS, 41_000, &[]));
    assert!(f.is_whole());
}

#[test]
fn what_arrives_twice_counts_as_much_gibibytes_later() {
    let mut f = flow(0);
    f.send(10 * MSS, 0);
    f.ack(&ack(2 * MSS, 40_000, &[(MSS, 2 * MSS)]));
    assert_eq!(f.state().reo_wnd_mult, 2);
    pass(&mut f, 3072, 50_000);
    let una = f.state().una;
    f.send(una.wrapping_add(2 * MSS), 200_000);
    f.ack(&ack(una.wrapping_add(MSS), 240_000, &[(una, una.wrapping_add(MSS))]));
    assert_eq!(f.state().reo_wnd_mult, 3);
}

/// The block begins where one began 4 GiB before, which was longer by the cache.
#[test]
fn a_block_is_not_taken_for_one_of_4_gib_before() {
    let mut f = flow(0);
    f.send(10 * MSS, 0);
    f.ack(&ack(0, 40_000, &[(MSS, 8 * MSS)]));
    let s = f.ack(&ack(10 * MSS, 41_000, &[]));
    assert_eq!(s.acked_bytes, 10 * MSS);
    pass(&mut f, 4095, 50_000);
    let left = 0u32.wrapping_sub(f.state().nxt);
    f.send(0, 200_000);
    f.ack(&ack(0, 201_000, &[]));
    assert!(left > 0 && f.state().una == 0);
    f.send(10 * MSS, 202_000);
    let s = f.ack(&ack(0, 240_000, &[(MSS, 3 * MSS)]));
    assert_eq!(s.newly_delivered_bytes, 2 * MSS);
}

/// Clocks of 32 bits count microseconds: what was delivered before an hour's rest is not newer than what is sent after it.
#[test]
fn a_rest_of_any_length_makes_no_losses() {
    for rest_us in [1_000_000, 1 << 30, (1 << 31) + 1_000_000, 0xe000_0000, u32::MAX] {
        let mut f = flow(0);
        f.send(10 * MSS, 0);
        f.ack(&ack(10 * MSS, 40_000, &[]));
        let mut lost_bytes = 0;
        for i in 10..20u32 {
            f.send((i + 1) * MSS, rest_us.wrapping_add(i * 100));
        }
        for i in 10..20u32 {
            lost_bytes += f.ack(&ack((i + 1) * MSS, rest_us.wrapping_add(40_000 + i * 100), &[])).lost_bytes;
        }
        assert_eq!(lost_bytes, 0, "after {rest_us} us");
    }
}

/// The box knows of the sender's side of the round trip at any place in the stream.
#[test]
fn the_near_side_is_timed_in_the_third_gibibyte() {
    let mut f = flow(0);
    pass(&mut f, 2560, 1000);
    let nxt = f.state().nxt;
    f.state_mut().sent_at_us = 100_000;
    f.send(nxt.wrapping_add(10 * MSS), 100_000);
    f.edge_shown(101_000_000, nxt.wrapping_add(10 * MSS));
    f.edge_shown(101_000_000, nxt.wrapping_add(20 * MSS));
    f.state_mut().sent_at_us = 101_300;
    f.send(nxt.wrapping_add(20 * MSS), 101_300);
    assert_eq!(f.state().near_rtt_us, 300);
}

/// What was paced before a rest has left long ago, though the clock of 32 bits shows the same time as then.
#[test]
fn nothing_waits_for_its_departure_after_a_rest_of_any_length() {
    const LEFT_NS: u64 = 7_000_000_000;
    let mut f = flow(0);
    f.state_mut().pace_next_ns = LEFT_NS;
    for rest_us in [1_000_000, (1 << 31) - 1, 0xff00_0000, 1 << 32, (1 << 32) + 4_000_000] {
        let now_ns = LEFT_NS + rest_us * 1000;
        let mut sample = wl_sample { now_us: (now_ns / 1000) as u32, ..wl_sample::default() };
        f.call(0, &mut sample, 0, now_ns);
        assert_eq!(sample.departs_in_us, 0, "after {rest_us} us");
    }
    for (left_ns, departs_in_us) in [(2_500_000, 2_500), (1 << 50, 60_000_000)] {
        let now_ns = (1 << 60) + left_ns;
        f.state_mut().pace_next_ns = now_ns + left_ns;
        let mut sample = wl_sample::default();
        f.call(0, &mut sample, 0, now_ns);
        assert_eq!(sample.departs_in_us, departs_in_us);
    }
}

/// Where each ACK is of all in flight nothing is ever judged, and the mark up to which it was stays behind.
#[test]
fn a_loss_is_found_in_the_third_gibibyte() {
    let mut f = flow(0);
    pass(&mut f, 2560, 1000);
    let base = f.state().una;
    let at = |seg: u32| base.wrapping_add(seg * MSS);
    (1..=5).for_each(|i| f.send(at(i), 100_000));
    let s = f.ack(&ack(base, 140_000, &[(at(1), at(5))]));
    assert_eq!(s.lost_bytes, MSS);
}

/// No receiver reports a copy of so long ago: what arrives twice a gibibyte later was duplicated elsewhere.
#[test]
fn a_reduction_is_not_undone_a_gibibyte_later() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    (1..=10).for_each(|i| f.send(i * MSS, 0));
    f.ack(&ack(0, 40_000, &[(MSS, 10 * MSS)]));
    f.repaired(0, 40_000);
    f.ack(&ack(10 * MSS, 80_000, &[]));
    pass(&mut f, 1025, 90_000);
    let una = f.state().una;
    f.send(una + 2 * MSS, 200_000);
    let s = f.ack(&ack(una + MSS, 240_000, &[(una, una + MSS)]));
    assert_eq!(s.events & abi::WL_EV_UNDO, 0);
}
