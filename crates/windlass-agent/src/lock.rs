//! Locks between processes: agents of one machine share what is pinned.

use crate::{
    Error, Result,
    error::io_error,
    run_dir::{run_dir, run_file},
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{fd::AsRawFd, unix::fs::FileExt},
    path::Path,
    thread,
    time::{Duration, Instant},
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

/// Nobody holds a lock longer than it takes to load the programs, but for a process that is stopped, as by SIGSTOP or a
/// frozen cgroup.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);

impl Lock {
    /// The lock of "groups", or of "pins", "native" or "select"; who needs that of groups besides takes it last, and that of
    /// "native" before that of "select". Whoever attaches to interfaces has that of "attach", taken first; whoever has a cgroup's
    /// sockets choose algorithms has that of "native", lest those be unloaded meanwhile.
    ///
    /// # Errors
    /// Somebody has it and does not let go.
    pub(crate) fn take(of: &str) -> Result<Lock> {
        fs::create_dir_all(run_dir()).map_err(io_error(run_dir()))?;
        // who has one of these may be waiting for another
        let turns = if matches!(of, "attach" | "native") { 3 } else { 1 };
        Lock::take_within(&run_file(&format!("{of}.lock")), turns * PATIENCE)
    }

    /// Waits for as long as others take turns, and for `patience` while it is one and the same turn.
    fn take_within(path: &Path, patience: Duration) -> Result<Lock> {
        let io_error = |why| io_error(path)(why);
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = options.map_err(io_error)?;
        let mut holder = Turn::default();
        let mut since = Instant::now();
        while let Err(why) = flock(&file, libc::LOCK_EX | libc::LOCK_NB) {
            if why.raw_os_error() != Some(libc::EWOULDBLOCK) {
                return Err(io_error(why));
            }
            let now = Turn::read(&file);
            if now != holder {
                (holder, since) = (now, Instant::now());
            } else if since.elapsed() >= patience {
                return Err(Error::Locked { path: path.into(), process: holder.process });
            }
            thread::sleep(POLL);
        }
        let number = Turn::read(&file).number.wrapping_add(1);
        // it is for those who wait: a full disk is no reason to leave
        let _ = Turn { process: std::process::id(), number }.write(&file);
        Ok(Lock { _file: file })
    }
}

/// Who has a lock, or had it last; noted in its file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Turn {
    /// Zero: nobody had it yet.
    process: u32,
    /// How often it was taken.
    number: u64,
}

impl Turn {
    const BYTES: usize = 12;

    fn read(file: &File) -> Turn {
        let mut bytes = [0; Turn::BYTES];
        if file.read_exact_at(&mut bytes, 0).is_err() {
            return Turn::default();
        }
        let [a, b, c, d, number @ ..] = bytes;
        Turn { process: u32::from_ne_bytes([a, b, c, d]), number: u64::from_ne_bytes(number) }
    }

    fn write(&self, file: &File) -> io::Result<()> {
        let bytes = [&self.process.to_ne_bytes()[..], &self.number.to_ne_bytes()].concat();
        file.write_all_at(&bytes, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_let_go_is_named_and_turns_are_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins.lock");
        let first = Lock::take_within(&path, Duration::ZERO).unwrap();
        let why = Lock::take_within(&path, Duration::ZERO).unwrap_err().to_string();
        let id = std::process::id();
        assert!(
            why.contains(&format!("process {id} ")) && why.contains(&format!("kill -CONT {id}")),
            "{why}"
        );
        thread::scope(|scope| {
            let next = scope.spawn(|| Lock::take_within(&path, PATIENCE).map(drop));
            drop(first);
            next.join().unwrap().unwrap();
        });
        // every turn is another one
        let turn = || Turn::read(&File::open(&path).unwrap());
        let before = turn();
        drop(Lock::take_within(&path, Duration::ZERO).unwrap());
        assert!(before != turn() && before.process == id, "{before:?}");
    }
}
