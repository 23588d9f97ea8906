//! Writers: the process that drives a rollout through its stages, and those that go back or forget.

use crate::{
    error::{Error, Result},
    guard::Guard,
    judge::{Judge, Reading},
    labels::Selector,
    policy_file::hash,
    share_or_count::ShareOrCount,
    state::{Fleet, Rollout, Terms},
    step::{Next, Phase, next},
    store::{Besides, Contents, Store},
};
use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// How often the driver looks.
const LOOK: Duration = Duration::from_secs(1);
/// How long a rollout is known to be driven after its driver has died.
const LEASE_S: u64 = 10;

/// A rollout that is wanted.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The policy's text, which is sound.
    pub text: String,
    /// The file that it was read from.
    pub file: String,
    /// Which nodes are to have it.
    pub selector: Selector,
    /// How many have it in the stages before the last, which is all.
    pub stages: Vec<ShareOrCount>,
    /// Beyond these it is rolled back.
    pub guards: Vec<Guard>,
    /// How long it waits for what.
    pub terms: Terms,
}

/// What happens to a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has begun, or goes on.
    Started {
        /// By which it is known.
        id: u64,
        /// How many nodes it is for.
        nodes: usize,
        /// In how many stages.
        stages: usize,
    },
    /// It is in another stage or phase now.
    Stage {
        /// From 0 on.
        stage: usize,
        /// What is waited for there.
        phase: Phase,
        /// How many nodes should have the policy.
        nodes: usize,
    },
    /// What is waited for.
    Waits(String),
    /// Something is not as it should be, and the driver goes on.
    Complaint(String),
    /// All nodes have the policy.
    Done,
    /// All nodes go back to what they had.
    RolledBack(String),
}

/// How a rollout ended for its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All nodes have the policy.
    Done,
    /// They have again what they had, and why.
    RolledBack(String),
}

/// Starts a rollout and drives it to its end.
///
/// # Errors
/// There is a rollout already, no node for it, or another writer was faster.
pub async fn start(store: &Store, plan: &Plan, report: &dyn Fn(Event)) -> Result<End> {
    let read = store.contents().await?;
    if let Some(rollout) = &read.fleet.rollout {
        return Err(Error::Lost(is_under_way(&read, rollout)));
    }
    let policy = hash(&plan.text);
    if read.fleet.assignment(&plan.selector).is_some_and(|assignment| assignment.policy == policy) {
        return Err(Error::Invalid(format!(
            "{}: nodes of selector {} are to have it already",
            plan.file, plan.selector
        )));
    }
    let rollout = rollout(&read, plan, policy)?;
    let lease = store.driving_lease(LEASE_S).await?;
    let besides = Besides { policy: Some(&plan.text), lease: Some(lease), as_driver: false };
    let what = format!(
        "rollout of {} ({}) to {} nodes of {} in {} stages",
        plan.file,
        short(&rollout.policy),
        rollout.nodes.len(),
        rollout.selector,
        rollout.stages.len()
    );
    let fleet = Fleet { rollout: Some(rollout), ..read.fleet.clone() };
    let written = store.change(&read, fleet, &what, &besides).await;
    if written.is_err() {
        store.stop_driving().await;
    }
    let id = written?.generation;
    drive(store, id, report).await
}

/// Goes on with the rollout whose driver is gone.
///
/// # Errors
/// There is none, or its driver is not gone.
pub async fn resume(store: &Store, report: &dyn Fn(Event)) -> Result<End> {
    let read = store.contents().await?;
    let Some(rollout) = &read.fleet.rollout else {
        return Err(Error::Invalid(
            "no rollout is under way; `windlass fleet history` shows those of the past".into(),
        ));
    };
    let id = rollout.id;
    if !store.keep_driving(LEASE_S).await? {
        store.stop_driving().await;
        return Err(Error::Lost(is_under_way(&read, rollout)));
    }
    drive(store, id, report).await
}

/// Goes back: to what nodes had before the rollout under way, or, without one, before the last that was completed.
///
/// # Errors
/// There is nothing to go back to, or another writer was faster.
pub async fn roll_back(store: &Store, selector: &Selector, why: &str) -> Result<Fleet> {
    let read = store.contents().await?;
    let mut fleet = read.fleet.clone();
    let what = if let Some(rollout) = fleet.rollout.take() {
        format!("rollout of {} ({}) rolled back: {why}", rollout.file, short(&rollout.policy))
    } else {
        let Some(assignment) = read.fleet.assignment(selector) else {
            return Err(Error::Invalid(format!(
                "nodes of selector {selector} have no policy of this fleet to go back from"
            )));
        };
        // the generation that this change makes
        fleet.generation += 1;
        fleet.assign(selector, assignment.previous.clone());
        let to = assignment.previous.as_deref().map_or("what was there before the fleet".into(), short);
        format!("nodes of {selector} go back from {} to {to}: {why}", short(&assignment.policy))
    };
    store.change(&read, fleet, &what, &Besides::default()).await
}

