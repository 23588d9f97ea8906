//! Flows that their senders' own kernels couple: `windlass attach --native` with a policy, for the servers' cgroups.

use crate::{boxed::BoxProcess, cgroup::Cgroup, netns, own_prefix::own_prefix, policy, topology::Topology};
use anyhow::{Context, Result};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};
use windlass_scenario::{Flow, Scenario};

/// How names of scenarios' flows call algorithms of the native home.
pub const NATIVE: &str = "wl_";

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Whether the flow's sender couples it.
pub fn is_coupled(flow: &Flow) -> bool {
    flow.group.is_some()
}

/// The scenario as hosts are set up for it: what is coupled gets its algorithm from the policy, not by its route.
pub fn without_coupling(scenario: &Scenario) -> Scenario {
    let mut plain = scenario.clone();
    for flow in plain.flows.iter_mut().filter(|f| is_coupled(f)) {
        flow.algorithm = "reno".into();
    }
    plain
}

/// Cgroups of the hosts that send coupled flows.
pub fn cgroups(scenario: &Scenario) -> Result<BTreeMap<String, Cgroup>> {
    let run = netns::next_run();
    let mut all = BTreeMap::new();
    for flow in scenario.flows.iter().filter(|f| is_coupled(f)) {
        if !all.contains_key(&flow.from) {
            all.insert(flow.from.clone(), Cgroup::create(run, &flow.from)?);
        }
    }
    Ok(all)
}

/// Starts coupling; none if no flow of the scenario has a group.
pub fn start(
    scenario: &Scenario,
    cgroups: &BTreeMap<String, Cgroup>,
    windlass: &Path,
    topology: &Topology,
) -> Result<Option<BoxProcess>> {
    let Some(host) = cgroups.keys().next() else { return Ok(None) };
    let text =
        text(scenario, |host| cgroups[host].path().display().to_string(), |host| topology.address_of(host))?;
    let file = policy::file_in(&topology.host(host).folder()?, &text)?;
    let policy = file.path().to_str().context("the policy's path is no UTF-8")?;
    let prefix = own_prefix('g', NEXT.fetch_add(1, Ordering::Relaxed));
    BoxProcess::start_native(windlass, &["--policy", policy, "--prefix", &prefix]).map(Some)
}

/// A rule for each pair of hosts.
fn text(
    scenario: &Scenario,
    cgroup_of: impl Fn(&str) -> String,
    address_of: impl Fn(&str) -> String,
) -> Result<String> {
    let rules: BTreeMap<(&str, &str), &Flow> =
        scenario.flows.iter().filter(|f| is_coupled(f)).map(|f| ((&*f.from, &*f.to), f)).collect();
    let mut text = String::new();
    for ((from, to), flow) in rules {
        let Some(group) = scenario.groups.iter().find(|g| Some(&g.name) == flow.group.as_ref()) else {
            continue;
        };
        writeln!(
            text,
            "[[rule]]\nname = \"{from} > {to}\"\nmode = \"native\"\nmatch = {{ cgroup = {:?}, client = \"{}\" }}\n\
             algorithm = \"{}\"\ngroup = {{ {} }}",
            cgroup_of(from),
            address_of(to),
            flow.algorithm.trim_start_matches(NATIVE),
            policy::keys(group, flow.weight)
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(flows: &str) -> Scenario {
        let text = format!(
            "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n\
             [[group]]\nname = \"g\"\nrule = \"ccc\"\nper = \"server\"\n{flows}"
        );
        Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}"))
    }

    const FLOW: &str = "[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"1 kB\"\nalgorithm = \"reno\"\n";

    #[test]
    fn a_policy_has_a_rule_for_each_pair_of_hosts() {
        let coupled = format!("{FLOW}group = \"g\"\nweight = 3\n");
        let policy =
            text(&scenario(&coupled.repeat(2)), |h| format!("/{h}"), |h| format!("10.0.0.{}", h.len()));
        let policy = policy.unwrap();
        assert_eq!(policy.matches("[[rule]]").count(), 1, "{policy}");
        for word in
            ["cgroup = \"/a\"", "client = \"10.0.0.1\"", "weight = 3", "per = \"server\"", "\"native\""]
        {
            assert!(policy.contains(word), "{word}: {policy}");
        }
        assert!(!policy.contains("ack_clock"), "sockets are paced: {policy}");
    }
}
