//! Any segments of both ends of a flow, visits of the clock, and refusals of the home, in any order (`core/box/`). What the box
//! must never do is asserted at each: acknowledge more than the receiver has, move the edge left, retransmit what it has not
//! stored, keep memory of what is acknowledged, absorb a sender's retransmissions without end.

use crate::{input::Input, turns};
use windlass_core::{
    Algorithm, Flow, Home, Segment,
    abi::{self, wl_flow, wl_handshake, wl_segment, wl_sent, wl_verdict},
    begins, is_after, on_syn,
};

/// Longest time between two events.
const STEP_MAX_US: u32 = 1 << 20;
/// Longer than any timeout and than twice any round trip that a step can make.
const LONG_NS: u64 = 130_000_000_000;
/// A sender's retransmissions without any progress, of which one at least must pass.
const INSISTS: u32 = 6;

/// What the home was called for, and what it returns.
#[derive(Default)]
struct Around {
    algorithm: u32,
    /// What the rule wants, if that is not control; and has the flow not looked it up yet?
    mode: Option<u32>,
    is_rule_new: bool,
    refusal: u32,
    differs: bool,
    is_clock_lost: bool,
    cannot_send: bool,
    random: u32,
    deadline_ns: u64,
    /// Stored stretches of the stream.
    stored: Vec<(u32, u32)>,
    sent: Vec<wl_sent>,
}

impl Home for Around {
    fn count(&mut self, counter: u32, _n: u64) {
        assert!(counter < abi::WL_COUNTERS, "counter {counter}");
        assert_ne!(counter, abi::WL_C_STATE_ILLEGAL, "the transition is not in core/box/state.h");
    }

    fn random(&mut self) -> u32 {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.random
    }

    fn arm(&mut self, deadline_ns: u64) {
        self.deadline_ns = deadline_ns;
    }

    fn send(&mut self, _flow: &wl_flow, segment: &wl_sent, _departs_at_ns: u64) -> bool {
        if !self.cannot_send {
            self.sent.push(*segment);
        }
        !self.cannot_send
    }

    fn apply_policy(&mut self, flow: &mut wl_flow) -> bool {
        let mode = self.mode.unwrap_or(abi::WL_MODE_ENFORCE);
        (flow.mode, flow.algorithm) = (mode as u8, self.algorithm as u8);
        self.is_rule_new = false;
        flow.params.flags = abi::WL_ALG_CANNOT_DELAY as u8;
        true
    }

    fn is_policy_current(&mut self, _flow: &wl_flow) -> bool {
        !self.is_rule_new
    }

    fn clock_runs(&mut self) -> bool {
        !self.is_clock_lost
    }

    fn store(&mut self, seq: u32, len: u32) -> u32 {
        if self.refusal == 0 {
            self.stored.push((seq, seq.wrapping_add(len)));
        }
        self.refusal
    }

    fn differs(&mut self, _seq: u32, _len: u32) -> bool {
        self.differs
    }
}

impl Around {
    /// Is all of `[seq, end)` stored?
    fn has(&self, mut seq: u32, end: u32) -> bool {
        while is_after(end, seq) {
            let from = |&&(start, until): &&(u32, u32)| !is_after(start, seq) && is_after(until, seq);
            let Some((_, until)) = self.stored.iter().find(from) else { return false };
            seq = *until;
        }
        true
    }
}

/// A flow at the box.
struct Machine {
    around: Around,
    flow: Flow,
    now_ns: u64,
    peer: u32,
    /// Newest acknowledgement of the receiver that the box may have believed.
    acked: u32,
    /// As far as the box grants it; none while the receiver's own window passes, which the receiver may take back.
    edge: Option<u32>,
    is_over: bool,
}

/// Runs the events that the bytes stand for.
pub fn boxed(data: &[u8]) {
    let mut input = Input(data);
    let Some(mut m) = Machine::new(&mut input) else { return };
    while !input.0.is_empty() && !m.is_over {
        m.event(&mut input);
        m.check();
    }
    if !m.is_over {
        m.insist();
        m.bring_to_an_end();
    }
}

