//! A real download through the box, captured by `record.sh`: the flow machine makes of it the samples that algorithms are
//! given.

use windlass_core::{
    Flow,
    abi::{self, wl_ack, wl_sample},
};

const MSS: u32 = 1448;

/// What the box's algorithm would receive, in order; a loss that begins a recovery is reported before the ACK that shows it.
pub fn samples() -> Vec<wl_sample> {
    // the first byte behind the SYN has number 1, as tcpdump counts
    let mut f = Flow::new(1, MSS, abi::WL_FLOW_SACK | abi::WL_FLOW_PACED_JUDGED);
    f.state_mut().decision.cwnd_bytes = abi::WL_CWND_MAX_BYTES;
    let mut samples = Vec::new();
    for line in include_str!("recorded.txt").lines() {
        let (kind, numbers) = line.split_once(' ').unwrap();
        let numbers: Vec<u32> = numbers.split([' ', '-']).map(|n| n.parse().unwrap()).collect();
        let now_us = numbers[0];
        if kind == "d" {
            carry(&mut f, numbers[1], numbers[1] + numbers[2], now_us);
        } else {
            samples.push(wl_sample { random: now_us, ..f.ack(&ack_of(&numbers)) });
        }
    }
    assert_eq!(f.state().una, f.state().nxt, "all was acknowledged");
    samples
}

/// Data passes the box, or is retransmitted by it.
fn carry(f: &mut Flow, seq: u32, end: u32, now_us: u32) {
    if seq == f.state().nxt {
        f.send(end, now_us);
        return;
    }
    // a tail's probe leaves at a time that only the clock knows
    f.detect(now_us);
    if f.next_repair().is_some_and(|(lost, _)| lost == seq) {
        f.repaired(seq, now_us);
    }
}

fn ack_of(numbers: &[u32]) -> wl_ack {
    let blocks = &numbers[2..];
    let mut ack = wl_ack {
        now_us: numbers[0],
        ack: numbers[1],
        sack_count: (blocks.len() / 2) as u8,
        ..wl_ack::default()
    };
    for (i, block) in blocks.chunks_exact(2).enumerate() {
        (ack.sack_start[i], ack.sack_end[i]) = (block[0], block[1]);
    }
    ack
}
