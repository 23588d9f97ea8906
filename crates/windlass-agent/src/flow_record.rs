//! Records of flows, as readers are given them: docs/records.md has the schema.

use crate::{flows::address, only_watched::OnlyWatched};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::LazyLock,
    time::{SystemTime, UNIX_EPOCH},
};
use windlass_core::{
    Algorithm,
    abi::{self, wl_flow, wl_flow_key, wl_flow_record},
    counters,
};

/// Names that the kernel has as numbers only.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// By index: the interface's name, and those of the rules in force there.
    pub ifaces: BTreeMap<u32, (String, Vec<String>)>,
    /// Of groups, in the order of their numbers.
    pub groups: Vec<String>,
}

/// One record of a flow: of all that it did up to then.
#[derive(Clone, Debug, Serialize)]
pub struct FlowRecord {
    /// Of this schema: fields are only added while it stays.
    pub version: u8,
    /// Counts the records of the datapath from 1 on; those that are missing were lost. None: the agent has made it.
    pub number: Option<u64>,
    /// How many were lost so far, as the ring had no room.
    pub records_lost: u64,
    /// Why it is the flow's last; none: the flow goes on.
    pub end: Option<&'static str>,
    /// When the flow began, or records were switched on, in microseconds of the Unix epoch.
    pub began_unix_us: u64,
    /// When the record was made.
    pub recorded_unix_us: u64,
    /// Time between the two.
    pub duration_us: u64,
    /// The flow had begun before records were switched on: what it did until then is not in them.
    pub is_partial: bool,
    /// The controlled sender.
    pub sender: SocketAddr,
    /// Its receiver.
    pub receiver: SocketAddr,
    /// First sequence number of the sender's data.
    pub first_seq: u32,
    /// Interface that faces the sender, by the name it had; none: it is gone.
    pub iface: Option<String>,
    /// Its index.
    pub ifindex: u32,
    /// Position of its rule in the policy.
    pub rule: u32,
    /// Its name; none: not known.
    pub rule_name: Option<String>,
    /// Number of its group in the kernel; none: it is in none.
    pub group: Option<u32>,
    /// Its name; none: not known.
    pub group_name: Option<String>,
    /// Of an experiment; none so far.
    pub experiment: Option<u32>,
    /// Likewise.
    pub arm: Option<u32>,
    /// Likewise.
    pub period: Option<u32>,
    /// Algorithm of its rule, or its own.
    pub algorithm: &'static str,
    /// What its rule wants: `off`, `watch` or `transparent`.
    pub mode: &'static str,
    /// Its state, at the end or now.
    pub state: &'static str,
    /// The counter that names why; none: as its rule wants.
    pub reason: Option<String>,
    /// Why it is never more than watched; none: it is as its rule wants.
    pub only_watched: Option<OnlyWatched>,
    /// From its begin to the sender's first data; none: there were none.
    pub first_byte_us: Option<u64>,
    /// Delivered to the receiver.
    pub delivered_bytes: u64,
    /// The same in full segments, for each ACK rounded.
    pub delivered_segs: u64,
    /// Of these bytes: while the box had the window.
    pub controlled_bytes: u64,
    /// Of these bytes: reported as CE-marked.
    pub ce_bytes: u64,
    /// ACKs that reported marks.
    pub marked_acks: u32,
    /// Time with data in flight: all but `limited_us.idle`.
    pub busy_us: u64,
    /// Delivered in that time; none: there was no such time.
    pub goodput_bps: Option<u64>,
    /// Round-trip times between box and receiver.
    pub rtt: Rtt,
    /// What held the flow back, by time.
    pub limited_us: Limits,
    /// The same by bytes that were delivered meanwhile.
    pub limited_bytes: Limits,
    /// What was in flight against the intended window.
    pub flight: Flight,
    /// The sender's full segment.
    pub mss_bytes: u32,
    /// Found lost by the box.
    pub lost_segs: u32,
    /// Retransmitted by the box.
    pub repaired_segs: u32,
    /// Reported to have arrived twice.
    pub spurious_segs: u32,
    /// Reductions of the window for losses or marks.
    pub recoveries: u32,
    /// Of these, spurious.
    pub undone: u32,
    /// Retransmission timeouts of the box.
    pub timeouts: u32,
    /// Retransmissions by the sender that were forwarded.
    pub sender_retrans_segs: u32,
    /// ... and that were not, as the box had the data on its way.
    pub sender_absorbed_segs: u32,
    /// Of the sender's: by its timeout, as it seems.
    pub sender_timeouts: u32,
    /// Stretches of data between pauses.
    pub responses: Responses,
    /// How often the state changed.
    pub changes_count: u32,
    /// The last of these changes, oldest first.
    pub changes: Vec<Change>,
}

