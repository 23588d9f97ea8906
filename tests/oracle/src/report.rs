//! What runs are, and what they have found and done.

use crate::gate::{Durations, Findings};
use std::fmt::Write;

/// One run: what it is depends on these two numbers, and on how long the machine takes for what.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Of all runs.
    pub seed: u64,
    /// Which of them it is.
    pub number: u64,
}

/// What one or several runs have found and done.
#[derive(Debug, Default)]
pub struct Report {
    /// What must not have happened.
    pub findings: Findings,
    /// Packets that were given to the datapath.
    pub packets: u64,
    pub(crate) connections: u64,
    pub(crate) repairs: u64,
    pub(crate) updates: u64,
    pub(crate) ticks: u64,
    pub(crate) insiders: u64,
    pub(crate) busy_us: u64,
    pub(crate) durations: Durations,
}

impl Report {
    /// Adds another one.
    pub fn merge(&mut self, other: Report) {
        self.findings.merge(other.findings);
        self.packets += other.packets;
        self.connections += other.connections;
        self.repairs += other.repairs;
        self.updates += other.updates;
        self.ticks += other.ticks;
        self.insiders += other.insiders;
        self.busy_us += other.busy_us;
        for (kind, mut durations) in other.durations {
            self.durations.entry(kind).or_default().append(&mut durations);
        }
    }

    /// In one line.
    pub fn summary(&self) -> String {
        format!(
            "{} packets ({:.0} a second), {} connections ({} with insiders), {} repairs and {} updates by the box in {} rounds, {}",
            self.packets,
            self.packets as f64 * 1e6 / self.busy_us.max(1) as f64,
            self.connections,
            self.insiders,
            self.repairs,
            self.updates,
            self.ticks,
            if self.findings.is_empty() {
                "no fault".to_string()
            } else {
                format!("{:?}", self.findings.kinds())
            },
        )
    }

    /// How long the programs took for packets of each kind; empty if that was not requested.
    pub fn times(&self) -> String {
        table(&self.durations)
    }
}

/// Durations as a table.
pub(crate) fn table(durations: &Durations) -> String {
    let mut lines = String::new();
    for (kind, durations) in durations {
        let mut sorted = durations.clone();
        sorted.sort_unstable();
        let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
        let line = format!(
            "{kind:<34} {:>9} packets, ns: 50 % {:>6}, 99 % {:>6}, 99.9 % {:>6}, 99.99 % {:>7}, all {:>8}",
            sorted.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(0.9999),
            at(1.0)
        );
        writeln!(lines, "{line}").expect("a string takes all");
    }
    lines
}
