//! Work without the interpreter's lock, which Ctrl-C ends.

use pyo3::prelude::*;
use std::{
    panic,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// How often Python looks for signals meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Has a thread of its own do the work, without the interpreter's lock. A signal whose handler raises an exception sets the flag,
/// on which the work is to come to its end, and is the error then.
pub fn interruptible<T: Send>(
    py: Python,
    cancel: &AtomicBool,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    py.detach(|| {
        thread::scope(|scope| {
            let (working, is_done) = mpsc::channel::<()>();
            let worker = scope.spawn(move || {
                let _working = working;
                work()
            });
            let mut interrupted = None;
            while is_done.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if interrupted.is_none() {
                    interrupted = Python::attach(|py| py.check_signals()).err();
                    cancel.store(interrupted.is_some(), Ordering::Relaxed);
                }
            }
            let result = worker.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
            interrupted.map_or(Ok(result), Err)
        })
    })
}
