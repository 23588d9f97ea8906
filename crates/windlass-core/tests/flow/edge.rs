//! The right edge: what the sender is granted and shown.

use crate::{MSS, SECOND_NS, ack, flow};
use proptest::prelude::*;
use windlass_core::{Flow, abi};

/// A flow whose window is let out as soon as it is granted.
fn unpaced(cwnd_bytes: u32) -> Flow {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = cwnd_bytes;
    f.state_mut().decision.pacing_bytes_ps = u64::MAX;
    f
}

/// What waited for room comes 110 us after that was shown; what is shown to a sender that has room left, or has
/// nothing in flight, is no measure.
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
    // what a SYN may have granted is no measure either, and the least counts
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

/// A sender that is granted more before it has used up what it has: its echo of a timestamp that it was shown first is the measure,
/// not that of one which it was shown before, and the least counts.
#[test]
fn the_senders_own_round_trip_is_from_a_timestamp_to_its_echo() {
    let mut f = flow(0);
    let send = |f: &mut Flow, at_us: u32, tsecr: u32| {
        (f.state_mut().sent_at_us, f.state_mut().snd_tsecr) = (at_us, tsecr);
        f.send(f.state().nxt + MSS, at_us);
    };
    let show = |f: &mut Flow, at_us: u32, tsval: u32| {
        f.state_mut().rcv_tsval = tsval;
        f.edge_shown(u64::from(at_us) * 1000, 100 * MSS);
    };
    send(&mut f, 0, 0);
    show(&mut f, 1000, 70);
    send(&mut f, 1200, 69);
    assert_eq!(f.state().near_rtt_us, 0, "an older one");
    send(&mut f, 21_000, 70);
    assert_eq!(f.state().near_rtt_us, 20_000);
    show(&mut f, 21_500, 70);
    send(&mut f, 21_600, 70);
    assert_eq!(f.state().near_rtt_us, 20_000, "shown before");
    show(&mut f, 22_000, 91);
    show(&mut f, 30_000, 99);
    send(&mut f, 37_000, 91);
    assert_eq!(f.state().near_rtt_us, 15_000);
    // nothing is in flight: an answer may take as long as the application wants
    f.ack(&ack(f.state().nxt, 38_000, &[]));
    show(&mut f, 38_000, 110);
    send(&mut f, 38_100, 110);
    assert_eq!(f.state().near_rtt_us, 15_000);
    // and has been shown what the next update repeats
    show(&mut f, 58_000, 110);
    send(&mut f, 58_100, 110);
    assert_eq!(f.state().near_rtt_us, 15_000);
}

/// What is granted is on its way for a round trip of the sender's own: it may run ahead by that at its rate.
#[test]
fn a_far_sender_is_granted_a_lead_of_its_round_trip() {
    for (near_rtt_us, bytes) in [(0, 10_000), (20_000, 29_000), (100_000, 129_000)] {
        let mut f = flow(0);
        f.state_mut().decision.cwnd_bytes = 1 << 20;
        f.state_mut().decision.pacing_bytes_ps = 1_000_000;
        (f.state_mut().srtt_us, f.state_mut().near_rtt_us) = (200_000, near_rtt_us);
        for ms in 0..1000u64 {
            f.edge_advance(10_000_000_000 + ms * 1_000_000);
        }
        let edge = f.state().edge;
        assert!(edge <= bytes.max(10 * MSS) && edge + 2 * MSS > bytes, "{near_rtt_us}: {edge}");
    }
}

