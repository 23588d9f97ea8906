//! What the controlled sender sends: recorded and kept, superfluous copies absorbed (`bpf/sender.h`).

use super::{BoxFlow, Verdict, WindlassBox};
use crate::{
    network::Network,
    packet::{Packet, flag},
    time::core_us,
};
use windlass_core::{
    abi::{self, wl_sample},
    is_after, later,
};

impl WindlassBox {
    pub(super) fn on_sender_packet(
        &mut self,
        f: &mut BoxFlow,
        packet: &mut Packet,
        net: &mut Network,
    ) -> Verdict {
        // a retransmission may be all that a delayed ACK leaves with
        let before = (f.from_sender.ack, f.from_sender.window_bytes);
        let tsval_us = f.from_sender.tsval_us;
        let has_news = packet.ack >= before.0 && (packet.ack, packet.window_bytes) != before;
        f.from_sender = *packet;
        let verdict = match packet.len_bytes {
            0 if f.is_enforced() && packet.has(flag::FIN) => {
                if f.flow.fin(packet.seq as u32, core_us(net.now_ns)) {
                    self.counters.add(abi::WL_C_DATA_GAPS, 1);
                    self.bypass(f, abi::WL_C_BYPASS_GAP);
                }
                Verdict::Pass
            }
            0 => Verdict::Pass,
            _ if f.is_enforced() => self.on_data(f, packet, has_news, net),
            _ => self.watch_data(f, packet, core_us(net.now_ns)),
        };
        if verdict == Verdict::Absorb {
            // by the echo the sender sees that its copy was not needed
            f.from_sender.tsval_us = tsval_us;
            self.arm(f, 0, net);
        }
        if packet.has(flag::FIN) {
            let state = f.flow.state_mut();
            state.flags |= abi::WL_FLOW_FIN;
            state.fin_seq = (packet.end() - 1) as u32;
        }
        verdict
    }

    /// Data of a flow that is only watched.
    fn watch_data(&mut self, f: &mut BoxFlow, packet: &Packet, now_us: u32) -> Verdict {
        let len_bytes = packet.len_bytes.into();
        self.counters.add(abi::WL_C_WATCHED_BYTES, len_bytes as u64);
        match f.flow.watch_data(packet.seq as u32, len_bytes, now_us) {
            abi::WL_DATA_RETRANS => self.counters.add(abi::WL_C_SENDER_RETRANS, 1),
            abi::WL_DATA_LATE => self.counters.add(abi::WL_C_DATA_LATE, 1),
            abi::WL_DATA_GAP => self.counters.add(abi::WL_C_DATA_GAPS, 1),
            abi::WL_DATA_TOO_MUCH => self.counters.add(abi::WL_C_PASS_DATA_OUTSIDE, 1),
            _ => {}
        }
        Verdict::Pass
    }

    fn on_data(
        &mut self,
        f: &mut BoxFlow,
        packet: &mut Packet,
        has_news: bool,
        net: &mut Network,
    ) -> Verdict {
        let now_us = core_us(net.now_ns);
        let (seq, len_bytes) = (packet.seq as u32, u32::from(packet.len_bytes));
        let end = seq.wrapping_add(len_bytes);
        self.hand_back_without_progress(f, now_us);
        let kind = f.flow.data_kind(seq, len_bytes);
        if kind != abi::WL_DATA_OLD && f.has(abi::WL_FLOW_NOT_STORED) {
            self.counters.add(abi::WL_C_PASS_NOT_STORED, 1);
            let nxt = later(f.state().nxt, end);
            self.bypass_all(f, abi::WL_C_PASS_NOT_STORED, nxt);
            return Verdict::Pass;
        }
        if matches!(kind, abi::WL_DATA_OLD | abi::WL_DATA_RETRANS) {
            f.flow.probed_by_sender(end);
            f.flow.absorb_on_retrans(seq, now_us);
            if f.flow.absorb_is_waiting() {
                self.arm(f, 0, net);
            }
        }
        match kind {
            // acknowledged already, only the sender was not shown it yet
            abi::WL_DATA_OLD if f.is_controlled() && !has_news && is_after(end, f.state().shown_una) => {
                self.counters.add(abi::WL_C_SENDER_RETRANS_ABSORBED, 1);
                Verdict::Absorb
            }
            abi::WL_DATA_OLD => Verdict::Pass,
            abi::WL_DATA_RETRANS => self.on_sender_retrans(f, packet, has_news, now_us),
            abi::WL_DATA_LATE => {
                self.counters.add(abi::WL_C_DATA_LATE, 1);
                self.take(f, seq, end, now_us);
                self.bypass_check(f);
                self.arm(f, 0, net);
                Verdict::Pass
            }
            abi::WL_DATA_TOO_MUCH => {
                self.bypass_all(f, abi::WL_C_BYPASS_FLOW_FULL, end);
                Verdict::Pass
            }
            abi::WL_DATA_GAP => {
                self.counters.add(abi::WL_C_DATA_GAPS, 1);
                self.on_new_data(f, packet, seq, end, net)
            }
            _ => {
                let nxt = f.state().nxt;
                self.on_new_data(f, packet, nxt, end, net)
            }
        }
    }

