//! One direction of an emulated link, as a pure function of time: a packet comes in at a time, the verdict is when it
//! comes out, or that it is dropped. Rates are exact by arithmetic, whatever the host's timers do.

use crate::{Buffer, GilbertElliott, Link};
use hdrhistogram::Histogram;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use std::collections::VecDeque;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leaves at this time, with a CE mark if `mark`.
    Deliver {
        /// Time in ns on the caller's clock.
        at_ns: u64,
        /// Set CE.
        mark: bool,
    },
    /// The buffer is full.
    DropTail,
    /// Lost at random.
    DropRandom,
}

/// What happened on one direction of a link.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LinkStats {
    /// Packets offered.
    pub packets: u64,
    /// Bytes offered, link-layer header included.
    pub bytes: u64,
    /// Packets dropped because the buffer was full.
    pub drops_tail: u64,
    /// Packets lost at random.
    pub drops_random: u64,
    /// Packets marked CE.
    pub marks: u64,
    /// Longest queue in bytes.
    pub queue_max_bytes: u64,
    /// Sum of the times that packets queued, in ns.
    pub queued_ns: u64,
    /// Packets that queued or could have: the divisor of the above.
    pub queued_packets: u64,
    /// Median time in the queue.
    pub queue_p50_us: u64,
    /// 99th percentile of the time in the queue.
    pub queue_p99_us: u64,
    /// What the bottleneck sent between the first packet's arrival and the last one's departure, link-layer headers
    /// included; 0: no rate, or idle.
    pub mean_rate_bps: f64,
    /// How much later than due packets were handed on, median: the emulator's own error.
    pub late_p50_us: f64,
    /// 99th percentile of the same.
    pub late_p99_us: f64,
    /// Packets that the emulator's own device dropped before the link saw them; more than 0 spoils a run.
    pub drops_device: u64,
    /// Packets that could not be handed on, for the far device refused them.
    pub drops_refused: u64,
    /// What was read and is no IP packet.
    pub drops_foreign: u64,
}

/// A histogram of times in ns, up to a minute, to 1 %.
pub fn times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("sound bounds")
}

impl LinkStats {
    /// Mean time in the queue.
    pub fn mean_queue_ms(&self) -> f64 {
        if self.queued_packets == 0 { 0.0 } else { self.queued_ns as f64 / self.queued_packets as f64 / 1e6 }
    }
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct LinkModel {
    rate_bps: Option<f64>,
    delay_ns: u64,
    jitter_ns: f64,
    reorder: bool,
    buffer: Option<Buffer>,
    ecn: Option<Buffer>,
    loss: f64,
    bursts: Option<GilbertElliott>,
    is_bad: bool,
    rng: Xoshiro256PlusPlus,
    /// When the last packet accepted will have been sent, in ns; a fraction is kept so that rates are exact.
    free_at_ns: f64,
    /// Departure times and lengths of what is queued or being sent.
    queue: VecDeque<(u64, u64)>,
    queue_bytes: u64,
    last_out_ns: u64,
    queue_times: Histogram<u64>,
    first_in_ns: Option<u64>,
    sent_bytes: u64,
    /// What happened so far; percentiles and rates only in what `finish()` gives.
    pub stats: LinkStats,
}

impl LinkModel {
    /// The forward (`backward == false`) or backward direction of `link`.
    pub fn new(link: &Link, backward: bool, seed: u64) -> LinkModel {
        LinkModel {
            rate_bps: link.rate.map(|r| r.0),
            delay_ns: (link.delay.0 * 1e9) as u64,
            jitter_ns: link.jitter.0 * 1e9,
            reorder: link.reorder,
            buffer: link.buffer.map(|b| link.resolve(b)),
            ecn: link.ecn.map(|b| link.resolve(b)),
            loss: if backward { link.loss_back.0 } else { link.loss.0 },
            bursts: if backward { None } else { link.bursts },
            is_bad: false,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(2).wrapping_add(backward.into())),
            free_at_ns: 0.0,
            queue: VecDeque::new(),
            queue_bytes: 0,
            last_out_ns: 0,
            queue_times: times(),
            first_in_ns: None,
            sent_bytes: 0,
            stats: LinkStats::default(),
        }
    }

