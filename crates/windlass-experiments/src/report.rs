//! What an experiment came to: claims, a CSV, plots and a page.

use crate::{
    claim::{Verdict, of_point},
    figure::{Kind, Plot},
    job::Condition,
    metric::{Metric, Selection, Statistic},
    page::{escape, page, save},
    plot::{self, Series},
    record::{RunRecord, late_runs, said_of_late_runs},
    stats::{self, each},
    summary::Filled,
    table,
};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fmt::Write as _,
    fs,
    path::Path,
};

/// The result of an experiment.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name of the experiment.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Its claims, judged.
    pub verdicts: Vec<Verdict>,
    /// The tables that it requests.
    pub tables: Vec<Filled>,
    /// Its runs.
    pub runs: Vec<RunRecord>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{}: {}", self.name, self.title)?;
        for verdict in &self.verdicts {
            writeln!(f, "  {verdict}")?;
        }
        if let Some(error) = self.box_error() {
            writeln!(f, "  error: {error}")?;
        }
        if let Some(late) = said_of_late_runs(&self.runs) {
            writeln!(f, "  warning: {late}")?;
        }
        self.tables.iter().try_for_each(|table| write!(f, "{table}"))
    }
}

/// What became of what was sent.
fn payload(runs: &[&RunRecord]) -> &'static str {
    if runs.iter().any(|r| r.has_wrong_payload()) {
        "<span class=no>wrong</span>"
    } else if runs.iter().all(|r| r.checksum_ok) {
        "ok"
    } else {
        "<span class=no>not all</span>"
    }
}

fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    names.map(String::as_str).filter(|n| seen.insert(*n)).collect()
}

impl Outcome {
    /// Whether every claim holds, and each box controlled flows that had to; an experiment without claims shows nothing.
    pub fn all_hold(&self) -> bool {
        !self.verdicts.is_empty() && self.verdicts.iter().all(|v| v.holds) && self.box_error().is_none()
    }

    /// Why the box of a run controlled nothing; none: all did, or had to watch.
    fn box_error(&self) -> Option<&String> {
        self.runs.iter().find_map(|run| run.box_error.as_ref())
    }

    /// One document.
    pub fn to_json(&self) -> Value {
        json!({
            "experiment": self.name, "title": self.title, "claims": self.verdicts, "tables": self.tables,
            "runs": self.runs.len(), "late_runs": late_runs(&self.runs), "box_error": self.box_error(),
        })
    }

    /// Runs that there was no room for on disk.
    pub fn unkept(&self) -> usize {
        self.runs.iter().filter(|r| r.is_unkept).count()
    }

    /// Runs of one point and variant.
    pub fn of(&self, point: &str, variant: &str) -> Vec<&RunRecord> {
        self.runs.iter().filter(|r| r.point == point && r.variant == variant).collect()
    }

    /// Points and variants, in the order of the runs.
    pub fn axes(&self) -> (Vec<&str>, Vec<&str>) {
        (in_order(self.runs.iter().map(|r| &r.point)), in_order(self.runs.iter().map(|r| &r.variant)))
    }

