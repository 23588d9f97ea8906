//! The round trip of the handshake, by which timers go before there is one of data.

use crate::{MSS, ack, flow, silence};
use windlass_core::{
    Handshake,
    abi::{self, wl_sample},
};

/// RFC 6298, section 2.2, and Karn's rule.
#[test]
fn a_handshake_is_timed_unless_its_syn_was_sent_twice() {
    let now_us = u32::MAX - 10;
    let after = |us: u32| now_us.wrapping_add(us);
    let mut h = Handshake::default();
    assert_eq!(h.rtt_us(1, now_us), 0, "no SYN was seen");
    h.sent(u32::MAX, now_us);
    assert_eq!(h.rtt_us(0, after(20_000)), 20_000);
    assert_eq!(h.rtt_us(0, now_us), 1, "less than the clock shows, but known");
    assert_eq!(h.rtt_us(1448, after(20_000)), 0, "of data");
    assert_eq!(h.rtt_us(0, after(60_000_000)), 0, "this cannot be");
    assert_eq!(h.known_rtt_us(), 0);
    h.sent(u32::MAX, after(1_000_000));
    assert_eq!(h.rtt_us(0, after(1_020_000)), 0, "to which of them?");
    h.sent(7, after(2_000_000));
    assert_eq!(h.rtt_us(8, after(2_010_000)), 10_000, "another connection");
    // the sender opens: the SYN-ACK answers, and what comes later adds nothing
    h.answered(8, after(2_010_000));
    h.answered(8, after(3_010_000));
    assert_eq!((h.known_rtt_us(), h.rtt_us(8, after(4_000_000))), (10_000, 10_000));
}

/// All of the first window is lost. How long full segments take is not known from the handshake, so no probe comes before the timeout.
#[test]
fn before_the_first_sample_timers_go_by_the_handshake() {
    let mut f = flow(0);
    f.rtt_begin(20_000);
    f.send(4 * MSS, 0);
    f.state_mut().decision.cwnd_bytes = 10 * MSS;
    let (probes_us, timeout_us) = silence(&mut f, 100);
    assert!(probes_us.is_empty() && (260_000..290_000).contains(&timeout_us), "{probes_us:?} {timeout_us}");
    // nothing is known of data yet, and the first sample of it begins anew
    let mut sample = wl_sample::default();
    f.call(abi::WL_CALL_INIT, &mut sample, 0, 0);
    assert_eq!((sample.srtt_us, sample.min_rtt_us), (0, 0));
    let mut f = flow(0);
    f.rtt_begin(20_000);
    f.send(4 * MSS, 0);
    f.ack(&ack(4 * MSS, 100_000, &[]));
    let state = f.state();
    assert_eq!((state.srtt_us, state.rttvar_us, state.min_rtt_us), (100_000, 50_000, 100_000));
}

/// Some receivers keep the ACK of a lone segment for 200 ms.
#[test]
fn a_lone_first_segment_has_the_time_of_any_delayed_ack() {
    let mut f = flow(0);
    f.rtt_begin(20_000);
    f.send(MSS, 0);
    let (probes_us, timeout_us) = silence(&mut f, 0);
    assert!(probes_us.is_empty() && timeout_us >= 260_000, "{probes_us:?} {timeout_us}");
}

/// RFC 6298, section 5.7: the round trip may be longer than the first timeout of the SYN that was retransmitted.
#[test]
fn after_a_syn_that_was_retransmitted_the_rto_is_three_seconds() {
    for (flags2, rto_us) in [(0, 3_000_000), (abi::WL_FLOW2_MID_STREAM, 1_000_000)] {
        let mut f = flow(0);
        f.state_mut().flags2 |= flags2 as u16;
        f.send(2 * MSS, 0);
        f.state_mut().decision.cwnd_bytes = 10 * MSS;
        let (probes_us, timeout_us) = silence(&mut f, 0);
        let spread_us = timeout_us - rto_us;
        assert!(probes_us.is_empty() && spread_us <= rto_us / 8, "{probes_us:?} {timeout_us}");
    }
}

/// The sender's probe is as good as the box's, which would be one more (RFC 8985, section 7.2): the timeout comes next.
#[test]
fn the_box_does_not_probe_after_the_senders_own_probe() {
    let sent = || {
        let mut f = flow(0);
        f.state_mut().decision.cwnd_bytes = 10 * MSS;
        f.send(MSS, 0);
        f.ack(&ack(MSS, 20_000, &[]));
        f.send(5 * MSS, 20_000);
        f
    };
    assert_eq!(silence(&mut sent(), 20_000).0.first(), Some(&60_000));
    let mut f = sent();
    f.state_mut().flags |= abi::WL_FLOW_SENDER_PROBED;
    f.state_mut().tail_probe_end = f.state().nxt;
    assert_eq!(silence(&mut f, 20_000).0, []);
}

/// A crowd whose windows and probes were lost together does not retransmit together, nor a second time.
#[test]
fn probes_and_timeouts_of_many_flows_are_spread() {
    const RTO_US: u32 = 220_000;
    /// In which tenth of the time by which it may be put off.
    fn tenth(late_us: u32, silence_us: u32) -> usize {
        let tenth = 80 * late_us / silence_us;
        assert!(tenth <= 10, "{late_us} us after {silence_us}");
        tenth.min(9) as usize
    }
    let [mut probes, mut first, mut second_of_first_tenth] = [[0; 10]; 3];
    for id in 0..2_000 {
        let mut f = flow(0);
        f.own(id);
        f.send(MSS, 0u32.wrapping_sub(20_000));
        f.ack(&ack(MSS, 0, &[]));
        f.send(5 * MSS, 0);
        f.state_mut().decision.cwnd_bytes = 10 * MSS;
        let (probes_us, first_us) = silence(&mut f, 0);
        assert_eq!(probes_us[0], 40_000);
        probes[tenth(probes_us[1] - 80_000, 40_000)] += 1;
        let place = tenth(first_us - 40_000 - RTO_US, RTO_US);
        first[place] += 1;
        if place == 0 {
            let (probes_us, second_us) = silence(&mut f, first_us);
            assert!(probes_us.is_empty(), "{probes_us:?}");
            second_of_first_tenth[tenth(second_us - first_us - 2 * RTO_US, 2 * RTO_US)] += 1;
        }
    }
    assert!(probes.iter().all(|n| (130..270).contains(n)), "{probes:?}");
    assert!(first.iter().all(|n| (130..270).contains(n)), "{first:?}");
    assert!(second_of_first_tenth.iter().all(|n| (5..40).contains(n)), "{second_of_first_tenth:?}");
}
