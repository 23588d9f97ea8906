//! Reductions that turn out not to have been needed.

use super::{MSS, ack, flow};
use windlass_core::{
    Algorithm, Flow,
    abi::{self, wl_ack, wl_sample},
};

const RTT_US: u32 = 40_000;
const WINDOW: u32 = 20 * MSS;
const UNKNOWN: u32 = abi::WL_CWND_MAX_BYTES;

/// A flow of Reno with a full window in flight, sent at the beginning, on one side or the other of a wrap.
struct Episode {
    f: Flow,
    base: u32,
    now_us: u32,
}

impl Episode {
    fn new(base: u32) -> Episode {
        let mut f = flow(base);
        f.state_mut().algorithm = Algorithm::by_name("reno").unwrap().id() as u8;
        f.call(abi::WL_CALL_INIT, &mut wl_sample::default(), 0, 0);
        f.state_mut().decision.cwnd_bytes = WINDOW;
        let mut episode = Episode { f, base, now_us: 0 };
        episode.send(20);
        episode.now_us = RTT_US;
        episode
    }

    fn at(&self, seg: u32) -> u32 {
        self.base.wrapping_add(seg * MSS)
    }

    /// The sender sends up to segment `end`.
    fn send(&mut self, end: u32) {
        let f = &mut self.f;
        while f.state().nxt != self.base.wrapping_add(end * MSS) {
            let next = f.state().nxt.wrapping_add(MSS);
            f.send(next, self.now_us);
        }
    }

    /// An ACK, blocks in segments; the algorithm is notified as homes do it.
    fn ack(&mut self, una: u32, blocks: &[(u32, u32)]) -> wl_sample {
        self.ack_with(una, blocks, false)
    }

    fn ack_with(&mut self, una: u32, blocks: &[(u32, u32)], has_ece: bool) -> wl_sample {
        let blocks: Vec<_> = blocks.iter().map(|(start, end)| (self.at(*start), self.at(*end))).collect();
        let mut a = ack(self.at(una), self.now_us, &blocks);
        a.has_ece = has_ece.into();
        let mut sample = self.f.ack(&a);
        let loss = if sample.events & abi::WL_EV_RECOVERY_ENTER != 0 { abi::WL_CALL_LOSS } else { 0 };
        self.f.call(loss | abi::WL_CALL_ACK, &mut sample, 0, u64::from(self.now_us) * 1000);
        sample
    }

    /// Retransmits what is lost; returns the segments.
    fn repair(&mut self) -> Vec<u32> {
        let mut segs = Vec::new();
        while let Some((seq, _)) = self.f.next_repair() {
            segs.push(seq.wrapping_sub(self.base) / MSS);
            self.f.repaired(seq, self.now_us);
        }
        segs
    }

    fn windows(&self) -> (u32, u32) {
        let d = &self.f.state().decision;
        (d.cwnd_bytes, d.ssthresh_bytes)
    }

    fn is_recovering(&self) -> bool {
        self.f.state().flags & abi::WL_FLOW_RECOVERY != 0
    }

    #[track_caller]
    fn is_reduced(&self) {
        assert!(self.windows().0 < WINDOW, "{:?}", self.windows());
    }

    /// The window is what it was, but for the grain in which it was kept.
    #[track_caller]
    fn is_restored(&self) {
        let (cwnd, ssthresh) = self.windows();
        assert!((WINDOW..WINDOW + MSS).contains(&cwnd), "{cwnd}");
        assert_eq!(ssthresh, UNKNOWN);
        assert!(!self.is_recovering());
    }

    /// Of what is in flight up to segment `end` the first is found lost, as all others have come, and retransmitted.
    fn one_repair(&mut self, una: u32, end: u32) {
        let s = self.ack(una, &[(una + 1, end)]);
        assert_ne!(s.events & abi::WL_EV_RECOVERY_ENTER, 0);
        assert_eq!(self.repair(), [una]);
    }

