//! A file of settings that is read again while a command goes on.

use std::{fs, path::Path, time::SystemTime};

/// The file, and when it was last seen to be written.
pub struct Watched<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// None: it was not there.
    seen: Option<SystemTime>,
}

impl Watched<'_> {
    /// The file as it is now.
    pub fn new(path: &Path) -> Watched<'_> {
        Watched { path, seen: modified(path) }
    }

    /// Whether it must be read again: it was written since it was last looked at, or somebody asks.
    pub fn is_due(&mut self, is_asked: bool) -> bool {
        let now = modified(self.path);
        let has_changed = now != self.seen;
        self.seen = now;
        is_asked || has_changed
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|m| m.modified()).ok()
}
