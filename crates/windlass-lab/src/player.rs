//! Plays a flow of several responses against a real server: one connection on which they are requested, or one for each.

mod pages;

use crate::{files, netns::Netns, stop::check_stopped};
use anyhow::{Context, Result, bail};
use socket2::{Domain, Socket, Type};
use std::{
    collections::VecDeque,
    fs::File,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    num::NonZeroU64,
    os::{
        fd::{AsRawFd, RawFd},
        unix::fs::FileExt,
    },
    sync::atomic::AtomicBool,
    time::Instant,
};
use windlass_scenario::{
    Bytes, Connections, Dist, Flow, FlowReport, Response, ResponseTimes, Schedule, Size,
};

const PORT: u16 = 80;
/// How often a silent flow looks whether the run has been stopped.
const LOOK_NS: u64 = 100_000_000;
const READ_BYTES: usize = 1 << 16;
/// A head is not longer than this.
const HEAD_MOST: usize = 4096;
/// No response is longer than this many times its mean: once in 10^17.
const EXPONENTIAL_MOST: f64 = 40.0;

/// What a flow is played with.
#[derive(Clone, Copy, Debug)]
pub struct Stage<'a> {
    /// Where the receiver is.
    pub client: &'a Netns,
    /// Address of the sender.
    pub server: &'a str,
    /// Seed of the scenario.
    pub seed: u64,
    /// Number of the flow.
    pub index: usize,
    /// When the run began.
    pub begin: Instant,
    /// How long it may take.
    pub limit_ns: u64,
    /// In intervals of which length to record what arrives; none: only the sum.
    pub interval_ns: Option<NonZeroU64>,
    /// Set to stop early.
    pub cancel: Option<&'a AtomicBool>,
}

/// A file from which the flow's responses can be cut, made if need be, unless `cancel` is set before.
pub fn file_for(flow: &Flow, cancel: Option<&AtomicBool>) -> Result<String> {
    if flow.is_unlimited() {
        return files::endless();
    }
    let most = flow.trains.iter().map(|train| match &train.size {
        Size::Bytes(dist) => longest_bytes(dist),
        Size::RestOf(total) => total.0,
        Size::Page(page) => longest_bytes(page.each()),
        Size::Unlimited | Size::CdfFile(_) => 0.0,
    });
    files::file_unless((most.fold(1.0, f64::max) as u64).next_power_of_two(), cancel)
}

fn longest_bytes(dist: &Dist<Bytes>) -> f64 {
    dist.most().map_or(dist.mean_if_unbounded().0 * EXPONENTIAL_MOST, |m| m.0)
}

/// A response that was requested.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at_ns: u64,
    size_bytes: Option<u64>,
}

/// A connection to a server.
struct Connection {
    stream: TcpStream,
    asked: VecDeque<Asked>,
    /// What was read of a head.
    head: Vec<u8>,
    /// Payload of the response in hand that has arrived; none: its head is not whole yet.
    arrived: Option<u64>,
}

/// What is known of a flow before it begins.
pub(crate) fn unplayed(flow: &Flow) -> FlowReport {
    FlowReport {
        name: flow.name(),
        class: flow.class.clone(),
        tenant: flow.tenant.clone(),
        started_s: flow.start.0,
        stopped_s: flow.stop.map(|stop| stop.0),
        ..FlowReport::default()
    }
}

/// Plays the flow; errors are in the report. Beside it the payload that arrived in each interval up to the last in which
/// some did.
pub fn play(stage: &Stage, flow: &Flow, file: &str) -> (FlowReport, Vec<u64>) {
    let mut report = FlowReport { checksum_ok: true, ..unplayed(flow) };
    let mut interval_bytes = Vec::new();
    if let Err(error) = Player::play(stage, flow, file, &mut report, &mut interval_bytes) {
        report.error = Some(format!("{error:#}"));
        report.checksum_ok = false;
    }
    report.response_times = ResponseTimes::of(&report.responses);
    (report, interval_bytes)
}

struct Player<'a> {
    stage: &'a Stage<'a>,
    flow: &'a Flow,
    name: &'a str,
    file: File,
    schedule: Schedule,
    connection: Option<Connection>,
    report: &'a mut FlowReport,
    interval_bytes: &'a mut Vec<u64>,
}

impl<'a> Player<'a> {
    fn play(
        stage: &Stage,
        flow: &Flow,
        name: &str,
        report: &mut FlowReport,
        interval_bytes: &mut Vec<u64>,
    ) -> Result<()> {
        let path = files::folder().join(name);
        let file = File::open(&path).with_context(|| path.display().to_string())?;
        let schedule = Schedule::new(stage.seed, stage.index);
        let connection = None;
        let mut player = Player { stage, flow, name, file, schedule, connection, report, interval_bytes };
        player.run()
    }

    fn now_ns(&self) -> u64 {
        self.stage.begin.elapsed().as_nanos() as u64
    }

