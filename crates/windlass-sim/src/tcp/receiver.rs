//! The receiving half of an endpoint: puts the stream together, reports what is missing (RFC 2018, 2883), echoes
//! congestion marks (RFC 3168, 8257).

use super::{
    Config, Ecn,
    delack::{AckPolicy, AckWhen, Arrival},
    rtt::Rtt,
    window::RcvWindow,
};
use crate::{
    packet::{Block, Packet, SACK_BLOCKS, flag},
    timer::Timer,
};

/// Blocks remembered, newest first; one more than fit so that a report of a duplicate loses none.
const REMEMBERED: usize = 4;

/// So many of them are expected to get through with each ACK.
const BLOCKS_EXPECTED: usize = 2;

/// Segments acknowledged at once from a mark on: the sender's window may be a very small one.
const MARK_QUICK_ACKS: u32 = 2;

/// What came to a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets with data; saturates.
    pub segs: u32,
    /// Those all of whose data had come before: their retransmission was needless. Saturates.
    pub needless_segs: u32,
}

impl std::ops::AddAssign for ReceiverStats {
    fn add_assign(&mut self, other: ReceiverStats) {
        self.segs = self.segs.saturating_add(other.segs);
        self.needless_segs = self.needless_segs.saturating_add(other.needless_segs);
    }
}

/// The receiving half of an endpoint.
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    /// Next sequence number expected.
    pub rcv_nxt: u64,
    /// Delayed or bundled acknowledgement.
    pub timer: Timer,
    /// What arrived beyond holes, in order.
    waiting: Vec<Block>,
    /// Bytes in them.
    waiting_bytes: u32,
    /// The same stretches in order of their last change, newest first.
    recent: [Block; REMEMBERED],
    recent_count: u8,
    /// Something that arrived twice, to be reported once.
    duplicate: Option<Block>,
    /// Timestamp to echo (RFC 7323, section 4.3).
    ts_recent_us: u32,
    /// A mark is to be echoed.
    is_ece: bool,
    /// Sequence number of the peer's FIN.
    fin_seq: Option<u64>,
    window: RcvWindow,
    policy: AckPolicy,
    ecn: Ecn,
    stats: ReceiverStats,
}

impl Receiver {
    /// Nothing has arrived yet.
    pub fn new(config: &Config, ecn: Ecn) -> Receiver {
        Receiver { window: RcvWindow::new(config), ecn, ..Receiver::default() }
    }

    /// Acknowledges segments one by one for a while, at most so many.
    fn be_quick(&mut self, most_segs: u32) {
        let window_bytes = self.window.last_offered_bytes(self.policy.acked());
        self.policy.be_quick(most_segs, window_bytes);
    }

    /// The peer's SYN has arrived.
    pub fn on_syn(&mut self, packet: &Packet, now_ns: u64) {
        self.rcv_nxt = packet.end();
        self.window.open(self.rcv_nxt, now_ns);
        self.ts_recent_us = packet.tsval_us;
    }

    /// The window field of its packets is in units of 2 to the power of this.
    pub fn wscale(&self) -> u8 {
        self.window.wscale()
    }

    /// What it does with congestion marks.
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Payload bytes that arrived in order.
    pub fn received_bytes(&self) -> u64 {
        self.rcv_nxt.saturating_sub(1 + u64::from(self.is_closed()))
    }

    /// The peer has closed its stream and all of it has arrived.
    pub fn is_closed(&self) -> bool {
        self.fin_seq.is_some_and(|seq| self.rcv_nxt > seq)
    }

    /// One past the last byte that waits for a hole to be filled; 0: nothing does.
    fn waiting_end(&self) -> u64 {
        self.waiting.last().map_or(0, |block| block.end)
    }

    /// Whether something waits to be acknowledged.
    pub fn is_ack_owed(&self) -> bool {
        self.policy.is_owed()
    }

    /// Whether what has arrived is to be acknowledged before the packet is taken, as a later ACK would not report it.
    pub fn needs_ack_before(&self, packet: &Packet) -> bool {
        self.hides_a_mark(packet) || self.hides_a_block(packet)
    }

    /// With exact feedback, a change of the mark must not be hidden in an ACK that covers segments before it (RFC 8257,
    /// section 3.2).
    fn hides_a_mark(&self, packet: &Packet) -> bool {
        self.ecn == Ecn::Exact
            && packet.has(flag::ECT)
            && packet.has(flag::CE) != self.is_ece
            && self.rcv_nxt > self.policy.acked()
    }

