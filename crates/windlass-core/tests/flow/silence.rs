//! When nothing is heard: how long that may be, and what is done.

use super::{MSS, ack, flow, silence};
use windlass_core::abi;

/// Back-off ends with the first delivery (RFC 6298, section 5): the next silence is probed as the first was, and as soon.
#[test]
fn after_a_delivery_a_silence_is_no_longer_than_the_first() {
    let mut f = flow(0);
    f.send(4 * MSS, 0);
    f.ack(&ack(2 * MSS, 40_000, &[]));
    f.state_mut().decision.cwnd_bytes = 10 * MSS;
    let (probes_us, at_us) = silence(&mut f, 40_000);
    f.repaired(2 * MSS, at_us);
    f.ack(&ack(4 * MSS, at_us + 40_000, &[]));
    assert_eq!(f.state().backoff(), 0);
    f.send(6 * MSS, at_us + 50_000);
    assert_eq!(silence(&mut f, at_us + 50_000).0.len(), probes_us.len());
}

/// A receiver without room says nothing of what is in flight, and is believed at once: silence counts from when there is room again.
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

/// However long nothing is heard, the timeout is doubled no more often than is counted.
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
        assert_eq!(u32::from(f.state().backoff()), timeouts.min(16));
    }
}
