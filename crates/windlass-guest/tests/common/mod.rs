//! What flows of guests report, for all tests of the protocol.

use windlass_guest::wire::{Op, Report, State};

pub const MSS: u32 = 1448;
pub const RTT_US: u32 = 100_000;

/// What an honest flow in congestion avoidance reports, all of whose window is used.
pub fn report(flow: u64, seq: u32, op: Op, cwnd_segs: u32) -> Report {
    Report {
        flow,
        seq,
        op,
        state: State::Avoidance,
        is_timeout: false,
        is_cwnd_limited: true,
        cwnd_bytes: cwnd_segs * MSS,
        ssthresh_bytes: cwnd_segs * MSS,
        srtt_us: RTT_US,
        mss_bytes: MSS,
        acked_bytes: cwnd_segs * MSS,
        acks: cwnd_segs,
        inflight_bytes: cwnd_segs * MSS,
    }
}
