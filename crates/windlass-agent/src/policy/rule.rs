//! One rule of a policy, and what the datapath has of it.

use super::group::{GroupSpec, Membership, Per};
use ipnet::{IpNet, Ipv6Net};
use serde::Serialize;
use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};
use windlass_core::{
    Algorithm,
    abi::{self, wl_rule, wl_split},
};
use windlass_scenario::Parameters;

/// A flow draws one of so many parts: a smaller part of a split gets none.
pub(super) const SPLIT_PARTS: u64 = 1000;

/// What is done with the flows of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Window enforced, losses repaired and hidden.
    Transparent,
    /// Measured only.
    Watch,
    /// Not even measured.
    Off,
    /// The sockets of a cgroup run the algorithm themselves, in this kernel.
    Native,
}

/// One rule; the first that matches a flow counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// Name in reports.
    pub name: String,
    /// Interface pattern, as a shell would match it.
    pub iface: String,
    /// Of which cgroup's sockets it speaks; none: of an interface's flows, or in mode native of all sockets.
    pub cgroup: Option<PathBuf>,
    /// Receivers ("clients") it applies to.
    pub client: IpNet,
    /// The controlled servers it applies to.
    pub server: IpNet,
    /// Their ports; empty: all.
    pub server_ports: Vec<u16>,
    /// Algorithms and the share of flows that each gets; one entry: all flows.
    pub algorithms: Vec<(String, u32)>,
    /// What is done.
    pub mode: Mode,
    /// Control servers that pace themselves, too.
    pub control_paced: bool,
    /// What its algorithms are given of the path.
    pub parameters: Parameters,
    /// Its flows' group; none: each is on its own.
    pub group: Option<Membership>,
}

pub(super) fn anyone() -> IpNet {
    "::/0".parse().expect("a valid prefix")
}

/// The same prefix of addresses as the datapath has them.
pub(super) fn mapped_prefix(net: IpNet) -> Ipv6Net {
    match net {
        IpNet::V4(v4) => {
            Ipv6Net::new(v4.network().to_ipv6_mapped(), v4.prefix_len() + 96).expect("at most 128")
        }
        IpNet::V6(v6) => v6,
    }
}

/// An address as the datapath has it.
fn mapped_address(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

impl Rule {
    /// Does it speak of sockets of this kernel, not of an interface's flows?
    pub(super) fn is_of_sockets(&self) -> bool {
        self.mode == Mode::Native || self.cgroup.is_some()
    }

    /// Is it in a group of that name, but of another configuration? Groups of sockets and of interfaces differ in theirs.
    pub(super) fn has_other(&self, group: &GroupSpec) -> bool {
        self.group.as_ref().is_some_and(|m| m.group.name == group.name && m.group != *group)
    }

    /// Does it give a tenant, whose flows may fall under the later rule as well, a weight other than that does?
    pub(super) fn gives_another_weight(&self, later: &Rule) -> bool {
        let (Some(a), Some(b)) = (&self.group, &later.group) else { return false };
        if a.group != b.group || a.per != b.per || a.weight == b.weight {
            return false;
        }
        // as written, and where the patterns give it for all interfaces
        let meets =
            self.iface == later.iface || self.applies_to(&later.iface) || later.applies_to(&self.iface);
        let is_partial = self.client != anyone() || !self.server_ports.is_empty();
        match a.per {
            Per::Interface => meets && (is_partial || self.server != anyone()),
            Per::Server => {
                let (one, other) = (mapped_prefix(self.server), mapped_prefix(later.server));
                let shares_servers = one.contains(&other) || other.contains(&one);
                meets && is_partial && shares_servers && self.cgroup == later.cgroup
            }
            Per::Flow | Per::Rule => false,
        }
    }

    pub(super) fn applies_to(&self, iface: &str) -> bool {
        !self.is_of_sockets() && glob::Pattern::new(&self.iface).is_ok_and(|p| p.matches(iface))
    }

    /// Does it apply to an interface of these names?
    pub(super) fn applies_to_any(&self, names: &[String]) -> bool {
        names.iter().any(|name| self.applies_to(name))
    }

    /// Does it apply, behind an interface that it names, to a flow from `sender` to `receiver`?
    pub fn is_of_flow(&self, sender: SocketAddr, receiver: SocketAddr) -> bool {
        let holds =
            |net: IpNet, address: SocketAddr| mapped_prefix(net).contains(&mapped_address(address.ip()));
        let is_of_port = self.server_ports.is_empty() || self.server_ports.contains(&sender.port());
        is_of_port && holds(self.server, sender) && holds(self.client, receiver)
    }

    /// The algorithm whose constants it sets.
    fn tuned(&self) -> Option<Algorithm> {
        self.parameters.tunables.algorithms().next()
    }

    pub(super) fn compile(&self, rule_id: u32, ifindex: u32) -> wl_rule {
        let mut ports = [0; abi::WL_RULE_PORTS as usize];
        ports[..self.server_ports.len()].copy_from_slice(&self.server_ports);
        let total: u64 = self.algorithms.iter().map(|(_, share)| u64::from(*share)).sum();
        let mut splits = [wl_split::default(); abi::WL_RULE_SPLITS as usize];
        let mut upto = 0;
        for (slot, (name, share)) in splits.iter_mut().zip(&self.algorithms) {
            upto += u64::from(*share);
            *slot = wl_split {
                algorithm: Algorithm::by_name(name).map_or(0, |a| a.id()) as u16,
                share_upto_permille: (upto * SPLIT_PARTS / total) as u16,
            };
        }
        let (client, server) = (mapped_prefix(self.client), mapped_prefix(self.server));
        wl_rule {
            rcv_addr: client.network().octets(),
            ifindex,
            rule_id,
            snd_ports: ports,
            snd_ports_count: self.server_ports.len() as u8,
            rcv_prefix_bits: client.prefix_len(),
            snd_addr: server.network().octets(),
            snd_prefix_bits: server.prefix_len(),
            mode: match self.mode {
                Mode::Transparent => abi::WL_MODE_ENFORCE,
                Mode::Watch => abi::WL_MODE_WATCH,
                Mode::Off => abi::WL_MODE_OFF,
                Mode::Native => abi::WL_MODE_NATIVE,
            } as u8,
            splits_count: self.algorithms.len() as u8,
            on_paced_sender: if self.control_paced {
                abi::WL_PACED_CONTROL
            } else {
                abi::WL_PACED_STAND_ASIDE
            } as u8,
            splits,
            params: self.tuned().map_or_else(|| self.parameters.of_any(), |a| self.parameters.of(a)),
            tuned: self.tuned().map_or(abi::WL_ALG_NONE, |a| a.id()) as u8,
            ..wl_rule::default()
        }
    }
}
