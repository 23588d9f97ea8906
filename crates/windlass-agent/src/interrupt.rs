//! What ends a wait before its time: a signal for the process that waits.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// How many requests are not attended to yet. While there are some, what can be done later is done later.
#[derive(Debug, Default)]
pub struct Interrupt(AtomicUsize);

impl Interrupt {
    /// There is one more request.
    pub fn raise(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    /// One of them is being attended to.
    pub fn clear(&self) {
        self.0.fetch_sub(1, SeqCst);
    }

    /// Is there one?
    pub fn is_raised(&self) -> bool {
        self.0.load(SeqCst) != 0
    }
}
