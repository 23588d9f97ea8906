//! The datapath's counters.

use crate::{Result, error::bpf};
use libbpf_rs::{MapCore, MapFlags};
use std::collections::BTreeMap;

/// All counters by name, summed over CPUs.
pub fn read_counters(map: &impl MapCore) -> Result<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for counter in windlass_core::counters() {
        let per_cpu = map
            .lookup_percpu(&counter.index.to_ne_bytes(), MapFlags::ANY)
            .map_err(bpf("reading counters"))?
            .unwrap_or_default();
        let sum = per_cpu
            .iter()
            .filter_map(|v| v.get(..8))
            .map(|v| u64::from_ne_bytes(v.try_into().expect("eight bytes")))
            .sum();
        all.insert(counter.name, sum);
    }
    Ok(all)
}
