//! The plots that an experiment requests.

use crate::{
    job::Condition,
    metric::{Metric, Over, Selection, Statistic, is_about, values},
    plot::{Series, cdf},
    record::RunRecord,
    stats::Counted,
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// What the x axis of a plot is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// What varies last among the points; one line for each variant, each point and each combination of the rest.
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
    /// How the numbers of a point become one, of what varies; none: their median.
    pub statistic: Option<Statistic>,
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
    /// Of what varies: the other variants' numbers relative to that of this one.
    pub per: Option<String>,
    /// Values that are marked across the plot, as the paper's, by their names.
    #[serde(default)]
    pub marks: BTreeMap<String, f64>,
}

fn one() -> f64 {
    1.0
}

/// Number of the variant, name of the point, and what varies besides x.
type Line<'a> = (usize, &'a str, &'a str);

/// A picture to draw: what distinguishes it from others of the same plot, and its lines.
pub type Picture = (String, Vec<Series>);

impl Plot {
    /// Whether runs must be recorded in intervals.
    pub fn needs_intervals(&self) -> bool {
        self.kind == Kind::Time
    }

    /// Whether it has all that it needs, and nothing that makes no difference; an error begins with the key.
    pub fn check(&self) -> Result<(), String> {
        if self.metric == Metric::SenderRetransShare {
            return Err(
                "metric: sender-retrans-share is one number of all runs, for claims and tables".into()
            );
        }
        let is_rate = self.metric == Metric::Throughput;
        let is_time = self.kind == Kind::Time;
        if is_time && !is_rate && !matches!(self.metric, Metric::MeanQueue | Metric::MaxQueue) {
            return Err("metric: only throughput, mean-queue and max-queue can be drawn over time".into());
        }
        if self.kind != Kind::Vary && (self.per.is_some() || !self.marks.is_empty()) {
            return Err("per, marks: only what varies has them; leave them out".into());
        }
        if self.kind != Kind::Vary && self.statistic.is_some() {
            return Err("statistic: only what varies has one; leave it out".into());
        }
        // over time, flows are put together as they are drawn
        let over = if is_time && is_rate { Over::Flows } else { self.over };
        let of = Selection { over, ..self.selection() };
        self.metric.check_selection(&of, Some(self.statistic()))
    }

