//! How much work one event may cause, whatever is in flight and whatever the receiver reports (core/flow/work.h).

use super::{MSS, ack, flow};
use windlass_core::{Flow, abi};

/// In flight: as much as one flow may have.
const SEGS: u32 = (abi::WL_FLOW_STORE_BYTES - abi::WL_CHUNK_BYTES) / MSS;
/// Records that one event may look at: its steps, the slots of one record for each block whose begin is searched for, and the
/// neighbours in their list of those that are taken out of it.
const TOUCHED_MAX: u32 = 400;

/// All sent at one time, with nothing acknowledged.
fn full_flow() -> Flow {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = abi::WL_CWND_MAX_BYTES;
    for i in 1..=SEGS {
        f.send(i * MSS, i);
    }
    f.take_touched();
    f
}

#[track_caller]
fn assert_little_work(f: &mut Flow, what: &str) {
    let touched = f.take_touched();
    assert!(touched <= TOUCHED_MAX, "{what}: {touched} records");
}

/// Goes on as the clock does until nothing is left; returns how many rounds that took.
fn catch_up(f: &mut Flow, now_us: u32) -> u32 {
    let mut rounds = 0;
    while f.is_behind() {
        f.go_on(now_us);
        assert_little_work(f, "a round of the clock");
        rounds += 1;
    }
    rounds
}

fn random(state: &mut u64) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 32) as u32
}

#[test]
fn work_for_any_sack_blocks_is_bounded() {
    let mut f = full_flow();
    let mut rng = 7;
    for i in 0..3000 {
        let mut block = || {
            let start = random(&mut rng) % (SEGS * MSS);
            (start, start + random(&mut rng) % (SEGS * MSS - start) + 1)
        };
        let blocks = [block(), block(), block(), block()];
        f.ack(&ack(0, 40_000 + i * 10, &blocks));
        assert_little_work(&mut f, "four blocks");
        f.judge(40_005 + i * 10);
        assert_little_work(&mut f, "losses judged by time");
    }
    let s = f.state();
    assert!(s.sacked_bytes + s.lost_bytes <= SEGS * MSS);
}

/// Each ACK does its part of the block, and so do rounds of the clock; what is still to be marked is not lost meanwhile.
#[test]
fn a_large_sack_block_is_marked_by_and_by_and_nothing_of_it_lost() {
    let mut f = full_flow();
    let reported = (SEGS - 100) * MSS;
    let first = f.ack(&ack(0, 40_000, &[(100 * MSS, SEGS * MSS)]));
    assert_little_work(&mut f, "a large block");
    assert!(first.newly_delivered_bytes > 0 && first.newly_delivered_bytes < reported);
    assert!(f.is_behind());
    assert_eq!(first.lost_bytes, 0);
    assert!(f.deadline_ns(50_000_000, 0) <= 50_000_000, "the clock goes on with it at its next round");
    let mut lost = 0;
    while f.is_behind() {
        assert_eq!(lost, 0, "unfinished");
        lost += f.go_on(40_000).0.lost_bytes;
        assert_little_work(&mut f, "a round of the clock");
    }
    assert_eq!(f.state().sacked_bytes, reported);
    // now RACK judges the hundred before it
    for _ in 0..10 {
        lost += f.detect(90_000);
        assert_little_work(&mut f, "losses judged");
    }
    assert_eq!(lost, 100 * MSS);
}

#[test]
fn a_large_cumulative_ack_moves_una_by_and_by() {
    let mut f = full_flow();
    let s = f.ack(&ack(SEGS * MSS, 40_000, &[]));
    assert_little_work(&mut f, "a large acknowledgement");
    assert!(s.acked_bytes >= 40 * MSS && s.acked_bytes < SEGS * MSS);
    assert_eq!(s.rtt_us, 0, "what is taken off first was sent longer ago than what was acknowledged last");
    assert!(catch_up(&mut f, 41_000) >= SEGS / abi::WL_CUMULATIVE_STEPS);
    let s = f.state();
    assert_eq!((s.una, s.una_seg, s.delivered_bytes, s.lost_bytes), (s.nxt, s.nxt, SEGS * MSS, 0));
}

