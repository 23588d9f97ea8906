//! Where packets go: the shortest path between two hosts, found once, as a list of links to cross.

use std::collections::{BTreeMap, VecDeque};
use windlass_scenario::{Scenario, Windlass};

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// Cross this direction of a link (2 x link, plus 1 for backward).
    Link(u32),
    /// Pass this Windlass box: 0 on the way from its servers, 1 on the way to them.
    Box(u32),
    /// Arrived.
    End,
}

const BOX: u32 = 1 << 31;
const END: u32 = u32::MAX;

/// All paths in one row. A packet knows its place in it and nothing else.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    hops: Vec<u32>,
    /// Where the path between two hosts begins.
    begins: BTreeMap<(usize, usize), u32>,
}

impl Paths {
    /// The step at a place.
    pub fn at(&self, place: u32) -> Hop {
        match self.hops[place as usize] {
            END => Hop::End,
            code if code & BOX != 0 => Hop::Box(code & !BOX),
            link => Hop::Link(link),
        }
    }

    /// Where the path from one host to another begins; none if there is no path.
    pub fn between(&mut self, graph: &Graph, from: usize, to: usize) -> Option<u32> {
        if let Some(&begin) = self.begins.get(&(from, to)) {
            return Some(begin);
        }
        let begin = self.hops.len() as u32;
        self.hops.extend(graph.path(from, to)?);
        self.hops.push(END);
        self.begins.insert((from, to), begin);
        Some(begin)
    }
}

/// Hosts and links of a scenario, by number.
#[derive(Clone, Debug)]
pub struct Graph {
    hosts: BTreeMap<String, usize>,
    /// The two hosts of each link.
    links: Vec<[usize; 2]>,
    /// For each host: links that end there, in the order of the file.
    ends: Vec<Vec<usize>>,
    /// Host of the box and the neighbour it faces.
    boxed: Option<[usize; 2]>,
}

impl Graph {
    /// The network of a scenario, which has been checked to be sound.
    pub fn new(scenario: &Scenario) -> Graph {
        let hosts: BTreeMap<String, usize> =
            scenario.hosts.iter().enumerate().map(|(i, h)| (h.name.clone(), i)).collect();
        let links: Vec<[usize; 2]> =
            scenario.links.iter().map(|l| [hosts[&l.between[0]], hosts[&l.between[1]]]).collect();
        let mut ends = vec![Vec::new(); hosts.len()];
        for (index, link) in links.iter().enumerate() {
            link.iter().for_each(|&host| ends[host].push(index));
        }
        let place = |w: &Windlass| [hosts[&w.at], hosts[&w.facing]];
        let boxed = scenario.windlass.as_ref().map(place);
        Graph { hosts, links, ends, boxed }
    }

    /// Number of a host.
    pub fn host(&self, name: &str) -> usize {
        self.hosts[name]
    }

    /// Steps from one host to another: fewest links; among those, the ones that come first in the file.
    fn path(&self, from: usize, to: usize) -> Option<Vec<u32>> {
        // breadth first from the far end, so that each host learns the link to leave by
        let mut leave_by = vec![None; self.ends.len()];
        let mut open = VecDeque::from([to]);
        while let Some(at) = open.pop_front() {
            for &link in &self.ends[at] {
                let next = self.other_end(link, at);
                if next != to && leave_by[next].is_none() {
                    leave_by[next] = Some(link);
                    open.push_back(next);
                }
            }
        }
        let mut hops = Vec::new();
        let mut at = from;
        while at != to {
            let link = leave_by[at]?;
            let next = self.other_end(link, at);
            // the box sits on its interface: what leaves by it is seen before, what comes in by it after the link
            if self.boxed == Some([at, next]) && at != from {
                hops.push(BOX | 1);
            }
            hops.push(2 * link as u32 + u32::from(self.links[link][1] == at));
            if self.boxed == Some([next, at]) && next != to {
                hops.push(BOX);
            }
            at = next;
        }
        Some(hops)
    }

    fn other_end(&self, link: usize, host: usize) -> usize {
        let [a, b] = self.links[link];
        if a == host { b } else { a }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(windlass: &str) -> (Graph, Paths) {
        let hosts: String = ["a", "b", "c", "d"].map(|h| format!("[[host]]\nname = \"{h}\"\n")).concat();
        // a ring, so that there are two ways, and one of them is shorter
        let links: String = [("a", "b"), ("c", "b"), ("c", "d"), ("d", "a"), ("b", "d")]
            .map(|(x, y)| format!("[[link]]\nbetween = [\"{x}\", \"{y}\"]\n"))
            .concat();
        let scenario = Scenario::parse("t", &format!("name = \"t\"\n{hosts}{links}{windlass}")).unwrap();
        (Graph::new(&scenario), Paths::default())
    }

    fn steps(windlass: &str, from: &str, to: &str) -> Vec<Hop> {
        let (graph, mut paths) = paths(windlass);
        let begin = paths.between(&graph, graph.host(from), graph.host(to)).unwrap();
        (begin..).map(|place| paths.at(place)).take_while(|hop| *hop != Hop::End).collect()
    }

    #[test]
    fn the_shortest_path_is_taken_and_directions_are_told_apart() {
        assert_eq!(steps("", "a", "b"), [Hop::Link(0)]);
        assert_eq!(steps("", "b", "a"), [Hop::Link(1)]);
        assert_eq!(steps("", "a", "c").len(), 2);
    }

    #[test]
    fn a_path_is_found_once() {
        let (graph, mut paths) = paths("");
        let first = paths.between(&graph, 0, 2);
        assert_eq!(paths.between(&graph, 0, 2), first);
    }

    #[test]
    fn what_comes_from_the_faced_neighbour_passes_the_box_and_so_does_what_goes_there() {
        let windlass = "[windlass]\nat = \"b\"\nfacing = \"a\"\n";
        let there = steps(windlass, "a", "c");
        assert_eq!(there, [Hop::Link(0), Hop::Box(0), Hop::Link(3)]);
        assert_eq!(steps(windlass, "c", "a"), [Hop::Link(2), Hop::Box(1), Hop::Link(1)]);
        assert_eq!(steps(windlass, "d", "b"), [Hop::Link(9)]);
    }
}
