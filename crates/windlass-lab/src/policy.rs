//! The policy of a box that couples flows, or that an agent is.

use anyhow::Result;
use std::{collections::BTreeMap, fmt::Write as _, io::Write as _, path::Path};
use tempfile::NamedTempFile;
use windlass_core::GroupRule;
use windlass_scenario::{Group, Mode, Per, Scenario, Windlass};

/// Writes into `folder` the policy under which the box controls the scenario's flows, and couples them in `group`, behind `iface` or
/// whichever interface it is for; `address_of` returns a host's address.
pub fn write(
    scenario: &Scenario,
    w: &Windlass,
    group: Option<&Group>,
    iface: Option<&str>,
    folder: &Path,
    address_of: impl Fn(&str) -> String,
) -> Result<NamedTempFile> {
    file_in(folder, &text(scenario, w, group, iface, address_of)?)
}

/// One rule for all, or, where flows of a group differ in weight, one for each pair of hosts.
fn text(
    scenario: &Scenario,
    w: &Windlass,
    group: Option<&Group>,
    iface: Option<&str>,
    address_of: impl Fn(&str) -> String,
) -> Result<String> {
    let weights: BTreeMap<_, _> =
        scenario.flows.iter().map(|f| ((f.from.as_str(), f.to.as_str()), f.weight)).collect();
    let first = weights.values().next().copied().unwrap_or(1);
    let of_iface = iface.map(|iface| format!("iface = \"{iface}\""));
    let rules: Vec<(String, i64)> = if group.is_none() || weights.values().all(|weight| *weight == first) {
        let of_iface = of_iface.map(|of| format!("\nmatch = {{ {of} }}")).unwrap_or_default();
        vec![(format!("name = \"all\"{of_iface}"), first)]
    } else {
        let of_iface = of_iface.map(|of| format!(", {of}")).unwrap_or_default();
        let of_pair = |(from, to)| {
            let (server, client) = (address_of(from), address_of(to));
            format!(
                "name = \"{from} > {to}\"\nmatch = {{ server = \"{server}\", client = \"{client}\"{of_iface} }}"
            )
        };
        weights.into_iter().map(|(pair, weight)| (of_pair(pair), weight)).collect()
    };
    let parameters = toml::Value::try_from(scenario.parameters.for_rule_of(&w.algorithm))?;
    let mut text = String::new();
    for (which, weight) in rules {
        let rest = match group {
            Some(group) => format!("group = {{ {}, ack_clock = {} }}", keys(group, weight), group.ack_clock),
            None if w.mode == Mode::Watch => "mode = \"watch\"".into(),
            None => "mode = \"transparent\"".into(),
        };
        writeln!(
            text,
            "[[rule]]\n{which}\nalgorithm = \"{}\"\nparameters = {parameters}\n{rest}",
            w.algorithm,
        )?;
    }
    Ok(text)
}

/// A policy of that text, in a host's folder: what a killed run leaves there goes with the host.
pub(crate) fn file_in(folder: &Path, text: &str) -> Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("policy-").suffix(".toml").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// What a policy configures of the group, whatever keeps it.
pub(crate) fn keys(group: &Group, weight: i64) -> String {
    let per = if group.per == Per::Server { "server" } else { "flow" };
    // a flow's weight may be for another group
    let weight =
        if GroupRule::by_name(&group.rule).is_some_and(|rule| rule.has_shares()) { weight } else { 1 };
    let mut keys = format!(
        "name = {:?}, rule = {:?}, weight = {weight}, per = \"{per}\", join_adds = {}, idle_grows = {}",
        group.name, group.rule, group.join_adds, group.idle_grows
    );
    if let Some(n) = group.max_members {
        keys += &format!(", max_members = {n}");
    }
    if let Some(idle) = group.idle {
        keys += &format!(", idle_s = {}", idle.0 as u64);
    }
    if let Some(n) = group.aggressiveness {
        keys += &format!(", aggressiveness = {n:?}");
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy for flows of two hosts with these weights, behind a box that couples them.
    fn text_of(per: &str, flows: &[(&str, i64)]) -> Result<String> {
        let mut toml = format!(
            "name = \"t\"\n[[group]]\nname = \"g\"\nrule = \"ccc\"\nper = \"{per}\"\n\
             [windlass]\nat = \"box\"\nfacing = \"switch\"\ngroup = \"g\"\n\
             [[link]]\nbetween = [\"a\", \"switch\"]\n[[link]]\nbetween = [\"bb\", \"switch\"]\n\
             [[link]]\nbetween = [\"switch\", \"box\"]\n[[link]]\nbetween = [\"box\", \"ccc\"]\n",
        );
        for host in ["a", "bb", "switch", "box", "ccc"] {
            toml += &format!("[[host]]\nname = \"{host}\"\n");
        }
        for (from, weight) in flows {
            toml +=
                &format!("[[flow]]\nfrom = \"{from}\"\nto = \"ccc\"\nsize = \"1 kB\"\nweight = {weight}\n");
        }
        let scenario = Scenario::parse("t", &toml).unwrap_or_else(|e| panic!("{e}"));
        let w = scenario.windlass.as_ref().expect("it has a box");
        text(&scenario, w, scenario.groups.first(), None, |host| format!("10.0.0.{}", host.len()))
    }

    #[test]
    fn equal_weights_need_one_rule() {
        let text = text_of("server", &[("a", 3), ("bb", 3), ("bb", 3)]).unwrap();
        assert_eq!((text.matches("[[rule]]").count(), text.matches("match").count()), (1, 0), "{text}");
        assert!(text.contains("weight = 3") && text.contains("per = \"server\""), "{text}");
    }

    #[test]
    fn weights_go_by_pairs_of_hosts() {
        let text = text_of("server", &[("a", 1), ("bb", 4), ("bb", 4)]).unwrap();
        assert_eq!(text.matches("[[rule]]").count(), 2, "{text}");
        let second = text.split("[[rule]]").nth(2).unwrap();
        for word in ["server = \"10.0.0.2\"", "client = \"10.0.0.3\"", "weight = 4"] {
            assert!(second.contains(word), "{word}: {text}");
        }
    }
}
