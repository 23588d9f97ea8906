//! What is taken from runs: one number of each, or one of each of its flows.

use crate::{
    record::RunRecord,
    stats::{self, Counted, each},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use windlass_scenario::{FlowReport, Span, jain};

/// What is taken from each run. "Flows" are those that the selection chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Completion time of each flow in s.
    Completion,
    /// Time of each response in s, from its request to its last byte.
    Response,
    /// Goodput of each flow over its completion time in bit/s; with `over`, the mean of each class or tenant.
    Goodput,
    /// Payload of all flows together, from the first one's start to the last one's end or in a window, in bit/s.
    Throughput,
    /// Jain's index of the goodputs: of flows, or of what `over` puts together; in a window, of those that were there
    /// all the time.
    Jain,
    /// Retransmission timeouts of the flows' senders.
    SenderTimeouts,
    /// Share of the flows with at least one timeout, in per cent; the statistic to take is the mean.
    TimeoutFlows,
    /// Share of the runs with at least one timeout, in per cent; the statistic to take is the mean.
    TimeoutRuns,
    /// Segments that senders retransmitted.
    SenderRetrans,
    /// Most new segments that a flow's sender sent at one instant; in the lab, any connection between its hosts.
    LongestBurst,
    /// Retransmissions of the sender's kernel per hundred repairs of the box, over all runs of a point.
    SenderRetransShare,
    /// Packets dropped by full buffers: of `link`, or of all.
    Drops,
    /// Share of the packets offered to `link` that its full buffer dropped, in per cent.
    Loss,
    /// Packets marked CE: of `link`, or of all.
    Marks,
    /// Mean queue of `link` in packets, what is being sent included; in a window, mean of the looks.
    MeanQueue,
    /// Longest queue of `link` in packets, what is being sent included; in a window, the most that was seen.
    MaxQueue,
    /// Mean time in the queue of `link` in ms.
    QueueDelay,
    /// Propagation there and back plus mean queues, in ms.
    MeanRtt,
    /// Share of the time in which `link` was sending while it was in use, in per cent.
    Utilisation,
    /// How much later than due the emulator of `link` handed packets on, 99th percentile of a run in ms: how even the testbed
    /// was; 0 in the simulator.
    Lateness,
    /// Stored bytes in bandwidth-delay products, median over the samples of a run.
    StoredBdp,
    /// 1 if a payload did not arrive whole.
    WrongPayloads,
}

impl Metric {
    /// Whether all that is chosen makes a difference to it, and what it needs is there; an error begins with the key. Windows
    /// have keys of different names, and are not looked at.
    pub fn check_selection(self, of: &Selection, statistic: Option<Statistic>) -> Result<(), String> {
        if self.needs_link() && of.link.is_none() {
            return Err("link: this metric is of one link; name it, e.g. link = \"box > client\"".into());
        }
        if of.link.is_some() && !self.has_links() {
            return Err("link: this metric is not of links; leave it out".into());
        }
        for (key, name) in [("class", of.class), ("per_class", of.per_class), ("tenant", of.tenant)] {
            if name.is_some() && !self.is_of_flows() {
                return Err(format!("{key}: this metric is not of flows, and the same of all; leave it out"));
            }
        }
        if of.over != Over::Flows && !matches!(self, Metric::Goodput | Metric::Jain) {
            return Err(
                "over: only goodput and jain put flows together, and throughput over time; leave it out"
                    .into(),
            );
        }
        match (self, statistic) {
            (Metric::SenderRetransShare, Some(_)) => {
                Err("statistic: this metric is one number of all runs of a point; leave it out".into())
            }
            (Metric::SenderRetransShare, None) | (_, Some(_)) => Ok(()),
            (_, None) => Err("statistic: how do runs become one number? e.g. \"median\"".into()),
        }
    }

    fn needs_link(self) -> bool {
        matches!(
            self,
            Metric::Loss
                | Metric::MeanQueue
                | Metric::MaxQueue
                | Metric::QueueDelay
                | Metric::Utilisation
                | Metric::Lateness
        )
    }

