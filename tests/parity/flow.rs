//! The flow machine: data, acknowledgements, losses and silences do the same to a flow in both builds, to the byte.

use crate::{
    Bpf, Random,
    vectors::{
        WL_PARITY_FLOW_ACK as ACK, WL_PARITY_FLOW_DEADLINE as DEADLINE, WL_PARITY_FLOW_DEPART as DEPART,
        WL_PARITY_FLOW_DSACK as DSACK, WL_PARITY_FLOW_EDGE as EDGE, WL_PARITY_FLOW_FORGET as FORGET,
        WL_PARITY_FLOW_JUDGE as JUDGE, WL_PARITY_FLOW_MARK as MARK, WL_PARITY_FLOW_OFFERED as OFFERED,
        WL_PARITY_FLOW_RECOVERY as RECOVERY, WL_PARITY_FLOW_REPAIR as REPAIR,
        WL_PARITY_FLOW_RETRANS as RETRANS, WL_PARITY_FLOW_SEND as SEND, WL_PARITY_FLOW_SHOWN as SHOWN,
        WL_PARITY_FLOW_SILENCE as SILENCE, WL_PARITY_FLOW_SUPPLY as SUPPLY, WL_PARITY_RECORDS,
        wl_parity_flow as Vector,
    },
};
use windlass_core::{
    Algorithm, Flow,
    abi::{self, wl_ack, wl_sample, wl_seg},
    is_after,
};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/parity_flow.bpf.o"));
const EVENTS: u32 = 6000;
/// All records are looked at now and then: that is a quarter of a MiB.
const NOW_AND_THEN: u32 = 8;
const MSS: u32 = 1448;
/// In flight at most.
const WINDOW: u32 = 150 * MSS;

fn bytes_of<T>(value: &T) -> &[u8] {
    // SAFETY: used for the core's plain structs, whose padding is not written; the slice lives no longer than the value.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A flow in both builds.
struct Pair<'a> {
    bpf: &'a mut Bpf,
    native: Flow,
    v: Box<Vector>,
    place: String,
}

