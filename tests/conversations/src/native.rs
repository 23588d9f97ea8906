//! The box as a library in this process: `core/box`, compiled natively, with what it needs around it written out in Rust. It needs
//! neither root nor a kernel with BPF.
//!
//! Not here: entries that the flow table takes back while it is scarce, groups, departure times, VLANs.

mod bytes;
mod frame;
mod turn;
mod wheel;

use crate::{
    home::{Home, Mode, Sent},
    script::BoxSetup,
};
use anyhow::{Context, Result};
use bytes::Bytes;
use frame::Frame;
use std::collections::HashMap;
use turn::{Policy, Turn};
use wheel::Wheel;
use windlass_core::{
    Algorithm, Flow,
    abi::{self, wl_handshake, wl_share_use},
    begins, on_syn, share,
};
use windlass_oracle::wire::{SYN, Tuple};

/// The clock is lost when it has not come by for so long (`bpf/clock/wheel.h`).
const CLOCK_LOST_US: u64 = 500_000;
/// Entries of the flow table that one round of the clock looks after while store or table is scarce, and after a rest (`bpf/clock/clock.h`).
const SWEEP_SCARCE: u32 = 32;
const SWEEP_SCARCE_MOST: u32 = 64;
/// Segments of all flows that one round retransmits, about.
const REPAIRS_PER_ROUND: u64 = 256;

/// The part of a tag that distinguishes what one entry has recorded.
const OWNER_MASK: u32 = (1 << abi::WL_OWNER_BITS) - 1;

/// A flow at the box.
struct Entry {
    tuple: Tuple,
    flow: Flow,
    bytes: Bytes,
}

/// What is around all flows.
struct Around {
    now_us: u64,
    policy: Policy,
    wheel: Wheel,
    clock_at_us: u64,
    sent: Vec<Sent>,
}

impl Around {
    /// What is around the flow of that number in one turn.
    fn turn<'a>(
        &'a mut self,
        id: u32,
        tuple: Tuple,
        bytes: &'a mut Bytes,
        store: wl_share_use,
        payload: (u32, &'a [u8]),
    ) -> Turn<'a> {
        Turn {
            id,
            now_us: self.now_us,
            policy: &self.policy,
            is_clock_running: self.now_us.wrapping_sub(self.clock_at_us) < CLOCK_LOST_US,
            wheel: &mut self.wheel,
            deadlines_ns: None,
            bytes,
            store,
            tuple,
            payload,
            sent: &mut self.sent,
            failure: None,
            counts: Vec::new(),
        }
    }

    fn now_ns(&self) -> u64 {
        self.now_us * 1000
    }
}

/// What a flow holds of the store.
fn stored_blocks(entry: &Entry) -> u32 {
    let flow = entry.flow.state();
    u32::from(flow.stored_blocks) + u32::from(flow.stored_chunks) * abi::WL_CHUNK_BLOCKS
}

/// The box, and all that it knows.
pub struct Native {
    around: Around,
    store_blocks: u32,
    handshakes: HashMap<Tuple, wl_handshake>,
    ids: HashMap<Tuple, u32>,
    /// By number; of a flow whose turn it is: none.
    flows: Vec<Option<Entry>>,
    /// Tag of the records of each entry's flows (`wl_flow.owner`), which outlives them: their timeouts are spread by it.
    owners: Vec<u32>,
    /// The last one is taken first.
    free: Vec<u32>,
    /// The entry that the clock looks after next.
    sweep_next: u32,
    /// Ledgers of all flows are kept.
    has_ledgers: bool,
}

impl Native {
    /// A box that knows no connection.
    pub fn new(setup: &BoxSetup) -> Result<Native> {
        let name = &setup.algorithm;
        let algorithm = Algorithm::by_name(name).with_context(|| format!("{name}: no such algorithm"))?;
        let policy =
            Policy { algorithm, mode: Mode::Control, controls_paced: true, generation: 1, changed_at_us: 0 };
        let wheel = Wheel::new(setup.flows_max);
        Ok(Native {
            around: Around { now_us: 0, policy, wheel, clock_at_us: 0, sent: Vec::new() },
            store_blocks: (setup.store_kib << 10).div_ceil(abi::WL_CHUNK_BYTES) * abi::WL_CHUNK_BLOCKS,
            handshakes: HashMap::new(),
            ids: HashMap::new(),
            flows: (0..setup.flows_max).map(|_| None).collect(),
            owners: (0..setup.flows_max).map(|id| id << abi::WL_OWNER_BITS).collect(),
            free: (0..setup.flows_max).collect(),
            sweep_next: 0,
            has_ledgers: false,
        })
    }

    /// Keeps ledgers of all flows that begin.
    pub fn with_ledgers(mut self) -> Native {
        self.has_ledgers = true;
        self
    }

    /// The flow of that connection; none: the box knows none.
    pub fn flow(&self, tuple: &Tuple) -> Option<&Flow> {
        let id = *self.ids.get(tuple)?;
        self.flows[id as usize].as_ref().map(|entry| &entry.flow)
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.flows.iter().flatten()
    }

