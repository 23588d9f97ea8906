//! The box: `windlass attach`, as a user would run it, or an agent, which answers readers.

use crate::netns::Netns;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// `windlass attach` on one host. Dropped, it ends; it also does if this process is killed, as its output is not read then.
#[derive(Debug)]
pub struct BoxProcess {
    child: Child,
    /// Lines that it prints, collected lest a full pipe stop it.
    lines: mpsc::Receiver<String>,
    /// Its standard error, once it has ended.
    said: Option<thread::JoinHandle<String>>,
    /// What it reported when it began to control.
    attached: Value,
    /// Of an agent, which does not report them at its end: what prints its counters, and the interface.
    counters: Option<(Command, String)>,
}

/// How long Windlass may take to load and attach its programs: a kernel in an emulated machine takes tens of seconds for the
/// verifier alone.
const ATTACH_LIMIT: Duration = Duration::from_secs(120);
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
        Self::launch(command)
    }

    /// `windlass agent` with a policy for `iface`; when it controls, `readers` is a link to the socket at which it answers readers.
    pub fn start_agent(
        host: &Netns,
        windlass: &Path,
        iface: &str,
        policy: &Path,
        readers: &Path,
    ) -> Result<BoxProcess> {
        let agent = Self::start_agent_with(host, windlass, iface, policy, &[])?;
        let sockets = host.enter(|| Ok(windlass_agent::reader_sockets()?))?;
        let socket = sockets.first().context("the agent answers no readers")?;
        let new = readers.with_extension("new");
        let _ = fs::remove_file(&new);
        symlink(socket, &new)
            .and_then(|()| fs::rename(&new, readers))
            .context("a link to the agent's socket")?;
        Ok(agent)
    }

    /// `windlass agent` with a policy for `iface`, and with these arguments.
    pub fn start_agent_with(
        host: &Netns,
        windlass: &Path,
        iface: &str,
        policy: &Path,
        args: &[&str],
    ) -> Result<BoxProcess> {
        let program = windlass.to_str().context("the binary's path is no UTF-8")?;
        let mut command = host.command(program);
        command.args(["agent", "--json", "--detach-on-exit", "--policy"]).arg(policy).args(args);
        let mut counters = host.command(program);
        counters.args(["counters", iface, "--json"]);
        let mut agent = Self::launch(command)?;
        agent.counters = Some((counters, iface.to_string()));
        Ok(agent)
    }

    /// `windlass attach --native`: for sockets of this kernel, whatever their network namespace.
    pub fn start_native(windlass: &Path, args: &[&str]) -> Result<BoxProcess> {
        let mut command = Command::new(windlass);
        command.args(["attach", "--native", "--json"]).args(args);
        Self::launch(command)
    }

    fn launch(mut command: Command) -> Result<BoxProcess> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let lines = collect(child.stdout.take().context("piped")?);
        let said = child.stderr.take().map(collect_errors);
        let mut started = BoxProcess { child, lines, said, attached: Value::Null, counters: None };
        // an agent with --metrics reports first where they are
        loop {
            match started.lines.recv_timeout(ATTACH_LIMIT) {
                Ok(line) if line.contains("\"attached\"") => {
                    started.attached = serde_json::from_str(&line).with_context(|| line.clone())?;
                    return Ok(started);
                }
                Ok(line) if line.contains("\"metrics\"") => {}
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    started.child.kill()?;
                    bail!("`windlass` did not attach within {} s", ATTACH_LIMIT.as_secs())
                }
                _ => bail!("`windlass` did not start: {}", started.last_words()),
            }
        }
    }

    /// What it reported when it began to control: event, flows_max, memory_bytes, ...
    pub fn attached(&self) -> &Value {
        &self.attached
    }

    /// Nanoseconds that its programs have run so far, with --stats.
    pub fn run_time_ns(&self) -> Result<u64> {
        let folder = format!("/proc/{}/fdinfo", self.child.id());
        let mut programs = BTreeMap::new();
        for entry in fs::read_dir(&folder).with_context(|| folder.clone())? {
            // a descriptor may be closed meanwhile
            let text = fs::read_to_string(entry?.path()).unwrap_or_default();
            let number =
                |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok());
            if let (Some(id), Some(ns)) = (number("prog_id:"), number("run_time_ns:")) {
                programs.insert(id, ns);
            }
        }
        Ok(programs.values().sum())
    }

    /// Waits for its end; returns its standard error.
    fn last_words(&mut self) -> String {
        self.end();
        self.said.take().and_then(|s| s.join().ok()).unwrap_or_default()
    }

    /// Stops it; returns its counters and samples.
    pub fn finish(mut self) -> Result<(BTreeMap<String, u64>, Vec<Value>)> {
        if let Some((mut command, iface)) = self.counters.take() {
            let printed = command.output().context("`windlass counters`")?.stdout;
            let mut document: Value =
                serde_json::from_slice(&printed).context("what `windlass counters --json` prints")?;
            return Ok((serde_json::from_value(document["counters"][&iface].take())?, Vec::new()));
        }
        let (mut detached, samples) = self.release()?;
        Ok((serde_json::from_value(detached["counters"].take())?, samples))
    }

    /// Stops it; returns what it reports at its end (event, counters, flows, run_times with --stats), and its samples.
    pub fn release(mut self) -> Result<(Value, Vec<Value>)> {
        self.interrupt();
        let mut samples = Vec::new();
        let mut detached = Value::Null;
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
            let value: Value = serde_json::from_str(&line).context("what `windlass attach --json` prints")?;
            match value["event"].as_str() {
                Some("sample") => samples.push(value),
                Some("detached") => detached = value,
                _ => {}
            }
        }
        if detached["counters"].as_object().is_none_or(|c| c.is_empty()) {
            bail!("`windlass attach` ended without its counters: {}", self.last_words());
        }
        Ok((detached, samples))
    }

    /// Has it end, by force if it does not do so in time.
    fn end(&mut self) {
        self.interrupt();
        let until = Instant::now() + DETACH_LIMIT;
        let next = || self.lines.recv_timeout(until.saturating_duration_since(Instant::now()));
        // its output is closed when it ends
        let is_late =
            std::iter::repeat_with(next).find_map(Result::err) == Some(mpsc::RecvTimeoutError::Timeout);
        if is_late {
            let _ = self.child.kill();
        }
        // a process that cannot be killed or waited for has ended
        let _ = self.child.wait();
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
        self.end();
    }
}
