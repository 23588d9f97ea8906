//! Traces of a run, written as it goes, so that memory does not grow: windows, round-trip times and throughput of flows
//! and queues of links in equal intervals as CSV, what the box wants of them beside it, and the packets at both ends of all
//! connections as captures.

use crate::{
    boxed::WindlassBox,
    fetch::Fetch,
    network::Network,
    packet::{MSS_BYTES, Packet, flag},
    session::Session,
    tcp::{Config, Phase},
    time::seconds,
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
    num::NonZeroU64,
    path::Path,
    time::Duration,
};
use windlass_core::Flow as BoxFlow;
use windlass_scenario::{Connections, Flow, Graph, Response, RunReport, Scenario};

/// What to trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceOptions<'a> {
    /// Folder for the files, made if need be.
    pub folder: &'a Path,
    /// Time from one look at flows and links to the next.
    pub interval_ns: NonZeroU64,
}

type Capture = PcapWriter<BufWriter<File>>;

/// Captures at the ends of all connections.
pub struct Tap {
    captures: [Capture; 2],
    /// For each flow, the numbers of client's and server's host.
    hosts: Vec<[u32; 2]>,
    /// For each connection, its flow.
    flows: Vec<u32>,
    wscale: u8,
    has_sack: bool,
    /// What went wrong first; nothing is written from then on.
    error: Option<io::Error>,
}

/// The server's port, and the lowest of clients.
const HTTP_PORT: u16 = 80;
const FIRST_PORT: u16 = 1024;
const PORTS: u32 = 65_536 - FIRST_PORT as u32;
/// MSS as hosts announce it: timestamps are part of it (RFC 6691).
const ANNOUNCED_MSS_BYTES: u16 = MSS_BYTES as u16 + 12;
const TTL: u8 = 64;