    /// Segments 0 and 5 are found lost and retransmitted, a round trip after the first were sent.
    fn two_repairs(&mut self) {
        let s = self.ack(0, &[(1, 5), (6, 20)]);
        assert_ne!(s.events & abi::WL_EV_RECOVERY_ENTER, 0);
        assert_eq!(self.repair(), [0, 5]);
        self.is_reduced();
        self.now_us += 1000;
    }
}

/// On both sides of a wrap, and across it.
fn bases() -> [u32; 3] {
    [1000, u32::MAX - 3 * MSS, u32::MAX - 19 * MSS]
}

#[test]
fn a_spurious_episode_is_undone() {
    for base in bases() {
        let mut e = Episode::new(base);
        e.two_repairs();
        // both originals were late; then come the reports of what was retransmitted, the first still above una
        e.ack(0, &[(1, 20)]);
        e.now_us += RTT_US / 2;
        let s = e.ack(0, &[(5, 6), (1, 20)]);
        assert_eq!(s.events & abi::WL_EV_UNDO, 0);
        assert_eq!(e.ack(20, &[]).events & abi::WL_EV_UNDO, 0);
        e.is_reduced();
        let s = e.ack(20, &[(0, 1)]);
        assert_ne!(s.events & abi::WL_EV_UNDO, 0);
        e.is_restored();
    }
}

/// A report ends recovery on the spot, as it was spurious.
#[test]
fn recovery_ends_with_the_proof() {
    let mut e = Episode::new(1000);
    e.one_repair(0, 4);
    e.now_us += 1000;
    e.ack(4, &[]);
    assert!(e.is_recovering());
    let s = e.ack(4, &[(0, 1)]);
    let both = abi::WL_EV_UNDO | abi::WL_EV_RECOVERY_EXIT;
    assert_eq!(s.events & both, both);
    e.is_restored();
}

#[test]
fn a_real_loss_is_not_undone() {
    for base in bases() {
        let mut e = Episode::new(base);
        e.two_repairs();
        e.now_us += RTT_US;
        let s = e.ack(20, &[]);
        assert_eq!(s.events & abi::WL_EV_UNDO, 0);
        assert_ne!(s.events & abi::WL_EV_RECOVERY_EXIT, 0);
        e.is_reduced();
    }
}

#[test]
fn a_partial_set_of_reports_undoes_nothing() {
    for base in bases() {
        let mut e = Episode::new(base);
        e.two_repairs();
        // 0 was late, 5 was lost
        e.ack(5, &[(6, 20)]);
        e.now_us += RTT_US;
        e.ack(20, &[(0, 1)]);
        e.ack(20, &[]);
        e.is_reduced();
    }
}

/// The network, or the sender, can send things twice as well: more than was retransmitted explains nothing.
#[test]
fn reports_of_what_was_not_retransmitted_undo_nothing() {
    let mut e = Episode::new(1000);
    e.ack(4, &[]);
    e.one_repair(4, 20);
    // from before the episode; longer than all that was retransmitted
    e.ack(4, &[(2, 3), (5, 20)]);
    e.ack(4, &[(7, 12), (5, 20)]);
    e.now_us += RTT_US;
    e.ack(20, &[]);
    e.is_reduced();
    // a report that no receiver can have sent is not taken for one
    e.ack(20, &[(3, 3)]);
    e.is_reduced();
}

#[test]
fn a_dsack_in_a_stale_ack_counts() {
    for base in bases() {
        let mut e = Episode::new(base);
        e.one_repair(0, 20);
        e.now_us += RTT_US;
        e.ack(20, &[]);
        e.is_reduced();
        // what is below una by now was a plain block when it was sent
        for blocks in [&[(2, 3)][..], &[(0, 1), (1, 12)]] {
            let blocks: Vec<_> = blocks.iter().map(|(start, end)| (e.at(*start), e.at(*end))).collect();
            let stale = ack(e.at(1), e.now_us, &blocks);
            assert_eq!(e.f.ack_kind(stale.ack), abi::WL_ACK_STALE);
            e.f.dsack(&stale);
        }
        e.send(21);
        let s = e.ack(21, &[]);
        assert_ne!(s.events & abi::WL_EV_UNDO, 0);
        e.is_restored();
    }
}

