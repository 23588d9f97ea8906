//! The trace of a run with real kernels: what the box reports of its flows and what the emulator sees of queues, as the tables that a
//! simulated run has.

use crate::page::save;
use anyhow::{Context, Result};
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};
use windlass_scenario::{Intervals, RunReport};

const FLOWS: &str = "time_s,flow,name,cwnd_segs,ssthresh_segs,inflight_segs,srtt_us,throughput_bps\n";

/// Writes links.csv and flows.csv into `folder`, made if need be, of a run that was recorded in intervals, and box.csv if there was a
/// box. Windows of the servers' own kernels are not known, so those columns are empty.
///
/// # Errors
/// A file cannot be written.
pub fn write_lab_trace(folder: &Path, report: &RunReport) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    if let Some(intervals) = &report.intervals {
        save(&folder.join("links.csv"), &links(report, intervals))?;
        save(&folder.join("flows.csv"), &flows(report, intervals))?;
    }
    if report.samples.is_empty() { Ok(()) } else { write_boxed(folder, &report.samples) }
}

/// The queues of emulated links; drops and marks are known in all only.
fn links(report: &RunReport, intervals: &Intervals) -> String {
    let mut rows = String::from("time_s,link,queue_packets,drops_tail,marks\n");
    for index in 0..intervals.link_packets.iter().map(Vec::len).max().unwrap_or(0) {
        for (link, packets) in report.links.iter().zip(&intervals.link_packets) {
            if let Some(packets) = packets.get(index) {
                let _ = writeln!(rows, "{:.6},{},{packets},,", intervals.end_s(index), link.name);
            }
        }
    }
    rows
}

/// What arrived of flows.
fn flows(report: &RunReport, intervals: &Intervals) -> String {
    let mut rows = String::from(FLOWS);
    for index in 0..intervals.flow_bytes.iter().map(Vec::len).max().unwrap_or(0) {
        for (flow, (of, bytes)) in report.flows.iter().zip(&intervals.flow_bytes).enumerate() {
            if let Some(bytes) = bytes.get(index) {
                let bps = *bytes as f64 * 8.0 / intervals.every_s;
                let _ = writeln!(rows, "{:.6},{flow},{},,,,,{bps:.0}", intervals.end_s(index), of.name);
            }
        }
    }
    rows
}

/// Writes flows.csv and box.csv from samples of a box's flow table. Times are from the sample before the first flow.
fn write_boxed(folder: &Path, samples: &[Value]) -> Result<()> {
    let mut flows = String::from(FLOWS);
    let mut boxed =
        String::from("time_s,flow,name,cwnd_segs,pacing_bps,inflight_segs,lost_segs,srtt_us,min_rtt_us\n");
    let mut known: BTreeMap<String, (usize, Look)> = BTreeMap::new();
    let mut begin_ms = None;
    let mut before_ms = 0;
    for sample in samples {
        let now_ms = sample["t_ms"].as_u64().unwrap_or(0);
        for flow in sample["flows"].as_array().into_iter().flatten() {
            let time_s = (now_ms - *begin_ms.get_or_insert(before_ms)) as f64 / 1e3;
            let number = |key: &str| flow[key].as_u64();
            let text = |key: &str| flow[key].as_str().unwrap_or_default();
            let name = format!("{} > {}", text("sender"), text("receiver"));
            let index = known.len();
            // a flow is new in the sample in which it is first seen
            let begin = Look { at_ms: before_ms, delivered_bytes: 0 };
            let (index, before) = known.entry(name.clone()).or_insert((index, begin));
            let look = Look {
                at_ms: now_ms,
                delivered_bytes: number("delivered_bytes_mod_2_32").unwrap_or(0) as u32,
            };
            let row = format!("{time_s:.3},{index},{name}");
            let _ = writeln!(flows, "{row},,,,,{:.0}", look.rate_bps(before));
            *before = look;
            let segs =
                |bytes: Option<u64>| cell(bytes.zip(number("mss_bytes")).map(|(b, mss)| b / mss.max(1)));
            let _ = writeln!(
                boxed,
                "{row},{},{},{},{},{},{}",
                segs(number("cwnd_bytes")),
                cell(number("pacing_bps")),
                segs(number("inflight_bytes")),
                cell(number("lost_segs")),
                cell(number("srtt_us")),
                cell(number("min_rtt_us"))
            );
        }
        before_ms = now_ms;
    }
    save(&folder.join("flows.csv"), &flows)?;
    save(&folder.join("box.csv"), &boxed)
}

