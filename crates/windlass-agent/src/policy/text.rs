//! The text of a policy: TOML, checked before anything is touched.

use super::{
    Mode, Per, Policy, PolicyError, Rule, anyone,
    group::{self, RawGroup},
    mistake::Place,
    room::check_room,
};
use ipnet::IpNet;
use serde::Deserialize;
use std::{net::IpAddr, path::PathBuf};
use toml::Spanned;
use windlass_core::{Algorithm, abi};
use windlass_scenario::Parameters;

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

impl Policy {
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
            let what = format!("rule \"{name}\" has no `algorithm`; known: {}", Algorithm::names());
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
            let what = format!("unknown algorithm \"{name}\"; known: {}", Algorithm::names());
            return Err(place.error(span, what));
        }
        if *share == 0 || *share > 1_000_000 {
            return Err(place.error(span, format!("share of \"{name}\" is {share}; allowed: 1 to 1000000")));
        }
    }
    Ok(list)
}