    fn run(&mut self) -> Result<()> {
        let started_ns = self.now_ns();
        self.schedule.start(self.flow, started_ns);
        let first_due_ns = self.schedule.first_due_ns();
        self.report.first_due_s = first_due_ns.map(|due_ns| due_ns.saturating_sub(started_ns) as f64 / 1e9);
        if self.flow.loads_pages() {
            return self.run_pages(started_ns);
        }
        if self.flow.connections == Connections::Persistent {
            self.connection = self.connect()?;
        }
        let end_ns = self.end_ns();
        loop {
            let now_ns = self.now_ns();
            check_stopped(self.stage.cancel)?;
            if now_ns >= end_ns {
                return self.cut(started_ns, now_ns, end_ns);
            }
            while let Some((at_ns, size_bytes)) = self.schedule.take_due(self.flow, now_ns) {
                self.ask(Asked { at_ns, size_bytes })?;
            }
            let due_ns = self.schedule.due_ns().unwrap_or(u64::MAX).min(end_ns);
            // a negative descriptor is left out: only time passes then
            let fd = self.connection.as_ref().map_or(-1, |c| c.stream.as_raw_fd());
            if !poll(fd, libc::POLLIN, self.look_ns(due_ns)) {
                continue;
            }
            let before_bytes = self.report.bytes;
            let is_over = self.read(started_ns)?;
            self.record(self.report.bytes - before_bytes);
            if is_over {
                self.complete(started_ns);
                return Ok(());
            }
        }
    }

    /// The flow's end has come, or that of the run: which is an error if there was more to come.
    fn cut(&mut self, started_ns: u64, now_ns: u64, end_ns: u64) -> Result<()> {
        if self.flow.stop.is_none_or(|stop| now_ns < stop.ns()) && !self.flow.is_unlimited() {
            bail!("not finished when the run ended; {} bytes arrived", self.report.bytes);
        }
        self.report.is_open_ended = true;
        self.report.is_cut = !self.flow.is_unlimited() && self.schedule.is_behind(end_ns);
        let duration_s = end_ns.saturating_sub(started_ns) as f64 / 1e9;
        self.report.goodput_bps = self.report.bytes as f64 * 8.0 / duration_s.max(1e-9);
        Ok(())
    }

    /// All has arrived.
    fn complete(&mut self, started_ns: u64) {
        let completion_s = self.now_ns().saturating_sub(started_ns) as f64 / 1e9;
        self.report.completion_s = Some(completion_s);
        self.report.goodput_bps = self.report.bytes as f64 * 8.0 / completion_s.max(1e-9);
    }

    /// So much has just arrived.
    fn record(&mut self, bytes: u64) {
        let Some(interval_ns) = self.stage.interval_ns else { return };
        let index = (self.now_ns() / interval_ns) as usize;
        if self.interval_bytes.len() <= index {
            self.interval_bytes.resize(index + 1, 0);
        }
        self.interval_bytes[index] += bytes;
    }

    /// When the flow is stopped, or the run is over.
    fn end_ns(&self) -> u64 {
        self.flow.stop.map_or(u64::MAX, |stop| stop.ns()).min(self.stage.limit_ns)
    }

    fn address(&self) -> Result<SocketAddr> {
        Ok(SocketAddr::new(self.stage.server.parse()?, PORT))
    }