    fn is_over(&self, limit: Option<Buffer>, bytes: u64, packets: u64) -> bool {
        match limit {
            Some(Buffer::Bytes(n)) => self.queue_bytes + bytes > n,
            Some(Buffer::Packets(n)) => self.queue.len() as u64 + packets > n,
            _ => false,
        }
    }

    /// A packet of `bytes` (on the wire) arrives at `now_ns`, not earlier than the one before.
    pub fn offer(&mut self, now_ns: u64, bytes: u64, is_ect: bool) -> Verdict {
        self.stats.packets += 1;
        self.stats.bytes += bytes;
        while let Some(&(departs, length)) = self.queue.front()
            && departs <= now_ns
        {
            self.queue.pop_front();
            self.queue_bytes -= length;
        }
        // always three draws, so that one packet's fate does not shift the luck of those behind it
        let (loss_draw, state_draw, jitter_draw): (f64, f64, f64) =
            (self.rng.random(), self.rng.random(), self.rng.random());
        if self.is_over(self.buffer, bytes, 1) {
            self.stats.drops_tail += 1;
            return Verdict::DropTail;
        }
        let mark = is_ect && self.ecn.is_some() && self.is_over(self.ecn, 0, 0);
        let departs_ns = self.serialize(now_ns, bytes);
        if self.is_lost(loss_draw, state_draw) {
            self.stats.drops_random += 1;
            return Verdict::DropRandom;
        }
        self.stats.marks += u64::from(mark);
        let mut at_ns = departs_ns + self.delay_ns + (self.jitter_ns * jitter_draw) as u64;
        if !self.reorder {
            at_ns = at_ns.max(self.last_out_ns);
            self.last_out_ns = at_ns;
        }
        Verdict::Deliver { at_ns, mark }
    }

    /// Puts the packet behind what is queued; returns when its last bit is sent.
    fn serialize(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let Some(rate) = self.rate_bps else { return now_ns };
        let starts = self.free_at_ns.max(now_ns as f64);
        let queued_ns = (starts - now_ns as f64) as u64;
        self.queue_times.saturating_record(queued_ns);
        self.stats.queued_ns += queued_ns;
        self.stats.queued_packets += 1;
        self.free_at_ns = starts + bytes as f64 * 8e9 / rate;
        self.sent_bytes += bytes;
        self.first_in_ns.get_or_insert(now_ns);
        let departs = self.free_at_ns as u64;
        self.queue.push_back((departs, bytes));
        self.queue_bytes += bytes;
        self.stats.queue_max_bytes = self.stats.queue_max_bytes.max(self.queue_bytes);
        departs
    }

    /// What happened, with percentiles and rates.
    pub fn finish(mut self) -> LinkStats {
        if let Some(first_in_ns) = self.first_in_ns {
            let bits = self.sent_bytes as f64 * 8e9;
            self.stats.mean_rate_bps = bits / (self.free_at_ns - first_in_ns as f64);
            self.stats.queue_p50_us = self.queue_times.value_at_quantile(0.5) / 1000;
            self.stats.queue_p99_us = self.queue_times.value_at_quantile(0.99) / 1000;
        }
        self.stats
    }

