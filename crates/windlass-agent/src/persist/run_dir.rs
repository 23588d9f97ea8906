//! The folder of what a BPF file system can't keep: locks, and beside each thing pinned its build and names. Like the pins,
//! it is gone after a reboot. It is root's alone, as all that is in it ([`crate::private`]).

use std::path::{Path, PathBuf};

const RUN_DIR: &str = "/run/windlass";

/// The folder itself, which may not exist yet.
pub(crate) fn run_dir() -> &'static Path {
    Path::new(RUN_DIR)
}

/// The file of that name in it.
pub(crate) fn run_file(name: &str) -> PathBuf {
    run_dir().join(name)
}
