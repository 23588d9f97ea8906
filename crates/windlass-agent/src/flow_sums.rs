//! Distributions of what flows' records report: round trips, responses, goodput. A record is of all that its flow did, so that what it
//! adds is the difference to the flow's record before.

use crate::map_value::bytes_of;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use windlass_core::abi::{WL_END_NONE, WL_RECORD_EVERY_US, WL_RTT_BUCKETS, wl_flow_record};

/// Counts of whole numbers, log-linear: four buckets of equal width for each power of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// By bucket; those that are missing are empty.
    counts: BTreeMap<u16, u64>,
    sum: u64,
}

/// The bucket of a value.
fn bucket_of(value: u64) -> u16 {
    match value {
        0..4 => value as u16,
        _ => {
            let log = value.ilog2();
            ((log - 1) << 2) as u16 + (value >> (log - 2) & 3) as u16
        }
    }
}

/// The least value of a bucket, and its width.
fn range_of(bucket: u16) -> (u64, u64) {
    match bucket {
        0..4 => (bucket.into(), 1),
        _ => {
            let shift = bucket / 4 - 1;
            ((4 + u64::from(bucket % 4)) << shift, 1 << shift)
        }
    }
}

impl Distribution {
    /// Counts this value so many times.
    pub fn count(&mut self, value: u64, times: u64) {
        self.count_in(bucket_of(value), times, value.saturating_mul(times));
    }

    fn count_in(&mut self, bucket: u16, times: u64, sum: u64) {
        if times > 0 {
            *self.counts.entry(bucket).or_default() += times;
            self.sum = self.sum.saturating_add(sum);
        }
    }

    /// Counts what another has counted.
    pub fn add(&mut self, more: &Distribution) {
        more.counts.iter().for_each(|(bucket, times)| self.count_in(*bucket, *times, 0));
        self.sum = self.sum.saturating_add(more.sum);
    }

    /// Sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The middle of each bucket that is not empty, ascending, and how many values it has.
    pub fn middles(&self) -> impl Iterator<Item = (f64, u64)> {
        self.counts.iter().map(|(bucket, times)| {
            let (from, width) = range_of(*bucket);
            // of whole numbers
            (from as f64 + (width - 1) as f64 / 2.0, *times)
        })
    }

    /// How many values are below each of these powers of two and not below the one before; the last is of all others.
    pub fn by_power_of_two(&self, logs: std::ops::RangeInclusive<u32>) -> Vec<u64> {
        let mut all = vec![0; logs.clone().count() + 1];
        for (bucket, times) in &self.counts {
            all[place(range_of(*bucket).0, logs.clone())] += times;
        }
        all
    }
}

/// Which of these buckets, up to each power of two and beyond the last, a value is in.
pub fn place(value: u64, mut logs: std::ops::RangeInclusive<u32>) -> usize {
    let count = logs.clone().count();
    logs.position(|log| value < 1 << log).unwrap_or(count)
}

/// What flows did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowSums {
    /// Round trips between box and receiver, in microseconds.
    pub rtt_us: Distribution,
    /// Responses, in microseconds: the longest of a flow as it was, all others as their mean.
    pub response_us: Distribution,
    /// Goodputs of flows from one record to the next, over the time with data in flight.
    pub goodput_bytes_ps: Distribution,
}

impl FlowSums {
    /// Adds what others did.
    pub fn add(&mut self, more: &FlowSums) {
        self.rtt_us.add(&more.rtt_us);
        self.response_us.add(&more.response_us);
        self.goodput_bytes_ps.add(&more.goodput_bytes_ps);
    }

    /// Is nothing counted?
    pub fn is_empty(&self) -> bool {
        *self == FlowSums::default()
    }
}

/// What a record reports, as far as it is summed up here.
#[derive(Clone, Debug, Default)]
struct Reported {
    /// Of the ledger's buckets those that are not empty.
    rtt: Vec<(u8, u32)>,
    rtt_sum_us: u64,
    responses: u32,
    response_max_us: u32,
    response_sum_us: u64,
    delivered_bytes: u64,
    busy_us: u64,
}

