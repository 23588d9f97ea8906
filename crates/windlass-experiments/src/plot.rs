//! Plots, as SVG.

use crate::stats::Counted;
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use std::path::Path;

/// One line of a plot.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
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
    Series { name: name.into(), points }
}

const COLOURS: [RGBColor; 5] = [
    RGBColor(200, 60, 40),
    RGBColor(40, 110, 180),
    RGBColor(40, 140, 70),
    RGBColor(150, 90, 170),
    RGBColor(90, 90, 90),
];

/// Draws lines over common axes into `file`. Nothing is drawn of no data.
pub fn lines(file: &Path, title: &str, x: &str, y: &str, series: &[Series]) -> Result<()> {
    let all: Vec<(f64, f64)> = series.iter().flat_map(|s| s.points.iter().copied()).collect();
    if all.is_empty() {
        return Ok(());
    }
    let x_max = all.iter().map(|p| p.0).fold(f64::MIN, f64::max);
    let x_min = all.iter().map(|p| p.0).fold(f64::MAX, f64::min);
    let y_max = all.iter().map(|p| p.1).fold(f64::MIN, f64::max);
    let pad = (x_max - x_min).max(1e-9) * 0.05;
    let fail = |e: &dyn std::fmt::Display| anyhow!("{}: {e}", file.display());
    let root = SVGBackend::new(file, (760, 440)).into_drawing_area();
    root.fill(&WHITE).map_err(|e| fail(&e))?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d((x_min - pad).max(0.0)..x_max + pad, 0.0..y_max * 1.05)
        .map_err(|e| fail(&e))?;
    chart.configure_mesh().x_desc(x).y_desc(y).light_line_style(WHITE).draw().map_err(|e| fail(&e))?;
    for (s, colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(s.points.iter().copied(), style))
            .map_err(|e| fail(&e))?
            .label(&s.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(180, 180, 180))
        .draw()
        .map_err(|e| fail(&e))?;
    root.present().map_err(|e| fail(&e))
}