/// The first digits of a SHA-256, for people.
pub fn short(hash: &str) -> String {
    hash.chars().take(12).collect()
}

fn is_under_way(read: &Contents, rollout: &Rollout) -> String {
    let driver = match &read.driver {
        Some(driver) => format!("driven by {driver}"),
        None => "whose driver is gone; `windlass fleet rollout --resume` goes on".into(),
    };
    format!(
        "a rollout of {} is under way, at stage {} of {}, {driver}; `windlass fleet rollback` ends it",
        rollout.file,
        rollout.stage.saturating_add(1),
        rollout.stages.len()
    )
}

/// Which nodes, in which order, and how many in each stage.
fn rollout(read: &Contents, plan: &Plan, policy: String) -> Result<Rollout> {
    // another order each time, so that not always the same nodes are the canaries
    let order = RandomState::new();
    let is_well = |name: &String| read.nodes[name].0.unwell.is_none();
    let chosen = read
        .nodes
        .iter()
        .filter(|(name, (status, _))| read.alive.contains(name) && plan.selector.is_of(&status.labels));
    let mut nodes: Vec<String> = chosen.map(|(name, _)| name.clone()).collect();
    nodes.sort_by_cached_key(|name| (!is_well(name), order.hash_one(name)));
    if nodes.is_empty() {
        return Err(Error::Invalid(format!(
            "no node of selector {} is alive; `windlass fleet status` lists all",
            plan.selector
        )));
    }
    let stages: BTreeSet<usize> = plan
        .stages
        .iter()
        .map(|stage| stage.of(nodes.len()))
        .chain([nodes.len()])
        .filter(|count| *count > 0)
        .collect();
    let ailing = nodes.iter().filter(|name| !is_well(name)).cloned().collect();
    Ok(Rollout {
        id: read.fleet.generation + 1,
        selector: plan.selector.clone(),
        policy,
        file: plan.file.clone(),
        nodes,
        stages: stages.into_iter().collect(),
        stage: 0,
        phase: Phase::Before,
        ailing,
        guards: plan.guards.clone(),
        terms: plan.terms,
    })
}

/// The driver of one rollout.
struct Driver<'a> {
    store: &'a Store,
    id: u64,
    judge: Judge,
    began: Instant,
    /// When the phase began, of this driver's time.
    phase_since: Duration,
    renewed: Duration,
    is_away: bool,
    waited_for: String,
    report: &'a dyn Fn(Event),
}

async fn drive(store: &Store, id: u64, report: &dyn Fn(Event)) -> Result<End> {
    let mut driver = Driver {
        store,
        id,
        judge: Judge::default(),
        began: Instant::now(),
        phase_since: Duration::ZERO,
        renewed: Duration::ZERO,
        is_away: false,
        waited_for: String::new(),
        report,
    };
    let mut is_started = false;
    let ended = loop {
        match driver.look(&mut is_started).await {
            Ok(Some(end)) => break Ok(end),
            Ok(None) => driver.is_away = false,
            Err(why @ Error::Away { .. }) => {
                if !driver.is_away {
                    report(Event::Complaint(format!("{why}; the rollout stands still until it answers")));
                }
                driver.is_away = true;
                // what was not seen is not judged: the phase begins anew
                driver.phase_since = driver.began.elapsed();
            }
            Err(why) => break Err(why),
        }
        sleep(LOOK).await;
    };
    store.stop_driving().await;
    ended
}

