//! `windlass flows`: the flows under agents' control, once.

mod column;
mod filter;

use crate::{
    args::FlowsArgs,
    flow_table::{FlowTable, Seen},
    print,
};
use anyhow::Result;
pub use column::{COLUMNS, Column, in_words};
pub use filter::Filter;
use serde_json::json;
use std::process::ExitCode;

/// Prints those that the filter lets through. That there are none is an answer, too.
pub fn flows(args: &FlowsArgs) -> Result<ExitCode> {
    let filter = Filter::parse(&args.filter)?;
    let columns: Vec<&Column> = match &args.columns {
        Some(names) => names.iter().map(|name| Column::named(name)).collect(),
        None => COLUMNS.iter().filter(|column| column.is_shown).collect(),
    };
    let mut table = FlowTable::read_for("looking at flows")?;
    table.flows.retain(|seen| filter.is_met_by(seen));
    if let Some(name) = &args.sort {
        Column::named(name).sort(&mut table.flows, |seen| seen, args.reverse);
    } else if args.reverse {
        table.flows.reverse();
    }
    if args.json {
        println!("{}", json!({ "flows": table.flows, "groups": table.groups, "one_way": table.one_way }));
        return Ok(ExitCode::SUCCESS);
    }
    if table.flows.is_empty() {
        println!("{}", why_none(&filter));
    } else {
        let header: Vec<&str> = columns.iter().map(|column| column.name).collect();
        let row = |seen: &Seen| columns.iter().map(|column| (column.cell)(seen)).collect();
        print::table(&header, &table.flows.iter().map(row).collect::<Vec<_>>());
    }
    for group in &table.groups {
        print::line(print::group(group, ""));
    }
    for (iface, what) in &table.one_way {
        print::line(format_args!("{iface}: {what}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn why_none(filter: &Filter) -> &'static str {
    if windlass_agent::pinned_here().is_empty() {
        "no flow: no interface of this network namespace is under an agent's control"
    } else if filter.is_empty() {
        "no flow"
    } else {
        "no flow matches"
    }
}