/// The right edge never moves left, whatever the window does.
#[test]
fn the_edge_never_moves_left() {
    let mut f = unpaced(20 * MSS);
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

/// Windows are shown in units of 1 KiB here: the edge of a window of two segments ends within one, and so does what an ACK of one
/// segment adds. A sender that can send another is granted that; one that has room is not.
#[test]
fn a_window_of_two_segments_keeps_two_on_their_way() {
    let mut f = unpaced(2 * MSS);
    f.edge_advance(0);
    f.edge_shown(0, 3 << 10);
    f.send(MSS, 0);
    f.ack(&ack(MSS, 500, &[]));
    f.edge_advance(500_000);
    assert_eq!(f.state().edge, 3 << 10, "another can be sent already");
    f.send(2 * MSS, 600);
    assert_eq!(f.deadline_ns(600_000, 0), 600_000, "the clock lets out the next");
    f.edge_advance(600_000);
    assert_eq!(f.state().edge, 3 * MSS);
    f.send(3 * MSS, 700);
    f.edge_advance(700_000);
    assert_eq!(f.state().edge, 3 * MSS);
}

#[test]
fn pacing_releases_room_at_its_rate() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 1 << 20;
    f.state_mut().decision.pacing_bytes_ps = 1_000_000;
    f.state_mut().srtt_us = 40_000;
    for ms in 0..1000u64 {
        // of the path; here ACKs come at once, and the clock is late by up to a millisecond
        f.state_mut().min_rtt_us = 40_000;
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

/// On a path of 100 us with a queue of 10 ms, a window of 18 segments and ACKs of two: a grant waits until it is a third of the window,
/// which the ACKs of the two thirds in flight bring; ten would be two packets, and two would stay two. How near the receiver is, only the
/// handshake has shown; a far one's grants do not wait.
#[test]
fn room_in_the_window_of_a_near_receiver_waits_until_it_is_worth_a_super_packet() {
    for (handshake_rtt_us, grants) in [(100, &[6, 6, 6][..]), (10_000, &[2; 9][..])] {
        let mut f = flow(0);
        let state = f.state_mut();
        (state.srtt_us, state.min_rtt_us, state.handshake_rtt_us) = (10_000, 8000, handshake_rtt_us);
        (state.decision.cwnd_bytes, state.decision.pacing_bytes_ps) = (18 * MSS, 2_000_000);
        state.edge = 18 * MSS;
        f.send(18 * MSS, 0);
        let mut seen = Vec::new();
        for i in 1..=9u32 {
            let at_us = 8000 + i * 2000;
            f.ack(&ack(2 * i * MSS, at_us, &[]));
            let edge = f.state().edge;
            f.edge_advance(u64::from(at_us) * 1000);
            let granted = f.state().edge - edge;
            if granted > 0 {
                seen.push(granted / MSS);
                f.send(f.state().edge, at_us);
            } else {
                // the next ACK brings it, not the clock; and the window is in use all the while
                let pace_ns = f.state().pace_next_ns;
                f.state_mut().shown_una = f.state().una;
                assert!(f.deadline_ns(pace_ns, 0) > pace_ns + 10_000_000);
                f.state_mut().flags &= !abi::WL_FLOW_CWND_LIMITED;
                f.cwnd_limited_check();
                assert!(f.state().flags & abi::WL_FLOW_CWND_LIMITED != 0);
            }
        }
        assert_eq!(seen, grants, "{handshake_rtt_us}");
    }
}

/// A sender that is granted less than its window, as its lead is the limit, is granted more whenever it has used some.
#[test]
fn room_in_the_lead_does_not_wait() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 1 << 20;
    f.state_mut().decision.pacing_bytes_ps = 1_000_000;
    (f.state_mut().srtt_us, f.state_mut().min_rtt_us, f.state_mut().handshake_rtt_us) = (10_000, 8000, 100);
    f.edge_advance(10_000_000_000);
    let edge = f.state().edge;
    assert_eq!(edge, 10 * MSS);
    f.send(MSS, 0);
    f.edge_advance(11_000_000_000);
    assert_eq!(f.state().edge, 11 * MSS);
}

/// All ACKs of a round come within 5 ms, and the sender uses the room that each but the last three bring: by the next round it has
/// left that unused for long enough, an eighth of a round trip, to be called short of data. One that uses it is not.
#[test]
fn room_that_the_last_acks_of_a_clump_brought_is_seen_to_be_left_unused() {
    for (uses_all, is_short) in [(false, true), (true, false)] {
        let mut f = flow(0);
        f.state_mut().edge = 20 * MSS;
        (1..=20).for_each(|i| f.send(i * MSS, 0));
        for i in 1..=10u32 {
            let now_us = 200_000 + i * 500;
            f.supply_check(now_us);
            f.ack(&ack(2 * i * MSS, now_us, &[]));
            f.state_mut().edge = (20 + 2 * i) * MSS;
            if i < 8 || uses_all {
                (1..=2).for_each(|n| f.send((18 + 2 * i + n) * MSS, now_us));
            }
        }
        assert_eq!(f.state().app_limited_until, 0);
        f.supply_check(400_000);
        assert_eq!(f.state().app_limited_until != 0, is_short);
    }
}

/// Room is on its way to a sender that is far from the box, and its answer on its way back, for near_rtt_us: a sender that uses all of it at
/// once keeps less than cwnd in flight beyond the box, and its window is full; it is not short of data. One that leaves it unused is.
#[test]
fn cwnd_is_the_limit_of_a_far_sender_that_uses_all_its_room_within_near_rtt() {
    const NEAR_US: u32 = 60_000;
    for (near_rtt_us, answer_us, is_limited, is_short) in [
        (NEAR_US, NEAR_US, true, false),
        (NEAR_US, NEAR_US + NEAR_US / 5, true, false),
        (NEAR_US, NEAR_US + NEAR_US / 3, false, false),
        (NEAR_US, NEAR_US + 20_001, false, true),
        (0, 1000, false, false),
    ] {
        let mut f = flow(0);
        (1..=10).for_each(|i| f.send(i * MSS, 0));
        f.ack(&ack(MSS, 160_000, &[]));
        let state = f.state_mut();
        state.flags &= !abi::WL_FLOW_CWND_LIMITED;
        (state.srtt_us, state.near_rtt_us) = (160_000, near_rtt_us);
        (state.decision.cwnd_bytes, state.edge) = (19 * MSS, 20 * MSS);
        (state.edge_used_until, state.edge_checked_at_us) = (20 * MSS, 160_000);
        if answer_us > near_rtt_us + 20_000 {
            f.supply_check(160_000 + answer_us);
        } else {
            (11..=20).for_each(|i| f.send(i * MSS, 160_000 + answer_us));
            f.supply_check(160_000 + answer_us);
        }
        let at = format!("{near_rtt_us} {answer_us}");
        assert_eq!(f.state().flags & abi::WL_FLOW_CWND_LIMITED != 0, is_limited, "{at}");
        assert_eq!(f.state().app_limited_until != 0, is_short, "{at}");
    }
}

/// What the sender repeats is a probe if it is its last segment; whether that was needed is reported once it is
/// acknowledged, at once, and by the clock.
#[test]
fn a_probe_of_the_sender_is_reported_when_its_segment_is_acknowledged() {
    let mut f = flow(0);
    (1..=40).for_each(|i| f.send(i * MSS, i));
    f.ack(&ack(10 * MSS, 200_000, &[(11 * MSS, 40 * MSS)]));
    f.probed_by_sender(11 * MSS);
    assert_eq!(f.state().flags & abi::WL_FLOW_SENDER_PROBED, 0, "a retransmission");
    f.probed_by_sender(40 * MSS);
    f.send(60 * MSS, 300_000);
    assert_eq!(f.probe_report(), None);
    f.ack(&ack(39 * MSS, 399_000, &[]));
    assert_eq!(f.probe_report(), None);
    f.ack(&ack(41 * MSS, 400_000, &[]));
    assert_eq!(f.probe_report(), Some((39 * MSS, 40 * MSS)));
    assert_eq!(f.deadline_ns(400_000_000, 0), 400_000_000);
    // nothing but progress is held back for long, however little there is
    assert!(f.shown_step(400_000, 100 * MSS));
    // while it is judged whether the sender paces itself no ACK is held back for a report
    let mut f = Flow::new(0, MSS, abi::WL_FLOW_SACK);
    f.send(MSS, 0);
    f.probed_by_sender(MSS);
    assert_eq!(f.state().flags & abi::WL_FLOW_SENDER_PROBED, 0);
}

/// The state of a flow with a queue of 20 ms in 40 ms of path, whose sender has filled its send buffer of 60 segments.
fn waits_for_progress(acked_segs: u32, ssthresh_segs: u32, now_us: u32) -> bool {
    let mut f = flow(0);
    for i in 1..=60 {
        f.send(i * MSS, 0);
    }
    f.ack(&ack(acked_segs * MSS, now_us, &[]));
    let state = f.state_mut();
    (state.srtt_us, state.min_rtt_us) = (60_000, 40_000);
    (state.sent_at_us, state.shown_at_us) = (0, now_us - 4_000);
    state.decision.ssthresh_bytes = ssthresh_segs * MSS;
    // room for forty segments more, which it leaves unused
    f.shown_step(now_us, 100 * MSS)
}

#[test]
fn progress_is_not_held_back_from_a_sender_for_want_of_which_the_path_runs_empty() {
    // less than a sixth of the window, after a fifteenth of a round trip: 52 segments are in flight
    assert!(!waits_for_progress(8, 40, 60_000), "the path is full for a while");
    assert!(waits_for_progress(8, 50, 60_000));
    assert!(
        !waits_for_progress(8, abi::WL_CWND_MAX_BYTES / MSS + 1, 60_000),
        "it is not known what fills the path"
    );
}

/// A receiver that takes room back is granted nothing beyond what it offers now; what was only reordered, or cut off
/// by scaling, takes nothing back.
#[test]
fn room_that_the_receiver_takes_back_is_granted_no_more() {
    let mut f = unpaced(20 * MSS);
    f.state_mut().set_rcv_wscale(7);
    f.state_mut().rcv_edge = 0;
    f.send(4 * MSS, 0);
    let mut offers = |at: u32, window_bytes: u32| {
        f.offered(at, at + window_bytes, 0);
        f.ack(&ack(at, 5_000, &[]));
        f.edge_advance(40_000_000);
        (f.state().rcv_edge, f.state().edge)
    };
    assert_eq!(offers(0, 30 * MSS), (30 * MSS, 20 * MSS));
    assert_eq!(offers(0, MSS), (30 * MSS, 20 * MSS), "an older one");
    assert_eq!(offers(MSS, 29 * MSS - 127), (30 * MSS, 21 * MSS), "the same, scaled");
    let (taken_back, edge) = (6 * MSS, 21 * MSS);
    assert_eq!(offers(2 * MSS, 4 * MSS), (taken_back, edge));
    assert_eq!(offers(3 * MSS, 3 * MSS), (taken_back, edge));
    assert_eq!(offers(4 * MSS, 30 * MSS), (34 * MSS, 24 * MSS));
}

/// What one flow may have in flight is bounded by its store, whatever its window and whatever was delivered out of order.
#[test]
fn no_more_room_is_granted_than_the_store_holds() {
    const MOST: u32 = abi::WL_FLOW_STORE_BYTES - 2 * abi::WL_CHUNK_BYTES;
    let mut f = unpaced(1 << 28);
    f.edge_advance(0);
    assert_eq!(f.state().edge, MOST);
    (1..=10).for_each(|i| f.send(i * MSS, i));
    f.ack(&ack(0, 40_000, &[(MSS, 10 * MSS)]));
    f.repaired(0, 40_000);
    f.edge_advance(40_000_000);
    assert_eq!(f.state().edge, MOST);
}

/// With less than two segments of room a delayed ACK would stall the flow, for example after a timeout.
#[test]
fn the_window_shown_is_two_segments_at_least() {
    let mut f = unpaced(MSS);
    f.edge_advance(0);
    assert_eq!(f.state().edge, 2 * MSS);
}

/// Nothing new is granted while the algorithm holds the flow, nor before what was lost is on its way again, unless that is the
/// sender's business.
#[test]
fn room_waits_for_repairs_and_for_the_algorithm() {
    let lossy = || {
        let mut f = unpaced(20 * MSS);
        f.state_mut().edge = 10 * MSS;
        (1..=10).for_each(|i| f.send(i * MSS, i));
        f.ack(&ack(MSS, 40_000, &[(2 * MSS, 10 * MSS)]));
        assert_eq!(f.state().lost_bytes, MSS);
        f
    };
    let granted = |f: &mut Flow| {
        f.edge_advance(40_000_000);
        f.state().edge != 10 * MSS
    };
    let mut f = lossy();
    assert!(!granted(&mut f));
    f.repaired(MSS, 40_000);
    f.state_mut().decision.is_held = 1;
    assert!(!granted(&mut f));
    f.state_mut().decision.is_held = 0;
    assert!(granted(&mut f));
    let mut f = lossy();
    f.state_mut().state = abi::WL_FLOW_BYPASS as u8;
    assert!(granted(&mut f));
}

/// Less than a segment of room is worth no packet, unless it is the last that the receiver has.
#[test]
fn the_last_bytes_of_a_receivers_window_are_granted() {
    for (window_bytes, edge) in [(10 * MSS + 500, 10 * MSS + 500), (40 * MSS, 10 * MSS)] {
        let mut f = unpaced(10 * MSS + 500);
        f.state_mut().rcv_edge = window_bytes;
        f.state_mut().edge = 10 * MSS;
        f.edge_advance(0);
        assert_eq!(f.state().edge, edge, "{window_bytes}");
    }
}

/// What is shown may be less than was granted once: of a window that has shrunk. The sender still has that room.
#[test]
fn an_edge_shown_further_left_takes_nothing_back() {
    let mut f = unpaced(20 * MSS);
    f.edge_advance(0);
    f.edge_shown(0, 5 * MSS);
    assert_eq!(f.state().edge, 20 * MSS);
    f.edge_shown(0, 20 * MSS + 100);
    assert_eq!(f.state().edge, 20 * MSS + 100);
}

/// Of what pacing lets go only whole segments are granted: a sender would send the rest by itself.
#[test]
fn pacing_grants_whole_segments() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 1 << 20;
    f.state_mut().decision.pacing_bytes_ps = 1_234_567;
    f.state_mut().min_rtt_us = 40_000;
    for ms in 0..50u64 {
        f.edge_advance(10 * SECOND_NS + ms * 1_700_000);
        assert_eq!(f.state().edge % MSS, 0);
        let edge = f.state().edge;
        f.send(edge, 0);
    }
    assert!(f.state().edge > 50 * MSS);
}

