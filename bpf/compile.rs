//! How build scripts compile a file of this folder; they include it with `#[path]`.

use std::{env, fs, path::PathBuf, process::Command};

/// Newest first, as Debian names them.
const CLANGS: [&str; 6] = ["clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang"];

/// Compiles `NAME.bpf.c` for each name to `OUT_DIR/NAME.bpf.o`. `root`: the workspace's, from the package.
pub fn compile(root: &str, names: &[&str]) {
    let root = fs::canonicalize(root).expect("the workspace's root");
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo"));
    let clang = CLANGS
        .into_iter()
        .find(|c| Command::new(c).arg("--version").output().is_ok())
        .expect("clang 15 or newer to compile BPF (Debian: apt-get install clang-19)");
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("set by cargo");
    for name in names {
        libbpf_cargo::SkeletonBuilder::new()
            .source(root.join(format!("bpf/{name}.bpf.c")))
            .obj(out.join(format!("{name}.bpf.o")))
            .clang(clang)
            .clang_args(["-Wall", "-Werror", "-mcpu=v3", "-I", &format!("/usr/include/{arch}-linux-gnu")])
            .build()
            .unwrap_or_else(|e| panic!("bpf/{name}.bpf.c compiles: {e:#}"));
    }
    for dir in ["bpf", "core"] {
        println!("cargo:rerun-if-changed={}", root.join(dir).display());
    }
}