/// The original may come between the finding and the repair: then nothing was retransmitted that could be reported.
#[test]
fn what_needed_no_repair_was_not_lost() {
    let mut e = Episode::new(1000);
    let s = e.ack(0, &[(1, 20)]);
    assert_ne!(s.events & abi::WL_EV_RECOVERY_ENTER, 0);
    e.is_reduced();
    let s = e.ack(20, &[]);
    assert_ne!(s.events & abi::WL_EV_UNDO, 0);
    e.is_restored();
}

#[test]
fn a_reduction_for_a_mark_stands() {
    let mut e = Episode::new(1000);
    e.f.state_mut().flags |= abi::WL_FLOW_ECN;
    e.one_repair(0, 20);
    e.ack_with(20, &[], true);
    e.now_us += RTT_US;
    e.ack(20, &[(0, 1)]);
    e.is_reduced();
}

/// Two recoveries within a round trip are undone together, whatever the order of the reports.
#[test]
fn a_recovery_that_follows_another_does_not_hide_that_it_was_spurious() {
    let mut e = Episode::new(1000);
    e.one_repair(0, 20);
    e.now_us += RTT_US / 2;
    e.ack(20, &[]);
    let once = e.windows();
    e.send(30);
    e.now_us += RTT_US;
    e.one_repair(20, 30);
    assert!(e.windows().1 < once.1);
    e.ack(30, &[(0, 1)]);
    e.is_reduced();
    let s = e.ack(30, &[(20, 21)]);
    assert_ne!(s.events & abi::WL_EV_UNDO, 0);
    e.is_restored();
}

/// ... but a true loss holds up the proof of no more than the next.
#[test]
fn after_a_true_loss_a_spurious_one_is_undone_again() {
    let mut e = Episode::new(1000);
    let (mut una, mut undone) = (0, 0);
    for episode in 0..3 {
        let end = una + 20;
        e.send(end);
        e.now_us += RTT_US;
        e.one_repair(una, end);
        e.now_us += RTT_US;
        let report = [(una, una + 1)];
        let s = e.ack(end, if episode == 0 { &[] } else { &report });
        undone += i32::from(s.events & abi::WL_EV_UNDO != 0);
        una = end;
    }
    assert_eq!(undone, 1);
}

/// All up to segment `una` is acknowledged, and then the path stands still until the timeout. The episode, and the window before it.
fn timed_out(una: u32, has_sack: bool) -> (Episode, u32) {
    let mut e = Episode::new(1000);
    e.ack(una, &[]);
    let (cwnd, _) = e.windows();
    if !has_sack {
        e.f.state_mut().flags &= !abi::WL_FLOW_SACK;
    }
    for wanted in [abi::WL_SILENCE_PROBE, abi::WL_SILENCE_TIMEOUT] {
        e.now_us += 400_000;
        let said = e.f.on_silence(e.now_us);
        assert_eq!(said, wanted);
        if said == abi::WL_SILENCE_TIMEOUT {
            let mut s = wl_sample { now_us: e.now_us, events: abi::WL_EV_TIMEOUT, ..wl_sample::default() };
            let calls = abi::WL_CALL_TIMEOUT | abi::WL_CALL_ACK;
            e.f.call(calls, &mut s, 0, u64::from(e.now_us) * 1000);
        }
        assert_eq!(e.repair(), [una]);
    }
    assert_eq!(e.windows().0, MSS);
    e.now_us += 1000;
    (e, cwnd)
}