    /// What of a pool is in use, in all and by the connection's accounts; `held`: of that pool by one flow.
    fn usage(&self, tuple: &Tuple, total: u32, held: impl Fn(&Entry) -> u32) -> wl_share_use {
        let mut usage = wl_share_use { total, ..wl_share_use::default() };
        for entry in self.entries() {
            let n = held(entry);
            usage.in_use += n;
            if entry.tuple.server == tuple.server {
                usage.of_server += n;
                usage.of_client += if entry.tuple.client == tuple.client { n } else { 0 };
            }
        }
        usage
    }

    /// Has `act` happen as a turn of flow `id`, with the segment that has that payload. None: there is no such flow.
    fn with_flow<T>(
        &mut self,
        id: u32,
        payload: (u32, &[u8]),
        act: impl FnOnce(&mut Flow, &mut Turn) -> T,
    ) -> Result<Option<T>> {
        let place = id as usize;
        let Some(entry) = &self.flows[place] else { return Ok(None) };
        let store = self.usage(&entry.tuple, self.store_blocks, stored_blocks);
        let Some(mut entry) = self.flows[place].take() else { return Ok(None) };
        let mut turn = self.around.turn(id, entry.tuple, &mut entry.bytes, store, payload);
        let result = act(&mut entry.flow, &mut turn);
        let failure = turn.failure.take();
        entry.bytes.keep_held(entry.flow.state());
        self.flows[place] = Some(entry);
        failure.map_or(Ok(Some(result)), Err)
    }

    fn forget(&mut self, id: u32) {
        if let Some(entry) = self.flows[id as usize].take() {
            let owner = entry.flow.state().owner;
            self.owners[id as usize] = owner & !OWNER_MASK | (owner + 1) & OWNER_MASK;
            self.ids.remove(&entry.tuple);
            self.free.push(id);
        }
    }

    fn on_syn(&mut self, frame: &Frame, is_from_server: bool) -> Result<()> {
        let known = self.ids.get(&frame.tuple).copied();
        if let Some(id) = known {
            let now_ns = self.around.now_ns();
            self.with_flow(id, (0, frame.payload), |flow, turn| {
                flow.contest(turn, &frame.segment, is_from_server, now_ns);
            })?;
        }
        let mut handshake = self.handshakes.get(&frame.tuple).copied().unwrap_or_default();
        let now_ns = self.around.now_ns();
        let mut bytes = Bytes::new(0);
        let mut turn =
            self.around.turn(0, frame.tuple, &mut bytes, wl_share_use::default(), (0, frame.payload));
        let is_pair = on_syn(&mut turn, &mut handshake, &frame.segment, is_from_server, now_ns);
        if turn.counted(abi::WL_C_PASS_SYN_OUTSIDE) == 0 {
            self.handshakes.insert(frame.tuple, handshake);
        }
        let tcp = &frame.segment.tcp;
        let base = if is_from_server { tcp.seq.wrapping_add(1) } else { tcp.ack };
        let is_other =
            |id: &u32| self.flows[*id as usize].as_ref().is_some_and(|entry| entry.flow.state().base != base);
        if let Some(id) = known.filter(|_| is_pair).filter(is_other) {
            self.forget(id);
        }
        Ok(())
    }

    /// The flow that begins with this segment, if one does.
    fn adopt(&mut self, frame: &Frame, is_from_server: bool) -> Option<u32> {
        let before = self.handshakes.get(&frame.tuple).copied().unwrap_or_default();
        let mut handshake = before;
        if !begins(&mut handshake, &frame.segment, is_from_server) {
            if handshake != before {
                self.handshakes.entry(frame.tuple).or_insert(handshake);
            }
            return None;
        }
        if handshake.is_missed() != 0 {
            return None;
        }
        let table = self.usage(&frame.tuple, self.flows.len() as u32, |_| 1);
        let Some(id) = Some(()).filter(|()| share::admits(&table)).and_then(|()| self.free.pop()) else {
            handshake.set_is_missed(1);
            self.handshakes.entry(frame.tuple).and_modify(|known| *known = handshake);
            return None;
        };
        let flags = if frame.is_ipv6 { abi::WL_FLOW_IPV6 } else { 0 };
        let now_ns = self.around.now_ns();
        let mut bytes = Bytes::new(0);
        let mut turn =
            self.around.turn(id, frame.tuple, &mut bytes, wl_share_use::default(), (0, frame.payload));
        let mut flow =
            Flow::begin(&mut turn, (id, flags), &handshake, &frame.segment, is_from_server, now_ns);
        flow.state_mut().owner = self.owners[id as usize];
        if self.has_ledgers {
            flow.keep_ledger(&mut turn, now_ns);
        }
        let bytes = Bytes::new(flow.state().base);
        self.flows[id as usize] = Some(Entry { tuple: frame.tuple, flow, bytes });
        self.ids.insert(frame.tuple, id);
        self.handshakes.remove(&frame.tuple);
        Some(id)
    }

