//! What an agent's metrics report of its policy and its flows, in Prometheus' text format 0.0.4.

use serde::{Deserialize, Serialize};

/// What guards go by. Sums since the machine started, but for flows, which are those of the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Payload of controlled flows.
    pub controlled_bytes: u64,
    /// Payload of flows that are only watched.
    pub watched_bytes: u64,
    /// Segments found lost.
    pub lost_segs: u64,
    /// Segments retransmitted by their senders.
    pub sender_retransmits: u64,
    /// Flows that are controlled, or would be but for a bypass.
    pub controllable_flows: u64,
    /// Of these, those in bypass.
    pub bypassed_flows: u64,
}

impl Counts {
    /// What was counted since `before`, and the flows of the moment. None: some count fell, as when the machine was started anew.
    pub fn since(&self, before: &Counts) -> Option<Counts> {
        Some(Counts {
            controlled_bytes: self.controlled_bytes.checked_sub(before.controlled_bytes)?,
            watched_bytes: self.watched_bytes.checked_sub(before.watched_bytes)?,
            lost_segs: self.lost_segs.checked_sub(before.lost_segs)?,
            sender_retransmits: self.sender_retransmits.checked_sub(before.sender_retransmits)?,
            ..*self
        })
    }

    /// Of several nodes together.
    pub fn plus(&self, other: &Counts) -> Counts {
        Counts {
            controlled_bytes: self.controlled_bytes.saturating_add(other.controlled_bytes),
            watched_bytes: self.watched_bytes.saturating_add(other.watched_bytes),
            lost_segs: self.lost_segs.saturating_add(other.lost_segs),
            sender_retransmits: self.sender_retransmits.saturating_add(other.sender_retransmits),
            controllable_flows: self.controllable_flows.saturating_add(other.controllable_flows),
            bypassed_flows: self.bypassed_flows.saturating_add(other.bypassed_flows),
        }
    }
}

/// An agent, by its metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentMetrics {
    /// SHA-256 of the policy in force. None: the agent has just started, and has none yet.
    pub policy_hash: Option<String>,
    /// Its build.
    pub version: Option<String>,
    /// SHA-256 of a later file that it refused.
    pub refused_hash: Option<String>,
    /// None while the agent starts.
    pub counts: Option<Counts>,
}

impl AgentMetrics {
    /// From the text that the agent serves; what is not known is skipped.
    pub fn parse(text: &str) -> AgentMetrics {
        let mut metrics = AgentMetrics::default();
        let mut counts = Counts::default();
        let mut has_counts = false;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            // counters are whole numbers, and gauges of whole numbers end with ".0"
            let value = value.parse::<f64>().unwrap_or(0.0).max(0.0) as u64;
            match name {
                "windlass_build_info" => metrics.version = label(labels, "version"),
                "windlass_policy_hash_info" => metrics.policy_hash = label(labels, "hash"),
                "windlass_policy_refused_info" => metrics.refused_hash = label(labels, "hash"),
                "windlass_controlled_bytes_total" => counts.controlled_bytes = value,
                "windlass_watched_bytes_total" => counts.watched_bytes = value,
                "windlass_lost_segments_total" => {
                    counts.lost_segs = value;
                    has_counts = true;
                }
                "windlass_sender_retransmits_total" => counts.sender_retransmits = value,
                // the state is the last label: rules' names may have anything in them
                "windlass_flows" if labels.ends_with("state=\"controlled\"}") => {
                    counts.controllable_flows = counts.controllable_flows.saturating_add(value)
                }
                "windlass_flows" if labels.ends_with("state=\"bypass\"}") => {
                    counts.controllable_flows = counts.controllable_flows.saturating_add(value);
                    counts.bypassed_flows = counts.bypassed_flows.saturating_add(value);
                }
                _ => {}
            }
        }
        AgentMetrics { counts: has_counts.then_some(counts), ..metrics }
    }
}

/// The value of the only label.
fn label(labels: &str, name: &str) -> Option<String> {
    let value = labels.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix("\"}")?;
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_agents_metrics_have_its_policy_and_its_counts() {
        let text = "# HELP windlass_build_info x\nwindlass_build_info{version=\"0.1.0\"} 1.0\n\
            windlass_policy_hash_info{hash=\"ab\"} 1.0\nwindlass_policy_refused_info{hash=\"cd\"} 1.0\nwindlass_controlled_bytes_total 70\n\
            windlass_flows{rule=\"a} state=\\\"bypass\\\"}\",algorithm=\"bbr\",state=\"controlled\"} 3.0\n\
            windlass_flows{rule=\"b\",algorithm=\"bbr\",state=\"bypass\"} 2.0\n\
            windlass_flows{rule=\"b\",algorithm=\"bbr\",state=\"watched\"} 9.0\nwindlass_lost_segments_total 5\n";
        let metrics = AgentMetrics::parse(text);
        assert_eq!(metrics.policy_hash.as_deref(), Some("ab"));
        assert_eq!(metrics.version.as_deref(), Some("0.1.0"));
        assert_eq!(metrics.refused_hash.as_deref(), Some("cd"));
        let counts = metrics.counts.unwrap();
        assert_eq!((counts.controlled_bytes, counts.lost_segs), (70, 5));
        assert_eq!((counts.controllable_flows, counts.bypassed_flows), (5, 2));
    }

    #[test]
    fn an_agent_that_starts_has_no_counts() {
        let metrics = AgentMetrics::parse("windlass_build_info{version=\"0.1.0\"} 1.0\n");
        assert_eq!((metrics.counts, metrics.policy_hash), (None, None));
    }

    #[test]
    fn counts_that_fell_have_no_increase() {
        let before = Counts { lost_segs: 5, controlled_bytes: 10, ..Counts::default() };
        let now = Counts { lost_segs: 7, controlled_bytes: 30, controllable_flows: 2, ..Counts::default() };
        let since = now.since(&before).unwrap();
        assert_eq!((since.lost_segs, since.controlled_bytes, since.controllable_flows), (2, 20, 2));
        assert_eq!(before.since(&now), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(windlass_(flows|build_info|lost_segments_total)?[{}a-z=\" 0-9.eE+-]{0,40}\n){0,6}") {
            AgentMetrics::parse(&text);
        }
    }
}
