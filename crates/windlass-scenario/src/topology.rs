//! Networks by their shape: the hosts, switches and links that a `[topology]` stands for, and rows of hosts.
//!
//! | shape | hosts | switches |
//! |---|---|---|
//! | `dumbbell` | `left-1`.. and `right-1`.., `pairs` of each | `switch-left`, `switch-right` |
//! | `many-to-one` | `sender-1`.., `senders` of them, and `receiver` | `switch` |
//! | `parking-lot` | `source`, `sink`; `in-1`.. and `out-1`.., one of each for each of the `hops` | `switch-1`.. |
//! | `leaf-spine` | `host-1-1`..: leaf and number, `hosts_per_leaf` | `leaf-1`.., `spine-1`.. |
//! | `fat-tree` | `host-1-1-1`..: pod, edge switch, number | `edge-1-1`.., `aggr-1-1`.. in each pod, `core-1`.. |

use crate::{Buffer, Discipline, Fraction, Link, Ports, Rate, Span, Switch, unitless};
use serde::Deserialize;
use std::collections::BTreeMap;

/// `[[host]]`: one machine, or a row of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a host: a table with its name")]
pub(crate) struct RawHost {
    pub name: String,
    /// So many, `name-1` and on.
    #[serde(default, deserialize_with = "unitless::some_whole")]
    count: Option<i64>,
}

/// `[[switch]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a switch: a table with its name")]
pub(crate) struct RawSwitch {
    pub name: String,
    shared_buffer: Option<Buffer>,
    port_buffer: Option<Buffer>,
    ecn: Option<Buffer>,
    discipline: Option<Discipline>,
}

impl RawSwitch {
    pub fn into_switch(self, packet_bytes: u64) -> Result<Switch, String> {
        let RawSwitch { name, shared_buffer, port_buffer, ecn, discipline } = self;
        let ports = Ports { shared_buffer, port_buffer, ecn, discipline };
        ports.check(packet_bytes)?;
        Ok(Switch { name, ports })
    }
}

/// Most hosts of one row or shape.
const MAX_HOSTS: u64 = 10_000;

impl RawHost {
    pub fn names(&self) -> Result<Vec<String>, String> {
        let RawHost { name, count } = self;
        match count {
            None => Ok(vec![name.clone()]),
            Some(n) => {
                let count = in_range("count", *n, 1, MAX_HOSTS)?;
                Ok((1..=count).map(|i| format!("{name}-{i}")).collect())
            }
        }
    }
}

fn in_range(key: &str, value: i64, least: u64, most: u64) -> Result<u64, String> {
    let within = u64::try_from(value).ok().filter(|value| (least..=most).contains(value));
    within.ok_or_else(|| format!("{key} = {value}: {least} to {most}"))
}

/// The links that a `[[link]]` stands for: one for each host of a row that an end names as `row-*`.
pub(crate) fn links_of(link: Link, names: &BTreeMap<String, usize>) -> Result<Vec<Link>, String> {
    let Some(side) = link.between.iter().position(|end| end.ends_with("-*")) else { return Ok(vec![link]) };
    if link.between[1 - side].contains('*') {
        return Err("between: at most one end may be a row of hosts; list the links one by one".into());
    }
    let row = link.between[side].trim_end_matches('*');
    let is_in_row = |name: &str| name.strip_prefix(row).is_some_and(|rest| rest.parse::<u64>().is_ok());
    let mut ends: Vec<_> = names.iter().filter(|(name, _)| is_in_row(name)).collect();
    ends.sort_unstable_by_key(|(_, number)| **number);
    let to_end = |(name, _): (&String, &usize)| {
        let mut link = link.clone();
        link.between[side] = name.clone();
        link
    };
    let links: Vec<Link> = ends.into_iter().map(to_end).collect();
    if links.is_empty() {
        return Err(format!("between: no host is called {row}1, {row}2 ...; give a [[host]] a count"));
    }
    Ok(links)
}

