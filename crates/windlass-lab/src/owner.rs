//! Names carry the process that made what they name and when it started, so that what a killed run left behind can be
//! distinguished from what is in use, even after its number went to another process; nothing else is touched.

use anyhow::{Context, Result};
use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

const PREFIX: &str = "wl";

static NEXT_RUN: AtomicU32 = AtomicU32::new(0);

/// A number for one run, unique in this process.
pub fn next_run() -> u32 {
    NEXT_RUN.fetch_add(1, Ordering::Relaxed)
}

/// What the host `host` of run `run` is called.
pub(crate) fn name_of(run: u32, host: &str) -> Result<String> {
    let pid = std::process::id();
    let started = started_at(pid)?.context("/proc/self/stat: is /proc mounted?")?;
    Ok(format!("{PREFIX}{pid}.{started}-{run}-{host}"))
}

/// A process and when it started, in clock ticks after boot: together unique, unlike the number alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    pid: u32,
    started: u64,
}

impl Owner {
    /// The process that made the namespace of that name, if it is one of ours.
    fn of(name: &str) -> Option<Owner> {
        let (owner, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
        rest.split_once('-')?.0.parse::<u32>().ok()?;
        let (pid, started) = owner.split_once('.')?;
        Some(Owner { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    /// Has it ended? Where that is not known, as without a descriptor to spare, it has not.
    fn is_gone(self) -> bool {
        started_at(self.pid).is_ok_and(|started| started != Some(self.started))
    }
}

/// When a process started, in clock ticks after boot; none if there is no such process.
fn started_at(pid: u32) -> io::Result<Option<u64>> {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(start_in(&stat)),
        // the latter if it ends meanwhile
        Err(why) if why.kind() == ErrorKind::NotFound || why.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(why) => Err(why),
    }
}

/// The same by its line in /proc.
fn start_in(stat: &str) -> Option<u64> {
    // the name, second of all fields, may contain spaces and brackets; the start is field 22 (proc_pid_stat(5))
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // a process that is dead but not yet waited for holds nothing
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// What is in a folder, if it is there, under names of makers that are gone.
pub(crate) fn left_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
    names.filter(|name| Owner::of(name).is_some_and(Owner::is_gone)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_have_an_owner() {
        assert_eq!(Owner::of("wl123.77-0-server"), Some(Owner { pid: 123, started: 77 }));
        for other in ["wlan0", "wl123-0-server", "wl.1-0-x", "wl-1-x", "other"] {
            assert_eq!(Owner::of(other), None, "{other}");
        }
    }

    #[test]
    fn a_number_that_went_to_another_process_is_distinguished() {
        let pid = std::process::id();
        let started = started_at(pid).unwrap().unwrap();
        assert!(!Owner { pid, started }.is_gone());
        assert!(Owner { pid, started: started - 1 }.is_gone());
    }
}
