//! The plots that an experiment asks for.

use crate::{
    job::Condition,
    metric::{Metric, Over, Selection, Statistic, is_about, values},
    plot::{Series, cdf},
    record::RunRecord,
    stats::Counted,
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What the x axis of a plot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What varies last among the points; one line for each variant and each combination of the rest.
    #[default]
    Vary,
    /// Time in the first run of each point, one plot for each point and variant: throughput of flows, classes or
    /// tenants, or the queue of a link.
    Time,
    /// The metric itself, as a cumulative distribution; one plot for each point.
    Cdf,
}

/// A plot.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Its title; none: that of the y axis.
    pub title: Option<String>,
    /// What is drawn.
    pub metric: Metric,
    /// How the numbers of a point become one; of no meaning for times and distributions.
    #[serde(default = "median")]
    pub statistic: Statistic,
    /// What the x axis is.
    #[serde(default)]
    pub kind: Kind,
    /// Only flows of this class.
    pub class: Option<String>,
    /// Only flows of this tenant.
    pub tenant: Option<String>,
    /// Of which link.
    pub link: Option<String>,
    /// What flows are put together by.
    #[serde(default)]
    pub over: Over,
    /// Only points whose name begins so; empty: all.
    #[serde(default)]
    pub points: Vec<String>,
    /// Label of the x axis.
    pub x: String,
    /// Label of the y axis.
    pub y: String,
    /// By what values are divided before they are drawn, e.g. 1e6 for Mbit/s.
    #[serde(default = "one")]
    pub unit: f64,
}

fn median() -> Statistic {
    Statistic::Median
}

fn one() -> f64 {
    1.0
}

/// A picture to draw: what distinguishes it from others of the same plot, and its lines.
pub type Picture = (String, Vec<Series>);

impl Plot {
    /// Whether runs must be recorded in intervals.
    pub fn needs_intervals(&self) -> bool {
        self.kind == Kind::Time
    }

    /// Whether it says all that it needs; an error begins with the key.
    pub fn check(&self) -> Result<(), String> {
        let is_queue = matches!(self.metric, Metric::MeanQueue | Metric::MaxQueue);
        self.metric.check_link(self.link.as_deref())?;
        if self.kind == Kind::Time && !is_queue && self.metric != Metric::Throughput {
            return Err("metric: only throughput, mean-queue and max-queue can be drawn over time".into());
        }
        Ok(())
    }

    fn selection(&self) -> Selection<'_> {
        Selection {
            class: self.class.as_deref(),
            tenant: self.tenant.as_deref(),
            link: self.link.as_deref(),
            over: self.over,
            window: None,
        }
    }

    /// What to draw, from these conditions and their runs.
    pub fn pictures(&self, conditions: &[&Condition], variants: &[&str], runs: &[RunRecord]) -> Vec<Picture> {
        let is_mine = |c: &&&Condition| is_about(&self.points, &c.name);
        let mine: Vec<&Condition> = conditions.iter().filter(is_mine).copied().collect();
        let runs_of = |condition: &Condition, variant: &str| -> Vec<&RunRecord> {
            runs.iter().filter(|r| r.point == condition.name && r.variant == variant).collect()
        };
        match self.kind {
            Kind::Vary => vec![(String::new(), self.lines(&mine, variants, &runs_of))],
            Kind::Cdf => mine
                .iter()
                .map(|c| {
                    (c.name.clone(), variants.iter().map(|v| cdf(v, &self.numbers(&runs_of(c, v)))).collect())
                })
                .collect(),
            Kind::Time => mine
                .iter()
                .flat_map(|c| variants.iter().map(move |v| (c, *v)))
                .filter_map(|(c, v)| {
                    Some((format!("{} {v}", c.name), self.over_time(runs_of(c, v).first()?)?))
                })
                .collect(),
        }
    }

    /// All numbers of these runs, in the plot's unit; none if one was not measured.
    fn numbers(&self, runs: &[&RunRecord]) -> Vec<Counted> {
        let all: Option<Vec<Vec<Counted>>> =
            runs.iter().map(|r| values(self.metric, r, &self.selection())).collect();
        let in_unit = |v: Counted| Counted { value: v.value / self.unit, ..v };
        all.unwrap_or_default().concat().into_iter().map(in_unit).collect()
    }

    fn lines<'r>(
        &self,
        conditions: &[&Condition],
        variants: &[&str],
        runs_of: &dyn Fn(&Condition, &str) -> Vec<&'r RunRecord>,
    ) -> Vec<Series> {
        let mut lines: BTreeMap<(usize, &str), Vec<(f64, f64)>> = BTreeMap::new();
        for condition in conditions {
            let Some(x) = condition.x else { continue };
            for (index, variant) in variants.iter().enumerate() {
                if let Some(y) = self.statistic.of(&self.numbers(&runs_of(condition, variant))) {
                    lines.entry((index, condition.line.as_str())).or_default().push((x, y));
                }
            }
        }
        let name = |(index, line): (usize, &str)| match line {
            "" => variants[index].to_string(),
            line => format!("{}, {line}", variants[index]),
        };
        lines.into_iter().map(|(key, points)| Series { name: name(key), points }).collect()
    }

    fn over_time(&self, run: &RunRecord) -> Option<Vec<Series>> {
        let intervals = run.intervals.as_ref()?;
        let at_s = |index: usize| (index + 1) as f64 * intervals.every_s;
        if let Some(link) = &self.link {
            let index = run.links.iter().position(|l| l.name == *link)?;
            let looks = intervals.link_packets.get(index)?.iter().enumerate();
            let points = looks.map(|(i, packets)| (at_s(i), f64::from(*packets) / self.unit)).collect();
            return Some(vec![Series { name: link.clone(), points }]);
        }
        let mut sums: BTreeMap<(usize, String), Vec<f64>> = BTreeMap::new();
        for (index, flow) in run.flows.iter().enumerate() {
            let selection = self.selection();
            if !selection.has(flow) {
                continue;
            }
            let key = match self.over {
                Over::Flows => (index, format!("{} {index}", flow.name)),
                Over::Classes => (0, flow.class.clone()),
                Over::Tenants => (0, flow.tenant.clone()),
            };
            let bytes = intervals.flow_bytes.get(index)?;
            let sum = sums.entry(key).or_insert_with(|| vec![0.0; bytes.len()]);
            sum.iter_mut()
                .zip(bytes)
                .for_each(|(sum, b)| *sum += *b as f64 * 8.0 / intervals.every_s / self.unit);
        }
        let series = |((_, name), rates): ((usize, String), Vec<f64>)| Series {
            name,
            points: rates.into_iter().enumerate().map(|(i, rate)| (at_s(i), rate)).collect(),
        };
        Some(sums.into_iter().map(series).collect())
    }
}
