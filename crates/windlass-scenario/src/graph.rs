//! Ways through a network: which links lead nearer to a host.

use crate::{Link, Scenario};
use std::collections::{BTreeMap, VecDeque};

/// Hosts and links of a scenario, by number: their places in its lists.
#[derive(Clone, Debug)]
pub struct Graph {
    hosts: BTreeMap<String, usize>,
    /// The two hosts of each link.
    links: Vec<[usize; 2]>,
    /// For each host: links that end there, in the order of the file.
    ends: Vec<Vec<usize>>,
    is_switch: Vec<bool>,
}

/// How far all hosts are from one of them.
#[derive(Clone, Debug)]
pub struct Distances {
    /// In links; none: there is no way.
    links: Vec<Option<u32>>,
    /// For each host, the link by which it was found.
    leave_by: Vec<Option<usize>>,
}

/// Shortest ways to many hosts. A host with one link is reached through its neighbour, so that hosts of one switch share what is
/// kept of how far all are.
#[derive(Debug, Default)]
pub struct Ways {
    /// By the host from which they count.
    distances: BTreeMap<usize, Distances>,
}

impl Ways {
    /// The links by which what is at `at` may leave on a shortest way to `to`, as [`Graph::ways`] has them.
    pub fn links(&mut self, graph: &Graph, at: usize, to: usize) -> Vec<usize> {
        if at == to {
            return Vec::new();
        }
        let last = graph.only_link(to);
        let root = last.map_or(to, |link| graph.other_end(link, to));
        if at == root {
            return last.into_iter().collect();
        }
        graph.ways(self.distances.entry(root).or_insert_with(|| graph.distances(root)), at)
    }
}

impl Graph {
    /// The network of a scenario.
    pub fn new(scenario: &Scenario) -> Graph {
        let hosts: BTreeMap<&str, usize> =
            scenario.hosts.iter().enumerate().map(|(i, h)| (h.name.as_str(), i)).collect();
        let mut graph = Graph::of_links(hosts, &scenario.links);
        for switch in &scenario.switches {
            graph.is_switch[graph.hosts[&switch.name]] = true;
        }
        graph
    }

    /// The network of these hosts, which are numbered from 0, and the links between them.
    pub(crate) fn of_links(hosts: BTreeMap<&str, usize>, links: &[Link]) -> Graph {
        let links: Vec<[usize; 2]> =
            links.iter().map(|l| l.between.each_ref().map(|h| hosts[h.as_str()])).collect();
        let mut ends = vec![Vec::new(); hosts.len()];
        for (index, link) in links.iter().enumerate() {
            link.iter().for_each(|&host| ends[host].push(index));
        }
        let is_switch = vec![false; hosts.len()];
        Graph { hosts: hosts.into_iter().map(|(name, i)| (name.into(), i)).collect(), links, ends, is_switch }
    }

    /// Number of a host, which the scenario has been checked to have.
    pub fn host(&self, name: &str) -> usize {
        self.hosts[name]
    }

    /// How far each host is from `to`, by links.
    pub fn distances(&self, to: usize) -> Distances {
        let mut links = vec![None; self.ends.len()];
        let mut leave_by = vec![None; self.ends.len()];
        links[to] = Some(0);
        // breadth first from the far end, so that each host learns the link to leave by
        let mut open = VecDeque::from([(to, 0)]);
        while let Some((at, distance)) = open.pop_front() {
            for &link in &self.ends[at] {
                let next = self.other_end(link, at);
                if links[next].is_none() {
                    links[next] = Some(distance + 1);
                    leave_by[next] = Some(link);
                    open.push_back((next, distance + 1));
                }
            }
        }
        Distances { links, leave_by }
    }

    /// The links by which what is at `at` may leave on a shortest way: a host knows one, a switch all. Empty: there is
    /// no way, or this is its end.
    pub fn ways(&self, distances: &Distances, at: usize) -> Vec<usize> {
        let Some(link) = distances.leave_by[at] else { return Vec::new() };
        if !self.is_switch[at] {
            return vec![link];
        }
        let next_distance = distances.links[at].map(|d| d - 1);
        let is_nearer = |link: &&usize| distances.links[self.other_end(**link, at)] == next_distance;
        self.ends[at].iter().filter(is_nearer).copied().collect()
    }

    /// The link of a host that has no other.
    fn only_link(&self, host: usize) -> Option<usize> {
        match *self.ends[host].as_slice() {
            [link] => Some(link),
            _ => None,
        }
    }

    /// A switch at which a packet from one host to another may have to choose; none: there is one way.
    pub fn choice(&self, from: usize, to: usize) -> Option<usize> {
        let distances = self.distances(to);
        let mut at = from;
        loop {
            match *self.ways(&distances, at).as_slice() {
                [] => return None,
                [link] => at = self.other_end(link, at),
                _ => return Some(at),
            }
        }
    }

