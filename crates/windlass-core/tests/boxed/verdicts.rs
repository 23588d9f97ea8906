//! What becomes of single segments.

use super::{BASE, Bench, MS, MSS, PEER, segment};
use windlass_core::abi;

/// Of five segments in flight the first is lost.
fn with_a_loss() -> Bench {
    let mut b = Bench::new();
    for i in 0..5 {
        assert_eq!(b.sender(i * MSS, MSS).is_absorbed, 0);
    }
    b.now_ns += 20 * MS;
    for end in 2..=5 {
        let verdict = b.receiver(BASE, 500, &[(BASE + MSS, BASE + end * MSS)]);
        assert!(verdict.is_absorbed == 1 || verdict.hides_sack == 1, "the box repairs what it reports");
    }
    b
}

#[test]
fn handshake_options_of_both_syns_are_in_force() {
    let b = Bench::new();
    let s = b.flow.state();
    assert_eq!((s.base, s.rcv_seq, s.mss_bytes), (BASE, PEER, MSS as u16));
    assert_eq!(s.flags & (abi::WL_FLOW_SACK | abi::WL_FLOW_TIMESTAMPS), abi::WL_FLOW_SACK);
    assert_eq!((s.rcv_wscale(), b.count(abi::WL_C_FLOWS_CREATED)), (super::WSCALE, 1));
}

#[test]
fn store_holds_a_block_from_data_to_its_acknowledgement() {
    let mut b = Bench::new();
    b.sender(0, MSS);
    let stored = |b: &Bench| (b.flow.state().stored_blocks, b.flow.state().stored_chunks);
    assert_eq!((stored(&b), b.count(abi::WL_C_STORED_BYTES)), ((1, 0), MSS.into()));
    b.now_ns += 20 * MS;
    let verdict = b.receiver(BASE + MSS, 500, &[]);
    assert_eq!((verdict.is_absorbed, verdict.ack), (0, BASE + MSS));
    assert_eq!(stored(&b), (0, 0));
}

#[test]
fn repair_carries_what_was_lost_and_is_the_clocks() {
    let mut b = with_a_loss();
    assert_ne!(b.notes.deadline_ns, 0, "the clock has work");
    b.now_ns += MS;
    b.tick();
    let sent: Vec<_> = b.notes.sent.iter().map(|s| (s.to_sender, s.seq, s.len_bytes, s.ack)).collect();
    assert_eq!(sent, [(0, BASE, MSS, PEER)]);
    assert_eq!(b.count(abi::WL_C_REPAIRED_SEGS), 1);
    // which makes the sender's own retransmission superfluous
    assert_eq!(b.sender(0, MSS).is_absorbed, 1);
}

#[test]
fn repair_is_not_absorbed_for_where_there_is_no_clock() {
    let mut b = with_a_loss();
    b.notes.is_clock_lost = true;
    assert_eq!(b.receiver(BASE, 500, &[(BASE + MSS, BASE + 5 * MSS)]).is_absorbed, 0);
    assert!(b.is_bypassed());
    assert_eq!(b.sender(0, MSS).is_absorbed, 0);
}

/// The algorithm could only decide blindly: the sender has its own window.
#[test]
fn bypass_with_nothing_stored_has_the_receivers_window() {
    let mut b = Bench::new();
    b.notes.refusal = abi::WL_C_BYPASS_STORE_FULL;
    b.sender(0, MSS);
    b.notes.refusal = 0;
    // the block was reserved before the refusal, and has been given back
    assert!(b.is_bypassed() && b.flow.state().stored_blocks == 0);
    b.now_ns += 20 * MS;
    assert_eq!(b.receiver(BASE, 500, &[]).window_field, 500);
}

#[test]
fn probe_of_a_closed_window_passes() {
    let mut b = Bench::new();
    b.sender(0, 4 * MSS);
    b.now_ns += 20 * MS;
    b.receiver(BASE + 3 * MSS, 0, &[]);
    for _ in 0..3 {
        b.now_ns += 300 * MS;
        assert_eq!(b.sender(3 * MSS, MSS).is_absorbed, 0, "its receiver has to answer it");
    }
    assert_eq!(b.count(abi::WL_C_SENDER_RETRANS_ABSORBED), 0);
}

