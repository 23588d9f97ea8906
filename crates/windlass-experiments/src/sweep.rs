//! One scenario with values varied from the command line: every combination, several seeds each.

use crate::{
    claim::of_point,
    figure::{Kind, Plot},
    job::{self, Condition, Home, Job},
    metric::{Metric, Over, Selection, Statistic},
    page::save,
    record::{RunRecord, late_runs, said_of_late_runs},
    report::Outcome,
    runner,
    runs_file::line,
    seeds::Seeds,
    settings::Settings,
    shard::Shard,
    sweep_classes as classes, sweep_merge as merge,
    sweep_plan::Plan,
    vary,
};
use anyhow::{Context, Error, Result, anyhow, bail};
use serde_json::{Value as Json, json};
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
};
use toml::Value;
use windlass_scenario::{Draft, Location, Refusal, Scenario, ScenarioFile, read_file};
use windlass_sim::SimError;

/// A key path and its values, as in "link.0.buffer=64 packets,1 BDP".
#[derive(Clone, Debug, PartialEq)]
pub struct Varied {
    /// The key path.
    pub path: String,
    /// The values.
    pub values: Vec<Value>,
    /// As it was written.
    pub(crate) text: String,
}

impl FromStr for Varied {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, values) =
            text.split_once('=').ok_or("write KEY=VALUE,VALUE, e.g. link.0.buffer=1 BDP,2 BDP")?;
        let values: Vec<Value> = split_values(values).into_iter().map(value).collect();
        if path.trim().is_empty() || values.iter().any(|v| v.as_str() == Some("")) {
            return Err("write KEY=VALUE,VALUE: something is empty".into());
        }
        Ok(Varied { path: path.trim().into(), values, text: text.into() })
    }
}

impl Varied {
    /// Whether each value makes runs of its own.
    fn check(&self) -> Result<()> {
        let labels: Vec<String> = self.values.iter().map(vary::label).collect();
        if let Some(twice) = (1..labels.len()).find(|i| labels[..*i].contains(&labels[*i])) {
            bail!("--set {}: {} is there twice; take one away", self.path, self.values[twice]);
        }
        Ok(())
    }
}

/// Splits at commas that are in no brackets, braces or quotes.
fn split_values(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut begin, mut depth, mut is_quoted) = (0, 0i32, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '[' | '{' if !is_quoted => depth += 1,
            ']' | '}' if !is_quoted => depth -= 1,
            ',' if depth == 0 && !is_quoted => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[begin..].trim());
    parts
}

/// A value as TOML has it; what is none is text, so that quotes may be left out.
fn value(text: &str) -> Value {
    let table: Result<toml::Table, _> = toml::from_str(&format!("v = {text}"));
    table.ok().and_then(|mut t| t.remove("v")).unwrap_or_else(|| text.into())
}

impl Home {
    /// Whether the scenario can run there; else what stands in the way, and the cure.
    pub fn check(self, scenario: &Scenario) -> Result<(), Refusal> {
        match self {
            #[cfg(feature = "lab")]
            Home::Lab => windlass_lab::Emulator::Own.check(scenario),
            #[cfg(not(feature = "lab"))]
            Home::Lab => Err(Refusal::new(Location::Network, "", "this build only simulates".into())),
            Home::Sim => windlass_sim::check(scenario).map_err(|e| refusal(&e, scenario)),
        }
    }
}

/// The simulator's error with the place of what is wrong.
fn refusal(error: &SimError, scenario: &Scenario) -> Refusal {
    let (location, key) = match error {
        SimError::UnknownAlgorithm { from, to, name, .. } => {
            let has_it = |f: &windlass_scenario::Flow| f.from == *from && f.to == *to && f.algorithm == *name;
            let index = scenario.flows.iter().position(has_it);
            (index.map_or(Location::Network, Location::Flow), "algorithm")
        }
        SimError::UnknownBoxAlgorithm { .. } => (Location::Windlass, "algorithm"),
        SimError::BoxAtEnd { .. } => (Location::Windlass, "at"),
        SimError::Timeless { flow, .. } => (Location::Flow(*flow), "size"),
        SimError::NoWindow { flow, .. } => (Location::Flow(*flow), "connections"),
        // nothing of the file: these are about this machine
        SimError::TooLarge { .. } | SimError::Trace { .. } => (Location::Network, ""),
    };
    Refusal::new(location, key, error.to_string())
}

