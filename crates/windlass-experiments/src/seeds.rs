//! The seeds with which each combination of a sweep is run.

use std::{collections::BTreeSet, fmt, ops::RangeInclusive, str::FromStr};

/// How many there may be.
const MOST: u64 = 1_000_000;
/// What TOML has numbers for.
const LARGEST: u64 = i64::MAX as u64;

/// Seeds: "10" are 1 to 10, "3-5" and "1,7,20-29" what they list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(BTreeSet<u64>);

impl Seeds {
    /// From 1 on, so many.
    pub fn first(count: u64) -> Seeds {
        Seeds((1..=count).collect())
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Seeds, String> {
        let wrong = || format!("\"{text}\": write how many (10: 1 to 10), or which (3-5 or 1,7,20-29)");
        if let Ok(count) = text.parse() {
            return match count {
                1..=MOST => Ok(Seeds::first(count)),
                _ => Err(format!("{count} seeds: 1 to {MOST}")),
            };
        }
        let ranges: Option<Vec<RangeInclusive<u64>>> =
            text.split(',').map(|part| range(part.trim())).collect();
        let ranges = ranges.ok_or_else(wrong)?;
        if ranges.iter().any(|range| range.is_empty() || *range.end() > LARGEST) {
            return Err(wrong());
        }
        let count = ranges.iter().map(|range| range.end() - range.start() + 1).fold(0, u64::saturating_add);
        if count > MOST {
            return Err(format!("{count} seeds: 1 to {MOST}"));
        }
        Ok(Seeds(ranges.into_iter().flatten().collect()))
    }
}

fn range(text: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
}

/// As it can be read again.
impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for seed in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == seed => *last = seed,
                _ => ranges.push((seed, seed)),
            }
        }
        let texts: Vec<String> = ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        f.write_str(&texts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_counted_or_listed() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|s| s.iter().collect::<Vec<_>>());
        assert_eq!(seeds("3"), Ok(vec![1, 2, 3]));
        assert_eq!(seeds("3-5"), Ok(vec![3, 4, 5]));
        assert_eq!(seeds("7-7"), Ok(vec![7]));
        assert_eq!(seeds("9, 1,3-4,4"), Ok(vec![1, 3, 4, 9]));
        assert_eq!("9,1,3-4,4".parse::<Seeds>().unwrap().to_string(), "1-1,3-4,9-9");
        for wrong in
            ["", "0", "5-3", "a", "1-", "-1", "1,,2", "0-9223372036854775808", "1000001", "0-1000000"]
        {
            assert!(seeds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seeds_that_are_written_are_read_again() {
        for text in ["4", "0-0,2-3", "1,2,3,9223372036854775807"] {
            let seeds: Seeds = text.parse().unwrap();
            assert_eq!(seeds.to_string().parse(), Ok(seeds));
        }
    }
}