impl Reported {
    fn of(record: &wl_flow_record) -> Reported {
        let [_, busy_us @ ..] = record.limited_us;
        Reported {
            rtt: (0..).zip(record.rtt_buckets).filter(|(_, count)| *count > 0).collect(),
            rtt_sum_us: record.rtt_sum_us,
            responses: record.responses,
            response_max_us: record.response_max_us,
            response_sum_us: record.response_sum_us,
            delivered_bytes: record.delivered_bytes,
            busy_us: busy_us.iter().sum(),
        }
    }

    /// What came to it since the flow's record before.
    fn since(&self, before: &Reported) -> FlowSums {
        let mut sums = FlowSums::default();
        let mut rtt = [0; WL_RTT_BUCKETS as usize];
        self.rtt.iter().for_each(|(bucket, count)| rtt[usize::from(*bucket)] = *count);
        before.rtt.iter().for_each(|(bucket, count)| {
            let now = &mut rtt[usize::from(*bucket)];
            *now = now.saturating_sub(*count);
        });
        for (bucket, count) in (0..).zip(rtt) {
            sums.rtt_us.count_in(FIRST_RTT_BUCKET + bucket, count.into(), 0);
        }
        sums.rtt_us.sum = self.rtt_sum_us.saturating_sub(before.rtt_sum_us);
        self.count_responses(before, &mut sums.response_us);
        let delivered_bytes = self.delivered_bytes.saturating_sub(before.delivered_bytes);
        let busy_us = self.busy_us.saturating_sub(before.busy_us);
        if delivered_bytes > 0
            && let Some(rate) = (u128::from(delivered_bytes) * 1_000_000).checked_div(busy_us.into())
        {
            sums.goodput_bytes_ps.count(rate as u64, 1);
        }
        sums
    }

    fn count_responses(&self, before: &Reported, all: &mut Distribution) {
        let mut count = u64::from(self.responses.saturating_sub(before.responses));
        let mut sum_us = self.response_sum_us.saturating_sub(before.response_sum_us);
        if count > 0 && self.response_max_us > before.response_max_us {
            all.count(self.response_max_us.into(), 1);
            count -= 1;
            sum_us = sum_us.saturating_sub(self.response_max_us.into());
        }
        if let Some(mean_us) = sum_us.checked_div(count) {
            all.count_in(bucket_of(mean_us), count, sum_us);
        }
    }
}

/// The ledger's histogram of round trips begins with the bucket of 64 us (core/ledger/rtt_histogram.h).
const FIRST_RTT_BUCKET: u16 = 20;

/// What identifies a flow: its key, and when it began.
type Name = (Vec<u8>, u64);

/// Makes sums of the records of one datapath.
#[derive(Debug, Default)]
pub struct FlowTally {
    /// The last record of each flow that has had one and goes on.
    last: HashMap<Name, Reported>,
    /// Records up to this time were summed up by an earlier reader.
    since_us: u64,
}

impl FlowTally {
    /// Of so many flows the last record is kept at most. Records of ends that were lost leave one behind.
    const MOST: usize = 1 << 16;

    /// Of all records that were made after this time (of CLOCK_MONOTONIC).
    pub fn new(since_us: u64) -> FlowTally {
        FlowTally { last: HashMap::new(), since_us }
    }

