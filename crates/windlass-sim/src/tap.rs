//! The packets at both ends of all connections as captures, written as the run goes, so that memory does not grow.

use crate::{
    packet::{Packet, flag},
    tcp::Config,
};
use etherparse::{Ethernet2Header, IpEcn, IpNumber, Ipv4Header, TcpHeader, TcpOptionElement};
use pcap_file::{
    DataLink, Endianness, TsResolution,
    pcap::{PcapHeader, PcapPacket, PcapWriter},
};
use std::{
    borrow::Cow,
    fs::{self, File},
    io::{self, BufWriter, Write},
    net::SocketAddr,
    path::Path,
    time::Duration,
};

type Capture = PcapWriter<BufWriter<File>>;

/// Captures at the ends of all connections.
pub struct Tap {
    captures: [Capture; 2],
    connections: Vec<Connection>,
    has_sack: bool,
    /// As hosts announce it.
    mss_bytes: u16,
    /// What went wrong first; nothing is written from then on.
    error: Option<io::Error>,
}

/// What the headers of a connection's packets depend on.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    /// Numbers of client's and server's host.
    hosts: [u32; 2],
    /// The window fields of both ends are in units of 2 to the power of this.
    wscale: u8,
}

/// The server's port, and the lowest of clients.
const HTTP_PORT: u16 = 80;
const FIRST_PORT: u16 = 1024;
const PORTS: u32 = 65_536 - FIRST_PORT as u32;
/// Of an announced MSS, what timestamps take (RFC 6691).
const TIMESTAMPS_BYTES: u32 = 12;
const TTL: u8 = 64;

fn address(host: u32) -> [u8; 4] {
    let [_, a, b, c] = (host + 1).to_be_bytes();
    [10, a, b, c]
}

fn port(connection: u32, side: u32) -> u16 {
    match side {
        0 => FIRST_PORT + (connection % PORTS) as u16,
        _ => HTTP_PORT,
    }
}

/// Addresses of a connection's client and server, of their hosts' numbers.
pub(crate) fn addresses(connection: u32, hosts: [u32; 2]) -> [SocketAddr; 2] {
    [0, 1].map(|side| SocketAddr::from((address(hosts[side as usize]), port(connection, side))))
}

fn mac(host: u32) -> [u8; 6] {
    let [a, b, c, d] = (host + 1).to_be_bytes();
    // a locally administered address
    [2, 0, a, b, c, d]
}

fn capture(path: &Path) -> io::Result<Capture> {
    let header = PcapHeader {
        snaplen: u16::MAX.into(),
        datalink: DataLink::ETHERNET,
        ts_resolution: TsResolution::NanoSecond,
        endianness: Endianness::native(),
        ..PcapHeader::default()
    };
    PcapWriter::with_header(BufWriter::new(File::create(path)?), header).map_err(io::Error::other)
}

impl Tap {
    /// Begins the captures in a folder, made if need be.
    pub fn new(folder: &Path, config: &Config) -> io::Result<Tap> {
        fs::create_dir_all(folder)?;
        let captures = [capture(&folder.join("clients.pcap"))?, capture(&folder.join("servers.pcap"))?];
        Ok(Tap {
            captures,
            connections: Vec::new(),
            has_sack: config.has_sack,
            mss_bytes: config.announced_mss_bytes(),
            error: None,
        })
    }

    /// A connection begins between these hosts, the client's and the server's, whose ends announce the shift `wscale`.
    pub fn on_new_connection(&mut self, connection: u32, hosts: [u32; 2], wscale: u8) {
        let place = connection as usize;
        if place >= self.connections.len() {
            self.connections.resize(place + 1, Connection::default());
        }
        self.connections[place] = Connection { hosts, wscale };
    }

    /// A host sends a packet.
    pub fn on_send(&mut self, now_ns: u64, packet: &Packet) {
        self.record(packet.to & 1 ^ 1, now_ns, packet);
    }

    /// A packet reaches its host.
    pub fn on_arrival(&mut self, now_ns: u64, packet: &Packet) {
        self.record(packet.to & 1, now_ns, packet);
    }

    /// Ends the captures.
    pub fn finish(self) -> io::Result<()> {
        if let Some(error) = self.error {
            return Err(error);
        }
        for capture in self.captures {
            capture.into_writer().flush()?;
        }
        Ok(())
    }

