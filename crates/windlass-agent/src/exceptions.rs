//! Flows with an algorithm of their own, whatever the algorithm of their rule.

use crate::{
    Error, Result,
    error::bpf,
    map_value::{bytes_of, from_bytes},
    only_watched::OnlyWatched,
};
use libbpf_rs::{MapCore, MapFlags};
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};
use windlass_core::{
    Algorithm,
    abi::{self, wl_exception, wl_flow, wl_flow_key},
};

/// Those of one datapath, by the bytes of the flows' keys.
pub(crate) struct Exceptions(BTreeMap<Vec<u8>, wl_exception>);

impl Exceptions {
    /// `map` is wl_exceptions.
    pub(crate) fn read(map: &impl MapCore) -> Result<Exceptions> {
        let mut all = BTreeMap::new();
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::ANY).map_err(bpf("reading flows' own algorithms"))?;
            all.extend(value.and_then(|v| from_bytes(&v)).map(|exception| (key, exception)));
        }
        Ok(Exceptions(all))
    }

    /// Has the flow of this key one?
    pub(crate) fn has(&self, key: &[u8], flow: &wl_flow) -> bool {
        self.0.get(key).is_some_and(|exception| exception.base == flow.base)
    }
}

/// The maps of flows and of their exceptions.
pub(crate) struct Flows<'a, M> {
    /// wl_flow_ids
    pub ids: &'a M,
    /// wl_flows
    pub flows: &'a M,
    /// wl_exceptions
    pub exceptions: &'a M,
}

impl<M: MapCore> Flows<'_, M> {
    fn flow(&self, key: &[u8]) -> Result<Option<wl_flow>> {
        let what = || bpf("reading a flow");
        let Some(id) = self.ids.lookup(key, MapFlags::ANY).map_err(what())? else { return Ok(None) };
        Ok(self.flows.lookup(&id, MapFlags::ANY).map_err(what())?.and_then(|bytes| from_bytes(&bytes)))
    }

    /// Gives the flow from `sender` to `receiver` behind interface `ifindex` an algorithm of its own; none: its rule's. It
    /// follows when its rule is looked up next. Returns whether there is such a flow.
    pub(crate) fn set(
        &self,
        ifindex: u32,
        sender: SocketAddr,
        receiver: SocketAddr,
        algorithm: Option<Algorithm>,
    ) -> Result<bool> {
        let what = || bpf("writing a flow's own algorithm");
        let key = flow_key(ifindex, sender, receiver);
        let key = bytes_of(&key);
        let Some(flow) = self.flow(key)? else { return Ok(false) };
        if !flow.is_controlled() {
            return Err(Error::NotControlled { sender, receiver, why: why_not(&flow) });
        }
        let mut others = 0;
        for (of, exception) in Exceptions::read(self.exceptions)?.0 {
            if self.flow(&of)?.is_none_or(|flow| flow.base != exception.base) {
                self.exceptions.delete(&of).map_err(what())?;
            } else if of != key {
                others += 1;
            }
        }
        if algorithm.is_some() && others >= abi::WL_EXCEPTIONS_MAX {
            return Err(Error::TooManyExceptions);
        }
        match algorithm {
            Some(algorithm) => {
                let exception = wl_exception { base: flow.base, algorithm: algorithm.id() };
                self.exceptions.update(key, bytes_of(&exception), MapFlags::ANY).map_err(what())?;
            }
            // an error: it has none
            None => drop(self.exceptions.delete(key)),
        }
        Ok(true)
    }
}

/// Why a flow that is not controlled is not, and the cure.
fn why_not(flow: &wl_flow) -> &'static str {
    match OnlyWatched::of(flow) {
        Some(OnlyWatched::Paces) => {
            "its sender paces itself, and its rule leaves such alone; paced_servers = \"control\" there changes that"
        }
        Some(OnlyWatched::FaresWorse) => {
            "its path has it time out every few segments, from which its server recovers as well alone; when it sends longer bursts again it is controlled again"
        }
        Some(OnlyWatched::Foreign) => {
            "it is older than the box, or its packets carry options that the box could not write; a new connection may do"
        }
        None => "its rule requires it; only that can change it",
    }
}

/// As the datapath names the flow between these behind interface `ifindex`.
pub(crate) fn flow_key(ifindex: u32, sender: SocketAddr, receiver: SocketAddr) -> wl_flow_key {
    wl_flow_key {
        snd_addr: mapped(sender.ip()),
        rcv_addr: mapped(receiver.ip()),
        snd_port_be: sender.port().to_be(),
        rcv_port_be: receiver.port().to_be(),
        ifindex,
    }
}

/// As the datapath has addresses.
fn mapped(ip: IpAddr) -> [u8; 16] {
    match ip.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