    /// Random loss happens behind the bottleneck: a lost packet has used its share of the link.
    fn is_lost(&mut self, loss_draw: f64, state_draw: f64) -> bool {
        let Some(g) = self.bursts else { return loss_draw < self.loss };
        let turns = state_draw < if self.is_bad { g.to_good.0 } else { g.to_bad.0 };
        self.is_bad ^= turns;
        loss_draw < if self.is_bad { g.loss_bad.0 } else { g.loss_good.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fraction, Rate, Span};

    fn link() -> Link {
        Link {
            between: ["a".into(), "b".into()],
            rate: None,
            delay: Span(0.0),
            buffer: None,
            loss: Fraction(0.0),
            loss_back: Fraction(0.0),
            bursts: None,
            jitter: Span(0.0),
            reorder: false,
            ecn: None,
        }
    }

    fn lost(link: &Link, packets: u64) -> u64 {
        let mut model = LinkModel::new(link, false, 7);
        for i in 0..packets {
            model.offer(i, 1500, false);
        }
        model.stats.drops_random
    }

    #[test]
    fn a_busy_link_sends_at_its_rate() {
        let mut model =
            LinkModel::new(&Link { rate: Some(Rate(20e6)), delay: Span(0.02), ..link() }, false, 1);
        let mut last = 0;
        for _ in 0..10_000 {
            if let Verdict::Deliver { at_ns, .. } = model.offer(0, 1514, false) {
                last = at_ns;
            }
        }
        let expected = 10_000.0 * 1514.0 * 8.0 / 20e6 + 0.02;
        assert!((last as f64 / 1e9 - expected).abs() < 1e-6, "{last}");
        let stats = model.finish();
        assert!((stats.mean_rate_bps - 20e6).abs() < 1.0, "{stats:?}");
        // packets waited from 0 to 6.056 s, evenly
        assert!(stats.queue_p50_us.abs_diff(3_028_000) < 60_000, "{stats:?}");
    }

    #[test]
    fn a_full_buffer_drops_the_tail() {
        let link = Link { rate: Some(Rate(1e6)), buffer: Some(Buffer::Bytes(15_140)), ..link() };
        let mut model = LinkModel::new(&link, false, 1);
        for _ in 0..100 {
            model.offer(0, 1514, false);
        }
        assert_eq!(model.stats.drops_tail, 90);
        assert_eq!(model.stats.queue_max_bytes, 15_140);
    }

    #[test]
    fn random_loss_is_within_its_binomial_interval() {
        // 10^6 packets at 1 %: standard deviation 99.5; four of them
        let n = lost(&Link { loss: Fraction(0.01), ..link() }, 1_000_000);
        assert!((9_602..=10_398).contains(&n), "{n}");
    }

    #[test]
    fn bursty_loss_has_its_long_run_mean() {
        let bursts = GilbertElliott {
            to_bad: Fraction(0.01),
            to_good: Fraction(0.1),
            loss_bad: Fraction(0.5),
            loss_good: Fraction(0.0),
        };
        let n = lost(&Link { bursts: Some(bursts), ..link() }, 1_000_000) as f64 / 1e6;
        assert!((n - bursts.mean()).abs() < 0.002, "{n} {}", bursts.mean());
    }

    #[test]
    fn the_same_seed_loses_the_same_packets() {
        let fates = |seed| {
            let mut model = LinkModel::new(&Link { loss: Fraction(0.05), ..link() }, false, seed);
            (0..1000).map(|i| model.offer(i, 1500, false) == Verdict::DropRandom).collect::<Vec<_>>()
        };
        assert_eq!(fates(3), fates(3));
        assert_ne!(fates(3), fates(4));
    }

    #[test]
    fn jitter_reorders_only_when_allowed() {
        for reorder in [false, true] {
            let link = Link { jitter: Span(0.005), reorder, ..link() };
            let mut model = LinkModel::new(&link, false, 5);
            let times: Vec<u64> = (0..1000)
                .map(|i| match model.offer(i * 1000, 1500, false) {
                    Verdict::Deliver { at_ns, .. } => at_ns,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(times.is_sorted(), !reorder);
        }
    }

    #[test]
    fn long_queues_are_marked_not_dropped() {
        let link = Link { rate: Some(Rate(1e6)), ecn: Some(Buffer::Packets(5)), ..link() };
        let mut model = LinkModel::new(&link, false, 1);
        for _ in 0..10 {
            model.offer(0, 1514, true);
        }
        assert_eq!(model.stats.marks, 4);
        assert_eq!(model.stats.drops_tail, 0);
    }
}
