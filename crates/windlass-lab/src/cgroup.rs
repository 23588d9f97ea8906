//! Cgroups (v2) for servers whose sockets a policy must distinguish from all others. Named as the hosts are, so that
//! what a killed run left behind goes with the next one's cleaning.

use crate::owner::name_of;
use anyhow::{Context, Result};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Its last process may still be on the way out.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Where cgroups of version 2 are mounted.
pub(crate) fn root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        (words.get(2) == Some(&"cgroup2")).then(|| PathBuf::from(words[1]))
    })
}

/// One cgroup. Dropped, it goes as soon as it is empty.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Makes one for host `host` of run `run` (see [`next_run`](crate::netns::next_run)).
    pub fn create(run: u32, host: &str) -> Result<Cgroup> {
        let root = root().context("no cgroup v2 is mounted; `mount -t cgroup2 none /sys/fs/cgroup`")?;
        let folder = root.join(name_of(run, host)?);
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Cgroup(folder))
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Removes a cgroup, with those right below it, as soon as it is empty; returns whether it is gone.
pub(crate) fn remove(folder: &Path) -> bool {
    for below in fs::read_dir(folder).into_iter().flatten().flatten() {
        // what is no cgroup cannot be removed, and stays no longer than its folder
        let _ = fs::remove_dir(below.path());
    }
    let end = Instant::now() + END_LIMIT;
    while fs::remove_dir(folder).is_err_and(|e| e.kind() != io::ErrorKind::NotFound) {
        if Instant::now() > end {
            return false;
        }
        thread::yield_now();
    }
    true
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        remove(&self.0);
    }
}
