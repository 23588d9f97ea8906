//! `windlass reproduce harm-survey`: is a server behind the box ever slower than it would be alone? Paths and workloads are chosen
//! at random, far beyond those of the published experiments (`path.rs`, `workload.rs`), and simulated with five seeds each: the
//! server alone with CUBIC, with native BBR, and with CUBIC behind the box, which runs each of three algorithms. Runs of one seed
//! are pairs: they have the same links, losses by packet number, sizes and pauses. The server alone is run with five other seeds
//! besides: what it then differs from itself by is chance.
//!
//! The time of a run is the longest that any flow waited for what it transferred; of a path, the median over its seeds. What does
//! not finish behind the box and does alone is infinitely slower.
//!
//! With real kernels (`--on lab`) each tenth path is run, in real time: those that the testbed can play (messages are pushed by
//! servers of the simulator only).

mod compare;
mod needless;
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
use anyhow::{Result, anyhow, bail, ensure};
use compare::{VARIANTS, compare, judge};
use path::{PATHS, Path};
use report::Command;
use windlass_scenario::Scenario;

/// Its name among the experiments.
pub const NAME: &str = "harm-survey";
/// What it is about, in a line.
pub const TITLE: &str = "No harm on any path: paths and workloads chosen at random, simulated";

/// Runs of each variant of a path.
const SEEDS: u64 = 5;
/// In quick mode, one path of so many is run, with one seed.
const QUICK_DIVISOR: u32 = 10;
/// With real kernels, one path of so many is run: each has the same chance, and takes real time.
const LAB_STEP: u32 = 10;

/// Most draws of paths.
pub const DRAWS: u32 = 1000;

/// Which paths of the survey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of a draw, from 1 to [`DRAWS`]: the first has the paths from number 1 on, the next one as many others.
    Draw(u32),
    /// The one of that number.
    Path(u32),
}

/// The numbers of the paths to run.
fn numbers(which: Which, on: Home, is_quick: bool) -> Vec<u32> {
    let step = if on == Home::Lab { LAB_STEP } else { 1 };
    let most = if is_quick { PATHS / QUICK_DIVISOR } else { PATHS };
    match which {
        Which::Draw(draw) => (step..=most).step_by(step as usize).map(|n| n + (draw - 1) * PATHS).collect(),
        Which::Path(number) => vec![number],
    }
}

/// The name of the folder of its report: one path does not take the place of the runs of all, nor real kernels that of simulated ones.
fn report_name(which: Which, on: Home) -> String {
    let on = if on == Home::Lab { "-lab" } else { "" };
    let which = match which {
        Which::Draw(1) => String::new(),
        Which::Draw(draw) => format!("-draw-{draw}"),
        Which::Path(number) => format!("-path-{number}"),
    };
    format!("{NAME}{on}{which}")
}

/// All runs of these paths, those of one seed next to each other.
fn jobs(paths: &[Path], on: Home, seeds: u64) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for path in paths {
        for seed in 1..=seeds {
            for variant in &VARIANTS {
                let seed = if variant.is_again { seed + seeds } else { seed };
                let scenario = Scenario::parse(&path.name(), &path.text(variant, seed))
                    .map_err(|e| anyhow!("{e}; this is a fault of the survey"))?;
                jobs.push(Job {
                    point: path.name(),
                    variant: variant.name.into(),
                    on,
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

/// Why this home cannot run the path; none: it can.
fn refusal(path: &Path, on: Home) -> Result<Option<String>> {
    let jobs = jobs(std::slice::from_ref(path), on, 1)?;
    Ok(jobs.iter().find_map(|job| on.check(&job.scenario).err()).map(|why| why.what))
}

/// Runs these paths of the survey, and judges the claims about what was run.
///
/// # Errors
/// There is no such path or draw, or no path can run there, or the report cannot be written.
pub fn harm_survey(which: Which, on: Home, settings: &Settings) -> Result<Outcome> {
    match which {
        Which::Path(number) => {
            let most = PATHS * DRAWS;
            ensure!((1..=most).contains(&number), "--only {number}: paths have the numbers 1 to {most}");
        }
        Which::Draw(draw) => {
            ensure!((1..=DRAWS).contains(&draw), "--draw {draw}: draws have the numbers 1 to {DRAWS}");
        }
    }
    let (mut paths, mut refused) = (Vec::new(), Vec::new());
    for path in numbers(which, on, settings.quick).into_iter().map(Path::of_number) {
        match refusal(&path, on)? {
            Some(why) => refused.push((path, why)),
            None => paths.push(path),
        }
    }
    if let (Some((path, why)), true) = (refused.first(), paths.is_empty()) {
        bail!("no path to run there: {}: {why}", path.name());
    }
    survey(&paths, &refused, which, on, settings)
}

/// Runs these paths; `refused`: what was left out, and why.
fn survey(
    paths: &[Path],
    refused: &[(Path, String)],
    which: Which,
    on: Home,
    settings: &Settings,
) -> Result<Outcome> {
    let seeds = if settings.quick { 1 } else { SEEDS };
    let name = report_name(which, on);
    let folder = settings.folder(&name);
    let runs = runner::run_all(&name, jobs(paths, on, seeds)?, settings, &folder)?;
    let compared = compare(paths, &runs, seeds as usize);
    let mut verdicts = judge(paths, &compared, seeds as usize);
    if on == Home::Sim {
        // kernels do not count them by flow
        verdicts.extend(needless::judge(paths, &compared, seeds as usize));
    }
    let command = Command { on, is_quick: settings.quick };
    let tables = vec![
        report::quantiles(&compared),
        report::messages(&compared),
        needless::table(&compared),
        report::worst(&compared, &folder, command),
    ];
    let title = TITLE.into();
    let mut outcome = Outcome { name, title, verdicts, tables, runs: Vec::new() };
    report::write(&outcome, &runs, &compared, refused, &folder, &command.of(which))?;
    drop(compared);
    outcome.runs = runs;
    Ok(outcome)
}
