//! All scripts of a folder: played, and judged by what each one announces.

use crate::{
    home::Home,
    native::Native,
    pair::{Difference, Pair},
    play::Stage,
    script::{BoxSetup, Script},
};
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
    /// That is something which the two homes do differently.
    pub is_difference: bool,
    /// The last packets before that.
    pub trace: Vec<String>,
}

impl Outcome {
    /// A line or two for people, and whether it is as announced.
    pub fn report(&self) -> (String, bool) {
        match (&self.failure, &self.expected_failure) {
            (None, None) => (format!("ok: {}", self.name), true),
            (Some(failure), Some(fault)) if !self.is_difference => {
                (format!("expected failure ({fault}): {failure}"), true)
            }
            (Some(failure), _) => {
                let trace: String = self.trace.iter().map(|line| format!("\n    {line}")).collect();
                (format!("FAILED: {failure}\n  the last packets:{trace}"), false)
            }
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
        if !filter.split(",").any(|part| name.contains(part)) {
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
fn play_in_turn<H: Home>(scripts: &[&Named], home: H) -> Vec<Outcome> {
    let mut stage = Stage::new(home);
    let play = |named: &&Named| {
        let error = stage.play(&named.script).err();
        let trace = stage.trace();
        Outcome {
            name: named.name.clone(),
            expected_failure: named.script.expected_failure.clone(),
            is_difference: error.as_ref().is_some_and(|e| e.downcast_ref::<Difference>().is_some()),
            failure: error.map(|e| failure_of(&named.name, &e)),
            trace: trace[trace.len().saturating_sub(TRACE_LINES)..].to_vec(),
        }
    };
    scripts.iter().map(play).collect()
}

/// Plays all scripts, those of each setup in a home of their own, which `home` makes in the thread that uses it.
fn play_all<H: Home>(
    scripts: &[Named],
    home: impl Fn(&BoxSetup) -> Result<H> + Sync,
) -> Result<Vec<Outcome>> {
    let mut by_setup: BTreeMap<_, Vec<&Named>> = BTreeMap::new();
    for named in scripts {
        by_setup.entry(&named.script.setup).or_default().push(named);
    }
    let home = &home;
    let mut outcomes = Vec::new();
    // a thread each, as programs are in a network namespace of their own
    thread::scope(|scope| {
        let runs: Vec<_> = by_setup
            .iter()
            .map(|(setup, scripts)| scope.spawn(move || Ok(play_in_turn(scripts, home(setup)?))))
            .collect();
        for run in runs {
            let played: Result<Vec<Outcome>> =
                run.join().unwrap_or_else(|_| bail!("a thread that played scripts has panicked"));
            outcomes.extend(played?);
        }
        anyhow::Ok(())
    })?;
    outcomes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(outcomes)
}

/// Plays all scripts in the native core.
pub fn play_native(scripts: &[Named]) -> Result<Vec<Outcome>> {
    play_all(scripts, Native::new)
}

/// Plays all scripts in this kernel's programs, beside the native core, which must do the same.
pub fn play_in_both(scripts: &[Named]) -> Result<Vec<Outcome>> {
    play_all(scripts, Pair::attach)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(expected: Option<&str>, failure: Option<&str>) -> Outcome {
        Outcome {
            name: "repair/a.txt".to_string(),
            expected_failure: expected.map(String::from),
            failure: failure.map(String::from),
            is_difference: false,
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
        let difference =
            Outcome { is_difference: true, ..outcome(Some("a fault"), Some("the homes differ")) };
        assert!(!difference.report().1, "a difference of the homes is no known fault");
    }
}
