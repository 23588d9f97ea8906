//! DualPI2 (RFC 9332, appendix A): two queues share a link, one for scalable congestion controls (L4S: ECT(1) or CE), whose wait
//! stays below about a millisecond, and a classic one for all others. A controller keeps the classic queue at a target; the marks
//! of the L queue are coupled to it, so that flows of both kinds get about the same rate.
//!
//! ```text
//! every t_update = min(target, rtt_max / 3):                                               (appendix A.1)
//!   p' = p' + alpha (delay - target) + beta (delay - delay_old), within 0 and 1
//!   alpha = 0.1 t_update / rtt_max^2;  beta = 0.3 / rtt_max
//!   p_CL = k p';  p_C = p'^2
//! on dequeue from the L queue:  p'_L = 0 .. 1 for waits of 0.8 .. 1.2 ms, of two full packets at least on slow links
//!                               mark with max(p'_L, p_CL)
//! on dequeue from the C queue:  with p_C mark, or drop if its sender does not understand ECN
//! overload, p_CL >= 1:          L packets are dropped with p_C, too, and classic ones never marked             (appendix A.2)
//! ```
//!
//! "With p" adds p to a sum, and happens when that exceeds 1 (recur() of appendix A.1). The delay is the longer wait of the first
//! packets of both queues, as in Linux. Which queue is next: the RFC leaves it open; here, as in Linux, L goes first, but
//! where both wait, a `classic_share` of the bytes comes from the classic queue.

