//! Runs jobs side by side as far as the machine allows, keeps what has finished, and shows progress. Jobs of the lab
//! come first and share the machine by their rates; simulated ones take all cores afterwards, when nobody measures time.

use crate::experiment::Home;
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter, Write},
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
use windlass_lab::{RunOptions, netns};
use windlass_scenario::{FlowReport, Intervals, LinkReport, RunReport, Scenario};

/// How much runs at once: two cores forward about this much emulated traffic without disturbing each other's times.
const RATE_AT_ONCE_BPS: f64 = 240e6;
const RUNS_AT_ONCE: usize = 6;
/// Hosts take this long now and then; runs with shorter paths are alone.
const LONG_DELAY_S: f64 = 1e-3;
/// What runs alone has a processor for the exactness of its links.
const SPIN_ALONE_US: u64 = 100;
const SAMPLE_MS: u64 = 20;

/// How experiments are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `windlass` binary that boxes run.
    pub windlass: PathBuf,
    /// Fewer runs, smaller files.
    pub quick: bool,
    /// Take finished runs from disk.
    pub resume: bool,
    /// Folder for reports.
    pub out: PathBuf,
    /// No progress on standard error.
    pub quiet: bool,
    /// Simulated runs at once; none: as many as there are cores.
    pub at_once: Option<usize>,
    /// Set to stop.
    pub cancel: &'static AtomicBool,
}

impl Settings {
    /// Ends what is not made of runs when it is to stop.
    pub fn check_stopped(&self) -> Result<()> {
        ensure!(!self.cancel.load(Ordering::Relaxed), "stopped");
        Ok(())
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
    /// Length in ns of the intervals in which a simulated run is recorded; none: only sums.
    pub interval: Option<NonZeroU64>,
    /// What to run.
    pub scenario: Scenario,
}

/// What is kept of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Condition.
    pub point: String,
    /// Variant.
    pub variant: String,
    /// Seed.
    pub seed: u64,
    /// Where it ran.
    #[serde(default)]
    pub on: Home,
    /// What was run: a hash of the scenario, of what was recorded and of the build.
    #[serde(default)]
    pub scenario_hash: String,
    /// Completion time of the slowest flow; none: one failed, or never ends.
    pub completion_s: Option<f64>,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Whether all payload arrived whole.
    pub checksum_ok: bool,
    /// How long the run took.
    #[serde(default)]
    pub ended_s: f64,
    /// Its flows.
    #[serde(default)]
    pub flows: Vec<FlowReport>,
    /// How long responses took, by class and tenant of their flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub responses: Vec<ResponseSample>,
    /// Its emulated links.
    #[serde(default)]
    pub links: Vec<LinkReport>,
    /// What happened when, if a claim or plot asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// Propagation plus mean queue; none: not measured.
    pub mean_rtt_ms: Option<f64>,
    /// Retransmissions of the sender's kernel.
    pub sender_retrans_segs: u64,
    /// Its timeouts.
    pub sender_timeouts: u64,
    /// Repairs of the box.
    pub repaired_segs: u64,
    /// Packets dropped by full buffers.
    pub drops_tail: u64,
    /// Packets marked CE.
    #[serde(default)]
    pub marks: u64,
    /// Packets lost at random.
    pub drops_random: u64,
    /// Median of the stored bytes, in bandwidth-delay products.
    pub stored_bdp: Option<f64>,
    /// Stored segments at every sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored_segs: Vec<f64>,
    /// Windlass' counters that are not zero.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub windlass: BTreeMap<String, u64>,
    /// Why it failed.
    pub error: Option<String>,
}

/// How long responses took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseSample {
    /// Class of their flows.
    pub class: String,
    /// Tenant of their flows.
    pub tenant: String,
    /// The times in s, sorted. Of more than SAMPLE_MOST, so many that are equally far apart in rank, the longest one
    /// among them.
    pub seconds: Vec<f32>,
}

const SAMPLE_MOST: usize = 4096;

