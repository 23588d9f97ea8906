//! Tables that an experiment requests: several numbers of each variant beside each other.

use crate::{
    claim::of_point,
    metric::{Metric, Over, Selection, Statistic, Window, is_about},
    page::escape,
    record::RunRecord,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

/// A table to fill: a row for each point and variant.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// What it shows.
    pub title: String,
    /// Only points whose name begins so; empty: all.
    #[serde(default)]
    pub points: Vec<String>,
    /// What is taken of each point and variant.
    pub column: Vec<Column>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its head.
    pub name: String,
    /// What is measured.
    pub metric: Metric,
    /// How runs become one number; none: the metric is one of all runs.
    pub statistic: Option<Statistic>,
    /// Only flows of this class.
    pub class: Option<String>,
    /// Relative to flows of this class in the same run.
    pub per_class: Option<String>,
    /// Only flows of this tenant.
    pub tenant: Option<String>,
    /// Of which link, as reports name it: "a > b".
    pub link: Option<String>,
    /// What flows are put together by.
    #[serde(default)]
    pub over: Over,
    /// Only this stretch of the runs.
    pub window: Option<Window>,
    /// By what numbers are divided, e.g. 1e6 for Mbit/s.
    #[serde(default = "one")]
    pub unit: f64,
    /// The paper's numbers, in a column beside, by variant or by point and variant: "k-4 trim".
    #[serde(default)]
    pub paper: BTreeMap<String, f64>,
}

fn one() -> f64 {
    1.0
}

/// A table with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Filled {
    /// What it shows.
    pub title: String,
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// In the order of the runs.
    pub rows: Vec<Row>,
}

/// The numbers of a point and variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The point.
    pub point: String,
    /// The variant.
    pub variant: String,
    /// One for each column; none: not measured.
    pub values: Vec<Option<f64>>,
}

impl Column {
    /// Whether runs must be recorded in intervals.
    fn needs_intervals(&self) -> bool {
        self.window.is_some()
    }

    fn check(&self) -> Result<(), String> {
        let selected = self.metric.check_selection(&self.selection(), self.statistic);
        selected.map_err(|what| format!("{}: {what}", self.name))?;
        if self.window.is_some_and(|w| w.to <= w.from) {
            return Err(format!("{}: window: its end is not after its beginning", self.name));
        }
        if self.needs_intervals() && !self.metric.has_windows() {
            return Err(format!(
                "{}: window: only throughput, jain, mean-queue and max-queue can be taken in one",
                self.name
            ));
        }
        Ok(())
    }

    /// What it is taken of.
    pub fn selection(&self) -> Selection<'_> {
        Selection {
            class: self.class.as_deref(),
            per_class: self.per_class.as_deref(),
            tenant: self.tenant.as_deref(),
            link: self.link.as_deref(),
            over: self.over,
            window: self.window,
        }
    }

    fn value(&self, runs: &[&RunRecord]) -> Option<f64> {
        of_point(self.metric, self.statistic, runs, &self.selection()).map(|v| v / self.unit)
    }

    /// Its head, and that of the paper's numbers if there are any.
    fn heads(&self) -> impl Iterator<Item = String> {
        let papers = (!self.paper.is_empty()).then(|| format!("{}, paper", self.name));
        std::iter::once(self.name.clone()).chain(papers)
    }

    /// What stands below them.
    fn cells(&self, point: &str, variant: &str, runs: &[&RunRecord]) -> impl Iterator<Item = Option<f64>> {
        let paper =
            self.paper.get(&format!("{point} {variant}")).or_else(|| self.paper.get(variant)).copied();
        std::iter::once(self.value(runs)).chain((!self.paper.is_empty()).then_some(paper))
    }
}

impl Summary {
    /// Whether runs must be recorded in intervals.
    pub fn needs_intervals(&self) -> bool {
        self.column.iter().any(Column::needs_intervals)
    }

    /// Whether it has all that it needs; an error begins with the column.
    pub fn check(&self) -> Result<(), String> {
        self.column.iter().try_for_each(Column::check)
    }

    /// The table of these runs.
    pub fn fill(&self, runs: &[RunRecord]) -> Filled {
        let mut places: Vec<(&str, &str)> = Vec::new();
        for run in runs.iter().filter(|r| is_about(&self.points, &r.point)) {
            let place = (run.point.as_str(), run.variant.as_str());
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let row = |(point, variant): (&str, &str)| {
            let chosen: Vec<&RunRecord> =
                runs.iter().filter(|r| r.point == point && r.variant == variant).collect();
            let values = self.column.iter().flat_map(|c| c.cells(point, variant, &chosen)).collect();
            Row { point: point.into(), variant: variant.into(), values }
        };
        Filled {
            title: self.title.clone(),
            columns: self.column.iter().flat_map(Column::heads).collect(),
            rows: places.into_iter().map(row).collect(),
        }
    }
}

/// Four figures are more than runs differ by.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(v) if v.abs() >= 100.0 => format!("{v:.0}"),
        Some(v) if v.abs() >= 10.0 => format!("{v:.1}"),
        Some(v) => format!("{v:.3}"),
    }
}

