//! What kernels' groups can couple: they are written as a policy, which distinguishes flows by their hosts.

use crate::coupled::{NATIVE, is_coupled};
use std::collections::BTreeMap;
use windlass_core::Algorithm;
use windlass_scenario::{Flow, Location, Refusal, Scenario};

/// Whether the testbed can couple the scenario's flows; else what stands in the way, and the cure.
pub fn check(scenario: &Scenario) -> Result<(), Refusal> {
    check_configurations(scenario)?;
    check_box(scenario)?;
    check_senders(scenario)
}

fn check_configurations(scenario: &Scenario) -> Result<(), Refusal> {
    for (index, group) in scenario.groups.iter().enumerate() {
        let refuse = |key: &str, what: &str| {
            let what = format!("group \"{}\": {key}: {what}, or run it with --on sim", group.name);
            Err(Refusal::new(Location::Group(index), key, what))
        };
        if !group.without.is_empty() {
            return refuse("without", "kernels' groups have all their choices: leave it out");
        }
        if group.idle.is_some_and(|idle| idle.0.fract() != 0.0) {
            return refuse("idle", "kernels' groups count whole seconds: give some");
        }
    }
    Ok(())
}

/// A box distinguishes flows by both hosts.
fn check_box(scenario: &Scenario) -> Result<(), Refusal> {
    let Some(w) = scenario.windlass.as_ref().filter(|w| w.group.is_some()) else { return Ok(()) };
    check_algorithm("[windlass]", &w.algorithm)
        .map_err(|what| Refusal::new(Location::Windlass, "algorithm", what))?;
    let mut weights = BTreeMap::new();
    for (index, flow) in scenario.flows.iter().enumerate() {
        let first = *weights.entry((&flow.from, &flow.to)).or_insert(flow.weight);
        if first != flow.weight {
            let what = format!(
                "flow {}: weight = {}, but {first} of other flows between these hosts; the testbed's box tells flows apart \
                 by their hosts, so give one of them another, or run it with --on sim",
                flow.name(),
                flow.weight
            );
            return Err(Refusal::new(Location::Flow(index), "weight", what));
        }
    }
    Ok(())
}

/// A sender distinguishes its flows by their receivers.
fn check_senders(scenario: &Scenario) -> Result<(), Refusal> {
    let senders: Vec<&str> =
        scenario.flows.iter().filter(|f| is_coupled(f)).map(|f| f.from.as_str()).collect();
    let mut firsts: BTreeMap<(&str, &str), &Flow> = BTreeMap::new();
    for (index, flow) in scenario.flows.iter().enumerate() {
        if !senders.contains(&flow.from.as_str()) {
            continue;
        }
        let first = firsts.entry((&flow.from, &flow.to)).or_insert(flow);
        let said = |f: &Flow| (f.group.clone(), f.weight, f.algorithm.clone());
        if said(first) != said(flow) {
            let what = format!(
                "flow {}: group: another of these hosts differs in group, weight or algorithm; the testbed's hosts tell \
                 their flows apart by receivers, so give one of them another, or run it with --on sim",
                flow.name()
            );
            return Err(Refusal::new(Location::Flow(index), "group", what));
        }
        if is_coupled(flow) {
            let (whose, name) = (format!("flow {}", flow.name()), flow.algorithm.trim_start_matches(NATIVE));
            check_algorithm(&whose, name)
                .map_err(|what| Refusal::new(Location::Flow(index), "algorithm", what))?;
        }
    }
    Ok(())
}

fn check_algorithm(whose: &str, name: &str) -> Result<(), String> {
    if !Algorithm::by_name(name).is_some_and(|a| a.needs_pauses()) {
        return Ok(());
    }
    Err(format!(
        "{whose}: algorithm: \"{name}\" puts its window by at each pause, which kernels' groups would take for a loss: take \
         another, or run it with --on sim"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\n\
        between = [\"a\", \"b\"]\n[[group]]\nname = \"g\"\nrule = \"ccc\"\n";
    const FLOW: &str = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"\nalgorithm = \"reno\"\n";

    /// What to report of the rest of a scenario; nothing: it can be coupled.
    fn told(rest: &str) -> String {
        let scenario = Scenario::parse("t", &format!("{NETWORK}{rest}")).unwrap_or_else(|e| panic!("{e}"));
        check(&scenario).err().map_or_else(String::new, |refusal| refusal.what)
    }

    #[test]
    fn flows_that_cannot_be_distinguished_are_refused() {
        let coupled = format!("{FLOW}group = \"g\"\n");
        assert_eq!(told(&coupled.repeat(2)), "");
        let e = told(&format!("{FLOW}{coupled}"));
        assert!(e.contains("a > b: group: ") && e.contains("--on sim"), "{e}");
        let windlass = "[windlass]\nat = \"b\"\nfacing = \"a\"\ngroup = \"g\"\n";
        assert_eq!(told(&format!("{windlass}{FLOW}{FLOW}")), "");
        let e = told(&format!("{windlass}{FLOW}{FLOW}weight = 2\n"));
        assert!(e.contains("a > b: weight = 2, but 1") && e.contains("--on sim"), "{e}");
    }

    #[test]
    fn what_puts_its_window_by_is_not_coupled() {
        let e = told(&format!("{FLOW}group = \"g\"\n").replace("\"reno\"", "\"wl_trim\""));
        assert!(e.starts_with("flow a > b: algorithm: \"trim\"") && e.contains("--on sim"), "{e}");
        let e = told(&format!(
            "[windlass]\nat = \"b\"\nfacing = \"a\"\ngroup = \"g\"\nalgorithm = \"trim\"\n{FLOW}"
        ));
        assert!(e.starts_with("[windlass]: algorithm: \"trim\""), "{e}");
    }
}