    fn has_links(self) -> bool {
        self.needs_link() || matches!(self, Metric::Drops | Metric::Marks)
    }

    /// Whether it is taken of flows, so that where none is chosen there is nothing to take.
    pub fn is_of_flows(self) -> bool {
        matches!(
            self,
            Metric::Completion
                | Metric::Response
                | Metric::Goodput
                | Metric::Throughput
                | Metric::Jain
                | Metric::SenderTimeouts
                | Metric::TimeoutFlows
                | Metric::TimeoutRuns
                | Metric::SenderRetrans
                | Metric::LongestBurst
        )
    }

    /// Whether more of it is better; of all others, less is.
    pub fn is_better_higher(self) -> bool {
        matches!(self, Metric::Goodput | Metric::Throughput | Metric::Jain | Metric::Utilisation)
    }

    /// Whether it may be taken in a window.
    pub fn has_windows(self) -> bool {
        matches!(self, Metric::Throughput | Metric::Jain | Metric::MeanQueue | Metric::MaxQueue)
    }
}

/// Whether what speaks of these points, by the beginnings of their names, speaks of this one; none given: of all.
pub fn is_about(points: &[String], point: &str) -> bool {
    points.is_empty() || points.iter().any(|prefix| point.starts_with(prefix.as_str()))
}

/// How the numbers of a point become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Median of all numbers; of a ratio: ratio of the medians.
    Median,
    /// Mean.
    Mean,
    /// 95th percentile by nearest rank.
    P95,
    /// 99th percentile by nearest rank; of a ratio: ratio of the percentiles.
    P99,
    /// 99.9th percentile by nearest rank.
    P999,
    /// Largest.
    Max,
    /// Smallest.
    Min,
    /// Standard deviation.
    Sd,
    /// Sum over the runs.
    Sum,
}

impl Statistic {
    /// The statistic of all that these numbers stand for; none of nothing.
    pub fn of(self, values: &[Counted]) -> Option<f64> {
        match self {
            Statistic::Median => stats::median_of(values),
            Statistic::Mean => stats::mean_of(values),
            Statistic::P95 => stats::quantile_of(values, 0.95),
            Statistic::P99 => stats::quantile_of(values, 0.99),
            Statistic::P999 => stats::quantile_of(values, 0.999),
            Statistic::Max => stats::quantile_of(values, 1.0),
            Statistic::Min => stats::quantile_of(values, 0.0),
            Statistic::Sd => stats::sd_of(values),
            Statistic::Sum => stats::sum_of(values),
        }
    }
}

/// What flows are put together by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Nothing: each flow by itself.
    #[default]
    Flows,
    /// Their class.
    Classes,
    /// Their tenant.
    Tenants,
}

impl Over {
    /// By which name a flow is put together with others.
    fn of_what(self, index: usize, flow: &FlowReport) -> String {
        match self {
            Over::Flows => index.to_string(),
            Over::Classes => flow.class.clone(),
            Over::Tenants => flow.tenant.clone(),
        }
    }
}

/// A stretch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its beginning, from that of the run.
    pub from: Span,
    /// Its end.
    pub to: Span,
}

/// Of what a number is taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// Flows of this class; none: of any.
    pub class: Option<&'a str>,
    /// Relative to flows of this class in the same run; none: by itself.
    pub per_class: Option<&'a str>,
    /// Flows of this tenant; none: of any.
    pub tenant: Option<&'a str>,
    /// This direction of a link, "a > b"; none: all.
    pub link: Option<&'a str>,
    /// What flows are put together by.
    pub over: Over,
    /// This stretch; none: all of the run.
    pub window: Option<Window>,
}

