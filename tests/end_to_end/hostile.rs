//! Packets that no host sends in good faith: a flood of SYNs from addresses that no host has, and what a host that
//! knows all numbers of a connection sends in the names of its two ends.

use crate::site::Site;
use etherparse::{Ipv4Slice, PacketBuilder, TcpHeader, TcpSlice};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};
use windlass_lab::netns::Netns;

/// Addresses of those that do not exist (RFC 2544 has them for tests), and how many bits of them are free.
const NOBODY: ([u8; 4], u32) = ([198, 18, 0, 0], 17);
const HTTP_PORT: u16 = 80;
/// SYNs at a time, and how long until the next ones: some thousands a second, each of which the server answers.
const SYNS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(1);
/// No stream here is as long, nor any window as large.
const FAR: u32 = 3 << 28;
/// Further than any window may be.
const BEYOND_ALL_WINDOWS: u32 = 3 << 29;

fn raw_socket(host: &Netns, protocol: libc::c_int) -> OwnedFd {
    let socket = host.enter(|| {
        // SAFETY: plain call; the descriptor, if it is one, is new, and nothing else owns it.
        unsafe {
            let fd = libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol);
            Ok((fd >= 0).then(|| OwnedFd::from_raw_fd(fd)).ok_or_else(io::Error::last_os_error)?)
        }
    });
    socket.expect("a raw socket")
}

fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(_) => panic!("{address}: sites are of IPv4 here"),
    }
}

/// Receives what comes to a host, from before its connections begin.
pub struct Listener(OwnedFd);

impl Listener {
    pub fn new(host: &Netns) -> Listener {
        Listener(raw_socket(host, libc::IPPROTO_TCP))
    }

    /// What a forger has to know of this connection, by the server's SYN-ACK.
    pub fn victim(&self, client: &TcpStream) -> Victim {
        let own = v4(client.local_addr().expect("an address"));
        let server = v4(client.peer_addr().expect("an address"));
        let mut packet = [0; 2048];
        loop {
            // SAFETY: the buffer is live and of that length, the socket is open. The packet came before the connection was there.
            let bytes = unsafe {
                libc::recv(self.0.as_raw_fd(), packet.as_mut_ptr().cast(), packet.len(), libc::MSG_DONTWAIT)
            };
            let bytes = usize::try_from(bytes).expect("the connection's SYN-ACK");
            let ip = Ipv4Slice::from_slice(&packet[..bytes]).expect("a whole packet");
            let tcp = TcpSlice::from_slice(ip.payload().payload).expect("a whole header");
            if tcp.syn() && (tcp.source_port(), tcp.destination_port()) == (server.port(), own.port()) {
                return Victim {
                    client: own,
                    server,
                    first: tcp.sequence_number().wrapping_add(1),
                    client_seq: tcp.acknowledgment_number(),
                };
            }
        }
    }
}

/// A connection whose client sends nothing but acknowledgements.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    client: SocketAddrV4,
    server: SocketAddrV4,
    /// Sequence number of the server's first byte.
    first: u32,
    client_seq: u32,
}

impl Victim {
    /// What the client could send, but for the options. A window that is not the client's.
    fn ack(&self, ack: u32, options: &[u8]) -> Vec<u8> {
        let mut tcp = TcpHeader::new(self.client.port(), self.server.port(), self.client_seq, 777);
        (tcp.ack, tcp.acknowledgment_number) = (true, ack);
        tcp.set_options_raw(options).expect("at most 40 bytes of options");
        self.of_client(tcp, &[])
    }

    fn of_client(&self, tcp: TcpHeader, payload: &[u8]) -> Vec<u8> {
        packet(*self.client.ip(), *self.server.ip(), tcp, payload)
    }

    /// Data, an ACK and a reset whose sequence number is far from the client's.
    fn outside(&self, ack: u32) -> [Vec<u8>; 3] {
        let mut tcp =
            TcpHeader::new(self.client.port(), self.server.port(), self.client_seq.wrapping_add(FAR), 777);
        (tcp.ack, tcp.acknowledgment_number) = (true, ack);
        let reset = TcpHeader { rst: true, ..tcp.clone() };
        [self.of_client(tcp.clone(), &[7; 100]), self.of_client(tcp, &[]), self.of_client(reset, &[])]
    }

    /// A header longer than its packet, and one that ends in its middle.
    fn malformed(&self, ack: u32) -> [Vec<u8>; 2] {
        let [mut longer, mut cut] = [(); 2].map(|()| self.ack(ack, &[]));
        // the data's offset, in words, after the IP header
        longer[20 + 12] |= 0xf0;
        cut.truncate(20 + 8);
        [longer, cut]
    }