impl Machine {
    fn new(input: &mut Input) -> Option<Machine> {
        let algorithms: Vec<u32> = Algorithm::all().map(|a| a.id()).collect();
        let algorithm = algorithms[usize::from(input.u8()) % algorithms.len()];
        let mut around = Around { algorithm, random: input.u32(), ..Around::default() };
        let (base, peer) = (input.u32(), input.u32());
        let (mss, wscale, sack) = (input.u16().max(1), input.u8() % 15, input.u8() & 3 != 3);
        let now_ns = 1_000_000_000 + u64::from(input.u32()) * 1000;
        let syn = |seq: u32, ack, flags: u32, from_sender| {
            let tcp = wl_segment { seq, ack, flags: flags as u8, ..wl_segment::default() };
            let mut segment = Segment::new(tcp);
            segment.add_syn_options(mss, wscale, sack);
            segment.add_timestamps(1, 0);
            (segment, from_sender)
        };
        let mut handshake = wl_handshake::default();
        let ecn = abi::WL_TCP_ECE | if input.u8() & 1 == 1 { abi::WL_TCP_CWR } else { 0 };
        let answer = abi::WL_TCP_SYN | abi::WL_TCP_ACK | abi::WL_TCP_ECE;
        for (segment, from_sender) in [
            syn(peer.wrapping_sub(1), 0, abi::WL_TCP_SYN | ecn, false),
            syn(base.wrapping_sub(1), peer, answer, true),
        ] {
            on_syn(&mut around, &mut handshake, &segment, from_sender, now_ns);
        }
        let tcp = wl_segment { seq: peer, ack: base, flags: abi::WL_TCP_ACK as u8, ..wl_segment::default() };
        let first = Segment::new(wl_segment { window_field: input.u16(), ..tcp });
        begins(&mut handshake, &first, false).then(|| {
            let flags = if input.u8() & 3 == 3 { abi::WL_FLOW_DEPARTS } else { 0 };
            let flow = Flow::begin(&mut around, (7, flags), &handshake, &first, false, now_ns);
            let edge = Some(flow.state().edge);
            Machine { around, flow, now_ns, peer, acked: base, edge, is_over: false }
        })
    }

    /// Somewhere in what is in flight, or near it.
    fn place(&self, input: &mut Input) -> u32 {
        let s = self.flow.state();
        let flight = u64::from(s.nxt.wrapping_sub(s.una));
        match input.u8() & 7 {
            0 | 1 => s.nxt,
            2 => s.una,
            3 => s.una.wrapping_add(input.number()),
            4 => s.una.wrapping_sub(input.number()),
            5 => s.hole_start,
            _ => s.una.wrapping_add((flight * u64::from(input.u16()) / 0xffff) as u32),
        }
    }

    fn event(&mut self, input: &mut Input) {
        match input.u8() & 15 {
            0..=4 => self.sender(input),
            5..=9 => self.receiver(input),
            10 | 11 => self.now_ns = self.now_ns.max(self.around.deadline_ns),
            12 => {
                self.around.refusal = if input.u8() & 3 == 3 { abi::WL_C_BYPASS_STORE_FULL } else { 0 };
                self.around.differs = input.u8() & 7 == 7;
            }
            13 => {
                self.around.is_clock_lost = input.u8() & 7 == 7;
                self.around.cannot_send = input.u8() & 7 == 7;
            }
            14 if input.u8() & 7 == 7 => {
                self.around.mode =
                    [None, Some(abi::WL_MODE_WATCH), Some(abi::WL_MODE_OFF)][input.u8() as usize % 3];
                self.around.is_rule_new = true;
            }
            _ => self.now_ns += u64::from(input.number().min(STEP_MAX_US)) * 1000,
        }
        if !self.around.is_clock_lost && self.around.deadline_ns.wrapping_sub(1) < self.now_ns {
            self.around.deadline_ns = 0;
            turns::note();
            self.flow.tick(&mut self.around, self.now_ns);
        }
    }

    fn sender(&mut self, input: &mut Input) {
        let s = self.flow.state();
        let mss = u32::from(s.mss_bytes);
        let payload_bytes = match input.u8() {
            0 => 0,
            n @ 1..160 => mss * (1 + u32::from(n & 3)),
            _ => input.number() & 0x7_ffff,
        };
        let ack = match input.u8() & 7 {
            0 => input.u32(),
            1 => self.peer.wrapping_sub(input.number()),
            _ => s.rcv_seq,
        };
        let flags = abi::WL_TCP_ACK
            | match input.u8() {
                0 => abi::WL_TCP_RST,
                1..4 => abi::WL_TCP_URG,
                4..8 => abi::WL_TCP_FIN,
                _ => 0,
            };
        let seq = self.place(input);
        let tcp = wl_segment {
            seq,
            ack,
            payload_bytes,
            window_field: input.u16(),
            flags: flags as u8,
            ..wl_segment::default()
        };
        let mut segment = Segment::new(tcp);
        segment.add_timestamps(input.u32() >> 8, 1);
        segment.gso_bytes = if payload_bytes > mss { mss } else { 0 };
        turns::note();
        let verdict = self.flow.from_sender(&mut self.around, &mut segment, self.now_ns);
        let is_bypassed = u32::from(self.flow.state().state) != abi::WL_FLOW_ACTIVE;
        assert!(verdict.is_absorbed == 0 || !is_bypassed, "absorbed in a bypass");
        self.is_over = verdict.is_over != 0;
    }

