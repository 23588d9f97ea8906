//! How build scripts, and tests that want other builds, compile a file of this folder and those in it; they include this one with
//! `#[path]`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Newest first, as Debian names them.
const CLANGS: [&str; 6] = ["clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang"];

/// Compiles `bpf/NAME.bpf.c` for each name, which may begin with a folder, to a file of its last part in `OUT_DIR`. `root`: the
/// workspace's, from the package.
pub fn compile(root: &str, names: &[&str]) {
    let root = fs::canonicalize(root).expect("the workspace's root");
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo"));
    for name in names {
        let file = name.rsplit('/').next().expect("at least one part");
        compile_to(&out.join(format!("{file}.bpf.o")), &root, name, &[]);
    }
    for dir in ["bpf", "core"] {
        println!("cargo:rerun-if-changed={}", root.join(dir).display());
    }
}

/// Compiles `bpf/NAME.bpf.c` of the workspace at `root` to the file `object`, with further words for the compiler.
pub fn compile_to(object: &Path, root: &Path, name: &str, words: &[&str]) {
    let clang = CLANGS
        .into_iter()
        .find(|c| Command::new(c).arg("--version").output().is_ok())
        .expect("clang 15 or newer to compile BPF (Debian: apt-get install clang-19)");
    // tests run where they were compiled
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_else(|_| env::consts::ARCH.into());
    let include = format!("/usr/include/{arch}-linux-gnu");
    libbpf_cargo::SkeletonBuilder::new()
        .source(root.join(format!("bpf/{name}.bpf.c")))
        .obj(object)
        .clang(clang)
        .clang_args([&["-Wall", "-Werror", "-mcpu=v3", "-I", &include], words].concat())
        .build()
        .unwrap_or_else(|e| panic!("bpf/{name}.bpf.c compiles: {e:#}"));
}
