//! One direction of an emulated link, as a pure function of time: a packet comes in at a time, the verdict is when it
//! comes out, or that it is dropped. Time is integer: rates are exact by arithmetic, whatever the host's timers do, and
//! a seed gives the same fates on every machine.

use crate::{
    Buffer, Fraction, GilbertElliott, Link,
    impairments::{Entry, Impairments},
    queue_times::QueueTimes,
    sending::Sending,
};
use hdrhistogram::Histogram;
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

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
    /// It does not queue: the buffer is full, the policer has no tokens for it, or the link is down.
    DropTail,
    /// Lost at random.
    DropRandom,
}

/// A part of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Packets.
    pub packets: u64,
    /// Their bytes, link-layer header included.
    pub bytes: u64,
}

/// What happened on one direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkStats {
    /// Packets offered.
    pub packets: u64,
    /// Bytes offered, link-layer header included.
    pub bytes: u64,
    /// Packets that the queue dropped: the buffer was full, the policer had no tokens, or the discipline chose so.
    pub drops_tail: u64,
    /// Packets lost at random, or in an outage.
    pub drops_random: u64,
    /// Packets marked CE.
    pub marks: u64,
    /// Longest queue in bytes, what is being sent included.
    pub queue_max_bytes: u64,
    /// Longest queue in packets, what is being sent included.
    pub queue_max_packets: u64,
    /// Mean queue in packets over the time in which the link was in use, what is being sent included; 0: no rate.
    pub mean_queue_packets: f64,
    /// Share of that time in which the link was sending, 0 to 1; 0: no rate.
    pub utilisation: f64,
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
    /// Of `drops_tail`, what the queue's discipline dropped before the buffer was full.
    #[serde(skip_serializing_if = "is_zero")]
    pub drops_early: u64,
    /// Plain ACKs that newer ones replaced in the queue.
    #[serde(skip_serializing_if = "is_zero")]
    pub acks_filtered: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Of whose packets the median is handed on later than that, an emulator is late: delays are promised to be as exact.
pub const LATE_US: f64 = 200.0;

/// A histogram of times in ns, up to a minute, to 1 %.
pub fn times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("sound bounds")
}

impl LinkStats {
    /// Packets that the emulator lost by itself, not for the scenario's sake; more than 0 makes a run worthless.
    pub fn own_drops(&self) -> u64 {
        self.drops_device + self.drops_refused
    }

    /// Mean time in the queue.
    pub fn mean_queue_ms(&self) -> f64 {
        if self.queued_packets == 0 { 0.0 } else { self.queued_ns as f64 / self.queued_packets as f64 / 1e6 }
    }
}

/// Random numbers have so many bits, as many as a float between 0 and 1 would have.
const DRAW_BITS: u32 = 53;

/// A probability; a draw below it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chance(u64);

impl Chance {
    fn of(fraction: Fraction) -> Chance {
        Chance((fraction.0 * (1u64 << DRAW_BITS) as f64).ceil() as u64)
    }

    fn happens(self, draw: u64) -> bool {
        draw < self.0
    }
}

/// [`GilbertElliott`], ready to be judged.
#[derive(Clone, Copy, Debug)]
struct Bursts {
    to_bad: Chance,
    to_good: Chance,
    loss_bad: Chance,
    loss_good: Chance,
}

impl Bursts {
    fn of(g: GilbertElliott) -> Bursts {
        Bursts {
            to_bad: Chance::of(g.to_bad),
            to_good: Chance::of(g.to_good),
            loss_bad: Chance::of(g.loss_bad),
            loss_good: Chance::of(g.loss_good),
        }
    }
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct LinkModel {
    /// 0: no rate, packets pass at once.
    rate_bps: u64,
    delay_ns: u64,
    jitter_ns: u64,
    reorder: bool,
    buffer: Option<Buffer>,
    ecn: Option<Buffer>,
    loss: Chance,
    bursts: Option<Bursts>,
    impairments: Option<Box<Impairments>>,
    /// Whether packets are lost at random.
    is_lossy: bool,
    is_bad: bool,
    rng: Xoshiro256PlusPlus,
    /// When the last packet accepted will have been sent.
    free_at_ns: u64,
    /// ... and the fraction of a ns beyond, in units of 1/rate_bps, so that rates are exact.
    free_rest: u64,
    /// What is queued or being sent.
    queue: Sending,
    /// What waits in the queue of a discipline (see `discipline/queue.rs`), apart from `queue`.
    waiting: Queued,
    last_out_ns: u64,
    queue_times: QueueTimes,
    first_in_ns: Option<u64>,
    sent_bytes: u64,
    /// What happened so far; percentiles and rates only in what `finish()` gives.
    pub stats: LinkStats,
}

impl LinkModel {
    /// The forward (`backward == false`) or backward direction of `link`.
    pub fn new(link: &Link, backward: bool, seed: u64) -> LinkModel {
        let loss = Chance::of(if backward { link.loss_back } else { link.loss });
        let bursts = if backward { None } else { link.bursts.map(Bursts::of) };
        let jitter_ns = link.jitter().ns();
        LinkModel {
            rate_bps: link.rate_of(backward).map_or(0, |r| r.0.round() as u64),
            delay_ns: link.delay.ns(),
            jitter_ns,
            reorder: link.reorder,
            buffer: link.buffer.map(|b| link.resolve(b)),
            ecn: link.ecn.map(|b| link.resolve_ecn(b)),
            loss,
            bursts,
            impairments: Impairments::of(link, backward),
            is_lossy: loss != Chance(0) || bursts.is_some(),
            is_bad: false,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(2).wrapping_add(backward.into())),
            free_at_ns: 0,
            free_rest: 0,
            queue: Sending::default(),
            waiting: Queued::default(),
            last_out_ns: 0,
            queue_times: QueueTimes::default(),
            first_in_ns: None,
            sent_bytes: 0,
            stats: LinkStats::default(),
        }
    }

