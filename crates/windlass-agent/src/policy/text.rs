//! The text of a policy: TOML, checked before anything is touched.

use super::{
    group::{self, Membership, Per, RawGroup},
    keys::{IFACE_CHARS, SHARE_MAX},
    one_or::OneOr,
    pattern::shortest_match,
    policy_error::{PolicyError, Source},
    room::check_room,
    rule::{Mode, Rule, SPLIT_PARTS, anyone},
};
use ipnet::IpNet;
use serde::Deserialize;
use std::{collections::BTreeMap, net::IpAddr, ops::Range, path::PathBuf};
use toml::Spanned;
use windlass_core::{Algorithm, abi};
use windlass_scenario::{Parameters, is_name};

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
    algorithm: Option<Spanned<OneOr<String, RawSplit>>>,
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
    server_port: Option<Spanned<OneOr<i64, i64>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSplit {
    algorithm: Spanned<String>,
    share: Spanned<i64>,
}

/// The rules of a policy, checked, and the line in which each begins; `file` is only for messages.
pub(super) fn rules(file: &str, text: &str) -> Result<(Vec<Rule>, Vec<usize>), PolicyError> {
    let source = Source { file, text };
    let raw: RawPolicy = toml::from_str(text).map_err(|e| source.explain(&e))?;
    if raw.rule.is_empty() {
        return Err(source.error(0..0, "no [[rule]]: a policy needs at least one"));
    }
    check_names(&source, &raw.rule)?;
    let mut rules: Vec<Rule> = Vec::new();
    let spans: Vec<_> = raw.rule.iter().map(Spanned::span).collect();
    for raw in raw.rule {
        let span = raw.get_ref().group.as_ref().map_or(0..0, Spanned::span);
        let rule = check(&source, raw)?;
        check_group_agrees(&rules, &rule).map_err(|what| source.error(span, what))?;
        rules.push(rule);
    }
    check_room(&rules).map_err(|(at, what)| source.error(spans[at].clone(), what))?;
    Ok((rules, spans.iter().map(|span| source.line(span)).collect()))
}

/// A name stands for its rule in reports, and for the tenant that a weight per rule is given.
fn check_names(source: &Source, rules: &[Spanned<RawRule>]) -> Result<(), PolicyError> {
    let mut known = BTreeMap::new();
    for name in rules.iter().map(|r| &r.get_ref().name) {
        if !is_name(name.get_ref()) {
            return Err(source.refuse(name.span(), "rule.name"));
        }
        if let Some(first) = known.insert(name.get_ref(), name.span()) {
            let (text, line) = (name.get_ref(), source.line(&first));
            let what =
                format!("name = \"{text}\": that on line {line} is the same; give each rule its own name");
            return Err(source.error(name.span(), what));
        }
    }
    Ok(())
}

/// Whether a rule configures its group and its tenants as the rules before it do.
fn check_group_agrees(rules: &[Rule], rule: &Rule) -> Result<(), String> {
    let Some(Membership { group, per, .. }) = &rule.group else { return Ok(()) };
    if let Some(other) = rules.iter().find(|r| r.has_other(group)) {
        if (other.mode == Mode::Native) != (rule.mode == Mode::Native) {
            return Err(format!(
                "group \"{}\": rule \"{}\" has it in another mode, and flows of interfaces and sockets cannot \
                 be in one group; give it another name",
                group.name, other.name
            ));
        }
        return Err(format!(
            "group \"{}\" is configured otherwise in rule \"{}\"; only weight and per may differ",
            group.name, other.name
        ));
    }
    if let Some(other) = rules.iter().find(|r| r.gives_another_weight(rule)) {
        return Err(format!(
            "flows of one {} fall under rule \"{}\", too, which has another weight for all of them together; give \
             both the same, or per = \"flow\"",
            if *per == Per::Server { "server" } else { "interface" },
            other.name
        ));
    }
    Ok(())
}

fn check(source: &Source, raw: Spanned<RawRule>) -> Result<Rule, PolicyError> {
    let rule_span = raw.span();
    let raw = raw.into_inner();
    let name = raw.name.into_inner();
    let mode = check_mode(source, raw.mode)?;
    let algorithms = match raw.algorithm {
        Some(a) => check_algorithms(source, a)?,
        None if matches!(mode, Mode::Transparent | Mode::Native) => {
            let what = format!("rule \"{name}\" has no `algorithm`; known: {}", Algorithm::names());
            return Err(source.error(rule_span, what));
        }
        None => vec![("reno".to_string(), 1)],
    };
    Ok(Rule {
        name,
        control_paced: check_paced_servers(source, mode, raw.paced_servers)?,
        group: check_group(source, mode, &algorithms, raw.group)?,
        parameters: check_parameters(source, mode, &algorithms, raw.parameters)?,
        cgroup: check_cgroup(source, mode, &raw.matches)?,
        iface: check_iface(source, raw.matches.iface)?,
        client: check_prefix(source, "client", raw.matches.client)?,
        server: check_prefix(source, "server", raw.matches.server)?,
        server_ports: check_ports(source, raw.matches.server_port)?,
        algorithms,
        mode,
    })
}

