//! Locks between processes: agents of one machine share what is pinned.

use crate::{
    Error, Interrupt, Result,
    error::io_error,
    persist::{
        holder,
        private::{self, is_at},
        run_dir::{run_dir, run_file},
    },
};
use std::{
    fs::File,
    io,
    os::{fd::AsRawFd, unix::fs::FileExt},
    path::{Path, PathBuf},
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

/// A file or folder that is locked, and free as soon as this is dropped. To close it would not do: a program that is being
/// started has the same open file until it runs (fork(2), and then execve(2) closes it), and would keep the lock until then.
#[derive(Debug)]
pub struct Locked(pub File);

impl Drop for Locked {
    fn drop(&mut self) {
        // the kernel drops what is left
        let _ = flock(&self.0, libc::LOCK_UN);
    }
}

/// Held while something shared is made, looked for or removed: other agents of this machine wait. Not to be taken twice.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: Locked,
}

/// No process holds a lock longer than it takes to load the programs, but for one that is stopped, as by SIGSTOP or a frozen cgroup.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(5);
/// How often a lock's holder is looked up while others wait for it.
const LOOK: Duration = Duration::from_millis(250);

impl Lock {
    /// The lock of "groups", or of "pins", "native" or "select"; a process that needs that of groups besides takes it last, and
    /// that of "native" before that of "select". A process that attaches to interfaces has that of "attach", taken
    /// first; one that has a cgroup's sockets choose algorithms has that of "native", lest those be unloaded
    /// meanwhile.
    ///
    /// # Errors
    /// Another process has it and does not let go.
    pub(crate) fn take(of: &str) -> Result<Lock> {
        private::make_folder(run_dir())?;
        // a process that has one of these may be waiting for another
        let turns = if matches!(of, "attach" | "native") { 3 } else { 1 };
        Lock::take_within(&run_file(&format!("{of}.lock")), turns * PATIENCE)
    }

    /// The lock of "attach", in turn.
    ///
    /// # Errors
    /// As of [`Lock::take`]; or [`Error::Interrupted`].
    pub(crate) fn take_for_attach(interrupt: Option<&Interrupt>) -> Result<Lock> {
        private::make_folder(run_dir())?;
        Lock::take_in_turn(&run_file("attach.lock"), 3 * PATIENCE, interrupt)
    }

    /// The lock of "pins", in turn: it is held for a grace period while interfaces are attached, and for some while they are released.
    pub(crate) fn take_for_pins() -> Result<Lock> {
        private::make_folder(run_dir())?;
        Lock::take_in_turn(&run_file("pins.lock"), PATIENCE, None)
    }

    /// As [`Lock::take_within`], for a lock that one process takes again and again, as an agent does whose interfaces come all at
    /// once: those that poll would rarely find it free. So there is a second lock for the process that is next, which is taken
    /// before this one and left after it.
    fn take_in_turn(path: &Path, patience: Duration, interrupt: Option<&Interrupt>) -> Result<Lock> {
        // each that waits there gets its turn within the other one's patience
        let _next = Lock::take_unless(&next_to(path), 2 * patience, interrupt)?;
        Lock::take_unless(path, patience, interrupt)
    }

    /// Waits for as long as others take turns, and for `patience` while it is one and the same turn. Another user's process, which
    /// has opened the file of an older version, is not waited for: a new file takes the place of that one.
    pub(crate) fn take_within(path: &Path, patience: Duration) -> Result<Lock> {
        Lock::take_unless(path, patience, None)
    }