/// Shapes of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    Dumbbell,
    ManyToOne,
    ParkingLot,
    LeafSpine,
    FatTree,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Shape::Dumbbell => "dumbbell",
            Shape::ManyToOne => "many-to-one",
            Shape::ParkingLot => "parking-lot",
            Shape::LeafSpine => "leaf-spine",
            Shape::FatTree => "fat-tree",
        }
    }

    /// Keys that it needs.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Shape::Dumbbell => &["pairs", "edge", "bottleneck"],
            Shape::ManyToOne => &["senders", "edge", "bottleneck"],
            Shape::ParkingLot => &["hops", "edge", "bottleneck"],
            Shape::LeafSpine => &["leaves", "spines", "hosts_per_leaf", "edge", "fabric"],
            Shape::FatTree => &["k", "edge", "fabric"],
        }
    }
}

/// A link of a shape: as [`Link`], without its ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a link in braces, e.g. { rate = \"1 Gbit/s\", delay = \"50 us\" }")]
struct Wire {
    rate: Option<Rate>,
    rate_back: Option<Rate>,
    #[serde(default)]
    delay: Span,
    buffer: Option<Buffer>,
    ecn: Option<Buffer>,
    discipline: Option<Discipline>,
    #[serde(default)]
    ack_filter: bool,
    #[serde(default)]
    loss: Fraction,
    jitter: Option<Span>,
    #[serde(default)]
    reorder: bool,
}

/// `[topology]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with the shape of a network")]
pub(crate) struct RawTopology {
    #[serde(deserialize_with = "unitless::word")]
    shape: Shape,
    /// Dumbbell: hosts on each side.
    #[serde(default, deserialize_with = "unitless::some_whole")]
    pairs: Option<i64>,
    /// Many-to-one: hosts that send.
    #[serde(default, deserialize_with = "unitless::some_whole")]
    senders: Option<i64>,
    /// Parking lot: bottlenecks in a row.
    #[serde(default, deserialize_with = "unitless::some_whole")]
    hops: Option<i64>,
    /// Leaf-spine.
    #[serde(default, deserialize_with = "unitless::some_whole")]
    leaves: Option<i64>,
    #[serde(default, deserialize_with = "unitless::some_whole")]
    spines: Option<i64>,
    #[serde(default, deserialize_with = "unitless::some_whole")]
    hosts_per_leaf: Option<i64>,
    /// Fat-tree: ports of each switch; there are k^3/4 hosts.
    #[serde(default, deserialize_with = "unitless::some_whole")]
    k: Option<i64>,
    /// Between host and switch; where one side sends, forward is the way of the data.
    edge: Option<Wire>,
    /// Between the switches of a dumbbell or parking lot, or to the receiver.
    bottleneck: Option<Wire>,
    /// Between switches of a tree.
    fabric: Option<Wire>,
    /// All switches.
    #[serde(default)]
    switch: Ports,
}

/// What a shape comes to.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub hosts: Vec<String>,
    pub switches: Vec<Switch>,
    /// Each with the key that describes it.
    pub links: Vec<(&'static str, Link)>,
    ports: Ports,
}

impl Plan {
    fn host(&mut self, name: String) -> String {
        self.hosts.push(name.clone());
        name
    }

    fn switch(&mut self, name: String) -> String {
        self.switches.push(Switch { name: name.clone(), ports: self.ports });
        name
    }

    fn link(&mut self, from: &str, to: &str, (key, wire): (&'static str, Wire)) {
        let Wire { rate, rate_back, delay, buffer, ecn, discipline, ack_filter, loss, jitter, reorder } =
            wire;
        let cable = Link::cable([from.into(), to.into()]);
        self.links.push((
            key,
            Link {
                rate,
                rate_back,
                delay,
                buffer,
                ecn,
                discipline,
                ack_filter,
                loss,
                jitter,
                reorder,
                ..cable
            },
        ));
    }
}

impl RawTopology {
    /// The hosts, switches and links, or which key is wrong.
    pub fn plan(&self, packet_bytes: u64) -> Result<Plan, String> {
        self.check_keys()?;
        self.switch.check(packet_bytes).map_err(|what| format!("switch: {what}"))?;
        let mut plan = Plan { ports: self.switch, ..Plan::default() };
        match self.shape {
            Shape::Dumbbell => self.dumbbell(&mut plan)?,
            Shape::ManyToOne => self.many_to_one(&mut plan)?,
            Shape::ParkingLot => self.parking_lot(&mut plan)?,
            Shape::LeafSpine => self.leaf_spine(&mut plan)?,
            Shape::FatTree => self.fat_tree(&mut plan)?,
        }
        Ok(plan)
    }

