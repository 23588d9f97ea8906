//! Network namespaces as hosts. Names carry the process that made them and when it started, so that what a killed run
//! left behind can be told from what is in use, even after its number went to another process; nothing else is touched.

use crate::{cgroup, files, tools};
use anyhow::{Context, Result, bail};
use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering},
};

const PREFIX: &str = "wl";
const RUN: &str = "/run/netns";
/// Holds a folder for each host that needs files: the configuration and logs of its server.
const FOLDERS: &str = "/run/windlass-lab";

static NEXT_RUN: AtomicU32 = AtomicU32::new(0);

/// A number for one run, unique in this process.
pub fn next_run() -> u32 {
    NEXT_RUN.fetch_add(1, Ordering::Relaxed)
}

/// Whether this process is root's.
pub fn is_root() -> bool {
    // SAFETY: plain call without arguments.
    unsafe { libc::geteuid() == 0 }
}

/// Refuses whoever may not make hosts.
pub fn check_root() -> Result<()> {
    if !is_root() {
        bail!("the testbed makes network namespaces and needs root; run it with sudo");
    }
    Ok(())
}

/// What the host `host` of run `run` is called.
pub(crate) fn name(run: u32, host: &str) -> Result<String> {
    let pid = std::process::id();
    let started = started_at(pid).context("/proc/self/stat: is /proc mounted?")?;
    Ok(format!("{PREFIX}{pid}.{started}-{run}-{host}"))
}

/// One host.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes a namespace for host `host` of run `run`, with its loopback up.
    pub fn create(run: u32, host: &str) -> Result<Netns> {
        check_root()?;
        let ns = Netns { name: name(run, host)? };
        checked(Command::new("ip").args(["netns", "add", &ns.name]))?;
        ns.run(&["ip", "link", "set", "lo", "up"])?;
        Ok(ns)
    }

    /// Name under /run/netns.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path of the namespace file.
    pub fn path(&self) -> PathBuf {
        Path::new(RUN).join(&self.name)
    }

    /// A folder for files of this host, made if need be; it goes with the host.
    pub fn folder(&self) -> Result<PathBuf> {
        let folder = Path::new(FOLDERS).join(&self.name);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// Packets that a device of this host dropped instead of sending.
    pub fn sending_drops(&self, device: &str) -> Result<u64> {
        // of the thread that reads, so through this host's eyes
        let table =
            self.enter(|| fs::read_to_string("/proc/thread-self/net/dev").context("/proc/net/dev"))?;
        let row = table.lines().find_map(|l| l.trim().strip_prefix(device)?.strip_prefix(':'));
        // eight columns about receiving, then bytes, packets, errors, drops of sending
        row.and_then(|r| r.split_whitespace().nth(11)?.parse().ok())
            .with_context(|| format!("/proc/net/dev of {} says nothing of {device}", self.name))
    }

    /// A command that will run on this host. Not `ip netns exec`, which hides bpffs.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.env("PATH", tools::path());
        command.arg(format!("--net={}", self.path().display())).arg(program);
        command
    }

    /// Runs a command on this host; an error carries what it printed.
    pub fn run(&self, words: &[&str]) -> Result<Output> {
        checked(self.command(words[0]).args(&words[1..]))
    }

    /// Puts the calling thread onto this host for the duration of `f`.
    pub fn enter<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        let home = File::open("/proc/thread-self/ns/net")?;
        let there = File::open(self.path()).with_context(|| self.path().display().to_string())?;
        switch(&there)?;
        let result = f();
        switch(&home)?;
        result
    }
}

fn switch(ns: &File) -> Result<()> {
    // SAFETY: setns() changes the namespace of this thread only; the descriptor is open.
    if unsafe { libc::setns(ns.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
        bail!("entering a network namespace: {} (root is needed)", std::io::Error::last_os_error());
    }
    Ok(())
}

impl Drop for Netns {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Runs a command and turns a failure into an error with its output.
pub fn checked(command: &mut Command) -> Result<Output> {
    let line = format!("{command:?}").replace('"', "");
    let out = command.output().with_context(|| format!("`{line}`: is it installed?"))?;
    if !out.status.success() {
        bail!("`{line}` failed: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(out)
}

/// Kills what runs in the namespace and removes it.
fn remove(name: &str) {
    if let Ok(out) = Command::new("ip").args(["netns", "pids", name]).output() {
        for pid in String::from_utf8_lossy(&out.stdout).lines().filter_map(|l| l.trim().parse().ok()) {
            // SAFETY: signals only processes inside a namespace that we made.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }
    // a failure leaves a namespace for the next run to clean up
    let _ = fs::remove_dir_all(Path::new(FOLDERS).join(name));
    let _ = Command::new("ip").args(["netns", "del", name]).output();
}

/// A process and when it started, in clock ticks after boot: together unique, unlike the number alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    pid: u32,
    started: u64,
}

impl Owner {
    /// Who made the namespace of that name, if it is one of ours.
    fn of(name: &str) -> Option<Owner> {
        let (owner, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
        rest.split_once('-')?.0.parse::<u32>().ok()?;
        let (pid, started) = owner.split_once('.')?;
        Some(Owner { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    fn is_gone(self) -> bool {
        started_at(self.pid) != Some(self.started)
    }
}

/// When a process started, in clock ticks after boot; none if there is no such process.
fn started_at(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
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
fn left_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|e| e.file_name().to_string_lossy().into_owned());
    names.filter(|name| Owner::of(name).is_some_and(Owner::is_gone)).collect()
}

/// Removes namespaces, folders, cgroups and half-made files whose maker is gone; returns how many.
pub fn clean_leftovers() -> usize {
    let mut removed = 0;
    for folder in [RUN, FOLDERS] {
        for name in left_in(Path::new(folder)) {
            remove(&name);
            removed += 1;
        }
    }
    // after the namespaces, with which the processes end that are in them
    let cgroups = cgroup::root();
    for name in cgroups.iter().flat_map(|root| left_in(root)) {
        removed += usize::from(cgroups.iter().all(|root| cgroup::remove(&root.join(&name))));
    }
    let files = files::folder();
    removed + left_in(&files).iter().filter(|name| fs::remove_file(files.join(name)).is_ok()).count()
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
    fn a_number_that_went_to_another_process_is_told_apart() {
        let pid = std::process::id();
        let started = started_at(pid).unwrap();
        assert!(!Owner { pid, started }.is_gone());
        assert!(Owner { pid, started: started - 1 }.is_gone());
    }
}
