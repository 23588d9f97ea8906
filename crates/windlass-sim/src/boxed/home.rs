//! What the box has around it in the simulator: a rule, the clock, ways to both ends.

use crate::{
    engine::Kind,
    group::Membership,
    network::Network,
    packet::{Block, Packet},
    timer::Timer,
};
use rand::RngCore;
use rand_xoshiro::SplitMix64;
use windlass_core::{
    Algorithm, Home,
    abi::{self, wl_alg_params, wl_decision, wl_flow, wl_sample, wl_sent},
};

/// From one round of the clock to the next.
const TICK_NS: u64 = 1_000_000_000 / abi::WL_CLOCK_HZ as u64;

/// What all flows have in common: their rule, counters by index (`abi::WL_C_*`).
#[derive(Debug)]
pub(super) struct Common {
    pub mode: u32,
    pub algorithm: Algorithm,
    pub params: wl_alg_params,
    pub random: SplitMix64,
    pub counts: Vec<u64>,
}

/// How packets get to one end, and all 64 bits of the other end's sequence numbers: the box has the lower 32.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    hop: u32,
    to: u32,
    end: u64,
}

impl Way {
    fn wide(&self, seq: u32) -> u64 {
        let ahead = seq.wrapping_sub(self.end as u32) as i32;
        self.end.wrapping_add_signed(ahead.into())
    }
}

/// What is around one flow.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    /// Its number among the box's timers.
    pub index: u32,
    /// The shift of the windows that its ends announce.
    pub wscale: u8,
    /// Deadline of the clock's next visit.
    pub timer: Timer,
    to_receiver: Way,
    to_sender: Way,
    /// Its place in a group; none: it is on its own.
    group: Option<Membership>,
}

impl Surroundings {
    pub fn new(index: u32, wscale: u8, group: Option<Membership>) -> Surroundings {
        Surroundings { index, wscale, group, ..Surroundings::default() }
    }

    /// A packet passes.
    pub fn note(&mut self, packet: &Packet, to_sender: bool) {
        let way = if to_sender { &mut self.to_sender } else { &mut self.to_receiver };
        *way = Way { hop: packet.hop, to: packet.to, end: way.end.max(packet.end()) };
    }
}

/// The home of the box in one turn.
pub(super) struct Turn<'a> {
    pub common: &'a mut Common,
    pub around: &'a mut Surroundings,
    pub net: &'a mut Network,
}

impl Home for Turn<'_> {
    fn count(&mut self, counter: u32, n: u64) {
        debug_assert_ne!(counter, abi::WL_C_STATE_ILLEGAL, "the transition is not in core/box/state.h");
        self.common.counts[counter as usize] += n;
    }

    fn random(&mut self) -> u32 {
        self.common.random.next_u32()
    }

    fn arm(&mut self, deadline_ns: u64) {
        let Surroundings { timer, index, .. } = self.around;
        if deadline_ns == 0 {
            return timer.disarm();
        }
        let tick_ns = deadline_ns.max(self.net.now_ns + 1).next_multiple_of(TICK_NS);
        timer.arm(&mut self.net.events, tick_ns, Kind::Box, *index);
    }

    fn send(&mut self, _flow: &wl_flow, sent: &wl_sent, _departs_at_ns: u64) -> bool {
        let Surroundings { to_receiver, to_sender, wscale, .. } = &*self.around;
        let is_update = sent.to_sender != 0;
        let (way, back) = if is_update { (to_sender, to_receiver) } else { (to_receiver, to_sender) };
        let mut packet = Packet {
            hop: way.hop,
            to: way.to,
            window_bytes: u32::from(sent.window_field) << wscale,
            seq: way.wide(sent.seq),
            ack: back.wide(sent.ack),
            tsval_us: sent.tsval,
            tsecr_us: sent.tsecr,
            len_bytes: sent.len_bytes as u16,
            flags: sent.flags,
            ..Packet::default()
        };
        if sent.has_report != 0 {
            packet.sack_count = 1;
            packet.sack[0] = Block { start: back.wide(sent.report_start), end: back.wide(sent.report_end) };
        }
        self.net.send(packet.hop, &packet);
        true
    }

    fn apply_policy(&mut self, flow: &mut wl_flow) -> bool {
        let Common { mode, algorithm, params, .. } = self.common;
        (flow.mode, flow.algorithm, flow.params) = (*mode as u8, algorithm.id() as u8, *params);
        self.around.group.take_if(|_| *mode != abi::WL_MODE_ENFORCE);
        flow.flags |= if self.around.group.is_some() { abi::WL_FLOW_GROUPED } else { 0 };
        true
    }

    fn talk(&mut self, talk: u32, sample: &wl_sample, decision: &mut wl_decision) {
        let Some(group) = &mut self.around.group else { return };
        match talk {
            abi::WL_TALK_RESUME => group.resume(sample.now_us, decision),
            abi::WL_TALK_ASK => group.refresh(decision),
            _ => _ = group.report(sample, decision),
        }
    }

    fn is_joining(&mut self) -> bool {
        self.around.group.as_ref().is_some_and(Membership::is_joining)
    }

    fn leave_group(&mut self) {
        self.around.group = None;
    }
}
