//! `windlass reproduce harm-survey`: is a server behind the box ever slower than it would be alone? Paths and workloads are chosen
//! at random, far beyond those of the published experiments (`path.rs`, `workload.rs`), and simulated with five seeds each: the
//! server alone with CUBIC, with native BBR, and with CUBIC behind the box, which runs each of three algorithms. Runs of one seed
//! are pairs: they have the same links, losses by packet number, sizes and pauses.
//!
//! The time of a run is the longest that any flow waited for what it transferred; of a path, the median over its seeds. What does
//! not finish behind the box and does alone is infinitely slower.

mod compare;
mod path;
mod random;
mod report;
#[cfg(test)]
mod tests;
mod workload;

use crate::{
    job::{Home, Job, bdp_bytes},
    report::Outcome,
    runner,
    settings::Settings,
};
use anyhow::{Result, anyhow, ensure};
use compare::{VARIANTS, compare, judge};
use path::{PATHS, Path};
use windlass_scenario::Scenario;

/// Its name among the experiments.
pub const NAME: &str = "harm-survey";
/// What it is about, in a line.
pub const TITLE: &str = "No harm on any path: paths and workloads chosen at random, simulated";

/// Runs of each variant of a path.
const SEEDS: u64 = 5;
/// In quick mode, one path of so many is run, with one seed.
const QUICK_DIVISOR: u32 = 10;

/// The numbers of the paths to run.
fn numbers(only: Option<u32>, is_quick: bool) -> std::ops::RangeInclusive<u32> {
    match only {
        Some(number) => number..=number,
        None if is_quick => 1..=PATHS / QUICK_DIVISOR,
        None => 1..=PATHS,
    }
}

/// All runs of these paths, those of one seed next to each other.
fn jobs(paths: &[Path], seeds: u64) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for path in paths {
        for seed in 1..=seeds {
            for variant in &VARIANTS {
                let scenario = Scenario::parse(&path.name(), &path.text(variant, seed))
                    .map_err(|e| anyhow!("{e}; this is a fault of the survey"))?;
                jobs.push(Job {
                    point: path.name(),
                    variant: variant.name.into(),
                    on: Home::Sim,
                    bdp_bytes: bdp_bytes(&scenario),
                    needs_samples: false,
                    interval: None,
                    scenario,
                });
            }
        }
    }
    Ok(jobs)
}

/// Runs the survey, or `only` the path of that number, and judges the claims about what was run.
///
/// # Errors
/// There is no path of that number, or the report cannot be written.
pub fn harm_survey(only: Option<u32>, settings: &Settings) -> Result<Outcome> {
    if let Some(number) = only {
        ensure!((1..=PATHS).contains(&number), "--only {number}: paths have the numbers 1 to {PATHS}");
    }
    let paths: Vec<Path> = numbers(only, settings.quick).map(Path::of_number).collect();
    survey(&paths, only, settings)
}

/// Runs these paths.
fn survey(paths: &[Path], only: Option<u32>, settings: &Settings) -> Result<Outcome> {
    let seeds = if settings.quick { 1 } else { SEEDS };
    // one path does not take the place of the runs of all
    let name = only.map_or(NAME.into(), |number| format!("{NAME}-path-{number}"));
    let folder = settings.folder(&name);
    let runs = runner::run_all(&name, jobs(paths, seeds)?, settings, &folder)?;
    let compared = compare(paths, &runs, seeds as usize);
    let verdicts = judge(paths, &compared, seeds as usize);
    let tables = vec![report::quantiles(&compared), report::worst(&compared, &folder, settings.quick)];
    let title = TITLE.into();
    let mut outcome = Outcome { name, title, verdicts, tables, runs: Vec::new() };
    let again = format!(
        "windlass reproduce {NAME}{}{}",
        only.map_or(String::new(), |number| format!(" --only {number}")),
        if settings.quick { " --quick" } else { "" }
    );
    report::write(&outcome, &runs, &compared, &folder, &again)?;
    drop(compared);
    outcome.runs = runs;
    Ok(outcome)
}
