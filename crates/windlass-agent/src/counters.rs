//! The datapath's counters.

use crate::{Result, error::bpf, map_value::u64_at};
use libbpf_rs::{MapCore, MapFlags};
use std::collections::BTreeMap;

/// All counters by name, summed over CPUs.
pub fn read_counters(map: &impl MapCore) -> Result<BTreeMap<String, u64>> {
    let per_cpu = map
        .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf("reading counters"))?
        .unwrap_or_default();
    let sum =
        |index: u32| per_cpu.iter().map(|counts| u64_at(counts, index as usize * size_of::<u64>())).sum();
    Ok(windlass_core::counters().into_iter().map(|c| (c.name, sum(c.index))).collect())
}