/// Round-trip times.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rtt {
    /// How many there are.
    pub samples: u32,
    /// None: no sample, like the next three.
    pub min_us: Option<u32>,
    /// Exact.
    pub mean_us: Option<u64>,
    /// Of a histogram: within an eighth, between 64 us and 4.2 s.
    pub p50_us: Option<u32>,
    /// Likewise.
    pub p95_us: Option<u32>,
    /// Smoothed, at the end; 0: no sample.
    pub smoothed_us: u32,
    /// Of the handshake; 0: not known.
    pub handshake_us: u32,
    /// Least one between box and sender; 0: not known.
    pub sender_side_us: u32,
}

/// A quantity divided among what holds a flow back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Nothing is in flight.
    pub idle: u64,
    /// The application sends little by little.
    pub application: u64,
    /// The sender's own window or send buffer.
    pub sender: u64,
    /// The receiver's window.
    pub receiver: u64,
    /// The algorithm's window or pacing.
    pub window: u64,
    /// Losses are being repaired.
    pub recovery: u64,
    /// The share of the group's window.
    pub group: u64,
    /// Not known: the box does not have the window.
    pub uncontrolled: u64,
}

impl Limits {
    /// By `enum wl_limit`.
    pub fn of(by_limit: &[u64; abi::WL_LIMITS as usize]) -> Limits {
        let [idle, application, sender, receiver, window, recovery, group, uncontrolled] = *by_limit;
        Limits { idle, application, sender, receiver, window, recovery, group, uncontrolled }
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, n)| n).sum()
    }

    /// Each with its name.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("idle", self.idle),
            ("application", self.application),
            ("sender", self.sender),
            ("receiver", self.receiver),
            ("window", self.window),
            ("recovery", self.recovery),
            ("group", self.group),
            ("uncontrolled", self.uncontrolled),
        ]
    }
}

/// What was in flight when ACKs came, while the box had the window and that held the flow back.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Flight {
    /// How many ACKs.
    pub samples: u32,
    /// None: no sample.
    pub mean_bytes: Option<u64>,
    /// The largest.
    pub max_bytes: u32,
    /// Mean of the intended windows at these ACKs; none: no sample.
    pub window_mean_bytes: Option<u64>,
    /// The largest.
    pub window_max_bytes: u32,
    /// Of the samples: by more than two segments.
    pub above_window: u32,
}

/// Stretches of data behind pauses.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Responses {
    /// Those that have ended.
    pub count: u32,
    /// From the first byte to the last one's acknowledgement; none: there is none.
    pub mean_us: Option<u64>,
    /// The longest.
    pub max_us: u32,
}

/// A change of state.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// Since the flow began.
    pub at_ms: u32,
    /// The new state.
    pub state: &'static str,
    /// The counter that names why; none: as its rule wants.
    pub reason: Option<String>,
}

/// A flow in words: its sender and its receiver.
pub fn flow_words(key: &wl_flow_key) -> String {
    let (sender, receiver) =
        (address(&key.snd_addr, key.snd_port_be), address(&key.rcv_addr, key.rcv_port_be));
    format!("{sender} to {receiver}")
}

/// The word for a state.
pub(crate) fn state_word(state: u8) -> &'static str {
    match state.into() {
        abi::WL_FLOW_ACTIVE => "active",
        abi::WL_FLOW_BYPASS => "bypass",
        abi::WL_FLOW_UNSTORED => "unstored",
        abi::WL_FLOW_RECLAIMED => "reclaimed",
        abi::WL_FLOW_HANDING_BACK => "handing_back",
        abi::WL_FLOW_SETTLING => "settling",
        abi::WL_FLOW_WATCHED => "watched",
        abi::WL_FLOW_OFF => "off",
        _ => "free",
    }
}

