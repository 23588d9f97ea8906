//! `windlass policy`: what a policy's file has, and what another one would change.

mod diff;

use crate::{BAD_INPUT, args::PolicyCommand, flows::in_words, print};
use anyhow::Result;
use serde_json::{Value, json};
use std::{path::Path, process::ExitCode};
use windlass_agent::{Error, Mode, Policy, PolicyWarning, Rule};
use windlass_scenario::printable_path;

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
            let (policy, warnings) = Policy::from_file_with_warnings(&file)?;
            let (path, rules) = (printable_path(&file), policy.rules.len());
            print::line(format_args!("{path}: {rules} rule(s), all understood"));
            print_warnings(&file, &warnings);
        }
        PolicyCommand::Diff { old, new, json } => return diff::diff(&old, &new, json),
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

/// Prints them, each as the line of the file that it is about.
pub fn print_warnings(file: &Path, warnings: &[PolicyWarning]) {
    for PolicyWarning { line, rule, what } in warnings {
        print::line(format_args!("{}:{line}: warning: rule \"{rule}\": {what}", printable_path(file)));
    }
}

fn check_in_json(file: &Path) -> ExitCode {
    let (document, code) = match Policy::from_file_with_warnings(file) {
        Ok((policy, warnings)) => (
            json!({ "file": file, "ok": true, "rules": policy.rules.len(), "warnings": warnings }),
            ExitCode::SUCCESS,
        ),
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
