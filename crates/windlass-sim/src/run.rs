//! One run of a scenario, from the first connect() to the last FIN.

use crate::{
    boxed::WindlassBox,
    engine::Kind,
    fetch::Fetch,
    group::SharedGroup,
    link::Link,
    network::{Count, Happening, Network},
    pool::Pool,
    rng,
    tcp::{Config, Endpoint, Round},
    time::seconds,
    topology::Router,
};
use std::{
    collections::BTreeMap,
    num::NonZeroU64,
    sync::atomic::{AtomicBool, Ordering},
};
use windlass_core::{Algorithm, GroupRule};
use windlass_scenario::{Flow, FlowReport, Intervals, LinkReport, RunReport, Scenario, Switch, Windlass};

/// Why a scenario cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The algorithm is none of the core's.
    #[error("flow {from} > {to}: no algorithm \"{name}\" in the core; there are {known}")]
    UnknownAlgorithm {
        /// Sender.
        from: String,
        /// Receiver.
        to: String,
        /// What the scenario says.
        name: String,
        /// What it could say.
        known: String,
    },
    /// The same of the box.
    #[error("[windlass]: no algorithm \"{name}\" in the core; there are {known}")]
    UnknownBoxAlgorithm {
        /// What the scenario says.
        name: String,
        /// What it could say.
        known: String,
    },
    /// The rule of a group is none of the core's.
    #[error("[[group]] {group}: no rule \"{name}\" in the core; there are {known}")]
    UnknownRule {
        /// The group.
        group: String,
        /// What the scenario says.
        name: String,
        /// What it could say.
        known: String,
    },
    /// A flow begins or ends on the host of the box.
    #[error("[windlass]: at = \"{at}\" is an end of a flow; the simulated box must be a host between them")]
    BoxAtEnd {
        /// Host of the box.
        at: String,
    },
}

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// How hosts are set up.
    pub config: Config,
    /// Keep how the window was at the start of each round trip.
    pub traces_rounds: bool,
    /// Report what happened in intervals of this length; none: only sums.
    pub interval_ns: Option<NonZeroU64>,
    /// Set to stop early; flows that have not finished are reported as failed.
    pub cancel: Option<&'a AtomicBool>,
}

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
    /// For each flow, the server's rounds; empty unless asked for.
    pub rounds: Vec<Vec<Round>>,
}

/// How often a run looks whether it should stop, in happenings.
const LOOK_EVERY: u32 = 1 << 16;

/// Runs the scenario in virtual time.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<Outcome, SimError> {
    let mut sim = Sim::new(scenario, options)?;
    sim.run(options.cancel);
    Ok(sim.finish(scenario))
}

/// A run in hand.
pub(crate) struct Sim {
    pub(crate) net: Network,
    config: Config,
    pub(crate) fetches: Vec<Fetch>,
    boxed: Option<WindlassBox>,
    /// Transfers that are not over.
    open: usize,
    until_ns: u64,
    sampler: Option<Sampler>,
}

impl Sim {
    pub(crate) fn new(scenario: &Scenario, options: &RunOptions) -> Result<Sim, SimError> {
        let groups = groups(scenario)?;
        let boxed =
            scenario.windlass.as_ref().map(|w| windlass_box(w, scenario, options, &groups)).transpose()?;
        let mut net = Network::new(links(scenario), pools(scenario));
        let mut router = Router::new(scenario);
        let mut fetches = Vec::new();
        for (flow, index) in scenario.flows.iter().zip(0u32..) {
            let algorithm = algorithm(flow)?;
            let (client, server) = (flow.to.as_str(), flow.from.as_str());
            let mut end = |side: u32| {
                let id = 2 * index + side;
                let (from, to) = if side == 0 { (client, server) } else { (server, client) };
                let hop = router.path(from, to, id).expect("a scenario's flows are connected");
                let random = rng::of_endpoint(scenario.seed, id);
                let is_traced = options.traces_rounds && side == 1;
                Endpoint::new(id, id ^ 1, hop, algorithm, random, &options.config, is_traced)
            };
            let [client, mut server] = [end(0), end(1)];
            server.sender.group = flow
                .group
                .as_ref()
                .map(|name| Box::new(groups[name].membership(&flow.from, flow.weight as u32, 2 * index + 1)));
            fetches.push(Fetch::new([client, server], flow.size.count()));
            net.events.schedule(flow.start.ns(), Kind::Start, index);
        }
        net.paths = router.into_paths();
        let open = fetches.len();
        let sampler = options.interval_ns.map(|every_ns| Sampler::new(every_ns.get(), scenario));
        let until_ns = scenario.time_limit.ns();
        Ok(Sim { net, config: options.config, fetches, boxed, open, until_ns, sampler })
    }

    pub(crate) fn run(&mut self, cancel: Option<&AtomicBool>) {
        while let Some(due_ns) = self.sampler.as_ref().map(|s| s.due_ns).filter(|due| *due < self.until_ns) {
            if self.run_until(due_ns, cancel) {
                return;
            }
            self.sampler.iter_mut().for_each(|s| s.take(due_ns, &self.net, &self.fetches));
        }
        self.run_until(self.until_ns, cancel);
    }

