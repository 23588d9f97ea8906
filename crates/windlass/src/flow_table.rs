//! The flows that are under agents' control here, by one look at each datapath's flow table, however many interfaces it has.

use crate::info::open_whole;
use anyhow::Result;
use serde::Serialize;
use std::collections::{BTreeMap, btree_map::Entry};
use windlass_agent::{Error, FlowInfo, GroupInfo, Pinned, check_root};

/// A flow, with the names of what it belongs to.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// Interface that faces its sender.
    pub iface: String,
    /// Name of its rule.
    pub rule_name: String,
    #[serde(flatten)]
    pub flow: FlowInfo,
}

impl Seen {
    /// What is done with it now, in a word.
    pub fn state(&self) -> &'static str {
        self.flow.word()
    }
}

/// What one look found.
#[derive(Debug, Default)]
pub struct FlowTable {
    /// By interface, sender and receiver.
    pub flows: Vec<Seen>,
    /// Groups that they can be in.
    pub groups: Vec<GroupInfo>,
    /// Interfaces that only one direction of their traffic passes, and how.
    pub one_way: BTreeMap<String, String>,
}

impl FlowTable {
    /// Reads the flow tables. Nothing is in them where nothing is under control.
    ///
    /// # Errors
    /// Something is, and it cannot be read.
    pub fn read() -> Result<FlowTable> {
        let mut table = FlowTable::default();
        let interfaces = windlass_agent::pinned_here();
        let mut in_part = None;
        // of one datapath each
        let mut datapaths: BTreeMap<u32, Vec<FlowInfo>> = BTreeMap::new();
        let mut named: BTreeMap<u32, (String, Vec<String>)> = BTreeMap::new();
        for iface in &interfaces {
            let Some(pinned) = open_whole(iface)? else {
                in_part.get_or_insert(iface);
                continue;
            };
            named.insert(pinned.ifindex(), (iface.clone(), pinned.rule_names()));
            if let Some(what) = pinned.packets()?.one_way() {
                table.one_way.insert(iface.clone(), what.to_string());
            }
            if let Entry::Vacant(entry) = datapaths.entry(pinned.clock_number()) {
                entry.insert(pinned.all_flows()?);
                table.groups = pinned.groups()?;
            }
        }
        if let (true, Some(iface)) = (named.is_empty(), in_part) {
            explain(iface)?;
        }
        for flow in datapaths.into_values().flatten() {
            // those of an interface that was released since end with it
            let Some((iface, rules)) = named.get(&flow.ifindex) else { continue };
            let rule_name = rule_name(&flow, rules);
            table.flows.push(Seen { iface: iface.clone(), rule_name, flow });
        }
        table.flows.sort_by(|a, b| key(a).cmp(&key(b)));
        Ok(table)
    }

    /// Reads them where `what` is tried, which only root can.
    ///
    /// # Errors
    /// The same; and what is under control is not seen from here, as an `attach` has it.
    pub fn read_for(what: &'static str) -> Result<FlowTable> {
        check_root(what)?;
        crate::info::check_none_elsewhere()?;
        FlowTable::read()
    }
}

fn key(seen: &Seen) -> impl Ord + '_ {
    (&seen.iface, seen.flow.sender, seen.flow.receiver)
}

/// Why nothing can be read there, unless it was released since.
fn explain(iface: &str) -> Result<(), Error> {
    match Pinned::open(iface) {
        Ok(_) | Err(Error::NotPinned(_)) => Ok(()),
        Err(why) => Err(why),
    }
}

/// Name of its rule, of those in force.
pub fn rule_name(flow: &FlowInfo, names: &[String]) -> String {
    match flow.mode {
        // no rule matches it, or one requires that
        "off" => "(off)".into(),
        _ => names.get(flow.rule as usize).cloned().unwrap_or_else(|| format!("rule {}", flow.rule)),
    }
}

/// Flows for tests.
#[cfg(test)]
pub mod sample {
    use super::*;

    /// A controlled flow of rule "wan" to this port of its receiver.
    pub fn flow(port: u16) -> FlowInfo {
        FlowInfo {
            ifindex: 3,
            sender: ([192, 0, 2, 1], 80).into(),
            receiver: ([198, 51, 100, 1], port).into(),
            first_seq: 7,
            state: "active",
            mode: "transparent",
            only_watched: None,
            algorithm: "bbr",
            has_own_algorithm: false,
            rule: 0,
            is_leaving: false,
            cwnd_bytes: 14480,
            pacing_bps: None,
            srtt_us: 20_000,
            min_rtt_us: 20_000,
            inflight_bytes: 1000,
            stored_bytes: 2000,
            held_bytes: 65536,
            unacked_bytes: 2000,
            mss_bytes: 1448,
            rcv_wscale: Some(7),
            room_bytes: 0,
            delivered_bytes: 0,
            lost_segs: 3,
            repaired_segs: 2,
            sender_retrans_segs: 1,
            group: None,
        }
    }

    pub fn seen(flow: FlowInfo) -> Seen {
        Seen { iface: "tap0".into(), rule_name: "wan".into(), flow }
    }
}

#[cfg(test)]
mod tests {
    use super::{sample::*, *};
    use windlass_agent::OnlyWatched;

    #[test]
    fn a_flows_state_is_what_is_done_with_it_now() {
        let state =
            |mode, state, only_watched| seen(FlowInfo { mode, state, only_watched, ..flow(1) }).state();
        assert_eq!(state("transparent", "active", None), "controlled");
        assert_eq!(state("transparent", "bypass", None), "bypass");
        assert_eq!(state("watch", "active", None), "watched");
        assert_eq!(state("watch", "active", Some(OnlyWatched::Paces)), "paces");
        assert_eq!(state("off", "active", None), "off");
    }

    #[test]
    fn a_rule_without_a_noted_name_has_its_number() {
        let names = ["wan".to_string()];
        assert_eq!(rule_name(&flow(1), &names), "wan");
        assert_eq!(rule_name(&FlowInfo { rule: 4, ..flow(1) }, &names), "rule 4");
        assert_eq!(rule_name(&FlowInfo { mode: "off", ..flow(1) }, &names), "(off)");
    }
}
