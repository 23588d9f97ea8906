//! Histograms of what flows' records report, each with buckets up to powers of two, and native ones for those that read them.

use super::sink::Sink;
use prometheus_client::registry::Unit;
use std::{
    collections::BTreeMap,
    fmt,
    ops::RangeInclusive,
    sync::{Mutex, MutexGuard, PoisonError},
};
use windlass_agent::{Distribution, Error, FlowSums, SavedSums, place_of_value, saved_sums};

/// One of them.
pub struct Histogram {
    pub name: &'static str,
    help: &'static str,
    unit: fn() -> Unit,
    /// Of the numbers that are counted.
    per_unit: f64,
    /// Its buckets end at these powers of two of them.
    logs: RangeInclusive<u32>,
    of: fn(&FlowSums) -> &Distribution,
}

pub const ALL: [Histogram; 3] = [
    Histogram {
        name: "rtt",
        help: "Round-trip times between box and client.",
        unit: || Unit::Seconds,
        per_unit: 1e6,
        logs: 7..=21,
        of: |sums| &sums.rtt_us,
    },
    Histogram {
        name: "response",
        help: "Stretches of data behind a pause, from the first byte to the last one's acknowledgement; of controlled flows.",
        unit: || Unit::Seconds,
        per_unit: 1e6,
        logs: 10..=25,
        of: |sums| &sums.response_us,
    },
    Histogram {
        name: "flow_goodput",
        help: "What a flow delivered over the time with data in flight, each minute and at its end.",
        unit: || Unit::Other("bytes_per_second".into()),
        per_unit: 1.0,
        logs: 13..=29,
        of: |sums| &sums.goodput_bytes_ps,
    },
];

/// Native buckets: four for each power of two.
pub const SCHEMA: i32 = 2;

/// The native bucket of a value that is not zero.
fn native_bucket(value: f64) -> i32 {
    (value.log2() * f64::from(1 << SCHEMA)).ceil() as i32
}

/// Buckets in spans without a gap, each with its distance from the one before, and what each has more than the one before.
fn spans(buckets: &BTreeMap<i32, u64>) -> (Vec<(i32, u32)>, Vec<i64>) {
    let (mut spans, mut deltas) = (Vec::<(i32, u32)>::new(), Vec::new());
    let (mut next, mut before) = (0, 0);
    for (bucket, count) in buckets {
        match spans.last_mut() {
            Some((_, length)) if *bucket == next => *length += 1,
            _ => spans.push((bucket - next, 1)),
        }
        next = bucket + 1;
        deltas.push(*count as i64 - before);
        before = *count as i64;
    }
    (spans, deltas)
}

impl Histogram {
    /// The whole name, without the program's prefix.
    pub fn whole_name(&self) -> String {
        format!("{}_{}", self.name, (self.unit)().as_str())
    }

    pub fn write(&self, sink: &mut dyn Sink, sums: &FlowSums) -> fmt::Result {
        sink.histogram(self.name, self.help, &(self.unit)(), &self.buckets((self.of)(sums)))
    }

    fn buckets(&self, all: &Distribution) -> Buckets {
        let uppers = self.logs.clone().map(|log| (1u64 << log) as f64 / self.per_unit).chain([f64::INFINITY]);
        let classic = uppers.zip(all.by_power_of_two(self.logs.clone())).collect();
        let mut native = BTreeMap::new();
        let mut zeros = 0;
        for (middle, count) in all.middles() {
            match middle > 0.0 {
                true => *native.entry(native_bucket(middle / self.per_unit)).or_default() += count,
                false => zeros += count,
            }
        }
        let (spans, deltas) = spans(&native);
        let sum = all.sum() as f64 / self.per_unit;
        Buckets { sum, count: all.total(), classic, zeros, spans, deltas }
    }
}

/// What is in a histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    pub sum: f64,
    pub count: u64,
    /// Up to each bound, how many are not below the one before; the last has no bound.
    pub classic: Vec<(f64, u64)>,
    /// Values that no native bucket is for.
    pub zeros: u64,
    /// Native buckets in spans without a gap, each with its distance from the one before, and its length.
    pub spans: Vec<(i32, u32)>,
    /// What each of these buckets has more than the one before.
    pub deltas: Vec<i64>,
}

/// That of Prometheus' own clients: 2^-128.
pub const ZERO_THRESHOLD: f64 =
    prometheus_client::metrics::histogram::DEFAULT_NATIVE_HISTOGRAM_ZERO_THRESHOLD;

/// A flow that a histogram's bucket has counted: its name, and the value.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    pub flow: String,
    pub value: f64,
}