    /// Records the data from `seq` on.
    fn take(&mut self, f: &mut BoxFlow, seq: u32, end: u32, now_us: u32) {
        if !f.flow.send_at(seq, end, now_us) {
            let nxt = later(f.state().nxt, end);
            self.bypass_all(f, abi::WL_C_BYPASS_GAP, nxt);
        }
        self.counters.add(abi::WL_C_STORED_BYTES, end.wrapping_sub(seq).into());
    }

    fn on_sender_retrans(
        &mut self,
        f: &mut BoxFlow,
        packet: &Packet,
        has_news: bool,
        now_us: u32,
    ) -> Verdict {
        let seq = packet.seq as u32;
        f.flow.insists(seq);
        self.counters.add(abi::WL_C_SENDER_RETRANS, 1);
        let is_copy = f.is_controlled() && !packet.has(flag::FIN) && !has_news;
        if is_copy && f.flow.is_taken_care_of(seq, abi::WL_SENDER_MAY_INSIST) {
            self.counters.add(abi::WL_C_SENDER_RETRANS_ABSORBED, 1);
            return Verdict::Absorb;
        }
        f.flow.sender_retrans(seq, seq.wrapping_add(packet.len_bytes.into()), now_us);
        Verdict::Pass
    }

    fn on_new_data(
        &mut self,
        f: &mut BoxFlow,
        packet: &mut Packet,
        seq: u32,
        end: u32,
        net: &mut Network,
    ) -> Verdict {
        let now_us = core_us(net.now_ns);
        if f.flow.paced_on_data(end, now_us) {
            self.counters.add(abi::WL_C_FLOWS_PACED_SENDER, 1);
            let state = f.flow.state_mut();
            state.flags |= abi::WL_FLOW_STOOD_ASIDE;
            state.mode = abi::WL_MODE_WATCH as u8;
            self.bypass_all(f, abi::WL_C_BYPASS_STAND_ASIDE, end);
            f.group = None;
            return Verdict::Pass;
        }
        let state = *f.state();
        // what the last ACK let out has come by within the sender's own round trip, which is not part of ours
        let idle_us = now_us.wrapping_sub(later(state.sent_at_us, state.delivered_at_us));
        if f.flow.pause_check(idle_us, self.algorithm.needs_pauses()) {
            let is_app_limited = (f.state().app_limited_until != 0).into();
            let mut sample = wl_sample { now_us, is_app_limited, ..wl_sample::default() };
            self.call(f, abi::WL_CALL_IDLE, &mut sample, idle_us, net.now_ns);
        }
        f.flow.state_mut().sent_at_us = now_us;
        self.take(f, seq, end, now_us);
        f.high_bits = packet.seq + u64::from(packet.len_bytes);
        let state = f.flow.state_mut();
        state.edge = later(state.edge, state.nxt);
        f.flow.cwnd_limited_check();
        if f.has(abi::WL_FLOW_CWR) {
            f.flow.state_mut().flags &= !abi::WL_FLOW_CWR;
            self.counters.add(abi::WL_C_CWR_SET, 1);
            packet.flags |= flag::CWR;
        }
        self.arm(f, 0, net);
        Verdict::Pass
    }
}
