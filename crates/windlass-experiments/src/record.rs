//! What is kept of a run, in memory and as a line of a file.

use crate::{
    job::{Home, Job, Key},
    stats,
};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_scenario::{FlowReport, Intervals, LinkReport, RunReport};

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
    /// What happened when, if a claim or plot asks for it.
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
    /// Why it failed.
    pub error: Option<String>,
}

/// How long responses took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseSample {
    /// Class of their flows.
    pub class: String,
    /// Tenant of their flows.
    pub tenant: String,
    /// The times in s, sorted. Of more than SAMPLE_MOST, so many that are equally far apart in rank, the longest one
    /// among them.
    pub seconds: Vec<f32>,
}

const SAMPLE_MOST: usize = 4096;

/// Samples of all response times of a run.
fn responses(flows: &[FlowReport]) -> Vec<ResponseSample> {
    let mut all: BTreeMap<(&str, &str), Vec<f32>> = BTreeMap::new();
    for flow in flows.iter().filter(|f| !f.responses.is_empty()) {
        let times = all.entry((&flow.class, &flow.tenant)).or_default();
        times.extend(flow.responses.iter().map(|r| r.took_s as f32));
    }
    let sample = |((class, tenant), mut times): ((&str, &str), Vec<f32>)| {
        times.sort_by(f32::total_cmp);
        ResponseSample { class: class.into(), tenant: tenant.into(), seconds: thin(&times) }
    };
    all.into_iter().map(sample).collect()
}

/// At most SAMPLE_MOST of the sorted values, by equal steps of rank up to the last.
fn thin(sorted: &[f32]) -> Vec<f32> {
    let most = SAMPLE_MOST.min(sorted.len());
    (1..=most).map(|i| sorted[i * sorted.len() / most - 1]).collect()
}

impl RunRecord {
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
                    error: report.flows.iter().find_map(|f| f.error.clone()),
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

    #[test]
    fn a_sample_has_the_same_percentiles_and_the_longest() {
        let few: Vec<f32> = (0..10).map(|i| i as f32).collect();
        assert_eq!(thin(&few), few);
        assert!(thin(&[]).is_empty());
        let many: Vec<f32> = (0..100_000).map(|i| i as f32).collect();
        let thinned = thin(&many);
        assert_eq!((thinned.len(), thinned.last()), (SAMPLE_MOST, Some(&99_999.0)));
        for q in [0.01, 0.5, 0.99] {
            let at = thinned[(q * SAMPLE_MOST as f64) as usize] / 100_000.0;
            assert!((f64::from(at) - q).abs() < 1e-3, "{q} {at}");
        }
    }
}
