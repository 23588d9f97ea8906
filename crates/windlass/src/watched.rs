//! A file of settings that is read again while a command goes on.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// A file that is another one at each look, as where a program writes it again and again, is read after so many.
const LOOKS_MOST: u32 = 6;

/// The file, and what it was when it was last looked at.
pub struct Watched<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// None: it was not there.
    seen: Option<State>,
    /// What it was at the last look, if that was something new.
    pending: Option<Option<State>>,
    /// Looks since it was what was read.
    looks: u32,
    /// It was the same at two looks when it was due, so that it was not half written.
    pub is_settled: bool,
}

/// What shows that a file is another one or was written. Its time alone does not: copies may keep that, and all files
/// of an image have one.
#[derive(Clone, PartialEq, Eq)]
struct State {
    device: u64,
    inode: u64,
    size_bytes: u64,
    /// When it was written, and when it was changed in whatever way: seconds and nanoseconds.
    times: [(i64, i64); 2],
}

impl Watched<'_> {
    /// The file as it is now.
    pub fn new(path: &Path) -> Watched<'_> {
        Watched { path, seen: State::of(path), pending: None, looks: 0, is_settled: true }
    }

    /// Whether it must be read again: it was written, and not since the last look, when it may have been half
    /// written; or it was written before each of several looks; or a reload was requested.
    pub fn is_due(&mut self, is_asked: bool) -> bool {
        let now = State::of(self.path);
        let is_new = now != self.seen;
        let is_settled = self.pending.as_ref() == Some(&now);
        self.looks = if is_new { self.looks + 1 } else { 0 };
        let is_due = is_asked || (is_new && (is_settled || self.looks >= LOOKS_MOST));
        self.pending = (!is_due && now != self.seen).then(|| now.clone());
        if is_due {
            self.seen = now;
            self.looks = 0;
            self.is_settled = is_asked || is_settled;
        }
        is_due
    }
}

impl State {
    fn of(path: &Path) -> Option<State> {
        let m = fs::metadata(path).ok()?;
        let times = [(m.mtime(), m.mtime_nsec()), (m.ctime(), m.ctime_nsec())];
        Some(State { device: m.dev(), inode: m.ino(), size_bytes: m.size(), times })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn a_file_in_the_place_of_another_of_the_same_time_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let [file, draft] = ["file", "draft"].map(|name| folder.path().join(name));
        let write = |path: &Path, text: &str| {
            fs::write(path, text).unwrap();
            fs::File::open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        };
        write(&file, "one");
        let mut watched = Watched::new(&file);
        assert!(!watched.is_due(false) && watched.is_due(true));
        write(&draft, "two");
        fs::rename(&draft, &file).unwrap();
        assert!(!watched.is_due(false), "it may be half written");
        assert!(watched.is_due(false));
        assert!(!watched.is_due(false));
        write(&file, "three");
        assert!(!watched.is_due(false));
        write(&file, "three and four");
        assert!(!watched.is_due(false));
        assert!(watched.is_due(false) && !watched.is_due(false));
    }

    #[test]
    fn a_file_that_a_syncer_writes_before_each_look_is_read_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let [file, draft] = ["file", "draft"].map(|name| folder.path().join(name));
        fs::write(&file, "one").unwrap();
        let mut watched = Watched::new(&file);
        let mut is_due_after = || {
            (1..).find(|_| {
                fs::write(&draft, "two").unwrap();
                fs::rename(&draft, &file).unwrap();
                watched.is_due(false)
            })
        };
        assert_eq!([is_due_after(), is_due_after()], [Some(LOOKS_MOST); 2]);
    }
}
