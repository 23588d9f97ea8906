//! The survey's tables, the files of the worst runs and the page.

use super::{
    Which,
    compare::{ALGORITHMS, COMPARED, Compared, Ranked, VARIANTS, ranked, ratios},
    path::{Loss, Path},
    workload::Kind,
};
use crate::{
    job::Home,
    metric::Statistic,
    page::{escape, page, save},
    plot::{self, Series},
    record::RunRecord,
    report::Outcome,
    stats::{self, each},
    summary::{Filled, Row},
    table,
};
use anyhow::{Context, Result};
use std::{fmt::Write as _, fs, io, path::Path as FilePath};

/// Paths that the report names.
pub const WORST: usize = 20;
/// Ratios beyond it are drawn there.
const DRAWN_MOST: f64 = 3.0;
/// The folder of the worst runs' scenarios, beside the report.
const WORST_FOLDER: &str = "worst";

/// Which paths a row of the table of quantiles is about.
type Group = (&'static str, fn(&Path) -> bool);

const GROUPS: [Group; 16] = [
    ("all", |_| true),
    ("loss-free", Path::is_loss_free),
    ("random loss", |p| matches!(p.loss, Loss::Random { .. })),
    ("bursty loss", |p| matches!(p.loss, Loss::Bursts { .. })),
    ("ACK loss", |p| p.ack_loss_percent > 0.0),
    ("far server", |p| p.near_rtt_ms > 0.0),
    ("jitter in order", |p| p.jitter_ms > 0.0 && !p.reorders),
    ("reordering", |p| p.reorders),
    ("policer", |p| p.policer.is_some()),
    ("outage", |p| p.outage.is_some()),
    ("rate step", |p| p.rate_step.is_some()),
    ("without SACK", |p| !p.has_sack),
    ("transfers", |p| p.workload.kind == Kind::Transfers),
    ("persistent", |p| p.workload.kind == Kind::Persistent),
    ("new connections", |p| p.workload.kind == Kind::NewConnections),
    ("messages", |p| p.workload.kind == Kind::Messages),
];

/// The ratios' quantiles of each group of paths, if it has any, and of what is compared.
pub fn quantiles(compared: &[Compared]) -> Filled {
    let columns = ["paths", "p10", "median", "p90", "p99", "worst", "> 1.15 (%)"];
    let row = |(name, is_chosen): Group, algorithm: usize| {
        let ratios = ratios(compared, algorithm, is_chosen);
        let above = ratios.iter().filter(|r| **r > 1.15).count() as f64;
        let at = [0.1, 0.5, 0.9, 0.99, 1.0].map(|q| stats::quantile(&ratios, q));
        let share = (!ratios.is_empty()).then(|| 100.0 * above / ratios.len() as f64);
        let values = [Some(ratios.len() as f64)].into_iter().chain(at).chain([share]).collect();
        Row { point: name.into(), variant: COMPARED[algorithm].into(), values }
    };
    let rows = GROUPS.iter().flat_map(|group| (0..COMPARED.len()).map(move |a| row(*group, a)));
    Filled {
        title: "Time behind the box / of the slower of CUBIC alone and native BBR alone; (again): of the server alone with other \
                seeds, which is chance"
            .into(),
        columns: columns.map(String::from).into(),
        rows: rows.filter(|row| row.values[0] != Some(0.0)).collect(),
    }
}

/// Quantiles over paths with messages of their times' median and 99th percentile, over those of CUBIC alone.
pub fn messages(compared: &[Compared]) -> Filled {
    let times = [("median", Statistic::Median), ("p99", Statistic::P99)];
    let row = |(name, statistic): (&str, Statistic), of: usize| {
        let chosen = compared.iter().filter(|c| c.path.workload.kind == Kind::Messages);
        let ratios: Vec<f64> = chosen.filter_map(|c| c.messages_ratio(of, statistic)).collect();
        let at = [0.1, 0.5, 0.9, 1.0].map(|q| stats::quantile(&ratios, q));
        let values = [Some(ratios.len() as f64)].into_iter().chain(at).collect();
        Row { point: name.into(), variant: COMPARED[of].into(), values }
    };
    let rows = times.into_iter().flat_map(|time| (0..COMPARED.len()).map(move |of| row(time, of)));
    Filled {
        title:
            "Messages' times / of CUBIC alone; (again): of the server alone with other seeds, which is chance"
                .into(),
        columns: ["paths", "p10", "median", "p90", "worst"].map(String::from).into(),
        rows: rows.filter(|row| row.values[0] != Some(0.0)).collect(),
    }
}

/// How runs are repeated.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Where.
    pub on: Home,
    /// With one seed.
    pub is_quick: bool,
}

