//! The policy of a box that couples flows.

use anyhow::{Result, bail};
use std::{collections::BTreeMap, fmt::Write as _, io::Write as _, path::Path};
use tempfile::NamedTempFile;
use windlass_scenario::{Group, Mode, Per, Scenario, Windlass};

/// Writes into `folder` the policy under which the box couples the scenario's flows in `group`; `address_of` tells a host's address. A
/// policy tells flows apart by their receivers: those to one host have one weight.
pub fn write(
    scenario: &Scenario,
    w: &Windlass,
    group: &Group,
    folder: &Path,
    address_of: impl Fn(&str) -> String,
) -> Result<NamedTempFile> {
    if w.mode == Mode::Watch {
        bail!("[windlass]: a box that only watches couples nothing; leave out group");
    }
    let mut weights = BTreeMap::new();
    for flow in &scenario.flows {
        let first = *weights.entry(flow.to.as_str()).or_insert(flow.weight);
        if first != flow.weight {
            bail!(
                "flow {} > {}: weight = {}, but {first} of other flows to that host; the testbed tells weights apart by \
                 receivers, so give these flows another one",
                flow.from,
                flow.to,
                flow.weight
            );
        }
    }
    let parameters = toml::Value::try_from(scenario.parameters)?;
    let mut text = String::new();
    for (to, weight) in weights {
        writeln!(
            text,
            "[[rule]]\nname = \"to {to}\"\nmatch = {{ client = \"{}\" }}\nalgorithm = \"{}\"\nparameters = {parameters}\ngroup = {{ {} }}",
            address_of(to),
            w.algorithm,
            keys(group, weight) + &format!(", ack_clock = {}", group.ack_clock)
        )?;
    }
    file_in(folder, &text)
}

/// A policy of that text, in a host's folder: what a killed run leaves there goes with the host.
pub(crate) fn file_in(folder: &Path, text: &str) -> Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("policy-").suffix(".toml").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// What a policy says of the group, whoever keeps it.
pub(crate) fn keys(group: &Group, weight: i64) -> String {
    let per = if group.per == Per::Server { "server" } else { "flow" };
    let mut keys = format!(
        "name = {:?}, rule = {:?}, weight = {weight}, per = \"{per}\", join_adds = {}, idle_grows = {}",
        group.name, group.rule, group.join_adds, group.idle_grows
    );
    if let Some(n) = group.max_members {
        keys += &format!(", max_members = {n}");
    }
    if let Some(idle) = group.idle {
        // a policy counts in whole seconds
        keys += &format!(", idle_s = {}", idle.0.ceil() as u64);
    }
    if let Some(n) = group.aggressiveness {
        keys += &format!(", aggressiveness = {n:?}");
    }
    keys
}
