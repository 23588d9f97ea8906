//! What an experiment must show.

use crate::{runner::RunRecord, stats};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is taken from each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Completion time of the transfer.
    Completion,
    /// Goodput.
    Goodput,
    /// Retransmission timeouts of the sender's kernel.
    SenderTimeouts,
    /// Retransmissions of the sender's kernel per hundred repairs of the box, over all runs of a point.
    SenderRetransShare,
    /// Stored bytes in bandwidth-delay products, median over the samples of a run.
    StoredBdp,
    /// 1 if the payload did not arrive whole.
    WrongPayloads,
}

/// How the runs of a point become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Median of the runs; of a ratio: ratio of the medians.
    Median,
    /// 99th percentile by nearest rank; of a ratio: ratio of the percentiles.
    P99,
    /// Sum over the runs.
    Sum,
}

/// Which way the bound holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Ours must not be above it.
    AtMost,
    /// Ours must not be below it.
    AtLeast,
}

/// One line of an experiment's claims. Judged at every point it names; the worst point is what counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name.
    pub id: String,
    /// What is measured.
    pub metric: Metric,
    /// In which variant.
    pub of: String,
    /// Relative to which variant; none: by itself.
    pub per: Option<String>,
    /// How runs become one number.
    pub statistic: Statistic,
    /// Points it speaks of: those whose name begins so; empty: all.
    #[serde(default)]
    pub points: Vec<String>,
    /// The paper's value; none: the paper has none.
    pub paper: Option<f64>,
    /// Which way the bound holds.
    pub side: Side,
    /// The bound.
    pub bound: f64,
    /// Unit of the numbers.
    #[serde(default)]
    pub unit: String,
}

/// A claim and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Its name.
    pub id: String,
    /// The paper's value.
    pub paper: Option<f64>,
    /// Ours at the worst point; none: it could not be measured.
    pub ours: Option<f64>,
    /// The bound, e.g. "<= 1.05".
    pub bound: String,
    /// Whether it holds everywhere.
    pub holds: bool,
    /// Unit.
    pub unit: String,
    /// Runs it rests on.
    pub runs: usize,
    /// The worst point, or why it could not be measured.
    pub note: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let number = |v: Option<f64>| v.map_or("-".to_string(), |v| format!("{v:.3}"));
        write!(
            f,
            "{}  {:<34} paper {:>8}  ours {:>8}  bound {:>9} {:<6} runs {:>4}  {}",
            if self.holds { "holds" } else { "FAILS" },
            self.id,
            number(self.paper),
            number(self.ours),
            self.bound,
            self.unit,
            self.runs,
            self.note
        )
    }
}

fn of_run(metric: Metric, run: &RunRecord) -> Option<f64> {
    match metric {
        Metric::Completion => run.completion_s,
        Metric::Goodput => run.completion_s.map(|s| run.bytes as f64 * 8.0 / s),
        Metric::SenderTimeouts => Some(run.sender_timeouts as f64),
        Metric::SenderRetransShare => None,
        Metric::StoredBdp => run.stored_bdp,
        Metric::WrongPayloads => Some(f64::from(u8::from(!run.checksum_ok))),
    }
}

fn of_point(metric: Metric, statistic: Statistic, runs: &[&RunRecord]) -> Option<f64> {
    if metric == Metric::SenderRetransShare {
        let repairs: u64 = runs.iter().map(|r| r.repaired_segs).sum();
        let retrans: u64 = runs.iter().map(|r| r.sender_retrans_segs).sum();
        return Some(if repairs == 0 { retrans as f64 } else { 100.0 * retrans as f64 / repairs as f64 });
    }
    // a run that failed has no time: the point is not measured, not better
    let values: Option<Vec<f64>> = runs.iter().map(|r| of_run(metric, r)).collect();
    let values = values?;
    match statistic {
        Statistic::Median => stats::median(&values),
        Statistic::P99 => stats::quantile(&values, 0.99),
        Statistic::Sum => Some(values.iter().sum()),
    }
}