    /// A bundled ACK goes out before a stretch beyond a hole comes to be the third among the newest: in an ACK that gets lost it
    /// may have been named for the last time (TCP_SACK_BLOCKS_EXPECTED).
    fn hides_a_block(&self, packet: &Packet) -> bool {
        let touches = |b: &Block| b.start <= packet.end() && packet.seq <= b.end;
        let recent = &self.recent[..usize::from(self.recent_count)];
        self.policy.has_bundled()
            && packet.seq > self.rcv_nxt
            && recent.iter().position(touches).unwrap_or(recent.len()) >= BLOCKS_EXPECTED
    }

    /// Notes the timestamp to echo: the newest of a packet that begins where the last ACK ended, or before. So the echo
    /// of a delayed ACK counts from its first segment, and one beyond a hole changes nothing (RFC 7323, section 4.3).
    pub fn on_timestamp(&mut self, packet: &Packet) {
        if packet.seq <= self.policy.acked() {
            self.ts_recent_us = packet.tsval_us;
        }
    }

    /// Takes a packet with data or FIN; returns when to acknowledge it. `rtt` is the round trip of the endpoint's own segments.
    pub fn on_data(&mut self, packet: &Packet, rtt: &Rtt, now_ns: u64, config: &Config) -> AckWhen {
        if packet.has(flag::FIN) {
            self.fin_seq = Some(packet.end() - 1);
        }
        let len_bytes = u32::from(packet.len_bytes);
        self.policy.on_length(len_bytes);
        self.stats.segs = self.stats.segs.saturating_add(u32::from(len_bytes > 0));
        let is_ecn_news = self.note_mark(packet);
        self.window.measure(len_bytes, config.mss_bytes, packet.tsecr_us, now_ns);
        let mut has_grown = false;
        let had_hole = !self.waiting.is_empty();
        let block = Block { start: packet.seq, end: packet.end() };
        let mut is_urgent = is_ecn_news || packet.has(flag::FIN);
        if block.end <= self.rcv_nxt {
            self.on_duplicate(block, len_bytes);
            self.be_quick(config.quick_acks);
            is_urgent = true;
        } else if self.waiting.iter().any(|w| w.start <= block.start && block.end <= w.end) {
            self.on_duplicate(block, len_bytes);
            // the stretch it is part of follows the report (RFC 2883, section 4)
            self.keep(block);
            is_urgent = is_ecn_news;
        } else if block.start <= self.rcv_nxt {
            if self.policy.on_news(now_ns, rtt.rto_ns(config)) {
                self.be_quick(config.quick_acks);
            }
            has_grown = self.window.grow(self.waiting_bytes + len_bytes, config.mss_bytes);
            self.advance(block.end);
            self.window.measure_window(self.rcv_nxt, self.policy.acked(), now_ns);
            // the gap is filled (RFC 5681, section 4.2)
            is_urgent |= had_hole && self.waiting.is_empty();
            // what ends a message or a super-packet is acknowledged as soon as all is read (tcp_cleanup_rbuf())
            is_urgent |= packet.is_pushed(config.mss_bytes) && self.waiting.is_empty();
        } else {
            // without SACK the ACK must be a duplicate, and one that moves the window is none
            has_grown = config.has_sack && self.window.grow(self.waiting_bytes, config.mss_bytes);
            self.keep(block);
            self.window.on_hole(self.rcv_nxt, self.waiting_end());
            is_urgent = is_ecn_news;
        }
        self.window.on_read(self.rcv_nxt, self.waiting_end(), now_ns);
        let arrival = Arrival {
            now_ns,
            rcv_nxt: self.rcv_nxt,
            has_hole: !self.waiting.is_empty(),
            is_urgent,
            has_grown,
            rtt_ns: match rtt.srtt_ns() {
                0 => self.window.rtt_ns(),
                srtt_ns => self.window.rtt_ns().min(srtt_ns),
            },
        };
        self.policy.on_data(arrival, config)
    }

    /// All of it had come before, which is reported once.
    fn on_duplicate(&mut self, block: Block, len_bytes: u32) {
        self.duplicate = Some(block);
        self.stats.needless_segs = self.stats.needless_segs.saturating_add(u32::from(len_bytes > 0));
    }

    /// What has come since this was called last.
    pub fn take_stats(&mut self) -> ReceiverStats {
        std::mem::take(&mut self.stats)
    }