fn check_mode(source: &Source, raw: Option<Spanned<String>>) -> Result<Mode, PolicyError> {
    let Some(raw) = raw else { return Ok(Mode::Transparent) };
    match raw.get_ref().as_str() {
        "transparent" => Ok(Mode::Transparent),
        "watch" => Ok(Mode::Watch),
        "off" => Ok(Mode::Off),
        "native" => Ok(Mode::Native),
        _ => Err(source.refuse(raw.span(), "rule.mode")),
    }
}

fn check_paced_servers(
    source: &Source,
    mode: Mode,
    raw: Option<Spanned<String>>,
) -> Result<bool, PolicyError> {
    let Some(raw) = raw else { return Ok(false) };
    if mode == Mode::Native {
        let what = "paced_servers: sockets of mode \"native\" run the algorithm themselves; leave it out";
        return Err(source.error(raw.span(), what));
    }
    match raw.get_ref().as_str() {
        "stand-aside" => Ok(false),
        "control" => Ok(true),
        _ => Err(source.refuse(raw.span(), "rule.paced_servers")),
    }
}

fn check_group(
    source: &Source,
    mode: Mode,
    algorithms: &[(String, u32)],
    raw: Option<Spanned<RawGroup>>,
) -> Result<Option<Membership>, PolicyError> {
    let Some(raw) = raw else { return Ok(None) };
    if matches!(mode, Mode::Watch | Mode::Off) {
        let what = "group: flows that are not controlled cannot be coupled; remove it, or the mode";
        return Err(source.error(raw.span(), what));
    }
    let needs_pauses = |name: &str| Algorithm::by_name(name).is_some_and(|a| a.needs_pauses());
    if let Some((name, _)) = algorithms.iter().find(|(name, _)| needs_pauses(name)) {
        let what = format!(
            "group: \"{name}\" puts its window by at each pause, which a group takes for a loss; leave the group out, or \
             take an algorithm that keeps its window"
        );
        return Err(source.error(raw.span(), what));
    }
    group::check(source, raw.into_inner(), mode == Mode::Native).map(Some)
}

fn check_parameters(
    source: &Source,
    mode: Mode,
    algorithms: &[(String, u32)],
    raw: Option<Spanned<Parameters>>,
) -> Result<Parameters, PolicyError> {
    let Some(raw) = raw else { return Ok(Parameters::default()) };
    if mode == Mode::Native {
        let what = "parameters: sockets of mode \"native\" cannot be given any by a rule; leave them out, and see `windlass native load --help`";
        return Err(source.error(raw.span(), what));
    }
    let check = || {
        raw.get_ref().check()?;
        let names: Vec<&str> = algorithms.iter().map(|(name, _)| name.as_str()).collect();
        raw.get_ref().tunables.check_of_rule(&names)
    };
    check().map_err(|what| source.error(raw.span(), format!("parameters: {what}")))?;
    Ok(raw.into_inner())
}

/// What no interface can be named like would never apply.
fn check_iface(source: &Source, raw: Option<Spanned<String>>) -> Result<String, PolicyError> {
    let Some(raw) = raw else { return Ok("*".into()) };
    let pattern = raw.get_ref();
    if let Err(e) = glob::Pattern::new(pattern) {
        let what = format!("match.iface = {pattern:?} is no pattern: {}; write e.g. \"tap*\"", e.msg);
        return Err(source.error(raw.span(), what));
    }
    if pattern.is_empty() || shortest_match(pattern) > IFACE_CHARS {
        return Err(source.refuse(raw.span(), "rule.match.iface"));
    }
    Ok(raw.into_inner())
}

fn check_ports(source: &Source, raw: Option<Spanned<OneOr<i64, i64>>>) -> Result<Vec<u16>, PolicyError> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    let list = match raw.get_ref() {
        OneOr::One(port) => std::slice::from_ref(port),
        OneOr::Several(ports) => ports,
    };
    let ports: Vec<u16> =
        list.iter().filter_map(|p| u16::try_from(*p).ok()).filter(|port| *port > 0).collect();
    if ports.len() != list.len() || !(1..=abi::WL_RULE_PORTS as usize).contains(&ports.len()) {
        return Err(source.refuse(raw.span(), "rule.match.server_port"));
    }
    Ok(ports)
}