    /// Returns whether the run is over, for all transfers are or somebody wants so.
    fn run_until(&mut self, until_ns: u64, cancel: Option<&AtomicBool>) -> bool {
        let Sim { net, config, fetches, boxed, open, .. } = self;
        let mut happenings = 0u32;
        while *open > 0
            && let Some(happening) = net.next(until_ns)
        {
            happenings = happenings.wrapping_add(1);
            if happenings.is_multiple_of(LOOK_EVERY) && cancel.is_some_and(|c| c.load(Ordering::Relaxed)) {
                return true;
            }
            match happening {
                Happening::Arrived(packet) => {
                    let fetch = &mut fetches[(packet.to >> 1) as usize];
                    *open -= usize::from(fetch.on_packet(&packet, net, config));
                }
                Happening::AtBox(to_sender, packet) => {
                    boxed.iter_mut().for_each(|b| b.on_packet(packet, to_sender, net));
                }
                Happening::Timer(Kind::Box, index) => boxed.iter_mut().for_each(|b| b.on_clock(index, net)),
                Happening::Timer(Kind::Start, index) => fetches[index as usize].start(net, config),
                Happening::Timer(kind, id) => {
                    let end = &mut fetches[(id >> 1) as usize].ends[(id & 1) as usize];
                    match kind {
                        Kind::Xmit => end.on_xmit_timer(net, config),
                        Kind::Pace => end.on_pace_timer(net, config),
                        Kind::Ack => end.on_ack_timer(net, config),
                        Kind::Group => end.on_group(net, config),
                        Kind::Link | Kind::Packet | Kind::Start | Kind::Box => {}
                    }
                }
            }
        }
        *open == 0
    }

    pub(crate) fn finish(mut self, scenario: &Scenario) -> Outcome {
        let flows =
            scenario.flows.iter().zip(&self.fetches).map(|(flow, fetch)| flow_report(flow, fetch)).collect();
        let servers = || self.fetches.iter().map(|f| f.ends[1].sender.stats);
        let sum = |what: fn(crate::SenderStats) -> u64| servers().map(what).sum();
        let (sender_retrans_segs, sender_timeouts, sender_probes, handshake_retrans_segs) = (
            sum(|s| s.retrans_segs),
            sum(|s| s.timeouts),
            sum(|s| s.probes),
            sum(|s| s.handshake_retrans_segs),
        );
        let rounds =
            self.fetches.iter_mut().map(|f| f.ends[1].sender.rounds.take().unwrap_or_default()).collect();
        let (count, in_flight, ended_at_ns) = (self.net.count, self.net.in_flight(), self.net.now_ns);
        let intervals = self.sampler.map(|mut sampler| {
            sampler.take(ended_at_ns, &self.net, &self.fetches);
            sampler.intervals
        });
        let links = link_reports(scenario, self.net.links);
        let mean_rtt_ms = 1e3 * scenario.links.iter().map(|l| 2.0 * l.delay.0).sum::<f64>()
            + links.iter().map(|l| l.mean_queue_ms).sum::<f64>();
        let report = RunReport {
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            flows,
            links,
            ended_s: seconds(ended_at_ns),
            intervals,
            mean_rtt_ms,
            sender_retrans_segs,
            sender_timeouts,
            sender_probes,
            handshake_retrans_segs,
            windlass: self.boxed.map(|b| b.counters()).unwrap_or_default(),
            samples: Vec::new(),
        };
        Outcome { report, count, in_flight, ended_at_ns, rounds }
    }
}

fn known() -> String {
    Algorithm::all().map(|a| a.name()).collect::<Vec<_>>().join(", ")
}

fn algorithm(flow: &Flow) -> Result<Algorithm, SimError> {
    Algorithm::by_name(&flow.algorithm).ok_or_else(|| SimError::UnknownAlgorithm {
        from: flow.from.clone(),
        to: flow.to.clone(),
        name: flow.algorithm.clone(),
        known: known(),
    })
}

fn groups(scenario: &Scenario) -> Result<BTreeMap<String, SharedGroup>, SimError> {
    let made = |spec: &windlass_scenario::Group| {
        let group = SharedGroup::new(spec).ok_or_else(|| SimError::UnknownRule {
            group: spec.name.clone(),
            name: spec.rule.clone(),
            known: GroupRule::all().map(|r| r.name()).collect::<Vec<_>>().join(", "),
        })?;
        Ok((spec.name.clone(), group))
    };
    scenario.groups.iter().map(made).collect()
}

