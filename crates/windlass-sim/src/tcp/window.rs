//! The receive window: small at first, and as large as the flow turns out to need (dynamic right-sizing, as in
//! tcp_grow_window() and tcp_rcvbuf_grow() of Linux 6.18). The application reads at once, so the buffer holds only what waits
//! for a hole to be filled.

use super::Config;
use crate::time::{MS, US, age_ms, core_us};

/// A window as a SYN reckons it: in full segments without timestamps.
fn whole_segments(window_bytes: u32, config: &Config) -> u32 {
    let announced_mss_bytes = u32::from(config.announced_mss_bytes());
    window_bytes / announced_mss_bytes * announced_mss_bytes
}

/// The window that a receiver offers.
#[derive(Clone, Copy, Debug, Default)]
pub struct RcvWindow {
    /// What the buffer would allow.
    clamp_bytes: u32,
    /// What is offered; grows towards the clamp with what arrives.
    offered_bytes: u32,
    /// The most that the buffer may ever allow.
    most_bytes: u32,
    /// The window field is in units of 2 to the power of this.
    wscale: u8,
    /// Right edge offered so far; never moves left (RFC 9293, section 3.8.6).
    edge: u64,
    /// Smoothed time between an ACK and the data it let out, or less; 0: no sample yet.
    rtt_ns: u64,
    /// Where a whole window will have arrived, modulo 2^32, and since when that is waited for; 0: nothing has arrived yet.
    window_seq: u32,
    window_at_us: u32,
    /// Echoed timestamp of what arrived last: one sample each.
    last_tsecr_ms: u32,
    /// Bytes that arrived in the last round trip, and where the round trip in hand began.
    round_bytes: u32,
    round_seq: u64,
    round_at_ns: u64,
}

impl RcvWindow {
    /// The window of a new connection.
    pub fn new(config: &Config) -> RcvWindow {
        let first_bytes = whole_segments(config.rcv_window_bytes, config);
        let offered_bytes = first_bytes.min(config.rcv_window_max_bytes);
        RcvWindow {
            // once it has seen full segments, Linux finds that they take less room than it had reckoned with
            clamp_bytes: (config.rcv_window_bytes / 4 * 5).min(config.rcv_window_max_bytes),
            offered_bytes,
            most_bytes: config.rcv_window_max_bytes,
            wscale: config.wscale(),
            // whichever is less (tcp_init_buffer_space()): few large segments fill the first window
            round_bytes: (10 * config.mss_bytes).min(offered_bytes),
            ..RcvWindow::default()
        }
    }

    /// The connection is there, and its first round trip begins.
    pub fn open(&mut self, rcv_nxt: u64, now_ns: u64) {
        self.round_seq = rcv_nxt;
        self.round_at_ns = now_ns;
    }

    /// The shift that its SYN announces (RFC 7323, section 2).
    pub fn wscale(&self) -> u8 {
        self.wscale
    }

    /// Round-trip time as the receiver sees it; 0: not known yet.
    pub fn rtt_ns(&self) -> u64 {
        self.rtt_ns
    }

    /// A segment arrived, which echoes `tsecr_us`: how long is the round trip? `mss_bytes`: of a full one.
    pub fn measure(&mut self, len_bytes: u32, mss_bytes: u32, tsecr_us: u32, now_ns: u64) {
        let tsecr_ms = tsecr_us / 1000; // as timestamps of Linux count
        let is_new = tsecr_ms != self.last_tsecr_ms;
        // the short head of a response, too: all of its first window echoes the same, and gives no sample then
        self.last_tsecr_ms = tsecr_ms;
        let sample_ns = age_ms(tsecr_us, now_ns) * MS;
        // within the same millisecond it is none (tcp_rcv_rtt_measure_ts() since 6.16)
        if is_new && len_bytes >= mss_bytes && sample_ns > 0 {
            // a shorter time counts at once, a longer one little by little
            self.rtt_ns = match self.rtt_ns {
                0 => sample_ns,
                rtt_ns if sample_ns < rtt_ns => sample_ns,
                rtt_ns => rtt_ns - rtt_ns / 8 + sample_ns / 8,
            };
        }
    }

