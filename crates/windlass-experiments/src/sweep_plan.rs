//! What a sweep consists of, as it is kept beside its runs: its parts on several machines are put together by it.

use crate::{job::Home, seeds::Seeds, sweep::Varied};
use anyhow::{Context, Error, Result};
use serde::{Deserialize, Serialize};
use std::{fs, path::Path};

/// Its file.
const FILE: &str = "sweep.json";

/// A scenario, what is varied, and where it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Text of the scenario.
    pub scenario: String,
    /// Each key with its values, as with `--set`.
    set: Vec<String>,
    /// As with `--seeds`; none: a key varies them.
    seeds: Option<String>,
    /// Where it runs.
    pub on: Home,
}

impl Plan {
    pub fn new(scenario: &str, varied: &[Varied], seeds: Option<&Seeds>, on: Home) -> Plan {
        let set = varied.iter().map(|v| v.text.clone()).collect();
        Plan { scenario: scenario.into(), set, seeds: seeds.map(Seeds::to_string), on }
    }

    pub fn varied(&self) -> Result<Vec<Varied>> {
        self.set.iter().map(|text| text.parse().map_err(Error::msg)).collect()
    }

    pub fn seeds(&self) -> Result<Option<Seeds>> {
        self.seeds.as_deref().map(|text| text.parse().map_err(Error::msg)).transpose()
    }

    /// That of a folder.
    pub fn read(folder: &Path) -> Result<Plan> {
        let path = folder.join(FILE);
        let text = fs::read_to_string(&path).with_context(|| {
            format!("{}: a sweep that has come to its end leaves it: let it, with --resume", path.display())
        })?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    pub fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(FILE);
        let text = serde_json::to_string_pretty(self).expect("plain data") + "\n";
        fs::write(&path, text).with_context(|| path.display().to_string())
    }
}
