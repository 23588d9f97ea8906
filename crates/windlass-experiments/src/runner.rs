//! Runs jobs side by side as far as the machine allows, keeps what has finished, and shows progress. Jobs of the lab
//! come first and share the machine by their rates; simulated ones take all cores afterwards, when no run measures time.

use crate::{
    job::{Home, Job, Key},
    progress::Progress,
    record::RunRecord,
    runs_file::{RunsFile, claim, finished_runs, line, put_aside, replace},
    settings::Settings,
};
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs::File,
    path::Path,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
#[cfg(feature = "lab")]
use windlass_lab::{RunOptions, netns};
use windlass_scenario::{Graph, RunReport, Scenario};

/// How much runs at once: two cores forward about this much emulated traffic without disturbing each other's times.
const RATE_AT_ONCE_BPS: f64 = 240e6;
const RUNS_AT_ONCE: usize = 6;
/// Hosts take this long now and then; runs with shorter paths are alone.
const LONG_DELAY_S: f64 = 1e-3;
/// What runs alone has a processor for the exactness of its links.
#[cfg(feature = "lab")]
const SPIN_ALONE_US: u64 = 100;
#[cfg(feature = "lab")]
const SAMPLE_MS: u64 = 20;

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
    done: Mutex<(Vec<RunRecord>, RunsFile<File>)>,
    /// Of the file, for messages.
    path: &'a Path,
    progress: Progress,
    settings: &'a Settings,
}

fn rate_of(job: &Job) -> f64 {
    job.scenario.links.iter().filter_map(|l| l.rate).map(|r| r.0).fold(0.0, f64::max)
}

/// Whether others at the same time would spoil it.
fn is_alone(job: &Job) -> bool {
    let delay_s = job.scenario.links.iter().map(|l| l.delay.0).fold(0.0, f64::max);
    let is_short = delay_s > 0.0 && delay_s < LONG_DELAY_S;
    rate_of(job) > RATE_AT_ONCE_BPS || is_short || has_unlimited_way(&job.scenario)
}

/// Whether a flow may take all that the machine has: no link on its way has a rate.
fn has_unlimited_way(scenario: &Scenario) -> bool {
    let graph = Graph::new(scenario);
    scenario.flows.iter().any(|flow| {
        let distances = graph.distances(graph.host(&flow.to));
        let mut at = graph.host(&flow.from);
        while let Some(&link) = graph.ways(&distances, at).first() {
            if scenario.links[link].rate.is_some() {
                return false;
            }
            at = graph.other_end(link, at);
        }
        true
    })
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
                Home::Sim => simulate(&job, self.settings.cancel),
            };
            // a run that was cut short is no measurement
            if self.settings.cancel.load(Ordering::Relaxed) {
                return;
            }
            self.keep(RunRecord::of(&job, report));
        }
    }

    #[cfg(not(feature = "lab"))]
    fn run_in_lab(&self, job: &Job) -> Result<RunReport> {
        self.give_back(job);
        anyhow::bail!("this build only simulates")
    }

    #[cfg(feature = "lab")]
    fn run_in_lab(&self, job: &Job) -> Result<RunReport> {
        let mut options = RunOptions::new(self.settings.windlass.clone());
        options.cancel = Some(self.settings.cancel);
        options.readers = self.settings.readers.clone();
        options.interval_ns = job.interval;
        options.sample_ms = job.needs_samples.then_some(SAMPLE_MS);
        if is_alone(job) {
            options.spin_us = SPIN_ALONE_US;
        }
        let report = windlass_lab::run(&job.scenario, &options);
        self.give_back(job);
        report
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
        self.progress.add(format!("{} {} {}", run.point, run.variant, ending(&run)));
        if let Some(error) = &run.error {
            self.progress.say(&format!("{} {} seed {}: {error}", run.point, run.variant, run.seed));
        }
        let mut done = self.done.lock().expect("no panics while held");
        // the runs in memory are what counts; the file is for --resume
        let added = done.1.add(&line(&run));
        let is_unkept = added.is_err();
        if let Err(why) = added
            && !done.0.iter().any(|r| r.is_unkept)
        {
            let path = self.path.display();
            self.progress
                .say(&format!("{path}: {why}: runs go on, and are lost if they are stopped; make room"));
        }
        done.0.push(RunRecord { is_unkept, ..run });
    }
}

/// Runs a job in the simulator; `cancel` is set to cut it short.
pub fn simulate(job: &Job, cancel: &AtomicBool) -> Result<RunReport> {
    let options = windlass_sim::RunOptions {
        cancel: Some(cancel),
        interval_ns: job.interval,
        ..windlass_sim::RunOptions::default()
    };
    Ok(windlass_sim::run(&job.scenario, &options)?.report)
}

/// How a run ended: when its last flow was complete, or, if none has an end of its own, the run was over.
fn ending(run: &RunRecord) -> String {
    let has_failed = run.error.is_some() || run.flows.iter().any(|f| f.error.is_some());
    if has_failed { "failed".into() } else { format!("{:.2} s", run.completion_s.unwrap_or(run.ended_s)) }
}

/// The most memory that a simulated run of it may need.
fn needed_bytes(job: &Job) -> u64 {
    windlass_sim::needed_bytes(&job.scenario, &windlass_sim::Config::default(), job.interval)
}

