//! Three links of `windlass bench emulator`: the slowest and longest, one as most scenarios have it, and the fastest and
//! shortest. As root; skipped by name otherwise.

mod measured;

use measured::{again_if_busy, settings};
use windlass_experiments::bench_emulator;

#[test]
#[ignore = "long: `make test-long` runs it"]
fn emulated_links_have_their_rate_and_their_delay() {
    if !windlass_lab::netns::is_root() {
        println!("skipped: emulated_links_have_their_rate_and_their_delay: needs root");
        return;
    }
    let out = tempfile::tempdir().expect("a folder");
    let settings = settings(out.path());
    let links = ["1M-300ms", "20M-40ms", "1000M-1ms"];
    for point in links.iter().flat_map(|link| ["rate", "delay"].map(|what| format!("{what}-{link}"))) {
        let measure = || bench_emulator(&point, &settings).unwrap_or_else(|e| panic!("{e:#}"));
        let outcome = again_if_busy(measure, |_| true);
        assert!(outcome.all_hold(), "{outcome}");
    }
}
