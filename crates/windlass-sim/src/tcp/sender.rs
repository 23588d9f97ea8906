//! The sending half of an endpoint: its state, and what the application and the group do to it. What leaves when is in
//! `transmit.rs`.

use super::{
    Config, Ecn, control::Control, pacing::Pacing, prr::Prr, rack::Rack, rate::Rate, receiver::Receiver,
    rtt::Rtt, scoreboard::Scoreboard, small_queue::HostQueue, undo::Undo, usage::Usage,
};
use crate::{
    engine::Kind,
    group::Membership,
    network::Network,
    packet::{Packet, flag},
    time::{US, core_us, duration_us},
    timer::Timer,
};
use rand::RngCore;
use rand_xoshiro::SplitMix64;
use windlass_core::{
    Algorithm,
    abi::{
        WL_ALG_AS_LINUX, WL_ALG_PROBES_AT_ONCE, WL_ALG_SENDS_BURSTS, WL_CWND_MAX_BYTES, wl_alg_params,
        wl_sample,
    },
};

/// What the sender makes of its losses (RFC 5681, 6675; Linux' names).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaState {
    /// All is well, or only out of order.
    #[default]
    Open,
    /// The window is being reduced for a congestion mark or a loss that a probe repaired.
    Cwr,
    /// Losses are being repaired.
    Recovery,
    /// A timeout: everything is in doubt.
    Loss,
}

/// What the retransmission timer waits for; one thing at a time (RFC 8985, section 7.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pending {
    /// A retransmission timeout.
    #[default]
    Timeout,
    /// A tail loss probe.
    Probe,
    /// RACK's reordering timer.
    Reorder,
    /// A probe of a closed window.
    Window,
}

/// A tail loss probe that is out (RFC 8985, section 7).
#[derive(Clone, Copy, Debug)]
pub struct TailProbe {
    /// `nxt` when it was sent.
    pub end_seq: u64,
    /// It was a retransmission.
    pub is_retrans: bool,
}

/// What a sender did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Segments of data retransmitted.
    pub retrans_segs: u64,
    /// Retransmission timeouts, those of the handshake apart.
    pub timeouts: u64,
    /// SYNs and SYN-ACKs retransmitted.
    pub handshake_retrans_segs: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Reductions for loss or marks.
    pub reductions: u64,
    /// Reductions taken back.
    pub undos: u64,
    /// Most new segments sent at one instant.
    pub longest_burst_segs: u32,
}

impl std::ops::AddAssign for SenderStats {
    fn add_assign(&mut self, other: SenderStats) {
        self.retrans_segs += other.retrans_segs;
        self.timeouts += other.timeouts;
        self.handshake_retrans_segs += other.handshake_retrans_segs;
        self.probes += other.probes;
        self.reductions += other.reductions;
        self.undos += other.undos;
        self.longest_burst_segs = self.longest_burst_segs.max(other.longest_burst_segs);
    }
}

/// A sender at the start of one of its round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// When.
    pub at_ns: u64,
    /// Packet-timed round trips since the start.
    pub round: u32,
    /// Window.
    pub cwnd_segs: u32,
    /// In the network.
    pub pipe_segs: u32,
    /// Smoothed round-trip time.
    pub srtt_us: u32,
}

/// How an endpoint reaches the network.
#[derive(Debug)]
pub struct Wire<'a> {
    /// The network.
    pub net: &'a mut Network,
    /// How hosts are set up.
    pub config: &'a Config,
    /// The endpoint itself, which its timers name.
    pub id: u32,
    /// The other end.
    pub peer: u32,
    /// Where the path there begins.
    pub hop: u32,
    /// Whether ECN was agreed on.
    pub has_ecn: bool,
}

