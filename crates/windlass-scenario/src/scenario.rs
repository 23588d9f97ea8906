//! The scenario file.

mod read;

use crate::{Flow, Group, Host, Link, LinkModel, Parameters, Span, Switch, Tcp, unitless};
use rand::{RngCore, SeedableRng};
use rand_xoshiro::SplitMix64;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A mistake in a scenario: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {what}", if *line == 0 { String::new() } else { format!(":{line}") })]
pub struct ScenarioError {
    /// File name, as given.
    pub file: String,
    /// Line, from 1; 0: the file as a whole.
    pub line: usize,
    /// Key, what is wrong and the cure.
    pub what: String,
}

impl ScenarioError {
    /// A mistake at a line, from 1; 0: of the file as a whole.
    pub fn new(file: &str, line: usize, what: &str) -> ScenarioError {
        ScenarioError { file: file.into(), line, what: what.into() }
    }
}

/// A network with its traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// Name in reports.
    pub name: String,
    /// Seeds every random choice.
    pub seed: u64,
    /// When a run is given up.
    pub time_limit: Span,
    /// Machines, switches among them.
    pub hosts: Vec<Host>,
    /// Which of them are switches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<Switch>,
    /// Wires between them.
    pub links: Vec<Link>,
    /// Flows that share a window.
    pub groups: Vec<Group>,
    /// What is sent.
    pub flows: Vec<Flow>,
    /// The TCP of all end systems.
    pub tcp: Tcp,
    /// Where Windlass sits; none: nowhere.
    pub windlass: Option<Windlass>,
    /// What algorithms are given of the path.
    pub parameters: Parameters,
}

/// What Windlass does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Controls.
    #[default]
    Transparent,
    /// Measures.
    Watch,
}

/// A box in the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with at and facing")]
pub struct Windlass {
    /// Host on which it runs.
    pub at: String,
    /// Neighbour that the controlled interface faces: the servers' side.
    pub facing: String,
    /// Algorithm.
    #[serde(default = "bbr")]
    pub algorithm: String,
    /// What it does.
    #[serde(default, deserialize_with = "unitless::word")]
    pub mode: Mode,
    /// Group in which it couples all flows; none: each is on its own.
    pub group: Option<String>,
}

fn bbr() -> String {
    "bbr".into()
}

impl Scenario {
    /// The hosts, switches apart, whose names begin as `row` does before its "*", in the order of the file.
    pub fn row(&self, row: &str) -> Vec<&str> {
        let begin = row.trim_end_matches('*');
        let switches: BTreeSet<&str> = self.switches.iter().map(|s| s.name.as_str()).collect();
        let all = self.hosts.iter().map(|h| h.name.as_str());
        all.filter(|name| name.starts_with(begin) && !switches.contains(name)).collect()
    }

    /// What reports call both directions of each link, forward first: "a > b", and "a > b #2" of the second link between
    /// the same two hosts, whichever of them it names first.
    pub fn directions(&self) -> Vec<[String; 2]> {
        let mut links: BTreeMap<[&String; 2], u32> = BTreeMap::new();
        let mut directions = Vec::with_capacity(self.links.len());
        for Link { between: [a, b], .. } in &self.links {
            let number = links.entry(if a < b { [a, b] } else { [b, a] }).or_default();
            *number += 1;
            let rest = if *number > 1 { format!(" #{number}") } else { String::new() };
            directions.push([format!("{a} > {b}{rest}"), format!("{b} > {a}{rest}")]);
        }
        directions
    }

    /// Names of the directions of links that are emulated.
    pub fn link_names(&self) -> Vec<String> {
        let all = self.links.iter().zip(self.directions());
        all.filter(|(link, _)| link.is_emulated()).flat_map(|(_, both)| both).collect()
    }

    /// Seed of the random choices on link `index`, in every home.
    pub fn link_seed(&self, index: usize) -> u64 {
        if index < PLAIN_SEEDS {
            return self.seed.wrapping_mul(PLAIN_SEEDS as u64).wrapping_add(index as u64);
        }
        // the next number would be that of the next seed's first link
        SplitMix64::seed_from_u64(self.seed ^ (index as u64) << 44).next_u64()
    }

    /// Seed of the random choices of a direction's queue discipline, in every home.
    pub fn discipline_seed(&self, index: usize, backward: bool) -> u64 {
        SplitMix64::seed_from_u64(self.link_seed(index) ^ u64::from(backward) << 63).next_u64()
    }

    /// A direction of a link with the queue that it has there: its own, or else that of the switch which it leaves.
    pub fn port(&self, index: usize, backward: bool) -> Link {
        self.links[index].port(backward, &self.switches)
    }

    /// How a direction of a link treats packets, in every home.
    pub fn link_model(&self, index: usize, backward: bool) -> LinkModel {
        LinkModel::new(&self.port(index, backward), backward, self.link_seed(index))
    }
}

/// So many links have seeds next to each other.
const PLAIN_SEEDS: usize = 1000;
/// The longest run.
pub(crate) const MAX_TIME: Span = Span(86_400.0);

#[cfg(test)]
mod tests;