impl Pair<'_> {
    fn now_us(&self) -> u32 {
        (self.v.now_ns / 1000) as u32
    }

    /// Has `call` happen in both.
    fn call(&mut self, call: u32) {
        self.v.call = call;
        let (now_us, now_ns) = (self.now_us(), self.v.now_ns);
        let Vector { seq, end, ack, mut sample, mut wait_us, mut result, .. } = *self.v;
        let native = &mut self.native;
        match call {
            SEND => result = u64::from(!native.send_at(seq, end, now_us)),
            RETRANS => native.sender_retrans(seq, end, now_us),
            ACK => (sample, wait_us) = native.ack_and_wait(&ack),
            DSACK => native.dsack(&ack),
            MARK => result = native.mark(&mut sample).into(),
            JUDGE => {
                let (lost_bytes, wait) = native.judge(now_us);
                (result, wait_us) = (lost_bytes.into(), wait);
            }
            RECOVERY => native.recovery_enter(&mut sample),
            SILENCE => {
                let (said, lost_bytes) = native.silence(now_us);
                (result, wait_us) = (said.into(), lost_bytes);
            }
            REPAIR => {
                result = 0;
                if let Some((seq, _)) = native.next_repair() {
                    native.repaired(seq, now_us);
                    result = 1 << 32 | u64::from(seq);
                }
            }
            FORGET => {
                let nxt = native.state().nxt;
                native.forget(nxt);
            }
            EDGE => {
                native.edge_advance(now_ns);
                let edge = native.state().edge;
                native.edge_shown(now_ns, edge);
            }
            SHOWN => result = native.shown_step(now_us, end).into(),
            OFFERED => native.offered(seq, end, now_us),
            SUPPLY => native.supply_check(now_us),
            DEPART => result = native.depart_ns(now_ns, end.wrapping_sub(seq)),
            _ => result = native.deadline_ns(now_ns, wait_us),
        }
        if call == ACK {
            self.v.sample = wl_sample::default();
        }
        self.bpf.run_on("wl_flow_vector", "wl_parity_flow_run", &mut *self.v);
        let place = format!("{}, call {call}", self.place);
        assert_eq!((self.v.result, self.v.wait_us, self.v.sample), (result, wait_us, sample), "{place}");
        if bytes_of(self.native.state()) != bytes_of(&self.v.flow) {
            panic!("{place}:\n{:#?}\n{:#?}", self.native.state(), self.v.flow);
        }
    }

    /// Calls hooks of the algorithm, which another test compares, and hands what they decide to the other build.
    fn hooks(&mut self, calls: u32) {
        let now_ns = self.v.now_ns;
        self.native.call(calls, &mut self.v.sample, 0, now_ns);
        self.v.flow = *self.native.state();
    }

    /// All records of what is in flight.
    fn check_records(&self) {
        let slots: Vec<u8> = self.bpf.value("wl_flow_segs");
        let s = self.native.state();
        let size = size_of::<wl_seg>();
        for offset in (0..WINDOW).step_by(1 << abi::WL_SLOT_SHIFT) {
            let seq = s.una_seg.wrapping_add(offset);
            let slot = (seq.wrapping_sub(s.base) >> abi::WL_SLOT_SHIFT) & (abi::WL_FLOW_SLOTS - 1);
            let block = slot / abi::WL_BLOCK_SLOTS;
            let mut number = block * abi::WL_BLOCK_RECORDS + slot % abi::WL_BLOCK_SLOTS;
            // the first of a slot, and what follows in its overflow
            while let Some(seg) = self.native.record(number) {
                let at = (number % WL_PARITY_RECORDS) as usize * size;
                // SAFETY: a record is plain data, of which any bytes are one.
                let other: wl_seg =
                    unsafe { slots[at..at + size].as_ptr().cast::<wl_seg>().read_unaligned() };
                let (ours, other) = (used(*seg), used(other));
                assert_eq!(bytes_of(&ours), bytes_of(&other), "{}: record {number}: {seg:?}", self.place);
                if seg.follows() == 0 {
                    break;
                }
                number = number & !(abi::WL_CHUNK_RECORDS - 1) | seg.follows() as u32;
            }
        }
    }
}

/// The record without what an earlier one at its place may have left in it: of one that is neither listed nor delivered, neighbours.
fn used(mut seg: wl_seg) -> wl_seg {
    let has_neighbours = abi::WL_SEG_LOST | abi::WL_SEG_RESENT | abi::WL_SEG_SACKED;
    if u32::from(seg.flags) & has_neighbours == 0 {
        seg.set_next(0);
    }
    if u32::from(seg.flags) & (abi::WL_SEG_LOST | abi::WL_SEG_RESENT) == 0 {
        seg.set_prev(0);
    }
    seg
}

/// What the receiver has, as stretches [start, end) of offsets in the stream, in order and apart.
#[derive(Default)]
struct Receiver {
    has: Vec<(u32, u32)>,
    last: (u32, u32),
    is_last_twice: bool,
}

impl Receiver {
    fn hear(&mut self, start: u32, end: u32) {
        self.is_last_twice = self.has.iter().any(|h| h.0 <= start && end <= h.1);
        self.last = (start, end);
        let (near, mut apart): (Vec<_>, Vec<_>) = self.has.iter().partition(|h| h.0 <= end && start <= h.1);
        let start = near.iter().map(|h: &(u32, u32)| h.0).fold(start, u32::min);
        let end = near.iter().map(|h| h.1).fold(end, u32::max);
        apart.push((start, end));
        apart.sort();
        self.has = apart;
    }

    /// All before this.
    fn una(&self) -> u32 {
        self.has.first().filter(|h| h.0 == 0).map_or(0, |h| h.1)
    }

