//! What is in the metrics at one moment.

use super::histograms::Examples;
use crate::health::Health;
use anyhow::Result;
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use windlass_agent::{FlowKind, FlowSums, FlowsOfKind, Usage, View, ended_counters};

/// So many pairs of rule and algorithm have metrics of their own. All others are one more.
const RULES_MOST: usize = 256;
/// So many interfaces, which is what tenants are known by: those with most flows. Again all others are one more.
pub const DEVICES_MOST: usize = 100;
/// What those are called.
const OTHER: &str = "other";
/// The rule of flows to which none applies.
const NO_RULE: &str = "none";

/// Where it is read from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// One for each datapath.
    pub views: Vec<View>,
    /// Of each interface, by its index: its name, and those of the rules in force there.
    pub devices: BTreeMap<u32, (String, Arc<[String]>)>,
    /// All datapaths are known. An agent that starts has not taken them over yet: sums would be too small.
    pub is_complete: bool,
    /// None: they are not those of an agent.
    pub health: Option<Health>,
    /// SHA-256 of the policy's file, as it was when it was put in force; none: not known.
    pub policy_hash: Option<String>,
    /// The same of a later file that was refused.
    pub refused_hash: Option<String>,
}

/// Rule, algorithm and state.
pub type Labels = (String, &'static str, &'static str);

/// What flows behind an interface are and have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceUse {
    pub flows: u64,
    /// Of the store.
    pub held_bytes: u64,
}

impl DeviceUse {
    fn add(&mut self, more: DeviceUse) {
        self.flows += more.flows;
        self.held_bytes += more.held_bytes;
    }
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// As of the sources.
    pub is_complete: bool,
    /// By name, of all datapaths, those that were removed included.
    pub counters: BTreeMap<String, u64>,
    /// Of all datapaths.
    pub usage: Usage,
    /// How many flows there are.
    pub flows: BTreeMap<Labels, u64>,
    /// The same behind each interface.
    pub devices: BTreeMap<String, DeviceUse>,
    pub interfaces: usize,
    pub health: Option<Health>,
    pub policy_hash: Option<String>,
    pub refused_hash: Option<String>,
    /// What flows did; none: histograms are not wanted.
    pub sums: Option<FlowSums>,
    /// Flows as examples of it.
    pub examples: Examples,
    /// How often rules, algorithms or interfaces had no metrics of their own.
    pub truncated: u64,
    /// How long reading took.
    pub took: Duration,
}

/// Reads it again and again.
#[derive(Debug, Default)]
pub struct Reader {
    /// Counters as they were shown.
    shown: BTreeMap<String, u64>,
    truncated: u64,
}

impl Reader {
    pub fn read(&mut self, sources: &Sources) -> Result<Snapshot> {
        let started = Instant::now();
        if !sources.is_complete {
            return Ok(Snapshot { health: sources.health.clone(), ..Snapshot::default() });
        }
        // before what is counted now: what ends meanwhile is missing in this sum, and not in it twice
        let ended = ended_counters();
        let mut counters = ended.sums;
        let mut usage = Usage::default();
        let mut kinds: BTreeMap<FlowKind, FlowsOfKind> = BTreeMap::new();
        let there = sources.views.iter().filter(|view| !ended.numbers.contains(&view.number()));
        for view in there {
            view.counters()?.into_iter().for_each(|(name, n)| *counters.entry(name).or_default() += n);
            add(&mut usage, &view.usage()?);
            kinds.extend(view.flow_kinds()?);
        }
        self.never_less(&mut counters);
        let (flows, devices) = self.count(&kinds, &sources.devices);
        Ok(Snapshot {
            is_complete: true,
            counters,
            usage,
            flows,
            devices,
            interfaces: sources.devices.len(),
            health: sources.health.clone(),
            policy_hash: sources.policy_hash.clone(),
            refused_hash: sources.refused_hash.clone(),
            sums: None,
            examples: Examples::default(),
            truncated: self.truncated,
            took: started.elapsed(),
        })
    }

    /// A datapath that ends just now may be in neither sum. A counter that falls would be taken for one that began anew.
    fn never_less(&mut self, counters: &mut BTreeMap<String, u64>) {
        for (name, count) in counters {
            let shown = self.shown.entry(name.clone()).or_default();
            *shown = (*shown).max(*count);
            *count = *shown;
        }
    }

