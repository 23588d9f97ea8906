//! TUN and TAP devices: where the link emulator takes a host's packets, and hands it those of its peer.

use crate::{netns::Netns, packet::VNET_HDR_BYTES};
use anyhow::{Context, Result, bail};
use std::{
    fs::File,
    io::{self, IoSlice},
    os::fd::{AsRawFd, RawFd},
};

/// More than a device's own queue ever has: it must drop nothing that the model has not seen.
const QUEUE_PACKETS: &str = "20000";

/// What precedes the IP header of a device's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Nothing: a TUN device.
    Ip,
    /// An Ethernet header, as the programs of Windlass' box expect it: a TAP device.
    Ethernet,
}

/// A device of a host. Dropped, the device goes.
#[derive(Debug)]
pub struct Tun {
    file: File,
    framing: Framing,
}

/// What is read from and written to a device by, as long as its [`Tun`] is open.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// Descriptor that does not wait.
    pub fd: RawFd,
    /// What precedes IP headers there.
    pub framing: Framing,
}

impl Tun {
    /// Makes device `name` on host `ns`, and sets it up.
    pub fn open(ns: &Netns, name: &str, framing: Framing) -> Result<Tun> {
        let file = ns.enter(|| make(name, framing))?;
        if framing == Framing::Ethernet {
            // without ARP the kernel addresses each frame to the device itself, and requests no address
            ns.run(&["ip", "link", "set", name, "address", &text(DEVICE_MAC), "arp", "off"])?;
        }
        // without a link-local address the kernel sends nothing of its own (router solicitations, multicast reports),
        // which would take draws of the random loss at unpredictable times
        ns.run(&["ip", "link", "set", name, "addrgenmode", "none"])?;
        ns.run(&["ip", "link", "set", name, "txqueuelen", QUEUE_PACKETS, "up"])?;
        Ok(Tun { file, framing })
    }

    /// What its packets are read and written by.
    pub fn port(&self) -> Port {
        Port { fd: self.file.as_raw_fd(), framing: self.framing }
    }
}

fn make(name: &str, framing: Framing) -> Result<File> {
    let file = File::options().read(true).write(true).open("/dev/net/tun").context("/dev/net/tun")?;
    let kind = if framing == Framing::Ethernet { libc::IFF_TAP } else { libc::IFF_TUN };
    // SAFETY: an all-zero ifreq is valid; the name is shorter than its field and stays NUL-terminated.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(15)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
        if libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &request) != 0 {
            bail!("making device {name} of /dev/net/tun: {}", io::Error::last_os_error());
        }
        let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
        if libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(offloads)) != 0 {
            bail!("offloads of {name}: {}", io::Error::last_os_error());
        }
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
    Ok(file)
}

impl Port {
    /// Reads a packet, as [`crate::packet::Packet::parse`] takes it; none: there is none. Empty: not IP.
    pub fn read(self, buffer: &mut [u8]) -> Option<&[u8]> {
        // SAFETY: the buffer is live and of the length given.
        let n = unsafe { libc::read(self.fd, buffer.as_mut_ptr().cast(), buffer.len()) };
        let read = buffer.get_mut(..usize::try_from(n).ok()?).filter(|read| !read.is_empty())?;
        Some(match self.framing {
            Framing::Ip => &*read,
            Framing::Ethernet => without_ethernet(read),
        })
    }

    /// Writes a packet, as [`crate::packet::Packet::emit`] gives it. Returns whether the device took it.
    pub fn write(self, packet: &[u8]) -> bool {
        match self.framing {
            Framing::Ip => {
                // SAFETY: the packet is live and of the length given.
                unsafe { libc::write(self.fd, packet.as_ptr().cast(), packet.len()) == packet.len() as isize }
            }
            Framing::Ethernet => {
                let (vnet, ip) = packet.split_at(VNET_HDR_BYTES);
                let head = ethernet_head(vnet, ip);
                let parts = [IoSlice::new(&head), IoSlice::new(ip)];
                // SAFETY: two live slices, of whose type the standard library promises the layout of struct iovec.
                let n = unsafe { libc::writev(self.fd, parts.as_ptr().cast(), parts.len() as libc::c_int) };
                n == (head.len() + ip.len()) as isize
            }
        }
    }
}

const ETHERNET_BYTES: usize = 14;
const ETHERTYPE_AT: usize = VNET_HDR_BYTES + 12;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// Locally administered. A link connects two devices only, so that those of all links can have the same.
const DEVICE_MAC: [u8; 6] = [0x02, 0, 0, 0x4c, 0, 1];
/// Where frames that the emulator hands to a host come from.
const PEER_MAC: [u8; 6] = [0x02, 0, 0, 0x4c, 0, 2];

fn text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Turns what a TAP device gave into what a TUN device would have; empty if it is not IP.
fn without_ethernet(read: &mut [u8]) -> &[u8] {
    let ethertype = read.get(ETHERTYPE_AT..ETHERTYPE_AT + 2);
    if ethertype.is_none_or(|t| t != ETHERTYPE_IPV4 && t != ETHERTYPE_IPV6) {
        return &[];
    }
    shift(&mut read[..VNET_HDR_BYTES], -(ETHERNET_BYTES as i16));
    read.copy_within(..VNET_HDR_BYTES, ETHERNET_BYTES);
    &read[ETHERNET_BYTES..]
}

