//! What an experiment must show.

use crate::{
    metric::{Metric, Over, Selection, Statistic, Window, is_about, is_measured, values},
    rank_sum,
    record::RunRecord,
    stats::Counted,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which way the bound holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Ours must not be above it.
    AtMost,
    /// Ours must not be below it.
    AtLeast,
}

/// Whose a claim is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The paper's: its number, or what its text or figure shows without one.
    Paper,
    /// The paper's, with a bound that is easier to keep than its number.
    EasierThanPaper,
    /// Chosen by us.
    #[default]
    Ours,
}

impl Origin {
    /// Of a claim with this bound, if nothing else is known of it than the paper's number.
    pub fn of(paper: Option<f64>, side: Side, bound: f64) -> Origin {
        match (paper, side) {
            (None, _) => Origin::Ours,
            (Some(paper), Side::AtMost) if bound > paper => Origin::EasierThanPaper,
            (Some(paper), Side::AtLeast) if bound < paper => Origin::EasierThanPaper,
            (Some(_), _) => Origin::Paper,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Origin::Paper => "paper",
            Origin::EasierThanPaper => "easier",
            Origin::Ours => "ours",
        })
    }
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
    /// Relative to flows of this class: of the same run, whose ratio is a number of that run; with `per`, in that variant.
    pub per_class: Option<String>,
    /// The share of an improvement: (baseline - of) / (baseline - per), so that `per` has 1 and this variant 0;
    /// where `per` is not better than it, nothing is measured.
    pub baseline: Option<String>,
    /// Only flows of this class.
    pub class: Option<String>,
    /// Only flows of this tenant.
    pub tenant: Option<String>,
    /// Of which link, as reports name it: "a > b".
    pub link: Option<String>,
    /// What flows are put together by.
    #[serde(default)]
    pub over: Over,
    /// Only these stretches of the runs, each judged by itself; empty: all.
    #[serde(default)]
    pub windows: Vec<Window>,
    /// How runs become one number; none: the metric is one of all runs.
    pub statistic: Option<Statistic>,
    /// Points it covers: those whose name begins so; empty: all.
    #[serde(default)]
    pub points: Vec<String>,
    /// The paper's value; none: the paper has none.
    pub paper: Option<f64>,
    /// Whose claim it is; none: what follows from `paper` and `bound`.
    pub origin: Option<Origin>,
    /// Which way the bound holds.
    pub side: Side,
    /// The bound.
    pub bound: f64,
    /// At every point the runs of `of` and `per` must also differ, that way, by more than chance: with this p at most. None: the
    /// bound alone decides.
    pub significance: Option<f64>,
    /// Unit of the numbers.
    #[serde(default)]
    pub unit: String,
}

/// A claim and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verdict {
    /// Its name.
    pub id: String,
    /// Whose claim it is.
    pub origin: Origin,
    /// The paper's value.
    pub paper: Option<f64>,
    /// Ours at the worst point; none: it could not be measured.
    pub ours: Option<f64>,
    /// The bound, e.g. "<= 1.05".
    pub bound: String,
    /// Whether it holds everywhere.
    pub holds: bool,
    /// Of a difference that must be more than chance: the largest p of its points; none: not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Unit.
    pub unit: String,
    /// Runs it rests on.
    pub runs: usize,
    /// The worst point, or why it could not be measured.
    pub note: String,
}

impl Verdict {
    /// What it is if it should have rested on so many runs: where some are missing, as it was stopped, it does not hold.
    pub fn of_planned(mut self, planned: usize) -> Verdict {
        if self.runs < planned {
            self.holds = false;
            self.note = format!("stopped after {} of {planned} runs", self.runs);
        }
        self
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let number = |v: Option<f64>| v.map_or("-".to_string(), |v| format!("{v:.3}"));
        write!(
            f,
            "{}  {:<34} {:<6}  paper {:>8}  ours {:>8}  bound {:>9} {:<6} runs {:>4}  {}",
            if self.holds { "holds" } else { "FAILS" },
            self.id,
            self.origin,
            number(self.paper),
            number(self.ours),
            self.bound,
            self.unit,
            self.runs,
            self.note
        )
    }
}

