//! The random numbers of a path. Logarithms and powers are libm's, which are the same on every machine.

use rand::{RngCore, SeedableRng};
use rand_xoshiro::SplitMix64;

/// Seed of the survey: with another one all paths are others.
const SEED: u64 = 42;
/// Bits of a float's fraction.
const PART_BITS: u32 = 53;

/// The random numbers of one path.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// Those of the path of that number.
    pub fn of_path(number: u32) -> Random {
        Random(SplitMix64::seed_from_u64(SEED << 32 | u64::from(number)))
    }

    /// A number from 0 on and below 1.
    pub fn part(&mut self) -> f64 {
        (self.0.next_u64() >> (u64::BITS - PART_BITS)) as f64 / (1u64 << PART_BITS) as f64
    }

    /// Whether what has that probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.part() < probability
    }

    /// A number between these.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        rounded(low + self.part() * (high - low)).clamp(low, high)
    }

    /// A number between these, whose logarithm is uniform.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        let part = self.part();
        rounded(low * libm::exp(part * libm::log(high / low))).clamp(low, high)
    }

    /// With that probability a number between these, else 0.
    pub fn maybe(&mut self, probability: f64, low: f64, high: f64) -> f64 {
        let (happens, number) = (self.happens(probability), self.uniform(low, high));
        if happens { number } else { 0.0 }
    }

    /// The same with a uniform logarithm.
    pub fn maybe_log(&mut self, probability: f64, low: f64, high: f64) -> f64 {
        let (happens, number) = (self.happens(probability), self.log_uniform(low, high));
        if happens { number } else { 0.0 }
    }
}

/// Three significant figures, so that scenario files are short and hold the very number.
fn rounded(number: f64) -> f64 {
    let digits = libm::floor(libm::log10(number));
    let (down, up) = (libm::pow(10.0, (digits - 2.0).max(0.0)), libm::pow(10.0, (2.0 - digits).max(0.0)));
    libm::round(number / down * up) / up * down
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_paths_have_three_figures() {
        for (number, expected) in [(64_123.0, 64_100.0), (0.012_345, 0.0123), (9.996, 10.0), (123.0, 123.0)] {
            assert_eq!(rounded(number), expected);
        }
    }
}
