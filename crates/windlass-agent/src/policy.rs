//! Policies: which flows get which algorithm. TOML, checked before anything is touched, compiled to the rules that the
//! datapath looks up once per flow.

mod room;

use crate::{
    GroupSpec, Membership, Per,
    group::{self, RawGroup},
    netdev,
};
use ipnet::{IpNet, Ipv6Net};
pub(crate) use room::check_count;
use room::check_room;
use serde::{Deserialize, Serialize};
use std::{
    net::IpAddr,
    ops::Range,
    path::{Path, PathBuf},
};
use toml::Spanned;
use windlass_core::{
    Algorithm,
    abi::{self, wl_rule, wl_split},
};
use windlass_scenario::Parameters;

/// A mistake in a policy: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct PolicyError {
    /// The policy's file name.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong and what is allowed.
    pub what: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPolicy {
    #[serde(default)]
    rule: Vec<Spanned<RawRule>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    name: Spanned<String>,
    #[serde(default, rename = "match")]
    matches: RawMatch,
    algorithm: Option<Spanned<RawAlgorithm>>,
    mode: Option<Spanned<String>>,
    paced_servers: Option<Spanned<String>>,
    parameters: Option<Spanned<Parameters>>,
    group: Option<Spanned<RawGroup>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMatch {
    iface: Option<Spanned<String>>,
    cgroup: Option<Spanned<PathBuf>>,
    client: Option<Spanned<String>>,
    server: Option<Spanned<String>>,
    server_port: Option<Spanned<RawPorts>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected ports: a list such as [80, 443]")]
enum RawPorts {
    One(u16),
    Several(Vec<u16>),
}

impl RawPorts {
    fn list(&self) -> &[u16] {
        match self {
            RawPorts::One(port) => std::slice::from_ref(port),
            RawPorts::Several(ports) => ports,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected the name of an algorithm, or up to four { algorithm = NAME, share = NUMBER }"
)]
enum RawAlgorithm {
    One(String),
    Split(Vec<RawSplit>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSplit {
    algorithm: String,
    share: u32,
}

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
    /// What its algorithms are told of the path.
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

pub(crate) struct Place<'a> {
    file: &'a str,
    text: &'a str,
}

impl Place<'_> {
    pub(crate) fn error(&self, span: Range<usize>, what: impl Into<String>) -> PolicyError {
        let line = self.text[..span.start.min(self.text.len())].matches('\n').count() + 1;
        PolicyError { file: self.file.to_string(), line, what: what.into() }
    }
}

fn known_algorithms() -> String {
    Algorithm::all().map(|a| a.name()).collect::<Vec<_>>().join(", ")
}

impl Policy {
    /// Reads and checks a file.
    pub fn from_file(path: &Path) -> crate::Result<Policy> {
        let text =
            windlass_scenario::read_file(path).map_err(|why| crate::Error::Io { path: path.into(), why })?;
        Ok(Self::parse(&path.display().to_string(), &text)?)
    }

    /// Checks the text of a policy; `file` is only for messages.
    pub fn parse(file: &str, text: &str) -> Result<Policy, PolicyError> {
        let place = Place { file, text };
        let raw: RawPolicy = toml::from_str(text)
            .map_err(|e| place.error(e.span().unwrap_or(0..0), e.message().replace('\n', " ")))?;
        if raw.rule.is_empty() {
            return Err(place.error(0..0, "no [[rule]]: a policy needs at least one"));
        }
        let mut rules: Vec<Rule> = Vec::new();
        let spans: Vec<_> = raw.rule.iter().map(Spanned::span).collect();
        for raw in raw.rule {
            let span = raw.get_ref().group.as_ref().map(Spanned::span);
            let rule = check(&place, raw)?;
            if let Some(group) = rule.group.as_ref().map(|m| &m.group)
                && let Some(other) = rules.iter().find(|r| r.has_other(group))
            {
                if (other.mode == Mode::Native) != (rule.mode == Mode::Native) {
                    let what = format!(
                        "group \"{}\": rule \"{}\" has it in another mode, and flows of interfaces and sockets cannot \
                         be in one group; give it another name",
                        group.name, other.name
                    );
                    return Err(place.error(span.unwrap_or(0..0), what));
                }
                let what = format!(
                    "group \"{}\" is configured otherwise in rule \"{}\"; only weight and per may differ",
                    group.name, other.name
                );
                return Err(place.error(span.unwrap_or(0..0), what));
            }
            if let Some(other) = rules.iter().find(|r| r.gives_another_weight(&rule)) {
                let what = format!(
                    "flows of one {} fall under rule \"{}\", too, which has another weight for all of them together; give \
                     both the same, or per = \"flow\"",
                    if rule.group.as_ref().is_some_and(|m| m.per == Per::Server) {
                        "server"
                    } else {
                        "interface"
                    },
                    other.name
                );
                return Err(place.error(span.unwrap_or(0..0), what));
            }
            rules.push(rule);
        }
        check_room(&rules).map_err(|(at, what)| place.error(spans[at].clone(), what))?;
        Ok(Policy { rules })
    }

    /// The policy of `windlass attach`: one algorithm for everything.
    pub fn simple(algorithm: Algorithm, mode: Mode, server_ports: Vec<u16>, control_paced: bool) -> Policy {
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
        Policy { rules: vec![rule] }
    }

    /// The same with all algorithms told this of their paths.
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
        names.retain(|n| n != "lo" && self.rules.iter().any(|r| r.applies_to(n)));
        names
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

fn check(place: &Place, raw: Spanned<RawRule>) -> Result<Rule, PolicyError> {
    let rule_span = raw.span();
    let raw = raw.into_inner();
    let name = raw.name.into_inner();
    let mode = match raw.mode {
        None => Mode::Transparent,
        Some(m) => match m.get_ref().as_str() {
            "transparent" => Mode::Transparent,
            "watch" => Mode::Watch,
            "off" => Mode::Off,
            "native" => Mode::Native,
            other => {
                let what = format!("unknown mode \"{other}\"; allowed: transparent, watch, off, native");
                return Err(place.error(m.span(), what));
            }
        },
    };
    let algorithms = match raw.algorithm {
        Some(a) => check_algorithms(place, a)?,
        None if matches!(mode, Mode::Transparent | Mode::Native) => {
            let what = format!("rule \"{name}\" has no `algorithm`; known: {}", known_algorithms());
            return Err(place.error(rule_span, what));
        }
        None => vec![("reno".to_string(), 1)],
    };
    let control_paced = match raw.paced_servers {
        None => false,
        Some(p) => match p.get_ref().as_str() {
            "stand-aside" => false,
            "control" => true,
            other => {
                let what = format!("paced_servers = \"{other}\"; allowed: stand-aside, control");
                return Err(place.error(p.span(), what));
            }
        },
    };
    let group = match raw.group {
        Some(g) if matches!(mode, Mode::Watch | Mode::Off) => {
            let what = "group: flows that are not controlled cannot be coupled; remove it, or the mode";
            return Err(place.error(g.span(), what));
        }
        Some(g) => Some(group::check(place, g, mode == Mode::Native)?),
        None => None,
    };
    let parameters = match raw.parameters {
        None => Parameters::default(),
        Some(p) => {
            if mode == Mode::Native {
                let what = "parameters: sockets of mode \"native\" cannot be given any; leave them out";
                return Err(place.error(p.span(), what));
            }
            p.get_ref().check().map_err(|what| place.error(p.span(), format!("parameters: {what}")))?;
            p.into_inner()
        }
    };
    let cgroup = check_cgroup(place, mode, &raw.matches)?;
    let iface = match raw.matches.iface {
        None => "*".to_string(),
        Some(i) => {
            if let Err(e) = glob::Pattern::new(i.get_ref()) {
                return Err(place.error(i.span(), format!("iface: not a pattern: {}", e.msg)));
            }
            i.into_inner()
        }
    };
    let client = check_prefix(place, "client", raw.matches.client)?;
    let server = check_prefix(place, "server", raw.matches.server)?;
    let server_ports = match raw.matches.server_port {
        None => Vec::new(),
        Some(p) => {
            let span = p.span();
            let ports = p.get_ref().list().to_vec();
            if ports.is_empty() || ports.len() > abi::WL_RULE_PORTS as usize || ports.contains(&0) {
                let what = format!("server_port takes 1 to {} ports, none of them 0", abi::WL_RULE_PORTS);
                return Err(place.error(span, what));
            }
            ports
        }
    };
    Ok(Rule {
        name,
        iface,
        cgroup,
        client,
        server,
        server_ports,
        algorithms,
        mode,
        control_paced,
        parameters,
        group,
    })
}

/// A rule speaks either of an interface's flows or of a cgroup's sockets.
fn check_cgroup(place: &Place, mode: Mode, matches: &RawMatch) -> Result<Option<PathBuf>, PolicyError> {
    if let (Some(i), true) = (&matches.iface, mode == Mode::Native || matches.cgroup.is_some()) {
        let what = "iface does not go with mode \"native\": its flows are chosen by cgroup, client, server and server_port";
        return Err(place.error(i.span(), what));
    }
    let Some(c) = &matches.cgroup else { return Ok(None) };
    if matches!(mode, Mode::Transparent | Mode::Watch) {
        let what = "cgroup goes with mode = \"native\" (or \"off\"); other modes have `iface`";
        return Err(place.error(c.span(), what));
    }
    if !c.get_ref().is_absolute() {
        let what = format!("cgroup = \"{}\": write its folder, from / on", c.get_ref().display());
        return Err(place.error(c.span(), what));
    }
    Ok(Some(c.get_ref().clone()))
}

fn check_prefix(place: &Place, key: &str, raw: Option<Spanned<String>>) -> Result<IpNet, PolicyError> {
    let Some(raw) = raw else { return Ok(anyone()) };
    parse_prefix(raw.get_ref()).ok_or_else(|| {
        let what = format!("{key} = \"{}\" is no prefix; write 192.0.2.0/24 or 2001:db8::/32", raw.get_ref());
        place.error(raw.span(), what)
    })
}

/// "0.0.0.0/0" means everyone, of IPv6 too: who writes it means "anyone".
fn parse_prefix(text: &str) -> Option<IpNet> {
    let net: IpNet = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))?;
    Some(if net.prefix_len() == 0 { anyone() } else { net })
}

fn check_algorithms(place: &Place, raw: Spanned<RawAlgorithm>) -> Result<Vec<(String, u32)>, PolicyError> {
    let span = raw.span();
    let list = match raw.into_inner() {
        RawAlgorithm::One(name) => vec![(name, 1)],
        RawAlgorithm::Split(list) => list.into_iter().map(|s| (s.algorithm, s.share)).collect(),
    };
    if list.is_empty() || list.len() > abi::WL_RULE_SPLITS as usize {
        let what = format!("a split has 1 to {} algorithms", abi::WL_RULE_SPLITS);
        return Err(place.error(span, what));
    }
    for (name, share) in &list {
        if Algorithm::by_name(name).is_none() {
            let what = format!("unknown algorithm \"{name}\"; known: {}", known_algorithms());
            return Err(place.error(span, what));
        }
        if *share == 0 || *share > 1_000_000 {
            return Err(place.error(span, format!("share of \"{name}\" is {share}; allowed: 1 to 1000000")));
        }
    }
    Ok(list)
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
        // as written, and where the patterns say it for all interfaces
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
                share_upto_permille: (upto * 1000 / total) as u16,
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
