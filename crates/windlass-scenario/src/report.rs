//! What a run found out.

use crate::{LinkStats, link::LATE_US};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, fmt};

/// One transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowReport {
    /// Sender and receiver.
    pub name: String,
    /// Kind of flow, as the scenario has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// Whose flow it is, as the scenario has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// connect(), from the beginning of the run.
    pub started_s: f64,
    /// From connect() to the last byte; none if it failed.
    pub completion_s: Option<f64>,
    /// From connect() to the first byte; none if it failed.
    pub first_byte_s: Option<f64>,
    /// From connect() to when the first response was due; none: it never began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_due_s: Option<f64>,
    /// Payload bytes that arrived.
    pub bytes: u64,
    /// Payload bit/s over the completion time; 0 if it failed.
    pub goodput_bps: f64,
    /// Whether exactly what was sent arrived.
    pub checksum_ok: bool,
    /// Retransmission timeouts of this flow's sender; none: unknown, a kernel counts them for a whole host.
    pub timeouts: Option<u64>,
    /// Segments that this flow's sender retransmitted; none: unknown.
    pub retrans_segs: Option<u64>,
    /// Packets with data that came to its receiver; none: unknown, a kernel does not count them by flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_segs: Option<u64>,
    /// Those all of whose data had come before, so that the sender or the box had retransmitted it needlessly; none: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needless_segs: Option<u64>,
    /// Most new segments that this flow's sender sent at one instant; with real kernels, that a connection between its hosts did,
    /// as an emulated link saw them come; none: unknown.
    pub longest_burst_segs: Option<u32>,
    /// Datagrams that were sent; none: it is a TCP flow. Those that arrived are its responses, each with its delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams_sent: Option<u64>,
    /// It went on until it was stopped, or the run ended, so it has no completion time.
    #[serde(skip_serializing_if = "is_false")]
    pub is_open_ended: bool,
    /// When the scenario stopped it, a response of a size had been due and was not there.
    #[serde(skip_serializing_if = "is_false")]
    pub is_cut: bool,
    /// When the scenario stops it, whatever it has sent, from the beginning of the run; none: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_s: Option<f64>,
    /// How long its responses took, if it has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_times: Option<ResponseTimes>,
    /// The pages that it has loaded, in the order in which that was done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<PageLoad>,
    /// Its responses, as they arrived; its pages, if it loads such.
    #[serde(skip)]
    pub responses: Vec<Response>,
    /// Why it failed.
    pub error: Option<String>,
}

impl FlowReport {
    /// How long its pages took to load, a few one by one.
    fn fmt_pages(&self, times: &ResponseTimes, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "    {} pages loaded: {}", times.count, times.summary())?;
        if self.pages.len() > PAGES_SHOWN {
            return Ok(());
        }
        for page in &self.pages {
            let PageLoad { begun_s, load_s, objects, bytes } = page;
            writeln!(f, "      at {begun_s:.3} s: {load_s:.3} s, {objects} objects, {bytes} B")?;
        }
        Ok(())
    }

    /// Whether the scenario lets it begin: its start, if left to chance, may come after its stop.
    pub fn may_begin(&self) -> bool {
        self.stopped_s.is_none_or(|stopped_s| self.started_s < stopped_s)
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// One response.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Response {
    /// When it was requested, from the beginning of the run; with a connection for each, when that was begun.
    pub asked_s: f64,
    /// From then to its last byte.
    pub took_s: f64,
    /// Its payload.
    pub bytes: u64,
}

/// A page that was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageLoad {
    /// When it was due and its first SYN was sent, from the beginning of the run.
    pub begun_s: f64,
    /// From then to the last byte of its last object.
    pub load_s: f64,
    /// How many objects it has.
    pub objects: u32,
    /// Their payload.
    pub bytes: u64,
}

impl From<PageLoad> for Response {
    fn from(page: PageLoad) -> Response {
        Response { asked_s: page.begun_s, took_s: page.load_s, bytes: page.bytes }
    }
}

/// How long responses took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseTimes {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean_s: f64,
    /// Median by nearest rank.
    pub p50_s: f64,
    /// 99th percentile by nearest rank.
    pub p99_s: f64,
    /// Longest.
    pub max_s: f64,
}

