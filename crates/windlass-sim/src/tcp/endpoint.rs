//! One end of a connection: handshake, data both ways, close (RFC 9293, sections 3.5 and 3.6). Every connection agrees
//! on SACK, timestamps and window scale; on ECN if the hosts are set up for it.

use super::{
    Config, Ecn,
    delack::AckWhen,
    receiver::Receiver,
    sender::{Sender, Wire},
};
use crate::{
    engine::Kind,
    network::Network,
    packet::{Packet, flag},
    time::{core_us, echo_rtt_ns},
    topology::{Hop, Paths},
};
use rand_xoshiro::SplitMix64;
use windlass_core::Algorithm;

/// SYNs retransmitted before the time between them doubles (tcp_syn_linear_timeouts).
const SYN_LINEAR_TIMEOUTS: u64 = 4;

/// How far the connection has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing was sent; a server listens.
    #[default]
    Closed,
    /// The SYN is on its way.
    SynSent,
    /// The SYN-ACK is on its way.
    SynReceived,
    /// Data may be sent.
    Established,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Endpoint {
    /// What it sends.
    pub sender: Sender,
    /// What it receives.
    pub receiver: Receiver,
    phase: Phase,
    peer: u32,
    id: u32,
    hop: u32,
    /// When the SYN or SYN-ACK was first sent.
    syn_at_ns: u64,
    /// How often it was retransmitted: when it timed out, or when the peer's SYN came again.
    syn_resends: u32,
}

impl Endpoint {
    /// Endpoint `id`, which reaches its peer by the path at `hop`.
    pub fn new(
        id: u32,
        peer: u32,
        hop: u32,
        algorithm: Algorithm,
        random: SplitMix64,
        config: &Config,
        is_traced: bool,
    ) -> Endpoint {
        let ecn = if algorithm.needs_ecn() { Ecn::Exact } else { config.ecn };
        Endpoint {
            sender: Sender::new(algorithm, random, config.mss_bytes, is_traced),
            receiver: Receiver::new(config, ecn),
            phase: Phase::Closed,
            peer,
            id,
            hop,
            syn_at_ns: 0,
            syn_resends: 0,
        }
    }

