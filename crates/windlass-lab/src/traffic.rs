//! Real servers and clients: nginx serves, curl fetches, and what arrives is hashed.

use crate::{files, netns::Netns};
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    net::TcpStream,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

const PORT: u16 = 80;
/// How often a silent transfer looks whether the run has been stopped.
const LOOK_MS: libc::c_int = 100;
const START_LIMIT: Duration = Duration::from_secs(10);

/// An nginx of its own on one host.
#[derive(Debug)]
pub struct Server {
    child: Child,
    prefix: PathBuf,
}

fn config(prefix: &Path, root: &Path) -> String {
    let prefix = prefix.display();
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {prefix}/{kind};"))
        .join(" ");
    format!(
        "daemon off; worker_processes 1; pid {prefix}/pid; error_log {prefix}/error.log;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; sendfile on; {temp}\n\
         server {{ listen {PORT} backlog=4096; listen [::]:{PORT} backlog=4096; root {root}; }} }}\n",
        root = root.display()
    )
}

impl Server {
    /// Starts it; returns when it accepts connections.
    pub fn start(host: &Netns) -> Result<Server> {
        let prefix = host.folder()?;
        let file = prefix.join("nginx.conf");
        fs::create_dir_all(files::folder()).with_context(|| files::folder().display().to_string())?;
        fs::write(&file, config(&prefix, &files::folder()))?;
        let child = host
            .command("nginx")
            .arg("-c")
            .arg(&file)
            .arg("-p")
            .arg(&prefix)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("nginx (Debian: apt-get install nginx-light)")?;
        let mut server = Server { child, prefix };
        server.wait_until_it_listens(host)?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self, host: &Netns) -> Result<()> {
        let end = Instant::now() + START_LIMIT;
        host.enter(|| {
            while TcpStream::connect(("127.0.0.1", PORT)).is_err() {
                if let Some(status) = self.child.try_wait()? {
                    let log = fs::read_to_string(self.prefix.join("error.log")).unwrap_or_default();
                    bail!("nginx ended with {status}: {}", log.trim());
                }
                if Instant::now() > end {
                    bail!("nginx does not listen after {} s", START_LIMIT.as_secs());
                }
                std::thread::yield_now();
            }
            Ok(())
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

/// What curl says of one fetch.
#[derive(Clone, Debug, Default)]
pub struct Fetch {
    /// From connect() to the last byte.
    pub completion_s: f64,
    /// From connect() to the first byte.
    pub first_byte_s: f64,
    /// Bytes that arrived.
    pub bytes: u64,
    /// SHA-256 of what arrived.
    pub sha256: String,
}

/// A running fetch. Dropped, it ends.
#[derive(Debug)]
pub struct Client {
    child: Child,
}

/// curl's output, until it ends or the run is stopped.
struct Body<'a> {
    pipe: ChildStdout,
    cancel: Option<&'a AtomicBool>,
}

impl Read for Body<'_> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let mut fd = libc::pollfd { fd: self.pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd.
        while unsafe { libc::poll(&mut fd, 1, LOOK_MS) } <= 0 {
            if self.cancel.is_some_and(|c| c.load(Ordering::Relaxed)) {
                return Err(io::Error::other("stopped"));
            }
        }
        self.pipe.read(block)
    }
}

impl Client {
    /// Starts fetching `file` from `server` (an address) onto `host`.
    pub fn start(host: &Netns, server: &str, file: &str, limit: Duration) -> Result<Client> {
        let server = if server.contains(':') { format!("[{server}]") } else { server.to_string() };
        let child = host
            .command("curl")
            .args(["-sS", "--fail", "-o", "-", "--max-time", &limit.as_secs().max(1).to_string()])
            .args(["-w", "%{stderr}%{time_total} %{time_starttransfer}\n"])
            .arg(format!("http://{server}/{file}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("curl (Debian: apt-get install curl)")?;
        Ok(Client { child })
    }

    /// Waits for the end and hashes what comes; gives up soon after `cancel` is set.
    pub fn finish(mut self, cancel: Option<&AtomicBool>) -> Result<Fetch> {
        let pipe = self.child.stdout.take().context("curl's output is piped")?;
        let (sha256, bytes) = files::digest(Body { pipe, cancel })?;
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut said)?;
        }
        let status = self.child.wait()?;
        if !status.success() {
            bail!("curl ended with {status}: {}", said.lines().next().unwrap_or("").trim());
        }
        let (total, first) = said
            .lines()
            .last()
            .and_then(|l| l.split_once(' '))
            .context("curl did not say how long it took")?;
        let seconds = |text: &str| text.trim().parse().with_context(|| format!("curl said '{text}'"));
        Ok(Fetch { completion_s: seconds(total)?, first_byte_s: seconds(first)?, bytes, sha256 })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // after wait() these do nothing
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// TCP counters of a host by name, e.g. RetransSegs, TCPTimeouts, TCPLossProbes.
pub fn tcp_counters(host: &Netns) -> Result<BTreeMap<String, u64>> {
    let mut counters = BTreeMap::new();
    for file in ["/proc/net/snmp", "/proc/net/netstat"] {
        // of the thread that reads, so through the host's own eyes
        let text = host.enter(|| Ok(fs::read_to_string(file.replace("/proc/", "/proc/thread-self/"))?))?;
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks(2) {
            let [names, values] = pair else { continue };
            if !(names.starts_with("Tcp:") || names.starts_with("TcpExt:")) {
                continue;
            }
            // some are negative (MaxConn); those are no counters
            let values = values.split_whitespace().skip(1).map(|v| v.parse().unwrap_or(0));
            counters.extend(names.split_whitespace().skip(1).map(String::from).zip(values));
        }
    }
    Ok(counters)
}

/// A packet capture on one interface; ends when dropped.
#[derive(Debug)]
pub struct Capture {
    child: Child,
}

impl Capture {
    /// Starts tcpdump; returns when it listens. `snap_bytes`: how much of each packet to keep.
    pub fn start(host: &Netns, iface: &str, file: &Path, snap_bytes: u32) -> Result<Capture> {
        let mut command: Command = host.command("tcpdump");
        command.args([
            "-i",
            iface,
            "-U",
            // or what stands in an unfinished block of the ring is lost at the end
            "--immediate-mode",
            "-B",
            "65536",
            "-s",
            &snap_bytes.to_string(),
            "--time-stamp-precision=nano",
        ]);
        command.arg("-w").arg(file).arg("tcp");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("tcpdump (Debian: apt-get install tcpdump)")?;
        // it says so when it listens
        let mut said = Vec::new();
        let mut byte = [0];
        if let Some(stderr) = child.stderr.as_mut() {
            while !String::from_utf8_lossy(&said).contains("listening on") && stderr.read(&mut byte)? == 1 {
                said.push(byte[0]);
            }
        }
        Ok(Capture { child })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // SAFETY: our own child, not yet waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        let _ = self.child.wait();
    }
}