impl Selection<'_> {
    /// Whether a flow is chosen.
    pub fn has(&self, flow: &FlowReport) -> bool {
        self.is_chosen(&flow.class, &flow.tenant)
    }

    fn is_chosen(&self, class: &str, tenant: &str) -> bool {
        self.class.is_none_or(|c| class == c) && self.tenant.is_none_or(|t| tenant == t)
    }

    /// The flows, with their numbers in the run; those apart that were stopped before they began.
    fn flows<'r>(&self, run: &'r RunRecord) -> Vec<(usize, &'r FlowReport)> {
        run.flows.iter().enumerate().filter(|(_, f)| self.has(f) && f.may_begin()).collect()
    }
}

/// When a flow's first byte was due, from the beginning of the run: its connection may have been there long before. One that
/// has to wait for its first byte is there, and has nothing.
fn begin_s(flow: &FlowReport) -> f64 {
    flow.started_s + flow.first_due_s.unwrap_or(0.0)
}

/// When a flow ended, or the run, from the beginning of the run.
fn end_s(flow: &FlowReport, run: &RunRecord) -> f64 {
    let stopped_s = flow.stopped_s.map_or(run.ended_s, |s| s.min(run.ended_s));
    flow.completion_s.map_or(stopped_s, |s| flow.started_s + s)
}

/// Bytes of a flow in a window, intervals in part counted in proportion.
fn bytes_in(run: &RunRecord, flow: usize, window: Window) -> Option<f64> {
    let (intervals, ended_s) = (run.intervals.as_ref()?, run.ended_s);
    let in_part = |(index, bytes): (usize, &u64)| {
        let begin_s = index as f64 * intervals.every_s;
        // the last one ends with the run
        let end_s = (begin_s + intervals.every_s).min(ended_s);
        let overlap_s = end_s.min(window.to.0) - begin_s.max(window.from.0);
        *bytes as f64 * (overlap_s / (end_s - begin_s).max(1e-9)).clamp(0.0, 1.0)
    };
    Some(intervals.flow_bytes.get(flow)?.iter().enumerate().map(in_part).sum())
}

/// Looks at a link's queue in a window.
fn looks(run: &RunRecord, link: usize, window: Window) -> Option<Vec<f64>> {
    let intervals = run.intervals.as_ref()?;
    let looks = intervals.link_packets.get(link)?.iter().enumerate();
    let is_in = |index: usize| (window.from.0..=window.to.0).contains(&intervals.end_s(index));
    Some(looks.filter(|(index, _)| is_in(*index)).map(|(_, packets)| f64::from(*packets)).collect())
}

/// Whether numbers of a run's chosen flows mean anything: it began, was what was requested, and none of them failed.
/// One that was cut short has too little of all that is counted, and others had its share.
pub fn is_measured(run: &RunRecord, of: &Selection) -> bool {
    run.has_begun() && !run.is_worthless() && of.flows(run).iter().all(|(_, f)| f.error.is_none())
}

/// The numbers that a run gives, one, one of each flow or those that all responses were thinned to; none: it was not
/// measured. Relative to another class there is one, the ratio of the two means: runs that go wrong in opposite ways do not
/// make up for each other.
pub fn values(metric: Metric, run: &RunRecord, of: &Selection) -> Option<Vec<Counted>> {
    let Some(per_class) = of.per_class else { return own_values(metric, run, of) };
    let mean = |class| {
        let selection = Selection { class, per_class: None, ..*of };
        stats::mean_of(&own_values(metric, run, &selection)?)
    };
    let ratio = mean(of.class)? / mean(Some(per_class))?;
    ratio.is_finite().then(|| each(&[ratio]))
}