impl ResponseTimes {
    /// Of these responses; none of nothing.
    pub fn of<'a>(responses: impl IntoIterator<Item = &'a Response>) -> Option<ResponseTimes> {
        let mut times: Vec<f64> = responses.into_iter().map(|r| r.took_s).collect();
        times.sort_by(f64::total_cmp);
        let at = |q: f64| times.get(((q * times.len() as f64).ceil() as usize).max(1) - 1).copied();
        Some(ResponseTimes {
            count: times.len() as u64,
            mean_s: times.iter().sum::<f64>() / times.len() as f64,
            p50_s: at(0.5)?,
            p99_s: at(0.99)?,
            max_s: at(1.0)?,
        })
    }
}

/// A run in equal intervals of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// How long an interval is; the last one ends with the run.
    pub every_s: f64,
    /// For each flow, payload bytes that arrived in each interval.
    pub flow_bytes: Vec<Vec<u64>>,
    /// For each link that is reported, packets that queued or were being sent at the end of each interval.
    pub link_packets: Vec<Vec<u32>>,
}

impl Intervals {
    /// When the interval of that index ends, in a run that has so many or more.
    pub fn end_s(&self, index: usize) -> f64 {
        (index + 1) as f64 * self.every_s
    }
}

/// One direction of an emulated link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// From and to.
    pub name: String,
    /// Its counters.
    #[serde(flatten)]
    pub stats: LinkStats,
    /// Mean time in the queue; none: it was not measured (netem).
    pub mean_queue_ms: Option<f64>,
}

/// A whole run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// Name of the scenario.
    pub scenario: String,
    /// Its seed.
    pub seed: u64,
    /// In the order of the file.
    pub flows: Vec<FlowReport>,
    /// Emulated links, forward and backward.
    pub links: Vec<LinkReport>,
    /// How long the run took, from its beginning.
    pub ended_s: f64,
    /// What happened when, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// Propagation there and back plus the mean queues on the way, mean of all flows; of equally short ways, their mean.
    /// None: a queue was not measured.
    pub mean_rtt_ms: Option<f64>,
    /// Segments of data that the senders' own kernels retransmitted.
    pub sender_retrans_segs: u64,
    /// Retransmission timeouts of the senders' kernels, those of SYN-ACKs apart.
    pub sender_timeouts: u64,
    /// SYN-ACKs that the senders' kernels retransmitted: handshakes are left to them.
    pub handshake_retrans_segs: u64,
    /// Tail loss probes of the senders' kernels.
    pub sender_probes: u64,
    /// Windlass' counters; empty without it.
    pub windlass: BTreeMap<String, u64>,
    /// Why the box controlled no flow though the scenario has it control them; none: it did, or there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub box_error: Option<String>,
    /// Samples of Windlass' flow table, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Value>,
}

impl RunReport {
    /// Whether every transfer arrived whole, and the box controlled flows if it had to: else the run has failed.
    pub fn is_success(&self) -> bool {
        self.is_complete() && self.box_error.is_none()
    }

    /// Whether every transfer arrived whole.
    pub fn is_complete(&self) -> bool {
        !self.flows.is_empty() && self.flows.iter().all(|f| f.checksum_ok)
    }

    /// Completion time of the slowest flow; none if one failed, or if none has a completion time.
    pub fn completion_s(&self) -> Option<f64> {
        let mut times = self.flows.iter().filter(|f| !f.is_open_ended).map(|f| f.completion_s);
        let first = times.next()??;
        times.try_fold(first, |most, s| s.map(|s| most.max(s)))
    }

    /// Jain's index of the goodputs of flows that could begin and have no rate of their own, as those of datagrams have; none: there
    /// is one only, or nothing arrived.
    pub fn jain(&self) -> Option<f64> {
        let shares = |f: &&FlowReport| f.may_begin() && f.datagrams_sent.is_none();
        let goodputs_bps: Vec<f64> = self.flows.iter().filter(shares).map(|f| f.goodput_bps).collect();
        if goodputs_bps.len() > 1 { jain(goodputs_bps) } else { None }
    }

    /// One document: the report, and what follows from it.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Document<'a> {
            #[serde(flatten)]
            report: &'a RunReport,
            jain: Option<f64>,
        }
        let document = Document { report: self, jain: self.jain() };
        serde_json::to_string(&document).expect("plain data")
    }

    /// Packets that the emulator lost by itself, not for the scenario's sake; more than 0 makes the run worthless.
    pub fn emulator_drops(&self) -> u64 {
        self.links.iter().map(|l| l.stats.own_drops()).sum()
    }

    /// A counter of Windlass; 0 without it.
    pub fn counter(&self, name: &str) -> u64 {
        self.windlass.get(name).copied().unwrap_or(0)
    }
}

