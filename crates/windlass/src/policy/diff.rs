//! `windlass policy diff`: what another policy changes, of the rules and of what is here.

use super::shares;
use crate::{
    flow_table::{FlowTable, Seen},
    print,
};
use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::SocketAddr, path::Path, process::ExitCode};
use windlass_agent::{Mode, Policy, Rule, is_root};
use windlass_scenario::{Parameters, printable_path};

/// What becomes of a rule.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct RuleChange {
    rule: String,
    /// `added`, `removed`, `changed` or `moved`.
    change: &'static str,
    /// Keys that differ, with both values.
    what: Vec<String>,
}

/// What becomes of an interface or a cgroup that is there.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct PlaceChange {
    /// Its name or folder.
    #[serde(rename = "where")]
    place: String,
    /// `attached`, `released` or `rules`.
    change: &'static str,
    /// Names of its rules.
    before: Vec<String>,
    after: Vec<String>,
}

/// What becomes of a flow that is under an agent's control.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct FlowChange {
    iface: String,
    sender: SocketAddr,
    receiver: SocketAddr,
    before: String,
    after: String,
}

#[derive(Debug, Serialize)]
struct Diff {
    rules: Vec<RuleChange>,
    interfaces: Vec<PlaceChange>,
    cgroups: Vec<PlaceChange>,
    flows: Vec<FlowChange>,
    /// How many there are; none: only root can see them.
    flows_seen: Option<usize>,
}

/// Prints it. That nothing changes is an answer, too.
pub fn diff(old_file: &Path, new_file: &Path, json: bool) -> Result<ExitCode> {
    let (old, new) = (Policy::from_file(old_file)?, Policy::from_file(new_file)?);
    let seen = if is_root() { Some(FlowTable::read()?.flows) } else { None };
    let diff = Diff {
        rules: rules(&old, &new),
        interfaces: interfaces(&old, &new),
        cgroups: cgroups(&old, &new),
        flows: flows(&old, &new, seen.as_deref().unwrap_or_default()),
        flows_seen: seen.map(|seen| seen.len()),
    };
    if json {
        println!("{}", serde_json::to_string(&diff)?);
    } else {
        diff.print(new_file);
    }
    Ok(ExitCode::SUCCESS)
}

fn rules(old: &Policy, new: &Policy) -> Vec<RuleChange> {
    let named = |policy: &Policy, name: &str| policy.rules.iter().position(|rule| rule.name == name);
    let change = |rule: &Rule, change, what| RuleChange { rule: rule.name.clone(), change, what };
    let removed = old.rules.iter().filter(|rule| named(new, &rule.name).is_none());
    let mut all: Vec<RuleChange> = removed.map(|rule| change(rule, "removed", vec![])).collect();
    let before: Vec<Option<usize>> = new.rules.iter().map(|rule| named(old, &rule.name)).collect();
    let in_place = in_order(&before);
    for (rule, before) in new.rules.iter().zip(before) {
        let Some(at) = before else {
            all.push(change(rule, "added", vec![]));
            continue;
        };
        let differ = keys(&old.rules[at]).into_iter().zip(keys(rule)).filter(|(was, is)| was != is);
        let what: Vec<String> =
            differ.map(|((key, was), (_, is))| format!("{key}: {} -> {}", plain(&was), plain(&is))).collect();
        if !what.is_empty() {
            all.push(change(rule, "changed", what));
        }
        if !in_place.contains(&at) {
            all.push(change(rule, "moved", vec![]));
        }
    }
    all
}

/// Of the rules' places in the old file, in the order of the new one, the most that are in the order of the old one.
fn in_order(places: &[Option<usize>]) -> BTreeSet<usize> {
    let places: Vec<usize> = places.iter().copied().flatten().collect();
    // for each the longest list in order that ends with it: its length, and the one before
    let mut best: Vec<(usize, Option<usize>)> = Vec::new();
    for (at, place) in places.iter().enumerate() {
        let before =
            (0..at).filter(|earlier| places[*earlier] < *place).max_by_key(|earlier| best[*earlier].0);
        best.push((before.map_or(0, |before| best[before].0) + 1, before));
    }
    let mut kept = BTreeSet::new();
    let mut next = (0..best.len()).max_by_key(|at| best[*at].0);
    while let Some(at) = next {
        kept.insert(places[at]);
        next = best[at].1;
    }
    kept
}