/// The same of the chosen flows by themselves.
fn own_values(metric: Metric, run: &RunRecord, of: &Selection) -> Option<Vec<Counted>> {
    let flows = of.flows(run);
    if !run.has_begun() || metric.is_of_flows() && flows.is_empty() {
        return None;
    }
    if !is_measured(run, of) && metric != Metric::WrongPayloads {
        return None;
    }
    let ending = || flows.iter().map(|(_, f)| f).filter(|f| !f.is_open_ended);
    // what has not arrived would have been the slowest
    let is_cut = flows.iter().any(|(_, f)| f.is_cut);
    let numbers: Option<Vec<f64>> = match metric {
        Metric::Completion | Metric::Response if is_cut => None,
        // a flow that failed has no time: the run is not measured, not better
        Metric::Completion => ending().map(|f| f.completion_s).collect(),
        Metric::Goodput => goodputs_bps(of.over, &flows),
        Metric::Response => {
            // responses of a flow that failed are missing, and those would have been the slow ones
            ending().map(|f| f.completion_s).collect::<Option<Vec<_>>>()?;
            let chosen = run.responses.iter().filter(|r| of.is_chosen(&r.class, &r.tenant));
            let numbers: Vec<Counted> = chosen.flat_map(|r| r.numbers()).collect();
            return (!numbers.is_empty()).then_some(numbers);
        }
        Metric::LongestBurst => flows.iter().map(|(_, f)| f.longest_burst_segs.map(f64::from)).collect(),
        Metric::TimeoutFlows => flows.iter().map(|(_, f)| Some(f64::from(f.timeouts? > 0) * 100.0)).collect(),
        _ => of_run(metric, run, of, &flows).map(|value| vec![value]),
    };
    numbers.map(|numbers| each(&numbers))
}

fn of_run(metric: Metric, run: &RunRecord, of: &Selection, flows: &[(usize, &FlowReport)]) -> Option<f64> {
    match metric {
        Metric::Throughput => throughput_bps(run, of, flows),
        Metric::Jain => fairness(run, of, flows),
        Metric::SenderTimeouts => sum(run.sender_timeouts, of, flows, |f| f.timeouts),
        Metric::TimeoutRuns => {
            Some(f64::from(sum(run.sender_timeouts, of, flows, |f| f.timeouts)? > 0.0) * 100.0)
        }
        Metric::SenderRetrans => sum(run.sender_retrans_segs, of, flows, |f| f.retrans_segs),
        Metric::MeanRtt => run.mean_rtt_ms,
        Metric::StoredBdp => run.stored_bdp,
        Metric::WrongPayloads => Some(f64::from(!run.checksum_ok)),
        Metric::Drops if of.link.is_none() => Some(run.drops_tail as f64),
        Metric::Marks if of.link.is_none() => Some(run.marks as f64),
        _ => of_link(metric, run, of),
    }
}

fn of_link(metric: Metric, run: &RunRecord, of: &Selection) -> Option<f64> {
    let index = run.links.iter().position(|l| Some(l.name.as_str()) == of.link)?;
    let link = &run.links[index];
    match (metric, of.window) {
        (Metric::Drops, _) => Some(link.stats.drops_tail as f64),
        (Metric::Marks, _) => Some(link.stats.marks as f64),
        (Metric::Loss, _) => {
            let offered = link.stats.packets;
            (offered > 0).then(|| 100.0 * link.stats.drops_tail as f64 / offered as f64)
        }
        (Metric::MeanQueue, None) => Some(link.stats.mean_queue_packets),
        (Metric::MaxQueue, None) => Some(link.stats.queue_max_packets as f64),
        (Metric::MeanQueue, Some(window)) => stats::mean(&looks(run, index, window)?),
        (Metric::MaxQueue, Some(window)) => stats::quantile(&looks(run, index, window)?, 1.0),
        (Metric::QueueDelay, _) => link.mean_queue_ms,
        (Metric::Utilisation, _) => Some(link.stats.utilisation * 100.0),
        (Metric::Lateness, _) => Some(link.stats.late_p99_us / 1e3),
        _ => None,
    }
}

/// A sum over flows; where they do not know, over all of the run, if all is what is requested.
fn sum(
    of_all: u64,
    of: &Selection,
    flows: &[(usize, &FlowReport)],
    what: fn(&FlowReport) -> Option<u64>,
) -> Option<f64> {
    let known: Option<u64> = flows.iter().map(|(_, f)| what(f)).sum();
    let is_all = of.class.is_none() && of.tenant.is_none();
    known.or(is_all.then_some(of_all)).map(|n| n as f64)
}