    /// Writes tables of all runs, flows and links, plots and report.html. `conditions`: those of the mode.
    pub fn write(&self, folder: &Path, quick: bool, plots: &[Plot], conditions: &[&Condition]) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        save(&folder.join("runs.csv"), &table::runs(&self.runs))?;
        save(&folder.join("flows.csv"), &table::flows(&self.runs))?;
        save(&folder.join("links.csv"), &table::links(&self.runs))?;
        let mut drawn = self.own_plots(folder, plots, conditions)?;
        drawn.extend(self.plots(folder)?);
        let mut body = format!("<p>{}</p>", escape(&self.title));
        // without claims it is no experiment, and has no name to reproduce it by
        if !self.verdicts.is_empty() {
            let mode = if quick { "quick mode: few runs" } else { "full mode" };
            let option = if quick { " --quick" } else { "" };
            let _ =
                write!(body, "<p>{mode}; again: <code>windlass reproduce {}{option}</code></p>", self.name);
            body.push_str("<h2>Claims</h2>");
            body.push_str(&self.claims_table());
        }
        let _ = write!(
            body,
            "<p>All {} runs: <a href=runs.csv>runs.csv</a>, <a href=flows.csv>flows.csv</a>, \
             <a href=links.csv>links.csv</a>.</p>",
            self.runs.len()
        );
        if let Some(late) = said_of_late_runs(&self.runs) {
            let _ = write!(body, "<p class=no>{}</p>", escape(&late));
        }
        body.push_str("<h2>Results</h2>");
        self.tables.iter().for_each(|table| body.push_str(&table.html()));
        body.push_str(&self.results_table());
        for (title, svg) in drawn {
            let _ = write!(body, "<h3>{}</h3>{svg}", escape(&title));
        }
        save(&folder.join("report.html"), &page(&self.name, &body))
    }

    /// The claims as HTML.
    pub fn claims_table(&self) -> String {
        let mut html =
            "<table><tr><th>claim<th>from<th>paper<th>ours<th>bound<th>unit<th>runs<th><th>".to_string();
        let number = |v: Option<f64>| v.map_or("-".to_string(), |v| format!("{v:.3}"));
        for v in &self.verdicts {
            let _ = write!(
                html,
                "<tr><td>{}<td>{}<td class=n>{}<td class=n>{}<td>{}<td>{}<td class=n>{}<td>{}<td>{}",
                escape(&v.id),
                v.origin,
                number(v.paper),
                number(v.ours),
                escape(&v.bound),
                escape(&v.unit),
                v.runs,
                if v.holds { "holds" } else { "<span class=no>fails</span>" },
                escape(&v.note)
            );
        }
        html + "</table><p>from: the paper; the paper, with a bound that is easier than its number; or chosen by us. p: how \
                probable the difference of the runs would be by chance, where that is tested.</p>"
    }

    fn results_table(&self) -> String {
        let mut html =
            "<table><tr><th>point<th>variant<th>runs<th>median time<th>p99<th>max<th>throughput<th>rtt\
                        <th>sender retrans.<th>timeouts<th>repairs<th>tail drops<th>payload"
                .to_string();
        let (points, variants) = self.axes();
        for point in points {
            for variant in &variants {
                let runs = self.of(point, variant);
                if runs.is_empty() {
                    continue;
                }
                let times: Vec<f64> =
                    runs.iter().flat_map(|r| &r.flows).filter_map(|f| f.completion_s).collect();
                let times = each(&times);
                let seconds = |s: Statistic| s.of(&times).map_or("-".into(), |t| format!("{t:.3} s"));
                let mean = |metric: Metric, unit: f64, decimals: usize| {
                    let mean = of_point(metric, Some(Statistic::Mean), &runs, &Selection::default());
                    mean.map_or("-".into(), |v| format!("{:.decimals$}", v / unit))
                };
                let has_begun = runs.iter().all(|r| r.has_begun());
                let repairs = runs.iter().map(|r| r.repaired_segs as f64).sum::<f64>() / runs.len() as f64;
                let repairs = if has_begun { format!("{repairs:.1}") } else { "-".into() };
                let _ = write!(
                    html,
                    "<tr><td>{}<td>{variant}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}\
                     <td class=n>{} Mbit/s<td class=n>{} ms<td class=n>{}<td class=n>{}<td class=n>{repairs}\
                     <td class=n>{}<td>{}",
                    escape(point),
                    runs.len(),
                    seconds(Statistic::Median),
                    seconds(Statistic::P99),
                    seconds(Statistic::Max),
                    mean(Metric::Throughput, 1e6, 2),
                    mean(Metric::MeanRtt, 1.0, 1),
                    mean(Metric::SenderRetrans, 1.0, 1),
                    mean(Metric::SenderTimeouts, 1.0, 1),
                    mean(Metric::Drops, 1.0, 1),
                    payload(&runs)
                );
            }
        }
        html + "</table>"
    }

    /// The plots that the experiment requests: plot-1.svg and so on.
    fn own_plots(
        &self,
        folder: &Path,
        plots: &[Plot],
        conditions: &[&Condition],
    ) -> Result<Vec<(String, String)>> {
        let (_, variants) = self.axes();
        let mut drawn = Vec::new();
        let pictures = plots.iter().flat_map(|p| {
            p.pictures(conditions, &variants, &self.runs).into_iter().map(move |picture| (p, picture))
        });
        for (index, (plot, (of, series))) in pictures.enumerate() {
            if series.iter().all(|s| s.points.len() < 2) {
                continue;
            }
            let file = folder.join(format!("plot-{}.svg", index + 1));
            let title = format!("{} {of}", plot.title.as_ref().unwrap_or(&plot.y));
            let (x, y) = (&plot.x, if plot.kind == Kind::Cdf { "CDF" } else { &plot.y });
            plot::lines(&file, &format!("{}: {}", self.name, title.trim()), x, y, &series)?;
            drawn.push((title.trim().to_string(), fs::read_to_string(&file)?));
        }
        Ok(drawn)
    }

    /// One CDF of completion times per point with several runs, and one of stored segments. Returns title and SVG.
    fn plots(&self, folder: &Path) -> Result<Vec<(String, String)>> {
        let (points, variants) = self.axes();
        let mut plots = Vec::new();
        let over_loss = self.goodput_over_loss();
        if !over_loss.is_empty() {
            let file = folder.join("goodput.svg");
            let title = format!("{}: goodput over random loss", self.name);
            plot::lines(&file, &title, "loss (%)", "median goodput (Mbit/s)", &over_loss)?;
            plots.push(("goodput over random loss".into(), fs::read_to_string(&file)?));
        }
        for point in points {
            let series: Vec<Series> = variants
                .iter()
                .map(|v| {
                    let times: Vec<f64> = self
                        .of(point, v)
                        .iter()
                        .flat_map(|r| &r.flows)
                        .filter_map(|f| f.completion_s)
                        .collect();
                    plot::cdf(v, &each(&times))
                })
                .filter(|s| s.points.len() > 2)
                .collect();
            plots.extend(self.draw(folder, point, "cdf", "completion time (s)", &series)?);
            let segs: Vec<Series> = variants
                .iter()
                .map(|v| {
                    let all: Vec<f64> =
                        self.of(point, v).iter().flat_map(|r| r.stored_segs.iter().copied()).collect();
                    plot::cdf(v, &each(&all))
                })
                .filter(|s| s.points.len() > 2)
                .collect();
            plots.extend(self.draw(folder, point, "stored", "stored segments per flow", &segs)?);
        }
        Ok(plots)
    }

    /// Median goodput of points named "<condition>-<loss>%", a line for each condition and variant with three or more.
    fn goodput_over_loss(&self) -> Vec<Series> {
        let (points, variants) = self.axes();
        let mut lines: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for point in points {
            let Some((condition, loss)) = point.strip_suffix('%').and_then(|p| p.rsplit_once('-')) else {
                continue;
            };
            let Ok(loss) = loss.parse::<f64>() else { continue };
            for variant in &variants {
                let runs = self.of(point, variant);
                let rates: Vec<f64> =
                    runs.iter().filter_map(|r| r.completion_s.map(|s| r.bytes as f64 * 8e-6 / s)).collect();
                if let Some(median) = stats::median(&rates) {
                    lines.entry(format!("{variant}, {condition}")).or_default().push((loss, median));
                }
            }
        }
        lines.retain(|_, points| points.len() >= 3);
        lines.into_iter().map(|(name, points)| Series { name, points, ..Series::default() }).collect()
    }

    fn draw(
        &self,
        folder: &Path,
        point: &str,
        kind: &str,
        x: &str,
        series: &[Series],
    ) -> Result<Option<(String, String)>> {
        if series.is_empty() {
            return Ok(None);
        }
        let file = folder.join(format!("{kind}-{point}.svg"));
        plot::lines(&file, &format!("{}: {point}", self.name), x, "CDF", series)?;
        Ok(Some((format!("{point}: {x}"), fs::read_to_string(&file)?)))
    }
}