impl Command {
    /// What repeats the runs of these paths.
    pub fn of(self, which: Which) -> String {
        let which = match which {
            Which::Draw(1) => String::new(),
            Which::Draw(draw) => format!(" --draw {draw}"),
            Which::Path(number) => format!(" --only {number}"),
        };
        let on = if self.on == Home::Lab { " --on lab" } else { "" };
        let quick = if self.is_quick { " --quick" } else { "" };
        format!("windlass reproduce {}{which}{on}{quick}", super::NAME)
    }
}

/// The file of a typical run of that path and algorithm.
fn worst_file(ranked: &Ranked) -> String {
    format!("{WORST_FOLDER}/{}-{}.toml", ranked.compared.path.name(), ALGORITHMS[ranked.algorithm])
}

/// The worst paths and algorithms, each with the command that repeats it.
pub fn worst(compared: &[Compared], folder: &FilePath, command: Command) -> Filled {
    let row = |ranked: &Ranked| {
        let Ranked { compared, algorithm, ratio } = ranked;
        let [cubic_s, bbr_s, ..] = compared.times_s;
        let values = [*ratio, compared.boxed_s(*algorithm), cubic_s, bbr_s].map(Some).into();
        Row {
            point: command.of(Which::Path(compared.path.number)),
            variant: ALGORITHMS[*algorithm].into(),
            values,
        }
    };
    let folder = folder.display();
    Filled {
        title: format!(
            "Worst {WORST}, with what repeats all their runs; one alone: windlass run {folder}/{WORST_FOLDER}/path-NUMBER-VARIANT.toml --on {}",
            command.on
        ),
        columns: ["ratio", "box (s)", "cubic (s)", "bbr (s)"].map(String::from).into(),
        rows: ranked(compared).iter().take(WORST).map(row).collect(),
    }
}

/// Writes the scenarios of the worst runs, in the place of those that were there.
fn write_worst(compared: &[Compared], folder: &FilePath) -> Result<()> {
    let place = folder.join(WORST_FOLDER);
    match fs::remove_dir_all(&place) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => {
            return Err(why).with_context(|| place.display().to_string());
        }
        _ => fs::create_dir_all(&place).with_context(|| place.display().to_string())?,
    }
    for ranked in ranked(compared).iter().take(WORST) {
        let Ranked { compared, algorithm, ratio } = ranked;
        let Some(run) = compared.typical(*algorithm) else { continue };
        let variant = VARIANTS.iter().find(|v| v.name == run.variant).expect("a run of the survey");
        let [cubic_s, bbr_s, ..] = compared.times_s;
        let head = format!(
            "# Medians over the seeds: {:.3} s behind the box, {cubic_s:.3} s with CUBIC alone, {bbr_s:.3} s with native BBR alone,\n\
             # ratio {ratio:.3}. Without [windlass] it is the server alone, and with algorithm = \"bbr\" in [[flow]] native BBR.\n",
            compared.boxed_s(*algorithm)
        );
        save(&folder.join(worst_file(ranked)), &(head + &compared.path.text(variant, run.seed)))?;
    }
    Ok(())
}

/// A number of a table; empty: there is none.
fn cell(number: Option<f64>) -> String {
    number.map_or(String::new(), |number| number.to_string())
}

