//! Needless retransmissions: data of which all had arrived before. Behind the box it is the box that retransmits, and lets the server's
//! own pass where it doubts.

use super::{
    compare::{ALGORITHMS, ALONE, Compared, VARIANTS},
    path::Path,
};
use crate::{
    claim::Verdict,
    record::RunRecord,
    stats,
    summary::{Filled, Row},
};

/// Most of a run's segments at the 99th percentile of runs.
const SHARE_MOST: f64 = 0.01;

/// Segments with data that came, and those that came needlessly, of all flows of these runs; none: not counted.
fn arrivals(runs: &[&RunRecord]) -> Option<(u64, u64)> {
    let mut flows = runs.iter().flat_map(|run| &run.flows);
    flows.try_fold((0, 0), |sum, f| Some((sum.0 + f.arrived_segs?, sum.1 + f.needless_segs?)))
}

/// The share of needless ones; none: not counted, or nothing came.
fn share(runs: &[&RunRecord]) -> Option<f64> {
    let (segs, needless_segs) = arrivals(runs)?;
    (segs > 0).then(|| needless_segs as f64 / segs as f64)
}

/// By how much the share of a path behind the box with [`ALGORITHMS`]`[algorithm]` is above that of CUBIC and of native BBR alone; none:
/// not counted.
fn excess(c: &Compared, algorithm: usize) -> Option<f64> {
    let alone = share(&c.runs[0])?.max(share(&c.runs[1])?);
    Some(share(&c.runs[ALONE + algorithm])? - alone)
}

/// The shares of each run of a variant.
fn shares(compared: &[Compared], variant: usize) -> Vec<f64> {
    compared.iter().flat_map(|c| &c.runs[variant]).filter_map(|run| share(&[run])).collect()
}

/// How many segments came needlessly, by variant.
pub fn table(compared: &[Compared]) -> Filled {
    let row = |variant: usize| {
        let shares = shares(compared, variant);
        let all: Vec<&RunRecord> = compared.iter().flat_map(|c| c.runs[variant].iter().copied()).collect();
        let at = [0.5, 0.9, 0.99, 1.0].map(|q| stats::quantile(&shares, q));
        let values =
            [Some(shares.len() as f64), share(&all).filter(|_| !shares.is_empty()).map(|s| 100.0 * s)]
                .into_iter()
                .chain(at.map(|share| share.map(|share| 100.0 * share)))
                .collect();
        Row { point: "all".into(), variant: VARIANTS[variant].name.into(), values }
    };
    Filled {
        title: "Segments all of whose data had arrived before, in per cent of those that arrived: of all, and quantiles of runs".into(),
        columns: ["runs", "of all (%)", "median", "p90", "p99", "worst"].map(String::from).into(),
        rows: (0..VARIANTS.len()).map(row).filter(|row| row.values[0] != Some(0.0)).collect(),
    }
}

/// The claims, two for each of [`ALGORITHMS`]: the share at the 99th percentile of runs, and that no path has more than alone.
pub fn judge(paths: &[Path], compared: &[Compared], seeds: usize) -> Vec<Verdict> {
    let verdict = |id: String, ours: Option<f64>, bound: f64, note: String| {
        let verdict = Verdict {
            id,
            ours,
            bound: format!("<= {bound:.2}"),
            holds: ours.is_some_and(|ours| ours <= bound),
            runs: compared.len() * seeds * (ALONE + 1),
            note,
            ..Verdict::default()
        };
        verdict.of_planned(paths.len() * seeds * (ALONE + 1))
    };
    let of_algorithm = |(algorithm, name): (usize, &&str)| {
        let p99 = |variant: usize| stats::quantile(&shares(compared, variant), 0.99);
        let said = |variant: usize| p99(variant).map_or("-".into(), |share| format!("{share:.4}"));
        let beyond: Vec<(f64, u32)> =
            compared.iter().filter_map(|c| Some((excess(c, algorithm)?, c.path.number))).collect();
        let worst = beyond.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0));
        let more = beyond.iter().filter(|(excess, _)| *excess > 0.0).count();
        let at = worst
            .map_or("not measured".into(), |(_, number)| format!("path {number}; {more} paths have more"));
        [
            verdict(
                format!("needless-p99-{name}"),
                p99(ALONE + algorithm),
                SHARE_MOST,
                format!("alone {} and {}", said(0), said(1)),
            ),
            verdict(format!("needless-beyond-alone-{name}"), worst.map(|(excess, _)| excess), 0.0, at),
        ]
    };
    ALGORITHMS.iter().enumerate().flat_map(of_algorithm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_scenario::FlowReport;

    fn run(arrived_segs: Option<u64>, needless_segs: Option<u64>) -> RunRecord {
        let flow = FlowReport { arrived_segs, needless_segs, ..FlowReport::default() };
        RunRecord { flows: vec![flow.clone(), flow], ..RunRecord::default() }
    }

    #[test]
    fn needless_retransmissions_are_a_share_of_what_arrived_and_unknown_where_one_flow_was_not_counted() {
        let (counted, unknown) = (run(Some(200), Some(1)), run(None, None));
        assert_eq!(share(&[&counted]), Some(0.005));
        assert_eq!(share(&[&counted, &run(Some(100), Some(3))]), Some(8.0 / 600.0));
        assert_eq!(share(&[&counted, &unknown]), None);
        assert_eq!(share(&[&run(Some(0), Some(0))]), None, "nothing came");
    }

    #[test]
    fn needless_retransmissions_beyond_those_of_the_slower_one_alone_fail() {
        let path = Path::of_number(1);
        let [cubic, bbr] = [run(Some(100), Some(0)), run(Some(100), Some(2))];
        let [same, more] = [run(Some(100), Some(2)), run(Some(1000), Some(21))];
        let runs = [&cubic, &bbr, &same, &more, &same, &cubic, &bbr].map(|run| vec![run]);
        let compared = [Compared { path: &path, times_s: [1.0; VARIANTS.len()], runs }];
        let verdicts = judge(std::slice::from_ref(&path), &compared, 1);
        let holds = |id: &str| verdicts.iter().find(|v| v.id == id).map(|v| v.holds);
        assert_eq!(holds("needless-beyond-alone-bbr"), Some(true));
        assert_eq!(holds("needless-beyond-alone-bbr3"), Some(false));
        assert_eq!(holds("needless-p99-bbr"), Some(false), "2 % is above 1");
        assert_eq!(table(&compared).rows.len(), VARIANTS.len());
    }
}