/// A sender that uses none of its room is shown ten segments of it, or what it may send in 4 ms: as much as it could burst.
#[test]
fn a_sender_that_rests_is_shown_a_lead_only() {
    for (pacing_bytes_ps, lead) in [(1_000_000, 10 * MSS), (100_000_000, 400_000)] {
        let mut f = flow(0);
        f.state_mut().decision.cwnd_bytes = 1 << 22;
        f.state_mut().decision.pacing_bytes_ps = pacing_bytes_ps;
        f.state_mut().min_rtt_us = 40_000;
        for ms in 0..1000u64 {
            f.edge_advance(10 * SECOND_NS + ms * 1_000_000);
        }
        let edge = f.state().edge;
        assert!(edge <= lead && lead - edge < MSS, "{edge}");
    }
}

/// Small windows, of which HyStart makes nothing, hide no progress; nor do those whose room would not fit the field of the header
/// if they did.
#[test]
fn progress_is_shown_at_once_where_it_must_be() {
    let is_shown = |segs: u32, room: u32, wscale: u8| {
        let mut f = flow(0);
        f.state_mut().set_rcv_wscale(wscale);
        (1..=segs).for_each(|i| f.send(i * MSS, 0));
        f.ack(&ack(MSS, 60_000, &[]));
        let state = f.state_mut();
        (state.srtt_us, state.min_rtt_us) = (60_000, 60_000);
        (state.sent_at_us, state.shown_at_us, state.edge) = (60_000, 60_000, room);
        f.shown_step(60_000, room)
    };
    assert!(!is_shown(40, 41 * MSS, 7));
    assert!(is_shown(15, 16 * MSS, 7));
    assert!(!is_shown(17, 18 * MSS, 7));
    assert!(!is_shown(40, 0x7fff << 2, 2));
    assert!(is_shown(40, (0x7fff << 2) + 1, 2));
}

