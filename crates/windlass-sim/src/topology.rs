//! Where packets go: a shortest path between two hosts, found once, as a list of links to cross.

use crate::rng;
use std::collections::BTreeMap;
use windlass_scenario::{Graph, Scenario, Ways};

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

    /// Whether the step at a place is a link.
    pub fn leads_on(&self, place: u32) -> bool {
        self.hops[place as usize] & BOX == 0
    }
}

/// What the hash of a switch distinguishes: an end of a connection of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// Number of the flow, twice, and one more at the server.
    pub endpoint: u32,
    /// Which of the flow's connections it is, from 0.
    pub connection: u64,
}

impl Sender {
    /// An end of the first connection of its flow.
    pub fn first(endpoint: u32) -> Sender {
        Sender { endpoint, connection: 0 }
    }
}

/// Finds the paths of a scenario.
#[derive(Debug)]
pub struct Router {
    graph: Graph,
    seed: u64,
    /// Host of the box and the neighbour it faces.
    boxed: Option<[usize; 2]>,
    /// To those that are written to.
    ways: Ways,
    /// Where the paths that were found begin.
    begins: BTreeMap<Vec<u32>, u32>,
    /// Some switch had several ways to choose from.
    has_chosen: bool,
}

impl Router {
    /// The network of a scenario, which has been checked to be sound.
    pub fn new(scenario: &Scenario) -> Router {
        let graph = Graph::new(scenario);
        let boxed = scenario.windlass.as_ref().map(|w| [graph.host(&w.at), graph.host(&w.facing)]);
        Router {
            graph,
            seed: scenario.seed,
            boxed,
            ways: Ways::default(),
            begins: BTreeMap::new(),
            has_chosen: false,
        }
    }

    /// Number of a host.
    pub fn host(&self, name: &str) -> usize {
        self.graph.host(name)
    }

    /// Whether paths that were found hang on the connection: some switch had a choice.
    pub fn has_chosen(&self) -> bool {
        self.has_chosen
    }

    /// Where among `paths`, which are all that were found so far, the path from one host to another begins that the packets of
    /// `sender` take; none if there is no path.
    pub fn path(&mut self, from: &str, to: &str, sender: Sender, paths: &mut Paths) -> Option<u32> {
        let hops = self.hops(self.graph.host(from), self.graph.host(to), sender)?;
        let next = paths.hops.len() as u32;
        let begin = *self.begins.entry(hops).or_insert_with_key(|hops| {
            paths.hops.extend(hops);
            paths.hops.push(END);
            next
        });
        Some(begin)
    }

    /// The links that lie between one host and another for the packets of `sender`; none if there is no path.
    pub fn links(&mut self, from: &str, to: &str, sender: Sender) -> Option<Vec<usize>> {
        let hops = self.hops(self.graph.host(from), self.graph.host(to), sender)?;
        Some(hops.into_iter().filter(|code| code & BOX == 0).map(|code| code as usize / 2).collect())
    }

