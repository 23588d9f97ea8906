//! The survey's tables and its page.

use super::{
    compare::{Compared, Ratio, VARIANTS, share},
    point::{Hosts, Point, Shape},
};
use crate::{
    page::{escape, page, save},
    report::Outcome,
    summary::{Filled, Row},
    table,
};
use anyhow::{Context, Result};
use std::{fmt::Write as _, fs, path::Path};

/// Which points a row of the table of shares is about.
type Group = (&'static str, fn(&Point) -> bool);

const GROUPS: [Group; 21] = [
    ("all", |_| true),
    ("reno", |p| p.algorithm == "reno"),
    ("cubic", |p| p.algorithm == "cubic"),
    ("bbr", |p| p.algorithm == "bbr"),
    ("below 1 Mbit/s", |p| p.rate_bps < 1e6),
    ("1 to 10 Mbit/s", |p| (1e6..1e7).contains(&p.rate_bps)),
    ("10 to 100 Mbit/s", |p| (1e7..1e8).contains(&p.rate_bps)),
    ("100 Mbit/s and more", |p| p.rate_bps >= 1e8),
    ("RTT below 2 ms", |p| p.rtt_ms < 2.0),
    ("RTT 2 to 60 ms", |p| (2.0..60.0).contains(&p.rtt_ms)),
    ("RTT 60 ms and more", |p| p.rtt_ms >= 60.0),
    ("one flow", |p| p.flows == 1),
    ("2 to 9 flows", |p| (2..10).contains(&p.flows)),
    ("10 flows and more", |p| p.flows >= 10),
    ("one link", |p| p.shape == Shape::Link),
    ("many to one", |p| p.shape == Shape::ManyToOne),
    ("dumbbell", |p| p.shape == Shape::Dumbbell),
    ("parking lot", |p| p.shape == Shape::ParkingLot),
    ("random loss", |p| p.loss_percent > 0.0),
    ("without SACK", |p| p.hosts == Hosts::NoSack),
    ("with ECN", |p| p.hosts == Hosts::Ecn),
];

fn agrees(ratio: &Ratio) -> bool {
    ratio.agrees_in_time() && ratio.agrees_in_queue() && ratio.agrees_in_fairness()
}

/// How many points of each kind agree, in per cent.
pub fn groups(compared: &[Compared]) -> Filled {
    let row = |(name, is_in): &Group| {
        let chosen: Vec<Compared> = compared.iter().filter(|c| is_in(&c.point)).cloned().collect();
        let percent = |is_so: fn(&Compared) -> bool| share(&chosen, is_so).map(|share| 100.0 * share);
        let values = vec![
            Some(chosen.len() as f64),
            percent(|c| c.ratio.agrees_in_time()),
            percent(|c| c.ratio.agrees_in_queue()),
            percent(|c| c.ratio.agrees_in_fairness()),
            percent(|c| agrees(&c.ratio)),
            percent(|c| agrees(&c.chance)),
        ];
        Row { point: (*name).into(), variant: String::new(), values }
    };
    Filled {
        title: "Points that agree, in %: simulated beside real; (chance): beside simulated with other seeds"
            .into(),
        columns: ["points", "time", "queue", "Jain", "all", "(chance)"].map(String::from).into(),
        rows: GROUPS.iter().map(row).filter(|row| row.values[0] != Some(0.0)).collect(),
    }
}

/// Columns of each point: simulated and real, with what lies between the runs of a home.
const COLUMNS: [&str; 16] = [
    "time",
    "sim s",
    "lab s",
    "sim least",
    "sim most",
    "lab least",
    "lab most",
    "queue",
    "sim pkt",
    "lab pkt",
    "sim least",
    "sim most",
    "lab least",
    "lab most",
    "sim Jain",
    "lab Jain",
];

fn values(c: &Compared) -> Vec<Option<f64>> {
    let [sim, lab, _] = c.measured;
    let [a, b, again] = c.spans;
    let join = |one: (f64, f64), other: (f64, f64)| (one.0.min(other.0), one.1.max(other.1));
    let (time, queue) = (join(a.time_s, again.time_s), join(a.queue_packets, again.queue_packets));
    let numbers = [
        c.ratio.time,
        sim.time_s,
        lab.time_s,
        time.0,
        time.1,
        b.time_s.0,
        b.time_s.1,
        c.ratio.queue,
        sim.queue_packets,
        lab.queue_packets,
        queue.0,
        queue.1,
        b.queue_packets.0,
        b.queue_packets.1,
    ];
    numbers.map(Some).into_iter().chain([sim.jain, lab.jain]).collect()
}

/// The points that do not agree.
pub fn disagreements(compared: &[Compared]) -> Filled {
    let row = |c: &Compared| Row {
        point: format!("{}: {}", c.point.number, c.point.describe()),
        variant: String::new(),
        values: values(c),
    };
    Filled {
        title:
            "Points that do not agree; least and most of runs by themselves, simulated ones with all seeds"
                .into(),
        columns: COLUMNS.map(String::from).into(),
        rows: compared.iter().filter(|c| !agrees(&c.ratio)).map(row).collect(),
    }
}

/// A line for each point.
fn table_of_points(compared: &[Compared]) -> String {
    let mut csv = String::from(
        "point,algorithm,shape,rate_bps,rtt_ms,buffer_packets,loss_percent,hosts,flows,flow_bytes",
    );
    for variant in VARIANTS {
        let _ = write!(csv, ",{variant}_s,{variant}_queue_packets,{variant}_jain");
    }
    csv.push_str(",runs,agrees\n");
    for c in compared {
        let Point { number, algorithm, rate_bps, rtt_ms, buffer_packets, loss_percent, .. } = c.point;
        let Point { shape, hosts, flows, flow_bytes, .. } = c.point;
        let (shape, hosts) = (shape.name(), hosts.name());
        let _ = write!(
            csv,
            "{number},{algorithm},{shape},{rate_bps},{rtt_ms},{buffer_packets},{loss_percent},{hosts},{flows},{flow_bytes}"
        );
        for m in c.measured {
            let jain = m.jain.map_or(String::new(), |jain| format!("{jain:.4}"));
            let _ = write!(csv, ",{:.6},{:.4},{jain}", m.time_s, m.queue_packets);
        }
        let _ = writeln!(csv, ",{},{}", c.runs, agrees(&c.ratio));
    }
    csv
}

/// Writes tables and the page.
pub fn write(outcome: &Outcome, compared: &[Compared], missing: &[Point], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    save(&folder.join("runs.csv"), &table::runs(&outcome.runs))?;
    save(&folder.join("points.csv"), &table_of_points(compared))?;
    let mut body = format!(
        "<p>{}</p><h2>Claims</h2>{}<p>All points: <a href=points.csv>points.csv</a>; all {} runs: \
         <a href=runs.csv>runs.csv</a></p><h2>Results</h2>",
        escape(&outcome.title),
        outcome.claims_table(),
        outcome.runs.len()
    );
    outcome.tables.iter().for_each(|table| body.push_str(&table.html()));
    if !missing.is_empty() {
        let list: String =
            missing.iter().map(|p| format!("<li>{}: {}</li>", p.name(), escape(&p.describe()))).collect();
        let _ = write!(body, "<h2>Points that were not measured</h2><ul>{list}</ul>");
    }
    save(&folder.join("report.html"), &page(&outcome.name, &body))
}
