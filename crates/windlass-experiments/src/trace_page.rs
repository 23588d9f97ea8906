//! A page of charts over time in one file, drawn by uPlot.

use crate::{page::escape, trace_table::Line};
use serde_json::json;

/// The library as `windlass web` has it.
const LIBRARY: &str = include_str!("../../windlass/web/uplot/uPlot.iife.min.js");
const LIBRARY_STYLE: &str = include_str!("../../windlass/web/uplot/uPlot.min.css");
const TEMPLATE: &str = include_str!("trace_page/page.html");
const STYLE: &str = include_str!("trace_page/page.css");
const SCRIPT: &str = include_str!("trace_page/page.js");

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// Label of its y axis.
    pub axis: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// Nine digits are more than a chart shows.
fn short(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// The page: nothing in it is fetched from elsewhere.
pub fn html(title: &str, charts: &[Chart]) -> String {
    let line = |line: &Line| {
        let (x, y): (Vec<f64>, Vec<f64>) = line.points.iter().map(|p| (short(p.0), short(p.1))).unzip();
        json!({ "name": line.name, "x": x, "y": y })
    };
    let chart = |chart: &Chart| {
        let lines: Vec<_> = chart.lines.iter().map(line).collect();
        json!({ "title": chart.title, "axis": chart.axis, "lines": lines })
    };
    let data = json!(charts.iter().map(chart).collect::<Vec<_>>()).to_string();
    // in a script, a name must not end it
    let data = data.replace('<', "\\u003c").replace('>', "\\u003e");
    let style = format!("{LIBRARY_STYLE}\n{STYLE}");
    let title = escape(title);
    let parts = [
        ("{{title}}", &*title),
        ("{{style}}", &style),
        ("{{title}}", &title),
        ("{{data}}", &data),
        ("{{library}}", LIBRARY),
        ("{{script}}", SCRIPT),
    ];
    // nothing is looked for in what was put in
    let (mut page, mut rest) = (String::new(), TEMPLATE);
    for (mark, text) in parts {
        let (before, after) = rest.split_once(mark).expect("marks as in the template");
        page.extend([before, text]);
        rest = after;
    }
    page.push_str(rest);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_fetches_nothing_and_no_name_ends_its_script() {
        let lines = vec![Line { name: "</script>{{title}}".into(), points: vec![(0.1, 2.000_000_01)] }];
        let page = html("a & b", &[Chart { title: "t".into(), axis: "y".into(), lines }]);
        assert!(page.contains("<title>a &amp; b</title>"));
        assert!(page.contains(r#""name":"\u003c/script\u003e{{title}}","x":[0.1],"y":[2.0]"#), "{page}");
        assert!(!page.contains("src=") && !page.contains("href=") && !page.contains("@import"));
    }
}
