//! Policies: which flows get which algorithm. TOML, checked before anything is touched, compiled to the rules that the
//! datapath looks up once per flow.

use crate::{
    GroupSpec, Membership, Per,
    group::{self, RawGroup},
    netdev,
};
use ipnet::{IpNet, Ipv6Net};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv6Addr},
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
            std::fs::read_to_string(path).map_err(|why| crate::Error::Io { path: path.into(), why })?;
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

/// Whether so many rules find room in the datapath of one interface or cgroup.
pub(crate) fn check_count(rules: usize, of: &str) -> Result<(), String> {
    if rules > abi::WL_MAX_RULES as usize {
        return Err(format!("{rules} rules for {of}; at most {}", abi::WL_MAX_RULES));
    }
    Ok(())
}

/// The first rule that finds no room in a datapath, as far as that can be told without knowing the interfaces, and why.
fn check_room(rules: &[Rule]) -> Result<(), (usize, String)> {
    let few = abi::WL_MAX_RULES.min(abi::WL_MAX_GROUPS) as usize;
    if rules.len() <= few {
        return Ok(());
    }
    for (of_sockets, what) in [(false, "behind interfaces"), (true, "of sockets")] {
        let mut groups = Vec::new();
        for (at, rule) in rules.iter().enumerate().filter(|(_, r)| r.is_of_sockets() == of_sockets) {
            match &rule.group {
                Some(m) if !groups.contains(&&m.group) => groups.push(&m.group),
                _ => continue,
            }
            if groups.len() > abi::WL_MAX_GROUPS as usize {
                return Err((at, format!("more than {} groups {what}", abi::WL_MAX_GROUPS)));
            }
        }
    }
    let check = |indices: Vec<usize>, of: &str| {
        let last = indices.get(abi::WL_MAX_RULES as usize).copied().unwrap_or(0);
        check_count(indices.len(), of).map_err(|what| (last, what))
    };
    let (sockets, flows): (Vec<_>, Vec<_>) = rules.iter().enumerate().partition(|(_, r)| r.is_of_sockets());
    let cgroups: BTreeSet<_> = sockets.iter().map(|(_, r)| r.cgroup.as_deref()).collect();
    for cgroup in cgroups {
        let speaks_of_it = |r: &Rule| r.cgroup.is_none() || r.cgroup.as_deref() == cgroup;
        check(sockets.iter().filter(|(_, r)| speaks_of_it(r)).map(|(at, _)| *at).collect(), "one cgroup")?;
    }
    let patterns: Vec<_> =
        flows.iter().map(|(at, r)| (*at, &r.iface, glob::Pattern::new(&r.iface))).collect();
    let names: BTreeSet<_> = flows.iter().map(|(_, r)| &r.iface).collect();
    for name in names {
        // some interface falls under a pattern and under those that match it as it is written
        let matching =
            patterns.iter().filter(|(_, text, p)| *text == name || p.as_ref().is_ok_and(|p| p.matches(name)));
        check(matching.map(|(at, ..)| *at).collect(), "one interface")?;
    }
    Ok(())
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

fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
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
        let bits = |net: IpNet| net.prefix_len() + if net.addr().is_ipv4() { 96 } else { 0 };
        wl_rule {
            rcv_addr: mapped(self.client.network()).octets(),
            ifindex,
            rule_id,
            snd_ports: ports,
            snd_ports_count: self.server_ports.len() as u8,
            rcv_prefix_bits: bits(self.client),
            snd_addr: mapped(self.server.network()).octets(),
            snd_prefix_bits: bits(self.server),
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> PolicyError {
        Policy::parse("p.toml", text).expect_err("a mistake")
    }

    #[test]
    fn a_full_rule_is_understood() {
        let policy = Policy::parse(
            "p.toml",
            r#"
            [[rule]]
            name = "wan"
            match = { iface = "tap*", client = "192.0.2.0/24", server = "2001:db8::7", server_port = [80, 443] }
            algorithm = [{ algorithm = "bbr", share = 10 }, { algorithm = "cubic", share = 90 }]
            "#,
        )
        .expect("valid");
        let rules = policy.compile("tap7", 42);
        assert_eq!(rules.len(), 1);
        let rule = &rules[0];
        assert_eq!((rule.rcv_prefix_bits, rule.snd_prefix_bits), (96 + 24, 128));
        assert_eq!((rule.rcv_addr[12..15].to_vec(), rule.snd_addr[15]), (vec![192, 0, 2], 7));
        assert_eq!(&rule.snd_ports[..2], &[80, 443]);
        assert_eq!(rule.splits[0].share_upto_permille, 100);
        assert_eq!(rule.splits[1].share_upto_permille, 1000);
        assert_eq!(rule.mode, abi::WL_MODE_ENFORCE as u8);
        assert!(policy.compile("eth0", 1).is_empty());
    }

    #[test]
    fn mistakes_name_the_line_and_what_is_allowed() {
        let e = error("[[rule]]\nname = \"a\"\nalgorithm = \"vegas\"\n");
        assert_eq!(e.line, 3);
        assert!(e.what.contains("vegas") && e.what.contains("bbr"), "{e}");
        let e = error("[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\nmode = \"fast\"\n");
        assert_eq!(e.line, 4);
        assert!(e.what.contains("transparent, watch, off"), "{e}");
        let e = error("[[rule]]\nname = \"a\"\nalgoritm = \"bbr\"\n");
        assert_eq!(e.line, 3);
        assert!(e.what.contains("algoritm"), "{e}");
        let e = error("[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\n[rule.match]\nclient = \"10.0.0/8\"\n");
        assert_eq!(e.line, 5);
        let e = error("[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\n[rule.match]\nserver = \"web\"\n");
        assert!(e.line == 5 && e.what.contains("server = \"web\" is no prefix"), "{e}");
        let e = error("[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\n[rule.match]\nserver_port = \"http\"\n");
        assert!(e.line == 5 && e.what.contains("such as [80, 443]"), "{e}");
        for algorithm in ["3", "[{ algoritm = \"bbr\", share = 1 }]"] {
            let e = error(&format!("[[rule]]\nname = \"a\"\nalgorithm = {algorithm}\n"));
            assert!(e.line == 3 && e.what.contains("{ algorithm = NAME, share = NUMBER }"), "{e}");
        }
    }

    #[test]
    fn one_port_needs_no_list() {
        let ports = |of: &str| {
            let rule = format!("[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\nmatch.server_port = {of}\n");
            Policy::parse("p.toml", &rule).expect("valid").rules.remove(0).server_ports
        };
        assert_eq!((ports("80"), ports("[80, 443]")), (vec![80], vec![80, 443]));
    }

    #[test]
    fn native_rules_speak_of_cgroups_and_no_interface() {
        let policy = Policy::parse(
            "p.toml",
            r#"
            [[rule]]
            name = "containers"
            match = { cgroup = "/sys/fs/cgroup/web", server_port = [443] }
            algorithm = "bbr"
            mode = "native"
            [[rule]]
            name = "taps"
            match = { iface = "tap*" }
            algorithm = "cubic"
            [[rule]]
            name = "others"
            algorithm = "cubic"
            mode = "native"
            "#,
        )
        .expect("valid");
        let web = Path::new("/sys/fs/cgroup/web");
        assert_eq!(policy.cgroups(), [None, Some(web)]);
        assert_eq!(policy.compile_cgroup(web).len(), 2);
        assert_eq!(policy.compile_cgroup(Path::new("/sys/fs/cgroup"))[0].rule_id, 2);
        assert_eq!(policy.compile("tap7", 1).len(), 1);
        let rule = "[[rule]]\nname = \"a\"\nalgorithm = \"bbr\"\n";
        let e = error(&format!("{rule}mode = \"native\"\nmatch = {{ iface = \"eth0\" }}\n"));
        assert!(e.line == 5 && e.what.contains("cgroup"), "{e}");
        let e = error(&format!("{rule}match = {{ cgroup = \"/sys/fs/cgroup\" }}\n"));
        assert!(e.line == 4 && e.what.contains("native"), "{e}");
        let e = error(&format!("{rule}mode = \"native\"\nmatch = {{ cgroup = \"web\" }}\n"));
        assert!(e.line == 5 && e.what.contains("folder"), "{e}");
    }

    #[test]
    fn algorithms_are_told_of_the_path() {
        let rule = "[[rule]]\nname = \"a\"\nalgorithm = \"trim\"\n";
        let text = format!("{rule}parameters = {{ bottleneck = \"1 Gbit/s\", buffer = \"100 packets\" }}\n");
        let params = Policy::parse("p", &text).expect("valid").compile("eth0", 1)[0].params;
        assert_eq!((params.bottleneck_bytes_ps, params.buffer_bytes), (125_000_000, 151_400));
        let e = error(&format!("{rule}parameters = {{ buffer = \"1 BDP\" }}\n"));
        assert!(e.line == 4 && e.what.contains("packets"), "{e}");
        let e = error(&format!("{rule}mode = \"native\"\nparameters = {{ buffer = \"10 kB\" }}\n"));
        assert!(e.line == 5 && e.what.contains("leave them out"), "{e}");
    }

    #[test]
    fn empty_policies_and_missing_algorithms_are_refused() {
        assert!(error("").what.contains("[[rule]]"));
        assert!(error("[[rule]]\nname = \"a\"\n").what.contains("algorithm"));
    }

    #[test]
    fn groups_are_checked_and_numbered() {
        let rule = |name: &str, group: &str| {
            format!("[[rule]]\nname = \"{name}\"\nalgorithm = \"reno\"\ngroup = {{ {group} }}\n")
        };
        let uplink = "name = \"uplink\", rule = \"ccc\"";
        let text = rule("gold", &format!("{uplink}, weight = 4, per = \"server\""))
            + &rule("other", "name = \"other\", rule = \"multcp\", aggressiveness = 2.5")
            + &rule("rest", uplink)
            + "[[rule]]\nname = \"alone\"\nalgorithm = \"reno\"\n";
        let policy = Policy::parse("p.toml", &text).expect("valid");
        assert_eq!(policy.groups().len(), 2);
        let rules = policy.compile("tap7", 1);
        assert_eq!(rules.iter().map(|r| r.group).collect::<Vec<_>>(), [1, 2, 1, 0]);
        assert_eq!((rules[0].weight, rules[0].per), (4, abi::WL_PER_SERVER as u8));
        assert_eq!((rules[2].weight, rules[2].per), (1, abi::WL_PER_FLOW as u8));
        assert_ne!(rules[0].tenant, rules[2].tenant);
        for (keys, what) in [
            ("name = \"g\", rule = \"cccc\"", "fse-conservative"),
            ("name = \"g\", rule = \"ccc\", weight = 0", "weight = 0; allowed: 1 to 65535"),
            ("name = \"g\", rule = \"ccc\", weight = -3", "weight = -3; allowed"),
            ("name = \"g\", rule = \"ccc\", per = \"vm\"", "flow, server, interface, rule"),
            ("name = \"g\", rule = \"ccc\", max_members = 65536", "1 to 65535"),
            ("name = \"g\", rule = \"ccc\", idle_s = 0", "1 to 1800"),
            ("name = \"g\", rule = \"ccc\", aggressiveness = 2.0", "multcp"),
            ("name = \"\", rule = \"ccc\"", "not empty"),
            ("name = \"g\"", "rule"),
        ] {
            let e = error(&rule("a", keys));
            assert!(e.line == 4 && e.what.contains(what), "{keys}: {e}");
        }
        let e = error(&(rule("a", uplink) + &rule("b", &format!("{uplink}, idle_s = 5"))));
        assert!(e.line == 8 && e.what.contains("otherwise in rule \"a\""), "{e}");
        // a tenant has one weight: where some of its flows fall under one rule and some under another, both give it
        let of_port = "match = { iface = \"tap*\", server_port = [80] }\n";
        let tenants = |per: &str, weight: u32| format!("{uplink}, per = \"{per}\", weight = {weight}");
        for per in ["server", "interface"] {
            let first = rule("a", &tenants(per, 2)) + of_port;
            let e = error(&(first.clone() + &rule("b", &tenants(per, 1))));
            assert!(e.line == 9 && e.what.contains(per) && e.what.contains("rule \"a\""), "{e}");
            Policy::parse("p.toml", &(first.clone() + &rule("b", &tenants(per, 2)))).expect("the same");
            Policy::parse("p.toml", &(first + &rule("b", &tenants("flow", 1)))).expect("its flows' own");
            // all flows of an interface fall under the first of its rules
            let whole =
                rule("a", &tenants(per, 2)) + "match = { iface = \"tap1\" }\n" + &rule("b", &tenants(per, 1));
            Policy::parse("p.toml", &whole).expect("different interfaces");
        }
        let server = |address: &str, weight: u32| {
            let matches = format!("match = {{ server = \"{address}\", server_port = [80] }}\n");
            rule(address, &tenants("server", weight)) + &matches
        };
        let text = server("192.0.2.1", 1) + &server("192.0.2.2", 2) + &server("2001:db8::/32", 3);
        Policy::parse("p.toml", &text).expect("different servers");
        let e = error(&(server("192.0.2.1", 1) + &server("192.0.2.0/24", 2)));
        assert!(e.line == 9 && e.what.contains("server"), "{e}");
        let e = error(&(rule("a", uplink) + "mode = \"watch\"\n"));
        assert!(e.what.contains("not controlled"), "{e}");
        let native = |name: &str, group: &str| rule(name, group) + "mode = \"native\"\n";
        let sockets = Policy::parse("p.toml", &native("a", uplink)).expect("sockets have groups");
        assert!(!sockets.groups()[0].ack_clock, "they are paced instead");
        for (keys, what) in [("per = \"interface\"", "flow, server, rule"), ("ack_clock = true", "pace")] {
            let e = error(&native("a", &format!("{uplink}, {keys}")));
            assert!(e.line == 4 && e.what.contains(what), "{keys}: {e}");
        }
        let e = error(&(rule("a", uplink) + &native("b", uplink)));
        assert!(e.line == 8 && e.what.contains("another name"), "{e}");
    }

    #[test]
    fn what_finds_no_room_in_a_datapath_is_refused() {
        let rules = |count: u32, mode: &str, rest: &dyn Fn(u32) -> String| {
            let rule = |i| {
                format!("[[rule]]\nname = \"r{i}\"\nalgorithm = \"reno\"\nmode = \"{mode}\"\n{}\n", rest(i))
            };
            (0..count).map(rule).collect::<String>()
        };
        let accepts = |text: &str| Policy::parse("p.toml", text).map(drop);
        let iface = |name: &'static str| move |_| format!("match = {{ iface = \"{name}\" }}");
        accepts(&rules(256, "watch", &iface("tap7"))).expect("as many as there is room for");
        let e = error(&rules(300, "watch", &iface("tap7")));
        assert!(e.line == 256 * 5 + 1 && e.what.contains("300 rules for one interface; at most 256"), "{e}");
        // those of a pattern, too; those of other interfaces do not count
        let mixed = rules(200, "watch", &iface("tap*")) + &rules(57, "watch", &iface("tap7"));
        assert!(error(&mixed).what.contains("257 rules"));
        accepts(&(rules(200, "watch", &iface("tap8")) + &rules(100, "watch", &iface("tap7"))))
            .expect("of two");
        let cgroup = |name: &'static str| move |_| format!("match = {{ cgroup = \"/{name}\" }}");
        let sockets = rules(200, "native", &cgroup("a")) + &rules(57, "native", &|_| String::new());
        assert!(error(&sockets).what.contains("257 rules for one cgroup"));
        accepts(&(rules(200, "native", &cgroup("a")) + &rules(100, "native", &cgroup("b")))).expect("of two");
        let grouped = |i: u32| {
            format!("match = {{ iface = \"tap{i}\" }}\ngroup = {{ name = \"g{i}\", rule = \"ccc\" }}")
        };
        accepts(&rules(256, "transparent", &grouped)).expect("as many as there is room for");
        let e = error(&rules(257, "transparent", &grouped));
        assert!(e.line == 256 * 6 + 1 && e.what.contains("more than 256 groups behind interfaces"), "{e}");
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_compiles(text in "\\PC*") {
            if let Ok(policy) = Policy::parse("p", &text) {
                policy.compile("eth0", 1);
            }
        }

        #[test]
        fn shares_end_at_one_thousand(shares in proptest::collection::vec(1u32..1000, 1..=4)) {
            let list = shares.iter().map(|s| ("bbr".to_string(), *s)).collect();
            let mut policy = Policy::simple(Algorithm::by_name("bbr").unwrap(), Mode::Transparent, vec![], false);
            policy.rules[0].algorithms = list;
            let rule = policy.compile("eth0", 1)[0];
            prop_assert_eq!(rule.splits[shares.len() - 1].share_upto_permille, 1000);
        }
    }
}