#[test]
fn a_spurious_timeout_is_undone() {
    let (mut e, cwnd) = timed_out(19, true);
    // what had stood comes, and then the probe and the repair
    e.ack(20, &[]);
    e.ack(20, &[(19, 20)]);
    assert!(e.windows().0 < cwnd);
    let s = e.ack(20, &[(19, 20)]);
    assert_ne!(s.events & abi::WL_EV_UNDO, 0);
    assert!((cwnd..cwnd + MSS).contains(&e.windows().0));
    assert_eq!(e.windows().1, UNKNOWN);
}

/// F-RTO (RFC 5682, section 3): the first ACK after a timeout is for more than what was retransmitted. Only ACKs were lost or late.
#[test]
fn a_timeout_is_undone_when_what_it_lost_had_arrived() {
    for una in [20, 6] {
        let (mut e, cwnd) = timed_out(4, true);
        let s = e.ack(una, &[]);
        assert_ne!(s.events & abi::WL_EV_UNDO, 0, "{una}");
        assert!(e.windows().0 >= cwnd && e.windows().1 == UNKNOWN, "{una}: {:?}", e.windows());
        assert_eq!(e.f.state().lost_bytes, 0, "{una}");
    }
}

/// But the copy of the first proves nothing; nor does what is acknowledged with it and may have arrived before: without SACK, or reported.
#[test]
fn a_timeout_stands_when_what_was_sent_again_arrives() {
    for (una, has_sack) in [(5, true), (20, false)] {
        let (mut e, cwnd) = timed_out(4, has_sack);
        let s = e.ack(una, &[]);
        assert_eq!(s.events & abi::WL_EV_UNDO, 0, "{una}");
        assert!(e.windows().0 < cwnd, "{una}");
    }
    let mut e = Episode::new(1000);
    e.two_repairs();
    e.send(22);
    e.now_us += 1_000_000;
    assert_eq!(e.f.on_silence(e.now_us), abi::WL_SILENCE_TIMEOUT_AGAIN);
    let s = e.ack(22, &[]);
    assert_eq!(s.events & abi::WL_EV_UNDO, 0);
}

/// What the sender itself retransmits is a retransmission, too, whatever of it has a record of its own.
#[test]
fn a_loss_that_the_sender_repairs_is_not_undone() {
    for whole in [true, false] {
        let mut e = Episode::new(1000);
        let s = e.ack(0, &[(1, 20)]);
        assert_ne!(s.events & abi::WL_EV_RECOVERY_ENTER, 0);
        let end = e.at(0) + if whole { MSS } else { 100 };
        e.f.sender_retrans(e.at(0), end, e.now_us);
        e.now_us += RTT_US;
        let s = e.ack(20, &[]);
        assert_eq!(s.events & abi::WL_EV_UNDO, 0);
        e.is_reduced();
    }
}

/// In a bypass not all that the sender retransmits is seen.
#[test]
fn in_a_bypass_nothing_is_undone() {
    let mut e = Episode::new(1000);
    e.ack(0, &[(1, 20)]);
    e.f.state_mut().state = abi::WL_FLOW_BYPASS as u8;
    e.ack(0, &[(1, 20)]);
    e.f.state_mut().state = abi::WL_FLOW_ACTIVE as u8;
    let s = e.ack(20, &[]);
    assert_eq!(s.events & abi::WL_EV_UNDO, 0);
    e.is_reduced();
}

/// More may be reported twice than was retransmitted: the network has made copies. That proves nothing, until what
/// was retransmitted is reported by itself.
#[test]
fn a_report_of_more_than_was_retransmitted_undoes_nothing() {
    let mut e = Episode::new(1000);
    e.one_repair(0, 20);
    e.now_us += RTT_US;
    let s = e.ack(20, &[(0, 3)]);
    assert_eq!(s.events & abi::WL_EV_UNDO, 0);
    e.is_reduced();
    assert_ne!(e.ack(20, &[(0, 1)]).events & abi::WL_EV_UNDO, 0);
    e.is_restored();
}

