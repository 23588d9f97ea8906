//! Flows that load pages, one at a time: each on connections of its own, which request its objects as they become idle
//! (`windlass_scenario::Page`).

use super::{Asked, Connection, Player, READ_BYTES, poll_any};
use crate::stop::check_stopped;
use anyhow::{Context, Result, bail};
use socket2::Socket;
use std::{
    collections::VecDeque,
    io::{ErrorKind, Read},
    os::fd::AsRawFd,
};
use windlass_scenario::{DuePage, PageLoad};

/// A page that is being loaded.
struct Loading {
    due_ns: u64,
    /// Objects that none of its connections has requested yet.
    left: VecDeque<u64>,
    /// Those that are on their way.
    waiting: u32,
    objects: u32,
    bytes: u64,
    ends: Vec<End>,
}

/// One of a page's connections.
enum End {
    Connecting(Socket),
    Open(Connection),
    Closed,
}

impl End {
    /// What to wait for; nothing of one that is closed.
    fn pollfd(&self) -> libc::pollfd {
        let (fd, events) = match self {
            End::Connecting(socket) => (socket.as_raw_fd(), libc::POLLOUT),
            End::Open(connection) => (connection.stream.as_raw_fd(), libc::POLLIN),
            // a negative descriptor is left out
            End::Closed => (-1, 0),
        };
        libc::pollfd { fd, events, revents: 0 }
    }
}

impl Player<'_> {
    /// Loads the flow's pages.
    pub(super) fn run_pages(&mut self, started_ns: u64) -> Result<()> {
        let end_ns = self.end_ns();
        let mut page: Option<Loading> = None;
        loop {
            let now_ns = self.now_ns();
            check_stopped(self.stage.cancel)?;
            if now_ns >= end_ns {
                return self.cut(started_ns, now_ns, end_ns);
            }
            if page.is_none()
                && let Some(due) = self.schedule.take_due_page(self.flow, now_ns)
            {
                page = Some(self.begin(due)?);
            }
            let due_ns = self.schedule.due_ns().unwrap_or(u64::MAX).min(end_ns);
            let mut fds: Vec<libc::pollfd> =
                page.iter().flat_map(|page| &page.ends).map(End::pollfd).collect();
            poll_any(&mut fds, self.look_ns(due_ns));
            let Some(loading) = &mut page else { continue };
            let before_bytes = self.report.bytes;
            for (end, _) in loading.ends.iter_mut().zip(&fds).filter(|(_, fd)| fd.revents != 0) {
                let ready = std::mem::replace(end, End::Closed);
                *end = self.attend(ready, (&mut loading.left, &mut loading.waiting), started_ns)?;
            }
            self.record(self.report.bytes - before_bytes);
            if !loading.left.is_empty() || loading.waiting > 0 {
                continue;
            }
            let now_ns = self.now_ns();
            let loaded = PageLoad {
                begun_s: loading.due_ns as f64 / 1e9,
                load_s: now_ns.saturating_sub(loading.due_ns) as f64 / 1e9,
                objects: loading.objects,
                bytes: loading.bytes,
            };
            page = None;
            self.report.pages.push(loaded);
            self.report.responses.push(loaded.into());
            if self.schedule.on_response(self.flow, now_ns) {
                self.complete(started_ns);
                return Ok(());
            }
        }
    }

    /// All connections of a page begin.
    fn begin(&self, due: DuePage) -> Result<Loading> {
        let DuePage { due_ns, objects, connections } = due;
        let count = objects.len() as u32;
        let ends = (0..count.min(connections)).map(|_| self.begin_connection().map(End::Connecting));
        Ok(Loading {
            due_ns,
            objects: count,
            bytes: objects.iter().sum(),
            ends: ends.collect::<Result<_>>()?,
            left: objects.into(),
            waiting: 0,
        })
    }

    /// One of a page's connections has come to be, or carries something. `left`, `waiting`: the page's objects.
    fn attend(
        &mut self,
        end: End,
        (left, waiting): (&mut VecDeque<u64>, &mut u32),
        started_ns: u64,
    ) -> Result<End> {
        let mut connection = match end {
            End::Closed => return Ok(End::Closed),
            End::Connecting(socket) => self.connected(socket)?,
            End::Open(mut connection) => {
                if !self.read_object(&mut connection, started_ns)? {
                    return Ok(End::Open(connection));
                }
                *waiting -= 1;
                connection
            }
        };
        let Some(bytes) = left.pop_front() else { return Ok(End::Closed) };
        *waiting += 1;
        connection.ask(self.name, Asked { at_ns: self.now_ns(), size_bytes: Some(bytes) })?;
        Ok(End::Open(connection))
    }

    /// Reads what is there. Returns whether the object has arrived.
    fn read_object(&mut self, connection: &mut Connection, started_ns: u64) -> Result<bool> {
        let mut block = vec![0; READ_BYTES];
        let count = match connection.stream.read(&mut block) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(count) => count,
            Err(e) if e.kind() == ErrorKind::Interrupted => return Ok(false),
            Err(e) => return Err(e).context("reading an object"),
        };
        let first_byte_s = self.now_ns().saturating_sub(started_ns) as f64 / 1e9;
        self.report.first_byte_s.get_or_insert(first_byte_s);
        let mut rest = &block[..count];
        let mut is_whole = false;
        while !rest.is_empty() {
            let (taken, whole) = connection.take(rest, &self.file, self.report)?;
            rest = &rest[taken..];
            is_whole |= whole.is_some();
        }
        Ok(is_whole)
    }
}
