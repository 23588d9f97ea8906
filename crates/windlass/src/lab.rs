//! Commands that make their own traffic: run, reproduce, demo, bench.

use crate::args::{BenchWhat, ReproduceArgs, RunArgs};
use anyhow::{Result, bail};
use std::{path::PathBuf, process::ExitCode};

pub fn run(_args: RunArgs) -> Result<ExitCode> {
    bail!("no lab yet")
}
pub fn reproduce(_args: ReproduceArgs) -> Result<ExitCode> {
    bail!("no lab yet")
}
pub fn demo(_out: PathBuf) -> Result<ExitCode> {
    bail!("no lab yet")
}
pub fn bench(_what: BenchWhat) -> Result<ExitCode> {
    bail!("no lab yet")
}