/// While something that was lost still waits to be retransmitted, that nothing was lost is not proven.
#[test]
fn while_a_repair_waits_nothing_is_undone() {
    let mut e = Episode::new(1000);
    e.ack(0, &[(1, 5), (6, 20)]);
    let seq = e.at(0);
    e.f.repaired(seq, e.now_us);
    assert_eq!(e.f.state().lost_bytes, MSS, "segment 5 waits");
    e.now_us += 1000;
    let s = e.ack(5, &[(0, 1), (6, 20)]);
    assert_eq!(s.events & abi::WL_EV_UNDO, 0);
    e.is_reduced();
}

/// RFC 3522: an echo from before the retransmission proves a timeout spurious. What waits to be retransmitted then does no more, however
/// short its segments are: most of these stand in the overflow of their chunk.
#[test]
fn a_timeout_that_a_timestamp_proves_spurious_leaves_nothing_to_retransmit() {
    const SHORT: u32 = 100;
    for segs in [12, 100] {
        let mut f = flow(0);
        f.state_mut().flags |= abi::WL_FLOW_TIMESTAMPS;
        f.state_mut().decision.cwnd_bytes = WINDOW;
        (1..=segs).for_each(|i| f.send(i * SHORT, 0));
        f.state_mut().snd_tsval = 20;
        let mut now_us = 1_000_000;
        while f.state().flags & abi::WL_FLOW_RECOVERY == 0 {
            now_us += 100_000;
            f.on_silence(now_us);
        }
        let (seq, _) = f.next_repair().expect("all is lost");
        assert_eq!(seq, 0);
        f.repaired(seq, now_us);
        assert!(f.state().lost_bytes > 0);
        let late = wl_ack { has_ts: 1, tsecr: 10, ..ack(SHORT, now_us + 1000, &[]) };
        f.ack(&late);
        while f.state().todo != 0 {
            now_us += 1000;
            assert!(now_us < 60_000_000, "{segs}: {} B wait for ever", f.state().lost_bytes);
            f.detect(now_us);
        }
        assert_eq!((f.state().lost_bytes, f.next_repair()), (0, None), "{segs}");
        assert_eq!(f.state().flags & abi::WL_FLOW_RECOVERY, 0);
    }
}

/// Where segments are reordered, the timestamp that proves a retransmission spurious is what a report of a duplicate is (RFC 8985,
/// section 6.2): next time RACK waits longer. Elsewhere what came late was not reordered.
#[test]
fn what_a_timestamp_proves_spurious_widens_the_reordering_window() {
    for (flags, reo_wnd_mult) in [(0, 1), (abi::WL_FLOW_REORDERING, 2)] {
        let mut f = flow(0);
        f.state_mut().flags |= abi::WL_FLOW_TIMESTAMPS | flags;
        f.state_mut().decision.cwnd_bytes = WINDOW;
        f.state_mut().snd_tsval = 10;
        (1..=10).for_each(|i| f.send(i * MSS, 0));
        f.state_mut().snd_tsval = 20;
        f.ack(&ack(0, RTT_US, &[(MSS, 10 * MSS)]));
        f.detect(2 * RTT_US);
        if f.state().flags & abi::WL_FLOW_RECOVERY == 0 {
            f.recovery_enter(&mut wl_sample::default());
        }
        let (seq, _) = f.next_repair().expect("the first is lost");
        f.repaired(seq, 2 * RTT_US);
        let late = wl_ack { has_ts: 1, tsecr: 10, ..ack(10 * MSS, 2 * RTT_US + 1000, &[]) };
        assert_ne!(f.ack(&late).events & abi::WL_EV_UNDO, 0);
        assert_eq!(f.state().reo_wnd_mult, reo_wnd_mult);
    }
}