/// Samples of all response times of a run.
fn responses(flows: &[FlowReport]) -> Vec<ResponseSample> {
    let mut all: BTreeMap<(&str, &str), Vec<f32>> = BTreeMap::new();
    for flow in flows.iter().filter(|f| !f.responses.is_empty()) {
        let times = all.entry((&flow.class, &flow.tenant)).or_default();
        times.extend(flow.responses.iter().map(|r| r.took_s as f32));
    }
    let sample = |((class, tenant), mut times): ((&str, &str), Vec<f32>)| {
        times.sort_by(f32::total_cmp);
        ResponseSample { class: class.into(), tenant: tenant.into(), seconds: thin(&times) }
    };
    all.into_iter().map(sample).collect()
}

/// At most SAMPLE_MOST of the sorted values, by equal steps of rank up to the last.
fn thin(sorted: &[f32]) -> Vec<f32> {
    let most = SAMPLE_MOST.min(sorted.len());
    (1..=most).map(|i| sorted[i * sorted.len() / most - 1]).collect()
}

/// Point, variant and seed.
type Key = (String, String, u64);

impl RunRecord {
    /// Whether anything was run: what could not begin has an error and no flows, and no number of it means anything.
    pub fn has_begun(&self) -> bool {
        self.error.is_none() || !self.flows.is_empty()
    }

    fn key(&self) -> Key {
        (self.point.clone(), self.variant.clone(), self.seed)
    }
}

impl Job {
    fn key(&self) -> Key {
        (self.point.clone(), self.variant.clone(), self.scenario.seed)
    }

    /// A hash of what is run and recorded, by which build. Of a record that has the same, nothing needs to be run again.
    fn hash(&self) -> String {
        self.hash_in(SOURCES)
    }

    /// The same in a build of these sources.
    fn hash_in(&self, sources: &str) -> String {
        let what = (&self.scenario, self.on, self.interval, sources);
        let what = serde_json::to_string(&what).expect("plain data");
        Sha256::digest(what).iter().take(HASH_BYTES).map(|b| format!("{b:02x}")).collect()
    }
}

/// Tells builds apart: a hash of the sources that what runs give hangs on (build.rs). The agent tells objects apart that
/// are loaded in the kernel, which is less: they do not change with the simulator.
const SOURCES: &str = env!("WINDLASS_SOURCES");

/// Enough to tell scenarios apart.
const HASH_BYTES: usize = 8;

/// The largest bandwidth-delay product of the scenario's links.
pub fn bdp_bytes(scenario: &Scenario) -> f64 {
    scenario.links.iter().filter_map(|l| l.rate.map(|r| r.0 / 8.0 * 2.0 * l.delay.0)).fold(0.0, f64::max)
}

/// Bytes and segments from una to nxt of the flow that carried the transfer, sample by sample: what a box stores that
/// controls it, and what one would have to that only watches it.
fn stored(report: &RunReport) -> (Vec<f64>, Vec<f64>) {
    let number = |v: &serde_json::Value| v.as_f64().unwrap_or(0.0);
    report
        .samples
        .iter()
        .filter_map(|s| s["flows"].as_array())
        .flatten()
        .filter(|f| number(&f["unacked_bytes"]) > 0.0)
        .map(|f| {
            (number(&f["unacked_bytes"]), number(&f["unacked_bytes"]) / number(&f["mss_bytes"]).max(1.0))
        })
        .unzip()
}

fn record(job: &Job, result: Result<RunReport>) -> RunRecord {
    let base = RunRecord {
        point: job.point.clone(),
        variant: job.variant.clone(),
        seed: job.scenario.seed,
        on: job.on,
        scenario_hash: job.hash(),
        ..RunRecord::default()
    };
    match result {
        Err(error) => RunRecord { error: Some(format!("{error:#}")), ..base },
        Ok(report) => {
            let (bytes, segs) = stored(&report);
            RunRecord {
                completion_s: report.completion_s(),
                bytes: report.flows.iter().map(|f| f.bytes).sum(),
                checksum_ok: report.is_complete(),
                mean_rtt_ms: report.mean_rtt_ms,
                sender_retrans_segs: report.sender_retrans_segs,
                sender_timeouts: report.sender_timeouts,
                repaired_segs: report.counter("repaired_segs"),
                drops_tail: report.links.iter().map(|l| l.stats.drops_tail).sum(),
                marks: report.links.iter().map(|l| l.stats.marks).sum(),
                drops_random: report.links.iter().map(|l| l.stats.drops_random).sum(),
                stored_bdp: crate::stats::median(&bytes).map(|b| b / job.bdp_bytes),
                stored_segs: segs,
                windlass: report.windlass.iter().filter(|c| *c.1 > 0).map(|(n, v)| (n.clone(), *v)).collect(),
                error: report.flows.iter().find_map(|f| f.error.clone()),
                ended_s: report.ended_s,
                responses: responses(&report.flows),
                flows: report.flows,
                links: report.links,
                intervals: report.intervals,
                ..base
            }
        }
    }
}

