//! A Windlass box: the transparent datapath in virtual time. What it knows and decides is the core's (`core/flow`,
//! through [`windlass_core::Flow`]); what is here are the steps around it, file by file those of `bpf/`:
//! `sender.rs`, `receiver.rs`, `clock.rs`.
//!
//! Not modelled: the limit of the store's memory, policies, the cost of the box itself.

mod clock;
mod receiver;
mod sender;

use crate::{
    engine::Kind,
    group::Membership,
    network::Network,
    packet::{MSS_BYTES, Packet, flag},
    tcp::{Config, Ecn},
    time::core_us,
    timer::Timer,
};
use rand::RngCore;
use rand_xoshiro::SplitMix64;
use std::collections::BTreeMap;
use windlass_core::{
    Algorithm, Flow, Handshake,
    abi::{self, wl_alg_params, wl_flow, wl_sample},
    counters,
};
use windlass_scenario::Mode;

/// What the box does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Pass,
    /// It goes no further.
    Absorb,
}

/// Counters by their index (`abi::WL_C_*`).
#[derive(Clone, Debug)]
struct Counters(Vec<u64>);

impl Counters {
    fn add(&mut self, counter: u32, n: u64) {
        self.0[counter as usize] += n;
    }
}

/// A box on one interface.
#[derive(Debug)]
pub struct WindlassBox {
    algorithm: Algorithm,
    params: wl_alg_params,
    mode: u32,
    has_ecn: bool,
    has_sack: bool,
    random: SplitMix64,
    counters: Counters,
    /// By connection.
    flows: Vec<Option<BoxFlow>>,
    /// By connection: when its SYNs came by.
    handshakes: Vec<Handshake>,
    /// By connection: the shift of the windows that its ends announce.
    wscales: Vec<u8>,
    /// By connection: what it will be in a group when it is adopted.
    members: Vec<Option<Membership>>,
}

/// A flow and what is not the core's business: how its packets look and where they go.
#[derive(Debug)]
struct BoxFlow {
    flow: Flow,
    /// Its number among the box's timers.
    index: u32,
    /// Deadline of the clock's next visit.
    timer: Timer,
    /// Newest packet of the controlled sender, and where it goes from here.
    from_sender: Packet,
    /// Newest packet of its receiver.
    to_sender: Packet,
    /// The sender's sequence numbers: the core has the lower 32 bits.
    high_bits: u64,
    /// Its place in a group; none: it is on its own.
    group: Option<Membership>,
}

impl WindlassBox {
    /// A box that knows of no connection.
    pub fn new(algorithm: Algorithm, mode: Mode, random: SplitMix64, config: &Config) -> WindlassBox {
        WindlassBox {
            algorithm,
            params: wl_alg_params {
                flags: config.params.flags | abi::WL_ALG_CANNOT_DELAY as u8,
                ..config.params
            },
            mode: if mode == Mode::Watch { abi::WL_MODE_WATCH } else { abi::WL_MODE_ENFORCE },
            // an exact echo would have to be counted, not latched: such flows are left alone in that respect
            has_ecn: config.ecn == Ecn::Classic,
            has_sack: config.has_sack,
            random,
            counters: Counters(vec![0; abi::WL_COUNTERS as usize]),
            flows: Vec::new(),
            handshakes: Vec::new(),
            wscales: Vec::new(),
            members: Vec::new(),
        }
    }

    /// A connection begins, maybe in the place of one that is long over; `wscale`: the shift of its windows, `member`: what it
    /// will be in a group.
    pub fn on_new_connection(&mut self, connection: u32, wscale: u8, member: Option<Membership>) {
        let place = connection as usize;
        if place >= self.flows.len() {
            self.flows.resize_with(place + 1, || None);
            self.handshakes.resize_with(place + 1, Handshake::default);
            self.wscales.resize(place + 1, 0);
            self.members.resize_with(place + 1, || None);
        }
        self.flows[place] = None;
        self.handshakes[place] = Handshake::default();
        self.wscales[place] = wscale;
        self.members[place] = member;
    }

