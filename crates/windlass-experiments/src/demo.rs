//! The main job in about a minute: an unmodified CUBIC server and a client across a lossy WAN, three ways.

use crate::{
    job::{self, Home, Job},
    page::{escape, page, save},
    plot::{self, Series},
    record::RunRecord,
    report::Outcome,
    runner,
    settings::Settings,
    stats,
};
use anyhow::Result;
use std::fs;
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

/// Runs the demonstration, prints its table and writes its report. Returns whether every payload arrived whole.
pub fn demo(settings: &Settings) -> Result<bool> {
    let base = Scenario::parse("scenarios/wan.toml", include_str!("../../../scenarios/wan.toml"))?;
    println!("An unmodified nginx fetched by curl: 10 MB over 20 Mbit/s, 40 ms, 1 % loss, buffer 1 BDP.");
    println!("Real Linux kernels in network namespaces; {SEEDS} runs each way, side by side.\n");
    let jobs = (1..=SEEDS).flat_map(|seed| WAYS.map(|way| job(&base, way, seed))).collect();
    let runs = runner::run_all("demo", jobs, settings, &settings.out)?;
    let outcome = Outcome {
        name: "demo".into(),
        title: "10 MB over a lossy WAN".into(),
        verdicts: Vec::new(),
        tables: Vec::new(),
        runs,
    };
    print_table(&outcome);
    write_report(&outcome, settings)?;
    let complete =
        outcome.runs.len() == WAYS.len() * SEEDS as usize && outcome.runs.iter().all(|r| r.checksum_ok);
    println!("\nreport: {}", settings.out.join("report.html").display());
    Ok(complete)
}

fn row(outcome: &Outcome, way: &str) -> Option<[String; 7]> {
    let runs = outcome.of(POINT, way);
    let times: Vec<f64> = runs.iter().filter_map(|r| r.completion_s).collect();
    let time = stats::median(&times)?;
    let mean = |f: &dyn Fn(&RunRecord) -> f64| runs.iter().map(|r| f(r)).sum::<f64>() / runs.len() as f64;
    Some([
        way.to_string(),
        format!("{time:.2} s"),
        format!("{:.1} Mbit/s", runs.first()?.bytes as f64 * 8.0 / time / 1e6),
        format!("{:.0} ms", mean(&|r| r.mean_rtt_ms.unwrap_or_default())),
        format!("{:.0}", mean(&|r| r.sender_retrans_segs as f64)),
        format!("{:.0}", mean(&|r| r.repaired_segs as f64)),
        if runs.iter().all(|r| r.checksum_ok) { "ok".into() } else { "WRONG".into() },
    ])
}

const HEADER: [&str; 7] =
    ["", "completion", "goodput", "RTT", "server retransmissions", "local repairs", "payload"];

fn print_table(outcome: &Outcome) {
    let line = |cells: [&str; 7]| {
        let [way, time, goodput, rtt, retrans, repairs, payload] = cells;
        println!("{way:<32} {time:>10}  {goodput:>12}  {rtt:>7}  {retrans:>22}  {repairs:>13}  {payload}");
    };
    line(HEADER);
    for (way, ..) in WAYS {
        if let Some(cells) = row(outcome, way) {
            line(cells.each_ref().map(String::as_str));
        }
    }
}

fn write_report(outcome: &Outcome, settings: &Settings) -> Result<()> {
    let series: Vec<Series> = WAYS
        .iter()
        .map(|(way, ..)| {
            let times: Vec<f64> = outcome.of(POINT, way).iter().filter_map(|r| r.completion_s).collect();
            plot::cdf(way, &times)
        })
        .collect();
    outcome.write(&settings.out, false, &[], &[])?;
    let file = settings.out.join("demo.svg");
    plot::lines(&file, "10 MB over 20 Mbit/s, 40 ms, 1 % loss", "completion time (s)", "CDF", &series)?;
    let mut table = String::from("<table><tr>");
    table.extend(HEADER.iter().map(|h| format!("<th>{}", escape(h))));
    for (way, ..) in WAYS {
        if let Some(cells) = row(outcome, way) {
            table.push_str("<tr>");
            table.extend(cells.iter().map(|c| format!("<td>{}", escape(c))));
        }
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