/// The lists of the lost and of the retransmitted are chained: of a record that leaves one both neighbours are looked at, too.
#[test]
fn a_large_cumulative_ack_of_what_was_lost_or_retransmitted_moves_una_by_and_by() {
    for repaired in [0, 1000] {
        let mut f = full_flow();
        f.ack(&ack(0, 40_000, &[((SEGS - 1) * MSS, SEGS * MSS)]));
        for _ in 0..SEGS {
            f.detect(90_000);
        }
        assert!(f.state().lost_bytes > 2000 * MSS);
        f.state_mut().repair_room_bytes = u32::MAX; // as after a timeout
        for _ in 0..repaired {
            let (seq, _) = f.next_repair().expect("it is lost");
            f.repaired(seq, 100_000);
        }
        f.take_touched();
        f.ack(&ack(SEGS * MSS, 140_000, &[]));
        assert_little_work(&mut f, "a large acknowledgement");
        catch_up(&mut f, 141_000);
        let s = f.state();
        assert_eq!((s.una, s.delivered_bytes, s.resent_bytes), (s.nxt, SEGS * MSS, 0));
    }
}

/// An older acknowledgement that comes meanwhile takes nothing back, a newer one is taken as well.
#[test]
fn acks_that_come_while_one_is_taken_in_parts_are_taken_as_well() {
    let mut f = full_flow();
    for (at, expected) in [(2000, 2000), (1000, 2000), (3000, 3000)] {
        f.ack(&ack(at * MSS, 40_000, &[]));
        assert_little_work(&mut f, "an acknowledgement of thousands");
        assert_eq!(f.state().acked, expected * MSS);
    }
    catch_up(&mut f, 41_000);
    assert_eq!((f.state().una, f.state().delivered_bytes), (3000 * MSS, 3000 * MSS));
    assert_eq!(f.state().lost_segs, 0);
}

/// The rest would else seem to have been passed by what is acknowledged with it (RACK), or to be a hole (NewReno).
#[test]
fn a_repair_that_acknowledges_thousands_of_segments_finds_nothing_lost() {
    for has_sack in [true, false] {
        let flags = if has_sack { abi::WL_FLOW_SACK } else { 0 };
        let mut f = Flow::new(0, MSS, flags | abi::WL_FLOW_PACED_JUDGED);
        f.state_mut().decision.cwnd_bytes = abi::WL_CWND_MAX_BYTES;
        f.send(10 * MSS, 1);
        f.ack(&ack(10 * MSS, 40_000, &[]));
        for i in 11..=3000 {
            f.send(i * MSS, 41_000 + i);
        }
        for i in 0..4 {
            let blocks = [(11 * MSS, (20 + i) * MSS)];
            f.ack(&ack(10 * MSS, 90_000 + i, if has_sack { &blocks } else { &[] }));
        }
        assert_eq!(f.state().lost_segs, 1);
        assert_eq!(f.next_repair(), Some((10 * MSS, MSS)));
        f.repaired(10 * MSS, 90_010);
        f.take_touched();
        f.ack(&ack(3000 * MSS, 140_000, &[]));
        assert_little_work(&mut f, "a repair");
        catch_up(&mut f, 141_000);
        f.detect(300_000);
        let s = f.state();
        assert_eq!(
            (s.una, s.lost_segs, s.flags & abi::WL_FLOW_RECOVERY),
            (3000 * MSS, 1, 0),
            "SACK: {has_sack}"
        );
    }
}

/// Repaired holes join stretches that are reported already, which no later ACK has to walk through again: what it reports besides is marked.
#[test]
fn a_sack_block_that_joins_thousands_of_segments_leaves_work_for_others() {
    let mut f = full_flow();
    let mut now_us = 40_000;
    let mut report = |f: &mut Flow, blocks: &[(u32, u32)]| {
        now_us += 100;
        let blocks: Vec<_> = blocks.iter().map(|(start, end)| (start * MSS, end * MSS)).collect();
        f.ack(&ack(0, now_us, &blocks));
        assert_little_work(f, "blocks of SACK");
    };
    // 100 stretches of 99 segments, each behind a hole; all but the newest have left the cache
    let last = 10_000;
    for end in (2..=last).filter(|i| i % 100 != 1) {
        let start = (end - 1) / 100 * 100 + 1;
        report(&mut f, &[(start, end)]);
    }
    assert!(!f.is_behind());
    for hole in (1..100).map(|i| i * 100) {
        report(&mut f, &[(1, hole + 100), (last + 100, last + 101 + hole / 100)]);
        assert!(!f.is_behind(), "{hole}");
    }
    assert_eq!(f.state().sacked_bytes, (last - 1 + 100) * MSS);
}

