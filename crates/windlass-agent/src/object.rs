//! What every BPF object of this build needs.

use crate::{Result, error::bpf};
use libbpf_rs::{ErrorKind, Map, MapCore, MapHandle, Object, Program, libbpf_sys as sys};
use std::{
    ffi::CString,
    io,
    os::{
        fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// Identifies builds of an object.
pub(crate) fn fingerprint(object: &[u8]) -> u64 {
    // FNV-1a; it is not attacked
    object
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Its map of this name.
pub(crate) fn map<'a>(object: &'a Object, name: &str) -> Map<'a> {
    object.maps().find(|m| m.name() == name).unwrap_or_else(|| panic!("the BPF source has {name}"))
}

/// Its program of this name.
pub(crate) fn program<'a>(object: &'a Object, name: &str) -> Program<'a> {
    object.progs().find(|p| p.name() == name).unwrap_or_else(|| panic!("the BPF source has {name}"))
}

/// Pins what the descriptor is of: a map, a program or a link.
pub(crate) fn pin(fd: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let name = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: the descriptor is open, and the path lives during the call.
    if unsafe { sys::bpf_obj_pin(fd.as_raw_fd(), name.as_ptr()) } == 0 {
        return Ok(());
    }
    Err(bpf(format!("pinning {}", path.display()))(io::Error::last_os_error().into()))
}

/// What is pinned there, of whatever kind.
pub(crate) fn pinned(path: &Path) -> Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes()).expect("no NUL");
    // SAFETY: the path lives during the call.
    let fd = unsafe { sys::bpf_obj_get(name.as_ptr()) };
    if fd < 0 {
        return Err(bpf(format!("opening {}", path.display()))(io::Error::last_os_error().into()));
    }
    // SAFETY: a descriptor that the kernel just made and nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The map that is pinned there.
pub(crate) fn pinned_map(path: &Path) -> Result<MapHandle> {
    MapHandle::from_pinned_path(path).map_err(bpf(format!("opening {}", path.display())))
}

/// The same; none: nothing is pinned there. Of what is looked at without a lock others may have pinned, or removed, a part.
pub(crate) fn pinned_map_if_any(path: &Path) -> Result<Option<MapHandle>> {
    match MapHandle::from_pinned_path(path) {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some).map_err(bpf(format!("opening {}", path.display()))),
    }
}

/// Kernels before 5.11 charge maps to RLIMIT_MEMLOCK; and each interface under control holds ten descriptors, of which a
/// process may have 1024 unless it raises the limit.
pub fn raise_limits() {
    let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointers are to live locals; failure leaves the limits as they were.
    unsafe {
        libc::setrlimit(libc::RLIMIT_MEMLOCK, &unlimited);
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut files) == 0 {
            files.rlim_cur = files.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_as_the_administrator_allows_may_be_open() {
        raise_limits();
        let mut files = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is to a live local.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut files) }, 0);
        assert_eq!(files.rlim_cur, files.rlim_max);
    }
}
