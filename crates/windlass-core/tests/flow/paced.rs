//! Whether the sender paces itself.

use super::{MSS, ack, flow};
use windlass_core::{Flow, abi};

const RTT_US: u32 = 40_000;

/// A sender that has room for more, and sends two segments every millisecond from the eleventh to the 80th.
fn paced_for_eighty_segments() -> (Flow, u32) {
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
    now_us += RTT_US;
    f.ack(&ack(5 * MSS, now_us, &[]));
    for _ in 0..35 {
        now_us += 1000;
        send(&mut f, 2, now_us);
    }
    (f, now_us + 1000)
}

/// The reports that it was not shown come no more: it would have to wait for a timeout.
#[test]
fn a_sender_that_paces_itself_is_left_alone_when_what_was_hidden_is_repaired() {
    let (mut f, now_us) = paced_for_eighty_segments();
    assert!(f.paced_on_data(81 * MSS, now_us));

    let (mut f, now_us) = paced_for_eighty_segments();
    f.state_mut().decision.cwnd_bytes = 100 * MSS;
    f.ack(&ack(5 * MSS, now_us, &[(6 * MSS, 10 * MSS)]));
    assert_eq!(f.next_repair(), Some((5 * MSS, MSS)));
    assert!(!f.paced_on_data(81 * MSS, now_us));
    f.repaired(5 * MSS, now_us);
    f.ack(&ack(5 * MSS, now_us, &[(6 * MSS, 20 * MSS)]));
    assert!(!f.paced_on_data(81 * MSS, now_us));
    assert_eq!(f.state().flags & abi::WL_FLOW_PACED_JUDGED, 0);
    f.ack(&ack(80 * MSS, now_us + RTT_US, &[]));
    assert!(f.paced_on_data(81 * MSS, now_us + RTT_US));
}

/// Losses without end must not keep it from being judged: it stays controlled then.
#[test]
fn a_sender_that_paces_itself_and_loses_all_the_time_is_not_left_alone() {
    let (mut f, now_us) = paced_for_eighty_segments();
    f.ack(&ack(5 * MSS, now_us, &[(6 * MSS, 10 * MSS)]));
    // its stream is as much longer as it takes
    f.state_mut().base = 0u32.wrapping_sub(919 * MSS);
    assert!(!f.paced_on_data(81 * MSS, now_us));
    assert_eq!(f.state().flags & abi::WL_FLOW_PACED_JUDGED, 0);
    f.state_mut().base = 0u32.wrapping_sub(920 * MSS);
    assert!(!f.paced_on_data(81 * MSS, now_us));
    assert_ne!(f.state().flags & abi::WL_FLOW_PACED_JUDGED, 0);
}
