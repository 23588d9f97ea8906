//! Tables for people.

use windlass_agent::GroupInfo;

/// Prints rows under a header, columns as wide as their widest cell.
pub fn table(header: &[&str], rows: &[Vec<String>]) {
    let mut widths: Vec<usize> = header.iter().map(|h| h.len()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("{}", padded.join("  ").trim_end());
    };
    line(header.to_vec());
    for row in rows {
        line(row.iter().map(String::as_str).collect());
    }
}

/// A group, in a line; `of` is whose it is.
pub fn group(group: &GroupInfo, of: &str) -> String {
    format!(
        "group \"{}\" ({}){of}: {} member(s), window {} kB, round trip {}",
        group.name,
        group.rule,
        group.members,
        group.window_bytes / 1000,
        us(group.srtt_us)
    )
}

/// A duration in microseconds, short.
pub fn us(value: u32) -> String {
    match value {
        0 => "-".into(),
        v if v < 10_000 => format!("{:.2}ms", f64::from(v) / 1e3),
        v => format!("{:.1}ms", f64::from(v) / 1e3),
    }
}

/// A rate in bit/s, short.
pub fn bps(value: u64) -> String {
    match value {
        v if v >= 1_000_000_000 => format!("{:.2}G", v as f64 / 1e9),
        v if v >= 1_000_000 => format!("{:.1}M", v as f64 / 1e6),
        v => format!("{:.0}k", v as f64 / 1e3),
    }
}
