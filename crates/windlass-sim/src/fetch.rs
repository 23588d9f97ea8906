//! One connection and the application on it. Over HTTP the client requests responses, as curl and nginx do in the
//! testbed; or the server pushes them, having connected itself where it uploads. When and how much is the business of the
//! session (`session.rs`).

use crate::{
    network::Network,
    packet::Packet,
    prefetch::{prefetch, prefetch_all},
    tcp::{Config, Endpoint, Phase},
    time::{S, US, core_us},
};
use std::{collections::VecDeque, num::NonZeroU32};
use windlass_scenario::Application;

/// How long after its end a connection's place is left alone, so that few packets of it are left; [`Fetch::is_past`] knows
/// those.
pub(crate) const LINGER_NS: u64 = S;
/// Request of a short path, as curl writes it.
const REQUEST_BYTES: u64 = 85;
/// Head of the response, as nginx writes it.
const HEAD_BYTES: u64 = 240;
/// What is written of a response without end; nothing sends so much in 52 days.
const UNLIMITED_BYTES: u64 = 1 << 56;

/// What a packet meant to the application; bits.
pub mod notice {
    /// The end that connects is connected.
    pub const CONNECTED: u8 = 1 << 0;
    /// A response has arrived.
    pub const RESPONSE: u8 = 1 << 1;
    /// Both ends have closed.
    pub const OVER: u8 = 1 << 2;
    /// The first byte has arrived.
    pub const FIRST_BYTE: u8 = 1 << 3;
    /// It is a datagram.
    pub const DATAGRAM: u8 = 1 << 4;
}

/// A response that was requested and has not arrived yet.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// When it was due.
    pub at_ns: u64,
    /// Its payload; none: unlimited.
    pub size_bytes: Option<u64>,
    /// Where it ends in the client's stream.
    end: u64,
}

/// One connection. The client is endpoint 2 x index, the server 2 x index + 1.
#[derive(Debug)]
#[repr(C)]
pub struct Fetch {
    /// Client and server.
    pub ends: [Endpoint; 2],
    /// To which session it belongs.
    pub session: u32,
    /// Number of the page whose objects it fetches; none: it fetches responses.
    pub page: Option<NonZeroU32>,
    application: Application,
    has_first_byte: bool,
    is_over: bool,
    /// When it took its place, which another one may have had before.
    placed_at_us: u64,
    /// Responses that have arrived.
    arrived: u32,
    /// Responses that the server has written.
    written: u32,
    /// What is requested as soon as there is a connection.
    first: Option<(u64, Option<u64>)>,
    asked: VecDeque<Asked>,
    /// Where the first of those ends in the client's stream; none is requested: never.
    next_end: u64,
    /// Where the last one that was ever requested ends.
    asked_end: u64,
}

impl Fetch {
    /// A connection that has not begun, and has its place from `now_ns` on.
    pub fn new(ends: [Endpoint; 2], session: u32, application: Application, now_ns: u64) -> Fetch {
        Fetch {
            ends,
            session,
            page: None,
            application,
            has_first_byte: false,
            is_over: false,
            placed_at_us: now_ns / US,
            arrived: 0,
            written: 0,
            first: None,
            asked: VecDeque::new(),
            next_end: u64::MAX,
            asked_end: 0,
        }
    }

    /// Requests what a packet for one of the ends will touch.
    pub fn prefetch(&self, end: usize) {
        // first what is looked at first: what stands behind both ends begins and ends with these
        prefetch(&self.session);
        prefetch(&self.asked_end);
        prefetch_all(&self.ends[end]);
    }

    /// When it took its place.
    pub fn placed_at_us(&self) -> u64 {
        self.placed_at_us
    }

    /// Whether both ends have closed.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether a packet was sent before the connection took its place: it belongs to the one that had it before. Its
    /// timestamp shows that, as in RFC 7323, section 5 (PAWS). That wraps, so it is the packet's age that is
    /// compared, which is less than the 71 minutes of the clock, with that of the connection, which may be more.
    pub fn is_past(&self, packet: &Packet, now_ns: u64) -> bool {
        let age_us = core_us(now_ns).wrapping_sub(packet.tsval_us);
        u64::from(age_us) > now_ns / US - self.placed_at_us
    }

    fn head_bytes(&self) -> u64 {
        if self.application == Application::Http { HEAD_BYTES } else { 0 }
    }

    /// Payload that has arrived of the response that is on its way.
    pub fn partial_bytes(&self) -> u64 {
        let Some(first) = self.asked.front() else { return 0 };
        let begin = match first.size_bytes {
            Some(size_bytes) => first.end - size_bytes,
            None => self.asked_end + self.head_bytes(),
        };
        self.ends[0].receiver.received_bytes().saturating_sub(begin)
    }