/// A line for each path: what it is, the median times and the ratios.
fn table_of_paths(compared: &[Compared]) -> String {
    let mut csv = String::from(
        "path,rate_bps,rtt_ms,near_rtt_ms,near_jitter_ms,buffer_bdp,loss,loss_percent,ack_loss_percent,jitter_ms,reorders,\
         policer_bps,policer_burst_bytes,outage_from_s,outage_for_s,step_at_s,step_bps,sack,\
         workload,flows,start_within_s,size_bytes,responses,pause_ms",
    );
    for variant in &VARIANTS {
        let _ = write!(csv, ",{}_s", variant.name);
    }
    for algorithm in ALGORITHMS {
        let _ = write!(csv, ",ratio_{algorithm}");
    }
    csv.push('\n');
    for c in compared {
        let Path { number, rate_bps, rtt_ms, near_rtt_ms, near_jitter_ms, buffer_bdp, .. } = c.path;
        let Path { loss, ack_loss_percent, jitter_ms, reorders, has_sack, workload, .. } = c.path;
        let _ = write!(
            csv,
            "{number},{rate_bps},{rtt_ms},{near_rtt_ms},{near_jitter_ms},{buffer_bdp},{},{},{ack_loss_percent},{jitter_ms},\
             {reorders},{},{},{},{},{},{},{has_sack},{},{},{},{},{},{}",
            loss.name(),
            loss.percent(),
            cell(c.path.policer.map(|p| p.rate_bps)),
            cell(c.path.policer.map(|p| p.burst_bytes)),
            cell(c.path.outage.map(|o| o.from_s)),
            cell(c.path.outage.map(|o| o.for_s)),
            cell(c.path.rate_step.map(|s| s.at_s)),
            cell(c.path.rate_step.map(|s| s.rate_bps)),
            workload.kind.name(),
            workload.flows,
            workload.start_within_s,
            workload.size_bytes,
            workload.responses,
            workload.pause_ms
        );
        for seconds in c.times_s {
            let _ = write!(csv, ",{seconds:.6}");
        }
        for algorithm in 0..ALGORITHMS.len() {
            let ratio = c.ratio(algorithm).map_or(String::new(), |ratio| format!("{ratio:.4}"));
            let _ = write!(csv, ",{ratio}");
        }
        csv.push('\n');
    }
    csv
}

/// The distributions of the ratios, as SVG; empty: there are none.
fn drawn(compared: &[Compared], folder: &FilePath) -> Result<String> {
    let series = |algorithm: usize| {
        let ratios = ratios(compared, algorithm, |_| true);
        let ratios: Vec<f64> = ratios.into_iter().map(|r| r.min(DRAWN_MOST)).collect();
        plot::cdf(ALGORITHMS[algorithm], &each(&ratios))
    };
    let series: Vec<Series> = (0..ALGORITHMS.len()).map(series).collect();
    if series.iter().all(|s| s.points.is_empty()) {
        return Ok(String::new());
    }
    let file = folder.join("ratio.svg");
    let x = format!("time behind the box / of the slower one alone (at most {DRAWN_MOST})");
    plot::lines(&file, super::NAME, &x, "CDF over paths", &series)?;
    fs::read_to_string(&file).with_context(|| file.display().to_string())
}

/// Writes tables, scenarios of the worst runs, the plot and the page. `again`: the command that runs all of it.
pub fn write(
    outcome: &Outcome,
    runs: &[RunRecord],
    compared: &[Compared],
    refused: &[(Path, String)],
    folder: &FilePath,
    again: &str,
) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    save(&folder.join("runs.csv"), &table::runs(runs))?;
    save(&folder.join("paths.csv"), &table_of_paths(compared))?;
    write_worst(compared, folder)?;
    let mut body = format!(
        "<p>{}</p><p>Again: <code>{}</code></p><h2>Claims</h2>{}<p>All paths: <a href=paths.csv>paths.csv</a>; all {} runs: \
         <a href=runs.csv>runs.csv</a>; scenarios of the worst: {WORST_FOLDER}/</p><h2>Results</h2>{}",
        escape(&outcome.title),
        escape(again),
        outcome.claims_table(),
        runs.len(),
        drawn(compared, folder)?
    );
    outcome.tables.iter().for_each(|table| body.push_str(&table.html()));
    if !refused.is_empty() {
        let each = |(path, why): &(Path, String)| format!("<li>{}: {}</li>", path.name(), escape(why));
        let list: String = refused.iter().map(each).collect();
        let _ = write!(
            body,
            "<h2>Paths left out</h2><p>The testbed cannot play {}.</p><ul>{list}</ul>",
            refused.len()
        );
    }
    save(&folder.join("report.html"), &page(&outcome.name, &body))
}
