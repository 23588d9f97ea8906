//! Tables for people.

use std::fmt::Display;
use unicode_width::UnicodeWidthStr;
use windlass_agent::GroupInfo;
use windlass_scenario::Printable;

/// Prints a line; others may have chosen some of its words.
pub fn line(words: impl Display) {
    println!("{}", Printable(words));
}

/// Prints rows under a header, columns as wide as their widest cell.
pub fn table(header: &[&str], rows: &[Vec<String>]) {
    lines_of(header, rows).iter().for_each(|line| println!("{line}"));
}

/// The lines of such a table.
pub fn lines_of(header: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let header = header.iter().map(|title| title.to_string()).collect();
    let printable = |row: &Vec<String>| row.iter().map(|cell| Printable(cell).to_string()).collect();
    let all: Vec<Vec<String>> = [header].into_iter().chain(rows.iter().map(printable)).collect();
    // in columns of a terminal, of which format! knows nothing: a character takes none, one or two of them
    let width = |column: usize| all.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
    let widths: Vec<usize> = (0..all[0].len()).filter_map(width).collect();
    all.iter()
        .map(|row| {
            let padded =
                row.iter().zip(&widths).map(|(cell, width)| cell.clone() + &" ".repeat(width - cell.width()));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
        })
        .collect()
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
        v if v >= 1_000_000 => format!("{:.2}s", f64::from(v) / 1e6),
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

/// What interfaces of one datapath, which are counted together, are called.
pub fn together(names: &[String]) -> String {
    match names {
        [first, others @ ..] if !others.is_empty() => format!("{first} and {} more", others.len()),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_bytes_in_a_cell_are_shown_and_columns_stay_in_line() {
        let rows = [["a\x1b[2Jb", "1"], ["\u{fc}", "2"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(lines_of(&["iface", "n"], &rows), ["iface      n", "a\\x1b[2Jb  1", "\u{fc}          2"]);
    }

    #[test]
    fn columns_stay_in_line_beside_wide_and_combining_characters() {
        // two columns each, and none of its own
        let rows = [["\u{6771}\u{4eac}", "1"], ["e\u{301}", "2"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(lines_of(&["n", "x"], &rows), ["n     x", "\u{6771}\u{4eac}  1", "e\u{301}     2"]);
    }
}
