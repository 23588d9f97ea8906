//! What is in etcd of a fleet: the policies that nodes should have, the rollout under way, and what nodes report of themselves.

use crate::{
    Labels, Selector,
    agent_metrics::Counts,
    error::{Error, Result},
    guard::Guard,
    step::Phase,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Of the documents; one of another format is refused.
pub const FORMAT: u32 = 1;

/// What all nodes of a fleet should have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fleet {
    /// [`FORMAT`]
    pub format: u32,
    /// Grows with every change.
    pub generation: u64,
    /// Which nodes have which policy.
    pub assigned: Vec<Assignment>,
    /// None: no rollout is under way.
    pub rollout: Option<Rollout>,
    /// The last change.
    pub changed: Change,
}

/// A policy, by the SHA-256 of its text, of the nodes that a selector chooses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Which nodes.
    pub selector: Selector,
    /// What they should have.
    pub policy: String,
    /// What they had before, for a rollback. None: what was on each node before the fleet came.
    pub previous: Option<String>,
    /// Generation of the change that has put it here.
    pub generation: u64,
}

/// A writer of a change, and what it changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The generation that it made.
    pub generation: u64,
    /// In a line.
    pub what: String,
    /// The process that made it.
    pub writer: Writer,
    /// By the writer's clock, in seconds since 1970.
    pub at_unix_s: u64,
}

/// A process that writes into etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// Its user's name, before sudo.
    pub user: String,
    /// Its machine.
    pub host: String,
    /// Its number there.
    pub process: u32,
}

impl std::fmt::Display for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{} (process {})", self.user, self.host, self.process)
    }
}

/// A new policy on its way to the nodes that its selector chooses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// Generation at its start, by which it is known.
    pub id: u64,
    /// Which nodes are to have it.
    pub selector: Selector,
    /// What they are to have, by its SHA-256.
    pub policy: String,
    /// The file that it was read from, for people.
    pub file: String,
    /// The nodes that were alive at its start, in the order in which they get it: first the canaries.
    pub nodes: Vec<String>,
    /// How many of these have it in each stage; in the last, all.
    pub stages: Vec<usize>,
    /// Which of them it is at.
    pub stage: usize,
    /// What is waited for there.
    pub phase: Phase,
    /// Nodes whose agents were not well at its start: nothing is concluded from that.
    pub ailing: Vec<String>,
    /// Beyond these it is rolled back.
    pub guards: Vec<Guard>,
    /// How nodes have to do for how long.
    pub terms: Terms,
}

/// How long a rollout waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// So long each stage is watched, in seconds.
    pub wait_s: u64,
    /// Within so long nodes must have a policy in force, in seconds.
    pub apply_within_s: u64,
    /// A node may be gone, or its agent not well, for so long, in seconds.
    pub unwell_for_s: u64,
    /// So many nodes may be without the policy all the same.
    pub may_lag: usize,
}

impl Rollout {
    /// The nodes that should have the new policy now.
    pub fn taken(&self) -> &[String] {
        let count = match (self.phase, self.stage) {
            (Phase::Before, 0) => 0,
            (Phase::Before, stage) => self.of_stage(stage - 1),
            (_, stage) => self.of_stage(stage),
        };
        &self.nodes[..count]
    }

    /// Of these, the ones that got it in this stage.
    pub fn fresh(&self) -> &[String] {
        let before = self.stage.checked_sub(1).map_or(0, |stage| self.of_stage(stage));
        let taken = self.taken();
        &taken[before.min(taken.len())..]
    }

    fn of_stage(&self, stage: usize) -> usize {
        self.stages.get(stage).copied().unwrap_or(self.nodes.len()).min(self.nodes.len())
    }

    /// The longest window of its guards.
    pub fn window(&self) -> Duration {
        self.guards.iter().map(|guard| guard.window).max().unwrap_or_default()
    }
}

impl Fleet {
    /// From what is in etcd.
    pub fn parse(text: &str) -> Result<Fleet> {
        let fleet: Fleet = document("fleet", text)?;
        match fleet.format {
            FORMAT => Ok(fleet),
            other => Err(Error::Invalid(format!(
                "the fleet's state in etcd has format {other}, this build knows {FORMAT}: use the build that wrote it"
            ))),
        }
    }

    /// What a node should have, by its SHA-256. None: what was there before the fleet came.
    pub fn policy_of(&self, node: &str, labels: &Labels) -> Option<&str> {
        if let Some(rollout) = &self.rollout
            && rollout.taken().iter().any(|taken| taken == node)
        {
            return Some(&rollout.policy);
        }
        // by the most labels, and of equals by the last that was put here
        let of_node = self.assigned.iter().filter(|assignment| assignment.selector.is_of(labels));
        let best =
            of_node.max_by_key(|assignment| (assignment.selector.labels_count(), assignment.generation));
        best.map(|assignment| assignment.policy.as_str())
    }

    /// What is assigned to exactly this selector.
    pub fn assignment(&self, selector: &Selector) -> Option<&Assignment> {
        self.assigned.iter().find(|assignment| assignment.selector == *selector)
    }

