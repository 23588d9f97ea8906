//! What metrics are written to, whatever the format.

use super::{exposition::Labels, histograms::Buckets};
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, exemplar::Exemplar, gauge::ConstGauge},
    registry::Unit,
};
use std::{collections::HashMap, fmt};

/// Takes families of metrics: what each is called, without the program's prefix and its unit, and what it is about.
pub trait Sink {
    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: &[(Labels<'_>, f64)],
    ) -> fmt::Result;

    /// Its name is also without `_total`.
    fn counter(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: &[(Labels<'_>, u64)],
    ) -> fmt::Result;

    fn histogram(&mut self, name: &str, help: &str, unit: &Unit, buckets: &Buckets) -> fmt::Result;
}

type Exemplars = HashMap<usize, Exemplar<[(&'static str, &'static str); 0], f64>>;

impl Sink for DescriptorEncoder<'_> {
    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: &[(Labels<'_>, f64)],
    ) -> fmt::Result {
        let mut metric = self.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        values.iter().try_for_each(|(labels, value)| match labels.as_slice() {
            [] => metric.encode_gauge(value),
            labels => ConstGauge::new(*value).encode(metric.encode_family(&labels)?),
        })
    }

    fn counter(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: &[(Labels<'_>, u64)],
    ) -> fmt::Result {
        let mut metric = self.encode_descriptor(name, help, unit, MetricType::Counter)?;
        values.iter().try_for_each(|(labels, value)| {
            ConstCounter::new(*value).encode(metric.encode_family(&labels.as_slice())?)
        })
    }

    fn histogram(&mut self, name: &str, help: &str, unit: &Unit, buckets: &Buckets) -> fmt::Result {
        let mut metric = self.encode_descriptor(name, help, Some(unit), MetricType::Histogram)?;
        // its exemplars cannot be made but by its own histograms: `exposition` writes them
        let none: Option<&Exemplars> = None;
        metric.encode_histogram(buckets.sum, buckets.count, &buckets.classic, none)
    }
}
