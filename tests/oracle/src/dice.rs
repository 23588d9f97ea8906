//! Random choices, the same at every run of one seed.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A source of choices.
pub struct Dice(Xoshiro256PlusPlus);

impl Dice {
    /// Choices of run `number` of a seed.
    pub fn new(seed: u64, number: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(0x9e37_79b9) ^ number << 20))
    }

    /// 32 bits.
    pub fn bits(&mut self) -> u32 {
        self.0.random()
    }

    /// 64 bits.
    pub fn long_bits(&mut self) -> u64 {
        self.0.random()
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        self.0.random_range(low..=high)
    }

    /// Smaller numbers as often as larger ones, by their magnitude.
    pub fn magnitude(&mut self, low: i64, high: i64) -> i64 {
        let bits = (high as f64 / low as f64).log2();
        ((low as f64 * 2f64.powf(self.0.random::<f64>() * bits)) as i64).clamp(low, high)
    }

    /// Yes, with that chance in a thousand.
    pub fn permille(&mut self, chance: u32) -> bool {
        self.0.random_range(0..1000) < chance
    }

    /// One of these, which are some.
    pub fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.random_range(0..of.len())]
    }
}
