//! Many clients of one server with a small TCP of their own: they complete handshakes and request a file; how they
//! acknowledge what arrives is their [`Behaviour`].

use super::{
    Control, Stage, Tally,
    frame::{ACK, PSH, RST, Received, SYN, Segment, syn_options},
    socket::PacketSocket,
};
use anyhow::Result;
use rand::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::{
    net::{Ipv4Addr, SocketAddrV4},
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

/// Ports of clients begin here.
const PORT_FIRST: u16 = 2000;
/// Without an answer, SYN and request are retransmitted after so long.
const RETRANSMIT_NS: u64 = 1_000_000_000;
/// After the last SYN, those without an answer are waited for so long: a server that opens thousands of connections is busy with
/// these, which is not what is measured.
const SETTLE_NS: u64 = 4_000_000_000;
/// Batches read in a row before others have their turn.
const READS_AT_ONCE: usize = 8;
/// Resets in a row: a backlog of the kernel has room for a thousand packets.
const RESETS_AT_ONCE: usize = 256;
const RESETS_PAUSE: Duration = Duration::from_millis(2);

/// How many clients there are, and what their SYNs announce.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Connections in all.
    pub connections: usize,
    /// Addresses that they come from, at most 65,536.
    pub addresses: usize,
    /// Connections opened a second.
    pub opens_ps: u64,
    /// Largest segment that the server may send.
    pub mss_bytes: u16,
    /// The window field of every segment.
    pub window: u16,
    /// Window scale.
    pub wscale: u8,
    /// Whether they request the file.
    pub asks: bool,
    /// How long they prepare, from the first SYN on, before the attack has its full effect.
    pub ramp_up_ns: u64,
}

impl Plan {
    /// So many clients of as many addresses, each of which requests the file and announces a window of 1 GB.
    pub fn of(connections: usize, addresses: usize, opens_ps: u64) -> Plan {
        let (mss_bytes, window, wscale) = (1460, u16::MAX, 14);
        Plan { connections, addresses, opens_ps, mss_bytes, window, wscale, asks: true, ramp_up_ns: 0 }
    }
}

/// Of the client's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    SynSent,
    Established,
    Closed,
}

/// One client's connection.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    own: SocketAddrV4,
    state: State,
    /// The next sequence number of its own (SND.NXT).
    pub seq: u32,
    /// What it has acknowledged: the next byte that it expects, as far as the server knows.
    pub acked: u32,
    /// End of the data that arrived, whatever is missing before.
    pub top: u32,
    /// When it last sent something of itself.
    pub acted_ns: u64,
    /// Whether data have arrived.
    pub has_data: bool,
}

impl Connection {
    /// Bytes of the stream between what it has acknowledged and the end of what arrived.
    pub fn open_bytes(&self) -> u32 {
        let open = self.top.wrapping_sub(self.acked);
        // it may have acknowledged more than arrived
        if open > 1 << 31 { 0 } else { open }
    }

    /// Whether it is established and the server has sent data.
    pub fn is_fed(&self) -> bool {
        self.state == State::Established && self.has_data
    }

    /// A connection for tests.
    #[cfg(test)]
    pub fn example(acked: u32, top: u32) -> Connection {
        let own = "10.0.0.1:2000".parse().expect("an address");
        Connection { own, state: State::Established, seq: 1, acked, top, acted_ns: 0, has_data: true }
    }
}

/// Data that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// Sequence number of the first byte.
    pub seq: u32,
    /// ... and of that behind the last.
    pub end: u32,
}

/// What clients send.
pub struct Out<'a> {
    socket: &'a mut PacketSocket,
    target: SocketAddrV4,
    window: u16,
}

impl Out<'_> {
    /// Sends a pure ACK with these options.
    pub fn ack(&mut self, connection: &Connection, ack: u32, options: &[u8]) -> Result<()> {
        self.send(connection, ACK, connection.seq, ack, options, &[])
    }

    /// Sends data, from the connection's next sequence number on.
    pub fn data(&mut self, connection: &mut Connection, payload: &[u8]) -> Result<()> {
        self.send(connection, ACK | PSH, connection.seq, connection.acked, &[], payload)?;
        connection.seq = connection.seq.wrapping_add(payload.len() as u32);
        Ok(())
    }

    fn send(
        &mut self,
        connection: &Connection,
        flags: u8,
        seq: u32,
        ack: u32,
        options: &[u8],
        payload: &[u8],
    ) -> Result<()> {
        let bare = Segment::bare(connection.own, self.target, flags, seq, ack);
        self.socket.push(&Segment { window: self.window, options, payload, ..bare })
    }
}

/// What clients do with what they receive.
pub trait Behaviour: Send {
    /// How many there are.
    fn plan(&self) -> Plan;

    /// Data have arrived; `top` includes them.
    fn on_data(&mut self, _: &mut Connection, _: Data, _now_ns: u64, _: &mut Out) -> Result<()> {
        Ok(())
    }

    /// Time has passed: about a millisecond, or less while much arrives. Once all connections are established.
    fn on_turn(&mut self, _: &mut [Connection], _now_ns: u64, _: &mut Out) -> Result<()> {
        Ok(())
    }
}

