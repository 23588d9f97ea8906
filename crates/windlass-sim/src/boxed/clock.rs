//! The clock's work: losses judged by time, lost segments sent again, room granted at the pacing rate (`bpf/clock.h`).

use super::{BoxFlow, WindlassBox};
use crate::{
    engine::Kind,
    network::Network,
    packet::{Block, Packet, flag},
    time::core_us,
};
use windlass_core::{
    abi::{self, wl_sample},
    is_after,
};

/// From one round of the clock to the next.
const TICK_NS: u64 = 1_000_000_000 / abi::WL_CLOCK_HZ as u64;

/// The first round of the clock after now that is not before `deadline_ns`.
pub(super) fn next_tick_ns(now_ns: u64, deadline_ns: u64) -> u64 {
    deadline_ns.max(now_ns + 1).next_multiple_of(TICK_NS)
}

impl WindlassBox {
    /// The clock's event for a flow.
    pub fn on_clock(&mut self, index: u32, net: &mut Network) {
        let Some(mut f) = self.flows[index as usize].take() else { return };
        if f.timer.fires(&mut net.events, net.now_ns, Kind::Box, index) {
            self.counters.add(abi::WL_C_CLOCK_TICKS, 1);
            self.serve(&mut f, net);
        }
        self.flows[index as usize] = Some(f);
    }

    fn serve(&mut self, f: &mut BoxFlow, net: &mut Network) {
        if !f.is_enforced() {
            return;
        }
        let edge = f.state().edge;
        if f.flow.is_behind() {
            self.go_on(f, net);
        }
        self.hand_back_without_progress(f, core_us(net.now_ns));
        let wait_us = if f.is_bypassed() { 0 } else { self.judge_by_time(f, net.now_ns) };
        let now_us = core_us(net.now_ns);
        let decision = &f.state().decision;
        if decision.has_wake != 0 && now_us.wrapping_sub(decision.wake_at_us) as i32 >= 0 {
            let mut sample = wl_sample { now_us, ..wl_sample::default() };
            self.call(f, abi::WL_CALL_TIMER, &mut sample, 0, net.now_ns);
        }
        if f.state().lost_bytes > 0 && !f.is_bypassed() {
            self.repair(f, net);
        }
        if let Some(group) = f.group.as_ref().filter(|g| g.is_joining()) {
            group.refresh(&mut f.flow.state_mut().decision);
        }
        f.flow.edge_advance(net.now_ns);
        let reports = f.flow.probe_report().is_some();
        let has_progress = f.flow.shown_step(core_us(net.now_ns), edge) || reports;
        if has_progress || f.state().edge != edge {
            self.show_edge(f, edge, has_progress, net);
        }
        self.arm(f, wait_us, net);
    }

    /// Losses that time alone has shown, and silence.
    fn judge_by_time(&mut self, f: &mut BoxFlow, now_ns: u64) -> u32 {
        let now_us = core_us(now_ns);
        let lost_segs = f.state().lost_segs;
        let mut sample =
            wl_sample { now_us, inflight_before_bytes: f.flow.pipe_bytes(), ..wl_sample::default() };
        let (lost_bytes, wait_us) = f.flow.judge(now_us);
        sample.lost_bytes = lost_bytes;
        let mut calls = 0;
        if lost_bytes > 0 {
            calls |= abi::WL_CALL_ACK;
            if !f.has(abi::WL_FLOW_RECOVERY) {
                f.flow.recovery_enter(&mut sample);
                if sample.events & abi::WL_EV_RECOVERY_ENTER != 0 {
                    calls |= abi::WL_CALL_LOSS;
                }
            }
        }
        let (silence, lost_bytes) = f.flow.silence(now_us);
        if silence == abi::WL_SILENCE_UNHEARD {
            let nxt = f.state().nxt;
            self.bypass_all(f, abi::WL_C_BYPASS_UNHEARD, nxt);
        }
        if silence == abi::WL_SILENCE_PROBE {
            self.counters.add(abi::WL_C_TAIL_PROBES, 1);
        }
        if silence >= abi::WL_SILENCE_TIMEOUT {
            self.counters.add(abi::WL_C_TIMEOUTS, 1);
            sample.lost_bytes += lost_bytes;
            let is_first = silence == abi::WL_SILENCE_TIMEOUT;
            sample.events |= abi::WL_EV_TIMEOUT | if is_first { 0 } else { abi::WL_EV_TIMEOUT_AGAIN };
            calls |= abi::WL_CALL_TIMEOUT | abi::WL_CALL_ACK;
        }
        self.counters.add(abi::WL_C_LOST_SEGS, f.state().lost_segs.wrapping_sub(lost_segs).into());
        if calls != 0 {
            self.call(f, calls, &mut sample, 0, now_ns);
        }
        wait_us
    }