    fn ack(&self, base: u32, now_us: u32, has_sack: bool) -> wl_ack {
        let una = self.una();
        let mut ack =
            wl_ack { ack: base.wrapping_add(una), now_us, window_bytes: 1 << 20, ..Default::default() };
        let twice = self.is_last_twice.then_some(self.last);
        let mut beyond: Vec<_> = self.has.iter().filter(|h| h.0 > una).copied().collect();
        // what came last goes first
        beyond.sort_by_key(|h| !(h.0 <= self.last.0 && self.last.1 <= h.1));
        for (start, end) in twice.into_iter().chain(beyond).take(if has_sack { 3 } else { 0 }) {
            let n = usize::from(ack.sack_count);
            (ack.sack_start[n], ack.sack_end[n]) = (base.wrapping_add(start), base.wrapping_add(end));
            ack.sack_count += 1;
        }
        ack
    }
}

/// A sender, a path that loses and reorders, and a receiver, by chance; and now and then what makes no sense.
struct Life<'a> {
    pair: Pair<'a>,
    r: Random,
    base: u32,
    receiver: Receiver,
    /// What has left and not arrived: it may come late.
    late: Vec<(u32, u32)>,
    /// What the sender's host has reordered: it passes after data that was sent later.
    overtaken: Vec<(u32, u32)>,
    flags: u32,
}