fn cell(value: Option<u64>) -> String {
    value.map_or(String::new(), |v| v.to_string())
}

/// What a flow had delivered at one time; the counter wraps.
struct Look {
    at_ms: u64,
    delivered_bytes: u32,
}

impl Look {
    fn rate_bps(&self, before: &Look) -> f64 {
        let bytes = self.delivered_bytes.wrapping_sub(before.delivered_bytes);
        f64::from(bytes) * 8e3 / (self.at_ms - before.at_ms).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_scenario::{FlowReport, LinkReport, LinkStats};

    #[test]
    fn what_was_recorded_in_intervals_becomes_tables_of_flows_and_links() {
        let link =
            |name: &str| LinkReport { name: name.into(), stats: LinkStats::default(), mean_queue_ms: None };
        let report = RunReport {
            flows: vec![FlowReport { name: "a > b".into(), ..FlowReport::default() }],
            links: vec![link("a > b"), link("b > a")],
            intervals: Some(Intervals {
                every_s: 0.01,
                flow_bytes: vec![vec![1250, 0]],
                link_packets: vec![vec![3, 7], vec![0, 1]],
            }),
            ..RunReport::default()
        };
        let folder = tempfile::tempdir().expect("a folder");
        write_lab_trace(folder.path(), &report).expect("room");
        let file = |name: &str| fs::read_to_string(folder.path().join(name)).expect(name);
        let rows = ["0.010000,a > b,3,,", "0.010000,b > a,0,,", "0.020000,a > b,7,,", "0.020000,b > a,1,,"];
        assert_eq!(file("links.csv").lines().skip(1).collect::<Vec<_>>(), rows);
        assert_eq!(file("flows.csv").lines().nth(1), Some("0.010000,0,a > b,,,,,1000000"));
        crate::draw_trace(folder.path(), "real").expect("sound tables");
        assert!(file("queue.svg").contains("a &gt; b") && file("throughput.svg").contains("<svg"));
    }

    #[test]
    fn samples_of_a_box_become_the_tables_of_a_trace() {
        let flow = |delivered: u32| {
            json!({ "sender": "10.0.0.1:80", "receiver": "10.0.0.2:9", "cwnd_bytes": 14480, "mss_bytes": 1448, "pacing_bps": null,
                "inflight_bytes": 2896, "lost_segs": 1, "srtt_us": 40000, "min_rtt_us": 39000, "delivered_bytes_mod_2_32": delivered })
        };
        let sample =
            |t_ms: u64, flows: Vec<Value>| json!({ "event": "sample", "t_ms": t_ms, "flows": flows });
        // the counter wraps
        let samples = [
            sample(500, vec![]),
            sample(600, vec![flow(u32::MAX)]),
            sample(700, vec![flow(999)]),
            sample(800, vec![]),
        ];
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("t")).expect("room");
        write_boxed(&folder.path().join("t"), &samples).expect("room");
        let file = |name: &str| fs::read_to_string(folder.path().join("t").join(name)).expect(name);
        let rows = |name: &str| file(name).lines().skip(1).map(String::from).collect::<Vec<_>>();
        let name = "0,10.0.0.1:80 > 10.0.0.2:9";
        assert_eq!(rows("box.csv")[0], format!("0.100,{name},10,,2,1,40000,39000"));
        assert_eq!(rows("flows.csv")[1], format!("0.200,{name},,,,,80000"));
        crate::draw_trace(&folder.path().join("t"), "real").expect("sound tables");
        assert!(file("trace.html").contains("box") || file("cwnd.svg").contains("10.0.0.1"));
        assert!(file("throughput.svg").contains("<svg"));
    }
}
