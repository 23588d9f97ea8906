//! `make fuzz` searches; `cargo run -p windlass-fuzz --bin options -- FILE...` runs what was found again.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| windlass_fuzz::options(data));

#[cfg(not(fuzzing))]
fn main() {
    windlass_fuzz::replay(windlass_fuzz::options);
}
