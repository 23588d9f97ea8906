//! One emulator of this machine at a time spins: two of them would leave two processors to no host.

use crate::netns::FOLDERS;
use anyhow::{Context, Result};
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};
use windlass_agent::{Locked, flock};

/// The right to spin, until it is dropped or its process ends.
#[derive(Debug)]
pub(crate) struct Spin {
    _file: Locked,
}

impl Spin {
    /// None: another emulator spins.
    pub fn take() -> Result<Option<Spin>> {
        Spin::take_in(Path::new(FOLDERS))
    }

    fn take_in(folder: &Path) -> Result<Option<Spin>> {
        let path = folder.join("spin.lock");
        let place = || path.display().to_string();
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        // or other users could hold its lock
        let mut options = OpenOptions::new();
        let file =
            options.write(true).create(true).truncate(false).mode(0o600).open(&path).with_context(place)?;
        match flock(&file, libc::LOCK_EX | libc::LOCK_NB) {
            Ok(()) => Ok(Some(Spin { _file: Locked(file) })),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(why) => Err(why).with_context(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_spins() {
        let folder = tempfile::tempdir().unwrap();
        let take = || Spin::take_in(folder.path()).unwrap();
        let first = take().unwrap();
        assert!(take().is_none());
        drop(first);
        assert!(take().is_some());
    }
}
