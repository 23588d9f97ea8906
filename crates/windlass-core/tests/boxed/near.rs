//! The near RTT of the handshake: how far the sender is from the box (core/flow/near.h).

use crate::{BASE, MS, Notes, PEER, segment, syn};
use windlass_core::{
    Flow,
    abi::{self, wl_handshake},
    begins, on_syn,
};

/// What a SYN or SYN-ACK of `from_sender` with this number and acknowledgement (0: none) does, `at_ms`.
type Syn = (bool, u32, u32, u64);

/// The near RTT, in ms rounded down, with which a flow begins that these SYNs open and a segment of `from_sender` completes.
fn near_ms(syns: &[Syn], (from_sender, at_ms): (bool, u64)) -> Option<u32> {
    let mut notes = Notes::default();
    let mut handshake = wl_handshake::default();
    for &(from_sender, seq, ack, at_ms) in syns {
        let flags = if ack == 0 { 0 } else { abi::WL_TCP_ACK };
        on_syn(&mut notes, &mut handshake, &syn(seq, ack, flags), from_sender, at_ms * MS);
    }
    let first = if from_sender { segment(BASE, PEER, 0, 500, 0) } else { segment(PEER, BASE, 0, 500, 0) };
    assert!(begins(&mut handshake, &first, from_sender));
    let flow = Flow::begin(&mut notes, (0, 0), &handshake, &first, from_sender, at_ms * MS);
    let us = flow.state().near_rtt_us;
    (us != 0).then_some(us / 1000)
}

const SYN: Syn = (false, PEER - 1, 0, 100);
const SYN_ACK: Syn = (true, BASE - 1, PEER, 130);

#[test]
fn the_near_rtt_is_known_from_the_handshake_whoever_opens() {
    assert_eq!(near_ms(&[SYN, SYN_ACK], (false, 180)), Some(30));
    assert_eq!(near_ms(&[SYN, SYN_ACK], (true, 180)), Some(30));
    // the sender opens; its third segment answers the SYN-ACK
    let opened = [(true, BASE - 1, 0, 100), (false, PEER - 1, BASE, 150)];
    assert_eq!(near_ms(&opened, (true, 157)), Some(7));
    // of that one the receiver's next segment shows nothing
    assert_eq!(near_ms(&opened, (false, 157)), None);
    // answered at once is known, too
    assert_eq!(near_ms(&[SYN, (true, BASE - 1, PEER, 100)], (false, 180)), Some(0));
}

/// Karn's rule: the answer may be to either.
#[test]
fn a_retransmitted_syn_or_syn_ack_gives_no_near_rtt_but_not_one_after_the_answer() {
    let again = (false, PEER - 1, 0, 120);
    assert_eq!(near_ms(&[SYN, again, SYN_ACK], (false, 180)), None);
    assert_eq!(near_ms(&[SYN, again, SYN_ACK], (true, 180)), None);
    assert_eq!(near_ms(&[SYN, SYN_ACK, (true, BASE - 1, PEER, 1130)], (false, 1180)), None);
    assert_eq!(near_ms(&[SYN, SYN_ACK, (false, PEER - 1, 0, 1100)], (false, 1180)), Some(30));
}

/// A SYN with another number, forged or not, does not say when the one came that is answered.
#[test]
fn a_second_syn_makes_the_near_rtt_no_shorter() {
    let forged = (false, 77, 0, 129);
    assert_eq!(near_ms(&[SYN, forged, SYN_ACK], (false, 180)), None);
    let answered_late = (false, 77, 0, 140);
    assert_eq!(near_ms(&[SYN, SYN_ACK, answered_late], (false, 180)), Some(30));
    // a new connection of the same ports
    assert_eq!(
        near_ms(&[forged, (false, PEER - 1, 0, 200), (true, BASE - 1, PEER, 205)], (false, 280)),
        Some(5)
    );
}