    /// Data that the server could not have sent yet, whatever its window.
    fn data(&self, read_bytes: u64) -> Vec<u8> {
        let seq = self.first.wrapping_add(read_bytes as u32).wrapping_add(BEYOND_ALL_WINDOWS);
        let mut tcp = TcpHeader::new(self.server.port(), self.client.port(), seq, 777);
        (tcp.ack, tcp.acknowledgment_number) = (true, self.client_seq);
        packet(*self.server.ip(), *self.client.ip(), tcp, &[7; 100])
    }

    /// What is sent in the client's name when it has read so much: ACKs outside una..nxt, options that lie about their
    /// lengths, SACK blocks out of range, sequence numbers of no side, and headers that are none. What a sound one
    /// acknowledges has arrived, so that no harm comes of that.
    fn lies(&self, read_bytes: u64) -> Vec<Vec<u8>> {
        let read = self.first.wrapping_add(read_bytes as u32);
        let [ahead, behind] = [read.wrapping_add(FAR), read.wrapping_sub(FAR).wrapping_sub(FAR)];
        let blocks = [ahead, ahead.wrapping_add(1448)].map(u32::to_be_bytes).concat();
        let mut all = vec![
            self.ack(ahead, &[]),
            self.ack(behind, &[]),
            self.ack(ahead, &[1, 1, 5, 34, 0, 0, 0, 0]),
            self.ack(ahead, &[8, 0, 0, 0]),
            self.ack(read, &[&[1, 1, 5, 10][..], &blocks].concat()),
        ];
        all.extend(self.outside(read));
        all.extend(self.malformed(read));
        all
    }
}

fn packet(from: Ipv4Addr, to: Ipv4Addr, tcp: TcpHeader, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4(from.octets(), to.octets(), 60).tcp_header(tcp);
    builder.write(&mut packet, payload).expect("a sound packet");
    packet
}

fn syn(to: Ipv4Addr, number: u32) -> Vec<u8> {
    // all different, and in no order
    let scattered = number.wrapping_mul(2_654_435_761);
    let (net, free_bits) = NOBODY;
    let from = Ipv4Addr::from(u32::from_be_bytes(net) | scattered >> (32 - free_bits));
    let mut tcp = TcpHeader::new(1024 + scattered as u16 % 60_000, HTTP_PORT, scattered, 64_240);
    tcp.syn = true;
    tcp.set_options_raw(&[2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7, 0, 0]).expect("at most 40 bytes of options");
    packet(from, to, tcp, &[])
}

/// Sends whatever it is given, from a host of the site.
struct Forger(OwnedFd);

impl Forger {
    fn on(host: &Netns) -> Forger {
        // whole packets, whatever their source address
        Forger(raw_socket(host, libc::IPPROTO_RAW))
    }

    fn send(&self, to: Ipv4Addr, packet: &[u8]) {
        // SAFETY: an all-zero sockaddr_in is valid; packet and address live during the call, the socket is open.
        let sent = unsafe {
            let mut address: libc::sockaddr_in = std::mem::zeroed();
            address.sin_family = libc::AF_INET as libc::sa_family_t;
            address.sin_addr.s_addr = u32::from(to).to_be();
            let len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            let address = (&raw const address).cast();
            libc::sendto(self.0.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0, address, len)
        };
        assert_eq!(sent, packet.len() as isize, "{}", io::Error::last_os_error());
    }
}

/// Ends the attack when it goes out of scope, so that a failed test does not wait for ever.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `during` under a flood of SYNs to the site's first server, and lies about the connection, in the names of both its ends.
/// `read_bytes`: what its client has read.
pub fn under_attack<T>(site: &Site, victim: Victim, read_bytes: &AtomicU64, during: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    let [a, b, c, d] = NOBODY.0;
    // no host answers the servers' answers
    let nobody = format!("{a}.{b}.{c}.{d}/{}", 32 - NOBODY.1);
    site.gateway.run(&["ip", "route", "add", "blackhole", &nobody]).expect("iproute2");
    let [of_client, of_server] = [&site.gateway, &site.servers[0]].map(Forger::on);
    let [client, server] = [victim.client, victim.server].map(|end| *end.ip());
    thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                for _ in 0..SYNS {
                    of_client.send(server, &syn(server, number));
                    number = number.wrapping_add(1);
                }
                let read_bytes = read_bytes.load(Ordering::Relaxed);
                victim.lies(read_bytes).iter().for_each(|packet| of_client.send(server, packet));
                of_server.send(client, &victim.data(read_bytes));
                thread::sleep(PAUSE);
            }
        });
        during()
    })
}
