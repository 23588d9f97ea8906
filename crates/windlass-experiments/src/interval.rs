//! Confidence intervals of means over runs.

use crate::stats;
use serde::Serialize;

/// Two-sided 95 % quantiles of Student's t, for 1 to 30 degrees of freedom.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// That of the normal distribution.
const Z_95: f64 = 1.959_964;

/// A mean, and between which numbers it lies with 95 % confidence if numbers of runs are normally distributed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The mean of the runs.
    pub mean: f64,
    /// From here; none: there is one run only.
    pub low: Option<f64>,
    /// To here; none: there is one run only.
    pub high: Option<f64>,
}

impl Interval {
    /// Of a number of each run; none of nothing.
    pub fn of(runs: &[f64]) -> Option<Interval> {
        let mean = stats::mean(runs)?;
        let freedom = runs.len() - 1;
        let half = (freedom > 0).then(|| {
            t_95(freedom) * stats::sd_of(&stats::each(runs)).unwrap_or(0.0) / (runs.len() as f64).sqrt()
        });
        Some(Interval { mean, low: half.map(|half| mean - half), high: half.map(|half| mean + half) })
    }
}

fn t_95(freedom: usize) -> f64 {
    // above, by the first terms of Cornish and Fisher's expansion
    let (z, n) = (Z_95, freedom as f64);
    let beyond =
        || z + (z.powi(3) + z) / (4.0 * n) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n);
    T_95.get(freedom - 1).copied().unwrap_or_else(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_students_t() {
        let interval = Interval::of(&[1.0, 2.0, 3.0]).expect("numbers");
        // 4.303 / sqrt(3)
        let rounded = [interval.low, interval.high].map(|v| (v.expect("three runs") * 1e3).round() / 1e3);
        assert_eq!((interval.mean, rounded), (2.0, [-0.484, 4.484]));
        assert_eq!(Interval::of(&[7.0]), Some(Interval { mean: 7.0, low: None, high: None }));
        assert_eq!(Interval::of(&[]), None);
        assert!((t_95(40) - 2.021).abs() < 0.001 && (t_95(31) - 2.0395).abs() < 0.001);
    }
}
