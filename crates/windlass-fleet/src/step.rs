//! The stages of a rollout, as a function: where it is and what is seen of its nodes, to where it goes.
//!
//! ```text
//! Before --> Apply --> Watch --> Apply --> Watch ... --> done
//!  (stage 0)   |         |      (stage 1)
//!              `---------`--> rolled back: all nodes have again what they had
//! ```

use crate::state::Rollout;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// What is waited for in a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// What nodes show before any has the new policy. Only in the first stage.
    Before,
    /// Nodes put it in force.
    Apply,
    /// What they show with it.
    Watch,
}

/// A node, as it is seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The policy in force.
    pub in_force: Option<String>,
    /// Why it refuses the one that it should have.
    pub refused: Option<String>,
    /// What is wrong with it or its agent, and for how long that has been so.
    pub unwell: Option<(String, Duration)>,
}

/// Where a rollout goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nowhere yet; what is waited for.
    Wait(String),
    /// To this stage and phase.
    To(usize, Phase),
    /// All nodes have it, and have done well.
    Done,
    /// Back, and why.
    Back(String),
}

/// Where a rollout goes from where it has been for `in_phase`. `tripped`: the guard that was exceeded, and by what.
pub fn next(
    rollout: &Rollout,
    nodes: &BTreeMap<String, Seen>,
    tripped: Option<&str>,
    in_phase: Duration,
) -> Next {
    let (stage, stages) = (rollout.stage.saturating_add(1), rollout.stages.len());
    let left = |limit: Duration| limit.saturating_sub(in_phase).as_secs();
    if rollout.phase == Phase::Before {
        let limit = rollout.window();
        return match in_phase >= limit {
            true => Next::To(0, Phase::Apply),
            false => Next::Wait(format!("what nodes show before it, for {} s more", left(limit))),
        };
    }
    if let Some(why) = refusal(rollout, nodes) {
        return Next::Back(why);
    }
    let lagging = lagging(rollout, nodes);
    if rollout.phase == Phase::Apply {
        let limit = Duration::from_secs(rollout.terms.apply_within_s);
        return match (lagging.is_empty(), in_phase >= limit) {
            (true, _) => Next::To(rollout.stage, Phase::Watch),
            (false, false) => Next::Wait(format!(
                "stage {stage} of {stages}: {}, for {} s more",
                few(&lagging),
                left(limit)
            )),
            (false, true) if lagging.len() <= rollout.terms.may_lag => Next::To(rollout.stage, Phase::Watch),
            (false, true) => Next::Back(format!("within {} s {}", limit.as_secs(), few(&lagging))),
        };
    }
    if let Some(why) = tripped {
        return Next::Back(why.into());
    }
    let unwell = unwell(rollout, nodes);
    if unwell.len() > rollout.terms.may_lag {
        return Next::Back(few(&unwell));
    }
    let limit = Duration::from_secs(rollout.terms.wait_s);
    match (in_phase >= limit, stage >= stages) {
        (false, _) => Next::Wait(format!(
            "stage {stage} of {stages}: {} of {} nodes have it, watched for {} s more",
            rollout.taken().len(),
            rollout.nodes.len(),
            left(limit)
        )),
        (true, true) => Next::Done,
        (true, false) => Next::To(stage, Phase::Apply),
    }
}

/// A node that will not have it.
fn refusal(rollout: &Rollout, nodes: &BTreeMap<String, Seen>) -> Option<String> {
    let refused =
        |name: &String| nodes.get(name)?.refused.as_ref().map(|why| format!("{name} refuses it: {why}"));
    rollout.taken().iter().find_map(refused)
}

/// Nodes that should have it in force and do not yet, and why.
fn lagging(rollout: &Rollout, nodes: &BTreeMap<String, Seen>) -> Vec<String> {
    let why = |name: &String| {
        let Some(seen) = nodes.get(name) else { return Some(format!("{name} is gone")) };
        if seen.in_force.as_deref() != Some(&rollout.policy) {
            return Some(format!("{name} has not put it in force"));
        }
        let unwell = seen.unwell.as_ref().filter(|_| !rollout.ailing.contains(name))?;
        Some(format!("{name}: {}", unwell.0))
    };
    rollout.taken().iter().filter_map(why).collect()
}

/// Nodes that had it in force, and are gone, have lost it, or whose agents have not been well for too long.
fn unwell(rollout: &Rollout, nodes: &BTreeMap<String, Seen>) -> Vec<String> {
    let limit = Duration::from_secs(rollout.terms.unwell_for_s);
    let why = |name: &String| {
        let Some(seen) = nodes.get(name) else { return Some(format!("{name} is gone")) };
        let judged = seen.unwell.as_ref().filter(|_| !rollout.ailing.contains(name));
        judged.filter(|(_, so_long)| *so_long >= limit).map(|(what, _)| format!("{name}: {what}"))
    };
    rollout.taken().iter().filter_map(why).collect()
}