    /// Which end connects.
    fn opener(&self) -> usize {
        usize::from(self.application == Application::Upload)
    }

    /// One end connects. `first`: what is requested as soon as it is connected; when that was due, and its payload.
    pub fn connect(&mut self, first: Option<(u64, Option<u64>)>, net: &mut Network, config: &Config) {
        self.first = first;
        self.ends[self.opener()].connect(net, config);
    }

    /// Whether one end has begun to connect.
    pub fn is_begun(&self) -> bool {
        self.ends[self.opener()].phase() != Phase::Closed
    }

    /// Whether that end is connected.
    pub fn is_connected(&self) -> bool {
        self.ends[self.opener()].phase() == Phase::Established
    }

    /// A response that was due at `at_ns` is requested, or the server begins to push it.
    pub fn ask(&mut self, at_ns: u64, size_bytes: Option<u64>, net: &mut Network, config: &Config) {
        // behind one without end nothing follows, so its place is its beginning
        let end = size_bytes.map_or(u64::MAX, |bytes| self.asked_end + self.head_bytes() + bytes);
        if size_bytes.is_some() {
            self.asked_end = end;
        }
        self.asked.push_back(Asked { at_ns, size_bytes, end });
        self.next_end = self.asked[0].end;
        match self.application {
            Application::Http => self.ends[0].write(REQUEST_BYTES, net, config),
            Application::Push | Application::Upload | Application::Udp => self.serve(net, config),
        }
    }

    /// The next response that has arrived; none: what is on its way is not whole yet.
    pub fn take_arrived(&mut self) -> Option<Asked> {
        if self.ends[0].receiver.received_bytes() < self.next_end {
            return None;
        }
        let asked = self.asked.pop_front()?;
        self.arrived += 1;
        self.next_end = self.asked.front().map_or(u64::MAX, |next| next.end);
        Some(asked)
    }

    /// The client has all it wants.
    pub fn close(&mut self, net: &mut Network, config: &Config) {
        self.ends[0].close(net, config);
    }

    /// Both ends give up what they have not sent yet, and close. Returns what has arrived of a response by now.
    pub fn stop(&mut self, net: &mut Network, config: &Config) -> u64 {
        let arrived_bytes = self.partial_bytes();
        for end in [1, 0] {
            self.ends[end].stop(net, config);
        }
        self.first = None;
        self.asked.clear();
        self.next_end = u64::MAX;
        arrived_bytes
    }

    /// A packet for one of the ends. Returns what it meant, bits of [`notice`].
    pub fn on_packet(&mut self, packet: &Packet, net: &mut Network, config: &Config) -> u8 {
        if self.is_past(packet, net.now_ns) {
            return 0;
        }
        if self.application == Application::Udp {
            return notice::DATAGRAM;
        }
        let end = (packet.to & 1) as usize;
        let before = self.ends[end].phase();
        self.ends[end].on_packet(packet, net, config);
        let mut notices = 0;
        if before == Phase::SynSent && self.ends[end].phase() == Phase::Established {
            notices |= notice::CONNECTED;
            if let Some((at_ns, size_bytes)) = self.first.take() {
                self.ask(at_ns, size_bytes, net, config);
            }
        }
        if end == 0 {
            let received = self.ends[0].receiver.received_bytes();
            if received > 0 && !self.has_first_byte {
                self.has_first_byte = true;
                notices |= notice::FIRST_BYTE;
            }
            if received >= self.next_end {
                notices |= notice::RESPONSE;
            }
        } else {
            self.serve(net, config);
            let server = &mut self.ends[1];
            if server.receiver.is_closed() && !server.sender.is_closing() {
                server.close(net, config);
            }
        }
        // this end first: the other one is far away
        if !self.is_over && self.ends[end].is_closed() && self.ends[end ^ 1].is_closed() {
            self.is_over = true;
            notices |= notice::OVER;
        }
        notices
    }

    /// The server writes what was requested.
    fn serve(&mut self, net: &mut Network, config: &Config) {
        let server = &mut self.ends[1];
        let until = match self.application {
            Application::Http => (server.receiver.received_bytes() / REQUEST_BYTES) as u32,
            // a server without a connection pushes nothing yet
            _ if server.phase() == Phase::Established => self.arrived + self.asked.len() as u32,
            _ => 0,
        };
        while self.written < until
            && let Some(asked) = self.asked.get((self.written - self.arrived) as usize)
        {
            self.written += 1;
            if self.application == Application::Http {
                // two writes, so the head leaves in a segment of its own
                server.write(HEAD_BYTES, net, config);
            }
            server.write(asked.size_bytes.unwrap_or(UNLIMITED_BYTES), net, config);
        }
    }
}
