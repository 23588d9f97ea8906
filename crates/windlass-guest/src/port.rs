//! The guest's end of the port: a virtio-serial device, or a socket in its place.

use crate::{Error, connect::connect, error::Result};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd, RawFd},
        unix::fs::{FileTypeExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};
use windlass_agent::Check;

/// Name of the port that the agent looks for.
pub const DEFAULT_NAME: &str = "org.windlass.0";
/// Where udev puts ports by name.
const BY_NAME: &str = "/dev/virtio-ports";
/// Where the kernel lists their names.
const SYSFS: &str = "/sys/class/virtio-ports";

/// The path of a port that was given by name, or by path.
pub fn find(name: &str) -> Result<PathBuf> {
    if name.contains('/') {
        return Ok(name.into());
    }
    let by_name = Path::new(BY_NAME).join(name);
    if by_name.exists() {
        return Ok(by_name);
    }
    ports().find(|(n, _)| n == name).map(|(_, device)| device).ok_or_else(|| Error::NoPort(name.into()))
}

/// Names of the ports that the kernel has, and their devices.
fn ports() -> impl Iterator<Item = (String, PathBuf)> {
    fs::read_dir(SYSFS).into_iter().flatten().flatten().filter_map(|e| {
        let name = fs::read_to_string(e.path().join("name")).ok()?;
        Some((name.trim().to_string(), Path::new("/dev").join(e.file_name())))
    })
}

/// What `windlass doctor` reports of this machine as a guest. A machine without a port is none, which is no fault.
pub fn doctor() -> Check {
    let has_virtio = Path::new(SYSFS).exists();
    let found = match find(DEFAULT_NAME) {
        Ok(path) => {
            let found = format!("port {DEFAULT_NAME} is {}", path.display());
            return Check::is_there("guest", found);
        }
        Err(_) if !has_virtio => {
            "no virtio-serial ports here (module virtio_console): no `windlass guest`".into()
        }
        Err(_) => {
            let others: Vec<String> = ports().map(|(name, _)| name).filter(|n| !n.is_empty()).collect();
            let there = if others.is_empty() { "none".to_string() } else { others.join(", ") };
            format!(
                "no port {DEFAULT_NAME} to a host (ports here: {there}): `windlass guest` takes another by --port"
            )
        }
    };
    Check::not_needed("guest", found)
}

/// The port, open or not. Nothing here ever blocks.
#[derive(Debug)]
pub struct Port {
    path: PathBuf,
    is_socket: bool,
    file: Option<File>,
}

impl Port {
    /// Makes sure that there is something at `path`; a device is opened, a socket has to be there later only.
    pub fn new(path: &Path) -> Result<Port> {
        let io = |why| Error::Io { path: path.into(), why };
        let kind = fs::metadata(path).map_err(io)?.file_type();
        if !kind.is_socket() && !kind.is_char_device() {
            return Err(Error::NotAPort(path.into()));
        }
        let mut port = Port { path: path.into(), is_socket: kind.is_socket(), file: None };
        match port.open() {
            Ok(()) => Ok(port),
            // the listener may be back later
            Err(e)
                if port.is_socket
                    && matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::WouldBlock) =>
            {
                Ok(port)
            }
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => Err(Error::Busy(path.into())),
            Err(e) => Err(io(e)),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open(&mut self) -> io::Result<()> {
        self.file = Some(if self.is_socket {
            let stream = connect(&self.path)?;
            stream.set_nonblocking(true)?;
            File::from(OwnedFd::from(stream))
        } else {
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&self.path)?
        });
        Ok(())
    }

    /// For poll(); none while it is closed.
    pub fn fd(&self) -> Option<RawFd> {
        self.file.as_ref().map(|f| f.as_raw_fd())
    }

    /// Whether a program is at the other end; opens the port again if it can.
    pub fn is_connected(&mut self) -> bool {
        if self.file.is_none() && self.open().is_err() {
            return false;
        }
        let Some(fd) = self.fd() else { return false };
        let mut poll = libc::pollfd { fd, events: 0, revents: 0 };
        // SAFETY: one valid element; returns at once.
        let is_told = unsafe { libc::poll(&mut poll, 1, 0) } == 1;
        !is_told || poll.revents & (libc::POLLHUP | libc::POLLERR) == 0
    }

    /// The other end has gone. A socket must be connected again, a device stays open.
    pub fn close(&mut self) {
        if self.is_socket {
            self.file = None;
        }
    }

    /// Reads what is there into `buffer`; none: nothing now. An error or 0 bytes: the other end has gone.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        or_later(self.file.as_mut().map_or(Ok(0), |f| f.read(buffer)))
    }

    /// Writes what fits now; none: nothing does.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        or_later(self.file.as_mut().map_or(Ok(0), |f| f.write(bytes)))
    }
}

fn or_later(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(n) => Ok(Some(n)),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(e) => Err(e),
    }
}
