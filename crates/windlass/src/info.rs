//! Commands that only look: algs, policy, doctor, man.

use crate::{
    BAD_INPUT,
    args::{Args, PolicyCommand},
    flows::in_words,
    print,
};
use anyhow::{Result, bail};
use clap::CommandFactory;
use serde_json::{Value, json};
use std::{path::Path, process::ExitCode};
use windlass_agent::{Error, Mode, Pinned, Policy, Rule, check_root};
use windlass_core::Algorithm;
use windlass_scenario::printable_path;

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

/// Refuses to take for nothing what is under control and not seen from here.
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

pub fn algs(json: bool) -> Result<ExitCode> {
    if json {
        let list: Vec<_> = Algorithm::all()
            .map(|a| json!({ "name": a.name(), "id": a.id(), "description": a.description() }))
            .collect();
        println!("{}", json!({ "algorithms": list }));
    } else {
        let rows: Vec<_> = Algorithm::all().map(|a| vec![a.name().into(), a.description().into()]).collect();
        print::table(&["name", "what it does"], &rows);
    }
    Ok(ExitCode::SUCCESS)
}

/// What is wrong with a policy: in which line, and what; none: the file cannot be read.
fn mistake(file: &Path, why: Error) -> Value {
    let (line, what) = match why {
        Error::Policy(e) => (Some(e.line), e.what),
        Error::Io { why, .. } => (None, why.to_string()),
        other => (None, other.to_string()),
    };
    json!({ "file": file, "ok": false, "line": line, "what": what })
}

pub fn policy(command: PolicyCommand) -> Result<ExitCode> {
    match command {
        PolicyCommand::Check { file, json: true } => return Ok(check_in_json(&file)),
        PolicyCommand::Check { file, json: false } => {
            let policy = Policy::from_file(&file)?;
            print::line(format_args!(
                "{}: {} rule(s), all understood",
                printable_path(&file),
                policy.rules.len()
            ));
        }
        PolicyCommand::Show { file, json } => {
            let mut policy = Policy::from_file(&file)?;
            // what is not controlled runs none, whatever is in the file
            let runs_none = |rule: &&mut Rule| matches!(rule.mode, Mode::Watch | Mode::Off);
            policy.rules.iter_mut().filter(runs_none).for_each(|rule| rule.algorithms.clear());
            if json {
                println!("{}", serde_json::to_string_pretty(&policy)?);
            } else {
                print_rules(&policy.rules);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check_in_json(file: &Path) -> ExitCode {
    let (document, code) = match Policy::from_file(file) {
        Ok(policy) => (json!({ "file": file, "ok": true, "rules": policy.rules.len() }), ExitCode::SUCCESS),
        Err(why) => (mistake(file, why), ExitCode::from(BAD_INPUT)),
    };
    println!("{document}");
    code
}

/// Algorithms by name, each with its share if there are several.
fn shares(algorithms: &[(String, u32)]) -> String {
    let total: u32 = algorithms.iter().map(|(_, share)| share).sum();
    let in_words = |(name, share): &(String, u32)| match total == *share {
        true => name.clone(),
        false => format!("{name} {:.1}%", f64::from(*share) * 100.0 / f64::from(total)),
    };
    algorithms.iter().map(in_words).collect::<Vec<_>>().join(", ")
}

/// A word for what is not known.
fn or(text: String, word: &str) -> String {
    if text.is_empty() { word.into() } else { text }
}

fn rule_row(rule: &Rule) -> Vec<String> {
    let ports: Vec<String> = rule.server_ports.iter().map(u16::to_string).collect();
    let group = rule.group.as_ref();
    vec![
        rule.name.clone(),
        match (&rule.cgroup, rule.mode) {
            (Some(folder), _) => printable_path(folder).to_string(),
            (None, Mode::Native) => "all sockets".into(),
            (None, _) => rule.iface.clone(),
        },
        rule.client.to_string(),
        rule.server.to_string(),
        or(ports.join(","), "any"),
        or(shares(&rule.algorithms), "-"),
        format!("{:?}", rule.mode).to_lowercase(),
        group.map_or("-".into(), |m| format!("{} ({})", m.group.name, m.group.rule)),
        group.map_or("-".into(), |m| in_words(m.weight.into(), m.per)),
    ]
}

fn print_rules(rules: &[Rule]) {
    let header = [
        "rule",
        "iface or cgroup",
        "client",
        "server",
        "server port",
        "algorithm",
        "mode",
        "group",
        "weight",
    ];
    print::table(&header, &rules.iter().map(rule_row).collect::<Vec<_>>());
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

pub fn man(command: &[String]) -> Result<ExitCode> {
    let mut page = Args::command();
    // gives the commands below their full names
    page.build();
    for word in command {
        let Some(found) = page.find_subcommand(word) else {
            bail!("no command '{}'; `windlass help` lists them", command.join(" "));
        };
        page = found.clone();
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    print!("{}", String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}
