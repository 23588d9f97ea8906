//! Any order of events on the flow machine: data, in order or not, acknowledgements, SACK blocks, repairs,
//! retransmissions by the sender, time. After each the scoreboard must be sound.

use crate::input::Input;
use windlass_core::{
    Flow,
    abi::{self, wl_ack, wl_seg},
    is_after,
};

/// The whole scoreboard is looked at after every event while it is small, and now and then when it is large.
const SMALL_BYTES: u32 = 256 << 10;
const NOW_AND_THEN: u32 = 16;
/// What a sender leaves out at most, and a receiver offers at most: far more than one flow may have in flight.
const GAP_MAX_BYTES: u32 = 1 << 24;
const WINDOW_MAX_BYTES: u32 = 1 << 28;
/// Longest time between two events.
const STEP_MAX_US: u32 = 1 << 20;
/// Longer than any timeout without a round-trip time; those are 60 s at most.
const LONG_SILENCE_US: u32 = 61_000_000;
/// Records that an ACK, a packet of the sender or a visit of the clock may look at, retransmissions and searches apart
/// (core/flow/work.h): each step but those of the cumulative acknowledgement may look at two neighbours in a list.
const STEPS_MAX: u32 = abi::WL_CUMULATIVE_STEPS
    + 3 * (abi::WL_SACK_STEPS + abi::WL_JUDGE_STEPS + abi::WL_JUDGE_RESENT_STEPS + abi::WL_LOSE_STEPS);
/// Searches of an ACK: for the end of the cumulative acknowledgement, and for both of the last SACK block.
const SEARCHES_MAX: u32 = 3;
const SACK_BLOCKS: usize = abi::WL_SACK_BLOCKS as usize;

/// A flow, its time, and what it promised before.
struct Machine {
    flow: Flow,
    mss_bytes: u32,
    now_us: u32,
    now_ns: u64,
    edge: u32,
    events: u32,
    /// Not in a bypass: all in flight is recorded.
    is_active: bool,
}

/// Prints what happens, when a find is run again.
macro_rules! trace {
    ($($what:tt)*) => {
        if crate::is_replay() {
            println!($($what)*);
        }
    };
}

/// Runs the events that the bytes stand for.
pub fn flow(data: &[u8]) {
    let mut input = Input(data);
    let mut machine = Machine::new(&mut input);
    while !input.0.is_empty() {
        machine.event(&mut input);
        machine.check();
    }
    machine.bring_to_an_end();
}

impl Machine {
    fn new(input: &mut Input) -> Machine {
        let mss_bytes = [64, 536, 1448, 1460, 8948, 65_000, 65_535, 1024][usize::from(input.u8() & 7)];
        let mut flags = 0;
        for flag in [abi::WL_FLOW_SACK, abi::WL_FLOW_PACED_JUDGED] {
            // mostly set
            flags |= if input.u8() & 3 == 3 { 0 } else { flag };
        }
        if input.u8() & 1 == 1 {
            flags |= abi::WL_FLOW_DEPARTS;
        }
        let base = match input.u8() {
            0..128 => 0u32.wrapping_sub(input.number()),
            _ => input.u32(),
        };
        let now_us = input.u32();
        let mut flow = Flow::new(base, mss_bytes, flags);
        if input.u8() & 1 == 1 {
            flow.rtt_begin(input.u32() % abi::WL_RTO_MAX_US);
        }
        let state = flow.state_mut();
        state.rcv_edge = base;
        state.decision.cwnd_bytes = 10 * mss_bytes;
        state.decision.ssthresh_bytes = abi::WL_CWND_MAX_BYTES;
        state.decision.pacing_bytes_ps = u64::MAX;
        Machine {
            flow,
            mss_bytes,
            now_us,
            now_ns: (1 << 32 | u64::from(now_us)) * 1000,
            edge: base,
            events: 0,
            is_active: true,
        }
    }

    /// Somewhere in what is in flight or near it, at the start of a record or not.
    fn place(&self, input: &mut Input) -> u32 {
        let s = self.flow.state();
        let flight = s.nxt.wrapping_sub(s.una);
        let how = input.u8();
        let share = u64::from(input.u16());
        let at = s.una.wrapping_add((u64::from(flight) * share / 0xffff) as u32);
        match how & 7 {
            0 => s.nxt,
            1 => s.una,
            2 => s.una.wrapping_add(input.number()),
            3 => s.una.wrapping_sub(input.number()),
            4 => at,
            _ => self.flow.seg(at).map_or(at, |seg| seg.seq),
        }
    }