    /// The same, but waits only until there is an interrupt.
    fn take_unless(path: &Path, patience: Duration, interrupt: Option<&Interrupt>) -> Result<Lock> {
        let io_error = |why| io_error(path)(why);
        let (mut file, mut is_older) = private::open(path)?;
        let mut turn = Turn::default();
        let mut since = Instant::now();
        let mut looked: Option<Instant> = None;
        loop {
            match flock(&file, libc::LOCK_EX | libc::LOCK_NB) {
                Ok(()) if is_at(&file, path) && !is_older => break,
                Ok(()) if is_at(&file, path) => private::renew(path, &file)?,
                Err(why) if why.raw_os_error() != Some(libc::EWOULDBLOCK) => return Err(io_error(why)),
                Err(_) if is_at(&file, path) => {
                    let now = Turn::read(&file);
                    if now != turn {
                        (turn, since) = (now, Instant::now());
                    }
                    let is_stranger = looked.is_none_or(|at| at.elapsed() >= LOOK) && {
                        looked = Some(Instant::now());
                        holder::is_stranger(&file)
                    };
                    if !is_stranger {
                        if interrupt.is_some_and(Interrupt::is_raised) {
                            return Err(Error::Interrupted(path.into()));
                        }
                        if since.elapsed() < patience {
                            thread::sleep(POLL);
                            continue;
                        }
                        let process = holder::of(&file);
                        // one that is not shown here, as from another PID namespace, may be another user's
                        if process.is_some() || !is_older {
                            let process = process.unwrap_or(turn.process);
                            return Err(Error::Locked { path: path.into(), process });
                        }
                    }
                    private::renew(path, &file)?;
                }
                // another file has taken its place
                _ => {}
            }
            (file, is_older) = private::open(path)?;
        }
        let number = Turn::read(&file).number.wrapping_add(1);
        // it is for those who wait: a full disk is no reason to leave
        let _ = Turn { process: std::process::id(), number }.write(&file);
        Ok(Lock { _file: Locked(file) })
    }
}

/// Where the lock of the process is that has this one next.
fn next_to(path: &Path) -> PathBuf {
    path.with_extension("next.lock")
}

