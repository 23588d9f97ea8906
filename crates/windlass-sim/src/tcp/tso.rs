//! Super-packets: hosts whose network card cuts segments send several at once, as many as the rate makes in a millisecond, and
//! wait a little until the window has room for so many (tcp_tso_autosize(), tcp_tso_should_defer() in Linux).

use super::{
    pacing::{LEAST_SEGS, autosize_segs, paced_segs},
    sender::{Sender, Wire},
};
use crate::time::{MS, US};
use windlass_core::abi::wl_decision;

/// Room for this part of the window is used at once (tcp_tso_win_divisor).
const WINDOW_PART: u64 = 3;
/// A sender that has not sent for so long sends what there is, and so does one that will receive nothing for so long.
const SHORT_NS: u64 = MS;

/// Where a segment stands in its super-packet.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// It is the first.
    pub is_head: bool,
    /// It is the last of more than one.
    pub ends_several: bool,
}

impl Place {
    /// It is the only one.
    pub const ALONE: Place = Place { is_head: true, ends_several: false };
}

/// What is known when new segments could be sent.
#[derive(Clone, Copy, Debug)]
struct Moment {
    /// Payload of a full segment.
    mss_bytes: u32,
    /// Longest super-packet, in segments.
    max_segs: u32,
    /// Congestion window.
    cwnd_segs: u32,
    /// In the network.
    pipe_segs: u32,
    /// The peer's window as it announced it.
    wnd_bytes: u64,
    /// What is left of that.
    wnd_left_bytes: u64,
    /// What waits to be sent.
    unsent_bytes: u64,
    /// Nothing will follow that.
    is_closing: bool,
    /// Since something was sent.
    idle_ns: u64,
    /// Since the oldest segment in flight was sent; none: nothing is.
    head_age_ns: Option<u64>,
    /// Smoothed round-trip time.
    srtt_ns: u64,
}

/// What a sender that waits is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// Room in the congestion window.
    Cwnd,
    /// Room in the peer's, or more data.
    Other,
}

impl Moment {
    /// Should the sender wait until a longer super-packet can be sent? Not if the next ACK is far.
    fn waits_for(&self) -> Option<WaitsFor> {
        let mss = u64::from(self.mss_bytes);
        let cwnd_left_bytes = self.cwnd_left_bytes();
        let room_bytes = cwnd_left_bytes.min(self.wnd_left_bytes);
        let window_bytes = self.wnd_bytes.min(u64::from(self.cwnd_segs) * mss);
        let is_enough =
            room_bytes >= u64::from(self.max_segs) * mss || room_bytes >= window_bytes / WINDOW_PART;
        let near_ns = SHORT_NS.min(self.srtt_ns / 2);
        let is_ack_near = self.head_age_ns.is_some_and(|age_ns| age_ns + near_ns >= self.srtt_ns);
        if self.unsent_bytes <= mss || self.idle_ns > SHORT_NS || is_enough || !is_ack_near {
            return None;
        }
        if cwnd_left_bytes < self.wnd_left_bytes && cwnd_left_bytes <= self.unsent_bytes {
            return Some(WaitsFor::Cwnd);
        }
        let is_all = self.is_closing && self.unsent_bytes < room_bytes;
        (!is_all).then_some(WaitsFor::Other)
    }

    /// Segments that leave together if the sender does not wait, at least one, and at most half of the congestion window, so that
    /// there are two super-packets in flight (tcp_cwnd_test()).
    fn ready_segs(&self) -> u32 {
        let mss = u64::from(self.mss_bytes);
        let half_bytes = u64::from(self.cwnd_segs / 2) * mss;
        let whole_bytes = self.cwnd_left_bytes().min(half_bytes).min(self.wnd_left_bytes);
        let segs = (whole_bytes / mss).min(self.unsent_bytes.div_ceil(mss));
        segs.clamp(1, self.max_segs.into()) as u32
    }

    fn cwnd_left_bytes(&self) -> u64 {
        u64::from(self.cwnd_segs.saturating_sub(self.pipe_segs)) * u64::from(self.mss_bytes)
    }
}

impl Sender {
    /// Segments that may leave together now, one without offload; or what to wait for. Repairs wait for nothing.
    pub(super) fn super_packet_segs(&self, wire: &Wire) -> Result<u32, WaitsFor> {
        if !wire.config.has_offload {
            return Ok(1);
        }
        let moment = self.moment(wire.now_ns());
        match moment.waits_for() {
            Some(why) if !self.is_repairing() => Err(why),
            _ => Ok(moment.ready_segs()),
        }
    }