    /// Steps from one host to another: fewest links; of ways that are equally short, a host takes the one that it found
    /// first, and a switch the one that the hash of the flow selects.
    fn hops(&mut self, from: usize, to: usize, sender: Sender) -> Option<Vec<u32>> {
        let Router { graph, seed, boxed, ways, has_chosen, .. } = self;
        let mut hops = Vec::new();
        let mut at = from;
        while at != to {
            let link = match *ways.links(graph, at, to).as_slice() {
                [] => return None,
                [link] => link,
                ref links => {
                    *has_chosen = true;
                    let hash = rng::flow_hash(*seed, at, sender.endpoint, sender.connection);
                    links[(hash % links.len() as u64) as usize]
                }
            };
            let next = graph.other_end(link, at);
            // the box sits on its interface: what leaves by it is seen before, what comes in by it after the link
            if *boxed == Some([at, next]) && at != from {
                hops.push(BOX | 1);
            }
            hops.push(2 * link as u32 + u32::from(graph.is_backward(link, at)));
            if *boxed == Some([next, at]) && next != to {
                hops.push(BOX);
            }
            at = next;
        }
        Some(hops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(windlass: &str) -> Router {
        let hosts: String = ["a", "b", "c", "d"].map(|h| format!("[[host]]\nname = \"{h}\"\n")).concat();
        // a ring, so that there are two ways, and one of them is shorter
        let links: String = [("a", "b"), ("c", "b"), ("c", "d"), ("d", "a"), ("b", "d")]
            .map(|(x, y)| format!("[[link]]\nbetween = [\"{x}\", \"{y}\"]\n"))
            .concat();
        let scenario = Scenario::parse("t", &format!("name = \"t\"\n{hosts}{links}{windlass}")).unwrap();
        Router::new(&scenario)
    }

    fn steps(windlass: &str, from: &str, to: &str) -> Vec<Hop> {
        let mut paths = Paths::default();
        let begin = ring(windlass).path(from, to, Sender::first(0), &mut paths).unwrap();
        (begin..).map(|place| paths.at(place)).take_while(|hop| *hop != Hop::End).collect()
    }

    #[test]
    fn the_shortest_path_is_taken_and_directions_are_distinguished() {
        assert_eq!(steps("", "a", "b"), [Hop::Link(0)]);
        assert_eq!(steps("", "b", "a"), [Hop::Link(1)]);
        assert_eq!(steps("", "a", "c").len(), 2);
    }

    #[test]
    fn a_path_is_kept_once() {
        let (mut router, mut paths) = (ring(""), Paths::default());
        let first = router.path("a", "c", Sender::first(0), &mut paths);
        assert_eq!(router.path("a", "c", Sender::first(7), &mut paths), first);
        assert!(!router.has_chosen());
    }

    #[test]
    fn what_comes_from_the_faced_neighbour_passes_the_box_and_so_does_what_goes_there() {
        let windlass = "[windlass]\nat = \"b\"\nfacing = \"a\"\n";
        let there = steps(windlass, "a", "c");
        assert_eq!(there, [Hop::Link(0), Hop::Box(0), Hop::Link(3)]);
        assert_eq!(steps(windlass, "c", "a"), [Hop::Link(2), Hop::Box(1), Hop::Link(1)]);
        assert_eq!(steps(windlass, "d", "b"), [Hop::Link(9)]);
    }

    fn tree(seed: u64) -> Router {
        let text = format!(
            "name = \"t\"\nseed = {seed}\n[topology]\nshape = \"fat-tree\"\nk = 4\nedge = {{}}\nfabric = {{}}\n"
        );
        Router::new(&Scenario::parse("t", &text).unwrap())
    }

    /// Four ways between two pods: each takes about a quarter of 4000 flows (four standard deviations are 110), the
    /// same flow always the same one, and another seed deals anew. So do the connections of one flow.
    #[test]
    fn switches_spread_flows_and_connections_evenly_and_keep_each_on_its_way() {
        let mut paths = Paths::default();
        let mut begin = |router: &mut Router, sender: Sender| {
            router.path("host-1-1-1", "host-3-2-1", sender, &mut paths).unwrap()
        };
        let mut begins = |router: &mut Router| -> Vec<u32> {
            (0..4000).map(|endpoint| begin(router, Sender::first(endpoint))).collect()
        };
        let mut router = tree(1);
        let first = begins(&mut router);
        assert_eq!(begins(&mut router), first);
        let mut counts = BTreeMap::new();
        first.iter().for_each(|begin| *counts.entry(begin).or_insert(0) += 1);
        assert_eq!(counts.len(), 4);
        assert!(counts.values().all(|n| (890..=1110).contains(n)), "{counts:?}");
        let other = begins(&mut tree(2));
        let same = first.iter().zip(&other).filter(|(a, b)| a == b).count();
        assert!(same < 4000, "{same}");
        let mut counts = BTreeMap::new();
        let connections = (0..4000).map(|connection| Sender { endpoint: 5, connection });
        connections.for_each(|sender| *counts.entry(begin(&mut router, sender)).or_insert(0) += 1);
        assert_eq!(counts.len(), 4);
        assert!(counts.values().all(|n| (890..=1110).contains(n)), "{counts:?}");
    }
}
