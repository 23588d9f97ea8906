//! Metrics as text: OpenMetrics, or the older format of Prometheus, which node_exporter and promtool read.

use super::{
    names::{self, Family},
    snapshot::Snapshot,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text::encode},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};
use std::{collections::BTreeMap, fmt};

/// What all names begin with.
const PREFIX: &str = "windlass";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    /// Of Prometheus, version 0.0.4.
    Text,
}

impl Format {
    /// As HTTP names it.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// By what a client accepts.
    pub fn accepted(accept: Option<&str>) -> Format {
        match accept {
            Some(types) if types.contains("application/openmetrics-text") => Format::OpenMetrics,
            _ => Format::Text,
        }
    }
}

/// Writes it down.
pub fn text(snapshot: Snapshot, format: Format) -> String {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    // strings take whatever is written
    encode(&mut text, &registry).expect("a string");
    match format {
        Format::OpenMetrics => text,
        Format::Text => older(&text),
    }
}

/// The same in the older format: there counters are declared with their `_total`, and there are neither units nor an end.
fn older(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest;
        } else if let Some((name, of_type)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let total = if of_type == "counter" { "_total" } else { "" };
            let words = help.strip_prefix(name).unwrap_or_default();
            text += &format!("# HELP {name}{total}{words}\n# TYPE {name}{total} {of_type}\n");
        } else if !line.starts_with("# ") {
            text += line;
            text.push('\n');
        }
    }
    text
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.encode_build(&mut encoder)?;
        if !self.is_complete {
            return Ok(());
        }
        self.encode_state(&mut encoder)?;
        self.encode_flows(&mut encoder)?;
        self.encode_counters(&mut encoder)
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    values: &[(Labels<'_>, f64)],
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    values.iter().try_for_each(|(labels, value)| match labels.as_slice() {
        [] => metric.encode_gauge(value),
        labels => ConstGauge::new(*value).encode(metric.encode_family(&labels)?),
    })
}

fn counter(encoder: &mut DescriptorEncoder, family: &Family, values: &[(Labels<'_>, u64)]) -> fmt::Result {
    let unit = family.is_of_bytes.then_some(&Unit::Bytes);
    let mut metric = encoder.encode_descriptor(family.name, family.help, unit, MetricType::Counter)?;
    values.iter().try_for_each(|(labels, value)| {
        ConstCounter::new(*value).encode(metric.encode_family(&labels.as_slice())?)
    })
}

impl Snapshot {
    fn encode_build(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let labels = vec![("version", env!("WINDLASS_VERSION"))];
        gauge(encoder, "build_info", "Which build this is; always 1.", None, &[(labels, 1.0)])?;
        if let Some(hash) = &self.policy_hash {
            let help = "SHA-256 of the policy's file, as it was when it was put in force; always 1.";
            gauge(encoder, "policy_hash_info", help, None, &[(vec![("hash", hash)], 1.0)])?;
        }
        if let Some(hash) = &self.refused_hash {
            let help = "SHA-256 of the policy's file that was refused, while it is in its place; always 1.";
            gauge(encoder, "policy_refused_info", help, None, &[(vec![("hash", hash)], 1.0)])?;
        }
        Ok(())
    }

    fn encode_state(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let one = |value: f64| [(Labels::new(), value)];
        let is = |so: bool| one(f64::from(u8::from(so)));
        let bytes = Some(&Unit::Bytes);
        let usage = &self.usage;
        let interfaces = self.interfaces as f64;
        gauge(encoder, "interfaces", "Interfaces under control.", None, &one(interfaces))?;
        if let Some(health) = &self.health {
            let help = "Whether all is under control that the policy names, and each clock runs.";
            gauge(encoder, "ready", help, None, &is(health.is_ready()))?;
            let help = "Whether each datapath's clock goes round.";
            gauge(encoder, "clock_running", help, None, &is(health.is_running()))?;
            let help = "Interfaces and cgroups that the policy names, that are there, and that are not under control.";
            let missing = health.refused.len() + health.released.len();
            gauge(encoder, "not_controlled", help, None, &one(missing as f64))?;
            gauge(encoder, "cgroups", "Cgroups under control.", None, &one(health.cgroups as f64))?;
        }
        let help = "What flows hold of the store, in whole blocks and chunks.";
        gauge(encoder, "store", help, bytes, &one(usage.store_used_bytes as f64))?;
        gauge(encoder, "store_limit", "Size of the store.", bytes, &one(usage.store_bytes as f64))?;
        let help = "Entries of the flow table in use.";
        gauge(encoder, "flow_table_entries", help, None, &one(usage.flows_used.into()))?;
        let help = "Entries of the flow table.";
        gauge(encoder, "flow_table_limit_entries", help, None, &one(usage.flows_max.into()))?;
        let help = "How long it took to read what is in these metrics.";
        gauge(encoder, "read_duration", help, Some(&Unit::Seconds), &one(self.took.as_secs_f64()))
    }

    fn encode_flows(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let of_rules = self.flows.iter().map(|((rule, algorithm, state), count)| {
            (vec![("rule", rule.as_str()), ("algorithm", *algorithm), ("state", *state)], *count as f64)
        });
        let values: Vec<(Labels<'_>, f64)> = of_rules.collect();
        let help = "Flows, by rule, algorithm and what is done with them.";
        gauge(encoder, "flows", help, None, &values)?;
        let of_devices = self.devices.iter().map(|(name, n)| (vec![("device", name.as_str())], *n as f64));
        let values: Vec<(Labels<'_>, f64)> = of_devices.collect();
        gauge(encoder, "device_flows", "Flows behind each interface under control.", None, &values)
    }

    fn encode_counters(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let mut families: BTreeMap<Family, Vec<(Labels<'_>, u64)>> = BTreeMap::new();
        for (name, count) in &self.counters {
            let (family, reason) = names::place(name);
            let labels = reason.map(|reason| ("reason", reason)).into_iter().collect();
            families.entry(family).or_default().push((labels, *count));
        }
        families.iter().try_for_each(|(family, values)| counter(encoder, family, values))?;
        let cut = Family {
            name: "metrics_truncated",
            help: "Times that rules, algorithms or interfaces were counted as other, for there were too many.",
            is_of_bytes: false,
        };
        counter(encoder, &cut, &[(Labels::new(), self.truncated)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Health;

    fn sample() -> Snapshot {
        let counters = windlass_core::counters().into_iter().zip(1..).map(|(c, n)| (c.name, n)).collect();
        Snapshot {
            is_complete: true,
            counters,
            flows: [(("a \"b\"\\\n".to_string(), "bbr", "controlled"), 3)].into(),
            devices: [("tap0".to_string(), 3)].into(),
            interfaces: 1,
            health: Some(Health { are_clocks_seen: true, is_covered: true, ..Health::default() }),
            policy_hash: Some("abc".into()),
            refused_hash: Some("def".into()),
            truncated: 2,
            ..Snapshot::default()
        }
    }

    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }

    #[test]
    fn metrics_in_openmetrics_have_units_and_an_end() {
        let text = text(sample(), Format::OpenMetrics);
        has(&text, "# TYPE windlass_lost_segments counter");
        has(&text, "# UNIT windlass_controlled_bytes bytes");
        has(&text, "windlass_store_bytes 0.0");
        has(&text, "windlass_ready 1.0");
        has(&text, "windlass_policy_hash_info{hash=\"abc\"} 1.0");
        has(&text, "windlass_device_flows{device=\"tap0\"} 3.0");
        has(&text, "windlass_metrics_truncated_total 2");
        has(&text, r#"windlass_flows{rule="a \"b\"\\\n",algorithm="bbr",state="controlled"} 3.0"#);
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn metrics_of_an_agent_that_starts_have_no_counters_which_would_fall() {
        let text = text(Snapshot { is_complete: false, ..sample() }, Format::Text);
        let names = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split('{').next().map(String::from));
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["build_info", "policy_hash_info", "policy_refused_info"]
                .map(|name| Some(format!("windlass_{name}")))
        );
    }

    #[test]
    fn metrics_in_the_older_format_declare_counters_by_their_whole_name() {
        let text = text(sample(), Format::Text);
        has(&text, "# HELP windlass_lost_segments_total Segments found lost.");
        has(&text, "# TYPE windlass_lost_segments_total counter");
        has(&text, "# TYPE windlass_flows gauge");
        assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
        let mut declared = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                declared = rest.split(' ').next();
            } else if !line.starts_with('#') {
                assert_eq!(line.split(['{', ' ']).next(), declared, "{line}");
            }
        }
    }

    #[test]
    fn metrics_are_openmetrics_for_clients_that_accept_it() {
        let of_prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        assert_eq!(Format::accepted(Some(of_prometheus)), Format::OpenMetrics);
        assert_eq!([None, Some("*/*")].map(Format::accepted), [Format::Text; 2]);
    }
}