    /// Each shape has its keys, and no others.
    fn check_keys(&self) -> Result<(), String> {
        let given = [
            ("pairs", self.pairs.is_some()),
            ("senders", self.senders.is_some()),
            ("hops", self.hops.is_some()),
            ("leaves", self.leaves.is_some()),
            ("spines", self.spines.is_some()),
            ("hosts_per_leaf", self.hosts_per_leaf.is_some()),
            ("k", self.k.is_some()),
            ("edge", self.edge.is_some()),
            ("bottleneck", self.bottleneck.is_some()),
            ("fabric", self.fabric.is_some()),
        ];
        let (shape, keys) = (self.shape.name(), self.shape.keys());
        for (key, is_given) in given {
            let list = || format!("a {shape} has {}, and switch if you like", keys.join(", "));
            match (is_given, keys.contains(&key)) {
                (true, false) => return Err(format!("{key}: not a key of this shape; {}", list())),
                (false, true) => return Err(format!("shape: {key} is missing; {}", list())),
                _ => {}
            }
        }
        Ok(())
    }

    fn dumbbell(&self, plan: &mut Plan) -> Result<(), String> {
        let pairs = in_range("pairs", self.pairs.unwrap_or(0), 1, MAX_HOSTS / 2)?;
        let [left, right] = ["switch-left", "switch-right"].map(|name| plan.switch(name.into()));
        for i in 1..=pairs {
            let host = plan.host(format!("left-{i}"));
            plan.link(&host, &left, self.edge());
        }
        plan.link(&left, &right, self.bottleneck());
        for i in 1..=pairs {
            let host = plan.host(format!("right-{i}"));
            plan.link(&right, &host, self.edge());
        }
        Ok(())
    }

    fn many_to_one(&self, plan: &mut Plan) -> Result<(), String> {
        let senders = in_range("senders", self.senders.unwrap_or(0), 1, MAX_HOSTS)?;
        let switch = plan.switch("switch".into());
        for i in 1..=senders {
            let host = plan.host(format!("sender-{i}"));
            plan.link(&host, &switch, self.edge());
        }
        let receiver = plan.host("receiver".into());
        plan.link(&switch, &receiver, self.bottleneck());
        Ok(())
    }

    fn parking_lot(&self, plan: &mut Plan) -> Result<(), String> {
        let hops = in_range("hops", self.hops.unwrap_or(0), 1, MAX_HOSTS / 2)?;
        let switches: Vec<String> = (1..=hops + 1).map(|i| plan.switch(format!("switch-{i}"))).collect();
        let source = plan.host("source".into());
        plan.link(&source, &switches[0], self.edge());
        for (i, pair) in switches.windows(2).enumerate() {
            let [into, out] = ["in", "out"].map(|way| plan.host(format!("{way}-{}", i + 1)));
            plan.link(&into, &pair[0], self.edge());
            plan.link(&pair[0], &pair[1], self.bottleneck());
            plan.link(&pair[1], &out, self.edge());
        }
        let sink = plan.host("sink".into());
        plan.link(&switches[switches.len() - 1], &sink, self.edge());
        Ok(())
    }

    fn leaf_spine(&self, plan: &mut Plan) -> Result<(), String> {
        let leaves = in_range("leaves", self.leaves.unwrap_or(0), 1, 256)?;
        let spines = in_range("spines", self.spines.unwrap_or(0), 1, 256)?;
        let hosts = in_range("hosts_per_leaf", self.hosts_per_leaf.unwrap_or(0), 1, MAX_HOSTS / leaves)?;
        let spines: Vec<String> = (1..=spines).map(|i| plan.switch(format!("spine-{i}"))).collect();
        for leaf in 1..=leaves {
            let switch = plan.switch(format!("leaf-{leaf}"));
            for i in 1..=hosts {
                let host = plan.host(format!("host-{leaf}-{i}"));
                plan.link(&host, &switch, self.edge());
            }
            spines.iter().for_each(|spine| plan.link(&switch, spine, self.fabric()));
        }
        Ok(())
    }

