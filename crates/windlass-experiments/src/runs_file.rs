//! The file of finished runs, one a line, and the folder that it is in.

use crate::record::RunRecord;
use anyhow::{Context, Result, ensure};
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter, Write},
    os::fd::AsRawFd,
    path::Path,
};

/// Finished runs of a file, each with its line; those that failed and what was cut short are left out.
pub fn finished_runs(path: &Path) -> impl Iterator<Item = (String, RunRecord)> + use<> {
    all_runs(path).filter(|(_, run)| run.error.is_none())
}

/// The same with those that failed.
pub fn all_runs(path: &Path) -> impl Iterator<Item = (String, RunRecord)> + use<> {
    // a line that was cut short may end within a letter
    let lines =
        File::open(path).ok().into_iter().flat_map(|f| BufReader::new(f).split(b'\n').map_while(Result::ok));
    let parsed = |line: Vec<u8>| {
        let line = String::from_utf8(line).ok()?;
        serde_json::from_str(&line).ok().map(|run: RunRecord| (line, run))
    };
    lines.filter_map(parsed)
}

/// The line of a run.
pub fn line(run: &RunRecord) -> String {
    serde_json::to_string(run).expect("plain data")
}

/// Lines that are added as runs finish.
pub struct RunsFile<W> {
    file: W,
    /// Whether the last line may have been cut short.
    is_cut: bool,
}

impl<W: Write> RunsFile<W> {
    /// To go on with this file, whose last line is whole.
    pub fn new(file: W) -> RunsFile<W> {
        RunsFile { file, is_cut: false }
    }

    /// Adds a line. Where that fails, the next one begins a line of its own nevertheless.
    pub fn add(&mut self, line: &str) -> io::Result<()> {
        let begin = if self.is_cut { "\n" } else { "" };
        self.is_cut = true;
        self.file.write_all(format!("{begin}{line}\n").as_bytes())?;
        self.is_cut = false;
        Ok(())
    }
}

/// Puts runs that are there already aside, as "runs.jsonl.old", in the place of those that were put aside before.
pub fn put_aside(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        // of a run that never came so far there is nothing to keep
        Ok(file) if file.len() > 0 => fs::rename(path, path.with_extension("jsonl.old")),
        _ => Ok(()),
    }
}

/// A folder that one process has for its runs, until this is dropped. To close the folder would not do: a program that is being
/// started has it open as well until it runs.
#[derive(Debug)]
pub struct ClaimedFolder {
    folder: File,
}

impl Drop for ClaimedFolder {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open as long as `folder` is.
        unsafe { libc::flock(self.folder.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// Makes the folder if need be, and has it for these runs alone.
///
/// # Errors
/// Another process runs into it.
pub fn claim(folder: &Path) -> Result<ClaimedFolder> {
    let place = || folder.display().to_string();
    fs::create_dir_all(folder).with_context(place)?;
    let open = File::open(folder).with_context(place)?;
    // SAFETY: the descriptor is open as long as `open` is.
    if unsafe { libc::flock(open.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } < 0 {
        let why = io::Error::last_os_error();
        ensure!(
            why.kind() != io::ErrorKind::WouldBlock,
            "{}: another windlass is putting its runs there; wait for it, or name another folder with --out",
            place()
        );
        return Err(why).with_context(place);
    }
    Ok(ClaimedFolder { folder: open })
}

/// Puts a file with these lines in the place of `path`, to be gone on with. Until it is whole, what was there stays.
pub fn replace(path: &Path, lines: impl Iterator<Item = String>) -> io::Result<File> {
    let new = path.with_extension("jsonl.new");
    let write = || {
        let mut file = BufWriter::new(File::create(&new)?);
        for line in lines {
            writeln!(file, "{line}")?;
        }
        let file = file.into_inner()?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        Ok(file)
    };
    // what is not whole only takes room
    write().inspect_err(|_| drop(fs::remove_file(&new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for so many bytes.
    struct Disk {
        holds: Vec<u8>,
        room_bytes: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.room_bytes);
            self.room_bytes -= fits;
            self.holds.extend(&bytes[..fits]);
            if fits == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(fits) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_was_cut_short_does_not_swallow_the_next() {
        let run = |point: &str| RunRecord { point: point.into(), ..RunRecord::default() };
        let lines = ["a", "\u{e4}", "c"].map(|point| line(&run(point)));
        // up to within the letter
        let room_bytes = lines[0].len() + 1 + lines[1].find('\u{e4}').unwrap() + 1;
        let mut runs = RunsFile::new(Disk { holds: Vec::new(), room_bytes });
        runs.add(&lines[0]).unwrap();
        assert_eq!(runs.add(&lines[1]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        runs.file.room_bytes = 10_000;
        runs.add(&lines[2]).unwrap();
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("runs.jsonl");
        fs::write(&path, &runs.file.holds).unwrap();
        let points: Vec<String> = finished_runs(&path).map(|(_, run)| run.point).collect();
        assert_eq!(points, ["a", "c"]);
    }

    #[test]
    fn a_folder_takes_the_runs_of_one_process_at_a_time() {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().join("new");
        let claimed = claim(&folder).unwrap();
        let error = claim(&folder).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: another windlass", folder.display())), "{error}");
        let of_a_child = claimed.folder.try_clone().unwrap();
        drop(claimed);
        claim(&folder).unwrap();
        drop(of_a_child);
    }
}
