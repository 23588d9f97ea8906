//! Runs that are stopped before their end.

use anyhow::{Result, ensure};
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a run that was stopped has no report, and a flow of it no time.
pub(crate) const STOPPED: &str = "stopped";

pub(crate) fn is_stopped(cancel: Option<&AtomicBool>) -> bool {
    cancel.is_some_and(|c| c.load(Ordering::Relaxed))
}

/// Ends what is not worth going on with once `cancel` is set.
pub(crate) fn check_stopped(cancel: Option<&AtomicBool>) -> Result<()> {
    ensure!(!is_stopped(cancel), STOPPED);
    Ok(())
}
