//! `windlass counters`: what the datapaths of an agent's interfaces have counted so far. Interfaces of one datapath are counted
//! together.

pub mod watch;

use crate::{
    args::CountersArgs,
    info::{controlled, with_controlled},
    print,
};
use anyhow::{Result, bail};
use serde_json::json;
use std::{collections::BTreeMap, process::ExitCode};
use windlass_agent::{Pinned, Usage};

/// Counters by name.
type Counts = BTreeMap<String, u64>;

/// Prints the counters of the interfaces named, of all under an agent's control if none is: in a table those that are not zero,
/// unless all are requested.
pub fn counters(args: &CountersArgs) -> Result<ExitCode> {
    const WHAT: &str = "looking at counters";
    let (all, json) = (args.all, args.json);
    let wanted = wanted(&args.ifaces, WHAT)?;
    if args.watch {
        return watch::watch(args, wanted);
    }
    let mut by_iface: BTreeMap<String, Counts> = BTreeMap::new();
    let mut usage: BTreeMap<String, Usage> = BTreeMap::new();
    // of each datapath
    let mut interfaces: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut read = |pinned: &Pinned| {
        interfaces.entry(pinned.clock_number()).or_default().push(pinned.iface().to_string());
        by_iface.insert(pinned.iface().to_string(), pinned.counters()?);
        usage.insert(pinned.iface().to_string(), pinned.usage()?);
        Ok(())
    };
    if wanted.is_empty() {
        with_controlled(WHAT, read)?;
    } else {
        wanted.iter().try_for_each(|name| read(&Pinned::open(name)?))?;
    }
    if json {
        println!("{}", json!({ "counters": by_iface, "use": usage }));
        return Ok(ExitCode::SUCCESS);
    }
    let of_datapath = |names: &Vec<String>| rows(&print::together(names), &by_iface[&names[0]], all);
    let rows: Vec<_> = interfaces.values().flat_map(of_datapath).collect();
    print::table(&["iface", "counter", "count", "meaning"], &rows);
    Ok(ExitCode::SUCCESS)
}

/// The interfaces named, by the names by which they are listed; there must be one under control.
fn wanted(names: &[String], what: &'static str) -> Result<Vec<String>> {
    let here = controlled(what)?;
    let wanted: Vec<String> = names.iter().map(|name| windlass_agent::listed_name(name)).collect();
    if let Some(unknown) = wanted.iter().find(|name| !here.contains(name)) {
        bail!("'{unknown}' is under no agent's control here; under control: {}", here.join(", "));
    }
    Ok(wanted)
}

/// Rows of one datapath, in the order of the datapath's list: what has to do with each other stands together.
fn rows(iface: &str, counts: &Counts, all: bool) -> Vec<Vec<String>> {
    let known = windlass_core::counters().into_iter();
    known
        .filter_map(|counter| {
            let count = counts.get(&counter.name).copied().unwrap_or(0);
            let row = || vec![iface.into(), counter.name.clone(), count.to_string(), counter.meaning.into()];
            (all || count > 0).then(row)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_counters_are_shown_only_on_request() {
        let counts =
            Counts::from([("clock_ticks".into(), 7), ("pass_table_full".into(), 2), ("undos".into(), 0)]);
        let shown = rows("tap0", &counts, false);
        let words: Vec<Vec<&str>> = shown.iter().map(|r| r.iter().map(String::as_str).collect()).collect();
        assert_eq!(
            words,
            [
                ["tap0", "pass_table_full", "2", "passed: flow table full"],
                ["tap0", "clock_ticks", "7", "rounds of the clock"],
            ]
        );
        assert_eq!(rows("tap0", &counts, true).len(), windlass_core::counters().len());
    }
}
