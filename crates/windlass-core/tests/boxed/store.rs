//! What a flow holds of the store (core/box/store.h).

use super::{BASE, Bench, MSS};

/// Blocks and chunks.
fn held(b: &Bench) -> (u8, u16) {
    let s = b.flow.state();
    (s.stored_blocks, s.stored_chunks)
}

/// Segments `from` to `to` of the stream.
fn send(b: &mut Bench, from: u32, to: u32) {
    for i in from..to {
        b.sender(i * MSS, MSS);
    }
}

fn acknowledge(b: &mut Bench, offset: u32) {
    b.now_ns += 20 * super::MS;
    b.receiver(BASE + offset, 500, &[]);
}

#[test]
fn store_gives_blocks_to_a_flow_with_little_in_flight_and_chunks_where_there_is_more() {
    let mut b = Bench::new();
    send(&mut b, 0, 4);
    assert_eq!(held(&b), (2, 0), "as many as it touches");
    acknowledge(&mut b, 4 * MSS);
    assert_eq!(held(&b), (0, 0), "an idle flow stores nothing");
    send(&mut b, 4, 40);
    assert_eq!(held(&b), (9, 1), "more than blocks are given for");
    acknowledge(&mut b, 38 * MSS);
    assert_eq!(held(&b), (0, 1));
    // two segments of the chunk are in flight when the next one begins
    send(&mut b, 40, 48);
    assert_eq!(held(&b), (1, 1));
    acknowledge(&mut b, 46 * MSS);
    assert_eq!(held(&b), (1, 0));
    acknowledge(&mut b, 48 * MSS);
    assert_eq!(held(&b), (0, 0));
}

/// Of a block, a flow that grows within a chunk keeps it; what comes behind is in the chunk.
#[test]
fn store_adds_a_chunk_to_the_blocks_of_a_flow_that_grows() {
    let mut b = Bench::new();
    send(&mut b, 0, 28);
    assert_eq!(held(&b), (8, 1));
    acknowledge(&mut b, 24 * MSS);
    assert_eq!(held(&b), (0, 1));
    acknowledge(&mut b, 28 * MSS);
    assert_eq!(held(&b), (0, 0));
}

/// A block has records for sixteen segments. Of more, as an interactive session has in flight over a long path, nothing is left
/// to the sender.
#[test]
fn store_adds_a_chunk_for_the_records_of_many_short_segments() {
    let mut b = Bench::new();
    for i in 0..150 {
        b.sender(20 * i, 20);
        assert!(!b.is_bypassed(), "{i}");
    }
    assert_eq!(held(&b), (1, 1));
    // the third is lost; the segments that do not fit the box's steps wait for the clock
    b.now_ns += 20 * super::MS;
    for end in 4..=150 {
        b.receiver(BASE + 40, 500, &[(BASE + 60, BASE + 20 * end)]);
    }
    for _ in 0..20 {
        b.now_ns += super::MS;
        b.tick();
    }
    let repaired: Vec<_> =
        b.notes.sent.iter().filter(|s| s.to_sender == 0).map(|s| (s.seq, s.len_bytes)).collect();
    assert_eq!(repaired[0], (BASE + 40, 20));
    acknowledge(&mut b, 3000);
    for _ in 0..20 {
        b.now_ns += super::MS;
        b.tick();
    }
    assert_eq!(held(&b), (0, 0));
}
