//! What a connection of a capture carried, and when: its bytes in each direction, in bursts between which its sender had nothing
//! to send.
//!
//! ```text
//! bytes      sequence numbers above all before them: retransmissions count once, and what the capture has missed counts
//! burst      ends when all of it is acknowledged and its sender sends nothing for PAUSE_NS, or its peer sends a request
//! begins     with that request, or with its first segment
//! ```

use super::segments::Segment;
use std::net::SocketAddr;

/// A sender that has been acknowledged everything, and sends nothing for so long, has nothing to send.
const PAUSE_NS: u64 = 10_000_000;
/// Numbers that are further ahead are no data that follow (RFC 7323, section 2.3: the largest window).
const WINDOW_MOST: u32 = 1 << 30;

/// What was sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// When it was requested, or began, on the capture's clock.
    pub at_ns: u64,
    /// Its payload.
    pub bytes: u64,
}

/// One direction of a connection.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// The next number that would be new; none: nothing is known of it yet.
    next: Option<u32>,
    /// All below it is acknowledged.
    acked: Option<u32>,
    /// When new data was last captured.
    sent_at_ns: u64,
    bursts: Vec<Burst>,
}

impl Stream {
    fn bytes(&self) -> u64 {
        self.bursts.iter().map(|burst| burst.bytes).sum()
    }

    /// New bytes of a segment.
    fn advance(&mut self, segment: &Segment) -> u32 {
        let begin = segment.seq.wrapping_add(segment.is_syn.into());
        let next = *self.next.get_or_insert(begin);
        let end = begin.wrapping_add(segment.payload_bytes);
        let new_bytes = end.wrapping_sub(next);
        if segment.payload_bytes == 0 || new_bytes == 0 || new_bytes > WINDOW_MOST {
            return 0;
        }
        self.next = Some(end);
        new_bytes
    }

    /// Whether everything sent is acknowledged.
    fn is_idle(&self) -> bool {
        self.acked.is_some() && self.acked == self.next
    }
}

/// A connection of a capture.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// Its client and its server.
    pub ends: [SocketAddr; 2],
    /// When its first packet was captured.
    pub began_ns: u64,
    /// The number of its SYN; none: it had begun before.
    syn: Option<u32>,
    /// What client and server sent.
    streams: [Stream; 2],
}

impl Connection {
    /// The connection of which this is the first segment.
    pub fn new(first: &Segment) -> Connection {
        // who connects sends the SYN; in mid-connection, servers have the lower port
        let is_from_server = match (first.is_syn, first.has_ack) {
            (true, has_ack) => has_ack,
            (false, _) => first.from.port() < first.to.port(),
        };
        let ends = if is_from_server { [first.to, first.from] } else { [first.from, first.to] };
        let syn = (first.is_syn && !first.has_ack).then_some(first.seq);
        Connection { ends, began_ns: first.at_ns, syn, streams: Default::default() }
    }

    /// Whether a segment between its ends begins another connection.
    pub fn is_followed_by(&self, segment: &Segment) -> bool {
        segment.is_syn && !segment.has_ack && self.syn != Some(segment.seq)
    }

    /// A segment between its ends.
    pub fn add(&mut self, segment: &Segment) {
        let side = usize::from(segment.from == self.ends[1]);
        let [own, other] = match &mut self.streams {
            [client, server] if side == 0 => [client, server],
            [client, server] => [server, client],
        };
        if segment.has_ack {
            other.acked = Some(segment.ack);
        }
        let was_idle = own.is_idle();
        let new_bytes = own.advance(segment);
        if new_bytes == 0 {
            return;
        }
        let requested_ns = Some(other.sent_at_ns).filter(|at_ns| *at_ns > own.sent_at_ns);
        let has_paused = segment.at_ns.saturating_sub(own.sent_at_ns) >= PAUSE_NS;
        match own.bursts.last_mut().filter(|_| !was_idle || (requested_ns.is_none() && !has_paused)) {
            Some(burst) => burst.bytes += u64::from(new_bytes),
            None => {
                let at_ns = requested_ns.unwrap_or(segment.at_ns);
                own.bursts.push(Burst { at_ns, bytes: new_bytes.into() });
            }
        }
        own.sent_at_ns = segment.at_ns;
    }

    /// Which end sent more, 0 for the client, and in which bursts.
    pub fn heavier(&self) -> (usize, &[Burst]) {
        let [client, server] = &self.streams;
        let side = usize::from(server.bytes() >= client.bytes());
        (side, &self.streams[side].bursts)
    }

    /// Payload that client and server sent.
    #[cfg(test)]
    pub fn bytes(&self) -> [u64; 2] {
        self.streams.each_ref().map(Stream::bytes)
    }
}
