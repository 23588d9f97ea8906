//! The in-kernel clock: a private veth pair whose one end is shaped, so that a single small frame, sent round and
//! round by the `wl_clock` program, comes by at a steady rate. Once started it needs no user space.

use crate::{
    Error, Result,
    netdev::{self, run},
};
use std::{io, mem, path::PathBuf};

/// Length of the frame on the wire, as TBF counts it.
const FRAME_BYTES: u64 = 60;
/// The longest frame: with nothing to do soon, the program pads it, so that it takes several rounds' time.
const LONGEST_FRAME_BYTES: u64 = windlass_core::abi::WL_CLOCK_REST_ROUNDS as u64 * FRAME_BYTES;
const ETH_P_CLOCK: u16 = 0x88b5;

/// The clock of one datapath.
#[derive(Debug)]
pub struct Clock {
    shaped: String,
    program_end: String,
}

impl Clock {
    /// Makes the veth pair of the datapath on interface `ifindex`; `hz` rounds a second.
    pub fn create(ifindex: u32, hz: u32) -> Result<Clock> {
        let clock = Clock { shaped: format!("wlc{ifindex}a"), program_end: format!("wlc{ifindex}b") };
        let (a, b) = (clock.shaped.as_str(), clock.program_end.as_str());
        if netdev::index(a).is_some() {
            run(&["ip", "link", "del", a])?;
        }
        run(&["ip", "link", "add", a, "type", "veth", "peer", "name", b])?;
        for dev in [a, b] {
            // the pair is nobody's business: no addresses, no neighbour discovery
            run(&["ip", "link", "set", dev, "addrgenmode", "none", "arp", "off", "up"])?;
        }
        let rate = format!("{}bit", u64::from(hz) * FRAME_BYTES * 8);
        // TBF passes nothing that is longer than its bucket
        let burst = (LONGEST_FRAME_BYTES + 20).to_string();
        run(&[
            "tc", "qdisc", "replace", "dev", a, "root", "tbf", "rate", &rate, "burst", &burst, "limit",
            "3000",
        ])?;
        Ok(clock)
    }

    /// The clock that an earlier agent made for `ifindex`.
    pub fn existing(ifindex: u32) -> Clock {
        Clock { shaped: format!("wlc{ifindex}a"), program_end: format!("wlc{ifindex}b") }
    }

    /// Index of the end that the frame is sent into.
    pub fn shaped_ifindex(&self) -> Result<u32> {
        netdev::index(&self.shaped).ok_or_else(|| Error::NoInterface(self.shaped.clone()))
    }

    /// Name of the end at which the program sees the frame.
    pub fn program_end(&self) -> &str {
        &self.program_end
    }

    /// Sends the frame on its way. Only one may circle: call it once, or when the clock has stopped.
    pub fn start(&self) -> Result<()> {
        let io = |_| Error::Io { path: PathBuf::from(&self.shaped), why: io::Error::last_os_error() };
        let frame = frame();
        let index = self.shaped_ifindex()?;
        // SAFETY: plain socket calls; every pointer is to a live local of the length given.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                return Err(io(()));
            }
            let mut to: libc::sockaddr_ll = mem::zeroed();
            to.sll_family = libc::AF_PACKET as u16;
            to.sll_ifindex = index as i32;
            let sent = libc::sendto(
                fd,
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const to).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            );
            let result = if sent < 0 { Err(io(())) } else { Ok(()) };
            libc::close(fd);
            result
        }
    }

    /// Removes the veth pair; the frame goes with it.
    pub fn remove(&self) {
        if netdev::index(&self.shaped).is_some() {
            // nothing to be done about a failure: the device is private and harmless
            let _ = run(&["ip", "link", "del", &self.shaped]);
        }
    }
}

fn frame() -> [u8; FRAME_BYTES as usize] {
    let mut frame = [0; FRAME_BYTES as usize];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&ETH_P_CLOCK.to_be_bytes());
    frame
}
