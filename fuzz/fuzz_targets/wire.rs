//! `make fuzz` searches; `cargo run -p windlass-fuzz --bin wire -- FILE...` runs what was found again.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| windlass_fuzz::wire(data));

#[cfg(not(fuzzing))]
fn main() {
    windlass_fuzz::replay(windlass_fuzz::wire);
}
