//! RED, "random early detection" (Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993): drops
//! packets at random as they come, with a probability that grows with the running mean of the queue.
//!
//! ```text
//! for each packet that comes (figure 2):
//!   something waits:  avg = (1 - w) avg + w q
//!   nothing does:     avg = (1 - w)^m avg           m: packets that could have been sent since the queue became empty
//!   min <= avg < max: p_b = p_max (avg - min) / (max - min);  p_a = p_b / (1 - count p_b)
//!                     with p_a drop it, count = 0, else count += 1     count: packets since the last drop
//!   avg >= max:       drop it, count = 0
//!   avg < min:        count = -1
//! ```
//!
//! A packet whose sender understands ECN is marked instead of being dropped, also above max, as Linux' red does with `ecn` and
//! without `harddrop`. Parameters are those of Linux' red, but for `weight`, which that derives from `burst`, and `probability`.

use super::{Schedule, Waiting, fifo::Fifo};
use crate::{Buffer, Fraction, Link, dist::draw_part};
use rand::SeedableRng;
use rand_xoshiro::SplitMix64;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Keys of `discipline = { kind = "red" }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RedKeys {
    /// Mean queue from which packets are dropped at random.
    pub min: Buffer,
    /// Mean queue from which all are.
    pub max: Buffer,
    /// Probability of a drop just below `max`: 2 %, as in Linux.
    #[serde(default = "probability")]
    pub probability: Fraction,
    /// Weight of the queue that each packet finds: 0.2 %.
    #[serde(default = "weight")]
    pub weight: Fraction,
}

fn probability() -> Fraction {
    Fraction(0.02)
}

fn weight() -> Fraction {
    Fraction(0.002)
}

impl RedKeys {
    pub(super) fn check(&self, link: &Link) -> Result<(), String> {
        for (key, length) in [("min", self.min), ("max", self.max)] {
            crate::net_builder::check_buffer(key, Some(length), link)?;
        }
        let is_ordered = match (link.resolve_ecn(self.min), link.resolve_ecn(self.max)) {
            (Buffer::Packets(min), Buffer::Packets(max)) | (Buffer::Bytes(min), Buffer::Bytes(max)) => {
                min < max
            }
            _ => return Err("min and max: give both in packets, or both in bytes or BDP".into()),
        };
        if !is_ordered {
            return Err(format!(
                "max: {} is not more than the min, {}; three times it is usual",
                self.max, self.min
            ));
        }
        for (key, share) in [("probability", self.probability), ("weight", self.weight)] {
            if !(share.0 > 0.0 && share.0 <= 1.0) {
                return Err(format!("{key} = \"{share}\": more than 0 %, at most 100 %"));
            }
        }
        Ok(())
    }
}

/// One queue under RED.
#[derive(Debug)]
pub(super) struct Red<P> {
    queue: Fifo<P>,
    rng: SplitMix64,
    min: f64,
    max: f64,
    probability: f64,
    weight: f64,
    /// Lengths are in bytes, not in packets.
    is_in_bytes: bool,
    /// What the link takes for a full packet.
    packet_ns: f64,
    avg: f64,
    /// Packets since the last drop; -1: the mean was below `min` since.
    count: i64,
    /// Since when nothing waits; none: something does.
    idle_since_ns: Option<u64>,
}

impl<P> Red<P> {
    /// `port`: of a rate, which has been checked.
    pub fn new(keys: RedKeys, port: &Link, seed: u64) -> Red<P> {
        let length = |buffer| match port.resolve_ecn(buffer) {
            Buffer::Packets(n) | Buffer::Bytes(n) => n as f64,
            Buffer::Bdp(_) => f64::INFINITY,
        };
        Red {
            queue: Fifo::default(),
            rng: SplitMix64::seed_from_u64(seed),
            min: length(keys.min),
            max: length(keys.max),
            probability: keys.probability.0,
            weight: keys.weight.0,
            is_in_bytes: matches!(port.resolve_ecn(keys.min), Buffer::Bytes(_)),
            packet_ns: port.rate.map_or(0.0, |rate| port.packet_bytes as f64 * 8e9 / rate.0),
            avg: 0.0,
            count: -1,
            idle_since_ns: Some(0),
        }
    }

    fn length(&self) -> f64 {
        if self.is_in_bytes { self.queue.bytes() as f64 } else { self.queue.packets() as f64 }
    }

    fn take_mean(&mut self, now_ns: u64) {
        match self.idle_since_ns.take() {
            Some(since_ns) => {
                let packets = (now_ns - since_ns) as f64 / self.packet_ns;
                self.avg *= libm::pow(1.0 - self.weight, packets);
            }
            None => self.avg += self.weight * (self.length() - self.avg),
        }
    }

    fn drops(&mut self) -> bool {
        if self.avg < self.min {
            self.count = -1;
            return false;
        }
        if self.avg >= self.max {
            self.count = 0;
            return true;
        }
        self.count += 1;
        let p_b = self.probability * (self.avg - self.min) / (self.max - self.min);
        let expected = self.count as f64 * p_b;
        let random = draw_part(&mut self.rng);
        // p_a = p_b / (1 - count p_b), without a division by 0
        let drops = expected >= 1.0 || random * (1.0 - expected) < p_b;
        if drops {
            self.count = 0;
        }
        drops
    }
}

impl<P: fmt::Debug> Schedule<P> for Red<P> {
    fn enqueue(&mut self, now_ns: u64, mut waiting: Waiting<P>) -> Option<Waiting<P>> {
        self.take_mean(now_ns);
        if self.drops() && !waiting.mark() {
            if self.queue.is_empty() {
                self.idle_since_ns = Some(now_ns);
            }
            return Some(waiting);
        }
        self.queue.push(waiting);
        None
    }

    fn dequeue(&mut self, now_ns: u64, _dropped: &mut Vec<Waiting<P>>) -> Option<Waiting<P>> {
        let first = self.queue.pop();
        if self.queue.is_empty() {
            self.idle_since_ns.get_or_insert(now_ns);
        }
        first
    }

    fn shed(&mut self, dropped: &mut Vec<Waiting<P>>) {
        dropped.extend(self.queue.pop_last());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Rate,
        discipline::{Codepoint, tests::packet},
    };

    /// Min 5, max 15 packets, 1 ms for each.
    fn red() -> Red<u64> {
        let keys = RedKeys {
            min: Buffer::Packets(5),
            max: Buffer::Packets(15),
            probability: probability(),
            weight: weight(),
        };
        let cable = Link::cable(["a".into(), "b".into()]);
        Red::new(keys, &Link { rate: Some(Rate(1514.0 * 8e3)), ..cable }, 1)
    }

    /// With a mean half-way, p_b is 1 %: the packets from one drop to the next are evenly spread over 1 to 100 (section 7 of the
    /// paper), so that there are 50.5 in the mean.
    #[test]
    fn red_spreads_its_drops_evenly() {
        let mut red = Red { avg: 10.0, ..red() };
        let drops: Vec<u64> = (0..1_000_000).filter(|_| red.drops()).collect();
        let gaps: Vec<u64> = drops.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((mean - 50.5).abs() < 1.0, "{mean}");
        assert!(gaps.iter().all(|gap| (1..=100).contains(gap)));
    }

    #[test]
    fn red_takes_the_mean_of_the_queue() {
        let mut red = red();
        let mut avg = 0.0;
        for length in 0..60 {
            // the first finds an idle link
            avg += if length == 0 { 0.0 } else { 0.002 * (f64::from(length) - avg) };
            red.enqueue(0, packet(1514, 0, Codepoint::NotEct));
            assert!((red.avg - avg).abs() < 1e-9, "{length}: {} {avg}", red.avg);
        }
        // 500 packets' time without a queue
        while red.dequeue(1_000_000_000, &mut Vec::new()).is_some() {}
        red.enqueue(1_500_000_000, packet(1514, 0, Codepoint::NotEct));
        assert!((red.avg - avg * libm::pow(0.998, 500.0)).abs() < 1e-9, "{}", red.avg);
    }

    #[test]
    fn red_drops_or_marks_all_above_its_max() {
        let mut red = Red { avg: 20.0, idle_since_ns: None, weight: 0.0, ..red() };
        assert!(red.enqueue(0, packet(1514, 0, Codepoint::NotEct)).is_some());
        assert!(red.enqueue(0, packet(1514, 0, Codepoint::Ect0)).is_none());
        assert!(red.queue.pop().unwrap().is_marked);
    }
}
