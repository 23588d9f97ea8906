//! The scenario file.

use crate::{
    Flow, Graph, Group, Host, Link, LinkModel, Parameters, Per, Span, Switch, Tcp,
    group::{check_group, check_membership},
    keys::with_key,
    line_at,
    net::{Known, Net, known},
    place::{Places, ScenarioFile, line_of},
    plain,
    topology::{RawHost, RawSwitch, RawTopology},
    workload::{RawFlow, Surroundings},
};
use rand::{RngCore, SeedableRng};
use rand_xoshiro::SplitMix64;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::{collections::BTreeMap, ops::Range, path::Path};
use toml::Spanned;

/// A mistake in a scenario: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {what}", if *line == 0 { String::new() } else { format!(":{line}") })]
pub struct ScenarioError {
    /// File name, as given.
    pub file: String,
    /// Line, from 1; 0: the file as a whole.
    pub line: usize,
    /// Key, what is wrong and the cure.
    pub what: String,
}

impl ScenarioError {
    /// A mistake at a line, from 1; 0: of the file as a whole.
    pub fn new(file: &str, line: usize, what: &str) -> ScenarioError {
        ScenarioError { file: file.into(), line, what: what.into() }
    }
}

/// A network with its traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// Name in reports.
    pub name: String,
    /// Seeds every random choice.
    pub seed: u64,
    /// When a run is given up.
    pub time_limit: Span,
    /// Machines, switches among them.
    pub hosts: Vec<Host>,
    /// Which of them are switches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<Switch>,
    /// Wires between them.
    pub links: Vec<Link>,
    /// Flows that share a window.
    pub groups: Vec<Group>,
    /// What is sent.
    pub flows: Vec<Flow>,
    /// The TCP of all end systems.
    pub tcp: Tcp,
    /// Where Windlass sits; none: nowhere.
    pub windlass: Option<Windlass>,
    /// What algorithms are told of the path.
    pub parameters: Parameters,
}

/// What Windlass does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Controls.
    #[default]
    Transparent,
    /// Measures.
    Watch,
}

/// A box in the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with at and facing")]
pub struct Windlass {
    /// Host on which it runs.
    pub at: String,
    /// Neighbour that the controlled interface faces: the servers' side.
    pub facing: String,
    /// Algorithm.
    #[serde(default = "bbr")]
    pub algorithm: String,
    /// What it does.
    #[serde(default, deserialize_with = "plain::word")]
    pub mode: Mode,
    /// Group in which it couples all flows; none: each is on its own.
    pub group: Option<String>,
}

