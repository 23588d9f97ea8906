//! When bytes may leave: what goes at once, mistaken rates, departure times.

use crate::{MSS, SECOND_NS, ack, flow};
use windlass_core::{Flow, abi};

/// What is let go late is made up for, but not in one burst larger than an eighth of a round trip's data, nor than a
/// millisecond's; and at once goes what segmentation offload can send as one packet: a millisecond's, on a LAN more, but never more
/// than a quarter of the window, or there 8 segments of half of it.
#[test]
fn what_pacing_lets_go_at_once_is_a_small_part_of_the_window() {
    for (min_rtt_us, cwnd_segs, segs) in
        [(40_000, 1000, 10), (4000, 1000, 8), (4000, 20, 6), (1142, 28, 8), (1142, 40, 10), (100, 8, 4)]
    {
        let mut f = flow(0);
        f.state_mut().decision.cwnd_bytes = cwnd_segs * MSS;
        f.state_mut().decision.pacing_bytes_ps = 12_500_000;
        f.state_mut().srtt_us = 40_000;
        f.state_mut().min_rtt_us = min_rtt_us;
        f.edge_advance(10_000_000_000);
        let before = f.state().edge;
        f.edge_advance(10_100_000_000);
        assert_eq!((f.state().edge - before) / MSS, segs, "{min_rtt_us} {cwnd_segs}");
    }
}

/// On a slow path a burst is two segments, or what a buffer of a quarter of its BDP bears: a sixteenth of it.
#[test]
fn what_pacing_lets_go_at_once_on_a_slow_path_is_a_sixteenth_of_what_it_holds() {
    for (rate_bytes_ps, min_rtt_us, segs) in
        [(100_000, 40_000, 2), (1_000_000, 20_000, 2), (1_000_000, 80_000, 3), (1_000_000, 400_000, 8)]
    {
        let mut f = flow(0);
        f.state_mut().decision.cwnd_bytes = 1 << 20;
        f.state_mut().decision.pacing_bytes_ps = rate_bytes_ps;
        (f.state_mut().srtt_us, f.state_mut().min_rtt_us) = (min_rtt_us, min_rtt_us);
        f.edge_advance(10_000_000_000);
        assert_eq!(f.state().edge / MSS, segs, "{rate_bytes_ps} {min_rtt_us}");
    }
}

/// Of a path that its algorithm took for dead: a quantum at a byte a second would hold the flow for half an hour.
#[test]
fn what_left_at_a_mistaken_rate_is_not_waited_for_long() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 1 << 20;
    f.state_mut().decision.pacing_bytes_ps = 1;
    f.edge_advance(10_000_000_000);
    let edge = f.state().edge;
    assert!(edge > 0);
    f.send(edge, 0);
    f.state_mut().decision.pacing_bytes_ps = 1_000_000;
    f.edge_advance(10_999_000_000);
    assert_eq!(f.state().edge, edge);
    f.edge_advance(11_000_000_000);
    assert!(f.state().edge > edge);
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

/// After a timeout the rate is a segment a round trip, and the sender may hand over a super-packet at that time all the same.
/// Nothing is let go before it has had its time, repairs included; that is not waited for longer than a second.
#[test]
fn a_mistaken_rate_does_not_hold_departures_up() {
    let mut f = departing();
    f.state_mut().decision.pacing_bytes_ps = 7240;
    let now_ns = 10 * SECOND_NS;
    assert_eq!(f.depart_ns(now_ns, 64_000), now_ns);
    assert_eq!(f.state().pace_next_ns, now_ns + SECOND_NS);
}

#[test]
fn departures_are_spaced_at_the_rate_and_the_sender_runs_ahead_by_milliseconds_only() {
    let mut f = departing();
    let mut last_ns = 0;
    let mut grants = 0;
    for tick in 0..2000u64 {
        let now_ns = 10 * SECOND_NS + tick * 500_000;
        // nothing but the edge needs the clock
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
