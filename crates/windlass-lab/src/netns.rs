//! Network namespaces as hosts.

pub use crate::owner::next_run;
use crate::{owner::name_of, tools};
use anyhow::{Context, Result, bail};
use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Command, Output},
};

pub(crate) const RUN: &str = "/run/netns";
/// Holds a folder for each host that needs files: the configuration and logs of its server.
pub(crate) const FOLDERS: &str = "/run/windlass-lab";

/// Whether this process is root's.
pub fn is_root() -> bool {
    // SAFETY: plain call without arguments.
    unsafe { libc::geteuid() == 0 }
}

/// Refuses a process that may not make hosts.
pub fn check_root() -> Result<()> {
    if !is_root() {
        bail!("the testbed makes network namespaces and needs root; run it with sudo");
    }
    Ok(())
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
        let ns = Netns { name: name_of(run, host)? };
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
pub(crate) fn remove(name: &str) {
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
