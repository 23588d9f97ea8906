//! The box: `windlass attach`, as a user would run it.

use crate::netns::Netns;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

/// `windlass attach` on one host. Dropped, it ends.
#[derive(Debug)]
pub struct BoxProcess {
    child: Child,
    /// Lines that it prints, collected lest a full pipe stop it.
    lines: mpsc::Receiver<String>,
    /// What it says on standard error, once it has ended.
    said: Option<thread::JoinHandle<String>>,
}

/// How long Windlass may take to load and attach its programs.
const ATTACH_LIMIT: Duration = Duration::from_secs(30);
/// ... and to hand its flows back.
const DETACH_LIMIT: Duration = Duration::from_secs(30);

fn collect(stdout: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        BufReader::new(stdout).lines().map_while(|l| l.ok()).try_for_each(|line| sender.send(line))
    });
    receiver
}

fn collect_errors(mut stderr: ChildStderr) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut said = Vec::new();
        // what could be read until it ended is all there is to show
        let _ = stderr.read_to_end(&mut said);
        String::from_utf8_lossy(&said).trim().to_string()
    })
}

impl BoxProcess {
    /// Starts it on `iface` of `host`; returns when it controls. `args`: more arguments for `windlass attach`.
    pub fn start(host: &Netns, windlass: &Path, iface: &str, args: &[String]) -> Result<BoxProcess> {
        let program = windlass.to_str().context("the binary's path is no UTF-8")?;
        let mut command = host.command(program);
        command.args(["attach", iface, "--json"]).args(args);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let lines = collect(child.stdout.take().context("piped")?);
        let said = child.stderr.take().map(collect_errors);
        let mut started = BoxProcess { child, lines, said };
        match started.lines.recv_timeout(ATTACH_LIMIT) {
            Ok(line) if line.contains("\"attached\"") => Ok(started),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                started.child.kill()?;
                bail!("`windlass attach {iface}` did not attach within {} s", ATTACH_LIMIT.as_secs())
            }
            _ => bail!("`windlass attach {iface}` did not start: {}", started.last_words()),
        }
    }

    /// Waits for its end; returns what it said on standard error.
    fn last_words(&mut self) -> String {
        self.interrupt();
        // a process that cannot be waited for has ended
        let _ = self.child.wait();
        self.said.take().and_then(|s| s.join().ok()).unwrap_or_default()
    }

    /// Stops it; returns its counters and samples.
    pub fn finish(mut self) -> Result<(BTreeMap<String, u64>, Vec<Value>)> {
        self.interrupt();
        let mut samples = Vec::new();
        let mut counters = BTreeMap::new();
        loop {
            let line = match self.lines.recv_timeout(DETACH_LIMIT) {
                Ok(line) => line,
                // it closed its output
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.child.kill()?;
                    bail!("`windlass attach` did not end within {} s of SIGINT", DETACH_LIMIT.as_secs());
                }
            };
            let mut value: Value =
                serde_json::from_str(&line).context("what `windlass attach --json` prints")?;
            match value["event"].as_str() {
                Some("sample") => samples.push(value),
                Some("detached") => counters = serde_json::from_value(value["counters"].take())?,
                _ => {}
            }
        }
        if counters.is_empty() {
            bail!("`windlass attach` ended without its counters: {}", self.last_words());
        }
        Ok((counters, samples))
    }

    fn interrupt(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // SAFETY: our own child, not yet waited for.
            unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        }
    }
}

impl Drop for BoxProcess {
    fn drop(&mut self) {
        self.interrupt();
        let _ = self.child.wait();
    }
}