    fn count(
        &mut self,
        kinds: &BTreeMap<FlowKind, FlowsOfKind>,
        devices: &BTreeMap<u32, (String, Arc<[String]>)>,
    ) -> (BTreeMap<Labels, u64>, BTreeMap<String, DeviceUse>) {
        let mut of_rules: BTreeMap<(String, &'static str), BTreeMap<&'static str, u64>> = BTreeMap::new();
        let mut of_devices: BTreeMap<String, DeviceUse> =
            devices.values().map(|(name, _)| (name.clone(), DeviceUse::default())).collect();
        for (kind, of_kind) in kinds {
            // those of an interface that was released since end with it
            let Some((device, rules)) = devices.get(&kind.ifindex) else { continue };
            let rule = match kind.rule {
                None => NO_RULE.to_string(),
                Some(rule) => rules.get(rule as usize).cloned().unwrap_or_else(|| format!("rule {rule}")),
            };
            let algorithm = if kind.rule.is_some() { kind.algorithm } else { NO_RULE };
            let states = of_rules.entry((rule, algorithm)).or_default();
            *states.entry(kind.state).or_default() += of_kind.flows;
            let used = DeviceUse { flows: of_kind.flows, held_bytes: of_kind.held_bytes };
            of_devices.entry(device.clone()).or_default().add(used);
        }
        let (of_rules, cut_rules) = cut(
            of_rules,
            RULES_MOST,
            |_| 0,
            || (OTHER.into(), OTHER),
            |sum, states| {
                states.into_iter().for_each(|(state, n)| *sum.entry(state).or_default() += n);
            },
        );
        let (of_devices, cut_devices) =
            cut(of_devices, DEVICES_MOST, |used| used.flows, || OTHER.into(), DeviceUse::add);
        self.truncated += u64::from(cut_rules) + u64::from(cut_devices);
        let flat = of_rules.into_iter().flat_map(|((rule, algorithm), states)| {
            states.into_iter().map(move |(state, n)| ((rule.clone(), algorithm, state), n))
        });
        (flat.collect(), of_devices)
    }
}

fn add(sum: &mut Usage, usage: &Usage) {
    sum.store_bytes += usage.store_bytes;
    sum.store_used_bytes += usage.store_used_bytes;
    sum.flows_max += usage.flows_max;
    sum.flows_used += usage.flows_used;
    sum.flows_without_rule += usage.flows_without_rule;
}

/// Those with the highest rank, so many, of equals the first; and all others as one. Returns whether there are such.
fn cut<K: Ord, V: Default>(
    all: BTreeMap<K, V>,
    most: usize,
    rank: impl Fn(&V) -> u64,
    other: impl FnOnce() -> K,
    mut add: impl FnMut(&mut V, V),
) -> (BTreeMap<K, V>, bool) {
    if all.len() <= most {
        return (all, false);
    }
    let mut ranked: Vec<(K, V)> = all.into_iter().collect();
    // of equals the order stays
    ranked.sort_by_key(|(_, value)| Reverse(rank(value)));
    let mut rest = V::default();
    ranked.drain(most..).for_each(|(_, value)| add(&mut rest, value));
    let mut kept: BTreeMap<K, V> = ranked.into_iter().collect();
    // something may be called so
    add(kept.entry(other()).or_default(), rest);
    (kept, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(ifindex: u32, rule: Option<u32>, state: &'static str) -> FlowKind {
        FlowKind { ifindex, rule, algorithm: "bbr", state }
    }

    fn devices(count: u32) -> BTreeMap<u32, (String, Arc<[String]>)> {
        let rules: Arc<[String]> = ["wan".to_string()].into();
        (1..=count).map(|index| (index, (format!("tap{index:04}"), rules.clone()))).collect()
    }

    fn flows(flows: u64, held_bytes: u64) -> FlowsOfKind {
        FlowsOfKind { flows, held_bytes }
    }

    #[test]
    fn metrics_count_flows_by_rule_algorithm_and_state_and_by_device() {
        let kinds = BTreeMap::from([
            (kind(1, Some(0), "controlled"), flows(3, 100)),
            (kind(2, Some(0), "controlled"), flows(4, 50)),
            (kind(2, Some(7), "watched"), flows(1, 7)),
            (kind(2, None, "off"), flows(2, 0)),
            (kind(9, Some(0), "controlled"), flows(100, 1)),
        ]);
        let mut reader = Reader::default();
        let (of_rules, of_devices) = reader.count(&kinds, &devices(3));
        let expected: [(Labels, u64); 3] = [
            (("none".into(), "none", "off"), 2),
            (("rule 7".into(), "bbr", "watched"), 1),
            (("wan".into(), "bbr", "controlled"), 7),
        ];
        assert_eq!(of_rules, BTreeMap::from(expected));
        let expected = [("tap0001", 3, 100), ("tap0002", 7, 57), ("tap0003", 0, 0)]
            .map(|(name, flows, held_bytes)| (name.to_string(), DeviceUse { flows, held_bytes }));
        assert_eq!(of_devices, BTreeMap::from(expected));
        assert_eq!(reader.truncated, 0);
    }

    #[test]
    fn metrics_of_more_rules_and_devices_than_have_room_are_one_more_and_that_is_counted() {
        let kinds: BTreeMap<_, _> = (0..300)
            .map(|n| (kind(n + 1, Some(n), "controlled"), flows(1 + u64::from(n == 299), 10)))
            .collect();
        let mut reader = Reader::default();
        let (of_rules, of_devices) = reader.count(&kinds, &devices(300));
        assert_eq!((of_rules.len(), of_devices.len()), (RULES_MOST + 1, DEVICES_MOST + 1));
        assert_eq!(of_rules[&("other".into(), "other", "controlled")], 300 - RULES_MOST as u64);
        // the one with most flows is the last by name
        let rest = 300 - DEVICES_MOST as u64;
        assert_eq!(of_devices["tap0300"].flows, 2);
        assert_eq!(of_devices["other"], DeviceUse { flows: rest, held_bytes: 10 * rest });
        assert!(of_devices.contains_key("tap0099") && !of_devices.contains_key("tap0100"));
        assert_eq!(reader.truncated, 2);
        reader.count(&BTreeMap::new(), &devices(1));
        assert_eq!(reader.truncated, 2, "nothing was cut");
    }

    #[test]
    fn metrics_counters_do_not_fall() {
        let mut reader = Reader::default();
        let counts = |n| BTreeMap::from([("lost_segs".to_string(), n)]);
        for (read, shown) in [(5, 5), (3, 5), (7, 7)] {
            let mut counters = counts(read);
            reader.never_less(&mut counters);
            assert_eq!(counters, counts(shown));
        }
    }
}