impl Life<'_> {
    fn offset(&self, seq: u32) -> u32 {
        seq.wrapping_sub(self.base)
    }

    /// [seq, end) leaves, in segments, each by a fate of its own.
    fn leaves(&mut self, seq: u32, end: u32) {
        let (mut at, end) = (self.offset(seq), self.offset(end));
        while at < end {
            let next = (at + MSS).min(end);
            match self.r.below(40) {
                0 => {}
                1 => self.late.push((at, next)),
                _ => self.receiver.hear(at, next),
            }
            at = next;
        }
    }

    fn send(&mut self, seq: u32, end: u32) {
        let s = self.pair.native.state();
        if end.wrapping_sub(s.una) > WINDOW || end.wrapping_sub(seq) == 0 {
            return;
        }
        let kind = self.pair.native.data_kind(seq, end.wrapping_sub(seq));
        if ![abi::WL_DATA_NEW, abi::WL_DATA_GAP, abi::WL_DATA_LATE].contains(&kind) {
            return;
        }
        (self.pair.v.seq, self.pair.v.end) = (seq, end);
        if self.flags & abi::WL_FLOW_DEPARTS != 0 {
            self.pair.call(DEPART);
        }
        self.pair.call(SEND);
        if self.pair.v.result != 0 {
            self.pair.call(FORGET);
        }
        self.leaves(seq, end);
    }

    fn sends_more(&mut self) {
        let nxt = self.pair.native.state().nxt;
        let bytes = if self.r.below(8) == 0 { 1 + self.r.below(MSS) } else { MSS * (1 + self.r.below(4)) };
        if self.r.below(50) > 0 {
            return self.send(nxt, nxt.wrapping_add(bytes));
        }
        let gap = nxt.wrapping_add(MSS * (1 + self.r.below(3)));
        self.overtaken.push((nxt, gap));
        self.send(gap, gap.wrapping_add(bytes));
    }

    fn acknowledges(&mut self) {
        let now_us = self.pair.now_us();
        let has_sack = self.flags & abi::WL_FLOW_SACK != 0;
        let mut ack = self.receiver.ack(self.base, now_us, has_sack);
        ack.has_ece = (self.r.below(20) == 0).into();
        if self.r.below(50) == 0 {
            // whatever it carries; what may be true is, from then on
            let (una, nxt) = (self.pair.native.state().una, self.pair.native.state().nxt);
            ack.ack = una.wrapping_add(self.r.below(2) * self.r.below(4 * MSS));
            if !is_after(ack.ack, nxt) && ack.ack != una {
                self.receiver.hear(0, self.offset(ack.ack));
            }
            for n in 0..3 {
                ack.sack_start[n] = una.wrapping_add(self.r.below(WINDOW)).wrapping_sub(MSS);
                ack.sack_end[n] = ack.sack_start[n].wrapping_add(self.r.below(20 * MSS));
                if has_sack && !is_after(ack.sack_end[n], nxt) && is_after(ack.sack_start[n], una) {
                    self.receiver.hear(self.offset(ack.sack_start[n]), self.offset(ack.sack_end[n]));
                }
            }
            ack.sack_count = if has_sack { 3 } else { 0 };
        }
        self.pair.v.ack = ack;
        let kind = self.pair.native.ack_kind(ack.ack);
        if kind == abi::WL_ACK_STALE {
            return self.pair.call(DSACK);
        }
        if kind != abi::WL_ACK_SAME && kind != abi::WL_ACK_ADVANCE {
            return;
        }
        (self.pair.v.seq, self.pair.v.end) = (ack.ack, ack.ack.wrapping_add(ack.window_bytes));
        self.pair.call(OFFERED);
        self.pair.call(SUPPLY);
        self.pair.call(ACK);
        let mut calls = self.losses();
        if self.flags & abi::WL_FLOW_ECN != 0 && ack.has_ece != 0 {
            self.pair.call(MARK);
            calls |= if self.pair.v.result != 0 { abi::WL_CALL_ECN } else { 0 };
        }
        self.pair.hooks(calls | abi::WL_CALL_ACK);
        self.pair.v.end = self.pair.native.state().edge;
        self.pair.call(SHOWN);
    }

    /// What the algorithm receives of those in the sample.
    fn losses(&self) -> u32 {
        if self.pair.v.sample.events & abi::WL_EV_RECOVERY_ENTER != 0 { abi::WL_CALL_LOSS } else { 0 }
    }

    /// As the clock does it.
    fn time_passes(&mut self) {
        self.pair.v.sample = wl_sample { now_us: self.pair.now_us(), ..Default::default() };
        self.pair.call(JUDGE);
        let mut calls = 0;
        if self.pair.v.result != 0 {
            self.pair.v.sample.lost_bytes = self.pair.v.result as u32;
            calls |= abi::WL_CALL_ACK;
            if self.pair.native.state().flags & abi::WL_FLOW_RECOVERY == 0 {
                self.pair.call(RECOVERY);
                calls |= self.losses();
            }
        }
        self.pair.call(DEADLINE);
        self.pair.call(SILENCE);
        if self.pair.v.result >= u64::from(abi::WL_SILENCE_TIMEOUT) {
            self.pair.v.sample.events |= abi::WL_EV_TIMEOUT;
            calls |= abi::WL_CALL_TIMEOUT | abi::WL_CALL_ACK;
        }
        if self.pair.v.result == u64::from(abi::WL_SILENCE_UNHEARD) {
            self.pair.call(FORGET);
        }
        self.pair.hooks(calls);
    }

    fn repairs(&mut self) {
        for _ in 0..4 {
            self.pair.call(REPAIR);
            if self.pair.v.result == 0 {
                return;
            }
            let seq = self.pair.v.result as u32;
            let len = self.pair.native.seg(seq).map_or(0, |seg| seg.len_bytes);
            self.leaves(seq, seq.wrapping_add(len.into()));
        }
    }

    fn happens(&mut self) {
        self.pair.v.now_ns += u64::from(self.r.below(2000)) * 1000;
        if self.r.below(100) == 0 {
            // no side sends anything for a while
            for _ in 0..self.r.below(6) {
                self.pair.v.now_ns += u64::from(self.r.below(800_000)) * 1000;
                self.time_passes();
            }
        }
        match self.r.below(100) {
            0..45 => self.sends_more(),
            45..47 => {
                if let Some((seq, end)) = self.overtaken.pop() {
                    self.send(seq, end);
                }
            }
            47..50 => {
                if let Some((start, end)) = self.late.pop() {
                    self.receiver.hear(start, end);
                }
            }
            50..84 => self.acknowledges(),
            84..92 => self.time_passes(),
            92..94 => {
                // by the sender itself, as much as it likes of what is in flight
                let s = self.pair.native.state();
                let (seq, flight) = (s.una, s.nxt.wrapping_sub(s.una));
                let len = self.r.below(flight.max(1)).max(1);
                let (kind, end) = (self.pair.native.data_kind(seq, len), seq.wrapping_add(len));
                if flight > 0 && kind == abi::WL_DATA_RETRANS {
                    (self.pair.v.seq, self.pair.v.end) = (seq, end);
                    self.pair.call(RETRANS);
                    self.leaves(seq, end);
                } else if kind == abi::WL_DATA_LATE {
                    self.send(seq, end);
                }
            }
            94 if self.r.below(10) == 0 => self.pair.call(FORGET),
            _ => self.pair.call(EDGE),
        }
        self.repairs();
    }
}

