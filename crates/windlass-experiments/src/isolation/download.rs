//! A download that is compared with what is served, for a given time.

use anyhow::{Context, Result, ensure};
use socket2::{Domain, Socket, Type};
use std::{
    fs::File,
    io::{ErrorKind, Read, Write},
    net::{SocketAddrV4, TcpStream},
    os::unix::fs::FileExt,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use windlass_lab::netns::Netns;

const BLOCK_BYTES: usize = 1 << 16;
/// A response's head is not longer.
const HEAD_MOST_BYTES: usize = 4096;
/// How often a silent connection looks at the clock.
const LOOK: Duration = Duration::from_millis(50);

/// What arrived of a download.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Downloaded {
    /// Payload.
    pub bytes: u64,
    /// Whether all of it is what the server has.
    pub is_intact: bool,
    /// From connect() to the end of the time, or of the file.
    pub seconds: f64,
}

impl Downloaded {
    /// Payload a second, in Mbit/s.
    pub fn mbps(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.seconds.max(1e-9)
    }
}

/// What to download, and whereby.
pub struct Download<'a> {
    /// The client's host.
    pub client: &'a Netns,
    /// Its own address and port.
    pub from: SocketAddrV4,
    /// The server.
    pub server: SocketAddrV4,
    /// Name of the file that it serves.
    pub name: &'a str,
    /// The same file.
    pub file: &'a File,
    /// After so long it ends.
    pub time: Duration,
    /// Set to stop earlier.
    pub cancel: &'a AtomicBool,
}

impl Download<'_> {
    /// Downloads it. A server that does not answer, or resets the connection, has delivered little, which is no error.
    pub fn run(&self) -> Result<Downloaded> {
        let began = Instant::now();
        let mut downloaded = Downloaded { is_intact: true, ..Downloaded::default() };
        if let Some(mut stream) = self.connect()? {
            stream.set_read_timeout(Some(LOOK))?;
            let request = format!("GET /{} HTTP/1.1\r\nHost: server\r\n\r\n", self.name);
            stream.write_all(request.as_bytes())?;
            self.read(&mut stream, began + self.time, &mut downloaded)?;
        }
        downloaded.seconds = began.elapsed().as_secs_f64();
        Ok(downloaded)
    }

    /// None: the server has not answered in time.
    fn connect(&self) -> Result<Option<TcpStream>> {
        let socket = self.client.enter(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.bind(&self.from.into()).with_context(|| self.from.to_string())?;
            Ok(socket)
        })?;
        match socket.connect_timeout(&self.server.into(), self.time) {
            Ok(()) => Ok(Some(socket.into())),
            Err(why) if is_no_answer(why.kind()) => Ok(None),
            Err(why) => Err(why).with_context(|| format!("connecting to {}", self.server)),
        }
    }

    fn read(&self, stream: &mut impl Read, end: Instant, downloaded: &mut Downloaded) -> Result<()> {
        let (mut block, mut expected) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
        let mut head = Some(Vec::new());
        while Instant::now() < end && !self.cancel.load(Ordering::Relaxed) {
            let count = match stream.read(&mut block) {
                Ok(0) => break,
                Ok(count) => count,
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
                Err(why) if is_no_answer(why.kind()) => break,
                Err(why) => return Err(why).context("reading a download"),
            };
            let Some(body) = body(&mut head, &block[..count])? else { continue };
            let expected = &mut expected[..body.len()];
            // more than the file has is not what the server has, either
            let is_within = self.file.read_exact_at(expected, downloaded.bytes).is_ok();
            downloaded.is_intact &= is_within && expected == body;
            downloaded.bytes += body.len() as u64;
        }
        Ok(())
    }
}

fn is_no_answer(kind: ErrorKind) -> bool {
    use ErrorKind::*;
    matches!(
        kind,
        TimedOut | ConnectionReset | ConnectionRefused | HostUnreachable | NetworkUnreachable | BrokenPipe
    )
}

/// The part of a block that belongs to the body; none: the head is not complete. `head`: what came of it; none: it is complete.
fn body(head: &mut Option<Vec<u8>>, block: &[u8]) -> Result<Option<Vec<u8>>> {
    let Some(begun) = head else { return Ok(Some(block.to_vec())) };
    begun.extend_from_slice(block);
    let Some(end) = begun.windows(4).position(|four| four == b"\r\n\r\n") else {
        ensure!(begun.len() <= HEAD_MOST_BYTES, "a response's head does not end");
        return Ok(None);
    };
    ensure!(begun.starts_with(b"HTTP/1.1 200 "), "the server refused the file");
    let body = begun.split_off(end + 4);
    *head = None;
    Ok(Some(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_may_come_in_parts() {
        let mut head = Some(Vec::new());
        assert_eq!(body(&mut head, b"HTTP/1.1 200 OK\r\nA: b\r\n\r").unwrap(), None);
        assert_eq!(body(&mut head, b"\nab").unwrap().unwrap(), b"ab");
        assert_eq!(body(&mut head, b"\r\n\r\n").unwrap().unwrap(), b"\r\n\r\n");
        assert!(body(&mut Some(Vec::new()), b"HTTP/1.1 404 Not Found\r\n\r\n").is_err());
    }

    #[test]
    fn a_rate_is_of_the_whole_time() {
        let downloaded = Downloaded { bytes: 2_000_000, is_intact: true, seconds: 4.0 };
        assert_eq!(downloaded.mbps(), 4.0);
    }
}
