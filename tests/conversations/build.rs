//! Compiles the datapath with a clock that stands still until a test moves it.

#[path = "../../bpf/compile.rs"]
#[allow(dead_code, reason = "only one of its two functions is needed here")]
mod bpf;

use std::{
    env,
    path::{Path, PathBuf},
};

fn main() {
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo"));
    let clock = env::current_dir().expect("the package's folder").join("set_clock.h");
    let words = ["-include", clock.to_str().expect("a path in UTF-8")];
    bpf::compile_to(&out.join("set_clock.bpf.o"), Path::new("../.."), "transparent", &words);
    for path in ["../../bpf", "../../core", "set_clock.h"] {
        println!("cargo:rerun-if-changed={path}");
    }
}