    /// k pods of k/2 edge and k/2 aggregation switches; each edge switch has k/2 hosts (Al-Fares, Loukissas and Vahdat,
    /// SIGCOMM 2008, section 3).
    fn fat_tree(&self, plan: &mut Plan) -> Result<(), String> {
        let k = in_range("k", self.k.unwrap_or(0), 2, 32)?;
        if !k.is_multiple_of(2) {
            return Err(format!("k = {k}: half the ports lead up and half down; give an even number"));
        }
        let half = k / 2;
        let cores: Vec<String> = (1..=half * half).map(|i| plan.switch(format!("core-{i}"))).collect();
        for pod in 1..=k {
            let aggrs: Vec<String> = (1..=half).map(|a| plan.switch(format!("aggr-{pod}-{a}"))).collect();
            for (aggr, cores) in aggrs.iter().zip(cores.chunks(half as usize)) {
                cores.iter().for_each(|core| plan.link(aggr, core, self.fabric()));
            }
            for e in 1..=half {
                let edge = plan.switch(format!("edge-{pod}-{e}"));
                aggrs.iter().for_each(|aggr| plan.link(&edge, aggr, self.fabric()));
                for h in 1..=half {
                    let host = plan.host(format!("host-{pod}-{e}-{h}"));
                    plan.link(&host, &edge, self.edge());
                }
            }
        }
        Ok(())
    }

    fn edge(&self) -> (&'static str, Wire) {
        ("edge", self.edge.unwrap_or_default())
    }

    fn bottleneck(&self) -> (&'static str, Wire) {
        ("bottleneck", self.bottleneck.unwrap_or_default())
    }

