//! `windlass bench sim`: how fast the simulator is, and what an idle connection takes.

use anyhow::{Context, Result, bail};
use serde_json::json;
use std::{
    fs,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};
use windlass_sim::bench::{Cost, Load};

/// Each load is run so often, in turn with the others, and the fastest counts: what is slower was disturbed.
const RUNS: usize = 3;
/// What four thousand connections may make of the cost of a packet-hop with ten.
const GROWTH_BOUND: f64 = 1.5;
/// How the names of loads begin that do not fit into caches.
const LARGE: &str = "large";
/// Bytes that an idle connection may take.
const IDLE_BOUND_BYTES: u64 = 4096;

/// Measures the loads whose name begins with `only`, and prints what they cost.
pub fn bench(only: &str, json: bool, cancel: &AtomicBool) -> Result<ExitCode> {
    let is_wanted = |load: &Load| load.name.starts_with(only);
    let all: Vec<Load> = Load::compared().into_iter().chain(Load::growing()).collect();
    let names: Vec<String> = all.iter().map(|load| load.name.clone()).collect();
    // those take half a gigabyte, so they have to be named
    let large = if only.starts_with(LARGE) { Load::large() } else { Vec::new() };
    let loads: Vec<Load> = all.into_iter().chain(large).filter(is_wanted).collect();
    let idle = Some(Load::idle()).filter(is_wanted);
    if loads.is_empty() && idle.is_none() {
        bail!("--only {only}: no load begins so; there are {}, idle, {LARGE}", names.join(", "));
    }
    // first: what the others leave behind would be used again and not be counted
    let idle_bytes = idle.map(|load| memory_of_each(&load, cancel)).transpose()?;
    let costs = fastest(&loads, cancel)?;
    let growth = growth(&costs);
    let status = if is_within(growth, idle_bytes) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if json {
        println!("{}", json!({ "loads": costs, "growth": growth, "idle_connection_bytes": idle_bytes }));
        return Ok(status);
    }
    if !costs.is_empty() {
        print_costs(&costs);
    }
    if let Some(growth) = growth {
        println!(
            "a packet-hop with 4000 connections costs {growth:.2} times one with 10; bound {GROWTH_BOUND}"
        );
    }
    if let Some(bytes) = idle_bytes {
        println!("an idle connection takes {bytes} bytes of memory; bound {IDLE_BOUND_BYTES}");
    }
    Ok(status)
}

/// Whether what was measured is within its bounds.
fn is_within(growth: Option<f64>, idle_bytes: Option<u64>) -> bool {
    growth.is_none_or(|g| g <= GROWTH_BOUND) && idle_bytes.is_none_or(|b| b <= IDLE_BOUND_BYTES)
}

fn print_costs(costs: &[Cost]) {
    println!(
        "{:<18} {:>11} {:>12} {:>9} {:>14} {:>8}",
        "load", "connections", "hops", "time", "hops/s", "per hop"
    );
    for cost in costs {
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
}

fn fastest(loads: &[Load], cancel: &AtomicBool) -> Result<Vec<Cost>> {
    let mut best: Vec<Cost> = Vec::new();
    for _ in 0..RUNS {
        for (place, load) in loads.iter().enumerate() {
            let cost = load.measure(cancel)?;
            if cancel.load(Ordering::Relaxed) {
                bail!("stopped");
            }
            match best.get_mut(place) {
                Some(before) if before.seconds <= cost.seconds => {}
                Some(before) => *before = cost,
                None => best.push(cost),
            }
        }
    }
    Ok(best)
}

/// Cost of a packet-hop with the most connections over that with the fewest; none: not both were measured.
fn growth(costs: &[Cost]) -> Option<f64> {
    let growing = Load::growing();
    let of = |load: &Load| costs.iter().find(|c| c.load == load.name).map(Cost::ns_per_hop);
    Some(of(growing.last()?)? / of(growing.first()?)?)
}

/// The most memory that a load takes at a time, for each of its connections; that of this process before is not counted.
fn memory_of_each(load: &Load, cancel: &AtomicBool) -> Result<u64> {
    // "5": the high-water mark begins anew (proc_pid_clear_refs(5))
    fs::write("/proc/self/clear_refs", "5").context("/proc/self/clear_refs")?;
    let before = status_bytes("VmRSS:")?;
    load.measure(cancel)?;
    if cancel.load(Ordering::Relaxed) {
        bail!("stopped");
    }
    Ok(status_bytes("VmHWM:")?.saturating_sub(before) / load.connections as u64)
}

fn status_bytes(key: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    let line = text.lines().find_map(|l| l.strip_prefix(key));
    let kib = line
        .and_then(|l| l.trim().strip_suffix("kB"))
        .with_context(|| format!("/proc/self/status: no {key}"))?;
    Ok(kib.trim().parse::<u64>()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_above_a_bound_fails() {
        assert!(is_within(Some(GROWTH_BOUND), Some(IDLE_BOUND_BYTES)));
        assert!(is_within(None, None));
        assert!(!is_within(Some(GROWTH_BOUND + 0.01), None));
        assert!(!is_within(None, Some(IDLE_BOUND_BYTES + 1)));
    }
}
