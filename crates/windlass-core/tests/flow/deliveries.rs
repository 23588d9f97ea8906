//! What ACKs of one or several segments say beside what has arrived.

use super::{MSS, ack, flow};
use windlass_core::abi;

/// The newest stretch comes first among SACK blocks (RFC 2018, section 4). An ACK that was not lost tells of two stretches: whatever its
/// order, neither has overtaken the other.
#[test]
fn news_in_two_blocks_is_no_reordering() {
    let has_reordered = |acks: &[&[(u32, u32)]]| {
        let mut f = flow(0);
        (1..=20).for_each(|i| f.send(i * MSS, 1000));
        for (blocks, now_us) in acks.iter().zip(41_000..) {
            let blocks: Vec<_> = blocks.iter().map(|(start, end)| (start * MSS, end * MSS)).collect();
            f.ack(&ack(0, now_us, &blocks));
        }
        f.state().flags & abi::WL_FLOW_REORDERING != 0
    };
    assert!(!has_reordered(&[&[(1, 2)], &[(4, 5), (1, 3)]]));
    assert!(!has_reordered(&[&[(1, 2)], &[(6, 7), (4, 5), (1, 3)]]));
    assert!(has_reordered(&[&[(4, 5)], &[(1, 3), (4, 5)]]));
    assert!(has_reordered(&[&[(4, 5)], &[(6, 7), (4, 5), (1, 3)]]));
}

/// As Linux judges it (FLAG_ACK_MAYBE_DELAYED): the ACK of a full segment, or of one that followed others, did not wait.
#[test]
fn only_the_ack_of_a_lone_short_segment_may_have_waited() {
    let mut f = flow(0);
    f.send(MSS, 1000);
    assert_eq!(f.ack(&ack(MSS, 41_000, &[])).is_ack_delayed, 0);
    let end = MSS + 244;
    f.send(end, 50_000);
    assert_eq!(f.ack(&ack(end, 130_000, &[])).is_ack_delayed, 1);
    f.send(end + MSS, 140_000);
    f.send(end + MSS + 244, 140_000);
    assert_eq!(f.ack(&ack(end + MSS, 180_000, &[])).is_ack_delayed, 0);
    assert_eq!(f.ack(&ack(end + MSS + 244, 181_000, &[])).is_ack_delayed, 0);
    // nor does one that tells of a hole
    let end = end + MSS + 244;
    f.send(end + MSS, 200_000);
    f.send(end + MSS + 244, 200_000);
    assert_eq!(f.ack(&ack(end, 240_000, &[(end + MSS, end + MSS + 244)])).is_ack_delayed, 0);
}