    /// Sends lost segments again, as the sender would.
    fn repair(&mut self, f: &mut BoxFlow, net: &mut Network) {
        let budget = f.flow.pacing_budget(net.now_ns);
        let (mut segs, mut bytes) = (0, 0);
        while bytes < budget
            && segs < abi::WL_REPAIRS_PER_VISIT
            && let Some((seq, len_bytes)) = f.flow.next_repair()
        {
            let piece_bytes = f.flow.piece_bytes(seq);
            let mut sent = 0;
            while sent < len_bytes {
                let part = (len_bytes - sent).min(piece_bytes);
                self.send_again(f, seq.wrapping_add(sent), part, net);
                sent += part;
                segs += 1;
            }
            bytes += len_bytes;
            f.flow.repaired(seq, core_us(net.now_ns));
        }
        if segs > 0 {
            f.flow.pacing_charge(net.now_ns, bytes);
            self.counters.add(abi::WL_C_REPAIRED_SEGS, segs.into());
            self.counters.add(abi::WL_C_REPAIRED_BYTES, bytes.into());
        }
    }

    fn send_again(&self, f: &BoxFlow, seq: u32, len_bytes: u32, net: &mut Network) {
        let state = f.state();
        let is_last = f.has(abi::WL_FLOW_FIN) && seq.wrapping_add(len_bytes) == state.fin_seq;
        let packet = Packet {
            seq: f.wide(seq),
            len_bytes: len_bytes as u16,
            flags: flag::ACK | if is_last { flag::FIN } else { 0 },
            sack_count: 0,
            ..f.from_sender
        };
        net.send(packet.hop, &packet);
    }

    /// A window update for the sender, as its receiver would send it.
    fn show_edge(&mut self, f: &mut BoxFlow, edge_before: u32, has_progress: bool, net: &mut Network) {
        let state = f.state();
        let wscale = state.rcv_wscale();
        let granule = (1u32 << wscale) - 1;
        let mut window_bytes = (state.edge.wrapping_sub(state.shown_una) + granule) & !granule;
        // whole granules, but never beyond what the receiver offers
        if is_after(state.shown_una.wrapping_add(window_bytes), state.rcv_edge) {
            window_bytes = state.rcv_edge.wrapping_sub(state.shown_una) & !granule;
        }
        window_bytes = window_bytes.min(0xffff << wscale);
        let shown = state.shown_una.wrapping_add(window_bytes);
        f.flow.edge_shown(net.now_ns, shown);
        if !has_progress && f.state().edge == edge_before {
            return;
        }
        self.counters.add(abi::WL_C_WINDOW_UPDATES, 1);
        let ack = f.wide(f.state().shown_una);
        let template = f.to_sender;
        let mut packet = Packet {
            seq: template.end(),
            ack,
            window_bytes,
            len_bytes: 0,
            flags: flag::ACK,
            sack_count: 0,
            ..template
        };
        if let Some((start, end)) = f.flow.probe_report() {
            packet.sack_count = 1;
            packet.sack[0] = Block { start: f.wide(start), end: f.wide(end) };
            self.counters.add(abi::WL_C_SENDER_PROBES_REPORTED, 1);
            f.flow.state_mut().flags &= !abi::WL_FLOW_SENDER_PROBED;
        }
        net.send(packet.hop, &packet);
    }
}
