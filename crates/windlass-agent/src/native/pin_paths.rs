//! Where the native home's algorithms are pinned, a folder for each prefix, and what is noted beside under /run.

use super::image::build_id;
use crate::persist::{
    bpffs,
    run_dir::{run_dir, run_file},
    run_file::read_record,
};
use std::{fs, path::PathBuf};

/// Maps that sockets in groups need: their names in the object, and what they are pinned as.
pub(crate) const COUPLING_MAPS: [(&str, &str); 4] = [
    ("wl_wishes", "wishes"),
    ("wl_terms", "terms"),
    ("wl_groups", "groups"),
    ("wl_coupled_stats", "coupled"),
];

pub(super) fn native_dir() -> PathBuf {
    bpffs::root().join("native")
}

/// Folder of the algorithms under `prefix`.
pub(crate) fn dir(prefix: &str) -> PathBuf {
    native_dir().join(prefix)
}

pub(super) fn record(prefix: &str) -> PathBuf {
    run_file(&format!("native-{prefix}"))
}

/// Where names of groups are noted: the kernel knows only numbers.
pub(crate) fn group_names(prefix: &str) -> PathBuf {
    run_file(&format!("native-{prefix}:groups"))
}

/// The kernel lists no more than fits into its buffer (TCP_CA_BUF_MAX), of which a name takes this and a space at most.
const LISTED_BYTES: usize = 2048 - 16;

/// Removes what processes that were killed have noted: no algorithm begins with their prefix any more.
pub(crate) fn forget_names_of_killed() {
    // before the kernel is queried: what is noted already is of algorithms that were registered before
    let noted: Vec<_> = fs::read_dir(run_dir()).into_iter().flatten().flatten().collect();
    let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let Some(registered) = list.ok().filter(|list| list.len() < LISTED_BYTES) else { return };
    for entry in noted {
        let name = entry.file_name();
        let prefix =
            name.to_str().and_then(|n| n.strip_prefix("native-")).and_then(|n| n.strip_suffix(":groups"));
        if prefix.is_some_and(|p| !registered.split_whitespace().any(|r| r.starts_with(p))) {
            // what is left does no harm
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Are algorithms pinned under `prefix`?
pub fn is_loaded(prefix: &str) -> bool {
    dir(prefix).is_dir()
}

/// Are they of this build?
pub(crate) fn is_current(prefix: &str) -> bool {
    read_record(&record(prefix)) == Some(build_id())
}

/// What names of pinned algorithms begin with.
pub fn prefixes() -> Vec<String> {
    let entries = fs::read_dir(native_dir()).into_iter().flatten().flatten();
    let mut all: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    all.sort();
    all
}