    /// Packets that queue or are being sent at `now_ns`, which is not before the last arrival.
    pub fn queued_packets(&self, now_ns: u64) -> usize {
        self.queue.packets_after(now_ns) + self.waiting.packets as usize
    }

    /// When all that was accepted so far has been sent.
    pub fn idle_from_ns(&self) -> u64 {
        self.free_at_ns
    }

    /// Whether anything was queued or being sent when it was last looked at.
    pub fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    fn is_over(&self, limit: Option<Buffer>, bytes: u64, packets: u64) -> bool {
        match limit {
            Some(Buffer::Bytes(n)) => self.queue.queued().bytes + bytes > n,
            Some(Buffer::Packets(n)) => self.queue.packets() + packets > n,
            _ => false,
        }
    }

    /// A packet of `bytes` (on the wire) arrives at `now_ns`, not earlier than the one before.
    pub fn offer(&mut self, now_ns: u64, bytes: u64, is_ect: bool) -> Verdict {
        self.offer_if(true, now_ns, bytes, is_ect)
    }

    /// Forgets what has been sent by `now_ns`, and returns it.
    pub fn settle(&mut self, now_ns: u64) -> Queued {
        self.queue.settle(now_ns)
    }

    /// The same where others use the memory, too: `has_room`: whether they have left enough.
    pub fn offer_if(&mut self, has_room: bool, now_ns: u64, bytes: u64, is_ect: bool) -> Verdict {
        self.stats.packets += 1;
        self.stats.bytes += bytes;
        self.settle(now_ns);
        // for each packet as many draws and a turn of the state, so that one packet's fate does not change the random numbers of
        // those behind it, nor jitter which are lost
        let [loss_draw, state_draw, jitter_draw] = match (self.is_lossy, self.jitter_ns) {
            (true, _) => self.draws(),
            (false, 0) => [0; 3],
            (false, _) => [0, 0, self.draw()],
        };
        self.turn(state_draw);
        if !self.is_admitted(now_ns, bytes) {
            return Verdict::DropTail;
        }
        if !has_room || self.is_over(self.buffer, bytes, 1) {
            self.stats.drops_tail += 1;
            return Verdict::DropTail;
        }
        let mark = is_ect && self.ecn.is_some() && self.is_over(self.ecn, 0, 0);
        let departs_ns = self.serialize(now_ns, now_ns, bytes);
        self.leave(departs_ns, mark, loss_draw, jitter_draw)
    }

    /// Whether policer and outages let a packet in.
    #[inline(always)]
    fn is_admitted(&mut self, now_ns: u64, bytes: u64) -> bool {
        let Some(impairments) = &mut self.impairments else { return true };
        match impairments.admit(now_ns, bytes) {
            Entry::Admitted => return true,
            Entry::Policed => self.stats.drops_tail += 1,
            Entry::Down => self.stats.drops_random += 1,
        }
        false
    }

    /// What becomes of a packet behind the queue.
    #[inline(always)]
    fn leave(&mut self, departs_ns: u64, mark: bool, loss_draw: u64, jitter_draw: u64) -> Verdict {
        if self.is_lossy && self.is_lost(loss_draw) {
            self.stats.drops_random += 1;
            return Verdict::DropRandom;
        }
        self.stats.marks += u64::from(mark);
        let jitter_ns = (u128::from(self.jitter_ns) * u128::from(jitter_draw)) >> DRAW_BITS;
        let mut at_ns = departs_ns + self.delay_ns + jitter_ns as u64;
        if !self.reorder {
            at_ns = at_ns.max(self.last_out_ns);
            self.last_out_ns = at_ns;
        }
        Verdict::Deliver { at_ns, mark }
    }

