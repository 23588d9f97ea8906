//! What the box has around it in a turn of one flow.

use super::{bytes::Bytes, frame, wheel::Wheel};
use crate::home::{Mode, Sent};
use windlass_core::{
    Algorithm, Home,
    abi::{self, wl_alg_params, wl_flow, wl_sent, wl_share_use},
    settles_first, share,
};
use windlass_oracle::wire::Tuple;

/// How all flows are treated.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub algorithm: Algorithm,
    pub mode: Mode,
    pub controls_paced: bool,
    pub generation: u32,
    pub changed_at_us: u32,
}

/// The home of the box in one turn.
pub struct Turn<'a> {
    pub id: u32,
    pub now_us: u64,
    pub policy: &'a Policy,
    pub is_clock_running: bool,
    pub wheel: &'a mut Wheel,
    /// Of a visit of the clock: deadlines so far. The flow is not queued again before the visit is over.
    pub deadlines_ns: Option<Vec<u64>>,
    /// Of the flow.
    pub bytes: &'a mut Bytes,
    /// The store, and what the flow's accounts hold of it.
    pub store: wl_share_use,
    pub tuple: Tuple,
    /// Payload of the segment in hand, and its sequence number.
    pub payload: (u32, &'a [u8]),
    /// Frames that the box has sent.
    pub sent: &'a mut Vec<Sent>,
    /// Why one of them could not be written.
    pub failure: Option<anyhow::Error>,
    /// How often each counter of this turn was raised, by index (`abi::WL_C_*`).
    pub counts: Vec<(u32, u64)>,
}

impl Turn<'_> {
    /// Takes so many blocks of the store for the flow. Returns 0, or the counter that gives the reason why there are none.
    fn take(&mut self, blocks: u32) -> u32 {
        let store = &mut self.store;
        if store.in_use >= store.total {
            return abi::WL_C_BYPASS_STORE_FULL;
        }
        if !share::admits(store) {
            return abi::WL_C_BYPASS_STORE_SHARE;
        }
        if store.in_use + blocks > store.total {
            return abi::WL_C_BYPASS_STORE_FULL;
        }
        store.in_use += blocks;
        store.of_server += blocks;
        store.of_client += blocks;
        0
    }

    /// Events of this turn that were counted under that name.
    pub fn counted(&self, counter: u32) -> u64 {
        self.counts.iter().filter(|(c, _)| *c == counter).map(|(_, n)| n).sum()
    }

    /// `len` bytes of the segment in hand, from `seq` on.
    fn payload(&self, seq: u32, len: u32) -> &[u8] {
        let (start, bytes) = self.payload;
        &bytes[seq.wrapping_sub(start) as usize..][..len as usize]
    }
}

impl Home for Turn<'_> {
    fn count(&mut self, counter: u32, n: u64) {
        self.counts.push((counter, n));
    }

    /// As in the programs here (`set_clock.h`).
    fn random(&mut self) -> u32 {
        0
    }

    fn arm(&mut self, deadline_ns: u64) {
        match &mut self.deadlines_ns {
            Some(deadlines_ns) => deadlines_ns.push(deadline_ns),
            None => self.wheel.arm(self.id, self.now_us * 1000, deadline_ns),
        }
    }

    fn send(&mut self, flow: &wl_flow, segment: &wl_sent, _departs_at_ns: u64) -> bool {
        let Some(payload) = self.bytes.read(segment.seq, segment.len_bytes) else { return false };
        match frame::build(flow, &self.tuple, segment, &payload) {
            Ok(frame) => self.sent.push(Sent { frame, is_to_server: segment.to_sender != 0 }),
            Err(failure) => self.failure = Some(failure),
        }
        true
    }

    fn apply_policy(&mut self, flow: &mut wl_flow) -> bool {
        let Policy { algorithm, mode, controls_paced, generation, changed_at_us } = *self.policy;
        if mode != Mode::Control && settles_first(flow, changed_at_us, self.now_us as u32) {
            return true;
        }
        flow.policy_generation = generation as u16;
        flow.mode = match mode {
            Mode::Control => abi::WL_MODE_ENFORCE,
            Mode::Watch => abi::WL_MODE_WATCH,
            Mode::Off => abi::WL_MODE_OFF,
        } as u8;
        flow.flags &= !abi::WL_FLOW_PACED_CONTROL;
        if controls_paced {
            flow.flags |= abi::WL_FLOW_PACED_CONTROL | abi::WL_FLOW_PACED_JUDGED;
        }
        flow.algorithm = algorithm.id() as u8;
        flow.params = wl_alg_params { flags: abi::WL_ALG_CANNOT_DELAY as u8, ..wl_alg_params::default() };
        true
    }

    fn clock_runs(&mut self) -> bool {
        self.is_clock_running
    }

    fn take_chunk(&mut self) -> u32 {
        self.take(abi::WL_CHUNK_BLOCKS)
    }

    fn take_block(&mut self) -> u32 {
        self.take(1)
    }

    fn store(&mut self, seq: u32, len: u32) -> u32 {
        let (start, bytes) = self.payload;
        self.bytes.store(seq, &bytes[seq.wrapping_sub(start) as usize..][..len as usize]);
        0
    }

    fn differs(&mut self, seq: u32, len: u32) -> bool {
        self.bytes.differ(seq, self.payload(seq, len))
    }

    fn is_policy_current(&mut self, flow: &wl_flow) -> bool {
        flow.policy_generation == self.policy.generation as u16
    }

    fn policy_changed_at_us(&self) -> u32 {
        self.policy.changed_at_us
    }
}
