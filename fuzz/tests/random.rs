//! The fuzz targets on random input, the same at every run: a short walk for every machine, made small when it finds
//! something. guided.rs follows coverage. What a walk found is kept in proptest-regressions.

use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, RngSeed},
};

/// Part of the cases, for `make test`: what is common is met early, and guided.rs goes on from there.
const SHORT: u32 = 8;

/// Other walks: PROPTEST_RNG_SEED=n, and longer ones: PROPTEST_CASES=n. `make test-long` sets WINDLASS_TEST_LONG.
fn config(cases: u32) -> Config {
    let default = Config::default();
    let is_chosen = |name: &str| std::env::var_os(name).is_some();
    let cases = if is_chosen("WINDLASS_TEST_LONG") { cases } else { cases / SHORT };
    Config {
        cases: if is_chosen("PROPTEST_CASES") { default.cases } else { cases },
        rng_seed: if is_chosen("PROPTEST_RNG_SEED") { default.rng_seed } else { RngSeed::Fixed(1) },
        max_shrink_iters: 20_000,
        ..default
    }
}

/// Bytes of which options are made, among any others.
fn option_byte() -> impl Strategy<Value = u8> {
    prop_oneof![4 => 0..=10u8, 1 => prop::sample::select(vec![12, 18, 19, 26, 29, 30, 34, 40]), 1 => any::<u8>()]
}

/// Timestamps and blocks, as nearly every report of a loss has them, with a wrong length, a byte or two changed, or more or
/// less behind them.
fn nearly_usual_options() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![4 => prop::sample::select(vec![2, 10, 18, 26]), 1 => any::<u8>()];
    let bytes = prop_oneof![4 => Just(None), 1 => (0..=40usize).prop_map(Some)];
    let changed = vec((0..40usize, option_byte()), 0..=2);
    (vec(any::<u8>(), 40), len, bytes, changed).prop_map(|(mut input, len, bytes, changed)| {
        input[..4].copy_from_slice(&[1, 1, 8, 10]);
        input[12..16].copy_from_slice(&[1, 1, 5, len]);
        for (at, byte) in changed {
            input[at] = byte;
        }
        input.truncate(bytes.unwrap_or(14 + usize::from(len)));
        input
    })
}

proptest! {
    #![proptest_config(config(80_000))]

    #[test]
    fn any_options_are_read_as_they_should(input in vec(option_byte(), 0..=40)) {
        windlass_fuzz::options(&input);
    }

    #[test]
    fn options_that_nearly_are_the_usual_ones_are_read_as_they_should(input in nearly_usual_options()) {
        windlass_fuzz::options(&input);
    }
}

proptest! {
    #![proptest_config(config(20_000))]

    #[test]
    fn any_order_of_events_leaves_the_flow_sound(input in vec(any::<u8>(), 0..2000)) {
        windlass_fuzz::flow(&input);
    }

    #[test]
    fn any_order_of_segments_and_ticks_leaves_the_box_sound(input in vec(any::<u8>(), 0..2000)) {
        windlass_fuzz::boxed(&input);
    }
}

/// Bytes among which there are frames: their beginnings, and what may follow.
fn wire_bytes() -> impl Strategy<Value = Vec<u8>> {
    let begin = (1..=6u8, 0..=3u16).prop_map(|(kind, entries)| {
        let mut bytes = b"WLGC\x01".to_vec();
        bytes.push(kind);
        bytes.extend(entries.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes
    });
    let small = vec(prop_oneof![3 => 0..=3u8, 1 => any::<u8>()], 0..150);
    vec(prop_oneof![begin, small], 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(config(5_000))]

    #[test]
    fn any_bytes_at_a_port_leave_both_ends_sound(input in wire_bytes()) {
        windlass_fuzz::wire(&input);
    }
}
