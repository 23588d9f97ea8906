//! Segments so short that several begin in one KiB of the stream: each has a record (core/flow/seg.h).

use super::{MSS, ack, flow, probe_after};
use windlass_core::{Flow, abi};

/// Records of a chunk besides those in slots.
const OVERFLOW: u32 = (abi::WL_RECORDS_PER_SLOT - 1) * abi::WL_BLOCK_SLOTS * abi::WL_CHUNK_BLOCKS;

/// A flow that has sent `n` messages of `bytes`, one each millisecond.
fn messages(base: u32, n: u32, bytes: u32) -> Flow {
    let mut f = flow(base);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    // later ones: of the first flight each would count as a full segment
    f.state_mut().first_segs = u8::MAX;
    (1..=n).for_each(|i| f.send(base.wrapping_add(i * bytes), i * 1000));
    f
}

/// All records in flight, as (seq, len).
fn records(f: &Flow) -> Vec<(u32, u32)> {
    let (mut at, nxt) = (f.state().una_seg, f.state().nxt);
    let mut all = Vec::new();
    while at != nxt {
        let Some(seg) = f.seg(at) else { panic!("no record at {at}") };
        assert_eq!(seg.seq, at);
        all.push((at, seg.len_bytes.into()));
        at = at.wrapping_add(seg.len_bytes.into());
    }
    all
}

/// RFC 6675: what a block reports is delivered, to the byte, and the message before it alone is lost.
#[test]
fn a_block_of_short_segments_is_honoured() {
    for base in [0, u32::MAX - 150] {
        let at = |i: u32| base.wrapping_add(i * 20);
        let mut f = messages(base, 50, 20);
        let s = f.ack(&ack(at(10), 55_000, &[(at(11), at(14))]));
        assert_eq!((s.newly_delivered_bytes, s.lost_bytes), (200 + 60, 20), "three after it are reported");
        assert_eq!(f.next_repair(), Some((at(10), 20)));
        f.repaired(at(10), 55_500);
        let s = f.ack(&ack(at(10), 60_000, &[(at(20), at(21)), (at(11), at(14))]));
        assert_eq!((s.newly_delivered_bytes, s.lost_bytes), (20, 120));
        f.ack(&ack(at(50), 96_000, &[]));
        let s = f.state();
        assert_eq!((s.una, s.sacked_bytes, s.sacked_records, s.lost_bytes), (at(50), 0, 0, 0));
        assert_eq!((s.overflow_records, s.delivered_bytes), (0, 1000));
    }
}

/// RFC 8985, section 6.2, step 4 counts segments: three that are reported end the wait for reordering, however short they are.
#[test]
fn three_short_segments_show_a_loss_at_once() {
    let mut f = messages(0, 10, 20);
    f.ack(&ack(20, 41_000, &[]));
    assert_eq!(f.ack(&ack(20, 43_000, &[(40, 80)])).lost_bytes, 0, "two may have been reordered");
    assert_eq!(f.ack(&ack(20, 44_000, &[(40, 100)])).lost_bytes, 20);
}

/// What is acknowledged frees the first record of a slot before the others: these stay linked, and later ones follow them.
#[test]
fn short_segments_stay_recorded_when_the_first_of_their_slot_is_acknowledged() {
    let mut f = messages(0, 6, 100);
    f.ack(&ack(250, 50_000, &[]));
    assert_eq!(records(&f), [(250, 50), (300, 100), (400, 100), (500, 100)], "cut where it is acknowledged");
    f.send(700, 51_000);
    f.send(800, 51_100);
    f.ack(&ack(450, 60_000, &[]));
    assert_eq!(records(&f), [(450, 50), (500, 100), (600, 100), (700, 100)]);
    assert_eq!(f.ack(&ack(450, 95_000, &[(600, 700)])).newly_delivered_bytes, 100);
}

/// A packet that lies before what begins in the same slot is filled in: the slot's first record moves.
#[test]
fn a_short_segment_before_the_first_of_its_slot_is_recorded() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    f.send(100, 0);
    f.ack(&ack(100, 40_000, &[]));
    assert!(f.send_at(300, 400, 50_000));
    assert!(f.send_at(200, 300, 50_100));
    assert!(f.send_at(100, 200, 50_200));
    assert!(f.is_whole());
    assert_eq!(records(&f), [(100, 100), (200, 100), (300, 100)]);
}

