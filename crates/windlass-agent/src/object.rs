//! What every BPF object of this build needs.

use crate::{Result, error::bpf};
use libbpf_rs::{Map, MapCore, MapHandle, Object, Program};
use std::path::Path;

/// Tells builds of an object apart.
pub(crate) fn fingerprint(object: &[u8]) -> u64 {
    // FNV-1a; nobody attacks it
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

/// The map that is pinned there.
pub(crate) fn pinned_map(path: &Path) -> Result<MapHandle> {
    MapHandle::from_pinned_path(path).map_err(bpf(format!("opening {}", path.display())))
}

/// Kernels before 5.11 charge maps to RLIMIT_MEMLOCK.
pub(crate) fn raise_memlock_limit() {
    let unlimited = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is to a live local; failure leaves the limit as it was.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &unlimited) };
}
