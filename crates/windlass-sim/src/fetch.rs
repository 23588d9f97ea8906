//! The application: a client fetches so many bytes from a server over HTTP, as curl does from nginx in the testbed.

use crate::{
    network::Network,
    packet::Packet,
    tcp::{Config, Endpoint, Phase},
};

/// Request of a short path, as curl writes it.
const REQUEST_BYTES: u64 = 85;
/// Head of the response, as nginx writes it.
const HEAD_BYTES: u64 = 240;

/// One transfer. The client is endpoint 2 x index, the server 2 x index + 1.
#[derive(Debug)]
pub struct Fetch {
    /// Client and server.
    pub ends: [Endpoint; 2],
    /// How much to fetch.
    size_bytes: u64,
    has_responded: bool,
    /// connect().
    pub started_at_ns: Option<u64>,
    /// First byte of the response.
    pub first_byte_at_ns: Option<u64>,
    /// Last byte of the response.
    pub completed_at_ns: Option<u64>,
    is_over: bool,
}

impl Fetch {
    /// A transfer of `size_bytes` that has not begun.
    pub fn new(ends: [Endpoint; 2], size_bytes: u64) -> Fetch {
        Fetch {
            ends,
            size_bytes,
            has_responded: false,
            started_at_ns: None,
            first_byte_at_ns: None,
            completed_at_ns: None,
            is_over: false,
        }
    }

    /// Payload that has arrived.
    pub fn arrived_bytes(&self) -> u64 {
        self.ends[0].receiver.received_bytes().saturating_sub(HEAD_BYTES)
    }

    /// Connects.
    pub fn start(&mut self, net: &mut Network, config: &Config) {
        self.started_at_ns = Some(net.now_ns);
        self.ends[0].connect(net, config);
    }

    /// A packet for one of the ends. Returns whether it was the transfer's last word: both ends have closed.
    pub fn on_packet(&mut self, packet: &Packet, net: &mut Network, config: &Config) -> bool {
        let end = (packet.to & 1) as usize;
        let was_connecting = self.ends[end].phase() == Phase::SynSent;
        self.ends[end].on_packet(packet, net, config);
        if end == 0 {
            if was_connecting && self.ends[0].phase() == Phase::Established {
                self.ends[0].write(REQUEST_BYTES, net, config);
            }
            self.client_reads(net, config);
        } else {
            self.server_reads(net, config);
        }
        let was_over = self.is_over;
        self.is_over = self.ends.iter().all(Endpoint::is_closed);
        self.is_over && !was_over
    }

    fn client_reads(&mut self, net: &mut Network, config: &Config) {
        let received = self.ends[0].receiver.received_bytes();
        if received > 0 && self.first_byte_at_ns.is_none() {
            self.first_byte_at_ns = Some(net.now_ns);
        }
        if received >= HEAD_BYTES + self.size_bytes && self.completed_at_ns.is_none() {
            self.completed_at_ns = Some(net.now_ns);
            self.ends[0].close(net, config);
        }
    }

    fn server_reads(&mut self, net: &mut Network, config: &Config) {
        let server = &mut self.ends[1];
        if server.receiver.received_bytes() >= REQUEST_BYTES && !self.has_responded {
            self.has_responded = true;
            // two writes, so the head leaves in a segment of its own
            server.write(HEAD_BYTES, net, config);
            server.write(self.size_bytes, net, config);
        }
        if server.receiver.is_closed() && !server.sender.is_closing() {
            server.close(net, config);
        }
    }
}
