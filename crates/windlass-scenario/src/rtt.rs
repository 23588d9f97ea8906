//! Round-trip times that a run's queues make.

use crate::{Graph, LinkReport, Scenario, Ways};
use std::collections::BTreeMap;

/// Propagation there and back plus mean queues on the way in ms, mean of all flows; of equally short ways, their mean. 0
/// without flows; none: a queue was not measured. `links`: the reports of the emulated links.
pub fn mean_rtt_ms(scenario: &Scenario, links: &[LinkReport]) -> Option<f64> {
    let graph = Graph::new(scenario);
    let queues: BTreeMap<&str, f64> =
        links.iter().map(|l| Some((l.name.as_str(), l.mean_queue_ms?))).collect::<Option<_>>()?;
    let queue = |name: String| queues.get(name.as_str()).copied().unwrap_or(0.0);
    let costs_ms: Vec<[f64; 2]> = scenario
        .links
        .iter()
        .zip(scenario.directions())
        .map(|(link, both)| both.map(|name| 1e3 * link.delay.0 + queue(name)))
        .collect();
    let mut took = Took { graph: &graph, costs_ms: &costs_ms, ways: Ways::default(), ms: BTreeMap::new() };
    let mut way_ms = |from: &str, to: &str| took.find_ms(graph.host(from), graph.host(to));
    let sum: f64 = scenario.flows.iter().map(|f| way_ms(&f.from, &f.to) + way_ms(&f.to, &f.from)).sum();
    Some(sum / scenario.flows.len().max(1) as f64)
}

/// How long ways take.
struct Took<'a> {
    graph: &'a Graph,
    /// Of each link, forward and backward.
    costs_ms: &'a [[f64; 2]],
    ways: Ways,
    /// From a host to another, of those that were requested and what lies between them.
    ms: BTreeMap<(usize, usize), f64>,
}

