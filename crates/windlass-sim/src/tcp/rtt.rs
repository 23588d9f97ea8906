//! Round-trip time and retransmission timeout (RFC 6298), with Linux' arithmetic: the deviation decays slowly and is
//! never taken for less than the smallest timeout, so the timeout is at least srtt + rto_min.

use super::Config;
use crate::time::MS;

/// No probe of a closed window comes earlier, however short timeouts are (TCP_RTO_MIN).
const WINDOW_PROBE_MIN_NS: u64 = 200 * MS;

/// What is known of the round-trip time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    /// Eight times the smoothed time; 0: no sample yet.
    srtt_q3_ns: u64,
    /// Four times the mean deviation.
    mdev_q2_ns: u64,
    /// Largest of the above in this round trip.
    mdev_max_ns: u64,
    rttvar_ns: u64,
    /// When this is acknowledged, a round trip is over.
    round_end_seq: u64,
    /// Smallest sample ever; 0: none yet.
    min_ns: u64,
    /// Consecutive timeouts.
    pub backoff: u32,
}

impl Rtt {
    /// Takes a sample for the timeout, of the oldest segment that an ACK is for (RFC 6298, section 2).
    pub fn sample(&mut self, rtt_ns: u64, una: u64, nxt: u64, config: &Config) {
        self.backoff = 0;
        if self.srtt_q3_ns == 0 {
            self.srtt_q3_ns = rtt_ns.max(1) << 3;
            self.mdev_q2_ns = rtt_ns << 1;
            self.rttvar_ns = self.mdev_q2_ns.max(config.rto_min_ns);
            self.mdev_max_ns = self.rttvar_ns;
            self.round_end_seq = nxt;
            return;
        }
        let error_ns = rtt_ns as i64 - (self.srtt_q3_ns >> 3) as i64;
        self.srtt_q3_ns = (self.srtt_q3_ns as i64 + error_ns).max(8) as u64;
        let mut growth_ns = error_ns.abs() - (self.mdev_q2_ns >> 2) as i64;
        // a time that falls is no reason for a longer timeout
        if error_ns < 0 && growth_ns > 0 {
            growth_ns >>= 3;
        }
        self.mdev_q2_ns = (self.mdev_q2_ns as i64 + growth_ns).max(0) as u64;
        self.mdev_max_ns = self.mdev_max_ns.max(self.mdev_q2_ns);
        self.rttvar_ns = self.rttvar_ns.max(self.mdev_max_ns);
        if una > self.round_end_seq {
            self.rttvar_ns -= self.rttvar_ns.saturating_sub(self.mdev_max_ns) >> 2;
            self.round_end_seq = nxt;
            self.mdev_max_ns = config.rto_min_ns;
        }
    }

    /// Takes a sample for the minimum, of the newest segment that an ACK is for.
    pub fn sample_min(&mut self, rtt_ns: u64) {
        if self.min_ns == 0 || rtt_ns < self.min_ns {
            self.min_ns = rtt_ns.max(1);
        }
    }

    /// Smoothed; 0: no sample yet.
    pub fn srtt_ns(&self) -> u64 {
        self.srtt_q3_ns >> 3
    }

    /// Smallest ever; 0: no sample yet.
    pub fn min_ns(&self) -> u64 {
        self.min_ns
    }

    /// Retransmission timeout, backed off (RFC 6298, section 5.5).
    pub fn rto_ns(&self, config: &Config) -> u64 {
        self.backed_off_ns(self.first_rto_ns(config), config)
    }

    /// Time until a closed window is probed, backed off likewise (tcp_probe0_base(), tcp_probe0_when()).
    pub fn window_probe_ns(&self, config: &Config) -> u64 {
        self.backed_off_ns(self.first_rto_ns(config).max(WINDOW_PROBE_MIN_NS), config)
    }

    fn first_rto_ns(&self, config: &Config) -> u64 {
        match self.srtt_q3_ns {
            0 => config.rto_initial_ns,
            _ => self.srtt_ns() + self.rttvar_ns,
        }
    }

    fn backed_off_ns(&self, first_ns: u64, config: &Config) -> u64 {
        (first_ns << self.backoff.min(16)).min(config.rto_max_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::S;

    #[test]
    fn before_a_sample_the_timeout_is_a_second_and_doubles() {
        let config = Config::default();
        let mut rtt = Rtt::default();
        assert_eq!(rtt.rto_ns(&config), S);
        rtt.backoff = 3;
        assert_eq!(rtt.rto_ns(&config), 8 * S);
        rtt.backoff = 16;
        assert_eq!(rtt.rto_ns(&config), 120 * S);
    }

    /// Where timeouts may be short: 10 ms and four deviations of 5 ms are 30 ms, but a window is probed after 200, then 400.
    #[test]
    fn a_closed_window_is_probed_after_200_ms_at_least() {
        let config = Config { rto_min_ns: MS, ..Config::default() };
        let mut rtt = Rtt::default();
        rtt.sample(10 * MS, 1, 2, &config);
        assert_eq!((rtt.rto_ns(&config), rtt.window_probe_ns(&config)), (30 * MS, 200 * MS));
        rtt.backoff = 1;
        assert_eq!((rtt.rto_ns(&config), rtt.window_probe_ns(&config)), (60 * MS, 400 * MS));
        rtt.sample(1000 * MS, 3, 4, &config);
        assert_eq!(rtt.window_probe_ns(&config), rtt.rto_ns(&config));
    }

    #[test]
    fn a_steady_round_trip_gives_srtt_plus_200_ms() {
        let config = Config::default();
        let mut rtt = Rtt::default();
        for i in 0..1000 {
            rtt.sample(40 * MS, i * 1000 + 1000, i * 1000 + 2000, &config);
        }
        assert_eq!(rtt.srtt_ns(), 40 * MS);
        assert!(rtt.rto_ns(&config).abs_diff(240 * MS) < MS, "{}", rtt.rto_ns(&config));
    }

    #[test]
    fn a_sudden_longer_round_trip_lengthens_the_timeout_at_once() {
        let config = Config { rto_min_ns: MS, ..Config::default() };
        let mut rtt = Rtt::default();
        (0..100).for_each(|i| rtt.sample(10 * MS, i + 1, i + 2, &config));
        let before = rtt.rto_ns(&config);
        rtt.sample(50 * MS, 101, 102, &config);
        // srtt 15 ms; four deviations grow by a quarter of four times the error of 40 ms
        assert!(rtt.rto_ns(&config) > before + 35 * MS, "{} {before}", rtt.rto_ns(&config));
    }
}