/// How many of the simulated runs may go at once, at most `at_once`: those that need most must fit together. None of
/// them begins if one does not fit by itself.
fn sims_at_once(jobs: &VecDeque<Job>, at_once: usize, available_bytes: Option<u64>) -> Result<usize> {
    let sims = jobs.iter().filter(|j| j.on == Home::Sim);
    let mut needed: Vec<(u64, &Job)> = sims.map(|j| (needed_bytes(j), j)).collect();
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

/// Runs all jobs; returns their records in the order of the jobs, in which they are in `folder`/runs.jsonl at last. With
/// `settings.resume`, so are those in it that are none of these jobs', as of values that are left out this time; without,
/// what was there is put aside.
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
    #[cfg(feature = "lab")]
    if todo.iter().any(|j| j.on == Home::Lab) {
        // once, before anything is written, and not for each run
        netns::check_root()?;
    }
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let at_once = sims_at_once(&todo, settings.at_once.unwrap_or(cores), windlass_sim::available_bytes())?;
    let _claim = claim(folder)?;
    // what is there of a job by another scenario or build gives way to what it gives now
    let is_kept = |run: &RunRecord| is_done(run) || !wanted.contains_key(&run.key());
    let kept = before().filter(|(_, run)| is_kept(run)).map(|(line, _)| line);
    let place = || path.display().to_string();
    if !settings.resume {
        put_aside(&path).with_context(place)?;
    }
    let file = replace(&path, kept).with_context(place)?;
    let progress = Progress::new(name, total, finished.len(), settings.quiet);
    let pool = Pool {
        queue: Mutex::new(todo),
        load: Mutex::default(),
        freed: Condvar::new(),
        done: Mutex::new((finished, RunsFile::new(file))),
        path: &path,
        progress,
        settings,
    };
    pool.work_all(Home::Lab, RUNS_AT_ONCE);
    pool.work_all(Home::Sim, at_once);
    pool.progress.finish();
    let mut runs = pool.done.into_inner().expect("no panics while held").0;
    runs.sort_by_key(|r| order.get(&r.key()).copied());
    let others =
        finished_runs(&path).filter(|(_, run)| !wanted.contains_key(&run.key())).map(|(line, _)| line);
    match replace(&path, others.chain(runs.iter().map(line))) {
        // those that there was no room for are there now, too
        Ok(_) => runs.iter_mut().for_each(|r| r.is_unkept = false),
        // that there is no room has been reported
        Err(_) if runs.iter().any(|r| r.is_unkept) => {}
        Err(why) => eprintln!("{}: {why}: runs are in the order in which they have finished", place()),
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use windlass_scenario::FlowReport;

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
    fn runs_that_the_disk_has_no_room_for_are_distinguished_from_those_that_are_kept() {
        static CANCEL: AtomicBool = AtomicBool::new(false);
        let settings = Settings {
            windlass: "windlass".into(),
            quick: true,
            resume: false,
            out: "out".into(),
            quiet: true,
            at_once: None,
            cancel: &CANCEL,
            readers: None,
        };
        let full = File::options().write(true).open("/dev/full").unwrap();
        let pool = Pool {
            queue: Mutex::default(),
            load: Mutex::default(),
            freed: Condvar::new(),
            done: Mutex::new((Vec::new(), RunsFile::new(full))),
            path: Path::new("/dev/full"),
            progress: Progress::new("t", 1, 0, true),
            settings: &settings,
        };
        pool.keep(RunRecord::default());
        assert!(pool.done.into_inner().unwrap().0[0].is_unkept);
    }

    #[test]
    fn a_run_without_an_end_of_its_own_has_not_failed() {
        let open = RunRecord { flows: vec![FlowReport::default()], ended_s: 20.0, ..RunRecord::default() };
        assert_eq!(ending(&open), "20.00 s");
        assert_eq!(ending(&RunRecord { completion_s: Some(4.41), ..open.clone() }), "4.41 s");
        let error = Some("not finished".to_string());
        let flows = vec![FlowReport { error, ..FlowReport::default() }];
        assert_eq!(ending(&RunRecord { flows, ..open }), "failed");
    }

    #[test]
    fn what_could_take_the_whole_machine_is_alone() {
        let alone = |links: &str| {
            let text = format!(
                "name = \"t\"\nhost = [{{ name = \"a\" }}, {{ name = \"b\" }}, {{ name = \"c\" }}]\n\
                 flow = [{{ from = \"a\", to = \"c\", size = \"1 MB\" }}, {{ from = \"a\", to = \"b\", size = \"1 MB\" }}]\n\
                 {links}"
            );
            let scenario = Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}"));
            is_alone(&Job { scenario, on: Home::Lab, ..sim("p", 1) })
        };
        let link = |a, b, keys| format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\n{keys}\n");
        let wan = "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"";
        assert!(!alone(&[link("a", "b", wan), link("b", "c", "")].concat()));
        assert!(alone(&[link("a", "b", ""), link("b", "c", wan)].concat()), "from a to b all are cables");
        assert!(alone(&[link("a", "b", "delay = \"20 ms\""), link("b", "c", "")].concat()));
        assert!(alone(&[link("a", "b", &wan.replace("20", "500")), link("b", "c", "")].concat()));
    }

    #[test]
    fn memory_is_looked_at_before_the_first_run() {
        let jobs: VecDeque<Job> = [("few", 1), ("many", 8), ("some", 4)].map(|(p, n)| sim(p, n)).into();
        let needed = |i: usize| needed_bytes(&jobs[i]);
        let at_once = |available_bytes| sims_at_once(&jobs, 2, available_bytes);
        assert_eq!(at_once(None).unwrap(), 2);
        assert_eq!(at_once(Some(u64::MAX)).unwrap(), 2);
        assert_eq!(at_once(Some(needed(1) + needed(2))).unwrap(), 2);
        assert_eq!(at_once(Some(needed(1) + needed(2) - 1)).unwrap(), 1, "the two that need most");
        let error = format!("{:#}", at_once(Some(needed(1) - 1)).unwrap_err());
        assert!(error.starts_with("many reno: needs up to"), "{error}");
    }
}
