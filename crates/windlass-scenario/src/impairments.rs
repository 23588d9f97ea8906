//! What few links have: a policer, outages and steps of the rate. Times count from the first packet that a direction of the link
//! is offered, so that they are the same in every home.

use crate::{Bytes, Link, Rate, Span, rate_trace::TraceClock, scenario::MAX_TIME};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// A token bucket without a queue, in front of the forward direction: what finds too few tokens is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a policer in braces, e.g. { rate = \"5 Mbit/s\", burst = \"64 kB\" }"
)]
pub struct Policer {
    /// Tokens that come.
    pub rate: Rate,
    /// Tokens that the bucket holds.
    pub burst: Bytes,
}

/// A time in which all packets that are offered are lost, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an outage in braces, e.g. { from = \"2 s\", to = \"2500 ms\" }")]
pub struct Outage {
    /// When it begins.
    pub from: Span,
    /// When it ends.
    pub to: Span,
}

/// A new rate, in both directions, of packets whose transmission begins then or later.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a step in braces, e.g. { at = \"2 s\", rate = \"5 Mbit/s\" }")]
pub struct RateStep {
    /// Since when.
    pub at: Span,
    /// The rate.
    pub rate: Rate,
}

/// The same as for `rate` of links.
const RATES_BPS: RangeInclusive<f64> = 1e4..=1e13;

/// Whether a link can have such impairments; an error begins with the key.
pub(crate) fn check(link: &Link) -> Result<(), String> {
    if let Some(policer) = link.policer {
        if !RATES_BPS.contains(&policer.rate.0) {
            return Err("policer.rate: 10 kbit/s to 10000 Gbit/s".into());
        }
        if !(link.packet_bytes as f64..=1e12).contains(&policer.burst.0) {
            return Err(format!("policer.burst: one packet of {} B to 1000 GB", link.packet_bytes));
        }
    }
    for Outage { from, to } in &link.outages {
        if to <= from || *to > MAX_TIME {
            return Err(format!(
                "outages: {from} to {to} is no time within {MAX_TIME}; end it later than it begins"
            ));
        }
    }
    if !link.rate_steps.is_empty() && link.rate.is_none() {
        return Err("rate_steps without a rate: what is it at first? Give a rate".into());
    }
    if let Some(step) = link.rate_steps.iter().find(|s| !RATES_BPS.contains(&s.rate.0) || s.at > MAX_TIME) {
        return Err(format!(
            "rate_steps: {} at {}: 10 kbit/s to 10000 Gbit/s, within {MAX_TIME}",
            step.rate, step.at
        ));
    }
    let has_other = link.rate_back.is_some() || link.rate_trace.is_some();
    if !link.rate_steps.is_empty() && has_other {
        return Err("rate_steps: they are of both directions, whose rates differ here; leave out rate_back or rate_trace".into());
    }
    if !link.rate_steps.is_sorted_by(|a, b| a.at < b.at) {
        return Err("rate_steps: each must be later than the one before it; put them in order".into());
    }
    Ok(())
}

/// A policer's bucket, as the time at which it is full again.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate_bps: u64,
    /// How long an empty one takes to fill.
    burst_ns: u64,
    full_at_ns: u64,
}

impl Bucket {
    fn of(policer: Policer) -> Bucket {
        let burst_ns = (policer.burst.0 * 8e9 / policer.rate.0) as u64;
        Bucket { rate_bps: policer.rate.0.round() as u64, burst_ns, full_at_ns: 0 }
    }

    /// Takes the tokens of a packet, if they are there.
    fn take(&mut self, now_ns: u64, bytes: u64) -> bool {
        let full_at_ns = self.full_at_ns.max(now_ns) + bytes * 8_000_000_000 / self.rate_bps;
        let has_tokens = full_at_ns - now_ns <= self.burst_ns;
        if has_tokens {
            self.full_at_ns = full_at_ns;
        }
        has_tokens
    }
}

/// The impairments of one direction in the course of a run.
#[derive(Clone, Debug)]
pub(crate) struct Impairments {
    /// When the first packet was offered.
    begin_ns: Option<u64>,
    bucket: Option<Bucket>,
    outages: Vec<(u64, u64)>,
    /// Since when, and rates in bit/s.
    steps: Vec<(u64, u64)>,
    /// When packets can be sent, of a link with a trace.
    trace: Option<TraceClock>,
    /// How long packets were being sent.
    pub busy_ns: u64,
}

/// What becomes of a packet before it can queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It may queue.
    Admitted,
    /// The policer drops it.
    Policed,
    /// The link is down.
    Down,
}

impl Impairments {
    /// Those of a direction; none: it has none.
    pub fn of(link: &Link, backward: bool) -> Option<Box<Impairments>> {
        let bucket = link.policer.filter(|_| !backward).map(Bucket::of);
        let outages: Vec<(u64, u64)> = link.outages.iter().map(|o| (o.from.ns(), o.to.ns())).collect();
        let steps: Vec<(u64, u64)> =
            link.rate_steps.iter().map(|s| (s.at.ns(), s.rate.0.round() as u64)).collect();
        let trace = link.trace(backward).map(TraceClock::new);
        let is_any = bucket.is_some() || !outages.is_empty() || !steps.is_empty() || trace.is_some();
        is_any.then(|| Box::new(Impairments { begin_ns: None, bucket, outages, steps, trace, busy_ns: 0 }))
    }

    /// A packet of `bytes` comes.
    pub fn admit(&mut self, now_ns: u64, bytes: u64) -> Entry {
        let since_ns = now_ns - *self.begin_ns.get_or_insert(now_ns);
        if self.outages.iter().any(|(from, to)| (*from..*to).contains(&since_ns)) {
            return Entry::Down;
        }
        let has_tokens = self.bucket.as_mut().is_none_or(|bucket| bucket.take(now_ns, bytes));
        if has_tokens { Entry::Admitted } else { Entry::Policed }
    }

