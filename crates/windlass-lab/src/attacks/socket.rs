//! A packet socket on one device: many frames with one call, in both directions.

use super::frame::{HEADERS_MOST_BYTES, Macs, Received, Segment};
use crate::netns::Netns;
use anyhow::{Context, Result, ensure};
use std::{
    ffi::CString,
    io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
};

/// Frames of one call.
pub const BATCH: usize = 64;
/// Room for what arrives while the attacker does something else.
const RECEIVE_BUFFER_BYTES: libc::c_int = 32 << 20;

/// Where an attacker is connected.
#[derive(Clone, Copy, Debug)]
pub struct Port<'a> {
    /// Its host.
    pub host: &'a Netns,
    /// Its device there.
    pub device: &'a str,
    /// Link-layer addresses of what it sends.
    pub macs: Macs,
}

/// Sends and receives frames below the host's own TCP.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
    macs: Macs,
    /// Frames to send; `filled` of them are.
    frames: Vec<Vec<u8>>,
    filled: usize,
    received: Box<[[u8; HEADERS_MOST_BYTES]; BATCH]>,
    /// Frames that have left so far.
    sent: u64,
}

fn checked(result: libc::c_int, what: &str) -> Result<libc::c_int> {
    ensure!(result >= 0, "{what}: {}", io::Error::last_os_error());
    Ok(result)
}

fn set_option(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value is a live int of the length given.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    checked(done, "setsockopt of a packet socket").map(|_| ())
}

/// As AF_PACKET takes it: in network order.
fn ipv4_protocol() -> u16 {
    (libc::ETH_P_IP as u16).to_be()
}

impl PacketSocket {
    /// Opens it for IPv4 on that device of that host.
    pub fn open(port: &Port) -> Result<PacketSocket> {
        let name = CString::new(port.device).context("the name of a device")?;
        let socket = port.host.enter(|| {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            // SAFETY: plain call.
            let fd = unsafe { libc::socket(libc::AF_PACKET, kind, libc::c_int::from(ipv4_protocol())) };
            let fd = checked(fd, "a packet socket (CAP_NET_RAW is needed)")?;
            // SAFETY: the descriptor is new and has no other owner.
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            // SAFETY: the name ends with NUL and lives during the call.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            ensure!(index > 0, "device {}: {}", port.device, io::Error::last_os_error());
            // SAFETY: an all-zero sockaddr_ll is valid.
            let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = ipv4_protocol();
            address.sll_ifindex = index as i32;
            let length = size_of_val(&address) as libc::socklen_t;
            // SAFETY: the address is a live local of the length given.
            let bound = unsafe { libc::bind(fd, (&raw const address).cast(), length) };
            checked(bound, "binding a packet socket")?;
            Ok(socket)
        })?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)?;
        // the device's queue would only limit the rate
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        Ok(PacketSocket {
            socket,
            macs: port.macs,
            frames: vec![Vec::new(); BATCH],
            filled: 0,
            received: Box::new([[0; HEADERS_MOST_BYTES]; BATCH]),
            sent: 0,
        })
    }

    /// Frames that have left so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Puts a segment into the next batch, which is sent when it is full.
    pub fn push(&mut self, segment: &Segment) -> Result<()> {
        segment.write(self.macs, &mut self.frames[self.filled])?;
        self.filled += 1;
        if self.filled == BATCH { self.flush() } else { Ok(()) }
    }

    /// Sends what is in the batch. What the device has no room for is lost, as on a network.
    pub fn flush(&mut self) -> Result<()> {
        let filled = mem::take(&mut self.filled);
        let mut parts = self.frames[..filled].iter_mut().map(|frame| iovec(frame)).collect::<Vec<_>>();
        let mut messages: Vec<libc::mmsghdr> = parts.iter_mut().map(message).collect();
        let mut left = &mut messages[..];
        while !left.is_empty() {
            // SAFETY: as many live messages, each with one live part.
            let sent = unsafe {
                libc::sendmmsg(self.socket.as_raw_fd(), left.as_mut_ptr(), left.len() as libc::c_uint, 0)
            };
            match usize::try_from(sent) {
                Ok(sent) if sent > 0 => {
                    self.sent += sent as u64;
                    left = &mut left[sent..];
                }
                _ => {
                    let why = io::Error::last_os_error();
                    let is_full =
                        matches!(why.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR));
                    ensure!(is_full, "sending a frame: {why}");
                    left = &mut left[1..];
                }
            }
        }
        Ok(())
    }

    /// Takes what has arrived, at most a batch: TCP segments.
    pub fn receive(&mut self, segments: &mut Vec<Received>) -> Result<()> {
        segments.clear();
        let mut parts = self.received.iter_mut().map(|frame| iovec(frame)).collect::<Vec<_>>();
        let mut messages: Vec<libc::mmsghdr> = parts.iter_mut().map(message).collect();
        // SAFETY: as many live messages, each with one live part; no time limit.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let why = io::Error::last_os_error();
            let is_empty = matches!(why.raw_os_error(), Some(libc::EAGAIN | libc::EINTR));
            ensure!(is_empty, "receiving frames: {why}");
            return Ok(());
        };
        let lengths: Vec<usize> = messages[..count].iter().map(|m| m.msg_len as usize).collect();
        let frames = self.received.iter().zip(lengths);
        segments.extend(frames.filter_map(|(f, length)| Received::parse(&f[..length.min(f.len())])));
        Ok(())
    }

    /// Waits until something arrives, for so long at most.
    pub fn wait(&self, limit_ms: libc::c_int) {
        let mut fd = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd.
        unsafe { libc::poll(&mut fd, 1, limit_ms) };
    }
}

fn iovec(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

fn message(part: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: an all-zero mmsghdr is valid.
    let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
    message.msg_hdr.msg_iov = part;
    message.msg_hdr.msg_iovlen = 1;
    message
}
