//! Random quantities: a value, or a distribution of values.

use crate::{Bytes, Fraction, Span, pair::Pair};
use rand::RngCore;
use rand_xoshiro::SplitMix64;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, MapAccess, Unexpected, Visitor},
};
use std::{fmt, marker::PhantomData, str::FromStr};

/// A quantity that people write with a unit.
pub trait Quantity: Copy + FromStr<Err = String> + fmt::Display + PartialOrd {
    /// What one is written as.
    const WRITTEN: &str = "a value with its unit";
    /// The number, in the quantity's own unit.
    fn number(self) -> f64;
    /// The quantity of that number.
    fn of(number: f64) -> Self;
    /// What is written as a whole number, without quotes; none: this quantity has a unit.
    fn of_whole(_number: i64) -> Option<Self> {
        None
    }
}

impl Quantity for Bytes {
    fn number(self) -> f64 {
        self.0
    }

    fn of(number: f64) -> Bytes {
        Bytes(number)
    }
}

impl Quantity for Span {
    fn number(self) -> f64 {
        self.0
    }

    fn of(number: f64) -> Span {
        Span(number)
    }
}

/// A random quantity.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dist<T> {
    /// Always this: "4 kB".
    Constant(T),
    /// Anything between: { uniform = ["2 kB", "10 kB"] }.
    Uniform(T, T),
    /// With this mean: { exponential = "1 ms" }.
    Exponential(T),
    /// By its cumulative distribution, straight between the points:
    /// { cdf = [["512 B", "0 %"], ["4 kB", "20 %"], ["1 MB", "100 %"]] }.
    Cdf(Vec<(T, Fraction)>),
}

/// Bits of a float's fraction.
const DRAW_BITS: u32 = 53;

/// A number from 0 on and below 1, all alike.
pub(crate) fn draw_part(rng: &mut SplitMix64) -> f64 {
    (rng.next_u64() >> (u64::BITS - DRAW_BITS)) as f64 / (1u64 << DRAW_BITS) as f64
}

impl<T: Quantity> Dist<T> {
    /// Draws a value. Takes one number from the generator, whatever the distribution.
    pub fn draw(&self, rng: &mut SplitMix64) -> T {
        let u = draw_part(rng);
        match self {
            Dist::Constant(value) => *value,
            Dist::Uniform(low, high) => T::of(low.number() + u * (high.number() - low.number())),
            // libm's logarithm is the same on every machine
            Dist::Exponential(mean) => T::of(-mean.number() * libm::log(1.0 - u)),
            Dist::Cdf(points) => T::of(invert(points, u)),
        }
    }

    /// The smallest value that it may give.
    pub fn least(&self) -> T {
        match self {
            Dist::Constant(value) | Dist::Uniform(value, _) => *value,
            Dist::Exponential(_) => T::of(0.0),
            Dist::Cdf(points) => points[0].0,
        }
    }

    /// The largest value that it may give; none: there is no bound.
    pub fn most(&self) -> Option<T> {
        match self {
            Dist::Constant(value) | Dist::Uniform(_, value) => Some(*value),
            Dist::Exponential(_) => None,
            Dist::Cdf(points) => points.last().map(|p| p.0),
        }
    }

    /// The mean.
    pub fn mean(&self) -> T {
        match self {
            Dist::Constant(value) | Dist::Exponential(value) => *value,
            Dist::Uniform(low, high) => T::of((low.number() + high.number()) / 2.0),
            Dist::Cdf(points) => {
                let (first, share) = points[0];
                let piece = |pair: &[(T, Fraction)]| {
                    (pair[1].1.0 - pair[0].1.0) * (pair[0].0.number() + pair[1].0.number()) / 2.0
                };
                T::of(first.number() * share.0 + points.windows(2).map(piece).sum::<f64>())
            }
        }
    }

    /// The mean of a distribution that has no bound; of others, their largest value.
    pub fn mean_if_unbounded(&self) -> T {
        match self {
            Dist::Exponential(mean) => *mean,
            Dist::Constant(value) | Dist::Uniform(_, value) => *value,
            Dist::Cdf(points) => points[points.len() - 1].0,
        }
    }

    fn check(self) -> Result<Dist<T>, String> {
        match &self {
            Dist::Uniform(low, high) if low > high => {
                Err(format!("uniform: {low} is above {high}; swap them"))
            }
            Dist::Cdf(points) => check_points(points).map(|()| self),
            _ => Ok(self),
        }
    }
}

fn check_points<T: Quantity>(points: &[(T, Fraction)]) -> Result<(), String> {
    let [.., last] = points else { return Err("cdf: at least one point".into()) };
    if last.1.0 != 1.0 {
        return Err(format!("cdf: the last point, {}, must have 100 %", last.0));
    }
    match points.windows(2).find(|pair| pair[0].0 > pair[1].0 || pair[0].1 > pair[1].1) {
        Some(pair) => {
            Err(format!("cdf: values and shares must grow; they do not from {} to {}", pair[0].0, pair[1].0))
        }
        None => Ok(()),
    }
}