fn windlass_box(
    w: &Windlass,
    scenario: &Scenario,
    options: &RunOptions,
    groups: &BTreeMap<String, SharedGroup>,
) -> Result<WindlassBox, SimError> {
    let unknown = || SimError::UnknownBoxAlgorithm { name: w.algorithm.clone(), known: known() };
    let algorithm = Algorithm::by_name(&w.algorithm).ok_or_else(unknown)?;
    if scenario.flows.iter().any(|f| f.from == w.at || f.to == w.at) {
        return Err(SimError::BoxAtEnd { at: w.at.clone() });
    }
    let random = rng::of_box(scenario.seed);
    let member = |(flow, index): (&Flow, u32)| {
        let group = &groups[w.group.as_ref()?];
        Some(group.membership(&flow.from, flow.weight as u32, index))
    };
    let members = scenario.flows.iter().zip(0..).map(member).collect();
    Ok(WindlassBox::new(algorithm, w.mode, members, random, &options.config))
}

/// Both directions of each link.
fn links(scenario: &Scenario) -> Vec<Link> {
    let both = |(index, link): (usize, &windlass_scenario::Link)| {
        [false, true].map(|backward| Link::new(scenario.link_model(index, backward), link.reorder))
    };
    scenario.links.iter().enumerate().flat_map(both).collect()
}

/// Buffers that the ports of a switch share.
fn pools(scenario: &Scenario) -> Vec<Pool> {
    let pool = |switch: &Switch| {
        let limit = switch.ports.shared_buffer?;
        let port = |(index, link): (usize, &windlass_scenario::Link)| {
            let side = link.between.iter().position(|end| *end == switch.name)?;
            link.rate.map(|_| (2 * index + side) as u32)
        };
        Some(Pool::new(limit, scenario.links.iter().enumerate().filter_map(port).collect()))
    };
    scenario.switches.iter().filter_map(pool).collect()
}

/// Looks at flows and links at equal intervals. That needs no events, so it cannot change a run.
struct Sampler {
    due_ns: u64,
    every_ns: u64,
    /// Payload of each flow at the last look.
    arrived_bytes: Vec<u64>,
    /// Directions of links that are looked at.
    links: Vec<usize>,
    intervals: Intervals,
}

impl Sampler {
    fn new(every_ns: u64, scenario: &Scenario) -> Sampler {
        let links: Vec<usize> =
            (0..2 * scenario.links.len()).filter(|i| scenario.links[i / 2].is_emulated()).collect();
        let flows = scenario.flows.len();
        let intervals = Intervals {
            every_s: seconds(every_ns),
            flow_bytes: vec![Vec::new(); flows],
            link_packets: vec![Vec::new(); links.len()],
        };
        Sampler { due_ns: every_ns, every_ns, arrived_bytes: vec![0; flows], links, intervals }
    }

    fn take(&mut self, now_ns: u64, net: &Network, fetches: &[Fetch]) {
        for ((fetch, bytes), last) in
            fetches.iter().zip(&mut self.intervals.flow_bytes).zip(&mut self.arrived_bytes)
        {
            let arrived_bytes = fetch.arrived_bytes();
            bytes.push(arrived_bytes - *last);
            *last = arrived_bytes;
        }
        for (&link, packets) in self.links.iter().zip(&mut self.intervals.link_packets) {
            packets.push(net.links[link].model.queued_packets(now_ns) as u32);
        }
        self.due_ns += self.every_ns;
    }
}

/// Reports of the links that the testbed would emulate.
fn link_reports(scenario: &Scenario, links: Vec<Link>) -> Vec<LinkReport> {
    let mut reports = Vec::new();
    for (index, link) in links.into_iter().enumerate() {
        let scenario_link = &scenario.links[index / 2];
        if !scenario_link.is_emulated() {
            continue;
        }
        let [a, b] = &scenario_link.between;
        let (from, to) = if index % 2 == 0 { (a, b) } else { (b, a) };
        let stats = link.model.finish();
        let mean_queue_ms = stats.mean_queue_ms();
        reports.push(LinkReport { name: format!("{from} > {to}"), stats, mean_queue_ms });
    }
    reports
}

fn flow_report(flow: &Flow, fetch: &Fetch) -> FlowReport {
    let stats = fetch.ends[1].sender.stats;
    let bytes = fetch.arrived_bytes();
    let mut report = FlowReport {
        name: format!("{} > {}", flow.from, flow.to),
        class: flow.class.clone(),
        tenant: flow.tenant.clone(),
        started_s: flow.start.0,
        bytes,
        timeouts: Some(stats.timeouts),
        retrans_segs: Some(stats.retrans_segs),
        ..FlowReport::default()
    };
    let (Some(started_at_ns), Some(completed_at_ns)) = (fetch.started_at_ns, fetch.completed_at_ns) else {
        report.error = Some(format!("not finished when the run ended; {bytes} bytes arrived"));
        return report;
    };
    let completion_s = seconds(completed_at_ns - started_at_ns);
    report.completion_s = Some(completion_s);
    report.first_byte_s = fetch.first_byte_at_ns.map(|at_ns| seconds(at_ns - started_at_ns));
    report.goodput_bps = bytes as f64 * 8.0 / completion_s.max(1e-9);
    report.checksum_ok = bytes == flow.size.count();
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    /// Thousands of idle connections must fit: at most 4 KiB each, both ends and their scoreboards together.
    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Fetch>() <= 2560, "{}", size_of::<Fetch>());
    }
}
