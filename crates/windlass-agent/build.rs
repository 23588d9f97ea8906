//! Compiles the transparent datapath and the native home, that in a guest too, and its selector to BPF.

#[path = "../../bpf/compile.rs"]
mod bpf;

fn main() {
    bpf::compile("../..", &["transparent", "native", "guest", "select"]);
}
