//! Locks between processes: agents of one machine share what is pinned.

use crate::{
    Result,
    error::io_error,
    run_dir::{run_dir, run_file},
};
use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd,
};

/// flock(2): `how` is one of LOCK_*. The kernel drops the lock with the file, of a process that is killed, too.
///
/// # Errors
/// With LOCK_NB, EWOULDBLOCK: another process has it.
pub fn flock(file: &File, how: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `file` is.
    if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Held while something shared is made, looked for or removed: other agents of this machine wait. Not to be taken twice.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// The lock of "groups", or of "pins", "native" or "select"; who needs that of groups besides takes it last. Whoever
    /// attaches to interfaces has that of "attach", taken first.
    pub(crate) fn take(of: &str) -> Result<Lock> {
        fs::create_dir_all(run_dir()).map_err(io_error(run_dir()))?;
        let path = run_file(&format!("{of}.lock"));
        let file = File::create(&path).map_err(io_error(&path))?;
        flock(&file, libc::LOCK_EX).map_err(io_error(&path))?;
        Ok(Lock { _file: file })
    }
}
