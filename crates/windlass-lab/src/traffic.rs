//! Real servers and clients: nginx serves, curl fetches, and what arrives is hashed.

use crate::{cgroup::Cgroup, files, netns::Netns, stop::STOPPED, tools};
use anyhow::{Context, Result, bail, ensure};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    net::TcpStream,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use windlass_agent::raise_limits;

const PORT: u16 = 80;
/// How often a silent transfer looks whether the run has been stopped.
const LOOK_MS: libc::c_int = 100;
const START_LIMIT: Duration = Duration::from_secs(10);

/// What nginx, or the shell that starts it, prints before it serves.
const SAID: &str = "said.log";

/// Longer than any run: no side hangs up on a flow that waits for its next train, or whose path has lost all for minutes.
const PATIENCE: &str = "2d";

/// An nginx of its own on one host.
#[derive(Debug)]
pub struct Server {
    child: Child,
    prefix: PathBuf,
}

/// Connections that one worker carries: descriptors for a file beside each fit the usual hard limit.
const CONNECTIONS_OF_WORKER: usize = 8192;
/// Of each worker, for its listeners, logs and channels, some of which count as connections as well.
const OWN_DESCRIPTORS: usize = 64;

fn config(prefix: &Path, root: &Path, connections: usize) -> String {
    let prefix = prefix.display();
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {prefix}/{kind};"))
        .join(" ");
    let workers = connections.div_ceil(CONNECTIONS_OF_WORKER);
    // chance spreads connections over workers, so each has room for more than its share
    let room = 2 * connections.div_ceil(workers) + OWN_DESCRIPTORS;
    let descriptors = 2 * room;
    let backlog = connections.max(4096);
    format!(
        "daemon off; worker_processes {workers}; worker_rlimit_nofile {descriptors}; pid {prefix}/pid; error_log {prefix}/error.log;\n\
         events {{ worker_connections {room}; }}\n\
         http {{ access_log off; sendfile on; keepalive_timeout {PATIENCE}; client_header_timeout {PATIENCE};\n\
         send_timeout {PATIENCE}; keepalive_requests 4294967295; {temp}\n\
         server {{ listen {PORT} reuseport backlog={backlog}; listen [::]:{PORT} reuseport backlog={backlog};\n\
         root {root}; }} }}\n",
        root = root.display()
    )
}

impl Server {
    /// Starts it; returns when it accepts connections. `connections`: how many it will have at once.
    pub fn start(host: &Netns, connections: usize) -> Result<Server> {
        Self::start_in(host, connections, None)
    }