/// How late the median packet was on the worst of these links; none: not later than is promised.
pub fn late_us(links: &[LinkReport]) -> Option<f64> {
    let worst_us = links.iter().map(|l| l.stats.late_p50_us).fold(0.0, f64::max);
    (worst_us > LATE_US).then_some(worst_us)
}

/// Jain's index of rates: 1 if all are equal, 1/n if one of n has everything; none: there is nothing to share.
pub fn jain(rates: impl IntoIterator<Item = f64>) -> Option<f64> {
    let add =
        |(count, sum, squares): (u32, f64, f64), rate: f64| (count + 1, sum + rate, squares + rate * rate);
    let (count, sum, squares) = rates.into_iter().fold((0, 0.0, 0.0), add);
    (squares > 0.0).then(|| sum * sum / (squares * f64::from(count)))
}

/// Of more flows, only their classes are shown.
const FLOWS_SHOWN: usize = 20;
/// More pages of a flow are not shown one by one.
const PAGES_SHOWN: usize = 10;
/// Of more links, only those that lost most, then those whose queues were longest.
const LINKS_SHOWN: usize = 20;

impl RunReport {
    fn fmt_flows(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{:<24} {:>10} {:>14} {:>9}", "flow", "time", "goodput", "checksum")?;
        for flow in &self.flows {
            let open_ended = if flow.is_open_ended { "open-ended" } else { "failed" };
            let time = flow.completion_s.map_or(open_ended.into(), |s| format!("{s:.3} s"));
            // of what did not arrive whole there is none to compare
            let is_empty = flow.is_open_ended && flow.bytes == 0;
            let sum = match (flow.checksum_ok, &flow.error) {
                (true, _) if is_empty => "-",
                (true, _) => "ok",
                (false, Some(_)) => "-",
                (false, None) => "WRONG",
            };
            let rate = format!("{:.2} Mbit/s", flow.goodput_bps / 1e6);
            writeln!(f, "{:<24} {time:>10} {rate:>14} {sum:>9}", flow.name)?;
            match (&flow.response_times, flow.datagrams_sent) {
                (Some(times), None) if !flow.pages.is_empty() => flow.fmt_pages(times, f)?,
                (Some(times), None) => writeln!(f, "    {times}")?,
                (Some(times), Some(sent)) => {
                    let (count, delays) = (times.count, times.summary());
                    writeln!(f, "    {count} of {sent} datagrams arrived, one way: {delays}")?;
                }
                (None, _) => {}
            }
            if let Some(error) = &flow.error {
                writeln!(f, "    {error}")?;
            } else if is_empty {
                let is_stopped = flow.stopped_s.is_some_and(|stopped_s| stopped_s <= self.ended_s);
                let end = if is_stopped { "it was stopped" } else { "the run ended" };
                writeln!(f, "    nothing arrived before {end}")?;
            }
        }
        Ok(())
    }

    fn fmt_classes(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut classes: BTreeMap<&str, Vec<&FlowReport>> = BTreeMap::new();
        self.flows.iter().for_each(|flow| classes.entry(&flow.class).or_default().push(flow));
        writeln!(
            f,
            "{:<16} {:>7} {:>7} {:>11} {:>11} {:>16}",
            "class", "flows", "failed", "median", "longest", "mean goodput"
        )?;
        for (class, flows) in classes {
            let failed = flows.iter().filter(|f| f.error.is_some()).count();
            let mut times: Vec<f64> = flows.iter().filter_map(|f| f.completion_s).collect();
            times.sort_by(f64::total_cmp);
            let time = |s: Option<&f64>| s.map_or("-".into(), |s| format!("{s:.3} s"));
            let (median, longest) = (time(times.get(times.len() / 2)), time(times.last()));
            let rate = flows.iter().map(|f| f.goodput_bps).sum::<f64>() / flows.len() as f64;
            let rate = format!("{:.2} Mbit/s", rate / 1e6);
            let name = if class.is_empty() { "-" } else { class };
            writeln!(f, "{name:<16} {:>7} {failed:>7} {median:>11} {longest:>11} {rate:>16}", flows.len())?;
            if let Some(times) = ResponseTimes::of(flows.iter().flat_map(|f| &f.responses)) {
                writeln!(f, "    {times}")?;
            }
            if let Some(error) = flows.iter().find_map(|f| f.error.as_ref()) {
                writeln!(f, "    first failure: {error}")?;
            }
        }
        Ok(())
    }
}