    /// Fills the acknowledging fields of a packet that goes out.
    pub fn fill(&mut self, packet: &mut Packet, config: &Config) {
        packet.ack = self.rcv_nxt;
        packet.tsecr_us = self.ts_recent_us;
        if packet.has(flag::SYN) {
            packet.window_bytes = self.window.offer_unscaled(config);
        } else {
            packet.window_bytes = self.window.offer(self.rcv_nxt, self.waiting_bytes);
            if config.has_sack {
                self.fill_sack(packet);
            }
            if self.is_ece {
                packet.flags |= flag::ECE;
            }
        }
        self.policy.on_ack_sent(self.rcv_nxt);
        self.timer.disarm();
    }

    fn fill_sack(&mut self, packet: &mut Packet) {
        let duplicate = self.duplicate.take();
        let blocks = duplicate.iter().chain(&self.recent[..usize::from(self.recent_count)]);
        for (to, block) in packet.sack.iter_mut().zip(blocks) {
            *to = *block;
            packet.sack_count += 1;
        }
        debug_assert!(usize::from(packet.sack_count) <= SACK_BLOCKS);
    }

    /// Returns whether it must be reported to the sender at once: an exact echo has changed, or the window was
    /// reduced to what may be very little.
    fn note_mark(&mut self, packet: &Packet) -> bool {
        if !packet.has(flag::ECT) {
            return false;
        }
        let is_marked = packet.has(flag::CE);
        match self.ecn {
            Ecn::Off => false,
            Ecn::Classic => {
                // CWR first: a mark on the same segment is a new one
                self.is_ece &= !packet.has(flag::CWR);
                if is_marked && !self.is_ece {
                    self.be_quick(MARK_QUICK_ACKS);
                }
                self.is_ece |= is_marked;
                packet.has(flag::CWR)
            }
            Ecn::Exact => std::mem::replace(&mut self.is_ece, is_marked) != is_marked,
        }
    }

    /// Everything up to `end` is there, and so is what waited right behind it.
    fn advance(&mut self, end: u64) {
        self.rcv_nxt = end;
        let mut joined = 0;
        while let Some(block) = self.waiting.get(joined).filter(|b| b.start <= self.rcv_nxt) {
            self.rcv_nxt = self.rcv_nxt.max(block.end);
            self.waiting_bytes -= block.len_bytes();
            joined += 1;
        }
        if joined > 0 {
            self.waiting.drain(..joined);
        }
        if self.recent_count > 0 {
            let rcv_nxt = self.rcv_nxt;
            self.retain_recent(|b| b.end > rcv_nxt);
        }
    }

    /// Keeps what arrived beyond a hole, together with the stretches it touches.
    fn keep(&mut self, mut block: Block) {
        let from = self.waiting.partition_point(|b| b.end < block.start);
        let to = from + self.waiting[from..].partition_point(|b| b.start <= block.end);
        for joined in &self.waiting[from..to] {
            block.start = block.start.min(joined.start);
            block.end = block.end.max(joined.end);
            self.waiting_bytes -= joined.len_bytes();
        }
        self.waiting_bytes += block.len_bytes();
        self.waiting.splice(from..to, [block]);
        self.retain_recent(|b| b.end < block.start || b.start > block.end);
        self.recent.copy_within(..REMEMBERED - 1, 1);
        self.recent[0] = block;
        self.recent_count = (self.recent_count + 1).min(REMEMBERED as u8);
    }

