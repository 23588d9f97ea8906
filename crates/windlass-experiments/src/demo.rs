//! The main job in about a minute: an unmodified CUBIC server and a client across a lossy WAN, three ways.

use crate::{
    job::{self, Home, Job},
    page::{escape, page, save},
    plot::{self, Series},
    record::{RunRecord, said_of_late_runs},
    report::Outcome,
    runner,
    settings::Settings,
    stats,
    summary::{Filled, Row},
};
use anyhow::Result;
use serde_json::Value;
use std::{fmt, fs};
use windlass_scenario::{Mode, Scenario, Windlass};

const SEEDS: u64 = 2;
const POINT: &str = "wan";

/// What each way is called, and what it changes in the scenario.
const WAYS: [(&str, &str, bool); 3] = [
    ("CUBIC", "cubic", false),
    ("native BBR", "bbr", false),
    ("CUBIC behind Windlass with BBR", "cubic", true),
];

fn job(base: &Scenario, way: (&str, &str, bool), seed: u64) -> Job {
    let mut scenario = base.clone();
    scenario.seed = seed;
    for flow in &mut scenario.flows {
        flow.algorithm = way.1.into();
    }
    scenario.windlass = way.2.then(|| Windlass {
        group: None,
        at: "box".into(),
        facing: "server".into(),
        algorithm: "bbr".into(),
        mode: Mode::Transparent,
    });
    Job {
        point: POINT.into(),
        variant: way.0.into(),
        on: Home::Lab,
        bdp_bytes: job::bdp_bytes(&scenario),
        needs_samples: false,
        interval: None,
        scenario,
    }
}

/// What the demonstration gave.
#[derive(Clone, Debug)]
pub struct Demo(Outcome);

impl Demo {
    fn of(runs: Vec<RunRecord>) -> Demo {
        let tables = vec![table(&runs)];
        let (name, title) = ("demo".into(), TITLE.into());
        Demo(Outcome { name, title, verdicts: Vec::new(), tables, runs })
    }

    /// Whether all runs are there, every payload arrived whole, and the box controlled flows.
    pub fn is_complete(&self) -> bool {
        let Demo(outcome) = self;
        let is_sound = |run: &RunRecord| run.checksum_ok && run.box_error.is_none();
        outcome.runs.len() == WAYS.len() * SEEDS as usize && outcome.runs.iter().all(is_sound)
    }

    /// One document, as of an experiment.
    pub fn to_json(&self) -> Value {
        self.0.to_json()
    }

    /// The cells of the ways that have been measured.
    fn rows(&self) -> impl Iterator<Item = [String; 7]> {
        self.0.tables.iter().flat_map(|table| &table.rows).map(cells)
    }
}

const TITLE: &str = "10 MB over a lossy WAN";

/// Runs the demonstration and writes its report; prints first what it is about, unless it is to be quiet.
pub fn demo(settings: &Settings) -> Result<Demo> {
    let base = Scenario::parse("scenarios/wan.toml", include_str!("../../../scenarios/wan.toml"))?;
    if !settings.quiet {
        println!("An unmodified nginx fetched by curl: 10 MB over 20 Mbit/s, 40 ms, 1 % loss, buffer 1 BDP.");
        println!("Real Linux kernels in network namespaces; {SEEDS} runs each way, side by side.\n");
    }
    let jobs = (1..=SEEDS).flat_map(|seed| WAYS.map(|way| job(&base, way, seed))).collect();
    let demo = Demo::of(runner::run_all("demo", jobs, settings, &settings.out)?);
    write_report(&demo, settings)?;
    Ok(demo)
}

/// Columns of the table, with their units.
const COLUMNS: [&str; 7] = [
    "completion (s)",
    "goodput (Mbit/s)",
    "RTT (ms)",
    "server retransmissions",
    "local repairs",
    "runs with a wrong payload",
    "runs without all of it",
];

/// A row for each way that has been measured.
fn table(runs: &[RunRecord]) -> Filled {
    let row = |(way, ..): (&str, &str, bool)| {
        let values = numbers(&runs.iter().filter(|r| r.variant == way).collect::<Vec<_>>())?.map(Some);
        Some(Row { point: POINT.into(), variant: way.into(), values: values.into() })
    };
    Filled {
        title: TITLE.into(),
        columns: COLUMNS.map(String::from).into(),
        rows: WAYS.into_iter().filter_map(row).collect(),
    }
}

/// The numbers of a way, in the order of the columns; none: no run has finished.
fn numbers(runs: &[&RunRecord]) -> Option<[f64; 7]> {
    let times: Vec<f64> = runs.iter().filter_map(|r| r.completion_s).collect();
    let time_s = stats::median(&times)?;
    let mean = |f: &dyn Fn(&RunRecord) -> f64| runs.iter().map(|r| f(r)).sum::<f64>() / runs.len() as f64;
    Some([
        time_s,
        runs.iter().find(|r| r.completion_s.is_some())?.bytes as f64 * 8.0 / time_s / 1e6,
        mean(&|r| r.mean_rtt_ms.unwrap_or_default()),
        mean(&|r| r.sender_retrans_segs as f64),
        mean(&|r| r.repaired_segs as f64),
        runs.iter().filter(|r| r.has_wrong_payload()).count() as f64,
        runs.iter().filter(|r| r.completion_s.is_none()).count() as f64,
    ])
}

const HEADER: [&str; 7] =
    ["", "completion", "goodput", "RTT", "server retransmissions", "local repairs", "payload"];