impl Driver<'_> {
    async fn look(&mut self, is_started: &mut bool) -> Result<Option<End>> {
        let read = self.store.contents().await?;
        self.keep_lease().await?;
        let at = self.began.elapsed();
        let Some(rollout) = read.fleet.rollout.as_ref().filter(|rollout| rollout.id == self.id) else {
            let change = &read.fleet.changed;
            return Err(Error::Lost(format!("the rollout was ended by {}: {}", change.writer, change.what)));
        };
        if !*is_started {
            let (nodes, stages) = (rollout.nodes.len(), rollout.stages.len());
            (self.report)(Event::Started { id: self.id, nodes, stages });
            *is_started = true;
        }
        let readings: Vec<Reading<'_>> = read
            .nodes
            .iter()
            .filter(|(name, _)| rollout.nodes.contains(name))
            .map(|(name, (status, version))| Reading {
                name,
                status,
                version: *version,
                is_alive: read.alive.contains(name),
            })
            .collect();
        self.judge.see(&readings, at);
        let verdict = self.judge.judge(rollout, self.phase_since, at);
        let in_phase = at.saturating_sub(self.phase_since);
        match next(rollout, &self.judge.seen(at), verdict.tripped.as_deref(), in_phase) {
            Next::Wait(why) => self.waits(why),
            Next::To(stage, phase) => {
                if rollout.phase == Phase::Watch {
                    self.note_unjudged(&verdict.unjudged);
                }
                self.go(&read, rollout, stage, phase).await?;
            }
            Next::Done => {
                self.note_unjudged(&verdict.unjudged);
                let mut fleet = read.fleet.clone();
                fleet.rollout = None;
                // the generation that this change makes
                fleet.generation += 1;
                fleet.assign(&rollout.selector, Some(rollout.policy.clone()));
                let what = format!("rollout of {} ({}) is complete", rollout.file, short(&rollout.policy));
                self.store.change(&read, fleet, &what, &self.besides()).await?;
                (self.report)(Event::Done);
                return Ok(Some(End::Done));
            }
            Next::Back(why) => {
                let fleet = Fleet { rollout: None, ..read.fleet.clone() };
                let what =
                    format!("rollout of {} ({}) rolled back: {why}", rollout.file, short(&rollout.policy));
                self.store.change(&read, fleet, &what, &self.besides()).await?;
                (self.report)(Event::RolledBack(why.clone()));
                return Ok(Some(End::RolledBack(why)));
            }
        }
        Ok(None)
    }

    fn besides(&self) -> Besides<'static> {
        Besides { as_driver: true, ..Besides::default() }
    }

    async fn go(&mut self, read: &Contents, rollout: &Rollout, stage: usize, phase: Phase) -> Result<()> {
        let to = Rollout { stage, phase, ..rollout.clone() };
        let nodes = to.taken().len();
        if phase == Phase::Apply {
            self.judge.mark_before(to.fresh(), &rollout.guards);
        }
        let words = match phase {
            Phase::Before => "before",
            Phase::Apply => "get the policy",
            Phase::Watch => "have it, and are watched",
        };
        let what = format!("stage {} of {}: {nodes} nodes {words}", stage + 1, to.stages.len());
        let fleet = Fleet { rollout: Some(to), ..read.fleet.clone() };
        self.store.change(read, fleet, &what, &self.besides()).await?;
        self.phase_since = self.began.elapsed();
        (self.report)(Event::Stage { stage, phase, nodes });
        Ok(())
    }

    /// The lease is renewed before it ends; one that has ended, as with etcd's data, is made anew unless another process drives.
    async fn keep_lease(&mut self) -> Result<()> {
        let now = self.began.elapsed();
        if now.saturating_sub(self.renewed) < Duration::from_secs(LEASE_S) / 3 && !self.is_away {
            return Ok(());
        }
        if !self.store.keep_driving(LEASE_S).await? {
            return Err(Error::Lost("another process drives the rollout now".into()));
        }
        self.renewed = now;
        Ok(())
    }

    fn note_unjudged(&self, guards: &[String]) {
        for guard in guards {
            (self.report)(Event::Complaint(format!("guard {guard}: not judged, for too little was sent")));
        }
    }

    /// Reports what is waited for when that is something else, whatever time is left.
    fn waits(&mut self, why: String) {
        let without_time = why.rsplit_once(", for ").map_or(why.as_str(), |(what, _)| what).to_string();
        if self.waited_for != without_time {
            self.waited_for = without_time;
            (self.report)(Event::Waits(why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::NodeStatus;

    fn plan(stages: &[&str]) -> Plan {
        Plan {
            text: "text".into(),
            file: "policy.toml".into(),
            selector: "site=a".parse().unwrap(),
            stages: stages.iter().map(|stage| stage.parse().unwrap()).collect(),
            guards: Guard::usual(Duration::from_secs(60)),
            terms: Terms { wait_s: 60, apply_within_s: 60, unwell_for_s: 10, may_lag: 0 },
        }
    }

    fn contents(count: usize) -> Contents {
        let mut read = Contents::default();
        for number in 0..count {
            let labels = [format!("site={}", if number < 20 { "a" } else { "b" }).parse().unwrap()];
            let unwell = (number == 3).then(|| "not ready".to_string());
            let status = NodeStatus { labels: labels.into_iter().collect(), unwell, ..NodeStatus::default() };
            read.nodes.insert(format!("n{number}"), (status, 1));
            if number != 7 {
                read.alive.push(format!("n{number}"));
            }
        }
        read
    }

    #[test]
    fn a_rollout_is_of_nodes_that_are_alive_and_chosen_and_begins_with_those_that_are_well() {
        let rollout = super::rollout(&contents(30), &plan(&["10%", "50%"]), "new".into()).unwrap();
        assert_eq!(rollout.nodes.len(), 19);
        assert!(!rollout.nodes.contains(&"n7".into()), "it is gone");
        assert_eq!(
            (rollout.nodes.last().unwrap().as_str(), &rollout.ailing[..]),
            ("n3", &["n3".to_string()][..])
        );
        assert_eq!(rollout.stages, [2, 10, 19]);
        let small = super::rollout(&contents(2), &plan(&["10%", "50%", "100%", "0%"]), "new".into()).unwrap();
        assert_eq!(small.stages, [1, 2]);
        let why = super::rollout(&contents(0), &plan(&["10%"]), "new".into()).unwrap_err().to_string();
        assert!(why.contains("no node of selector site=a is alive"), "{why}");
    }
}
