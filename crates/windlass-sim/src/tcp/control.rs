//! The congestion control of a sender: an algorithm of the core, or one from outside it, which sees the same samples and makes the
//! same decisions. For a flow that is observed in steps of time, what its ACKs
//! reported since the last step is here.

use std::{
    fmt::Debug,
    ops::{Deref, DerefMut},
};
use windlass_core::{
    Algorithm, AlgorithmState,
    abi::{WL_CWND_MAX_BYTES, WL_INIT_CWND_SEGS, WL_RATE_UNLIMITED, wl_alg_params, wl_decision, wl_sample},
};

/// A congestion control that is not the core's: the hooks of `core/alg/alg.h`, with the same meaning. What a hook leaves in the
/// decision is in force until the next one changes it.
pub trait CongestionControl: Debug {
    /// The connection is established; the decision is that of a new flow, unpaced.
    fn init(&mut self, params: &wl_alg_params, sample: &wl_sample, decision: &mut wl_decision);
    /// An ACK delivered or lost something, or carries an event.
    fn on_ack(&mut self, sample: &wl_sample, decision: &mut wl_decision);
    /// The first loss (`WL_CONGESTION_LOSS`) or ECN mark (`WL_CONGESTION_ECN`) of a window.
    fn on_congestion(&mut self, sample: &wl_sample, decision: &mut wl_decision, why: u32);
    /// A retransmission timeout.
    fn on_timeout(&mut self, sample: &wl_sample, decision: &mut wl_decision);
    /// New data is about to be sent, the first for `idle_us`.
    fn on_send_after_idle(&mut self, sample: &wl_sample, decision: &mut wl_decision, idle_us: u32);
    /// The time has come that the decision had set.
    fn on_timer(&mut self, sample: &wl_sample, decision: &mut wl_decision);
}

/// Which flows have a congestion control from outside the core.
pub trait Outside: Debug {
    /// That of a new connection of this flow; none: the algorithm that the scenario names.
    fn of_flow(&self, flow: usize) -> Option<Box<dyn CongestionControl>>;
}

/// A window and a rate that stay in force, whatever the ACKs report. What a host does to them by itself, as after a timeout, lasts
/// until the next ACK.
#[derive(Clone, Copy, Debug)]
struct Held {
    cwnd_bytes: u32,
    pacing_bytes_ps: u64,
}

impl CongestionControl for Held {
    fn init(&mut self, _: &wl_alg_params, sample: &wl_sample, decision: &mut wl_decision) {
        self.on_ack(sample, decision);
    }

    fn on_ack(&mut self, _: &wl_sample, decision: &mut wl_decision) {
        (decision.cwnd_bytes, decision.pacing_bytes_ps) = (self.cwnd_bytes, self.pacing_bytes_ps);
    }

    fn on_congestion(&mut self, _: &wl_sample, _: &mut wl_decision, _: u32) {}
    fn on_timeout(&mut self, _: &wl_sample, _: &mut wl_decision) {}
    fn on_send_after_idle(&mut self, _: &wl_sample, _: &mut wl_decision, _: u32) {}
    fn on_timer(&mut self, _: &wl_sample, _: &mut wl_decision) {}
}

/// What the ACKs of a flow reported during an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// ACKs that delivered or lost something, or carried an event.
    pub acks: u64,
    /// Newly delivered.
    pub delivered_bytes: u64,
    /// Newly marked lost.
    pub lost_bytes: u64,
    /// Delivered and reported CE-marked.
    pub ce_bytes: u64,
    /// Round-trip times that were measured ...
    pub rtts: u64,
    /// ... their sum ...
    pub rtt_sum_us: u64,
    /// ... and, for the slope, sums of when they were, of the squares of that, and of the products of both. Times count from
    /// the first one.
    at_sum_us: u64,
    at_square_sum: u128,
    product_sum: u128,
    first_us: u32,
}

impl Tally {
    fn add(&mut self, sample: &wl_sample) {
        self.acks += 1;
        self.delivered_bytes += u64::from(sample.newly_delivered_bytes);
        self.lost_bytes += u64::from(sample.lost_bytes);
        self.ce_bytes += u64::from(sample.ce_bytes);
        if sample.rtt_us == 0 {
            return;
        }
        if self.rtts == 0 {
            self.first_us = sample.now_us;
        }
        let (at_us, rtt_us) =
            (u64::from(sample.now_us.wrapping_sub(self.first_us)), u64::from(sample.rtt_us));
        self.rtts += 1;
        self.rtt_sum_us += rtt_us;
        self.at_sum_us += at_us;
        self.at_square_sum += u128::from(at_us) * u128::from(at_us);
        self.product_sum += u128::from(at_us) * u128::from(rtt_us);
    }

    /// Mean of the round-trip times; none: no one was measured.
    pub fn mean_rtt_us(&self) -> Option<f64> {
        (self.rtts > 0).then(|| self.rtt_sum_us as f64 / self.rtts as f64)
    }

    /// How fast the round-trip time grew, in seconds a second, by least squares; 0 of fewer than two.
    pub fn rtt_slope(&self) -> f64 {
        let n = self.rtts as f64;
        let (at, rtt) = (self.at_sum_us as f64, self.rtt_sum_us as f64);
        let spread = n * self.at_square_sum as f64 - at * at;
        if spread <= 0.0 { 0.0 } else { (n * self.product_sum as f64 - at * rtt) / spread }
    }
}

/// What few flows have. It is apart, so that thousands of others stay small.
#[derive(Debug, Default)]
struct External {
    /// None: the core's.
    control: Option<Box<dyn CongestionControl>>,
    /// None: the flow is not observed.
    tally: Option<Tally>,
    is_held: bool,
}