impl Took<'_> {
    /// From one host to another; 0 where there is no way.
    fn find_ms(&mut self, from: usize, to: usize) -> f64 {
        // what must be known before the one before it is
        let mut open = vec![from];
        while let Some(&at) = open.last() {
            if self.ms.contains_key(&(at, to)) {
                open.pop();
                continue;
            }
            let ways = self.ways.links(self.graph, at, to);
            let ends = ways.iter().map(|&link| self.graph.other_end(link, at));
            let unknown: Vec<usize> = ends.filter(|end| !self.ms.contains_key(&(*end, to))).collect();
            if unknown.is_empty() {
                let took_ms = |&link: &usize| {
                    let direction = usize::from(self.graph.is_backward(link, at));
                    self.costs_ms[link][direction] + self.ms[&(self.graph.other_end(link, at), to)]
                };
                let mean_ms = ways.iter().map(took_ms).sum::<f64>() / ways.len().max(1) as f64;
                self.ms.insert((at, to), mean_ms);
                open.pop();
            }
            open.extend(unknown);
        }
        self.ms[&(from, to)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkStats;

    fn rtt_ms(scenario: &Scenario, links: &[LinkReport]) -> f64 {
        mean_rtt_ms(scenario, links).unwrap()
    }

    fn queue(name: &str, mean_queue_ms: f64) -> LinkReport {
        LinkReport { name: name.into(), stats: LinkStats::default(), mean_queue_ms: Some(mean_queue_ms) }
    }

    /// Flows of a star: each has its own two links, and what is on others is nothing to it.
    #[test]
    fn only_the_links_of_a_path_count() {
        let text = "name = \"t\"\n[topology]\nshape = \"many-to-one\"\nsenders = 10\n\
                    edge = { rate = \"1 Gbit/s\", delay = \"1 ms\" }\n\
                    bottleneck = { rate = \"1 Gbit/s\", delay = \"2 ms\" }\n\
                    [[flow]]\nfrom = \"sender-*\"\nto = \"receiver\"\nsize = \"1 MB\"\n";
        let scenario = Scenario::parse("t", text).unwrap();
        assert!((rtt_ms(&scenario, &[]) - 6.0).abs() < 1e-9);
        // a queue of 10 ms on one of ten links, and one of 5 ms on that of all
        let links = [queue("sender-3 > switch", 10.0), queue("switch > receiver", 5.0)];
        assert!((rtt_ms(&scenario, &links) - 12.0).abs() < 1e-9);
    }

    /// Hosts take the first of two links between them, whatever queues on the second.
    #[test]
    fn of_parallel_links_that_of_the_way_counts() {
        let link = "[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"5 ms\"\n";
        let text = format!(
            "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n{link}{link}\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1 MB\"\n"
        );
        let scenario = Scenario::parse("t", &text).unwrap();
        let links = [queue("a > b", 1.0), queue("a > b #2", 100.0)];
        assert!((rtt_ms(&scenario, &links) - 11.0).abs() < 1e-9);
    }

    /// Two of the four ways between two pods lead over each aggregation switch: a queue on one link counts by half.
    #[test]
    fn of_equally_short_ways_the_mean_counts() {
        let text = "name = \"t\"\n[topology]\nshape = \"fat-tree\"\nk = 4\n\
                    edge = { rate = \"1 Gbit/s\", delay = \"1 ms\" }\n\
                    fabric = { rate = \"1 Gbit/s\", delay = \"1 ms\" }\n\
                    [[flow]]\nfrom = \"host-1-1-1\"\nto = \"host-2-1-1\"\nsize = \"1 MB\"\n";
        let scenario = Scenario::parse("t", text).unwrap();
        let links = [queue("edge-1-1 > aggr-1-1", 4.0), queue("edge-3-1 > aggr-3-1", 100.0)];
        assert!((rtt_ms(&scenario, &links) - 14.0).abs() < 1e-9);
    }

    /// How long it takes from every host to `to`: all in order of how far they are.
    fn all_ms(graph: &Graph, costs_ms: &[[f64; 2]], to: usize, hosts: usize) -> Vec<f64> {
        let distances = graph.distances(to);
        let far = |mut at: usize| {
            let mut links = 0;
            while let Some(&link) = graph.ways(&distances, at).first() {
                at = graph.other_end(link, at);
                links += 1;
            }
            links
        };
        let mut all: Vec<usize> = (0..hosts).collect();
        all.sort_by_key(|&at| far(at));
        let mut took_ms = vec![0.0; hosts];
        for at in all {
            let ways = graph.ways(&distances, at);
            let cost_ms = |link: usize| costs_ms[link][usize::from(graph.is_backward(link, at))];
            let sum: f64 = ways.iter().map(|&link| cost_ms(link) + took_ms[graph.other_end(link, at)]).sum();
            took_ms[at] = sum / ways.len().max(1) as f64;
        }
        took_ms
    }

    /// To the last bit, from everywhere to everywhere, whichever is requested first.
    #[test]
    fn what_lies_between_two_hosts_is_enough_to_know() {
        for shape in ["fat-tree\"\nk = 4\nfabric = {}", "dumbbell\"\npairs = 3\nbottleneck = {}"] {
            let text = format!("name = \"t\"\n[topology]\nshape = \"{shape}\nedge = {{}}\n");
            let scenario = Scenario::parse("t", &text).unwrap();
            let graph = Graph::new(&scenario);
            let (hosts, links) = (scenario.hosts.len(), scenario.links.len());
            let costs_ms: Vec<_> = (1..=links).map(|i| [0.1 * i as f64, 1.0 / i as f64]).collect();
            let mut took =
                Took { graph: &graph, costs_ms: &costs_ms, ways: Ways::default(), ms: BTreeMap::new() };
            for to in 0..hosts {
                let all_ms = all_ms(&graph, &costs_ms, to, hosts);
                for from in (0..hosts).rev() {
                    assert_eq!(took.find_ms(from, to).to_bits(), all_ms[from].to_bits(), "{from} to {to}");
                }
            }
        }
    }
}
