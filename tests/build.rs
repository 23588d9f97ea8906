//! Compiles what tests need in BPF, and what of BPF they need natively.

#[path = "../bpf/compile.rs"]
mod bpf;
#[path = "../crates/windlass-core/libclang.rs"]
mod libclang;

use bindgen::callbacks::{DeriveTrait, ImplementsTrait, ParseCallbacks};
use std::{
    env,
    path::{Path, PathBuf},
};

/// What the core declares is windlass-core's to generate.
#[derive(Debug)]
struct TypesOfCore;

impl ParseCallbacks for TypesOfCore {
    fn blocklisted_type_implements_trait(&self, _name: &str, _which: DeriveTrait) -> Option<ImplementsTrait> {
        Some(ImplementsTrait::Yes)
    }
}

/// Generates the parity tests' vectors and calls; the types in them are windlass-core's.
fn generate_vectors(out: &Path) {
    libclang::find();
    bindgen::Builder::default()
        .header("../bpf/tests/parity.h")
        .header("../bpf/tests/parity_flow.h")
        .clang_arg("-Wno-undefined-internal")
        .allowlist_type("wl_parity.*")
        .allowlist_var("WL_PARITY.*")
        .allowlist_recursively(false)
        .parse_callbacks(Box::new(TypesOfCore))
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .derive_default(true)
        .derive_eq(true)
        .generate_comments(false)
        .layout_tests(false)
        .generate()
        .expect("types from bpf/tests/parity*.h (Debian: apt-get install libclang1-19)")
        .write_to_file(out.join("parity.rs"))
        .expect("OUT_DIR is writable");
}

fn main() {
    bpf::compile("..", &["tests/parity", "tests/parity_flow", "tests/tagger"]);
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo"));
    generate_vectors(&out);
    // as a changed build would be: other code, and the same state
    let words = ["-DWL_FLOW_GROUP_TRIES=1024u"];
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
