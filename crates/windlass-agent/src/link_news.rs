//! News of the network interfaces of this namespace, which the kernel reports over netlink. Without them all would have to be listed
//! again and again, to find that nothing has changed.

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;

/// What the kernel reports from when it was subscribed to.
#[derive(Debug)]
pub struct LinkNews(Socket);

impl LinkNews {
    /// Has the kernel report from now on.
    pub fn subscribe() -> io::Result<LinkNews> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, libc::RTMGRP_LINK as u32))?;
        Ok(LinkNews(socket))
    }

    /// Waits until an interface has come, gone or changed, or so many have that the kernel does not report each of them.
    ///
    /// # Errors
    /// Nothing will be reported any more.
    pub fn wait(&self) -> io::Result<()> {
        loop {
            // what has changed is looked up: the rest of the message is dropped
            let why = match self.0.recv(&mut Vec::with_capacity(1), 0) {
                Ok(_) => return Ok(()),
                Err(why) => why,
            };
            match why.raw_os_error() {
                Some(libc::ENOBUFS) => return Ok(()),
                Some(libc::EINTR) => {}
                _ => return Err(why),
            }
        }
    }
}
