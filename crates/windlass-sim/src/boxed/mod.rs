//! A Windlass box: the transparent datapath in virtual time. What becomes of a packet is decided by the same C as in the kernel
//! (`core/box`, through [`windlass_core::Flow`]); here packets are translated, and the box has its surroundings (`home.rs`).
//!
//! Not modelled: the limit of the store's memory, reloads of policies, the cost of the box itself.

mod home;

use crate::{
    engine::Kind,
    group::Membership,
    network::Network,
    packet::{Packet, flag},
    tcp::Config,
};
use home::{Common, Surroundings, Turn};
use rand_xoshiro::SplitMix64;
use std::collections::BTreeMap;
use windlass_core::{
    Algorithm, Flow, Home, Segment,
    abi::{self, wl_handshake, wl_segment, wl_verdict},
    begins, counters, on_syn,
};
use windlass_scenario::Mode;

/// A connection at the box.
#[derive(Debug, Default)]
struct Connection {
    handshake: wl_handshake,
    flow: Option<Flow>,
    around: Surroundings,
}

/// A box on one interface.
#[derive(Debug)]
pub struct WindlassBox {
    common: Common,
    hosts: Config,
    connections: Vec<Connection>,
}

impl WindlassBox {
    /// A box that knows of no connection.
    pub fn new(algorithm: Algorithm, mode: Mode, random: SplitMix64, config: &Config) -> WindlassBox {
        let mode = if mode == Mode::Watch { abi::WL_MODE_WATCH } else { abi::WL_MODE_ENFORCE };
        let mut params = config.parameters.of(algorithm);
        params.flags |= abi::WL_ALG_CANNOT_DELAY as u8;
        let counts = vec![0; abi::WL_COUNTERS as usize];
        let common = Common { mode, algorithm, params, random, counts };
        WindlassBox { common, hosts: *config, connections: Vec::new() }
    }

    /// A connection begins, maybe in the place of one that is long over; `wscale`: the shift of its windows, `member`: what it
    /// will be in a group.
    pub fn on_new_connection(&mut self, connection: u32, wscale: u8, member: Option<Membership>) {
        let place = connection as usize;
        if place >= self.connections.len() {
            self.connections.resize_with(place + 1, Connection::default);
        }
        let around = Surroundings::new(connection, wscale, member);
        self.connections[place] = Connection { around, ..Connection::default() };
    }

    /// A packet passes: on its way from the servers (`to_sender` false) or to them.
    pub fn on_packet(&mut self, mut packet: Packet, to_sender: bool, net: &mut Network) {
        packet.hop += 1;
        let Connection { handshake, flow, around } = &mut self.connections[(packet.to >> 1) as usize];
        around.note(&packet, to_sender);
        let mut segment = segment_of(&packet, around.wscale, &self.hosts);
        let (number, wscale, now_ns) = (around.index, around.wscale, net.now_ns);
        let turn = &mut Turn { common: &mut self.common, around, net };
        turn.count(if to_sender { abi::WL_C_PACKETS_TO_SENDER } else { abi::WL_C_PACKETS_FROM_SENDER }, 1);
        if packet.has(flag::SYN) {
            flow.iter_mut().for_each(|f| f.contest(turn, &segment, !to_sender, now_ns));
            on_syn(turn, handshake, &segment, !to_sender, now_ns);
            turn.net.send(packet.hop, &packet);
            return;
        }
        if flow.is_none() && begins(handshake, &segment, !to_sender) {
            *flow = Some(Flow::begin(turn, (number, 0), handshake, &segment, !to_sender, now_ns));
            *handshake = wl_handshake::default();
        }
        let Some(known) = flow else {
            turn.count(abi::WL_C_PASS_UNKNOWN_FLOW, 1);
            turn.net.send(packet.hop, &packet);
            return;
        };
        let verdict = match to_sender {
            true => known.from_receiver(turn, &segment, now_ns),
            false => known.from_sender(turn, &mut segment, now_ns),
        };
        if verdict.is_over != 0 {
            *flow = None;
            turn.leave_group();
            turn.arm(0);
            turn.count(abi::WL_C_FLOWS_CLOSED, 1);
        }
        if verdict.is_absorbed == 0 {
            rewrite(&mut packet, &segment.tcp, &verdict, wscale);
            turn.net.send(packet.hop, &packet);
        }
    }

    /// The clock's event for a flow.
    pub fn on_clock(&mut self, index: u32, net: &mut Network) {
        let Connection { flow, around, .. } = &mut self.connections[index as usize];
        let now_ns = net.now_ns;
        let fires = around.timer.fires(&mut net.events, now_ns, Kind::Box, index);
        if let Some(flow) = flow.as_mut().filter(|_| fires) {
            let turn = &mut Turn { common: &mut self.common, around, net };
            turn.count(abi::WL_C_CLOCK_TICKS, 1);
            flow.tick(turn, now_ns);
        }
    }

    /// Counters by name, as the testbed reports them.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        counters().into_iter().map(|c| (c.name, self.common.counts[c.index as usize])).collect()
    }

    /// What is known of a connection's flow; none: it has not begun, or is over.
    pub fn flow(&self, connection: usize) -> Option<&Flow> {
        self.connections.get(connection)?.flow.as_ref()
    }
}

/// The packet as its headers would carry it; `wscale`: the shift of its window, which a SYN announces, as what `hosts` are set up for.
fn segment_of(packet: &Packet, wscale: u8, hosts: &Config) -> Segment {
    let mut segment = Segment::new(wl_segment {
        seq: packet.seq as u32,
        ack: packet.ack as u32,
        payload_bytes: packet.len_bytes.into(),
        window_field: (packet.window_bytes >> wscale) as u16,
        flags: packet.flags & flag::OF_TCP,
        ..wl_segment::default()
    });
    segment.add_timestamps(packet.tsval_us, packet.tsecr_us);
    if packet.has(flag::SYN) {
        segment.add_syn_options(hosts.announced_mss_bytes(), wscale, hosts.has_sack);
    }
    segment.add_sack(packet.sacks().iter().map(|b| (b.start as u32, b.end as u32)));
    segment
}

/// Writes the verdict on a segment into its packet.
fn rewrite(packet: &mut Packet, tcp: &wl_segment, verdict: &wl_verdict, wscale: u8) {
    packet.flags ^= tcp.flags ^ verdict.flags;
    packet.ack -= u64::from(tcp.ack.wrapping_sub(verdict.ack));
    if verdict.window_field != tcp.window_field {
        packet.window_bytes = u32::from(verdict.window_field) << wscale;
    }
    if verdict.hides_sack != 0 {
        packet.sack_count = 0;
    }
}