    /// The same, in that cgroup if one is given.
    pub fn start_in(host: &Netns, connections: usize, cgroup: Option<&Cgroup>) -> Result<Server> {
        tools::check("nginx", "nginx-light")?;
        let prefix = host.folder()?;
        let file = prefix.join("nginx.conf");
        fs::write(&file, config(&prefix, &files::made_folder()?, connections))?;
        // sockets are of the cgroup in which they are made: it has to be in it before it listens
        let script =
            "[ -z \"$2\" ] || echo $$ > \"$2\"/cgroup.procs || exit 1; exec nginx -c \"$0\" -p \"$1\"";
        let mut command = host.command("sh");
        command.args(["-c", script]).arg(&file).arg(&prefix);
        command.arg(cgroup.map_or(Path::new(""), Cgroup::path));
        let said = prefix.join(SAID);
        let said = File::create(&said).with_context(|| said.display().to_string())?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn()?;
        let mut server = Server { child, prefix };
        server.wait_until_it_listens(host)?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self, host: &Netns) -> Result<()> {
        let end = Instant::now() + START_LIMIT;
        host.enter(|| {
            while TcpStream::connect(("127.0.0.1", PORT)).is_err() {
                if let Some(status) = self.child.try_wait()? {
                    let said = fs::read_to_string(self.prefix.join(SAID)).unwrap_or_default();
                    bail!("nginx ended with {status}: {}", said.trim());
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

/// What curl reports of one fetch.
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

/// What a crowd of clients requests: each keeps one connection and fetches a file again and again.
#[derive(Clone, Copy, Debug)]
pub struct CrowdLoad {
    /// Connections; more than 0.
    pub clients: usize,
    /// Requests a second of all together, at all times from the first connection on. In steps of 100.
    pub requests_ps: usize,
    /// For so long at least all connections are open.
    pub seconds: f64,
}

impl CrowdLoad {
    /// Between two requests of a client. Clients begin one after the other, so that it also passes until all are there.
    pub fn period_s(&self) -> f64 {
        self.clients as f64 / self.requests_ps as f64
    }

    /// Requests of each client. The first one to come is the first one to go, and stays until the time is over.
    fn requests(&self) -> usize {
        2 + (self.seconds / self.period_s()).ceil() as usize
    }
}

/// Many clients, as h2load makes them.
#[derive(Debug)]
pub struct Crowd {
    children: Vec<Child>,
}

/// What a crowd got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CrowdResult {
    /// Requests answered in full.
    pub succeeded: u64,
    /// Requests that failed.
    pub failed: u64,
}

/// Clients of one h2load: each needs a descriptor.
const CLIENTS_OF_PROCESS: usize = 10_000;
/// Clients are let in in steps of so long.
const STEP_MS: usize = 10;

impl Crowd {
    /// Starts a crowd that requests `file` from `server`.
    pub fn start(host: &Netns, server: &str, file: &str, load: &CrowdLoad) -> Result<Crowd> {
        tools::check("h2load", "nghttp2-client")?;
        // which it inherits
        raise_limits();
        let processes = load.clients.div_ceil(CLIENTS_OF_PROCESS);
        let mut crowd = Crowd { children: Vec::new() };
        for index in 0..processes {
            let own = load.clients * (index + 1) / processes - load.clients * index / processes;
            let child = host
                .command("h2load")
                .args(["--h1", "-t", "1", "-c", &own.to_string()])
                .args(["-n", &(own * load.requests()).to_string()])
                .args(["-r", &(load.requests_ps * STEP_MS / 1000).to_string()])
                .arg(format!("--rate-period={}ms", STEP_MS * processes))
                .arg(format!("--rps={}", 1.0 / load.period_s()))
                .arg(format!("http://{server}/{file}"))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .context("h2load")?;
            crowd.children.push(child);
        }
        Ok(crowd)
    }

    /// Waits for all and adds up what they report.
    pub fn finish(mut self) -> Result<CrowdResult> {
        let mut sum = CrowdResult::default();
        for child in &mut self.children {
            let mut said = String::new();
            if let Some(out) = child.stdout.as_mut() {
                out.read_to_string(&mut said)?;
            }
            child.wait()?;
            let one = crowd_result(&said).with_context(|| format!("h2load printed: {}", said.trim()))?;
            sum.succeeded += one.succeeded;
            sum.failed += one.failed;
        }
        Ok(sum)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &mut self.children {
            // after wait() these do nothing
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Reads h2load's line "requests: 9 total, 9 started, 9 done, 8 succeeded, 1 failed, ...".
fn crowd_result(said: &str) -> Option<CrowdResult> {
    let line = said.lines().find_map(|l| l.strip_prefix("requests: "))?;
    let number = |what: &str| {
        line.split(", ").find_map(|part| part.strip_suffix(what)).and_then(|n| n.trim().parse().ok())
    };
    Some(CrowdResult { succeeded: number(" succeeded")?, failed: number(" failed")? })
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
        // also where there is always something to read
        while self.cancel.is_none_or(|c| !c.load(Ordering::Relaxed)) {
            // SAFETY: one live pollfd.
            if unsafe { libc::poll(&mut fd, 1, LOOK_MS) } > 0 {
                return self.pipe.read(block);
            }
        }
        Err(io::Error::other(STOPPED))
    }
}

/// A time in curl's words, in which 0 is for ever.
fn max_time(limit: Duration) -> String {
    format!("{:.3}", limit.as_secs_f64().max(0.001))
}

impl Client {
    /// Starts fetching `file` from `server` (an address) onto `host`.
    pub fn start(host: &Netns, server: &str, file: &str, limit: Duration) -> Result<Client> {
        tools::check("curl", "curl")?;
        let server = if server.contains(':') { format!("[{server}]") } else { server.to_string() };
        let child = host
            .command("curl")
            // neither a ~/.curlrc nor a proxy of the environment is about the hosts of a testbed
            .args(["-q", "--noproxy", "*"])
            .args(["-sS", "--fail", "-o", "-", "--max-time", &max_time(limit)])
            .args(["-w", "%{stderr}%{time_total} %{time_starttransfer}\n"])
            .arg(format!("http://{server}/{file}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
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
            .context("curl did not report how long it took")?;
        let seconds = |text: &str| text.trim().parse().with_context(|| format!("curl printed '{text}'"));
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
    file: PathBuf,
}

impl Capture {
    /// Starts tcpdump; returns when it listens. `snap_bytes`: how much of each packet to keep.
    pub fn start(host: &Netns, iface: &str, file: &Path, snap_bytes: u32) -> Result<Capture> {
        tools::check("tcpdump", "tcpdump")?;
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
            .context("tcpdump")?;
        // it reports so when it listens
        let mut said = Vec::new();
        let mut byte = [0];
        if let Some(stderr) = child.stderr.as_mut() {
            while !String::from_utf8_lossy(&said).contains("listening on") && stderr.read(&mut byte)? == 1 {
                said.push(byte[0]);
            }
        }
        let said = String::from_utf8_lossy(&said);
        if !said.contains("listening on") {
            child.wait()?;
            bail!("{}: tcpdump printed: {}", file.display(), said.trim());
        }
        Ok(Capture { child, file: file.into() })
    }

    /// Ends it.
    ///
    /// # Errors
    /// Packets are missing in the file.
    pub fn finish(mut self) -> Result<()> {
        self.interrupt();
        let mut said = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut said)?;
        }
        let place = self.file.display();
        let drops =
            kernel_drops(&said).with_context(|| format!("{place}: tcpdump printed: {}", said.trim()))?;
        ensure!(
            drops == 0,
            "{place}: {drops} packets are missing, which the kernel dropped before tcpdump wrote them: run it again with less \
             load on this machine"
        );
        Ok(())
    }

    fn interrupt(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // SAFETY: our own child, not yet waited for.
            unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.interrupt();
        let _ = self.child.wait();
    }
}

/// Reads tcpdump's line "0 packets dropped by kernel".
fn kernel_drops(said: &str) -> Option<u64> {
    said.lines()
        .find_map(|l| l.split_once(" packet")?.0.parse().ok().filter(|_| l.ends_with(" dropped by kernel")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_may_have_a_file_open_for_each_connection() {
        let number = |connections: usize, key: &str| -> usize {
            let config = config(Path::new("/p"), Path::new("/r"), connections);
            let (_, rest) = config.split_once(&format!("{key} ")).expect(key);
            rest.split(';').next().and_then(|n| n.parse().ok()).expect(key)
        };
        for connections in [1, 64, 10_000, 100_000] {
            let (workers, room) =
                (number(connections, "worker_processes"), number(connections, "worker_connections"));
            assert!(workers * (room - OWN_DESCRIPTORS) >= 2 * connections, "{connections}");
            assert!(number(connections, "worker_rlimit_nofile") >= 2 * room, "{connections}");
        }
    }

    #[test]
    fn a_crowd_is_complete_for_as_long_as_was_requested() {
        let load = CrowdLoad { clients: 5000, requests_ps: 1000, seconds: 12.0 };
        assert_eq!(load.period_s(), 5.0);
        // complete from 5 s on, when the first client has sent two requests, until it sends its fifth at 20 s
        assert_eq!(load.requests(), 5);
    }

    #[test]
    fn a_transfer_that_never_pauses_is_stopped_too() {
        let mut endless = Command::new("yes").stdout(Stdio::piped()).spawn().unwrap();
        let cancel = AtomicBool::new(false);
        let mut body = Body { pipe: endless.stdout.take().unwrap(), cancel: Some(&cancel) };
        let mut block = [0; 64];
        assert!(body.read(&mut block).unwrap() > 0);
        cancel.store(true, Ordering::Relaxed);
        assert_eq!(body.read(&mut block).unwrap_err().to_string(), STOPPED);
        drop(body);
        endless.wait().unwrap();
    }

    #[test]
    fn the_words_of_tcpdump_are_understood() {
        let said = "\n7 packets captured\n9 packets received by filter\n2 packets dropped by kernel\n";
        assert_eq!(kernel_drops(said), Some(2));
        assert_eq!(kernel_drops("1 packet captured\n1 packet dropped by kernel\n"), Some(1));
        assert_eq!(kernel_drops("tcpdump: killed"), None);
    }

    #[test]
    fn the_words_of_h2load_are_understood() {
        let said =
            "finished in 1.0s\nrequests: 9 total, 9 started, 9 done, 8 succeeded, 1 failed, 0 errored\n";
        assert_eq!(crowd_result(said), Some(CrowdResult { succeeded: 8, failed: 1 }));
        assert_eq!(crowd_result("cannot connect"), None);
    }
}
