//! What is to be run: jobs, and the conditions of an experiment that they belong to.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{fmt, num::NonZeroU64};
use windlass_scenario::Scenario;

/// Where runs happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// Real kernels, in real time.
    #[default]
    Lab,
    /// Simulated hosts, in virtual time.
    Sim,
}

impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(if *self == Home::Sim { "sim" } else { "lab" })
    }
}

/// One run to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its condition.
    pub point: String,
    /// Its variant.
    pub variant: String,
    /// Where it runs.
    pub on: Home,
    /// Bandwidth-delay product of its path.
    pub bdp_bytes: f64,
    /// Whether to sample the box's flow table.
    pub needs_samples: bool,
    /// Length in ns of the intervals in which the run is recorded; none: only sums.
    pub interval: Option<NonZeroU64>,
    /// What to run.
    pub scenario: Scenario,
}

/// What is run under one name of a point.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The name.
    pub name: String,
    /// That of its point, without what varies.
    pub point: String,
    /// Where it stands on the x axis of plots.
    pub x: Option<f64>,
    /// Which line of the plots it belongs to, besides that of its variant.
    pub line: String,
    /// Its runs.
    pub jobs: Vec<Job>,
}

/// Point, variant and seed.
pub type Key = (String, String, u64);

impl Job {
    /// What distinguishes it from the other jobs of an experiment.
    pub fn key(&self) -> Key {
        (self.point.clone(), self.variant.clone(), self.scenario.seed)
    }

    /// A hash of what is run and recorded, by which build. Of a record that has the same, nothing needs to be run again.
    pub fn hash(&self) -> String {
        self.hash_in(if self.on == Home::Lab { LAB_SOURCES } else { SOURCES })
    }

    /// The same in a build of these sources.
    fn hash_in(&self, sources: &str) -> String {
        let what = (&self.scenario, self.on, self.interval, self.needs_samples, sources);
        let what = serde_json::to_string(&what).expect("plain data");
        Sha256::digest(what).iter().take(HASH_BYTES).map(|b| format!("{b:02x}")).collect()
    }
}

/// Identifies builds: a hash of the sources that what runs give hangs on (build.rs). The agent identifies objects
/// that are loaded in the kernel, which is less: they do not change with the simulator.
const SOURCES: &str = env!("WINDLASS_SOURCES");
/// The same without the simulator: what real kernels gave is not run again when that changes.
const LAB_SOURCES: &str = env!("WINDLASS_LAB_SOURCES");

/// Enough to distinguish scenarios.
const HASH_BYTES: usize = 8;

/// The largest bandwidth-delay product of the scenario's links.
pub fn bdp_bytes(scenario: &Scenario) -> f64 {
    scenario.links.iter().filter_map(|l| l.rate.map(|r| r.0 / 8.0 * 2.0 * l.delay.0)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_build_or_record_is_another_run() {
        let scenario = Scenario::parse(
            "t",
            "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"\n",
        )
        .unwrap_or_else(|e| panic!("{e}"));
        let (point, variant) = ("p".to_string(), "reno".to_string());
        let job = Job {
            point,
            variant,
            on: Home::Sim,
            bdp_bytes: 0.0,
            needs_samples: false,
            interval: None,
            scenario,
        };
        assert_eq!(job.hash(), job.hash_in(SOURCES));
        assert_ne!(job.hash(), job.hash_in("0"));
        let real = Job { on: Home::Lab, ..job.clone() };
        assert_eq!((real.hash(), SOURCES == LAB_SOURCES), (real.hash_in(LAB_SOURCES), false));
        // what was not sampled or not recorded in intervals cannot be judged by them
        assert_ne!(job.hash(), Job { needs_samples: true, ..job.clone() }.hash());
        assert_ne!(job.hash(), Job { interval: NonZeroU64::new(1), ..job.clone() }.hash());
    }
}