    /// One visit of the clock to flow `id`. Returns how many segments it has retransmitted.
    fn visit(&mut self, id: u32) -> Result<u64> {
        let now_ns = self.around.now_ns();
        let visited = self.with_flow(id, (0, &[]), |flow, turn| {
            turn.deadlines_ns = Some(Vec::new());
            flow.tick(turn, now_ns);
            let mut deadlines_ns = turn.deadlines_ns.take().unwrap_or_default();
            // the last one is that of the visit's last step; what comes before finds the flow queued still
            let is_contested = u32::from(flow.state().flags2) & abi::WL_FLOW2_CONTESTED != 0;
            let last_ns = if is_contested { None } else { deadlines_ns.pop() };
            deadlines_ns.into_iter().for_each(|ns| turn.wheel.arm(id, now_ns, ns));
            turn.wheel.visited(id);
            last_ns.into_iter().for_each(|ns| turn.wheel.arm(id, now_ns, ns));
            turn.counted(abi::WL_C_REPAIRED_SEGS)
        })?;
        if visited.is_none() {
            self.around.wheel.visited(id);
        }
        Ok(visited.unwrap_or(0))
    }

    /// The clock looks after the next entries of the flow table.
    fn sweep(&mut self, rounds: u32) -> Result<()> {
        let now_ns = self.around.now_ns();
        let entries = self.flows.len() as u32;
        let stored = self.entries().map(stored_blocks).sum();
        let is_store_scarce = share::is_scarce(self.store_blocks, stored);
        let is_table_scarce = share::is_scarce(entries, self.ids.len() as u32);
        let count = match is_store_scarce || is_table_scarce {
            true if rounds > 1 => SWEEP_SCARCE_MOST,
            true => SWEEP_SCARCE,
            false => rounds,
        };
        for _ in 0..count {
            let id = self.sweep_next % entries;
            self.sweep_next = self.sweep_next.wrapping_add(1);
            let is_expired = self.with_flow(id, (0, &[]), |flow, turn| {
                let is_expired = flow.is_expired(turn, now_ns);
                if !is_expired {
                    flow.reclaim(turn, is_store_scarce, now_ns);
                }
                is_expired
            })?;
            if is_expired == Some(true) {
                self.forget(id);
            }
        }
        Ok(())
    }
}

impl Home for Native {
    fn set_now(&mut self, now_us: u64) -> Result<()> {
        self.around.now_us = now_us;
        Ok(())
    }

    fn pass(&mut self, is_from_server: bool, bytes: &[u8], gso_bytes: u32) -> Result<Option<Vec<u8>>> {
        let unchanged = Ok(Some(bytes.to_vec()));
        let Some(mut frame) = Frame::of(bytes, is_from_server, gso_bytes) else { return unchanged };
        if frame.segment.tcp.flags & SYN != 0 {
            if frame.is_intact {
                self.on_syn(&frame, is_from_server)?;
            }
            return unchanged;
        }
        let known = self.ids.get(&frame.tuple).copied();
        let Some(id) = known.or_else(|| self.adopt(&frame, is_from_server)) else { return unchanged };
        let now_ns = self.around.now_ns();
        let payload = (frame.segment.tcp.seq, frame.payload);
        let verdict = self.with_flow(id, payload, |flow, turn| {
            let state = u32::from(flow.state().state);
            let is_controlled = (abi::WL_FLOW_ACTIVE..=abi::WL_FLOW_RECLAIMED).contains(&state);
            (frame.is_intact || !is_controlled).then(|| match is_from_server {
                true => flow.from_sender(turn, &mut frame.segment, now_ns),
                false => flow.from_receiver(turn, &frame.segment, now_ns),
            })
        })?;
        let Some(verdict) = verdict.flatten() else { return unchanged };
        if verdict.is_over != 0 {
            self.forget(id);
        }
        if verdict.is_absorbed != 0 {
            return Ok(None);
        }
        let mut out = bytes.to_vec();
        frame::write_verdict(&mut out, &frame.segment.tcp, &verdict);
        Ok(Some(out))
    }

    fn tick(&mut self) -> Result<Vec<Sent>> {
        let around = &mut self.around;
        around.clock_at_us = around.now_us;
        around.wheel.turn(around.now_us * 1000);
        let mut repaired = 0;
        while repaired < REPAIRS_PER_ROUND
            && let Some(id) = self.around.wheel.next_due()
        {
            repaired += self.visit(id)?;
        }
        let rounds = self.around.wheel.rest_rounds(self.around.now_ns());
        self.sweep(rounds)?;
        Ok(std::mem::take(&mut self.around.sent))
    }

    fn set_policy(&mut self, mode: Mode, controls_paced: bool) -> Result<()> {
        let policy = &mut self.around.policy;
        (policy.mode, policy.controls_paced) = (mode, controls_paced);
        policy.generation += 1;
        policy.changed_at_us = self.around.now_us as u32;
        Ok(())
    }

    fn flows(&mut self) -> Result<usize> {
        Ok(self.ids.len())
    }
}
