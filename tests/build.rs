//! Compiles what tests need in BPF, and what of BPF they need natively.

#[path = "../bpf/compile.rs"]
mod bpf;

use std::{
    env,
    path::{Path, PathBuf},
};

fn main() {
    bpf::compile("..", &["parity", "parity_flow", "tagger", "transparent"]);
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo"));
    // as a build would be that somebody has worked on: other code, and the same state
    let words = ["-DWL_GROUP_LOCK_TRIES=1024u"];
    bpf::compile_to(&out.join("another.bpf.o"), Path::new(".."), "transparent", &words);
    // for the one test that is linked with it
    cc::Build::new()
        .file("races/group.c")
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .flag_if_supported("-Wno-unused-function")
        .cargo_metadata(false)
        .compile("races");
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rerun-if-changed=races/group.c");
}