impl Wire<'_> {
    /// Sends a packet with the acknowledgement of the moment. Returns when it leaves the host's own queue; none: it waits in none.
    pub fn send(&mut self, receiver: &mut Receiver, seq: u64, len_bytes: u16, flags: u8) -> Option<u64> {
        // RFC 3168 spares SYNs, pure ACKs and retransmissions; DCTCP, which echoes exactly, does not (tcp_ecn_send())
        let ect = if receiver.ecn() == Ecn::Exact { flag::ECT } else { 0 };
        let mut packet = Packet {
            to: self.peer,
            seq,
            len_bytes,
            flags: flags | ect,
            tsval_us: core_us(self.net.now_ns),
            ..Packet::default()
        };
        receiver.fill(&mut packet, self.config);
        if let Some(tap) = &mut self.net.tap {
            tap.on_send(self.net.now_ns, &packet);
        }
        self.net.send(self.hop, &packet)
    }

    /// Virtual time.
    pub fn now_ns(&self) -> u64 {
        self.net.now_ns
    }
}

/// The sending half of an endpoint.
#[derive(Debug)]
pub struct Sender {
    /// Payload of a full segment.
    pub(super) mss_bytes: u32,
    /// The congestion control.
    pub algorithm: Control,
    /// What it did.
    pub stats: SenderStats,
    /// Rounds as they began, if they are to be kept.
    pub rounds: Option<Vec<Round>>,
    /// The congestion control stands for the kernel's own.
    pub is_as_linux: bool,
    /// Its place in a group; none: it is on its own.
    pub group: Option<Box<Membership>>,
    pub(super) random: SplitMix64,

    /// Oldest sequence number not acknowledged.
    pub(super) una: u64,
    /// Next one to be sent.
    pub(super) nxt: u64,
    /// One past the last byte that the application has written.
    pub(super) written: u64,
    /// One past the last byte of that which the send buffer has room for.
    pub(super) buffered: u64,
    /// Memory that the send buffer may take; grows with the window.
    pub(super) buffer_bytes: u32,
    /// The application has closed the stream: a FIN follows the last byte.
    pub(super) is_closing: bool,
    /// Right edge of the peer's window, and the segment that carried it (RFC 9293, section 3.10.7.4).
    pub(super) wnd_edge: u64,
    pub(super) wnd_bytes: u32,
    pub(super) wnd_seq: u64,

    pub(super) board: Scoreboard,
    pub(super) rack: Rack,
    pub(super) rtt: Rtt,
    pub(super) rate: Rate,
    pub(super) usage: Usage,
    pub(super) prr: Prr,
    pub(super) undo: Undo,
    pub(super) state: CaState,
    /// `nxt` when the state was entered: it ends when this is acknowledged.
    pub(super) high_seq: u64,
    pub(super) probe: Option<TailProbe>,
    /// A timeout may turn out to have been spurious (RFC 5682).
    pub(super) has_frto: bool,
    /// The next new segment reports that the window was reduced (RFC 3168).
    pub(crate) owes_cwr: bool,

    /// Timeouts since una last advanced.
    pub(super) timeouts_in_row: u32,

    pub(super) round_count: u32,
    pub(super) round_delivered: u32,

    /// Retransmission timer.
    pub xmit: Timer,
    pub(super) pending: Pending,
    /// Pacing timer.
    pub pace: Timer,
    pub(super) pacing: Pacing,
    /// When data was last sent.
    pub(super) sent_at_ns: u64,
    /// When new segments were last sent, and how many then.
    pub(super) burst_at_ns: u64,
    pub(super) burst_segs: u32,
    /// What is in the queue of its host; none: nothing ever was.
    pub(super) host_queue: Option<Box<HostQueue>>,
    /// The algorithm must receive pauses while something is in flight, too.
    pub(super) needs_pauses: bool,
    /// ... and of the time before the first data.
    pub(super) wants_first: bool,
    /// The algorithm wants to know of the path what others know.
    needs_path: bool,
    /// The round-trip time that was reported to others on this path; 0: none yet.
    told_rtt_ns: u64,
    /// Only a window in use may grow.
    pub(super) is_validating: bool,
}

