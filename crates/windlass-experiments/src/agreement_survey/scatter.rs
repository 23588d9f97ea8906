//! How many runs of a point it takes to tell its two homes apart, which the simulator knows before anything real is run.
//!
//! ```text
//! standard error of the median of n runs    1.25 s / sqrt(n)          s: standard deviation of ln(time), of ln(queue)
//! 95 % of differences of two such medians   1.96 sqrt(2) 1.25 s / sqrt(n) = 3.47 s / sqrt(n)
//! n                                         (3.47 s / tolerance)^2    what counts as agreement (`compare.rs`)
//! ```
//!
//! Runs of most points are alike, and the least number is enough; of others a single loss makes one twice as long.

use super::{
    compare::{Measured, QUEUE_MOST, QUEUE_PACKETS, TIME_MOST},
    point::Point,
};
use crate::{record::RunRecord, stats};

/// Most runs of a point in each home: real ones take their time.
const RUNS_MOST: u64 = 12;
/// 1.96 times the square root of pi, as the standard error of a median is sqrt(pi / 2) times that of a mean.
const OF_MEDIANS: f64 = 3.474;

/// Runs of which medians of these values differ by chance by more than `tolerance` times in one of twenty cases. 1: they are all alike.
fn needed(values: &[f64], tolerance: f64) -> u64 {
    let logarithms: Vec<f64> = values.iter().map(|v| v.max(f64::MIN_POSITIVE).ln()).collect();
    let sd = stats::sd_of(&stats::each(&logarithms)).unwrap_or(0.0);
    ((OF_MEDIANS * sd / tolerance).powi(2).ceil() as u64).clamp(1, RUNS_MOST)
}

/// How many runs of a point, at most twelve, tell times and queues apart as far as is asked, by its simulated ones among `runs`. 1:
/// none of them is worth anything, or they are all alike.
pub fn runs_needed(point: &Point, runs: &[RunRecord]) -> u64 {
    let name = point.name();
    let of_point = runs.iter().filter(|run| run.point == name);
    let each: Vec<Measured> = of_point.filter_map(|run| Measured::of(point, &[run])).collect();
    let numbers = |of: fn(&Measured) -> f64| -> Vec<f64> { each.iter().map(of).collect() };
    let (times_s, queues_packets) = (numbers(|m| m.time_s), numbers(|m| m.queue_packets));
    let queue_packets = stats::median(&queues_packets).unwrap_or(0.0);
    let of_queues = QUEUE_MOST.max(QUEUE_PACKETS / queue_packets);
    needed(&times_s, TIME_MOST).max(needed(&queues_packets, of_queues))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_scatter_are_repeated_and_those_alike_are_not() {
        assert_eq!(needed(&[2.0, 2.0, 2.0], 0.1), 1);
        // sd of 2.9 %, of 5.8 %: as many as make the medians' difference of 95 of 100 a tenth
        let around = |part: f64| [1.0 - part, 1.0, 1.0 + part].map(|x| 3.0 * x);
        assert_eq!(needed(&around(0.0289), 0.1), 2);
        assert_eq!(needed(&around(0.0577), 0.1), 5);
        assert_eq!(needed(&around(0.0577), 0.2), 2);
        assert_eq!(needed(&[1.9, 13.6], 0.1), RUNS_MOST);
        assert_eq!(needed(&[], 0.1), 1);
    }

    #[test]
    fn a_queue_of_hardly_a_packet_asks_for_no_more_runs() {
        let point = Point::of_number(1);
        assert_eq!(runs_needed(&point, &[]), 1);
        let queues = [0.2, 0.4];
        let tolerance = QUEUE_MOST.max(QUEUE_PACKETS / 0.3);
        assert!(needed(&queues, tolerance) <= 2 && needed(&queues, QUEUE_MOST) == RUNS_MOST);
    }
}
