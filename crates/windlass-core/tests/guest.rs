//! How long a guest's flows go by what their host has answered.

use windlass_core::abi::{self, wln_guest_counts, wln_guest_rto_us};

fn counts(now_us: u32, at_us: u32, rto_us: u32) -> bool {
    // SAFETY: plain calls without pointers.
    unsafe { wln_guest_counts(now_us, at_us, rto_us) != 0 }
}

fn rto_us(srtt_us: u32, rttvar_us: u32) -> u32 {
    // SAFETY: as above.
    unsafe { wln_guest_rto_us(srtt_us, rttvar_us) }
}

/// The kernel keeps four mean deviations, 200 ms at least, in its rttvar.
#[test]
fn a_retransmission_timeout_is_that_of_the_kernel() {
    assert_eq!(rto_us(40_000, 200_000), 240_000);
    assert_eq!(rto_us(0, 250_000), abi::WL_GUEST_FIRST_RTO_US);
    assert_eq!(rto_us(u32::MAX, 1), u32::MAX);
}

/// To the microsecond, and across the wrap of the clock.
#[test]
fn an_answer_counts_for_one_retransmission_timeout_and_no_longer() {
    let rto_us = rto_us(40_000, 200_000);
    for at_us in [0, 1_000_000, u32::MAX - 100_000, u32::MAX] {
        // of a flow that rested for forty minutes, too
        let ages =
            [(0, true), (rto_us, true), (rto_us + 1, false), (10 * rto_us, false), (2_400_000_000, false)];
        for (age_us, expected) in ages {
            assert_eq!(counts(at_us.wrapping_add(age_us), at_us, rto_us), expected, "{age_us} after {at_us}");
        }
        // another processor's clock may be a little behind
        assert!(counts(at_us.wrapping_sub(100), at_us, rto_us));
    }
}