/// What runs now, and how much rate that takes.
#[derive(Default)]
struct Load {
    runs: usize,
    rate_bps: f64,
    is_alone: bool,
}

struct Pool<'a> {
    queue: Mutex<VecDeque<Job>>,
    load: Mutex<Load>,
    freed: Condvar,
    done: Mutex<(Vec<RunRecord>, File)>,
    bar: ProgressBar,
    settings: &'a Settings,
}

fn rate_of(job: &Job) -> f64 {
    job.scenario.links.iter().filter_map(|l| l.rate).map(|r| r.0).fold(0.0, f64::max)
}

/// Whether others at the same time would spoil it.
fn is_alone(job: &Job) -> bool {
    let delay_s = job.scenario.links.iter().map(|l| l.delay.0).fold(0.0, f64::max);
    rate_of(job) > RATE_AT_ONCE_BPS || (delay_s > 0.0 && delay_s < LONG_DELAY_S)
}

impl Pool<'_> {
    /// The next job of a home, once there is room for it.
    fn take(&self, on: Home) -> Option<Job> {
        let mut queue = self.queue.lock().expect("no panics while held");
        let next = queue.iter().position(|j| j.on == on)?;
        let job = queue.remove(next)?;
        drop(queue);
        if on == Home::Lab {
            self.wait_for_room(&job);
        }
        Some(job)
    }

    fn wait_for_room(&self, job: &Job) {
        let (rate, alone) = (rate_of(job), is_alone(job));
        let mut load = self.load.lock().expect("no panics while held");
        while load.runs > 0
            && (alone
                || load.is_alone
                || load.runs >= RUNS_AT_ONCE
                || load.rate_bps + rate > RATE_AT_ONCE_BPS)
        {
            load = self.freed.wait(load).expect("no panics while held");
        }
        load.runs += 1;
        load.rate_bps += rate;
        load.is_alone = alone;
    }

    fn give_back(&self, job: &Job) {
        let mut load = self.load.lock().expect("no panics while held");
        load.runs -= 1;
        load.rate_bps -= rate_of(job);
        load.is_alone = false;
        self.freed.notify_all();
    }

    fn work(&self, on: Home) {
        while !self.settings.cancel.load(Ordering::Relaxed) {
            let Some(job) = self.take(on) else { return };
            let report = match on {
                Home::Lab => self.run_in_lab(&job),
                Home::Sim => self.simulate(&job),
            };
            // a run that was cut short tells nothing
            if self.settings.cancel.load(Ordering::Relaxed) {
                return;
            }
            self.keep(record(&job, report));
        }
    }

    fn run_in_lab(&self, job: &Job) -> Result<RunReport> {
        let mut options = RunOptions::new(self.settings.windlass.clone());
        options.cancel = Some(self.settings.cancel);
        options.sample_ms = job.needs_samples.then_some(SAMPLE_MS);
        if is_alone(job) {
            options.spin_us = SPIN_ALONE_US;
        }
        let report = windlass_lab::run(&job.scenario, &options);
        self.give_back(job);
        report
    }

    fn simulate(&self, job: &Job) -> Result<RunReport> {
        let options = windlass_sim::RunOptions {
            cancel: Some(self.settings.cancel),
            interval_ns: job.interval,
            ..windlass_sim::RunOptions::default()
        };
        Ok(windlass_sim::run(&job.scenario, &options)?.report)
    }

    /// Runs all jobs of a home.
    fn work_all(&self, on: Home, at_once: usize) {
        thread::scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(|| self.work(on));
            }
        });
    }

    fn keep(&self, run: RunRecord) {
        let time = run.completion_s.map_or("failed".into(), |s| format!("{s:.2} s"));
        self.bar.set_message(format!("{} {} {time}", run.point, run.variant));
        self.bar.inc(1);
        if let Some(error) = &run.error {
            self.bar.suspend(|| eprintln!("{} {} seed {}: {error}", run.point, run.variant, run.seed));
        }
        let mut done = self.done.lock().expect("no panics while held");
        let line = serde_json::to_string(&run).expect("plain data");
        // the runs in memory are what counts; the file is for --resume
        let _ = writeln!(done.1, "{line}");
        done.0.push(run);
    }
}

