//! Compiles the C core natively and generates Rust types from its headers.

mod libclang;

use std::{env, path::PathBuf};

/// Files of functions for Rust, in native/.
const NATIVE: [&str; 7] = ["algorithm", "arithmetic", "box", "counter", "flow", "group", "share"];

/// Debug builds trap on undefined behaviour, where the kernel's build does something else. Under a fuzzer (fuzz/guided.toml)
/// the C code guides the search as the Rust code does, and no access leaves its object. For tests/coverage.sh it counts which of its
/// lines run.
fn add_sanitizers(build: &mut cc::Build) {
    let is_fuzzing = env::var_os("CARGO_CFG_FUZZING").is_some();
    if is_fuzzing {
        build.compiler("clang-19").flag("-fsanitize=fuzzer-no-link,address");
    }
    if env::var_os("CARGO_CFG_COVERAGE").is_some() {
        build.compiler("clang-19").flag("-fprofile-instr-generate").flag("-fcoverage-mapping");
    }
    if is_fuzzing || env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        build.flag("-fsanitize=undefined").flag("-fsanitize-undefined-trap-on-error");
    }
}

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../..");
    let core = root.join("core").canonicalize().expect("core/ stands beside crates/");
    println!("cargo:rerun-if-changed={}", core.display());
    println!("cargo:rerun-if-changed=native");
    println!("cargo:include={}", core.display());

    let mut build = cc::Build::new();
    add_sanitizers(&mut build);
    build
        .files(NATIVE.map(|name| format!("native/{name}.c")))
        .include(&core)
        .std("c11")
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true)
        .flag_if_supported("-Wno-unused-function")
        .compile("windlass_core");

    libclang::find();
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo"));
    bindgen::Builder::default()
        .header("native/abi.h")
        .clang_arg(format!("-I{}", core.display()))
        .clang_arg("-Wno-undefined-internal")
        .allowlist_type("wl_.*")
        .allowlist_var("WL_.*")
        .allowlist_function("wln_.*")
        .no_partialeq("wl_home")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_debug(true)
        .derive_eq(true)
        .generate_comments(false)
        .layout_tests(false)
        .generate()
        .expect("types from core/*.h (Debian: apt-get install libclang1-19)")
        .write_to_file(out.join("abi.rs"))
        .expect("OUT_DIR is writable");
}