impl RunReport {
    fn fmt_links(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "\n{:<24} {:>9} {:>9} {:>9} {:>12}", "link", "packets", "tail", "random", "mean queue")?;
        let mut shown: Vec<&LinkReport> = self.links.iter().collect();
        if shown.len() > LINKS_SHOWN {
            let drops = |l: &LinkReport| l.stats.drops_tail + l.stats.drops_random;
            let queue_ms = |l: &LinkReport| l.mean_queue_ms.unwrap_or_default();
            shown.sort_by(|a, b| drops(b).cmp(&drops(a)).then(queue_ms(b).total_cmp(&queue_ms(a))));
            shown.truncate(LINKS_SHOWN);
        }
        for link in &shown {
            let queue = link.mean_queue_ms.map_or("-".into(), |ms| format!("{ms:.2} ms"));
            let s = &link.stats;
            writeln!(
                f,
                "{:<24} {:>9} {:>9} {:>9} {queue:>12}",
                link.name, s.packets, s.drops_tail, s.drops_random
            )?;
        }
        match self.links.len() - shown.len() {
            0 => Ok(()),
            rest => writeln!(f, "{rest} more, with fewer losses and shorter queues: --json has all"),
        }
    }
}

impl ResponseTimes {
    /// Without the number.
    fn summary(&self) -> String {
        let ms = |s: f64| s * 1e3;
        format!(
            "mean {:.3} ms, median {:.3} ms, 99 % within {:.3} ms, longest {:.3} ms",
            ms(self.mean_s),
            ms(self.p50_s),
            ms(self.p99_s),
            ms(self.max_s)
        )
    }
}

