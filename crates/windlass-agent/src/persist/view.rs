//! A pinned datapath as another thread reads it, while the agent looks after it: what was counted, what is in use, and how many flows
//! there are. Nothing in it is changed, and no lock is taken.

use crate::{
    FlowInfo, Pinned, Result, Usage,
    counters::read_counters,
    error::bpf,
    flows::describe,
    map_value::{bytes_of, from_bytes},
    persist::pin_dir::PINNED_CONFIG,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::{collections::BTreeMap, sync::Arc};
use windlass_core::abi::{wl_config, wl_flow, wl_share_total};

/// So many keys are read in one call.
const KEYS_AT_ONCE: u32 = 1024;

/// Reads one datapath, of however many interfaces.
#[derive(Clone, Debug)]
pub struct View {
    number: u32,
    ids: Arc<MapHandle>,
    flows: Arc<MapHandle>,
    counters: Arc<MapHandle>,
    config: Arc<MapHandle>,
    total: Arc<MapHandle>,
}

/// What flows are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKind {
    /// Index of the interface that faces their senders.
    pub ifindex: u32,
    /// Position of their rule in the policy; none: no rule applies to them, or one has them left alone.
    pub rule: Option<u32>,
    /// Algorithm in force.
    pub algorithm: &'static str,
    /// What is done with them, in a word (`FlowInfo::word`).
    pub state: &'static str,
}

/// Flows of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowsOfKind {
    /// How many there are.
    pub flows: u64,
    /// What they hold of the store.
    pub held_bytes: u64,
}

impl FlowKind {
    fn of(flow: &FlowInfo) -> FlowKind {
        FlowKind {
            ifindex: flow.ifindex,
            rule: (flow.mode != "off").then_some(flow.rule),
            algorithm: flow.algorithm,
            state: flow.word(),
        }
    }
}

impl Pinned {
    /// What another thread needs to read its datapath.
    pub fn view(&self) -> View {
        let map = |name: &str| self.maps[name].clone();
        View {
            number: self.clock_number(),
            ids: map("wl_flow_ids"),
            flows: map("wl_flows"),
            counters: map("wl_counters"),
            config: map(PINNED_CONFIG),
            total: map("wl_share_total"),
        }
    }
}

impl View {
    /// Number of its clock, by which datapaths are distinguished.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// All counters by name.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>> {
        read_counters(&*self.counters)
    }

    /// What is used of store and flow table.
    pub fn usage(&self) -> Result<Usage> {
        let config = only_entry::<wl_config>(&self.config, "reading the configuration")?;
        let total = only_entry::<wl_share_total>(&self.total, "reading what is in use")?;
        Ok(Usage::of(&config, &total))
    }

    /// How many flows there are of each kind.
    pub fn flow_kinds(&self) -> Result<BTreeMap<FlowKind, FlowsOfKind>> {
        let mut kinds: BTreeMap<FlowKind, FlowsOfKind> = BTreeMap::new();
        let all = self.ids.lookup_batch(KEYS_AT_ONCE, MapFlags::ANY, MapFlags::ANY);
        for (key, id) in all.map_err(bpf("reading the flow table"))? {
            let bytes = self.flows.lookup(&id, MapFlags::ANY).map_err(bpf("reading a flow"))?;
            let Some(flow) = bytes.and_then(|bytes| from_bytes::<wl_flow>(&bytes)) else { continue };
            // it may have ended meanwhile, and another one have its place
            if bytes_of(&flow.key) == key {
                let flow = describe(&flow, false, None);
                let of_kind = kinds.entry(FlowKind::of(&flow)).or_default();
                of_kind.flows += 1;
                of_kind.held_bytes += flow.held_bytes;
            }
        }
        Ok(kinds)
    }
}

fn only_entry<T: Copy + Default>(map: &MapHandle, what: &str) -> Result<T> {
    let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(bpf(what))?;
    Ok(value.and_then(|bytes| from_bytes(&bytes)).unwrap_or_default())
}
