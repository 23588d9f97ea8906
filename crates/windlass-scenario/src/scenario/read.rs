//! Reads a scenario's text and checks it.

use super::{MAX_TIME, Mode, Scenario, ScenarioError, Windlass};
use crate::{
    Flow, Graph, Group, Link, Parameters, Per, Span, Tcp, Tunables,
    group::{check_group, check_membership},
    keys::with_key,
    line_at,
    location::{ScenarioFile, Starts, line_of},
    net_builder::{Known, NetBuilder, known},
    topology::{RawHost, RawSwitch, RawTopology},
    workload::{RawFlow, Surroundings},
};
use serde::{Deserialize, Deserializer, de};
use std::{collections::BTreeMap, ops::Range, path::Path};
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with a scenario's name, hosts, links and flows")]
struct Raw {
    name: String,
    #[serde(default = "one", deserialize_with = "seed")]
    seed: u64,
    time_limit: Option<Span>,
    topology: Option<Spanned<RawTopology>>,
    #[serde(default)]
    host: Vec<Spanned<RawHost>>,
    #[serde(default)]
    switch: Vec<Spanned<RawSwitch>>,
    #[serde(default)]
    link: Vec<Spanned<Link>>,
    #[serde(default)]
    group: Vec<Spanned<Group>>,
    #[serde(default)]
    flow: Vec<Spanned<RawFlow>>,
    tcp: Option<Spanned<Tcp>>,
    windlass: Option<Spanned<Windlass>>,
    parameters: Option<Spanned<Parameters>>,
}

fn one() -> u64 {
    1
}

/// A seed: any whole number that TOML has from 0 on.
fn seed<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
    let value = toml::Value::deserialize(d).map_err(|_| de::Error::custom(SEEDS))?;
    let seed = value.as_integer().and_then(|n| u64::try_from(n).ok());
    seed.ok_or_else(|| de::Error::custom(format!("seed = {value}: {SEEDS}")))
}

/// What to write where a table is meant as one of several, or the other way round; none: that is not what is wrong.
fn brackets(line: &str, what: &str) -> Option<String> {
    let head = line.split('#').next().unwrap_or_default().trim();
    let name = head.strip_prefix('[')?.strip_suffix(']')?;
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        // its first element is taken for the first key
        Some(name) if what.starts_with("invalid type") => {
            Some(format!("[[{name}]]: there is one at most; write [{name}]"))
        }
        None if what.starts_with("invalid type: map") => {
            Some(format!("[{name}]: there may be several; write [[{name}]] for each"))
        }
        _ => None,
    }
}

const SEEDS: &str = "a whole number from 0 to 9223372036854775807";

impl Scenario {
    /// Reads and checks a file.
    pub fn from_file(path: &Path) -> Result<Scenario, ScenarioError> {
        ScenarioFile::read(path).map(|file| file.scenario)
    }

    /// Whether there is anything to run; a file may be without flows as long as they are still to be set.
    pub fn check_sends(&self) -> Result<(), String> {
        if self.flows.is_empty() {
            return Err("no [[flow]]: nothing is sent; add one".into());
        }
        Ok(())
    }

