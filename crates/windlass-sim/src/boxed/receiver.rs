//! What the receiver sends back: measured, decided upon, and shown to the sender as it shall see it (`bpf/receiver.h`).

use super::{BoxFlow, Verdict, WindlassBox};
use crate::{
    network::Network,
    packet::{Packet, flag},
    time::core_us,
};
use windlass_core::{
    abi::{self, wl_ack},
    is_after, rwnd_field,
};

impl WindlassBox {
    pub(super) fn on_receiver_packet(
        &mut self,
        f: &mut BoxFlow,
        packet: &mut Packet,
        net: &mut Network,
    ) -> Verdict {
        f.to_sender = *packet;
        if packet.has(flag::FIN) {
            f.flow.state_mut().flags |= abi::WL_FLOW_RCV_FIN;
        }
        if !f.is_enforced() {
            self.watch_ack(f, packet, core_us(net.now_ns));
            return Verdict::Pass;
        }
        let kind = f.flow.ack_kind(packet.ack as u32);
        let is_pure = packet.end() == packet.seq;
        if kind == abi::WL_ACK_OUTSIDE {
            self.counters.add(abi::WL_C_PASS_ACK_OUTSIDE, 1);
            f.flow.beyond(packet.ack as u32);
            return Verdict::Pass;
        }
        if kind != abi::WL_ACK_ADVANCE {
            self.hand_back_without_progress(f, core_us(net.now_ns));
        }
        let opens_window =
            is_after((packet.ack as u32).wrapping_add(packet.window_bytes), f.state().rcv_edge);
        let ack = ack_of(packet, !is_pure || opens_window, net.now_ns);
        if kind == abi::WL_ACK_STALE {
            if f.is_bypassed() {
                // the bypass may have begun before the sender was shown una: to it this may be news
                self.show_window(f, packet, packet.ack, net.now_ns);
                return Verdict::Pass;
            }
            // what it reports to have arrived twice no other ACK repeats
            f.flow.dsack(&ack);
            if !is_pure {
                // overtaken, yet no older than what the sender was shown: its window is not the one in force
                if is_after(f.state().shown_una, packet.ack as u32) {
                    self.show_no_sack(packet);
                    self.show_no_ece(f, packet);
                } else {
                    self.show(f, packet, net.now_ns);
                }
                return Verdict::Pass;
            }
            self.counters.add(abi::WL_C_ACKS_STALE, 1);
            return Verdict::Absorb;
        }
        if f.has(abi::WL_FLOW_FIN) && packet.ack as u32 == f.state().fin_seq.wrapping_add(1) {
            f.group = None;
        }
        let edge = f.state().edge;
        f.flow.offered(ack.ack, ack.ack.wrapping_add(ack.window_bytes), ack.now_us);
        let wait_us = self.control(f, &ack, net);
        if f.flow.hole_stays(core_us(net.now_ns)) {
            self.bypass(f, abi::WL_C_BYPASS_GAP);
        }
        if f.is_bypassed() {
            let state = f.flow.state_mut();
            (state.shown_una, state.shown_at_us) = (state.una, core_us(net.now_ns));
            self.show_window(f, packet, packet.ack, net.now_ns);
            // what the sender had to repair may be the clock's from here on
            self.bypass_check(f);
            self.arm(f, wait_us, net);
            return Verdict::Pass;
        }
        // a report is left to the clock; not with a FIN, whose acknowledgement is the receiver's alone
        let may_wait = is_pure && packet.window_bytes > 0 && !f.has(abi::WL_FLOW_FIN);
        let reports = may_wait && f.flow.probe_report().is_some();
        let has_progress = !reports && f.flow.shown_step(core_us(net.now_ns), edge);
        // not before: of what this ACK shows the clock need not be told
        self.arm(f, wait_us, net);
        // a duplicate tells the sender of a loss that the box repairs; progress that is held back is shown later
        let state = f.state();
        let says_nothing = is_pure && !has_progress && packet.window_bytes > 0 && state.edge == edge;
        let is_duplicate = packet.sack_count > 0 || !self.has_sack;
        let is_hidden =
            says_nothing && state.una != state.nxt && (kind == abi::WL_ACK_ADVANCE || is_duplicate);
        if reports || is_hidden {
            let advance = kind == abi::WL_ACK_ADVANCE;
            let what = if advance { abi::WL_C_ACKS_HELD } else { abi::WL_C_ACKS_ABSORBED };
            self.counters.add(what, 1);
            return Verdict::Absorb;
        }
        self.show(f, packet, net.now_ns);
        Verdict::Pass
    }

