//! Sums of flows' records that outlive an agent: those of all agents of this network namespace, until the machine starts anew.

use crate::{
    Error, Result,
    flow_sums::FlowSums,
    netdev,
    persist::{
        lock::Lock,
        private,
        run_dir::{run_dir, run_file},
        run_file::write_text,
    },
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path, path::PathBuf, time::Duration};

/// Up to when records were summed up is known of so many datapaths, those with the highest numbers, which are the newest.
const DATAPATHS_MOST: usize = 64;

/// What is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedSums {
    /// The sums.
    pub sums: FlowSums,
    /// By the number of a datapath's clock: up to when its records are in the sums (of CLOCK_MONOTONIC).
    pub upto_us: BTreeMap<u32, u64>,
}

/// As that of `ended_counters`.
fn file() -> PathBuf {
    run_file(&format!("sums-{}", netdev::namespace_cookie().unwrap_or_else(netdev::namespace_inode)))
}

/// What was saved; none: nothing was.
pub fn saved_sums() -> Option<SavedSums> {
    read(&file())
}

fn read(file: &Path) -> Option<SavedSums> {
    serde_json::from_str(&private::read(file).ok()?).ok()
}

impl SavedSums {
    /// Adds these to what is saved, and returns all of it.
    ///
    /// # Errors
    /// [`Error::Locked`]: another process does so just now.
    pub fn save(&self) -> Result<SavedSums> {
        private::make_folder(run_dir())?;
        self.save_in(&file(), &run_file("sums.lock"))
    }

    fn save_in(&self, file: &Path, lock: &Path) -> Result<SavedSums> {
        let _lock = Lock::take_within(lock, Duration::ZERO)?;
        let mut all = read(file).unwrap_or_default();
        all.sums.add(&self.sums);
        for (number, upto_us) in &self.upto_us {
            let before = all.upto_us.entry(*number).or_default();
            *before = (*before).max(*upto_us);
        }
        while all.upto_us.len() > DATAPATHS_MOST {
            all.upto_us.pop_first();
        }
        let text =
            serde_json::to_string(&all).map_err(|why| Error::Io { path: file.into(), why: why.into() })?;
        write_text(file, &text)?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(value: u64, number: u32, upto_us: u64) -> SavedSums {
        let mut saved = SavedSums { upto_us: [(number, upto_us)].into(), ..SavedSums::default() };
        saved.sums.rtt_us.count(value, 1);
        saved
    }

    #[test]
    fn sums_are_those_of_all_that_have_saved_some() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, lock] = ["sums", "sums.lock"].map(|name| folder.path().join(name));
        assert_eq!(read(&file), None);
        assert_eq!(sums(100, 1, 7).save_in(&file, &lock).expect("saved"), sums(100, 1, 7));
        sums(5000, 2, 9).save_in(&file, &lock).expect("saved");
        let all = sums(5000, 1, 3).save_in(&file, &lock).expect("saved");
        assert_eq!((all.sums.rtt_us.total(), all.sums.rtt_us.sum()), (3, 10_100));
        assert_eq!(all.upto_us, [(1, 7), (2, 9)].into());
        assert_eq!(read(&file), Some(all));
        let held = Lock::take_within(&lock, Duration::ZERO).expect("free");
        assert!(matches!(sums(1, 1, 1).save_in(&file, &lock), Err(Error::Locked { .. })));
        drop(held);
        (0..100).for_each(|number| drop(sums(1, number, 1).save_in(&file, &lock).expect("saved")));
        assert_eq!(read(&file).expect("saved").upto_us.len(), DATAPATHS_MOST);
    }
}