    /// The rate of a packet whose transmission begins at `at_ns`; `first_bps`: that before any step.
    pub fn rate_bps(&self, at_ns: u64, first_bps: u64) -> u64 {
        let since_ns = self.begin_ns.map_or(0, |begin_ns| at_ns - begin_ns);
        self.steps.iter().rev().find(|(from, _)| *from <= since_ns).map_or(first_bps, |(_, bps)| *bps)
    }

    /// When a packet that waits from `from_ns` on has been sent by the link's trace; none: it has a rate.
    pub fn departure_ns(&mut self, from_ns: u64, bytes: u64) -> Option<u64> {
        let trace = self.trace.as_mut()?;
        self.busy_ns += trace.busy_ns(bytes);
        let begin_ns = self.begin_ns.unwrap_or(from_ns);
        Some(begin_ns + trace.departure_ns(from_ns - begin_ns, bytes))
    }

    /// Whether the link has a trace.
    pub fn has_trace(&self) -> bool {
        self.trace.is_some()
    }

    /// Whether the rate changes.
    pub fn has_steps(&self) -> bool {
        !self.steps.is_empty() || self.trace.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkModel, Scenario, Verdict};

    fn link() -> Link {
        Link::cable(["a".into(), "b".into()])
    }

    /// When packets of 1250 bytes, one a millisecond, come out, in ms; none: dropped.
    fn out_ms(link: &Link, backward: bool, packets: u64) -> Vec<Option<u64>> {
        let mut model = LinkModel::new(link, backward, 1);
        // a clock that does not begin with the link
        let first_ns = 5_000_000_000;
        let offer = |i| match model.offer(first_ns + i * 1_000_000, 1250, false) {
            Verdict::Deliver { at_ns, .. } => Some((at_ns - first_ns) / 1_000_000),
            _ => None,
        };
        (0..packets).map(offer).collect()
    }

    /// 1250 bytes a millisecond are 10 Mbit/s, of which it lets through a tenth, and five packets at first.
    #[test]
    fn a_policer_lets_bursts_through_and_then_its_rate() {
        let policer = Some(Policer { rate: Rate(1e6), burst: Bytes(6250.0) });
        let out = out_ms(&Link { policer, ..link() }, false, 1000);
        assert!(out[..5].iter().all(Option::is_some) && out[5..9].iter().all(Option::is_none), "{out:?}");
        let passed = out.iter().flatten().count();
        assert!((104..=105).contains(&passed), "{passed}");
        assert!(out_ms(&Link { policer, ..link() }, true, 100).iter().all(Option::is_some));
    }

    #[test]
    fn an_outage_loses_what_comes_in_it() {
        let outages = vec![Outage { from: Span(0.003), to: Span(0.006) }];
        for backward in [false, true] {
            let out = out_ms(&Link { outages: outages.clone(), ..link() }, backward, 8);
            let lost: Vec<usize> = (0..8).filter(|i| out[*i].is_none()).collect();
            assert_eq!(lost, [3, 4, 5]);
        }
    }

    /// A packet takes 1 ms, and 2 ms when its transmission begins after 3 ms, even of those that queued before.
    #[test]
    fn a_step_of_the_rate_counts_for_what_is_queued() {
        let rate_steps = vec![
            RateStep { at: Span(0.003), rate: Rate(5e6) },
            RateStep { at: Span(0.009), rate: Rate(10e6) },
        ];
        let link = Link { rate: Some(Rate(10e6)), rate_steps, ..link() };
        let mut model = LinkModel::new(&link, false, 1);
        let offer = |_| match model.offer(7_000_000, 1250, false) {
            Verdict::Deliver { at_ns, .. } => at_ns / 1_000_000 - 7,
            other => panic!("{other:?}"),
        };
        assert_eq!((0..8).map(offer).collect::<Vec<u64>>(), [1, 2, 3, 5, 7, 9, 10, 11]);
        let stats = model.finish();
        assert_eq!(stats.utilisation, 1.0);
    }

    #[test]
    fn mistakes_of_impairments_name_their_key_and_line() {
        let parse = |keys: &str| {
            let text = format!(
                "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n{keys}\n"
            );
            Scenario::parse("t", &text)
        };
        let error = |keys: &str| {
            let e = parse(keys).unwrap_err();
            assert_eq!(e.line, 8, "{e}");
            e.what
        };
        assert!(error("policer = { rate = \"1 kbit/s\", burst = \"9 kB\" }").starts_with("policer"));
        assert!(error("policer = { rate = \"1 Mbit/s\", burst = \"9 B\" }").contains("one packet"));
        assert!(error("policer = { rate = \"1 Mbit/s\" }").contains("burst"));
        assert!(error("outages = [{ from = \"2 s\", to = \"1 s\" }]").starts_with("outages: 2 s to 1 s"));
        assert!(error("rate_steps = [{ at = \"1 s\", rate = \"1 Mbit/s\" }]").contains("Give a rate"));
        let steps = |first: &str| {
            format!(
                "rate_steps = [{{ at = \"{first}\", rate = \"1 Mbit/s\" }}, {{ at = \"2 s\", rate = \"1 Mbit/s\" }}]\n\
                 rate = \"1 Mbit/s\""
            )
        };
        assert!(error(&steps("2 s")).contains("in order"));
        let sound = parse(&steps("1 s")).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(sound.links[0].rate_steps.len(), 2);
        assert!(parse("outages = [{ from = \"1 s\", to = \"2 s\" }]").unwrap().links[0].is_emulated());
    }
}
