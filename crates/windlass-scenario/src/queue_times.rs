//! How long packets have queued, for percentiles: counts of times to 1 %, in memory for those that occur only. A network of
//! thousands of links, most of which never have a queue, touches little of it.

/// Places of a stretch in which times double.
const PLACES: usize = 128;
const PLACE_BITS: u32 = PLACES.ilog2();
/// Times that are kept until they are counted together: each count is far away, but several can be fetched at once.
const RECENT: usize = 16;
/// Longer times are counted as this one: more than a minute.
const LONGEST_NS: u64 = (1 << 36) - 1;

/// Counts of times in ns.
#[derive(Clone, Debug, Default)]
pub struct QueueTimes {
    count: u64,
    /// Times of 0.
    zeros: u64,
    /// Where the last ones will be counted: stretch times [`PLACES`], and place in it.
    recent: [u16; RECENT],
    recent_count: u8,
    /// Up to 127 ns one by one; then each stretch is twice as long as the one before.
    stretches: Vec<Option<Box<[u32; PLACES]>>>,
}

impl QueueTimes {
    /// A packet queued for so long.
    pub fn record(&mut self, time_ns: u64) {
        self.count += 1;
        if time_ns == 0 {
            self.zeros += 1;
            return;
        }
        let (stretch, place) = place(time_ns.min(LONGEST_NS));
        self.recent[usize::from(self.recent_count) % RECENT] = (stretch * PLACES + place) as u16;
        self.recent_count += 1;
        if usize::from(self.recent_count) == RECENT {
            self.count_recent();
        }
    }

    fn count_recent(&mut self) {
        for recent in &self.recent[..self.recent_count.into()] {
            let (stretch, place) = (usize::from(*recent) / PLACES, usize::from(*recent) % PLACES);
            if stretch >= self.stretches.len() {
                self.stretches.resize_with(stretch + 1, || None);
            }
            let counts = self.stretches[stretch].get_or_insert_with(|| Box::new([0; PLACES]));
            counts[place] = counts[place].saturating_add(1);
        }
        self.recent_count = 0;
    }

    /// The time that this share of packets did not exceed, 0 to 1, rounded up to what is distinguished; 0: there are none.
    pub fn quantile_ns(&mut self, share: f64) -> u64 {
        self.count_recent();
        let rank = ((share * self.count as f64).ceil() as u64).max(1);
        let mut seen = self.zeros;
        if seen >= rank {
            return 0;
        }
        for (stretch, counts) in self.stretches.iter().enumerate() {
            for (place, count) in counts.iter().flat_map(|counts| counts.iter()).enumerate() {
                seen += u64::from(*count);
                if seen >= rank {
                    return last_of(stretch, place);
                }
            }
        }
        0
    }
}

/// Where a time is counted: stretch and place in it.
fn place(time_ns: u64) -> (usize, usize) {
    let Some(doublings) = time_ns.ilog2().checked_sub(PLACE_BITS) else { return (0, time_ns as usize) };
    (doublings as usize + 1, (time_ns >> doublings) as usize - PLACES)
}

/// The longest time that is counted at a place.
fn last_of(stretch: usize, place: usize) -> u64 {
    match stretch.checked_sub(1) {
        None => place as u64,
        Some(doublings) => (((PLACES + place + 1) as u64) << doublings) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::times;
    use proptest::prelude::*;

    proptest! {
        /// A full histogram of the same exactness gives the same.
        #[test]
        fn percentiles_are_those_of_a_full_histogram(
            times_ns in proptest::collection::vec(prop_oneof![0u64..300, 0u64..100_000, 0u64..60_000_000_000], 1..200)
        ) {
            let (mut compact, mut full) = (QueueTimes::default(), times());
            for time_ns in times_ns {
                compact.record(time_ns);
                full.saturating_record(time_ns);
            }
            for share in [0.01, 0.5, 0.9, 0.99, 1.0] {
                prop_assert_eq!(compact.quantile_ns(share), full.value_at_quantile(share), "{}", share);
            }
        }
    }

    #[test]
    fn what_never_queues_takes_no_memory() {
        let mut times = QueueTimes::default();
        (0..1000).for_each(|_| times.record(0));
        assert_eq!((times.stretches.capacity(), times.quantile_ns(0.99)), (0, 0));
        times.record(40_000);
        assert_eq!(times.quantile_ns(1.0), 40_191);
        assert_eq!(times.stretches.iter().flatten().count(), 1);
    }
}
