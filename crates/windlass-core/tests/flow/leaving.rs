//! Control of a flow that has ended in mid-transfer: the window that its sender is shown until it has its own again.

use super::{MSS, ack, flow};
use windlass_core::{Flow, abi};

const RTT_US: u32 = 40_000;

/// A flow that is controlled no more; all positions are in segments.
struct Leaving {
    f: Flow,
    now_us: u32,
    room: u32,
}

impl Leaving {
    /// Of 20 segments that were shown all were sent and ten are acknowledged; up to `fack` all or some are delivered. The receiver
    /// has room up to `room`.
    fn new(fack: u32, room: u32) -> Leaving {
        let mut f = in_flight(10, 20, 20, room);
        f.forget(20 * MSS);
        f.leave_begin(fack * MSS, RTT_US);
        assert_eq!(u32::from(f.state().state), abi::WL_FLOW_HANDING_BACK);
        Leaving { f, now_us: RTT_US, room }
    }

    fn is_over(&self) -> bool {
        u32::from(self.f.state().state) != abi::WL_FLOW_HANDING_BACK
    }

    /// The edge, as far as it is whole segments.
    fn edge(&self) -> u32 {
        self.f.state().edge / MSS
    }

    fn send_to(&mut self, end: u32) {
        let nxt = self.f.state().nxt;
        if end > nxt {
            assert_eq!(self.f.watch_data(nxt, end - nxt, self.now_us), abi::WL_DATA_NEW);
        }
    }

    /// An ACK comes `after_us` later, and what it is shown the sender knows.
    fn ack(&mut self, after_us: u32, una: u32, blocks: &[(u32, u32)]) {
        self.now_us += after_us;
        let before = self.f.state().edge;
        let blocks: Vec<_> = blocks.iter().map(|(start, end)| (start * MSS, end * MSS)).collect();
        self.f.watch_ack(una * MSS, self.room * MSS, self.now_us);
        self.f.leave_ack(&ack(una * MSS, self.now_us, &blocks));
        let state = self.f.state_mut();
        assert!(state.edge >= before, "the right edge moves back");
        state.near_shown_edge = state.near_shown_edge.max(state.edge);
    }
}

/// A controlled flow with a round trip of 40 ms: acknowledged, sent, granted, offered.
fn in_flight(una: u32, nxt: u32, edge: u32, room: u32) -> Flow {
    let mut f = flow(0);
    f.send(nxt * MSS, 0);
    f.ack(&ack(una * MSS, RTT_US, &[]));
    let state = f.state_mut();
    (state.edge, state.rcv_edge, state.state) = (edge * MSS, room * MSS, abi::WL_FLOW_BYPASS as u8);
    f
}

/// A sender that makes use of all that it is shown has an eighth more in each round trip.
#[test]
fn the_window_shown_grows_by_an_eighth_in_a_round_trip() {
    let mut l = Leaving::new(10, 10_000);
    let mut una = 10;
    let mut expected = 10.0;
    for round in 1..=10 {
        let sent = l.f.state().nxt / MSS;
        let acks = sent - una;
        for _ in 0..acks {
            una += 1;
            l.ack(RTT_US / acks, una, &[]);
            let edge = l.f.state().edge;
            l.send_to(edge);
        }
        assert!(!l.is_over(), "round {round}");
        expected *= 1.125;
        let window = f64::from(l.f.state().edge - una * MSS) / f64::from(MSS);
        // acknowledged are whole segments only, so that a round trip is a little less than the window
        assert!((expected - 2.0..=expected).contains(&window), "round {round}: {window} of {expected}");
    }
}

/// While something is missing the window stays as it is, and what is delivered counts once, whether it is reported or acknowledged
/// first.
#[test]
fn with_losses_the_edge_moves_by_what_is_delivered_and_no_further() {
    let mut l = Leaving::new(10, 1000);
    l.ack(1000, 10, &[(11, 15)]);
    assert_eq!(l.f.state().edge, 25 * MSS);
    // the order of blocks is theirs, and what cannot be is none
    l.ack(1000, 10, &[(17, 18), (11, 15), (16, 900)]);
    assert_eq!(l.f.state().edge, 28 * MSS);
    l.ack(1000, 15, &[(17, 18)]);
    assert_eq!(l.f.state().edge, 28 * MSS);
    l.ack(1000, 18, &[]);
    assert_eq!(l.f.state().edge, 28 * MSS);
    // an older report is not new, nor are blocks that the ACK does not have
    let mut left_over = ack(18 * MSS, l.now_us, &[(18 * MSS, 19 * MSS), (19 * MSS, 20 * MSS)]);
    left_over.sack_count = 0;
    l.f.leave_ack(&left_over);
    l.ack(1000, 18, &[(11, 15)]);
    assert_eq!(l.f.state().edge, 28 * MSS);
    l.ack(1000, 20, &[]);
    assert_eq!(l.f.state().edge, 30 * MSS + MSS / 4);
}

