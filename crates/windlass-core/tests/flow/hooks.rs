//! The hooks of a flow's algorithm, called as every home has them called.

use super::{MSS, flow};
use windlass_core::{
    Algorithm,
    abi::{self, wl_sample},
};

/// What the algorithm before it kept of the flow means nothing to one that takes over.
#[test]
fn an_algorithm_begins_with_a_state_of_zeros() {
    for algorithm in Algorithm::all() {
        let begun = |left: u64| {
            let mut f = flow(0);
            f.state_mut().algorithm = algorithm.id() as u8;
            f.state_mut().alg.words.fill(left);
            f.call(abi::WL_CALL_INIT, &mut wl_sample::default(), 0, 0);
            (f.state().alg, f.state().decision)
        };
        assert!(begun(0) == begun(u64::MAX), "{algorithm:?}");
    }
}

/// All ACKs of a round come before what they let out, which a sender 69 ms away sends 69 ms later: the window that they acknowledge was
/// full, and grows with each of them. A round later it is known that the sender has left room unused.
#[test]
fn a_window_that_was_full_grows_with_all_acks_of_the_next_round() {
    for base in [0, 1 << 30, 3 << 30, u32::MAX - MSS] {
        let mut f = flow(base);
        f.state_mut().algorithm = Algorithm::all().find(|a| a.name() == "cubic").unwrap().id() as u8;
        f.call(abi::WL_CALL_INIT, &mut wl_sample::default(), 0, 0);
        f.state_mut().flags |= abi::WL_FLOW_CWND_LIMITED;
        let mut grows = |events| {
            let before = f.state().decision.cwnd_bytes;
            let mut s = wl_sample { newly_delivered_bytes: 2 * MSS, events, ..wl_sample::default() };
            f.call(abi::WL_CALL_ACK, &mut s, 0, 0);
            f.state().decision.cwnd_bytes > before
        };
        assert!((0..5).all(|i| grows(if i == 0 { abi::WL_EV_ROUND_START } else { 0 })), "{base}");
        grows(abi::WL_EV_ROUND_START);
        assert!(!grows(0), "{base}");
    }
}

/// Of a far server a window takes several rounds behind the box: it is in use in each of them, until what was granted when it was full is
/// acknowledged, wherever in the sequence space that is.
#[test]
fn the_window_of_a_far_server_is_in_use_until_what_was_granted_is_acknowledged() {
    for base in [0, 1 << 31, u32::MAX - 5 * MSS] {
        let mut f = flow(base);
        f.state_mut().algorithm = Algorithm::all().find(|a| a.name() == "cubic").unwrap().id() as u8;
        f.call(abi::WL_CALL_INIT, &mut wl_sample::default(), 0, 0);
        f.state_mut().was_cwnd_limited = 1;
        f.state_mut().cwnd_limited_edge = base.wrapping_add(10 * MSS);
        for segs in 1..20 {
            f.state_mut().una = base.wrapping_add(segs * MSS);
            let events = abi::WL_EV_ROUND_START;
            f.call(abi::WL_CALL_ACK, &mut wl_sample { events, ..wl_sample::default() }, 0, 0);
            assert_eq!(f.state().was_cwnd_limited == 1, segs < 10, "{base} {segs}");
        }
    }
}
