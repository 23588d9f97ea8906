//! `windlass reproduce agreement-survey`: is the simulator right off the grid of `agreement`? Points are chosen by a sequence that covers
//! the domain evenly (`point.rs`), and run with the same seeds in both homes, as often as their simulated runs scatter (`scatter.rs`);
//! the simulator once more with others, to show what chance does.

mod compare;
mod point;
mod report;
mod scatter;

use crate::{
    job::{Home, Job, bdp_bytes},
    report::Outcome,
    runner,
    settings::Settings,
    shard::Shard,
};
use anyhow::{Result, anyhow, ensure};
use compare::{VARIANTS, compare, judge};
use point::{POINTS, Point};
use scatter::runs_needed;
use std::num::NonZeroU64;
use windlass_scenario::Scenario;

/// Its name among the experiments.
pub const NAME: &str = "agreement-survey";
/// What it is about, in a line.
pub const TITLE: &str =
    "Simulated transfers against real ones, far and wide: completion times, queues and fairness";

/// Least runs of each variant of a point.
const SEEDS: u64 = 3;
/// Least runs with other seeds ...
const AGAIN_SEEDS: u64 = 9;
/// ... the first of which comes after this one.
const AGAIN_AFTER: u64 = 1000;
/// Several flows are recorded in intervals, so that in the testbed one program plays them and they begin together: of forty curls on a
/// few processors the last begins when the first is done.
const INTERVAL_NS: NonZeroU64 = NonZeroU64::new(100_000_000).expect("more than 0");
/// In quick mode, one point of so many is run, with one seed.
const QUICK_STEP: usize = 13;

/// `seeds` runs of a point in each of [`VARIANTS`].
fn jobs(point: &Point, seeds: u64) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for variant in VARIANTS {
        let on = if variant == "lab" { Home::Lab } else { Home::Sim };
        let again = AGAIN_AFTER + 1..=AGAIN_AFTER + seeds.max(AGAIN_SEEDS);
        let seeds = if variant == "sim-again" { again } else { 1..=seeds };
        for seed in seeds {
            let scenario = Scenario::parse(&point.name(), &point.text(seed))
                .map_err(|e| anyhow!("{e}; this is a fault of the survey"))?;
            jobs.push(Job {
                point: point.name(),
                variant: variant.into(),
                on,
                bdp_bytes: bdp_bytes(&scenario),
                needs_samples: false,
                interval: (point.flows > 1).then_some(INTERVAL_NS),
                scenario,
            });
        }
    }
    Ok(jobs)
}

/// Runs the survey, `only` the point of that number, or the points of one `shard` of as many, each of which takes the runs of the others
/// from the same folder; and judges the claims about what was to be run.
///
/// # Errors
/// There is no point of that number, or the report cannot be written.
pub fn agreement_survey(only: Option<u32>, shard: Option<Shard>, settings: &Settings) -> Result<Outcome> {
    if let Some(number) = only {
        ensure!((1..=POINTS).contains(&number), "--only {number}: points have the numbers 1 to {POINTS}");
    }
    let step = if settings.quick { QUICK_STEP } else { 1 };
    let numbers: Vec<u32> = only.map_or_else(|| (1..=POINTS).step_by(step).collect(), |number| vec![number]);
    let is_of_part = |place: usize| shard.is_none_or(|shard| shard.has(place));
    let numbers = numbers.into_iter().enumerate().filter(|(place, _)| is_of_part(*place));
    let points: Vec<Point> = numbers.map(|(_, number)| Point::of_number(number)).collect();
    let jobs_of = |seeds_of: &dyn Fn(&Point) -> u64| -> Result<Vec<Job>> {
        Ok(points.iter().map(|p| jobs(p, seeds_of(p))).collect::<Result<Vec<_>>>()?.concat())
    };
    let name = only.map_or(NAME.into(), |number| format!("{NAME}-point-{number}"));
    let folder = settings.folder(&name);
    // what other parts have left there stays
    let mut settings = Settings { resume: settings.resume || shard.is_some(), ..settings.clone() };
    let all = if settings.quick {
        jobs_of(&|_| 1)?
    } else {
        let mut simulated = jobs_of(&|_| SEEDS)?;
        simulated.retain(|job| job.on == Home::Sim);
        let runs = runner::run_all(&format!("{name}: how far runs scatter"), simulated, &settings, &folder)?;
        settings.resume = true;
        jobs_of(&|point| runs_needed(point, &runs).max(SEEDS))?
    };
    let planned = all.len();
    let runs = runner::run_all(&name, all, &settings, &folder)?;
    let (compared, missing) = compare(&points, &runs);
    let verdicts = judge(&compared, &missing, runs.len(), planned);
    let tables = vec![report::groups(&compared), report::disagreements(&compared)];
    let outcome = Outcome { name, title: TITLE.into(), verdicts, tables, runs };
    report::write(&outcome, &compared, &missing, &folder)?;
    Ok(outcome)
}
