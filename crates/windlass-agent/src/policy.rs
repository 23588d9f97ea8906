//! Policies: which flows get which algorithm, compiled to the rules that the datapath looks up once per flow.

mod group;
mod keys;
mod mistake;
mod one_or;
pub(crate) mod room;
mod text;

use crate::netdev;
pub use group::{GroupSpec, Membership, Per};
use ipnet::{IpNet, Ipv6Net};
pub use mistake::PolicyError;
use serde::Serialize;
use std::path::{Path, PathBuf};
use windlass_core::{
    Algorithm,
    abi::{self, wl_rule, wl_split},
};
use windlass_scenario::Parameters;

/// A flow draws one of so many parts: a smaller part of a split gets none.
const SPLIT_PARTS: u64 = 1000;

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

/// A checked policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Policy {
    /// In the order of the file.
    pub rules: Vec<Rule>,
}

impl Policy {
    /// Reads and checks a file.
    pub fn from_file(path: &Path) -> crate::Result<Policy> {
        let text =
            windlass_scenario::read_file(path).map_err(|why| crate::Error::Io { path: path.into(), why })?;
        Ok(Self::parse(&path.display().to_string(), &text)?)
    }

    /// The policy of `windlass attach`: one algorithm for everything.
    ///
    /// # Errors
    /// More ports than a rule has room for.
    pub fn simple(
        algorithm: Algorithm,
        mode: Mode,
        server_ports: Vec<u16>,
        control_paced: bool,
    ) -> crate::Result<Policy> {
        let (count, most) = (server_ports.len(), abi::WL_RULE_PORTS as usize);
        if count > most {
            let what = format!(
                "{count} ports of servers; a rule takes at most {most}: write a policy with several rules instead"
            );
            return Err(crate::Error::Invalid(what));
        }
        let rule = Rule {
            name: "attach".into(),
            iface: "*".into(),
            cgroup: None,
            client: anyone(),
            server: anyone(),
            server_ports,
            algorithms: vec![(algorithm.name().into(), 1)],
            mode,
            control_paced,
            parameters: Parameters::default(),
            group: None,
        };
        Ok(Policy { rules: vec![rule] })
    }

    /// The same with these parameters of their paths for all algorithms.
    pub fn with_parameters(mut self, parameters: Parameters) -> Policy {
        self.rules.iter_mut().for_each(|rule| rule.parameters = parameters);
        self
    }

    /// Groups that some rule names, in the order of the file.
    pub fn groups(&self) -> Vec<GroupSpec> {
        let mut all: Vec<GroupSpec> = Vec::new();
        for group in self.rules.iter().filter_map(|r| r.group.as_ref()).map(|m| &m.group) {
            if !all.contains(group) {
                all.push(group.clone());
            }
        }
        all
    }

    /// Interfaces of this namespace that some rule names.
    pub fn interfaces(&self) -> Vec<String> {
        let mut names = netdev::names();
        names.retain(|n| n != "lo" && self.is_of_iface(n));
        names
    }

    /// Does some rule name this interface, there or not?
    pub fn is_of_iface(&self, iface: &str) -> bool {
        self.rules.iter().any(|r| r.applies_to(iface))
    }

    /// Cgroups that some rule of mode native names; none among them: all sockets.
    pub fn cgroups(&self) -> Vec<Option<&Path>> {
        let mut all: Vec<Option<&Path>> =
            self.rules.iter().filter(|r| r.mode == Mode::Native).map(|r| r.cgroup.as_deref()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Compiles the rules that speak of the sockets of `cgroup`, in order; those of all sockets speak of its, too.
    pub fn compile_cgroup(&self, cgroup: &Path) -> Vec<wl_rule> {
        self.rules
            .iter()
            .enumerate()
            .filter(|(_, r)| r.is_of_sockets() && r.cgroup.as_deref().is_none_or(|c| c == cgroup))
            .map(|(id, r)| self.compile_rule(r, id, 0))
            .collect()
    }

    /// Compiles the rules that apply to interface `iface`, in order.
    pub fn compile(&self, iface: &str, ifindex: u32) -> Vec<wl_rule> {
        self.rules
            .iter()
            .enumerate()
            .filter(|(_, r)| r.applies_to(iface))
            .map(|(id, r)| self.compile_rule(r, id, ifindex))
            .collect()
    }

    /// The rule's group is its position among groups(), from 1.
    fn compile_rule(&self, rule: &Rule, id: usize, ifindex: u32) -> wl_rule {
        let mut compiled = rule.compile(id as u32, ifindex);
        if let Some(membership) = &rule.group {
            let position = self.groups().iter().position(|g| *g == membership.group);
            membership.compile(position.map_or(0, |p| p as u32 + 1), &rule.name, &mut compiled);
        }
        compiled
    }
}

fn anyone() -> IpNet {
    "::/0".parse().expect("a valid prefix")
}

/// The same prefix of addresses as the datapath has them.
fn mapped_prefix(net: IpNet) -> Ipv6Net {
    match net {
        IpNet::V4(v4) => {
            Ipv6Net::new(v4.network().to_ipv6_mapped(), v4.prefix_len() + 96).expect("at most 128")
        }
        IpNet::V6(v6) => v6,
    }
}

impl Rule {
    /// Does it speak of sockets of this kernel, not of an interface's flows?
    fn is_of_sockets(&self) -> bool {
        self.mode == Mode::Native || self.cgroup.is_some()
    }

    /// Is it in a group of that name, but of another configuration? Groups of sockets and of interfaces differ in theirs.
    fn has_other(&self, group: &GroupSpec) -> bool {
        self.group.as_ref().is_some_and(|m| m.group.name == group.name && m.group != *group)
    }

    /// Does it give a tenant, whose flows may fall under the later rule as well, a weight other than that does?
    fn gives_another_weight(&self, later: &Rule) -> bool {
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

    fn applies_to(&self, iface: &str) -> bool {
        !self.is_of_sockets() && glob::Pattern::new(&self.iface).is_ok_and(|p| p.matches(iface))
    }

    fn compile(&self, rule_id: u32, ifindex: u32) -> wl_rule {
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
            params: self.parameters.into(),
            ..wl_rule::default()
        }
    }
}

#[cfg(test)]
mod tests;