    fn retain_recent(&mut self, keep: impl Fn(&Block) -> bool) {
        let mut kept = 0;
        for i in 0..usize::from(self.recent_count) {
            if keep(&self.recent[i]) {
                self.recent[kept] = self.recent[i];
                kept += 1;
            }
        }
        self.recent_count = kept as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::MSS_BYTES;
    use proptest::prelude::*;

    const MSS: u64 = MSS_BYTES as u64;

    fn receiver() -> Receiver {
        receiver_with(Ecn::Off)
    }

    fn receiver_with(ecn: Ecn) -> Receiver {
        receiver_of(&Config::default(), ecn)
    }

    fn receiver_of(config: &Config, ecn: Ecn) -> Receiver {
        let mut receiver = Receiver::new(config, ecn);
        receiver.on_syn(&Packet { flags: flag::SYN, ..Packet::default() }, 0);
        ack(&mut receiver);
        receiver
    }

    /// Nothing is acknowledged at once for being the first, nor for the window that grows.
    fn steady() -> Config {
        Config { quick_acks: 0, rcv_window_max_bytes: 64_240, ..Config::default() }
    }

    fn seg(i: u64) -> Packet {
        Packet { seq: 1 + i * MSS, len_bytes: MSS_BYTES as u16, ..Packet::default() }
    }

    fn ack(receiver: &mut Receiver) -> Packet {
        let mut packet = Packet::default();
        receiver.fill(&mut packet, &Config::default());
        packet
    }

    fn block(start: u64, end: u64) -> Block {
        Block { start: 1 + start * MSS, end: 1 + end * MSS }
    }

    #[test]
    fn needless_retransmissions_are_those_all_of_whose_data_has_come() {
        let mut receiver = receiver();
        let (config, rtt) = (steady(), Rtt::default());
        let partly = Packet { len_bytes: 2 * MSS_BYTES as u16, ..seg(0) };
        // a hole is filled, part of one is new; then what is below rcv_nxt, and what waits beyond a hole, once more
        for packet in [seg(0), seg(2), partly, seg(5), seg(1), seg(5)] {
            receiver.on_data(&packet, &rtt, 0, &config);
        }
        receiver.on_data(&Packet { flags: flag::FIN, len_bytes: 0, ..seg(3) }, &rtt, 0, &config);
        assert_eq!(receiver.take_stats(), ReceiverStats { segs: 6, needless_segs: 2 });
        assert_eq!(receiver.take_stats(), ReceiverStats::default());
    }

    #[test]
    fn sack_blocks_name_the_newest_stretch_first() {
        let (mut receiver, config) = (receiver(), Config::default());
        for i in [2, 4, 6, 5, 8] {
            receiver.on_data(&seg(i), &Rtt::default(), 0, &config);
        }
        assert_eq!(ack(&mut receiver).sacks(), [block(8, 9), block(4, 7), block(2, 3)]);
        receiver.on_data(&seg(0), &Rtt::default(), 0, &config);
        assert_eq!(receiver.on_data(&seg(1), &Rtt::default(), 0, &config), AckWhen::Now);
        let packet = ack(&mut receiver);
        assert_eq!((packet.ack, packet.sacks()), (1 + 3 * MSS, &[block(8, 9), block(4, 7)][..]));
    }

    /// The report names a segment beyond the hole: the stretch around it comes next, for so the sender knows it (RFC 2883), and
    /// the ACK counts as one of the duplicates, of which the fourth waits.
    #[test]
    fn a_duplicate_beyond_a_hole_is_reported_with_the_stretch_around_it() {
        let config = steady();
        let mut receiver = receiver_of(&config, Ecn::Off);
        (0..40).for_each(|i| {
            receiver.on_data(&seg(i), &Rtt::default(), 0, &config);
            ack(&mut receiver);
        });
        for i in [42, 43, 45] {
            assert_eq!(receiver.on_data(&seg(i), &Rtt::default(), 0, &config), AckWhen::Now);
            ack(&mut receiver);
        }
        assert!(matches!(receiver.on_data(&seg(42), &Rtt::default(), 0, &config), AckWhen::By(_)));
        assert_eq!(ack(&mut receiver).sacks(), [block(42, 43), block(42, 44), block(45, 46)]);
    }

    /// What ends a super-packet does not wait for a second segment.
    #[test]
    fn a_push_is_acknowledged_at_once() {
        let config = steady();
        for (flags, is_at_once) in [(0, false), (flag::PSH, true)] {
            let packet = Packet { flags, ..seg(0) };
            let when = receiver_of(&config, Ecn::Off).on_data(&packet, &Rtt::default(), 0, &config);
            assert_eq!(when == AckWhen::Now, is_at_once);
        }
    }

    /// Of stretches of a segment each, with holes between them: each is named among the first two of some ACK.
    #[test]
    fn a_bundled_ack_goes_out_before_a_stretch_is_named_for_the_last_time() {
        let config = steady();
        let mut receiver = receiver_of(&config, Ecn::Off);
        (0..40).for_each(|i| {
            receiver.on_data(&seg(i), &Rtt::default(), 0, &config);
            ack(&mut receiver);
        });
        for i in [42, 44, 46] {
            assert_eq!(receiver.on_data(&seg(i), &Rtt::default(), 0, &config), AckWhen::Now);
            ack(&mut receiver);
        }
        assert!(!receiver.needs_ack_before(&seg(48)), "nothing is bundled");
        receiver.on_data(&seg(48), &Rtt::default(), 0, &config);
        for (i, is_needed) in [(49, false), (47, false), (43, true), (50, true), (52, true)] {
            assert_eq!(receiver.needs_ack_before(&seg(i)), is_needed, "{i}");
        }
        assert_eq!(ack(&mut receiver).sacks(), [block(48, 49), block(46, 47), block(44, 45)]);
    }

    #[test]
    fn a_duplicate_is_reported_once() {
        let (mut receiver, config) = (receiver(), Config::default());
        receiver.on_data(&seg(0), &Rtt::default(), 0, &config);
        assert_eq!(receiver.on_data(&seg(0), &Rtt::default(), 0, &config), AckWhen::Now);
        assert_eq!(ack(&mut receiver).sacks(), [block(0, 1)]);
        assert_eq!(ack(&mut receiver).sacks(), []);
    }

    /// RFC 7323, section 4.3: of two segments that one ACK covers, the first one's; none beyond a hole; and those of
    /// pure ACKs, by which a receiver of much data learns the round-trip time.
    #[test]
    fn the_timestamp_of_the_oldest_unacknowledged_segment_is_echoed() {
        let (mut receiver, config) = (receiver(), Config::default());
        ack(&mut receiver);
        let mut take = |i, tsval_us| {
            let packet = Packet { tsval_us, ..seg(i) };
            receiver.on_timestamp(&packet);
            receiver.on_data(&packet, &Rtt::default(), 0, &config);
        };
        take(0, 10);
        take(1, 11);
        assert_eq!(ack(&mut receiver).tsecr_us, 10);
        let packet = Packet { tsval_us: 12, ..seg(3) };
        receiver.on_timestamp(&packet);
        receiver.on_data(&packet, &Rtt::default(), 0, &config);
        assert_eq!(ack(&mut receiver).tsecr_us, 10);
        receiver.on_timestamp(&Packet { tsval_us: 13, len_bytes: 0, ..seg(2) });
        assert_eq!(ack(&mut receiver).tsecr_us, 13);
    }

    #[test]
    fn a_mark_is_echoed_until_the_sender_has_reduced() {
        let config = Config::default();
        let mut receiver = receiver_with(Ecn::Classic);
        let with = |i, flags| Packet { flags: flag::ECT | flags, ..seg(i) };
        receiver.on_data(&with(0, flag::CE), &Rtt::default(), 0, &config);
        assert!(ack(&mut receiver).has(flag::ECE));
        receiver.on_data(&with(1, 0), &Rtt::default(), 0, &config);
        assert!(ack(&mut receiver).has(flag::ECE));
        receiver.on_data(&with(2, flag::CWR), &Rtt::default(), 0, &config);
        assert!(!ack(&mut receiver).has(flag::ECE));
    }

    /// A mark and the next segment, and the one that reports that the window was reduced.
    #[test]
    fn marks_and_their_answers_are_acknowledged_at_once() {
        let config = steady();
        let mut receiver = receiver_of(&config, Ecn::Classic);
        let mut at_once = |i, flags| {
            let when =
                receiver.on_data(&Packet { flags: flag::ECT | flags, ..seg(i) }, &Rtt::default(), 0, &config);
            ack(&mut receiver);
            when == AckWhen::Now
        };
        let flags = [0, flag::CE, flag::CE, flag::CE, flag::CWR, 0];
        let got: Vec<bool> = flags.iter().zip(0..).map(|(flags, i)| at_once(i, *flags)).collect();
        assert_eq!(got, [false, true, true, false, true, false]);
    }

    #[test]
    fn exact_feedback_acknowledges_at_each_change() {
        let config = steady();
        let mut receiver = receiver_of(&config, Ecn::Exact);
        let with = |i, flags| Packet { flags: flag::ECT | flags, ..seg(i) };
        assert!(matches!(receiver.on_data(&with(0, 0), &Rtt::default(), 0, &config), AckWhen::By(_)));
        assert!(receiver.needs_ack_before(&with(1, flag::CE)));
        assert!(!ack(&mut receiver).has(flag::ECE));
        assert_eq!(receiver.on_data(&with(1, flag::CE), &Rtt::default(), 0, &config), AckWhen::Now);
        assert!(ack(&mut receiver).has(flag::ECE));
    }

    proptest! {
        /// Segments in any order, with copies: the stream is put together, and SACK is right.
        #[test]
        fn any_order_gives_the_stream(order in proptest::collection::vec(0u64..30, 0..200)) {
            let (mut receiver, config) = (receiver(), Config::default());
            let mut there = [false; 30];
            for i in order {
                receiver.on_data(&seg(i), &Rtt::default(), 0, &config);
                there[i as usize] = true;
                let in_order = there.iter().take_while(|t| **t).count() as u64;
                prop_assert_eq!(receiver.received_bytes(), in_order * MSS);
                let waiting: u32 = receiver.waiting.iter().map(Block::len_bytes).sum();
                prop_assert_eq!(receiver.waiting_bytes, waiting);
                let packet = ack(&mut receiver);
                for b in packet.sacks() {
                    prop_assert!((b.start..b.end).step_by(MSS as usize).all(|s| there[(s / MSS) as usize]));
                }
            }
        }
    }
}