    /// The far end of a link.
    pub fn other_end(&self, link: usize, host: usize) -> usize {
        let [a, b] = self.links[link];
        if a == host { b } else { a }
    }

    /// Whether what leaves `host` by this link crosses it backward.
    pub fn is_backward(&self, link: usize, host: usize) -> bool {
        self.links[link][1] == host
    }

    /// For each host, the number of the part of the network it is in; parts have no link between them.
    pub(crate) fn parts(&self) -> Vec<usize> {
        let mut parts = vec![usize::MAX; self.ends.len()];
        for host in 0..parts.len() {
            if parts[host] == usize::MAX {
                let distances = self.distances(host);
                let reached = distances.links.iter().zip(&mut parts).filter(|(d, _)| d.is_some());
                reached.for_each(|(_, part)| *part = host);
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (Scenario, Graph) {
        let text = "name = \"t\"\n[topology]\nshape = \"fat-tree\"\nk = 4\nedge = {}\nfabric = {}\n";
        let scenario = Scenario::parse("t", text).unwrap_or_else(|e| panic!("{e}"));
        let graph = Graph::new(&scenario);
        (scenario, graph)
    }

    /// Between pods of a fat-tree with k = 4 there are four ways: two up from the edge, two more from there.
    #[test]
    fn a_switch_knows_all_shortest_ways() {
        let (_, graph) = tree();
        let host = |name| graph.host(name);
        let distances = graph.distances(host("host-4-2-2"));
        assert_eq!(distances.links[host("host-1-1-1")], Some(6));
        assert_eq!(graph.ways(&distances, host("host-1-1-1")).len(), 1);
        assert_eq!(graph.ways(&distances, host("edge-1-1")).len(), 2);
        assert_eq!(graph.ways(&distances, host("aggr-1-2")).len(), 2);
        // down there is one way only
        for name in ["core-3", "aggr-4-2", "edge-4-2"] {
            assert_eq!(graph.ways(&distances, host(name)).len(), 1, "{name}");
        }
        assert_eq!(graph.choice(host("host-1-1-1"), host("host-1-1-2")), None);
        assert_eq!(graph.choice(host("host-1-1-1"), host("host-1-2-1")), Some(host("edge-1-1")));
    }

    /// A fat-tree; a ring with a host at each of its corners, two links to one of them, a chain behind another, and a part by
    /// itself.
    #[test]
    fn ways_through_a_neighbour_are_those_to_the_host() {
        let names = ["a", "b", "c", "d", "a1", "b1", "c1", "c2", "c3", "x", "y", "z"];
        let hosts = names.into_iter().zip(0..).collect();
        let pairs = [
            ("a1", "a"),
            ("a", "b"),
            ("b", "b1"),
            ("c", "b"),
            ("d", "a"),
            ("c", "d"),
            ("b1", "b"),
            ("c", "c1"),
            ("c2", "c1"),
            ("c2", "c3"),
            ("x", "y"),
        ];
        let ring = pairs.map(|(a, b)| Link::cable([a.into(), b.into()]));
        let mut ring = Graph::of_links(hosts, &ring);
        ring.is_switch[..4].fill(true);
        for graph in [ring, tree().1] {
            let mut ways = Ways::default();
            for to in 0..graph.ends.len() {
                let distances = graph.distances(to);
                for at in 0..graph.ends.len() {
                    assert_eq!(ways.links(&graph, at, to), graph.ways(&distances, at), "{at} to {to}");
                }
            }
        }
    }

    /// Every one of a thousand hosts sends and is sent to: what is kept is how far all are from the switch.
    #[test]
    fn hosts_of_one_switch_share_their_distances() {
        let text =
            "name = \"t\"\n[topology]\nshape = \"many-to-one\"\nsenders = 1000\nedge = {}\nbottleneck = {}\n";
        let graph = Graph::new(&Scenario::parse("t", text).unwrap_or_else(|e| panic!("{e}")));
        let (mut ways, receiver) = (Ways::default(), graph.host("receiver"));
        for sender in (1..=1000).map(|i| graph.host(&format!("sender-{i}"))) {
            assert_eq!(
                [(sender, receiver), (receiver, sender)].map(|(at, to)| ways.links(&graph, at, to).len()),
                [1, 1]
            );
        }
        assert_eq!(ways.distances.len(), 1);
    }

    #[test]
    fn a_network_falls_into_parts() {
        let (_, graph) = tree();
        assert!(graph.parts().iter().all(|part| *part == 0));
        let hosts = BTreeMap::from([("a", 0), ("b", 1), ("c", 2)]);
        let link = Link::cable(["a".into(), "c".into()]);
        assert_eq!(Graph::of_links(hosts, &[link]).parts(), [0, 1, 0]);
    }
}
