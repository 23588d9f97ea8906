//! `windlass fleet`: policies of many machines, by way of etcd.

mod node;
mod rollout;
mod table;

use crate::{args::EtcdArgs, args::FleetCommand, print};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::process::ExitCode;
use windlass_fleet::{Selector, Store, driver, overview::Overview};

pub fn fleet(command: FleetCommand) -> Result<ExitCode> {
    match command {
        FleetCommand::Node(args) => node::node(&args),
        FleetCommand::Rollout(args) => rollout::rollout(&args),
        FleetCommand::Rollback { etcd, select, because, json } => roll_back(&etcd, &select, &because, json),
        FleetCommand::Status { etcd, json } => status(&etcd, json),
        FleetCommand::History { etcd, json } => history(&etcd, json),
        FleetCommand::Forget { node, etcd, json } => forget(&etcd, &node, json),
    }
}

fn store(args: &EtcdArgs) -> Result<Store> {
    Ok(Store::new(args.etcd.clone(), &args.fleet)?)
}

/// What runs one of these commands: this thread.
fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().context("a runtime")
}

fn roll_back(etcd: &EtcdArgs, selector: &Selector, because: &str, json: bool) -> Result<ExitCode> {
    let store = store(etcd)?;
    let fleet = runtime()?.block_on(driver::roll_back(&store, selector, because))?;
    match json {
        true => println!("{}", json!({ "generation": fleet.generation, "what": fleet.changed.what })),
        false => print::line(format_args!("generation {}: {}", fleet.generation, fleet.changed.what)),
    }
    Ok(ExitCode::SUCCESS)
}

fn status(etcd: &EtcdArgs, json: bool) -> Result<ExitCode> {
    let store = store(etcd)?;
    let overview = Overview::of(&runtime()?.block_on(store.contents())?);
    match json {
        true => println!("{}", serde_json::to_string(&overview)?),
        false => table::print(&etcd.fleet, &overview),
    }
    Ok(ExitCode::SUCCESS)
}

fn history(etcd: &EtcdArgs, json: bool) -> Result<ExitCode> {
    let store = store(etcd)?;
    let changes = runtime()?.block_on(store.history())?;
    match json {
        true => println!("{}", serde_json::to_string(&changes)?),
        false => table::print_history(&changes),
    }
    Ok(ExitCode::SUCCESS)
}

fn forget(etcd: &EtcdArgs, node: &str, json: bool) -> Result<ExitCode> {
    let store = store(etcd)?;
    if !runtime()?.block_on(store.forget(node))? {
        bail!("{node} is alive: end its `windlass fleet node` first");
    }
    match json {
        true => println!("{}", json!({ "forgotten": node })),
        false => print::line(format_args!("{node}: forgotten")),
    }
    Ok(ExitCode::SUCCESS)
}
