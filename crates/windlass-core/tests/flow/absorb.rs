//! The sender's retransmissions are absorbed only while una moves (`core/flow/absorb.h`).

use super::{MSS, ack, flow};
use windlass_core::{Flow, abi};

/// As in absorb.h.
const FIRST_US: u32 = 2_000_000;
const FIRST_SACK_US: u32 = 20_000_000;
const RETRANS_SACK: u32 = 8;

/// Without SACK, which is waited for for less long.
fn in_flight() -> Flow {
    let mut f = in_flight_sack();
    f.state_mut().flags &= !abi::WL_FLOW_SACK;
    f
}

/// Four segments, of which the second round trip took 40 ms: a timeout of 240 ms.
fn in_flight_sack() -> Flow {
    let mut f = flow(0);
    f.send(4 * MSS, 0);
    f.ack(&ack(MSS, 40_000, &[]));
    f.offered(MSS, 100 * MSS, 40_000);
    f
}

const RTO_US: u32 = 240_000;

#[test]
fn absorb_ends_one_timeout_after_the_second_retransmission_of_una() {
    let mut f = in_flight();
    assert!(!f.absorb_is_waiting());
    f.absorb_on_retrans(MSS, 2 * MSS, 400_000);
    assert!(f.absorb_is_waiting());
    assert!(!f.absorb_is_overdue(400_000 + FIRST_US - 1));
    assert!(
        f.absorb_is_overdue(400_000 + FIRST_US),
        "the sender may wait for longer before it retransmits again"
    );
    f.absorb_on_retrans(MSS, 2 * MSS, 900_000);
    assert!(!f.absorb_is_overdue(900_000 + RTO_US - 1));
    assert!(f.absorb_is_overdue(900_000 + RTO_US));
    // further ones put it off no more
    f.absorb_on_retrans(MSS, 2 * MSS, 1_000_000);
    assert!(f.absorb_is_overdue(900_000 + RTO_US));
    // nor is a second one that comes late
    let mut late = in_flight();
    late.absorb_on_retrans(MSS, 2 * MSS, 400_000);
    late.absorb_on_retrans(MSS, 2 * MSS, 300_000 + FIRST_US);
    assert!(late.absorb_is_overdue(400_000 + FIRST_US));
    let deadline_ns = f.deadline_ns(900_000_000, 0);
    assert!(
        (1..=u64::from(900_000 + RTO_US) * 1000).contains(&deadline_ns),
        "the clock comes by: {deadline_ns}"
    );
}

#[test]
fn absorb_takes_only_an_acknowledgement_for_progress() {
    let mut f = in_flight_sack();
    for i in 0..RETRANS_SACK {
        assert!(!f.absorb_is_overdue(900_000), "retransmission {i}");
        f.absorb_on_retrans(MSS, 2 * MSS, 200_000 + 100_000 * i);
    }
    f.ack(&ack(MSS, 950_000, &[(2 * MSS, 4 * MSS)]));
    assert!(f.absorb_is_overdue(900_000 + RTO_US), "what SACK reports may have arrived without any repair");
    f.ack(&ack(MSS + 1, 960_000, &[]));
    assert!(!f.absorb_is_waiting() && !f.absorb_is_overdue(4_000_000));
    f.absorb_on_retrans(MSS + 1, 2 * MSS, 4_000_000);
    assert!(!f.absorb_is_overdue(4_000_000 + FIRST_SACK_US - 1), "counting begins anew");
    assert!(f.absorb_is_overdue(4_000_000 + FIRST_SACK_US));
}

#[test]
fn absorb_is_not_judged_by_probes_of_a_closed_window() {
    let mut f = in_flight();
    f.offered(MSS, MSS, 50_000);
    for now_us in [400_000, 900_000] {
        f.absorb_on_retrans(MSS, 2 * MSS, now_us);
    }
    assert!(!f.absorb_is_waiting());
}

#[test]
fn absorb_ends_two_seconds_after_a_probe_of_the_tail_and_no_earlier_by_it() {
    let mut f = in_flight();
    for now_us in [400_000, 900_000] {
        f.absorb_on_retrans(3 * MSS, 4 * MSS, now_us);
    }
    assert!(!f.absorb_is_overdue(400_000 + FIRST_US - 1));
    assert!(
        f.absorb_is_overdue(400_000 + FIRST_US),
        "a sender that has nothing but the tail in flight may be ahead of una, too"
    );
    f = in_flight();
    f.absorb_on_retrans(3 * MSS, 4 * MSS, 400_000);
    f.absorb_on_retrans(MSS, 2 * MSS, 600_000);
    assert!(!f.absorb_is_overdue(600_000 + RTO_US), "the first one of una");
    f.absorb_on_retrans(MSS, 2 * MSS, 1_100_000);
    assert!(f.absorb_is_overdue(1_100_000 + RTO_US), "the second one");
}

#[test]
fn absorb_forgets_with_the_records() {
    let mut f = in_flight();
    for now_us in [400_000, 900_000] {
        f.absorb_on_retrans(MSS, 2 * MSS, now_us);
    }
    assert!(f.absorb_is_waiting());
    f.forget(4 * MSS);
    assert!(!f.absorb_is_waiting());
}

/// Acknowledgements reach the sender that do not count here, as forged numbers have been learnt: it retransmits from where it is.
#[test]
fn absorb_ends_for_a_sender_that_is_ahead_of_una() {
    let mut f = in_flight();
    f.absorb_on_retrans(2 * MSS, 3 * MSS, 400_000);
    f.absorb_on_retrans(2 * MSS, 3 * MSS, 900_000);
    assert!(
        !f.absorb_is_overdue(400_000 + FIRST_US - 1),
        "after a timeout several segments follow each other"
    );
    assert!(f.absorb_is_overdue(400_000 + FIRST_US));
}
