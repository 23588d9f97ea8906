//! One point of `windlass bench emulator`: rate and delay of a link as most scenarios have it. As root; skipped by name
//! otherwise. What competes for the processors makes packets late, and nothing makes a link better than it is: so what does not
//! hold is measured again, twice at most.

use std::sync::atomic::AtomicBool;
use windlass_experiments::{Settings, bench_emulator};

const ATTEMPTS: usize = 3;

#[test]
fn an_emulated_link_has_its_rate_and_its_delay() {
    if !windlass_lab::netns::is_root() {
        println!("skipped: an_emulated_link_has_its_rate_and_its_delay: needs root");
        return;
    }
    static GOES_ON: AtomicBool = AtomicBool::new(false);
    let out = tempfile::tempdir().expect("a folder");
    let settings = Settings {
        windlass: "no host runs it here".into(),
        quick: false,
        resume: false,
        out: out.path().into(),
        quiet: true,
        at_once: None,
        cancel: &GOES_ON,
    };
    for point in ["rate-20M-40ms", "delay-20M-40ms"] {
        let measure = || bench_emulator(point, &settings).unwrap_or_else(|e| panic!("{e:#}"));
        let mut outcome = measure();
        for _ in 1..ATTEMPTS {
            if outcome.all_hold() {
                break;
            }
            println!("once more, for this machine may have been busy:\n{outcome}");
            outcome = measure();
        }
        assert!(outcome.all_hold(), "{outcome}");
    }
}
