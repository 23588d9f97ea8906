//! What is measured on a machine that may be busy. What competes for its processors makes packets late, and nothing makes them
//! better than they can be: so what does not hold for that reason is measured again.

use std::{path::Path, sync::atomic::AtomicBool};
use windlass_experiments::{Outcome, Settings};

/// How often that is measured.
const ATTEMPTS: usize = 3;

/// For runs in this process, with their reports in the folder `out`.
pub fn settings(out: &Path) -> Settings {
    static GOES_ON: AtomicBool = AtomicBool::new(false);
    Settings {
        windlass: "no host runs it here".into(),
        quick: false,
        resume: false,
        out: out.into(),
        quiet: true,
        at_once: None,
        cancel: &GOES_ON,
        readers: None,
    }
}

/// Measures, and where something does not hold and that `may_be_held_up`, again, twice at most. Returns the last outcome.
pub fn again_if_busy(measure: impl Fn() -> Outcome, may_be_held_up: impl Fn(&Outcome) -> bool) -> Outcome {
    let mut outcome = measure();
    for _ in 1..ATTEMPTS {
        if outcome.all_hold() || !may_be_held_up(&outcome) {
            break;
        }
        println!("once more, for this machine may have been busy:\n{outcome}");
        outcome = measure();
    }
    outcome
}
