//! Shares of the store and the flow table, natively: `core/share/threshold.h` and `core/share/stall.h`.

use crate::abi::{self, wl_flow, wl_share_use};

/// What one server may use of a pool of which so much is free.
pub fn server_limit(free: u32) -> u32 {
    // SAFETY: plain call without pointers.
    unsafe { abi::wln_share_server_limit(free) }
}

/// What one client may use of that, of a server that itself uses `of_server`.
pub fn client_limit(free: u32, of_server: u32) -> u32 {
    // SAFETY: plain call without pointers.
    unsafe { abi::wln_share_client_limit(free, of_server) }
}

/// Whether the client may have one more.
pub fn admits(usage: &wl_share_use) -> bool {
    // SAFETY: reads a sound struct.
    unsafe { abi::wln_share_admits(usage) != 0 }
}

/// Whether one more flow without a rule may have an entry.
pub fn admits_unruled(free: u32, unruled: u32) -> bool {
    // SAFETY: plain call without pointers.
    unsafe { abi::wln_share_admits_unruled(free, unruled) != 0 }
}

/// Whether so little is free that what is of no use is taken back.
pub fn is_scarce(total: u32, in_use: u32) -> bool {
    // SAFETY: plain call without pointers.
    unsafe { abi::wln_share_is_scarce(total, in_use) != 0 }
}

/// Whether the flow holds chunks that it makes no use of.
pub fn is_stalled(flow: &mut wl_flow, now_us: u32, is_scarce: bool) -> bool {
    // SAFETY: exclusive access to a sound struct.
    unsafe { abi::wln_stall_check(flow, now_us, is_scarce.into()) != 0 }
}

/// Whether una has moved far enough since [`is_stalled`] noted where it was.
pub fn has_progress(flow: &wl_flow) -> bool {
    // SAFETY: reads a sound struct.
    unsafe { abi::wln_stall_has_progress(flow) != 0 }
}

