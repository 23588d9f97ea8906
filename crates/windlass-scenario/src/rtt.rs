//! Round-trip times that a run's queues make.

use crate::{Graph, LinkReport, Scenario};
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
    let mut ways: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let mut way_ms = |from: &str, to: &str| {
        let to = graph.host(to);
        ways.entry(to).or_insert_with(|| ways_ms(&graph, &costs_ms, to))[graph.host(from)]
    };
    let sum: f64 = scenario.flows.iter().map(|f| way_ms(&f.from, &f.to) + way_ms(&f.to, &f.from)).sum();
    Some(sum / scenario.flows.len().max(1) as f64)
}

/// How long it takes from every host to `to`; 0 where there is no way.
fn ways_ms(graph: &Graph, costs_ms: &[[f64; 2]], to: usize) -> Vec<f64> {
    let distances = graph.distances(to);
    let mut took_ms = vec![0.0; distances.hosts()];
    // nearest first: what a way leads to is known by then
    for at in distances.nearest_first() {
        let ways = graph.ways(&distances, at);
        let sum: f64 = ways
            .iter()
            .map(|&link| {
                let direction = usize::from(graph.is_backward(link, at));
                costs_ms[link][direction] + took_ms[graph.other_end(link, at)]
            })
            .sum();
        took_ms[at] = sum / ways.len().max(1) as f64;
    }
    took_ms
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
}