/// The number of these runs; none: not measured. Where the metric is one number of all runs, the statistic makes no
/// difference, and may be none.
pub fn of_point(
    metric: Metric,
    statistic: Option<Statistic>,
    runs: &[&RunRecord],
    of: &Selection,
) -> Option<f64> {
    if metric == Metric::SenderRetransShare {
        if runs.is_empty() || !runs.iter().all(|r| is_measured(r, of)) {
            return None;
        }
        let repairs: u64 = runs.iter().map(|r| r.repaired_segs).sum();
        let retrans: u64 = runs.iter().map(|r| r.sender_retrans_segs).sum();
        // where nothing was repaired, each is one too many
        return Some(100.0 * retrans as f64 / repairs.max(1) as f64);
    }
    let numbers: Option<Vec<Vec<Counted>>> = runs.iter().map(|r| values(metric, r, of)).collect();
    let numbers = numbers?.concat();
    if numbers.is_empty() { None } else { statistic?.of(&numbers) }
}

/// A probability with two digits.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let decimals = if self.0 >= 0.1 { 2 } else { 3 };
        if self.0 < 0.001 { write!(f, "{:.0e}", self.0) } else { write!(f, "{:.decimals$}", self.0) }
    }
}

impl Claim {
    /// The variants it speaks of.
    pub fn variants(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.of).chain(&self.per).chain(&self.baseline)
    }

    /// Whether it speaks of a point.
    pub fn is_about(&self, point: &str) -> bool {
        is_about(&self.points, point)
    }

    /// Whether runs must be recorded in intervals.
    pub fn needs_intervals(&self) -> bool {
        !self.windows.is_empty()
    }

    /// Whether it has all that its metric needs, and no more; an error begins with the key.
    pub fn check(&self) -> Result<(), String> {
        let of = Selection { per_class: self.per_class.as_deref(), ..self.selection(None) };
        self.metric.check_selection(&of, self.statistic)?;
        if self.needs_intervals() && !self.metric.has_windows() {
            return Err(
                "windows: only throughput, jain, mean-queue and max-queue can be taken in windows".into()
            );
        }
        if let Some(w) = self.windows.iter().find(|w| w.to <= w.from) {
            return Err(format!("windows: {} to {} is no time", w.from, w.to));
        }
        if self.baseline.is_some() && self.per.is_none() {
            return Err("baseline: needs per, the variant whose improvement counts as 1".into());
        }
        if let Some(p) = self.significance {
            if !(p > 0.0 && p < 1.0) {
                return Err(format!("significance: {p} is no probability between 0 and 1, as 0.05 is"));
            }
            if self.per.is_none() || self.baseline.is_some() {
                return Err(
                    "significance: compares runs of two variants: it needs per, and no baseline".into()
                );
            }
        }
        if self.origin == Some(Origin::Paper)
            && Origin::of(self.paper, self.side, self.bound) == Origin::EasierThanPaper
        {
            return Err("origin: the bound is easier than the paper's number; leave it out".into());
        }
        Ok(())
    }

    fn selection(&self, window: Option<Window>) -> Selection<'_> {
        let per_class = self.per_class.as_deref().filter(|_| self.per.is_none());
        Selection {
            class: self.class.as_deref(),
            per_class,
            tenant: self.tenant.as_deref(),
            link: self.link.as_deref(),
            over: self.over,
            window,
        }
    }

    /// What it is taken of, with the variants whose runs that is in.
    pub fn selections(&self) -> Vec<(Selection<'_>, Vec<&str>)> {
        let selection = self.selection(None);
        let (Some(class), Some(per)) = (self.per_class.as_deref(), &self.per) else {
            return vec![(selection, self.variants().map(String::as_str).collect())];
        };
        let of = std::iter::once(&self.of).chain(&self.baseline).map(String::as_str).collect();
        vec![(selection, of), (Selection { class: Some(class), ..selection }, vec![per])]
    }

    /// The number of a point in a window, or none: not measured.
    fn value(&self, point: &str, window: Option<Window>, runs: &[RunRecord]) -> Option<f64> {
        let selection = self.selection(window);
        let number = |variant: &str, of: &Selection| {
            let chosen: Vec<_> = runs.iter().filter(|r| r.point == point && r.variant == variant).collect();
            if chosen.is_empty() { None } else { of_point(self.metric, self.statistic, &chosen, of) }
        };
        let value = number(&self.of, &selection)?;
        let Some(per) = &self.per else { return Some(value) };
        let class = self.per_class.as_deref().or(selection.class);
        let per = number(per, &Selection { class, ..selection })?;
        let ratio = match &self.baseline {
            Some(baseline) => {
                let base = number(baseline, &selection)?;
                let gain = |to: f64| if self.metric.is_better_higher() { to - base } else { base - to };
                // where `per` is no better, there is no improvement to have a share of
                if gain(per) <= 0.0 {
                    return None;
                }
                gain(value) / gain(per)
            }
            None => value / per,
        };
        ratio.is_finite().then_some(ratio)
    }

    /// Whose claim it is.
    pub fn origin(&self) -> Origin {
        self.origin.unwrap_or_else(|| Origin::of(self.paper, self.side, self.bound))
    }

    /// How probable the difference of the two variants' runs at a point would be by chance; none: too few were measured for any
    /// difference to be significant.
    fn p_value(&self, point: &str, window: Option<Window>, runs: &[RunRecord]) -> Option<f64> {
        let selection = self.selection(window);
        let numbers = |variant: &str, of: &Selection| -> Vec<f64> {
            let mine = runs.iter().filter(|r| r.point == point && r.variant == variant);
            mine.filter_map(|run| of_point(self.metric, self.statistic, &[run], of)).collect()
        };
        let class = self.per_class.as_deref().or(selection.class);
        let (of, per) =
            (numbers(&self.of, &selection), numbers(self.per.as_ref()?, &Selection { class, ..selection }));
        if rank_sum::least_p(of.len(), per.len()) > self.significance? {
            return None;
        }
        match self.side {
            Side::AtMost => rank_sum::p_value(&of, &per),
            Side::AtLeast => rank_sum::p_value(&per, &of),
        }
    }

    /// The largest p of these places, whether it is small enough, and the note of it.
    fn test(&self, places: &[(&str, Option<Window>)], runs: &[RunRecord]) -> (Option<f64>, bool, String) {
        let Some(significance) = self.significance else { return (None, true, String::new()) };
        let all: Option<Vec<f64>> = places.iter().map(|(point, w)| self.p_value(point, *w, runs)).collect();
        match all.and_then(|all| all.into_iter().reduce(f64::max)) {
            None => (None, true, ", too few runs for a test".into()),
            Some(p) if p <= significance => (Some(p), true, format!(", p = {}", Short(p))),
            Some(p) => (Some(p), false, format!(", no more than chance: p = {}", Short(p))),
        }
    }

    /// Whether it rests on the runs of a variant at a point.
    pub fn rests_on(&self, point: &str, variant: &str) -> bool {
        self.is_about(point) && self.variants().any(|v| v == variant)
    }

    fn holds(&self, value: f64) -> bool {
        match self.side {
            Side::AtMost => value <= self.bound,
            Side::AtLeast => value >= self.bound,
        }
    }

    /// Judges the claim over all runs; `points` are the names of the points that were to be run.
    pub fn judge(&self, points: &[String], runs: &[RunRecord]) -> Verdict {
        let mine: Vec<&String> = points.iter().filter(|p| self.is_about(p)).collect();
        let is_counted = |r: &&RunRecord| mine.contains(&&r.point) && self.rests_on(&r.point, &r.variant);
        let count = runs.iter().filter(is_counted).count();
        let windows: Vec<Option<Window>> = match self.windows.is_empty() {
            true => vec![None],
            false => self.windows.iter().copied().map(Some).collect(),
        };
        let mut worst: Option<(f64, String)> = None;
        let mut missing = Vec::new();
        let places: Vec<(&str, Option<Window>)> =
            mine.iter().flat_map(|p| windows.iter().map(move |w| (p.as_str(), *w))).collect();
        for (point, window) in places.iter().copied() {
            let place = window.map_or(point.to_string(), |w| format!("{point}, {} to {}", w.from, w.to));
            match self.value(point, window, runs) {
                Some(value) => {
                    let is_worse = worst.as_ref().is_none_or(|(w, _)| match self.side {
                        Side::AtMost => value > *w,
                        Side::AtLeast => value < *w,
                    });
                    if is_worse {
                        worst = Some((value, place));
                    }
                }
                None => missing.push(place),
            }
        }
        let note = match (&worst, missing.is_empty()) {
            (_, false) => format!("not measured: {}", missing.join(", ")),
            (Some((_, point)), _) => format!("worst at {point}"),
            (None, _) => "no point of this experiment".into(),
        };
        let (p, is_more_than_chance, of_test) = self.test(&places, runs);
        let note = if missing.is_empty() { note + &of_test } else { note };
        let sign = if self.side == Side::AtMost { "<=" } else { ">=" };
        Verdict {
            id: self.id.clone(),
            origin: self.origin(),
            p,
            paper: self.paper,
            ours: worst.as_ref().map(|(v, _)| *v),
            bound: format!("{sign} {}", self.bound),
            holds: missing.is_empty() && is_more_than_chance && worst.is_some_and(|(v, _)| self.holds(v)),
            unit: self.unit.clone(),
            runs: count,
            note,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_scenario::{FlowReport, Span};

    fn run(point: &str, variant: &str, seconds: Option<f64>) -> RunRecord {
        RunRecord {
            point: point.into(),
            variant: variant.into(),
            flows: vec![FlowReport { completion_s: seconds, checksum_ok: true, ..FlowReport::default() }],
            bytes: 1000,
            checksum_ok: seconds.is_some(),
            ..RunRecord::default()
        }
    }

    fn claim() -> Claim {
        toml::from_str(
            "id = \"c\"\nmetric = \"completion\"\nof = \"windlass\"\nper = \"bbr\"\nstatistic = \"median\"\n\
             paper = 1.05\nside = \"at-most\"\nbound = 1.05\nunit = \"x\"",
        )
        .unwrap()
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

    /// One run in which the second class has 1.6 times as much as the first, and one with 2.4 times: neither is within 5 % of 2.
    #[test]
    fn runs_do_not_make_up_for_each_other() {
        let weighted = |(one, two): (f64, f64)| {
            let flow = |class: &str, goodput_bps| FlowReport {
                class: class.into(),
                goodput_bps,
                ..FlowReport::default()
            };
            RunRecord { flows: vec![flow("one", one), flow("two", two)], ..run("a", "windlass", None) }
        };
        // the least of the second relative to the least of the first is another thing
        let runs = [(2e6, 3.2e6), (1e6, 2.4e6)].map(weighted);
        let judged = |statistic, side, bound| {
            let (class, per_class) = (Some("two".to_string()), Some("one".to_string()));
            let of_two = Claim { metric: Metric::Goodput, per: None, class, per_class, ..claim() };
            let claim = Claim { statistic: Some(statistic), side, bound, ..of_two };
            claim.check().unwrap();
            let verdict = claim.judge(&["a".to_string()], &runs);
            (verdict.ours.map(|v| (v * 1e3).round() / 1e3), verdict.holds)
        };
        assert_eq!(judged(Statistic::Min, Side::AtLeast, 1.9), (Some(1.6), false));
        assert_eq!(judged(Statistic::Max, Side::AtMost, 2.1), (Some(2.4), false));
        assert_eq!(
            judged(Statistic::Mean, Side::AtMost, 2.1),
            (Some(2.0), true),
            "the mean is of the ratios"
        );
    }

    #[test]
    fn what_is_easier_than_the_paper_or_chosen_by_us_is_marked() {
        let origin = |paper, side, bound| Claim { paper, side, bound, ..claim() }.origin();
        assert_eq!(origin(Some(1.1), Side::AtMost, 1.1), Origin::Paper);
        assert_eq!(origin(Some(1.1), Side::AtMost, 1.2), Origin::EasierThanPaper);
        assert_eq!(origin(Some(1.1), Side::AtLeast, 1.0), Origin::EasierThanPaper);
        assert_eq!(origin(None, Side::AtMost, 1.0), Origin::Ours);
        // a figure without numbers
        let shown = Claim { paper: None, origin: Some(Origin::Paper), ..claim() };
        shown.check().expect("sound");
        assert_eq!(shown.judge(&[], &[]).origin, Origin::Paper);
        let easier = Claim { bound: 2.0, origin: Some(Origin::Paper), ..claim() };
        assert!(easier.check().expect_err("not the paper's").starts_with("origin"));
    }

    #[test]
    fn a_difference_that_chance_makes_does_not_hold() {
        let points = ["a".to_string()];
        let runs = |of: &[f64], per: &[f64]| -> Vec<RunRecord> {
            let all = |variant: &'static str, times: &[f64]| -> Vec<RunRecord> {
                times.iter().map(|s| run("a", variant, Some(*s))).collect()
            };
            [all("windlass", of), all("bbr", per)].concat()
        };
        let claim = Claim { bound: 0.999, significance: Some(0.05), ..claim() };
        claim.check().expect("sound");
        let verdict = |of: &[f64], per: &[f64]| claim.judge(&points, &runs(of, per));
        let apart = verdict(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert!(apart.holds && apart.note.ends_with(", p = 0.050"), "{apart}");
        let mixed = verdict(&[1.0, 3.0, 5.0], &[2.0, 4.0, 6.0]);
        assert!(!mixed.holds && mixed.note.ends_with("no more than chance: p = 0.35"), "{mixed}");
        // the bound holds, and is all there is to judge by
        let few = verdict(&[1.0, 2.0], &[4.0, 5.0]);
        assert!(few.holds && few.p.is_none() && few.note.ends_with("too few runs for a test"), "{few}");
        for (key, wrong) in [
            ("no probability", Claim { significance: Some(1.0), ..claim.clone() }),
            ("needs per", Claim { per: None, ..claim.clone() }),
        ] {
            let error = wrong.check().expect_err(key);
            assert!(error.starts_with("significance") && error.contains(key), "{error}");
        }
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

    #[test]
    fn a_part_of_the_runs_shows_nothing() {
        let runs = [run("a", "windlass", Some(1.0)), run("a", "bbr", Some(1.0))];
        let judged = || claim().judge(&["a".to_string()], &runs);
        assert!(judged().of_planned(2).holds);
        let verdict = judged().of_planned(3);
        assert_eq!((verdict.holds, verdict.note.as_str()), (false, "stopped after 2 of 3 runs"));
    }

    #[test]
    fn of_a_run_that_never_began_nothing_holds() {
        let refused =
            RunRecord { flows: Vec::new(), error: Some("refused".into()), ..run("a", "windlass", None) };
        for metric in ["sender-timeouts", "timeout-runs", "drops", "sender-retrans", "sender-retrans-share"] {
            let text = format!(
                "id = \"c\"\nmetric = \"{metric}\"\nof = \"windlass\"\nstatistic = \"sum\"\nside = \"at-most\"\nbound = 0"
            );
            let verdict = toml::from_str::<Claim>(&text)
                .unwrap()
                .judge(&["a".to_string()], std::slice::from_ref(&refused));
            assert_eq!((verdict.holds, verdict.ours), (false, None), "{metric}");
            assert!(verdict.note.contains("not measured"), "{}", verdict.note);
        }
    }

    /// Whatever else they report: that was not the transfer that was requested.
    #[test]
    fn runs_with_wrong_payloads_are_not_measured() {
        let mut runs = vec![run("a", "windlass", Some(1.0)), run("a", "bbr", Some(1.0))];
        let points = ["a".to_string()];
        assert!(claim().judge(&points, &runs).holds);
        runs[0].flows[0].checksum_ok = false;
        let verdict = claim().judge(&points, &runs);
        assert_eq!((verdict.holds, verdict.ours), (false, None));
    }

    #[test]
    fn runs_whose_box_controlled_nothing_are_not_measured() {
        let mut runs = vec![run("a", "windlass", Some(1.0)), run("a", "bbr", Some(1.0))];
        runs[0].box_error = Some("the box controlled no flow".into());
        let verdict = claim().judge(&["a".to_string()], &runs);
        assert_eq!((verdict.holds, verdict.ours), (false, None));
    }

    #[test]
    fn retransmissions_of_runs_that_are_not_measured_have_no_share() {
        let share = Metric::SenderRetransShare;
        let claim = Claim { metric: share, per: None, statistic: None, ..claim() };
        let judged = |change: fn(&mut RunRecord)| {
            let mut other = run("a", "windlass", Some(1.0));
            change(&mut other);
            claim.judge(&["a".to_string()], &[run("a", "windlass", Some(1.0)), other]).ours
        };
        assert_eq!(judged(|_| {}), Some(0.0));
        assert_eq!(judged(|r| r.sender_retrans_segs = 1), Some(100.0), "of none");
        let of_many = |r: &mut RunRecord| (r.sender_retrans_segs, r.repaired_segs) = (1, 200);
        assert_eq!(judged(of_many), Some(0.5));
        assert_eq!(judged(|r| r.flows[0].checksum_ok = false), None);
        assert_eq!(judged(|r| r.flows[0].error = Some("not finished".into())), None);
    }

    #[test]
    fn a_share_of_an_improvement() {
        let claim = Claim { baseline: Some("cubic".into()), side: Side::AtLeast, bound: 0.5, ..claim() };
        let runs = [("cubic", 5.0), ("windlass", 3.0), ("bbr", 1.0)].map(|(v, s)| run("a", v, Some(s)));
        assert_eq!(claim.judge(&["a".to_string()], &runs).ours, Some(0.5));
        // nothing to improve on
        let same = [("cubic", 1.0), ("windlass", 3.0), ("bbr", 1.0)].map(|(v, s)| run("a", v, Some(s)));
        assert_eq!(claim.judge(&["a".to_string()], &same).ours, None);
        // both are worse than the baseline: no improvement, however much the worse of them is worse
        let worse = [("cubic", 1.0), ("windlass", 9.0), ("bbr", 3.0)].map(|(v, s)| run("a", v, Some(s)));
        let verdict = claim.judge(&["a".to_string()], &worse);
        assert_eq!((verdict.holds, verdict.ours), (false, None));
        let goodput = |(v, bps): (&str, f64)| {
            let mut run = run("a", v, Some(1.0));
            run.flows[0].goodput_bps = bps;
            run
        };
        let claim = Claim { metric: Metric::Goodput, ..claim };
        let more = [("cubic", 1.0), ("windlass", 3.0), ("bbr", 5.0)].map(goodput);
        assert_eq!(claim.judge(&["a".to_string()], &more).ours, Some(0.5));
        let less = [("cubic", 5.0), ("windlass", 1.0), ("bbr", 3.0)].map(goodput);
        assert_eq!(claim.judge(&["a".to_string()], &less).ours, None);
    }

    #[test]
    fn claims_have_what_their_metric_needs() {
        let wrong = |claim: Claim| claim.check().unwrap_err();
        assert!(wrong(Claim { metric: Metric::MaxQueue, ..claim() }).starts_with("link"));
        let window = Window { from: Span(1.0), to: Span(2.0) };
        assert!(wrong(Claim { windows: vec![window], ..claim() }).starts_with("windows"));
        let empty = Window { to: Span(1.0), ..window };
        assert!(wrong(Claim { metric: Metric::Jain, windows: vec![empty], ..claim() }).contains("no time"));
        let per_class = Some("c".to_string());
        assert!(wrong(Claim { metric: Metric::Drops, per_class, ..claim() }).starts_with("per_class"));
        assert!(wrong(Claim { baseline: Some("x".into()), per: None, ..claim() }).starts_with("baseline"));
    }
}
