//! What an agent could not take under control: tried again and again, and said once.

use std::{
    collections::BTreeMap,
    fmt::Display,
    time::{Duration, Instant},
};

/// How soon the agent tries again.
const RETRY: Duration = Duration::from_secs(10);

/// Interfaces or cgroups that could not be controlled, when that was tried, and why.
#[derive(Default)]
pub struct Refused(BTreeMap<String, (Instant, String)>);

impl Refused {
    /// Was it tried a moment ago?
    pub fn is_recent(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|(tried, _)| tried.elapsed() < RETRY)
    }

    /// Returns what is to be said of it, if that was not said before.
    pub fn note(&mut self, name: &str, why: impl Display) -> Option<String> {
        let why = format!("{name} is not under control: {why}");
        let earlier = self.0.insert(name.into(), (Instant::now(), why.clone()));
        earlier.is_none_or(|(_, said)| said != why).then_some(why)
    }

    /// What could not be controlled, there or not.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// It is under control now: what keeps it from that another time is news.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_said_once() {
        let mut refused = Refused::default();
        assert!(!refused.is_recent("eth0"));
        assert_eq!(refused.note("eth0", "so"), Some("eth0 is not under control: so".into()));
        assert!(refused.is_recent("eth0") && !refused.is_recent("eth1"));
        assert_eq!(refused.note("eth0", "so"), None);
        refused.forget("eth0");
        assert!(refused.note("eth0", "so").is_some());
        assert!(refused.note("eth0", "otherwise").is_some());
    }
}
