//! Which metric a counter of the datapath is.

/// A metric that counts something, without the program's prefix, unit and `_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    /// Counts bytes, which its name ends with.
    pub is_of_bytes: bool,
}

const fn family(name: &'static str, help: &'static str) -> Family {
    Family { name, help, is_of_bytes: false }
}

const fn bytes(name: &'static str, help: &'static str) -> Family {
    Family { name, help, is_of_bytes: true }
}

const PASSED: Family = family("passed_packets", "Packets that passed unchanged, by reason.");
const BYPASSES: Family =
    family("bypasses", "Times that a controlled flow was left to its server for a while, by reason.");
const ENDED: Family = family("flows_ended", "Flows that have ended or were forgotten, by reason.");
const ONLY_WATCHED: Family =
    family("flows_only_watched", "Flows that could have been controlled and are only watched, by reason.");
const EVENTS: Family =
    family("events", "What else the datapath counts, by the name that the command counters has for it.");

/// Counters that are metrics of their own.
const OWN: [(&str, Family); 20] = [
    ("packets_from_sender", family("packets_from_servers", "Packets seen from controlled servers.")),
    ("packets_to_sender", family("packets_to_servers", "Packets seen towards controlled servers.")),
    ("stored_bytes", bytes("controlled", "Payload bytes of controlled flows, which are stored for repair.")),
    ("watched_bytes", bytes("watched", "Payload bytes of flows that are only watched.")),
    ("flows_created", family("flows_created", "Flows that have begun.")),
    (
        "flows_not_paced",
        family("flows_controlled_again", "Flows whose server does not pace itself after all."),
    ),
    ("pass_no_rule", family("flows_without_rule", "Flows left alone, as no rule matched when they began.")),
    ("bypass_ended", family("bypasses_ended", "Bypasses that ended, with all in flight in the store again.")),
    ("lost_segs", family("lost_segments", "Segments found lost.")),
    ("repaired_segs", family("repaired_segments", "Segments retransmitted by the box.")),
    ("repaired_bytes", bytes("repaired", "Payload bytes retransmitted by the box.")),
    ("repair_failed", family("failed_repairs", "Failed tries to retransmit a segment.")),
    ("sender_retrans", family("sender_retransmits", "Retransmissions by servers themselves.")),
    (
        "sender_retrans_absorbed",
        family("sender_retransmits_absorbed", "Of these, absorbed: already on their way, or arrived."),
    ),
    ("timeouts", family("timeouts", "Retransmission timeouts of the box.")),
    ("undos", family("undone_reductions", "Reductions of windows that were spurious, and undone.")),
    ("window_updates", family("window_updates", "Window updates sent by the clock.")),
    ("clock_ticks", family("clock_ticks", "Rounds of the in-kernel clock.")),
    ("flow_records", family("flow_records", "Records made of flows, lost ones included.")),
    (
        "flow_records_lost",
        family("flow_records_lost", "Records of flows that were lost, as the ring was full."),
    ),
];

/// The metric of this counter, and its reason there.
pub fn place(counter: &str) -> (Family, Option<&str>) {
    if let Some((_, family)) = OWN.iter().find(|(name, _)| *name == counter) {
        return (*family, None);
    }
    match counter {
        "flows_closed" => (ENDED, Some("closed")),
        "flows_expired" => (ENDED, Some("idle")),
        "flows_reclaimed" => (ENDED, Some("reclaimed")),
        "flows_released" => (ENDED, Some("released")),
        "flows_watch_only" => (ONLY_WATCHED, Some("options")),
        "flows_mid_stream" => (ONLY_WATCHED, Some("mid_stream")),
        "flows_paced_sender" => (ONLY_WATCHED, Some("paced_sender")),
        _ => match (counter.strip_prefix("pass_"), counter.strip_prefix("bypass_")) {
            (Some(reason), _) => (PASSED, Some(reason)),
            (_, Some(reason)) => (BYPASSES, Some(reason)),
            _ => (EVENTS, Some(counter)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn metrics_names_have_one_place_for_each_counter() {
        let counters = windlass_core::counters();
        let places: BTreeSet<_> = counters.iter().map(|c| place(&c.name)).collect();
        assert_eq!(places.len(), counters.len());
        // none is of a counter that there is no more
        assert!(OWN.iter().all(|(name, _)| counters.iter().any(|c| c.name == *name)));
        assert_eq!(place("pass_table_full"), (PASSED, Some("table_full")));
        assert_eq!(place("bypass_store_full"), (BYPASSES, Some("store_full")));
        assert_eq!(place("data_gaps"), (EVENTS, Some("data_gaps")));
    }

    #[test]
    fn metrics_names_of_a_family_are_one_family() {
        let counters = windlass_core::counters();
        let families: BTreeSet<Family> = counters.iter().map(|c| place(&c.name).0).collect();
        let names: BTreeSet<&str> = families.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), families.len());
        assert!(families.iter().all(|f| f.help.ends_with('.') && !f.name.ends_with("_total")));
    }
}
