//! Metrics in Prometheus' protobuf format, the only one with native histograms: messages `io.prometheus.client.MetricFamily`, each with
//! its length before it. That of `prometheus-client` is made by prost, whose only licence is Apache-2.0 (deny.toml).

use super::{
    exposition::{Labels, PREFIX},
    histograms::{Buckets, SCHEMA, ZERO_THRESHOLD},
    sink::Sink,
};
use prometheus_client::registry::Unit;
use std::fmt;

/// Fields of a message, by their numbers.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    /// Of a type `sint`: small ones of either sign are short.
    fn signed(&mut self, field: u64, value: i64) {
        self.number(field, (value << 1 ^ value >> 63) as u64);
    }

    fn double(&mut self, field: u64, value: f64) {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    /// One with this number alone.
    fn of_double(value: f64) -> Message {
        let mut message = Message::default();
        message.double(1, value);
        message
    }
}

// enum MetricType
const COUNTER: u64 = 0;
const GAUGE: u64 = 1;
const HISTOGRAM: u64 = 4;

/// Families of metrics.
#[derive(Debug, Default)]
pub struct Families(Message);

impl Families {
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.0
    }

    fn add(
        &mut self,
        name: &str,
        help: &str,
        (unit, of_type): (Option<&Unit>, u64),
        metrics: impl Iterator<Item = Message>,
    ) {
        let mut name = format!("{PREFIX}_{name}");
        unit.iter().for_each(|unit| name += &format!("_{}", unit.as_str()));
        name += if of_type == COUNTER { "_total" } else { "" };
        let mut family = Message::default();
        family.bytes(1, name.as_bytes());
        family.bytes(2, help.as_bytes());
        family.number(3, of_type);
        metrics.for_each(|metric| family.message(4, &metric));
        self.0.varint(family.0.len() as u64);
        self.0.0.extend(family.0);
    }
}

/// A metric with these labels, whose value is in that field.
fn metric(labels: &Labels<'_>, field: u64, value: &Message) -> Message {
    let mut metric = Message::default();
    for (name, value) in labels {
        let mut label = Message::default();
        label.bytes(1, name.as_bytes());
        label.bytes(2, value.as_bytes());
        metric.message(1, &label);
    }
    metric.message(field, value);
    metric
}

fn histogram(buckets: &Buckets) -> Message {
    let mut message = Message::default();
    message.number(1, buckets.count);
    message.double(2, buckets.sum);
    let mut cumulative = 0;
    for (upper, count) in &buckets.classic {
        cumulative += count;
        let mut bucket = Message::default();
        bucket.number(1, cumulative);
        bucket.double(2, *upper);
        message.message(3, &bucket);
    }
    message.signed(5, SCHEMA.into());
    message.double(6, ZERO_THRESHOLD);
    message.number(7, buckets.zeros);
    for (offset, length) in &buckets.spans {
        let mut span = Message::default();
        span.signed(1, (*offset).into());
        span.number(2, (*length).into());
        message.message(12, &span);
    }
    buckets.deltas.iter().for_each(|delta| message.signed(13, *delta));
    message
}

impl Sink for Families {
    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: &[(Labels<'_>, f64)],
    ) -> fmt::Result {
        let of = |(labels, value): &(Labels<'_>, f64)| metric(labels, 2, &Message::of_double(*value));
        self.add(name, help, (unit, GAUGE), values.iter().map(of));
        Ok(())
    }

    fn counter(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: &[(Labels<'_>, u64)],
    ) -> fmt::Result {
        let of = |(labels, value): &(Labels<'_>, u64)| metric(labels, 3, &Message::of_double(*value as f64));
        self.add(name, help, (unit, COUNTER), values.iter().map(of));
        Ok(())
    }

    fn histogram(&mut self, name: &str, help: &str, unit: &Unit, buckets: &Buckets) -> fmt::Result {
        let only = metric(&Labels::new(), 7, &histogram(buckets));
        self.add(name, help, (Some(unit), HISTOGRAM), [only].into_iter());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_protobuf_are_as_its_documentation_has_them() {
        let mut message = Message::default();
        message.number(1, 150);
        message.bytes(2, b"testing");
        message.signed(3, -2);
        message.double(4, 1.0);
        let expected = b"\x08\x96\x01\x12\x07testing\x18\x03\x21\0\0\0\0\0\0\xf0\x3f";
        assert_eq!(message.0, expected);
    }

    #[test]
    fn a_family_in_protobuf_has_its_whole_name_and_labels() {
        let mut families = Families::default();
        families.counter("x", "Y.", Some(&Unit::Bytes), &[(vec![("a", "b")], 1)]).expect("memory");
        let metric = b"\x22\x13\x0a\x06\x0a\x01a\x12\x01b\x1a\x09\x09\0\0\0\0\0\0\xf0\x3f";
        let name = b"\x0a\x16windlass_x_bytes_total\x12\x02Y.\x18\x00";
        let whole = [&[(name.len() + metric.len()) as u8][..], name, metric].concat();
        assert_eq!(families.into_bytes(), whole);
    }
}
