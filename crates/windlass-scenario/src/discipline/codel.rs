//! CoDel, "controlled delay" (RFC 8289): drops the first packet of a queue whose packets have all waited for longer than a target
//! for a whole interval, and then ever more often, until one has not.
//!
//! ```text
//! on dequeue of a packet (section 5.5):
//!   sojourn = now - arrival                            what waits is measured by time, not by bytes
//!   ok_to_drop: sojourn >= target, and more than one full packet waits behind it, for an interval at least
//!   not dropping, ok_to_drop:  drop it, begin dropping, count = 1, or go on where it left off (section 5.5)
//!   dropping, now >= drop_next: drop it, count += 1
//!   dropping, not ok_to_drop:  end dropping
//!   drop_next = t + interval * r                       the control law (section 5.6); t: now, or drop_next
//!   r = 1 / sqrt(count), by one step of Newton's from the last one, whenever the count changes: r = r (3 - count r^2) / 2
//! ```
//!
//! Linux takes that step instead of a root. It is exact after some drops; the first ones come sooner: the second gap is half an interval,
//! not 0.71 of one. Four bulk flows lose 6 % more packets by it.
//!
//! Going on: a dropping state that begins within 16 intervals of the last one's next drop takes the count at which that held
//! the queue, less the count with which it had begun.
//!
//! A packet whose sender understands ECN is marked and sent where it would be dropped, as Linux' codel does with `ecn`. Unlike
//! Linux, there is no `ce_threshold`.

