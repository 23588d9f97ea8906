//! What an agent could not take under control: tried every ten seconds, and reported once.

use std::{
    collections::BTreeMap,
    fmt::Display,
    time::{Duration, Instant},
};

/// How soon the agent tries again.
const RETRY: Duration = Duration::from_secs(10);

/// Interfaces or cgroups that could not be controlled, when that was tried, and why.
#[derive(Default)]
pub struct Retries(BTreeMap<String, (Instant, String)>);

impl Retries {
    /// Was it tried a moment ago?
    pub fn is_recent(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|(tried, _)| tried.elapsed() < RETRY)
    }

    /// Must some be tried again?
    pub fn are_due(&self) -> bool {
        self.0.values().any(|(tried, _)| tried.elapsed() >= RETRY)
    }

    /// Returns what to report of it, if that was not reported before.
    pub fn note(&mut self, name: &str, why: impl Display) -> Option<String> {
        let why = format!("{name} is not under control: {why}");
        let earlier = self.0.insert(name.into(), (Instant::now(), why.clone()));
        earlier.is_none_or(|(_, said)| said != why).then_some(why)
    }

    /// Forgets what is not among these.
    pub fn retain(&mut self, names: &[String]) {
        self.0.retain(|name, _| names.contains(name));
    }

    /// What could not be controlled, there or not.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// It is under control now: what keeps it from that another time is reported again.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_report_what_is_new_once() {
        let mut retries = Retries::default();
        assert!(!retries.is_recent("eth0"));
        assert_eq!(retries.note("eth0", "so"), Some("eth0 is not under control: so".into()));
        assert!(retries.is_recent("eth0") && !retries.is_recent("eth1"));
        assert_eq!(retries.note("eth0", "so"), None);
        retries.retain(&["eth0".into()]);
        assert_eq!(retries.note("eth0", "so"), None);
        assert!(!retries.are_due(), "it was tried a moment ago");
        retries.retain(&["eth1".into()]);
        assert!(retries.note("eth0", "so").is_some());
        retries.forget("eth0");
        assert!(retries.note("eth0", "so").is_some());
        assert!(retries.note("eth0", "otherwise").is_some());
    }
}
