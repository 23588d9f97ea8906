//! Plots of what a traced run did over time.

use crate::plot::{self, Series};
use anyhow::{Context, Result, anyhow};
use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

/// Lines of a plot at most: more cannot be distinguished.
const SERIES_MOST: usize = 10;
/// Points of a line: of more rows the largest value of each stretch is drawn, so that peaks stay.
const POINTS_MOST: usize = 2000;

/// A plot of one column of a table: file, title, axis, column from the end, and what its values are divided by.
struct Plot(&'static str, &'static str, &'static str, usize, f64);

const OF_FLOWS: [Plot; 3] = [
    Plot("cwnd.svg", "congestion window", "segments", 4, 1.0),
    Plot("rtt.svg", "smoothed round-trip time of the sender", "ms", 1, 1e3),
    Plot("throughput.svg", "throughput", "Mbit/s", 0, 1e6),
];
const OF_LINKS: [Plot; 1] = [Plot("queue.svg", "queue", "packets", 2, 1.0)];

/// Draws window, round-trip time and throughput of flows and queues of links into the folder of a trace, from its tables.
///
/// # Errors
/// A table cannot be read, or a plot not be written.
pub fn draw_trace(folder: &Path) -> Result<()> {
    draw(folder, "flows.csv", 5, &OF_FLOWS)?;
    draw(folder, "links.csv", 3, &OF_LINKS)
}

/// `values`: columns behind the name, which is what is between them and the time.
fn draw(folder: &Path, table: &str, values: usize, plots: &[Plot]) -> Result<()> {
    let path = folder.join(table);
    let file = File::open(&path).with_context(|| path.display().to_string())?;
    let mut all: Vec<Vec<Series>> = plots.iter().map(|_| Vec::new()).collect();
    let mut left_out = false;
    for line in BufReader::new(file).lines().skip(1) {
        let line = line.with_context(|| path.display().to_string())?;
        let row = Row::of(&line, values).ok_or_else(|| anyhow!("{}: no row: {line}", path.display()))?;
        for (Plot(.., column, unit), series) in plots.iter().zip(&mut all) {
            let at = series.iter().position(|s| s.name == row.name);
            let at = at.unwrap_or(series.len());
            if at == SERIES_MOST {
                left_out = true;
                continue;
            }
            if at == series.len() {
                series.push(Series { name: row.name.into(), points: Vec::new() });
            }
            if let Ok(value) = row.values[*column].parse::<f64>() {
                series[at].points.push((row.time_s, value / unit));
            }
        }
    }
    let of = if left_out { format!(" (the first {SERIES_MOST})") } else { String::new() };
    for (Plot(name, title, axis, ..), series) in plots.iter().zip(all) {
        // of a flow its number comes first
        let label = |s: Series| Series { name: s.name.replacen(',', ": ", 1), ..s };
        let series: Vec<Series> = series.into_iter().map(thinned).map(label).collect();
        plot::lines(&folder.join(name), &format!("{title}{of}"), "s", axis, &series)?;
    }
    Ok(())
}

/// A row of a table.
struct Row<'a> {
    time_s: f64,
    name: &'a str,
    /// From the last to the first.
    values: Vec<&'a str>,
}

impl Row<'_> {
    fn of(line: &str, values: usize) -> Option<Row<'_>> {
        let (time_s, rest) = line.split_once(',')?;
        let mut from_end: Vec<&str> = rest.rsplitn(values + 1, ',').collect();
        let name = from_end.pop()?;
        let is_whole = from_end.len() == values;
        is_whole.then_some(Row { time_s: time_s.parse().ok()?, name, values: from_end })
    }
}

fn thinned(series: Series) -> Series {
    let stretch = series.points.len().div_ceil(POINTS_MOST).max(1);
    let largest = |points: &[(f64, f64)]| points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    Series { points: series.points.chunks(stretch).filter_map(largest).collect(), ..series }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn tables_of_a_trace_become_plots() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("room");
        let rows: String = (1..=12).map(|i| format!("0.01,{i},a > {i},10,,9,2000,1000000\n")).collect();
        write("flows.csv", &format!("time_s,flow,name,...\n0.005,0,a > b,,,,,0\n{rows}"));
        write(
            "links.csv",
            "time_s,link,queue_packets,drops_tail,marks\n0.01,a > b,3,0,0\n0.02,a > b,5,0,0\n",
        );
        draw_trace(folder.path()).expect("sound tables");
        let plot = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
        assert!(plot("cwnd.svg").contains("congestion window (the first 10)"));
        assert!(plot("cwnd.svg").contains("1: a &gt; 1"));
        assert!(plot("rtt.svg").contains("<svg") && plot("throughput.svg").contains("Mbit/s"));
        assert!(plot("queue.svg").contains("a &gt; b") && plot("queue.svg").contains("packets"));
        write("links.csv", "time_s,link\nx\n");
        let error = draw_trace(folder.path()).expect_err("no table").to_string();
        assert!(error.contains("links.csv: no row: x"), "{error}");
    }

    #[test]
    fn peaks_stay_where_points_are_many() {
        let points = (0..10_000).map(|i| (f64::from(i), if i == 7777 { 9.0 } else { 1.0 })).collect();
        let thin = thinned(Series { name: "q".into(), points });
        assert_eq!(thin.points.len(), POINTS_MOST);
        assert!(thin.points.contains(&(7777.0, 9.0)));
    }
}