impl Sender {
    /// A sender whose SYN is still to be sent, with full segments of `mss_bytes`.
    pub fn new(algorithm: Algorithm, random: SplitMix64, mss_bytes: u32, is_traced: bool) -> Sender {
        let sample = wl_sample { mss_bytes, ..wl_sample::default() };
        Sender {
            mss_bytes,
            algorithm: Control::new(algorithm, &sample),
            stats: SenderStats::default(),
            rounds: is_traced.then(Vec::new),
            is_as_linux: false,
            group: None,
            random,
            una: 0,
            nxt: 1,
            written: 1,
            buffered: 1,
            buffer_bytes: 0,
            is_closing: false,
            wnd_edge: 0,
            wnd_bytes: 0,
            wnd_seq: 0,
            board: Scoreboard::default(),
            rack: Rack::default(),
            rtt: Rtt::default(),
            rate: Rate::default(),
            usage: Usage::new(mss_bytes),
            prr: Prr::default(),
            undo: Undo::default(),
            state: CaState::Open,
            high_seq: 0,
            probe: None,
            has_frto: false,
            owes_cwr: false,
            timeouts_in_row: 0,
            round_count: 0,
            round_delivered: 0,
            xmit: Timer::default(),
            pending: Pending::Timeout,
            pace: Timer::default(),
            pacing: Pacing::default(),
            sent_at_ns: 0,
            burst_at_ns: 0,
            burst_segs: 0,
            host_queue: None,
            needs_pauses: algorithm.needs_pauses(),
            wants_first: false,
            needs_path: algorithm.needs_path(),
            told_rtt_ns: 0,
            is_validating: true,
        }
    }

    /// The handshake is complete: it took `rtt_ns` (none if that is not known) and the peer offers a window. `has_lost_syns`: it was
    /// so hard that a single segment is enough to begin with.
    pub fn on_established(
        &mut self,
        rtt_ns: Option<u64>,
        window_bytes: u32,
        has_lost_syns: bool,
        wire: &mut Wire,
    ) {
        let (now_ns, config) = (wire.now_ns(), wire.config);
        self.una = 1;
        self.high_seq = 1;
        self.is_validating = config.is_validating_window;
        self.buffer_bytes = config.snd_buffer_first_bytes.min(config.snd_buffer_bytes);
        self.set_window(window_bytes, 0);
        self.rtt.backoff = 0;
        if let Some(rtt_ns) = rtt_ns {
            self.rtt.sample(rtt_ns, self.una, self.nxt, config);
            self.rtt.sample_min(rtt_ns);
        }
        let mut sample = self.sample(now_ns);
        if self.needs_path && self.rtt.min_ns() > 0 {
            self.told_rtt_ns = self.rtt.min_ns();
            sample.min_rtt_us = duration_us(wire.net.tell_rtt(wire.hop, self.told_rtt_ns));
        }
        let as_linux = if self.is_as_linux { WL_ALG_AS_LINUX } else { 0 };
        // the kernel's own take no constants
        let params = match self.is_as_linux {
            true => config.parameters.of_any(),
            false => config.parameters.of(self.algorithm.algorithm()),
        };
        let flags = params.flags | (WL_ALG_SENDS_BURSTS | as_linux) as u8;
        self.wants_first = self.needs_pauses && u32::from(flags) & WL_ALG_PROBES_AT_ONCE != 0;
        let params = wl_alg_params { flags, ..params };
        self.algorithm.begin(&params, &sample);
        let initial_segs = if has_lost_syns { Some(1) } else { config.initial_window_segs };
        if let Some(segs) = initial_segs {
            self.algorithm.decision.cwnd_bytes = segs * self.mss_bytes;
        }
        self.usage.on_change(now_ns);
        if let Some(group) = &mut self.group {
            group.report(&sample, &mut self.algorithm.decision);
        }
    }

    /// Reports a shorter round trip to others on this path.
    pub(super) fn tell_path(&mut self, wire: &mut Wire) {
        if self.needs_path && self.rtt.min_ns() < self.told_rtt_ns {
            self.told_rtt_ns = self.rtt.min_ns();
            wire.net.tell_rtt(wire.hop, self.told_rtt_ns);
        }
    }

    /// Reports a decision to the group; what it makes of it is in force. A member that joins may be let out by this ACK.
    pub(super) fn tell_group(&mut self, sample: &wl_sample, wire: &mut Wire) {
        let Some(group) = &mut self.group else { return };
        if let Some(joiner) = group.report(sample, &mut self.algorithm.decision) {
            wire.net.events.schedule(wire.net.now_ns, Kind::Group, joiner);
        }
    }