/// A sweep to run.
#[derive(Clone, Debug)]
pub struct Sweep {
    name: String,
    plan: Plan,
    varied: Vec<Varied>,
    conditions: Vec<(Vec<Value>, Condition)>,
}

/// What a sweep gave.
#[derive(Clone, Debug)]
pub struct Swept {
    sweep: Sweep,
    runs: Vec<RunRecord>,
    /// Runs there should have been.
    pub expected: usize,
}

/// Whether setting what is at `path` replaces what is at `other`.
fn covers(path: &str, other: &str) -> bool {
    let mut others = other.split('.');
    path.split('.').all(|key| others.next().is_some_and(|other| key == "*" || key == other))
}

impl Sweep {
    /// The scenario of `file` with every combination of these values, each with these seeds, or with 1 if neither these nor a key
    /// sets any.
    pub fn new(file: &Path, varied: Vec<Varied>, seeds: Option<Seeds>, on: Home) -> Result<Sweep> {
        let name = file.display().to_string();
        let text = read_file(file).with_context(|| name.clone())?;
        Sweep::of_text(name, &text, varied, seeds, on)
    }

    /// The same of the text of a file; `name` is for messages.
    pub fn of_text(
        name: String,
        text: &str,
        varied: Vec<Varied>,
        seeds: Option<Seeds>,
        on: Home,
    ) -> Result<Sweep> {
        let plan = Plan::new(text, &varied, seeds.as_ref(), on);
        let base = Draft::parse(&name, text)?;
        let as_it_is = ScenarioFile::parse(&name, text)?;
        let base_refusal = on.check(&as_it_is.scenario).err();
        for (index, later) in varied.iter().enumerate() {
            if let Some(earlier) = varied[..index].iter().find(|earlier| covers(&later.path, &earlier.path)) {
                match later.path == earlier.path {
                    true => bail!("--set {}: is there twice; give all its values at once", later.path),
                    false => {
                        bail!("--set {}: undoes --set {} before it; leave one out", later.path, earlier.path)
                    }
                }
            }
        }
        varied.iter().try_for_each(Varied::check)?;
        let sets_seeds = varied.iter().any(|key| key.path == "seed");
        if sets_seeds && seeds.is_some() {
            bail!(
                "--set seed gives each seed a row of its own, and --seeds runs each row with all: leave one out"
            );
        }
        let seeds = seeds.unwrap_or(Seeds::first(1));
        let mut conditions = Vec::new();
        for choice in combinations(&varied) {
            let point = point_name(&varied, &choice);
            let mut draft = base.clone();
            for (key, value) in varied.iter().zip(&choice) {
                draft.set(&key.path, value).map_err(|what| anyhow!("{name}: --set {what}"))?;
            }
            let mut seeded = |seed: Option<u64>| -> Result<Scenario> {
                // what a scenario draws when it is read, as the starts of flows, belongs to the run
                if let Some(seed) = seed {
                    draft.set("seed", &Value::Integer(seed as i64)).map_err(Error::msg)?;
                }
                let with = |what: &dyn fmt::Display| anyhow!("{name}: with {point}: {what}");
                let scenario = draft.scenario().map_err(|what| with(&what))?;
                on.check(&scenario).map_err(|refusal| match Some(&refusal) == base_refusal.as_ref() {
                    // what is in the file itself has a line
                    true => as_it_is.refused(&refusal).into(),
                    false => with(&refusal),
                })?;
                Ok(scenario)
            };
            let line: Vec<String> = choice.iter().rev().skip(1).rev().map(vary::label).collect();
            let each: Vec<Option<u64>> =
                if sets_seeds { vec![None] } else { seeds.iter().map(Some).collect() };
            let jobs = each.into_iter().map(|seed| Ok(job(&point, on, seeded(seed)?)));
            let jobs = jobs.collect::<Result<Vec<_>>>()?;
            let x = choice.last().zip(varied.last()).and_then(|(value, key)| vary::x_of(value, &key.values));
            conditions.push((
                choice,
                Condition { name: point, point: String::new(), x, line: line.join(", "), jobs },
            ));
        }
        Ok(Sweep { name: base.scenario().map_or(name, |s| s.name), plan, varied, conditions })
    }

    /// All its runs, in order.
    fn jobs(&self) -> Vec<Job> {
        self.conditions.iter().flat_map(|(_, c)| c.jobs.iter().cloned()).collect()
    }

