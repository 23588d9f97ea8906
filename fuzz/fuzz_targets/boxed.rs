//! `make fuzz` searches; `cargo run -p windlass-fuzz --bin boxed -- FILE...` runs what was found again.

#![cfg_attr(fuzzing, no_main)]

windlass_fuzz::program!(windlass_fuzz::boxed);
