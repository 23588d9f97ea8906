//! Virtual time: u64 nanoseconds since the run began. Nothing here knows of any other clock.

/// One microsecond.
pub const US: u64 = 1_000;
/// One millisecond.
pub const MS: u64 = 1_000_000;
/// One second.
pub const S: u64 = 1_000_000_000;
/// No time at all: a timer that is not armed.
pub const NEVER: u64 = u64::MAX;

/// The core's clock: microseconds, wrapping after 71 minutes (core/abi.h).
pub fn core_us(at_ns: u64) -> u32 {
    (at_ns / US) as u32
}

/// How long ago it was `then_us` on the core's clock, less than 71 minutes, by a clock that counts whole milliseconds, as that
/// of Linux' timestamps does (tcp_clock_ts()).
pub fn age_ms(then_us: u32, now_ns: u64) -> u64 {
    let age_us = core_us(now_ns).wrapping_sub(then_us);
    now_ns / MS - (now_ns / US).saturating_sub(age_us.into()) * US / MS
}

/// A round-trip time from a timestamp that was echoed: whole milliseconds, at least one (tcp_rtt_tsopt_us()).
pub fn echo_rtt_ns(tsecr_us: u32, now_ns: u64) -> u64 {
    age_ms(tsecr_us, now_ns).max(1) * MS
}

/// A duration in the core's microseconds, at least 1 so that it is not taken for "none".
pub fn duration_us(ns: u64) -> u32 {
    u32::try_from(ns / US).unwrap_or(u32::MAX).max(1)
}

/// Seconds, for reports only.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / S as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_in_milliseconds_counts_their_beginnings() {
        let age = |then_ns: u64, now_ns: u64| age_ms(core_us(then_ns), now_ns);
        assert_eq!([age(900 * US, 1100 * US), age(1100 * US, 1900 * US), age(5 * MS, 25 * MS)], [1, 0, 20]);
        // the clock wraps after 4294.967296 s
        assert_eq!(age(4_294_900 * MS, 4_295_000 * MS), 100);
        assert_eq!([1500 * US, 2500 * US].map(|now_ns| echo_rtt_ns(1100, now_ns)), [MS; 2]);
    }
}
