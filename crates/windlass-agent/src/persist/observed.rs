//! Single flows looked at closely: with their ledgers, which are begun for them if the datapath keeps none.

use crate::{
    FlowInfo, Pinned, Result,
    exceptions::{Exceptions, flow_key},
    flows::{describe, in_use, look_up, place_of},
    map_value::bytes_of,
    monotonic::monotonic_long_us,
    persist::{lock::Lock, record_ring::RecordMaps},
};
use std::{fmt, net::SocketAddr};
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

impl Asked {
    /// Is it of this flow alone?
    pub fn is_of(&self, flow: &Observed) -> bool {
        self.ids == [flow.id.as_slice()]
    }

    /// Has the ledgers kept once more, as another command's end may have ended that.
    pub fn again(&self) -> Result<()> {
        let _lock = Lock::take("pins")?;
        if self.maps.kept()? == abi::WL_KEEPS_ALL {
            return Ok(());
        }
        self.ids.iter().try_for_each(|id| self.maps.ask(id))?;
        self.maps.keep(abi::WL_KEEPS_ASKED)
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

/// The flow, with the ledger of its number if that is its.
fn observed(maps: &RecordMaps, info: FlowInfo, flow: wl_flow, id: Vec<u8>, now_us: u64) -> Result<Observed> {
    let ledger = maps.ledger(&id)?.filter(|l| l.base == flow.base && l.began_us != 0);
    let ledger = ledger.map(|l| Box::new(ledger_up_to(&l, now_us)));
    Ok(Observed { info, flow, ledger, id })
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
            if is_wanted(&info) {
                all.push(observed(&maps, info, flow, id, now_us)?);
            }
        }
        Ok(all)
    }

    /// The flow from `sender` to `receiver`, without a look at any other; none: there is none.
    pub fn observe_one(&self, sender: SocketAddr, receiver: SocketAddr) -> Result<Option<Observed>> {
        let key = flow_key(self.ifindex, sender, receiver);
        let Some((id, flow)) = look_up(self.map("wl_flow_ids"), self.map("wl_flows"), bytes_of(&key))? else {
            return Ok(None);
        };
        let exceptions = Exceptions::read(self.map("wl_exceptions"))?;
        let group = place_of(self.map("wl_places"), &id, &flow, &self.groups()?)?;
        let info = describe(&flow, exceptions.has(bytes_of(&key), &flow), group);
        let maps = RecordMaps::pinned_in(&self.pins)?;
        observed(&maps, info, flow, id, monotonic_long_us()).map(Some)
    }

    /// Has ledgers of these flows kept from their next packet on; none: they are anyway.
    pub fn ask(&self, flows: &[Observed]) -> Result<Option<Asked>> {
        let lock = Lock::take("pins")?;
        let maps = RecordMaps::pinned_in(&self.pins)?;
        if maps.kept()? == abi::WL_KEEPS_ALL {
            return Ok(None);
        }
        let asked = Asked { ids: flows.iter().map(|flow| flow.id.clone()).collect(), maps };
        drop(lock);
        asked.again()?;
        Ok(Some(asked))
    }
}
