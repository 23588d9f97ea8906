//! What the fuzzers run, and how a find is run again. Each target takes any bytes and panics when a promise of the core
//! or of the protocol of guests is broken.

mod boxed;
mod flow;
mod input;
mod options;
mod turns;
#[cfg(feature = "guests")]
mod wire;

pub use boxed::boxed;
pub use flow::flow;
pub use options::options;
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(feature = "guests")]
pub use wire::wire;

static IS_REPLAY: AtomicBool = AtomicBool::new(false);

/// Is a find run again, so that what happens must be printed?
fn is_replay() -> bool {
    IS_REPLAY.load(Ordering::Relaxed)
}

/// Runs the target on the files named on the command line: to look at what a fuzzer found, without a fuzzer.
pub fn replay(target: fn(&[u8])) {
    IS_REPLAY.store(true, Ordering::Relaxed);
    for path in std::env::args_os().skip(1) {
        let input = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.to_string_lossy()));
        println!("{}: {} bytes", path.to_string_lossy(), input.len());
        target(&input);
    }
}

/// The program of a target: what libFuzzer calls if built for a search (guided.toml), and otherwise one that replays.
#[macro_export]
macro_rules! program {
    ($target:path) => {
        #[cfg(fuzzing)]
        #[unsafe(export_name = "LLVMFuzzerTestOneInput")]
        extern "C" fn run(data: *const u8, len: usize) -> i32 {
            // SAFETY: libFuzzer lends that many bytes until this returns, and never passes a null pointer.
            $target(unsafe { std::slice::from_raw_parts(data, len) });
            0
        }

        #[cfg(not(fuzzing))]
        fn main() {
            $crate::replay($target);
        }
    };
}
