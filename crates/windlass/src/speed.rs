//! `windlass bench sim`: how fast the simulator is.

use anyhow::{Result, bail};
use std::{
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};
use windlass_sim::bench::{Cost, Load};

/// Each load is run so often, and the fastest counts: what is slower was disturbed.
const RUNS: usize = 3;

/// Measures the loads whose name begins with `only`, and prints what they cost.
pub fn bench(only: &str, json: bool, cancel: &AtomicBool) -> Result<ExitCode> {
    let loads: Vec<Load> =
        Load::compared().into_iter().chain(Load::growing()).filter(|l| l.name.starts_with(only)).collect();
    if loads.is_empty() {
        bail!("--only {only}: no load is called so");
    }
    if !json {
        println!(
            "{:<18} {:>11} {:>12} {:>9} {:>14} {:>8}",
            "load", "connections", "hops", "time", "hops/s", "per hop"
        );
    }
    let mut costs = Vec::new();
    for load in &loads {
        let cost = fastest(load, cancel)?;
        if !json {
            println!(
                "{:<18} {:>11} {:>12} {:>7.2} s {:>14.0} {:>5.0} ns",
                cost.load,
                cost.connections,
                cost.hops,
                cost.seconds,
                cost.hops_per_s,
                cost.ns_per_hop()
            );
        }
        costs.push(cost);
    }
    if json {
        println!("{}", serde_json::to_string(&costs)?);
    }
    Ok(ExitCode::SUCCESS)
}

fn fastest(load: &Load, cancel: &AtomicBool) -> Result<Cost> {
    let mut best: Option<Cost> = None;
    for _ in 0..RUNS {
        let cost = load.measure(cancel)?;
        if cancel.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        if best.as_ref().is_none_or(|b| cost.seconds < b.seconds) {
            best = Some(cost);
        }
    }
    Ok(best.expect("at least one run"))
}