impl Claim {
    fn value(&self, point: &str, runs: &[RunRecord]) -> Option<f64> {
        let of = |variant: &str| {
            let chosen: Vec<_> = runs.iter().filter(|r| r.point == point && r.variant == variant).collect();
            if chosen.is_empty() { None } else { of_point(self.metric, self.statistic, &chosen) }
        };
        let value = of(&self.of)?;
        match &self.per {
            Some(per) => Some(value / of(per)?),
            None => Some(value),
        }
    }

    fn holds(&self, value: f64) -> bool {
        match self.side {
            Side::AtMost => value <= self.bound,
            Side::AtLeast => value >= self.bound,
        }
    }

    /// Judges the claim over all runs; `points` are the names of the points that were to be run.
    pub fn judge(&self, points: &[String], runs: &[RunRecord]) -> Verdict {
        let mine: Vec<&String> = points
            .iter()
            .filter(|p| {
                self.points.is_empty() || self.points.iter().any(|prefix| p.starts_with(prefix.as_str()))
            })
            .collect();
        let count = runs
            .iter()
            .filter(|r| {
                mine.contains(&&r.point) && (r.variant == self.of || Some(&r.variant) == self.per.as_ref())
            })
            .count();
        let mut worst: Option<(f64, &str)> = None;
        let mut missing = Vec::new();
        for point in mine {
            match self.value(point, runs) {
                Some(value) => {
                    let is_worse = worst.is_none_or(|(w, _)| match self.side {
                        Side::AtMost => value > w,
                        Side::AtLeast => value < w,
                    });
                    if is_worse {
                        worst = Some((value, point));
                    }
                }
                None => missing.push(point.as_str()),
            }
        }
        let note = match (&worst, missing.is_empty()) {
            (_, false) => format!("not measured: {}", missing.join(", ")),
            (Some((_, point)), _) => format!("worst at {point}"),
            (None, _) => "no point of this experiment".into(),
        };
        let sign = if self.side == Side::AtMost { "<=" } else { ">=" };
        Verdict {
            id: self.id.clone(),
            paper: self.paper,
            ours: worst.map(|(v, _)| v),
            bound: format!("{sign} {}", self.bound),
            holds: missing.is_empty() && worst.is_some_and(|(v, _)| self.holds(v)),
            unit: self.unit.clone(),
            runs: count,
            note,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(point: &str, variant: &str, seconds: Option<f64>) -> RunRecord {
        RunRecord {
            point: point.into(),
            variant: variant.into(),
            completion_s: seconds,
            bytes: 1000,
            checksum_ok: seconds.is_some(),
            ..RunRecord::default()
        }
    }

    fn claim() -> Claim {
        Claim {
            id: "c".into(),
            metric: Metric::Completion,
            of: "windlass".into(),
            per: Some("bbr".into()),
            statistic: Statistic::Median,
            points: vec![],
            paper: Some(1.05),
            side: Side::AtMost,
            bound: 1.05,
            unit: "x".into(),
        }
    }

    #[test]
    fn the_worst_point_decides() {
        let points = ["a".to_string(), "b".to_string()];
        let mut runs = vec![run("a", "windlass", Some(1.0)), run("a", "bbr", Some(1.0))];
        runs.extend([run("b", "windlass", Some(1.2)), run("b", "bbr", Some(1.0))]);
        let verdict = claim().judge(&points, &runs);
        assert_eq!(verdict.ours, Some(1.2));
        assert!(!verdict.holds);
        assert_eq!(verdict.runs, 4);
        assert!(verdict.note.contains('b'));
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        let points = ["a".to_string()];
        assert!(!claim().judge(&points, &[]).holds);
        let failed = [run("a", "windlass", None), run("a", "bbr", Some(1.0))];
        let verdict = claim().judge(&points, &failed);
        assert!(!verdict.holds);
        assert!(verdict.note.contains("not measured"));
    }
}
