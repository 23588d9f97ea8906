//! All scripts of a folder: played, and judged by what each one announces.

use crate::{loaded::Loaded, play::Stage, script::Script};
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    thread,
};

/// Packets that a report of a failure ends with.
const TRACE_LINES: usize = 24;

/// A script and where it stands.
pub struct Named {
    /// Its path below the folder of all scripts.
    pub name: String,
    /// What stands there.
    pub script: Script,
}

/// What came of a script.
#[derive(Debug)]
pub struct Outcome {
    /// Its path below the folder of all scripts.
    pub name: String,
    /// Name of the known fault that makes it fail.
    pub expected_failure: Option<String>,
    /// What was not as expected.
    pub failure: Option<String>,
    /// The last packets before that.
    pub trace: Vec<String>,
}

impl Outcome {
    /// A line or two for people, and whether it is as announced.
    pub fn report(&self) -> (String, bool) {
        match (&self.failure, &self.expected_failure) {
            (None, None) => (format!("ok: {}", self.name), true),
            (Some(failure), None) => {
                let trace: String = self.trace.iter().map(|line| format!("\n    {line}")).collect();
                (format!("FAILED: {failure}\n  the last packets:{trace}"), false)
            }
            (Some(failure), Some(fault)) => (format!("expected failure ({fault}): {failure}"), true),
            (None, Some(fault)) => {
                let text = format!(
                    "FAILED: {} passes and is marked as a failure ({fault}): remove the line `expect failure`",
                    self.name
                );
                (text, false)
            }
        }
    }
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            files_below(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "txt") {
            found.push(path);
        }
    }
    Ok(())
}

/// Reads all scripts below that folder whose names contain `filter`.
pub fn read_scripts(folder: &Path, filter: &str) -> Result<Vec<Named>> {
    let mut files = Vec::new();
    files_below(folder, &mut files)?;
    files.sort();
    let mut scripts = Vec::new();
    for path in files {
        let name = path.strip_prefix(folder)?.display().to_string();
        if !name.contains(filter) {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| name.clone())?;
        scripts.push(Named { script: Script::parse(&text).with_context(|| name.clone())?, name });
    }
    Ok(scripts)
}

/// `FILE:LINE: what was not as expected`, of an error whose contexts begin with the line.
fn failure_of(name: &str, error: &anyhow::Error) -> String {
    let parts: Vec<String> = error.chain().map(ToString::to_string).collect();
    match parts[0].strip_prefix("line ") {
        Some(line) => format!("{name}:{line}: {}", parts[1..].join(": ")),
        None => format!("{name}: {}", parts.join(": ")),
    }
}

/// Plays the scripts of one setup, one after the other.
fn play_all(scripts: &[&Named]) -> Result<Vec<Outcome>> {
    let mut stage = Stage::new(Loaded::attach(&scripts[0].script.setup.of_programs())?);
    let play = |named: &&Named| {
        let failure = stage.play(&named.script).err().map(|e| failure_of(&named.name, &e));
        let trace = stage.trace();
        Outcome {
            name: named.name.clone(),
            expected_failure: named.script.expected_failure.clone(),
            failure,
            trace: trace[trace.len().saturating_sub(TRACE_LINES)..].to_vec(),
        }
    };
    Ok(scripts.iter().map(play).collect())
}

/// Plays all scripts in this kernel's programs, those of each setup in programs of their own.
pub fn play_loaded(scripts: &[Named]) -> Result<Vec<Outcome>> {
    let mut by_setup: BTreeMap<_, Vec<&Named>> = BTreeMap::new();
    for named in scripts {
        by_setup.entry(&named.script.setup).or_default().push(named);
    }
    let mut outcomes = Vec::new();
    // a thread each, as each is in a network namespace of its own
    thread::scope(|scope| {
        let runs: Vec<_> = by_setup.values().map(|scripts| scope.spawn(move || play_all(scripts))).collect();
        for run in runs {
            match run.join() {
                Ok(played) => outcomes.extend(played?),
                Err(_) => bail!("a thread that played scripts has panicked"),
            }
        }
        Ok(())
    })?;
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(expected: Option<&str>, failure: Option<&str>) -> Outcome {
        Outcome {
            name: "repair/a.txt".to_string(),
            expected_failure: expected.map(String::from),
            failure: failure.map(String::from),
            trace: Vec::new(),
        }
    }

    #[test]
    fn an_expected_failure_must_fail_and_no_other_may() {
        assert!(outcome(None, None).report().1);
        assert!(!outcome(None, Some("repair/a.txt:3: ...")).report().1);
        assert!(outcome(Some("a fault"), Some("repair/a.txt:3: ...")).report().1);
        let (text, is_right) = outcome(Some("a fault"), None).report();
        assert!(!is_right && text.contains("remove the line"), "{text}");
    }
}