/// A rule speaks either of an interface's flows or of a cgroup's sockets.
fn check_cgroup(source: &Source, mode: Mode, matches: &RawMatch) -> Result<Option<PathBuf>, PolicyError> {
    let against_iface = match mode {
        Mode::Native => {
            Some("mode \"native\": its flows are chosen by cgroup, client, server and server_port")
        }
        _ if matches.cgroup.is_some() => {
            Some("cgroup: a rule speaks of an interface's flows or of a cgroup's sockets; leave one out")
        }
        _ => None,
    };
    if let (Some(i), Some(why)) = (&matches.iface, against_iface) {
        return Err(source.error(i.span(), format!("iface does not go with {why}")));
    }
    let Some(c) = &matches.cgroup else { return Ok(None) };
    if matches!(mode, Mode::Transparent | Mode::Watch) {
        let what = "cgroup goes with mode = \"native\" (or \"off\"); other modes have `iface`";
        return Err(source.error(c.span(), what));
    }
    if !c.get_ref().is_absolute() {
        let what = format!("cgroup = \"{}\": write its folder, from / on", c.get_ref().display());
        return Err(source.error(c.span(), what));
    }
    Ok(Some(c.get_ref().clone()))
}

fn check_prefix(source: &Source, key: &str, raw: Option<Spanned<String>>) -> Result<IpNet, PolicyError> {
    let Some(raw) = raw else { return Ok(anyone()) };
    parse_prefix(raw.get_ref()).ok_or_else(|| {
        let what = format!("{key} = \"{}\" is no prefix; write 192.0.2.0/24 or 2001:db8::/32", raw.get_ref());
        source.error(raw.span(), what)
    })
}

/// "0.0.0.0/0" means all hosts, of IPv6 too: that is what is meant by it.
fn parse_prefix(text: &str) -> Option<IpNet> {
    let net: IpNet = text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))?;
    Some(if net.prefix_len() == 0 { anyone() } else { net })
}

fn check_algorithms(
    source: &Source,
    raw: Spanned<OneOr<String, RawSplit>>,
) -> Result<Vec<(String, u32)>, PolicyError> {
    let span = raw.span();
    let parts = match raw.into_inner() {
        OneOr::One(name) => {
            check_algorithm(source, span, &name)?;
            return Ok(vec![(name, 1)]);
        }
        OneOr::Several(parts) => parts,
    };
    if parts.is_empty() || parts.len() > abi::WL_RULE_SPLITS as usize {
        let what = format!("algorithm: a split has 1 to {} algorithms", abi::WL_RULE_SPLITS);
        return Err(source.error(span, what));
    }
    let mut split = Vec::new();
    for RawSplit { algorithm, share } in &parts {
        check_algorithm(source, algorithm.span(), algorithm.get_ref())?;
        let number = u32::try_from(*share.get_ref()).ok().filter(|n| (1..=SHARE_MAX).contains(n));
        let number = number.ok_or_else(|| source.refuse(share.span(), "rule.algorithm.share"))?;
        split.push((algorithm.get_ref().clone(), number));
    }
    check_shares(&split).map_err(|(at, what)| source.error(parts[at].share.span(), what))?;
    Ok(split)
}

fn check_algorithm(source: &Source, span: Range<usize>, name: &str) -> Result<(), PolicyError> {
    if Algorithm::by_name(name).is_none() {
        let what = format!("unknown algorithm \"{name}\"; known: {}", Algorithm::names());
        return Err(source.error(span, what));
    }
    Ok(())
}

/// A part too small for a flow to draw it is refused, wherever it stands. An error has the part's number, from 0.
fn check_shares(split: &[(String, u32)]) -> Result<(), (usize, String)> {
    let total: u64 = split.iter().map(|(_, share)| u64::from(*share)).sum();
    let too_small = |(_, share): &(String, u32)| u64::from(*share) * SPLIT_PARTS < total;
    let Some(at) = split.iter().position(too_small) else { return Ok(()) };
    let (name, share) = &split[at];
    let enough = (total - u64::from(*share)).div_ceil(SPLIT_PARTS - 1);
    let what = format!(
        "algorithm.share = {share}: \"{name}\" gets less than one in {SPLIT_PARTS}, the smallest part of a split that \
         counts; write {enough} or more, lower the other shares, or leave \"{name}\" out"
    );
    Err((at, what))
}