    /// A socket whose SYN has been sent.
    fn begin_connection(&self) -> Result<Socket> {
        let address = self.address()?;
        let begin = || -> Result<Socket> {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
            if let Some(max) = self.flow.receive_window_max {
                bound_window(&socket, max.count()).context("receive_window_max")?;
            }
            socket.set_nonblocking(true)?;
            match socket.connect(&address.into()) {
                Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e).context(address),
                _ => Ok(socket),
            }
        };
        self.stage.client.enter(begin)
    }

    /// None: the flow's end came before.
    fn connect(&self) -> Result<Option<Connection>> {
        let socket = self.begin_connection()?;
        while !poll(socket.as_raw_fd(), libc::POLLOUT, self.look_ns(self.end_ns())) {
            check_stopped(self.stage.cancel)?;
            if self.now_ns() >= self.end_ns() {
                return Ok(None);
            }
        }
        self.connected(socket).map(Some)
    }

    /// The connection of a socket that has one, or has failed to.
    fn connected(&self, socket: Socket) -> Result<Connection> {
        socket.take_error()?.map_or(Ok(()), Err).context(self.address()?)?;
        socket.set_nonblocking(false)?;
        socket.set_tcp_nodelay(true)?;
        let stream = socket.into();
        Ok(Connection { stream, asked: VecDeque::new(), head: Vec::new(), arrived: None })
    }

    fn ask(&mut self, asked: Asked) -> Result<()> {
        if self.connection.is_none() {
            self.connection = self.connect()?;
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        connection.ask(self.name, asked)
    }

    /// How long to wait for what is due then: the run may be stopped meanwhile.
    fn look_ns(&self, due_ns: u64) -> u64 {
        due_ns.saturating_sub(self.now_ns()).min(LOOK_NS)
    }

    /// Reads what is there. Returns whether the last response has arrived.
    fn read(&mut self, started_ns: u64) -> Result<bool> {
        let mut block = vec![0; READ_BYTES];
        let Some(connection) = &mut self.connection else { return Ok(false) };
        let count = match connection.stream.read(&mut block) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(count) => count,
            Err(e) if e.kind() == ErrorKind::Interrupted => return Ok(false),
            Err(e) => return Err(e).context("reading a response"),
        };
        let now_ns = self.stage.begin.elapsed().as_nanos() as u64;
        self.report.first_byte_s.get_or_insert(now_ns.saturating_sub(started_ns) as f64 / 1e9);
        let mut rest = &block[..count];
        while !rest.is_empty() {
            let Some(connection) = &mut self.connection else {
                bail!("the server sent more than was requested")
            };
            let (taken, whole) = connection.take(rest, &self.file, self.report)?;
            rest = &rest[taken..];
            let Some((asked, bytes)) = whole else { continue };
            if self.flow.connections == Connections::PerResponse {
                self.connection = None;
            }
            self.report.responses.push(Response {
                asked_s: asked.at_ns as f64 / 1e9,
                took_s: now_ns.saturating_sub(asked.at_ns) as f64 / 1e9,
                bytes,
            });
            if self.schedule.on_response(self.flow, now_ns) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Waits until that can be done with the descriptor, at most `ns`. Returns whether it can.
fn poll(fd: RawFd, events: libc::c_short, ns: u64) -> bool {
    poll_any(&mut [libc::pollfd { fd, events, revents: 0 }], ns)
}

/// Waits until what is wanted can be done with one of the descriptors, at most `ns`. Returns whether it can.
fn poll_any(fds: &mut [libc::pollfd], ns: u64) -> bool {
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: as many live pollfds and a live timespec; no signal mask.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &time, std::ptr::null()) };
    // a signal is no error: the flow looks around and waits again
    ready > 0
}

/// Has the socket, which is not connected yet, never offer more than that.
fn bound_window(socket: &Socket, max_bytes: u64) -> Result<()> {
    // The kernel doubles what it is given, and once it has seen full segments, offers some five eighths of that.
    let bytes = (max_bytes * 4 / 5) as libc::c_int;
    // SAFETY: a live socket, and an option that is a live int.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(std::io::Error::last_os_error()).context("SO_RCVBUFFORCE");
    }
    Ok(())
}

/// Whether these bytes stand there in the file.
fn is_part(file: &File, bytes: &[u8], at: u64) -> Result<bool> {
    let mut expected = vec![0; bytes.len()];
    file.read_exact_at(&mut expected, at).context("the file that was served")?;
    Ok(expected == bytes)
}

impl Connection {
    /// Requests the beginning of a file.
    fn ask(&mut self, file: &str, asked: Asked) -> Result<()> {
        let range = match asked.size_bytes {
            Some(bytes) => format!("Range: bytes=0-{}\r\n", bytes - 1),
            None => String::new(),
        };
        let request = format!("GET /{file} HTTP/1.1\r\nHost: w\r\n{range}\r\n");
        self.stream.write_all(request.as_bytes()).context("asking for a response")?;
        self.asked.push_back(asked);
        Ok(())
    }

    /// Takes what belongs to the response in hand, compares it with `file`, and counts it. Returns how many bytes that were, and, if
    /// the response is whole now, which it is and its payload.
    fn take(
        &mut self,
        bytes: &[u8],
        file: &File,
        report: &mut FlowReport,
    ) -> Result<(usize, Option<(Asked, u64)>)> {
        let Some(asked) = self.asked.front().copied() else {
            bail!("the server sent what was not requested")
        };
        let Some(before) = self.arrived else {
            let behind = self.take_head(bytes)?.len();
            return Ok((bytes.len() - behind, None));
        };
        let left = asked.size_bytes.map_or(u64::MAX, |bytes| bytes - before);
        let own = &bytes[..left.min(bytes.len() as u64) as usize];
        report.checksum_ok &= asked.size_bytes.is_none() || is_part(file, own, before)?;
        report.bytes += own.len() as u64;
        let arrived = before + own.len() as u64;
        self.arrived = Some(arrived);
        if asked.size_bytes != Some(arrived) {
            return Ok((own.len(), None));
        }
        self.arrived = None;
        self.asked.pop_front();
        Ok((own.len(), Some((asked, arrived))))
    }

    /// Takes what belongs to the head of a response; returns the rest.
    fn take_head<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8]> {
        for (at, byte) in bytes.iter().enumerate() {
            self.head.push(*byte);
            if self.head.ends_with(b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&std::mem::take(&mut self.head)).into_owned();
                let status = head.lines().next().unwrap_or("").to_string();
                if !status.starts_with("HTTP/1.1 20") {
                    bail!("the server said: {status}");
                }
                self.arrived = Some(0);
                return Ok(&bytes[at + 1..]);
            }
        }
        if self.head.len() > HEAD_MOST {
            bail!("the server's head does not end");
        }
        Ok(&[])
    }
}
