//! Algorithms that are named on the command line.

use anyhow::{Context, Result};
use windlass_core::Algorithm;

/// The algorithm of that name, or an error that lists those there are.
pub fn named(name: &str) -> Result<Algorithm> {
    Algorithm::by_name(name)
        .with_context(|| format!("unknown algorithm '{name}'; known: {}", Algorithm::names()))
}