    fn receiver(&mut self, input: &mut Input) {
        let s = self.flow.state();
        let flags = abi::WL_TCP_ACK
            | match input.u8() {
                0 => abi::WL_TCP_RST,
                1..4 => abi::WL_TCP_FIN,
                4..20 => abi::WL_TCP_ECE,
                _ => 0,
            };
        let seq = if input.u8() & 7 == 7 { s.snd_ack.wrapping_add(input.number()) } else { s.rcv_seq };
        let tcp = wl_segment {
            seq,
            ack: self.place(input),
            payload_bytes: if input.u8() & 7 == 7 { input.number() & 0xffff } else { 0 },
            window_field: if input.u8() & 7 == 7 { input.u16() } else { 0xffff },
            flags: flags as u8,
            ..wl_segment::default()
        };
        let mut segment = Segment::new(tcp);
        segment.add_timestamps(input.u32() >> 8, 1);
        for _ in 0..input.u8() & 3 {
            let start = self.place(input);
            segment.add_sack([(start, start.wrapping_add(input.number().max(1)))]);
        }
        self.acknowledge(&segment);
    }

    fn acknowledge(&mut self, segment: &Segment) -> wl_verdict {
        let ack = segment.tcp.ack;
        if self.flow.ack_kind(ack) != abi::WL_ACK_OUTSIDE && is_after(ack, self.acked) {
            self.acked = ack;
        }
        turns::note();
        let verdict = self.flow.from_receiver(&mut self.around, segment, self.now_ns);
        if verdict.is_absorbed == 0 && verdict.ack != ack {
            assert!(!is_after(verdict.ack, self.acked), "forwarded more than the receiver acknowledges");
        }
        self.is_over = verdict.is_over != 0;
        verdict
    }

    fn check(&mut self) {
        let s = self.flow.state();
        // of a flow that is not controlled the box grants nothing
        let is_edge_granted = s.is_controlled() || u32::from(s.state) == abi::WL_FLOW_HANDING_BACK;
        let edge = is_edge_granted.then_some(s.edge);
        if let (Some(before), Some(edge)) = (self.edge, edge) {
            assert!(!is_after(before, edge), "the edge moves left: {before} {edge}");
        }
        self.edge = edge;
        let blocks = s.blocks.iter().filter(|&&block| block != 0).count();
        assert_eq!(usize::from(s.stored_blocks), blocks);
        let tables = s.tables.iter().filter(|&&table| table != 0).count();
        assert!((tables..=tables * abi::WL_TABLE_CHUNKS as usize).contains(&usize::from(s.stored_chunks)));
        for sent in std::mem::take(&mut self.around.sent) {
            let end = sent.seq.wrapping_add(sent.len_bytes);
            if sent.to_sender != 0 {
                assert!(!is_after(sent.ack, self.acked), "shown more than the receiver acknowledges");
            } else {
                assert!(sent.len_bytes > 0 && self.around.has(sent.seq, end), "{sent:?} is not stored");
            }
        }
        let una = self.flow.state().una;
        self.around.stored.retain(|&(_, end)| is_after(end, una.wrapping_sub(0x1_0000)));
    }

    /// The sender retransmits what nothing comes back for.
    fn insist(&mut self) {
        (self.around.refusal, self.around.differs, self.around.is_clock_lost) = (0, false, false);
        let mut absorbed = 0;
        for _ in 0..INSISTS {
            let s = self.flow.state();
            let (seq, ack, len) = (s.una, s.rcv_seq, s.nxt.wrapping_sub(s.una).min(u32::from(s.mss_bytes)));
            let is_controlled = s.is_controlled();
            if len == 0 || !is_controlled {
                return;
            }
            self.now_ns += LONG_NS;
            turns::note();
            self.flow.tick(&mut self.around, self.now_ns);
            let tcp = wl_segment {
                seq,
                ack,
                payload_bytes: len,
                flags: abi::WL_TCP_ACK as u8,
                ..wl_segment::default()
            };
            let mut segment = Segment::new(tcp);
            turns::note();
            absorbed +=
                u32::from(self.flow.from_sender(&mut self.around, &mut segment, self.now_ns).is_absorbed);
            self.check();
        }
        assert!(absorbed < INSISTS, "retransmissions are absorbed without end");
    }

    /// All is acknowledged: nothing is kept.
    fn bring_to_an_end(&mut self) {
        let s = self.flow.state();
        let tcp = wl_segment {
            seq: s.snd_ack,
            ack: s.nxt,
            window_field: 0xffff,
            flags: abi::WL_TCP_ACK as u8,
            ..wl_segment::default()
        };
        self.acknowledge(&Segment::new(tcp));
        // what is taken off in parts goes on at each visit
        for _ in 0..100_000 {
            if self.is_over || !self.flow.is_behind() {
                break;
            }
            self.now_ns += 500_000;
            turns::note();
            self.flow.tick(&mut self.around, self.now_ns);
        }
        let s = self.flow.state();
        assert!(
            self.is_over || (s.una == s.nxt && s.stored_chunks == 0 && s.stored_blocks == 0),
            "{} chunks and {} blocks are left",
            s.stored_chunks,
            s.stored_blocks
        );
    }
}
