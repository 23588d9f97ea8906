//! What an agent reports to the service manager that has started it, if there is one (sd_notify(3)).

use crate::{
    event_log::{About, EventLog},
    health::Health,
};
use sd_notify::NotifyState;
use std::time::{Duration, Instant};
use windlass_scenario::Printable;

/// How often the manager is notified in the time after which it takes the agent for hung.
const IN_TIME: u32 = 4;

/// The manager, and of what it was last notified.
#[derive(Debug)]
pub struct Service {
    /// None: it does not supervise.
    watchdog: Option<Watchdog>,
    status: String,
    is_ready: bool,
    log: EventLog,
}

/// When the manager must be notified that all is well.
#[derive(Debug)]
struct Watchdog {
    pause: Duration,
    notified: Option<Instant>,
}

impl Watchdog {
    fn new(limit: Duration) -> Watchdog {
        Watchdog { pause: limit / IN_TIME, notified: None }
    }

    /// Is it time, and all well? What is not well is left to the manager, which starts the agent again once its time is over.
    fn is_due(&mut self, health: &Health, now: Instant) -> bool {
        let is_due = self.notified.is_none_or(|at| now.saturating_duration_since(at) >= self.pause);
        let notifies = is_due && health.is_running();
        if notifies {
            self.notified = Some(now);
        }
        notifies
    }
}

impl Service {
    /// As the environment has it.
    pub fn new(log: EventLog) -> Service {
        let watchdog = sd_notify::watchdog_enabled().map(Watchdog::new);
        Service { watchdog, status: String::new(), is_ready: false, log }
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        let words: Vec<String> = states.iter().map(|state| state.to_string()).collect();
        match sd_notify::notify(states) {
            Ok(()) => {
                self.log.debug(About::Command, format_args!("to the service manager: {}", words.join(" ")))
            }
            // control does not depend on it
            Err(why) => self.log.debug(
                About::Command,
                format_args!("the service manager cannot be notified of {}: {why}", words.join(" ")),
            ),
        }
    }

    /// The agent has looked at everything, and this came of it. What was there at its start is under control, or was refused.
    pub fn look(&mut self, health: &Health) {
        // one datagram is one line of the manager's
        let status = Printable(health.in_words()).to_string();
        let mut states = Vec::new();
        if !self.is_ready && health.is_covered {
            states.push(NotifyState::Ready);
            self.is_ready = true;
        }
        if self.status != status {
            states.push(NotifyState::Status(&status));
        }
        if self.watchdog.as_mut().is_some_and(|watchdog| watchdog.is_due(health, Instant::now())) {
            states.push(NotifyState::Watchdog);
        }
        if !states.is_empty() {
            self.send(&states);
        }
        self.status = status;
    }

    /// The policy is about to be read again, and the next look comes after that.
    pub fn reloading(&mut self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => {
                self.send(&[NotifyState::Reloading, now]);
                self.is_ready = false;
            }
            Err(why) => self.log.warn(format_args!("the monotonic clock cannot be read: {why}")),
        }
    }

    /// The agent ends, with this under control.
    pub fn stopping(&mut self, health: &Health) {
        let status = format!("ending: {}", Printable(health.in_words()));
        self.send(&[NotifyState::Stopping, NotifyState::Status(&status)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchdog_is_notified_in_time_and_not_while_a_clock_stands_still() {
        let well = Health { are_clocks_seen: true, ..Health::default() };
        let standing = Health { standing: vec!["tap0".into()], ..well.clone() };
        let mut watchdog = Watchdog::new(Duration::from_secs(8));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(watchdog.is_due(&well, at(0)) && !watchdog.is_due(&well, at(1)));
        assert!(watchdog.is_due(&well, at(2)));
        assert!(!watchdog.is_due(&standing, at(4)) && !watchdog.is_due(&standing, at(100)));
        assert!(watchdog.is_due(&well, at(100)), "at the next look after it goes on");
    }
}