    /// What this record adds. Of a flow that an earlier reader may have had records of, the first one adds nothing.
    pub fn take(&mut self, record: &wl_flow_record) -> FlowSums {
        let name = (bytes_of(&record.key).to_vec(), record.began_us);
        let reported = Reported::of(record);
        let is_first = record.began_us >= self.since_us
            || record.recorded_us.saturating_sub(record.began_us) < u64::from(WL_RECORD_EVERY_US);
        let sums = match self.last.remove(&name) {
            Some(before) => reported.since(&before),
            None if is_first => reported.since(&Reported::default()),
            None => FlowSums::default(),
        };
        if u32::from(record.end) == WL_END_NONE {
            if self.last.len() >= FlowTally::MOST {
                // what these flows did before counts as summed up
                self.last.clear();
                self.since_us = record.recorded_us;
            }
            self.last.insert(name, reported);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::abi::{WL_END_FIN, WL_LIMIT_IDLE, WL_LIMIT_WINDOW};

    const S: u64 = 1_000_000;

    /// A flow's record after so many seconds, of which half were idle, with 1 MB a second of the rest.
    fn record(began_us: u64, after_s: u64, end: u32) -> wl_flow_record {
        let mut record = wl_flow_record {
            end: end as u8,
            began_us,
            recorded_us: began_us + after_s * S,
            delivered_bytes: after_s * S / 2,
            rtt_sum_us: after_s * 10_000,
            rtt_samples: after_s as u32,
            responses: after_s as u32,
            response_sum_us: after_s * 3000 + 7000,
            response_max_us: 10_000,
            ..Default::default()
        };
        record.limited_us[WL_LIMIT_IDLE as usize] = after_s * S / 2;
        record.limited_us[WL_LIMIT_WINDOW as usize] = after_s * S / 2;
        // 8192 to 10239 us
        record.rtt_buckets[28] = after_s as u32;
        record
    }

    fn totals(sums: &FlowSums) -> [u64; 3] {
        [sums.rtt_us.total(), sums.response_us.total(), sums.goodput_bytes_ps.total()]
    }

    #[test]
    fn distributions_have_four_buckets_for_each_power_of_two() {
        assert_eq!([0, 3, 4, 7, 8, 9, 10, 64, 80].map(bucket_of), [0, 3, 4, 7, 8, 8, 9, 20, 21]);
        for bucket in 0..=bucket_of(u64::MAX) {
            let (from, width) = range_of(bucket);
            assert_eq!([bucket_of(from), bucket_of(from + (width - 1))], [bucket; 2]);
        }
        assert_eq!(range_of(FIRST_RTT_BUCKET).0, 64);
        let mut all = Distribution::default();
        [1, 100, 127, 128, 300, 1 << 40].iter().for_each(|value| all.count(*value, 2));
        assert_eq!(all.by_power_of_two(7..=9), [6, 2, 2, 2]);
        assert_eq!((all.total(), all.sum()), (12, 2 * (656 + (1 << 40))));
        assert_eq!([127, 128, 512].map(|value| place(value, 7..=9)), [0, 1, 3]);
    }

    #[test]
    fn records_of_a_flow_add_what_it_did_since_the_one_before() {
        let mut tally = FlowTally::new(0);
        let first = tally.take(&record(5, 60, WL_END_NONE));
        assert_eq!(totals(&first), [60, 60, 1]);
        assert_eq!((first.rtt_us.sum(), first.response_us.sum()), (600_000, 187_000));
        assert_eq!(first.goodput_bytes_ps.sum(), S);
        // its longest response, and the mean of all others
        assert_eq!(first.response_us.by_power_of_two(12..=13), [59, 0, 1]);
        assert_eq!(totals(&tally.take(&record(5, 120, WL_END_NONE))), [60, 60, 1]);
        assert_eq!(totals(&tally.take(&record(5, 121, WL_END_FIN))), [1, 1, 1]);
        assert!(tally.last.is_empty());
        // another connection of the same addresses
        assert_eq!(totals(&tally.take(&record(500 * S, 2, WL_END_FIN))), [2, 2, 1]);
    }

    #[test]
    fn records_that_an_earlier_reader_may_have_summed_up_add_nothing() {
        let mut tally = FlowTally::new(100 * S);
        assert_eq!(
            totals(&tally.take(&record(5, 120, WL_END_NONE))),
            [0; 3],
            "there may have been one before"
        );
        assert_eq!(totals(&tally.take(&record(5, 180, WL_END_NONE))), [60, 60, 1]);
        assert_eq!(totals(&tally.take(&record(99 * S, 30, WL_END_FIN))), [30, 30, 1], "its first one");
        assert_eq!(totals(&tally.take(&record(100 * S, 90, WL_END_FIN))), [90, 90, 1]);
    }

    #[test]
    fn flows_that_delivered_nothing_have_no_goodput() {
        let idle = wl_flow_record { end: WL_END_FIN as u8, ..Default::default() };
        assert!(FlowTally::default().take(&idle).is_empty());
    }
}