/// All of it, in stream order, the head first even while the others are still to be marked.
#[test]
fn a_timeout_marks_all_lost_by_and_by() {
    let mut f = full_flow();
    let lost = f.ack(&ack(0, 40_000, &[(50 * MSS, 60 * MSS)])).lost_bytes;
    assert_eq!(lost + f.detect(90_000), 50 * MSS);
    f.take_touched();
    let mut now_us = 1_000_000;
    while f.on_silence(now_us) < abi::WL_SILENCE_TIMEOUT {
        assert_little_work(&mut f, "a probe");
        now_us += 1_000_000;
    }
    assert_little_work(&mut f, "a timeout");
    assert!(f.state().lost_bytes < SEGS * MSS / 2);
    assert_eq!(f.next_repair().map(|(seq, _)| seq), Some(0));
    f.repaired(0, now_us);
    for _ in 0..SEGS {
        f.detect(now_us + 1);
        assert_little_work(&mut f, "what a timeout has begun");
    }
    let s = f.state();
    assert_eq!(s.lost_bytes + s.sacked_bytes + MSS, SEGS * MSS);
    let mut before = 0;
    while let Some((seq, _)) = f.next_repair() {
        assert!(seq > before, "{seq} after {before}");
        before = seq;
        f.repaired(seq, now_us + 2);
    }
}

/// What is sent after the timeout, or retransmitted, is not lost by it.
#[test]
fn a_timeout_that_is_gone_on_with_spares_what_is_sent_since() {
    let mut f = full_flow();
    f.ack(&ack(MSS, 40_000, &[]));
    let mut now_us = 10_000_000;
    while f.on_silence(now_us) < abi::WL_SILENCE_TIMEOUT {
        now_us += 10_000_000;
    }
    let nxt = f.state().nxt;
    f.send(nxt + MSS, now_us + 10);
    for _ in 0..SEGS {
        f.detect(now_us + 20);
    }
    assert_eq!(f.state().lost_bytes, nxt - MSS);
}

/// A receiver that throws away thousands of segments it has reported.
#[test]
fn reneging_is_found_by_and_by() {
    let mut f = full_flow();
    f.ack(&ack(MSS, 40_000, &[(2 * MSS, SEGS * MSS)]));
    catch_up(&mut f, 40_100);
    assert_eq!(f.state().sacked_bytes, (SEGS - 2) * MSS);
    // it stops in front of what it has reported
    f.ack(&ack(2 * MSS, 80_000, &[]));
    f.take_touched();
    let mut now_us = 10_000_000;
    while f.on_silence(now_us) < abi::WL_SILENCE_TIMEOUT {
        assert_little_work(&mut f, "a silence");
        now_us += 10_000_000;
    }
    for _ in 0..SEGS {
        f.detect(now_us + 1);
        assert_little_work(&mut f, "what reneging has begun");
    }
    let s = f.state();
    assert_eq!((s.sacked_bytes, s.delivered_bytes, s.lost_bytes), (0, 2 * MSS, (SEGS - 2) * MSS));
}

/// A short packet at the end of a long hole.
#[test]
fn work_for_data_behind_a_hole_is_bounded() {
    let mut f = flow(0);
    let mut at = 2000;
    while at + 2000 < SEGS * MSS {
        assert!(f.send_at(at, at + 64, at));
        at += 65_536;
    }
    f.take_touched();
    for back in 1..2000 {
        f.data_kind(at - 65_536 - 64 - back, 32);
        assert_little_work(&mut f, "data in a hole");
    }
}