    /// The others in its group let it send.
    pub(super) fn on_group(&mut self, wire: &mut Wire, receiver: &mut Receiver) {
        let Some(group) = &self.group else { return };
        group.refresh(&mut self.algorithm.decision);
        self.push(wire, receiver);
    }

    /// The application writes.
    pub fn write(&mut self, bytes: u64, wire: &mut Wire, receiver: &mut Receiver) {
        let now_ns = wire.now_ns();
        self.check_app_limited(self.written);
        if self.board.out_segs() == 0 && self.nxt > 1 && self.restarts(wire.config) {
            self.restart(now_ns, wire.config);
        }
        self.written += bytes;
        self.push(wire, receiver);
    }

    /// There was a pause: the window begins anew. One that is being reduced does so for its first flight only, as an ACK of that
    /// ends the reduction (tcp_cwnd_restart(), tcp_end_cwnd_reduction()).
    fn restart(&mut self, now_ns: u64, config: &Config) {
        let idle_ns = now_ns - self.sent_at_ns;
        let rto_ns = self.rtt.rto_ns(config);
        let initial_segs = config.initial_segs();
        if self.is_reducing() {
            let mut cwnd_bytes = self.cwnd_segs() * self.mss_bytes;
            self.usage.restart_cwnd(&mut cwnd_bytes, initial_segs, now_ns, idle_ns, rto_ns);
            self.prr.set_cwnd(cwnd_bytes / self.mss_bytes);
        } else {
            let decision = &mut self.algorithm.decision;
            self.usage.restart(decision, initial_segs, now_ns, idle_ns, rto_ns);
        }
        if let Some(group) = &self.group {
            group.resume(core_us(now_ns), &mut self.algorithm.decision);
        }
    }

    /// What is to be written after `end_seq` comes when less than a segment waits, the window has room and all that was lost
    /// is on its way again: the application, not the network, was the limit (tcp_rate_check_app_limited() in Linux).
    pub(super) fn check_app_limited(&mut self, end_seq: u64) {
        let is_repaired = self.board.lost_segs() <= self.board.resent_segs();
        if end_seq.saturating_sub(self.nxt) < u64::from(self.mss_bytes) && self.room_segs() > 0 && is_repaired
        {
            self.rate.mark_app_limited(self.pipe_bytes());
        }
    }

    /// The application closes the stream.
    pub fn close(&mut self, wire: &mut Wire, receiver: &mut Receiver) {
        self.is_closing = true;
        self.push(wire, receiver);
    }

    /// What was not sent yet never will be.
    pub fn forget_unsent(&mut self) {
        if self.has_unsent() {
            self.written = self.nxt;
            self.buffered = self.nxt;
        }
    }

    /// Whether the application has closed the stream.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Whether the FIN and all before it is acknowledged.
    pub fn is_done(&self) -> bool {
        self.is_closing && self.una == self.written + 1
    }

