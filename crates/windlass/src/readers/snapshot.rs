//! What was found at one look at the flow tables and counters, and pages of it.

use super::question::{PAGE_MOST, Page};
use crate::{
    counters::watch::{self, Datapath},
    flow_table::FlowTable,
    flows::{COLUMNS, Column, Filter},
    info::open_whole,
    print,
    top::look::{Look, Row, Watcher},
};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    time::{Duration, Instant},
};
use windlass_agent::{By, GroupInfo, Usage, by_account};

/// Time from one look to the next at least. With that a new flow is seen within a second.
const PAUSE: Duration = Duration::from_millis(400);
/// ... and so many times what one takes: looks take no more than a fifth of one processor, and that only while there are questions.
const PAUSE_TIMES: u32 = 4;
/// Servers at most; those that hold most come first.
const ACCOUNTS_MOST: usize = 100;
/// What flows are sorted by that is no column of `windlass flows`.
const RATE: &str = "rate";

/// Looks, and remembers of the look before what rates are made from.
#[derive(Debug, Default)]
pub struct Looker {
    flows: Watcher,
    counters: watch::Watcher,
}

/// One look.
#[derive(Debug)]
pub struct Snapshot {
    at: Instant,
    took: Duration,
    look: Look,
    groups: Vec<GroupInfo>,
    one_way: BTreeMap<String, String>,
    datapaths: Vec<(Datapath, Usage)>,
}

impl Looker {
    /// Looks at `t_us` after the first look.
    pub fn look(&mut self, t_us: u64) -> Result<Snapshot> {
        let at = Instant::now();
        let table = FlowTable::read()?;
        let counted = self.counters.look(t_us, watch::read(&[])?);
        let mut datapaths = Vec::new();
        for datapath in counted.datapaths {
            let first = datapath.interfaces.first().map(|iface| open_whole(iface)).transpose()?.flatten();
            let usage = first.map(|pinned| pinned.usage()).transpose()?.unwrap_or_default();
            datapaths.push((datapath, usage));
        }
        let look = self.flows.look(t_us, table.flows);
        let (groups, one_way) = (table.groups, table.one_way);
        Ok(Snapshot { at, took: at.elapsed(), look, groups, one_way, datapaths })
    }
}

impl Snapshot {
    /// Of a look that began `at` this time, at flows and at datapaths.
    pub fn new(at: Instant, look: Look, datapaths: Vec<(Datapath, Usage)>) -> Snapshot {
        let (groups, one_way) = (Vec::new(), BTreeMap::new());
        Snapshot { at, took: at.elapsed(), look, groups, one_way, datapaths }
    }

    /// Need not be looked again yet.
    pub fn is_recent(&self) -> bool {
        self.at.elapsed() < PAUSE.max(self.took * PAUSE_TIMES)
    }

    /// Totals by rule and by state, what is in use, and what was counted per second.
    pub fn overview(&self) -> Value {
        let mut states: BTreeMap<&str, u64> = BTreeMap::new();
        self.look.flows.iter().for_each(|row| *states.entry(row.seen.state()).or_default() += 1);
        let mut per_s: BTreeMap<&str, f64> = BTreeMap::new();
        for (datapath, _) in &self.datapaths {
            datapath.per_s.iter().for_each(|(name, rate)| *per_s.entry(name).or_default() += rate);
        }
        let usage = |(datapath, usage): &(Datapath, Usage)| {
            json!({ "interfaces": print::together(&datapath.interfaces), "count": datapath.interfaces.len(),
                    "use": usage })
        };
        json!({
            "t_ms": self.look.t_ms,
            "took_us": self.took.as_micros() as u64,
            "flows": self.look.flows.len(),
            "states": states,
            "totals": self.look.totals,
            "datapaths": self.datapaths.iter().map(usage).collect::<Vec<_>>(),
            "groups": self.groups.len(),
            "one_way": self.one_way,
            "per_s": per_s,
        })
    }

    /// Some of the flows.
    ///
    /// # Errors
    /// The filter or the column is none; the message has what they can be.
    pub fn page(&self, page: &Page) -> Result<Value> {
        let words: Vec<String> = page.filter.split_whitespace().map(String::from).collect();
        let filter = Filter::parse(&words)?;
        let mut rows: Vec<&Row> = self.look.flows.iter().filter(|row| filter.is_met_by(&row.seen)).collect();
        match page.sort.as_deref() {
            None if page.reverse => rows.reverse(),
            None => {}
            Some(RATE) if page.reverse => rows.sort_by_key(|row| row.rate_bps),
            Some(RATE) => rows.sort_by_key(|row| Reverse(row.rate_bps)),
            Some(name) => match COLUMNS.iter().find(|column| column.name == name) {
                Some(column) => Column::sort(column, &mut rows, |row| &row.seen, page.reverse),
                None => {
                    let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
                    bail!("no column '{name}'; there are {RATE}, {}", names.join(", "))
                }
            },
        }
        let shown = rows.iter().skip(page.offset).take(page.limit.min(PAGE_MOST));
        let document = |row: &&Row| {
            let mut document = serde_json::to_value(row).expect("plain data");
            document["word"] = row.seen.state().into();
            document
        };
        Ok(json!({
            "t_ms": self.look.t_ms,
            "flows": self.look.flows.len(),
            "matching": rows.len(),
            "offset": page.offset,
            "rows": shown.map(document).collect::<Vec<_>>(),
        }))
    }

