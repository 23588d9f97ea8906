//! Metrics: what the datapaths of an agent have counted, what is in use and how many flows there are, for Prometheus and whatever else
//! reads its formats. `windlass agent --metrics` serves them over HTTP, `windlass metrics` prints them once. docs/metrics.md has
//! their names.

mod exposition;
mod histograms;
mod names;
mod protobuf;
mod published;
mod server;
mod sink;
mod snapshot;

pub use histograms::Histograms;
pub use published::{Published, Publisher};

use crate::info::{check_none_elsewhere, open_whole};
use anyhow::Result;
use exposition::Format;
use snapshot::{Reader, Sources};
use std::{
    collections::BTreeSet,
    io::{self, Write},
    process::ExitCode,
};
use windlass_agent::{check_root, keep_ended_counters, saved_sums};

/// Prints them once. That nothing is under control is an answer, too.
pub fn metrics(is_open_metrics: bool) -> Result<ExitCode> {
    check_root("looking at what was counted")?;
    check_none_elsewhere()?;
    // from now on sums do not fall when a datapath goes
    keep_ended_counters()?;
    let mut sources = Sources { is_complete: true, ..Sources::default() };
    let mut numbers = BTreeSet::new();
    for iface in windlass_agent::pinned_here() {
        let Some(pinned) = open_whole(&iface)? else { continue };
        sources.devices.insert(pinned.ifindex(), (iface, pinned.rule_names().into()));
        if numbers.insert(pinned.clock_number()) {
            sources.views.push(pinned.view());
        }
    }
    let mut snapshot = Reader::default().read(&sources)?;
    snapshot.sums = saved_sums().map(|saved| saved.sums);
    let format = if is_open_metrics { Format::OpenMetrics } else { Format::Text };
    io::stdout().write_all(&exposition::body(snapshot, format))?;
    Ok(ExitCode::SUCCESS)
}