    /// `side`: 0 at the hosts that request, 1 at those that send.
    fn record(&mut self, side: u32, now_ns: u64, packet: &Packet) {
        if self.error.is_some() {
            return;
        }
        let (mut frame, len) = self.frame(packet);
        frame.truncate(len.min(frame.len()));
        let record = PcapPacket {
            timestamp: Duration::from_nanos(now_ns),
            orig_len: len as u32,
            data: Cow::Owned(frame),
        };
        let written = self.captures[side as usize].write_packet(&record);
        self.error = written.err().map(io::Error::other);
    }

    /// The headers of a packet whose payload is all zeros, and how long it is with that.
    fn frame(&self, packet: &Packet) -> (Vec<u8>, usize) {
        let connection = packet.to >> 1;
        let Connection { hosts, wscale } = self.connections[connection as usize];
        let (to, from) = (packet.to & 1, (packet.to & 1) ^ 1);
        let [from_port, to_port] = [from, to].map(|side| port(connection, side));
        let tcp = self.tcp_header(packet, wscale, from_port, to_port);
        let payload_len = usize::from(packet.len_bytes);
        let ip_payload_len = tcp.header_len() + payload_len;
        let [source, destination] = [from, to].map(|side| hosts[side as usize]);
        let mut ip =
            Ipv4Header::new(ip_payload_len as u16, TTL, IpNumber::TCP, address(source), address(destination))
                .expect("a packet fits");
        ip.dont_fragment = true;
        ip.ecn = match (packet.has(flag::CE), packet.has(flag::ECT)) {
            (true, _) => IpEcn::CongestionExperienced,
            (false, true) => IpEcn::Ect0,
            (false, false) => IpEcn::NotEct,
        };
        ip.header_checksum = ip.calc_header_checksum();
        let mut tcp = tcp;
        tcp.checksum = tcp.calc_checksum_ipv4(&ip, &ZEROS[..payload_len]).expect("a packet fits");
        let ethernet = Ethernet2Header {
            source: mac(source),
            destination: mac(destination),
            ether_type: etherparse::EtherType::IPV4,
        };
        let mut frame = Vec::with_capacity(128);
        frame.extend(ethernet.to_bytes());
        frame.extend(ip.to_bytes());
        frame.extend(tcp.to_bytes());
        let len = frame.len() + payload_len;
        (frame, len)
    }

    fn tcp_header(&self, packet: &Packet, wscale: u8, source_port: u16, destination_port: u16) -> TcpHeader {
        let is_syn = packet.has(flag::SYN);
        // the window of a SYN is not scaled (RFC 7323, section 2.2)
        let window = packet.window_bytes >> if is_syn { 0 } else { wscale };
        let window = window.min(u16::MAX.into()) as u16;
        let mut tcp = TcpHeader::new(source_port, destination_port, packet.seq as u32, window);
        tcp.syn = is_syn;
        tcp.fin = packet.has(flag::FIN);
        tcp.ack = packet.has(flag::ACK);
        tcp.psh = packet.is_pushed(u32::from(self.mss_bytes) - TIMESTAMPS_BYTES);
        tcp.ece = packet.has(flag::ECE);
        tcp.cwr = packet.has(flag::CWR);
        tcp.acknowledgment_number = if tcp.ack { packet.ack as u32 } else { 0 };
        let times = TcpOptionElement::Timestamp(packet.tsval_us, packet.tsecr_us);
        let options = if is_syn {
            let mut options = vec![
                TcpOptionElement::MaximumSegmentSize(self.mss_bytes),
                TcpOptionElement::SelectiveAcknowledgementPermitted,
                times,
                TcpOptionElement::Noop,
                TcpOptionElement::WindowScale(wscale),
            ];
            // two of padding in its place keep the header as long
            if !self.has_sack {
                options[1] = TcpOptionElement::Noop;
                options.insert(2, TcpOptionElement::Noop);
            }
            options
        } else {
            let mut options = vec![TcpOptionElement::Noop, TcpOptionElement::Noop, times];
            if let [first, more @ ..] = packet.sacks() {
                let block = |b: &crate::packet::Block| (b.start as u32, b.end as u32);
                let mut rest = [None; 3];
                more.iter().zip(&mut rest).for_each(|(b, place)| *place = Some(block(b)));
                options.extend([TcpOptionElement::Noop, TcpOptionElement::Noop]);
                options.push(TcpOptionElement::SelectiveAcknowledgement(block(first), rest));
            }
            options
        };
        tcp.set_options(&options).expect("at most 40 bytes: three SACK blocks beside timestamps");
        tcp
    }
}

/// The longest payload.
static ZEROS: [u8; 9000] = [0; 9000];

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Tap").field("connections", &self.connections.len()).finish_non_exhaustive()
    }
}
