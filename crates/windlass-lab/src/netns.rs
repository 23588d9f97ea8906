//! Network namespaces as hosts. Names carry the process that made them, so that what a killed run left behind can be
//! told from what is in use, and nothing else is ever touched.

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

static NEXT_RUN: AtomicU32 = AtomicU32::new(0);

/// A number for one run, unique in this process.
pub fn next_run() -> u32 {
    NEXT_RUN.fetch_add(1, Ordering::Relaxed)
}

/// One host.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes a namespace for host `host` of run `run`, with its loopback up.
    pub fn create(run: u32, host: &str) -> Result<Netns> {
        let ns = Netns { name: format!("{PREFIX}{}-{run}-{host}", std::process::id()) };
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

    /// A command that will run on this host. Not `ip netns exec`, which hides bpffs.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
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
    let _ = Command::new("ip").args(["netns", "del", name]).output();
}

/// The process in a namespace's name, if it is one of ours.
fn owner(name: &str) -> Option<u32> {
    let (pid, rest) = name.strip_prefix(PREFIX)?.split_once('-')?;
    rest.split_once('-')?.0.parse::<u32>().ok()?;
    pid.parse().ok()
}

/// Removes namespaces whose maker is gone; returns how many.
pub fn clean_leftovers() -> usize {
    let Ok(entries) = fs::read_dir(RUN) else { return 0 };
    let mut removed = 0;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner(&name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove(&name);
            removed += 1;
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::owner;

    #[test]
    fn only_our_own_names_have_an_owner() {
        assert_eq!(owner("wl123-0-server"), Some(123));
        assert_eq!(owner("wlan0"), None);
        assert_eq!(owner("wl-1-x"), None);
        assert_eq!(owner("other"), None);
    }
}
