//! Windlass' own congestion control for the kernels of senders: a flow whose algorithm is "wl_bbr" gets it. Names of
//! congestion controls are the same in all namespaces, so each process registers its own, from its first need to its end.

use crate::{own_prefix::own_prefix, parameters};
use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Mutex,
};
use windlass_scenario::{Parameters, Scenario};

/// What names in scenarios begin with.
const PREFIX: &str = "wl_";

/// `windlass native load --hold` for each set of parameters. They end when the pipe to them closes, however this process
/// ends.
static HELD: Mutex<Vec<(Parameters, Child)>> = Mutex::new(Vec::new());

/// What names that are really registered begin with, for this process's `index`-th set of parameters.
fn prefix(index: usize) -> Result<String> {
    let number = u32::try_from(index).ok().filter(|i| *i < 36);
    let number = number.context("more than 36 different [parameters] in one experiment: make it several")?;
    Ok(own_prefix('w', number))
}

/// The scenario with the names that are really registered, which they are from now on.
pub fn with_own_names(scenario: &Scenario, windlass: &Path) -> Result<Scenario> {
    let mut named = scenario.clone();
    if !scenario.flows.iter().any(|f| f.algorithm.starts_with(PREFIX)) {
        return Ok(named);
    }
    let prefix = {
        let mut held = HELD.lock().expect("no panics while held");
        let index = held.iter().position(|(parameters, _)| *parameters == scenario.parameters);
        let index = index.unwrap_or(held.len());
        let prefix = prefix(index)?;
        if index == held.len() {
            held.push((scenario.parameters, hold(windlass, &prefix, &scenario.parameters)?));
        }
        prefix
    };
    for flow in &mut named.flows {
        if let Some(algorithm) = flow.algorithm.strip_prefix(PREFIX) {
            flow.algorithm = format!("{prefix}{algorithm}");
        }
    }
    Ok(named)
}

fn hold(windlass: &Path, prefix: &str, parameters: &Parameters) -> Result<Child> {
    let mut child = Command::new(windlass)
        .args(["native", "load", "--hold", "--prefix", prefix])
        .args(parameters::arguments(parameters))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| windlass.display().to_string())?;
    let mut line = String::new();
    if let Some(out) = child.stdout.as_mut() {
        BufReader::new(out).read_line(&mut line)?;
    }
    if !line.starts_with("loaded") {
        let mut said = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            stderr.read_to_string(&mut said)?;
        }
        // it has ended, or its output would not have
        child.wait()?;
        bail!("`windlass native load` did not start: {}", said.trim());
    }
    Ok(child)
}
