//! What is kept of a run, in memory and as a line of a file.

use crate::{
    job::{Home, Job, Key},
    stats::{self, Counted},
};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_scenario::{FlowReport, Intervals, LATE_US, LinkReport, RunReport, late_us};

/// What is kept of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Condition.
    pub point: String,
    /// Variant.
    pub variant: String,
    /// Seed.
    pub seed: u64,
    /// Where it ran.
    #[serde(default)]
    pub on: Home,
    /// What was run: a hash of the scenario, of what was recorded and of the build.
    #[serde(default)]
    pub scenario_hash: String,
    /// Completion time of the slowest flow; none: one failed, or never ends.
    pub completion_s: Option<f64>,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Whether all payload arrived whole.
    pub checksum_ok: bool,
    /// How long the run took.
    #[serde(default)]
    pub ended_s: f64,
    /// Its flows.
    #[serde(default)]
    pub flows: Vec<FlowReport>,
    /// How long responses took, by class and tenant of their flows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub responses: Vec<ResponseSample>,
    /// Its emulated links.
    #[serde(default)]
    pub links: Vec<LinkReport>,
    /// What happened when, if a claim or plot needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// Propagation plus mean queue; none: not measured.
    pub mean_rtt_ms: Option<f64>,
    /// Retransmissions of the sender's kernel.
    pub sender_retrans_segs: u64,
    /// Its timeouts.
    pub sender_timeouts: u64,
    /// Repairs of the box.
    pub repaired_segs: u64,
    /// Packets dropped by full buffers.
    pub drops_tail: u64,
    /// Packets marked CE.
    #[serde(default)]
    pub marks: u64,
    /// Packets lost at random.
    pub drops_random: u64,
    /// Median of the stored bytes, in bandwidth-delay products.
    pub stored_bdp: Option<f64>,
    /// Stored segments at every sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored_segs: Vec<f64>,
    /// Windlass' counters that are not zero.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub windlass: BTreeMap<String, u64>,
    /// Why the box controlled no flow though it had to; none: it did, or there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub box_error: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// Whether the disk had no room for it: `--resume` will not find it.
    #[serde(skip)]
    pub is_unkept: bool,
}

/// How long responses took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseSample {
    /// Class of their flows.
    pub class: String,
    /// Tenant of their flows.
    pub tenant: String,
    /// The times in s, sorted. Of more than SAMPLE_MOST, so many means of neighbours: the shortest and the longest time
    /// as they are, and of those between equally many in each.
    pub seconds: Vec<f32>,
    /// Responses that there were.
    #[serde(default)]
    pub count: u64,
}

const SAMPLE_MOST: usize = 4096;

impl ResponseSample {
    /// Of sorted times.
    fn of(class: &str, tenant: &str, sorted: &[f32]) -> ResponseSample {
        let len = SAMPLE_MOST.min(sorted.len());
        let mean = |index| {
            let times = &sorted[begin(index, len, sorted.len())..begin(index + 1, len, sorted.len())];
            (times.iter().map(|t| f64::from(*t)).sum::<f64>() / times.len() as f64) as f32
        };
        let seconds = (0..len).map(mean).collect();
        ResponseSample { class: class.into(), tenant: tenant.into(), seconds, count: sorted.len() as u64 }
    }

    /// The times, with how many responses each stands for: what is thinned keeps its weight beside what is not.
    pub fn numbers(&self) -> impl Iterator<Item = Counted> {
        let len = self.seconds.len();
        let count = len.max(self.count as usize);
        self.seconds.iter().enumerate().map(move |(index, seconds)| Counted {
            value: f64::from(*seconds),
            count: (begin(index + 1, len, count) - begin(index, len, count)) as u64,
        })
    }
}

/// The first rank, from 0 on, of those among `count` that are put together as number `index` of `len`; of `len`, the end.
fn begin(index: usize, len: usize, count: usize) -> usize {
    match index {
        0 => 0,
        _ if index == len => count,
        _ => 1 + (index - 1) * (count - 2) / (len - 2).max(1),
    }
}

/// Samples of all response times of a run.
fn responses(flows: &[FlowReport]) -> Vec<ResponseSample> {
    let mut all: BTreeMap<(&str, &str), Vec<f32>> = BTreeMap::new();
    for flow in flows.iter().filter(|f| !f.responses.is_empty()) {
        let times = all.entry((&flow.class, &flow.tenant)).or_default();
        times.extend(flow.responses.iter().map(|r| r.took_s as f32));
    }
    let sample = |((class, tenant), mut times): ((&str, &str), Vec<f32>)| {
        times.sort_by(f32::total_cmp);
        ResponseSample::of(class, tenant, &times)
    };
    all.into_iter().map(sample).collect()
}