    /// The nodes of this selector get another policy, for good; none: what they had before the fleet came.
    pub fn assign(&mut self, selector: &Selector, policy: Option<String>) {
        let previous = self.assignment(selector).map(|assignment| assignment.policy.clone());
        self.assigned.retain(|assignment| assignment.selector != *selector);
        if let Some(policy) = policy {
            let (selector, generation) = (selector.clone(), self.generation);
            self.assigned.push(Assignment { selector, policy, previous, generation });
        }
    }
}

/// What a node reports of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Its labels.
    pub labels: Labels,
    /// Its machine.
    pub host: String,
    /// Build of its process of the fleet.
    pub version: String,
    /// Build of its agent.
    pub agent_version: Option<String>,
    /// The fleet's generation that it last read.
    pub generation: u64,
    /// The policy that it should have by that.
    pub wanted: Option<String>,
    /// The policy in force, as its agent has it.
    pub in_force: Option<String>,
    /// Since when, in seconds since 1970, by its clock.
    pub in_force_since_unix_s: u64,
    /// Why the wanted policy is not in force, if the node or the agent refuses it.
    pub refused: Option<String>,
    /// What is wrong with its agent.
    pub unwell: Option<String>,
    /// None: the agent does not answer, or starts.
    pub counts: Option<Counts>,
    /// When this was written, in seconds since 1970, by its clock.
    pub at_unix_s: u64,
}

/// A document in etcd.
pub fn document<T: for<'de> Deserialize<'de>>(what: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|why| Error::Invalid(format!("the {what} document in etcd: {why}")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::labels::Label;

    pub fn rollout(stages: &[usize], stage: usize, phase: Phase) -> Rollout {
        Rollout {
            id: 7,
            selector: Selector::default(),
            policy: "new".into(),
            file: "policy.toml".into(),
            nodes: ["a", "b", "c", "d"].map(String::from).to_vec(),
            stages: stages.to_vec(),
            stage,
            phase,
            ailing: vec![],
            guards: vec!["loss<2%,2x,30s".parse().unwrap()],
            terms: Terms { wait_s: 60, apply_within_s: 20, unwell_for_s: 10, may_lag: 0 },
        }
    }

    #[test]
    fn a_rollouts_nodes_have_its_policy_stage_by_stage() {
        let at = |stage, phase| rollout(&[1, 2, 4], stage, phase);
        assert!(at(0, Phase::Before).taken().is_empty() && at(0, Phase::Before).fresh().is_empty());
        assert_eq!(at(0, Phase::Apply).taken(), ["a"]);
        assert_eq!(at(1, Phase::Before).taken(), ["a"]);
        assert_eq!(at(1, Phase::Watch).taken(), ["a", "b"]);
        assert_eq!(at(1, Phase::Watch).fresh(), ["b"]);
        assert_eq!(at(2, Phase::Apply).fresh(), ["c", "d"]);
        assert_eq!(at(9, Phase::Apply).taken().len(), 4, "a document may have anything");
    }

    fn labels(text: &str) -> Labels {
        text.split(',').map(|label| label.parse::<Label>().unwrap()).collect()
    }

    #[test]
    fn a_node_has_the_policy_of_the_selector_with_the_most_labels() {
        let mut fleet = Fleet { format: FORMAT, ..Fleet::default() };
        assert_eq!(fleet.policy_of("a", &labels("site=x")), None);
        for (selector, policy) in [("site=x,role=edge", "edges"), ("all", "all"), ("site=x", "site")] {
            fleet.generation += 1;
            fleet.assign(&selector.parse().unwrap(), Some(policy.into()));
        }
        for (node, policy) in [
            ("site=x,role=edge", "edges"),
            ("site=x,role=core", "site"),
            ("site=y", "all"),
            ("role=edge", "all"),
        ] {
            assert_eq!(fleet.policy_of("n", &labels(node)), Some(policy), "{node}");
        }
        fleet.rollout = Some(rollout(&[1, 4], 0, Phase::Watch));
        assert_eq!(fleet.policy_of("a", &labels("site=x")), Some("new"));
        assert_eq!(fleet.policy_of("b", &labels("site=x")), Some("site"));
        let text = serde_json::to_string(&fleet).unwrap();
        assert_eq!(Fleet::parse(&text).unwrap(), fleet);
    }

    #[test]
    fn an_assignment_keeps_what_was_before() {
        let mut fleet = Fleet::default();
        let all = Selector::default();
        fleet.assign(&all, Some("one".into()));
        assert_eq!(fleet.assignment(&all).unwrap().previous, None);
        fleet.assign(&all, Some("two".into()));
        assert_eq!(fleet.assignment(&all).unwrap().previous.as_deref(), Some("one"));
        fleet.assign(&all, None);
        assert_eq!(fleet.assignment(&all), None);
    }

    #[test]
    fn documents_of_another_format_are_refused() {
        let fleet = Fleet { format: 2, ..Fleet::default() };
        let why = Fleet::parse(&serde_json::to_string(&fleet).unwrap()).unwrap_err().to_string();
        assert!(why.contains("format 2"), "{why}");
        assert!(Fleet::parse("no JSON").is_err());
    }
}