/// The clock comes for what is due first: what pacing lets go, the algorithm's own time, even if that is past, or a silence.
#[test]
fn the_clock_is_armed_for_what_is_due_first() {
    let now_ns = 10 * SECOND_NS;
    let now_us = (now_ns / 1000) as u32;
    let deadline = |room_segs: u32, next_in_us: u64, wake_in_us: Option<i32>| {
        let mut f = flow(0);
        f.send(10 * MSS, now_us - 40_000);
        f.ack(&ack(2 * MSS, now_us, &[]));
        f.state_mut().decision.cwnd_bytes = (8 + room_segs) * MSS;
        f.state_mut().decision.pacing_bytes_ps = 1_000_000;
        let state = f.state_mut();
        (state.edge, state.shown_una) = (10 * MSS, 2 * MSS);
        state.pace_next_ns = now_ns + 1000 * next_in_us;
        if let Some(wake_in_us) = wake_in_us {
            state.decision.has_wake = 1;
            state.decision.wake_at_us = now_us.wrapping_add_signed(wake_in_us);
        }
        (f.deadline_ns(now_ns, 0) - now_ns) / 1000
    };
    let silence_us = deadline(0, 500, None);
    assert!((80_000..100_000).contains(&silence_us), "{silence_us}");
    assert_eq!(deadline(4, 500, None), 500);
    assert_eq!(deadline(4, 500_000, None), silence_us);
    assert_eq!(deadline(0, 500, Some(300)), 300);
    assert_eq!(deadline(0, 500, Some(-300)), 0);
    assert_eq!(deadline(4, 500, Some(300_000)), 500);
}

