//! What a run gave, and the reports of its flows and links.

use super::Sim;
use crate::{
    link::Link,
    network::Count,
    session::Session,
    tcp::{ReceiverStats, Round, SenderStats},
    time::seconds,
    trace::{FlowRow, LinkRow},
};
use windlass_scenario::{
    Application, Flow, FlowReport, LinkReport, ResponseTimes, RunReport, Scenario, box_error, mean_rtt_ms,
};

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the testbed would report as well.
    pub report: RunReport,
    /// What became of the packets.
    pub count: Count,
    /// Packets neither delivered nor dropped when the run ended.
    pub in_flight: u64,
    /// Virtual time at the end.
    pub ended_at_ns: u64,
    /// For each flow, the server's rounds; empty unless requested.
    pub rounds: Vec<Vec<Round>>,
    /// Looks at flows; empty unless requested.
    pub flow_rows: Vec<FlowRow>,
    /// Looks at links; empty unless requested.
    pub link_rows: Vec<LinkRow>,
}

impl Sim<'_> {
    pub(crate) fn finish(mut self) -> Outcome {
        let scenario = self.scenario;
        let (count, in_flight, ended_at_ns) = (self.net.count, self.net.in_flight(), self.net.now_ns);
        let arrived_bytes = self.arrived_bytes();
        let mut stats: Vec<SenderStats> = self.sessions.iter().map(|s| s.past).collect();
        let mut arrivals: Vec<ReceiverStats> = self.sessions.iter().map(|s| s.past_arrivals).collect();
        for fetch in &mut self.fetches {
            stats[fetch.session as usize] += fetch.ends[1].sender.stats;
            arrivals[fetch.session as usize] += fetch.ends[0].receiver.take_stats();
        }
        let sum = |what: fn(&SenderStats) -> u64| stats.iter().map(what).sum();
        let (sender_retrans_segs, sender_timeouts, sender_probes, handshake_retrans_segs) = (
            sum(|s| s.retrans_segs),
            sum(|s| s.timeouts),
            sum(|s| s.probes),
            sum(|s| s.handshake_retrans_segs),
        );
        let rounds = self.fetches.iter_mut().take(scenario.flows.len());
        let rounds = rounds.map(|f| f.ends[1].sender.rounds.take().unwrap_or_default()).collect();
        // thousands of connections make room for what is reported of them
        drop(std::mem::take(&mut self.fetches));
        let flows = scenario
            .flows
            .iter()
            .zip(self.sessions)
            .zip(arrived_bytes.into_iter().zip(stats.iter().zip(&arrivals)))
            .map(|((flow, session), (bytes, (stats, arrivals)))| {
                flow_report(flow, session, bytes, stats, arrivals, ended_at_ns)
            })
            .collect();
        let links = link_reports(scenario, self.net.links);
        let mean_rtt_ms = mean_rtt_ms(scenario, &links);
        let windlass = self.boxed.map(|b| b.counters()).unwrap_or_default();
        let report = RunReport {
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            flows,
            links,
            ended_s: seconds(ended_at_ns),
            intervals: self.sampler.map(|s| s.intervals),
            mean_rtt_ms,
            sender_retrans_segs,
            sender_timeouts,
            sender_probes,
            handshake_retrans_segs,
            box_error: scenario.windlass.as_ref().and_then(|w| box_error(w, &windlass)),
            windlass,
            samples: Vec::new(),
        };
        let (flow_rows, link_rows) = self.looks.map(|l| (l.flows, l.links)).unwrap_or_default();
        Outcome { report, count, in_flight, ended_at_ns, rounds, flow_rows, link_rows }
    }
}

/// Reports of the links that the testbed would emulate.
fn link_reports(scenario: &Scenario, links: Vec<Link>) -> Vec<LinkReport> {
    let mut reports = Vec::new();
    for (index, (link, name)) in
        links.into_iter().zip(scenario.directions().into_iter().flatten()).enumerate()
    {
        if !scenario.links[index / 2].is_emulated() {
            continue;
        }
        let stats = link.model.finish();
        let mean_queue_ms = Some(stats.mean_queue_ms());
        reports.push(LinkReport { name, stats, mean_queue_ms });
    }
    reports
}

fn flow_report(
    flow: &Flow,
    session: Session,
    bytes: u64,
    stats: &SenderStats,
    arrivals: &ReceiverStats,
    ended_at_ns: u64,
) -> FlowReport {
    let mut report = FlowReport {
        name: flow.name(),
        class: flow.class.clone(),
        tenant: flow.tenant.clone(),
        started_s: flow.start.0,
        stopped_s: flow.stop.map(|stop| stop.0),
        bytes,
        timeouts: Some(stats.timeouts),
        retrans_segs: Some(stats.retrans_segs),
        arrived_segs: Some(arrivals.segs.into()),
        needless_segs: Some(arrivals.needless_segs.into()),
        longest_burst_segs: Some(stats.longest_burst_segs),
        ..FlowReport::default()
    };
    let Some(started_at_ns) = session.started_at_ns else {
        // one whose random start comes after its stop has nothing to send, which is no failure in the testbed either
        report.is_open_ended = session.is_stopped;
        report.checksum_ok = session.is_stopped;
        report.error = (!session.is_stopped).then(|| "not begun when the run ended".into());
        return report;
    };
    let sends_datagrams = flow.application == Application::Udp;
    if sends_datagrams {
        (report.timeouts, report.retrans_segs, report.longest_burst_segs) = (None, None, None);
        (report.arrived_segs, report.needless_segs) = (None, None);
        report.datagrams_sent = Some(session.datagrams);
    }
    let after_s = |at_ns: u64| seconds(at_ns - started_at_ns);
    report.first_byte_s = session.first_byte_at_ns.map(after_s);
    report.first_due_s = session.schedule.first_due_ns().map(after_s);
    let until_ns = match session.completed_at_ns {
        // whether they arrived is nothing to their sender
        _ if sends_datagrams => {
            report.is_open_ended = true;
            report.checksum_ok = true;
            let stopped_at_ns = flow.stop.map_or(ended_at_ns, |stop| stop.ns().min(ended_at_ns));
            session.completed_at_ns.unwrap_or(stopped_at_ns)
        }
        Some(completed_at_ns) => {
            report.completion_s = Some(after_s(completed_at_ns));
            report.checksum_ok = bytes == session.asked_bytes;
            completed_at_ns
        }
        None if flow.is_unlimited() || session.is_stopped => {
            report.is_open_ended = true;
            // what has arrived is right, and be it nothing, as in the testbed
            report.checksum_ok = true;
            let stopped_at_ns = flow.stop.map_or(ended_at_ns, |stop| stop.ns().min(ended_at_ns));
            report.is_cut = !flow.is_unlimited() && session.schedule.is_behind(stopped_at_ns);
            stopped_at_ns
        }
        None => {
            report.error = Some(format!("not finished when the run ended; {bytes} bytes arrived"));
            ended_at_ns
        }
    };
    if report.error.is_none() {
        report.goodput_bps = bytes as f64 * 8.0 / after_s(until_ns).max(1e-9);
    }
    if flow.single_size().is_none() {
        report.response_times = ResponseTimes::of(&session.responses);
        report.responses = session.responses;
        report.pages = session.pages;
    }
    report
}