    /// A packet comes to the queue of a discipline. Returns whether it may enter it.
    pub(crate) fn admit(&mut self, now_ns: u64, bytes: u64) -> bool {
        self.stats.packets += 1;
        self.stats.bytes += bytes;
        self.settle(now_ns);
        self.is_admitted(now_ns, bytes)
    }

    /// A packet leaves the queue of a discipline, in which it has been since `arrived_ns`: the link begins to send it.
    pub(crate) fn transmit(&mut self, now_ns: u64, arrived_ns: u64, bytes: u64, mark: bool) -> Verdict {
        self.settle(now_ns);
        let [loss_draw, state_draw, jitter_draw] = self.draws();
        self.turn(state_draw);
        let departs_ns = self.serialize(now_ns, arrived_ns, bytes);
        self.leave(departs_ns, mark, loss_draw, jitter_draw)
    }

    /// What the link is sending.
    pub(crate) fn sending(&self) -> Queued {
        self.queue.queued()
    }

    /// The queue of a discipline is so long now.
    pub(crate) fn set_waiting(&mut self, waiting: Queued) {
        self.waiting = waiting;
        let Queued { packets, bytes } = self.queue.queued();
        let (bytes, packets) = (bytes + waiting.bytes, packets + waiting.packets);
        self.stats.queue_max_bytes = self.stats.queue_max_bytes.max(bytes);
        self.stats.queue_max_packets = self.stats.queue_max_packets.max(packets);
    }

    /// A discipline has dropped so many packets; `is_early`: the buffer was not full.
    pub(crate) fn count_drops(&mut self, packets: u64, is_early: bool) {
        self.stats.drops_tail += packets;
        self.stats.drops_early += if is_early { packets } else { 0 };
    }

    /// Puts the packet, which came at `arrived_ns`, behind what is queued; returns when its last bit is sent.
    fn serialize(&mut self, now_ns: u64, arrived_ns: u64, bytes: u64) -> u64 {
        if self.rate_bps == 0 {
            return now_ns;
        }
        if self.free_at_ns < now_ns {
            self.free_at_ns = now_ns;
            self.free_rest = 0;
        }
        let mut queued_ns = self.free_at_ns - arrived_ns;
        let mut by_trace = None;
        let mut rate_bps = self.rate_bps;
        if let Some(impairments) = &mut self.impairments {
            by_trace = impairments.departure_ns(now_ns, bytes);
            // at a step, the rest of the rate before it is taken for one of the new rate: some ns
            rate_bps = impairments.rate_bps(self.free_at_ns, rate_bps);
        }
        if let Some(departs_ns) = by_trace {
            // it waits for its time, and takes none to send
            queued_ns = departs_ns - arrived_ns;
            self.free_at_ns = departs_ns;
        } else {
            let bit_ns = bytes * 8_000_000_000 + self.free_rest;
            if let Some(impairments) = &mut self.impairments {
                impairments.busy_ns += bit_ns / rate_bps;
            }
            self.free_at_ns += bit_ns / rate_bps;
            self.free_rest = bit_ns % rate_bps;
        }
        self.queue_times.record(queued_ns);
        self.stats.queued_ns += queued_ns;
        self.stats.queued_packets += 1;
        self.sent_bytes += bytes;
        self.first_in_ns.get_or_insert(arrived_ns);
        self.queue.push(self.free_at_ns, bytes);
        let queued = self.queue.queued();
        self.stats.queue_max_bytes = self.stats.queue_max_bytes.max(queued.bytes);
        self.stats.queue_max_packets = self.stats.queue_max_packets.max(queued.packets);
        self.free_at_ns
    }

    fn draw(&mut self) -> u64 {
        self.rng.next_u64() >> (u64::BITS - DRAW_BITS)
    }

    fn draws(&mut self) -> [u64; 3] {
        [(); 3].map(|()| self.draw())
    }

    /// What happened, with percentiles and rates.
    pub fn finish(mut self) -> LinkStats {
        if let Some(first_in_ns) = self.first_in_ns {
            let busy_ns = match &self.impairments {
                Some(impairments) if impairments.has_steps() => impairments.busy_ns as f64,
                _ => self.sent_bytes as f64 * 8e9 / self.rate_bps as f64,
            };
            // departures are in whole ns, rounded down: a link that was never idle was in use as long as it was busy
            let in_use_ns = ((self.free_at_ns - first_in_ns) as f64).max(busy_ns);
            self.stats.mean_rate_bps = self.sent_bytes as f64 * 8e9 / in_use_ns;
            self.stats.utilisation = busy_ns / in_use_ns;
            // Little's law: the sum of the times that packets spent there, over the time
            let sending_ns = if self.sends_by_trace() { 0.0 } else { busy_ns };
            self.stats.mean_queue_packets = (self.stats.queued_ns as f64 + sending_ns) / in_use_ns;
            self.stats.queue_p50_us = self.queue_times.quantile_ns(0.5) / 1000;
            self.stats.queue_p99_us = self.queue_times.quantile_ns(0.99) / 1000;
        }
        self.stats
    }

