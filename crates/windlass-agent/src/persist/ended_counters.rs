//! What datapaths of this network namespace had counted when they were removed. With that, sums over those that are there do not fall
//! when one goes. Kept under /run once a program that shows such sums has begun it, and until the machine starts anew.

use crate::{
    Result,
    counters::read_counters,
    netdev,
    object::pinned_map,
    persist::{lock::Lock, private, run_dir::run_file, run_file::write_text},
};
use std::{collections::BTreeMap, path::Path, path::PathBuf};

/// Of so many datapaths that were removed last the numbers are known: a reader may still have them open.
const NUMBERS_MOST: usize = 64;
/// The line of these numbers begins so; all others with a counter's name.
const NUMBERS: &str = "datapaths";

/// The sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedCounters {
    /// By name.
    pub sums: BTreeMap<String, u64>,
    /// Numbers of the clocks of those datapaths, by which they are distinguished; of the last ones.
    pub numbers: Vec<u32>,
}

impl EndedCounters {
    fn parse(text: &str) -> EndedCounters {
        let mut ended = EndedCounters::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            match (words.next(), words) {
                (Some(NUMBERS), words) => {
                    ended.numbers = words.filter_map(|word| word.parse().ok()).collect()
                }
                (Some(name), mut words) => {
                    let sum = words.next().and_then(|word| word.parse().ok());
                    ended.sums.extend(sum.map(|sum| (name.to_string(), sum)));
                }
                (None, _) => {}
            }
        }
        ended
    }

    fn text(&self) -> String {
        let numbers: String = self.numbers.iter().map(|number| format!(" {number}")).collect();
        let sums = self.sums.iter().map(|(name, sum)| format!("{name} {sum}\n"));
        format!("{NUMBERS}{numbers}\n") + &sums.collect::<String>()
    }

    fn add(&mut self, number: u32, counters: &BTreeMap<String, u64>) {
        for (name, count) in counters {
            *self.sums.entry(name.clone()).or_default() += count;
        }
        self.numbers.push(number);
        let too_many = self.numbers.len().saturating_sub(NUMBERS_MOST);
        self.numbers.drain(..too_many);
    }
}

/// By the cookie of this network namespace: a later one may have the inode of one that is gone, and its sums are not this one's.
fn file() -> PathBuf {
    run_file(&format!("counters-{}", netdev::namespace_cookie().unwrap_or_else(netdev::namespace_inode)))
}

/// From now on these sums are kept.
pub fn keep_ended_counters() -> Result<()> {
    let _lock = Lock::take("pins")?;
    let file = file();
    if file.exists() { Ok(()) } else { write_text(&file, &EndedCounters::default().text()) }
}

/// The sums so far.
pub fn ended_counters() -> EndedCounters {
    let text = private::read(&file()).unwrap_or_default();
    EndedCounters::parse(&text)
}

/// The datapath of this number, pinned in `folder`, is about to be removed: nothing is counted any more. With the lock of "pins" held.
/// What cannot be read or written is no reason for it to stay.
pub(crate) fn note(namespace: u64, folder: &Path, number: u32) {
    if namespace != netdev::namespace_inode() {
        return;
    }
    let file = file();
    let Ok(text) = private::read(&file) else { return };
    let counters = pinned_map(&folder.join("wl_counters")).and_then(|map| read_counters(&map));
    let Ok(counters) = counters else { return };
    let mut ended = EndedCounters::parse(&text);
    ended.add(number, &counters);
    let _ = write_text(&file, &ended.text());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_counters_are_sums_and_the_last_datapaths_numbers() {
        let counts = |n| BTreeMap::from([("lost_segs".to_string(), n), ("undos".to_string(), 1)]);
        let mut ended = EndedCounters::default();
        (1..=100).for_each(|number| ended.add(number, &counts(2)));
        assert_eq!(ended.sums, BTreeMap::from([("lost_segs".into(), 200), ("undos".into(), 100)]));
        assert_eq!((ended.numbers.len(), ended.numbers[0], ended.numbers.last()), (64, 37, Some(&100)));
        assert_eq!(EndedCounters::parse(&ended.text()), ended);
        assert_eq!(EndedCounters::parse(""), EndedCounters::default());
        assert_eq!(EndedCounters::parse("datapaths 1 x\nhalf\nundos y\n\n").numbers, [1]);
    }
}
