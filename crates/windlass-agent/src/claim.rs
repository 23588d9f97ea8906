//! Who looks after what is pinned or attached: one process at a time, or each would put its own policy in force. The kernel drops
//! the claim of one that is killed.

use crate::{Error, Result, error::io_error, lock::flock};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    path::Path,
};

/// Held by the agent, or the `windlass attach`, that looks after something, as long as it does.
#[derive(Debug)]
pub(crate) struct Claim {
    _file: File,
}

impl Claim {
    /// Claims what `path`, a file under /run, stands for; in errors it is called `what`. With the lock held under which that is
    /// pinned and released, for whoever releases it removes the file.
    ///
    /// # Errors
    /// Another process has it.
    pub(crate) fn take(path: &Path, what: &str) -> Result<Claim> {
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = options.map_err(io_error(path))?;
        if let Err(why) = flock(&file, libc::LOCK_EX | libc::LOCK_NB) {
            if why.raw_os_error() != Some(libc::EWOULDBLOCK) {
                return Err(io_error(path)(why));
            }
            let mut process = String::new();
            // it may not have said yet who it is
            let _ = file.read_to_string(&mut process);
            return Err(Error::Claimed { what: what.into(), process });
        }
        // it is for whoever finds it taken: a full disk is no reason to leave
        let _ = file.set_len(0).and_then(|()| write!(file, " (process {})", std::process::id()));
        Ok(Claim { _file: file })
    }

    /// Does some process have what `path` stands for? With the same lock held.
    pub(crate) fn is_taken(path: &Path) -> bool {
        let is_held = |file: File| flock(&file, libc::LOCK_EX | libc::LOCK_NB).is_err();
        File::open(path).is_ok_and(is_held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_until_it_ends_and_others_are_told_who() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("claim");
        let first = Claim::take(&path, "'eth0'").unwrap();
        let why = Claim::take(&path, "'eth0'").unwrap_err().to_string();
        let who = format!("another agent (process {})", std::process::id());
        assert!(why.starts_with("'eth0' is already under control") && why.contains(&who), "{why}");
        assert!(Claim::is_taken(&path));
        drop(first);
        assert!(!Claim::is_taken(&path) && !Claim::is_taken(&folder.path().join("other")));
        Claim::take(&path, "'eth0'").unwrap();
    }

    #[test]
    fn what_cannot_be_noted_can_be_had() {
        Claim::take(Path::new("/dev/full"), "'eth0'").unwrap();
    }
}
