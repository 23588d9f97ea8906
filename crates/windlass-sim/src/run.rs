//! One run of a scenario, from the first connect() to the last FIN.

use crate::{
    boxed::WindlassBox,
    engine::Kind,
    error::SimError,
    fetch::{Fetch, LINGER_NS, notice},
    group::{Membership, SharedGroup},
    link::Link,
    memory,
    network::{Count, Happening, Network},
    packet::Packet,
    pool::Pool,
    prefetch::prefetch_all,
    rng,
    session::Session,
    tcp::{Config, Endpoint, Round, SenderStats},
    time::seconds,
    topology::Router,
    trace::{Scene, Trace, TraceOptions},
};
use rand_xoshiro::SplitMix64;
use std::{
    collections::{BTreeMap, VecDeque},
    num::NonZeroU64,
    sync::atomic::{AtomicBool, Ordering},
};
use windlass_core::Algorithm;
use windlass_scenario::{
    Bytes, Connections, Flow, FlowReport, Intervals, LinkReport, Response, ResponseTimes, RunReport,
    Scenario, Switch, Windlass, mean_rtt_ms,
};

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    /// How hosts are set up.
    pub config: Config,
    /// Keep how the window was at the start of each round trip.
    pub traces_rounds: bool,
    /// Report what happened in intervals of this length; none: only sums.
    pub interval_ns: Option<NonZeroU64>,
    /// Write what happened into files.
    pub trace: Option<TraceOptions<'a>>,
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

/// Whether the scenario can be simulated, without running it: are all algorithms and rules known, is the box where it can be,
/// does time pass?
/// What memory a run may need is looked at when it begins.
pub fn check(scenario: &Scenario) -> Result<(), SimError> {
    scenario.flows.iter().try_for_each(|flow| algorithm(flow).map(|_| ()))?;
    if let Some(w) = &scenario.windlass {
        windlass_box(w, scenario, &Config::default())?;
    }
    check_time(scenario)
}

/// Runs the scenario in virtual time. Says before it begins if it might not fit into the machine's memory.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<Outcome, SimError> {
    memory::check(memory::needed_bytes(scenario, &options.config, options.interval_ns))?;
    let mut sim = Sim::new(scenario, options)?;
    sim.run(options.cancel);
    sim.look(sim.net.now_ns);
    let (trace, tap) = (sim.trace.take(), sim.net.tap.take());
    let outcome = sim.finish();
    if let (Some(trace), Some(options)) = (trace, options.trace) {
        trace.finish(tap, &outcome.report).map_err(|e| SimError::trace(options.folder, &e))?;
    }
    Ok(outcome)
}

/// A run in hand.
pub(crate) struct Sim<'a> {
    pub(crate) net: Network,
    config: Config,
    scenario: &'a Scenario,
    /// Connections. Those of flows that keep theirs come first, in the order of the flows.
    pub(crate) fetches: Vec<Fetch>,
    sessions: Vec<Session>,
    /// Connections that are over, with when, oldest first: their places can be used again.
    past: VecDeque<(u64, u32)>,
    groups: BTreeMap<String, SharedGroup>,
    boxed: Option<WindlassBox>,
    /// Flows that are not over.
    open: usize,
    until_ns: u64,
    sampler: Option<Sampler>,
    trace: Option<Trace>,
}