impl fmt::Display for ResponseTimes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} responses: {}", self.count, self.summary())
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.flows.len() {
            0..=FLOWS_SHOWN => self.fmt_flows(f)?,
            _ => self.fmt_classes(f)?,
        }
        self.fmt_links(f)?;
        writeln!(
            f,
            "\nrtt {}, sender: {} retransmissions, {} timeouts; windlass: {} repairs",
            self.mean_rtt_ms.map_or("-".into(), |ms| format!("{ms:.1} ms")),
            self.sender_retrans_segs,
            self.sender_timeouts,
            self.counter("repaired_segs")
        )?;
        if let Some(index) = self.jain() {
            writeln!(f, "Jain index of the flows' goodputs: {index:.4}")?;
        }
        if let Some(error) = &self.box_error {
            writeln!(f, "error: {error}")?;
        }
        if self.emulator_drops() > 0 {
            writeln!(
                f,
                "warning: the emulator lost {} packets of its own; run again on a machine with less load",
                self.emulator_drops()
            )?;
        }
        if let Some(late_us) = late_us(&self.links) {
            writeln!(
                f,
                "warning: the emulator was late, by {:.2} ms at the median of a link, where {:.1} ms is promised; run again on \
                 a machine with less load",
                late_us / 1e3,
                LATE_US / 1e3
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(class: &str, completion_s: Option<f64>, took_s: &[f64]) -> FlowReport {
        let responses: Vec<Response> =
            took_s.iter().map(|took_s| Response { asked_s: 0.0, took_s: *took_s, bytes: 1 }).collect();
        FlowReport {
            name: "a > b".into(),
            class: class.into(),
            completion_s,
            is_open_ended: class == "long",
            response_times: ResponseTimes::of(&responses),
            responses,
            ..FlowReport::default()
        }
    }

    fn report(flows: Vec<FlowReport>) -> RunReport {
        RunReport {
            scenario: "t".into(),
            seed: 1,
            flows,
            links: Vec::new(),
            ended_s: 1.0,
            intervals: None,
            mean_rtt_ms: None,
            sender_retrans_segs: 0,
            sender_timeouts: 0,
            sender_probes: 0,
            handshake_retrans_segs: 0,
            windlass: BTreeMap::new(),
            box_error: None,
            samples: Vec::new(),
        }
    }

    #[test]
    fn a_run_whose_box_controlled_nothing_has_failed_and_reports_it() {
        let whole = report(vec![FlowReport { checksum_ok: true, ..flow("", Some(1.0), &[]) }]);
        assert!(whole.is_success() && !whole.to_string().contains("error: "), "{whole}");
        assert!(!whole.to_json().contains("box_error"));
        let idle = RunReport { box_error: Some("the box controlled no flow".into()), ..whole };
        assert!(idle.is_complete() && !idle.is_success());
        assert!(idle.to_string().ends_with("error: the box controlled no flow\n"), "{idle}");
        let document: Value = serde_json::from_str(&idle.to_json()).unwrap();
        assert_eq!(document["box_error"], "the box controlled no flow");
    }

    #[test]
    fn a_run_takes_as_long_as_its_slowest_flow() {
        let (short, long) = (flow("short", Some(1.0), &[]), flow("long", None, &[]));
        assert_eq!(
            report(vec![short.clone(), flow("short", Some(2.0), &[]), long.clone()]).completion_s(),
            Some(2.0)
        );
        assert_eq!(report(vec![short, flow("short", None, &[])]).completion_s(), None, "one failed");
        assert_eq!(report(vec![long]).completion_s(), None);
    }

    #[test]
    fn jains_index_is_reported_of_several_flows() {
        assert_eq!(jain([3.0, 3.0]), Some(1.0));
        assert_eq!(jain([1.0, 0.0]), Some(0.5));
        assert_eq!((jain([]), jain([0.0, 0.0])), (None, None));
        let of = |rates: &[f64]| {
            let at = |bps: &f64| FlowReport { goodput_bps: *bps, ..flow("", Some(1.0), &[]) };
            report(rates.iter().map(at).collect())
        };
        let two = of(&[1e6, 3e6]);
        assert!(two.to_string().contains("\nJain index of the flows' goodputs: 0.8000\n"), "{two}");
        let document: Value = serde_json::from_str(&two.to_json()).unwrap();
        assert_eq!((&document["jain"], &document["scenario"]), (&0.8.into(), &"t".into()));
        let one = of(&[1e6]);
        assert!(!one.to_string().contains("Jain"), "{one}");
        let document: Value = serde_json::from_str(&one.to_json()).unwrap();
        assert_eq!(document["jain"], Value::Null);
    }

    #[test]
    fn percentiles_are_of_all_responses() {
        let times: Vec<f64> = (1..=200).map(|ms| f64::from(ms) / 1e3).collect();
        let of = flow("short", Some(1.0), &times).response_times.unwrap();
        assert_eq!((of.count, of.p50_s, of.p99_s, of.max_s), (200, 0.1, 0.198, 0.2));
        assert_eq!(ResponseTimes::of(&[]), None);
    }

    #[test]
    fn of_many_links_those_that_lost_most_are_shown() {
        let link = |i: u64| LinkReport {
            name: format!("link-{i}"),
            stats: LinkStats { drops_tail: u64::from(i == 70) * 5, ..LinkStats::default() },
            mean_queue_ms: Some(i as f64),
        };
        let text = RunReport { links: (0..96).map(link).collect(), ..report(Vec::new()) }.to_string();
        let at = |name: &str| text.find(&format!("{name} ")).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(at("link-70") < at("link-95") && at("link-95") < at("link-77"), "{text}");
        assert!(!text.contains("link-76") && text.contains("\n76 more"), "{text}");
    }

    #[test]
    fn an_emulator_that_is_late_is_reported() {
        let link = |late_p50_us| LinkReport {
            name: "a > b".into(),
            stats: LinkStats { late_p50_us, ..LinkStats::default() },
            mean_queue_ms: None,
        };
        let text =
            |late: [f64; 2]| RunReport { links: late.map(link).into(), ..report(Vec::new()) }.to_string();
        assert!(!text([200.0, 50.0]).contains("warning"));
        let late = text([50.0, 430.0]);
        assert!(
            late.contains("late, by 0.43 ms at the median of a link, where 0.2 ms is promised"),
            "{late}"
        );
    }

    #[test]
    fn of_many_flows_the_classes_are_shown() {
        let few = report(vec![flow("short", Some(1.0), &[0.1]), flow("long", None, &[])]).to_string();
        assert!(few.contains("1 responses: mean 100.000 ms") && few.contains("open-ended"), "{few}");
        let many = report((0..1000).map(|i| flow("short", Some(f64::from(i)), &[0.1])).collect()).to_string();
        assert!(
            many.lines().count() < 12 && many.contains("1000 responses") && many.contains("999.000 s"),
            "{many}"
        );
    }

    #[test]
    fn only_what_arrived_whole_can_be_wrong() {
        let stopped = FlowReport { error: Some("stopped".into()), ..flow("short", None, &[]) };
        let text = report(vec![stopped]).to_string();
        assert!(!text.contains("WRONG") && text.contains("stopped"), "{text}");
        assert!(report(vec![flow("short", Some(1.0), &[])]).to_string().contains("WRONG"));
    }
}
