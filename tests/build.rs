//! Compiles what tests need in BPF.

#[path = "../bpf/compile.rs"]
mod bpf;

fn main() {
    bpf::compile("..", &["parity", "tagger"]);
}
