//! Whole transfers over random networks, and any events in any order.

use crate::{MSS, ack, flow};
use proptest::prelude::*;
use std::collections::BTreeMap;
use windlass_core::{
    Flow,
    abi::{self, wl_sample},
};

type Blocks = Vec<(u32, u32)>;

/// A receiver that has every byte range it was given, and reports it.
#[derive(Default)]
struct Receiver {
    next: u32,
    ahead: BTreeMap<u32, u32>,
}

impl Receiver {
    /// Takes stream offsets [start, end).
    fn take(&mut self, start: u32, end: u32) {
        self.ahead.insert(start, end.max(self.ahead.get(&start).copied().unwrap_or(0)));
        while let Some((&s, &e)) = self.ahead.iter().find(|(s, _)| **s <= self.next) {
            self.next = self.next.max(e);
            self.ahead.remove(&s);
        }
    }

    /// Up to three merged blocks, the highest first.
    fn blocks(&self) -> Blocks {
        let mut merged: Vec<(u32, u32)> = Vec::new();
        for (&s, &e) in &self.ahead {
            match merged.last_mut() {
                Some(last) if s <= last.1 => last.1 = last.1.max(e),
                _ => merged.push((s, e)),
            }
        }
        merged.reverse();
        merged.truncate(3);
        merged
    }
}

/// A transfer of 1000 segments, 30 of them in flight, to a receiver without SACK; `is_dropped` of each segment sent.
/// Returns the bytes retransmitted and the bytes dropped.
fn without_sack(mss: u32, mut is_dropped: impl FnMut() -> bool) -> (u32, u32) {
    let (base, total, window) = (7000, 1000 * mss, 30 * mss);
    let mut f = Flow::new(base, mss, abi::WL_FLOW_PACED_JUDGED);
    f.state_mut().decision.cwnd_bytes = window;
    let mut receiver = Receiver::default();
    // segments on their way, by when they arrive and the order in which they were sent
    let mut wire: BTreeMap<(u32, u32), (u32, u32)> = BTreeMap::new();
    let (mut now, mut order, mut sent, mut dropped, mut repaired) = (1000, 0, 0, 0, 0);
    while f.state().una != base + total && now < 100_000_000 {
        now += 500;
        let mut segments = Vec::new();
        while let Some((seq, len)) = f.next_repair() {
            let start = seq - base;
            segments
                .extend((start..start + len).step_by(mss as usize).map(|s| (s, (s + mss).min(start + len))));
            f.repaired(seq, now);
            repaired += len;
        }
        if sent < total && f.state().nxt - f.state().una < window {
            f.send(base + sent + mss, now);
            segments.push((sent, sent + mss));
            sent += mss;
        }
        for (start, end) in segments {
            order += 1;
            if is_dropped() {
                dropped += end - start;
            } else {
                wire.insert((now + 40_000, order), (start, end));
            }
        }
        while let Some(first) = wire.first_entry().filter(|first| first.key().0 <= now) {
            let (start, end) = first.remove();
            receiver.take(start, end);
            f.ack(&ack(base + receiver.next, now, &[]));
        }
        f.detect(now);
        f.on_silence(now);
    }
    assert_eq!(f.state().una, base + total);
    (repaired, dropped)
}

const SEGMENTS: [u32; 3] = [88, 536, MSS];

/// What short segments share is retransmitted with the one that was lost. The duplicates that it makes are no new losses.
#[test]
fn without_sack_one_loss_is_one_loss() {
    for mss in SEGMENTS {
        for lost in 1..=960 {
            let mut order = 0;
            let (repaired, dropped) = without_sack(mss, || {
                order += 1;
                order == lost
            });
            assert_eq!(dropped, mss);
            // a record goes on beyond its slot by less than a segment; a probe may have sent it before the duplicates do
            assert!(repaired < 2 * (1024 + mss), "{lost} of {mss} B each: {repaired} B");
        }
    }
}

