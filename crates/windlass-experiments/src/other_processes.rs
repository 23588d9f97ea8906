//! Busy time of other processes of this machine: a difference in busy time is not Windlass' where a compiler ran meanwhile.

use anyhow::{Context, Result};
use std::{collections::BTreeMap, fs, process};

/// Kernel threads are children of this one. They may do work of what is measured, as ksoftirqd does.
const KTHREADD: u32 = 2;

/// A process, as /proc/PID/stat has it (proc_pid_stat(5)).
struct Stat {
    parent: u32,
    /// Its own CPU time, and that of its children that have ended, in clock ticks.
    ticks: u64,
}

fn parse(stat: &str) -> Option<Stat> {
    // the name before may have any characters in it
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|f| f.parse::<u64>()).sum::<Result<_, _>>().ok()?;
    Some(Stat { parent: fields.get(1)?.parse().ok()?, ticks })
}

fn processes() -> Result<BTreeMap<u32, Stat>> {
    let entries = fs::read_dir("/proc").context("/proc")?;
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // one that has ended since is none
    Ok(pids
        .filter_map(|pid| Some((pid, parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect())
}

/// Is `pid` the process `root` or one that it, or a descendant of it, has started?
fn descends(processes: &BTreeMap<u32, Stat>, mut pid: u32, root: u32) -> bool {
    while pid != root {
        match processes.get(&pid) {
            Some(stat) if stat.parent != 0 => pid = stat.parent,
            _ => return false,
        }
    }
    true
}

fn ticks_of_others(processes: &BTreeMap<u32, Stat>, own: u32) -> u64 {
    let is_other = |pid| !descends(processes, pid, own) && !descends(processes, pid, KTHREADD);
    processes.iter().filter(|(pid, _)| is_other(**pid)).map(|(_, stat)| stat.ticks).sum()
}

/// Seconds of CPU time that processes neither of this program nor of the kernel have taken since some time in the past. To
/// about a hundredth of a second; processes that were not waited for when they ended are left out.
pub fn busy_s() -> Result<f64> {
    // SAFETY: a plain call.
    let per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Ok(ticks_of_others(&processes()?, process::id()) as f64 / per_s as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, name: &str, parent: u32, own: u64, children: u64) -> (u32, Stat) {
        let line =
            format!("{pid} ({name}) S {parent} 1 1 0 -1 4194304 9 9 9 9 {own} 1 {children} 1 20 0 1 0");
        (pid, parse(&line).unwrap())
    }

    #[test]
    fn only_what_is_neither_ours_nor_the_kernels_counts() {
        let all = BTreeMap::from([
            stat(1, "init", 0, 10, 20),
            stat(2, "kthreadd", 0, 1000, 0),
            stat(15, "ksoftirqd/0", 2, 1000, 0),
            stat(100, "a shell) (or so", 1, 3, 4),
            stat(101, "windlass", 100, 1000, 1000),
            stat(102, "nginx: worker", 101, 1000, 0),
        ]);
        assert_eq!(ticks_of_others(&all, 101), (10 + 20 + 2) + (3 + 4 + 2));
    }

    #[test]
    fn a_process_that_is_none_of_ours_is_seen() {
        assert!(busy_s().unwrap() > 0.0);
    }
}