    /// Whether everything sent is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.una == self.nxt
    }

    /// Window for now, at least one segment.
    pub fn cwnd_segs(&self) -> u32 {
        if self.is_reducing() {
            return self.prr.cwnd().max(1);
        }
        (self.algorithm.decision.cwnd_bytes / self.mss_bytes).max(1)
    }

    /// Segments that the window has room for.
    pub(super) fn room_segs(&self) -> u32 {
        self.cwnd_segs().saturating_sub(self.board.pipe_segs())
    }

    /// Slow start threshold; none: there was no reason for one yet.
    pub fn ssthresh_segs(&self) -> Option<u32> {
        let segs = self.algorithm.decision.ssthresh_bytes / self.mss_bytes;
        Some(segs).filter(|segs| *segs < WL_CWND_MAX_BYTES / self.mss_bytes)
    }

    /// Segments in the network.
    pub fn inflight_segs(&self) -> u32 {
        self.board.pipe_segs()
    }

    /// Smoothed round-trip time; 0: none was measured yet.
    pub fn srtt_us(&self) -> u64 {
        self.rtt.srtt_ns() / US
    }

    /// Smallest round-trip time; 0: none was measured yet.
    pub fn min_rtt_us(&self) -> u64 {
        self.rtt.min_ns() / US
    }

    /// Payload of a full segment.
    pub fn mss_bytes(&self) -> u32 {
        self.mss_bytes
    }

    /// Payload sent so far, counting retransmitted segments whole.
    pub fn sent_bytes(&self) -> u64 {
        self.nxt.min(self.written) - 1 + self.stats.retrans_segs * u64::from(self.mss_bytes)
    }

    /// Whether the algorithm paces itself, and so does its own reductions (cong_control in Linux). Neither does a host reduce what is
    /// set from outside.
    pub(super) fn is_pacing(&self) -> bool {
        self.algorithm.decision.rate_bytes_ps().is_some() || self.algorithm.is_held_outside()
    }

    /// Whether the window is being reduced bit by bit.
    pub(super) fn is_reducing(&self) -> bool {
        matches!(self.state, CaState::Cwr | CaState::Recovery) && !self.is_pacing()
    }

    /// Whether losses are being repaired.
    pub(super) fn is_repairing(&self) -> bool {
        matches!(self.state, CaState::Recovery | CaState::Loss)
    }

    /// Whether the algorithm should know of a recovery. For one that does not pace, every reduction is one.
    pub(super) fn is_in_recovery(&self) -> bool {
        self.is_repairing() || self.is_reducing()
    }

    /// Whether the window begins anew after a pause.
    pub(super) fn restarts(&self, config: &Config) -> bool {
        config.is_restarting_after_idle && !self.is_pacing() && !self.needs_pauses
    }

    /// Bytes in the network, counting segments whole, as the window does.
    pub(super) fn pipe_bytes(&self) -> u32 {
        self.board.pipe_segs() * self.mss_bytes
    }

    /// May the window grow?
    fn is_cwnd_limited(&self) -> bool {
        !self.is_validating || self.usage.is_cwnd_limited(&self.algorithm.decision, self.cwnd_segs())
    }

    /// The sample's standing fields.
    pub(super) fn sample(&mut self, now_ns: u64) -> wl_sample {
        let us = |ns: u64| if ns == 0 { 0 } else { duration_us(ns) };
        wl_sample {
            now_us: core_us(now_ns),
            mss_bytes: self.mss_bytes,
            srtt_us: us(self.rtt.srtt_ns()),
            min_rtt_us: us(self.rtt.min_ns()),
            delivered_bytes: self.rate.delivered_bytes,
            inflight_before_bytes: self.pipe_bytes(),
            inflight_bytes: self.pipe_bytes(),
            since_delivery_us: self.rate.since_delivery_us(now_ns),
            departs_in_us: core_us(self.pacing.wait_ns(now_ns)),
            round_count: self.round_count,
            random: self.random.next_u32(),
            is_in_recovery: self.is_in_recovery().into(),
            is_cwnd_limited: self.is_cwnd_limited().into(),
            ..wl_sample::default()
        }
    }

    /// The peer offers `window_bytes` from `una` on, in the segment `seq`.
    pub(super) fn set_window(&mut self, window_bytes: u32, seq: u64) {
        self.wnd_edge = self.una + u64::from(window_bytes);
        self.wnd_bytes = window_bytes;
        self.wnd_seq = seq;
    }

    /// Whether payload waits for the window.
    pub(super) fn has_unsent(&self) -> bool {
        self.nxt < self.written
    }

    /// What holds after each step, whatever the network does (RFC 9293, section 3.3.1).
    pub(super) fn assert_sound(&self) {
        if self.una == 0 {
            return; // not established yet
        }
        debug_assert!(self.una <= self.nxt && self.nxt <= self.wnd_edge, "{self:?}");
        // BBR's may be what is in flight, which ends in a short segment: it is rounded up where it is used
        debug_assert!(self.is_pacing() || self.algorithm.decision.cwnd_bytes >= self.mss_bytes, "{self:?}");
        debug_assert_eq!(self.is_idle(), self.board.out_segs() == 0, "{self:?}");
    }
}
