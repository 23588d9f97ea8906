//! For tests of one host: a network that takes what it sends, with no host at the other end.

use crate::{
    link::Link,
    network::Network,
    topology::{Router, Sender},
};
use windlass_scenario::Scenario;

/// Two hosts and a cable between them, and the way from the first to the second.
pub fn cable() -> (Network, u32) {
    let text =
        "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n";
    let scenario = Scenario::parse("t", text).unwrap();
    let mut net = Network::new(vec![Link::new(scenario.link_model(0, false), false)], vec![]);
    let hop = Router::new(&scenario).path("a", "b", Sender::first(1), &mut net.paths).unwrap();
    (net, hop)
}