/// The value below which a share `u` of all values is. All of the first point's share is at its value.
fn invert<T: Quantity>(points: &[(T, Fraction)], u: f64) -> f64 {
    let above = points.iter().position(|(_, share)| share.0 > u).unwrap_or(points.len() - 1);
    let (high, high_share) = points[above];
    let Some((low, low_share)) = above.checked_sub(1).map(|below| points[below]) else {
        return high.number();
    };
    let part = (u - low_share.0) / (high_share.0 - low_share.0);
    low.number() + part * (high.number() - low.number())
}

impl<'de, T: Quantity + Deserialize<'de>> Deserialize<'de> for Dist<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);

        impl<'de, T: Quantity + Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = Dist<T>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(T::WRITTEN)?;
                f.write_str(", or { uniform = [..] }, { exponential = .. } or { cdf = [..] }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Dist<T>, E> {
                text.parse().map(Dist::Constant).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Dist<T>, E> {
                let value = T::of_whole(number);
                value.map(Dist::Constant).ok_or_else(|| E::invalid_type(Unexpected::Signed(number), &self))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Dist<T>, M::Error> {
                let kind: Option<String> = map.next_key()?;
                let dist = match kind.as_deref() {
                    Some("uniform") => {
                        let Pair(low, high) = map.next_value()?;
                        Dist::Uniform(low, high)
                    }
                    Some("exponential") => Dist::Exponential(map.next_value()?),
                    Some("cdf") => {
                        let points: Vec<Pair<T, Fraction>> = map.next_value()?;
                        Dist::Cdf(points.into_iter().map(|Pair(value, share)| (value, share)).collect())
                    }
                    _ => return Err(de::Error::custom("write uniform, exponential or cdf")),
                };
                if map.next_key::<String>()?.is_some() {
                    return Err(de::Error::custom("one distribution only"));
                }
                dist.check().map_err(de::Error::custom)
            }
        }

        d.deserialize_any(Either(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;

    fn dist(text: &str) -> Result<Dist<Bytes>, String> {
        #[derive(Deserialize)]
        struct Table {
            size: Dist<Bytes>,
        }
        toml::from_str::<Table>(&format!("size = {text}"))
            .map(|t| t.size)
            .map_err(|e| e.message().to_string())
    }

    fn mean(dist: &Dist<Bytes>) -> f64 {
        let mut rng = SplitMix64::seed_from_u64(1);
        (0..100_000).map(|_| dist.draw(&mut rng).0).sum::<f64>() / 1e5
    }

    #[test]
    fn means_are_as_they_should() {
        assert_eq!(dist("\"4 kB\""), Ok(Dist::Constant(Bytes(4e3))));
        let uniform = dist("{ uniform = [\"2 kB\", \"10 kB\"] }").unwrap();
        assert_eq!(uniform.mean(), Bytes(6e3));
        assert!((mean(&uniform) - 6e3).abs() < 30.0);
        let exponential = dist("{ exponential = \"5 kB\" }").unwrap();
        assert!((mean(&exponential) - 5e3).abs() < 50.0);
        // a fifth is 1 kB, the others are between 1 and 11 kB
        let cdf = dist("{ cdf = [[\"1 kB\", \"20 %\"], [\"11 kB\", \"100 %\"]] }").unwrap();
        assert!((mean(&cdf) - (0.2 * 1e3 + 0.8 * 6e3)).abs() < 50.0);
        assert!((cdf.mean().0 - (0.2 * 1e3 + 0.8 * 6e3)).abs() < 1e-6);
        assert_eq!((cdf.least(), cdf.most()), (Bytes(1e3), Some(Bytes(11e3))));
    }

    #[test]
    fn mistakes_show_what_is_right() {
        let error = |text| dist(text).unwrap_err();
        assert!(error("\"4\"").contains("kB"));
        assert!(error("4").contains("with its unit"));
        assert!(error("{ normal = \"4 kB\" }").contains("uniform, exponential or cdf"));
        assert!(error("{ uniform = [\"2 kB\", \"1 kB\"] }").contains("swap"));
        assert!(error("{ uniform = [\"1 kB\", \"2 kB\", \"3 kB\"] }").contains("a list of two"));
        assert!(error("{ uniform = [\"1 kB\"] }").contains("a list of two"));
        assert!(error("{ cdf = [[\"1 kB\", \"20 %\", \"100 %\"]] }").contains("a list of two"));
        assert!(error("{ cdf = [] }").contains("at least one"));
        assert!(error("{ cdf = [[\"1 kB\", \"50 %\"]] }").contains("100 %"));
        assert!(error("{ cdf = [[\"2 kB\", \"50 %\"], [\"1 kB\", \"100 %\"]] }").contains("grow"));
        assert!(error("{ exponential = \"1 kB\", cdf = [] }").contains("one distribution"));
    }

    proptest! {
        #[test]
        fn values_are_within_their_bounds(seed in any::<u64>(), low in 0.0f64..1e6, more in 0.0f64..1e6) {
            let (low, high) = (Bytes(low), Bytes(low + more));
            let cdf = Dist::Cdf(vec![(low, Fraction(0.3)), (low, Fraction(0.4)), (high, Fraction(1.0))]);
            let mut rng = SplitMix64::seed_from_u64(seed);
            for dist in [Dist::Constant(low), Dist::Uniform(low, high), cdf, Dist::Exponential(low)] {
                let value = dist.draw(&mut rng);
                prop_assert!(value >= dist.least() && dist.most().is_none_or(|most| value <= most));
                prop_assert!(value.0.is_finite());
            }
        }
    }
}
