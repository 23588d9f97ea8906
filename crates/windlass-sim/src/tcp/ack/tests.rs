//! A sender by itself, what it sends and what it makes of each ACK that it gets. Everything in segments and ms.

use crate::{
    network::Network,
    packet::{MSS_BYTES, Packet, SACK_BLOCKS, flag},
    rng,
    tcp::{
        Config, Ecn,
        cable::cable,
        receiver::Receiver,
        sender::{CaState, Sender, Wire},
    },
    time::{MS, core_us},
};
use windlass_core::Algorithm;

/// The network takes what is sent, and nothing looks after it any more.
struct Host {
    net: Network,
    config: Config,
    hop: u32,
    sender: Sender,
    receiver: Receiver,
}

/// Place of a segment in the stream.
fn seq(seg: u64) -> u64 {
    1 + seg * u64::from(MSS_BYTES)
}

impl Host {
    /// A host whose handshake took 100 ms and is over. Segments leave one by one, in a window of `window_segs`.
    fn new(window_segs: u32, config: Config) -> Host {
        let (net, hop) = cable();
        let config = Config { has_offload: false, initial_window_segs: Some(window_segs), ..config };
        let receiver = Receiver::new(&config, config.ecn);
        let sender =
            Sender::new(Algorithm::by_name("reno").unwrap(), rng::of_endpoint(1, 0), config.mss_bytes, false);
        let mut host = Host { net, config, hop, sender, receiver };
        host.act(0, |sender, wire, _| sender.on_established(Some(100 * MS), 10_000_000, false, wire));
        host
    }

    fn act<R>(&mut self, at_ms: u64, act: impl FnOnce(&mut Sender, &mut Wire, &mut Receiver) -> R) -> R {
        let Host { net, config, hop, sender, receiver } = self;
        net.now_ns = at_ms * MS;
        let mut wire = Wire { net, config, id: 0, peer: 1, hop: *hop, has_ecn: config.ecn != Ecn::Off };
        let done = act(sender, &mut wire, receiver);
        sender.assert_sound();
        done
    }

    fn write(&mut self, at_ms: u64, segs: u64) {
        self.act(at_ms, |sender, wire, receiver| {
            sender.write(segs * u64::from(MSS_BYTES), wire, receiver);
        });
    }

    fn fire(&mut self, at_ms: u64) {
        self.act(at_ms, Sender::on_timer);
    }

    /// An ACK of what was sent 100 ms ago, with blocks in the order of the wire.
    fn ack(&mut self, at_ms: u64, ack: u64, sacks: &[(u64, u64)]) {
        self.ack_with(at_ms, ack, sacks, 0);
    }

    fn ack_with(&mut self, at_ms: u64, ack: u64, sacks: &[(u64, u64)], flags: u8) {
        let mut packet = Packet {
            ack: seq(ack),
            window_bytes: 10_000_000,
            tsecr_us: core_us((at_ms - 100) * MS),
            flags: flag::ACK | flags,
            sack_count: sacks.len() as u8,
            ..Packet::default()
        };
        assert!(sacks.len() <= SACK_BLOCKS);
        for (to, (start, end)) in packet.sack.iter_mut().zip(sacks) {
            (to.start, to.end) = (seq(*start), seq(*end));
        }
        self.act(at_ms, |sender, wire, receiver| sender.on_ack(&packet, wire, receiver));
    }
}

/// Forty arrive in order, but the ACK of the last is delayed when one behind it is lost and the next arrives: one ACK reports both.
#[test]
fn a_loss_behind_a_delayed_ack_is_no_reordering() {
    let mut host = Host::new(60, Config::default());
    host.write(0, 60);
    (1..40).for_each(|ack| host.ack(100, ack, &[]));
    host.ack(100, 40, &[(41, 42)]);
    assert!(!host.sender.board.has_seen_reordering);
}

/// The first ACK for the segments beyond the first hole is lost, and the next one reports the newest first.
#[test]
fn blocks_of_one_ack_show_no_reordering() {
    let mut host = Host::new(60, Config::default());
    host.write(0, 60);
    host.ack(100, 5, &[]);
    host.ack(100, 5, &[(8, 9), (6, 7)]);
    assert!(!host.sender.board.has_seen_reordering);
    // what fills the first hole was sent once, before what was there already
    host.ack(100, 6, &[(8, 9)]);
    assert!(host.sender.board.has_seen_reordering);
}