/// A rate, or none.
fn any_rate() -> impl Strategy<Value = u64> {
    prop_oneof![Just(u64::MAX), 1..1u64 << 36]
}

proptest! {
    /// Not more seldom, or the sender would wait for nothing; nor more often, as each time costs the CPU its sleep.
    #[test]
    fn the_clock_is_armed_whenever_there_is_room_to_grant(
        (cwnd_bytes, sacked_bytes, srtt_us, mss_bytes) in (1..1u32 << 25, 0..1u32 << 20, 0..300_000u32, 64..9000u16),
        (una, in_flight, room, offered) in (any::<u32>(), 0..1u32 << 25, 0..1u32 << 17, 0..1u32 << 25),
        (rate, next_in_ns, departs, is_judged) in (any_rate(), -3_000_000..2_000_000i64, any::<bool>(), any::<bool>()),
        (is_held, ends_alike) in (0..=1u8, 0..4u32),
    ) {
        let now_ns = 10 * SECOND_NS;
        let mut f = flow(una);
        let s = f.state_mut();
        // what is in flight has no records here, so that no silence of it is listened to
        s.state = abi::WL_FLOW_BYPASS as u8;
        s.flags = if departs { abi::WL_FLOW_DEPARTS } else { 0 } | if is_judged { abi::WL_FLOW_PACED_JUDGED } else { 0 };
        (s.mss_bytes, s.srtt_us, s.min_rtt_us) = (mss_bytes, srtt_us, srtt_us);
        (s.nxt, s.edge) = (una.wrapping_add(in_flight), una.wrapping_add(in_flight).wrapping_add(room));
        s.rcv_edge = match ends_alike {
            0 => s.edge.wrapping_add(offered % u32::from(mss_bytes)),
            _ => una.wrapping_add(offered),
        };
        s.sacked_bytes = sacked_bytes.min(in_flight);
        (s.decision.cwnd_bytes, s.decision.pacing_bytes_ps, s.decision.is_held) = (cwnd_bytes, rate, is_held);
        s.decision.ssthresh_bytes = cwnd_bytes;
        s.pace_next_ns = now_ns.saturating_add_signed(next_in_ns);
        let pace_ns = s.pace_next_ns.saturating_sub(if departs { 2_000_000 } else { 0 }).max(now_ns);
        let edge = s.edge;
        let deadline_ns = f.deadline_ns(now_ns, 0);
        f.edge_advance(pace_ns);
        let is_granted = f.state().edge != edge;
        prop_assert_eq!(deadline_ns, if is_granted { pace_ns } else { 0 });
    }
}