    /// Records that a search looks at: the slots of one record, and what two chunks have besides.
    fn search_max(&self) -> u32 {
        abi::WL_RECORD_MAX_SLOTS + self.flow.state().overflow_records.min(2 * abi::WL_CHUNK_OVERFLOW)
    }

    fn event(&mut self, input: &mut Input) {
        self.events += 1;
        let what = input.u8() & 15;
        self.flow.take_touched();
        let search_max = self.search_max();
        self.happens(what, input);
        let touched = self.flow.take_touched();
        let touched_max = STEPS_MAX + SEARCHES_MAX * search_max.max(self.search_max());
        assert!(matches!(what, 8 | 9) || touched <= touched_max, "one event looks at {touched} records");
    }

    fn happens(&mut self, what: u8, input: &mut Input) {
        match what {
            0..=3 => {
                let len = match input.u8() {
                    n @ 0..128 => self.mss_bytes * (1 + u32::from(n & 15)),
                    n @ 128..192 => 1 + u32::from(n & 63) * 16,
                    _ => input.number().max(1),
                };
                let s = self.flow.state();
                let (nxt, hole) = (s.nxt, s.hole_start);
                let seq = match input.u8() {
                    0..200 => nxt,
                    200..220 => nxt.wrapping_add(input.number()),
                    220..240 => hole,
                    _ => self.place(input),
                };
                self.send(seq, len.min(65_535));
            }
            4..=7 => self.acknowledge(input),
            8 | 9 => self.repair(1 + u32::from(input.u8() & 15)),
            10..=12 => {
                self.wait(input.number().min(STEP_MAX_US));
                if self.flow.is_behind() {
                    self.go_on();
                } else if self.is_active {
                    self.flow.detect(self.now_us);
                }
            }
            13 if self.is_active => {
                let said = self.flow.on_silence(self.now_us);
                trace!("silence says {said}");
            }
            14 => {
                let decision = &mut self.flow.state_mut().decision;
                decision.cwnd_bytes = input.number().min(abi::WL_CWND_MAX_BYTES);
                decision.pacing_bytes_ps = if input.u8() & 1 == 0 { u64::MAX } else { input.u32().into() };
            }
            _ => {
                self.flow.edge_advance(self.now_ns);
                let s = self.flow.state();
                assert!(
                    !is_after(s.edge, s.rcv_edge) || s.edge == self.edge,
                    "more than the receiver offers"
                );
            }
        }
    }

    fn wait(&mut self, by_us: u32) {
        self.now_us = self.now_us.wrapping_add(by_us);
        self.now_ns += u64::from(by_us) * 1000;
    }

    /// When `bytes` that come now leave.
    fn departs_us(&mut self, bytes: u32) -> u32 {
        if self.flow.state().flags & abi::WL_FLOW_DEPARTS == 0 {
            return self.now_us;
        }
        (self.flow.depart_ns(self.now_ns, bytes) / 1000) as u32
    }

    /// Data of the sender, as much of it as the scoreboard needs: core/box/data.h itself is the target `boxed`.
    fn send(&mut self, seq: u32, len: u32) {
        let end = seq.wrapping_add(len);
        let (una, nxt) = (self.flow.state().una, self.flow.state().nxt);
        if is_after(end, nxt.wrapping_add(GAP_MAX_BYTES)) {
            return;
        }
        // what is further ahead than any window passes, and is none of the flow's
        if is_after(end, una) && end.wrapping_sub(una) > abi::WL_CWND_MAX_BYTES {
            return;
        }
        let max = if is_after(end, nxt) { end } else { nxt };
        trace!("send {seq}+{len}, nxt {nxt}, kind {}", self.flow.data_kind(seq, len));
        let from = match self.flow.data_kind(seq, len) {
            abi::WL_DATA_NEW => nxt,
            abi::WL_DATA_LATE | abi::WL_DATA_GAP => seq,
            abi::WL_DATA_TOO_MUCH => return self.forget(end),
            abi::WL_DATA_RETRANS => return self.retransmit(seq, end),
            abi::WL_DATA_OLD => return self.flow.probed_by_sender(end),
            _ => return,
        };
        let leaves_us = self.departs_us(len);
        let is_lone = seq == nxt && len < 2 * u32::from(self.flow.state().mss_bytes);
        if is_lone && self.flow.mtu_probe(len, leaves_us) {
            self.set_active(false);
        } else if !self.flow.send_at(from, end, leaves_us) {
            self.forget(max);
        }
        let state = self.flow.state_mut();
        assert_eq!(state.nxt, max);
        if is_after(state.nxt, state.edge) {
            state.edge = state.nxt;
        }
        self.end_bypass();
    }

