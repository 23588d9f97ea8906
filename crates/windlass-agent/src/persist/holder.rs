//! Processes that hold a file's lock, as the kernel lists them.

use crate::persist::private::is_ours;
use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
};

/// The process that holds the file's lock; none: there is none, or it is not shown here, as from another PID namespace.
pub(crate) fn of(file: &File) -> Option<u32> {
    let found = file.metadata().ok()?;
    let device = found.dev();
    let id = format!("{:02x}:{:02x}:{}", libc::major(device), libc::minor(device), found.ino());
    holder_in(&fs::read_to_string("/proc/locks").ok()?, &id)
}

/// The same from the text of /proc/locks (proc_locks(5)).
fn holder_in(locks: &str, id: &str) -> Option<u32> {
    locks.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        // one that waits has "->" before its kind
        [_, "FLOCK", _, _, process, of, ..] if of == id => process.parse().ok(),
        _ => None,
    })
}

/// Does a process of another user hold the file's lock? It has opened the file while an older version let it, and its lock counts
/// for nothing.
pub(crate) fn is_stranger(file: &File) -> bool {
    of(file).is_some_and(|process| {
        // a process that has ended, and left its lock to a child, is none of ours: our children inherit no locks
        let Ok(status) = fs::read_to_string(format!("/proc/{process}/status")) else { return true };
        !has_our_uids(&status)
    })
}

/// Are all user ids of a process ours? The effective one alone may be a setuid program's that another user has started.
fn has_our_uids(status: &str) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let mut ids = ids.split_whitespace().map(|id| id.parse().is_ok_and(is_ours)).peekable();
    ids.peek().is_some() && ids.all(|is_ours| is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persist::lock::flock;

    #[test]
    fn the_holder_of_a_lock_is_found_and_those_that_wait_are_not() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 00:1b:7 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 12 00:1b:7 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 00:1b:7 0 EOF\n4: FLOCK  ADVISORY  READ 14 00:1b:8 0 EOF\n";
        assert_eq!(holder_in(locks, "00:1b:7"), Some(13));
        assert_eq!(holder_in(locks, "00:1b:9"), None);
        let file = tempfile::tempfile().unwrap();
        assert_eq!(of(&file), None);
        flock(&file, libc::LOCK_EX).unwrap();
        assert!(of(&file).is_none_or(|process| process == std::process::id()));
        assert!(!is_stranger(&file));
    }

    #[test]
    fn a_setuid_program_that_another_user_started_is_a_stranger() {
        let own = crate::persist::private::own_uid();
        assert!(has_our_uids(&format!("Name:\tx\nUid:\t{own}\t{own}\t{own}\t{own}\n")));
        assert!(!has_our_uids(&format!("Uid:\t65534\t{own}\t{own}\t{own}\n")));
        assert!(!has_our_uids("Name:\tx\n"));
    }
}
