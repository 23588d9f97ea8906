//! Connecting to a socket that another user may have made.

use socket2::{Domain, SockAddr, Socket, Type};
use std::{
    io::{self, ErrorKind},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
};

/// Connects at once or not at all: where the listener accepts no connections and its backlog is full, a blocking connect() would wait
/// for as long as the listener's owner likes.
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?).map_err(|why| match why.kind() {
        ErrorKind::WouldBlock => io::Error::new(ErrorKind::WouldBlock, "its listener accepts no connections"),
        _ => why,
    })?;
    socket.set_nonblocking(false)?;
    Ok(OwnedFd::from(socket).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_accepts_nothing_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("port");
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        listener.bind(&SockAddr::unix(&path).expect("a path")).expect("a free path");
        listener.listen(0).expect("a socket");
        let mut waiting = Vec::new();
        let refused = loop {
            match connect(&path) {
                Ok(stream) => waiting.push(stream),
                Err(why) => break why,
            }
        };
        assert!(!waiting.is_empty() && refused.to_string().contains("accepts no connections"), "{refused}");
    }
}
