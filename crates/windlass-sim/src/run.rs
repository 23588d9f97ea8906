//! One run of a scenario, from the first connect() to the last FIN.

mod datagrams;
mod outcome;
mod pages;
mod sampler;
mod setup;
mod view;

pub use outcome::Outcome;
pub use view::Connection;

use crate::{
    boxed::WindlassBox,
    discipline::Class,
    engine::Kind,
    error::SimError,
    fetch::{Fetch, LINGER_NS, notice},
    group::{Membership, SharedGroup},
    memory,
    network::{Happening, Network},
    packet::Packet,
    rng,
    session::Session,
    tap::Tap,
    tcp::{Config, Endpoint, Outside},
    time::seconds,
    topology::{Router, Sender},
    trace::{Looks, Scene, Trace, TraceOptions},
};
use pages::Loading;
use rand_xoshiro::SplitMix64;
use sampler::Sampler;
use setup::{algorithm, check_time, groups, is_kernels, links, pools, rows, windlass_box};
use std::{
    collections::{BTreeMap, VecDeque},
    num::{NonZeroU32, NonZeroU64},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};
use windlass_scenario::{Application, Bytes, Connections, Response, Scenario};

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
    /// Write all packets into servers.pcap and clients.pcap in this folder, made if need be.
    pub captures: Option<&'a Path>,
    /// Look at flows and links so often, and keep what there is to be seen.
    pub looks_ns: Option<NonZeroU64>,
    /// Flows whose congestion control is not the core's.
    pub outside: Option<&'a dyn Outside>,
    /// Set to stop early; flows that have not finished are reported as failed.
    pub cancel: Option<&'a AtomicBool>,
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

/// Runs the scenario in virtual time. Warns before it begins if it might not fit into the machine's memory.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<Outcome, SimError> {
    memory::check(memory::needed_bytes(scenario, &options.config, options.interval_ns))?;
    let mut sim = Sim::new(scenario, options)?;
    sim.run(options.cancel);
    sim.look(sim.net.now_ns);
    let (trace, tap) = (sim.trace.take(), sim.net.tap.take());
    let outcome = sim.finish();
    if let (Some(trace), Some(options)) = (trace, options.trace) {
        trace.finish(&outcome.report).map_err(|e| SimError::trace(options.folder, &e))?;
    }
    if let (Some(tap), Some(folder)) = (tap, options.captures) {
        tap.finish().map_err(|e| SimError::trace(folder, &e))?;
    }
    Ok(outcome)
}

/// A run in hand.
#[derive(Debug)]
pub(crate) struct Sim<'a> {
    pub(crate) net: Network,
    pub(crate) config: Config,
    scenario: &'a Scenario,
    /// Connections. Those of flows that keep theirs come first, in the order of the flows.
    pub(crate) fetches: Vec<Fetch>,
    pub(crate) sessions: Vec<Session>,
    /// Connections that are over, with when, oldest first: their places can be used again.
    past: VecDeque<(u64, u32)>,
    /// Pages that are being loaded, by their number, and the next one's.
    pages: BTreeMap<NonZeroU32, Loading>,
    next_page: NonZeroU32,
    groups: BTreeMap<String, SharedGroup>,
    router: Router,
    /// By the name of a row: the hosts that connections draw their receivers from.
    rows: BTreeMap<&'a str, Vec<&'a str>>,
    boxed: Option<WindlassBox>,
    /// Flows that are not over.
    open: usize,
    pub(crate) until_ns: u64,
    sampler: Option<Sampler>,
    trace: Option<Trace>,
    looks: Option<Looks>,
    outside: Option<&'a dyn Outside>,
}

