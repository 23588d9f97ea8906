//! How a fleet is, for people and programs: what `windlass fleet status` shows.

use crate::{
    driver::short,
    labels::Labels,
    state::{Change, NodeStatus, Writer},
    store::Contents,
};
use serde::Serialize;

/// A fleet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overview {
    /// Of its state.
    pub generation: u64,
    /// The last change; none: there was never any.
    pub changed: Option<Change>,
    /// Which nodes should have which policy.
    pub policies: Vec<Assigned>,
    /// The rollout under way.
    pub rollout: Option<UnderWay>,
    /// All nodes that ever came, but for those that were forgotten.
    pub nodes: Vec<Node>,
}

/// A policy of the nodes that a selector chooses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assigned {
    /// Which nodes.
    pub selector: String,
    /// The policy, by its SHA-256.
    pub policy: String,
    /// The one before.
    pub previous: Option<String>,
}

/// A rollout under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnderWay {
    /// The policy, by its SHA-256.
    pub policy: String,
    /// The file that it was read from.
    pub file: String,
    /// Which nodes.
    pub selector: String,
    /// From 1 on.
    pub stage: usize,
    /// How many there are.
    pub stages: usize,
    /// What is waited for.
    pub phase: crate::step::Phase,
    /// The nodes that should have it now.
    pub taken: Vec<String>,
    /// How many will.
    pub nodes: usize,
    /// None: the process that drove it is gone, and it stands still.
    pub driver: Option<Writer>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// Its name.
    pub node: String,
    /// How it is.
    pub state: State,
    /// What is wrong, if something is.
    pub why: Option<String>,
    /// What it should have now; `wanted` is what it should have by what it read last.
    pub should_have: Option<String>,
    /// All that it reported last.
    #[serde(flatten)]
    pub status: NodeStatus,
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has what it should have in force.
    Ok,
    /// It has not put in force yet what it should have.
    Lags,
    /// It, or its agent, refuses what it should have.
    Refuses,
    /// Its agent is not well.
    Unwell,
    /// Its lease has ended: it is gone, or has no way to etcd. What it reported is of the past.
    Stale,
}

impl State {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Lags => "lags",
            State::Refuses => "refuses",
            State::Unwell => "unwell",
            State::Stale => "stale",
        }
    }
}

impl Overview {
    /// Of what was read.
    pub fn of(read: &Contents) -> Overview {
        let fleet = &read.fleet;
        let assigned = fleet.assigned.iter().map(|assignment| Assigned {
            selector: assignment.selector.to_string(),
            policy: assignment.policy.clone(),
            previous: assignment.previous.clone(),
        });
        let rollout = fleet.rollout.as_ref().map(|rollout| UnderWay {
            policy: rollout.policy.clone(),
            file: rollout.file.clone(),
            selector: rollout.selector.to_string(),
            stage: rollout.stage.saturating_add(1),
            stages: rollout.stages.len(),
            phase: rollout.phase,
            taken: rollout.taken().to_vec(),
            nodes: rollout.nodes.len(),
            driver: read.driver.clone(),
        });
        let node = |(name, (status, _)): (&String, &(NodeStatus, i64))| {
            let wanted = fleet.policy_of(name, &status.labels).map(String::from);
            let (state, why) = state(status, wanted.as_deref(), read.alive.contains(name));
            Node { node: name.clone(), state, why, should_have: wanted, status: status.clone() }
        };
        Overview {
            generation: fleet.generation,
            changed: (read.changed != 0).then(|| fleet.changed.clone()),
            policies: assigned.collect(),
            rollout,
            nodes: read.nodes.iter().map(node).collect(),
        }
    }
}

fn state(status: &NodeStatus, wanted: Option<&str>, is_alive: bool) -> (State, Option<String>) {
    let has_it = wanted.is_none() || status.in_force.as_deref() == wanted;
    let refused = status.refused.clone().filter(|_| status.wanted.as_deref() == wanted);
    if !is_alive {
        (State::Stale, Some("its lease has ended; what it reported is of the past".into()))
    } else if let Some(why) = refused.filter(|_| !has_it || wanted.is_none()) {
        (State::Refuses, Some(why))
    } else if !has_it {
        (State::Lags, Some(format!("it should have {}", short(wanted.unwrap_or_default()))))
    } else if status.unwell.is_some() {
        (State::Unwell, status.unwell.clone())
    } else {
        (State::Ok, None)
    }
}

impl Node {
    /// Its labels.
    pub fn labels(&self) -> &Labels {
        &self.status.labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_stale_refuses_lags_is_unwell_or_well() {
        let has = |in_force: &str| NodeStatus {
            in_force: Some(in_force.into()),
            wanted: Some("new".into()),
            ..NodeStatus::default()
        };
        let of = |status: &NodeStatus, wanted, is_alive| state(status, wanted, is_alive).0;
        assert_eq!(of(&has("new"), Some("new"), true), State::Ok);
        assert_eq!(of(&has("old"), None, true), State::Ok, "the fleet has nothing for it");
        assert_eq!(of(&has("new"), Some("new"), false), State::Stale);
        assert_eq!(of(&has("old"), Some("new"), true), State::Lags);
        let refuses = NodeStatus { refused: Some("no".into()), ..has("old") };
        assert_eq!(of(&refuses, Some("new"), true), State::Refuses);
        assert_eq!(of(&refuses, Some("newer"), true), State::Lags, "that was of another one");
        let stays =
            NodeStatus { wanted: None, refused: Some("nothing was there before".into()), ..has("old") };
        assert_eq!(of(&stays, None, true), State::Refuses);
        let unwell = NodeStatus { unwell: Some("not ready".into()), ..has("new") };
        assert_eq!(of(&unwell, Some("new"), true), State::Unwell);
    }
}
