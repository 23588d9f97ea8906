//! What the tests that span folders share.

pub mod process;
pub mod streams;

use std::{path::PathBuf, process::Command};
pub use windlass_lab::netns::is_root;

/// Whether tests that need root can run; prints which test is skipped if not.
pub fn is_root_or_skip(test: &str) -> bool {
    if !is_root() {
        println!("skipped: {test}: needs root");
    }
    is_root()
}

/// Whether tests go through all that they can: `make test-long` sets WINDLASS_TEST_LONG.
pub fn is_long() -> bool {
    std::env::var_os("WINDLASS_TEST_LONG").is_some()
}

/// The `windlass` binary: WINDLASS_BIN, or the one that cargo built beside this test.
pub fn windlass_path() -> PathBuf {
    if let Some(path) = std::env::var_os("WINDLASS_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("the path of this test");
    let path = test.ancestors().nth(2).expect("target/<profile>/deps/<test>").join("windlass");
    assert!(path.exists(), "{} is missing: `cargo build -p windlass` first", path.display());
    path
}

/// A command that runs `windlass`.
pub fn windlass() -> Command {
    Command::new(windlass_path())
}

/// The calling thread runs on that CPU from now on. Returns whether it may.
pub fn run_on_cpu(cpu: usize) -> bool {
    // SAFETY: plain calls; the set is as long as its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set) == 0
    }
}
