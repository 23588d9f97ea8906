//! When nothing arrives: how long that may be, and what is done.

use super::{MSS, ack, flow, silence};
use windlass_core::{Flow, abi};

/// Back-off ends with the first sample (RFC 6298, section 5): the next silence is probed as the first was, and as soon.
#[test]
fn after_a_delivery_a_silence_is_no_longer_than_the_first() {
    let mut f = flow(0);
    f.send(4 * MSS, 0);
    f.ack(&ack(2 * MSS, 40_000, &[]));
    f.state_mut().decision.cwnd_bytes = 10 * MSS;
    let (probes_us, at_us) = silence(&mut f, 40_000);
    f.repaired(2 * MSS, at_us);
    f.ack(&ack(4 * MSS, at_us + 40_000, &[]));
    f.send(6 * MSS, at_us + 50_000);
    f.ack(&ack(6 * MSS, at_us + 90_000, &[]));
    assert_eq!(f.state().backoff, 0);
    f.send(8 * MSS, at_us + 100_000);
    assert_eq!(silence(&mut f, at_us + 100_000).0.len(), probes_us.len());
}

/// What was retransmitted gives no sample of the round trip: the timeout stays backed off until something else is acknowledged
/// (RFC 6298, section 5.7; Karn).
#[test]
fn the_rto_stays_backed_off_until_there_is_a_sample() {
    let mut f = flow(0);
    f.send(MSS, 0);
    f.ack(&ack(MSS, 40_000, &[]));
    f.state_mut().decision.cwnd_bytes = 10 * MSS;
    f.send(2 * MSS, 50_000);
    let at_us = silence(&mut f, 50_000).1;
    f.repaired(MSS, at_us);
    f.ack(&ack(2 * MSS, at_us + 300_000, &[]));
    assert_eq!((f.state().backoff, f.state().timeouts), (1, 0));
    let sent_us = at_us + 310_000;
    f.send(3 * MSS, sent_us);
    let backed_off_us = silence(&mut f, sent_us).1 - sent_us;
    assert!(backed_off_us > at_us - 50_000, "{backed_off_us}");
    assert_eq!(f.state().backoff, 2);
    f.repaired(2 * MSS, sent_us + backed_off_us);
    f.send(4 * MSS, sent_us + backed_off_us + 1000);
    f.ack(&ack(3 * MSS, sent_us + backed_off_us + 390_000, &[]));
    assert_eq!(f.state().backoff, 2);
    f.ack(&ack(4 * MSS, sent_us + backed_off_us + 400_000, &[]));
    assert_eq!(f.state().backoff, 0);
}

/// A receiver without room acknowledges nothing of what is in flight, and is believed at once: silence counts from
/// when there is room again.
#[test]
fn silence_in_front_of_a_closed_window_means_nothing() {
    let mut f = flow(0);
    f.send(2 * MSS, 0);
    f.ack(&ack(MSS, 40_000, &[]));
    f.offered(MSS, MSS, 50_000);
    assert_eq!(f.on_silence(9_000_000), abi::WL_SILENCE_NONE);
    f.offered(MSS, 20 * MSS, 10_000_000);
    assert_eq!(f.on_silence(10_001_000), abi::WL_SILENCE_NONE);
    assert_eq!(f.on_silence(10_500_000), abi::WL_SILENCE_PROBE);
}

/// However long nothing arrives, the timeout is doubled no more often than is counted.
#[test]
fn backing_off_has_an_end() {
    let mut f = flow(0);
    f.send(MSS, 0);
    f.insists(0);
    f.state_mut().decision.cwnd_bytes = 10 * MSS;
    let mut now_us = 0u32;
    for timeouts in 1..=40 {
        while f.on_silence(now_us) < abi::WL_SILENCE_TIMEOUT {
            now_us += 500_000;
        }
        f.repaired(0, now_us);
        assert_eq!(u32::from(f.state().backoff), timeouts.min(16));
    }
}

/// With SACK a timeout leaves to RACK what was sent so lately that no ACK of it could have arrived yet (RFC 8985,
/// section 6.3): within a round trip, and for as long as segments may be reordered. Without SACK it takes all for
/// lost.
#[test]
fn a_timeout_spares_what_no_ack_could_have_arrived_of() {
    for (flags, sent_before_us, lost_segs) in [
        (abi::WL_FLOW_SACK, 45_000, 8),
        (abi::WL_FLOW_SACK, 49_000, 8),
        (abi::WL_FLOW_SACK, 51_000, 9),
        (0, 45_000, 9),
        (0, 1000, 9),
    ] {
        let begin = || {
            let mut f = Flow::new(0, MSS, flags | abi::WL_FLOW_PACED_JUDGED);
            (1..=10).for_each(|i| f.send(i * MSS, 0));
            f.ack(&ack(2 * MSS, 40_000, &[]));
            f.state_mut().decision.cwnd_bytes = 20 * MSS;
            f
        };
        let timeout_us = silence(&mut begin(), 40_000).1;
        let mut f = begin();
        let is_due = |f: &mut Flow, now_us| match f.silence(now_us) {
            (abi::WL_SILENCE_PROBE, _) => {
                f.repaired(2 * MSS, now_us);
                None
            }
            (abi::WL_SILENCE_TIMEOUT, lost_bytes) => Some(lost_bytes),
            _ => None,
        };
        let mut lost_bytes = None;
        for now_us in (40_000..=timeout_us).step_by(100) {
            if now_us == timeout_us - sent_before_us {
                f.send(11 * MSS, now_us);
            }
            lost_bytes = lost_bytes.or(is_due(&mut f, now_us));
        }
        assert_eq!(lost_bytes, Some(lost_segs * MSS), "{flags:x} {sent_before_us}");
    }
}
