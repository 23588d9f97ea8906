//! How many turns the box has had in a search: segments of either end, and visits of the clock.

use std::sync::atomic::{AtomicU64, Ordering};

static TURNS: AtomicU64 = AtomicU64::new(0);
/// Printed at each so many, as a search that is ended by a signal prints nothing more.
const TURNS_PER_LINE: u64 = 10_000_000;

/// The box has one more turn. A search prints their number now and then, and at its end.
pub(crate) fn note() {
    let turns = TURNS.fetch_add(1, Ordering::Relaxed) + 1;
    if !cfg!(fuzzing) {
        return;
    }
    if turns == 1 {
        // SAFETY: the function may be called at any time, and reads nothing but a static.
        unsafe { libc::atexit(print) };
    }
    if turns.is_multiple_of(TURNS_PER_LINE) {
        print();
    }
}

extern "C" fn print() {
    eprintln!("boxed: {} turns of the box", TURNS.load(Ordering::Relaxed));
}
