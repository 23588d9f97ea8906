//! The file of finished runs, one a line, and the folder that it is in.

use crate::record::RunRecord;
use anyhow::{Context, Result, ensure};
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::Path,
};
use windlass_agent::flock;

/// Finished runs of a file, each with its line; those that failed and what was cut short are left out.
pub fn finished_runs(path: &Path) -> impl Iterator<Item = (String, RunRecord)> {
    let lines =
        File::open(path).ok().into_iter().flat_map(|f| BufReader::new(f).lines().map_while(|l| l.ok()));
    let parsed = |line: String| serde_json::from_str(&line).ok().map(|run: RunRecord| (line, run));
    lines.filter_map(parsed).filter(|(_, run)| run.error.is_none())
}

/// Makes the folder if need be, and has it for these runs alone until what is returned is dropped.
///
/// # Errors
/// Another process runs into it.
pub fn claim(folder: &Path) -> Result<File> {
    let place = || folder.display().to_string();
    fs::create_dir_all(folder).with_context(place)?;
    let open = File::open(folder).with_context(place)?;
    if let Err(why) = flock(&open, libc::LOCK_EX | libc::LOCK_NB) {
        ensure!(
            why.kind() != io::ErrorKind::WouldBlock,
            "{}: another windlass is putting its runs there; wait for it, or name another folder with --out",
            place()
        );
        return Err(why).with_context(place);
    }
    Ok(open)
}

/// Puts a file with these lines in the place of `path`, to be gone on with. Until it is whole, what was there stays.
pub fn replace(path: &Path, lines: impl Iterator<Item = String>) -> io::Result<File> {
    let new = path.with_extension("jsonl.new");
    let mut file = BufWriter::new(File::create(&new)?);
    for line in lines {
        writeln!(file, "{line}")?;
    }
    let file = file.into_inner()?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_takes_the_runs_of_one_process_at_a_time() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("new");
        let claimed = claim(&folder).unwrap();
        let error = claim(&folder).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: another windlass", folder.display())), "{error}");
        drop(claimed);
        claim(&folder).unwrap();
    }
}
