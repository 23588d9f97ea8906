//! Metrics as text: OpenMetrics, or the older format of Prometheus, which node_exporter and promtool read.

use super::{
    histograms::{ALL, Example, Examples},
    names::{self, Family},
    protobuf::Families,
    sink::Sink,
    snapshot::{DeviceUse, Snapshot},
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, prometheus_text, text::encode},
    registry::{Registry, Unit},
};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt, mem,
};

/// What all names begin with.
pub const PREFIX: &str = "windlass";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    /// Of Prometheus, version 0.0.4.
    Text,
    /// Of Prometheus: the only one with native histograms.
    Protobuf,
}

/// What protobuf is called in HTTP.
const PROTOBUF: &str = "application/vnd.google.protobuf";

impl Format {
    /// As HTTP names it.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => prometheus_text::CONTENT_TYPE,
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// By what a client accepts. One that accepts protobuf asks for native histograms: Prometheus does not otherwise.
    pub fn accepted(accept: Option<&str>) -> Format {
        match accept {
            Some(types) if types.contains(PROTOBUF) && types.contains("encoding=delimited") => {
                Format::Protobuf
            }
            Some(types) if types.contains("application/openmetrics-text") => Format::OpenMetrics,
            _ => Format::Text,
        }
    }
}

/// Writes it down.
pub fn body(mut snapshot: Snapshot, format: Format) -> Vec<u8> {
    let examples = mem::take(&mut snapshot.examples);
    if format == Format::Protobuf {
        let mut families = Families::default();
        snapshot.write(&mut families).expect("memory");
        return families.into_bytes();
    }
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    // strings take whatever is written
    if format == Format::OpenMetrics {
        encode(&mut text, &registry).expect("a string");
        return with_examples(&text, &examples).into_bytes();
    }
    prometheus_text::encode(&mut text, &registry).expect("a string");
    text.into_bytes()
}

/// Buckets of histograms with the last flow that each has counted.
fn with_examples(text: &str, examples: &Examples) -> String {
    let mut more: BTreeMap<String, VecDeque<Option<&Example>>> = BTreeMap::new();
    for ((histogram, bucket), example) in examples {
        let buckets = more.entry(format!("{PREFIX}_{}_bucket", ALL[*histogram].whole_name())).or_default();
        buckets.resize(*bucket, None);
        buckets.push_back(Some(example));
    }
    let with = |line: &str| {
        let name = line.split('{').next().unwrap_or_default();
        match more.get_mut(name).and_then(VecDeque::pop_front).flatten() {
            Some(Example { flow, value }) => format!("{line} # {{flow=\"{flow}\"}} {value}\n"),
            None => format!("{line}\n"),
        }
    };
    text.lines().map(with).collect()
}

pub type Labels<'a> = Vec<(&'static str, &'a str)>;

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        self.write(&mut encoder)
    }
}

