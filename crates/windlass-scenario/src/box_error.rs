//! Whether the box of a run controlled anything.

use crate::{Mode, Windlass};
use std::collections::BTreeMap;
use windlass_core::counters;

/// Counters of flows that the box knows and does not control from their beginning on.
const NOT_CONTROLLED: [&str; 4] = ["flows_watch_only", "flows_accecn", "flows_mid_stream", "pass_no_rule"];

/// Why the box, which counted this, controlled none of a run's flows, and the cure; none: it controlled some, or had to watch
/// only. Flows that it handed back later were controlled.
pub fn box_error(windlass: &Windlass, counted: &BTreeMap<String, u64>) -> Option<String> {
    let count = |name: &str| counted.get(name).copied().unwrap_or(0);
    let created = count("flows_created");
    let is_any_controlled = created > NOT_CONTROLLED.map(count).iter().sum::<u64>();
    // no payload is stored but that of controlled flows
    if windlass.mode == Mode::Watch || is_any_controlled || count("stored_bytes") > 0 {
        return None;
    }
    let Windlass { at, facing, .. } = windlass;
    let packets = count("packets_from_sender") + count("packets_to_sender");
    Some(match (packets, created) {
        (0, _) => format!(
            "the box controlled no flow: no packet passed between {facing} and {at}; `facing` must name the neighbour of {at} \
             through which a sender's packets come"
        ),
        (_, 0) => format!(
            "the box controlled no flow: none of the {packets} packets between {facing} and {at} began one ({})",
            reasons(counted)
        ),
        _ => format!(
            "the box controlled no flow: it left all {created} that it observed to their senders ({})",
            reasons(counted)
        ),
    })
}

/// Counters that may explain it, with what they count.
fn reasons(counted: &BTreeMap<String, u64>) -> String {
    let explains = |name: &str| name.starts_with("pass_") || NOT_CONTROLLED.contains(&name);
    let nonzero = counters().into_iter().filter(|c| explains(&c.name)).filter_map(|c| {
        let n = *counted.get(&c.name).filter(|n| **n > 0)?;
        Some(format!("{} {n}, {}", c.name, c.meaning))
    });
    let reasons: Vec<String> = nonzero.collect();
    if reasons.is_empty() { "no counter has a reason".into() } else { reasons.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(mode: Mode, counted: &[(&str, u64)]) -> Option<String> {
        let (at, facing) = ("box".to_string(), "server".to_string());
        let windlass = Windlass { at, facing, algorithm: "bbr".into(), mode, group: None };
        box_error(&windlass, &counted.iter().map(|(name, n)| (name.to_string(), *n)).collect())
    }

    const SEEN: (&str, u64) = ("packets_from_sender", 9);

    #[test]
    fn a_box_that_controlled_a_flow_has_no_error() {
        assert_eq!(error(Mode::Transparent, &[SEEN, ("flows_created", 1)]), None, "of no payload");
        let mixed = [SEEN, ("flows_created", 3), ("flows_watch_only", 1), ("flows_mid_stream", 1)];
        assert_eq!(error(Mode::Transparent, &mixed), None);
        let handed_back = [SEEN, ("flows_created", 1), ("flows_paced_sender", 1), ("stored_bytes", 9)];
        assert_eq!(error(Mode::Transparent, &handed_back), None);
    }

    #[test]
    fn a_box_that_had_to_watch_has_no_error() {
        assert_eq!(error(Mode::Watch, &[SEEN]), None);
        assert_eq!(error(Mode::Watch, &[]), None);
    }

    #[test]
    fn a_box_without_packets_faces_the_wrong_neighbour() {
        let error = error(Mode::Transparent, &[]).expect("nothing was controlled");
        assert!(
            error.contains("no packet passed between server and box") && error.contains("`facing`"),
            "{error}"
        );
    }

    #[test]
    fn packets_that_began_no_flow_are_listed_by_reason() {
        let counted = [SEEN, ("packets_to_sender", 3), ("pass_not_tcp", 12), ("clock_ticks", 5)];
        let error = error(Mode::Transparent, &counted).expect("nothing was controlled");
        assert!(error.contains("none of the 12 packets between server and box began one"), "{error}");
        assert!(error.contains("(pass_not_tcp 12, passed: not TCP") && !error.contains("clock"), "{error}");
    }

    #[test]
    fn flows_that_were_only_watched_were_not_controlled() {
        let counted = [SEEN, ("flows_created", 2), ("flows_watch_only", 2)];
        let error = error(Mode::Transparent, &counted).expect("nothing was controlled");
        assert!(
            error.contains("all 2 that it observed") && error.contains("(flows_watch_only 2, "),
            "{error}"
        );
    }
}
