//! What a sweep gives of each class of flows, with confidence intervals over its runs.

use crate::{
    interval::Interval,
    metric::{Metric, Selection, values},
    record::RunRecord,
    stats,
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, fmt::Write as _};

/// What is reported of a class: name, metric, and by what it is divided.
const NUMBERS: [(&str, Metric, f64); 3] = [
    ("completion_s", Metric::Completion, 1.0),
    ("response_s", Metric::Response, 1.0),
    ("goodput_mbps", Metric::Goodput, 1e6),
];

/// All flows together come first under this name.
const ALL: &str = "all";

/// A class at a point: the mean of its flows in each run, and from there the interval; none: not measured in some run.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    name: String,
    numbers: [Option<Interval>; NUMBERS.len()],
}

/// Names of the classes of these runs' flows, sorted.
pub fn names(runs: &[RunRecord]) -> Vec<&str> {
    let classes: BTreeSet<&str> = runs.iter().flat_map(|r| &r.flows).map(|f| f.class.as_str()).collect();
    classes.into_iter().filter(|class| !class.is_empty()).collect()
}

/// All flows and each of these classes at one point.
pub fn at_point(runs: &[&RunRecord], classes: &[&str]) -> Vec<Class> {
    let of = |name: &str, class: Option<&str>| {
        let selection = Selection { class, ..Selection::default() };
        let number = |(_, metric, unit): (&str, Metric, f64)| {
            let mean =
                |run: &&RunRecord| stats::mean_of(&values(metric, run, &selection)?).map(|mean| mean / unit);
            Interval::of(&runs.iter().map(mean).collect::<Option<Vec<f64>>>()?)
        };
        Class { name: name.into(), numbers: NUMBERS.map(number) }
    };
    let each = classes.iter().map(|class| of(class, Some(class)));
    std::iter::once(of(ALL, None)).chain(each).collect()
}

/// As JSON, by class and number.
pub fn to_json(classes: &[Class]) -> Value {
    let one = |class: &Class| {
        let numbers: Map<String, Value> = NUMBERS
            .iter()
            .zip(&class.numbers)
            .map(|((name, ..), interval)| ((*name).into(), json!(interval)))
            .collect();
        (class.name.clone(), Value::Object(numbers))
    };
    Value::Object(classes.iter().map(one).collect())
}

/// A row for each point and class.
pub fn csv(points: impl Iterator<Item = (String, usize, Vec<Class>)>) -> String {
    let mut csv = String::from("point,class,runs");
    for (name, ..) in NUMBERS {
        let _ = write!(csv, ",{name}_mean,{name}_low,{name}_high");
    }
    csv.push('\n');
    for (point, runs, classes) in points {
        for class in classes {
            let _ = write!(csv, "{point},{},{runs}", class.name);
            for interval in class.numbers {
                let cells = interval.map_or([None; 3], |i| [Some(i.mean), i.low, i.high]);
                for cell in cells {
                    let _ = write!(csv, ",{}", cell.map_or(String::new(), |v| format!("{v:.6}")));
                }
            }
            csv.push('\n');
        }
    }
    csv
}

/// Heads of the columns of [`rows`].
pub fn header() -> Vec<String> {
    [String::from("class")].into_iter().chain(NUMBERS.map(|(name, ..)| format!("{name} (95 %)"))).collect()
}

/// The cells of each class: "0.1234 [0.1200, 0.1268]".
pub fn rows(classes: &[Class]) -> Vec<Vec<String>> {
    let cell = |interval: &Option<Interval>| match interval {
        None => "-".into(),
        Some(Interval { mean, low: Some(low), high: Some(high) }) => {
            format!("{mean:.4} [{low:.4}, {high:.4}]")
        }
        Some(Interval { mean, .. }) => format!("{mean:.4}"),
    };
    let row =
        |class: &Class| [class.name.clone()].into_iter().chain(class.numbers.iter().map(cell)).collect();
    classes.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_scenario::FlowReport;

    fn run(times: &[(&str, f64)]) -> RunRecord {
        let flow = |(class, s): &(&str, f64)| FlowReport {
            class: (*class).into(),
            completion_s: Some(*s),
            checksum_ok: true,
            goodput_bps: 1e6,
            ..FlowReport::default()
        };
        RunRecord { flows: times.iter().map(flow).collect(), checksum_ok: true, ..RunRecord::default() }
    }

    #[test]
    fn each_class_has_means_of_its_flows_and_intervals_over_runs() {
        let runs = [run(&[("a", 1.0), ("a", 3.0), ("b", 8.0)]), run(&[("a", 3.0), ("a", 4.0), ("b", 8.0)])];
        assert_eq!(names(&runs), ["a", "b"]);
        let classes = at_point(&runs.iter().collect::<Vec<_>>(), &names(&runs));
        let of = |class: usize| to_json(&classes)[["all", "a", "b"][class]]["completion_s"].clone();
        assert_eq!((of(0)["mean"].as_f64(), of(1)["mean"].as_f64()), (Some(4.5), Some(2.75)));
        assert_eq!(of(2), json!({ "mean": 8.0, "low": 8.0, "high": 8.0 }));
        assert_eq!(to_json(&classes)["b"]["goodput_mbps"]["mean"], 1.0);
        assert!(rows(&classes)[1][1].starts_with("2.7500 [-6.7795, 12.2795]"), "{:?}", rows(&classes));
        let csv = csv([("x=1".into(), 2, classes)].into_iter());
        assert!(
            csv.lines().nth(3).expect("three rows").starts_with("x=1,b,2,8.000000,8.000000,8.000000,"),
            "{csv}"
        );
        // a run that was not measured: a mean of the others would leave out what was slow
        let failed = RunRecord { error: Some("stopped".into()), flows: Vec::new(), ..RunRecord::default() };
        let classes = at_point(&[&runs[0], &failed], &["a"]);
        assert_eq!(to_json(&classes)["a"]["completion_s"], Value::Null);
    }
}