/// Events at an even rate.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    per_s: u64,
    since_ns: Option<u64>,
    done: u64,
}

impl Pace {
    /// So many a second.
    pub fn new(per_s: u64) -> Pace {
        Pace { per_s, since_ns: None, done: 0 }
    }

    /// How many are due since the last call, of which there are none at the first; after a pause those of a fiftieth of a second
    /// at most.
    pub fn due(&mut self, now_ns: u64) -> u64 {
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        let all = (u128::from(now_ns - since_ns) * u128::from(self.per_s) / 1_000_000_000) as u64;
        let due = all - self.done;
        self.done = all;
        due.min((self.per_s / 50).max(1))
    }
}

/// What clients send by, of single fields, so that their behaviour and connections can be borrowed beside it.
macro_rules! out {
    ($clients:expr) => {
        Out { socket: &mut $clients.socket, target: $clients.stage.target, window: $clients.plan.window }
    };
}

/// The clients of one attack.
struct Clients<'a> {
    stage: &'a Stage,
    plan: Plan,
    socket: PacketSocket,
    behaviour: Box<dyn Behaviour>,
    connections: Vec<Connection>,
    request: String,
    random: Xoshiro256PlusPlus,
    began: Instant,
    tally: Tally,
    /// Connections on which data have arrived.
    fed: u64,
}

/// Plays them until they are stopped.
pub fn play(
    behaviour: Box<dyn Behaviour>,
    stage: &Stage,
    socket: PacketSocket,
    control: &Control,
) -> Result<Tally> {
    let plan = behaviour.plan();
    let mut clients = Clients {
        stage,
        plan,
        socket,
        behaviour,
        connections: Vec::with_capacity(plan.connections),
        request: format!("GET /{} HTTP/1.1\r\nHost: attacked\r\n\r\n", stage.file),
        random: Xoshiro256PlusPlus::seed_from_u64(stage.seed),
        began: Instant::now(),
        tally: Tally::default(),
        fed: 0,
    };
    let played = clients.run(control);
    let seconds = clients.began.elapsed().as_secs_f64();
    // also after an error: the server should not keep them
    clients.reset_all()?;
    played?;
    Ok(Tally { sent: clients.socket.sent(), seconds, ..clients.tally })
}

