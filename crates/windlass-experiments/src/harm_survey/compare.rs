//! What the runs of each path come to: times without and behind the box, their ratios, and the claims about these.

use super::{
    path::{Path, TIME_LIMIT_S, Variant},
    workload::Kind,
};
use crate::{
    claim::{Verdict, of_point},
    metric::{Metric, Selection, Statistic},
    record::RunRecord,
    stats,
};
use std::collections::BTreeMap;

/// Algorithms of the box.
pub const ALGORITHMS: [&str; 3] = ["bbr", "bbr3", "cubic"];

/// What is run of each path: the server alone with CUBIC and with native BBR, with CUBIC behind the box, and alone again with
/// other seeds.
pub const VARIANTS: [Variant; 7] = [
    Variant { name: "cubic", server: "cubic", boxed: None, is_again: false },
    Variant { name: "bbr", server: "bbr", boxed: None, is_again: false },
    Variant { name: "box-bbr", server: "cubic", boxed: Some(ALGORITHMS[0]), is_again: false },
    Variant { name: "box-bbr3", server: "cubic", boxed: Some(ALGORITHMS[1]), is_again: false },
    Variant { name: "box-cubic", server: "cubic", boxed: Some(ALGORITHMS[2]), is_again: false },
    Variant { name: "cubic-again", server: "cubic", boxed: None, is_again: true },
    Variant { name: "bbr-again", server: "bbr", boxed: None, is_again: true },
];
/// Variants without the box, by which the others are judged.
pub const ALONE: usize = 2;

/// What is compared with the slower one alone, as tables name it: the box with each of [`ALGORITHMS`], and the server alone with
/// other seeds. What that differs from itself by is chance, which any box that changes the time of a packet is exposed to: with the
/// same seed, other packets are lost then.
pub const COMPARED: [&str; VARIANTS.len() - ALONE] =
    [ALGORITHMS[0], ALGORITHMS[1], ALGORITHMS[2], "(cubic, again)", "(bbr, again)"];

/// Which paths a claim is about, and what is taken of them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Of {
    /// The ratio of times, at a quantile over all paths.
    All(f64),
    /// The same over paths that lose nothing.
    LossFree(f64),
    /// A quantile of the times of all messages of a path, beside that of the server alone, on the worst path.
    Messages(Statistic),
}

/// The claims of each algorithm: name, what is taken, and the most that it may be.
const CLAIMS: [(&str, Of, f64); 7] = [
    ("median", Of::All(0.5), 1.00),
    ("p10", Of::All(0.1), 0.85),
    ("p99", Of::All(0.99), 1.05),
    ("worst", Of::All(1.0), 1.15),
    ("loss-free-p99", Of::LossFree(0.99), 1.03),
    ("messages-median", Of::Messages(Statistic::Median), 1.02),
    ("messages-p99", Of::Messages(Statistic::P99), 1.10),
];

impl Of {
    /// Whether it is about such a path.
    fn is_about(self, path: &Path) -> bool {
        match self {
            Of::All(_) => true,
            Of::LossFree(_) => path.is_loss_free(),
            Of::Messages(_) => path.workload.kind == Kind::Messages,
        }
    }
}

/// The runs of one path.
#[derive(Clone, Debug)]
pub struct Compared<'a> {
    /// The path.
    pub path: &'a Path,
    /// Median time of each of [`VARIANTS`] in s; infinite: most of its runs did not finish.
    pub times_s: [f64; VARIANTS.len()],
    /// The runs of each.
    pub runs: [Vec<&'a RunRecord>; VARIANTS.len()],
}

/// The time of a run: the longest that a flow waited for what it transferred, from connect() or a request to the last byte,
/// pauses of the application apart. None: something did not arrive, or not whole.
pub fn waited_s(run: &RunRecord) -> Option<f64> {
    if run.error.is_some() || run.flows.is_empty() {
        return None;
    }
    let of_flow = |flow: &windlass_scenario::FlowReport| match &flow.response_times {
        Some(times) => Some(times.mean_s * times.count as f64),
        None => flow.completion_s,
    };
    run.flows.iter().map(of_flow).try_fold(0.0, |longest: f64, waited| Some(longest.max(waited?)))
}

/// The paths of which all `seeds` runs of each variant are there.
pub fn compare<'a>(paths: &'a [Path], runs: &'a [RunRecord], seeds: usize) -> Vec<Compared<'a>> {
    let mut of: BTreeMap<(&str, &str), Vec<&RunRecord>> = BTreeMap::new();
    runs.iter().for_each(|run| of.entry((&run.point, &run.variant)).or_default().push(run));
    let compared = |path: &'a Path| {
        let name = path.name();
        let runs = VARIANTS.map(|v| of.get(&(name.as_str(), v.name)).cloned().unwrap_or_default());
        let median_s = |runs: &Vec<&RunRecord>| {
            let times: Vec<f64> = runs.iter().map(|r| waited_s(r).unwrap_or(f64::INFINITY)).collect();
            stats::median(&times).unwrap_or(f64::INFINITY)
        };
        let times_s = runs.each_ref().map(median_s);
        runs.iter().all(|r| r.len() == seeds).then_some(Compared { path, times_s, runs })
    };
    paths.iter().filter_map(compared).collect()
}