/// ... also when it waits to be retransmitted, and so stands in a list.
#[test]
fn a_listed_record_that_moves_stays_in_its_list() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    f.state_mut().srtt_us = 300_000;
    // of three packets the second begins in the slot in which the first ends
    f.send(2900, 0);
    f.send(3000, 1000);
    f.send(3100, 2000);
    f.send(3200, 2000);
    probe_after(&mut f, 2000);
    f.ack(&ack(0, 900_000, &[(3000, 3200)]));
    f.detect(2_000_000);
    assert_eq!(f.state().lost_bytes, 3000, "all before it");
    f.ack(&ack(0, 2_000_100, &[(2890, 2900), (3000, 3200)]));
    let mut lost = Vec::new();
    while let Some((seq, len)) = f.next_repair() {
        lost.push((seq, len));
        f.repaired(seq, 2_001_000);
    }
    assert_eq!(lost, [(0, MSS), (MSS, 2890 - MSS), (2900, 100)]);
}

/// Ends of packets are cut where they are acknowledged, whatever begins there besides.
#[test]
fn a_short_last_segment_is_cut_from_the_packet_before_it() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    let (end, tail) = (10 * MSS + 100, 10 * MSS);
    f.send(end, 0);
    f.send(end + 10 * MSS, 10);
    assert_eq!(f.ack(&ack(tail, 40_000, &[])).newly_delivered_bytes, 10 * MSS);
    assert_eq!(f.state().una_seg, tail);
    f.ack(&ack(tail, 41_000, &[(end, end + 10 * MSS)]));
    assert_eq!(f.next_repair(), Some((tail, 100)));
    assert_eq!(f.ack(&ack(end + 10 * MSS, 80_000, &[])).newly_delivered_bytes, 100);
    assert_eq!(f.state().delivered_bytes, end + 10 * MSS);
}

/// The path may take no more than the sender sends: each segment is retransmitted as it was.
#[test]
fn short_segments_are_retransmitted_one_by_one() {
    let segments = [548, 548, 240, MSS, 10, 10, 10];
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    let mut end = 0;
    for len in segments.iter().chain(&[MSS; 4]) {
        end += len;
        f.send(end, 0);
    }
    f.ack(&ack(0, 40_000, &[(end - 4 * MSS, end)]));
    let mut repaired = Vec::new();
    while let Some((seq, len)) = f.next_repair() {
        repaired.push(len);
        f.repaired(seq, 40_000);
    }
    assert_eq!(repaired, segments);
}

/// A chunk has a bounded number of records. What has none is reported, so that its loss is left to the sender; room that is
/// acknowledged is used again.
#[test]
fn more_short_segments_than_there_are_records_for_are_reported() {
    let mut f = flow(0);
    let fits = OVERFLOW + 1;
    for i in 0..fits {
        assert!(f.send_at(i, i + 1, 0), "{i}");
    }
    assert!(!f.send_at(fits, fits + 1, 0));
    f.forget(fits + 1);
    f.ack(&ack(fits + 1, 40_000, &[]));
    let mut at = fits + 1;
    for _ in 0..20 {
        for _ in 0..OVERFLOW / 2 {
            assert!(f.send_at(at, at + 20, 50_000), "{at}");
            at += 20;
        }
        f.ack(&ack(at, 90_000, &[]));
        while f.is_behind() {
            f.go_on(90_000);
        }
    }
    assert_eq!(f.state().overflow_records, 0);
}

/// Whatever is in flight, and whatever is reported: an event looks at a bounded number of records.
#[test]
fn work_for_short_segments_is_bounded() {
    let mut f = flow(0);
    f.state_mut().decision.cwnd_bytes = 40 * MSS;
    let n = OVERFLOW;
    (1..=n).for_each(|i| {
        f.send(i, i);
        assert!(f.take_touched() < 3 * OVERFLOW, "a packet");
    });
    for i in 0..n - 2 {
        let start = (i * 37) % (n - 2) + 1;
        f.ack(&ack(0, 40_000 + i, &[(start, start + 1), (start / 2, start / 2 + 1), (1, 2)]));
        let touched = f.take_touched();
        assert!(touched <= 6 * OVERFLOW, "{touched} records");
    }
    while f.is_behind() {
        f.go_on(80_000);
        assert!(f.take_touched() <= 6 * OVERFLOW, "a round of the clock");
    }
    for i in 0..n {
        f.detect(90_000 + i);
    }
    let s = f.state();
    assert!(s.sacked_bytes + s.lost_bytes >= s.nxt - 2, "all but the last is reported or found lost");
}
