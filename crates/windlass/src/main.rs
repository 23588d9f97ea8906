//! The `windlass` command line.

fn main() {}
