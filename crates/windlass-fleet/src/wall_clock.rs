//! Times that people read. What is measured is measured with monotonic clocks.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970, by this machine's clock.
pub fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