/// The most memory that a simulated run of it may need.
fn needed_bytes(scenario: &Scenario) -> u64 {
    windlass_sim::needed_bytes(scenario, &windlass_sim::Config::default())
}

/// How many of the simulated runs may go at once, at most `at_once`: those that need most must fit together. None of
/// them begins if one does not fit by itself.
fn sims_at_once(jobs: &VecDeque<Job>, at_once: usize, available_bytes: Option<u64>) -> Result<usize> {
    let sims = jobs.iter().filter(|j| j.on == Home::Sim);
    let mut needed: Vec<(u64, &Job)> = sims.map(|j| (needed_bytes(&j.scenario), j)).collect();
    needed.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let Some(available_bytes) = available_bytes else { return Ok(at_once) };
    if let Some((needed_bytes, job)) = needed.first().filter(|(bytes, _)| *bytes > available_bytes) {
        let error = windlass_sim::SimError::TooLarge { needed_bytes: *needed_bytes, available_bytes };
        return Err(error).with_context(|| format!("{} {}", job.point, job.variant));
    }
    let fits = needed.iter().scan(0u64, |sum, (bytes, _)| {
        *sum = sum.saturating_add(*bytes);
        (*sum <= available_bytes).then_some(())
    });
    Ok(fits.count().min(at_once))
}

/// Finished runs of a file, each with its line; those that failed and what was cut short are left out.
fn finished_runs(path: &Path) -> impl Iterator<Item = (String, RunRecord)> {
    let lines =
        File::open(path).ok().into_iter().flat_map(|f| BufReader::new(f).lines().map_while(|l| l.ok()));
    let parsed = |line: String| serde_json::from_str(&line).ok().map(|run: RunRecord| (line, run));
    lines.filter_map(parsed).filter(|(_, run)| run.error.is_none())
}

/// Puts a file with these lines in the place of `path`, to be gone on with. Until it is whole, what was there stays.
fn replace(path: &Path, lines: impl Iterator<Item = String>) -> io::Result<File> {
    let new = path.with_extension("jsonl.new");
    let mut file = BufWriter::new(File::create(&new)?);
    for line in lines {
        writeln!(file, "{line}")?;
    }
    let file = file.into_inner()?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    Ok(file)
}

fn progress(name: &str, total: usize, quiet: bool) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(total as u64), target);
    let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {elapsed} {msg}");
    bar.set_style(style.expect("a valid template"));
    bar.set_prefix(name.to_string());
    bar
}

