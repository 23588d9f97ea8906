//! Pacing, for algorithms that need it: super-packets leave on a schedule, as Linux' internal pacing has it
//! (tcp_pacing_check(), tcp_update_skb_after_send(), tcp_tso_autosize(), bbr_min_tso_segs()). Each waits for the time of the one
//! before it, however short that was: losses that are not next to each other are super-packets of their own.

use crate::time::{S, US};

/// Segments at the beginning that are never paced.
const UNPACED_SEGS: u64 = 10;

/// Least segments of a super-packet (tcp_min_tso_segs) ...
pub(super) const LEAST_SEGS: u32 = 2;
/// ... but where the algorithm paces itself, only one below this rate (bbr_min_tso_segs()).
const SLOW_BYTES_PS: u64 = 150_000;
/// A super-packet is what the rate makes in 2^-10 s ...
const SHIFT: u32 = 10;
/// ... and no longer than this.
const MAX_BYTES: u64 = 65_536;
/// They are larger the shorter the round trip is: half for each 2^9 us (tcp_tso_rtt_log).
const RTT_SHIFT_US: u32 = 9;

/// Segments of `mss_bytes` of a super-packet at the rate that the algorithm has set.
pub(super) fn paced_segs(rate_bytes_ps: u64, min_rtt_ns: u64, mss_bytes: u32) -> u32 {
    let least_segs = if rate_bytes_ps < SLOW_BYTES_PS { 1 } else { LEAST_SEGS };
    autosize_segs(rate_bytes_ps, min_rtt_ns, least_segs, mss_bytes)
}

/// Segments of a super-packet at this rate, at least `least_segs`.
pub(super) fn autosize_segs(rate_bytes_ps: u64, min_rtt_ns: u64, least_segs: u32, mss_bytes: u32) -> u32 {
    let halvings = (min_rtt_ns / US) >> RTT_SHIFT_US;
    let for_short_rtt = if halvings < 16 { MAX_BYTES >> halvings } else { 0 };
    let bytes = ((rate_bytes_ps >> SHIFT) + for_short_rtt).min(MAX_BYTES);
    ((bytes / u64::from(mss_bytes)) as u32).max(least_segs)
}

/// The schedule of a sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacing {
    /// When the next super-packet may leave.
    next_ns: u64,
    /// How late the last one left, as far as that is not made up for yet.
    late_ns: u64,
    sent_segs: u64,
}

impl Pacing {
    /// Whether a super-packet may leave at `rate_bytes_ps` (none: not paced); if not, when.
    pub fn admit(&mut self, rate_bytes_ps: Option<u64>, now_ns: u64) -> Result<(), u64> {
        if self.in_force(rate_bytes_ps).is_none() {
            return Ok(());
        }
        if now_ns < self.next_ns {
            return Err(self.next_ns);
        }
        self.late_ns = now_ns - self.next_ns;
        Ok(())
    }

    /// A segment leaves and has its time on the schedule. What its super-packet is late is made up for, half of its own time
    /// at most.
    pub fn charge(&mut self, rate_bytes_ps: Option<u64>, len_bytes: u16, now_ns: u64) {
        let rate_bytes_ps = self.in_force(rate_bytes_ps);
        self.sent_segs += 1;
        let Some(rate_bytes_ps) = rate_bytes_ps else { return };
        let time_ns = u64::from(len_bytes) * S / rate_bytes_ps.max(1);
        let credit_ns = self.late_ns.min(time_ns / 2);
        self.late_ns -= credit_ns;
        self.next_ns = self.next_ns.max(now_ns) + time_ns - credit_ns;
    }

    /// Time until the next super-packet may leave.
    pub fn wait_ns(&self, now_ns: u64) -> u64 {
        self.next_ns.saturating_sub(now_ns)
    }

    /// Segments that may leave at once, whatever the schedule.
    pub fn free_segs(&self, rate_bytes_ps: Option<u64>) -> u64 {
        rate_bytes_ps.map_or(u64::MAX, |_| UNPACED_SEGS.saturating_sub(self.sent_segs))
    }

    fn in_force(&self, rate_bytes_ps: Option<u64>) -> Option<u64> {
        rate_bytes_ps.filter(|_| self.free_segs(rate_bytes_ps) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{packet::MSS_BYTES, time::MS};

    const RATE_BYTES_PS: Option<u64> = Some(1_448_000); // a segment a ms

    #[test]
    fn a_super_packet_is_a_millisecond_of_the_rate_and_more_on_short_paths() {
        assert_eq!(paced_segs(100_000, 40 * MS, MSS_BYTES), 1);
        assert_eq!(paced_segs(1_448_000, 40 * MS, MSS_BYTES), 2);
        assert_eq!(paced_segs(125_000_000, 40 * MS, MSS_BYTES), 45);
        assert_eq!(paced_segs(1_448_000, MS, MSS_BYTES), 23);
        assert_eq!(paced_segs(125_000_000, 40 * MS, 8948), 7);
    }

    /// Sends super-packets of `segs` segments as they may leave; returns the times of the first sixteen segments, in ms.
    fn times_ms(segs: usize) -> Vec<u64> {
        let (mut pacing, mut times, mut now_ns) = (Pacing::default(), Vec::new(), 0);
        while times.len() < 16 {
            match pacing.admit(RATE_BYTES_PS, now_ns) {
                Ok(()) => (0..segs).for_each(|_| {
                    pacing.charge(RATE_BYTES_PS, MSS_BYTES as u16, now_ns);
                    times.push(now_ns / MS);
                }),
                Err(due_ns) => now_ns = due_ns,
            }
        }
        times
    }

    #[test]
    fn after_ten_segments_each_super_packet_waits_for_the_one_before_it() {
        for (segs, expected) in [(1, [0, 1, 2, 3, 4, 5]), (2, [0, 0, 2, 2, 4, 4])] {
            let times = times_ms(segs);
            assert_eq!((&times[..10], &times[10..]), (&[0; 10][..], &expected[..]));
        }
    }

    /// Bursts of two segments, one of them late: it makes up for half of its own time, as an sk_buff of two segments does.
    #[test]
    fn a_late_burst_makes_up_for_half_of_its_time() {
        let mut pacing = Pacing { sent_segs: UNPACED_SEGS, next_ns: 10 * MS, ..Pacing::default() };
        let now_ns = 20 * MS;
        assert_eq!(pacing.admit(RATE_BYTES_PS, now_ns), Ok(()));
        for _ in 0..2 {
            pacing.charge(RATE_BYTES_PS, MSS_BYTES as u16, now_ns);
        }
        assert_eq!(pacing.admit(RATE_BYTES_PS, now_ns), Err(21 * MS));
    }
}