fn end_word(end: u8) -> Option<&'static str> {
    match end.into() {
        abi::WL_END_NONE => None,
        abi::WL_END_FIN => Some("fin"),
        abi::WL_END_REPLACED => Some("replaced"),
        abi::WL_END_IDLE => Some("idle"),
        abi::WL_END_RECLAIMED => Some("reclaimed"),
        abi::WL_END_RELEASED => Some("released"),
        abi::WL_END_DETACHED => Some("detached"),
        _ => Some("reset"),
    }
}

static COUNTERS: LazyLock<Vec<String>> =
    LazyLock::new(|| counters().into_iter().map(|counter| counter.name).collect());

/// The name of the counter that is a reason.
pub(crate) fn reason_word(reason: u8) -> Option<String> {
    if u32::from(reason) == abi::WL_NO_REASON {
        return None;
    }
    COUNTERS.get(usize::from(reason)).cloned()
}

/// How far CLOCK_MONOTONIC is behind the Unix epoch.
fn monotonic_unix_us() -> u64 {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (unix.as_micros() as u64).saturating_sub(crate::monotonic::monotonic_long_us())
}

fn mean(sum: u64, samples: u32) -> Option<u64> {
    sum.checked_div(samples.into())
}

/// The changes of state, oldest first.
fn changes(record: &wl_flow_record) -> Vec<Change> {
    let kept = record.changes.len() as u32;
    let first = record.changes_count.saturating_sub(kept);
    (first..record.changes_count)
        .map(|n| record.changes[(n % kept) as usize])
        .map(|c| Change { at_ms: c.at_ms, state: state_word(c.state), reason: reason_word(c.reason) })
        .collect()
}

/// The quantile of a histogram of round-trip times; none: it is empty.
pub(crate) fn rtt_quantile_us(buckets: &[u32; abi::WL_RTT_BUCKETS as usize], permille: u32) -> Option<u32> {
    let quantile = windlass_core::rtt_quantile_us(buckets, permille);
    (quantile > 0).then_some(quantile)
}