impl<'a> Sim<'a> {
    pub(crate) fn new(scenario: &'a Scenario, options: &RunOptions) -> Result<Sim<'a>, SimError> {
        check_time(scenario)?;
        let config = options.config.with(&scenario.tcp, &scenario.parameters);
        let boxed = scenario.windlass.as_ref().map(|w| windlass_box(w, scenario, &config)).transpose()?;
        let mut sim = Sim {
            net: Network::new(links(scenario), pools(scenario)),
            config,
            scenario,
            fetches: Vec::with_capacity(scenario.flows.len()),
            sessions: Vec::with_capacity(scenario.flows.len()),
            past: VecDeque::new(),
            groups: groups(scenario),
            boxed,
            open: scenario.flows.len(),
            until_ns: scenario.time_limit.ns(),
            sampler: options.interval_ns.map(|every_ns| Sampler::new(every_ns.get(), scenario)),
            trace: None,
        };
        if let Some(trace) = &options.trace {
            let begun = Trace::new(trace, scenario, &config);
            let (trace, tap) = begun.map_err(|e| SimError::trace(trace.folder, &e))?;
            sim.trace = Some(trace);
            sim.net.tap = Some(Box::new(tap));
        }
        let mut router = Router::new(scenario);
        for (flow, index) in scenario.flows.iter().zip(0u32..) {
            let mut path = |from: &str, to: &str, end: u32| {
                router.path(from, to, 2 * index + end).expect("a scenario's flows are connected")
            };
            let hops = [path(&flow.to, &flow.from, 0), path(&flow.from, &flow.to, 1)];
            sim.sessions.push(Session::new(scenario.seed, index as usize, algorithm(flow)?, hops));
            let random = [0, 1].map(|end| rng::of_endpoint(scenario.seed, 2 * index + end));
            // a flow with a connection for each response does not need this one, but its number is its own
            let fetch = sim.new_fetch(index, index, random, options.traces_rounds);
            sim.fetches.push(fetch);
            sim.net.events.schedule(flow.start.ns(), Kind::Start, index);
            if let Some(stop) = flow.stop {
                sim.net.events.schedule(stop.ns(), Kind::Start, index);
            }
        }
        sim.net.paths = router.into_paths();
        Ok(sim)
    }

    pub(crate) fn run(&mut self, cancel: Option<&AtomicBool>) {
        while let Some(due_ns) = self.next_look_ns() {
            if self.run_until(due_ns, cancel) {
                return;
            }
            self.look(due_ns);
        }
        if !self.run_until(self.until_ns, cancel) {
            // nothing may happen for long before the limit, and that time counts
            self.net.now_ns = self.until_ns;
        }
    }

    /// When flows and links are to be looked at next.
    fn next_look_ns(&self) -> Option<u64> {
        let sampler = self.sampler.as_ref().map(|s| s.due_ns);
        let trace = self.trace.as_ref().map(|t| t.due_ns);
        sampler.into_iter().chain(trace).min().filter(|due_ns| *due_ns < self.until_ns)
    }

    /// Returns whether the run is over, for all flows are or somebody wants so.
    fn run_until(&mut self, until_ns: u64, cancel: Option<&AtomicBool>) -> bool {
        let mut happenings = 0u32;
        let mut packet = Packet::default();
        while self.open > 0 {
            let Sim { net, fetches, .. } = self;
            let soon = |id: u32| prefetch_all(&fetches[(id >> 1) as usize].ends[(id & 1) as usize]);
            let Some(happening) = net.next(until_ns, &mut packet, soon) else { break };
            happenings = happenings.wrapping_add(1);
            if happenings.is_multiple_of(LOOK_EVERY) && cancel.is_some_and(|c| c.load(Ordering::Relaxed)) {
                return true;
            }
            let Sim { net, config, fetches, boxed, .. } = self;
            match happening {
                Happening::Arrived => {
                    if let Some(tap) = &mut net.tap {
                        tap.on_arrival(net.now_ns, &packet);
                    }
                    let connection = packet.to >> 1;
                    let notices = fetches[connection as usize].on_packet(&packet, net, config);
                    if notices != 0 {
                        self.attend(connection, notices);
                    }
                }
                // the box knows a connection by its place, so it must not see what is not of it
                Happening::AtBox(_) if fetches[(packet.to >> 1) as usize].is_past(&packet, net.now_ns) => {
                    net.send(packet.hop + 1, &packet);
                }
                Happening::AtBox(to_sender) => {
                    boxed.iter_mut().for_each(|b| b.on_packet(packet, to_sender, net));
                }
                Happening::Timer(Kind::Box, index) => boxed.iter_mut().for_each(|b| b.on_clock(index, net)),
                Happening::Timer(Kind::Start, index) => self.wake(index),
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
        self.open == 0
    }

    /// A flow begins, ends, or has something to ask for.
    fn wake(&mut self, index: u32) {
        let flow = &self.scenario.flows[index as usize];
        let now_ns = self.net.now_ns;
        let session = &mut self.sessions[index as usize];
        if session.is_over() {
            return;
        }
        if flow.stop.is_some_and(|stop| stop.ns() <= now_ns) {
            return self.stop(index);
        }
        if session.started_at_ns.is_none() {
            session.start(flow, now_ns);
            if flow.connections == Connections::Persistent {
                session.open = 1;
                self.fetches[index as usize].connect(None, &mut self.net, &self.config);
            }
        }
        self.ask(index);
    }

    /// Asks for what is due, and has the flow woken for what will be.
    fn ask(&mut self, index: u32) {
        let flow = &self.scenario.flows[index as usize];
        let now_ns = self.net.now_ns;
        if flow.connections == Connections::PerResponse {
            while let Some(due) = self.sessions[index as usize].take_due(flow, now_ns) {
                self.connect(index, due);
            }
        } else {
            let fetch = &mut self.fetches[index as usize];
            let session = &mut self.sessions[index as usize];
            while fetch.is_connected()
                && let Some((due_ns, size_bytes)) = session.take_due(flow, now_ns)
            {
                fetch.ask(due_ns, size_bytes, &mut self.net, &self.config);
            }
        }
        if let Some(due_ns) = self.sessions[index as usize].wake_at_ns(now_ns) {
            self.net.events.schedule(due_ns, Kind::Start, index);
        }
    }

    /// Opens a connection for one response.
    fn connect(&mut self, index: u32, due: (u64, Option<u64>)) {
        self.sessions[index as usize].open += 1;
        let now_ns = self.net.now_ns;
        let is_free = |(over_ns, _): &(u64, u32)| over_ns + LINGER_NS <= now_ns;
        let place = match self.past.front().copied().filter(is_free) {
            Some((_, place)) => {
                self.past.pop_front();
                place
            }
            None => self.fetches.len() as u32,
        };
        // another connection, other luck
        let random = [0, 1].map(|end| rng::of_connection(self.scenario.seed, 2 * place + end, now_ns));
        let mut fetch = self.new_fetch(place, index, random, false);
        fetch.connect(Some(due), &mut self.net, &self.config);
        match self.fetches.get_mut(place as usize) {
            Some(old) => *old = fetch,
            None => self.fetches.push(fetch),
        }
    }

    /// A connection of flow `index` that has not begun, at place `place`.
    fn new_fetch(&mut self, place: u32, index: u32, random: [SplitMix64; 2], is_traced: bool) -> Fetch {
        let flow = &self.scenario.flows[index as usize];
        let Session { algorithm, hops, .. } = self.sessions[index as usize];
        let [of_client, of_server] = random;
        let most = |max: &Bytes| Config { rcv_window_max_bytes: max.count() as u32, ..self.config };
        let config = flow.receive_window_max.as_ref().map_or(self.config, most);
        let end = |side: u32, random| {
            let id = 2 * place + side;
            let is_traced = is_traced && side == 1;
            Endpoint::new(id, id ^ 1, hops[side as usize], algorithm, random, &config, is_traced)
        };
        let [client, mut server] = [end(0, of_client), end(1, of_server)];
        let member = |name: &Option<String>, id: u32| -> Option<Membership> {
            Some(self.groups[name.as_ref()?].membership(&flow.from, flow.weight as u32, id))
        };
        server.sender.is_as_linux = is_kernels(flow);
        server.sender.group = member(&flow.group, 2 * place + 1).map(Box::new);
        if let (Some(boxed), Some(w)) = (&mut self.boxed, &self.scenario.windlass) {
            boxed.on_new_connection(place, client.receiver.wscale(), member(&w.group, place));
        }
        if let Some(tap) = &mut self.net.tap {
            tap.on_new_connection(place, index, client.receiver.wscale());
        }
        Fetch::new([client, server], index, flow.application, self.net.now_ns)
    }

    /// Ends a flow, whatever it has sent.
    fn stop(&mut self, index: u32) {
        let session = &mut self.sessions[index as usize];
        session.is_stopped = true;
        let first = index as usize;
        let places = match self.scenario.flows[first].connections {
            Connections::Persistent => first..first + 1,
            // behind those that flows keep
            Connections::PerResponse => self.scenario.flows.len()..self.fetches.len(),
        };
        let is_open = |f: &&mut Fetch| f.session == index && f.is_begun() && !f.is_over();
        for fetch in self.fetches[places].iter_mut().filter(is_open).take(session.open as usize) {
            session.arrived_bytes += fetch.stop(&mut self.net, &self.config);
        }
        self.open -= usize::from(session.is_over());
    }

    /// Deals with what a packet meant to the application of a connection.
    fn attend(&mut self, connection: u32, notices: u8) {
        let fetch = &mut self.fetches[connection as usize];
        let index = fetch.session;
        let session = &mut self.sessions[index as usize];
        let flow = &self.scenario.flows[index as usize];
        let now_ns = self.net.now_ns;
        if notices & notice::FIRST_BYTE != 0 {
            session.first_byte_at_ns.get_or_insert(now_ns);
        }
        if notices & notice::RESPONSE != 0 {
            while let Some(asked) = fetch.take_arrived() {
                let response = Response {
                    asked_s: seconds(asked.at_ns),
                    took_s: seconds(now_ns - asked.at_ns),
                    bytes: asked.size_bytes.unwrap_or(0),
                };
                session.on_response(flow, response, now_ns);
            }
            if session.completed_at_ns.is_some() || flow.connections == Connections::PerResponse {
                fetch.close(&mut self.net, &self.config);
            }
        }
        if notices & (notice::RESPONSE | notice::CONNECTED) != 0 {
            self.ask(index);
        }
        if notices & notice::OVER != 0 {
            self.on_over(connection, index);
        }
    }

    /// Both ends of a connection have closed.
    fn on_over(&mut self, connection: u32, index: u32) {
        let session = &mut self.sessions[index as usize];
        session.open -= 1;
        if self.scenario.flows[index as usize].connections == Connections::PerResponse {
            let sender = &mut self.fetches[connection as usize].ends[1].sender;
            session.past += std::mem::take(&mut sender.stats);
            sender.group = None;
            self.past.push_back((self.net.now_ns, connection));
        }
        self.open -= usize::from(session.is_over());
    }

    /// Payload of each flow that has arrived.
    fn arrived_bytes(&self) -> Vec<u64> {
        let mut bytes: Vec<u64> = self.sessions.iter().map(|s| s.arrived_bytes).collect();
        for fetch in &self.fetches {
            bytes[fetch.session as usize] += fetch.partial_bytes();
        }
        bytes
    }

    /// Looks at flows and links, for whoever is due or at the end of the run.
    pub(crate) fn look(&mut self, now_ns: u64) {
        let arrived_bytes = self.arrived_bytes();
        let is_end = self.next_look_ns() != Some(now_ns);
        let Sim { net, fetches, sessions, scenario, boxed, .. } = self;
        if let Some(sampler) = self.sampler.as_mut().filter(|s| is_end || s.due_ns == now_ns) {
            sampler.take(now_ns, net, &arrived_bytes);
        }
        if let Some(trace) = self.trace.as_mut().filter(|t| is_end || t.due_ns == now_ns) {
            let (boxed, arrived_bytes) = (boxed.as_ref(), &arrived_bytes[..]);
            trace.look(&Scene { now_ns, scenario, net, fetches, sessions, boxed, arrived_bytes });
        }
    }

    pub(crate) fn finish(mut self) -> Outcome {
        let scenario = self.scenario;
        let (count, in_flight, ended_at_ns) = (self.net.count, self.net.in_flight(), self.net.now_ns);
        let arrived_bytes = self.arrived_bytes();
        let mut stats: Vec<SenderStats> = self.sessions.iter().map(|s| s.past).collect();
        self.fetches.iter().for_each(|f| stats[f.session as usize] += f.ends[1].sender.stats);
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
            .zip(arrived_bytes.into_iter().zip(&stats))
            .map(|((flow, session), (bytes, stats))| flow_report(flow, session, bytes, stats, ended_at_ns))
            .collect();
        let links = link_reports(scenario, self.net.links);
        let mean_rtt_ms = mean_rtt_ms(scenario, &links);
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
            windlass: self.boxed.map(|b| b.counters()).unwrap_or_default(),
            samples: Vec::new(),
        };
        Outcome { report, count, in_flight, ended_at_ns, rounds }
    }
}

/// Whether a flow's algorithm is the kernel's own: in the testbed, too, what is Windlass' has a prefix, and what is coupled
/// runs Windlass' own, as only that talks to groups.
fn is_kernels(flow: &Flow) -> bool {
    flow.group.is_none() && !flow.algorithm.starts_with("wl_")
}

/// A flow's algorithm, by the name that a host of the testbed would know it by. The kernel's Reno and CUBIC follow older texts
/// than the core's, its BBR lacks what was added to that ([`WL_ALG_AS_LINUX`](windlass_core::abi::WL_ALG_AS_LINUX)).
fn algorithm_of(flow: &Flow) -> Option<Algorithm> {
    let name = flow.algorithm.strip_prefix("wl_").unwrap_or(&flow.algorithm);
    Algorithm::by_name(match name {
        "reno" if is_kernels(flow) => "kreno",
        "cubic" if is_kernels(flow) => "kcubic",
        name => name,
    })
}

fn algorithm(flow: &Flow) -> Result<Algorithm, SimError> {
    algorithm_of(flow).ok_or_else(|| SimError::UnknownAlgorithm {
        from: flow.from.clone(),
        to: flow.to.clone(),
        name: flow.algorithm.clone(),
        known: Algorithm::names(),
    })
}

fn groups(scenario: &Scenario) -> BTreeMap<String, SharedGroup> {
    let shared = |spec| SharedGroup::new(spec).expect("a scenario's groups have been checked");
    scenario.groups.iter().map(|spec| (spec.name.clone(), shared(spec))).collect()
}

fn windlass_box(w: &Windlass, scenario: &Scenario, config: &Config) -> Result<WindlassBox, SimError> {
    let unknown = || SimError::UnknownBoxAlgorithm { name: w.algorithm.clone(), known: Algorithm::names() };
    let algorithm = Algorithm::by_name(&w.algorithm).ok_or_else(unknown)?;
    if scenario.flows.iter().any(|f| f.from == w.at || f.to == w.at) {
        return Err(SimError::BoxAtEnd { at: w.at.clone() });
    }
    let random = rng::of_box(scenario.seed);
    Ok(WindlassBox::new(algorithm, w.mode, random, config))
}

/// Whether time passes for each flow without end. Others need none: they are over after so many events at one instant.
fn check_time(scenario: &Scenario) -> Result<(), SimError> {
    let takes_time =
        |link: &windlass_scenario::Link| link.rate.is_some() || link.delay.ns() > 0 || link.jitter.ns() > 0;
    if scenario.links.iter().all(takes_time) {
        return Ok(()); // so that no paths have to be found in large networks
    }
    let mut router = Router::new(scenario);
    for (index, flow) in scenario.flows.iter().enumerate().filter(|(_, flow)| flow.is_unlimited()) {
        let Flow { from, to, .. } = flow;
        let there = router.links(from, to, 2 * index as u32 + 1).into_iter();
        let back = router.links(to, from, 2 * index as u32);
        if !there.chain(back).flatten().any(|link| takes_time(&scenario.links[link])) {
            return Err(SimError::Timeless { flow: index, from: from.clone(), to: to.clone() });
        }
    }
    Ok(())
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

    fn take(&mut self, now_ns: u64, net: &Network, arrived_bytes: &[u64]) {
        for ((arrived, bytes), last) in
            arrived_bytes.iter().zip(&mut self.intervals.flow_bytes).zip(&mut self.arrived_bytes)
        {
            bytes.push(arrived - *last);
            *last = *arrived;
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
    let after_s = |at_ns: u64| seconds(at_ns - started_at_ns);
    report.first_byte_s = session.first_byte_at_ns.map(after_s);
    report.first_due_s = session.schedule.first_due_ns().map(after_s);
    let until_ns = match session.completed_at_ns {
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
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    /// Two hosts beside each other, and two with a router between them.
    fn with_links(first: &str, second: &str, flow: &str) -> Scenario {
        let text = format!(
            "name = \"t\"\ntime_limit = \"1 s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"r\"\n[[host]]\nname = \"b\"\n\
             [[link]]\nbetween = [\"a\", \"r\"]\n{first}\n[[link]]\nbetween = [\"r\", \"b\"]\n{second}\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
        );
        Scenario::parse("t", &text).unwrap()
    }

    /// Nothing would ever end such a run; what has an end needs no time.
    #[test]
    fn an_unlimited_flow_over_links_without_time_is_refused() {
        let scenario = with_links("", "loss = \"1 %\"", "size = \"unlimited\"\nstop = \"500 ms\"");
        let timeless = SimError::Timeless { flow: 0, from: "a".into(), to: "b".into() };
        assert_eq!(check(&scenario), Err(timeless.clone()));
        assert_eq!(run(&scenario, &RunOptions::default()).unwrap_err(), timeless);
        assert!(timeless.to_string().ends_with("give a link of its path a delay or a rate"));
        let train =
            "[[flow.train]]\ncount = 1\nsize = \"1 kB\"\n[[flow.train]]\ncount = 1\nsize = \"unlimited\"";
        assert!(check(&with_links("", "", train)).is_err());
        for link in ["rate = \"1 Mbit/s\"", "delay = \"1 us\"", "jitter = \"1 us\""] {
            assert_eq!(check(&with_links("", link, "size = \"unlimited\"")), Ok(()), "{link}");
        }
        let finite = run(&with_links("", "", "size = \"1 MB\""), &RunOptions::default()).unwrap();
        assert_eq!(finite.report.flows[0].completion_s, Some(0.0));
    }

    /// The window field in units of 2^10 ends at 67 MB, and without the scenario's word windows at 20 MiB. What one flow needs
    /// makes no other's window coarser.
    #[test]
    fn windows_are_as_large_as_the_scenario_says() {
        for (tcp_bytes, flow_bytes, wscales, most_bytes) in [
            (None, None, [10, 10], 20 << 20),
            (Some(30_000_000), None, [10, 10], 30_000_000),
            (Some(1_000_000_000), None, [14, 14], 1_000_000_000),
            (None, Some(100_000_000), [11, 10], 100_000_000),
            (Some(1_000_000_000), Some(67_000_000), [10, 14], 67_000_000),
        ] {
            let bytes = |n: Option<u32>| n.map(|n| Bytes(n.into()));
            let mut scenario = with_links("", "delay = \"1 ms\"", "size = \"1 MB\"");
            scenario.tcp.receive_window = bytes(tcp_bytes);
            scenario.flows.push(scenario.flows[0].clone());
            scenario.flows[0].receive_window_max = bytes(flow_bytes);
            let sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
            let of_ends = |fetch: &Fetch| fetch.ends.each_ref().map(|end| end.receiver.wscale());
            assert_eq!(
                [0, 1].map(|i| of_ends(&sim.fetches[i])),
                wscales.map(|w| [w; 2]),
                "{most_bytes} bytes"
            );
            assert_eq!(flow_bytes.unwrap_or(sim.config.rcv_window_max_bytes), most_bytes);
        }
    }

    /// The box shows windows of each flow in the units that its receiver has announced.
    #[test]
    fn the_box_learns_the_units_of_each_window() {
        let mut scenario = with_links("", "delay = \"1 ms\"", "size = \"1 MB\"");
        scenario.flows.push(scenario.flows[0].clone());
        scenario.flows[0].receive_window_max = Some(Bytes(1e8));
        scenario.windlass = Some(Windlass {
            at: "r".into(),
            facing: "a".into(),
            algorithm: "bbr".into(),
            mode: windlass_scenario::Mode::Transparent,
            group: None,
        });
        let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
        sim.run(None);
        let boxed = sim.boxed.unwrap();
        assert_eq!([0, 1].map(|i| boxed.flow(i).unwrap().state().rcv_wscale()), [11, 10]);
    }

    /// Thousands of idle connections must fit: at most 4 KiB each, both ends and their scoreboards together.
    #[test]
    fn an_idle_connection_is_small() {
        assert!(size_of::<Fetch>() <= 2560, "{}", size_of::<Fetch>());
    }
}