    /// Checks the text of a scenario; `file` is only for messages.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        Self::parse_with_starts(file, text).map(|(scenario, _)| scenario)
    }

    /// The same, and where in it what stands.
    pub(crate) fn parse_with_starts(file: &str, text: &str) -> Result<(Scenario, Starts), ScenarioError> {
        Self::check(Self::read(file, text)?, file, text)
    }

    /// Checks the table `scenario` of a larger file, e.g. of an experiment.
    pub fn parse_part(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        #[derive(Deserialize)]
        struct Whole {
            scenario: Raw,
        }
        let whole: Whole = Self::read(file, text)?;
        Self::check(whole.scenario, file, text).map(|(scenario, _)| scenario)
    }

    fn read<T: serde::de::DeserializeOwned>(file: &str, text: &str) -> Result<T, ScenarioError> {
        toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            let what = e.message().replace('\n', " ");
            let line = line_at(text, at) - 1;
            let words = text.lines().nth(line).unwrap_or_default();
            if let Some(cure) = brackets(words, &what) {
                return ScenarioError::new(file, line + 1, &cure);
            }
            ScenarioError::new(file, line + 1, &with_key(text, at, &what))
        })
    }

    fn check(raw: Raw, file: &str, text: &str) -> Result<(Scenario, Starts), ScenarioError> {
        let fail = |span: Range<usize>, what: String| {
            ScenarioError::new(file, line_of(text, span.start, &what), &what)
        };
        let mut starts = Starts::default();
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        if let Some(tcp) = &raw.tcp {
            starts.tcp = tcp.span().start;
            tcp.get_ref().check().map_err(|what| fail(tcp.span(), what))?;
        }
        let tcp = raw.tcp.map(Spanned::into_inner).unwrap_or_default();
        let mut links = raw.link;
        for link in &mut links {
            let span = link.span();
            link.get_mut().load_traces(folder).map_err(|what| fail(span, what))?;
        }
        let net = lay_out(
            &raw.topology,
            &raw.host,
            raw.switch,
            links,
            NetBuilder::new(tcp.packet_bytes()),
            &mut starts,
        );
        let NetBuilder { names, hosts, switches, links, .. } =
            net.map_err(|(span, what)| fail(span, what))?;
        let graph = Graph::of_links(names.iter().map(|(name, i)| (name.as_str(), *i)).collect(), &links);
        let known = |key: &str, name: &str| known(&names, key, name);
        let time_limit = raw.time_limit.unwrap_or(Span(300.0));
        if !(MIN_LIMIT_S..=MAX_TIME.0).contains(&time_limit.0) {
            return Err(fail(0..0, format!("time_limit = \"{time_limit}\": 1 s to {MAX_TIME}")));
        }
        for (index, group) in raw.group.iter().enumerate() {
            check_group(group.get_ref()).map_err(|what| fail(group.span(), what))?;
            let name = &group.get_ref().name;
            if raw.group[..index].iter().any(|g| g.get_ref().name == *name) {
                return Err(fail(group.span(), format!("name: group \"{name}\" is there twice; rename one")));
            }
        }
        starts.groups = raw.group.iter().map(|group| group.span().start).collect();
        let groups: Vec<Group> = raw.group.into_iter().map(Spanned::into_inner).collect();
        let parts = graph.parts();
        let around = Surroundings {
            seed: raw.seed,
            time_limit,
            hosts: &hosts,
            switches: &switches,
            names: &names,
            parts: &parts,
            groups: &groups,
            links: &links,
            folder,
        };
        let mut flows = Vec::new();
        let mut weights = BTreeMap::new();
        let box_group = raw.windlass.as_ref().and_then(|w| w.get_ref().group.clone());
        for flow in raw.flow {
            let span = flow.span();
            let place = |at: Option<usize>| at.map_or(span.clone(), |at| at..at);
            let begin = flows.len();
            let spread = flow.into_inner().spread(&around, &mut flows);
            spread.map_err(|(at, what)| fail(place(at), what))?;
            starts.flows.resize(flows.len(), span.start);
            check_servers_weights(&flows[begin..], &box_group, &groups, &mut weights)
                .map_err(|what| fail(place(None), what))?;
        }
        if let Some(w) = &raw.windlass {
            starts.windlass = w.span().start;
            check_windlass(w.get_ref(), &links, &known).map_err(|what| fail(w.span(), what))?;
            let group = w.get_ref().group.as_deref();
            check_membership(group, 1, &groups).map_err(|what| fail(w.span(), what))?;
        }
        if let Some(p) = &raw.parameters {
            p.get_ref().check().map_err(|what| fail(p.span(), what))?;
            let of_box = raw.windlass.as_ref().map(|w| w.get_ref().algorithm.as_str());
            check_constants(&p.get_ref().tunables, &flows, of_box).map_err(|what| fail(p.span(), what))?;
        }
        let parameters = raw.parameters.map(Spanned::into_inner).unwrap_or_default();
        let parameters = parameters.with_packets_of(tcp.packet_bytes());
        let scenario = Scenario {
            name: raw.name,
            seed: raw.seed,
            time_limit,
            hosts,
            switches,
            links,
            groups,
            flows,
            tcp,
            windlass: raw.windlass.map(Spanned::into_inner),
            parameters,
        };
        Ok((scenario, starts))
    }
}

