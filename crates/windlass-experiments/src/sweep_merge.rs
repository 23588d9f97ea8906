//! The runs of a sweep's parts, put together.

use crate::{
    job::{Job, Key},
    record::RunRecord,
    runs_file::{all_runs, claim, line, put_aside, replace},
};
use anyhow::{Context, Result, ensure};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// How many runs a message lists.
const LISTED: usize = 3;

/// The runs of all jobs, in their order, from these folders.
///
/// # Errors
/// Some are missing.
pub(crate) fn collect(folders: &[PathBuf], jobs: &[Job]) -> Result<Vec<RunRecord>> {
    let all = folders.iter().flat_map(|folder| all_runs(&folder.join("runs.jsonl")));
    pick(all.map(|(_, run)| run), jobs)
}

/// The runs of all jobs, in their order, among these.
///
/// # Errors
/// Some are missing.
pub(crate) fn pick(all: impl Iterator<Item = RunRecord>, jobs: &[Job]) -> Result<Vec<RunRecord>> {
    let wanted: BTreeMap<Key, String> = jobs.iter().map(|job| (job.key(), job.hash())).collect();
    let (mut found, mut others): (BTreeMap<Key, RunRecord>, usize) = (BTreeMap::new(), 0);
    for run in all {
        match wanted.get(&run.key()) {
            Some(hash) if *hash == run.scenario_hash => drop(found.insert(run.key(), run)),
            _ => others += 1,
        }
    }
    let missing: Vec<Key> = jobs.iter().map(Job::key).filter(|key| !found.contains_key(key)).collect();
    let named: Vec<String> =
        missing.iter().take(LISTED).map(|(point, _, seed)| format!("{point} seed {seed}")).collect();
    let of_others = match others {
        0 => String::new(),
        n => {
            format!("; {n} runs there are of another build, whose results may differ: run them with this one")
        }
    };
    ensure!(
        missing.is_empty(),
        "{} of {} runs are missing, {} first: name the folders of all shards, and let each come to its end with --resume{of_others}",
        missing.len(),
        jobs.len(),
        named.join(", ")
    );
    Ok(jobs.iter().filter_map(|job| found.remove(&job.key())).collect())
}

/// Puts them into the folder `out`, as one machine does.
pub(crate) fn write(runs: &[RunRecord], out: &Path, folders: &[PathBuf]) -> Result<()> {
    let place = || out.display().to_string();
    let _claim = claim(out)?;
    let real = |folder: &Path| fs::canonicalize(folder).with_context(|| folder.display().to_string());
    let out_itself = real(out)?;
    for folder in folders {
        ensure!(real(folder)? != out_itself, "{}: is one of the shards; name another --out", place());
    }
    let path = out.join("runs.jsonl");
    put_aside(&path).with_context(place)?;
    replace(&path, runs.iter().map(line)).with_context(place)?;
    Ok(())
}