    /// How many runs it has.
    pub fn runs(&self) -> usize {
        self.conditions.iter().map(|(_, c)| c.jobs.len()).sum()
    }

    /// Simulates the run at place `index`, from 0 on. Returns its record as a line of runs.jsonl; none: there is no such run, or
    /// `cancel` was set meanwhile.
    pub fn simulate(&self, index: usize, cancel: &AtomicBool) -> Option<String> {
        let job = self.conditions.iter().flat_map(|(_, c)| &c.jobs).nth(index)?;
        let report = runner::simulate(job, cancel);
        // a run that was cut short is no measurement
        (!cancel.load(Ordering::Relaxed)).then(|| line(&RunRecord::of(job, report)))
    }

    /// Puts runs together that [`Sweep::simulate`] has made anywhere, in any order, as if [`Sweep::run`] had made them: the same
    /// files in the folder `out`, to the byte.
    ///
    /// # Errors
    /// Some are missing.
    pub fn put_together(self, lines: &[String], out: &Path) -> Result<Swept> {
        let jobs = self.jobs();
        let found = lines.iter().filter_map(|line| serde_json::from_str(line).ok());
        let runs = merge::pick(found, &jobs)?;
        merge::write(&runs, out, &[])?;
        self.report(runs, jobs.len(), out)
    }

    /// Runs it; tables, plots and finished runs go to `settings.out`.
    pub fn run(self, settings: &Settings) -> Result<Swept> {
        let jobs = self.jobs();
        let expected = jobs.len();
        let runs = runner::run_all(&self.name, jobs, settings, &settings.out)?;
        self.report(runs, expected, &settings.out)
    }

    /// Runs a part of it, and leaves what [`Sweep::merge`] needs in `settings.out`: how many runs there are, how many there should
    /// be, and whether all are sound.
    pub fn run_shard(self, shard: Shard, settings: &Settings) -> Result<Swept> {
        let jobs = self.jobs().into_iter().enumerate().filter(|(index, _)| shard.has(*index));
        let jobs: Vec<Job> = jobs.map(|(_, job)| job).collect();
        let expected = jobs.len();
        let runs = runner::run_all(&self.name, jobs, settings, &settings.out)?;
        self.plan.write(&settings.out)?;
        Ok(Swept { runs, sweep: self, expected })
    }

    /// Puts the runs of the parts of a sweep together, as if one machine had run it: the same to the byte.
    pub fn merge(folders: &[PathBuf], settings: &Settings) -> Result<Swept> {
        let (first, others) = folders.split_first().context("name the folders of the shards")?;
        let plan = Plan::read(first)?;
        for folder in others {
            if Plan::read(folder)? != plan {
                let (first, folder) = (first.display(), folder.display());
                bail!(
                    "{folder}: is part of another sweep than {first}: scenario, --set, --seeds or --on differ"
                );
            }
        }
        let name = format!("the scenario of {}", first.display());
        let sweep = Sweep::of_text(name, &plan.scenario, plan.varied()?, plan.seeds()?, plan.on)?;
        let jobs = sweep.jobs();
        let runs = merge::collect(folders, &jobs)?;
        merge::write(&runs, &settings.out, folders)?;
        sweep.report(runs, jobs.len(), &settings.out)
    }

    /// Tables and plots of its runs.
    fn report(self, runs: Vec<RunRecord>, expected: usize, out: &Path) -> Result<Swept> {
        self.plan.write(out)?;
        let keys: Vec<&str> = self.varied.iter().map(|v| v.path.as_str()).collect();
        let title = format!("{} over {}", self.name, keys.join(", "));
        let outcome =
            Outcome { name: self.name.clone(), title, verdicts: Vec::new(), tables: Vec::new(), runs };
        let conditions: Vec<&Condition> = self.conditions.iter().map(|(_, c)| c).collect();
        outcome.write(out, false, &self.plots(), &conditions)?;
        let swept = Swept { runs: outcome.runs, sweep: self, expected };
        save(&out.join("classes.csv"), &swept.classes_csv())?;
        Ok(swept)
    }

