//! Ledgers of flows and the records that are made of them (`core/ledger/`).

use crate::abi::{self, wl_flow, wl_flow_record, wl_ledger};

/// The round-trip time that `permille` of a histogram's samples do not exceed; 0: there is no sample.
pub fn rtt_quantile_us(buckets: &[u32; abi::WL_RTT_BUCKETS as usize], permille: u32) -> u32 {
    // SAFETY: reads as many buckets as there are.
    unsafe { abi::wln_rtt_quantile_us(buckets.as_ptr(), permille) }
}

/// The ledger as it is at that time (CLOCK_MONOTONIC), if nothing has happened since its last note.
pub fn ledger_up_to(ledger: &wl_ledger, now_us: u64) -> wl_ledger {
    let mut ledger = *ledger;
    // SAFETY: exclusive access to a sound struct.
    unsafe { abi::wln_ledger_elapse(&mut ledger, now_us) };
    ledger
}

/// The record of a flow up to now (CLOCK_MONOTONIC), of what the maps of the kernel hold; `end`: `abi::WL_END_*`.
pub fn record_of(flow: &wl_flow, ledger: &wl_ledger, end: u32, now_us: u64) -> wl_flow_record {
    let (mut ledger, mut record) = (*ledger, wl_flow_record::default());
    // SAFETY: all borrows outlive the call.
    unsafe { abi::wln_record_of(flow, &mut ledger, end, now_us, &mut record) };
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_of_round_trip_times_is_within_an_eighth() {
        let mut rtt_us = 64u32;
        while rtt_us < 4_000_000 {
            let mut buckets = [0; abi::WL_RTT_BUCKETS as usize];
            // SAFETY: arithmetic on a number.
            buckets[unsafe { abi::wln_rtt_bucket(rtt_us) } as usize] += 1;
            let found = rtt_quantile_us(&buckets, 950);
            assert!(found.abs_diff(rtt_us) <= rtt_us / 8 + 1, "{rtt_us}: {found}");
            rtt_us += rtt_us / 50 + 1;
        }
    }

    #[test]
    fn a_quantile_of_round_trip_times_is_that_of_all_samples() {
        let mut buckets = [0; abi::WL_RTT_BUCKETS as usize];
        assert_eq!(rtt_quantile_us(&buckets, 950), 0);
        // SAFETY: arithmetic on a number.
        let bucket = |rtt_us| unsafe { abi::wln_rtt_bucket(rtt_us) } as usize;
        (buckets[bucket(40_000)], buckets[bucket(200_000)]) = (94, 6);
        assert!(rtt_quantile_us(&buckets, 500).abs_diff(40_000) < 5_000);
        assert!(rtt_quantile_us(&buckets, 950).abs_diff(200_000) < 25_000);
    }
}