fn counter(sink: &mut dyn Sink, family: &Family, values: &[(Labels<'_>, u64)]) -> fmt::Result {
    sink.counter(family.name, family.help, family.is_of_bytes.then_some(&Unit::Bytes), values)
}

impl Snapshot {
    fn write(&self, sink: &mut dyn Sink) -> fmt::Result {
        self.encode_build(sink)?;
        if !self.is_complete {
            return Ok(());
        }
        self.encode_state(sink)?;
        self.encode_flows(sink)?;
        self.encode_counters(sink)?;
        let sums = self.sums.iter();
        sums.flat_map(|sums| ALL.iter().map(move |histogram| (histogram, sums)))
            .try_for_each(|(histogram, sums)| histogram.write(sink, sums))
    }

    fn encode_build(&self, sink: &mut dyn Sink) -> fmt::Result {
        let labels = vec![("version", env!("WINDLASS_VERSION"))];
        sink.gauge("build_info", "Which build this is; always 1.", None, &[(labels, 1.0)])?;
        if let Some(hash) = &self.policy_hash {
            let help = "SHA-256 of the policy's file, as it was when it was put in force; always 1.";
            sink.gauge("policy_hash_info", help, None, &[(vec![("hash", hash)], 1.0)])?;
        }
        if let Some(hash) = &self.refused_hash {
            let help = "SHA-256 of the policy's file that was refused, while it is in its place; always 1.";
            sink.gauge("policy_refused_info", help, None, &[(vec![("hash", hash)], 1.0)])?;
        }
        Ok(())
    }

    fn encode_state(&self, sink: &mut dyn Sink) -> fmt::Result {
        let one = |value: f64| [(Labels::new(), value)];
        let is = |so: bool| one(f64::from(u8::from(so)));
        let bytes = Some(&Unit::Bytes);
        let usage = &self.usage;
        let interfaces = self.interfaces as f64;
        sink.gauge("interfaces", "Interfaces under control.", None, &one(interfaces))?;
        if let Some(health) = &self.health {
            let help = "Whether all is under control that the policy names, and each clock runs.";
            sink.gauge("ready", help, None, &is(health.is_ready()))?;
            let help = "Whether each datapath's clock goes round.";
            sink.gauge("clock_running", help, None, &is(health.is_running()))?;
            let help = "Interfaces and cgroups that the policy names, that are there, and that are not under control.";
            let missing = health.refused.len() + health.released.len();
            sink.gauge("not_controlled", help, None, &one(missing as f64))?;
            sink.gauge("cgroups", "Cgroups under control.", None, &one(health.cgroups as f64))?;
        }
        let help = "What flows hold of the store, in whole blocks and chunks.";
        sink.gauge("store", help, bytes, &one(usage.store_used_bytes as f64))?;
        sink.gauge("store_limit", "Size of the store.", bytes, &one(usage.store_bytes as f64))?;
        let help = "Entries of the flow table in use.";
        sink.gauge("flow_table_entries", help, None, &one(usage.flows_used.into()))?;
        let help = "Entries of the flow table.";
        sink.gauge("flow_table_limit_entries", help, None, &one(usage.flows_max.into()))?;
        let help = "How long it took to read what is in these metrics.";
        sink.gauge("read_duration", help, Some(&Unit::Seconds), &one(self.took.as_secs_f64()))
    }

    fn encode_flows(&self, sink: &mut dyn Sink) -> fmt::Result {
        let of_rules = self.flows.iter().map(|((rule, algorithm, state), count)| {
            (vec![("rule", rule.as_str()), ("algorithm", *algorithm), ("state", *state)], *count as f64)
        });
        let values: Vec<(Labels<'_>, f64)> = of_rules.collect();
        let help = "Flows, by rule, algorithm and what is done with them.";
        sink.gauge("flows", help, None, &values)?;
        let of_devices = |value: fn(&DeviceUse) -> u64| -> Vec<(Labels<'_>, f64)> {
            let of = |(name, used): (_, &DeviceUse)| (vec![("device", name)], value(used) as f64);
            self.devices.iter().map(|(name, used)| of((name.as_str(), used))).collect()
        };
        let help = "Flows behind each interface under control.";
        sink.gauge("device_flows", help, None, &of_devices(|used| used.flows))?;
        let help = "What flows behind each interface hold of the store.";
        sink.gauge("device_store", help, Some(&Unit::Bytes), &of_devices(|used| used.held_bytes))
    }

    fn encode_counters(&self, sink: &mut dyn Sink) -> fmt::Result {
        let mut families: BTreeMap<Family, Vec<(Labels<'_>, u64)>> = BTreeMap::new();
        for (name, count) in &self.counters {
            let (family, reason) = names::place(name);
            let labels = reason.map(|reason| ("reason", reason)).into_iter().collect();
            families.entry(family).or_default().push((labels, *count));
        }
        families.iter().try_for_each(|(family, values)| counter(sink, family, values))?;
        let cut = Family {
            name: "metrics_truncated",
            help: "Times that rules, algorithms or interfaces were counted as other, for there were too many.",
            is_of_bytes: false,
        };
        counter(sink, &cut, &[(Labels::new(), self.truncated)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{health::Health, metrics::snapshot::DEVICES_MOST};
    use windlass_agent::FlowSums;

    fn sample() -> Snapshot {
        let counters = windlass_core::counters().into_iter().zip(1..).map(|(c, n)| (c.name, n)).collect();
        Snapshot {
            is_complete: true,
            counters,
            flows: [(("a \"b\"\\\n".to_string(), "bbr", "controlled"), 3)].into(),
            devices: [("tap0".to_string(), DeviceUse { flows: 3, held_bytes: 5 })].into(),
            interfaces: 1,
            health: Some(Health { are_clocks_seen: true, is_covered: true, ..Health::default() }),
            policy_hash: Some("abc".into()),
            refused_hash: Some("def".into()),
            truncated: 2,
            ..Snapshot::default()
        }
    }

    fn text(snapshot: Snapshot, format: Format) -> String {
        String::from_utf8(body(snapshot, format)).expect("a text")
    }

    /// With two flows' round trips, of 1 ms and of 5 s, the second of which is named.
    fn with_histograms() -> Snapshot {
        let mut sums = FlowSums::default();
        [1000, 5_000_000].iter().for_each(|us| sums.rtt_us.count(*us, 1));
        let example = Example { flow: "192.0.2.1:80 to 192.0.2.2:9".into(), value: 5.0 };
        Snapshot { sums: Some(sums), examples: [((0, 15), example)].into(), ..sample() }
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
        has(&text, "windlass_device_store_bytes{device=\"tap0\"} 5.0");
        has(&text, "windlass_metrics_truncated_total 2");
        has(&text, r#"windlass_flows{rule="a \"b\"\\\n",algorithm="bbr",state="controlled"} 3.0"#);
        assert!(text.ends_with("# EOF\n"));
    }

    /// The bound of docs/metrics.md, however many interfaces there are.
    #[test]
    fn metrics_of_ten_rules_have_at_most_500_series() {
        let states = ["controlled", "bypass", "watched", "paces", "aside", "foreign", "off"];
        let flows = (0..70).map(|n| ((format!("rule{}", n % 10), "bbr", states[n / 10]), 1)).collect();
        let devices = (0..=DEVICES_MOST).map(|n| (format!("tap{n}"), DeviceUse::default())).collect();
        let text = text(Snapshot { flows, devices, ..with_histograms() }, Format::Text);
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!((400..=500).contains(&series), "{series}");
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
    fn histograms_name_a_flow_in_openmetrics_only() {
        let open = text(with_histograms(), Format::OpenMetrics);
        has(&open, "# TYPE windlass_rtt_seconds histogram");
        has(&open, "# UNIT windlass_flow_goodput_bytes_per_second bytes_per_second");
        has(&open, r#"windlass_rtt_seconds_bucket{le="0.001024"} 1"#);
        has(&open, r#"windlass_rtt_seconds_bucket{le="+Inf"} 2 # {flow="192.0.2.1:80 to 192.0.2.2:9"} 5"#);
        assert!(open.ends_with("# EOF\n"));
        let older = text(with_histograms(), Format::Text);
        has(&older, r#"windlass_rtt_seconds_bucket{le="0.001024"} 1"#);
        has(&older, r#"windlass_rtt_seconds_bucket{le="+Inf"} 2"#);
        has(&older, "windlass_rtt_seconds_count 2");
        has(&older, "windlass_response_seconds_count 0");
        let protobuf = body(with_histograms(), Format::Protobuf);
        let names = |bytes: &[u8]| bytes.windows(9).any(|part| part == b"192.0.2.1");
        assert!(names(open.as_bytes()) && !names(older.as_bytes()) && !names(&protobuf));
        assert!(!text(sample(), Format::Text).contains("rtt_seconds"), "none were wanted");
    }

    #[test]
    fn metrics_are_openmetrics_for_clients_that_accept_it() {
        let of_prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        assert_eq!(Format::accepted(Some(of_prometheus)), Format::OpenMetrics);
        assert_eq!([None, Some("*/*")].map(Format::accepted), [Format::Text; 2]);
        let with_native_histograms = format!(
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,{of_prometheus}"
        );
        assert_eq!(Format::accepted(Some(&with_native_histograms)), Format::Protobuf);
    }
}
