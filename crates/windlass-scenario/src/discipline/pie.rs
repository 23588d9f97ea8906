//! PIE, "proportional integral controller enhanced" (RFC 8033): drops packets at random as they come, with a probability that is
//! adapted so that packets wait for about a target.
//!
//! ```text
//! every t_update (section 4.2):
//!   p = alpha * (delay - target) + beta * (delay - delay_old)
//!   p /= 2048, 512, 128, 32, 8, 2 or 1 where drop_prob is below 0.000001, 0.00001, 0.0001, 0.001, 0.01, 0.1 or not
//!   drop_prob >= 0.1: p at most 0.02                                                      (section 5.5)
//!   drop_prob = drop_prob + p; times 0.98 where delay and delay_old are 0; within 0 and 1
//!   burst_allowance -= t_update; = max_burst where drop_prob is 0 and both delays are below target / 2     (section 4.4)
//! on enqueue (section 4.1): no drop during the burst allowance, nor where delay_old < target / 2 and drop_prob < 0.2,
//!   nor where at most two full packets wait; else with drop_prob
//! ```
//!
//! The delay is the wait of the packet that was sent last, as in section 4.3 with time stamps; Linux does so since 5.5.
//! Drops are spread (section 5.4): none before 0.85 packets were expected to be dropped since the last one, one for certain
//! when 8.5 were. Packets whose sender understands ECN are marked instead while drop_prob is at most 10 % (section 5.1).