/// Reports it if all of a flow arrived, and is not what was served.
fn wrong_payload(flow: &FlowReport) -> Option<String> {
    is_wrong(flow).then(|| format!("{}: what arrived is not what was served", flow.name))
}

fn is_wrong(flow: &FlowReport) -> bool {
    flow.completion_s.is_some() && !flow.checksum_ok
}

/// Reports it if the emulator lost packets of its own.
fn own_drops(report: &RunReport) -> Option<String> {
    let drops = report.emulator_drops();
    (drops > 0).then(|| {
        format!("the emulator lost {drops} packets of its own: run it with less load on this machine")
    })
}

impl RunRecord {
    /// Whether all of a flow arrived, and is not what was served.
    pub fn has_wrong_payload(&self) -> bool {
        self.flows.iter().any(is_wrong)
    }

    /// Whether anything arrived that is not what was served, the emulator lost packets that it should not have, or the box
    /// controlled nothing: no number of such a run means anything.
    pub fn is_worthless(&self) -> bool {
        self.has_wrong_payload()
            || self.links.iter().any(|l| l.stats.own_drops() > 0)
            || self.box_error.is_some()
    }

    /// What a job came to.
    pub fn of(job: &Job, result: Result<RunReport>) -> RunRecord {
        let base = RunRecord {
            point: job.point.clone(),
            variant: job.variant.clone(),
            seed: job.scenario.seed,
            on: job.on,
            scenario_hash: job.hash(),
            ..RunRecord::default()
        };
        match result {
            Err(error) => RunRecord { error: Some(format!("{error:#}")), ..base },
            Ok(report) => {
                let (bytes, segs) = stored(&report);
                RunRecord {
                    completion_s: report.completion_s(),
                    bytes: report.flows.iter().map(|f| f.bytes).sum(),
                    checksum_ok: report.is_complete(),
                    mean_rtt_ms: report.mean_rtt_ms,
                    sender_retrans_segs: report.sender_retrans_segs,
                    sender_timeouts: report.sender_timeouts,
                    repaired_segs: report.counter("repaired_segs"),
                    drops_tail: report.links.iter().map(|l| l.stats.drops_tail).sum(),
                    marks: report.links.iter().map(|l| l.stats.marks).sum(),
                    drops_random: report.links.iter().map(|l| l.stats.drops_random).sum(),
                    stored_bdp: stats::median(&bytes).map(|b| b / job.bdp_bytes),
                    stored_segs: segs,
                    windlass: report
                        .windlass
                        .iter()
                        .filter(|c| *c.1 > 0)
                        .map(|(n, v)| (n.clone(), *v))
                        .collect(),
                    error: report
                        .flows
                        .iter()
                        .find_map(|f| f.error.clone().or_else(|| wrong_payload(f)))
                        .or_else(|| own_drops(&report))
                        .or_else(|| report.box_error.clone()),
                    box_error: report.box_error,
                    ended_s: report.ended_s,
                    responses: responses(&report.flows),
                    flows: report.flows,
                    links: report.links,
                    intervals: report.intervals,
                    ..base
                }
            }
        }
    }

    /// Whether anything was run: what could not begin has an error and no flows, and no number of it means anything.
    pub fn has_begun(&self) -> bool {
        self.error.is_none() || !self.flows.is_empty()
    }

    /// That of its job.
    pub fn key(&self) -> Key {
        (self.point.clone(), self.variant.clone(), self.seed)
    }
}

/// How many of these runs had an emulator that was late. They count all the same.
pub fn late_runs(runs: &[RunRecord]) -> usize {
    runs.iter().filter(|r| late_us(&r.links).is_some()).count()
}

/// The same in words; none: not one.
pub fn said_of_late_runs(runs: &[RunRecord]) -> Option<String> {
    let worst_us = runs.iter().filter_map(|r| late_us(&r.links)).reduce(f64::max)?;
    Some(format!(
        "the emulator was late in {} of {} runs, by {:.2} ms at the median of the worst, where {:.1} ms is promised; run them \
         again with less load on this machine",
        late_runs(runs),
        runs.len(),
        worst_us / 1e3,
        LATE_US / 1e3
    ))
}