/// All but the name, as docs/policy.md calls it.
fn keys(rule: &Rule) -> Vec<(&'static str, Value)> {
    vec![
        ("match.iface", json!(rule.iface)),
        ("match.cgroup", json!(rule.cgroup)),
        ("match.client", json!(rule.client.to_string())),
        ("match.server", json!(rule.server.to_string())),
        ("match.server_port", json!(rule.server_ports)),
        ("algorithm", json!(is_controlled(rule).then(|| shares(&rule.algorithms)))),
        ("mode", json!(rule.mode)),
        ("paced_servers", json!(if rule.control_paced { "control" } else { "stand-aside" })),
        ("parameters", json!(rule.parameters)),
        ("group", json!(rule.group)),
    ]
}

fn is_controlled(rule: &Rule) -> bool {
    matches!(rule.mode, Mode::Transparent | Mode::Native)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".into(),
        other => other.to_string(),
    }
}

/// What a rule does with flows, in short.
fn does(rule: Option<&Rule>) -> String {
    match rule {
        None => "left alone".into(),
        Some(rule) => match rule.mode {
            Mode::Off => "off".into(),
            Mode::Watch => "watched".into(),
            Mode::Transparent | Mode::Native => shares(&rule.algorithms),
        },
    }
}

fn names(rules: &[&Rule]) -> Vec<String> {
    rules.iter().map(|rule| rule.name.clone()).collect()
}

/// None: it stays as it is.
fn place(place: String, is_of: [bool; 2], before: &[&Rule], after: &[&Rule]) -> Option<PlaceChange> {
    let change = match is_of {
        [false, true] => "attached",
        [true, false] => "released",
        _ if before != after => "rules",
        _ => return None,
    };
    Some(PlaceChange { place, change, before: names(before), after: names(after) })
}

fn interfaces(old: &Policy, new: &Policy) -> Vec<PlaceChange> {
    let [before, after] = [old, new].map(|policy| BTreeSet::from_iter(policy.interfaces()));
    let change = |iface: &String| {
        let is_of = [before.contains(iface), after.contains(iface)];
        place(iface.clone(), is_of, &old.rules_of_iface(iface), &new.rules_of_iface(iface))
    };
    before.union(&after).filter_map(change).collect()
}

fn cgroups(old: &Policy, new: &Policy) -> Vec<PlaceChange> {
    let [before, after] = [old, new].map(|policy| BTreeSet::from_iter(policy.cgroups()));
    let change = |cgroup: &Option<&Path>| {
        let name = cgroup.map_or("all sockets".into(), |folder| folder.display().to_string());
        let is_of = [before.contains(cgroup), after.contains(cgroup)];
        place(name, is_of, &old.rules_of_cgroup(*cgroup), &new.rules_of_cgroup(*cgroup))
    };
    before.union(&after).filter_map(change).collect()
}

/// What a rule does, whichever flows it is for.
fn treatment(rule: Option<&Rule>) -> Option<(Mode, &[(String, u32)], bool, &Parameters, Value)> {
    let rule = rule.filter(|rule| rule.mode != Mode::Off)?;
    let algorithms = if rule.mode == Mode::Watch { &[] } else { rule.algorithms.as_slice() };
    Some((rule.mode, algorithms, rule.control_paced, &rule.parameters, json!(rule.group)))
}

fn flows(old: &Policy, new: &Policy, seen: &[Seen]) -> Vec<FlowChange> {
    let mut all = Vec::new();
    // in which the flows of an interface follow each other
    for some in seen.chunk_by(|a, b| a.iface == b.iface) {
        let iface = &some[0].iface;
        let [before, after] = [old, new].map(|policy| policy.rules_of_iface(iface));
        for Seen { flow, .. } in some {
            let (sender, receiver) = (flow.sender, flow.receiver);
            let [was, is] = [&before, &after]
                .map(|rules| rules.iter().copied().find(|rule| rule.is_of_flow(sender, receiver)));
            if treatment(was) != treatment(is) {
                let in_words = |rule: Option<&Rule>| match rule {
                    Some(rule) => format!("{}: {}", rule.name, does(Some(rule))),
                    None => does(None),
                };
                let (before, after) = (in_words(was), in_words(is));
                all.push(FlowChange { iface: iface.clone(), sender, receiver, before, after });
            }
        }
    }
    all
}

