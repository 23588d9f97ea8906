//! One point of `windlass bench emulator`: rate and delay of a link as most scenarios have it. As root; skipped by name
//! otherwise.

mod measured;

use measured::{again_if_busy, settings};
use windlass_experiments::bench_emulator;

#[test]
fn an_emulated_link_has_its_rate_and_its_delay() {
    if !windlass_lab::netns::is_root() {
        println!("skipped: an_emulated_link_has_its_rate_and_its_delay: needs root");
        return;
    }
    let out = tempfile::tempdir().expect("a folder");
    let settings = settings(out.path());
    for point in ["rate-20M-40ms", "delay-20M-40ms"] {
        let measure = || bench_emulator(point, &settings).unwrap_or_else(|e| panic!("{e:#}"));
        let outcome = again_if_busy(measure, |_| true);
        assert!(outcome.all_hold(), "{outcome}");
    }
}
