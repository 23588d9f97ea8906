//! The native home: every algorithm as a congestion control of this kernel, `<prefix><name>`, by default `wl_bbr` and so
//! on, for any socket to choose.
//!
//! Pinned under /sys/fs/bpf/windlass/native/<prefix>/, one link per algorithm, they outlive the process that loaded
//! them. A socket keeps its algorithm's programs alive; so that unloading ends, sockets are switched to the kernel's own.

mod image;
mod loaded;
mod name;
mod orphans;
pub(crate) mod pin_paths;

use crate::{
    Error, PinnedSelector, Result,
    error::{bpf, io_error},
    map_value::u64_at,
    object::{pinned_map, pinned_map_if_any},
    persist::{
        bpffs,
        lock::Lock,
        run_file::{read_record, remove_first},
    },
};
use libbpf_rs::{Link, MapCore, MapFlags};
pub use loaded::Native;
pub(crate) use loaded::try_load;
use loaded::{check_may_load, features, retire};
pub(crate) use name::NAME_MOST;
pub use name::{DEFAULT_PREFIX, check_prefix};
use pin_paths::{dir, group_names, is_current, native_dir, record};
pub use pin_paths::{is_loaded, prefixes};
use serde::Serialize;
use std::{
    fs,
    mem::offset_of,
    path::{Path, PathBuf},
};
use windlass_core::{Algorithm, abi::wl_native_stats};

/// An algorithm that is registered, or was and is still in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NativeInfo {
    /// What to write where the kernel wants a congestion control.
    pub name: String,
    /// The algorithm behind it.
    pub algorithm: &'static str,
    /// Sockets that use it now.
    pub sockets: u64,
    /// Sockets that ever used it.
    pub started: u64,
    /// Sockets that went over to the kernel's own algorithm.
    pub handed_back: u64,
}

/// Registers and pins all algorithms under `prefix`, unless they are there already. Returns whether they were not.
pub fn ensure_loaded(prefix: &str) -> Result<bool> {
    check_may_load(prefix)?;
    let _lock = Lock::take("native")?;
    if is_loaded(prefix) && read_record(&record(prefix)).is_none() {
        // the process that pinned them was killed meanwhile; selectors leave their wishes with the algorithms that
        // they were made for
        release_all(prefix, &mut Vec::new())?;
        unload(prefix)?;
    }
    if !is_loaded(prefix) {
        Native::load(prefix)?.pin()?;
        return Ok(true);
    }
    if is_current(prefix) { Ok(false) } else { Err(Error::OtherNative(prefix.to_string())) }
}

/// Before Linux 6.4: unregisters what processes that were killed have left registered under `prefix`. For commands that then give
/// up the capability which this takes ([`confine`](crate::confine())); what cannot be unregistered keeps its name.
pub fn release_orphans(prefix: &str) {
    if features().is_none_or(|f| f.has_links) || is_loaded(prefix) {
        return;
    }
    for algorithm in Algorithm::all() {
        let _ = orphans::unregister(&format!("{prefix}{}", algorithm.name()));
    }
}

/// Are algorithms pinned under `prefix`, now that no process is just loading or unloading some?
pub fn is_still_loaded(prefix: &str) -> bool {
    // a lock that cannot be had does not prevent looking
    let _lock = Lock::take("native");
    is_loaded(prefix)
}

/// All pinned algorithms, by prefix. Not those that a process is just pinning or removing, or was killed at: they are not whole.
pub fn list() -> Result<Vec<NativeInfo>> {
    let mut all = Vec::new();
    for prefix in prefixes() {
        all.extend(list_prefix(&prefix)?);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn list_prefix(prefix: &str) -> Result<Vec<NativeInfo>> {
    let dir = dir(prefix);
    let Some(stats) = pinned_map_if_any(&dir.join("stats"))? else { return Ok(Vec::new()) };
    Algorithm::all()
        .filter(|a| dir.join(a.name()).exists())
        .map(|algorithm| {
            let value = stats
                .lookup(&algorithm.id().to_ne_bytes(), MapFlags::ANY)
                .map_err(bpf("reading the algorithms' statistics"))?
                .unwrap_or_default();
            let number = |at: usize| u64_at(&value, at);
            let started = number(offset_of!(wl_native_stats, started));
            let ended = number(offset_of!(wl_native_stats, ended));
            let handed_back = number(offset_of!(wl_native_stats, handed_back));
            let name = format!("{prefix}{}", algorithm.name());
            let sockets = started.saturating_sub(ended);
            Ok(NativeInfo { name, algorithm: algorithm.name(), sockets, started, handed_back })
        })
        .collect()
}

/// Unregisters what is pinned under `prefix`, unless a selector chooses it for the sockets of a cgroup.
pub fn unload_unused(prefix: &str) -> Result<()> {
    let _lock = Lock::take("native")?;
    let is_in_use = PinnedSelector::all().iter().any(|s| s.prefix() == prefix);
    if is_in_use || !is_loaded(prefix) { Ok(()) } else { unload(prefix).map(drop) }
}

/// Releases the cgroups for whose sockets something under `prefix` is chosen, and unregisters it. Sockets that use it go over to
/// the kernel's own algorithm when they next send or are acknowledged. Agents see both or nothing
/// ([`Coupling::is_still_in_force`]). Returns the cgroups that are released, whatever came after that, and what was unregistered.
pub fn release_and_unload(prefix: &str) -> (Vec<PathBuf>, Result<Vec<NativeInfo>>) {
    let mut released = Vec::new();
    let mut unload = || {
        let _lock = Lock::take("native")?;
        release_all(prefix, &mut released)?;
        unload(prefix)
    };
    let unloaded = unload();
    (released, unloaded)
}

/// Releases the cgroups for whose sockets something under `prefix` is chosen, and adds them to `released`.
fn release_all(prefix: &str, released: &mut Vec<PathBuf>) -> Result<()> {
    for selector in PinnedSelector::all().into_iter().filter(|s| s.prefix() == prefix) {
        let cgroup = selector.cgroup().to_path_buf();
        selector.remove()?;
        released.push(cgroup);
    }
    Ok(())
}

/// Unregisters what is pinned under `prefix`, with the lock held. Returns what that was.
fn unload(prefix: &str) -> Result<Vec<NativeInfo>> {
    check_prefix(prefix)?;
    if !is_loaded(prefix) {
        return Err(Error::NativeNotLoaded(prefix.to_string()));
    }
    let dir = dir(prefix);
    let had = list_prefix(prefix).unwrap_or_default();
    remove_first(&record(prefix));
    let has_links = features().is_none_or(|f| f.has_links);
    for algorithm in Algorithm::all().map(|a| dir.join(a.name())).filter(|p| p.exists()) {
        unregister(&algorithm, has_links)?;
    }
    // after no new socket can choose them
    if let Ok(map) = pinned_map(&dir.join("retired")) {
        retire(&map)?;
    }
    bpffs::remove_dir(&dir)?;
    // unless another prefix is loaded
    let _ = fs::remove_dir(native_dir());
    let _ = fs::remove_file(group_names(prefix));
    Ok(had)
}

fn unregister(pin: &Path, has_links: bool) -> Result<()> {
    if has_links {
        // at once; without its pin, or where links cannot be detached (before Linux 6.9), it ends when the kernel comes to it
        let _ = Link::open(pin).and_then(|link| link.detach());
    } else {
        // the pin is of the map; deleting its value unregisters
        let map = pinned_map(pin)?;
        map.delete(&0u32.to_ne_bytes()).map_err(bpf(format!("unregistering {}", pin.display())))?;
    }
    fs::remove_file(pin).map_err(io_error(pin))
}