#[test]
fn flows_agree_to_the_byte() {
    if !windlass_tests::is_root_or_skip("flows_agree_to_the_byte") {
        return;
    }
    let mut bpf = Bpf::load_from(OBJECT);
    let reno = Algorithm::by_name("reno").expect("listed").id();
    let sack = abi::WL_FLOW_SACK;
    for (turn, flags) in
        [sack, sack | abi::WL_FLOW_DEPARTS, sack | abi::WL_FLOW_ECN, 0].into_iter().enumerate()
    {
        let mut r = Random(0x9e37_79b9_7f4a_7c15 ^ turn as u64);
        // numbers wrap
        let base = 0u32.wrapping_sub(r.below(1 << 20));
        let mut native = Flow::new(base, MSS, flags | abi::WL_FLOW_PACED_JUDGED);
        native.own(turn as u32);
        native.rtt_begin(20_000);
        native.state_mut().algorithm = reno as u8;
        bpf.set("wl_flow_segs", &vec![0; WL_PARITY_RECORDS as usize * size_of::<wl_seg>()]);
        let v = Box::new(Vector {
            flow: *native.state(),
            now_ns: u64::from(r.below(u32::MAX)) * 1000,
            result: 0,
            ack: wl_ack::default(),
            sample: wl_sample::default(),
            call: 0,
            seq: 0,
            end: 0,
            wait_us: 0,
            bad_sacks: 0,
            reserved: [0; 2],
        });
        let mut pair = Pair { bpf: &mut bpf, native, v, place: String::new() };
        pair.hooks(abi::WL_CALL_INIT);
        let (receiver, late, overtaken) = (Receiver::default(), Vec::new(), Vec::new());
        let mut life = Life { pair, r, base, receiver, late, overtaken, flags };
        let mut seen = [0; 3];
        for i in 0..EVENTS {
            life.pair.place = format!("flags {flags:#x}, event {i}");
            life.happens();
            if i % NOW_AND_THEN == 0 {
                life.pair.check_records();
            }
            let s = life.pair.native.state();
            seen[0] += u32::from(s.lost_bytes > 0);
            seen[1] += u32::from(s.backoff > 0);
            seen[2] += u32::from(s.sacked_bytes > 0);
        }
        let s = life.pair.native.state();
        println!(
            "flags {flags:#x}: {} bytes, {} segments lost, {} repaired; events with losses, timeouts, SACK: {seen:?}",
            s.una.wrapping_sub(base),
            s.lost_segs,
            s.repaired_segs
        );
        assert!(s.una.wrapping_sub(base) > 1000 * MSS && s.lost_segs > 50 && s.repaired_segs > 50);
        assert!(seen[1] > 10, "timeouts");
    }
}