#[test]
fn conflict_hands_back_what_is_in_flight() {
    let mut b = with_a_loss();
    b.notes.differs = true;
    assert_eq!(b.sender(0, MSS).is_absorbed, 0);
    assert!(b.is_bypassed());
    assert_eq!(b.count(abi::WL_C_BYPASS_CONFLICT), 1);
}

#[test]
fn acceptance_leaves_a_flow_as_it_was_for_what_its_receiver_refuses() {
    let mut b = Bench::new();
    let before = *b.flow.state();
    let forged = segment(BASE + (1 << 30), PEER + (1 << 30), MSS, 1, 0);
    assert_eq!(b.sender_with(forged).is_absorbed, 0);
    let after = *b.flow.state();
    assert_eq!(
        (after.nxt, after.snd_window_field, after.flags),
        (before.nxt, before.snd_window_field, before.flags)
    );
    assert_eq!(b.count(abi::WL_C_PASS_DATA_OUTSIDE), 1);
}

#[test]
fn close_is_the_acknowledgement_of_both_fins() {
    let mut b = Bench::new();
    b.sender(0, MSS);
    b.now_ns += 20 * MS;
    assert_eq!(b.sender_with(segment(BASE + MSS, PEER, 0, 500, abi::WL_TCP_FIN)).is_over, 0);
    let fin = segment(PEER, BASE + MSS, 0, 500, abi::WL_TCP_FIN);
    assert_eq!(b.flow.from_receiver(&mut b.notes, &fin, b.now_ns).is_over, 0);
    let mut last = segment(PEER + 1, BASE + MSS + 1, 0, 500, 0);
    assert_eq!(b.flow.from_receiver(&mut b.notes, &last, b.now_ns).is_over, 1);
    last.tcp.flags = abi::WL_TCP_RST as u8;
    last.tcp.seq = PEER + 100;
    assert_eq!(
        b.flow.from_receiver(&mut b.notes, &last, b.now_ns).is_over,
        0,
        "not the number that is expected"
    );
}

/// What a repair looks like below TCP: as the sender's packets that the receiver has acknowledged, not as one that a forger has sent.
#[test]
fn header_of_new_data_is_in_force_once_they_are_acknowledged() {
    let mut b = Bench::new();
    let mut with_ttl = |seq: u32, ttl: u8| {
        let mut s = segment(BASE + seq, PEER, MSS, 500, 0);
        s.tcp.header.ttl = ttl;
        b.sender_with(s);
        b.flow.state().header.ttl
    };
    assert_eq!([with_ttl(0, 60), with_ttl(MSS, 60)], [0, 0], "it is that of the SYN-ACK until then");
    b.now_ns += 20 * MS;
    b.receiver(BASE + MSS, 500, &[]);
    assert_eq!(b.flow.state().header.ttl, 60);
}

#[test]
fn header_of_new_data_is_forgotten_when_other_data_differ_from_it() {
    let mut b = Bench::new();
    for (i, ttl) in [60, 61, 0].into_iter().enumerate() {
        let mut s = segment(BASE + i as u32 * MSS, PEER, MSS, 500, 0);
        s.tcp.header.ttl = ttl;
        b.sender_with(s);
    }
    b.now_ns += 20 * MS;
    b.receiver(BASE + 3 * MSS, 500, &[]);
    assert_eq!(b.flow.state().header.ttl, 0);
}

/// Timestamps that count microseconds have run half round their 32 bits meanwhile (RFC 7323, section 5.5).
#[test]
fn timestamps_after_a_rest_of_eighteen_minutes_are_not_taken_for_old_ones() {
    let mut b = Bench::new();
    b.sender(0, MSS);
    b.receiver(BASE + MSS, 500, &[]);
    assert_eq!(b.flow.state().flags & abi::WL_FLOW_RESTED, 0);
    b.now_ns += 18 * 60 * 1000 * MS;
    b.sender(MSS, MSS);
    assert_ne!(b.flow.state().flags & abi::WL_FLOW_RESTED, 0);
}