fn address(host: u32) -> [u8; 4] {
    let [_, a, b, c] = (host + 1).to_be_bytes();
    [10, a, b, c]
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
    fn new(folder: &Path, scenario: &Scenario, config: &Config) -> io::Result<Tap> {
        let captures = [capture(&folder.join("clients.pcap"))?, capture(&folder.join("servers.pcap"))?];
        let graph = Graph::new(scenario);
        let hosts_of = |f: &Flow| [graph.host(&f.to) as u32, graph.host(&f.from) as u32];
        let hosts = scenario.flows.iter().map(hosts_of).collect();
        let Config { rcv_wscale: wscale, has_sack, .. } = *config;
        Ok(Tap { captures, hosts, flows: Vec::new(), wscale, has_sack, error: None })
    }

    /// A connection of flow `flow` begins.
    pub fn on_new_connection(&mut self, connection: u32, flow: u32) {
        let place = connection as usize;
        if place >= self.flows.len() {
            self.flows.resize(place + 1, 0);
        }
        self.flows[place] = flow;
    }

    /// A host sends a packet.
    pub fn on_send(&mut self, now_ns: u64, packet: &Packet) {
        self.record(packet.to & 1 ^ 1, now_ns, packet);
    }

    /// A packet reaches its host.
    pub fn on_arrival(&mut self, now_ns: u64, packet: &Packet) {
        self.record(packet.to & 1, now_ns, packet);
    }

    /// `side`: 0 at the hosts that ask, 1 at those that send.
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
        let hosts = self.hosts[self.flows[connection as usize] as usize];
        let (to, from) = (packet.to & 1, (packet.to & 1) ^ 1);
        let port = |side: u32| match side {
            0 => FIRST_PORT + (connection % PORTS) as u16,
            _ => HTTP_PORT,
        };
        let tcp = self.tcp_header(packet, port(from), port(to));
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

    fn tcp_header(&self, packet: &Packet, source_port: u16, destination_port: u16) -> TcpHeader {
        let is_syn = packet.has(flag::SYN);
        // the window of a SYN is not scaled (RFC 7323, section 2.2)
        let wscale = if is_syn { 0 } else { self.wscale };
        let window = (packet.window_bytes >> wscale).min(u16::MAX.into()) as u16;
        let mut tcp = TcpHeader::new(source_port, destination_port, packet.seq as u32, window);
        tcp.syn = is_syn;
        tcp.fin = packet.has(flag::FIN);
        tcp.ack = packet.has(flag::ACK);
        tcp.psh = packet.is_pushed();
        tcp.ece = packet.has(flag::ECE);
        tcp.cwr = packet.has(flag::CWR);
        tcp.acknowledgment_number = if tcp.ack { packet.ack as u32 } else { 0 };
        let times = TcpOptionElement::Timestamp(packet.tsval_us, packet.tsecr_us);
        let options = if is_syn {
            let mut options = vec![
                TcpOptionElement::MaximumSegmentSize(ANNOUNCED_MSS_BYTES),
                TcpOptionElement::SelectiveAcknowledgementPermitted,
                times,
                TcpOptionElement::Noop,
                TcpOptionElement::WindowScale(self.wscale),
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

static ZEROS: [u8; MSS_BYTES as usize] = [0; MSS_BYTES as usize];

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Tap").field("connections", &self.flows.len()).finish_non_exhaustive()
    }
}

/// The tables of a trace.
#[derive(Debug)]
pub struct Trace {
    flows: BufWriter<File>,
    links: BufWriter<File>,
    responses: BufWriter<File>,
    /// None: there is no box.
    boxed: Option<BufWriter<File>>,
    /// When the next look is due.
    pub due_ns: u64,
    interval_ns: u64,
    /// When the last look was.
    looked_ns: u64,
    /// Payload of each flow at the last look.
    arrived_bytes: Vec<u64>,
    /// Names of the directions of links that are looked at, with their numbers.
    link_names: Vec<(usize, String)>,
    error: Option<io::Error>,
}

fn table(path: &Path, header: &str) -> io::Result<BufWriter<File>> {
    let mut file = BufWriter::new(File::create(path)?);
    writeln!(file, "{header}")?;
    Ok(file)
}

/// What there is to be seen at one time.
pub struct Scene<'a> {
    pub now_ns: u64,
    pub scenario: &'a Scenario,
    pub net: &'a Network,
    pub fetches: &'a [Fetch],
    pub sessions: &'a [Session],
    pub boxed: Option<&'a WindlassBox>,
    /// Payload of each flow that its client has.
    pub arrived_bytes: &'a [u64],
}

const BOX_COLUMNS: &str = "cwnd_segs,pacing_bps,inflight_segs,sacked_segs,lost_segs,srtt_us,min_rtt_us";

/// What the box wants of a flow, and what it knows.
fn box_columns(flow: &BoxFlow) -> String {
    let state = flow.state();
    let segs = |bytes: u32| bytes / u32::from(state.mss_bytes);
    let cwnd = segs(state.decision.cwnd_bytes);
    let pacing = state.decision.rate_bytes_ps().map_or(String::new(), |bytes_ps| (8 * bytes_ps).to_string());
    let [inflight, sacked, lost] = [flow.pipe_bytes(), state.sacked_bytes, state.lost_bytes].map(segs);
    format!("{cwnd},{pacing},{inflight},{sacked},{lost},{},{}", state.srtt_us, state.min_rtt_us)
}

impl Trace {
    /// Begins the files of a trace.
    pub fn new(options: &TraceOptions, scenario: &Scenario, config: &Config) -> io::Result<(Trace, Tap)> {
        let folder = options.folder;
        fs::create_dir_all(folder)?;
        let numbers = (0..2 * scenario.links.len()).filter(|i| scenario.links[i / 2].is_emulated());
        let interval_ns = options.interval_ns.get();
        let boxed = scenario
            .windlass
            .as_ref()
            .map(|_| table(&folder.join("box.csv"), &format!("time_s,flow,name,{BOX_COLUMNS}")));
        let trace = Trace {
            flows: table(
                &folder.join("flows.csv"),
                "time_s,flow,name,cwnd_segs,ssthresh_segs,inflight_segs,srtt_us,throughput_bps",
            )?,
            links: table(&folder.join("links.csv"), "time_s,link,queue_packets,drops_tail,marks")?,
            responses: table(&folder.join("responses.csv"), "flow,name,asked_s,took_s,bytes")?,
            boxed: boxed.transpose()?,
            due_ns: interval_ns,
            interval_ns,
            looked_ns: 0,
            arrived_bytes: vec![0; scenario.flows.len()],
            link_names: numbers.zip(scenario.link_names()).collect(),
            error: None,
        };
        Ok((trace, Tap::new(folder, scenario, config)?))
    }

    /// Looks at all flows and links; what goes wrong is told at the end.
    pub fn look(&mut self, scene: &Scene) {
        if self.error.is_none() {
            self.error = self.write_look(scene).err();
        }
        self.arrived_bytes.copy_from_slice(scene.arrived_bytes);
        self.looked_ns = scene.now_ns;
        self.due_ns += self.interval_ns;
    }

    /// Looks at all flows that are going on, and at all links. A flow with a connection for each response has no window
    /// of its own.
    fn write_look(&mut self, scene: &Scene) -> io::Result<()> {
        let Scene { now_ns, scenario, net, fetches, sessions, .. } = *scene;
        let time_s = seconds(now_ns);
        let length_s = seconds(now_ns - self.looked_ns).max(1e-9);
        for (index, (flow, session)) in scenario.flows.iter().zip(sessions).enumerate() {
            let bytes = scene.arrived_bytes[index] - self.arrived_bytes[index];
            if session.started_at_ns.is_none() || (session.is_over() && bytes == 0) {
                continue;
            }
            let row = format!("{time_s:.9},{index},{},", flow.name());
            write!(self.flows, "{row}")?;
            match flow.connections {
                // before the handshake nobody has asked the algorithm for a window
                Connections::Persistent if fetches[index].ends[1].phase() == Phase::Established => {
                    let sender = &fetches[index].ends[1].sender;
                    let ssthresh = sender.ssthresh_segs().map_or(String::new(), |s| s.to_string());
                    let (cwnd, inflight) = (sender.cwnd_segs(), sender.inflight_segs());
                    write!(self.flows, "{cwnd},{ssthresh},{inflight},{}", sender.srtt_us())?;
                }
                _ => write!(self.flows, ",,,")?,
            }
            writeln!(self.flows, ",{:.0}", bytes as f64 * 8.0 / length_s)?;
            let seen = scene.boxed.filter(|_| flow.connections == Connections::Persistent);
            if let (Some(table), Some(known)) = (&mut self.boxed, seen.and_then(|b| b.flow(index))) {
                writeln!(table, "{row}{}", box_columns(known))?;
            }
        }
        for (number, name) in &self.link_names {
            let model = &net.links[*number].model;
            let (queue, stats) = (model.queued_packets(now_ns), &model.stats);
            writeln!(self.links, "{time_s:.9},{name},{queue},{},{}", stats.drops_tail, stats.marks)?;
        }
        Ok(())
    }

    /// Ends the files.
    pub fn finish(mut self, tap: Option<Box<Tap>>, report: &RunReport) -> io::Result<()> {
        for (index, flow) in report.flows.iter().enumerate() {
            // of a flow that is one response the report has no list: its times are the flow's
            let only = flow.completion_s.filter(|_| flow.responses.is_empty());
            let only = only.map(|took_s| Response { asked_s: flow.started_s, took_s, bytes: flow.bytes });
            for r in flow.responses.iter().chain(&only) {
                let name = &flow.name;
                writeln!(self.responses, "{index},{name},{:.9},{:.9},{}", r.asked_s, r.took_s, r.bytes)?;
            }
        }
        for file in [&mut self.flows, &mut self.links, &mut self.responses].into_iter().chain(&mut self.boxed)
        {
            file.flush()?;
        }
        let Some(tap) = tap else { return Ok(()) };
        if let Some(error) = self.error.or(tap.error) {
            return Err(error);
        }
        for capture in tap.captures {
            capture.into_writer().flush()?;
        }
        Ok(())
    }
}