    fn retransmit(&mut self, seq: u32, end: u32) {
        self.flow.probed_by_sender(end);
        if !self.is_active || !self.flow.is_taken_care_of(seq, 3, self.now_us) {
            let leaves_us = self.departs_us(end.wrapping_sub(seq));
            self.flow.sender_retrans(seq, end, leaves_us);
        }
    }

    fn forget(&mut self, nxt: u32) {
        trace!("forget, nxt {nxt}");
        self.flow.forget(nxt);
        self.set_active(false);
    }

    fn set_active(&mut self, is_active: bool) {
        self.is_active = is_active;
        let state = if is_active { abi::WL_FLOW_ACTIVE } else { abi::WL_FLOW_BYPASS };
        self.flow.state_mut().state = state as u8;
    }

    fn end_bypass(&mut self) {
        if !self.is_active && self.flow.is_whole() && !self.flow.is_behind() {
            trace!("whole");
            self.set_active(true);
            let state = self.flow.state_mut();
            state.shown_una = state.una;
        }
    }

    fn acknowledge(&mut self, input: &mut Input) {
        let mut ack = wl_ack { ack: self.place(input), now_us: self.now_us, ..wl_ack::default() };
        let how = input.u8();
        ack.says_more = how >> 7;
        // where SACK was not agreed on, the box takes no blocks from a packet (core/box/show.h)
        let blocks = if self.flow.state().flags & abi::WL_FLOW_SACK != 0 { SACK_BLOCKS as u8 } else { 0 };
        ack.sack_count = (how & 7).min(blocks);
        for i in 0..usize::from(ack.sack_count) {
            (ack.sack_start[i], ack.sack_end[i]) = (self.place(input), self.place(input));
        }
        let state = self.flow.state_mut();
        let edge = ack.ack.wrapping_add(input.number().min(WINDOW_MAX_BYTES));
        if is_after(edge, state.rcv_edge) {
            state.rcv_edge = edge;
        }
        if self.flow.ack_kind(ack.ack) < abi::WL_ACK_SAME {
            return;
        }
        let before = self.flow.state();
        let (una, out) = (before.una, before.nxt.wrapping_sub(before.una_seg));
        let sample = self.flow.ack(&ack);
        trace!(
            "ack {} of {una}.., blocks {:?} {:?}: delivered {}, lost {}",
            ack.ack,
            &ack.sack_start[..usize::from(ack.sack_count)],
            &ack.sack_end[..usize::from(ack.sack_count)],
            sample.newly_delivered_bytes,
            sample.lost_bytes
        );
        let after = self.flow.state();
        assert_eq!(sample.acked_bytes, after.una.wrapping_sub(una));
        assert!(sample.newly_delivered_bytes <= out, "delivered more than was in flight");
        assert!(sample.lost_bytes <= out, "lost more than was in flight");
        assert_eq!(sample.inflight_bytes, self.pipe());
        assert!(sample.rate_delivered_bytes == 0 || sample.rate_interval_us > 0 || after.min_rtt_us == 0);
        if let Some((start, end)) = self.flow.probe_report() {
            trace!("report {start}..{end}");
            assert!(is_after(end, start) && !is_after(end, after.una), "reports what has not arrived");
            self.flow.state_mut().flags &= !abi::WL_FLOW_SENDER_PROBED;
        }
        if self.is_active && self.flow.hole_stays(self.now_us) {
            trace!("a hole stays");
            self.set_active(false);
        }
        self.end_bypass();
    }

    /// A round of the clock: what ACKs have left to do goes on.
    fn go_on(&mut self) {
        let (sample, _) = self.flow.go_on(self.now_us);
        trace!("goes on: delivered {}, lost {}", sample.newly_delivered_bytes, sample.lost_bytes);
        self.end_bypass();
    }

    fn repair(&mut self, segs: u32) {
        for _ in 0..segs {
            let Some((seq, len)) = self.flow.next_repair() else { return };
            let seg = *self.flow.seg(seq).expect("what is sent again is live");
            assert_eq!((seg.seq, u32::from(seg.len_bytes)), (seq, len));
            assert!(has(&seg, abi::WL_SEG_LOST) && !has(&seg, abi::WL_SEG_SACKED));
            let leaves_us = self.departs_us(len);
            self.flow.repaired(seq, leaves_us);
        }
    }