    /// What its packets cross on their way to the peer.
    pub fn path<'a>(&self, paths: &'a Paths) -> impl Iterator<Item = Hop> + use<'a> {
        (self.hop..).map(|place| paths.at(place)).take_while(|hop| *hop != Hop::End)
    }

    /// How far the connection has come.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Opens the connection.
    pub fn connect(&mut self, net: &mut Network, config: &Config) {
        self.phase = Phase::SynSent;
        self.syn_at_ns = net.now_ns;
        self.send_syn(net, config);
    }

    /// The application writes.
    pub fn write(&mut self, bytes: u64, net: &mut Network, config: &Config) {
        self.with_wire(net, config, |sender, wire, receiver| sender.write(bytes, wire, receiver));
    }

    /// The application has nothing more to write.
    pub fn close(&mut self, net: &mut Network, config: &Config) {
        self.with_wire(net, config, |sender, wire, receiver| sender.close(wire, receiver));
    }

    /// The application goes away: what was not sent yet never will be.
    pub fn stop(&mut self, net: &mut Network, config: &Config) {
        self.sender.forget_unsent();
        if !self.sender.is_closing() {
            self.close(net, config);
        }
    }

    /// Both directions are closed and acknowledged.
    pub fn is_closed(&self) -> bool {
        self.sender.is_done() && self.receiver.is_closed()
    }

    /// A packet has arrived.
    pub fn on_packet(&mut self, packet: &Packet, net: &mut Network, config: &Config) {
        if packet.has(flag::SYN) {
            return self.on_syn(packet, net, config);
        }
        match self.phase {
            Phase::Closed | Phase::SynSent => return,
            // the third packet of the handshake, or data behind it
            Phase::SynReceived => self.establish(packet, net, config),
            Phase::Established => {}
        }
        let takes_data = packet.end() > packet.seq;
        if takes_data && self.receiver.needs_ack_before(packet) {
            self.send_ack(net, config);
        }
        self.receiver.on_timestamp(packet);
        let when = takes_data.then(|| self.receiver.on_data(packet, &self.sender.rtt, net.now_ns, config));
        let is_probe = !takes_data && packet.seq < self.receiver.rcv_nxt;
        self.with_wire(net, config, |sender, wire, receiver| sender.on_ack(packet, wire, receiver));
        match when {
            // unless what the ACK let out has carried the acknowledgement along
            Some(AckWhen::Now) if self.receiver.is_ack_owed() => self.send_ack(net, config),
            Some(AckWhen::By(due_ns)) if self.receiver.is_ack_owed() => {
                self.receiver.timer.arm(&mut net.events, due_ns, Kind::Ack, self.id);
            }
            // a probe of the window wants an answer (RFC 9293, section 3.8.6.1)
            None if is_probe => self.send_ack(net, config),
            _ => {}
        }
    }

    /// The retransmission timer's event.
    pub fn on_xmit_timer(&mut self, net: &mut Network, config: &Config) {
        if !self.sender.xmit.fires(&mut net.events, net.now_ns, Kind::Xmit, self.id) {
            return;
        }
        if self.phase == Phase::Established {
            return self.with_wire(net, config, |sender, wire, receiver| sender.on_timer(wire, receiver));
        }
        self.syn_resends += 1;
        if self.phase != Phase::SynSent || self.sender.stats.handshake_retrans_segs >= SYN_LINEAR_TIMEOUTS {
            self.sender.rtt.backoff += 1;
        }
        self.sender.stats.handshake_retrans_segs += 1;
        self.send_syn(net, config);
    }

    /// The pacing timer's event.
    pub fn on_pace_timer(&mut self, net: &mut Network, config: &Config) {
        if self.sender.pace.fires(&mut net.events, net.now_ns, Kind::Pace, self.id) {
            self.with_wire(net, config, |sender, wire, receiver| sender.on_pace(wire, receiver));
        }
    }

    /// The others in its group let it send.
    pub fn on_group(&mut self, net: &mut Network, config: &Config) {
        self.with_wire(net, config, |sender, wire, receiver| sender.on_group(wire, receiver));
    }

    /// Another window or rate is in force than the algorithm has decided.
    pub fn on_held(&mut self, net: &mut Network, config: &Config) {
        self.with_wire(net, config, |sender, wire, receiver| sender.push(wire, receiver));
    }

    /// The acknowledgement timer's event.
    pub fn on_ack_timer(&mut self, net: &mut Network, config: &Config) {
        if self.receiver.timer.fires(&mut net.events, net.now_ns, Kind::Ack, self.id) {
            self.send_ack(net, config);
        }
    }

    fn on_syn(&mut self, packet: &Packet, net: &mut Network, config: &Config) {
        let is_reply = packet.has(flag::ACK);
        match self.phase {
            Phase::Closed if !is_reply => {
                self.receiver.on_syn(packet, net.now_ns);
                self.phase = Phase::SynReceived;
                self.syn_at_ns = net.now_ns;
                self.send_syn(net, config);
            }
            Phase::SynReceived if !is_reply => {
                self.syn_resends += 1;
                self.send_syn(net, config);
            }
            Phase::SynSent if is_reply => {
                self.receiver.on_syn(packet, net.now_ns);
                self.establish(packet, net, config);
                self.send_ack(net, config);
            }
            // our ACK was lost
            Phase::Established if is_reply => self.send_ack(net, config),
            _ => {}
        }
    }

    /// The handshake is complete. How long a round trip takes the timestamp shows, too, where a SYN was sent twice
    /// (tcp_ack_update_rtt()), and whether that was needed: more than one resent, of which one had timed out, is a reason to begin
    /// with a window of one (tcp_init_transfer(), tcp_try_undo_spurious_syn()).
    fn establish(&mut self, packet: &Packet, net: &mut Network, config: &Config) {
        self.phase = Phase::Established;
        self.sender.xmit.disarm();
        let rtt_ns = match self.syn_resends {
            0 => Some(net.now_ns - self.syn_at_ns),
            _ => (packet.tsecr_us != 0).then(|| echo_rtt_ns(packet.tsecr_us, net.now_ns)),
        };
        let has_timed_out = self.sender.stats.handshake_retrans_segs > 0;
        let is_for_first = packet.tsecr_us == core_us(self.syn_at_ns);
        let has_lost_syns = self.syn_resends > 1 && has_timed_out && !is_for_first;
        let window_bytes = packet.window_bytes;
        self.with_wire(net, config, |sender, wire, _| {
            sender.on_established(rtt_ns, window_bytes, has_lost_syns, wire);
        });
    }

    /// Sends the SYN or SYN-ACK, and arms its timeout (RFC 6298, section 2.1).
    fn send_syn(&mut self, net: &mut Network, config: &Config) {
        // RFC 3168, section 6.1.1: how ends that are set up alike agree on ECN
        let (setup, answer) = match self.receiver.ecn() {
            Ecn::Off => (0, 0),
            Ecn::Classic | Ecn::Exact => (flag::ECE | flag::CWR, flag::ECE),
        };
        let flags = match self.phase {
            Phase::SynReceived => flag::SYN | flag::ACK | answer,
            _ => flag::SYN | setup,
        };
        let deadline_ns = net.now_ns + self.sender.rtt.rto_ns(config);
        self.sender.xmit.arm(&mut net.events, deadline_ns, Kind::Xmit, self.id);
        self.with_wire(net, config, |_, wire, receiver| wire.send(receiver, 0, 0, flags));
    }

    fn send_ack(&mut self, net: &mut Network, config: &Config) {
        self.with_wire(net, config, |sender, wire, receiver| {
            wire.send(receiver, sender.nxt, 0, flag::ACK);
        });
    }

    fn with_wire<R>(
        &mut self,
        net: &mut Network,
        config: &Config,
        act: impl FnOnce(&mut Sender, &mut Wire, &mut Receiver) -> R,
    ) -> R {
        let Endpoint { sender, receiver, id, peer, hop, .. } = self;
        let has_ecn = receiver.ecn() != Ecn::Off;
        let mut wire = Wire { net, config, id: *id, peer: *peer, hop: *hop, has_ecn };
        let done = act(sender, &mut wire, receiver);
        sender.assert_sound();
        done
    }
}