/// Locks a folder of pins, which processes with another /run see as well, in this way (LOCK_EX or LOCK_SH), within
/// this time. A lock that another user holds, which opened the folder while an older version let it, is ignored: it
/// is not waited for.
///
/// # Errors
/// [`Error::Locked`]: a process of ours has it.
pub(crate) fn lock_folder(folder: &File, path: &Path, how: i32, patience: Duration) -> Result<()> {
    let since = Instant::now();
    while let Err(why) = flock(folder, how | libc::LOCK_NB) {
        if why.raw_os_error() != Some(libc::EWOULDBLOCK) {
            return Err(io_error(path)(why));
        }
        if holder::is_stranger(folder) {
            return Ok(());
        }
        if since.elapsed() >= patience {
            return Err(Error::Locked { path: path.into(), process: holder::of(folder).unwrap_or(0) });
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// The process that has a lock, or had it last; noted in its file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Turn {
    /// Zero: no process had it yet.
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
    use std::{
        fs::{self, Permissions},
        io::{BufRead, BufReader},
        os::unix::fs::{MetadataExt, PermissionsExt},
        process::{Child, Command, Stdio},
    };

    /// A process of another user that has the file's lock until it is dropped.
    struct Stranger(Child);

    impl Stranger {
        fn locks(path: &Path) -> Stranger {
            let ids = ["--reuid=65534", "--regid=65534", "--clear-groups"];
            let mut command = Command::new("setpriv");
            command.args(ids).arg("flock").arg(path).args(["sh", "-c", "echo locked; read line"]);
            let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut child = child.expect("setpriv and flock (Debian: util-linux)");
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "locked\n");
            Stranger(child)
        }
    }

    impl Drop for Stranger {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            let _ = self.0.wait();
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    /// A lock file as older versions made it, in a folder that others may enter.
    fn older(folder: &Path) -> std::path::PathBuf {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
        let path = folder.join("pins.lock");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }

    #[test]
    fn a_lock_file_of_an_older_version_that_a_stranger_holds_is_replaced() {
        if private::own_uid() != 0 {
            println!(
                "skipped: a_lock_file_of_an_older_version_that_a_stranger_holds_is_replaced: needs root"
            );
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = older(folder.path());
        let before = fs::metadata(&path).unwrap().ino();
        let _stranger = Stranger::locks(&path);
        let lock = Lock::take_within(&path, PATIENCE).unwrap();
        assert!(fs::metadata(&path).unwrap().ino() != before && mode(&path) == 0o600);
        // it is the one that others wait for
        assert!(matches!(Lock::take_within(&path, Duration::ZERO), Err(Error::Locked { .. })));
        drop(lock);
        Lock::take_within(&path, Duration::ZERO).unwrap();
    }

    #[test]
    fn a_lock_file_of_an_older_version_is_waited_for_while_a_process_of_ours_holds_it_and_then_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = older(folder.path());
        let of_older_version = Locked(File::open(&path).unwrap());
        flock(&of_older_version.0, libc::LOCK_EX).unwrap();
        assert!(matches!(Lock::take_within(&path, Duration::ZERO), Err(Error::Locked { .. })));
        assert!(is_at(&of_older_version.0, &path));
        drop(of_older_version);
        thread::scope(|scope| {
            let all: Vec<_> =
                (0..3).map(|_| scope.spawn(|| Lock::take_within(&path, PATIENCE).map(drop))).collect();
            all.into_iter().for_each(|one| one.join().unwrap().unwrap());
        });
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_strangers_lock_on_a_folder_counts_for_nothing() {
        if private::own_uid() != 0 {
            println!("skipped: a_strangers_lock_on_a_folder_counts_for_nothing: needs root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let _stranger = Stranger::locks(folder.path());
        let open = private::open_folder(folder.path()).unwrap();
        lock_folder(&open, folder.path(), libc::LOCK_SH, PATIENCE).unwrap();
        assert_eq!(mode(folder.path()), 0o700);
    }

    /// Is some process waiting for its turn?
    fn is_awaited(path: &Path) -> bool {
        File::open(next_to(path)).is_ok_and(|file| flock(&file, libc::LOCK_EX | libc::LOCK_NB).is_err())
    }

    /// Waits until some process waits for the lock.
    fn until_awaited(path: &Path) {
        while !is_awaited(path) {
            thread::yield_now();
        }
    }

    #[test]
    fn a_process_that_takes_a_lock_again_and_again_waits_its_turn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("attach.lock");
        let order = std::sync::Mutex::new(Vec::new());
        let take = || Lock::take_in_turn(&path, PATIENCE, None).unwrap();
        let first = take();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _lock = take();
                order.lock().unwrap().push("other");
            });
            until_awaited(&path);
            drop(first);
            let _lock = take();
            order.lock().unwrap().push("first");
        });
        assert_eq!(*order.lock().unwrap(), ["other", "first"]);
    }

    #[test]
    fn an_interrupt_ends_the_wait_for_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("attach.lock");
        let interrupt = Interrupt::default();
        let take = || Lock::take_in_turn(&path, PATIENCE, Some(&interrupt));
        let lock = take().unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| take().map(drop));
            until_awaited(&path);
            interrupt.raise();
            assert!(matches!(waits.join().unwrap(), Err(Error::Interrupted(_))));
        });
        // one that is free is not waited for
        drop(lock);
        take().unwrap();
    }

    #[test]
    fn a_lock_whose_file_is_replaced_meanwhile_is_taken_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins.lock");
        let first = Lock::take_within(&path, PATIENCE).unwrap();
        private::renew(&path, &first._file.0).unwrap();
        let _second = Lock::take_within(&path, Duration::ZERO).unwrap();
        assert!(matches!(Lock::take_within(&path, Duration::ZERO), Err(Error::Locked { .. })));
    }

    #[test]
    fn a_lock_is_free_once_dropped_though_a_program_that_is_being_started_has_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins.lock");
        let lock = Lock::take_within(&path, Duration::ZERO).unwrap();
        let of_the_program = lock._file.0.try_clone().unwrap();
        drop(lock);
        Lock::take_within(&path, Duration::ZERO).unwrap();
        drop(of_the_program);
    }

    #[test]
    fn a_holder_that_does_not_let_go_of_a_lock_is_named_and_turns_are_waited_for() {
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
