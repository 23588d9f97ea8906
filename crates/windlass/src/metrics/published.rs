//! What an agent publishes of itself, and the answers that are made of it.

use super::{
    exposition::{self, Format},
    histograms::Histograms,
    snapshot::{Reader, Snapshot, Sources},
};
use crate::health::Health;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use windlass_agent::Pinned;

/// The datapaths are read no more often than this, however many requests come.
const READ_AT_MOST: Duration = Duration::from_secs(1);
/// An agent that has not looked for so long is not ready, whatever it was.
const LOOKS_WITHIN: Duration = Duration::from_secs(10);

/// The agent's side.
#[derive(Clone, Debug, Default)]
pub struct Publisher(Arc<Published>);

/// The side of those who read it.
#[derive(Debug, Default)]
pub struct Published {
    /// None: there are none.
    histograms: Option<Arc<Histograms>>,
    now: Mutex<Now>,
    /// Held while the datapaths are read, so that two readers do not do so at once.
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Now {
    sources: Sources,
    /// When the agent last looked at everything.
    looked: Option<Instant>,
}

#[derive(Debug, Default)]
struct Last {
    reader: Reader,
    snapshot: Option<(Instant, Snapshot)>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Publisher {
    /// With these histograms.
    pub fn new(histograms: Option<Arc<Histograms>>) -> Publisher {
        Publisher(Arc::new(Published { histograms, ..Published::default() }))
    }

    /// For those who read it.
    pub fn published(&self) -> Arc<Published> {
        self.0.clone()
    }

    /// The agent has looked at everything.
    pub fn health(&self, health: Health) {
        let mut now = locked(&self.0.now);
        now.sources.health = Some(health);
        now.sources.is_complete = true;
        now.looked = Some(Instant::now());
    }

    /// These interfaces are under control, by these rules.
    pub fn controlled(&self, controlled: &[Pinned], rules: &Arc<[String]>) {
        let mut views = BTreeMap::new();
        let mut devices = BTreeMap::new();
        for pinned in controlled {
            views.entry(pinned.clock_number()).or_insert_with(|| pinned.view());
            devices.insert(pinned.ifindex(), (pinned.iface().to_string(), rules.clone()));
        }
        let mut now = locked(&self.0.now);
        now.sources.views = views.into_values().collect();
        now.sources.devices = devices;
    }

    /// A policy is in force whose file has this hash.
    pub fn policy(&self, hash: String) {
        let mut now = locked(&self.0.now);
        now.sources.policy_hash = Some(hash);
        now.sources.refused_hash = None;
    }

    /// The policy's file, whose hash is this, was refused.
    pub fn policy_refused(&self, hash: Option<String>) {
        locked(&self.0.now).sources.refused_hash = hash;
    }
}

impl Published {
    /// The metrics, at most a second old.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn metrics(&self, format: Format) -> Result<Vec<u8>, String> {
        let mut last = locked(&self.last);
        let sources = locked(&self.now).sources.clone();
        let is_recent = |(at, read): &&(Instant, Snapshot)| at.elapsed() < READ_AT_MOST && read.is_complete;
        let snapshot = match last.snapshot.as_ref().filter(is_recent) {
            Some((_, snapshot)) => snapshot.clone(),
            None => {
                let mut read = last.reader.read(&sources).map_err(|why| format!("{why:#}"))?;
                if let Some(histograms) = &self.histograms {
                    let (sums, examples) = histograms.shown();
                    (read.sums, read.examples) = (Some(sums), examples);
                }
                last.snapshot = Some((Instant::now(), read.clone()));
                read
            }
        };
        Ok(exposition::body(Snapshot { health: sources.health, ..snapshot }, format))
    }

    /// SHA-256 of the file of the policy in force; none: there is none yet.
    pub fn policy_hash(&self) -> Option<String> {
        locked(&self.now).sources.policy_hash.clone()
    }

    /// Whether all is under control that should be, in words.
    ///
    /// # Errors
    /// It is not, and why.
    pub fn readiness(&self) -> Result<String, String> {
        let now = locked(&self.now);
        match (&now.sources.health, now.looked) {
            (Some(health), Some(looked)) if looked.elapsed() < LOOKS_WITHIN => match health.is_ready() {
                true => Ok(health.in_words()),
                false if health.is_running() || !health.standing.is_empty() => Err(health.in_words()),
                false => Err(format!("{}; its clock was not seen to run yet", health.in_words())),
            },
            (_, Some(looked)) => {
                Err(format!("the agent has not looked at anything for {} s", looked.elapsed().as_secs()))
            }
            _ => Err("the agent is starting".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_as_the_agent_has_seen_it_and_none_before() {
        let publisher = Publisher::default();
        let published = publisher.published();
        assert_eq!(published.readiness(), Err("the agent is starting".into()));
        let well = Health { interfaces: 1, are_clocks_seen: true, is_covered: true, ..Health::default() };
        publisher.health(well.clone());
        assert_eq!(published.readiness(), Ok("1 interface(s) under control".into()));
        publisher.health(Health { standing: vec!["tap0".into()], ..well.clone() });
        let why = "1 interface(s) under control; clock stands still: tap0";
        assert_eq!(published.readiness(), Err(why.into()));
        publisher.health(Health { are_clocks_seen: false, ..well.clone() });
        assert!(published.readiness().is_err_and(|why| why.ends_with("not seen to run yet")));
        publisher.health(well);
        locked(&published.now).looked = Instant::now().checked_sub(LOOKS_WITHIN);
        assert!(published.readiness().is_err_and(|why| why.contains("has not looked")));
    }

    #[test]
    fn metrics_are_read_once_a_second_and_health_is_that_of_now() {
        let publisher = Publisher::default();
        let published = publisher.published();
        publisher.health(Health { are_clocks_seen: true, is_covered: true, ..Health::default() });
        let ready = |published: &Published| {
            let text = String::from_utf8(published.metrics(Format::Text).expect("nothing to read"));
            text.expect("a text")
                .lines()
                .find_map(|line| line.strip_prefix("windlass_ready ").map(String::from))
        };
        assert_eq!(ready(&published).as_deref(), Some("1.0"));
        let read = locked(&published.last).snapshot.as_ref().map(|(at, _)| *at);
        publisher.health(Health::default());
        assert_eq!(ready(&published).as_deref(), Some("0.0"));
        assert_eq!(locked(&published.last).snapshot.as_ref().map(|(at, _)| *at), read);
    }
}
