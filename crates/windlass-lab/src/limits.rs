//! What the testbed cannot do and the simulator can.

use crate::tcp;
use anyhow::{Result, bail};
use windlass_scenario::{Application, Connections, Flow, Graph, Scenario};

/// How many links the addresses are enough for.
const LINKS_MOST: usize = 250;
/// Each host is a namespace with routes to all others.
const HOSTS_MOST: usize = 64;

/// Whether the scenario can run with real kernels; else what stands in the way, and the cure.
pub fn check(scenario: &Scenario) -> Result<()> {
    let (hosts, links) = (scenario.hosts.len(), scenario.links.len());
    if hosts > HOSTS_MOST {
        bail!("{hosts} hosts; the testbed has {HOSTS_MOST} at most: take fewer, or run it with --on sim");
    }
    if links > LINKS_MOST {
        bail!(
            "{links} links; the testbed has addresses for {LINKS_MOST}: take fewer, or run it with --on sim"
        );
    }
    for switch in &scenario.switches {
        if switch.ports.shared_buffer.is_some() {
            bail!(
                "switch \"{}\": shared_buffer: the ports of the testbed's switches queue each on its own: give a \
                 port_buffer, or run it with --on sim",
                switch.name
            );
        }
    }
    if let Some(group) = scenario.groups.iter().find(|g| !g.without.is_empty()) {
        bail!(
            "group \"{}\": without: kernels' groups have all their choices: leave it out, or run it with --on sim",
            group.name
        );
    }
    tcp::check(scenario)?;
    let graph = Graph::new(scenario);
    for flow in &scenario.flows {
        check_workload(flow)?;
        let (from, to) = (graph.host(&flow.from), graph.host(&flow.to));
        let choice = graph.choice(from, to).or_else(|| graph.choice(to, from));
        if let Some(at) = choice {
            bail!(
                "flow {} > {}: switch \"{}\" has several equally short ways; the testbed's hosts take one only: leave \
                 a link out, or run it with --on sim",
                flow.from,
                flow.to,
                scenario.hosts[at].name
            );
        }
    }
    Ok(())
}

/// Real servers answer over HTTP, one connection of a flow at a time.
fn check_workload(flow: &Flow) -> Result<()> {
    if flow.application != Application::Http {
        bail!(
            "flow {}: application: real servers answer requests: leave it out, or run it with --on sim",
            flow.name()
        );
    }
    let has_intervals = flow.trains.iter().any(|t| t.interval.is_some());
    if flow.connections == Connections::PerResponse && has_intervals {
        bail!(
            "flow {}: interval: with a connection for each response, the testbed has one at a time: give a gap, or run \
             it with --on sim",
            flow.name()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(topology: &str, flow: [&str; 2]) -> String {
        let [from, to] = flow;
        let text = format!(
            "name = \"t\"\n[topology]\n{topology}edge = {{ rate = \"100 Mbit/s\", delay = \"1 ms\" }}\n\
             [[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nsize = \"1 kB\"\n"
        );
        let scenario = Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}"));
        check(&scenario).err().map_or_else(String::new, |e| e.to_string())
    }

    #[test]
    fn what_the_testbed_cannot_do_is_refused_with_a_cure() {
        let dumbbell =
            "shape = \"dumbbell\"\npairs = 2\nbottleneck = { rate = \"10 Mbit/s\", delay = \"1 ms\" }\n";
        assert_eq!(verdict(dumbbell, ["left-1", "right-2"]), "");
        let shared = format!("{dumbbell}switch = {{ shared_buffer = \"64 kB\" }}\n");
        let e = verdict(&shared, ["left-1", "right-2"]);
        assert!(e.contains("switch-left") && e.contains("shared_buffer") && e.contains("--on sim"), "{e}");
        let tree = "shape = \"fat-tree\"\nk = 4\nfabric = {}\n";
        let e = verdict(tree, ["host-1-1-1", "host-2-1-1"]);
        assert!(e.contains("edge-1-1") && e.contains("--on sim"), "{e}");
        assert_eq!(verdict(tree, ["host-1-1-1", "host-1-1-2"]), "");
        let e = verdict(&tree.replace('4', "6"), ["host-1-1-1", "host-1-1-2"]);
        assert!(e.contains("99 hosts") && e.contains("--on sim"), "{e}");
    }

    #[test]
    fn what_real_servers_cannot_do_is_refused() {
        let verdict = |rest: &str| {
            let text = format!(
                "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n{rest}"
            );
            let scenario = Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}"));
            check(&scenario).err().map_or_else(String::new, |e| e.to_string())
        };
        let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\n";
        let train = "[[flow.train]]\ncount = 3\nsize = \"1 kB\"\n";
        assert_eq!(verdict(&format!("{flow}{train}interval = \"1 ms\"\n")), "");
        assert_eq!(verdict(&format!("{flow}connections = \"per-response\"\n{train}gap = \"1 ms\"\n")), "");
        let e = verdict(&format!("{flow}connections = \"per-response\"\n{train}interval = \"1 ms\"\n"));
        assert!(e.contains("interval") && e.contains("--on sim"), "{e}");
        for application in ["push", "upload"] {
            let e = verdict(&format!("{flow}application = \"{application}\"\n{train}"));
            assert!(e.contains("application") && e.contains("--on sim"), "{e}");
        }
        let group = "[[group]]\nname = \"g\"\nrule = \"ccc\"\n";
        assert_eq!(verdict(group), "");
        let e = verdict(&format!("{group}without = [\"stale-shares\"]\n"));
        assert!(e.contains("without") && e.contains("--on sim"), "{e}");
        assert_eq!(verdict("[tcp]\ninitial_window = 2\ndelayed_ack = \"0 s\"\n"), "");
        for (key, value) in [("validate_window", "false"), ("delayed_ack", "\"10 ms\"")] {
            let e = verdict(&format!("[tcp]\n{key} = {value}\n"));
            assert!(e.contains(key) && e.contains("--on sim"), "{e}");
        }
        let e = verdict(&format!("[tcp]\necn = \"exact\"\n{flow}{train}"));
        assert!(e.contains("exact") && e.contains("--on sim"), "{e}");
    }
}