/// Bytes and segments from una to nxt of the flow that carried the transfer, sample by sample: what a box stores that
/// controls it, and what one would have to that only watches it.
fn stored(report: &RunReport) -> (Vec<f64>, Vec<f64>) {
    let number = |v: &serde_json::Value| v.as_f64().unwrap_or(0.0);
    report
        .samples
        .iter()
        .filter_map(|s| s["flows"].as_array())
        .flatten()
        .filter(|f| number(&f["unacked_bytes"]) > 0.0)
        .map(|f| {
            (number(&f["unacked_bytes"]), number(&f["unacked_bytes"]) / number(&f["mss_bytes"]).max(1.0))
        })
        .unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        claim::of_point,
        metric::{Metric, Selection, Statistic},
    };
    use windlass_scenario::{LinkStats, Response};

    fn times(range: std::ops::Range<u32>) -> Vec<f32> {
        range.map(|i| i as f32).collect()
    }

    #[test]
    fn a_sample_has_the_same_statistics_and_the_longest() {
        for count in 0..10 {
            let sample = ResponseSample::of("", "", &times(0..count));
            assert_eq!(sample.seconds, times(0..count));
            assert!(sample.numbers().all(|n| n.count == 1));
        }
        let all = times(0..100_000);
        let sample = ResponseSample::of("", "", &all);
        assert_eq!((sample.seconds.len(), sample.count), (SAMPLE_MOST, 100_000));
        assert_eq!((sample.seconds[0], sample.seconds.last()), (0.0, Some(&99_999.0)));
        let numbers: Vec<Counted> = sample.numbers().collect();
        assert_eq!(numbers.iter().map(|n| n.count).sum::<u64>(), 100_000);
        for q in [0.01, 0.5, 0.99] {
            let at = stats::quantile_of(&numbers, q).unwrap() / 100_000.0;
            assert!((at - q).abs() < 1e-3, "{q} {at}");
        }
        // one that takes long does not stand for its neighbours too
        let mut outlier = vec![0.001; 40_000];
        outlier.push(1.0);
        let numbers: Vec<Counted> = ResponseSample::of("", "", &outlier).numbers().collect();
        let (ours, expected) = (stats::mean_of(&numbers).unwrap(), (40.0 + 1.0) / 40_001.0);
        assert!((ours - expected).abs() < 1e-8, "{ours} {expected}");
    }

    #[test]
    fn runs_with_a_late_emulator_are_counted_and_kept() {
        let run = |late_p50_us| {
            let stats = LinkStats { late_p50_us, ..LinkStats::default() };
            let links = vec![LinkReport { name: "a > b".into(), stats, mean_queue_ms: None }];
            RunRecord { links, ..RunRecord::default() }
        };
        assert_eq!(said_of_late_runs(&[run(60.0)]), None);
        let runs = [run(60.0), run(310.0), run(250.0)];
        assert!(runs.iter().all(|r| !r.is_worthless()) && late_runs(&runs) == 2);
        let said = said_of_late_runs(&runs).unwrap();
        assert!(said.contains("late in 2 of 3 runs, by 0.31 ms"), "{said}");
        // of runs that --resume finds, too
        let read: RunRecord = serde_json::from_str(&serde_json::to_string(&runs[1]).unwrap()).unwrap();
        assert_eq!(late_runs(&[read]), 1);
    }

    /// 40,000 responses of a millisecond and 400 of a second: of all, one in a hundred is long, however they are kept.
    #[test]
    fn responses_of_all_classes_count_alike() {
        let flow = |class: &str, count: usize, took_s: f64| FlowReport {
            class: class.into(),
            completion_s: Some(50.0),
            checksum_ok: true,
            responses: vec![Response { took_s, ..Response::default() }; count],
            ..FlowReport::default()
        };
        let flows = vec![flow("many", 40_000, 0.001), flow("few", 400, 1.0)];
        let run = RunRecord { responses: responses(&flows), flows, ..RunRecord::default() };
        let of =
            |statistic| of_point(Metric::Response, Some(statistic), &[&run], &Selection::default()).unwrap();
        assert!((of(Statistic::P95) - 0.001).abs() < 1e-6, "{}", of(Statistic::P95));
        assert!((of(Statistic::Mean) - 440.0 / 40_400.0).abs() < 1e-6, "{}", of(Statistic::Mean));
        // and kept on disk
        let read: RunRecord = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(read.responses, run.responses);
    }
}
