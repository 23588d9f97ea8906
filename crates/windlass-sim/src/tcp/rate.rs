//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation-00), in the core's bytes and microseconds:
//! the twin of `core/flow/rate.h` for a sender that sees its own transmissions. As in Linux, which counts packets
//! (tcp_clean_rtx_queue(), tcp_rate_skb_delivered()), a short segment is worth as much as a full one.

use super::seg::Seg;
use crate::time::core_us;
use windlass_core::abi::wl_sample;

/// What of the flow every segment remembers when it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    /// Segments delivered so far, in bytes of full ones; wraps.
    pub delivered_bytes: u32,
    /// When that last changed, or when a packet was last sent into an empty network.
    delivered_at_us: u32,
    /// When the packet delivered last was sent.
    first_sent_at_us: u32,
    /// `delivered_bytes` at which the application-limited phase is over; 0: not limited.
    app_limited_until: u32,
}

/// What one ACK delivered, collected segment by segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delivery {
    /// Segments delivered, cumulatively or selectively.
    pub segs: u32,
    /// Send times of the oldest and the newest segment acknowledged cumulatively that was sent once.
    pub acked_sent_at_ns: Option<(u64, u64)>,
    /// The same of selective acknowledgements.
    pub sacked_sent_at_ns: Option<(u64, u64)>,
    /// A segment acknowledged cumulatively was sent more than once, SACKed before or not: times are ambiguous (Karn).
    pub has_acked_retrans: bool,
    /// Something sent once, before the recovery in hand began, has arrived (RFC 5682).
    pub has_original: bool,
    newest: Option<Seg>,
}

impl Delivery {
    /// What was delivered, every segment as if it were full, of `mss_bytes`.
    pub fn bytes(&self, mss_bytes: u32) -> u32 {
        self.segs * mss_bytes
    }

    /// A segment has arrived.
    pub fn add(&mut self, seg: &Seg, is_selective: bool) {
        self.segs += 1;
        if seg.was_retransmitted() {
            self.has_acked_retrans |= !is_selective;
        } else {
            let times = if is_selective { &mut self.sacked_sent_at_ns } else { &mut self.acked_sent_at_ns };
            let (first, _) = times.unwrap_or((seg.sent_at_ns, 0));
            *times = Some((first, seg.sent_at_ns));
        }
        if self.newest.is_none_or(|n| seg.order > n.order) {
            self.newest = Some(*seg);
        }
    }
}

impl Rate {
    /// The network is empty: intervals start now.
    pub fn on_first_send(&mut self, now_ns: u64) {
        self.delivered_at_us = core_us(now_ns);
        self.first_sent_at_us = core_us(now_ns);
    }

    /// A copy of the segment leaves.
    pub fn stamp(&self, seg: &mut Seg) {
        seg.delivered_bytes = self.delivered_bytes;
        seg.delivered_at_us = self.delivered_at_us;
        seg.first_sent_at_us = self.first_sent_at_us;
        seg.set_app_limited(self.app_limited_until != 0);
    }

    /// The application has less to send than the window would take.
    pub fn mark_app_limited(&mut self, in_flight_bytes: u32) {
        self.app_limited_until = self.delivered_bytes.wrapping_add(in_flight_bytes).max(1);
    }

    /// Whether the application is short of data.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until != 0
    }

    /// How long ago anything was delivered, or data sent into an empty network.
    pub fn since_delivery_us(&self, now_ns: u64) -> u32 {
        core_us(now_ns).wrapping_sub(self.delivered_at_us)
    }

    /// Fills the rate fields of an ACK's sample, which has the MSS already.
    pub fn finish(&mut self, delivery: &Delivery, now_ns: u64, min_rtt_us: u32, sample: &mut wl_sample) {
        if delivery.segs == 0 {
            return;
        }
        let (now_us, bytes) = (core_us(now_ns), delivery.bytes(sample.mss_bytes));
        self.delivered_bytes = self.delivered_bytes.wrapping_add(bytes);
        self.delivered_at_us = now_us;
        sample.since_delivery_us = 0;
        let passed = self.delivered_bytes.wrapping_sub(self.app_limited_until) as i32;
        if self.app_limited_until != 0 && passed > 0 {
            self.app_limited_until = 0;
        }
        let Some(newest) = delivery.newest else { return };
        let sent_at_us = core_us(newest.sent_at_ns);
        let send_elapsed_us = sent_at_us.wrapping_sub(newest.first_sent_at_us);
        let ack_elapsed_us = now_us.wrapping_sub(newest.delivered_at_us);
        let interval_us = send_elapsed_us.max(ack_elapsed_us);
        self.first_sent_at_us = sent_at_us;
        sample.prior_delivered_bytes = newest.delivered_bytes;
        sample.is_app_limited = newest.is_app_limited().into();
        // one short segment, and nothing else since it was sent: its ACK may have waited (FLAG_ACK_MAYBE_DELAYED)
        let is_lone = delivery.segs == 1
            && delivery.sacked_sent_at_ns.is_none()
            && self.delivered_bytes.wrapping_sub(newest.delivered_bytes) == bytes;
        sample.is_ack_delayed = (is_lone && u32::from(newest.len_bytes) < sample.mss_bytes).into();
        // faster than the path ever was: the ACK is for an earlier copy
        if interval_us >= min_rtt_us {
            sample.rate_interval_us = interval_us;
            sample.rate_delivered_bytes = self.delivered_bytes.wrapping_sub(newest.delivered_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{packet::MSS_BYTES, time::MS};

    const MSS: u64 = MSS_BYTES as u64;

    /// The worked example of the draft: ten segments sent at once over a path of 1 segment/ms and 40 ms, acknowledged
    /// at 41..50 ms; p1 shows 1/41, p10 10/50 segments/ms.
    #[test]
    fn a_first_flight_shows_its_slow_start() {
        let mut rate = Rate::default();
        rate.on_first_send(0);
        let mut segs = [Seg::default(); 10];
        for (i, seg) in segs.iter_mut().enumerate() {
            *seg = Seg::new(i as u64 * MSS, MSS as u16, false, 0);
            rate.stamp(seg);
        }
        for (seg, n) in segs.iter().zip(1u32..) {
            let (mut delivery, mut sample) =
                (Delivery::default(), wl_sample { mss_bytes: MSS_BYTES, ..wl_sample::default() });
            delivery.add(seg, false);
            rate.finish(&delivery, (40 + u64::from(n)) * MS, 41_000, &mut sample);
            let measured = (sample.rate_delivered_bytes / MSS_BYTES, sample.rate_interval_us);
            assert_eq!(measured, (n, (40 + n) * 1000));
        }
    }
    #[test]
    fn a_short_segment_counts_as_a_full_one() {
        let (mut rate, mut delivery) = (Rate::default(), Delivery::default());
        delivery.add(&Seg::new(0, 230, false, 0), false);
        delivery.add(&Seg::new(230, MSS_BYTES as u16, false, 0), true);
        rate.finish(&delivery, 40 * MS, 0, &mut wl_sample { mss_bytes: MSS_BYTES, ..wl_sample::default() });
        assert_eq!((delivery.bytes(MSS_BYTES), rate.delivered_bytes), (2 * MSS_BYTES, 2 * MSS_BYTES));
    }
}