/// SipHash-2-4 of at most 31 words.
pub fn siphash(key: [u64; 2], words: &[u64]) -> u64 {
    assert!(words.len() <= 31);
    // SAFETY: both slices live for the call, which reads as many words as the argument gives.
    unsafe { abi::wln_siphash(key.as_ptr(), words.as_ptr(), words.len() as u32) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::hash::Hasher;

    /// A pool that accounts use, `(server, client)` each, as the datapath counts it.
    struct Pool {
        total: u32,
        used: Vec<((usize, usize), u32)>,
    }

    impl Pool {
        fn new(total: u32) -> Pool {
            Pool { total, used: Vec::new() }
        }

        fn sum(&self, is_wanted: impl Fn((usize, usize)) -> bool) -> u32 {
            self.used.iter().filter(|(who, _)| is_wanted(*who)).map(|(_, n)| n).sum()
        }

        fn usage(&self, who: (usize, usize)) -> wl_share_use {
            wl_share_use {
                total: self.total,
                in_use: self.sum(|_| true),
                of_server: self.sum(|other| other.0 == who.0),
                of_client: self.sum(|other| other == who),
            }
        }

        /// Takes one for the account if its share and the pool allow it.
        fn take(&mut self, who: (usize, usize)) -> bool {
            let usage = self.usage(who);
            if !admits(&usage) || usage.in_use == self.total {
                return false;
            }
            match self.used.iter_mut().find(|(other, _)| *other == who) {
                Some((_, n)) => *n += 1,
                None => self.used.push((who, 1)),
            }
            true
        }

        fn give(&mut self, who: (usize, usize)) {
            self.used.iter_mut().filter(|(other, n)| *other == who && *n > 0).for_each(|(_, n)| *n -= 1);
        }

        /// Each of these takes one after the other until none gets any more.
        fn fill(&mut self, accounts: &[(usize, usize)]) {
            while accounts.iter().fold(false, |is_any, who| self.take(*who) | is_any) {}
        }
    }

    proptest! {
        #[test]
        fn shares_never_exceed_the_total_and_an_account_without_any_gets_one_while_any_is_free(
            total in 1..200u32,
            steps in prop::collection::vec((0..4usize, 0..4usize, any::<bool>()), 0..600),
        ) {
            let mut pool = Pool::new(total);
            for (server, client, is_release) in steps {
                let who = (server, client);
                let before = pool.usage(who);
                if is_release {
                    pool.give(who);
                } else {
                    let is_taken = pool.take(who);
                    prop_assert!(before.of_server > 0 || before.in_use == total || is_taken);
                }
                prop_assert!(pool.sum(|_| true) <= total);
            }
        }

        #[test]
        fn equal_hogs_get_equal_shares_and_leave_a_share_for_a_newcomer(
            total in 64..2000u32,
            servers in 1..6usize,
        ) {
            let mut pool = Pool::new(total);
            let hogs: Vec<_> = (0..servers).map(|server| (server, 0)).collect();
            pool.fill(&hogs);
            let of: Vec<u32> = hogs.iter().map(|who| pool.usage(*who).of_client).collect();
            let (least, most) = (of.iter().min().unwrap(), of.iter().max().unwrap());
            // one unit that is free is worth eight of limit
            prop_assert!(most - least <= 8, "{of:?} of {total}");
            // T * n * 8 / (1 + n * 8) and a little less, as a client has a limit of its own
            let fair = total * 8 * servers as u32 / (1 + 8 * servers as u32);
            prop_assert!(of.iter().sum::<u32>() + 8 + total / 20 >= fair, "{of:?} of {total}");
            prop_assert!(pool.take((servers, 0)) || pool.sum(|_| true) == total);
        }

        #[test]
        fn a_demand_below_the_share_has_all_of_it(total in 200..2000u32, modest in 1..4u32) {
            let mut pool = Pool::new(total);
            pool.fill(&[(0, 0), (1, 0)]);
            // the hogs were there first, and give nothing back
            prop_assert!((0..modest).all(|_| pool.take((2, 0))));
            // and so does another client of a hog's server
            prop_assert!(pool.take((0, 1)));
        }

        #[test]
        fn what_a_hog_gives_back_goes_to_others_until_shares_are_equal(total in 200..1000u32) {
            let mut pool = Pool::new(total);
            pool.fill(&[(0, 0)]);
            for _ in 0..total {
                pool.give((0, 0));
                pool.fill(&[(1, 0), (0, 0)]);
            }
            let [hog, newcomer] = [(0, 0), (1, 0)].map(|who| pool.usage(who).of_client);
            prop_assert!(hog.abs_diff(newcomer) <= 8 + total / 50, "{hog} and {newcomer} of {total}");
        }

        #[test]
        fn siphash_is_that_of_the_standard_library(
            key in any::<[u64; 2]>(),
            words in prop::collection::vec(any::<u64>(), 0..8),
        ) {
            #[allow(deprecated)]
            let mut hasher = std::hash::SipHasher::new_with_keys(key[0], key[1]);
            words.iter().for_each(|word| hasher.write(&word.to_ne_bytes()));
            prop_assert_eq!(siphash(key, &words), hasher.finish());
        }
    }

    #[test]
    fn a_lone_client_can_use_three_quarters_of_any_store() {
        // 1 MiB, 16 MiB, 256 MiB
        for total in [16, 256, 4096] {
            let mut pool = Pool::new(total);
            pool.fill(&[(0, 0)]);
            let used = pool.sum(|_| true);
            assert!(used >= total * 3 / 4 && used < total, "{used} of {total}");
        }
    }

    #[test]
    fn flows_without_a_rule_have_a_small_share() {
        let (total, mut unruled) = (900, 0);
        while admits_unruled(total - unruled, unruled) {
            unruled += 1;
        }
        assert_eq!(unruled, 100);
        assert!(admits_unruled(1, 0) && !admits_unruled(0, 0) && !admits_unruled(8, 1));
        assert!(is_scarce(16, 13) && !is_scarce(16, 12));
    }

    const MSS_BYTES: u32 = 1448;
    /// Two retransmission timeouts of a flow with a round trip of 20 ms.
    const TWO_RTOS_US: u32 = 2 * 220_000;
    const LONG_US: u32 = abi::WL_STALL_MAX_US;

    /// A flow with so much in flight, of which it was noted at time 0 that it holds chunks.
    fn noted(inflight_bytes: u32) -> wl_flow {
        let mut flow = wl_flow {
            state: abi::WL_FLOW_ACTIVE as u8,
            una: u32::MAX - 500,
            nxt: (u32::MAX - 500).wrapping_add(inflight_bytes),
            mss_bytes: MSS_BYTES as u16,
            srtt_us: 20_000,
            stored_chunks: 1,
            ..wl_flow::default()
        };
        assert!(!is_stalled(&mut flow, 0, true), "seen for the first time");
        flow
    }

    #[test]
    fn a_flow_without_progress_is_stalled_after_two_timeouts_where_the_store_is_scarce() {
        let mut flow = noted(14_480);
        assert!(!is_stalled(&mut flow, TWO_RTOS_US - 1, true));
        assert!(is_stalled(&mut flow.clone(), TWO_RTOS_US, true));
        assert!(!is_stalled(&mut flow, LONG_US - 1, false));
        assert!(is_stalled(&mut flow, LONG_US, false));
        // an account that holds nothing is not
        let mut flow = wl_flow { stored_chunks: 0, ..noted(14_480) };
        assert!(!is_stalled(&mut flow, LONG_US, true));
    }

    #[test]
    fn progress_of_a_segment_and_a_part_of_what_is_in_flight_is_enough() {
        // a byte now and then, as of a slow reader
        let moved = |inflight_bytes: u32, bytes| {
            let mut flow = noted(inflight_bytes);
            flow.una = flow.una.wrapping_add(bytes);
            !is_stalled(&mut flow, TWO_RTOS_US, true)
        };
        assert!(!moved(14_480, 1) && !moved(14_480, MSS_BYTES - 1));
        assert!(moved(14_480, MSS_BYTES));
        assert!(moved(12, 12), "all that was in flight");
        assert!(!moved(8 << 20, 100_000) && moved(8 << 20, (8 << 20) / 32));
    }

    #[test]
    fn any_progress_is_enough_where_the_store_is_not_scarce() {
        let mut flow = noted(14_480);
        flow.una = flow.una.wrapping_add(1);
        assert!(!is_stalled(&mut flow, LONG_US, false));
        // and is measured from there on
        assert!(!is_stalled(&mut flow, 2 * LONG_US - 1, false));
        assert!(is_stalled(&mut flow, 2 * LONG_US, false));
    }

    #[test]
    fn a_flow_whose_chunks_were_reclaimed_makes_progress_by_a_segment() {
        let mut flow = noted(14_480);
        assert!(!has_progress(&flow));
        flow.una = flow.una.wrapping_add(1);
        assert!(!has_progress(&flow));
        flow.una = flow.una.wrapping_add(MSS_BYTES);
        assert!(has_progress(&flow));
    }
}
