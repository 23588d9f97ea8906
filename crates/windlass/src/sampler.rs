//! When the next sample of a command's `--sample-ms` is due.

use std::time::{Duration, Instant};

/// Knows when the next sample is due.
pub struct Sampler {
    started: Instant,
    pause: Option<Duration>,
    next_at: Instant,
}

impl Sampler {
    /// None: never.
    pub fn new(pause_ms: Option<u64>) -> Sampler {
        let (started, pause) = (Instant::now(), pause_ms.map(Duration::from_millis));
        Sampler { started, pause, next_at: started + pause.unwrap_or_default() }
    }

    /// Time until it is; without samples the longest there is.
    pub fn left(&self) -> Duration {
        self.pause.map_or(Duration::MAX, |_| self.next_at.saturating_duration_since(Instant::now()))
    }

    /// Milliseconds since the start, if a sample is due.
    pub fn due(&mut self) -> Option<u64> {
        let pause = self.pause?;
        let now = Instant::now();
        if now < self.next_at {
            return None;
        }
        // what a stall has cost is not made up for
        self.next_at = (self.next_at + pause).max(now);
        Some(self.started.elapsed().as_millis() as u64)
    }
}
