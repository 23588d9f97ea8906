//! FQ-CoDel (RFC 8290): flows are hashed to queues, which share the link by deficit round robin; each has a CoDel of its own
//! (`codel.rs`). A queue that has just become active goes first, so that what sends little never waits for what sends much.
//!
//! ```text
//! enqueue (section 4.1):  queue = hash(flow) mod flows; if it is in no list: credit = quantum, append it to the new queues
//!                         while the buffer is too full: drop half of the longest queue, at most 64 packets, from its head
//! dequeue (section 4.2):  take the first of the new queues, or else of the old ones
//!                         credit <= 0:          credit += quantum, append it to the old queues, begin again
//!                         CoDel finds it empty: of the new queues: append it to the old ones; of the old: remove it; begin again
//!                         a packet:             credit -= its bytes, send it
//! ```
//!
//! CoDel spares a queue while no more than one full packet waits: in all queues together, as in Linux, where the RFC has each by itself. With
//! four bulk flows that makes queues half as long.

use super::{CodelKeys, Schedule, Waiting, check_span, codel::Control, fifo::Fifo};
use crate::{Bytes, Link, Span, unitless};
use rand::{RngCore, SeedableRng};
use rand_xoshiro::SplitMix64;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
};

/// Keys of `discipline = { kind = "fq-codel" }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FqCodelKeys {
    /// As of [`CodelKeys`].
    pub target: Span,
    /// As of [`CodelKeys`].
    pub interval: Span,
    /// Bytes that a queue may send in a turn; none: a full packet (section 5.2.4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Bytes>,
    /// Queues (section 5.2.5).
    #[serde(deserialize_with = "unitless::whole")]
    pub flows: i64,
}

impl Default for FqCodelKeys {
    fn default() -> FqCodelKeys {
        let CodelKeys { target, interval } = CodelKeys::default();
        FqCodelKeys { target, interval, quantum: None, flows: 1024 }
    }
}

impl FqCodelKeys {
    fn codel(&self) -> CodelKeys {
        CodelKeys { target: self.target, interval: self.interval }
    }

    pub(super) fn check(&self) -> Result<(), String> {
        check_span("target", self.target)?;
        self.codel().check()?;
        if let Some(quantum) = self.quantum.filter(|quantum| !(64.0..=1e6).contains(&quantum.0)) {
            return Err(format!("quantum = \"{quantum}\": 64 B to 1 MB"));
        }
        if !(1..=65_536).contains(&self.flows) {
            return Err(format!("flows = {}: 1 to 65536 queues", self.flows));
        }
        Ok(())
    }
}

/// Most packets that one overflow drops (section 4.1).
const SHED_MOST: usize = 64;

/// One of the queues.
#[derive(Debug)]
struct Queue<P> {
    control: Control,
    packets: Fifo<P>,
    credit_bytes: i64,
    /// It is in one of the lists.
    is_active: bool,
}

/// All queues. Those that no flow has used are not there.
#[derive(Debug)]
pub(super) struct FqCodel<P> {
    keys: FqCodelKeys,
    /// A full packet.
    packet_bytes: u64,
    /// Of the hash.
    seed: u64,
    queues: BTreeMap<u64, Queue<P>>,
    new: VecDeque<u64>,
    old: VecDeque<u64>,
    /// In all queues.
    waiting_bytes: u64,
}

