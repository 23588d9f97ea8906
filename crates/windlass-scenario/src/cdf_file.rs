//! Cumulative distributions of sizes in files, as those of the literature are passed on: on each line a size in bytes and the share
//! of sizes up to it, in per cent or from 0 to 1, with blanks between; "#" begins a comment. Between its points the distribution is
//! straight.
//!
//! ```text
//! # bytes  per cent
//! 0        0
//! 10000    15
//! 1000000  100
//! ```

use crate::{Bytes, Dist, Fraction, read_file};
use std::path::Path;

/// The distribution in a file, whose name counts from `folder`, that of the scenario. An error begins with the file.
pub(crate) fn load(folder: &Path, file: &str) -> Result<Dist<Bytes>, String> {
    let path = folder.join(file);
    let text = read_file(&path).map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
    parse(&text).map_err(|what| format!("{}{what}", path.display()))
}

/// The distribution; an error begins with the line.
fn parse(text: &str) -> Result<Dist<Bytes>, String> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |what: &str| format!(":{number}: \"{line}\": {what}");
        let words: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let is_whole = words.len() == line.split_whitespace().count();
        let &[size, share] = words.as_slice() else {
            return Err(wrong(
                "a line is a size in bytes and the share of sizes up to it, e.g. \"10000 15\"",
            ));
        };
        if !is_whole || !(0.0..=1e11).contains(&size) || !(0.0..=100.0).contains(&share) {
            return Err(wrong("sizes are 0 to 100 GB in bytes, shares 0 to 100 per cent, or 0 to 1"));
        }
        if points.last().is_some_and(|last| last.0 > size || last.1 > share) {
            return Err(wrong("sizes and shares must grow from line to line"));
        }
        points.push((size, share));
    }
    // shares of 0 to 1 and of 0 to 100 differ in where they end
    let whole = match points.last() {
        Some((_, share)) if *share == 1.0 || *share == 100.0 => *share,
        Some((size, share)) => {
            return Err(format!(
                ": ends with {share} at {size} bytes; the last share must be 100, or 1 if shares are 0 to 1"
            ));
        }
        None => return Err(": no points; a line is a size in bytes and a share, e.g. \"10000 15\"".into()),
    };
    // nothing has no bytes: where the distribution begins with 0, its sizes do with 1
    let point = |(size, share): (f64, f64)| (Bytes(size.max(1.0)), Fraction(share / whole));
    Ok(Dist::Cdf(points.into_iter().map(point).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scenario, Size};

    #[test]
    fn a_cdf_file_has_shares_in_per_cent_or_from_0_to_1() {
        let expected = Dist::Cdf(vec![
            (Bytes(1.0), Fraction(0.0)),
            (Bytes(1e4), Fraction(0.15)),
            (Bytes(1e6), Fraction(1.0)),
        ]);
        assert_eq!(parse("# sizes\n0 0\n10000 15\n\n1000000\t100 # all\n").as_ref(), Ok(&expected));
        assert_eq!(parse("0 0\n10000 0.15\n1000000 1\n").as_ref(), Ok(&expected));
        assert!((expected.mean().0 - (0.15 * 5000.5 + 0.85 * 505_000.0)).abs() < 1.0);
    }

    #[test]
    fn mistakes_of_cdf_files_name_file_and_line() {
        let error = |text: &str| parse(text).unwrap_err();
        assert!(error("0 0\n1 2 3\n").starts_with(":2: \"1 2 3\": a line is a size"));
        assert!(error("0 0\n1e4 x\n").starts_with(":2: "));
        assert!(error("0 0\n10 50\n5 100\n").starts_with(":3: \"5 100\": sizes and shares must grow"));
        assert!(error("0 0\n10 50\n").contains("must be 100"));
        assert!(error("10 500\n").contains("0 to 100 per cent"));
        assert!(error("# nothing\n").contains("no points"));
        let folder = std::env::temp_dir().join(format!("windlass-cdf-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("fine"), "1000 100\n").unwrap();
        let scenario = |size: &str| {
            let text = format!(
                "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n\
                 [[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = {size}\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n[[flow.train]]\n\
                 count = 2\nsize = {size}\n"
            );
            Scenario::parse(folder.join("s.toml").to_str().unwrap(), &text)
        };
        let sound = scenario("{ cdf_file = \"fine\" }").unwrap_or_else(|e| panic!("{e}"));
        let size = Size::Bytes(Dist::Cdf(vec![(Bytes(1000.0), Fraction(1.0))]));
        assert!(sound.flows.iter().all(|flow| flow.trains[0].size == size));
        let e = scenario("{ cdf_file = \"none\" }").unwrap_err();
        assert!(
            e.line == 11 && e.what.starts_with("size: cdf_file: ") && e.what.contains("cannot be read"),
            "{e}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