/// What was delivered before control ended moves no edge, but with less than two segments of room a delayed ACK would stall the flow.
#[test]
fn room_for_two_segments_is_left_at_least() {
    let mut l = Leaving::new(20, 1000);
    l.ack(1000, 19, &[]);
    assert_eq!(l.edge(), 21);
    l.ack(1000, 20, &[]);
    assert_eq!(l.edge(), 22);
}

/// A sender that leaves room unused for as long as an answer takes is held back by something else: that includes the
/// sender's part of the round trip, and is two milliseconds at least. Where something is lost the sender may have to
/// mend that first.
#[test]
fn it_ends_when_the_sender_leaves_room_unused_for_a_round_trip() {
    for (srtt_us, near_rtt_us, patience_us) in [(RTT_US, 0, RTT_US), (RTT_US, 7000, 47_000), (500, 500, 2000)]
    {
        for has_losses in [false, true] {
            let mut l = Leaving::new(10, 1000);
            let state = l.f.state_mut();
            (state.srtt_us, state.near_rtt_us) = (srtt_us, near_rtt_us);
            // two more are let out, which the sender does not use
            l.ack(0, 12, &[]);
            let blocks: &[_] = if has_losses { &[(15, 16)] } else { &[] };
            l.ack(patience_us, 12, blocks);
            assert!(!l.is_over(), "{near_rtt_us}");
            l.ack(1, 12, blocks);
            assert_eq!(l.is_over(), !has_losses, "{near_rtt_us}");
        }
    }
}

/// Each time that the sender has used up what it was shown, its answer to what it is shown then is waited for.
#[test]
fn a_sender_that_uses_its_room_is_waited_for_anew() {
    let mut l = Leaving::new(10, 1000);
    for una in 11..20 {
        l.ack(RTT_US * 9 / 10, una, &[]);
        assert!(!l.is_over(), "{una}");
        let edge = l.f.state().edge;
        l.send_to(edge);
    }
    l.ack(RTT_US * 9 / 10, 20, &[]);
    l.f.state_mut().srtt_us = RTT_US;
    l.ack(RTT_US * 9 / 10, 20, &[]);
    assert!(!l.is_over());
    l.ack(RTT_US / 5, 20, &[]);
    assert!(l.is_over());
}

/// Room that is left unused when control ends is judged from then on.
#[test]
fn a_sender_that_has_left_room_unused_before_has_a_round_trip_more() {
    let mut f = in_flight(10, 15, 20, 1000);
    f.forget(15 * MSS);
    f.leave_begin(10 * MSS, RTT_US);
    let mut l = Leaving { f, now_us: RTT_US, room: 1000 };
    l.ack(RTT_US, 10, &[]);
    assert!(!l.is_over());
    l.ack(1, 10, &[]);
    assert!(l.is_over());
}

/// A sender that fills its receiver's window cannot use more, however much it was granted.
#[test]
fn a_sender_that_fills_the_window_of_its_receiver_leaves_no_room_unused() {
    let mut l = Leaving::new(10, 22);
    l.ack(0, 14, &[]);
    assert!(l.edge() > 22);
    l.send_to(22 * MSS);
    for _ in 0..10 {
        l.ack(RTT_US / 2, 14, &[]);
        assert!(!l.is_over());
    }
}

/// A sender that sends more than it was shown knows of its receiver's room by another way.
#[test]
fn it_ends_when_the_sender_knows_of_more_room_than_it_is_shown() {
    for (end, is_over) in [(20 * MSS, false), (20 * MSS + 1, true)] {
        let mut l = Leaving::new(10, 1000);
        l.send_to(end);
        l.ack(1000, 11, &[]);
        assert_eq!(l.is_over(), is_over);
    }
}

/// Without SACK it is not known what is delivered; with nothing in flight there is nothing to lose; and one that
/// knows of more room, or is shown all that there is, has nothing to be shown step by step.
#[test]
fn only_a_sender_with_more_room_than_it_was_shown_leaves_step_by_step() {
    let begins = |una, nxt, edge, room, flags| {
        let mut f = in_flight(una, nxt, edge, room);
        f.state_mut().flags = flags;
        f.forget(nxt * MSS);
        f.leave_begin(una * MSS, RTT_US);
        u32::from(f.state().state) == abi::WL_FLOW_HANDING_BACK
    };
    assert!(begins(10, 20, 20, 21, abi::WL_FLOW_SACK));
    assert!(!begins(10, 20, 20, 21, 0));
    assert!(!begins(20, 20, 20, 21, abi::WL_FLOW_SACK));
    assert!(!begins(10, 20, 19, 21, abi::WL_FLOW_SACK));
    assert!(!begins(10, 20, 20, 20, abi::WL_FLOW_SACK));
}
