//! Policies: which flows get which algorithm, compiled to the rules that the datapath looks up once per flow.

mod group;
mod keys;
mod one_or;
mod pattern;
mod policy_error;
pub(crate) mod room;
mod rule;
mod text;
mod warning;

use crate::{
    clock,
    link::{self, Link},
};
pub use group::{GroupSpec, Membership, Per};
pub use policy_error::PolicyError;
use rule::anyone;
pub use rule::{Mode, Rule};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::Path;
pub use warning::PolicyWarning;
use windlass_core::{
    Algorithm,
    abi::{self, wl_rule},
};
use windlass_scenario::Parameters;

/// A checked policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Policy {
    /// In the order of the file.
    pub rules: Vec<Rule>,
}

impl Policy {
    /// Reads and checks a file.
    pub fn from_file(path: &Path) -> crate::Result<Policy> {
        Self::from_file_with_warnings(path).map(|(policy, _)| policy)
    }

    /// The same, and the SHA-256 of the file in hexadecimal digits, as `sha256sum` prints it.
    pub fn from_file_with_hash(path: &Path) -> crate::Result<(Policy, String)> {
        let text = Self::read(path)?;
        Ok((Self::parse(&path.display().to_string(), &text)?, format!("{:x}", Sha256::digest(&text))))
    }

    /// SHA-256 of the file as it is now, sound or not. None: it cannot be read.
    pub fn hash_of_file(path: &Path) -> Option<String> {
        Self::read(path).ok().map(|text| format!("{:x}", Sha256::digest(&text)))
    }

    fn read(path: &Path) -> crate::Result<String> {
        windlass_scenario::read_file(path).map_err(|why| crate::Error::Io { path: path.into(), why })
    }

    /// The same as of `from_file`, and what of it never applies, or not as it is written.
    pub fn from_file_with_warnings(path: &Path) -> crate::Result<(Policy, Vec<PolicyWarning>)> {
        let text = Self::read(path)?;
        Ok(Self::parse_with_warnings(&path.display().to_string(), &text)?)
    }

    /// Checks the text of a policy; `file` is only for messages.
    pub fn parse(file: &str, text: &str) -> Result<Policy, PolicyError> {
        text::rules(file, text).map(|(rules, _)| Policy { rules })
    }

    /// The same, with warnings.
    pub fn parse_with_warnings(file: &str, text: &str) -> Result<(Policy, Vec<PolicyWarning>), PolicyError> {
        let (rules, lines) = text::rules(file, text)?;
        let warnings = warning::of(&rules, &lines);
        Ok((Policy { rules }, warnings))
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

    /// Interfaces of this namespace that some rule names, by whichever of their names; clocks' devices are none of them.
    pub fn interfaces(&self) -> Vec<String> {
        let is_of = |link: &Link| {
            link.name != "lo" && link.names().any(|name| self.is_of_name(name)) && !clock::is_of_clock(link)
        };
        link::all().into_iter().filter(is_of).map(|link| link.name).collect()
    }

    /// Does some rule speak of interfaces?
    pub fn has_interfaces(&self) -> bool {
        self.rules.iter().any(|rule| !rule.is_of_sockets())
    }

    /// Does some rule name this interface, there or not?
    pub fn is_of_iface(&self, iface: &str) -> bool {
        self.is_of_name(iface) || names_of(iface).iter().any(|name| self.is_of_name(name))
    }

    fn is_of_name(&self, name: &str) -> bool {
        self.rules.iter().any(|r| r.applies_to(name))
    }

    /// Does some rule name this interface by more than the pattern of all?
    pub fn names_iface(&self, iface: &str) -> bool {
        let names = names_of(iface);
        self.rules.iter().any(|rule| rule.iface != "*" && rule.applies_to_any(&names))
    }

    /// The rules that apply to an interface, there or not, in order.
    pub fn rules_of_iface(&self, iface: &str) -> Vec<&Rule> {
        let names = names_of(iface);
        self.rules.iter().filter(|rule| rule.applies_to_any(&names)).collect()
    }

    /// The rules that speak of the sockets of a cgroup, in order; none: of all sockets.
    pub fn rules_of_cgroup(&self, cgroup: Option<&Path>) -> Vec<&Rule> {
        let speaks_of_it = |rule: &&Rule| rule.cgroup.is_none() || rule.cgroup.as_deref() == cgroup;
        self.rules.iter().filter(|rule| rule.is_of_sockets()).filter(speaks_of_it).collect()
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
        let names = names_of(iface);
        self.rules
            .iter()
            .enumerate()
            .filter(|(_, r)| r.applies_to_any(&names))
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

/// All names of an interface that is there, or this one of one that is not.
fn names_of(iface: &str) -> Vec<String> {
    let link = link::named(iface);
    link.map_or_else(|| vec![iface.to_string()], |link| link.names().map(String::from).collect())
}

#[cfg(test)]
mod tests;
