//! Windlass' own congestion control for the kernels of senders: a flow whose algorithm is "wl_bbr" gets it. Names of
//! congestion controls are the same in all namespaces, so each process registers its own, from its first need to its end.

use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Mutex,
};
use windlass_scenario::Scenario;

/// What names in scenarios begin with.
const PREFIX: &str = "wl_";

/// `windlass native load --hold`. It ends when the pipe to it closes, however this process ends.
static HELD: Mutex<Option<Child>> = Mutex::new(None);

/// What names that are really registered begin with.
fn own_prefix() -> String {
    format!("w{:x}_", std::process::id())
}

/// The scenario with the names that are really registered, which they are from now on.
pub fn with_own_names(scenario: &Scenario, windlass: &Path) -> Result<Scenario> {
    let mut named = scenario.clone();
    let mut is_needed = false;
    for flow in &mut named.flows {
        if let Some(algorithm) = flow.algorithm.strip_prefix(PREFIX) {
            flow.algorithm = own_prefix() + algorithm;
            is_needed = true;
        }
    }
    if is_needed {
        let mut held = HELD.lock().expect("no panics while held");
        if held.is_none() {
            *held = Some(hold(windlass)?);
        }
    }
    Ok(named)
}

fn hold(windlass: &Path) -> Result<Child> {
    let mut child = Command::new(windlass)
        .args(["native", "load", "--hold", "--prefix", &own_prefix()])
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
