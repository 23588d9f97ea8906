//! Compiles the transparent datapath, the native home (that in a guest too), its selector and the list of programs to BPF; and writes
//! down what the datapath's state looks like.

#[path = "../../bpf/compile.rs"]
mod bpf;
#[path = "../../bpf/state/state.rs"]
mod state;

use std::{env, fs, path::PathBuf};

fn main() {
    bpf::compile("../..", &["transparent", "native", "guest", "select", "names", "state/state"]);
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo"));
    let text = state::describe(&out.join("state.bpf.o"));
    fs::write(out.join("state.txt"), text).expect("a writable folder");
}