impl fmt::Display for Filled {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let width = |name: fn(&Row) -> &str| self.rows.iter().map(|r| name(r).len()).max().unwrap_or(0);
        let (points, variants) = (width(|r| &r.point).max(5), width(|r| &r.variant).max(7));
        writeln!(f, "  {}", self.title)?;
        write!(f, "  {:<points$}  {:<variants$}", "point", "variant")?;
        self.columns.iter().try_for_each(|c| write!(f, "  {c:>9}"))?;
        writeln!(f)?;
        for row in &self.rows {
            write!(f, "  {:<points$}  {:<variants$}", row.point, row.variant)?;
            for (value, column) in row.values.iter().zip(&self.columns) {
                write!(f, "  {:>1$}", number(*value), column.len().max(9))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Filled {
    /// As HTML.
    pub fn html(&self) -> String {
        let mut html = format!("<h3>{}</h3><table><tr><th>point<th>variant", escape(&self.title));
        for column in &self.columns {
            let _ = write!(html, "<th>{}", escape(column));
        }
        for row in &self.rows {
            let _ = write!(html, "<tr><td>{}<td>{}", escape(&row.point), escape(&row.variant));
            for value in &row.values {
                let _ = write!(html, "<td class=n>{}", number(*value));
            }
        }
        html + "</table>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(text: &str) -> Summary {
        toml::from_str(&format!("title = \"t\"\n{text}")).unwrap()
    }

    #[test]
    fn a_row_for_each_point_and_variant_in_the_order_of_runs() {
        let run = |point: &str, variant: &str, drops: u64| RunRecord {
            point: point.into(),
            variant: variant.into(),
            drops_tail: drops,
            ..RunRecord::default()
        };
        let runs = [run("b", "y", 1), run("b", "x", 2), run("b", "y", 3), run("a", "y", 7)];
        let column = "[[column]]\nname = \"drops\"\nmetric = \"drops\"\nstatistic = \"mean\"\nunit = 2.0\n";
        let filled = summary(&format!("points = [\"b\"]\n{column}")).fill(&runs);
        let rows: Vec<_> = filled.rows.iter().map(|r| (r.variant.as_str(), r.values[0])).collect();
        assert_eq!(rows, [("y", Some(1.0)), ("x", Some(1.0))]);
        assert_eq!(summary(column).fill(&runs).rows.len(), 3);
        let text = filled.to_string();
        assert!(text.contains("drops") && text.contains("1.000"), "{text}");
    }

    #[test]
    fn the_papers_numbers_stand_beside_ours() {
        let run = |point: &str, variant: &str| RunRecord {
            point: point.into(),
            variant: variant.into(),
            drops_tail: 2,
            ..RunRecord::default()
        };
        let paper = "paper = { x = 5, \"b x\" = 7 }";
        let column =
            format!("[[column]]\nname = \"drops\"\nmetric = \"drops\"\nstatistic = \"mean\"\n{paper}\n");
        let filled = summary(&column).fill(&[run("a", "x"), run("b", "x"), run("b", "y")]);
        assert_eq!(filled.columns, ["drops", "drops, paper"]);
        let rows: Vec<_> = filled.rows.iter().map(|r| r.values[1]).collect();
        assert_eq!(rows, [Some(5.0), Some(7.0), None]);
    }

    #[test]
    fn columns_have_what_their_metric_needs() {
        let wrong = |keys: &str| {
            summary(&format!("[[column]]\nname = \"c\"\nstatistic = \"mean\"\n{keys}")).check().unwrap_err()
        };
        assert!(wrong("metric = \"mean-queue\"").contains("link"));
        assert!(wrong("metric = \"drops\"\nclass = \"a\"").starts_with("c: class"));
        assert!(wrong("metric = \"drops\"\nper_class = \"a\"").starts_with("c: per_class"));
        assert!(wrong("metric = \"drops\"\nwindow = { from = \"1 s\", to = \"2 s\" }").contains("window"));
        assert!(wrong("metric = \"jain\"\nwindow = { from = \"2 s\", to = \"2 s\" }").contains("window"));
    }
}