    /// What there is to know about how many segments should leave at once.
    fn moment(&self, now_ns: u64) -> Moment {
        Moment {
            mss_bytes: self.mss_bytes,
            max_segs: self.longest_super_packet_segs(),
            cwnd_segs: self.cwnd_segs(),
            pipe_segs: self.board.pipe_segs(),
            wnd_bytes: self.wnd_bytes.into(),
            wnd_left_bytes: self.wnd_edge.saturating_sub(self.nxt),
            unsent_bytes: self.buffered - self.nxt,
            is_closing: self.is_closing && self.buffered == self.written,
            idle_ns: now_ns - self.sent_at_ns,
            head_age_ns: self.board.first().map(|seg| now_ns - seg.sent_at_ns),
            srtt_ns: self.rtt.srtt_ns(),
        }
    }

    /// Segments that may leave together, whatever the windows (tcp_tso_segs()), of a host with offload.
    pub(super) fn longest_super_packet_segs(&self) -> u32 {
        let min_rtt_ns = self.rtt.min_ns();
        match self.algorithm.decision.rate_bytes_ps() {
            Some(rate_bytes_ps) => paced_segs(rate_bytes_ps, min_rtt_ns, self.mss_bytes),
            None => autosize_segs(self.rate_of_window_bytes_ps(), min_rtt_ns, LEAST_SEGS, self.mss_bytes),
        }
    }

    /// The rate at which the sender would be paced (sk_pacing_rate), which Linux computes whether it is or not.
    pub(super) fn pacing_rate_bytes_ps(&self) -> u64 {
        self.algorithm.decision.rate_bytes_ps().unwrap_or_else(|| self.rate_of_window_bytes_ps())
    }

    /// The window in a round trip, and more of it the sooner it will have grown (tcp_update_pacing_rate()).
    fn rate_of_window_bytes_ps(&self) -> u64 {
        let wl_decision { cwnd_bytes, ssthresh_bytes, .. } = self.algorithm.decision;
        let percent = if cwnd_bytes < ssthresh_bytes / 2 { 200 } else { 120 };
        let window_segs = u64::from(self.cwnd_segs().max(self.board.out_segs()));
        let srtt_us = (self.rtt.srtt_ns() / US).max(1);
        window_segs * u64::from(self.mss_bytes) * percent * 10_000 / srtt_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::MSS_BYTES;

    const MSS: u64 = MSS_BYTES as u64;

    fn moment() -> Moment {
        Moment {
            mss_bytes: MSS_BYTES,
            max_segs: 8,
            cwnd_segs: 100,
            pipe_segs: 98,
            wnd_bytes: 1_000 * MSS,
            wnd_left_bytes: 900 * MSS,
            unsent_bytes: 500 * MSS,
            is_closing: false,
            idle_ns: MS / 4,
            head_age_ns: Some(39 * MS),
            srtt_ns: 40 * MS,
        }
    }

    #[test]
    fn room_for_two_of_eight_segments_waits_for_more() {
        assert_eq!(moment().waits_for(), Some(WaitsFor::Cwnd));
        assert_eq!(Moment { pipe_segs: 92, ..moment() }.waits_for(), None);
        // a third of the window, too, is enough
        assert_eq!(Moment { cwnd_segs: 6, pipe_segs: 4, ..moment() }.waits_for(), None);
    }

    #[test]
    fn a_super_packet_is_what_windows_and_data_allow() {
        assert_eq!(moment().ready_segs(), 2);
        assert_eq!(Moment { pipe_segs: 50, ..moment() }.ready_segs(), 8);
        assert_eq!(Moment { pipe_segs: 50, wnd_left_bytes: 4 * MSS - 1, ..moment() }.ready_segs(), 3);
        assert_eq!(Moment { pipe_segs: 50, unsent_bytes: 4 * MSS + 1, ..moment() }.ready_segs(), 5);
        assert_eq!(Moment { max_segs: 45, cwnd_segs: 60, pipe_segs: 0, ..moment() }.ready_segs(), 30);
        // a FIN by itself
        assert_eq!(Moment { unsent_bytes: 0, ..moment() }.ready_segs(), 1);
    }

    #[test]
    fn a_super_packet_does_not_wait_for_an_ack_that_is_far() {
        assert_eq!(Moment { idle_ns: 2 * MS, ..moment() }.waits_for(), None);
        assert_eq!(Moment { head_age_ns: Some(38 * MS), ..moment() }.waits_for(), None);
        assert_eq!(Moment { head_age_ns: None, ..moment() }.waits_for(), None);
    }

    #[test]
    fn a_tail_that_fits_waits_for_more_data_unless_it_is_the_end() {
        let tail = Moment { unsent_bytes: 3 * MSS, pipe_segs: 96, ..moment() };
        assert_eq!(tail.waits_for(), Some(WaitsFor::Other));
        assert_eq!(Moment { is_closing: true, ..tail }.waits_for(), None);
        assert_eq!(Moment { unsent_bytes: MSS, ..tail }.waits_for(), None);
    }
}
