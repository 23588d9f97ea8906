//! What can go wrong with a port, and the cure.

use std::{io, path::PathBuf};

/// Errors of ports.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine has no such port.
    #[error(
        "no virtio-serial port '{0}' here; start the VM with `-device virtio-serial -chardev \
         socket,id=wl,path=SOCKET,server=on,wait=off -device virtserialport,chardev=wl,name={0}`, or name the port's \
         path (and is the module virtio_console loaded?)"
    )]
    NoPort(String),
    /// Not something that can be a port.
    #[error(
        "{0} is neither a character device nor a socket; --port takes a port's name, its device, or a socket"
    )]
    NotAPort(PathBuf),
    /// Not a socket.
    #[error(
        "{0} is no socket; give the path of the VM's chardev (`-chardev socket,path=...,server=on,wait=off`)"
    )]
    NotASocket(PathBuf),
    /// Another process has it open.
    #[error("{0} is in use; does another `windlass guest` run here?")]
    Busy(PathBuf),
    /// The system refused.
    #[error("{path}: {why}")]
    Io {
        /// Which port.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The guest's kernel side failed.
    #[error(transparent)]
    Kernel(#[from] windlass_agent::Error),
}

/// Result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;