fn bbr() -> String {
    "bbr".into()
}

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
    pub(crate) fn check_sends(&self) -> Result<(), String> {
        if self.flows.is_empty() {
            return Err("no [[flow]]: nothing is sent; add one".into());
        }
        Ok(())
    }

    /// Checks the text of a scenario; `file` is only for messages.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        Self::parse_with_places(file, text).map(|(scenario, _)| scenario)
    }

    /// The same, and where it says what.
    pub(crate) fn parse_with_places(file: &str, text: &str) -> Result<(Scenario, Places), ScenarioError> {
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

    fn check(raw: Raw, file: &str, text: &str) -> Result<(Scenario, Places), ScenarioError> {
        let fail = |span: Range<usize>, what: String| {
            ScenarioError::new(file, line_of(text, span.start, &what), &what)
        };
        let mut places = Places::default();
        let net = lay_out(&raw.topology, &raw.host, raw.switch, raw.link, &mut places);
        let Net { names, hosts, switches, links } = net.map_err(|(span, what)| fail(span, what))?;
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
        places.groups = raw.group.iter().map(|group| group.span().start).collect();
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
            places.flows.resize(flows.len(), span.start);
            check_servers_weights(&flows[begin..], &box_group, &groups, &mut weights)
                .map_err(|what| fail(place(None), what))?;
        }
        if let Some(tcp) = &raw.tcp {
            places.tcp = tcp.span().start;
            tcp.get_ref().check().map_err(|what| fail(tcp.span(), what))?;
        }
        if let Some(w) = &raw.windlass {
            places.windlass = w.span().start;
            check_windlass(w.get_ref(), &links, &known).map_err(|what| fail(w.span(), what))?;
            let group = w.get_ref().group.as_deref();
            check_membership(group, 1, &groups).map_err(|what| fail(w.span(), what))?;
        }
        if let Some(p) = &raw.parameters {
            p.get_ref().check().map_err(|what| fail(p.span(), what))?;
        }
        let scenario = Scenario {
            name: raw.name,
            seed: raw.seed,
            time_limit,
            hosts,
            switches,
            links,
            groups,
            flows,
            tcp: raw.tcp.map(Spanned::into_inner).unwrap_or_default(),
            windlass: raw.windlass.map(Spanned::into_inner),
            parameters: raw.parameters.map(Spanned::into_inner).unwrap_or_default(),
        };
        Ok((scenario, places))
    }

    /// What reports call both directions of each link, forward first: "a > b", and "a > b #2" of the second link between
    /// the same two hosts, whichever of them it names first.
    pub fn directions(&self) -> Vec<[String; 2]> {
        let mut links: BTreeMap<[&String; 2], u32> = BTreeMap::new();
        let mut directions = Vec::with_capacity(self.links.len());
        for Link { between: [a, b], .. } in &self.links {
            let number = links.entry(if a < b { [a, b] } else { [b, a] }).or_default();
            *number += 1;
            let rest = if *number > 1 { format!(" #{number}") } else { String::new() };
            directions.push([format!("{a} > {b}{rest}"), format!("{b} > {a}{rest}")]);
        }
        directions
    }

    /// Names of the directions of links that are emulated.
    pub fn link_names(&self) -> Vec<String> {
        let all = self.links.iter().zip(self.directions());
        all.filter(|(link, _)| link.is_emulated()).flat_map(|(_, both)| both).collect()
    }

    /// Seed of the random choices on link `index`, in every home.
    pub fn link_seed(&self, index: usize) -> u64 {
        if index < PLAIN_SEEDS {
            return self.seed.wrapping_mul(PLAIN_SEEDS as u64).wrapping_add(index as u64);
        }
        // the next number would be that of the next seed's first link
        SplitMix64::seed_from_u64(self.seed ^ (index as u64) << 44).next_u64()
    }

    /// A direction of a link with the queue that it has there: its own, or else that of the switch which it leaves.
    pub fn port(&self, index: usize, backward: bool) -> Link {
        self.links[index].port(backward, &self.switches)
    }

    /// How a direction of a link treats packets, in every home.
    pub fn link_model(&self, index: usize, backward: bool) -> LinkModel {
        LinkModel::new(&self.port(index, backward), backward, self.link_seed(index))
    }
}

/// So many links have seeds next to each other.
const PLAIN_SEEDS: usize = 1000;
const MIN_LIMIT_S: f64 = 1.0;
/// The longest run.
pub(crate) const MAX_TIME: Span = Span(86_400.0);

