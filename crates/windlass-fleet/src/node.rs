//! The process beside an agent: what the fleet has for this node it writes into the agent's policy file, and it reports what is in
//! force. While etcd is away everything stays as it is.

use crate::{
    agent_metrics::AgentMetrics,
    error::{Error, Result},
    etcd::Watch,
    http::{self, ANSWER_WITHIN, Endpoint},
    labels::Labels,
    policy_file::PolicyFile,
    state::{Fleet, NodeStatus},
    store::Store,
    wall_clock::unix_s,
};
use std::{
    convert::Infallible,
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

/// A lease is renewed so many times before it would end.
const BEATS: u32 = 3;
/// What does not change is reported again after so long, so that it is known to be of today.
const REPORT_AFTER: Duration = Duration::from_secs(60);
/// After a policy was written the agent is looked at more often, until it has it in force, or for so long.
const TAKES_UP_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(500);
/// First pause after etcd gave no answer. The longest is half a lease, so that a node is back before its lease ends, which etcd
/// renews at its own start.
const BACK_OFF: Duration = Duration::from_millis(500);

/// What a node is, and where what it needs is.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name, no other node's.
    pub name: String,
    /// By which selectors choose it.
    pub labels: Labels,
    /// The agent's policy file.
    pub policy: PathBuf,
    /// Where the agent serves its metrics.
    pub agent: Endpoint,
    /// How long after this process has ended, or etcd is out of its reach, the fleet takes the node for gone.
    pub lease_s: u64,
    /// Build of this process.
    pub version: String,
}

/// What happens to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// etcd answers, for the first time or again.
    Connected,
    /// A policy, by its SHA-256, was written for the agent.
    Written(String),
    /// What was there before the fleet came was put back.
    PutBack,
    /// The agent has this policy in force.
    InForce(String),
    /// Something is not as it should be, and the node goes on.
    Complaint(String),
}

/// The node's side of a fleet.
pub struct Node<'a> {
    config: Config,
    store: &'a Store,
    file: PolicyFile,
    check: &'a (dyn Fn(&str) -> std::result::Result<(), String> + Sync),
    report: &'a (dyn Fn(Event) + Sync),
    lease: Option<i64>,
    is_connected: bool,
    /// What was last complained of, which is not repeated.
    complained: Option<String>,
    status: NodeStatus,
    /// The status as it was last put into etcd, and when.
    reported: Option<(NodeStatus, Instant)>,
    /// When a policy was written last, and the agent did not have it in force yet.
    written: Option<Instant>,
    /// A rollout is under way, for which counts are needed.
    is_watched: bool,
    /// The policy that this process has written last.
    put_last: Option<String>,
}