/// A loss is evidence of no more than what was in flight with it.
#[test]
fn without_sack_repairs_cause_no_repairs() {
    for mss in SEGMENTS {
        for seed in 1..=20u64 {
            let mut random = seed;
            let (repaired, dropped) = without_sack(mss, || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % 100 < 2
            });
            // what shares a record, and some copies that were not needed, where a recovery finds more than one hole
            assert!(repaired <= dropped / mss * (1024 + 4 * mss), "{mss} {seed}: {repaired} for {dropped}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// A network that loses, duplicates and reorders, any start of the sequence space, segments of any length, a receiver
    /// that throws away what it has reported: every byte arrives, is counted once, and the scoreboard stays sound.
    #[test]
    fn every_byte_arrives_and_is_counted_once(
        base in prop_oneof![any::<u32>(), Just(u32::MAX - 20_000)],
        seed in any::<u64>(),
        loss in 0u64..20,
        short in any::<bool>(),
        reneges in any::<bool>(),
    ) {
        let mut f = flow(base);
        f.state_mut().decision.cwnd_bytes = 30 * MSS;
        let mut rng = seed | 1;
        let mut random = move || { rng ^= rng << 13; rng ^= rng >> 7; rng ^= rng << 17; rng };
        let total = 200 * MSS;
        let mut receiver = Receiver::default();
        // (arrival time, order, start, end) of data, and ACKs on their way back
        let mut wire: BTreeMap<(u32, u32), (u32, u32)> = BTreeMap::new();
        let mut acks: BTreeMap<(u32, u32), (u32, Blocks)> = BTreeMap::new();
        let mut order = 0;
        let mut counted = 0u64;
        let mut now = 1000u32;
        let mut sent = 0u32;
        // timeouts back off, where a fifth is lost and most of what arrives was retransmitted: minutes
        for _ in 0..2_000_000 {
            if f.state().una == base.wrapping_add(total) { break; }
            now += 200;
            // the sender has heard nothing either: else the flow is handed back to it after five timeouts in a row
            f.state_mut().flags |= abi::WL_FLOW_SENDER_WAITS;
            let mut transmit = |start: u32, end: u32, r: u64, wire: &mut BTreeMap<_, _>| {
                order += 1;
                if r % 100 >= loss {
                    wire.insert((now + 20_000 + (r >> 32) as u32 % 3000, order), (start, end));
                }
            };
            while let Some((seq, len)) = f.next_repair() {
                let start = seq.wrapping_sub(base);
                transmit(start, start + len, random(), &mut wire);
                f.repaired(seq, now);
            }
            while sent < total && f.state().nxt.wrapping_sub(f.state().una) < 30 * MSS {
                let len = if short { 1 + random() as u32 % MSS } else { MSS }.min(total - sent);
                f.send(base.wrapping_add(sent + len), now);
                transmit(sent, sent + len, random(), &mut wire);
                sent += len;
            }
            while let Some((&key, &(start, end))) = wire.iter().next() && key.0 <= now {
                wire.remove(&key);
                receiver.take(start, end);
                if reneges && random() % 50 == 0 {
                    receiver.ahead.clear();
                }
                order += 1;
                if random() % 100 >= loss {
                    acks.insert((now + 20_000, order), (receiver.next, receiver.blocks()));
                }
            }
            while let Some((key, (next, blocks))) = acks.pop_first() {
                if key.0 > now { acks.insert(key, (next, blocks)); break; }
                let a = base.wrapping_add(next);
                if f.ack_kind(a) < abi::WL_ACK_SAME { continue; }
                let blocks: Vec<_> = blocks.iter().map(|(s, e)| (base.wrapping_add(*s), base.wrapping_add(*e))).collect();
                let s: wl_sample = f.ack(&ack(a, now, &blocks));
                counted += u64::from(s.newly_delivered_bytes);
                let state = f.state();
                let out = state.nxt.wrapping_sub(state.una_seg);
                prop_assert!(state.sacked_bytes + state.lost_bytes <= out, "{} {} {}", state.sacked_bytes, state.lost_bytes, out);
                prop_assert_eq!(s.inflight_bytes, out - state.sacked_bytes - state.lost_bytes);
            }
            f.detect(now);
            f.on_silence(now);
        }
        prop_assert_eq!(f.state().una, base.wrapping_add(total));
        if !short {
            prop_assert_eq!(f.state().delivered_bytes, total);
        }
        if !short && !reneges {
            prop_assert_eq!(counted, u64::from(total));
        }
        prop_assert_eq!(f.state().sacked_bytes, 0);
        prop_assert_eq!(f.state().lost_bytes, 0);
    }

    /// However many segments go into a record, all that is reported of the flow is the same, while an ACK can take off all of it
    /// at once: how much work it may do is counted in records.
    #[test]
    fn packets_are_judged_as_their_segments_are(
        base in prop_oneof![any::<u32>(), Just(u32::MAX - 20_000)],
        seed in any::<u64>(),
        loss in 0u64..20,
        packet_segs in 2u32..20,
    ) {
        let mut rng = seed | 1;
        let mut random = move || { rng ^= rng << 13; rng ^= rng >> 7; rng ^= rng << 17; rng };
        let (mut by_packet, mut by_segment) = (flow(base), flow(base));
        for f in [&mut by_packet, &mut by_segment] {
            f.state_mut().decision.cwnd_bytes = 20 * MSS;
        }
        let total = 400;
        let mut receiver = Receiver::default();
        let mut wire: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let (mut now, mut sent, mut order) = (1000u32, 0, 0);
        let seq = |segs: u32| base.wrapping_add(segs * MSS);
        for _ in 0..100_000 {
            if by_packet.state().una == seq(total) { break; }
            now += 200;
            let mut transmit = |seg: u32, r: u64| {
                order += 1;
                if r % 100 >= loss {
                    wire.insert((now + 40_000 + (r >> 32) as u32 % 3000, order), seg);
                }
            };
            if sent < total && by_packet.state().nxt.wrapping_sub(by_packet.state().una) < 20 * MSS {
                let room = 20 - by_packet.state().nxt.wrapping_sub(by_packet.state().una) / MSS;
                let segs = (1 + random() as u32 % packet_segs).min(total - sent).min(room);
                by_packet.send(seq(sent + segs), now);
                for seg in sent..sent + segs {
                    by_segment.send(seq(seg + 1), now);
                    transmit(seg, random());
                }
                sent += segs;
            }
            while let Some((at, len)) = by_packet.next_repair() {
                prop_assert_eq!(by_segment.next_repair(), Some((at, len)));
                transmit(at.wrapping_sub(base) / MSS, random());
                by_packet.repaired(at, now);
                by_segment.repaired(at, now);
            }
            prop_assert_eq!(by_segment.next_repair(), None);
            while let Some((&key, &seg)) = wire.iter().next() && key.0 <= now {
                wire.remove(&key);
                receiver.take(seg * MSS, (seg + 1) * MSS);
                if random() % 100 < loss { continue; }
                let blocks: Vec<_> = receiver.blocks().iter().map(|(s, e)| (base.wrapping_add(*s), base.wrapping_add(*e))).collect();
                let ack = ack(base.wrapping_add(receiver.next), now, &blocks);
                let taken = (by_packet.ack_and_wait(&ack), by_segment.ack_and_wait(&ack));
                if !by_packet.is_behind() && !by_segment.is_behind() {
                    prop_assert_eq!(taken.0, taken.1);
                    continue;
                }
                for f in [&mut by_packet, &mut by_segment] {
                    while f.is_behind() { f.go_on(now); }
                }
                let of = |f: &Flow| { let s = f.state(); (s.una, s.sacked_bytes, s.lost_bytes, s.delivered_bytes) };
                prop_assert_eq!(of(&by_packet), of(&by_segment));
            }
            prop_assert_eq!(by_packet.judge(now), by_segment.judge(now));
            prop_assert_eq!(by_packet.silence(now), by_segment.silence(now));
            prop_assert_eq!(by_packet.state().lost_segs, by_segment.state().lost_segs);
        }
        prop_assert_eq!(by_packet.state().una, seq(total));
    }

    /// Nonsense in SACK blocks is ignored and leaves the scoreboard sound.
    #[test]
    fn lying_sack_blocks_do_no_harm(blocks in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..4), near in any::<bool>()) {
        let mut f = flow(0);
        for i in 1..=30 { f.send(i * MSS, i); }
        let blocks: Vec<_> = blocks.iter().map(|(s, e)| if near { (s % (40 * MSS), e % (40 * MSS)) } else { (*s, *e) }).collect();
        f.ack(&ack(MSS, 40_000, &blocks));
        f.ack(&ack(2 * MSS, 41_000, &blocks));
        let s = f.state();
        prop_assert!(s.sacked_bytes + s.lost_bytes <= 28 * MSS);
        prop_assert!(s.una == 2 * MSS && s.nxt == 30 * MSS);
    }
}