    fn plots(&self) -> Vec<Plot> {
        let Some(x) = self.varied.last().map(|v| v.path.clone()) else { return Vec::new() };
        let plot = |metric, statistic, y: &str, unit| Plot {
            title: None,
            metric,
            statistic: Some(statistic),
            kind: Kind::Vary,
            class: None,
            tenant: None,
            link: None,
            over: Over::Flows,
            points: Vec::new(),
            variants: Vec::new(),
            x: x.clone(),
            y: y.into(),
            unit,
            per: None,
            by_class: false,
            marks: BTreeMap::new(),
        };
        let by_class =
            |metric, y: &str, unit| Plot { by_class: true, ..plot(metric, Statistic::Mean, y, unit) };
        vec![
            plot(Metric::Completion, Statistic::Median, "median completion time (s)", 1.0),
            plot(Metric::Response, Statistic::Median, "median response time (s)", 1.0),
            plot(Metric::Throughput, Statistic::Mean, "throughput (Mbit/s)", 1e6),
            plot(Metric::SenderTimeouts, Statistic::Mean, "timeouts per run", 1.0),
            plot(Metric::Drops, Statistic::Mean, "packets dropped by full buffers per run", 1.0),
            by_class(Metric::Completion, "mean completion time, 95 % confidence (s)", 1.0),
            by_class(Metric::Response, "mean response time, 95 % confidence (s)", 1.0),
            by_class(Metric::Goodput, "mean goodput of a flow, 95 % confidence (Mbit/s)", 1e6),
        ]
    }
}

fn job(point: &str, on: Home, scenario: Scenario) -> Job {
    Job {
        point: point.into(),
        variant: on.to_string(),
        on,
        bdp_bytes: job::bdp_bytes(&scenario),
        needs_samples: false,
        interval: None,
        scenario,
    }
}

fn point_name(varied: &[Varied], choice: &[Value]) -> String {
    let pairs: Vec<String> = varied
        .iter()
        .zip(choice)
        .map(|(key, value)| format!("{}={}", key.path, vary::label(value)))
        .collect();
    if pairs.is_empty() { "as-it-is".into() } else { pairs.join(" ") }
}

/// Every combination of the values, the first key the slowest.
fn combinations(varied: &[Varied]) -> Vec<Vec<Value>> {
    varied.iter().fold(vec![Vec::new()], |all, key| {
        let with =
            |chosen: &Vec<Value>, value: &Value| [chosen.as_slice(), std::slice::from_ref(value)].concat();
        all.iter().flat_map(|chosen| key.values.iter().map(move |v| with(chosen, v))).collect()
    })
}

/// What is reported of each combination: name, metric, how runs become one number, and by what it is divided.
const COLUMNS: [(&str, Metric, Statistic, f64); 8] = [
    ("completion_median_s", Metric::Completion, Statistic::Median, 1.0),
    ("completion_p99_s", Metric::Completion, Statistic::P99, 1.0),
    ("response_median_s", Metric::Response, Statistic::Median, 1.0),
    ("response_p99_s", Metric::Response, Statistic::P99, 1.0),
    ("throughput_mbps", Metric::Throughput, Statistic::Mean, 1e6),
    ("jain", Metric::Jain, Statistic::Median, 1.0),
    ("timeouts", Metric::SenderTimeouts, Statistic::Mean, 1.0),
    ("drops_tail", Metric::Drops, Statistic::Mean, 1.0),
];

impl Swept {
    /// Whether all runs are there, and every payload arrived whole.
    pub fn is_complete(&self) -> bool {
        self.runs.len() == self.expected && self.runs.iter().all(|r| r.error.is_none() && r.checksum_ok)
    }

    /// Runs that are on disk.
    pub fn kept(&self) -> usize {
        self.runs.iter().filter(|r| !r.is_unkept).count()
    }

    /// Names of the columns.
    pub fn header(&self) -> Vec<String> {
        let keys = self.sweep.varied.iter().map(|v| v.path.clone());
        keys.chain(["runs".into()]).chain(COLUMNS.map(|c| c.0.to_string())).collect()
    }

