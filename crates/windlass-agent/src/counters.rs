//! The datapath's counters.

use crate::{Result, error::bpf};
use libbpf_rs::{MapCore, MapFlags};
use std::collections::BTreeMap;

/// All counters by name, summed over CPUs.
pub fn read_counters(map: &impl MapCore) -> Result<BTreeMap<String, u64>> {
    let per_cpu = map
        .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf("reading counters"))?
        .unwrap_or_default();
    let sum = |index: u32| {
        let of_cpu = |counts: &Vec<u8>| {
            let at = index as usize * size_of::<u64>();
            let value = counts.get(at..at + size_of::<u64>())?;
            Some(u64::from_ne_bytes(value.try_into().expect("eight bytes")))
        };
        per_cpu.iter().filter_map(of_cpu).sum()
    };
    Ok(windlass_core::counters().into_iter().map(|c| (c.name, sum(c.index))).collect())
}