    /// Data arrived in order, up to `rcv_nxt`; up to `acked` they were acknowledged. What a whole window takes is a round trip at least,
    /// and known to less than a millisecond (tcp_rcv_rtt_measure()).
    pub fn measure_window(&mut self, rcv_nxt: u64, acked: u64, now_ns: u64) {
        let now_us = core_us(now_ns);
        if self.window_seq != 0 {
            if ((rcv_nxt as u32).wrapping_sub(self.window_seq) as i32) < 0 {
                return;
            }
            let sample_ns = u64::from(now_us.wrapping_sub(self.window_at_us).max(1)) * US;
            self.rtt_ns = if self.rtt_ns == 0 { sample_ns } else { self.rtt_ns.min(sample_ns) };
        }
        // as much from here on as was offered from there on
        self.window_seq = (self.edge + rcv_nxt - acked) as u32;
        self.window_at_us = now_us;
    }

    /// New data arrived; `held_bytes` now lie in the buffer. Returns whether the window has grown. `mss_bytes`: of full segments.
    pub fn grow(&mut self, held_bytes: u32, mss_bytes: u32) -> bool {
        let room = self.clamp_bytes.saturating_sub(held_bytes).saturating_sub(self.offered_bytes);
        self.offered_bytes += room.min(2 * mss_bytes);
        room > 0
    }

    /// The application has read everything below `rcv_nxt`; up to `waiting_end` something waits out of order. Once a
    /// round trip, see whether the buffer is large enough: it should hold twice what arrives in one, more while that
    /// grows, and what waits.
    pub fn on_read(&mut self, rcv_nxt: u64, waiting_end: u64, now_ns: u64) {
        if self.rtt_ns == 0 || now_ns - self.round_at_ns < self.rtt_ns {
            return;
        }
        let copied = rcv_nxt - self.round_seq;
        let before = u64::from(self.round_bytes);
        if copied > before {
            let steady = 2 * copied;
            let growing = 2 * (steady * (copied - before) / before) + waiting_end.saturating_sub(rcv_nxt);
            let most = u64::from(self.most_bytes);
            self.clamp_bytes = self.clamp_bytes.max((steady + growing).min(most) as u32);
            self.round_bytes = copied.min(most) as u32;
        }
        self.round_seq = rcv_nxt;
        self.round_at_ns = now_ns;
    }

    /// Something arrived out of order, and up to `waiting_end` something waits: the buffer should hold that, too.
    pub fn on_hole(&mut self, rcv_nxt: u64, waiting_end: u64) {
        let wanted = 2 * u64::from(self.round_bytes) + waiting_end.saturating_sub(rcv_nxt);
        self.clamp_bytes = self.clamp_bytes.max(wanted.min(self.most_bytes.into()) as u32);
    }

    /// Moves the right edge as far as `waiting_bytes` out of order allow; returns the window from `rcv_nxt` on, in
    /// whole units of the window scale.
    pub fn offer(&mut self, rcv_nxt: u64, waiting_bytes: u32) -> u32 {
        let free = self.offered_bytes.min(self.clamp_bytes.saturating_sub(waiting_bytes));
        let window = u64::from(free).max(self.edge.saturating_sub(rcv_nxt));
        let field = window.div_ceil(1 << self.wscale).min(0xffff);
        let window = field << self.wscale;
        debug_assert!(rcv_nxt + window >= self.edge, "the edge moves left: {self:?}");
        self.edge = self.edge.max(rcv_nxt + window);
        window as u32
    }

    /// The window that was last offered, together with the acknowledgement of everything below `acked`.
    pub fn last_offered_bytes(&self, acked: u64) -> u32 {
        self.edge.saturating_sub(acked) as u32
    }