/// Ten leave at 0 and ten at 10 ms, on a path with reordering, where losses have 25 ms more. The timer of 127 ms begins a recovery
/// with one copy of the first. That of 157 finds nine more lost, within a window of 18 that nothing has been delivered since to
/// change: with nine others in the network, all of them leave.
#[test]
fn the_reordering_timer_reduces_the_window_only_when_it_begins_a_recovery() {
    let mut host = Host::new(20, Config::default());
    host.write(0, 10);
    host.write(10, 10);
    host.ack(100, 0, &[(1, 2)]);
    host.fire(127);
    host.sender.board.has_seen_reordering = true;
    assert_eq!((host.sender.stats.retrans_segs, host.sender.cwnd_segs()), (1, 19));
    host.ack(130, 0, &[(11, 12), (1, 2)]);
    assert_eq!((host.sender.cwnd_segs(), host.sender.inflight_segs()), (18, 18));
    host.fire(157);
    assert_eq!((host.sender.stats.retrans_segs, host.sender.cwnd_segs()), (10, 18));
}

/// A mark halves a window of forty while its last segments are out, so that the receiver learns of it only 2 s later.
/// The pause takes that flight down to ten; the first ACK ends the reduction, and leads to the twenty that it was
/// about.
#[test]
fn a_window_that_is_being_reduced_restarts_for_one_flight() {
    let mut host = Host::new(40, Config { ecn: Ecn::Classic, ..Config::default() });
    host.write(0, 40);
    host.ack_with(100, 2, &[], flag::ECE);
    host.ack(100, 40, &[]);
    assert_eq!(host.sender.cwnd_segs(), 20);
    host.config.initial_window_segs = None;
    host.write(2000, 100);
    assert_eq!((host.sender.cwnd_segs(), host.sender.inflight_segs()), (10, 10));
    host.ack(2100, 42, &[]);
    assert_eq!((host.sender.cwnd_segs(), host.sender.ssthresh_segs()), (20, Some(20)));
}

/// What lies in the send buffer is forgotten as well, so that nothing comes between what was sent and the FIN.
#[test]
fn nothing_that_was_not_sent_follows_a_stop() {
    let mut host = Host::new(2, Config::default());
    host.write(0, 10);
    host.sender.forget_unsent();
    host.sender.algorithm.decision.cwnd_bytes = 10 * MSS_BYTES;
    host.act(50, Sender::close);
    assert_eq!(host.sender.nxt, seq(2) + 1);
    host.ack(100, 2, &[]);
    assert!(!host.sender.is_done());
    let fin = Packet { ack: seq(2) + 1, window_bytes: 10_000_000, flags: flag::ACK, ..Packet::default() };
    host.act(150, |sender, wire, receiver| sender.on_ack(&fin, wire, receiver));
    assert!(host.sender.is_done());
}

/// Two leave at 100 ms, and the timeout comes 50 ms later, half a round trip: with SACK they would still have time, without all is
/// lost but for the copy of the first.
#[test]
fn without_sack_a_timeout_spares_nothing() {
    for (has_sack, inflight_segs) in [(false, 1), (true, 3)] {
        let mut host = Host::new(10, Config { has_sack, is_probing_tails: false, ..Config::default() });
        host.write(0, 20);
        host.ack(100, 1, &[]);
        assert_eq!(host.sender.inflight_segs(), 11);
        host.fire(150);
        assert_eq!((host.sender.stats.timeouts, host.sender.inflight_segs()), (1, inflight_segs));
    }
}

/// The window has been reduced for a mark when a timeout comes, so that this brings no further reduction. What arrives after it was
/// sent before it: nothing was lost, and all is well again with the reduction that there was.
#[test]
fn a_timeout_that_was_not_needed_is_over_though_it_reduced_nothing() {
    let ecn = Config { ecn: Ecn::Classic, is_probing_tails: false, ..Config::default() };
    let mut host = Host::new(10, ecn);
    host.write(0, 10);
    host.ack_with(100, 1, &[], flag::ECE);
    host.fire(400);
    assert_eq!((host.sender.state, host.sender.board.lost_segs()), (CaState::Loss, 9));
    host.ack(420, 3, &[]);
    assert_eq!((host.sender.state, host.sender.board.lost_segs()), (CaState::Open, 0));
    assert_eq!((host.sender.stats.reductions, host.sender.stats.undos), (1, 0));
}

/// Five segments in 100 ms are less than 150 kB/s, at which only a sender that paces itself sends them one by one.
#[test]
fn super_packets_of_a_slow_sender_are_of_two_segments() {
    let mut host = Host::new(5, Config::default());
    host.config.has_offload = true;
    host.write(0, 4);
    assert_eq!((host.sender.inflight_segs(), host.sender.board.super_packets()), (4, 2));
}

/// Two ACKs change places: the older one names a block that the newer one had no room for.
#[test]
fn a_stale_ack_reports_what_has_arrived() {
    let mut host = Host::new(20, Config::default());
    host.write(0, 30);
    host.ack(100, 2, &[(9, 10), (7, 8), (5, 6)]);
    let cwnd_segs = host.sender.cwnd_segs();
    host.ack(101, 1, &[(7, 8), (5, 6), (3, 4)]);
    assert_eq!((host.sender.board.sacked_segs(), host.sender.cwnd_segs()), (4, cwnd_segs));
    assert_eq!(host.sender.una, seq(2));
}