    /// A packet passes: on its way from the servers (`to_sender` false) or to them.
    pub fn on_packet(&mut self, mut packet: Packet, to_sender: bool, net: &mut Network) {
        let seen = if to_sender { abi::WL_C_PACKETS_TO_SENDER } else { abi::WL_C_PACKETS_FROM_SENDER };
        self.counters.add(seen, 1);
        packet.hop += 1;
        let verdict = match self.find(&packet, to_sender, net) {
            None => Verdict::Pass,
            Some(mut f) => {
                let verdict = match to_sender {
                    true => self.on_receiver_packet(&mut f, &mut packet, net),
                    false => self.on_sender_packet(&mut f, &mut packet, net),
                };
                let connection = (packet.to >> 1) as usize;
                self.flows[connection] = Some(f);
                verdict
            }
        };
        if verdict == Verdict::Pass {
            net.send(packet.hop, &packet);
        }
    }

    /// Counters by name, as the testbed reports them.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        counters().into_iter().map(|c| (c.name, self.counters.0[c.index as usize])).collect()
    }

    /// What is known of a connection's flow; none: no data of it came by.
    pub fn flow(&self, connection: usize) -> Option<&Flow> {
        Some(&self.flows.get(connection)?.as_ref()?.flow)
    }

    /// Takes the packet's flow out of the table; makes it once the handshake is over.
    fn find(&mut self, packet: &Packet, to_sender: bool, net: &Network) -> Option<BoxFlow> {
        let connection = packet.to >> 1;
        if packet.has(flag::SYN) {
            self.on_syn(connection, packet, to_sender, core_us(net.now_ns));
            return None;
        }
        if let Some(flow) = self.flows[connection as usize].take() {
            return Some(flow);
        }
        let base = if to_sender { packet.ack } else { packet.seq };
        let handshake = &self.handshakes[connection as usize];
        let rtt_us = match to_sender {
            true => handshake.rtt_us(packet.ack as u32, core_us(net.now_ns)),
            false => handshake.known_rtt_us(),
        };
        Some(self.adopt(connection, base, rtt_us, net.now_ns))
    }

    /// A SYN or SYN-ACK: its time is noted.
    fn on_syn(&mut self, connection: u32, packet: &Packet, to_sender: bool, now_us: u32) {
        let handshake = &mut self.handshakes[connection as usize];
        if !to_sender {
            handshake.sent(packet.seq as u32, now_us);
        } else if packet.has(flag::ACK) {
            handshake.answered(packet.ack as u32, now_us);
        }
    }

    fn adopt(&mut self, connection: u32, base: u64, handshake_rtt_us: u32, now_ns: u64) -> BoxFlow {
        let ecn = if self.has_ecn { abi::WL_FLOW_ECN } else { 0 };
        let sack = if self.has_sack { abi::WL_FLOW_SACK } else { 0 };
        let mut flow = Flow::new(base as u32, MSS_BYTES, sack | abi::WL_FLOW_TIMESTAMPS | ecn);
        let now_us = core_us(now_ns);
        flow.own(connection);
        flow.rtt_begin(handshake_rtt_us);
        let f = flow.state_mut();
        f.algorithm = self.algorithm.id() as u8;
        f.params = self.params;
        f.mode = self.mode as u8;
        f.set_rcv_wscale(self.wscales[connection as usize]);
        f.rcv_edge = base as u32;
        f.edge_used_until = base as u32;
        f.burst_from = base as u32;
        f.sent_at_us = now_us;
        f.edge_checked_at_us = now_us;
        self.counters.add(abi::WL_C_FLOWS_CREATED, 1);
        let mut made = BoxFlow {
            flow,
            index: connection,
            timer: Timer::default(),
            from_sender: Packet::default(),
            to_sender: Packet::default(),
            high_bits: base,
            group: self.members[connection as usize].take().filter(|_| self.mode == abi::WL_MODE_ENFORCE),
        };
        let mut sample = wl_sample { now_us, ..wl_sample::default() };
        self.call(&mut made, abi::WL_CALL_INIT, &mut sample, 0, now_ns);
        made
    }

    /// Calls hooks of the algorithm.
    fn call(&mut self, f: &mut BoxFlow, calls: u32, sample: &mut wl_sample, idle_us: u32, now_ns: u64) {
        sample.random = self.random.next_u32();
        f.flow.call(calls, sample, idle_us, now_ns);
        let Some(group) = &mut f.group else { return };
        let decision = &mut f.flow.state_mut().decision;
        if calls == abi::WL_CALL_IDLE {
            group.resume(sample.now_us, decision);
        } else {
            group.report(sample, decision);
        }
    }

    /// Signals pass as they are from here on: something in flight is not in the store.
    fn bypass(&mut self, f: &mut BoxFlow, why: u32) {
        if u32::from(f.state().state) != abi::WL_FLOW_ACTIVE {
            return;
        }
        self.counters.add(why, 1);
        f.flow.state_mut().state = abi::WL_FLOW_BYPASS as u8;
    }

    /// The same, and nothing that is in flight, up to `nxt`, is in the store any more.
    fn bypass_all(&mut self, f: &mut BoxFlow, why: u32, nxt: u32) {
        f.flow.forget(nxt);
        self.bypass(f, why);
    }

    /// The sender's second retransmission brought no progress: it is left to itself, and nothing is stored until una moves.
    fn hand_back_without_progress(&mut self, f: &mut BoxFlow, now_us: u32) {
        if !f.flow.absorb_is_overdue(now_us) {
            return;
        }
        let nxt = f.state().nxt;
        f.flow.state_mut().flags |= abi::WL_FLOW_NOT_STORED;
        self.bypass_all(f, abi::WL_C_BYPASS_NO_PROGRESS, nxt);
    }

    /// Ends the bypass if all in flight is in the store again.
    fn bypass_check(&mut self, f: &mut BoxFlow) {
        if !f.is_bypassed() || !f.flow.is_whole() || f.flow.is_behind() {
            return;
        }
        self.counters.add(abi::WL_C_BYPASS_ENDED, 1);
        let state = f.flow.state_mut();
        state.state = abi::WL_FLOW_ACTIVE as u8;
        state.shown_una = state.una;
    }

    /// Has the clock look at the flow when it next has work; `wait_us`: until losses can be judged, 0: no need.
    fn arm(&self, f: &mut BoxFlow, wait_us: u32, net: &mut Network) {
        let mut deadline_ns = f.flow.deadline_ns(net.now_ns, wait_us);
        // the others' ACKs may let it out at any time
        if f.group.as_ref().is_some_and(Membership::is_joining) && f.state().una != f.state().nxt {
            deadline_ns = net.now_ns;
        }
        if deadline_ns != 0 {
            let tick_ns = clock::next_tick_ns(net.now_ns, deadline_ns);
            f.timer.arm(&mut net.events, tick_ns, Kind::Box, f.index);
        }
    }
}

impl BoxFlow {
    fn state(&self) -> &wl_flow {
        self.flow.state()
    }

    fn has(&self, flag: u32) -> bool {
        self.state().flags & flag != 0
    }

    fn is_enforced(&self) -> bool {
        u32::from(self.state().mode) == abi::WL_MODE_ENFORCE
    }

    /// Enforced, and its losses are repaired and hidden.
    fn is_controlled(&self) -> bool {
        self.is_enforced() && !self.is_bypassed()
    }

    fn is_bypassed(&self) -> bool {
        u32::from(self.state().state) == abi::WL_FLOW_BYPASS
    }

    /// All 64 bits of one of the sender's sequence numbers.
    fn wide(&self, seq: u32) -> u64 {
        let ahead = seq.wrapping_sub(self.high_bits as u32) as i32;
        self.high_bits.wrapping_add_signed(ahead.into())
    }
}