/// By the place in [`ALL`] and that of the bucket: the last one.
pub type Examples = BTreeMap<(usize, usize), Example>;

#[derive(Debug, Default)]
struct State {
    /// As they were saved last.
    saved: FlowSums,
    more: SavedSums,
    /// What came since cannot be saved, as where /run is read-only.
    is_unsaved_shown: bool,
    examples: Examples,
}

/// Those of an agent.
#[derive(Debug)]
pub struct Histograms(Mutex<State>);

impl Default for Histograms {
    /// They go on from what was saved.
    fn default() -> Histograms {
        let saved = saved_sums().unwrap_or_default().sums;
        Histograms(Mutex::new(State { saved, ..State::default() }))
    }
}

impl Histograms {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A record of the datapath of this number, made at that time, has added these; the flow's name is `flow()`.
    pub fn add(&self, number: u32, made_us: u64, sums: &FlowSums, flow: impl Fn() -> String) {
        let mut state = self.state();
        let upto_us = state.more.upto_us.entry(number).or_default();
        *upto_us = (*upto_us).max(made_us);
        if sums.is_empty() {
            return;
        }
        state.more.sums.add(sums);
        for (at, histogram) in ALL.iter().enumerate() {
            // the largest one
            let Some((middle, _)) = (histogram.of)(sums).middles().last() else { continue };
            let bucket = place_of_value(middle as u64, histogram.logs.clone());
            let example = Example { flow: flow(), value: middle / histogram.per_unit };
            state.examples.insert((at, bucket), example);
        }
    }

    /// What is shown is saved before: it does not fall when the agent is killed. Another process that saves just now is not waited for.
    pub fn save(&self) {
        let mut state = self.state();
        if state.more.upto_us.is_empty() {
            return;
        }
        match state.more.save() {
            Ok(all) => {
                state.saved = all.sums;
                state.more = SavedSums::default();
                state.is_unsaved_shown = false;
            }
            Err(Error::Locked { .. }) => {}
            Err(_) => state.is_unsaved_shown = true,
        }
    }

    /// The sums, and flows as examples of them.
    pub fn shown(&self) -> (FlowSums, Examples) {
        self.save();
        let state = self.state();
        let mut sums = state.saved.clone();
        if state.is_unsaved_shown {
            sums.add(&state.more.sums);
        }
        (sums, state.examples.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_buckets_are_four_for_each_power_of_two_in_spans_without_gaps() {
        assert_eq!([1.0, 1.01, 2.0, 2.01, 0.5].map(native_bucket), [0, 1, 4, 5, -4]);
        let buckets = BTreeMap::from([(-10, 1), (-9, 3), (-7, 3), (2, 8)]);
        assert_eq!(spans(&buckets), (vec![(-10, 2), (1, 1), (8, 1)], vec![1, 2, 0, 5]));
        assert_eq!(spans(&BTreeMap::new()), (vec![], vec![]));
    }

    #[test]
    fn native_buckets_are_of_the_middles_of_what_was_counted() {
        let mut sums = FlowSums::default();
        [1000, 5_000_000, 0].iter().for_each(|us| sums.rtt_us.count(*us, 1));
        let buckets = ALL[0].buckets(&sums.rtt_us);
        assert_eq!((buckets.sum, buckets.count, buckets.zeros), (5.001, 3, 1));
        assert_eq!((buckets.classic[3], buckets.classic.last()), ((0.001024, 1), Some(&(f64::INFINITY, 1))));
        // the middles are 0.96 ms, in the bucket up to 2^-10 s, and 4.7 s, in that up to 2^(9/4) s
        assert_eq!((buckets.spans, buckets.deltas), (vec![(-40, 1), (48, 1)], vec![1, 0]));
    }

    #[test]
    fn the_last_flow_of_a_bucket_is_its_example() {
        let histograms = Histograms(Mutex::default());
        let mut sums = FlowSums::default();
        sums.rtt_us.count(40_000, 3);
        sums.rtt_us.count(100, 1);
        histograms.add(1, 5, &sums, || "a".into());
        histograms.add(1, 7, &sums, || "b".into());
        histograms.add(2, 3, &FlowSums::default(), || unreachable!("it adds nothing"));
        let state = histograms.state();
        // below 65.5 ms
        let example = Example { flow: "b".into(), value: 0.0368635 };
        assert_eq!(state.examples, [((0, 9), example)].into());
        assert_eq!(state.more.upto_us, [(1, 7), (2, 3)].into());
        assert_eq!(state.more.sums.rtt_us.total(), 8);
    }
}