impl<'a> Node<'a> {
    /// `check`: whether a text is a policy, and if not, why; `report` gets what happens.
    pub fn new(
        config: Config,
        store: &'a Store,
        check: &'a (dyn Fn(&str) -> std::result::Result<(), String> + Sync),
        report: &'a (dyn Fn(Event) + Sync),
    ) -> Node<'a> {
        let status = NodeStatus {
            labels: config.labels.clone(),
            host: store.writer().host.clone(),
            version: config.version.clone(),
            in_force_since_unix_s: unix_s(),
            ..NodeStatus::default()
        };
        let file = PolicyFile::new(&config.policy);
        Node {
            config,
            store,
            file,
            check,
            report,
            lease: None,
            is_connected: false,
            complained: None,
            status,
            reported: None,
            written: None,
            is_watched: false,
            put_last: None,
        }
    }

    /// Follows the fleet for ever.
    pub async fn run(&mut self) -> Infallible {
        let longest = Duration::from_secs(self.config.lease_s) / 2;
        let mut pause = BACK_OFF;
        let mut watch = None;
        loop {
            match self.look(&mut watch).await {
                Ok(()) => {
                    pause = BACK_OFF;
                    self.wait(&mut watch).await;
                }
                Err(why) => {
                    watch = None;
                    self.is_connected = false;
                    self.complain(format!("{why}; the policy in force stays, and etcd is tried again"));
                    sleep(jittered(pause)).await;
                    pause = (pause * 2).min(longest);
                }
            }
        }
    }

    /// Ends the lease, so that the fleet does not wait for its end.
    pub async fn leave(&mut self) {
        if let Some(lease) = self.lease.take() {
            // etcd that is away ends it by itself
            let _ = timeout(ANSWER_WITHIN, self.store.revoke(lease)).await;
        }
    }

    /// One look at all: etcd, the policy's file, the agent.
    async fn look(&mut self, watch: &mut Option<Watch>) -> Result<()> {
        let (fleet, revision) = self.store.fleet().await?;
        if watch.is_none() {
            *watch = Some(self.store.watch(revision).await?);
        }
        self.follow(&fleet).await?;
        self.look_at_agent().await;
        self.be_alive().await?;
        self.publish().await?;
        if !self.is_connected {
            self.is_connected = true;
            self.complained = None;
            (self.report)(Event::Connected);
        }
        Ok(())
    }

    /// Until something changes, or it is time for another look.
    async fn wait(&mut self, watch: &mut Option<Watch>) {
        let beat = Duration::from_secs(self.config.lease_s) / BEATS;
        let limit = if self.written.is_some() { beat.min(LOOK) } else { beat };
        let Some(changes) = watch else { return };
        match timeout(limit, changes.next()).await {
            Ok(Ok(())) | Err(_) => {}
            // the next look begins another one
            Ok(Err(_)) => *watch = None,
        }
    }

    /// Writes the policy that the fleet has for this node, if it is another one.
    async fn follow(&mut self, fleet: &Fleet) -> Result<()> {
        self.is_watched = fleet.rollout.is_some();
        let wanted = fleet.policy_of(&self.config.name, &self.config.labels).map(String::from);
        let is_other = self.status.wanted != wanted;
        self.status.generation = fleet.generation;
        self.status.wanted.clone_from(&wanted);
        if is_other {
            self.status.refused = None;
        }
        let put = match &wanted {
            Some(hash) => self.put(hash).await?,
            None => self.put_back(),
        };
        match put {
            Err(why) => {
                self.status.refused = Some(why.clone());
                self.complain(why);
            }
            Ok(()) if wanted.is_none() => self.status.refused = None,
            Ok(()) => {}
        }
        Ok(())
    }

    /// The inner result: whether the policy could be written.
    async fn put(&mut self, hash: &str) -> Result<std::result::Result<(), String>> {
        let of_file = |why: std::io::Error| format!("{}: {why}", self.config.policy.display());
        match self.file.hash() {
            Ok(there) if there.as_deref() == Some(hash) => return Ok(Ok(())),
            Ok(_) => {}
            Err(why) => return Ok(Err(of_file(why))),
        }
        let Some(text) = self.store.policy(hash).await? else {
            return Ok(Err(format!("policy {hash} is not in etcd, or not as it was written")));
        };
        if let Err(why) = (self.check)(&text) {
            return Ok(Err(why));
        }
        if let Err(why) = self.file.put(&text) {
            return Ok(Err(of_file(why)));
        }
        self.status.refused = None;
        self.written = Some(Instant::now());
        self.put_last = Some(hash.into());
        (self.report)(Event::Written(hash.into()));
        Ok(Ok(()))
    }

    fn put_back(&mut self) -> std::result::Result<(), String> {
        match self.file.put_back() {
            Ok(true) => {
                self.written = Some(Instant::now());
                (self.report)(Event::PutBack);
                Ok(())
            }
            Ok(false) => match &self.put_last {
                Some(last) if self.file.hash().is_ok_and(|there| there.as_ref() == Some(last)) => {
                    Err(format!(
                        "{}: no policy was here before the fleet's, which stays; put one in its place",
                        self.config.policy.display()
                    ))
                }
                _ => Ok(()),
            },
            Err(why) => Err(format!("{}: {why}", self.config.policy.display())),
        }
    }

    /// What the agent has in force, and how it is.
    async fn look_at_agent(&mut self) {
        let metrics = self.ask_agent("/metrics").await;
        let readiness = self.ask_agent("/readyz").await;
        let (metrics, unwell) = match (metrics, readiness) {
            (Ok((200, text)), Ok((200, _))) => (AgentMetrics::parse(&text), None),
            (Ok((200, text)), Ok((_, why))) => (AgentMetrics::parse(&text), Some(why.trim().to_string())),
            (Ok((status, _)), Ok(_)) => {
                (AgentMetrics::default(), Some(format!("its agent answers with status {status}")))
            }
            (Err(why), _) | (_, Err(why)) => {
                (AgentMetrics::default(), Some(format!("its agent does not answer: {why}")))
            }
        };
        self.status.unwell = unwell;
        self.status.counts = metrics.counts;
        self.status.agent_version = metrics.version.or(self.status.agent_version.take());
        // what is in force stays so while an agent is away
        if let Some(hash) = metrics.policy_hash
            && self.status.in_force.as_ref() != Some(&hash)
        {
            self.status.in_force_since_unix_s = unix_s();
            self.status.in_force = Some(hash.clone());
            (self.report)(Event::InForce(hash));
        }
        let has_it = self.status.wanted.is_none() || self.status.in_force == self.status.wanted;
        if has_it && self.status.wanted.is_some() {
            self.status.refused = None;
        } else if !has_it && metrics.refused_hash == self.status.wanted && self.status.refused.is_none() {
            self.status.refused = Some("its agent refuses the policy, for the reason in its log".into());
        }
        if has_it || self.written.is_some_and(|at| at.elapsed() > TAKES_UP_WITHIN) {
            self.written = None;
        }
    }

    async fn ask_agent(&self, path: &str) -> std::result::Result<(u16, String), String> {
        let answer = http::request(&self.config.agent, path, None).await?;
        let status = answer.status.as_u16();
        Ok((status, answer.text().await?))
    }

    async fn be_alive(&mut self) -> Result<()> {
        if let Some(lease) = self.lease
            && !self.store.keep_alive(lease).await?
        {
            self.lease = None;
        }
        let lease = match self.lease {
            Some(lease) => lease,
            None => self.store.grant(self.config.lease_s).await?,
        };
        self.lease = Some(lease);
        let Some(other) = self.store.be_node(&self.config.name, lease).await? else { return Ok(()) };
        self.lease = None;
        let _ = self.store.revoke(lease).await;
        Err(Error::Lost(format!(
            "node {} is {other} until its lease ends; if that one goes on, name each of you by --node",
            self.config.name
        )))
    }

    /// Puts the status into etcd, where it is another one or the last one is old.
    async fn publish(&mut self) -> Result<()> {
        let is_new = |(reported, at): &(NodeStatus, Instant)| {
            let counts = if self.is_watched { self.status.counts } else { reported.counts };
            let as_then = NodeStatus { counts, at_unix_s: reported.at_unix_s, ..self.status.clone() };
            as_then != *reported || at.elapsed() >= REPORT_AFTER || !self.is_connected
        };
        if self.reported.as_ref().is_some_and(|reported| !is_new(reported)) {
            return Ok(());
        }
        self.status.at_unix_s = unix_s();
        self.store.report(&self.config.name, &self.status).await?;
        self.reported = Some((self.status.clone(), Instant::now()));
        Ok(())
    }

    fn complain(&mut self, why: String) {
        if self.complained.as_ref() != Some(&why) {
            (self.report)(Event::Complaint(why.clone()));
            self.complained = Some(why);
        }
    }
}

/// Half of it to one and a half times as long, at random, so that nodes that lost etcd at one moment do not come back at one.
fn jittered(pause: Duration) -> Duration {
    // each state has keys of its own, at random
    let random = RandomState::new().hash_one(0u8) >> 32;
    pause / 2 + pause.mul_f64(random as f64 / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_differ_by_half_of_them_at_most() {
        let pause = Duration::from_secs(8);
        let all: Vec<Duration> = (0..100).map(|_| jittered(pause)).collect();
        assert!(all.iter().all(|one| (4.0..=12.0).contains(&one.as_secs_f64())), "{all:?}");
        assert!(all.iter().any(|one| *one < pause) && all.iter().any(|one| *one > pause));
    }
}