impl Diff {
    fn print(&self, new: &Path) {
        if self.rules.is_empty() {
            print::line(format_args!("{}: the same rules", printable_path(new)));
        }
        for RuleChange { rule, change, what } in &self.rules {
            let what = what.join(", ");
            let colon = if what.is_empty() { "" } else { ": " };
            print::line(format_args!("rule \"{rule}\" {change}{colon}{what}"));
        }
        for (kind, changes) in [("interface", &self.interfaces), ("cgroup", &self.cgroups)] {
            for PlaceChange { place, change, before, after } in changes {
                let list =
                    |names: &Vec<String>| if names.is_empty() { "none".into() } else { names.join(", ") };
                let what = if *change == "rules" { "other rules" } else { change };
                print::line(format_args!("{kind} {place}: {what}: {} -> {}", list(before), list(after)));
            }
        }
        let Some(seen) = self.flows_seen else {
            println!("flows under an agent's control: only root can see them");
            return;
        };
        println!("flows under an agent's control that change: {} of {seen}", self.flows.len());
        if !self.flows.is_empty() {
            let row = |f: &FlowChange| {
                vec![
                    f.iface.clone(),
                    f.sender.to_string(),
                    f.receiver.to_string(),
                    f.before.clone(),
                    f.after.clone(),
                ]
            };
            let rows: Vec<_> = self.flows.iter().map(row).collect();
            print::table(&["iface", "sender", "receiver", "before", "after"], &rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_table::sample;

    fn policy(rules: &[(&str, &str)]) -> Policy {
        let text = |(name, rest): &(&str, &str)| format!("[[rule]]\nname = \"{name}\"\n{rest}\n");
        Policy::parse("p.toml", &rules.iter().map(text).collect::<String>()).expect("sound")
    }

    const BBR: &str = "match.iface = \"tap*\"\nalgorithm = \"bbr\"";
    const RENO: &str = "match.iface = \"tap*\"\nalgorithm = \"reno\"";

    fn changes(old: &Policy, new: &Policy) -> Vec<String> {
        rules(old, new).iter().map(|c| format!("{} {} {}", c.rule, c.change, c.what.join(","))).collect()
    }

    #[test]
    fn a_policys_diff_has_rules_that_come_go_change_and_move() {
        let old = policy(&[("a", BBR), ("b", RENO), ("c", "mode = \"off\"")]);
        assert!(changes(&old, &old).is_empty());
        let new = policy(&[
            ("b", "match = { iface = \"tap1\", server_port = 80 }\nmode = \"watch\""),
            ("d", BBR),
            ("a", BBR),
        ]);
        assert_eq!(
            changes(&old, &new),
            [
                "c removed ",
                "b changed match.iface: tap* -> tap1,match.server_port: [] -> [80],algorithm: reno -> none,mode: transparent -> watch",
                "b moved ",
                "d added ",
            ]
        );
    }

    #[test]
    fn the_fewest_rules_are_called_moved() {
        let names = ["a", "b", "c", "d"].map(|name| (name, BBR));
        let [a, b, c, d] = names;
        assert_eq!(changes(&policy(&[a, b, c, d]), &policy(&[d, a, b, c])), ["d moved "]);
        assert_eq!(changes(&policy(&[a, b, c, d]), &policy(&[b, c, d, a])), ["a moved "]);
    }

    #[test]
    fn a_policys_diff_has_flows_whose_treatment_changes() {
        let of = |port| sample::seen(sample::flow(port));
        let old = policy(&[("wan", BBR)]);
        let renamed = policy(&[("internet", BBR)]);
        assert!(flows(&old, &renamed, &[of(1)]).is_empty(), "the name alone is no change");
        let inside = "match = { iface = \"tap*\", client = \"198.51.100.0/24\" }\nmode = \"watch\"";
        let change = flows(&old, &policy(&[("inside", inside), ("wan", BBR)]), &[of(1), of(2)]);
        assert_eq!(change.len(), 2);
        assert_eq!((change[0].before.as_str(), change[0].after.as_str()), ("wan: bbr", "inside: watched"));
        let other_port = "match = { iface = \"tap*\", server_port = 443 }\nalgorithm = \"bbr\"";
        assert_eq!(flows(&old, &policy(&[("wan", other_port)]), &[of(1)])[0].after, "left alone");
        let off = policy(&[("wan", "match.iface = \"tap*\"\nmode = \"off\"")]);
        assert!(
            flows(&off, &policy(&[("other", "match.iface = \"eth9\"\nalgorithm = \"bbr\"")]), &[of(1)])
                .is_empty()
        );
    }

    #[test]
    fn a_policys_diff_has_cgroups_that_come_and_go() {
        let native = |cgroup| format!("mode = \"native\"\nalgorithm = \"bbr\"\nmatch.cgroup = \"{cgroup}\"");
        let (web, batch) = (native("/web"), native("/batch"));
        let all = cgroups(&policy(&[("a", &web)]), &policy(&[("a", &batch)]));
        let all: Vec<_> = all.iter().map(|c| (c.place.as_str(), c.change)).collect();
        assert_eq!(all, [("/batch", "attached"), ("/web", "released")]);
    }
}
