//! The user that the package's service runs as. Pins and locks are that user's then, and root refuses what is another user's: files
//! that root made among them would be out of the agent's reach. So a command of root acts as that user, with the capabilities that
//! the datapath takes.

use crate::{
    Result,
    error::io_error,
    object::raise_limits,
    persist::{private::own_uid, run_dir::run_dir},
};
use caps::{CapSet, Capability, CapsHashSet};
use std::{fs, io, os::unix::fs::MetadataExt, path::Path};

/// Its name, as the package makes it.
const NAME: &str = "windlass";
/// What the datapath takes; programs that a command starts (`ip`, `tc`) have them, too.
const NEEDED: [Capability; 4] =
    [Capability::CAP_BPF, Capability::CAP_PERFMON, Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW];
/// Files named on root's command line are read as root's.
const READS_ALL: Capability = Capability::CAP_DAC_READ_SEARCH;

/// Makes this process the service's user for good, if it is root and `/run/windlass` is that user's. To be called before there are
/// other threads.
///
/// # Errors
/// This process may not change its user, or lacks capabilities, as root of a container may.
pub fn act_as_service_user() -> Result<()> {
    let Ok(found) = fs::symlink_metadata(run_dir()) else { return Ok(()) };
    if own_uid() != 0 || found.uid() == 0 || !found.is_dir() {
        return Ok(());
    }
    let users = Path::new("/etc/passwd");
    let list = fs::read_to_string(users).map_err(io_error(users))?;
    match user_of(&list) {
        // another user's folder is refused where it is used, with the cure
        Some((user, group)) if user == found.uid() => become_user(user, group).map_err(io_error(run_dir())),
        _ => Ok(()),
    }
}

/// Numbers of the service's user and its group in the text of /etc/passwd (passwd(5)).
fn user_of(list: &str) -> Option<(u32, u32)> {
    let line = list.lines().find(|line| line.split(':').next() == Some(NAME))?;
    let mut numbers = line.split(':').skip(2).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?)).filter(|(user, _)| *user != 0)
}

fn become_user(user: u32, group: u32) -> io::Result<()> {
    // which takes a capability that does not stay
    raise_limits();
    let check = |result: libc::c_int| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: changes attributes of this process, which has one thread; the list of groups lives for the call.
    unsafe {
        check(libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0))?;
        check(libc::setgroups(1, &group))?;
        check(libc::setresgid(group, group, group))?;
        check(libc::setresuid(user, user, user))?;
    }
    keep_needed().map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, why.to_string()))
}

/// Of the capabilities that a change of the user has left, keeps those that are needed, for programs that it starts as well.
fn keep_needed() -> std::result::Result<(), caps::errors::CapsError> {
    let had = caps::read(None, CapSet::Permitted)?;
    let needed: CapsHashSet = NEEDED.into_iter().filter(|one| had.contains(one)).collect();
    let mut own = needed.clone();
    own.extend([READS_ALL].into_iter().filter(|one| had.contains(one)));
    caps::set(None, CapSet::Effective, &own)?;
    caps::set(None, CapSet::Permitted, &own)?;
    caps::set(None, CapSet::Inheritable, &needed)?;
    caps::set(None, CapSet::Ambient, &needed)
}

#[cfg(test)]
mod tests {
    use super::user_of;

    #[test]
    fn the_service_user_is_found_by_its_whole_name() {
        let list = "root:x:0:0:root:/root:/bin/sh\nwindlass-web:x:7:7::/:/bin/false\n\
                    windlass:x:106:112::/nonexistent:/usr/sbin/nologin\n";
        assert_eq!(user_of(list), Some((106, 112)));
        assert_eq!(user_of("root:x:0:0:root:/root:/bin/sh\n"), None);
        for broken in ["windlass", "windlass:x:", "windlass:x:106", "windlass:x:many:112", "windlass:x:0:0"] {
            assert_eq!(user_of(broken), None, "{broken}");
        }
    }
}