impl<'a> Sim<'a> {
    pub(crate) fn new(scenario: &'a Scenario, options: &RunOptions<'a>) -> Result<Sim<'a>, SimError> {
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
            pages: BTreeMap::new(),
            next_page: NonZeroU32::MIN,
            groups: groups(scenario),
            router: Router::new(scenario),
            rows: rows(scenario),
            boxed,
            open: scenario.flows.len(),
            until_ns: scenario.time_limit.ns(),
            sampler: options.interval_ns.map(|every_ns| Sampler::new(every_ns.get(), scenario)),
            trace: None,
            looks: options.looks_ns.map(|interval_ns| Looks::new(interval_ns, scenario)),
            outside: options.outside,
        };
        if let Some(trace) = &options.trace {
            let begun = Trace::new(trace, scenario);
            sim.trace = Some(begun.map_err(|e| SimError::trace(trace.folder, &e))?);
        }
        if let Some(folder) = options.captures {
            let tap = Tap::new(folder, &config).map_err(|e| SimError::trace(folder, &e))?;
            sim.net.tap = Some(Box::new(tap));
        }
        for (flow, index) in scenario.flows.iter().zip(0u32..) {
            let hops = sim.hops(index, &flow.to, 0);
            sim.sessions.push(Session::new(scenario.seed, index as usize, algorithm(flow)?, hops));
            let random = [0, 1].map(|end| rng::of_endpoint(scenario.seed, 2 * index + end));
            // a flow with a connection for each response does not need this one, but its number is its own
            let fetch = sim.new_fetch(index, index, &flow.to, hops, random, options.traces_rounds);
            sim.fetches.push(fetch);
            sim.net.events.schedule(flow.start.ns(), Kind::Start, index);
            if let Some(stop) = flow.stop {
                sim.net.events.schedule(stop.ns(), Kind::Start, index);
            }
        }
        Ok(sim)
    }

    /// Where the paths begin of the client, which is `to`, and of the server of a flow's connection.
    fn hops(&mut self, index: u32, to: &str, connection: u64) -> [u32; 2] {
        let from = &self.scenario.flows[index as usize].from;
        [(to, from.as_str(), 0), (from, to, 1)].map(|(from, to, end)| {
            let sender = Sender { endpoint: 2 * index + end, connection };
            let path = self.router.path(from, to, sender, &mut self.net.paths);
            path.expect("a scenario's flows are connected")
        })
    }

    /// The receiver of the next connection of a flow, and where its paths begin: each has its own, as its ports are others.
    fn next_way(&mut self, index: u32) -> (&'a str, [u32; 2]) {
        let flow = &self.scenario.flows[index as usize];
        let session = &mut self.sessions[index as usize];
        let (connection, first) = (session.connections, (flow.to.as_str(), session.hops));
        session.connections += 1;
        let to = match flow.to_each.as_deref().filter(|_| connection > 0) {
            Some(row) => rng::receiver(self.scenario.seed, index, connection, &self.rows[row], &flow.from),
            None if connection == 0 || !self.router.has_chosen() => return first,
            None => first.0,
        };
        (to, self.hops(index, to, connection))
    }

    /// Where the paths of another connection to the same receiver begin.
    fn further_way(&mut self, index: u32, to: &str) -> [u32; 2] {
        let session = &mut self.sessions[index as usize];
        let connection = session.connections;
        session.connections += 1;
        self.hops(index, to, connection)
    }

    pub(crate) fn run(&mut self, cancel: Option<&AtomicBool>) {
        self.run_to(self.until_ns, cancel);
    }

    /// Goes on to a time of the caller. Returns whether the run is over.
    pub(crate) fn run_to(&mut self, to_ns: u64, cancel: Option<&AtomicBool>) -> bool {
        let to_ns = to_ns.min(self.until_ns);
        while let Some(due_ns) = self.next_look_ns().filter(|due_ns| *due_ns < to_ns) {
            if self.run_until(due_ns, cancel) {
                return true;
            }
            self.look(due_ns);
        }
        let is_over = self.run_until(to_ns, cancel);
        if !is_over && to_ns == self.until_ns {
            // nothing may happen for long before the limit, and that time counts
            self.net.now_ns = to_ns;
            return true;
        }
        is_over
    }

    /// When flows and links are to be looked at next.
    fn next_look_ns(&self) -> Option<u64> {
        let sampler = self.sampler.as_ref().map(|s| s.due_ns);
        let trace = self.trace.as_ref().map(Trace::due_ns);
        let looks = self.looks.as_ref().map(|l| l.due_ns);
        sampler.into_iter().chain(trace).chain(looks).min().filter(|due_ns| *due_ns < self.until_ns)
    }

    /// Returns whether the run is over, for all flows are or the caller ends it.
    fn run_until(&mut self, until_ns: u64, cancel: Option<&AtomicBool>) -> bool {
        let mut happenings = 0u32;
        let mut packet = Packet::default();
        while self.open > 0 {
            let Sim { net, fetches, .. } = self;
            let soon = |id: u32| fetches[(id >> 1) as usize].prefetch((id & 1) as usize);
            let Some(happening) = net.next(until_ns, &mut packet, soon) else { break };
            happenings = happenings.wrapping_add(1);
            if happenings.is_multiple_of(LOOK_EVERY) && cancel.is_some_and(|c| c.load(Ordering::Relaxed)) {
                return true;
            }
            let Sim { net, config, fetches, boxed, .. } = self;
            match happening {
                Happening::Arrived => {
                    if let Some(tap) = net.tap.as_mut().filter(|_| !packet.is_datagram()) {
                        tap.on_arrival(net.now_ns, &packet);
                    }
                    let connection = packet.to >> 1;
                    let notices = fetches[connection as usize].on_packet(&packet, net, config);
                    match notices {
                        0 => {}
                        notice::DATAGRAM => self.on_datagram(&packet),
                        _ => self.attend(connection, notices),
                    }
                }
                // the box has nothing to do with what is not TCP
                Happening::AtBox(_) if packet.is_datagram() => {
                    net.send(packet.hop + 1, &packet);
                }
                // it knows a connection by its place, so it must not see what is not of it
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
                        Kind::Link | Kind::Packet | Kind::Dequeue | Kind::Start | Kind::Box => {}
                    }
                }
            }
        }
        self.open == 0
    }

    /// A flow begins, ends, or has something to request.
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
            if flow.connections == Connections::Persistent && flow.application != Application::Udp {
                session.open = 1;
                self.fetches[index as usize].connect(None, &mut self.net, &self.config);
            }
        }
        self.ask(index);
    }

    /// Requests what is due, and has the flow woken for what will be.
    fn ask(&mut self, index: u32) {
        let flow = &self.scenario.flows[index as usize];
        let now_ns = self.net.now_ns;
        if flow.application == Application::Udp {
            self.send_datagrams(index);
        } else if flow.loads_pages() {
            while let Some(page) = self.sessions[index as usize].take_due_page(flow, now_ns) {
                self.load_page(index, page);
            }
        } else if flow.connections == Connections::PerResponse {
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
        let (to, hops) = self.next_way(index);
        self.connect_to(index, to, hops, Some(due), None);
    }

    /// Opens a connection of a flow to `to`, whose ends reach each other by the paths at `hops`: for the response `due`, or for objects
    /// of a page.
    fn connect_to(
        &mut self,
        index: u32,
        to: &str,
        hops: [u32; 2],
        due: Option<(u64, Option<u64>)>,
        page: Option<NonZeroU32>,
    ) {
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
        // another connection, other random numbers
        let random = [0, 1].map(|end| rng::of_connection(self.scenario.seed, 2 * place + end, now_ns));
        let mut fetch = self.new_fetch(place, index, to, hops, random, false);
        fetch.page = page;
        fetch.connect(due, &mut self.net, &self.config);
        match self.fetches.get_mut(place as usize) {
            Some(old) => *old = fetch,
            None => self.fetches.push(fetch),
        }
    }

    /// A connection of flow `index` that has not begun, at place `place`. `to`, `hops`: its client, and where the paths of both ends
    /// begin.
    fn new_fetch(
        &mut self,
        place: u32,
        index: u32,
        to: &str,
        hops: [u32; 2],
        random: [SplitMix64; 2],
        is_traced: bool,
    ) -> Fetch {
        let flow = &self.scenario.flows[index as usize];
        let algorithm = self.sessions[index as usize].algorithm;
        let [of_client, of_server] = random;
        let class = Class { priority: flow.priority, is_scalable: algorithm.needs_ecn() };
        self.net.classify(place, class);
        let most = |max: &Bytes| Config { rcv_window_max_bytes: max.count() as u32, ..self.config };
        let own = flow.receive_window_max.as_ref().map(most);
        let config = own.as_ref().unwrap_or(&self.config);
        let end = |side: u32, random| {
            let id = 2 * place + side;
            let is_traced = is_traced && side == 1;
            Endpoint::new(id, id ^ 1, hops[side as usize], algorithm, random, config, is_traced)
        };
        let [client, mut server] = [end(0, of_client), end(1, of_server)];
        let member = |name: &Option<String>, id: u32| -> Option<Membership> {
            Some(self.groups[name.as_ref()?].membership(&flow.from, flow.weight as u32, id))
        };
        server.sender.is_as_linux = is_kernels(flow);
        if let Some(outside) = self.outside.and_then(|o| o.of_flow(index as usize)) {
            server.sender.algorithm.replace(outside);
        }
        server.sender.group = member(&flow.group, 2 * place + 1).map(Box::new);
        if let (Some(boxed), Some(w)) = (&mut self.boxed, &self.scenario.windlass) {
            boxed.on_new_connection(place, client.receiver.wscale(), member(&w.group, place));
        }
        if let Some(tap) = &mut self.net.tap {
            let hosts = [to, &flow.from].map(|host| self.router.host(host) as u32);
            tap.on_new_connection(place, hosts, client.receiver.wscale());
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
        let is_over = session.is_over();
        self.drop_pages(index);
        self.open -= usize::from(is_over);
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
        if let Some(page) = fetch.page {
            if notices & (notice::CONNECTED | notice::RESPONSE) != 0 {
                self.attend_page(connection, page, notices);
            }
        } else if notices & notice::RESPONSE != 0 {
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
            let [client, server] = &mut self.fetches[connection as usize].ends;
            session.past_arrivals += client.receiver.take_stats();
            let sender = &mut server.sender;
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

    /// Looks at flows and links, for each observer that is due or at the end of the run.
    pub(crate) fn look(&mut self, now_ns: u64) {
        let arrived_bytes = self.arrived_bytes();
        let is_end = self.next_look_ns() != Some(now_ns);
        let Sim { net, fetches, sessions, scenario, boxed, .. } = self;
        if let Some(sampler) = self.sampler.as_mut().filter(|s| is_end || s.due_ns == now_ns) {
            sampler.take(now_ns, net, &arrived_bytes);
        }
        let (boxed, arrived_bytes) = (boxed.as_ref(), &arrived_bytes[..]);
        let scene = Scene { now_ns, scenario, net, fetches, sessions, boxed, arrived_bytes };
        if let Some(trace) = self.trace.as_mut().filter(|t| is_end || t.due_ns() == now_ns) {
            trace.look(&scene);
        }
        if let Some(looks) = self.looks.as_mut().filter(|l| is_end || l.due_ns == now_ns) {
            looks.look(&scene);
        }
    }
}

#[cfg(test)]
mod tests;