/// Of each flow, or the means of those that belong together; none: a flow failed.
fn goodputs_bps(over: Over, flows: &[(usize, &FlowReport)]) -> Option<Vec<f64>> {
    let mut of_each: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (index, flow) in flows {
        let goodput_bps = flow.error.is_none().then_some(flow.goodput_bps)?;
        of_each.entry(over.of_what(*index, flow)).or_default().push(goodput_bps);
    }
    match over {
        Over::Flows => Some(flows.iter().map(|(_, f)| f.goodput_bps).collect()),
        _ => of_each.values().map(|rates| stats::mean(rates)).collect(),
    }
}

fn throughput_bps(run: &RunRecord, of: &Selection, flows: &[(usize, &FlowReport)]) -> Option<f64> {
    if let Some(window) = of.window {
        let bytes: Option<f64> = flows.iter().map(|(i, _)| bytes_in(run, *i, window)).sum();
        return Some(bytes? * 8.0 / (window.to.0 - window.from.0));
    }
    let begin_s = flows.iter().map(|(_, f)| f.started_s).reduce(f64::min)?;
    let end_s = flows.iter().map(|(_, f)| end_s(f, run)).reduce(f64::max)?;
    let bytes: u64 = flows.iter().map(|(_, f)| f.bytes).sum();
    (end_s > begin_s).then(|| bytes as f64 * 8.0 / (end_s - begin_s))
}

