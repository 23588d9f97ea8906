//! A part of a sweep, for one of several machines.

use std::{fmt, str::FromStr};

/// Shard `number` of `count`, from 1 on: every so manieth run, so that no shard has all the long ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    count: usize,
}

impl Shard {
    /// Whether it has the run at place `index` of the sweep, from 0 on.
    pub fn has(self, index: usize) -> bool {
        index % self.count == self.number - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((number, count)) if (1..=count).contains(&number) => Ok(Shard { number, count }),
            _ => Err(format!("\"{text}\": write which of how many, 1/8 to 8/8")),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_is_in_one_shard() {
        for count in [1, 2, 7] {
            let shards = (1..=count).map(|i| format!("{i}/{count}").parse::<Shard>().unwrap());
            let shards: Vec<Shard> = shards.collect();
            assert!((0..20).all(|index| shards.iter().filter(|shard| shard.has(index)).count() == 1));
        }
        for wrong in ["", "1", "0/2", "3/2", "a/2", "1/", "1/0", "-1/2"] {
            assert!(wrong.parse::<Shard>().unwrap_err().contains("1/8 to 8/8"), "{wrong}");
        }
    }
}
