//! Runs jobs side by side as far as the machine allows, keeps what has finished, and shows progress.

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
use windlass_lab::{RunOptions, RunReport};
use windlass_scenario::Scenario;

/// How much runs at once: two cores forward about this much emulated traffic without disturbing each other's times.
const RATE_AT_ONCE_BPS: f64 = 240e6;
const RUNS_AT_ONCE: usize = 6;
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
    /// Set to stop.
    pub cancel: &'static AtomicBool,
}

/// One run to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its condition.
    pub point: String,
    /// Its variant.
    pub variant: String,
    /// Bandwidth-delay product of its path.
    pub bdp_bytes: f64,
    /// Whether to sample the box's flow table.
    pub needs_samples: bool,
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
    /// Completion time; none: it failed.
    pub completion_s: Option<f64>,
    /// Payload bytes.
    pub bytes: u64,
    /// Whether the payload arrived whole.
    pub checksum_ok: bool,
    /// Propagation plus mean queue.
    pub mean_rtt_ms: f64,
    /// Retransmissions of the sender's kernel.
    pub sender_retrans_segs: u64,
    /// Its timeouts.
    pub sender_timeouts: u64,
    /// Repairs of the box.
    pub repaired_segs: u64,
    /// Packets dropped by the bottleneck's buffer.
    pub drops_tail: u64,
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

impl RunRecord {
    fn is_of(&self, job: &Job) -> bool {
        self.point == job.point
            && self.variant == job.variant
            && self.seed == job.scenario.seed
            && self.bytes == job.scenario.flows[0].size.count()
    }
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
        bytes: job.scenario.flows[0].size.count(),
        ..RunRecord::default()
    };
    match result {
        Err(error) => RunRecord { error: Some(format!("{error:#}")), ..base },
        Ok(report) => {
            let (bytes, segs) = stored(&report);
            RunRecord {
                completion_s: report.completion_s(),
                checksum_ok: report.is_complete(),
                mean_rtt_ms: report.mean_rtt_ms,
                sender_retrans_segs: report.sender_retrans_segs,
                sender_timeouts: report.sender_timeouts,
                repaired_segs: report.counter("repaired_segs"),
                drops_tail: report.links.iter().map(|l| l.stats.drops_tail).sum(),
                drops_random: report.links.iter().map(|l| l.stats.drops_random).sum(),
                stored_bdp: crate::stats::median(&bytes).map(|b| b / job.bdp_bytes),
                stored_segs: segs,
                windlass: report.windlass.iter().filter(|c| *c.1 > 0).map(|(n, v)| (n.clone(), *v)).collect(),
                error: report.flows.iter().find_map(|f| f.error.clone()),
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

impl Pool<'_> {
    /// The next job, once there is room for it.
    fn take(&self) -> Option<Job> {
        let job = self.queue.lock().expect("no panics while held").pop_front()?;
        let rate = rate_of(&job);
        let mut load = self.load.lock().expect("no panics while held");
        while load.runs > 0 && (load.runs >= RUNS_AT_ONCE || load.rate_bps + rate > RATE_AT_ONCE_BPS) {
            load = self.freed.wait(load).expect("no panics while held");
        }
        load.runs += 1;
        load.rate_bps += rate;
        Some(job)
    }

    fn give_back(&self, job: &Job) {
        let mut load = self.load.lock().expect("no panics while held");
        load.runs -= 1;
        load.rate_bps -= rate_of(job);
        self.freed.notify_all();
    }

    fn work(&self) {
        while !self.settings.cancel.load(Ordering::Relaxed) {
            let Some(job) = self.take() else { return };
            let mut options = RunOptions::new(self.settings.windlass.clone());
            options.cancel = Some(self.settings.cancel);
            options.sample_ms = job.needs_samples.then_some(SAMPLE_MS);
            let run = record(&job, windlass_lab::run(&job.scenario, &options));
            self.give_back(&job);
            if self.settings.cancel.load(Ordering::Relaxed) {
                return;
            }
            self.keep(run);
        }
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

fn read_finished(path: &Path) -> Vec<RunRecord> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    BufReader::new(file).lines().map_while(|l| l.ok()).filter_map(|l| serde_json::from_str(&l).ok()).collect()
}

fn progress(name: &str, total: usize, quiet: bool) -> ProgressBar {
    let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(total as u64), target);
    let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {elapsed} {msg}");
    bar.set_style(style.expect("a valid template"));
    bar.set_prefix(name.to_string());
    bar
}

/// Runs all jobs; returns their records in the order of the jobs. Finished runs are kept in `folder`/runs.jsonl.
pub fn run_all(name: &str, jobs: Vec<Job>, settings: &Settings, folder: &Path) -> Result<Vec<RunRecord>> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let path = folder.join("runs.jsonl");
    let finished = if settings.resume { read_finished(&path) } else { Vec::new() };
    let finished: Vec<RunRecord> =
        finished.into_iter().filter(|r| r.error.is_none() && jobs.iter().any(|j| r.is_of(j))).collect();
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .open(&path)
        .with_context(|| path.display().to_string())?;
    for run in &finished {
        writeln!(file, "{}", serde_json::to_string(run)?)?;
    }
    let todo: VecDeque<Job> = jobs.iter().filter(|j| !finished.iter().any(|r| r.is_of(j))).cloned().collect();
    let bar = progress(name, jobs.len(), settings.quiet);
    bar.inc(finished.len() as u64);
    let pool = Pool {
        queue: Mutex::new(todo),
        load: Mutex::default(),
        freed: Condvar::new(),
        done: Mutex::new((finished, file)),
        bar,
        settings,
    };
    thread::scope(|scope| {
        for _ in 0..RUNS_AT_ONCE {
            scope.spawn(|| pool.work());
        }
    });
    pool.bar.finish_and_clear();
    let mut runs = pool.done.into_inner().expect("no panics while held").0;
    runs.sort_by_key(|r| jobs.iter().position(|j| r.is_of(j)));
    Ok(runs)
}