fn fairness(run: &RunRecord, of: &Selection, flows: &[(usize, &FlowReport)]) -> Option<f64> {
    let mut rates: BTreeMap<String, f64> = BTreeMap::new();
    for (index, flow) in flows {
        let rate = match of.window {
            Some(w) if begin_s(flow) > w.from.0 || end_s(flow, run) < w.to.0 => continue,
            Some(w) => bytes_in(run, *index, w)?,
            None => flow.bytes as f64 / (end_s(flow, run) - flow.started_s).max(1e-9),
        };
        *rates.entry(of.over.of_what(*index, flow)).or_default() += rate;
    }
    // one alone is no share, and with a window all others were late or gone
    if rates.len() < 2 {
        return None;
    }
    jain(rates.into_values())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ResponseSample;
    use windlass_scenario::{Intervals, LinkReport, LinkStats};

    /// The numbers of `values`, each of which stands for itself here.
    fn values(metric: Metric, run: &RunRecord, of: &Selection) -> Option<Vec<f64>> {
        super::values(metric, run, of).map(|all| all.iter().map(|v| v.value).collect())
    }

    fn flow(class: &str, started_s: f64, completion_s: Option<f64>, bytes: u64, timeouts: u64) -> FlowReport {
        let goodput_bps = completion_s.map_or(0.0, |s| bytes as f64 * 8.0 / s);
        let (class, timeouts) = (class.into(), Some(timeouts));
        let checksum_ok = true;
        FlowReport {
            class,
            started_s,
            completion_s,
            bytes,
            goodput_bps,
            timeouts,
            checksum_ok,
            ..FlowReport::default()
        }
    }

    /// Two short flows and one long one that goes on until the end, at 4 s.
    fn run() -> RunRecord {
        let stats = LinkStats {
            packets: 200,
            drops_tail: 7,
            mean_queue_packets: 2.5,
            utilisation: 0.9,
            late_p99_us: 300.0,
            ..LinkStats::default()
        };
        RunRecord {
            flows: vec![
                flow("short", 0.0, Some(1.0), 1000, 0),
                flow("short", 1.0, Some(3.0), 3000, 2),
                FlowReport { is_open_ended: true, ..flow("long", 0.0, None, 8000, 1) },
            ],
            responses: vec![ResponseSample {
                class: "short".into(),
                tenant: String::new(),
                seconds: vec![0.25, 0.5],
                count: 2,
            }],
            links: vec![LinkReport { name: "a > b".into(), stats, mean_queue_ms: Some(1.5) }],
            intervals: Some(Intervals {
                every_s: 1.0,
                flow_bytes: vec![
                    vec![1000, 0, 0, 0],
                    vec![0, 1000, 1000, 1000],
                    vec![2000, 3000, 1000, 2000],
                ],
                link_packets: vec![vec![1, 2, 6, 0]],
            }),
            ended_s: 4.0,
            drops_tail: 9,
            sender_timeouts: 3,
            ..RunRecord::default()
        }
    }

    #[test]
    fn what_makes_no_difference_to_a_metric_is_refused() {
        let all = Selection::default();
        let mean = Some(Statistic::Mean);
        let wrong = |metric: Metric, of: &Selection| metric.check_selection(of, mean).unwrap_err();
        assert!(wrong(Metric::MaxQueue, &all).starts_with("link: this metric is of one"));
        let link = Selection { link: Some("a > b"), ..all };
        assert!(wrong(Metric::Throughput, &link).starts_with("link: this metric is not of links"));
        Metric::Drops.check_selection(&link, mean).unwrap();
        assert!(wrong(Metric::Drops, &Selection { class: Some("c"), ..all }).starts_with("class"));
        assert!(wrong(Metric::MeanRtt, &Selection { tenant: Some("t"), ..all }).starts_with("tenant"));
        let over = Selection { over: Over::Tenants, ..all };
        assert!(wrong(Metric::Completion, &over).starts_with("over"));
        Metric::Jain.check_selection(&over, mean).unwrap();
        assert!(wrong(Metric::SenderRetransShare, &all).starts_with("statistic"));
        Metric::SenderRetransShare.check_selection(&all, None).unwrap();
        assert!(Metric::Jain.check_selection(&all, None).unwrap_err().starts_with("statistic"));
    }

    #[test]
    fn of_a_run_whose_emulator_lost_packets_nothing_is_known() {
        let mut run = run();
        run.links[0].stats.drops_device = 1;
        for metric in [Metric::Throughput, Metric::Completion, Metric::SenderTimeouts, Metric::Drops] {
            assert_eq!(values(metric, &run, &Selection::default()), None, "{metric:?}");
        }
    }

    fn window(from: f64, to: f64) -> Option<Window> {
        Some(Window { from: Span(from), to: Span(to) })
    }

    #[test]
    fn flows_are_chosen_by_class() {
        let run = run();
        let short = Selection { class: Some("short"), ..Selection::default() };
        assert_eq!(values(Metric::Completion, &run, &short), Some(vec![1.0, 3.0]));
        assert_eq!(
            values(Metric::Completion, &run, &Selection::default()),
            Some(vec![1.0, 3.0]),
            "one never ends"
        );
        assert_eq!(values(Metric::Response, &run, &short), Some(vec![0.25, 0.5]));
        let mut failed = run.clone();
        failed.flows[1] = flow("short", 1.0, None, 3000, 2);
        assert_eq!(values(Metric::Completion, &failed, &short), None, "one has not finished");
        assert_eq!(values(Metric::Response, &failed, &short), None);
        assert_eq!(values(Metric::Throughput, &run, &short), Some(vec![4000.0 * 8.0 / 4.0]));
        assert_eq!(values(Metric::SenderTimeouts, &run, &short), Some(vec![2.0]));
        assert_eq!(values(Metric::TimeoutFlows, &run, &short), Some(vec![0.0, 100.0]));
        let none = Selection { class: Some("none"), ..short };
        assert_eq!(values(Metric::Throughput, &run, &none), None);
        assert_eq!(values(Metric::SenderTimeouts, &run, &none), None, "no flow is no flow without timeouts");
        assert_eq!(values(Metric::TimeoutFlows, &run, &none), None);
    }

    #[test]
    fn what_was_stopped_before_it_arrived_is_not_left_out() {
        let short = Selection { class: Some("short"), ..Selection::default() };
        let mut run = run();
        run.flows[1] = FlowReport { is_open_ended: true, is_cut: true, ..flow("short", 1.0, None, 3000, 2) };
        assert_eq!(values(Metric::Completion, &run, &short), None, "it would have been the slower one");
        assert_eq!(values(Metric::Response, &run, &short), None);
        assert_eq!(values(Metric::SenderTimeouts, &run, &short), Some(vec![2.0]));
        run.flows[1].is_cut = false;
        assert_eq!(values(Metric::Completion, &run, &short), Some(vec![1.0]));
        run.responses.clear();
        assert_eq!(values(Metric::Response, &run, &short), None, "others' would stand for them");
    }

    #[test]
    fn a_run_that_never_began_has_no_number() {
        let error = Some("needs up to 9000 MB of memory".into());
        let refused = RunRecord { error, ..RunRecord::default() };
        for metric in [
            Metric::SenderTimeouts,
            Metric::TimeoutFlows,
            Metric::TimeoutRuns,
            Metric::SenderRetrans,
            Metric::Drops,
            Metric::Marks,
            Metric::Goodput,
            Metric::LongestBurst,
            Metric::MeanRtt,
            Metric::WrongPayloads,
        ] {
            assert_eq!(values(metric, &refused, &Selection::default()), None, "{metric:?}");
        }
        assert_eq!(Statistic::Sum.of(&[]), None);
    }

    #[test]
    fn of_a_run_that_was_cut_short_nothing_is_known() {
        let mut run = run();
        run.flows[1] = FlowReport { error: Some("not finished".into()), ..flow("short", 1.0, None, 3000, 2) };
        let (all, long) = (Selection::default(), Selection { class: Some("long"), ..Selection::default() });
        let ab = Selection { link: Some("a > b"), ..all };
        for metric in [
            Metric::SenderTimeouts,
            Metric::TimeoutFlows,
            Metric::TimeoutRuns,
            Metric::Drops,
            Metric::Throughput,
            Metric::Jain,
            Metric::MeanQueue,
            Metric::Utilisation,
        ] {
            assert_eq!(values(metric, &run, &ab), None, "{metric:?}");
        }
        assert_eq!(values(Metric::SenderTimeouts, &run, &long), Some(vec![1.0]), "it was there all the time");
        assert_eq!(values(Metric::WrongPayloads, &run, &all), Some(vec![1.0]));
    }

    #[test]
    fn classes_have_the_mean_goodput_of_their_flows() {
        let classes = Selection { over: Over::Classes, ..Selection::default() };
        // the long one, which has no completion time, is there with 0; 8 and 8 kbit/s
        assert_eq!(values(Metric::Goodput, &run(), &classes), Some(vec![0.0, 8000.0]));
    }

    #[test]
    fn classes_are_compared_in_each_run() {
        let of = Selection { class: Some("long"), per_class: Some("short"), ..Selection::default() };
        // 8000 bytes in four seconds and 4000 in as many
        assert_eq!(values(Metric::Throughput, &run(), &of), Some(vec![2.0]));
        let second = Selection { window: window(1.0, 2.0), ..of };
        assert_eq!(values(Metric::Throughput, &run(), &second), Some(vec![3.0]));
        let last =
            Selection { window: window(3.0, 4.0), per_class: Some("long"), class: Some("short"), ..of };
        assert_eq!(values(Metric::Throughput, &run(), &last), Some(vec![0.5]));
        // of several numbers the means
        let all = Selection { class: None, ..of };
        assert_eq!(values(Metric::Completion, &run(), &all), Some(vec![1.0]));
        assert_eq!(values(Metric::SenderTimeouts, &run(), &of), Some(vec![0.5]));
        let nothing = Selection { window: window(0.0, 1.0), per_class: Some("none"), ..of };
        assert_eq!(values(Metric::Throughput, &run(), &nothing), None);
        let mut failed = run();
        failed.flows[1].error = Some("not finished".into());
        assert_eq!(values(Metric::Throughput, &failed, &of), None, "the other class counts too");
    }

    #[test]
    fn windows_cut_intervals_in_proportion() {
        let run = run();
        let long = Selection { class: Some("long"), window: window(0.5, 2.0), ..Selection::default() };
        assert_eq!(values(Metric::Throughput, &run, &long), Some(vec![4000.0 * 8.0 / 1.5]));
        // the last interval is only half as long, and so is twice as dense
        let ended = RunRecord { ended_s: 3.5, ..run };
        let last = Selection { window: window(3.0, 3.25), ..long };
        assert_eq!(values(Metric::Throughput, &ended, &last), Some(vec![1000.0 * 8.0 / 0.25]));
    }

    #[test]
    fn fairness_is_among_those_that_were_there_all_the_time() {
        let run = run();
        let fair = |of: &Selection| values(Metric::Jain, &run, of).unwrap()[0];
        // the second and the third in the third second: 1000 bytes each
        assert_eq!(fair(&Selection { window: window(2.0, 3.0), ..Selection::default() }), 1.0);
        // 1000 and 2000
        let last = Selection { window: window(3.0, 4.0), over: Over::Classes, ..Selection::default() };
        assert_eq!(fair(&last), 9.0 / (2.0 * 5.0));
        assert_eq!(values(Metric::Jain, &run, &Selection { window: window(9.0, 10.0), ..last }), None);
        // connected in time, but with nothing to send until the window has begun
        let mut late = run.clone();
        late.flows[1].first_due_s = Some(1.5);
        let second = Selection { window: window(2.0, 3.0), ..Selection::default() };
        assert_eq!(values(Metric::Jain, &late, &second), None, "one alone shares with nobody");
        // with something to send, which did not get through
        late.flows[1] =
            FlowReport { first_due_s: Some(0.5), first_byte_s: Some(2.5), ..late.flows[1].clone() };
        late.intervals.as_mut().unwrap().flow_bytes[1][2] = 0;
        assert_eq!(values(Metric::Jain, &late, &second), Some(vec![0.5]), "who starves is there");
        // stopped before it began
        let never =
            FlowReport { stopped_s: Some(2.0), is_open_ended: true, ..flow("short", 2.5, None, 0, 0) };
        let flows = vec![never, run.flows[0].clone(), FlowReport { started_s: 0.0, ..run.flows[0].clone() }];
        let others = values(Metric::Jain, &RunRecord { flows, ..run.clone() }, &Selection::default());
        assert_eq!(others, Some(vec![1.0]));
        let alone = Selection { class: Some("long"), ..Selection::default() };
        assert_eq!(values(Metric::Jain, &run, &alone), None);
    }

    #[test]
    fn links_are_chosen_by_name() {
        let run = run();
        let ab = Selection { link: Some("a > b"), ..Selection::default() };
        let value = |metric, of: &Selection| values(metric, &run, of).map(|v| v[0]);
        assert_eq!(value(Metric::Drops, &ab), Some(7.0));
        assert_eq!(value(Metric::Drops, &Selection::default()), Some(9.0));
        assert_eq!(value(Metric::Loss, &ab), Some(3.5), "7 of 200");
        let mut unused = run.clone();
        unused.links[0].stats = LinkStats::default();
        assert_eq!(values(Metric::Loss, &unused, &ab), None, "of nothing there is no share");
        assert_eq!(value(Metric::MeanQueue, &ab), Some(2.5));
        assert_eq!(value(Metric::Utilisation, &ab), Some(90.0));
        assert_eq!(value(Metric::Lateness, &ab), Some(0.3));
        assert_eq!(value(Metric::MaxQueue, &Selection { window: window(1.5, 3.0), ..ab }), Some(6.0));
        assert_eq!(value(Metric::MeanQueue, &Selection { window: window(1.5, 3.0), ..ab }), Some(4.0));
        assert_eq!(value(Metric::MeanQueue, &Selection { link: Some("b > a"), ..ab }), None);
    }
}