    fn pipe(&self) -> u32 {
        let s = self.flow.state();
        s.nxt.wrapping_sub(s.una_seg) - s.sacked_bytes - s.lost_bytes
    }

    /// The record of this number.
    fn record(&self, number: u32) -> wl_seg {
        *self.flow.record(number).unwrap_or_else(|| panic!("record {number} is listed, but not live"))
    }

    /// Walks one of the two lists; returns how many records it has and their bytes.
    fn walk(&self, head: u32, tail: u32, flag: u32) -> (u32, u32) {
        let (mut n, mut bytes, mut prev, mut at) = (0, 0, abi::WL_NO_SLOT, head);
        while at != abi::WL_NO_SLOT {
            let seg = self.record(at);
            assert!(has(&seg, flag), "a record of the list says it is in none");
            assert!(!has(&seg, abi::WL_SEG_SACKED), "delivered, and listed");
            assert_eq!(seg.prev() as u32, prev);
            (prev, at) = (at, seg.next() as u32);
            n += 1;
            bytes += u32::from(seg.len_bytes);
            assert!(n <= abi::WL_FLOW_RECORDS, "the list goes round");
        }
        assert_eq!(tail, prev);
        (n, bytes)
    }

    fn is_in_hole(&self, seq: u32) -> bool {
        let s = self.flow.state();
        s.hole_bytes > 0 && !is_after(s.hole_start, seq) && is_after(s.hole_end, seq)
    }

    fn check(&mut self) {
        let s = *self.flow.state();
        let out = s.nxt.wrapping_sub(s.una_seg);
        assert!(!is_after(s.una, s.nxt) && !is_after(s.una_seg, s.una), "una_seg <= una <= nxt");
        assert!(s.sacked_bytes.checked_add(s.lost_bytes).is_some_and(|gone| gone <= out), "pipe below zero");
        assert!(s.nxt.wrapping_sub(s.una) <= abi::WL_CWND_MAX_BYTES, "more in flight than any window");
        assert!(!is_after(s.fack, s.nxt) && !is_after(s.judged, s.nxt), "fack, judged <= nxt");
        let (is_armed, is_proven) = (abi::WL_FLOW_UNDO, abi::WL_FLOW_UNDO | abi::WL_FLOW_ALL_TWICE);
        let undo = s.flags & (is_proven | abi::WL_FLOW_UNDO_BOTH);
        assert!(undo == 0 || undo & is_armed != 0, "something to undo, and nothing to undo it to");
        assert!(undo & is_proven != is_proven || s.undo_bytes == 0, "proven too soon");
        assert!(s.delivered_bytes <= s.nxt.wrapping_sub(s.base), "delivered more than was sent");
        assert!(!is_after(self.edge, s.edge), "the edge moved left");
        self.edge = s.edge;
        let deadline_ns = self.flow.deadline_ns(self.now_ns, 0);
        assert!(deadline_ns == 0 || deadline_ns >= self.now_ns, "a deadline in the past");
        // beyond what the receiver offers it is the sender's to repeat
        let is_closed = !is_after(s.rcv_edge, s.una);
        let is_waited_for = deadline_ns != 0 || s.una == s.nxt || is_closed || !self.is_active;
        assert!(is_waited_for, "in flight, and nobody waits for it");
        if out < SMALL_BYTES || self.events.is_multiple_of(NOW_AND_THEN) {
            self.check_records();
        }
    }