/// Some of them, and how many there are.
fn few(all: &[String]) -> String {
    const SHOWN: usize = 3;
    match all.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{}; and {more} more", all[..SHOWN].join("; ")),
        _ => all.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::rollout;
    use proptest::prelude::*;

    fn seen(policy: &str) -> Seen {
        Seen { in_force: Some(policy.into()), ..Seen::default() }
    }

    fn nodes(policies: [&str; 4]) -> BTreeMap<String, Seen> {
        ["a", "b", "c", "d"]
            .into_iter()
            .zip(policies)
            .map(|(name, policy)| (name.into(), seen(policy)))
            .collect()
    }

    const NEVER: Duration = Duration::ZERO;
    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn a_rollout_goes_through_its_stages_and_is_done() {
        let mut now = rollout(&[1, 2, 4], 0, Phase::Before);
        let all = nodes(["new"; 4]);
        let mut way = vec![];
        loop {
            match next(&now, &all, None, LONG) {
                Next::To(stage, phase) => (now.stage, now.phase) = (stage, phase),
                end => break assert_eq!(end, Next::Done),
            }
            way.push((now.stage, now.phase));
        }
        let expected = [0, 1, 2].map(|stage| [(stage, Phase::Apply), (stage, Phase::Watch)]).concat();
        assert_eq!(way, expected);
    }

    #[test]
    fn nodes_are_waited_for_and_those_that_lag_too_long_end_it() {
        let now = rollout(&[2, 4], 0, Phase::Apply);
        let some = nodes(["new", "old", "old", "old"]);
        let Next::Wait(why) = next(&now, &some, None, NEVER) else { panic!("it has time") };
        assert!(why.contains("b has not put it in force") && !why.contains("c has"), "{why}");
        let Next::Back(why) = next(&now, &some, None, LONG) else { panic!("it lags") };
        assert_eq!(why, "within 20 s b has not put it in force");
        let mut lenient = now.clone();
        lenient.terms.may_lag = 1;
        assert_eq!(next(&lenient, &some, None, LONG), Next::To(0, Phase::Watch));
        let mut gone = some;
        gone.remove("b");
        assert!(matches!(next(&now, &gone, None, LONG), Next::Back(why) if why.contains("b is gone")));
    }

    #[test]
    fn a_guard_ends_it_only_while_nodes_are_watched() {
        let all = nodes(["new"; 4]);
        let at = |phase| next(&rollout(&[1, 4], 0, phase), &all, Some("loss"), NEVER);
        assert_eq!(at(Phase::Watch), Next::Back("loss".into()));
        assert!(matches!(at(Phase::Before), Next::Wait(_)));
        assert_eq!(at(Phase::Apply), Next::To(0, Phase::Watch));
    }

    #[test]
    fn a_node_that_refuses_it_ends_it_at_once() {
        let mut all = nodes(["old"; 4]);
        all.get_mut("b").unwrap().refused = Some("no such key".into());
        assert!(
            matches!(next(&rollout(&[1, 4], 0, Phase::Apply), &all, None, NEVER), Next::Wait(_)),
            "not its turn"
        );
        let back = next(&rollout(&[2, 4], 0, Phase::Apply), &all, None, NEVER);
        assert_eq!(back, Next::Back("b refuses it: no such key".into()));
    }

    #[test]
    fn an_agent_that_is_unwell_too_long_ends_it_unless_it_was_before() {
        let mut now = rollout(&[1, 4], 0, Phase::Watch);
        let mut all = nodes(["new", "old", "old", "old"]);
        all.get_mut("a").unwrap().unwell = Some(("clock stands still".into(), Duration::from_secs(9)));
        assert!(matches!(next(&now, &all, None, NEVER), Next::Wait(_)));
        all.get_mut("a").unwrap().unwell = Some(("clock stands still".into(), Duration::from_secs(10)));
        assert_eq!(next(&now, &all, None, NEVER), Next::Back("a: clock stands still".into()));
        now.ailing.push("a".into());
        assert!(matches!(next(&now, &all, None, NEVER), Next::Wait(_)));
        all.remove("a");
        assert_eq!(next(&now, &all, None, NEVER), Next::Back("a is gone".into()));
    }

    fn any_seen() -> impl Strategy<Value = Option<Seen>> {
        let one = ("(new|old)", prop::option::weighted(0.1, "x"), prop::option::of(0u64..30));
        prop::option::of(one.prop_map(|(policy, refused, unwell)| Seen {
            in_force: Some(policy),
            refused,
            unwell: unwell.map(|seconds| ("unwell".into(), Duration::from_secs(seconds))),
        }))
    }

    proptest! {
        #[test]
        fn a_rollout_never_skips_a_stage_and_ends_only_where_all_nodes_are_taken(
            seen in prop::collection::vec(any_seen(), 4),
            stage in 0usize..3,
            phase in prop::sample::select(vec![Phase::Apply, Phase::Watch]),
            tripped in prop::option::weighted(0.2, "loss"),
            may_lag in 0usize..4,
            in_phase in 0u64..200,
        ) {
            let mut now = rollout(&[1, 2, 4], stage, phase);
            now.terms.may_lag = may_lag;
            let names = ["a", "b", "c", "d"].map(String::from);
            let nodes: BTreeMap<String, Seen> =
                names.into_iter().zip(seen).filter_map(|(name, seen)| Some((name, seen?))).collect();
            match next(&now, &nodes, tripped.as_deref(), Duration::from_secs(in_phase)) {
                Next::To(to, phase) => {
                    let is_watch = (to, phase) == (stage, Phase::Watch) && now.phase == Phase::Apply;
                    let is_stage = (to, phase) == (stage + 1, Phase::Apply) && now.phase == Phase::Watch;
                    prop_assert!(is_watch || is_stage);
                    if now.phase == Phase::Watch {
                        prop_assert!(in_phase >= 60 && tripped.is_none());
                    }
                    let refuse = now.taken().iter().any(|n| nodes.get(n).is_some_and(|s| s.refused.is_some()));
                    prop_assert!(!refuse);
                }
                Next::Done => prop_assert!(stage == 2 && phase == Phase::Watch && in_phase >= 60 && tripped.is_none()),
                Next::Back(why) => prop_assert!(!why.is_empty()),
                Next::Wait(why) => prop_assert!(!why.is_empty() && in_phase < 60),
            }
        }
    }
}