/// The network that these tables come to, and where in the file they are; a mistake has the place of its table.
fn lay_out(
    topology: &Option<Spanned<RawTopology>>,
    hosts: &[Spanned<RawHost>],
    switches: Vec<Spanned<RawSwitch>>,
    links: Vec<Spanned<Link>>,
    places: &mut Places,
) -> Result<Net, (Range<usize>, String)> {
    let mut net = Net::default();
    if let Some(topology) = topology {
        net.lay_out(topology.get_ref()).map_err(|what| (topology.span(), what))?;
        places.switches.resize(net.switches.len(), topology.span().start);
        places.links.resize(net.links.len(), topology.span().start);
    }
    let first = topology.iter().map(Spanned::span).chain(hosts.iter().map(Spanned::span)).next();
    places.network = first.map_or(0, |span| span.start);
    for host in hosts {
        let names = host.get_ref().names().map_err(|what| (host.span(), what))?;
        names.into_iter().try_for_each(|n| net.add_host(n)).map_err(|what| (host.span(), what))?;
    }
    for switch in switches {
        let span = switch.span();
        places.switches.push(span.start);
        net.add_switch(switch.into_inner()).map_err(|what| (span, what))?;
    }
    if net.hosts.is_empty() {
        return Err((0..0, "no hosts: give a [topology], or [[host]] and [[link]]".into()));
    }
    for link in links {
        let span = link.span();
        net.add_links(link.into_inner()).map_err(|what| (span.clone(), what))?;
        places.links.resize(net.links.len(), span.start);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const GOOD: &str = r#"
name = "wan"
[[host]]
name = "server"
[[host]]
name = "client"
[[link]]
between = ["server", "client"]
rate = "20 Mbit/s"
delay = "20 ms"
buffer = "1 BDP"
loss = "1 %"
[[flow]]
from = "server"
to = "client"
size = "10 MB"
"#;

    fn error(from: &str, to: &str) -> ScenarioError {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD);
        Scenario::parse("s.toml", &text).expect_err("a mistake")
    }

    #[test]
    fn a_bdp_counts_the_round_trip() {
        let s = Scenario::parse("s.toml", GOOD).unwrap();
        assert_eq!(s.links[0].resolve(s.links[0].buffer.unwrap()), Buffer::Bytes(100_000));
    }

    #[test]
    fn marks_that_could_never_be_set_are_refused() {
        let parse = |ecn: &str, buffer: &str| {
            let text = GOOD.replace("buffer = \"1 BDP\"", &format!("buffer = \"{buffer}\"\necn = \"{ecn}\""));
            Scenario::parse("s", &text)
        };
        for (ecn, buffer) in [
            ("1 BDP", "1 BDP"),
            ("100000 B", "1 BDP"),
            ("99934 B", "1 BDP"),
            ("10 packets", "10 packets"),
            ("9 packets", "10 packets"),
        ] {
            let e = parse(ecn, buffer).unwrap_err();
            assert!(e.line == 12 && e.what.starts_with("ecn: nothing is ever marked behind "), "{e}");
            assert!(e.what.contains(&format!("behind {ecn} in a buffer of {buffer}")), "{e}");
        }
        // short packets: more of them than ten fit
        for (ecn, buffer) in [
            ("0.9 BDP", "1 BDP"),
            ("99933 B", "1 BDP"),
            ("8 packets", "10 packets"),
            ("10 packets", "15140 B"),
        ] {
            parse(ecn, buffer).unwrap_or_else(|e| panic!("{e}"));
        }
        // a port of its own that only drops, of a switch that marks
        let switch =
            "[[switch]]\nname = \"sw\"\necn = \"20 packets\"\n[[link]]\nbetween = [\"client\", \"sw\"]\n";
        let text = format!("{GOOD}{switch}rate = \"1 Mbit/s\"\nbuffer = \"20 packets\"\n");
        Scenario::parse("s", &text).unwrap_or_else(|e| panic!("{e}"));
    }

    /// Where a link says nothing of its queue, the switch's is judged, on either side; a port with a buffer of its own uses none
    /// of it.
    #[test]
    fn nor_may_a_switch_have_such_marks() {
        let parse = |ecn: &str, between: &str, link: &str| {
            let switch =
                format!("[[switch]]\nname = \"sw\"\nport_buffer = \"20 packets\"\necn = \"{ecn}\"\n");
            Scenario::parse("s", &format!("{GOOD}{switch}[[link]]\nbetween = [{between}]\n{link}\n"))
        };
        let rate = "rate = \"1 Mbit/s\"";
        for between in ["\"client\", \"sw\"", "\"sw\", \"client\""] {
            let e = parse("19 packets", between, rate).unwrap_err();
            let what =
                "ecn of switch \"sw\": nothing is ever marked behind 19 packets in a buffer of 20 packets";
            assert!(e.line == 21 && e.what.starts_with(what), "{e}");
            for (ecn, link) in [
                ("18 packets", rate),
                ("19 packets", ""),
                ("19 packets", "rate = \"1 Mbit/s\"\nbuffer = \"10 packets\""),
            ] {
                parse(ecn, between, link).unwrap_or_else(|e| panic!("{e}"));
            }
        }
        let topology = "name = \"t\"\n[topology]\nshape = \"many-to-one\"\nsenders = 1\nedge = {}\n\
                        bottleneck = { rate = \"1 Mbit/s\" }\n\
                        switch = { port_buffer = \"20 kB\", ecn = \"20 kB\" }\n";
        let e = Scenario::parse("s", topology).unwrap_err();
        assert!(e.line == 6 && e.what.starts_with("bottleneck: ecn of switch \"switch\": "), "{e}");
    }

    /// What is refused marks nothing, and one packet more of buffer is enough.
    #[test]
    fn what_is_refused_marks_nothing() {
        for (ecn, buffer, bytes, marks) in [
            (Buffer::Packets(8), Buffer::Packets(9), 1514, 0),
            (Buffer::Packets(8), Buffer::Packets(10), 1514, 1),
            (Buffer::Bytes(594), Buffer::Bytes(660), 66, 0),
            (Buffer::Bytes(593), Buffer::Bytes(660), 66, 1),
        ] {
            let rate = Some(crate::Rate(1e6));
            let cable = Link::cable(["a".into(), "b".into()]);
            let link = Link { rate, ecn: Some(ecn), buffer: Some(buffer), ..cable };
            let mut model = LinkModel::new(&link, false, 1);
            for _ in 0..20 {
                model.offer(0, bytes, true);
            }
            assert_eq!(model.stats.marks, marks, "{ecn} of {buffer}");
        }
    }

    /// Links take twice their seed for one direction, and one more for the other.
    #[test]
    fn no_two_links_have_the_same_luck_whatever_the_seed() {
        let mut scenario = Scenario::parse("s", GOOD).unwrap();
        let mut seen = BTreeSet::new();
        for seed in 1..50 {
            scenario.seed = seed;
            for index in 0..3000 {
                assert!(seen.insert(scenario.link_seed(index) << 1), "link {index} of seed {seed}");
            }
            assert_eq!(scenario.link_seed(999), 1000 * seed + 999);
        }
    }

    #[test]
    fn seeds_are_whole_numbers() {
        for seed in ["-1", "1.5", "99999999999999999999", "\"a\""] {
            let e = error("name = \"wan\"", &format!("name = \"wan\"\nseed = {seed}"));
            assert_eq!(e.line, 3, "{e}");
            assert!(e.what.starts_with("seed") && e.what.contains("0 to 9223372036854775807"), "{e}");
        }
    }

    #[test]
    fn rules_and_ablations_are_those_of_the_core() {
        let group = |keys: &str| error("[[flow]]", &format!("[[group]]\nname = \"g\"\n{keys}\n[[flow]]"));
        let e = group("rule = \"cccc\"");
        assert!(e.line == 15 && e.what.contains("cccc") && e.what.contains("fse-conservative"), "{e}");
        let e = group("rule = \"ccc\"\nwithout = [\"shares\"]");
        assert!(e.line == 16 && e.what.contains("\"shares\"") && e.what.contains("stale-shares"), "{e}");
    }

    #[test]
    fn mistakes_name_line_key_and_cure() {
        let e = error("between = [\"server\", \"client\"]", "between = [\"server\", \"klient\"]");
        assert!(e.what.contains("klient") && e.what.contains("client"), "{e}");
        assert_eq!(e.line, 8);
        let e = error("between = [\"server\", \"client\"]", "between = [\"server\", \"client\", \"server\"]");
        assert!(e.what.starts_with("between: ") && e.what.contains("a list of two") && e.line == 8, "{e}");
        assert_eq!(error("loss = \"1 %\"", "loss = \"150 %\"").line, 12);
        assert_eq!(error("size = \"10 MB\"", "size = \"0 B\"").line, 16);
        assert!(error("loss = \"1 %\"", "loss = \"150 %\"").what.contains("0 % to 100 %"));
        assert!(error("rate = \"20 Mbit/s\"", "rate = \"0 Mbit/s\"").what.contains("rate"));
        let e = error("rate = \"20 Mbit/s\"", "rate = \"100000000 Mbit/s\"");
        assert!(e.what.starts_with("rate: at most") && e.line == 9, "{e}");
        assert!(error("delay = \"20 ms\"\n", "").what.contains("BDP needs a rate and a delay"));
        let e = error("size = \"10 MB\"", "size = \"10\"");
        assert!(e.what.starts_with("size: ") && e.what.contains("MB") && e.line == 16, "{e}");
        let e = error("size = \"10 MB\"", "size = \"10 MB\"\nreceive_window_max = \"1 kB\"");
        assert!(e.what.starts_with("receive_window_max: 4 KiB") && e.line == 17, "{e}");
        let e = error("[[flow]]", "[flow]  # one");
        assert!(e.what == "[flow]: there may be several; write [[flow]] for each" && e.line == 13, "{e}");
        let e = error("[[flow]]", "[[tcp]]\necn = \"off\"\n[[flow]]");
        assert!(e.what == "[[tcp]]: there is one at most; write [tcp]" && e.line == 13, "{e}");
        let e = error("loss =", "los =");
        assert!(e.what.starts_with("unknown field `los`") && e.line == 12, "{e}");
        assert!(
            error(
                "[[link]]\nbetween = [\"server\", \"client\"]",
                "[[host]]\nname = \"x\"\n[[link]]\nbetween = [\"server\", \"x\"]"
            )
            .what
            .contains("no path")
        );
    }

    #[test]
    fn the_key_is_named_wherever_it_stands_in_its_line() {
        let flow = "{ from = \"a\", to = \"b\", size = 5 }";
        let text = |flow: &str| {
            format!(
                "name = \"t\"\nflow = [\n{flow},\n]\n[topology]\nshape = \"dumbbell\"\nedge = {{ rate = 7 }}\n"
            )
        };
        let e = Scenario::parse("s", &text(flow)).unwrap_err();
        assert!(e.what.starts_with("size: ") && e.line == 3, "{e}");
        let e = Scenario::parse("s", &text(&flow.replace('5', "\"1 MB\""))).unwrap_err();
        assert!(e.what.starts_with("rate: ") && e.line == 7, "{e}");
        let e = error("rate = \"20 Mbit/s\"", "rate = 20 Mbit/s");
        assert!(e.what.starts_with("rate: ") && e.line == 9, "{e}");
    }

    #[test]
    fn hosts_whose_names_would_leave_their_folder_are_refused() {
        for name in ["../x", "a b", "", "a/b"] {
            let e = error("name = \"server\"", &format!("name = \"{name}\""));
            assert!(e.what.contains("letters, digits and hyphens"), "{e}");
            assert_eq!(e.line, 4);
        }
    }

    #[test]
    fn a_link_with_only_jitter_or_loss_back_is_emulated() {
        let with = |key: &str| {
            let text = GOOD
                .replace("rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"\nloss = \"1 %\"", key);
            Scenario::parse("s.toml", &text).unwrap().links[0].is_emulated()
        };
        assert!(!with(""));
        assert!(with("jitter = \"1 ms\""));
        assert!(with("loss_back = \"1 %\""));
    }

    #[test]
    fn links_between_the_same_hosts_have_different_names() {
        let link = |a, b, delay| format!("[[link]]\nbetween = [\"{a}\", \"{b}\"]\ndelay = \"{delay}\"\n");
        let more = [link("server", "client", "0 s"), link("client", "server", "1 ms")].concat();
        let s = Scenario::parse("s", &format!("{GOOD}{more}")).unwrap();
        let emulated = ["server > client", "client > server", "client > server #3", "server > client #3"];
        assert_eq!(s.link_names(), emulated);
        assert_eq!(s.directions()[1], ["server > client #2", "client > server #2"]);
    }

    #[test]
    fn windlass_faces_a_neighbour() {
        let text = |at, facing| format!("{GOOD}[windlass]\nat = \"{at}\"\nfacing = \"{facing}\"\n");
        assert!(Scenario::parse("s", &text("client", "server")).is_ok());
        let e = Scenario::parse("s", &text("client", "client")).unwrap_err();
        assert!(e.what.contains("neighbour") && e.line == 19, "{e}");
    }

    #[test]
    fn settings_without_effect_are_refused() {
        let parse = |text: &str| Scenario::parse("s", &format!("{GOOD}{text}"));
        let e = |text: &str| parse(text).unwrap_err();
        let windlass =
            "[[group]]\nname = \"g\"\nrule = \"ccc\"\n[windlass]\nat = \"client\"\nfacing = \"server\"\n";
        let watch = e(&format!("{windlass}mode = \"watch\"\ngroup = \"g\"\n"));
        assert!(watch.what.starts_with("group: a box that watches") && watch.line == 24, "{watch}");
        let stop = e("stop = \"300001 ms\"\n");
        assert!(stop.what.starts_with("stop") && stop.line == 17, "{stop}");
        parse("stop = \"300 s\"\n").unwrap();
        let train = |flow: &str, until: &str| {
            let flow = format!(
                "[[flow]]\nfrom = \"server\"\nto = \"client\"\n{flow}\n[[flow.train]]\nsize = \"1 kB\"\ngap = \"1 s\"\nuntil = \"{until}\"\n"
            );
            parse(&flow).map_err(|e| (e.what, e.line))
        };
        train("", "299 s").unwrap();
        train("stop = \"200 s\"", "300 s").unwrap();
        let (what, line) = train("", "300 s").unwrap_err();
        assert!(
            what.starts_with("until") && what.contains("or give the flow a stop") && line == 24,
            "{what}"
        );
        let (what, line) = train("start = { exponential = \"1 s\" }", "10 s").unwrap_err();
        assert!(what.starts_with("until: the flow's start has no bound") && line == 24, "{what}");
    }

    #[test]
    fn groups_are_named_once_and_weights_are_positive() {
        let group = "[[group]]\nname = \"uplink\"\nrule = \"ccc\"\n";
        let parse = |text: &str| Scenario::parse("s", &format!("{GOOD}{text}"));
        let s = parse(&format!("group = \"uplink\"\nweight = 3\n{group}per = \"server\"\nidle = \"30 s\"\n"))
            .unwrap();
        assert_eq!((s.flows[0].group.as_deref(), s.flows[0].weight), (Some("uplink"), 3));
        assert_eq!((s.groups[0].per, s.groups[0].ack_clock), (Per::Server, true));
        for (text, line, what) in [
            ("weight = 0\n".to_string(), 17, "1 to 65535"),
            ("weight = -2\n".to_string(), 17, "weight = -2"),
            ("group = \"downlink\"\n".to_string(), 17, "no [[group]]"),
            (format!("group = \"downlink\"\n{group}"), 17, "known: uplink"),
            (format!("{group}{group}"), 21, "twice"),
            (format!("{group}max_members = 0\n"), 20, "1 to 65535"),
            (format!("{group}idle = \"0 s\"\n"), 20, "1 ms"),
            (format!("{group}aggressiveness = 2.0\n"), 20, "multcp"),
        ] {
            let e = parse(&text).unwrap_err();
            assert!(e.what.contains(what) && e.line == line, "{e}");
        }
    }

    proptest! {
        #[test]
        fn damaged_files_are_errors_not_panics(at in 0..GOOD.len(), with in "[ -~\\n]{0,8}") {
            let text = format!("{}{with}{}", &GOOD[..at], &GOOD[at..]);
            if let Err(e) = Scenario::parse("s", &text) {
                prop_assert!(e.line <= text.lines().count() + 1);
            }
        }

        #[test]
        fn buffers_that_are_printed_can_be_read(packets in 1u64..1_000_000, bytes in 1514u64..1_000_000_000) {
            for buffer in [Buffer::Packets(packets), Buffer::Bytes(bytes), Buffer::Bdp(packets as f64 / 8.0)] {
                let text = serde_json::to_value(buffer).unwrap();
                prop_assert_eq!(text.as_str().unwrap().parse(), Ok(buffer));
            }
        }
    }
}
