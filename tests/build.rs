//! Compiles what tests need in BPF, and what of BPF they need natively.

#[path = "../bpf/compile.rs"]
mod bpf;

fn main() {
    bpf::compile("..", &["parity", "parity_flow", "tagger"]);
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
    println!("cargo:rustc-link-search=native={}", std::env::var("OUT_DIR").expect("set by cargo"));
    println!("cargo:rerun-if-changed=races/group.c");
}
