//! Algorithms that are named on the command line.

use crate::args::AttachArgs;
use anyhow::{Context, Result, bail};
use windlass_core::Algorithm;

/// The algorithm of that name, or an error that lists those there are.
pub fn named(name: &str) -> Result<Algorithm> {
    Algorithm::by_name(name)
        .with_context(|| format!("unknown algorithm '{name}'; known: {}", Algorithm::names()))
}

/// The algorithm that is asked for, if that and the ports are sound.
pub fn asked_for(args: &AttachArgs) -> Result<Algorithm> {
    let algorithm = named(&args.alg)?;
    if args.port.len() > 8 {
        bail!("--port takes at most 8 ports; write a policy with several rules instead");
    }
    Ok(algorithm)
}