use super::{Codepoint, Schedule, Waiting, check_span, fifo::Fifo};
use crate::{Fraction, Link, Span};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Keys of `discipline = { kind = "dualpi2" }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DualPi2Keys {
    /// The wait in the classic queue that is aimed at: 15 ms.
    pub target: Span,
    /// Longest usual round trip, from which the controller's weights follow: 100 ms.
    pub rtt_max: Span,
    /// k: marks of a scalable flow for the root of a classic one's: 2.
    pub coupling: f64,
    /// Wait in the L queue from which its packets are marked: 0.8 ms; all are 0.4 ms later.
    pub step: Span,
    /// What the classic queue has of the link at least: 10 %, as in Linux.
    pub classic_share: Fraction,
}

impl Default for DualPi2Keys {
    fn default() -> DualPi2Keys {
        DualPi2Keys {
            target: Span(0.015),
            rtt_max: Span(0.1),
            coupling: 2.0,
            step: Span(0.0008),
            classic_share: Fraction(0.1),
        }
    }
}

impl DualPi2Keys {
    pub(super) fn check(&self) -> Result<(), String> {
        check_span("target", self.target)?;
        check_span("rtt_max", self.rtt_max)?;
        check_span("step", self.step)?;
        if !(0.1..=10.0).contains(&self.coupling) {
            return Err(format!("coupling = {}: 0.1 to 10", self.coupling));
        }
        if !(self.classic_share.0 > 0.0 && self.classic_share.0 < 1.0) {
            return Err(format!(
                "classic_share = \"{}\": more than 0 %, less than 100 %",
                self.classic_share
            ));
        }
        Ok(())
    }
}

/// From no marks to all of them, in the L queue by itself.
const RAMP_S: f64 = 0.0004;
/// The ramp begins at so many packets at least.
const RAMP_LEAST_PACKETS: f64 = 2.0;

/// A queue and how many of its packets should have been marked since the last one was.
#[derive(Debug)]
struct Side<P> {
    packets: Fifo<P>,
    expected: f64,
}

impl<P> Side<P> {
    /// recur(): true as often as the likelihood has it.
    fn recurs(&mut self, likelihood: f64) -> bool {
        self.expected += likelihood;
        let is_due = self.expected > 1.0;
        if is_due {
            self.expected -= 1.0;
        }
        is_due
    }
}

/// Both queues.
#[derive(Debug)]
pub(super) struct DualPi2<P> {
    keys: DualPi2Keys,
    alpha: f64,
    beta: f64,
    t_update_ns: u64,
    /// Wait from which the L queue marks by itself.
    step_s: f64,
    low: Side<P>,
    classic: Side<P>,
    /// p'
    base_prob: f64,
    old_delay_s: f64,
    /// None: nothing has come yet.
    next_update_ns: Option<u64>,
    /// What the classic queue has been sent too little of its share; below 0: too much.
    classic_credit_bytes: f64,
}

impl<P> DualPi2<P> {
    /// `port`: of a rate, which has been checked.
    pub fn new(keys: DualPi2Keys, port: &Link) -> DualPi2<P> {
        let t_update_s = keys.target.0.min(keys.rtt_max.0 / 3.0);
        let packet_s = port.rate.map_or(0.0, |rate| port.packet_bytes as f64 * 8.0 / rate.0);
        let side = || Side { packets: Fifo::default(), expected: 0.0 };
        DualPi2 {
            keys,
            alpha: 0.1 * t_update_s / (keys.rtt_max.0 * keys.rtt_max.0),
            beta: 0.3 / keys.rtt_max.0,
            t_update_ns: Span(t_update_s).ns().max(1),
            step_s: keys.step.0.max(RAMP_LEAST_PACKETS * packet_s),
            low: side(),
            classic: side(),
            base_prob: 0.0,
            old_delay_s: 0.0,
            next_update_ns: None,
            classic_credit_bytes: 0.0,
        }
    }

    /// p_CL
    fn coupled_prob(&self) -> f64 {
        self.keys.coupling * self.base_prob
    }

    /// p_C
    fn classic_prob(&self) -> f64 {
        self.base_prob * self.base_prob
    }

    /// p'_L
    fn own_prob(&self, wait_ns: u64) -> f64 {
        ((wait_ns as f64 / 1e9 - self.step_s) / RAMP_S).clamp(0.0, 1.0)
    }

    fn is_overloaded(&self) -> bool {
        self.coupled_prob() >= 1.0
    }

    /// Makes up for the updates that were due by now.
    fn update_until(&mut self, now_ns: u64) {
        let mut next_ns = self.next_update_ns.unwrap_or(now_ns + self.t_update_ns);
        while next_ns <= now_ns {
            if self.base_prob == 0.0 && self.old_delay_s == 0.0 && self.is_empty() {
                next_ns += (now_ns - next_ns) / self.t_update_ns * self.t_update_ns;
            }
            self.update(next_ns);
            next_ns += self.t_update_ns;
        }
        self.next_update_ns = Some(next_ns);
    }

    fn update(&mut self, at_ns: u64) {
        let wait_ns = |side: &Side<P>| side.packets.wait_ns(at_ns);
        let delay_s = wait_ns(&self.low).max(wait_ns(&self.classic)) as f64 / 1e9;
        let step = self.alpha * (delay_s - self.keys.target.0) + self.beta * (delay_s - self.old_delay_s);
        self.base_prob = (self.base_prob + step).clamp(0.0, 1.0);
        self.old_delay_s = delay_s;
    }

    fn is_empty(&self) -> bool {
        self.low.packets.is_empty() && self.classic.packets.is_empty()
    }

    /// Takes the next packet out, and whether it is of the L queue.
    fn take(&mut self) -> Option<(Waiting<P>, bool)> {
        let (share, has_both) =
            (self.keys.classic_share.0, !self.low.packets.is_empty() && !self.classic.packets.is_empty());
        if !has_both {
            self.classic_credit_bytes = 0.0;
        }
        let is_low = !self.low.packets.is_empty() && self.classic_credit_bytes <= 0.0;
        let first = if is_low { self.low.packets.pop() } else { self.classic.packets.pop() }?;
        if has_both {
            let bytes = first.label.bytes as f64;
            self.classic_credit_bytes += bytes * if is_low { share } else { share - 1.0 };
        }
        Some((first, is_low))
    }

    /// Whether the packet is dropped; if not, it may have been marked.
    fn drops(&mut self, first: &mut Waiting<P>, is_low: bool, now_ns: u64) -> bool {
        let (classic_prob, coupled_prob, is_overloaded) =
            (self.classic_prob(), self.coupled_prob(), self.is_overloaded());
        if !is_low {
            return self.classic.recurs(classic_prob) && (is_overloaded || !first.mark());
        }
        if is_overloaded && self.low.recurs(classic_prob) {
            return true;
        }
        let own_prob = if is_overloaded { 0.0 } else { self.own_prob(now_ns - first.arrived_ns) };
        if self.low.recurs(own_prob.max(coupled_prob.min(1.0))) {
            first.mark();
        }
        false
    }
}

impl<P: fmt::Debug> Schedule<P> for DualPi2<P> {
    fn enqueue(&mut self, now_ns: u64, waiting: Waiting<P>) -> Option<Waiting<P>> {
        self.update_until(now_ns);
        let is_low = matches!(waiting.label.ecn, Codepoint::Ect1 | Codepoint::Ce);
        let side = if is_low { &mut self.low } else { &mut self.classic };
        side.packets.push(waiting);
        None
    }

    fn dequeue(&mut self, now_ns: u64, dropped: &mut Vec<Waiting<P>>) -> Option<Waiting<P>> {
        self.update_until(now_ns);
        loop {
            let (mut first, is_low) = self.take()?;
            if !self.drops(&mut first, is_low, now_ns) {
                return Some(first);
            }
            dropped.push(first);
        }
    }

    /// What came last, of the longer queue.
    fn shed(&mut self, dropped: &mut Vec<Waiting<P>>) {
        let is_low = self.low.packets.bytes() > self.classic.packets.bytes();
        let side = if is_low { &mut self.low } else { &mut self.classic };
        dropped.extend(side.packets.pop_last());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rate, discipline::tests::packet};

    const MS: u64 = 1_000_000;

    fn dualpi2(base_prob: f64) -> DualPi2<u64> {
        let port = Link { rate: Some(Rate(1e8)), ..Link::cable(["a".into(), "b".into()]) };
        DualPi2 { base_prob, ..DualPi2::new(DualPi2Keys::default(), &port) }
    }

    /// 10,000 packets of one kind that have waited `wait_ms`, one after the other: marked and dropped.
    fn fates(mut queue: DualPi2<u64>, ecn: Codepoint) -> (u64, u64) {
        let (mut marks, mut drops) = (0, Vec::new());
        // no update in between
        queue.next_update_ns = Some(u64::MAX);
        for _ in 0..10_000 {
            queue.enqueue(0, packet(1514, 0, ecn));
            marks += u64::from(queue.dequeue(0, &mut drops).is_some_and(|sent| sent.is_marked));
        }
        (marks, drops.len() as u64)
    }

    /// Every 15 ms: 0.15 per second of 20 ms above the target and 3 per second of 35 ms more than before.
    #[test]
    fn dualpi2_adapts_its_base_probability() {
        let mut queue = dualpi2(0.0);
        queue.enqueue(0, packet(1514, 0, Codepoint::NotEct));
        queue.update(35 * MS);
        let first = 0.15 * 0.02 + 3.0 * 0.035;
        assert!((queue.base_prob - first).abs() < 1e-9, "{}", queue.base_prob);
        queue.update(35 * MS);
        assert!((queue.base_prob - first - 0.15 * 0.02).abs() < 1e-9, "{}", queue.base_prob);
        assert_eq!(queue.t_update_ns, 15 * MS);
    }

    /// p' = 0.1: p_CL = 2 p' = 20 % of scalable packets, p_C = p'^2 = 1 % of classic ones.
    #[test]
    fn dualpi2_couples_linearly_to_one_queue_and_squared_to_the_other() {
        let (marks, drops) = fates(dualpi2(0.1), Codepoint::Ect1);
        assert!(marks.abs_diff(2000) <= 1 && drops == 0, "{marks} {drops}");
        assert_eq!(fates(dualpi2(0.1), Codepoint::Ect0).1, 0);
        let (marks, drops) =
            (fates(dualpi2(0.1), Codepoint::Ect0).0, fates(dualpi2(0.1), Codepoint::NotEct).1);
        assert!(marks.abs_diff(100) <= 1 && drops.abs_diff(100) <= 1, "{marks} {drops}");
        // p' = 0.6 is more than 1 / k: drops of both, 36 %
        for ecn in [Codepoint::Ect1, Codepoint::Ect0, Codepoint::NotEct] {
            let drops = fates(dualpi2(0.6), ecn).1;
            assert!(drops.abs_diff(3600) <= 40, "{ecn:?}: {drops}");
        }
    }

    /// By itself, the L queue marks none below 0.8 ms, half at 1 ms, all from 1.2 ms on.
    #[test]
    fn dualpi2_marks_on_a_ramp_of_the_wait() {
        let queue = dualpi2(0.0);
        for (wait_us, prob) in [(700, 0.0), (800, 0.0), (1000, 0.5), (1200, 1.0), (5000, 1.0)] {
            assert!((queue.own_prob(wait_us * 1000) - prob).abs() < 1e-9, "{wait_us}");
        }
        // two packets of 12.112 ms
        let port = Link { rate: Some(Rate(1e6)), ..Link::cable(["a".into(), "b".into()]) };
        let slow: DualPi2<u64> = DualPi2::new(DualPi2Keys::default(), &port);
        assert_eq!((slow.own_prob(24 * MS), slow.own_prob(25 * MS)), (0.0, 1.0));
    }

    #[test]
    fn dualpi2_leaves_the_classic_queue_its_share() {
        let mut queue = dualpi2(0.0);
        for _ in 0..200 {
            queue.enqueue(0, packet(1514, 0, Codepoint::Ect1));
            queue.enqueue(0, packet(1514, 1, Codepoint::Ect0));
        }
        let sent: Vec<u32> =
            (0..200).filter_map(|_| queue.dequeue(0, &mut Vec::new())).map(|sent| sent.label.flow).collect();
        let of_classic = sent.iter().sum::<u32>();
        assert!((18..=22).contains(&of_classic), "{of_classic} of 200");
    }
}