    /// One row for each combination; "-": nothing to measure, or a run failed.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let cell = |number: Option<f64>| number.map_or("-".into(), |n| format!("{n:.4}"));
        let row = |(choice, condition): &(Vec<Value>, Condition)| {
            let runs = self.of(condition);
            let numbers = COLUMNS.map(|column| cell(number(column, &runs)));
            texts(choice).into_iter().chain([runs.len().to_string()]).chain(numbers).collect()
        };
        self.sweep.conditions.iter().map(row).collect()
    }

    /// One document.
    pub fn to_json(&self) -> Json {
        let names = classes::names(&self.runs);
        let point = |(choice, condition): &(Vec<Value>, Condition)| {
            let runs = self.of(condition);
            let set: serde_json::Map<String, Json> =
                self.sweep.varied.iter().zip(choice).map(|(key, v)| (key.path.clone(), json!(v))).collect();
            let mut document = json!({ "set": set, "runs": runs.len() });
            document["classes"] = classes::to_json(&classes::at_point(&runs, &names));
            COLUMNS.iter().for_each(|column| document[column.0] = json!(number(*column, &runs)));
            if let Some(run) = runs.iter().find(|r| r.error.is_some()) {
                document["error"] = json!({ "seed": run.seed, "what": run.error });
            }
            document
        };
        let points: Vec<Json> = self.sweep.conditions.iter().map(point).collect();
        json!({ "scenario": self.sweep.name, "points": points, "runs": self.runs.len(), "expected": self.expected,
            "late_runs": late_runs(&self.runs) })
    }

    /// A row for each point and class of flows.
    fn classes_csv(&self) -> String {
        let names = classes::names(&self.runs);
        let point = |(_, condition): &(Vec<Value>, Condition)| {
            let runs = self.of(condition);
            (condition.name.clone(), runs.len(), classes::at_point(&runs, &names))
        };
        classes::csv(self.sweep.conditions.iter().map(point))
    }

    /// A table of all flows and each class; empty where there are no classes.
    fn classes_table(&self) -> Vec<Vec<String>> {
        let names = classes::names(&self.runs);
        if names.is_empty() {
            return Vec::new();
        }
        let keys: Vec<String> = self.sweep.varied.iter().map(|v| v.path.clone()).collect();
        let mut rows = vec![[keys, classes::header()].concat()];
        for (choice, condition) in &self.sweep.conditions {
            let of_point = classes::rows(&classes::at_point(&self.of(condition), &names));
            rows.extend(of_point.into_iter().map(|row| [texts(choice), row].concat()));
        }
        rows
    }

    fn of(&self, condition: &Condition) -> Vec<&RunRecord> {
        self.runs.iter().filter(|r| r.point == condition.name).collect()
    }
}

/// Values as they were written, without quotes.
fn texts(choice: &[Value]) -> Vec<String> {
    choice.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), String::from)).collect()
}