fn cells(row: &Row) -> [String; 7] {
    let number =
        |column: usize, decimals: usize| row.values[column].map_or("-".into(), |n| format!("{n:.decimals$}"));
    [
        row.variant.clone(),
        format!("{} s", number(0, 2)),
        format!("{} Mbit/s", number(1, 1)),
        format!("{} ms", number(2, 0)),
        number(3, 0),
        number(4, 0),
        match [row.values[5], row.values[6]] {
            [Some(0.0), Some(0.0)] => "ok".into(),
            [Some(0.0), _] => "not all".into(),
            _ => "WRONG".into(),
        },
    ]
}

impl fmt::Display for Demo {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for cells in [HEADER.map(String::from)].into_iter().chain(self.rows()) {
            let [way, time, goodput, rtt, retrans, repairs, payload] = cells;
            writeln!(
                f,
                "{way:<32} {time:>10}  {goodput:>12}  {rtt:>7}  {retrans:>22}  {repairs:>13}  {payload}"
            )?;
        }
        if let Some(error) = self.0.runs.iter().find_map(|run| run.box_error.as_ref()) {
            writeln!(f, "error: {error}")?;
        }
        if let Some(late) = said_of_late_runs(&self.0.runs) {
            writeln!(f, "warning: {late}")?;
        }
        Ok(())
    }
}

fn write_report(demo: &Demo, settings: &Settings) -> Result<()> {
    let Demo(outcome) = demo;
    let series: Vec<Series> = WAYS
        .iter()
        .map(|(way, ..)| {
            let times: Vec<f64> = outcome.of(POINT, way).iter().filter_map(|r| r.completion_s).collect();
            plot::cdf(way, &stats::each(&times))
        })
        .collect();
    outcome.write(&settings.out, false, &[], &[])?;
    let file = settings.out.join("demo.svg");
    plot::lines(&file, "10 MB over 20 Mbit/s, 40 ms, 1 % loss", "completion time (s)", "CDF", &series)?;
    let mut table = String::from("<table><tr>");
    table.extend(HEADER.iter().map(|h| format!("<th>{}", escape(h))));
    for cells in demo.rows() {
        table.push_str("<tr>");
        table.extend(cells.iter().map(|c| format!("<td>{}", escape(c))));
    }
    let body = format!(
        "<p>An unmodified CUBIC server (nginx) and a client (curl) across an emulated WAN of 20 Mbit/s, 40 ms, 1 % \
         loss and a buffer of one bandwidth-delay product, three ways. Again: <code>windlass demo</code>; all runs: \
         <a href=runs.csv>runs.csv</a>.</p>{table}</table>{}",
        fs::read_to_string(&file).unwrap_or_default()
    );
    save(&settings.out.join("report.html"), &page("Windlass: the main job", &body))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_scenario::FlowReport;

    fn run(way: &str, seed: u64, seconds: f64) -> RunRecord {
        RunRecord {
            point: POINT.into(),
            variant: way.into(),
            seed,
            completion_s: Some(seconds),
            bytes: 10_000_000,
            mean_rtt_ms: Some(40.0),
            sender_retrans_segs: 70,
            checksum_ok: true,
            ..RunRecord::default()
        }
    }

    #[test]
    fn text_and_document_have_the_same_numbers() {
        let runs = (1..=SEEDS).flat_map(|seed| WAYS.map(|(way, ..)| run(way, seed, 4.0 * seed as f64)));
        let demo = Demo::of(runs.collect());
        assert!(demo.is_complete());
        let text = demo.to_string();
        assert_eq!(text.lines().count(), 1 + WAYS.len(), "{text}");
        for cell in ["native BBR", "6.00 s", "13.3 Mbit/s", "40 ms", "70", "ok"] {
            assert!(text.lines().nth(2).unwrap().contains(cell), "{cell}: {text}");
        }
        let document = demo.to_json();
        assert_eq!((&document["experiment"], &document["runs"]), (&"demo".into(), &6.into()));
        let table = &document["tables"][0];
        assert_eq!(table["columns"].as_array().unwrap().len(), COLUMNS.len());
        assert_eq!(
            (&table["rows"][1]["variant"], &table["rows"][1]["values"][0]),
            (&"native BBR".into(), &6.0.into())
        );
    }

    #[test]
    fn what_was_stopped_is_not_complete() {
        let demo = Demo::of(vec![run("CUBIC", 1, 4.0)]);
        assert!(!demo.is_complete());
        assert_eq!(demo.to_string().lines().count(), 2);
        let flow = FlowReport { completion_s: Some(4.0), ..FlowReport::default() };
        let wrong = RunRecord { checksum_ok: false, flows: vec![flow], ..run("CUBIC", 1, 4.0) };
        assert!(Demo::of(vec![wrong]).to_string().contains("WRONG"));
    }

    #[test]
    fn a_box_that_controlled_nothing_is_reported() {
        let run_of = |seed: u64| {
            WAYS.map(|(way, _, is_boxed)| {
                let box_error = is_boxed.then(|| "the box controlled no flow".to_string());
                RunRecord { box_error, ..run(way, seed, 4.0) }
            })
        };
        let demo = Demo::of((1..=SEEDS).flat_map(run_of).collect());
        assert!(!demo.is_complete());
        assert!(demo.to_string().ends_with("error: the box controlled no flow\n"), "{demo}");
    }

    #[test]
    fn what_did_not_finish_is_not_called_wrong() {
        let unfinished =
            RunRecord { completion_s: None, checksum_ok: false, bytes: 1, ..run("CUBIC", 1, 4.0) };
        let text = Demo::of(vec![unfinished, run("CUBIC", 2, 4.0)]).to_string();
        assert!(
            text.contains("not all") && text.contains("20.0 Mbit/s") && !text.contains("WRONG"),
            "{text}"
        );
    }
}
