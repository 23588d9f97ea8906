//! `windlass flows --by`: how much of store and flow table each uses, and how much it may.

use crate::{
    args::FlowsBy,
    info::{check_none_elsewhere, open_whole},
    print,
};
use anyhow::Result;
use serde_json::json;
use std::{collections::BTreeMap, process::ExitCode};
use windlass_agent::{Account, By, FlowInfo, Usage, by_account, check_root};

/// Prints what servers, or their clients, use behind each interface under an agent's control.
pub fn shares(by: FlowsBy, json: bool) -> Result<ExitCode> {
    let by = match by {
        FlowsBy::Server => By::Server,
        FlowsBy::Client => By::Client,
    };
    check_root("looking at flows")?;
    check_none_elsewhere()?;
    // of one datapath each, as one look at its flow table has them all
    let mut datapaths: BTreeMap<u32, Vec<FlowInfo>> = BTreeMap::new();
    let mut all: Vec<(String, Usage, Vec<Account>)> = Vec::new();
    for iface in windlass_agent::pinned_here() {
        let Some(pinned) = open_whole(&iface)? else { continue };
        let clock = pinned.clock_number();
        if !datapaths.contains_key(&clock) {
            datapaths.insert(clock, pinned.all_flows()?);
        }
        let of_iface = datapaths[&clock].iter().filter(|flow| flow.ifindex == pinned.ifindex());
        let usage = pinned.usage()?;
        all.push((iface, usage, by_account(of_iface, &usage, by)));
    }
    if json {
        let list: Vec<_> = all
            .iter()
            .map(|(iface, usage, accounts)| json!({ "iface": iface, "use": usage, "accounts": accounts }))
            .collect();
        println!("{}", json!({ "interfaces": list }));
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        println!("no interface of this network namespace is under an agent's control");
        return Ok(ExitCode::SUCCESS);
    }
    let mut header = vec!["iface", "server", "flows", "may have", "holds", "may hold"];
    if by == By::Client {
        header.insert(2, "client");
    }
    let rows = all.iter().flat_map(|(iface, _, accounts)| accounts.iter().map(|a| row(iface, a)));
    print::table(&header, &rows.collect::<Vec<_>>());
    for (iface, usage, _) in &all {
        println!("{}", total(iface, usage));
    }
    Ok(ExitCode::SUCCESS)
}

fn row(iface: &str, account: &Account) -> Vec<String> {
    let mut cells = vec![iface.to_string(), account.server.to_string()];
    cells.extend(account.client.map(|client| match client.is_ipv6() {
        true => format!("{client}/64"),
        false => client.to_string(),
    }));
    cells.extend([
        account.flows.to_string(),
        account.flows_limit.to_string(),
        format!("{}k", account.held_bytes / 1024),
        format!("{}k", account.held_limit_bytes / 1024),
    ]);
    cells
}

fn total(iface: &str, usage: &Usage) -> String {
    format!(
        "{iface}: {} of {} MiB of the store are in use, and {} of {} entries of the flow table, {} of them by flows \
         without a rule",
        usage.store_used_bytes >> 20,
        usage.store_bytes >> 20,
        usage.flows_used,
        usage.flows_max,
        usage.flows_without_rule
    )
}
