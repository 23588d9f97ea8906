//! How experiments are run.

use anyhow::{Result, ensure};
use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
};

/// How experiments are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `windlass` binary that boxes run.
    pub windlass: PathBuf,
    /// Fewer runs, smaller files.
    pub quick: bool,
    /// Take finished runs from disk.
    pub resume: bool,
    /// Folder for reports.
    pub out: PathBuf,
    /// No progress on standard error.
    pub quiet: bool,
    /// Simulated runs at once; none: as many as there are cores.
    pub at_once: Option<usize>,
    /// Set to stop.
    pub cancel: &'static AtomicBool,
    /// Have agents be the boxes of the testbed, and make this a link to the socket of the newest one for readers.
    pub readers: Option<PathBuf>,
}

impl Settings {
    /// Where the report of an experiment goes. Quick runs have a folder of their own: they do not take the place of hours.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.out.join(if self.quick { format!("{name}-quick") } else { name.to_string() })
    }

    /// Ends what is not made of runs when it is to stop.
    pub fn check_stopped(&self) -> Result<()> {
        ensure!(!self.cancel.load(Ordering::Relaxed), "stopped");
        Ok(())
    }
}
