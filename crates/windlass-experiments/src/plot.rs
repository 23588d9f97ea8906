//! Plots, as SVG.

use crate::stats::Counted;
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use std::path::Path;

/// One line of a plot.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
    /// Where the number at x may lie: x, from, to; drawn as bars.
    pub spans: Vec<(f64, f64, f64)>,
}

/// The cumulative distribution of all that values stand for, as steps.
pub fn cdf(name: &str, values: &[Counted]) -> Series {
    let mut sorted: Vec<Counted> = values.to_vec();
    sorted.sort_by(|a, b| a.value.total_cmp(&b.value));
    let n = sorted.iter().map(|v| v.count).sum::<u64>() as f64;
    let (mut points, mut below) = (Vec::new(), 0);
    for v in &sorted {
        points.push((v.value, below as f64 / n));
        below += v.count;
        points.push((v.value, below as f64 / n));
    }
    Series { name: name.into(), points, ..Series::default() }
}

const COLOURS: [RGBColor; 10] = [
    RGBColor(11, 98, 196),
    RGBColor(194, 38, 45),
    RGBColor(10, 122, 62),
    RGBColor(179, 92, 0),
    RGBColor(122, 61, 184),
    RGBColor(0, 140, 160),
    RGBColor(200, 70, 150),
    RGBColor(110, 110, 20),
    RGBColor(90, 90, 90),
    RGBColor(120, 80, 60),
];

const SIZE: (u32, u32) = (760, 440);
const TITLE_PX: i32 = 18;
const FONT: (&str, i32) = ("sans-serif", 12);
/// Where rows of a legend end and begin, in pixels.
const LEGEND_RIGHT: i32 = SIZE.0 as i32 - 12;
const LEGEND_LEFT: i32 = 60;
const LEGEND_ROW: i32 = 18;
/// Of the line in front of a name.
const SWATCH: i32 = 18;

/// A number on an axis, with no more digits than it needs.
fn tick(value: &f64) -> String {
    let most = value.abs();
    let decimals = if most >= 100.0 { 0 } else { 6 };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".into() } else { text.into() }
}

/// Where the names of a legend stand, row by row: the left end and the row of each, and how many rows there are.
fn legend_places(widths: impl Iterator<Item = i32>) -> (Vec<(i32, i32)>, i32) {
    let (mut x, mut row) = (LEGEND_LEFT, 0);
    let place = |width: i32| {
        if x > LEGEND_LEFT && x + width > LEGEND_RIGHT {
            (x, row) = (LEGEND_LEFT, row + 1);
        }
        let place = (x, row);
        x += width;
        place
    };
    let places: Vec<(i32, i32)> = widths.map(place).collect();
    let rows = places.last().map_or(0, |(_, row)| row + 1);
    (places, rows)
}

/// Draws lines over common axes into `file`, their names in a legend above. Nothing is drawn of no data.
pub fn lines(file: &Path, title: &str, x: &str, y: &str, series: &[Series]) -> Result<()> {
    let spans = series.iter().flat_map(|s| &s.spans).map(|s| (s.0, s.2));
    let all: Vec<(f64, f64)> = series.iter().flat_map(|s| s.points.iter().copied()).chain(spans).collect();
    if all.is_empty() {
        return Ok(());
    }
    let fail = |e: &dyn std::fmt::Display| anyhow!("{}: {e}", file.display());
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    root.fill(&WHITE).map_err(|e| fail(&e))?;
    // a long title is written smaller rather than cut off
    let title_size = |px: i32| root.estimate_text_size(title, &("sans-serif", px).into_text_style(&root));
    let width = title_size(TITLE_PX).map_err(|e| fail(&e))?.0 as i32;
    let title_px = (TITLE_PX * LEGEND_RIGHT / width.max(1)).clamp(FONT.1, TITLE_PX);
    let root = root.titled(title, ("sans-serif", title_px)).map_err(|e| fail(&e))?;
    let mut names = Vec::new();
    for (s, colour) in series.iter().filter(|s| !s.points.is_empty()).zip(COLOURS.iter().cycle()) {
        let width = root.estimate_text_size(&s.name, &FONT.into_text_style(&root)).map_err(|e| fail(&e))?.0;
        names.push((s, *colour, width as i32 + SWATCH + 24));
    }
    let (places, rows) = legend_places(names.iter().map(|(.., width)| *width));
    let (legend, area) = root.split_vertically(rows * LEGEND_ROW + 4);
    for ((s, colour, _), (left, row)) in names.iter().zip(places) {
        let middle = row * LEGEND_ROW + LEGEND_ROW / 2;
        let line = PathElement::new([(left, middle), (left + SWATCH, middle)], colour.stroke_width(3));
        legend.draw(&line).map_err(|e| fail(&e))?;
        let name = Text::new(s.name.as_str(), (left + SWATCH + 6, middle - FONT.1 / 2), FONT);
        legend.draw(&name).map_err(|e| fail(&e))?;
    }
    let x_max = all.iter().map(|p| p.0).fold(f64::MIN, f64::max);
    let x_min = all.iter().map(|p| p.0).fold(f64::MAX, f64::min);
    let y_max = all.iter().map(|p| p.1).fold(f64::MIN, f64::max);
    let pad = (x_max - x_min).max(1e-9) * 0.03;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .margin_top(4)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(
            (x_min - pad).max(0.0)..x_max + pad,
            0.0..if y_max > 0.0 { y_max * 1.05 } else { 1.0 },
        )
        .map_err(|e| fail(&e))?;
    chart
        .configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .x_label_formatter(&tick)
        .y_label_formatter(&tick)
        .axis_desc_style(("sans-serif", 13))
        .label_style(FONT)
        .light_line_style(WHITE)
        .draw()
        .map_err(|e| fail(&e))?;
    for (s, colour, _) in names {
        let points = LineSeries::new(s.points.iter().copied(), colour.stroke_width(2));
        chart.draw_series(points).map_err(|e| fail(&e))?;
        let bar = |&(x, low, high): &(f64, f64, f64)| {
            let y = f64::midpoint(low, high);
            ErrorBar::new_vertical(x, low, y, high, colour.filled(), 8)
        };
        chart.draw_series(s.spans.iter().map(bar)).map_err(|e| fail(&e))?;
    }
    root.present().map_err(|e| fail(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_have_the_digits_they_need() {
        let ticks = [0.0, -0.0, 0.5, 2.0, 450.0, 0.05, 1200.0, 0.000_25].map(|v| tick(&v));
        assert_eq!(ticks, ["0", "0", "0.5", "2", "450", "0.05", "1200", "0.00025"]);
    }

    #[test]
    fn long_legends_go_on_in_the_next_row() {
        let (places, rows) = legend_places([300, 300, 300, 2000, 10].into_iter());
        let left = LEGEND_LEFT;
        assert_eq!(places, [(left, 0), (left + 300, 0), (left, 1), (left, 2), (left, 3)]);
        assert_eq!((rows, legend_places([].into_iter()).1), (4, 0));
    }
}
