//! In which steps the sender receives acknowledgements (core/flow/shown.h).

use super::{MSS, ack, flow};
use windlass_core::Flow;

const RTT_US: u32 = 100_000;

/// A sender with much room, which answers each acknowledgement that it is shown with as much as its window lets it have in flight:
/// `window(acked, acks)` of bytes and ACKs that it has got. Returns how many ACKs it is shown in each round trip, of those that the
/// receiver sends for every two segments, and the flow.
fn acks_shown(rounds: u32, window: impl Fn(u32, u32) -> u32) -> (Vec<u32>, Flow) {
    let mut f = flow(0);
    f.state_mut().edge = 1 << 24;
    f.state_mut().set_rcv_wscale(10);
    let mut acks = 0;
    let mut sent = window(0, 0);
    (1..=sent / MSS).for_each(|i| f.send(i * MSS, 0));
    let mut in_round = Vec::new();
    for round in 1..=rounds {
        let (from, to, before) = (f.state().una, sent, acks);
        let flights = (to - from) / MSS;
        for i in 1..=flights.div_ceil(2) {
            let now_us = round * RTT_US + i * 1500;
            let at = to.min(from + 2 * i * MSS);
            f.ack(&ack(at, now_us, &[]));
            let edge = f.state().edge;
            f.shown_note(now_us, edge);
            // the clock comes by until the next ACK
            for tick_us in [0, 500, 1000] {
                if !f.shown_step(now_us + tick_us, edge) {
                    continue;
                }
                acks += 1;
                let shown = f.state().shown_una;
                while sent + MSS <= shown + window(shown, acks) {
                    sent += MSS;
                    f.send(sent, now_us + tick_us + 100);
                    f.state_mut().sent_at_us = now_us + tick_us + 100;
                }
            }
        }
        in_round.push(acks - before);
    }
    (in_round, f)
}

/// lwIP adds a segment to its window for each ACK (RFC 5681, section 3.1): it gets each, once its window is seen to grow so.
#[test]
fn a_sender_whose_window_grows_with_each_ack_gets_each() {
    let (shown, f) = acks_shown(8, |_, acks| (20 + acks) * MSS);
    let flight = (f.state().nxt - f.state().shown_una) / MSS;
    assert!(shown[4..].iter().all(|n| *n >= 12), "an ACK for every two segments: {shown:?}");
    assert!(flight > 100, "{flight} segments in flight after eight round trips");
}

/// One whose send buffer is full does not either wait for more than each of them.
#[test]
fn a_sender_with_a_full_send_buffer_gets_each_ack() {
    let (shown, _) = acks_shown(8, |_, _| 20 * MSS);
    assert!(shown[4..].iter().all(|n| *n >= 9), "{shown:?}");
}

/// One whose window doubles in each round trip counts bytes, and judges queueing by ACKs (HyStart): it gets few.
#[test]
fn a_sender_whose_window_doubles_gets_progress_in_steps() {
    let (shown, _) = acks_shown(5, |acked, _| 20 * MSS + acked);
    assert!(shown.iter().all(|n| *n <= 9), "{shown:?}");
}

/// HyStart judges the ninth ACK of a round, by round trips that are long as holes are repaired: no more than eight come, though the
/// sender waits for each.
#[test]
fn while_holes_are_repaired_a_round_has_fewer_steps_than_hystart_judges() {
    let mut f = flow(0);
    f.state_mut().set_rcv_wscale(10);
    (f.state_mut().edge, f.state_mut().decision.cwnd_bytes) = (1 << 24, 1 << 24);
    f.send(20 * MSS, 0);
    f.ack(&ack(20 * MSS, RTT_US, &[]));
    f.shown_step(RTT_US, 0);
    (21..=120).for_each(|i| f.send(i * MSS, RTT_US));
    f.ack(&ack(20 * MSS, 2 * RTT_US, &[(21 * MSS, 120 * MSS)]));
    f.repaired(20 * MSS, 2 * RTT_US);
    (121..=220).for_each(|i| f.send(i * MSS, 2 * RTT_US));
    let edge = f.state().edge;
    // the first shows all behind the hole, and begins the sender's round
    let mut steps = 0;
    for i in 120..204 {
        let now_us = 3 * RTT_US + (i - 120) * 3000;
        f.ack(&ack(i * MSS, now_us, &[]));
        f.state_mut().flags |= windlass_core::abi::WL_FLOW_RECOVERY;
        steps += u32::from(f.shown_step(now_us, edge));
    }
    assert!((5..=8).contains(&steps), "{steps} steps");
}
