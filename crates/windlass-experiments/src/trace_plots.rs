//! Plots of what a traced run did over time: pictures, and a page to look closer.

use crate::{
    page::save,
    plot::{self, Series},
    trace_page::{self, Chart},
    trace_table::{self, Line},
};
use anyhow::Result;
use std::path::Path;

/// Flows and links of a plot at most: more cannot be distinguished.
const MOST: usize = 10;
/// Points of a line in a picture, which is not wider.
const PICTURE_POINTS: usize = 700;
/// Points of a line on the page, where one can zoom.
const PAGE_POINTS: usize = 20_000;
/// A rate is the mean of such a part of the run, but not of more than a second: at single times it shows only when a hole was
/// filled, behind which data waited.
const RATE_PART: f64 = 0.02;

/// Where lines of a plot come from.
struct Source {
    table: &'static str,
    column: &'static str,
    /// What its values are divided by.
    unit: f64,
    /// Behind the names of flows, where there is a box.
    of: &'static str,
}

/// A plot of a trace.
struct Plot {
    file: &'static str,
    title: &'static str,
    axis: &'static str,
    is_rate: bool,
    sources: &'static [Source],
}

const fn source(table: &'static str, column: &'static str, unit: f64, of: &'static str) -> Source {
    Source { table, column, unit, of }
}

const PLOTS: [Plot; 4] = [
    Plot {
        file: "cwnd.svg",
        title: "Congestion window",
        axis: "window (segments)",
        is_rate: false,
        sources: &[
            source("flows.csv", "cwnd_segs", 1.0, "sender"),
            source("box.csv", "cwnd_segs", 1.0, "box"),
        ],
    },
    Plot {
        file: "rtt.svg",
        title: "Smoothed round-trip time",
        axis: "round-trip time (ms)",
        is_rate: false,
        sources: &[source("flows.csv", "srtt_us", 1e3, "sender"), source("box.csv", "srtt_us", 1e3, "box")],
    },
    Plot {
        file: "throughput.svg",
        title: "Throughput",
        axis: "throughput (Mbit/s)",
        is_rate: true,
        sources: &[source("flows.csv", "throughput_bps", 1e6, "")],
    },
    Plot {
        file: "queue.svg",
        title: "Queue",
        axis: "queue (packets)",
        is_rate: false,
        sources: &[source("links.csv", "queue_packets", 1.0, "")],
    },
];

/// Draws window, round-trip time and throughput of flows and queues of links into the folder of a trace, from its tables, and makes
/// a page of them: trace.html. `title` names the run.
///
/// # Errors
/// A table cannot be read, or a plot not be written.
pub fn draw_trace(folder: &Path, title: &str) -> Result<()> {
    let mut charts = Vec::new();
    for plot in &PLOTS {
        let (lines, is_cut) = plot.lines(folder)?;
        if lines.is_empty() {
            continue;
        }
        let of = if is_cut { format!(" (the first {MOST})") } else { String::new() };
        let (lines, axis) =
            if plot.is_rate { averaged(&lines, plot.axis) } else { (lines, plot.axis.into()) };
        let series = |line: Line| Series { name: line.name, points: line.points, ..Series::default() };
        let series: Vec<Series> = lines.iter().map(|line| series(line.thinned(PICTURE_POINTS))).collect();
        let title = format!("{}{of}", plot.title);
        plot::lines(&folder.join(plot.file), &title, "time (s)", &axis, &series)?;
        charts.push(Chart {
            title,
            axis,
            lines: lines.iter().map(|line| line.thinned(PAGE_POINTS)).collect(),
        });
    }
    save(&folder.join("trace.html"), &trace_page::html(title, &charts))
}

/// Running means of rates, and the label of their axis: "throughput (Mbit/s, mean of 90 ms)".
fn averaged(lines: &[Line], axis: &str) -> (Vec<Line>, String) {
    let times = || lines.iter().flat_map(|line| &line.points).map(|(time_s, _)| *time_s);
    let length_s = times().fold(0.0, f64::max) - times().fold(f64::MAX, f64::min);
    let wanted_s = (length_s * RATE_PART).clamp(1e-6, 1.0);
    // in two digits, as the label has it
    let digit_s = 10_f64.powf(wanted_s.log10().floor() - 1.0);
    let over_s = (wanted_s / digit_s).round() * digit_s;
    let label = axis.replace(')', &format!(", mean of {} ms)", (over_s * 1e6).round() / 1e3));
    (lines.iter().map(|line| line.running_mean(over_s)).collect(), label)
}

impl Plot {
    /// Its lines, and whether there are more than are drawn.
    fn lines(&self, folder: &Path) -> Result<(Vec<Line>, bool)> {
        let there: Vec<&Source> = self.sources.iter().filter(|s| folder.join(s.table).exists()).collect();
        let (mut lines, mut is_cut) = (Vec::new(), false);
        for Source { table, column, unit, of } in &there {
            let found = trace_table::read(&folder.join(table), &[(column, *unit)], MOST)?;
            is_cut |= found.is_cut;
            let named = |line: Line| match there.len() {
                1 => line,
                _ => Line { name: format!("{}, {of}", line.name), ..line },
            };
            // a round-trip time of 0: none was measured yet
            let measured = |mut line: Line| {
                line.points.retain(|(_, value)| *value > 0.0 || *column != "srtt_us");
                line
            };
            let found = found.of.into_iter().flatten().map(measured).filter(|line| !line.points.is_empty());
            lines.extend(found.map(named));
        }
        Ok((lines, is_cut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn tables_of_a_trace_become_plots_and_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("room");
        let rows: String = (1..=12).map(|i| format!("0.01,{i},a > {i},10,,9,2000,1000000\n")).collect();
        let heads = "time_s,flow,name,cwnd_segs,ssthresh_segs,inflight_segs,srtt_us,throughput_bps\n";
        write("flows.csv", &format!("{heads}0.005,0,a > b,,,,,0\n{rows}"));
        write(
            "links.csv",
            "time_s,link,queue_packets,drops_tail,marks\n0.01,a > b,3,0,0\n0.02,a > b,5,0,0\n",
        );
        draw_trace(folder.path(), "scenario <one>").expect("sound tables");
        let file = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
        assert!(file("cwnd.svg").contains("Congestion window (the first 10)"));
        assert!(file("cwnd.svg").contains("1: a &gt; 1\n"), "{}", file("cwnd.svg"));
        assert!(file("rtt.svg").contains("<svg") && file("throughput.svg").contains("Mbit/s"));
        assert!(file("queue.svg").contains("a &gt; b") && file("queue.svg").contains("packets"));
        let page = file("trace.html");
        assert!(page.contains("scenario &lt;one&gt;") && page.contains("0: a \\u003e b"), "{page}");

        write("box.csv", "time_s,flow,name,cwnd_segs,srtt_us\n0.01,1,a > 1,7,1000\n");
        draw_trace(folder.path(), "again").expect("sound tables");
        assert!(
            file("cwnd.svg").contains("1: a &gt; 1, sender") && file("rtt.svg").contains("1: a &gt; 1, box")
        );
    }
}