/// Where the receiver's own right edge is the limit, an acknowledgement between two granules could only be shown with an edge that moves
/// left (RFC 9293, section 3.8.6).
#[test]
fn progress_is_shown_as_far_as_the_window_scale_can_express_the_right_edge() {
    const GRANULE: u32 = 1 << 10;
    let shown_of = |edge: u32, acked: u32| {
        let mut f = flow(0);
        for i in 1..=40 {
            f.send(i * MSS, 0);
        }
        let state = f.state_mut();
        state.set_rcv_wscale(10);
        (state.edge, state.rcv_edge) = (edge, 100 * MSS);
        f.ack(&ack(acked, 400_000, &[]));
        let state = f.state_mut();
        (state.rcv_edge, state.decision.cwnd_bytes) = (100 * MSS, MSS);
        let is_new = f.shown_step(400_000, edge);
        assert_eq!(is_new, f.state().shown_una != 0);
        assert_ne!(f.deadline_ns(400_000_000, 0), 400_000_000, "nothing is left to show");
        f.state().shown_una
    };
    for acked in [7 * MSS, 30 * MSS, 39 * MSS] {
        let shown = shown_of(100 * MSS, acked);
        assert_eq!((100 * MSS - shown) % GRANULE, 0);
        assert!((acked - GRANULE + 1..=acked).contains(&shown));
        assert_eq!(shown_of(98 * MSS, acked), acked, "the receiver offers more than is shown");
    }
    // less than a granule, of which nothing can be expressed; and all there is
    assert_eq!(shown_of(100 * MSS, 100), 0);
    assert_eq!(shown_of(100 * MSS, 40 * MSS), 40 * MSS);
}