    /// Groups with what their members deliver, and what servers use.
    pub fn groups(&self) -> Value {
        let mut rates: BTreeMap<&str, u64> = BTreeMap::new();
        for row in &self.look.flows {
            if let Some(group) = &row.seen.flow.group {
                *rates.entry(&group.name).or_default() += row.rate_bps.unwrap_or(0);
            }
        }
        let group = |group: &GroupInfo| {
            let mut document = serde_json::to_value(group).expect("plain data");
            document["rate_bps"] = rates.get(group.name.as_str()).copied().unwrap_or(0).into();
            document
        };
        let shares = |(datapath, usage): &(Datapath, Usage)| {
            let is_of = |row: &&Row| datapath.interfaces.contains(&row.seen.iface);
            let flows = self.look.flows.iter().filter(is_of).map(|row| &row.seen.flow);
            let mut servers = by_account(flows, usage, By::Server);
            let count = servers.len();
            servers.truncate(ACCOUNTS_MOST);
            json!({ "interfaces": print::together(&datapath.interfaces), "use": usage, "servers": count,
                    "accounts": servers })
        };
        json!({
            "t_ms": self.look.t_ms,
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
            "shares": self.datapaths.iter().map(shares).collect::<Vec<_>>(),
        })
    }

    /// What was counted, with its meaning, by datapath: in the order of the datapath's list.
    pub fn counters(&self) -> Value {
        let known = windlass_core::counters();
        let of_datapath = |(datapath, _): &(Datapath, Usage)| {
            let counter = |counter: &windlass_core::Counter| {
                json!({
                    "name": counter.name,
                    "count": datapath.counters.get(&counter.name).copied().unwrap_or(0),
                    "per_s": datapath.per_s.get(&counter.name).copied().unwrap_or(0.0),
                    "meaning": counter.meaning,
                })
            };
            json!({ "interfaces": print::together(&datapath.interfaces),
                    "counters": known.iter().map(counter).collect::<Vec<_>>() })
        };
        json!({
            "t_ms": self.look.t_ms,
            "datapaths": self.datapaths.iter().map(of_datapath).collect::<Vec<_>>(),
        })
    }
}

/// Snapshots for tests.
#[cfg(test)]
pub mod sample {
    use super::*;
    use crate::flow_table::sample::{flow, seen};
    use windlass_agent::FlowInfo;

    /// Of so many flows, whose ports begin with 1; each has delivered its port's kilobytes in the last second.
    pub fn snapshot(count: u16) -> Snapshot {
        let mut watcher = Watcher::default();
        let of = |factor: u32| {
            let flow = move |port: u16| FlowInfo {
                delivered_bytes: u32::from(port) * 1000 * factor,
                lost_segs: u32::from(port % 7),
                ..flow(port)
            };
            (1..=count).map(|port| seen(flow(port))).collect::<Vec<_>>()
        };
        watcher.look(0, of(0));
        let look = watcher.look(1_000_000, of(1));
        let datapath = Datapath { interfaces: vec!["tap0".into()], ..Datapath::default() };
        Snapshot {
            at: Instant::now(),
            took: Duration::ZERO,
            look,
            groups: Vec::new(),
            one_way: BTreeMap::new(),
            datapaths: vec![(datapath, Usage::default())],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(change: impl FnOnce(&mut Page)) -> Page {
        let mut page = Page { limit: 3, ..Page::default() };
        change(&mut page);
        page
    }

    fn ports(answer: &Value) -> Vec<String> {
        let rows = answer["rows"].as_array().expect("rows");
        let port =
            |row: &Value| row["receiver"].as_str().and_then(|r| r.rsplit(':').next().map(String::from));
        rows.iter().filter_map(port).collect()
    }

    #[test]
    fn a_page_of_flows_has_those_that_its_filter_lets_through_in_its_order() {
        let snapshot = sample::snapshot(100);
        let first = snapshot.page(&page(|_| {})).unwrap();
        assert_eq!(
            (ports(&first), &first["matching"]),
            (["1", "2", "3"].map(String::from).into(), &100.into())
        );
        let fastest = snapshot.page(&page(|p| p.sort = Some("rate".into()))).unwrap();
        assert_eq!(
            (ports(&fastest), &fastest["rows"][0]["rate_bps"]),
            (["100", "99", "98"].map(String::from).into(), &800_000.into())
        );
        assert_eq!(fastest["rows"][0]["word"], "controlled");
        let last = page(|p| (p.offset, p.reverse) = (99, true));
        assert_eq!(ports(&snapshot.page(&last).unwrap()), ["1"]);
        let lost =
            page(|p| (p.filter, p.sort) = ("dport 6,7,8 state controlled".into(), Some("lost".into())));
        assert_eq!(ports(&snapshot.page(&lost).unwrap()), ["6", "8", "7"]);
        let none = snapshot.page(&page(|p| p.filter = "state off".into())).unwrap();
        assert_eq!((&none["matching"], &none["flows"]), (&0.into(), &100.into()));
        let all = snapshot.page(&page(|p| p.limit = usize::MAX)).unwrap();
        assert_eq!(ports(&all).len(), 100);
    }

    #[test]
    fn a_page_is_refused_with_what_filters_and_columns_can_be() {
        let snapshot = sample::snapshot(1);
        let why = |page: &Page| snapshot.page(page).unwrap_err().to_string();
        assert!(why(&page(|p| p.filter = "state open".into())).contains("known: controlled"));
        assert!(why(&page(|p| p.sort = Some("colour".into()))).contains("there are rate, iface"));
    }

    #[test]
    fn an_overview_has_totals_and_what_is_in_use() {
        let overview = sample::snapshot(10).overview();
        assert_eq!(overview["states"], json!({ "controlled": 10 }));
        assert_eq!(overview["totals"][0]["rule_name"], "wan");
        assert_eq!(overview["totals"][0]["rate_bps"], 440_000);
        assert_eq!(overview["datapaths"][0]["interfaces"], "tap0");
    }
}