impl FlowRecord {
    /// What the kernel's record reports.
    pub fn of(record: &wl_flow_record, names: &Names) -> FlowRecord {
        let epoch_us = monotonic_unix_us();
        let (began_us, duration_us) = (record.began_us, record.recorded_us.saturating_sub(record.began_us));
        let limited_us = Limits::of(&record.limited_us);
        let busy_us = limited_us.total() - limited_us.idle;
        let known = names.ifaces.get(&record.key.ifindex);
        let number = |n: u32| (n != 0).then_some(n);
        let group = number(record.group).map(|group| group - 1);
        let flow = wl_flow { flags: record.flags, flags2: record.flags2 as u16, ..wl_flow::default() };
        FlowRecord {
            version: record.version,
            number: (record.number != 0).then_some(record.number),
            records_lost: record.records_lost,
            end: end_word(record.end),
            began_unix_us: epoch_us + began_us,
            recorded_unix_us: epoch_us + record.recorded_us,
            duration_us,
            is_partial: record.is_partial != 0,
            sender: address(&record.key.snd_addr, record.key.snd_port_be),
            receiver: address(&record.key.rcv_addr, record.key.rcv_port_be),
            first_seq: record.first_seq,
            iface: known.map(|(iface, _)| iface.clone()),
            ifindex: record.key.ifindex,
            rule: record.rule_id,
            rule_name: known.and_then(|(_, rules)| rules.get(record.rule_id as usize).cloned()),
            group,
            group_name: group.and_then(|group| names.groups.get(group as usize).cloned()),
            experiment: number(record.experiment),
            arm: number(record.arm),
            period: number(record.period),
            algorithm: Algorithm::by_id(record.algorithm.into()).map_or("-", |a| a.name()),
            mode: match record.mode.into() {
                abi::WL_MODE_OFF => "off",
                abi::WL_MODE_WATCH => "watch",
                _ => "transparent",
            },
            state: state_word(record.state),
            reason: reason_word(record.reason),
            only_watched: OnlyWatched::of(&flow),
            first_byte_us: (record.first_data_us != 0)
                .then(|| record.first_data_us.saturating_sub(record.began_us)),
            delivered_bytes: record.delivered_bytes,
            delivered_segs: record.delivered_segs,
            controlled_bytes: record.controlled_bytes,
            ce_bytes: record.ce_bytes,
            marked_acks: record.marked_acks,
            busy_us,
            goodput_bps: (u128::from(record.delivered_bytes) * 8_000_000)
                .checked_div(busy_us.into())
                .map(|bps| bps as u64),
            rtt: Rtt {
                samples: record.rtt_samples,
                min_us: number(record.rtt_min_us).filter(|_| record.rtt_samples > 0),
                mean_us: mean(record.rtt_sum_us, record.rtt_samples),
                p50_us: rtt_quantile_us(&record.rtt_buckets, 500),
                p95_us: rtt_quantile_us(&record.rtt_buckets, 950),
                smoothed_us: record.srtt_us,
                handshake_us: record.handshake_rtt_us,
                sender_side_us: record.sender_rtt_us,
            },
            limited_us,
            limited_bytes: Limits::of(&record.limited_bytes),
            flight: Flight {
                samples: record.flight_samples,
                mean_bytes: mean(record.flight_sum_bytes, record.flight_samples),
                max_bytes: record.flight_max_bytes,
                window_mean_bytes: mean(record.window_sum_bytes, record.flight_samples),
                window_max_bytes: record.window_max_bytes,
                above_window: record.flights_above_window,
            },
            mss_bytes: record.mss_bytes,
            lost_segs: record.lost_segs,
            repaired_segs: record.repaired_segs,
            spurious_segs: record.spurious_segs,
            recoveries: record.recoveries,
            undone: record.undone,
            timeouts: record.timeouts,
            sender_retrans_segs: record.sender_retrans_segs,
            sender_absorbed_segs: record.sender_absorbed_segs,
            sender_timeouts: record.sender_timeouts,
            responses: Responses {
                count: record.responses,
                mean_us: mean(record.response_sum_us, record.responses),
                max_us: record.response_max_us,
            },
            changes_count: record.changes_count,
            changes: changes(record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> wl_flow_record {
        let mut record = wl_flow_record {
            version: 1,
            number: 7,
            began_us: 1_000_000,
            recorded_us: 3_000_000,
            delivered_bytes: 9_000_000_000,
            ..Default::default()
        };
        record.limited_us[abi::WL_LIMIT_WINDOW as usize] = 1_500_000;
        record.limited_us[abi::WL_LIMIT_IDLE as usize] = 500_000;
        record
    }

    #[test]
    fn goodput_of_a_record_is_over_the_time_with_data_in_flight() {
        let record = FlowRecord::of(&record(), &Names::default());
        assert_eq!((record.busy_us, record.goodput_bps), (1_500_000, Some(48_000_000_000)));
        assert_eq!((record.duration_us, record.end), (2_000_000, None));
    }

    #[test]
    fn a_record_has_the_last_changes_of_state_in_their_order() {
        let mut raw = record();
        raw.changes_count = 10;
        for n in 2..10 {
            raw.changes[n % 8].at_ms = n as u32;
        }
        let at: Vec<_> = FlowRecord::of(&raw, &Names::default()).changes.iter().map(|c| c.at_ms).collect();
        assert_eq!(at, [2, 3, 4, 5, 6, 7, 8, 9]);
    }

    /// The schema that docs/records.md documents: a field is never removed nor renamed while the version stays.
    #[test]
    fn the_documented_schema_of_records_is_the_one_that_is_written() {
        let page = include_str!("../../../docs/records.md");
        let value = serde_json::to_value(FlowRecord::of(&record(), &Names::default())).expect("plain data");
        let mut names = Vec::new();
        for (name, value) in value.as_object().expect("an object") {
            names.push(name.clone());
            if let Some(inner) = value.as_object() {
                names.extend(inner.keys().map(|key| format!("{name}.{key}")));
            }
        }
        for name in &names {
            assert!(page.contains(&format!("`{name}`")), "docs/records.md does not have `{name}`");
        }
    }
}
