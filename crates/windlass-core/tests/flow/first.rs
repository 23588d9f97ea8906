//! The first flight of messages (core/flow/first.h).

use super::{MSS, ack, flow};
use windlass_core::abi;

/// By how much the window has grown, the algorithm apart, and whether it was in use, at the first ACK and the second, of a flight of
/// `count` packets of `bytes`.
fn acked(count: u32, bytes: u32) -> [(u32, bool); 2] {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 10 * MSS;
    f.state_mut().decision.ssthresh_bytes = abi::WL_CWND_MAX_BYTES;
    (1..=count).for_each(|i| f.send(i * bytes, i * 5000));
    [1, 2].map(|i| {
        f.ack(&ack(i * bytes, 500_000 + i * 5000, &[]));
        let state = f.state();
        (state.decision.cwnd_bytes - 10 * MSS, state.flags & abi::WL_FLOW_CWND_LIMITED != 0)
    })
}

/// The sender's window of ten packets is full after ten messages, and has room for twenty packets when they are acknowledged: full ones,
/// as more has been written. By bytes not a third of a window would be in flight.
#[test]
fn the_first_flight_counts_packets() {
    assert_eq!(acked(10, 400), [(10 * (MSS - 400), true); 2]);
    assert_eq!(acked(6, 400), [(6 * (MSS - 400), true); 2]);
    // more than the sender's window holds are none of one flight
    assert_eq!(acked(16, 400), [(10 * MSS - 16 * 400, true); 2]);
}

/// Full segments are what they are, and long messages nearly; and of a few messages the window had room for more.
#[test]
fn a_first_flight_of_full_segments_or_of_a_few_messages_counts_bytes() {
    assert_eq!(acked(10, MSS / 2), [(0, false); 2]);
    assert_eq!(acked(5, MSS), [(0, false); 2]);
    assert_eq!(acked(10, MSS), [(0, false); 2]);
    assert_eq!(acked(5, 400), [(0, false); 2]);
}
