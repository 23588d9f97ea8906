//! The box on one flow (`core/box/`): segments of both ends and visits of the clock go in, verdicts come out.

mod ledgers;
mod near;
mod states;
mod store;
mod verdicts;

use std::collections::BTreeMap;
use windlass_core::{
    Algorithm, Flow, Home, Segment,
    abi::{self, wl_flow, wl_flow_record, wl_handshake, wl_segment, wl_sent, wl_verdict},
    begins, on_syn,
};

const MSS: u32 = 1448;
const WSCALE: u8 = 7;
/// First byte of the sender's stream, and of the receiver's.
const BASE: u32 = 1000;
const PEER: u32 = 5000;
const MS: u64 = 1_000_000;

/// A home that notes its calls.
#[derive(Default)]
struct Notes {
    counts: BTreeMap<u32, u64>,
    sent: Vec<wl_sent>,
    records: Vec<wl_flow_record>,
    deadline_ns: u64,
    /// What `store` answers.
    refusal: u32,
    differs: bool,
    is_clock_lost: bool,
    /// What the rule wants, if that is not control; `is_rule_new`: the flow has not looked it up yet.
    mode: Option<u32>,
    is_rule_new: bool,
    /// A test of what is not allowed.
    expects_illegal: bool,
}

impl Home for Notes {
    fn count(&mut self, counter: u32, n: u64) {
        let is_fault = counter == abi::WL_C_STATE_ILLEGAL && !self.expects_illegal;
        assert!(!is_fault, "the transition is not in core/box/state.h");
        *self.counts.entry(counter).or_default() += n;
    }

    fn random(&mut self) -> u32 {
        0
    }

    fn arm(&mut self, deadline_ns: u64) {
        self.deadline_ns = deadline_ns;
    }

    fn send(&mut self, _flow: &wl_flow, segment: &wl_sent, _departs_at_ns: u64) -> bool {
        self.sent.push(*segment);
        true
    }

    fn apply_policy(&mut self, flow: &mut wl_flow) -> bool {
        flow.mode = self.mode.unwrap_or(abi::WL_MODE_ENFORCE) as u8;
        self.is_rule_new = false;
        flow.algorithm = Algorithm::by_name("reno").expect("it is in the list").id() as u8;
        true
    }

    fn is_policy_current(&mut self, _flow: &wl_flow) -> bool {
        !self.is_rule_new
    }

    fn clock_runs(&mut self) -> bool {
        !self.is_clock_lost
    }

    fn store(&mut self, _seq: u32, _len: u32) -> u32 {
        self.refusal
    }

    fn differs(&mut self, _seq: u32, _len: u32) -> bool {
        self.differs
    }

    fn record(&mut self, record: &wl_flow_record) {
        self.records.push(*record);
    }
}

/// A flow at the box.
struct Bench {
    notes: Notes,
    flow: Flow,
    now_ns: u64,
}

fn segment(seq: u32, ack: u32, len: u32, window_field: u16, flags: u32) -> Segment {
    let flags = (flags | abi::WL_TCP_ACK) as u8;
    Segment::new(wl_segment { seq, ack, payload_bytes: len, window_field, flags, ..wl_segment::default() })
}

fn syn(seq: u32, ack: u32, flags: u32) -> Segment {
    let mut s = segment(seq, ack, 0, 65535, flags | abi::WL_TCP_SYN);
    s.tcp.flags = (flags | abi::WL_TCP_SYN) as u8;
    s.add_syn_options(MSS as u16, WSCALE, true);
    s
}

impl Bench {
    /// A client connects and requests something, of which the server's first segments are about to come: the flow has a window of
    /// ten segments.
    fn new() -> Bench {
        let mut notes = Notes::default();
        let mut handshake = wl_handshake::default();
        assert!(!on_syn(&mut notes, &mut handshake, &syn(PEER - 1, 0, 0), false, 0));
        assert!(on_syn(&mut notes, &mut handshake, &syn(BASE - 1, PEER, abi::WL_TCP_ACK), true, MS));
        let first = segment(PEER, BASE, 0, 500, 0);
        assert!(begins(&mut handshake, &first, false));
        let flow = Flow::begin(&mut notes, (0, 0), &handshake, &first, false, 20 * MS);
        let mut bench = Bench { notes, flow, now_ns: 20 * MS };
        assert_eq!(bench.receiver(BASE, 500, &[]).window_field, 114, "14480 bytes in units of 128");
        bench
    }

    fn sender(&mut self, seq: u32, len: u32) -> wl_verdict {
        self.sender_with(segment(BASE + seq, PEER, len, 500, 0))
    }

    fn sender_with(&mut self, mut s: Segment) -> wl_verdict {
        self.flow.from_sender(&mut self.notes, &mut s, self.now_ns)
    }

    /// An ACK with SACK blocks, all counted from the sequence numbers on the wire.
    fn receiver(&mut self, ack: u32, window_field: u16, blocks: &[(u32, u32)]) -> wl_verdict {
        let mut s = segment(PEER, ack, 0, window_field, 0);
        s.add_sack(blocks.iter().copied());
        self.flow.from_receiver(&mut self.notes, &s, self.now_ns)
    }

    fn tick(&mut self) {
        self.flow.tick(&mut self.notes, self.now_ns);
    }

    fn count(&self, counter: u32) -> u64 {
        self.notes.counts.get(&counter).copied().unwrap_or(0)
    }

    fn is_bypassed(&self) -> bool {
        self.flow.state().is_bypassed()
    }
}
