//! Commands that only look: algs, doctor.

use crate::{algorithm, print};
use anyhow::{Result, bail};
use serde_json::json;
use std::process::ExitCode;
use windlass_agent::{Error, Pinned, check_root};
use windlass_core::{Algorithm, Tunable};
use windlass_scenario::{Tunables, tunable_range, tunable_text};

/// Opens the datapath of an interface that was not named; none: it was released since, or only the next agent can make it whole.
pub fn open_whole(iface: &str) -> Result<Option<Pinned>, Error> {
    match Pinned::open(iface) {
        Ok(pinned) => Ok(Some(pinned)),
        Err(Error::NotPinned(_) | Error::PinnedInPart(_)) => Ok(None),
        Err(why) => Err(why),
    }
}

/// Does `what` with the datapath of one after the other interface that is under an agent's control; there must be one.
pub fn with_controlled(what: &'static str, mut f: impl FnMut(&Pinned) -> Result<()>) -> Result<()> {
    let mut is_none = true;
    let interfaces = controlled(what)?;
    for iface in &interfaces {
        if let Some(pinned) = open_whole(iface)? {
            is_none = false;
            f(&pinned)?;
        }
    }
    if is_none {
        // one of them explains why
        Pinned::open(&interfaces[0])?;
    }
    Ok(())
}

/// Interfaces of this network namespace that are under an agent's control; there must be one. `what` is what is tried.
pub fn controlled(what: &'static str) -> Result<Vec<String>> {
    check_root(what)?;
    let interfaces = windlass_agent::pinned_here();
    if interfaces.is_empty() {
        check_none_elsewhere()?;
        bail!(
            "no interface of this network namespace is under an agent's control; start `windlass agent --policy FILE`"
        );
    }
    Ok(interfaces)
}

/// Refuses to report that nothing is under control where something is that is not seen from here.
pub fn check_none_elsewhere() -> Result<()> {
    if !windlass_agent::pinned_here().is_empty() {
        return Ok(());
    }
    let elsewhere = windlass_agent::attached_elsewhere()?;
    if !elsewhere.is_empty() {
        bail!(
            "no interface of this network namespace is under the control of an agent that is seen from here; \
             `windlass attach`, which shows its flows and counters itself (--json, --sample-ms), or an agent under \
             `ip netns exec` has {}",
            elsewhere.join(", ")
        );
    }
    Ok(())
}

/// All algorithms, or the constants of the one of that name.
pub fn algs(name: Option<&str>, json: bool) -> Result<ExitCode> {
    let one = name.map(algorithm::named).transpose()?;
    if json {
        let list: Vec<_> =
            Algorithm::all().filter(|a| one.is_none_or(|one| one == *a)).map(described).collect();
        println!("{}", json!({ "algorithms": list }));
    } else if let Some(one) = one {
        constants(one);
    } else {
        let rows: Vec<_> = Algorithm::all().map(|a| vec![a.name().into(), a.description().into()]).collect();
        print::table(&["name", "what it does"], &rows);
    }
    Ok(ExitCode::SUCCESS)
}

fn described(algorithm: Algorithm) -> serde_json::Value {
    let constants: Vec<_> = algorithm
        .tunables()
        .iter()
        .map(|t| {
            json!({
                "name": t.name,
                "default": tunable_text(t, t.default),
                "least": tunable_text(t, t.least),
                "most": tunable_text(t, t.most),
                "meaning": t.meaning,
            })
        })
        .collect();
    json!({
        "name": algorithm.name(),
        "id": algorithm.id(),
        "description": algorithm.description(),
        "constants": constants,
    })
}

fn constants(algorithm: Algorithm) {
    let all = algorithm.tunables();
    if all.is_empty() {
        println!("{} has no constants that can be set; those have: {}", algorithm.name(), Tunables::names());
        return;
    }
    let row =
        |t: &Tunable| vec![t.name.into(), tunable_text(t, t.default), tunable_range(t), t.meaning.into()];
    print::table(&["constant", "default", "allowed", "meaning"], &all.iter().map(row).collect::<Vec<_>>());
}

pub fn doctor(json: bool) -> Result<ExitCode> {
    let mut checks = windlass_agent::doctor();
    checks.push(windlass_guest::port::doctor());
    let all_ok = checks.iter().all(|c| c.ok);
    if json {
        println!("{}", json!({ "ok": all_ok, "checks": checks }));
    } else {
        let rows: Vec<Vec<String>> = checks
            .iter()
            .map(|c| {
                let verdict = match (c.ok, c.is_there) {
                    (false, _) => "missing",
                    (true, false) => "optional",
                    (true, true) => "ok",
                };
                vec![verdict.into(), c.name.into(), c.found.clone(), c.cure.into()]
            })
            .collect();
        print::table(&["", "what", "found", "cure"], &rows);
    }
    Ok(if all_ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
