//! Web pages: sets of objects that a browser fetches over a few connections, each of which requests its next object when the last
//! one is there.
//!
//! ```text
//! due            the first connections begin, as many as there are objects, `connections` at most
//! connected      a connection requests the next object that none has requested yet
//! object there   the same; there is none: it closes
//! last object    the page is loaded: its load time is from the first SYN to here
//! ```

use crate::{Bytes, Dist, Quantity, Size, unitless};
use rand::SeedableRng;
use rand_xoshiro::SplitMix64;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};
use std::{fmt, str::FromStr};

/// A page, as a flow's `size`: { objects = 40, each = "20 kB", connections = 6 }.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// How many objects; one is drawn for each page.
    pub objects: Dist<Count>,
    /// How long each object is: [`Size::Bytes`] of a scenario that has been read.
    pub each: Box<Size>,
    /// Most connections at a time; those of browsers have six.
    #[serde(default = "six", deserialize_with = "connections")]
    pub connections: u32,
}

fn six() -> u32 {
    6
}

fn connections<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
    unitless::whole_within::<1, 100, D>(d).map(|number| number.unwrap_or(six()))
}

/// Most objects of a page.
const OBJECTS_MOST: f64 = 10_000.0;

impl Page {
    /// Whether it can be loaded; an error begins with the key.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !matches!(*self.each, Size::Bytes(_)) {
            return Err("each: a value or a distribution; an object has a length of its own".into());
        }
        let most = self.objects.most().unwrap_or_else(|| self.objects.mean());
        if self.objects.least() < Count(1.0) && !matches!(self.objects, Dist::Exponential(_)) {
            return Err("objects: at least 1".into());
        }
        if most > Count(OBJECTS_MOST) {
            return Err(format!("objects: at most {OBJECTS_MOST}"));
        }
        Ok(())
    }

    /// The lengths of a page's objects, in the order in which they are requested.
    pub fn draw(&self, seed: u64) -> Vec<u64> {
        let mut rng = SplitMix64::seed_from_u64(seed);
        let objects = self.objects.draw(&mut rng).0.round().clamp(1.0, OBJECTS_MOST) as usize;
        (0..objects).map(|_| self.each().draw(&mut rng).count().max(1)).collect()
    }

    /// How long each object is.
    pub fn each(&self) -> &Dist<Bytes> {
        match &*self.each {
            Size::Bytes(dist) => dist,
            _ => unreachable!("which has been checked"),
        }
    }

    /// The mean length of a page.
    pub fn mean(&self) -> Bytes {
        Bytes(self.objects.mean().0 * self.each().mean().0)
    }

    /// Most objects of a page; of a distribution without a bound, as many as it may ever have.
    pub fn objects_most(&self) -> u64 {
        self.objects.most().map_or(OBJECTS_MOST, |count| count.0.round()) as u64
    }
}

/// A number of things.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Count(pub f64);

impl Quantity for Count {
    const WRITTEN: &str = NUMBER;

    fn number(self) -> f64 {
        self.0
    }

    fn of(number: f64) -> Count {
        Count(number)
    }

    fn of_whole(number: i64) -> Option<Count> {
        (number >= 0).then_some(Count(number as f64))
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

const NUMBER: &str = "a whole number without quotes, e.g. 40";

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Count, String> {
        Err(format!("\"{text}\": {NUMBER}"))
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Count, D::Error> {
        struct Whole;

        impl Visitor<'_> for Whole {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(NUMBER)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Count, E> {
                Count::of_whole(number).ok_or_else(|| E::custom(format!("{number}: {NUMBER}")))
            }
        }

        d.deserialize_i64(Whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        #[derive(Deserialize)]
        struct Table {
            page: Page,
        }
        let table: Table = toml::from_str(&format!("page = {text}")).unwrap_or_else(|e| panic!("{e}"));
        table.page
    }

    #[test]
    fn a_seed_is_a_page() {
        let fixed = page("{ objects = 3, each = \"20 kB\" }");
        assert_eq!((fixed.draw(1), fixed.connections), (vec![20_000; 3], 6));
        let random =
            page("{ objects = { uniform = [20, 60] }, each = { exponential = \"15 kB\" }, connections = 2 }");
        let drawn: Vec<Vec<u64>> = (0..500).map(|seed| random.draw(seed)).collect();
        assert!(drawn.iter().all(|objects| (20..=60).contains(&objects.len())));
        assert_eq!((drawn[7].clone(), random.objects_most()), (random.draw(7), 60));
        let bytes = drawn.iter().flatten().sum::<u64>() as f64 / 500.0;
        assert!((bytes / random.mean().0 - 1.0).abs() < 0.05, "{bytes}");
    }

    #[test]
    fn what_is_no_page_is_refused_by_its_key() {
        let error = |text: &str| page(text).check().unwrap_err();
        assert!(error("{ objects = 0, each = \"1 kB\" }").starts_with("objects: "));
        assert!(error("{ objects = 10001, each = \"1 kB\" }").starts_with("objects: at most 10000"));
        assert!(error("{ objects = 1, each = \"unlimited\" }").starts_with("each: "));
        let wrong = |text: &str| toml::from_str::<Page>(text).unwrap_err().message().to_string();
        for objects in ["\"40\"", "-1", "{ uniform = [1, -3] }", "4.5"] {
            let e = wrong(&format!("objects = {objects}\neach = \"1 kB\""));
            assert!(e.contains(NUMBER), "{objects}: {e}");
        }
        let e = wrong("objects = 4\neach = \"1 kB\"\nconnections = 0");
        assert!(e.contains("a whole number from 1 to 100"), "{e}");
    }
}
