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

/// A duration in the core's microseconds, at least 1 so that it is not taken for "none".
pub fn duration_us(ns: u64) -> u32 {
    u32::try_from(ns / US).unwrap_or(u32::MAX).max(1)
}

/// Seconds, for reports only.
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / S as f64
}