    /// Packets wait for the times of a trace, and take none themselves.
    fn sends_by_trace(&self) -> bool {
        self.impairments.as_ref().is_some_and(|i| i.has_trace())
    }

    /// The state of bursty loss with the next packet.
    fn turn(&mut self, state_draw: u64) {
        if let Some(g) = self.bursts {
            let turn = if self.is_bad { g.to_good } else { g.to_bad };
            self.is_bad ^= turn.happens(state_draw);
        }
    }

    /// Random loss happens behind the bottleneck: a lost packet has used its share of the link.
    fn is_lost(&self, loss_draw: u64) -> bool {
        let Some(g) = self.bursts else { return self.loss.happens(loss_draw) };
        let loss = if self.is_bad { g.loss_bad } else { g.loss_good };
        loss.happens(loss_draw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fraction, Rate, Span};

    fn link() -> Link {
        Link::cable(["a".into(), "b".into()])
    }

    fn lost(link: &Link, packets: u64) -> u64 {
        let mut model = LinkModel::new(link, false, 7);
        for i in 0..packets {
            model.offer(i, 1500, false);
        }
        model.stats.drops_random
    }

    /// Three packets of a millisecond each at once, then nothing for a millisecond, then one.
    #[test]
    fn the_mean_queue_is_over_time() {
        let mut model = LinkModel::new(&Link { rate: Some(Rate(12e6)), ..link() }, false, 1);
        for at_ms in [0, 0, 0, 4] {
            model.offer(at_ms * 1_000_000, 1500, false);
        }
        assert_eq!((model.queued_packets(4_000_000), model.queued_packets(5_000_000)), (1, 0));
        let stats = model.finish();
        assert_eq!(stats.queue_max_packets, 3);
        assert_eq!(stats.mean_queue_packets, (3.0 + 2.0 + 1.0 + 1.0) / 5.0);
        assert_eq!(stats.utilisation, 0.8);
    }

    /// 66 bytes at 1 Gbit/s take 528 ns, at 700 Mbit/s a fraction of a ns more than the 754 at which they are gone.
    #[test]
    fn one_packet_keeps_a_link_busy_and_no_more() {
        for rate_bps in [1e9, 7e8] {
            let mut model = LinkModel::new(&Link { rate: Some(Rate(rate_bps)), ..link() }, false, 1);
            model.offer(0, 66, false);
            let stats = model.finish();
            assert_eq!((stats.utilisation, stats.mean_queue_packets), (1.0, 1.0));
            assert!((stats.mean_rate_bps - rate_bps).abs() < 1e-3, "{}", stats.mean_rate_bps);
        }
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
    fn what_a_full_buffer_drops_does_not_shift_the_luck_of_others() {
        let bursts = GilbertElliott {
            to_bad: Fraction(0.1),
            to_good: Fraction(0.2),
            loss_bad: Fraction(0.9),
            loss_good: Fraction(0.01),
        };
        let link = Link { rate: Some(Rate(12e6)), bursts: Some(bursts), ..link() };
        let small = Link { buffer: Some(Buffer::Packets(3)), ..link.clone() };
        let [mut all, mut some] = [link, small].map(|link| LinkModel::new(&link, false, 7));
        let mut dropped = 0;
        for i in 0..1000u64 {
            // five at a time, which take five of six milliseconds
            let now_ns = i / 5 * 6_000_000;
            let [all, some] = [&mut all, &mut some].map(|model| model.offer(now_ns, 1500, false));
            dropped += u64::from(some == Verdict::DropTail);
            if some != Verdict::DropTail {
                assert_eq!(some == Verdict::DropRandom, all == Verdict::DropRandom, "packet {i}");
            }
        }
        assert_eq!(dropped, 400);
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
            let link = Link { jitter: Some(Span(0.005)), reorder, ..link() };
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

    /// 20 Mbit/s and 2 ms are 10,000 bytes, of which the share is three packets.
    #[test]
    fn a_share_of_a_bdp_marks_at_its_threshold() {
        let link = Link { rate: Some(Rate(20e6)), delay: Span(0.002), ecn: Some(Buffer::Bdp(0.5)), ..link() };
        let mut model = LinkModel::new(&link, false, 1);
        for _ in 0..10 {
            model.offer(0, 1514, true);
        }
        assert_eq!(model.stats.marks, 6);
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