use super::{Schedule, Waiting, check_span, fifo::Fifo};
use crate::{Link, Span, dist::draw_part};
use rand::SeedableRng;
use rand_xoshiro::SplitMix64;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Keys of `discipline = { kind = "pie" }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PieKeys {
    /// The wait that is aimed at, QDELAY_REF: 15 ms.
    pub target: Span,
    /// Time from one adaptation to the next: 15 ms.
    pub t_update: Span,
    /// For how long an idle link's queue may grow before anything is dropped, MAX_BURST: 150 ms.
    pub max_burst: Span,
    /// Weight of the distance from the target, per second: 1/8.
    pub alpha: f64,
    /// Weight of the change since the last adaptation, per second: 1 + 1/4.
    pub beta: f64,
}

impl Default for PieKeys {
    fn default() -> PieKeys {
        PieKeys {
            target: Span(0.015),
            t_update: Span(0.015),
            max_burst: Span(0.15),
            alpha: 0.125,
            beta: 1.25,
        }
    }
}

impl PieKeys {
    pub(super) fn check(&self) -> Result<(), String> {
        check_span("target", self.target)?;
        check_span("t_update", self.t_update)?;
        if self.max_burst > Span(10.0) {
            return Err(format!("max_burst = \"{}\": 0 s to 10 s", self.max_burst));
        }
        check_gain("alpha", self.alpha)?;
        check_gain("beta", self.beta)
    }
}

/// A weight of a controller, per second.
pub(super) fn check_gain(key: &str, gain: f64) -> Result<(), String> {
    if gain > 0.0 && gain <= 1000.0 {
        return Ok(());
    }
    Err(format!("{key} = {gain}: more than 0, at most 1000 per second"))
}

/// Below these probabilities, the step is divided by so much (section 4.2).
const STEPS: [(f64, f64); 6] =
    [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
/// Where the probability is as high as the first, it grows by no more than the second at once (section 5.5).
const CAP: (f64, f64) = (0.1, 0.02);
/// What is left of the probability after each adaptation without a queue.
const DECAY: f64 = 0.98;
/// Up to this probability, packets are marked and not dropped (section 5.1).
const MARK_MOST: f64 = 0.1;
/// So many drops must have been expected since the last one, and as many make the next one certain (section 5.4).
const SPREAD: (f64, f64) = (0.85, 8.5);
/// Nothing is dropped at random while the last delay was short and the probability is below this.
const SAFE_PROB: f64 = 0.2;

/// One queue under PIE.
#[derive(Debug)]
pub(super) struct Pie<P> {
    keys: PieKeys,
    /// A full packet.
    packet_bytes: u64,
    queue: Fifo<P>,
    rng: SplitMix64,
    drop_prob: f64,
    /// Drops expected since the last one.
    expected: f64,
    burst_allowance_ns: u64,
    delay_s: f64,
    old_delay_s: f64,
    /// None: nothing has come yet.
    next_update_ns: Option<u64>,
}

impl<P> Pie<P> {
    pub fn new(keys: PieKeys, port: &Link, seed: u64) -> Pie<P> {
        Pie {
            keys,
            packet_bytes: port.packet_bytes,
            queue: Fifo::default(),
            rng: SplitMix64::seed_from_u64(seed),
            drop_prob: 0.0,
            expected: 0.0,
            burst_allowance_ns: keys.max_burst.ns(),
            delay_s: 0.0,
            old_delay_s: 0.0,
            next_update_ns: None,
        }
    }

    /// Makes up for the adaptations that were due by now.
    fn update_until(&mut self, now_ns: u64) {
        let t_update_ns = self.keys.t_update.ns();
        let mut next_ns = self.next_update_ns.unwrap_or(now_ns + t_update_ns);
        while next_ns <= now_ns {
            if self.is_at_rest() {
                // all those that are left out would change nothing
                next_ns += (now_ns - next_ns) / t_update_ns * t_update_ns;
            }
            self.update();
            next_ns += t_update_ns;
        }
        self.next_update_ns = Some(next_ns);
    }

    fn is_at_rest(&self) -> bool {
        self.drop_prob == 0.0
            && self.delay_s == 0.0
            && self.old_delay_s == 0.0
            && self.burst_allowance_ns == self.keys.max_burst.ns()
    }

    /// Section 4.2.
    fn update(&mut self) {
        let PieKeys { target, alpha, beta, .. } = self.keys;
        let mut step = alpha * (self.delay_s - target.0) + beta * (self.delay_s - self.old_delay_s);
        step /= STEPS.iter().find(|(below, _)| self.drop_prob < *below).map_or(1.0, |(_, by)| *by);
        if self.drop_prob >= CAP.0 {
            step = step.min(CAP.1);
        }
        self.drop_prob += step;
        if self.delay_s == 0.0 && self.old_delay_s == 0.0 {
            self.drop_prob *= DECAY;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);
        let is_short = |delay_s: f64| delay_s < target.0 / 2.0;
        self.burst_allowance_ns = self.burst_allowance_ns.saturating_sub(self.keys.t_update.ns());
        if self.drop_prob == 0.0 && is_short(self.delay_s) && is_short(self.old_delay_s) {
            self.burst_allowance_ns = self.keys.max_burst.ns();
        }
        self.old_delay_s = self.delay_s;
    }

    /// Section 4.1, with the order of section 5.4.
    fn drops(&mut self) -> bool {
        if self.burst_allowance_ns > 0 {
            return false;
        }
        let is_short = self.old_delay_s < self.keys.target.0 / 2.0 && self.drop_prob < SAFE_PROB;
        if is_short || self.queue.bytes() <= 2 * self.packet_bytes {
            return false;
        }
        self.expected = if self.drop_prob == 0.0 { 0.0 } else { self.expected + self.drop_prob };
        let (least, most) = SPREAD;
        let random = draw_part(&mut self.rng);
        let drops = self.expected >= least && (self.expected >= most || random < self.drop_prob);
        if drops {
            self.expected = 0.0;
        }
        drops
    }
}

impl<P: fmt::Debug> Schedule<P> for Pie<P> {
    fn enqueue(&mut self, now_ns: u64, mut waiting: Waiting<P>) -> Option<Waiting<P>> {
        self.update_until(now_ns);
        if self.drops() && !(self.drop_prob <= MARK_MOST && waiting.mark()) {
            return Some(waiting);
        }
        self.queue.push(waiting);
        None
    }

    fn dequeue(&mut self, now_ns: u64, _dropped: &mut Vec<Waiting<P>>) -> Option<Waiting<P>> {
        self.update_until(now_ns);
        let first = self.queue.pop()?;
        self.delay_s = if self.queue.is_empty() { 0.0 } else { (now_ns - first.arrived_ns) as f64 / 1e9 };
        Some(first)
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

    fn pie() -> Pie<u64> {
        Pie::new(PieKeys::default(), &cable(), 1)
    }

    fn with(drop_prob: f64, delay_s: f64, old_delay_s: f64) -> Pie<u64> {
        Pie { drop_prob, delay_s, old_delay_s, ..pie() }
    }

    /// 1/8 of 5 ms above the target and 5/4 of 10 ms more than before are 0.013125, of which each step of the table takes its part.
    #[test]
    fn pie_adapts_its_probability_as_the_rfc_has_it() {
        let step = 0.125 * 0.005 + 1.25 * 0.01;
        for (drop_prob, by) in
            [(0.0, 2048.0), (5e-6, 512.0), (5e-5, 128.0), (5e-4, 32.0), (5e-3, 8.0), (0.05, 2.0), (0.5, 1.0)]
        {
            let mut pie = with(drop_prob, 0.02, 0.01);
            pie.update();
            assert!((pie.drop_prob - drop_prob - step / by).abs() < 1e-12, "{drop_prob}: {}", pie.drop_prob);
        }
        // 1.25 * 0.1 and more are cut
        let mut pie = with(0.1, 0.2, 0.1);
        pie.update();
        assert!((pie.drop_prob - 0.12).abs() < 1e-12, "{}", pie.drop_prob);
        // without a queue, 2 % less and the distance from the target
        let mut pie = with(0.5, 0.0, 0.0);
        pie.update();
        assert!((pie.drop_prob - (0.5 - 0.125 * 0.015) * 0.98).abs() < 1e-12, "{}", pie.drop_prob);
    }

    /// A queue that does not move any more: packets wait for 100 ms. Ten adaptations use the allowance of 150 ms up, and nothing is
    /// dropped before; then what comes is dropped with the probability that these made.
    #[test]
    fn pie_lets_a_burst_in_and_then_drops() {
        let mut pie = pie();
        (0..100).for_each(|_| assert!(pie.enqueue(0, packet(1514, 0, Codepoint::NotEct)).is_none()));
        let mut drops = Vec::new();
        for at_ms in 1..3000u64 {
            pie.delay_s = 0.1;
            match pie.enqueue(at_ms * MS, packet(1514, 0, Codepoint::NotEct)) {
                Some(_) => drops.push(at_ms),
                None => drop(pie.queue.pop_last()),
            }
        }
        assert!(drops[0] > 150, "{:?}", drops[0]);
        assert!(pie.drop_prob > 0.3, "{}", pie.drop_prob);
    }

    #[test]
    fn pie_has_its_allowance_again_when_the_congestion_is_over() {
        let mut pie = Pie { burst_allowance_ns: 0, ..with(0.0, 0.007, 0.007) };
        pie.update();
        assert_eq!(pie.burst_allowance_ns, 150 * MS);
        let mut pie = Pie { burst_allowance_ns: 0, ..with(0.0, 0.008, 0.008) };
        pie.update();
        assert_eq!(pie.burst_allowance_ns, 0);
    }

    /// 1 % of packets: never one of the 84 after a drop, always one of 850; and ECN is marked up to 10 %.
    #[test]
    fn pie_spreads_its_drops_and_marks_first() {
        let mut pie = Pie { burst_allowance_ns: 0, ..with(0.01, 0.02, 0.02) };
        (0..10).for_each(|_| pie.queue.push(packet(1514, 0, Codepoint::NotEct)));
        let drops: Vec<u64> = (1..100_000).filter(|_| pie.drops()).collect();
        let gaps = drops.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.clone().all(|gap| (85..=851).contains(&gap)), "{:?}", gaps.min());
        for (drop_prob, is_marked) in [(0.1, true), (0.11, false)] {
            let mut pie = Pie { burst_allowance_ns: 0, expected: 8.5, ..with(drop_prob, 0.02, 0.02) };
            (0..10).for_each(|_| pie.queue.push(packet(1514, 0, Codepoint::NotEct)));
            let out = pie.enqueue(0, packet(1514, 0, Codepoint::Ect0));
            assert_eq!(out.is_none(), is_marked);
            assert_eq!(pie.queue.pop_last().unwrap().is_marked, is_marked);
        }
    }

    #[test]
    fn pie_makes_up_for_a_pause_at_once() {
        let mut pie = pie();
        pie.enqueue(0, packet(1514, 0, Codepoint::NotEct));
        pie.dequeue(MS, &mut Vec::new());
        pie.enqueue(86_400_000 * MS, packet(1514, 0, Codepoint::NotEct));
        assert_eq!(pie.next_update_ns, Some(86_400_015 * MS));
    }
}
