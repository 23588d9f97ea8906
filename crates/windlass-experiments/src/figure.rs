//! The plots that an experiment requests.

use crate::{
    interval::Interval,
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
    /// Only these variants; empty: all.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Label of the x axis.
    pub x: String,
    /// Label of the y axis.
    pub y: String,
    /// By what values are divided before they are drawn, e.g. 1e6 for Mbit/s.
    #[serde(default = "one")]
    pub unit: f64,
    /// Of what varies: the other variants' numbers relative to that of this one.
    pub per: Option<String>,
    /// Of what varies: a line for each class of flows.
    #[serde(default)]
    pub by_class: bool,
    /// Values that are marked across the plot, as the paper's, by their names.
    #[serde(default)]
    pub marks: BTreeMap<String, f64>,
}

fn one() -> f64 {
    1.0
}

/// Number of the variant, class if they are drawn each, name of the point, and what varies besides x.
type Line<'a> = (usize, String, &'a str, &'a str);

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
        if self.kind != Kind::Vary && (self.per.is_some() || self.by_class || !self.marks.is_empty()) {
            return Err("per, by_class, marks: only what varies has them; leave them out".into());
        }
        if self.by_class && self.class.is_some() {
            return Err("by_class: all classes are drawn, and class is one; leave one out".into());
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
        let is_drawn = |v: &&&str| self.variants.is_empty() || self.variants.iter().any(|own| own == *v);
        let variants: Vec<&str> = variants.iter().filter(is_drawn).copied().collect();
        let is_mine = |c: &&&Condition| is_about(&self.points, &c.name);
        let mine: Vec<&Condition> = conditions.iter().filter(is_mine).copied().collect();
        let runs_of = |condition: &Condition, variant: &str| -> Vec<&RunRecord> {
            runs.iter().filter(|r| r.point == condition.name && r.variant == variant).collect()
        };
        match self.kind {
            Kind::Vary => vec![(String::new(), self.lines(&mine, &variants, &runs_of))],
            Kind::Cdf => mine
                .iter()
                .map(|c| {
                    (
                        c.name.clone(),
                        variants
                            .iter()
                            .map(|v| cdf(v, &self.numbers(&runs_of(c, v), &self.selection())))
                            .collect(),
                    )
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
    fn numbers(&self, runs: &[&RunRecord], selection: &Selection) -> Vec<Counted> {
        let all: Option<Vec<Vec<Counted>>> = runs.iter().map(|r| values(self.metric, r, selection)).collect();
        let in_unit = |v: Counted| Counted { value: v.value / self.unit, ..v };
        all.unwrap_or_default().concat().into_iter().map(in_unit).collect()
    }

    fn lines<'r>(
        &self,
        conditions: &[&Condition],
        variants: &[&str],
        runs_of: &dyn Fn(&Condition, &str) -> Vec<&'r RunRecord>,
    ) -> Vec<Series> {
        let mut lines: BTreeMap<Line, Series> = BTreeMap::new();
        for condition in conditions {
            let Some(x) = condition.x else { continue };
            for (index, variant) in variants.iter().enumerate() {
                if self.per.as_deref() == Some(variant) {
                    continue;
                }
                let runs = runs_of(condition, variant);
                for class in self.classes(&runs) {
                    let selection =
                        Selection { class: class.as_deref().or(self.class.as_deref()), ..self.selection() };
                    let number = |runs: &[&RunRecord]| self.statistic().of(&self.numbers(runs, &selection));
                    let y = match &self.per {
                        Some(per) => {
                            number(&runs).zip(number(&runs_of(condition, per))).map(|(of, per)| of / per)
                        }
                        None => number(&runs),
                    };
                    let Some(y) = y.filter(|y| y.is_finite()) else { continue };
                    let key = (index, class.clone().unwrap_or_default(), &*condition.point, &*condition.line);
                    let line = lines.entry(key).or_default();
                    line.points.push((x, y));
                    line.spans.extend(self.span(&runs, number).map(|(low, high)| (x, low, high)));
                }
            }
        }
        let all = || lines.values().flat_map(|line| &line.points).map(|(x, _)| *x);
        let (from, to) = (all().fold(f64::MAX, f64::min), all().fold(f64::MIN, f64::max));
        let points: BTreeSet<&str> = lines.keys().map(|(_, _, point, _)| *point).collect();
        // where variants are one, as in a sweep, classes are enough
        let is_one = self.by_class && lines.keys().all(|key| key.0 == 0);
        let name = |(index, class, point, line): Line| {
            let point = if points.len() > 1 { point } else { "" };
            let variant = if is_one && !class.is_empty() { "" } else { variants[index] };
            [variant, &class, point, line]
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
        lines.into_iter().map(|(key, line)| Series { name: name(key), ..line }).chain(marks).collect()
    }

    /// The classes that lines are drawn of; none: of all that is chosen.
    fn classes(&self, runs: &[&RunRecord]) -> Vec<Option<String>> {
        let classes = || runs.iter().flat_map(|r| &r.flows).map(|f| f.class.clone());
        match self.by_class {
            true => classes()
                .collect::<BTreeSet<String>>()
                .into_iter()
                .filter(|c| !c.is_empty())
                .map(Some)
                .collect(),
            false => vec![None],
        }
    }

    /// The confidence interval of a mean over these runs, by the number of each.
    fn span(&self, runs: &[&RunRecord], number: impl Fn(&[&RunRecord]) -> Option<f64>) -> Option<(f64, f64)> {
        if self.statistic() != Statistic::Mean || self.per.is_some() {
            return None;
        }
        let each: Option<Vec<f64>> = runs.iter().map(|run| number(&[run])).collect();
        let Interval { low, high, .. } = Interval::of(&each?)?;
        low.zip(high)
    }

    fn over_time(&self, run: &RunRecord) -> Option<Vec<Series>> {
        let intervals = run.intervals.as_ref()?;
        let at_s = |index: usize| intervals.end_s(index);
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