/// What precedes the IP header of a packet for a TAP device.
fn ethernet_head(vnet: &[u8], ip: &[u8]) -> [u8; VNET_HDR_BYTES + ETHERNET_BYTES] {
    let mut head = [0; VNET_HDR_BYTES + ETHERNET_BYTES];
    head[..VNET_HDR_BYTES].copy_from_slice(vnet);
    shift(&mut head[..VNET_HDR_BYTES], ETHERNET_BYTES as i16);
    head[VNET_HDR_BYTES..][..6].copy_from_slice(&DEVICE_MAC);
    head[VNET_HDR_BYTES + 6..][..6].copy_from_slice(&PEER_MAC);
    let is_ipv6 = ip.first().is_some_and(|first| first >> 4 == 6);
    head[ETHERTYPE_AT..].copy_from_slice(if is_ipv6 { &ETHERTYPE_IPV6 } else { &ETHERTYPE_IPV4 });
    head
}

/// Where hdr_len and csum_start are in struct virtio_net_hdr: counted from the packet's first byte, and 0 where unused.
const OFFSETS_AT: [usize; 2] = [2, 6];

/// Adjusts these for a packet that begins so many bytes earlier.
fn shift(vnet: &mut [u8], bytes: i16) {
    for at in OFFSETS_AT {
        let offset = u16::from_le_bytes([vnet[at], vnet[at + 1]]);
        if offset > 0 {
            vnet[at..at + 2].copy_from_slice(&offset.saturating_add_signed(bytes).to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    /// Of a super-packet whose headers have 54 bytes with Ethernet's, and its checksum from byte 34 on.
    const VNET_OF_FRAME: [u8; VNET_HDR_BYTES] = [1, 1, 54, 0, 0, 5, 34, 0, 16, 0];
    const VNET_OF_IP: [u8; VNET_HDR_BYTES] = [1, 1, 40, 0, 0, 5, 20, 0, 16, 0];

    fn port(end: &UnixDatagram, framing: Framing) -> Port {
        Port { fd: end.as_raw_fd(), framing }
    }

    fn frame(vnet: [u8; VNET_HDR_BYTES], ethertype: [u8; 2], ip: &[u8]) -> Vec<u8> {
        [&vnet[..], &DEVICE_MAC, &PEER_MAC, &ethertype, ip].concat()
    }

    #[test]
    fn a_tap_devices_packet_gains_an_ethernet_header_and_loses_it() {
        let (device, host) = UnixDatagram::pair().expect("a pair of sockets");
        let tap = port(&device, Framing::Ethernet);
        let mut buffer = [0; 200];
        for (ethertype, first) in [(ETHERTYPE_IPV4, 0x45), (ETHERTYPE_IPV6, 0x60)] {
            let ip = [&[first][..], &[7; 59]].concat();
            let (framed, plain) = (frame(VNET_OF_FRAME, ethertype, &ip), [&VNET_OF_IP[..], &ip].concat());
            assert!(tap.write(&plain));
            let n = host.recv(&mut buffer).expect("one write");
            assert_eq!(buffer[..n], framed);
            host.send(&framed).expect("room for it");
            assert_eq!(tap.read(&mut buffer), Some(&plain[..]));
        }
    }

    #[test]
    fn offsets_that_a_packet_does_not_use_stay_zero() {
        let mut vnet = [0; VNET_HDR_BYTES];
        shift(&mut vnet, ETHERNET_BYTES as i16);
        assert_eq!(vnet, [0; VNET_HDR_BYTES]);
    }

    #[test]
    fn a_frame_that_is_not_ip_is_empty_and_none_is_none() {
        let (device, host) = UnixDatagram::pair().expect("a pair of sockets");
        device.set_nonblocking(true).expect("a socket");
        let tap = port(&device, Framing::Ethernet);
        let mut buffer = [0; 200];
        assert_eq!(tap.read(&mut buffer), None);
        let arp = frame([0; VNET_HDR_BYTES], [0x08, 0x06], &[0; 28]);
        for sent in [&arp[..], &arp[..ETHERTYPE_AT + 1], &arp[..1]] {
            host.send(sent).expect("room for it");
            assert_eq!(tap.read(&mut buffer), Some(&[][..]), "{} bytes", sent.len());
        }
    }

    #[test]
    fn a_tun_devices_packet_is_left_as_it_is() {
        let (device, host) = UnixDatagram::pair().expect("a pair of sockets");
        let tun = port(&device, Framing::Ip);
        let packet = [&VNET_OF_IP[..], &[0x45; 40]].concat();
        let mut buffer = [0; 200];
        assert!(tun.write(&packet));
        let n = host.recv(&mut buffer).expect("one write");
        assert_eq!(buffer[..n], packet);
        host.send(&packet).expect("room for it");
        assert_eq!(tun.read(&mut buffer), Some(&packet[..]));
    }
}