    /// What is drawn is taken of this.
    pub fn selection(&self) -> Selection<'_> {
        Selection {
            class: self.class.as_deref(),
            per_class: None,
            tenant: self.tenant.as_deref(),
            link: self.link.as_deref(),
            over: self.over,
            window: None,
        }
    }

    fn statistic(&self) -> Statistic {
        self.statistic.unwrap_or(Statistic::Median)
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
        let mut lines: BTreeMap<Line, Vec<(f64, f64)>> = BTreeMap::new();
        for condition in conditions {
            let Some(x) = condition.x else { continue };
            let number = |variant: &str| self.statistic().of(&self.numbers(&runs_of(condition, variant)));
            for (index, variant) in variants.iter().enumerate() {
                let y = match &self.per {
                    Some(per) if per == variant => None,
                    Some(per) => number(variant).zip(number(per)).map(|(of, per)| of / per),
                    None => number(variant),
                };
                if let Some(y) = y.filter(|y| y.is_finite()) {
                    lines.entry((index, &condition.point, &condition.line)).or_default().push((x, y));
                }
            }
        }
        let all = || lines.values().flatten().map(|(x, _)| *x);
        let (from, to) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
        let points: BTreeSet<&str> = lines.keys().map(|(_, point, _)| *point).collect();
        let name = |(index, point, line): Line| {
            let point = if points.len() > 1 { point } else { "" };
            [variants[index], point, line]
                .into_iter()
                .filter(|s| !s.is_empty())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mark = |(name, y): (&String, &f64)| Series {
            name: name.clone(),
            points: vec![(from, *y), (to, *y)],
            ..Series::default()
        };
        let marks: Vec<Series> = self.marks.iter().filter(|_| from < to).map(mark).collect();
        let line = |(key, points)| Series { name: name(key), points, ..Series::default() };
        lines.into_iter().map(line).chain(marks).collect()
    }

    fn over_time(&self, run: &RunRecord) -> Option<Vec<Series>> {
        let intervals = run.intervals.as_ref()?;
        let at_s = |index: usize| (index + 1) as f64 * intervals.every_s;
        if let Some(link) = &self.link {
            let index = run.links.iter().position(|l| l.name == *link)?;
            let looks = intervals.link_packets.get(index)?.iter().enumerate();
            let points = looks.map(|(i, packets)| (at_s(i), f64::from(*packets) / self.unit)).collect();
            return Some(vec![Series { name: link.clone(), points, ..Series::default() }]);
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
            spans: Vec::new(),
        };
        Some(sums.into_iter().map(series).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(keys: &str) -> Plot {
        toml::from_str(&format!("x = \"x\"\ny = \"y\"\n{keys}")).unwrap()
    }

    fn condition(point: &str, line: &str, x: f64) -> Condition {
        let name = format!("{point}-{line}-{x}");
        Condition { name, point: point.into(), x: Some(x), line: line.into(), jobs: Vec::new() }
    }

    /// The names of the lines and where their points are, of runs each of which dropped as many packets as its x.
    fn lines(plot: &Plot, conditions: &[Condition]) -> Vec<(String, Vec<f64>)> {
        let run = |c: &Condition| RunRecord {
            point: c.name.clone(),
            variant: "reno".into(),
            drops_tail: c.x.unwrap() as u64,
            ..RunRecord::default()
        };
        let runs: Vec<RunRecord> = conditions.iter().map(run).collect();
        let (_, series) =
            plot.pictures(&conditions.iter().collect::<Vec<_>>(), &["reno"], &runs).pop().unwrap();
        series.into_iter().map(|s| (s.name, s.points.into_iter().map(|p| p.0).collect())).collect()
    }

    #[test]
    fn plots_have_no_keys_without_effect() {
        let wrong = |keys: &str| plot(keys).check().unwrap_err();
        assert!(wrong("kind = \"time\"\nmetric = \"throughput\"\nlink = \"a > b\"").starts_with("link"));
        assert!(wrong("kind = \"time\"\nmetric = \"mean-queue\"").starts_with("link"));
        assert!(wrong("kind = \"time\"\nmetric = \"throughput\"\nstatistic = \"max\"").starts_with("stat"));
        assert!(wrong("kind = \"cdf\"\nmetric = \"completion\"\nstatistic = \"max\"").starts_with("stat"));
        assert!(wrong("kind = \"time\"\nmetric = \"jain\"").starts_with("metric"));
        assert!(wrong("metric = \"sender-retrans-share\"").starts_with("metric"));
        assert!(wrong("metric = \"throughput\"\nover = \"classes\"").starts_with("over"));
        plot("kind = \"time\"\nmetric = \"throughput\"\nover = \"classes\"").check().unwrap();
        plot("metric = \"completion\"").check().unwrap();
    }

    #[test]
    fn points_are_not_joined_by_a_line() {
        let conditions = [("1g", 1.0), ("1g", 2.0), ("10g", 1.0), ("10g", 2.0)];
        let conditions = conditions.map(|(point, x)| condition(point, "5", x));
        let drawn = lines(&plot("metric = \"drops\""), &conditions);
        let each = ["reno, 10g, 5", "reno, 1g, 5"].map(|name| (name.to_string(), vec![1.0, 2.0]));
        assert_eq!(drawn, each);
        // of one there is nothing to distinguish
        let drawn = lines(&plot("metric = \"drops\"\npoints = [\"1g\"]"), &conditions);
        assert_eq!(drawn, [("reno, 5".to_string(), vec![1.0, 2.0])]);
    }
}