impl Clients<'_> {
    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn run(&mut self, control: &Control) -> Result<()> {
        let mut opens = Pace::new(self.plan.opens_ps);
        let (mut opened_all_ns, mut retried_ns) = (None, 0);
        let mut segments = Vec::new();
        while !control.is_over(self.began) {
            let now_ns = self.now_ns();
            for _ in 0..opens.due(now_ns) {
                self.open(now_ns)?;
            }
            if self.connections.len() == self.plan.connections {
                opened_all_ns.get_or_insert(now_ns);
            }
            let mut has_received = false;
            for _ in 0..READS_AT_ONCE {
                self.socket.receive(&mut segments)?;
                if segments.is_empty() {
                    break;
                }
                has_received = true;
                for segment in &segments {
                    self.take(segment, now_ns)?;
                }
            }
            let is_settled = opened_all_ns.is_some_and(|ns| self.are_answered() || now_ns > ns + SETTLE_NS);
            if is_settled {
                control.is_ready.fetch_or(now_ns >= self.plan.ramp_up_ns, Ordering::Relaxed);
                let (mut out, connections) = (out!(self), &mut self.connections);
                self.behaviour.on_turn(connections, now_ns, &mut out)?;
            }
            if now_ns > retried_ns + RETRANSMIT_NS / 4 {
                retried_ns = now_ns;
                self.retransmit(now_ns)?;
            }
            self.socket.flush()?;
            if !has_received {
                self.socket.wait(1);
            }
        }
        Ok(())
    }

    /// Whether the server has answered all handshakes and requests.
    fn are_answered(&self) -> bool {
        let answered = if self.plan.asks { self.fed } else { self.tally.established };
        answered + self.tally.resets >= self.plan.connections as u64
    }

    /// Address and port of the client of that number.
    fn own_address(&self, number: usize) -> SocketAddrV4 {
        let offset = (number % self.plan.addresses) as u32;
        let port = PORT_FIRST + (number / self.plan.addresses) as u16;
        SocketAddrV4::new(Ipv4Addr::from(u32::from(self.stage.first_address) + offset), port)
    }

    /// The number of the client that has this address and port.
    fn number(&self, own: &SocketAddrV4) -> Option<usize> {
        let offset = u32::from(*own.ip()).checked_sub(u32::from(self.stage.first_address))? as usize;
        let row = usize::from(own.port().checked_sub(PORT_FIRST)?);
        let number = row * self.plan.addresses + offset;
        (offset < self.plan.addresses && number < self.connections.len()).then_some(number)
    }

    fn open(&mut self, now_ns: u64) -> Result<()> {
        let number = self.connections.len();
        if number == self.plan.connections {
            return Ok(());
        }
        let (own, seq) = (self.own_address(number), self.random.next_u32());
        let state = State::SynSent;
        let connection = Connection { own, state, seq, acked: 0, top: 0, acted_ns: now_ns, has_data: false };
        self.connections.push(connection);
        self.send_syn(number)
    }

    fn send_syn(&mut self, number: usize) -> Result<()> {
        let connection = self.connections[number];
        let options = syn_options(self.plan.mss_bytes, self.plan.wscale);
        out!(self).send(&connection, SYN, connection.seq, 0, &options, &[])
    }

    /// Requests the file. The connection's next sequence number is that behind the request, which is retransmitted until there is an
    /// answer.
    fn ask(&mut self, number: usize) -> Result<()> {
        let connection = self.connections[number];
        let seq = connection.seq.wrapping_sub(self.request.len() as u32);
        let request = self.request.clone();
        out!(self).send(&connection, ACK | PSH, seq, connection.acked, &[], request.as_bytes())
    }

    fn take(&mut self, segment: &Received, now_ns: u64) -> Result<()> {
        if segment.from != self.stage.target {
            return Ok(());
        }
        let Some(number) = self.number(&segment.to) else { return Ok(()) };
        self.tally.received += 1;
        if segment.flags & RST != 0 {
            self.close(number);
        } else if segment.flags & SYN != 0 {
            self.establish(number, segment, now_ns)?;
        } else if self.connections[number].state == State::SynSent {
            // of an earlier connection, which the server still has (RFC 9293, section 3.10.7.3)
            let connection = self.connections[number];
            out!(self).send(&connection, RST, segment.ack, 0, &[], &[])?;
        } else if segment.payload_bytes > 0 && self.connections[number].state == State::Established {
            let end = segment.seq.wrapping_add(segment.payload_bytes);
            let connection = &mut self.connections[number];
            self.fed += u64::from(!connection.has_data);
            connection.has_data = true;
            if (end.wrapping_sub(connection.top) as i32) > 0 {
                connection.top = end;
            }
            let data = Data { seq: segment.seq, end };
            let mut out = out!(self);
            self.behaviour.on_data(connection, data, now_ns, &mut out)?;
        }
        Ok(())
    }

    fn close(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        if connection.state != State::Closed {
            connection.state = State::Closed;
            self.tally.resets += 1;
        }
    }

    /// Completes the handshake; a SYN-ACK that comes twice is acknowledged twice.
    fn establish(&mut self, number: usize, segment: &Received, now_ns: u64) -> Result<()> {
        let connection = &mut self.connections[number];
        if connection.state == State::SynSent {
            let first = segment.seq.wrapping_add(1);
            let asked_bytes = if self.plan.asks { self.request.len() as u32 } else { 0 };
            *connection = Connection {
                state: State::Established,
                seq: connection.seq.wrapping_add(1 + asked_bytes),
                acked: first,
                top: first,
                acted_ns: now_ns,
                ..*connection
            };
            self.tally.established += 1;
        }
        let connection = self.connections[number];
        if self.plan.asks { self.ask(number) } else { out!(self).ack(&connection, connection.acked, &[]) }
    }

    /// SYNs and requests without an answer.
    fn retransmit(&mut self, now_ns: u64) -> Result<()> {
        for number in 0..self.connections.len() {
            let connection = &mut self.connections[number];
            let is_waiting = match connection.state {
                State::SynSent => true,
                State::Established => self.plan.asks && !connection.has_data,
                State::Closed => false,
            };
            if !is_waiting || now_ns < connection.acted_ns + RETRANSMIT_NS {
                continue;
            }
            connection.acted_ns = now_ns;
            match connection.state {
                State::SynSent => self.send_syn(number)?,
                _ => self.ask(number)?,
            }
        }
        Ok(())
    }

    fn reset_all(&mut self) -> Result<()> {
        let open: Vec<Connection> =
            self.connections.iter().filter(|c| c.state == State::Established).copied().collect();
        for some in open.chunks(RESETS_AT_ONCE) {
            for connection in some {
                // of a request that never arrived, the server expects the first byte
                let asked_bytes = if self.plan.asks { self.request.len() as u32 } else { 0 };
                out!(self).send(connection, RST, connection.seq, 0, &[], &[])?;
                if !connection.has_data && asked_bytes > 0 {
                    let seq = connection.seq.wrapping_sub(asked_bytes);
                    out!(self).send(connection, RST, seq, 0, &[], &[])?;
                }
            }
            self.socket.flush()?;
            thread::sleep(RESETS_PAUSE);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_even_and_makes_up_for_little() {
        let mut pace = Pace::new(1000);
        assert_eq!(pace.due(5_000_000), 0);
        assert_eq!(pace.due(7_500_000), 2);
        assert_eq!(pace.due(8_000_000), 1);
        assert_eq!(pace.due(1_008_000_000), 20);
        assert_eq!(pace.due(1_009_000_000), 1);
    }

    #[test]
    fn what_is_acknowledged_ahead_leaves_nothing_open() {
        assert_eq!(Connection::example(u32::MAX - 9, 90).open_bytes(), 100);
        assert_eq!(Connection::example(100, 90).open_bytes(), 0);
    }
}