impl Compared<'_> {
    /// Time of the slower of CUBIC alone and native BBR alone; what did not finish took at least the time limit. Messages that wait at
    /// once may wait for longer than that together, and finish.
    pub fn alone_s(&self) -> f64 {
        let known_s = |s: &f64| if s.is_finite() { *s } else { TIME_LIMIT_S };
        self.times_s[..ALONE].iter().map(known_s).fold(0.0, f64::max)
    }

    /// Time behind the box with [`ALGORITHMS`]`[algorithm]`, or of what else [`COMPARED`] has.
    pub fn boxed_s(&self, algorithm: usize) -> f64 {
        self.times_s[ALONE + algorithm]
    }

    /// That over the slower one alone; none: neither finished.
    pub fn ratio(&self, algorithm: usize) -> Option<f64> {
        let boxed_s = self.boxed_s(algorithm);
        let is_known = boxed_s.is_finite() || self.times_s[..ALONE].iter().all(|s| s.is_finite());
        is_known.then(|| boxed_s / self.alone_s())
    }

    /// A quantile of all messages' times of one of [`COMPARED`] over that of the server alone, with CUBIC; none: not measured.
    pub fn messages_ratio(&self, algorithm: usize, statistic: Statistic) -> Option<f64> {
        let time_s =
            |runs: &[&RunRecord]| of_point(Metric::Response, Some(statistic), runs, &Selection::default());
        Some(time_s(&self.runs[ALONE + algorithm])? / time_s(&self.runs[0])?)
    }

    /// The run behind the box whose time is nearest to the median.
    pub fn typical(&self, algorithm: usize) -> Option<&RunRecord> {
        let median_s = self.boxed_s(algorithm);
        let distance = |run: &RunRecord| {
            let waited_s = waited_s(run).unwrap_or(f64::INFINITY);
            if waited_s == median_s { 0.0 } else { (waited_s - median_s).abs() }
        };
        self.runs[ALONE + algorithm].iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)))
    }
}

/// A path and an algorithm of the box with their ratio.
#[derive(Clone, Copy, Debug)]
pub struct Ranked<'a> {
    /// The runs.
    pub compared: &'a Compared<'a>,
    /// Index in [`ALGORITHMS`].
    pub algorithm: usize,
    /// Time behind the box over the slower one alone.
    pub ratio: f64,
}

/// All ratios, the worst first; of equal ones, that of the lower path number and then of the first algorithm.
pub fn ranked<'a>(compared: &'a [Compared<'a>]) -> Vec<Ranked<'a>> {
    let of_path = |compared: &'a Compared<'a>| {
        let ranked = move |algorithm| Some(Ranked { compared, algorithm, ratio: compared.ratio(algorithm)? });
        (0..ALGORITHMS.len()).filter_map(ranked)
    };
    let mut all: Vec<Ranked> = compared.iter().flat_map(of_path).collect();
    all.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    all
}

/// The ratios of one of [`COMPARED`] on some paths.
pub fn ratios(compared: &[Compared], algorithm: usize, is_chosen: impl Fn(&Path) -> bool) -> Vec<f64> {
    compared.iter().filter(|c| is_chosen(c.path)).filter_map(|c| c.ratio(algorithm)).collect()
}

/// The claims about these of `paths`, one list for each algorithm after the other. Those about paths that were not to be run are
/// left out.
pub fn judge(paths: &[Path], compared: &[Compared], seeds: usize) -> Vec<Verdict> {
    let about = |of: Of| paths.iter().filter(|p| of.is_about(p)).count();
    let all = (0..ALGORITHMS.len()).flat_map(|algorithm| CLAIMS.map(|claim| (algorithm, claim)));
    all.filter(|(_, (_, of, _))| about(*of) > 0)
        .map(|(algorithm, (name, of, bound))| {
            let chosen: Vec<&Compared> = compared.iter().filter(|c| of.is_about(c.path)).collect();
            let number = |c: &&Compared| match of {
                Of::All(_) | Of::LossFree(_) => c.ratio(algorithm),
                Of::Messages(statistic) => c.messages_ratio(algorithm, statistic),
            };
            let numbers: Vec<f64> = chosen.iter().filter_map(number).collect();
            let q = if let Of::All(q) | Of::LossFree(q) = of { q } else { 1.0 };
            let ours = stats::quantile(&numbers, q);
            let at = chosen.iter().find(|c| ours.is_some() && number(c) == ours);
            let verdict = Verdict {
                id: format!("{name}-{}", ALGORITHMS[algorithm]),
                ours,
                bound: format!("<= {bound:.2}"),
                holds: ours.is_some_and(|ours| ours <= bound),
                unit: "x".into(),
                runs: chosen.len() * seeds * (ALONE + 1),
                note: format!(
                    "{}, {} of {} paths measured",
                    at.map_or("not measured".into(), |c| c.path.name()),
                    numbers.len(),
                    about(of)
                ),
                ..Verdict::default()
            };
            verdict.of_planned(about(of) * seeds * (ALONE + 1))
        })
        .collect()
}
