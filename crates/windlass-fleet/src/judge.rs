//! Whether nodes with a new policy stay within a rollout's guards: what they count, compared with what they counted before, and with
//! nodes that keep the older policy.

use crate::{
    agent_metrics::Counts,
    guard::Guard,
    state::{NodeStatus, Rollout},
    step::{Phase, Seen},
};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Samples of a node that are kept, at most.
const SAMPLES_MOST: usize = 4096;

/// What nodes have counted so far. Times are since any moment, by one clock.
#[derive(Debug, Default)]
pub struct Judge {
    nodes: BTreeMap<String, Node>,
}

/// What is kept of a node.
#[derive(Debug, Default)]
struct Node {
    /// The version of its status in etcd that was seen last.
    version: i64,
    /// When statuses came, and what was counted by then.
    samples: VecDeque<(Duration, Counts)>,
    /// What was wrong when it was seen last, and since when something was.
    unwell: Option<(String, Duration)>,
    in_force: Option<String>,
    refused: Option<String>,
    /// What it counted in the guards' window before it got the new policy, by window.
    before: BTreeMap<Duration, Counts>,
}

/// What the guards find.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The first guard that is exceeded, and by what.
    pub tripped: Option<String>,
    /// Guards for which too little was sent.
    pub unjudged: Vec<String>,
}

/// A status, as it was read.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    /// The node.
    pub name: &'a str,
    /// What it last reported.
    pub status: &'a NodeStatus,
    /// That version of it, which grows.
    pub version: i64,
    /// Its lease goes on.
    pub is_alive: bool,
}

