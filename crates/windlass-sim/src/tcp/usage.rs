//! Was the window in use? Only then may it grow; and one that is not used for long is no measure of the path any more
//! (RFC 7661; tcp_cwnd_validate(), tcp_cwnd_application_limited() and tcp_cwnd_restart() in Linux).

use windlass_core::abi::{WL_CWND_MAX_BYTES, wl_decision};

/// How the window was used in this round trip.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Payload of a full segment.
    mss_bytes: u32,
    /// The window was full at some time.
    is_limited: bool,
    /// Most segments out at a time.
    max_out_segs: u32,
    /// When this is acknowledged, a round trip is over.
    round_end_seq: u64,
    /// Most segments out since the window was last full.
    used_segs: u32,
    /// When the window was last full, or came to be what it is (snd_cwnd_stamp).
    used_at_ns: u64,
}

impl Usage {
    /// Of a sender with full segments of `mss_bytes`.
    pub fn new(mss_bytes: u32) -> Usage {
        Usage { mss_bytes, ..Usage::default() }
    }

    /// May the window grow? In slow start it may up to twice what was out.
    pub fn is_cwnd_limited(&self, decision: &wl_decision, cwnd_segs: u32) -> bool {
        let is_slow_start = decision.cwnd_bytes < decision.ssthresh_bytes;
        self.is_limited || (is_slow_start && cwnd_segs < 2 * self.max_out_segs)
    }

    /// The algorithm has computed the window, or it was set.
    pub fn on_change(&mut self, now_ns: u64) {
        self.used_at_ns = now_ns;
    }

    /// Segments were sent, or could not be for the window's sake (`is_full`).
    pub fn validate(&mut self, is_full: bool, out_segs: u32, una: u64, nxt: u64) {
        if una >= self.round_end_seq || is_full || (!self.is_limited && out_segs > self.max_out_segs) {
            self.is_limited = is_full;
            self.max_out_segs = out_segs;
            self.round_end_seq = nxt;
        }
    }

    /// Shrinks a window that was neither full nor changed for `after_ns` (none: it may stay), though not below the initial one. If
    /// it cannot be (`may_shrink`), because something else than the application is the limit, it has as much time again.
    pub fn decay(
        &mut self,
        decision: &mut wl_decision,
        out_segs: u32,
        initial_segs: u32,
        now_ns: u64,
        after_ns: Option<u64>,
        may_shrink: bool,
    ) {
        if self.is_cwnd_limited(decision, decision.cwnd_bytes / self.mss_bytes) {
            self.used_segs = 0;
            self.used_at_ns = now_ns;
            return;
        }
        self.used_segs = self.used_segs.max(out_segs);
        if after_ns.is_none_or(|after_ns| now_ns - self.used_at_ns < after_ns) {
            return;
        }
        self.used_at_ns = now_ns;
        if !may_shrink {
            return;
        }
        let used_bytes = self.used_segs.max(initial_segs) * self.mss_bytes;
        if used_bytes < decision.cwnd_bytes {
            decision.ssthresh_bytes = current_ssthresh(decision);
            decision.cwnd_bytes = (decision.cwnd_bytes + used_bytes) / 2;
        }
        self.used_segs = 0;
    }

    /// Nothing was sent for `idle_ns`: the window halves for each timeout of that, down to the initial one.
    pub fn restart(
        &mut self,
        decision: &mut wl_decision,
        initial_segs: u32,
        now_ns: u64,
        idle_ns: u64,
        rto_ns: u64,
    ) {
        let ssthresh_bytes = current_ssthresh(decision);
        if self.restart_cwnd(&mut decision.cwnd_bytes, initial_segs, now_ns, idle_ns, rto_ns) {
            decision.ssthresh_bytes = ssthresh_bytes;
        }
    }

    /// The same of a window that is on its way down: what it is reduced to stays. Returns whether it begins anew.
    pub fn restart_cwnd(
        &mut self,
        cwnd_bytes: &mut u32,
        initial_segs: u32,
        now_ns: u64,
        idle_ns: u64,
        rto_ns: u64,
    ) -> bool {
        if idle_ns <= rto_ns {
            return false;
        }
        let floor = (*cwnd_bytes).min(initial_segs * self.mss_bytes);
        let mut left_ns = idle_ns - rto_ns;
        while left_ns > 0 && *cwnd_bytes > floor {
            *cwnd_bytes = (*cwnd_bytes / 2).max(floor);
            left_ns = left_ns.saturating_sub(rto_ns);
        }
        self.used_segs = 0;
        self.used_at_ns = now_ns;
        true
    }
}

/// Growth back to three quarters of the window may be fast (tcp_current_ssthresh()).
pub(super) fn current_ssthresh(decision: &wl_decision) -> u32 {
    decision.ssthresh_bytes.max(decision.cwnd_bytes / 4 * 3).min(WL_CWND_MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{packet::MSS_BYTES, time::MS};

    const MSS: u32 = MSS_BYTES;

    fn decision(cwnd_segs: u32) -> wl_decision {
        wl_decision { cwnd_bytes: cwnd_segs * MSS, ssthresh_bytes: 20 * MSS, ..Default::default() }
    }

    #[test]
    fn slow_start_may_go_to_twice_what_is_out() {
        let mut usage = Usage::new(MSS);
        usage.validate(false, 6, 0, 100);
        let slow = decision(10);
        assert!(usage.is_cwnd_limited(&slow, 11));
        assert!(!usage.is_cwnd_limited(&slow, 12));
        assert!(!usage.is_cwnd_limited(&decision(30), 30));
        usage.validate(true, 6, 0, 200);
        assert!(usage.is_cwnd_limited(&decision(30), 30));
    }

    #[test]
    fn an_idle_window_halves_with_each_timeout() {
        let mut usage = Usage::new(MSS);
        let mut d = decision(80);
        usage.restart(&mut d, 10, 0, 199 * MS, 200 * MS);
        assert_eq!(d.cwnd_bytes, 80 * MSS);
        usage.restart(&mut d, 10, 0, 500 * MS, 200 * MS);
        assert_eq!((d.cwnd_bytes, d.ssthresh_bytes), (20 * MSS, 60 * MSS));
        usage.restart(&mut d, 10, 0, 5000 * MS, 200 * MS);
        assert_eq!(d.cwnd_bytes, 10 * MSS);
        usage.restart(&mut d, 2, 0, 5000 * MS, 200 * MS);
        assert_eq!(d.cwnd_bytes, 2 * MSS);
    }

    #[test]
    fn a_window_of_which_little_is_used_comes_down_by_half_the_rest() {
        let mut usage = Usage::new(MSS);
        let mut d = decision(60);
        usage.validate(false, 20, 0, 100);
        usage.decay(&mut d, 20, 10, 200 * MS, Some(200 * MS), true);
        assert_eq!(d.cwnd_bytes, 40 * MSS);
        // 30 ms after the algorithm last ran
        usage.on_change(370 * MS);
        usage.decay(&mut d, 20, 10, 400 * MS, Some(200 * MS), true);
        assert_eq!(d.cwnd_bytes, 40 * MSS);
        // that it may not shrink at 600 ms gives it until 800
        for (now_ms, may_shrink, segs) in [(600, false, 40), (700, true, 40), (800, true, 30)] {
            usage.decay(&mut d, 20, 10, now_ms * MS, Some(200 * MS), may_shrink);
            assert_eq!(d.cwnd_bytes, segs * MSS, "{now_ms}");
        }
    }
}
