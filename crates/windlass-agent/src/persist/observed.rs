//! Single flows looked at closely: with their ledgers, which are begun for them if the datapath keeps none.

use crate::{
    FlowInfo, Pinned, Result,
    exceptions::Exceptions,
    flows::{describe, in_use, place_of},
    monotonic::monotonic_long_us,
    persist::{lock::Lock, record_ring::RecordMaps},
};
use std::fmt;
use windlass_core::{
    abi::{self, wl_flow, wl_ledger},
    ledger_up_to,
};

/// One flow with its ledger.
pub struct Observed {
    /// As `windlass flows` has it.
    pub info: FlowInfo,
    /// All of its variables.
    pub flow: wl_flow,
    /// What was noted of it up to now; none: nothing yet.
    pub ledger: Option<Box<wl_ledger>>,
    id: Vec<u8>,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Ledgers of some flows, kept for as long as this lives.
pub struct Asked {
    maps: RecordMaps,
    ids: Vec<Vec<u8>>,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("flows", &self.ids.len()).finish_non_exhaustive()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Ok(_lock) = Lock::take("pins") else { return };
        // an agent may have begun to keep records meanwhile
        if self.maps.kept().unwrap_or(abi::WL_KEEPS_ALL) == abi::WL_KEEPS_ALL {
            return;
        }
        self.ids.iter().for_each(|id| self.maps.forget(id));
        // another command may have asked for others
        if !self.maps.has_ledgers() {
            let _ = self.maps.keep(abi::WL_KEEPS_NONE);
        }
    }
}

impl Pinned {
    /// The flows of which `is_wanted` holds.
    pub fn observe(&self, is_wanted: impl Fn(&FlowInfo) -> bool) -> Result<Vec<Observed>> {
        let maps = RecordMaps::pinned_in(&self.pins)?;
        let exceptions = Exceptions::read(self.map("wl_exceptions"))?;
        let groups = self.groups()?;
        let now_us = monotonic_long_us();
        let mut all = Vec::new();
        for flow in in_use(self.map("wl_flow_ids"), self.map("wl_flows"), |index| index == self.ifindex) {
            let (key, id, flow) = flow?;
            let group = place_of(self.map("wl_places"), &id, &flow, &groups)?;
            let info = describe(&flow, exceptions.has(&key, &flow), group);
            if !is_wanted(&info) {
                continue;
            }
            let ledger = maps.ledger(&id)?.filter(|l| l.base == flow.base && l.began_us != 0);
            let ledger = ledger.map(|l| Box::new(ledger_up_to(&l, now_us)));
            all.push(Observed { info, flow, ledger, id });
        }
        Ok(all)
    }

    /// Has ledgers of these flows kept from their next packet on; none: they are anyway.
    pub fn ask(&self, flows: &[Observed]) -> Result<Option<Asked>> {
        let _lock = Lock::take("pins")?;
        let maps = RecordMaps::pinned_in(&self.pins)?;
        if maps.kept()? == abi::WL_KEEPS_ALL {
            return Ok(None);
        }
        let asked = Asked { ids: flows.iter().map(|flow| flow.id.clone()).collect(), maps };
        asked.ids.iter().try_for_each(|id| asked.maps.ask(id))?;
        asked.maps.keep(abi::WL_KEEPS_ASKED)?;
        Ok(Some(asked))
    }
}