impl Judge {
    /// Takes in what was read of all nodes at that time.
    pub fn see(&mut self, readings: &[Reading<'_>], at: Duration) {
        self.nodes.retain(|name, _| readings.iter().any(|reading| reading.name == name));
        for reading in readings {
            let node = self.nodes.entry(reading.name.into()).or_default();
            let what = match reading.is_alive {
                false => Some("its lease is gone".to_string()),
                true => reading.status.unwell.clone(),
            };
            let since = node.unwell.as_ref().map_or(at, |(_, since)| *since);
            node.unwell = what.map(|what| (what, since));
            node.in_force.clone_from(&reading.status.in_force);
            node.refused.clone_from(&reading.status.refused);
            if node.version == reading.version {
                continue;
            }
            node.version = reading.version;
            if let Some(counts) = reading.status.counts {
                node.samples.push_back((at, counts));
                if node.samples.len() > SAMPLES_MOST {
                    node.samples.pop_front();
                }
            }
        }
    }

    /// Nodes are about to get the new policy: what they counted in the guards' windows until now is what they counted before it.
    pub fn mark_before(&mut self, names: &[String], guards: &[Guard]) {
        for (name, node) in &mut self.nodes {
            if names.contains(name) {
                let counted =
                    |guard: &Guard| Some((guard.window, node.counted(guard.window, Duration::ZERO)?));
                node.before = guards.iter().filter_map(counted).collect();
            }
        }
    }

    /// The nodes, as the stages go by them.
    pub fn seen(&self, at: Duration) -> BTreeMap<String, Seen> {
        let of = |node: &Node| Seen {
            in_force: node.in_force.clone(),
            refused: node.refused.clone(),
            unwell: node.unwell.as_ref().map(|(what, since)| (what.clone(), at.saturating_sub(*since))),
        };
        self.nodes.iter().map(|(name, node)| (name.clone(), of(node))).collect()
    }

    /// What the guards of the rollout find, which has been in its phase since then.
    pub fn judge(&self, rollout: &Rollout, phase_since: Duration, at: Duration) -> Verdict {
        let mut verdict = Verdict::default();
        if rollout.phase != Phase::Watch {
            return verdict;
        }
        for guard in &rollout.guards {
            if at.saturating_sub(phase_since) < guard.window {
                continue;
            }
            let fresh = self.sum(|name, node| {
                rollout.fresh().contains(name).then(|| node.counted(guard.window, phase_since)).flatten()
            });
            let before = self.sum(|name, node| {
                rollout.fresh().contains(name).then(|| node.before.get(&guard.window).copied()).flatten()
            });
            let others = self.sum(|name, node| {
                let is_other = rollout.nodes.contains(name) && !rollout.taken().contains(name);
                is_other.then(|| node.counted(guard.window, phase_since)).flatten()
            });
            let share = |counts: Option<Counts>| guard.figure.share(&counts?);
            let Some(now) = share(fresh) else {
                verdict.unjudged.push(guard.to_string());
                continue;
            };
            let known: Vec<(&str, f64)> =
                [("before", share(before)), ("on nodes with the older policy", share(others))]
                    .into_iter()
                    .filter_map(|(what, share)| Some((what, share?)))
                    .collect();
            if guard.is_exceeded(now, &known) && verdict.tripped.is_none() {
                verdict.tripped = Some(in_words(guard, now, &known));
            }
        }
        verdict
    }

    fn sum(&self, counts: impl Fn(&String, &Node) -> Option<Counts>) -> Option<Counts> {
        let all = self.nodes.iter().filter_map(|(name, node)| counts(name, node));
        all.reduce(|sum, counts| sum.plus(&counts))
    }
}

impl Node {
    /// What was counted in a window that ends with the last sample, from none of before `from`. None: too few samples.
    fn counted(&self, window: Duration, from: Duration) -> Option<Counts> {
        let (end, last) = self.samples.back()?;
        let begin = end.saturating_sub(window).max(from);
        // a sample may have come a little after the window began
        let (_, first) = self.samples.iter().find(|(at, _)| *at >= begin).filter(|(at, _)| at < end)?;
        last.since(first)
    }
}

fn in_words(guard: &Guard, now: f64, known: &[(&str, f64)]) -> String {
    let per_cent = |share: f64| format!("{:.2} %", share * 100.0);
    let mut words = format!("guard {guard}: {} {} with it", guard.figure.name(), per_cent(now));
    for (what, share) in known {
        words += &format!(", {} {what}", per_cent(*share));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::rollout;
    use proptest::prelude::*;

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// A node's status after so many segments, of which so many were lost.
    fn status(segs: u64, lost_segs: u64) -> NodeStatus {
        let counts = Counts { controlled_bytes: segs * 1448, lost_segs, ..Counts::default() };
        NodeStatus { counts: Some(counts), in_force: Some("new".into()), ..NodeStatus::default() }
    }

    fn see(judge: &mut Judge, at: u64, statuses: &[(&str, NodeStatus)]) {
        let readings: Vec<Reading<'_>> = statuses
            .iter()
            .map(|(name, status)| Reading { name, status, version: at as i64 + 1, is_alive: true })
            .collect();
        judge.see(&readings, seconds(at));
    }

    /// a gets the new policy at 40 s. It loses `lost` of 10,000 segments in the window before, and thereafter; b always `elsewhere`.
    fn verdict(lost: [u64; 2], elsewhere: u64) -> Verdict {
        let mut judge = Judge::default();
        let guards = ["loss<2%,2x,30s".parse().unwrap()];
        for (at, share) in [(10, 0), (40, lost[0]), (70, lost[0] + lost[1])] {
            let segs = (at / 30) * 10_000 + 10_000;
            let others = (at / 30) * elsewhere;
            see(&mut judge, at, &[("a", status(segs, share)), ("b", status(segs, others))]);
            if at == 40 {
                judge.mark_before(&["a".into()], &guards);
            }
        }
        judge.judge(&rollout(&[1, 4], 0, Phase::Watch), seconds(40), seconds(70))
    }

    #[test]
    fn canaries_that_lose_more_than_before_and_than_others_trip_the_guard() {
        let tripped = verdict([100, 500], 100).tripped.expect("5 % after 1 %");
        assert_eq!(
            tripped,
            "guard loss<2%,2x,30s: loss 5.00 % with it, 1.00 % before, 1.00 % on nodes with the older policy"
        );
        assert_eq!(verdict([100, 150], 100).tripped, None, "within the bound");
        assert_eq!(verdict([300, 500], 100).tripped, None, "not twice as much as before");
        assert_eq!(verdict([100, 500], 300).tripped, None, "all nodes lose more now");
    }

    #[test]
    fn canaries_that_send_too_little_are_not_judged_and_that_is_noted() {
        let mut judge = Judge::default();
        for at in [40, 70] {
            see(&mut judge, at, &[("a", status(at * 10, at))]);
        }
        let verdict = judge.judge(&rollout(&[1, 4], 0, Phase::Watch), seconds(40), seconds(70));
        assert_eq!(verdict, Verdict { tripped: None, unjudged: vec!["loss<2%,2x,30s".into()] });
    }

    #[test]
    fn guards_wait_for_their_window_and_count_nothing_of_before() {
        let mut judge = Judge::default();
        see(&mut judge, 30, &[("a", status(0, 0))]);
        see(&mut judge, 41, &[("a", status(10_000, 9_000))]);
        see(&mut judge, 71, &[("a", status(20_000, 9_010))]);
        let watch = rollout(&[1, 4], 0, Phase::Watch);
        assert_eq!(judge.judge(&watch, seconds(41), seconds(60)), Verdict::default());
        assert_eq!(judge.judge(&watch, seconds(41), seconds(71)).tripped, None);
        assert!(judge.judge(&watch, seconds(30), seconds(71)).tripped.is_none());
        let apply = rollout(&[1, 4], 0, Phase::Apply);
        assert_eq!(judge.judge(&apply, seconds(0), seconds(71)), Verdict::default());
    }

    #[test]
    fn a_node_is_unwell_since_something_was_wrong_first() {
        let mut judge = Judge::default();
        let mut one = status(0, 0);
        let mut reads = |unwell: Option<&str>, is_alive, at| {
            one.unwell = unwell.map(String::from);
            judge.see(&[Reading { name: "a", status: &one, version: 1, is_alive }], seconds(at));
            judge.seen(seconds(at))["a"].unwell.clone()
        };
        assert_eq!(reads(None, true, 1), None);
        assert_eq!(reads(Some("not ready"), true, 2), Some(("not ready".into(), seconds(0))));
        assert_eq!(reads(None, false, 5), Some(("its lease is gone".into(), seconds(3))));
        assert_eq!(reads(None, true, 6), None);
    }

    proptest! {
        #[test]
        fn no_counts_break_the_judge(samples in prop::collection::vec((0u64..200, any::<[u64; 6]>(), "[abcd]"), 0..40)) {
            let mut judge = Judge::default();
            let guards = Guard::usual(seconds(60));
            for (at, [a, b, c, d, e, f], name) in samples {
                let counts = Counts {
                    controlled_bytes: a, watched_bytes: b, lost_segs: c, sender_retransmits: d,
                    controllable_flows: e, bypassed_flows: f,
                };
                let status = NodeStatus { counts: Some(counts), ..NodeStatus::default() };
                see(&mut judge, at, &[(&name, status)]);
                judge.mark_before(&["a".into()], &guards);
                let mut now = rollout(&[1, 4], 0, Phase::Watch);
                now.guards.clone_from(&guards);
                judge.judge(&now, Duration::ZERO, seconds(at));
            }
        }
    }
}
