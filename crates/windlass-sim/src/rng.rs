//! Random numbers. Each user has a generator of its own, seeded by what it is and not by when it draws, so that a
//! change in one place leaves the random numbers of all others as they were.

use rand::{RngCore, SeedableRng};
use rand_xoshiro::SplitMix64;

/// Random bits for the algorithm of endpoint `endpoint` (SplitMix64: 8 bytes of state, thousands of endpoints).
pub fn of_endpoint(scenario_seed: u64, endpoint: u32) -> SplitMix64 {
    let place = (u64::from(endpoint) + 1) << 32;
    SplitMix64::seed_from_u64(scenario_seed ^ place)
}

/// The same for a connection that begins at `now_ns`, maybe not the first in its place.
pub fn of_connection(scenario_seed: u64, endpoint: u32, now_ns: u64) -> SplitMix64 {
    of_endpoint(SplitMix64::seed_from_u64(scenario_seed ^ now_ns).next_u64(), endpoint)
}

/// Random bits for the algorithm of the box.
pub fn of_box(scenario_seed: u64) -> SplitMix64 {
    SplitMix64::seed_from_u64(scenario_seed ^ u64::MAX << 32)
}

/// The receiver of a flow's connection, one of `hosts` that is not `from`.
pub fn receiver<'a>(seed: u64, flow: u32, connection: u64, hosts: &[&'a str], from: &str) -> &'a str {
    let mut rng = of_connection(seed ^ 1 << 63, flow, connection);
    loop {
        // of at least two, so that another is found soon
        let host = hosts[(rng.next_u64() % hosts.len() as u64) as usize];
        if host != from {
            return host;
        }
    }
}

/// By which of several equally short ways switch `switch` sends the packets of endpoint `endpoint`, of its flow's connection
/// `connection`.
pub fn flow_hash(scenario_seed: u64, switch: usize, endpoint: u32, connection: u64) -> u64 {
    // four rounds, so that seeds, which are small numbers as endpoints are, and switches decide independently of each other
    [connection << 32, u64::from(endpoint), switch as u64, 0]
        .iter()
        .fold(scenario_seed, |hash, part| SplitMix64::seed_from_u64(hash ^ part).next_u64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Or all seeds of a sweep would split the flows of a few endpoints alike.
    #[test]
    fn seeds_send_flows_by_different_ways() {
        let first_ways =
            |seed| (0..16).filter(|endpoint| flow_hash(seed, 3, *endpoint, 0).is_multiple_of(2)).count();
        let splits: BTreeSet<usize> = (1..=20).map(first_ways).collect();
        assert!(splits.len() > 3, "{splits:?}");
    }
}