    /// The window in a SYN, which is not scaled (RFC 7323, section 2.2).
    pub fn offer_unscaled(&mut self, config: &Config) -> u32 {
        let window = whole_segments(self.offered_bytes.min(0xffff), config);
        self.edge = u64::from(window) + 1;
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::MSS_BYTES;

    /// A sender that doubles each round trip of 100 ms is never held back.
    #[test]
    fn the_window_keeps_ahead_of_slow_start() {
        let config = Config::default();
        let mut window = RcvWindow::new(&config);
        let (mut now_ns, mut rcv_nxt, mut segs) = (0, 1, 10u64);
        while segs * u64::from(MSS_BYTES) * 2 < u64::from(config.rcv_window_max_bytes) / 2 {
            now_ns += 100 * MS;
            for _ in 0..segs {
                rcv_nxt += u64::from(MSS_BYTES);
                window.measure(MSS_BYTES, MSS_BYTES, core_us(now_ns - 100 * MS), now_ns);
                window.measure_window(rcv_nxt, rcv_nxt, now_ns);
                window.grow(MSS_BYTES, MSS_BYTES);
                window.on_read(rcv_nxt, rcv_nxt, now_ns);
            }
            segs *= 2;
            let offered = u64::from(window.offer(rcv_nxt, 0));
            assert!(offered >= segs * u64::from(MSS_BYTES), "{offered} for {segs} segments");
        }
    }

    #[test]
    fn the_edge_never_moves_left_and_is_in_whole_units() {
        let config = Config::default();
        let mut window = RcvWindow::new(&config);
        assert_eq!(window.offer_unscaled(&config), 44 * 1460);
        let before = window.offer(1, 0);
        assert_eq!(before % 128, 0);
        assert_eq!(window.offer(1, 60_000), before);
    }

    /// A response begins with a short head; all of its first window echoes the timestamp of the request.
    #[test]
    fn a_short_head_leaves_the_first_window_unmeasured() {
        let (mut window, request_us) = (RcvWindow::new(&Config::default()), 1_000_000);
        window.measure(240, MSS_BYTES, request_us, 1_050 * MS);
        window.measure(MSS_BYTES, MSS_BYTES, request_us, 1_051 * MS);
        assert_eq!(window.rtt_ns(), 0);
        window.measure(MSS_BYTES, MSS_BYTES, request_us + 50_000, 1_102 * MS);
        assert_eq!(window.rtt_ns(), 52 * MS);
    }

    /// Within a millisecond timestamps show nothing, and a window of 65,536 bytes of which half arrives in 200 us shows a round trip of
    /// 400 us.
    #[test]
    fn round_trips_of_less_than_a_millisecond_are_measured_by_windows() {
        let mut window = RcvWindow::new(&Config::default());
        window.measure(MSS_BYTES, MSS_BYTES, 1_000_000, 1_000 * MS + 300_000);
        assert_eq!(window.rtt_ns(), 0);
        let offered = u64::from(window.offer(1, 0));
        window.measure_window(1, 1, 1_000 * MS);
        window.measure_window(1 + offered / 2, 1, 1_000 * MS + 200_000);
        assert_eq!(window.rtt_ns(), 0);
        window.measure_window(1 + offered, 1, 1_000 * MS + 400_000);
        assert_eq!(window.rtt_ns(), 400_000);
        // longer ones by windows do not count
        window.measure_window(1 + 2 * offered, 1, 1_001 * MS);
        assert_eq!(window.rtt_ns(), 400_000);
    }

    /// The clock of timestamps wraps after 4294.967296 s, which lies between a timestamp and its echo.
    #[test]
    fn the_round_trip_is_right_while_the_clock_wraps() {
        let mut window = RcvWindow::new(&Config::default());
        window.measure(MSS_BYTES, MSS_BYTES, core_us(4_294_900 * MS), 4_295_000 * MS);
        assert_eq!(window.rtt_ns(), 100 * MS);
    }

    /// The buffer of 64 KiB takes 80 KiB of window once segments are full, less the one that has just arrived.
    #[test]
    fn what_lies_in_the_buffer_has_no_place_in_the_window() {
        let mut window = RcvWindow::new(&Config::default());
        while window.grow(MSS_BYTES, MSS_BYTES) {}
        assert_eq!(window.offered_bytes, 80 * 1024 - MSS_BYTES);
        assert!(window.grow(0, MSS_BYTES), "what is read makes room");
    }

    /// Behind a hole everything waits: the buffer must hold that beside two round trips.
    #[test]
    fn a_hole_makes_the_buffer_grow() {
        let mut window = RcvWindow::new(&Config::default());
        let before = window.clamp_bytes;
        window.on_hole(1, 50_000);
        assert_eq!(window.clamp_bytes, before);
        window.on_hole(1, 200_001);
        assert_eq!(window.clamp_bytes, 20 * MSS_BYTES + 200_000);
    }
}