    fn fabric(&self) -> (&'static str, Wire) {
        ("fabric", self.fabric.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    const EDGE: &str = "edge = { rate = \"1 Gbit/s\", delay = \"50 us\" }\n";
    const FABRIC: &str = "fabric = { rate = \"10 Gbit/s\", delay = \"10 us\" }\n";
    const BOTTLENECK: &str =
        "bottleneck = { rate = \"1 Gbit/s\", delay = \"50 us\", buffer = \"100 packets\" }\n";

    fn text(keys: &str) -> String {
        format!("name = \"t\"\n[topology]\n{keys}")
    }

    fn scenario(keys: &str) -> Scenario {
        Scenario::parse("t", &text(keys)).unwrap_or_else(|e| panic!("{e}"))
    }

    fn error(keys: &str) -> String {
        Scenario::parse("t", &text(keys)).expect_err("a mistake").to_string()
    }

    /// Switches, end systems and links.
    fn counts(s: &Scenario) -> (usize, usize, usize) {
        (s.switches.len(), s.hosts.len() - s.switches.len(), s.links.len())
    }

    #[test]
    fn shapes_have_the_size_that_they_should() {
        let dumbbell = scenario(&format!("shape = \"dumbbell\"\npairs = 3\n{EDGE}{BOTTLENECK}"));
        assert_eq!(counts(&dumbbell), (2, 6, 7));
        let incast = scenario(&format!("shape = \"many-to-one\"\nsenders = 40\n{EDGE}{BOTTLENECK}"));
        assert_eq!(counts(&incast), (1, 41, 41));
        let lot = scenario(&format!("shape = \"parking-lot\"\nhops = 3\n{EDGE}{BOTTLENECK}"));
        assert_eq!(counts(&lot), (4, 8, 11));
        let keys = "shape = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 10\n";
        assert_eq!(counts(&scenario(&format!("{keys}{EDGE}{FABRIC}"))), (6, 40, 48));
    }

    /// 5 k^2 / 4 switches, k^3 / 4 hosts, and as many links at each of the three levels.
    #[test]
    fn a_fat_tree_has_k_cubed_over_four_hosts() {
        for (k, hosts) in [(4, 16), (6, 54), (8, 128), (10, 250)] {
            let tree = scenario(&format!("shape = \"fat-tree\"\nk = {k}\n{EDGE}{FABRIC}"));
            assert_eq!(counts(&tree), (5 * k * k / 4, hosts, 3 * hosts));
            for switch in &tree.switches {
                assert_eq!(tree.links.iter().filter(|l| l.between.contains(&switch.name)).count(), k);
            }
        }
    }

    #[test]
    fn the_buffer_of_a_port_is_its_links_or_its_switches() {
        let keys = "shape = \"many-to-one\"\nsenders = 1\nswitch = { port_buffer = \"30 packets\", ecn = \"20 packets\" }\n";
        let s = scenario(&format!("{keys}{EDGE}{BOTTLENECK}"));
        let (edge, bottleneck) = (0, 1);
        // what the host sends queues in the host; what the switch sends, in the switch
        assert_eq!((s.port(edge, false).buffer, s.port(edge, false).ecn), (None, None));
        assert_eq!(s.port(edge, true).buffer, Some(Buffer::Packets(30)));
        assert_eq!(s.port(bottleneck, false).buffer, Some(Buffer::Packets(100)));
        assert_eq!(s.port(bottleneck, false).ecn, Some(Buffer::Packets(20)));
        assert_eq!(s.port(bottleneck, true).ecn, None);
    }

    #[test]
    fn a_row_of_hosts_is_linked_at_once() {
        let text = "name = \"t\"\n[[host]]\nname = \"a\"\ncount = 10\n[[switch]]\nname = \"sw\"\n\
                    shared_buffer = \"64 kB\"\n[[link]]\nbetween = [\"a-*\", \"sw\"]\n";
        let s = Scenario::parse("t", text).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(counts(&s), (1, 10, 10));
        assert_eq!(s.links[9].between, ["a-10", "sw"]);
        let e = Scenario::parse("t", &text.replace("a-*", "b-*")).unwrap_err();
        assert!(e.line == 9 && e.what.contains("no host is called b-1"), "{e}");
        let bad = |ports: &str| {
            let text = text.replace("shared_buffer = \"64 kB\"", ports);
            Scenario::parse("t", &text.replace("\"sw\"]", "\"sw\"]\nrate = \"1 Mbit/s\"")).unwrap_err()
        };
        let e = bad("port_buffer = \"100 B\"");
        assert!(e.line == 7 && e.what.starts_with("port_buffer: at least one packet"), "{e}");
        let e = bad("ecn = \"0 packets\"");
        assert!(e.line == 7 && e.what.starts_with("ecn: at least"), "{e}");
        let e = bad("port_buffer = \"1 BDP\"");
        assert!(e.line == 8 && e.what.starts_with("delay: none, and port_buffer of switch \"sw\""), "{e}");
        let e = Scenario::parse("t", &text.replace("count = 10", "count = 0")).unwrap_err();
        assert!(e.line == 4 && e.what.contains("1 to 10000"), "{e}");
    }

    #[test]
    fn mistakes_name_line_key_and_cure() {
        let e = error(&format!("shape = \"fat-tree\"\nk = 5\n{EDGE}{FABRIC}"));
        assert!(e.starts_with("t:4: k = 5") && e.contains("even"), "{e}");
        let e = error(&format!("shape = \"fat-tree\"\nk = 4\n{EDGE}{BOTTLENECK}"));
        assert!(e.starts_with("t:6: bottleneck") && e.contains("fabric"), "{e}");
        let e = error(&format!("shape = \"fat-tree\"\n{EDGE}{FABRIC}"));
        assert!(e.starts_with("t:3: shape: k is missing"), "{e}");
        let e = error(&format!("shape = \"star\"\n{EDGE}"));
        assert!(e.starts_with("t:3:") && e.contains("many-to-one"), "{e}");
        let e = error(&format!("shape = \"dumbbell\"\npairs = 0\n{EDGE}{BOTTLENECK}"));
        assert!(e.starts_with("t:4: pairs = 0: 1 to"), "{e}");
        let broken = BOTTLENECK.replace("100 packets", "0 packets");
        let e = error(&format!("shape = \"dumbbell\"\npairs = 1\n{EDGE}{broken}"));
        assert!(e.contains("buffer: at least 1 packet"), "{e}");
        let e = error(&format!(
            "shape = \"dumbbell\"\npairs = 1\nswitch = {{ shared_buffer = \"1 BDP\" }}\n{EDGE}{BOTTLENECK}"
        ));
        assert!(e.starts_with("t:5: switch: shared_buffer") && e.contains("bytes or packets"), "{e}");
        let e = error(&format!(
            "shape = \"dumbbell\"\npairs = 1\n{EDGE}{BOTTLENECK}[[flow]]\nfrom = \"left-1\"\nto = \"switch-left\"\nsize = \"1 kB\"\n"
        ));
        assert!(e.starts_with("t:9: to: \"switch-left\" is a switch"), "{e}");
    }
}