/// Runs all jobs; returns their records in the order of the jobs. Finished runs are kept in `folder`/runs.jsonl; with
/// `settings.resume`, so are those in it that are none of these jobs', as of values that are left out this time.
pub fn run_all(name: &str, jobs: Vec<Job>, settings: &Settings, folder: &Path) -> Result<Vec<RunRecord>> {
    let path = folder.join("runs.jsonl");
    let wanted: BTreeMap<Key, String> = jobs.iter().map(|j| (j.key(), j.hash())).collect();
    let order: BTreeMap<Key, usize> = jobs.iter().enumerate().map(|(i, j)| (j.key(), i)).collect();
    let before = || finished_runs(&path).filter(|_| settings.resume);
    let is_done = |r: &RunRecord| wanted.get(&r.key()) == Some(&r.scenario_hash);
    let finished: Vec<RunRecord> = before().map(|(_, run)| run).filter(is_done).collect();
    let total = jobs.len();
    let done: BTreeSet<Key> = finished.iter().map(RunRecord::key).collect();
    let todo: VecDeque<Job> = jobs.into_iter().filter(|j| !done.contains(&j.key())).collect();
    if todo.iter().any(|j| j.on == Home::Lab) {
        // once, before anything is written, and not for each run
        netns::check_root()?;
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let at_once = sims_at_once(&todo, settings.at_once.unwrap_or(cores), windlass_sim::available_bytes())?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    // what is there of a job by another scenario or build gives way to what it gives now
    let is_kept = |run: &RunRecord| is_done(run) || !wanted.contains_key(&run.key());
    let kept = before().filter(|(_, run)| is_kept(run)).map(|(line, _)| line);
    let file = replace(&path, kept).with_context(|| path.display().to_string())?;
    let bar = progress(name, total, settings.quiet);
    bar.inc(finished.len() as u64);
    let pool = Pool {
        queue: Mutex::new(todo),
        load: Mutex::default(),
        freed: Condvar::new(),
        done: Mutex::new((finished, file)),
        bar,
        settings,
    };
    pool.work_all(Home::Lab, RUNS_AT_ONCE);
    pool.work_all(Home::Sim, at_once);
    pool.bar.finish_and_clear();
    let mut runs = pool.done.into_inner().expect("no panics while held").0;
    runs.sort_by_key(|r| order.get(&r.key()).copied());
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sim(point: &str, senders: u32) -> Job {
        let text = format!(
            "name = \"t\"\n[topology]\nshape = \"many-to-one\"\nsenders = {senders}\n\
             edge = {{ rate = \"1 Gbit/s\", delay = \"50 us\" }}\n\
             bottleneck = {{ rate = \"1 Gbit/s\", delay = \"50 us\" }}\n\
             [[flow]]\nfrom = \"sender-*\"\nto = \"receiver\"\nsize = \"unlimited\"\n"
        );
        let scenario = Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}"));
        let (point, variant) = (point.to_string(), "reno".to_string());
        Job { point, variant, on: Home::Sim, bdp_bytes: 0.0, needs_samples: false, interval: None, scenario }
    }

    #[test]
    fn another_build_is_another_run() {
        let job = sim("p", 1);
        assert_eq!(job.hash(), job.hash_in(SOURCES));
        assert_ne!(job.hash(), job.hash_in("0"));
    }

    #[test]
    fn memory_is_looked_at_before_the_first_run() {
        let jobs: VecDeque<Job> = [("few", 1), ("many", 8), ("some", 4)].map(|(p, n)| sim(p, n)).into();
        let needed = |i: usize| needed_bytes(&jobs[i].scenario);
        let at_once = |available_bytes| sims_at_once(&jobs, 2, available_bytes);
        assert_eq!(at_once(None).unwrap(), 2);
        assert_eq!(at_once(Some(u64::MAX)).unwrap(), 2);
        assert_eq!(at_once(Some(needed(1) + needed(2))).unwrap(), 2);
        assert_eq!(at_once(Some(needed(1) + needed(2) - 1)).unwrap(), 1, "the two that need most");
        let error = format!("{:#}", at_once(Some(needed(1) - 1)).unwrap_err());
        assert!(error.starts_with("many reno: needs up to"), "{error}");
    }

    #[test]
    fn a_sample_has_the_same_percentiles_and_the_longest() {
        let few: Vec<f32> = (0..10).map(|i| i as f32).collect();
        assert_eq!(thin(&few), few);
        assert!(thin(&[]).is_empty());
        let many: Vec<f32> = (0..100_000).map(|i| i as f32).collect();
        let thinned = thin(&many);
        assert_eq!((thinned.len(), thinned.last()), (SAMPLE_MOST, Some(&99_999.0)));
        for q in [0.01, 0.5, 0.99] {
            let at = thinned[(q * SAMPLE_MOST as f64) as usize] / 100_000.0;
            assert!((f64::from(at) - q).abs() < 1e-3, "{q} {at}");
        }
    }
}
