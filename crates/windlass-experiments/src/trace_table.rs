//! Tables of a trace: lines over time, one for each flow or direction of a link.

use anyhow::{Context, Result, anyhow, bail};
use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

/// What one column of a table has of each flow or link.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Of a flow its number and name, of a link its name.
    pub name: String,
    /// Time in seconds, and the number in the table.
    pub points: Vec<(f64, f64)>,
}

/// What a table has of some columns.
#[derive(Clone, Debug)]
pub struct Columns {
    /// The lines of each column.
    pub of: Vec<Vec<Line>>,
    /// Whether there were more flows or links than were to be read.
    pub is_cut: bool,
}

/// Reads these columns of a table, each divided by its unit, of the first `most` flows or links. Cells that are empty are left out.
pub fn read(path: &Path, columns: &[(&str, f64)], most: usize) -> Result<Columns> {
    let of_file = || path.display().to_string();
    let mut lines = BufReader::new(File::open(path).with_context(of_file)?).lines();
    let header = lines.next().transpose().with_context(of_file)?.unwrap_or_default();
    let heads: Vec<&str> = header.split(',').collect();
    // what identifies a row stands between its time and its numbers; a name may have commas
    let first = 1 + heads.iter().position(|h| matches!(*h, "name" | "link")).unwrap_or(heads.len());
    let values = heads.len().saturating_sub(first);
    let mut places = Vec::new();
    for (column, unit) in columns {
        match heads.iter().skip(first).position(|head| head == column) {
            Some(place) => places.push((values - 1 - place, *unit)),
            None => bail!("{}: has no column {column}", path.display()),
        }
    }
    let mut found = Columns { of: columns.iter().map(|_| Vec::new()).collect(), is_cut: false };
    let mut names: Vec<String> = Vec::new();
    for line in lines {
        let line = line.with_context(of_file)?;
        let row = Row::of(&line, values).ok_or_else(|| anyhow!("{}: no row: {line}", path.display()))?;
        let at = names.iter().position(|name| name == row.name).unwrap_or(names.len());
        if at == most {
            found.is_cut = true;
            continue;
        }
        if at == names.len() {
            names.push(row.name.into());
            // of a flow its number comes first
            let line = Line { name: row.name.replacen(',', ": ", 1), points: Vec::new() };
            found.of.iter_mut().for_each(|lines| lines.push(line.clone()));
        }
        for (lines, (place, unit)) in found.of.iter_mut().zip(&places) {
            if let Ok(value) = row.values[*place].parse::<f64>() {
                lines[at].points.push((row.time_s, value / unit));
            }
        }
    }
    Ok(found)
}

/// A row of a table.
struct Row<'a> {
    time_s: f64,
    name: &'a str,
    /// From the last to the first.
    values: Vec<&'a str>,
}

impl Row<'_> {
    fn of(line: &str, values: usize) -> Option<Row<'_>> {
        let (time_s, rest) = line.split_once(',')?;
        let mut from_end: Vec<&str> = rest.rsplitn(values + 1, ',').collect();
        let name = from_end.pop()?;
        let is_whole = from_end.len() == values;
        is_whole.then_some(Row { time_s: time_s.parse().ok()?, name, values: from_end })
    }
}

impl Line {
    /// The same with `most` points at most: of each stretch the one with the largest value, so that peaks stay.
    pub fn thinned(&self, most: usize) -> Line {
        let stretch = self.points.len().div_ceil(most).max(1);
        let largest = |points: &[(f64, f64)]| points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        Line { points: self.points.chunks(stretch).filter_map(largest).collect(), ..self.clone() }
    }

    /// At each time the mean of what was up to then, for so long.
    pub fn running_mean(&self, over_s: f64) -> Line {
        let (mut first, mut sum) = (0, 0.0);
        let mean = |(index, (time_s, value)): (usize, &(f64, f64))| {
            sum += value;
            while self.points[first].0 <= time_s - over_s && first < index {
                sum -= self.points[first].1;
                first += 1;
            }
            (*time_s, sum / (index + 1 - first) as f64)
        };
        Line { points: self.points.iter().enumerate().map(mean).collect(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn columns_are_found_by_their_heads_behind_names_with_commas() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.csv");
        fs::write(&path, "time_s,flow,name,b,a\n0.5,0,x, y,3,\n0.6,0,x, y,4,5\n0.6,1,z,7,8\n").expect("room");
        let found = read(&path, &[("a", 1.0), ("b", 2.0)], 1).expect("sound");
        assert!(found.is_cut);
        assert_eq!(found.of[0], [Line { name: "0: x, y".into(), points: vec![(0.6, 5.0)] }]);
        assert_eq!(found.of[1][0].points, [(0.5, 1.5), (0.6, 2.0)]);
        let wrong = |columns: &[(&str, f64)]| read(&path, columns, 1).expect_err("wrong").to_string();
        assert!(wrong(&[("c", 1.0)]).ends_with("t.csv: has no column c"));
        fs::write(&path, "time_s,link,b\nx\n").expect("room");
        assert!(wrong(&[("b", 1.0)]).ends_with("t.csv: no row: x"));
    }

    #[test]
    fn peaks_stay_where_points_are_many_and_rates_are_averaged() {
        let points = (0..10_000).map(|i| (f64::from(i), if i == 7777 { 10.0 } else { 0.0 })).collect();
        let line = Line { name: "q".into(), points };
        let thin = line.thinned(2000);
        assert_eq!(thin.points.len(), 2000);
        assert!(thin.points.contains(&(7777.0, 10.0)));
        let mean = line.running_mean(5.0).points;
        let near: Vec<f64> = mean[7776..7783].iter().map(|p| p.1).collect();
        assert_eq!(near, [0.0, 2.0, 2.0, 2.0, 2.0, 2.0, 0.0]);
        assert_eq!((mean[0], line.running_mean(0.5).points == line.points), ((0.0, 0.0), true));
    }
}