    /// Records cover what is in flight without gap or overlap, and lists and sums are theirs.
    fn check_records(&self) {
        let s = self.flow.state();
        let (mut sacked, mut lost, mut lost_bytes, mut resent, mut resent_bytes) = (0, 0, 0, 0, 0);
        let mut sacked_records = 0;
        let mut recorded_bytes = 0;
        let mut at = s.una_seg;
        while at != s.nxt {
            let Some(seg) = self.flow.seg(at).filter(|seg| !is_after(at, seg.seq)) else {
                // nothing from here to the next slot: then it must be a hole
                assert!(self.is_in_hole(at), "no record at {at}");
                let next = (at.wrapping_sub(s.base) | ((1 << abi::WL_SLOT_SHIFT) - 1)).wrapping_add(1);
                at = s.base.wrapping_add(next);
                if is_after(at, s.nxt) {
                    at = s.nxt;
                }
                continue;
            };
            assert!(seg.seq == at || self.is_in_hole(at), "a gap before {}", seg.seq);
            at = seg.seq;
            let len = u32::from(seg.len_bytes);
            assert!(len <= s.nxt.wrapping_sub(at), "a record beyond nxt");
            let slot_of = |seq: u32| seq.wrapping_sub(s.base) >> abi::WL_SLOT_SHIFT;
            let end = at.wrapping_add(len);
            for slot in slot_of(at) + 1..=slot_of(end.wrapping_sub(1)) {
                let inside = self.flow.seg(s.base.wrapping_add(slot << abi::WL_SLOT_SHIFT));
                assert!(inside.is_none_or(|other| !is_after(end, other.seq)), "a record inside another");
            }
            if has(seg, abi::WL_SEG_SACKED) {
                sacked += len;
                sacked_records += 1;
            }
            if has(seg, abi::WL_SEG_LOST) {
                (lost, lost_bytes) = (lost + 1, lost_bytes + len);
            } else if has(seg, abi::WL_SEG_RESENT) {
                (resent, resent_bytes) = (resent + 1, resent_bytes + len);
            }
            recorded_bytes += len - s.una.wrapping_sub(at).min(if at == s.una_seg { len } else { 0 });
            at = at.wrapping_add(len);
        }
        assert_eq!(s.hole_bytes, s.nxt.wrapping_sub(s.una) - recorded_bytes, "hole_bytes");
        assert_eq!(s.sacked_bytes, sacked, "sacked_bytes");
        assert_eq!(s.sacked_records, sacked_records, "sacked_records");
        assert_eq!(s.lost_bytes, lost_bytes, "lost_bytes");
        assert_eq!(self.walk(s.lost_head, s.lost_tail, abi::WL_SEG_LOST), (lost, lost_bytes));
        assert_eq!(self.walk(s.resent_head, s.resent_tail, abi::WL_SEG_RESENT), (resent, resent_bytes));
        assert_eq!(s.resent_bytes, resent_bytes, "resent_bytes");
    }

    /// All that events have left to do is done.
    fn finish_work(&mut self) {
        let mut rounds = 0;
        while self.flow.is_behind() || (self.flow.state().todo != 0 && self.is_active) {
            if self.flow.is_behind() {
                self.go_on();
            } else {
                self.flow.detect(self.now_us);
            }
            rounds += 1;
            assert!(rounds <= abi::WL_FLOW_RECORDS, "work that does not end");
        }
    }

    /// Silence makes everything be retransmitted, and one acknowledgement of it all leaves nothing behind.
    fn bring_to_an_end(&mut self) {
        trace!("end");
        self.finish_work();
        let una = self.flow.state().una;
        let state = self.flow.state_mut();
        state.decision.cwnd_bytes = abi::WL_CWND_MAX_BYTES;
        state.rcv_edge = una.wrapping_add(abi::WL_CWND_MAX_BYTES);
        for _ in 0..if self.is_active { 2 } else { 0 } {
            let s = self.flow.state();
            self.wait(LONG_SILENCE_US + 2 * s.srtt_us + 4 * s.rttvar_us);
            let said = self.flow.on_silence(self.now_us);
            self.finish_work();
            let s = self.flow.state();
            assert_eq!(said == abi::WL_SILENCE_NONE, s.una == s.nxt, "silence is noticed");
            let undelivered = s.nxt.wrapping_sub(s.una_seg) - s.sacked_bytes - s.hole_bytes;
            if said >= abi::WL_SILENCE_TIMEOUT {
                assert_eq!(s.lost_bytes, undelivered, "a timeout loses all that is not delivered");
            }
            self.check();
            self.repair(abi::WL_FLOW_RECORDS);
            assert_eq!(self.flow.state().lost_bytes, 0, "all is sent again");
            self.check();
        }
        let ack = wl_ack { ack: self.flow.state().nxt, now_us: self.now_us, ..wl_ack::default() };
        self.flow.ack(&ack);
        self.finish_work();
        self.end_bypass();
        self.check();
        assert!(self.is_active, "a bypass ends with the last acknowledgement");
        let s = self.flow.state();
        assert_eq!((s.una, s.una_seg, s.sacked_bytes, s.lost_bytes), (s.nxt, s.nxt, 0, 0));
        assert_eq!((s.lost_head, s.resent_head), (abi::WL_NO_SLOT, abi::WL_NO_SLOT));
        assert_eq!(self.flow.next_repair(), None);
    }
}

fn has(seg: &wl_seg, flag: u32) -> bool {
    u32::from(seg.flags) & flag != 0
}
