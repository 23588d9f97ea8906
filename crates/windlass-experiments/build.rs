//! Finds out what this build is made of.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
};

/// What runs with real kernels do not hang on.
const SIMULATOR: &str = "crates/windlass-sim";

/// All that what a run gives hangs on.
const SOURCES: [&str; 11] = [
    "Cargo.lock",
    "core",
    "bpf",
    "crates/windlass-core",
    "crates/windlass-agent/build.rs",
    "crates/windlass-agent/src",
    "crates/windlass-scenario/src",
    "crates/windlass-sim/src",
    "crates/windlass-lab/src",
    "crates/windlass-experiments/src",
    "crates/windlass/src",
];

fn files(place: PathBuf, found: &mut Vec<PathBuf>) {
    match fs::read_dir(&place) {
        Ok(entries) => entries.for_each(|e| files(e.expect("a readable folder").path(), found)),
        Err(_) => found.push(place),
    }
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for source in SOURCES {
        println!("cargo:rerun-if-changed={}", root.join(source).display());
        files(root.join(source), &mut found);
    }
    found.sort();
    let (mut all, mut of_lab) = (DefaultHasher::new(), DefaultHasher::new());
    for file in found {
        // where the tree stands does not matter
        let name = file.strip_prefix(&root).expect("below the root");
        let text = fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        (name, &text).hash(&mut all);
        if !name.starts_with(SIMULATOR) {
            (name, &text).hash(&mut of_lab);
        }
    }
    println!("cargo:rustc-env=WINDLASS_SOURCES={:016x}", all.finish());
    println!("cargo:rustc-env=WINDLASS_LAB_SOURCES={:016x}", of_lab.finish());
}
