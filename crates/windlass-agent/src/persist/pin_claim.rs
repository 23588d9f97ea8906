//! Which process looks after what is pinned or attached: one process at a time, or each would put its own policy in
//! force. The kernel drops the claim of one that is killed.
//!
//! A claim is a lock on a file under /run, which also holds its owner, and, of what is pinned, one on the folder of
//! pins: that is the same for each process that sees the pins, also with another /run or one that was cleaned.

use crate::{
    Error, Result,
    error::io_error,
    persist::{
        holder,
        lock::{Locked, flock},
        private::{self, CAREFULLY},
    },
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Held by the agent, or the `windlass attach`, that looks after something, as long as it does.
#[derive(Debug)]
pub(crate) struct Claim {
    _file: Locked,
    /// None: nothing is pinned, or not for an interface.
    _folder: Option<Locked>,
}

impl Claim {
    /// Claims what `path`, a file under /run, stands for; in errors it is called `what`. With the lock held under which that is
    /// pinned and released, for the process that releases it removes the file.
    ///
    /// # Errors
    /// Another process has it.
    pub(crate) fn take(path: &Path, what: &str) -> Result<Claim> {
        loop {
            let (mut file, is_older) = private::open(path)?;
            match lock_alone(&file, path, what) {
                Ok(()) if !is_older => return Ok(Claim::held(file)),
                Err(Error::Claimed { what, mut process }) if !holder::is_stranger(&file) => {
                    // it may not have noted its name yet
                    let _ = file.read_to_string(&mut process);
                    return Err(Error::Claimed { what, process });
                }
                // other users may have it open, or even locked
                Ok(()) | Err(Error::Claimed { .. }) => private::renew(path, &file)?,
                Err(why) => return Err(why),
            }
        }
    }

    fn held(mut file: File) -> Claim {
        // it is for the process that finds it taken: a full disk is no reason to leave
        let _ = file.set_len(0).and_then(|()| write!(file, " (process {})", std::process::id()));
        Claim { _file: Locked(file), _folder: None }
    }

    /// Claims the folder of what is pinned, too.
    ///
    /// # Errors
    /// A process has it that has another /run.
    pub(crate) fn with_folder(self, pins: &Path, what: &str) -> Result<Claim> {
        let folder = private::open_folder(pins)?;
        lock_folder_alone(&folder, pins, what)?;
        Ok(Claim { _folder: Some(Locked(folder)), ..self })
    }

    /// Does some process have what `path`, a file or a folder of pins, stands for? Where that cannot be determined,
    /// as without a descriptor to spare, one does. With the same lock held.
    pub(crate) fn is_taken(path: &Path) -> bool {
        match OpenOptions::new().read(true).custom_flags(CAREFULLY).open(path) {
            Ok(file) => {
                let file = Locked(file);
                flock(&file.0, libc::LOCK_EX | libc::LOCK_NB).is_err() && !holder::is_stranger(&file.0)
            }
            Err(why) => why.kind() != io::ErrorKind::NotFound,
        }
    }
}

/// Locks a folder of pins for as long as it is open; in errors it is called `what`. A lock of another user, which
/// opened the folder while an older version let it, counts for nothing.
pub(crate) fn lock_folder_alone(folder: &File, path: &Path, what: &str) -> Result<()> {
    match lock_alone(folder, path, what) {
        Err(Error::Claimed { .. }) if holder::is_stranger(folder) => Ok(()),
        locked => locked,
    }
}

/// Locks a file or folder for as long as it is open; in errors it is called `what`.
fn lock_alone(file: &File, path: &Path, what: &str) -> Result<()> {
    match flock(file, libc::LOCK_EX | libc::LOCK_NB) {
        Err(why) if why.raw_os_error() == Some(libc::EWOULDBLOCK) => {
            Err(Error::Claimed { what: what.into(), process: String::new() })
        }
        locked => locked.map_err(io_error(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_a_claim_until_it_ends_and_others_learn_which() {
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
    fn a_claim_is_held_whether_or_not_there_is_room_to_note_its_process() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        Claim::held(full);
    }
}