/// Columns that are as wide as the widest of their cells.
fn write_table(f: &mut fmt::Formatter, rows: &[Vec<String>]) -> fmt::Result {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |i: usize| rows.iter().map(|r| r[i].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(c, w)| format!("{c:<w$}")).collect();
        writeln!(f, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn number((_, metric, statistic, scale): (&str, Metric, Statistic, f64), runs: &[&RunRecord]) -> Option<f64> {
    of_point(metric, Some(statistic), runs, &Selection::default()).map(|n| n / scale)
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut rows = self.rows();
        rows.insert(0, self.header());
        write_table(f, &rows)?;
        let classes = self.classes_table();
        if !classes.is_empty() {
            writeln!(f)?;
            write_table(f, &classes)?;
        }
        if let Some(late) = said_of_late_runs(&self.runs) {
            writeln!(f, "warning: {late}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        sync::atomic::{AtomicBool, Ordering},
    };

    const SCENARIO: &str = "name = \"line\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\n\
        between = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n\
        size = \"100 kB\"\n";

    fn sweep(folder: &Path, sets: &[&str]) -> Result<Sweep> {
        let file = folder.join("line.toml");
        fs::write(&file, SCENARIO).unwrap();
        let varied = sets.iter().map(|s| s.parse().map_err(anyhow::Error::msg)).collect::<Result<_>>()?;
        Sweep::new(&file, varied, Some(Seeds::first(2)), Home::Sim)
    }

    fn settings(out: &Path, cancel: &'static AtomicBool) -> Settings {
        let windlass = "windlass".into();
        let out = out.join("out");
        Settings {
            windlass,
            quick: false,
            resume: true,
            out,
            quiet: true,
            at_once: Some(2),
            cancel,
            readers: None,
        }
    }

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn values_are_toml_or_text() {
        let varied: Varied =
            "flow.0.size=10 kB, { uniform = [\"1 kB\", \"2 kB\"] },7,\"a,b\"".parse().unwrap();
        assert_eq!(varied.path, "flow.0.size");
        let kinds: Vec<&str> = varied.values.iter().map(Value::type_str).collect();
        assert_eq!(kinds, ["string", "table", "integer", "string"]);
        assert_eq!(varied.values[3].as_str(), Some("a,b"));
        for wrong in ["seed", "=1", "seed=", "seed=1,,2"] {
            assert!(wrong.parse::<Varied>().unwrap_err().contains("KEY=VALUE"), "{wrong}");
        }
    }

    #[test]
    fn every_combination_is_run_and_reported() {
        let folder = tempfile::tempdir().unwrap();
        let sweep =
            sweep(folder.path(), &["flow.*.algorithm=reno,cubic", "link.0.buffer=5 packets,50 packets"]);
        let swept = sweep.unwrap().run(&settings(folder.path(), &GO_ON)).unwrap();
        assert_eq!((swept.kept(), swept.expected, swept.is_complete()), (8, 8, true));
        let rows = swept.rows();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[1][..3], ["reno", "50 packets", "2"]);
        assert_eq!(swept.to_json()["points"][3]["set"]["flow.*.algorithm"], "cubic");
        assert!(swept.to_json()["points"][0]["completion_median_s"].as_f64().unwrap() > 0.08);
        assert!(swept.to_string().lines().count() == 5);
        for file in ["report.html", "runs.csv", "runs.jsonl", "plot-1.svg"] {
            assert!(folder.path().join("out").join(file).exists(), "{file}");
        }
    }

    /// All files of a folder.
    fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        let file =
            |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
        entries.map(file).collect()
    }

    /// Ten runs, of which two fail.
    #[test]
    fn merged_shards_are_what_one_machine_gives_to_the_byte() {
        let folder = tempfile::tempdir().unwrap();
        let sets = ["flow.0.size=100 kB,200 kB,300 kB,1 MB,100 MB", "time_limit=1 s"];
        let settings =
            |name: &str| Settings { out: folder.path().join(name), ..settings(folder.path(), &GO_ON) };
        let one = settings("one");
        assert_eq!(sweep(folder.path(), &sets).unwrap().run(&one).unwrap().runs.len(), 10);
        let expected = files(&one.out);
        for count in [1, 2, 7] {
            let shard = |number: usize| {
                let of = settings(&format!("{count}-{number}"));
                let shard = format!("{number}/{count}").parse().unwrap();
                sweep(folder.path(), &sets).unwrap().run_shard(shard, &of).unwrap();
                of.out
            };
            let shards: Vec<PathBuf> = (1..=count).rev().map(shard).collect();
            let merged = settings(&format!("merged-{count}"));
            let swept = Sweep::merge(&shards, &merged).unwrap();
            assert_eq!((swept.runs.len(), swept.expected, swept.is_complete()), (10, 10, false));
            let given = files(&merged.out);
            assert_eq!(given.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
            given
                .iter()
                .for_each(|(name, bytes)| assert!(*bytes == expected[name], "{count} shards: {name}"));
        }
    }

    /// Four runs, of which two fail.
    #[test]
    fn runs_made_anywhere_are_put_together_as_one_machine_makes_them() {
        let folder = tempfile::tempdir().unwrap();
        let sweep = sweep(folder.path(), &["flow.0.size=100 kB,100 MB", "time_limit=1 s"]).unwrap();
        let whole = settings(folder.path(), &GO_ON);
        sweep.clone().run(&whole).unwrap();
        assert_eq!(sweep.runs(), 4);
        let mut lines: Vec<String> = (0..4).rev().filter_map(|i| sweep.simulate(i, &GO_ON)).collect();
        let out = folder.path().join("together");
        let swept = sweep.clone().put_together(&lines, &out).unwrap();
        assert_eq!((swept.runs.len(), swept.is_complete()), (4, false));
        assert!(files(&out) == files(&whole.out));
        lines.remove(1);
        let error = sweep.clone().put_together(&lines, &out).unwrap_err().to_string();
        assert!(
            error.starts_with("1 of 4 runs are missing, flow.0.size=100MB time_limit=1s seed 1"),
            "{error}"
        );
        assert_eq!(sweep.simulate(4, &GO_ON), None);
        assert_eq!(sweep.simulate(0, &AtomicBool::new(true)), None);
    }

    #[test]
    fn shards_that_do_not_make_a_sweep_are_not_merged() {
        let folder = tempfile::tempdir().unwrap();
        let settings =
            |name: &str| Settings { out: folder.path().join(name), ..settings(folder.path(), &GO_ON) };
        let shard = |name: &str, set: &str, shard: &str| {
            let of = settings(name);
            sweep(folder.path(), &[set]).unwrap().run_shard(shard.parse().unwrap(), &of).unwrap();
            of.out
        };
        let first = shard("first", "flow.0.size=10 kB,20 kB", "1/2");
        let other = shard("other", "flow.0.size=10 kB", "2/2");
        let error = |folders: &[PathBuf], out: &str| {
            format!("{:#}", Sweep::merge(folders, &settings(out)).unwrap_err())
        };
        let e = error(&[first.clone(), other], "out");
        assert!(e.contains("is part of another sweep"), "{e}");
        let e = error(std::slice::from_ref(&first), "out");
        assert!(e.starts_with("2 of 4 runs are missing, flow.0.size=10kB seed 2, "), "{e}");
        let e = error(&[folder.path().join("none")], "out");
        assert!(e.contains("sweep.json") && e.contains("--resume"), "{e}");
        let second = shard("second", "flow.0.size=10 kB,20 kB", "2/2");
        let e = error(&[first.clone(), second.clone()], "first");
        assert!(e.ends_with("is one of the shards; name another --out"), "{e}");
        assert!(Sweep::merge(&[first, second], &settings("out")).unwrap().is_complete());
    }

    #[test]
    fn seeds_are_what_was_listed_or_a_row_each() {
        let folder = tempfile::tempdir().unwrap();
        let seeds = |swept: &Swept| swept.runs.iter().map(|r| r.seed).collect::<Vec<_>>();
        let file = folder.path().join("line.toml");
        fs::write(&file, SCENARIO).unwrap();
        let listed = Sweep::new(&file, Vec::new(), Some("3-5".parse().unwrap()), Home::Sim).unwrap();
        let swept = listed.run(&settings(folder.path(), &GO_ON)).unwrap();
        assert_eq!((seeds(&swept), swept.rows().len()), (vec![3, 4, 5], 1));
        let each = Sweep::new(&file, vec!["seed=7,9".parse().unwrap()], None, Home::Sim).unwrap();
        let swept = each.run(&settings(folder.path(), &GO_ON)).unwrap();
        assert_eq!((seeds(&swept), swept.rows().len()), (vec![7, 9], 2));
        assert_eq!(swept.rows()[1][..2], ["9", "1"]);
    }

    #[test]
    fn a_point_that_failed_reports_why() {
        let folder = tempfile::tempdir().unwrap();
        let sweep = sweep(folder.path(), &["flow.0.size=100 kB,1 GB", "time_limit=1 s"]).unwrap();
        let swept = sweep.run(&settings(folder.path(), &GO_ON)).unwrap();
        let points = &swept.to_json()["points"];
        assert_eq!(points[0]["error"], Json::Null);
        assert_eq!(points[1]["error"]["seed"], 1);
        assert!(points[1]["error"]["what"].as_str().unwrap().contains("not finished"), "{points}");
        assert_eq!((&points[1]["timeouts"], &points[1]["drops_tail"]), (&Json::Null, &Json::Null));
        assert_eq!(points[0]["drops_tail"], 0.0);
        assert!(swept.rows()[1].iter().any(|cell| cell == "-"));
    }

    #[test]
    fn what_was_stopped_goes_on() {
        static STOP: AtomicBool = AtomicBool::new(true);
        let folder = tempfile::tempdir().unwrap();
        let sets = ["link.0.delay=1 ms,2 ms"];
        let stopped = sweep(folder.path(), &sets).unwrap().run(&settings(folder.path(), &STOP)).unwrap();
        assert_eq!((stopped.kept(), stopped.is_complete()), (0, false));
        STOP.store(false, Ordering::Relaxed);
        let first = sweep(folder.path(), &sets[..1]).unwrap();
        assert_eq!(first.run(&settings(folder.path(), &STOP)).unwrap().kept(), 4);
        // more values: what is there is not run again
        let jsonl = folder.path().join("out/runs.jsonl");
        let marked = fs::read_to_string(&jsonl).unwrap().replace("\"ended_s\":", "\"ended_s\":1000");
        fs::write(&jsonl, marked).unwrap();
        let more = sweep(folder.path(), &["link.0.delay=1 ms,2 ms,3 ms"]).unwrap();
        let swept = more.run(&settings(folder.path(), &STOP)).unwrap();
        assert_eq!(swept.kept(), 6);
        let is_old = |r: &&RunRecord| r.ended_s >= 1000.0;
        assert_eq!(swept.runs.iter().filter(is_old).count(), 4);
        // fewer values: those of the others stay for another time
        let fewer = sweep(folder.path(), &["link.0.delay=3 ms"]).unwrap();
        assert_eq!(fewer.run(&settings(folder.path(), &STOP)).unwrap().kept(), 2);
        let more = sweep(folder.path(), &["link.0.delay=1 ms,2 ms,3 ms"]).unwrap();
        let swept = more.run(&settings(folder.path(), &STOP)).unwrap();
        assert_eq!((swept.kept(), swept.runs.iter().filter(is_old).count()), (6, 4));
        assert_eq!(fs::read_to_string(&jsonl).unwrap().lines().count(), 6);
        // what another build gave is run again
        let old =
            fs::read_to_string(&jsonl).unwrap().replace("\"scenario_hash\":\"", "\"scenario_hash\":\"f");
        fs::write(&jsonl, old).unwrap();
        let swept = sweep(folder.path(), &sets[..1]).unwrap().run(&settings(folder.path(), &STOP)).unwrap();
        assert_eq!((swept.kept(), swept.runs.iter().filter(is_old).count()), (4, 0));
        assert_eq!(
            fs::read_dir(folder.path().join("out"))
                .unwrap()
                .filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "new"))
                .count(),
            0
        );
    }

    #[test]
    fn what_a_home_refuses_is_refused_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("line.toml");
        let error = |more: &str, set: &str, on: Home| {
            fs::write(&file, format!("{SCENARIO}{more}")).unwrap();
            let said = Sweep::new(&file, vec![set.parse().unwrap()], None, on).unwrap_err().to_string();
            said.rsplit_once("line.toml").unwrap().1.to_string()
        };
        let e = error("application = \"push\"\n", "link.0.loss=1 %", Home::Lab);
        assert!(e.starts_with(":14: flow a > b: application: ") && e.contains("--on sim"), "{e}");
        let e = error("", "flow.0.application=push", Home::Lab);
        assert!(e.starts_with(": with flow.0.application=push: flow a > b: application: "), "{e}");
        let boxed = "[windlass]\nat = \"a\"\nfacing = \"b\"\n";
        let e = error(boxed, "link.0.loss=1 %", Home::Sim);
        assert!(e.starts_with(":15: [windlass]: at = \"a\" is an end of a flow"), "{e}");
        let e = error("algorithm = \"vegas\"\n", "link.0.loss=1 %", Home::Sim);
        assert!(e.starts_with(":14: flow a > b: ") && e.contains("cubic, bbr"), "{e}");
        let e = error(boxed, "windlass.algorithm=vegas", Home::Sim);
        assert!(e.starts_with(": with windlass.algorithm=vegas: [windlass]: no algorithm"), "{e}");
    }

    #[test]
    fn mistakes_name_file_key_and_cure() {
        let folder = tempfile::tempdir().unwrap();
        let error = |set: &str| sweep(folder.path(), &[set]).unwrap_err().to_string();
        assert!(
            error("link.0.loss=150 %")
                .contains("line.toml: with link.0.loss=150%: loss = \"150 %\": 0 % to 100 %")
        );
        assert!(error("link.1.loss=1 %").contains("--set \"link.1.loss\": there is no link.1"));
        assert!(error("seed=1,2").contains("leave one out"));
        assert!(error("flow.*.algorithm=reno,cubic,reno").contains("\"reno\" is there twice"));
        assert!(error("link.0.delay=1 ms,1ms").contains("is there twice"));
        let twice = sweep(folder.path(), &["link.0.loss=1 %", "link.0.loss=2 %"]).unwrap_err().to_string();
        assert!(twice.contains("twice"), "{twice}");
        let sets = ["windlass.algorithm=bbr", "link.0.loss=0 %,1 %", "link.*.loss=2 %,3 %"];
        let undone = sweep(folder.path(), &sets).unwrap_err().to_string();
        assert_eq!(undone, "--set link.*.loss: undoes --set link.0.loss before it; leave one out");
    }
}
