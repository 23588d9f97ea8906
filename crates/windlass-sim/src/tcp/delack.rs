//! When to acknowledge (RFC 1122, section 4.2.3.2; RFC 5681, section 4.2; __tcp_ack_snd_check(), tcp_cleanup_rbuf() in
//! Linux): at once for every second segment, where something that was sent together ends, in the first segments of a
//! connection and whenever something is odd; else after 40 ms. While a hole is open, after three duplicate ACKs, ACKs are
//! bundled for a twentieth of the round trip, 1 ms at most; not without SACK, where each counts.

use super::Config;
use crate::time::MS;

/// Full segments are taken for so long until one arrives (TCP_MSS_DEFAULT).
const RCV_MSS_FIRST_BYTES: u32 = 536;

const COMPRESS_AFTER: u32 = 3;
const COMPRESS_MAX_ACKS: u32 = 44;
const COMPRESS_MAX_NS: u64 = MS;
const COMPRESS_RTT_SHARE: u64 = 20;

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckWhen {
    /// Acknowledge.
    Now,
    /// Acknowledge at this time unless an ACK goes out before.
    By(u64),
}

/// What arrived, as far as acknowledging goes.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When.
    pub now_ns: u64,
    /// Next byte expected, after it.
    pub rcv_nxt: u64,
    /// Something beyond a hole is waiting.
    pub has_hole: bool,
    /// It must be acknowledged at once: it filled the hole, was a duplicate, ended a message or a super-packet, changed the
    /// ECN echo.
    pub is_urgent: bool,
    /// The receive window has grown for it.
    pub has_grown: bool,
    /// Round-trip time as the receiver sees it; 0: not known yet.
    pub rtt_ns: u64,
}

/// What was acknowledged when.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckPolicy {
    /// Segments still to be acknowledged at once.
    quick: u32,
    /// Longest segment so far (rcv_mss in Linux, which also comes down for rows of equal shorter ones); 0: short ones only.
    longest_bytes: u32,
    /// Next byte expected when the last ACK was sent.
    acked: u64,
    /// Something has arrived since.
    is_owed: bool,
    /// When the delayed ACK is due; valid if `is_owed`, 0: none.
    due_ns: u64,
    /// When something new last arrived in order; 0: not yet.
    news_at_ns: u64,
    /// Duplicate ACKs at once, and bundled, since `rcv_nxt` last moved.
    duplicates: u32,
    bundled: u32,
    duplicates_at: u64,
}

impl AckPolicy {
    /// A segment of so many bytes has arrived (tcp_measure_rcv_mss()).
    pub fn on_length(&mut self, len_bytes: u32) {
        if len_bytes >= self.longest_bytes.max(RCV_MSS_FIRST_BYTES) {
            self.longest_bytes = len_bytes;
        }
    }

    /// The connection begins, or there was trouble: acknowledge every segment for a while, at most `most_segs`. Half of the
    /// window of `window_bytes` last offered is enough (tcp_incr_quickack()).
    pub fn be_quick(&mut self, most_segs: u32, window_bytes: u32) {
        let mss_bytes = self.longest_bytes.max(RCV_MSS_FIRST_BYTES);
        let segs = match window_bytes / (2 * mss_bytes) {
            0 => 2,
            segs => segs,
        };
        self.quick = self.quick.max(segs.min(most_segs));
    }

    /// Something new has arrived in order. Returns whether it is the first, or came after a pause longer than a timeout, when
    /// its sender begins anew: it needs ACKs (tcp_event_data_recv()).
    pub fn on_news(&mut self, now_ns: u64, rto_ns: u64) -> bool {
        let is_new = self.news_at_ns == 0 || now_ns - self.news_at_ns > rto_ns;
        self.news_at_ns = now_ns;
        is_new
    }

    /// A segment has arrived.
    pub fn on_data(&mut self, a: Arrival, config: &Config) -> AckWhen {
        self.is_owed = true;
        if a.has_grown {
            self.quick |= 1;
        }
        if a.rcv_nxt - self.acked > u64::from(config.mss_bytes) || self.quick > 0 || a.is_urgent {
            return AckWhen::Now;
        }
        if a.has_hole {
            return if config.has_sack { self.bundle(a) } else { AckWhen::Now };
        }
        self.due_by(a.now_ns + config.delack_ns)
    }

    fn bundle(&mut self, a: Arrival) -> AckWhen {
        if self.duplicates_at != a.rcv_nxt {
            self.duplicates_at = a.rcv_nxt;
            self.duplicates = 0;
        }
        if self.duplicates < COMPRESS_AFTER {
            self.duplicates += 1;
            return AckWhen::Now;
        }
        self.bundled += 1;
        if self.bundled > COMPRESS_MAX_ACKS {
            return AckWhen::Now;
        }
        self.due_by(a.now_ns + COMPRESS_MAX_NS.min(a.rtt_ns / COMPRESS_RTT_SHARE))
    }