use super::{Schedule, Waiting, check_span, fifo::Fifo};
use crate::{Link, Span};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Keys of `discipline = { kind = "codel" }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CodelKeys {
    /// The wait that may stand: 5 ms (section 4.4).
    pub target: Span,
    /// For how long more may stand: as long as a long round trip, 100 ms (section 4.3).
    pub interval: Span,
}

impl Default for CodelKeys {
    fn default() -> CodelKeys {
        CodelKeys { target: Span(0.005), interval: Span(0.1) }
    }
}

impl CodelKeys {
    pub(super) fn check(&self) -> Result<(), String> {
        check_span("target", self.target)?;
        check_span("interval", self.interval)?;
        if self.target >= self.interval {
            let CodelKeys { target, interval } = self;
            return Err(format!(
                "target = \"{target}\": not below the interval, {interval}; a twentieth of it is usual"
            ));
        }
        Ok(())
    }
}

/// Within so many intervals of the last dropping state, another goes on where that left off.
const MEMORY_INTERVALS: u64 = 16;

/// CoDel's state, apart from the queue that it controls: FQ-CoDel has one for each of its queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Control {
    target_ns: u64,
    interval_ns: u64,
    /// A full packet.
    packet_bytes: u64,
    /// When the wait will have been above the target for an interval; none: it is not above.
    first_above_at_ns: Option<u64>,
    is_dropping: bool,
    drop_next_ns: u64,
    /// Drops of this dropping state.
    count: u64,
    /// With how many it began.
    last_count: u64,
    /// 1 / sqrt(count), nearly.
    inverse_root: f64,
}

impl Control {
    /// `packet_bytes`: of a full packet, which may wait for as long as it likes.
    pub fn new(keys: CodelKeys, packet_bytes: u64) -> Control {
        Control {
            target_ns: keys.target.ns(),
            interval_ns: keys.interval.ns(),
            packet_bytes,
            first_above_at_ns: None,
            is_dropping: false,
            drop_next_ns: 0,
            count: 0,
            last_count: 0,
            inverse_root: 1.0,
        }
    }

    /// Section 5.6.
    fn control_law(&self, from_ns: u64) -> u64 {
        from_ns + (self.interval_ns as f64 * self.inverse_root) as u64
    }

    /// The count has changed: the inverse root follows by one step.
    fn step(&mut self) {
        let root = self.inverse_root;
        self.inverse_root = root * (3.0 - self.count as f64 * root * root) / 2.0;
    }

    /// Takes the first packet, and whether it may be dropped (dodequeue() of section 5.6); `beside_bytes` wait in other queues.
    fn take<P>(&mut self, now_ns: u64, queue: &mut Fifo<P>, beside_bytes: u64) -> (Option<Waiting<P>>, bool) {
        let Some(first) = queue.pop() else {
            self.first_above_at_ns = None;
            return (None, false);
        };
        if now_ns - first.arrived_ns < self.target_ns || queue.bytes() + beside_bytes <= self.packet_bytes {
            self.first_above_at_ns = None;
            return (Some(first), false);
        }
        let first_above_at_ns = *self.first_above_at_ns.get_or_insert(now_ns + self.interval_ns);
        (Some(first), now_ns >= first_above_at_ns)
    }

    /// The packet to send now, of this queue; `beside_bytes` wait in others that share its link.
    pub fn dequeue<P>(
        &mut self,
        now_ns: u64,
        queue: &mut Fifo<P>,
        beside_bytes: u64,
        dropped: &mut Vec<Waiting<P>>,
    ) -> Option<Waiting<P>> {
        let (first, may_drop) = self.take(now_ns, queue, beside_bytes);
        let mut first = first?;
        if !self.is_dropping {
            if !may_drop {
                return Some(first);
            }
            self.begin_dropping(now_ns);
            if first.mark() {
                return Some(first);
            }
            dropped.push(first);
            return self.take(now_ns, queue, beside_bytes).0;
        }
        self.is_dropping = may_drop;
        while self.is_dropping && now_ns >= self.drop_next_ns {
            self.count += 1;
            self.step();
            if first.mark() {
                self.drop_next_ns = self.control_law(self.drop_next_ns);
                return Some(first);
            }
            dropped.push(first);
            let (next, may_drop) = self.take(now_ns, queue, beside_bytes);
            self.is_dropping = may_drop;
            if may_drop {
                self.drop_next_ns = self.control_law(self.drop_next_ns);
            }
            first = next?;
        }
        Some(first)
    }

    fn begin_dropping(&mut self, now_ns: u64) {
        self.is_dropping = true;
        let drops = self.count - self.last_count;
        let is_soon = now_ns.saturating_sub(self.drop_next_ns) < MEMORY_INTERVALS * self.interval_ns;
        if drops > 1 && is_soon {
            self.count = drops;
            self.step();
        } else {
            self.count = 1;
            self.inverse_root = 1.0;
        }
        self.drop_next_ns = self.control_law(now_ns);
        self.last_count = self.count;
    }
}

/// One queue under CoDel.
#[derive(Debug)]
pub(super) struct Codel<P> {
    control: Control,
    queue: Fifo<P>,
}

impl<P> Codel<P> {
    pub fn new(keys: CodelKeys, port: &Link) -> Codel<P> {
        Codel { control: Control::new(keys, port.packet_bytes), queue: Fifo::default() }
    }
}

impl<P: fmt::Debug> Schedule<P> for Codel<P> {
    fn enqueue(&mut self, _now_ns: u64, waiting: Waiting<P>) -> Option<Waiting<P>> {
        self.queue.push(waiting);
        None
    }

    fn dequeue(&mut self, now_ns: u64, dropped: &mut Vec<Waiting<P>>) -> Option<Waiting<P>> {
        self.control.dequeue(now_ns, &mut self.queue, 0, dropped)
    }

    fn shed(&mut self, dropped: &mut Vec<Waiting<P>>) {
        dropped.extend(self.queue.pop_last());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discipline::{
        Codepoint,
        tests::{cable, packet},
    };

    const MS: u64 = 1_000_000;

    /// Times in ms at which packets are dropped or marked, where one waits `wait_ms(at)` when it is looked at, one a ms.
    fn decided_ms(
        codel: &mut Codel<u64>,
        ecn: Codepoint,
        until_ms: u64,
        wait_ms: impl Fn(u64) -> u64,
    ) -> Vec<u64> {
        let mut decided = Vec::new();
        for at_ms in 1000..1000 + until_ms {
            while codel.queue.packets() < 5 {
                codel.enqueue(0, packet(1514, 0, ecn));
            }
            for waiting in codel.queue_mut() {
                waiting.arrived_ns = (at_ms - wait_ms(at_ms - 1000)) * MS;
            }
            let mut dropped = Vec::new();
            let sent = codel.dequeue(at_ms * MS, &mut dropped).expect("five wait");
            decided.extend(dropped.iter().map(|_| at_ms - 1000));
            if sent.is_marked {
                decided.push(at_ms - 1000);
            }
        }
        decided
    }

    impl Codel<u64> {
        fn queue_mut(&mut self) -> impl Iterator<Item = &mut Waiting<u64>> {
            self.queue.iter_mut()
        }
    }

    /// The first drop after an interval; then after 100 ms more and what Newton's steps make of 100 / sqrt(2), 100 / sqrt(3) ... ms, each
    /// rounded up to when the next packet is looked at.
    #[test]
    fn codel_drops_at_the_times_of_its_control_law() {
        const GAPS_MS: [f64; 9] = [100.0, 50.0, 56.25, 48.78, 44.15, 40.41, 37.52, 35.15, 33.18];
        let mut expected = vec![100.0f64];
        for (i, gap_ms) in GAPS_MS.into_iter().enumerate() {
            expected.push(expected[i] + gap_ms);
        }
        let expected: Vec<u64> = expected.into_iter().map(|at| at.ceil() as u64).collect();
        for ecn in [Codepoint::NotEct, Codepoint::Ect0] {
            let mut codel = Codel::new(CodelKeys::default(), &cable());
            let decided = decided_ms(&mut codel, ecn, 640, |_| 6);
            assert_eq!(decided[..10], expected[..], "{ecn:?}");
        }
    }

    #[test]
    fn codel_leaves_a_queue_alone_that_was_short_once_in_each_interval() {
        let mut codel = Codel::new(CodelKeys::default(), &cable());
        let wait_ms = |at_ms: u64| if at_ms.is_multiple_of(90) { 4 } else { 50 };
        assert!(decided_ms(&mut codel, Codepoint::NotEct, 2000, wait_ms).is_empty());
    }

    /// It goes on with the count that held the queue, if it was below the target for a short time only: the second drop of the second
    /// state comes after 100 / sqrt(8) ms, not after 100.
    #[test]
    fn codel_remembers_how_often_it_had_to_drop() {
        let wait_ms = |at_ms: u64| if (560..570).contains(&at_ms) { 1 } else { 50 };
        let mut codel = Codel::new(CodelKeys::default(), &cable());
        let decided = decided_ms(&mut codel, Codepoint::NotEct, 720, wait_ms);
        let before = decided.iter().filter(|at| **at < 560).count();
        let after: Vec<u64> = decided.iter().copied().filter(|at| *at >= 570).collect();
        assert_eq!(after[0], 670, "an interval above the target comes first");
        let gap_ms = 100.0 / ((before - 1) as f64).sqrt();
        assert_eq!(after[1] - after[0], gap_ms.ceil() as u64, "{before} before");
    }

    #[test]
    fn codel_never_drops_the_last_packet() {
        let mut codel = Codel::new(CodelKeys::default(), &cable());
        for at_ms in 0..1000 {
            codel.enqueue(0, Waiting { arrived_ns: 0, ..packet(1514, 0, Codepoint::NotEct) });
            let mut dropped = Vec::new();
            assert!(codel.dequeue((at_ms + 10) * MS, &mut dropped).is_some() && dropped.is_empty());
        }
    }
}