    /// An ACK of a flow that is only watched.
    fn watch_ack(&mut self, f: &mut BoxFlow, packet: &Packet, now_us: u32) {
        let ack = packet.ack as u32;
        match f.flow.ack_kind(ack) {
            abi::WL_ACK_OUTSIDE => self.counters.add(abi::WL_C_PASS_ACK_OUTSIDE, 1),
            abi::WL_ACK_STALE => {}
            _ => {
                f.flow.watch_ack(ack, ack.wrapping_add(packet.window_bytes), now_us);
                self.bypass_check(f);
            }
        }
    }

    /// The clock goes on with what ACKs have left to do on the scoreboard.
    pub(super) fn go_on(&mut self, f: &mut BoxFlow, net: &Network) {
        let now_us = core_us(net.now_ns);
        let ack = wl_ack { ack: f.state().una, now_us, says_more: 1, ..wl_ack::default() };
        self.control(f, &ack, net);
        if f.is_bypassed() {
            let state = f.flow.state_mut();
            state.shown_una = state.una;
            self.bypass_check(f);
        }
    }

    /// Scoreboard, algorithm, edge. Returns the time until the next loss can be judged, as `ack_and_wait` does.
    fn control(&mut self, f: &mut BoxFlow, ack: &wl_ack, net: &Network) -> u32 {
        let lost_segs = f.state().lost_segs;
        f.flow.supply_check(ack.now_us);
        let (mut sample, wait_us) = f.flow.ack_and_wait(ack);
        self.counters.add(abi::WL_C_LOST_SEGS, f.state().lost_segs.wrapping_sub(lost_segs).into());
        let mut calls = 0;
        if sample.events & abi::WL_EV_UNDO != 0 {
            self.counters.add(abi::WL_C_UNDOS, 1);
        }
        if sample.events & abi::WL_EV_RECOVERY_ENTER != 0 {
            calls |= abi::WL_CALL_LOSS;
        }
        if f.has(abi::WL_FLOW_ECN) && ack.has_ece != 0 && f.flow.mark(&mut sample) {
            calls |= abi::WL_CALL_ECN;
        }
        if sample.newly_delivered_bytes > 0 || sample.lost_bytes > 0 || sample.events != 0 {
            calls |= abi::WL_CALL_ACK;
        }
        if calls != 0 {
            self.call(f, calls, &mut sample, 0, net.now_ns);
        }
        f.flow.edge_advance(net.now_ns);
        wait_us
    }

    /// What the sender shall see: acknowledgement, window, no SACK, no mark.
    fn show(&mut self, f: &mut BoxFlow, packet: &mut Packet, now_ns: u64) {
        let state = f.state();
        let ack = if state.una == state.nxt { packet.ack } else { f.wide(state.shown_una) };
        self.show_window(f, packet, ack, now_ns);
        packet.ack = ack;
        self.show_no_sack(packet);
        self.show_no_ece(f, packet);
    }

    fn show_no_ece(&mut self, f: &BoxFlow, packet: &mut Packet) {
        if f.has(abi::WL_FLOW_ECN) && packet.has(flag::ECE) {
            self.counters.add(abi::WL_C_ECE_HIDDEN, 1);
            packet.flags &= !flag::ECE;
        }
    }

    fn show_no_sack(&mut self, packet: &mut Packet) {
        if packet.sack_count > 0 {
            self.counters.add(abi::WL_C_SACK_HIDDEN, 1);
            packet.sack_count = 0;
        }
    }

    /// The window that the sender shall see with acknowledgement `ack`.
    fn show_window(&mut self, f: &mut BoxFlow, packet: &mut Packet, ack: u64, now_ns: u64) {
        let state = f.state();
        let wscale = state.rcv_wscale();
        let room = if is_after(state.edge, ack as u32) { state.edge.wrapping_sub(ack as u32) } else { 0 };
        let held_back = (packet.ack - ack) as u32;
        let offered = ((held_back + packet.window_bytes) >> wscale).min(0xffff);
        let window_bytes = rwnd_field(room, wscale, offered) << wscale;
        if window_bytes != packet.window_bytes {
            self.counters.add(abi::WL_C_WINDOW_REWRITTEN, 1);
        }
        packet.window_bytes = window_bytes;
        f.flow.edge_shown(now_ns, (ack as u32).wrapping_add(window_bytes));
    }
}

/// A packet's acknowledgement in the core's form.
fn ack_of(packet: &Packet, says_more: bool, now_ns: u64) -> wl_ack {
    let mut ack = wl_ack {
        ack: packet.ack as u32,
        now_us: core_us(now_ns),
        window_bytes: packet.window_bytes,
        sack_count: packet.sack_count,
        says_more: says_more.into(),
        has_ece: packet.has(flag::ECE).into(),
        ..wl_ack::default()
    };
    for (i, block) in packet.sacks().iter().enumerate() {
        ack.sack_start[i] = block.start as u32;
        ack.sack_end[i] = block.end as u32;
    }
    ack
}
