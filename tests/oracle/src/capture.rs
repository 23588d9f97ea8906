//! What the datapath itself sends, as it passes an interface.

use anyhow::{Result, bail};
use std::{
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

const PACKET_OUTGOING: u8 = 4;
const BUFFER_BYTES: i32 = 128 << 20;

/// A socket that sees all frames of one interface, in both directions.
pub struct Capture {
    socket: OwnedFd,
    frame: Vec<u8>,
}

impl Capture {
    /// Of an interface of the calling thread's namespace.
    pub fn open(ifindex: u32) -> Result<Capture> {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers; the descriptor is owned by nothing else.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, kind, protocol.into());
            if fd < 0 {
                bail!("a packet socket: {}", io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: the value lives for the call and has the length that is given. Where it is refused, losses are noticed.
        unsafe {
            let value = ptr::from_ref(&BUFFER_BYTES).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, value, 4);
        }
        // SAFETY: all zeros is an address.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = ifindex as i32;
        // SAFETY: the address lives for the call and has the length that is given.
        let bound = unsafe {
            let len = size_of_val(&address) as u32;
            libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len)
        };
        if bound != 0 {
            bail!("binding a packet socket: {}", io::Error::last_os_error());
        }
        Ok(Capture { socket, frame: vec![0; 1 << 17] })
    }

    /// The next frame, and whether it leaves by the interface; none if none is there.
    pub fn next(&mut self) -> Option<(&[u8], bool)> {
        // SAFETY: all zeros is an address.
        let mut from: libc::sockaddr_ll = unsafe { mem::zeroed() };
        let mut from_bytes = size_of_val(&from) as u32;
        // SAFETY: buffer and address are live and of the lengths that are given.
        let bytes = unsafe {
            libc::recvfrom(
                self.socket.as_raw_fd(),
                self.frame.as_mut_ptr().cast(),
                self.frame.len(),
                0,
                ptr::from_mut(&mut from).cast(),
                &raw mut from_bytes,
            )
        };
        let bytes = usize::try_from(bytes).ok()?;
        Some((&self.frame[..bytes], from.sll_pkttype == PACKET_OUTGOING))
    }

    /// Frames that there was no room for since the last look.
    pub fn dropped(&self) -> u32 {
        // struct tpacket_stats: frames, and those of them that were dropped
        let mut stats = [0u32; 2];
        let mut bytes = size_of_val(&stats) as u32;
        // SAFETY: the buffer is live and of the length that is given; if it is left alone, it has zeros.
        unsafe {
            let to = stats.as_mut_ptr().cast();
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                to,
                &raw mut bytes,
            );
        }
        stats[1]
    }
}