    /// The earlier of what is due and `due_ns`.
    fn due_by(&mut self, due_ns: u64) -> AckWhen {
        if self.due_ns == 0 || due_ns < self.due_ns {
            self.due_ns = due_ns;
        }
        AckWhen::By(self.due_ns)
    }

    /// An ACK goes out, alone or with data.
    pub fn on_ack_sent(&mut self, rcv_nxt: u64) {
        self.quick = self.quick.saturating_sub(self.is_owed.into());
        self.is_owed = false;
        self.due_ns = 0;
        self.acked = rcv_nxt;
        self.bundled = 0;
    }

    /// Whether ACKs that report new data beyond a hole wait.
    pub fn has_bundled(&self) -> bool {
        self.bundled > 0
    }

    /// Whether something waits to be acknowledged.
    pub fn is_owed(&self) -> bool {
        self.is_owed
    }

    /// Next byte expected when the last ACK was sent.
    pub fn acked(&self) -> u64 {
        self.acked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::MSS_BYTES;

    fn arrival(now_ns: u64, segs: u64) -> Arrival {
        let rcv_nxt = segs * u64::from(MSS_BYTES);
        let rtt_ns = 10 * MS;
        Arrival { now_ns, rcv_nxt, has_hole: false, is_urgent: false, has_grown: false, rtt_ns }
    }

    #[test]
    fn the_first_sixteen_segments_are_acknowledged_at_once_then_every_second_one() {
        let config = Config::default();
        let mut policy = AckPolicy::default();
        policy.be_quick(config.quick_acks, 64_000);
        let acked: Vec<u64> = (1..=22)
            .filter(|&n| {
                let now = policy.on_data(arrival(n, n), &config) == AckWhen::Now;
                if now {
                    policy.on_ack_sent(n * u64::from(MSS_BYTES));
                }
                now
            })
            .collect();
        assert_eq!(acked, [(1..=16).collect::<Vec<_>>(), vec![18, 20, 22]].concat());
    }

    /// A window of 64 kB is more than 32 segments of any kind, one of 11 584 bytes is twenty of 536 or eight of 1448, and one
    /// of a segment is none at all.
    #[test]
    fn half_the_window_is_acknowledged_at_once() {
        for (len_bytes, window_bytes, segs) in
            [(240, 64_000, 16), (240, 11_584, 10), (1448, 11_584, 4), (1448, 2_900, 1), (1448, 1448, 2)]
        {
            let mut policy = AckPolicy::default();
            policy.on_length(len_bytes);
            policy.be_quick(16, window_bytes);
            assert_eq!(policy.quick, segs, "{len_bytes} {window_bytes}");
        }
    }

    /// A pause of 300 ms is one, of 301 ms is one after which all is new.
    #[test]
    fn after_a_pause_longer_than_a_timeout_acks_are_quick_again() {
        let config = Config::default();
        let mut policy = AckPolicy::default();
        let mut at_once = |at_ms, n| {
            let is_new = policy.on_news(at_ms * MS, 300 * MS);
            // not those of a new connection, which this one is not
            if is_new && n > 1 {
                policy.be_quick(config.quick_acks, 64_000);
            }
            let now = policy.on_data(arrival(at_ms * MS, n), &config) == AckWhen::Now;
            if now {
                policy.on_ack_sent(n * u64::from(MSS_BYTES));
            }
            now
        };
        assert_eq!(
            [(1, 1), (2, 2), (302, 3), (302, 4)].map(|(at, n)| at_once(at, n)),
            [false, true, false, true]
        );
        let acked: Vec<u64> = (5..=25).filter(|n| at_once(603, *n)).collect();
        assert_eq!(acked, [(5..=20).collect::<Vec<_>>(), vec![22, 24]].concat());
    }

    #[test]
    fn a_lone_segment_waits_40_ms() {
        let config = Config::default();
        let mut policy = AckPolicy::default();
        assert_eq!(policy.on_data(arrival(5 * MS, 1), &config), AckWhen::By(45 * MS));
    }

    #[test]
    fn after_three_duplicates_acks_are_bundled_for_a_twentieth_of_the_round_trip() {
        let config = Config::default();
        let mut policy = AckPolicy::default();
        let hole = Arrival { has_hole: true, ..arrival(MS, 0) };
        for _ in 0..3 {
            assert_eq!(policy.on_data(hole, &config), AckWhen::Now);
            policy.on_ack_sent(0);
        }
        assert_eq!(policy.on_data(hole, &config), AckWhen::By(MS + MS / 2));
        assert_eq!(policy.on_data(Arrival { now_ns: MS + 1, ..hole }, &config), AckWhen::By(MS + MS / 2));
    }
}