impl<P> FqCodel<P> {
    pub fn new(keys: FqCodelKeys, port: &Link, seed: u64) -> FqCodel<P> {
        let packet_bytes = port.packet_bytes;
        FqCodel {
            keys,
            packet_bytes,
            seed,
            queues: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    fn quantum_bytes(&self) -> i64 {
        self.keys.quantum.map_or(self.packet_bytes, Bytes::count) as i64
    }

    fn hash(&self, flow: u32) -> u64 {
        SplitMix64::seed_from_u64(self.seed ^ u64::from(flow)).next_u64() % self.keys.flows as u64
    }
}

impl<P: fmt::Debug> Schedule<P> for FqCodel<P> {
    fn enqueue(&mut self, _now_ns: u64, waiting: Waiting<P>) -> Option<Waiting<P>> {
        let (number, quantum_bytes) = (self.hash(waiting.label.flow), self.quantum_bytes());
        let (keys, packet_bytes) = (self.keys, self.packet_bytes);
        let queue = self.queues.entry(number).or_insert_with(|| Queue {
            control: Control::new(keys.codel(), packet_bytes),
            packets: Fifo::default(),
            credit_bytes: 0,
            is_active: false,
        });
        self.waiting_bytes += waiting.label.bytes;
        queue.packets.push(waiting);
        if !queue.is_active {
            queue.is_active = true;
            queue.credit_bytes = quantum_bytes;
            self.new.push_back(number);
        }
        None
    }

    fn dequeue(&mut self, now_ns: u64, dropped: &mut Vec<Waiting<P>>) -> Option<Waiting<P>> {
        let quantum_bytes = self.quantum_bytes();
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = *list.front()?;
            let queue = self.queues.get_mut(&number).expect("what is in a list is there");
            if queue.credit_bytes <= 0 {
                queue.credit_bytes += quantum_bytes;
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            let beside_bytes = self.waiting_bytes - queue.packets.bytes();
            let sent = queue.control.dequeue(now_ns, &mut queue.packets, beside_bytes, dropped);
            self.waiting_bytes = beside_bytes + queue.packets.bytes();
            if let Some(sent) = sent {
                queue.credit_bytes -= sent.label.bytes as i64;
                return Some(sent);
            }
            list.pop_front();
            if is_new {
                self.old.push_back(number);
            } else {
                queue.is_active = false;
            }
        }
    }

    fn shed(&mut self, dropped: &mut Vec<Waiting<P>>) {
        let Some(longest) = self.queues.values_mut().max_by_key(|queue| queue.packets.bytes()) else {
            return;
        };
        let count = longest.packets.packets().div_ceil(2).min(SHED_MOST);
        let before_bytes = longest.packets.bytes();
        dropped.extend((0..count).filter_map(|_| longest.packets.pop()));
        self.waiting_bytes -= before_bytes - longest.packets.bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discipline::{
        Codepoint,
        tests::{cable, packet},
    };

    fn queue() -> FqCodel<u64> {
        FqCodel::new(FqCodelKeys::default(), &cable(), 1)
    }

    fn push(queue: &mut FqCodel<u64>, flow: u32, bytes: u64, count: u64) {
        (0..count).for_each(|_| assert!(queue.enqueue(0, packet(bytes, flow, Codepoint::NotEct)).is_none()));
    }

    fn order(queue: &mut FqCodel<u64>) -> Vec<u32> {
        std::iter::from_fn(|| queue.dequeue(0, &mut Vec::new())).map(|sent| sent.label.flow).collect()
    }

    #[test]
    fn fq_codel_shares_by_bytes() {
        let mut queue = queue();
        push(&mut queue, 1, 1514, 100);
        push(&mut queue, 2, 757, 200);
        let sent = order(&mut queue);
        let of_first = sent[..30].iter().filter(|flow| **flow == 1).count();
        assert!((9..=11).contains(&of_first), "{sent:?}");
    }

    /// What comes while others have long queues goes first, and then in turn.
    #[test]
    fn fq_codel_sends_a_new_flow_first() {
        let mut queue = queue();
        push(&mut queue, 1, 1514, 10);
        push(&mut queue, 2, 1514, 10);
        (0..6).for_each(|_| assert!(queue.dequeue(0, &mut Vec::new()).is_some()));
        push(&mut queue, 3, 1514, 2);
        let sent = order(&mut queue);
        assert_eq!(sent[0], 3);
        assert!(sent[1..4].contains(&3) && sent[1] != 3, "{sent:?}");
    }

    /// A queue that has become empty is not new again before the old ones had their turn (section 4.2).
    #[test]
    fn fq_codel_does_not_starve_old_queues() {
        let mut queue = queue();
        push(&mut queue, 1, 1514, 50);
        queue.dequeue(0, &mut Vec::new());
        let mut of_old = 0;
        for _ in 0..20 {
            push(&mut queue, 2, 200, 1);
            of_old += u64::from(queue.dequeue(0, &mut Vec::new()).is_some_and(|sent| sent.label.flow == 1));
        }
        assert!(of_old >= 1, "{of_old}");
    }

    /// Of two queues with one packet each, that which has waited too long for an interval is dropped: the other counts as what waits.
    #[test]
    fn fq_codel_spares_what_waits_alone_and_not_each_queue_by_itself() {
        const MS: u64 = 1_000_000;
        let drops = |flows: u32| {
            let (mut queue, mut dropped) = (queue(), Vec::new());
            let come = |queue: &mut FqCodel<u64>, at_ms: u64| {
                (1..=flows).for_each(|flow| {
                    let arrived_ns = (at_ms * MS).saturating_sub(20 * MS);
                    let waiting = Waiting { arrived_ns, ..packet(1514, flow, Codepoint::NotEct) };
                    assert!(queue.enqueue(at_ms * MS, waiting).is_none());
                });
            };
            // one packet of each stays
            come(&mut queue, 0);
            for at_ms in 0..300 {
                come(&mut queue, at_ms);
                for _ in 0..flows {
                    queue.dequeue(at_ms * MS, &mut dropped);
                }
            }
            dropped.len()
        };
        assert_eq!(drops(1), 0);
        assert!(drops(3) > 0);
    }

    /// Half of the longest, 64 at most, and those that waited longest.
    #[test]
    fn fq_codel_drops_from_the_longest_queue() {
        let mut queue = queue();
        push(&mut queue, 1, 100, 300);
        push(&mut queue, 2, 1514, 40);
        let mut dropped = Vec::new();
        queue.shed(&mut dropped);
        assert_eq!((dropped.len(), dropped[0].label.flow), (20, 2));
        dropped.clear();
        queue.shed(&mut dropped);
        assert_eq!((dropped.len(), dropped[0].label.flow), (10, 2));
        queue = FqCodel::new(FqCodelKeys::default(), &cable(), 1);
        push(&mut queue, 1, 100, 300);
        dropped.clear();
        queue.shed(&mut dropped);
        assert_eq!(dropped.len(), SHED_MOST);
    }
}