const MIN_LIMIT_S: f64 = 1.0;

/// The network that these tables come to, and where in the file they are; a mistake has the place of its table.
fn lay_out(
    topology: &Option<Spanned<RawTopology>>,
    hosts: &[Spanned<RawHost>],
    switches: Vec<Spanned<RawSwitch>>,
    links: Vec<Spanned<Link>>,
    mut net: NetBuilder,
    starts: &mut Starts,
) -> Result<NetBuilder, (Range<usize>, String)> {
    if let Some(topology) = topology {
        net.lay_out(topology.get_ref()).map_err(|what| (topology.span(), what))?;
        starts.switches.resize(net.switches.len(), topology.span().start);
        starts.links.resize(net.links.len(), topology.span().start);
    }
    let first = topology.iter().map(Spanned::span).chain(hosts.iter().map(Spanned::span)).next();
    starts.network = first.map_or(0, |span| span.start);
    for host in hosts {
        let names = host.get_ref().names().map_err(|what| (host.span(), what))?;
        names.into_iter().try_for_each(|n| net.add_host(n)).map_err(|what| (host.span(), what))?;
    }
    for switch in switches {
        let span = switch.span();
        starts.switches.push(span.start);
        net.add_switch(switch.into_inner()).map_err(|what| (span, what))?;
    }
    if net.hosts.is_empty() {
        return Err((0..0, "no hosts: give a [topology], or [[host]] and [[link]]".into()));
    }
    for link in links {
        let span = link.span();
        net.add_links(link.into_inner()).map_err(|what| (span.clone(), what))?;
        starts.links.resize(net.links.len(), span.start);
    }
    Ok(net)
}

/// A host whose flows have one weight together has one. `weights`: those of the hosts so far.
fn check_servers_weights(
    flows: &[Flow],
    box_group: &Option<String>,
    groups: &[Group],
    weights: &mut BTreeMap<String, i64>,
) -> Result<(), String> {
    let is_per_server =
        |name: &Option<String>| groups.iter().any(|g| g.per == Per::Server && Some(&g.name) == name.as_ref());
    let box_is = is_per_server(box_group);
    for flow in flows.iter().filter(|f| box_is || is_per_server(&f.group)) {
        let first = *weights.entry(flow.from.clone()).or_insert(flow.weight);
        if first != flow.weight {
            return Err(format!(
                "weight = {}: \"{}\" has {first} already, for all its flows",
                flow.weight, flow.from
            ));
        }
    }
    Ok(())
}

/// The kernel's own algorithms take no constants. Those of algorithms that are nowhere are not looked at: sweeps have several.
fn check_constants(set: &Tunables, flows: &[Flow], of_box: Option<&str>) -> Result<(), String> {
    for name in set.algorithms().map(|algorithm| algorithm.name()) {
        let is_own = |f: &Flow| f.own_algorithm() == Some(name) || (f.group.is_some() && f.algorithm == name);
        let is_kernels = |f: &Flow| f.algorithm == name;
        if of_box != Some(name) && !flows.iter().any(is_own) && flows.iter().any(is_kernels) {
            return Err(format!(
                "{name}: the kernel's own \"{name}\", which flows here have, takes no constants; write algorithm = \
                 \"wl_{name}\" for the one that Windlass has"
            ));
        }
    }
    Ok(())
}

fn check_windlass(w: &Windlass, links: &[Link], known: Known) -> Result<(), String> {
    known("at", &w.at)?;
    known("facing", &w.facing)?;
    if w.mode == Mode::Watch && w.group.is_some() {
        return Err(
            "group: a box that watches couples nothing; leave it out, or take mode = \"transparent\"".into(),
        );
    }
    let has_both = |l: &Link| l.between.contains(&w.at) && l.between.contains(&w.facing);
    if w.at == w.facing || !links.iter().any(has_both) {
        return Err(format!("facing: no link between \"{}\" and \"{}\"; name a neighbour", w.at, w.facing));
    }
    Ok(())
}
