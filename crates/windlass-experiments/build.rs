//! Finds out what this build is made of.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
};

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
    let mut hasher = DefaultHasher::new();
    for file in found {
        // where the tree stands does not matter
        file.strip_prefix(&root).expect("below the root").hash(&mut hasher);
        fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display())).hash(&mut hasher);
    }
    println!("cargo:rustc-env=WINDLASS_SOURCES={:016x}", hasher.finish());
}