/// The congestion control of a sender. What is in force is its `decision`.
#[derive(Debug)]
pub struct Control {
    core: AlgorithmState,
    external: Option<Box<External>>,
}

impl Control {
    /// That of a connection which is not established yet.
    pub fn new(algorithm: Algorithm, sample: &wl_sample) -> Control {
        Control { core: AlgorithmState::new(algorithm, sample), external: None }
    }

    /// Takes the place of the core's algorithm.
    pub fn replace(&mut self, control: Box<dyn CongestionControl>) {
        self.external.get_or_insert_default().control = Some(control);
    }

    /// From now on ACKs are counted.
    pub fn observe(&mut self) {
        self.external.get_or_insert_default().tally = Some(Tally::default());
    }

    /// What was counted since the last call; none: it is not observed.
    pub fn take_tally(&mut self) -> Option<Tally> {
        self.external.as_mut()?.tally.as_mut().map(std::mem::take)
    }

    /// The algorithm from outside, and the decision in force; none: the core's is asked.
    fn outside(&mut self) -> Option<(&mut dyn CongestionControl, &mut wl_decision)> {
        let control = self.external.as_mut()?.control.as_mut()?;
        Some((control.as_mut(), &mut self.core.decision))
    }

    /// The connection is established.
    pub fn begin(&mut self, params: &wl_alg_params, sample: &wl_sample) {
        self.core = AlgorithmState::with_params(self.core.algorithm(), params, sample);
        if let Some((outside, decision)) = self.outside() {
            *decision = wl_decision {
                cwnd_bytes: WL_INIT_CWND_SEGS * sample.mss_bytes,
                ssthresh_bytes: WL_CWND_MAX_BYTES,
                // the C literal ~0ULL comes out of bindgen as -1
                pacing_bytes_ps: WL_RATE_UNLIMITED as u64,
                ..wl_decision::default()
            };
            outside.init(params, sample, decision);
        }
    }

    /// What is given is in force from now on, and the algorithm no longer has an effect. None: as it is.
    pub fn hold(&mut self, cwnd_bytes: Option<u32>, pacing_bytes_ps: Option<u64>) {
        let decision = &mut self.core.decision;
        decision.cwnd_bytes = cwnd_bytes.unwrap_or(decision.cwnd_bytes).min(WL_CWND_MAX_BYTES);
        decision.pacing_bytes_ps = pacing_bytes_ps.unwrap_or(decision.pacing_bytes_ps);
        (decision.has_wake, decision.is_held) = (0, 0);
        let wl_decision { cwnd_bytes, pacing_bytes_ps, .. } = *decision;
        self.replace(Box::new(Held { cwnd_bytes, pacing_bytes_ps }));
        self.external.get_or_insert_default().is_held = true;
    }

    /// Whether window and rate are set from outside.
    pub fn is_held_outside(&self) -> bool {
        self.external.as_ref().is_some_and(|e| e.is_held)
    }

    /// [`AlgorithmState::on_ack`]
    pub fn on_ack(&mut self, sample: &wl_sample) {
        if let Some(tally) = self.external.as_mut().and_then(|e| e.tally.as_mut()) {
            tally.add(sample);
        }
        match self.outside() {
            None => self.core.on_ack(sample),
            Some((outside, decision)) => outside.on_ack(sample, decision),
        }
    }

    /// [`AlgorithmState::on_congestion`]
    pub fn on_congestion(&mut self, sample: &wl_sample, why: u32) {
        match self.outside() {
            None => self.core.on_congestion(sample, why),
            Some((outside, decision)) => outside.on_congestion(sample, decision, why),
        }
    }

    /// [`AlgorithmState::on_timeout`]
    pub fn on_timeout(&mut self, sample: &wl_sample) {
        match self.outside() {
            None => self.core.on_timeout(sample),
            Some((outside, decision)) => outside.on_timeout(sample, decision),
        }
    }

    /// [`AlgorithmState::on_send_after_idle`]
    pub fn on_send_after_idle(&mut self, sample: &wl_sample, idle_us: u32) {
        match self.outside() {
            None => self.core.on_send_after_idle(sample, idle_us),
            Some((outside, decision)) => outside.on_send_after_idle(sample, decision, idle_us),
        }
    }

    /// [`AlgorithmState::on_timer`]
    pub fn on_timer(&mut self, sample: &wl_sample) {
        match self.outside() {
            None => self.core.on_timer(sample),
            Some((outside, decision)) => {
                decision.has_wake = 0;
                outside.on_timer(sample, decision);
            }
        }
    }
}

impl Deref for Control {
    type Target = AlgorithmState;

    fn deref(&self) -> &AlgorithmState {
        &self.core
    }
}

impl DerefMut for Control {
    fn deref_mut(&mut self) -> &mut AlgorithmState {
        &mut self.core
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_the_round_trip_time_is_what_it_grows_a_second() {
        let mut tally = Tally::default();
        let sample = |now_us, rtt_us| wl_sample { now_us, rtt_us, mss_bytes: 1448, ..Default::default() };
        tally.add(&sample(5, 0));
        assert_eq!((tally.mean_rtt_us(), tally.rtt_slope()), (None, 0.0));
        // half a second a second, over the wrap of the clock
        let begin_us = u32::MAX - 1500;
        (0..4).for_each(|i| tally.add(&sample(begin_us.wrapping_add(1000 * i), 40_000 + 500 * i)));
        assert_eq!((tally.acks, tally.mean_rtt_us(), tally.rtt_slope()), (5, Some(40_750.0), 0.5));
    }
}
