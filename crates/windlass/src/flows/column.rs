//! The columns of `windlass flows`.

use crate::{flow_table::Seen, print};
use std::{cmp::Reverse, net::SocketAddr};
use windlass_agent::Per;

/// What a column sorts by.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Text(String),
    Address(SocketAddr),
    /// The largest comes first. None: not known.
    Number(Reverse<Option<u64>>),
}

/// A column.
pub struct Column {
    /// By which it is chosen, and its title.
    pub name: &'static str,
    /// Is it there unless others are chosen?
    pub is_shown: bool,
    pub cell: fn(&Seen) -> String,
    key: fn(&Seen) -> Key,
}

const fn column(
    name: &'static str,
    is_shown: bool,
    cell: fn(&Seen) -> String,
    key: fn(&Seen) -> Key,
) -> Column {
    Column { name, is_shown, cell, key }
}

fn number(value: impl Into<u64>) -> Key {
    Key::Number(Reverse(Some(value.into())))
}

/// A duration of which 0 is none.
fn us(value: u32) -> Key {
    Key::Number(Reverse((value > 0).then_some(value.into())))
}

fn kib(bytes: impl Into<u64>) -> String {
    format!("{}k", bytes.into() / 1024)
}

fn algorithm(seen: &Seen) -> String {
    match seen.flow.has_own_algorithm {
        true => format!("{} (own)", seen.flow.algorithm),
        false => seen.flow.algorithm.into(),
    }
}

fn mode(seen: &Seen) -> String {
    match seen.flow.only_watched {
        Some(why) => format!("{} ({})", seen.flow.mode, why.word()),
        None => seen.flow.mode.into(),
    }
}

fn group(seen: &Seen) -> String {
    seen.flow.group.as_ref().map_or("-".into(), |group| group.name.clone())
}

fn weight(seen: &Seen) -> String {
    seen.flow.group.as_ref().map_or("-".into(), |group| in_words(group.weight, group.per))
}

/// A weight, and whose it is if it is not the flow's.
pub fn in_words(weight: u32, per: Per) -> String {
    match per {
        Per::Flow => weight.to_string(),
        _ => format!("{weight} per {per:?}").to_lowercase(),
    }
}

/// All of them, in their order.
pub const COLUMNS: [Column; 23] = [
    column("iface", true, |s| s.iface.clone(), |s| Key::Text(s.iface.clone())),
    column("sender", true, |s| s.flow.sender.to_string(), |s| Key::Address(s.flow.sender)),
    column("receiver", true, |s| s.flow.receiver.to_string(), |s| Key::Address(s.flow.receiver)),
    column("state", true, |s| s.state().into(), |s| Key::Text(s.state().into())),
    column("mode", false, mode, |s| Key::Text(mode(s))),
    column("rule", true, |s| s.rule_name.clone(), |s| Key::Text(s.rule_name.clone())),
    column("alg", true, algorithm, |s| Key::Text(s.flow.algorithm.into())),
    column("cwnd", true, |s| kib(s.flow.cwnd_bytes), |s| number(s.flow.cwnd_bytes)),
    column(
        "pacing",
        true,
        |s| s.flow.pacing_bps.map_or("-".into(), print::bps),
        |s| Key::Number(Reverse(s.flow.pacing_bps)),
    ),
    column("srtt", true, |s| print::us(s.flow.srtt_us), |s| us(s.flow.srtt_us)),
    column("min_rtt", true, |s| print::us(s.flow.min_rtt_us), |s| us(s.flow.min_rtt_us)),
    column("inflight", true, |s| kib(s.flow.inflight_bytes), |s| number(s.flow.inflight_bytes)),
    column("unacked", false, |s| kib(s.flow.unacked_bytes), |s| number(s.flow.unacked_bytes)),
    column("stored", true, |s| kib(s.flow.stored_bytes), |s| number(s.flow.stored_bytes)),
    column("held", false, |s| kib(s.flow.held_bytes), |s| number(s.flow.held_bytes)),
    column("room", false, |s| kib(s.flow.room_bytes), |s| number(s.flow.room_bytes)),
    column("mss", false, |s| s.flow.mss_bytes.to_string(), |s| number(s.flow.mss_bytes)),
    column(
        "wscale",
        false,
        |s| s.flow.rcv_wscale.map_or("-".into(), |shift| shift.to_string()),
        |s| Key::Number(Reverse(s.flow.rcv_wscale.map(u64::from))),
    ),
    column("lost", true, |s| s.flow.lost_segs.to_string(), |s| number(s.flow.lost_segs)),
    column("repaired", true, |s| s.flow.repaired_segs.to_string(), |s| number(s.flow.repaired_segs)),
    column(
        "sender-rtx",
        true,
        |s| s.flow.sender_retrans_segs.to_string(),
        |s| number(s.flow.sender_retrans_segs),
    ),
    column("group", true, group, |s| Key::Text(group(s))),
    column("weight", true, weight, |s| {
        Key::Number(Reverse(s.flow.group.as_ref().map(|group| group.weight.into())))
    }),
];

impl Column {
    /// The one of that name, which the command line has checked.
    pub fn named(name: &str) -> &'static Column {
        COLUMNS.iter().find(|column| column.name == name).expect("one of the possible values")
    }

    /// Sorts, the largest number first, and texts and addresses in their order; flows that are equal in it keep theirs. `seen` is
    /// the flow of a row.
    pub fn sort<T>(&self, rows: &mut [T], seen: impl Fn(&T) -> &Seen, is_reversed: bool) {
        let key = |row: &T| (self.key)(seen(row));
        match is_reversed {
            false => rows.sort_by_cached_key(key),
            true => rows.sort_by_cached_key(|row| Reverse(key(row))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_table::sample::{flow, seen};
    use windlass_agent::FlowInfo;

    fn ports(flows: &[Seen]) -> Vec<u16> {
        flows.iter().map(|seen| seen.flow.receiver.port()).collect()
    }

    #[test]
    fn flows_are_sorted_by_any_column_numbers_from_the_largest_on() {
        let with = |port, srtt_us| seen(FlowInfo { srtt_us, ..flow(port) });
        let mut flows = vec![with(1, 300), with(3, 0), with(2, 4000), with(4, 300)];
        Column::named("srtt").sort(&mut flows, |seen| seen, false);
        assert_eq!(ports(&flows), [2, 1, 4, 3]);
        Column::named("srtt").sort(&mut flows, |seen| seen, true);
        assert_eq!(
            ports(&flows),
            [3, 1, 4, 2],
            "what is not known comes first then, and equals keep their order"
        );
        Column::named("receiver").sort(&mut flows, |seen| seen, false);
        assert_eq!(ports(&flows), [1, 2, 3, 4]);
    }

    #[test]
    fn columns_of_flows_have_names_of_their_own_and_a_cell_each() {
        for (at, column) in COLUMNS.iter().enumerate() {
            assert!(COLUMNS[..at].iter().all(|other| other.name != column.name), "{}", column.name);
            assert!(!(column.cell)(&seen(flow(1))).is_empty(), "{}", column.name);
        }
    }
}
