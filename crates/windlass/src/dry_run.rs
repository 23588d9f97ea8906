//! `windlass agent --dry-run`: what an agent of this policy would do here.

use crate::{
    args::AgentArgs,
    control::{is_uplink, options},
    info::open_whole,
    policy::print_warnings,
    print,
};
use anyhow::Result;
use serde::Serialize;
use std::{path::Path, process::ExitCode};
use windlass_agent::{
    Error, Options, Policy, PolicyWarning, attached_elsewhere, default_uplinks, ethernet_index, is_root,
    pinned_here,
};
use windlass_scenario::printable_path;

/// What becomes of an interface or a cgroup that is there.
#[derive(Debug, Serialize)]
struct Step {
    /// Its name or folder.
    #[serde(rename = "where")]
    place: String,
    /// `attach`, `take over`, `leave`, `refuse`, or for a cgroup `choose` and `wait`.
    does: &'static str,
    /// Names of its rules, in their order.
    rules: Vec<String>,
    /// What is to be known of it; none: nothing.
    why: Option<String>,
}

#[derive(Debug, Serialize)]
struct Plan {
    interfaces: Vec<Step>,
    cgroups: Vec<Step>,
    warnings: Vec<PolicyWarning>,
    /// What is under control already is known, which only root can see.
    is_complete: bool,
}

/// Prints it, and changes nothing. What would be refused is an answer, too.
pub fn dry_run(args: &AgentArgs) -> Result<ExitCode> {
    let (policy, warnings) = Policy::from_file_with_warnings(&args.policy)?;
    let options = Options { shares_groups: true, ..options(&args.sizes)? };
    let plan = Plan {
        interfaces: interfaces(&policy, &options)?,
        cgroups: policy.cgroups().into_iter().map(|cgroup| of_cgroup(&policy, cgroup)).collect(),
        warnings,
        is_complete: is_root(),
    };
    if args.json {
        println!("{}", serde_json::to_string(&plan)?);
    } else {
        plan.print(&args.policy);
    }
    Ok(ExitCode::SUCCESS)
}

fn interfaces(policy: &Policy, options: &Options) -> Result<Vec<Step>> {
    let elsewhere = if is_root() { attached_elsewhere()? } else { Vec::new() };
    let uplinks = default_uplinks();
    let mut all = Vec::new();
    for iface in policy.interfaces() {
        let (does, why) = match ethernet_index(&iface) {
            // a policy of all interfaces is of those that carry what could be controlled
            Err(Error::NotEthernet(_)) if !policy.names_iface(&iface) => continue,
            Err(why) => ("refuse", Some(why.to_string())),
            Ok(_) if elsewhere.contains(&iface) => (
                "refuse",
                Some("under control of a process that is not seen from here, as `windlass attach`".into()),
            ),
            Ok(_) => of_pinned(&iface, options),
        };
        let is_wrong_side = does == "attach" && uplinks.contains(&iface);
        let why = why.or_else(|| is_wrong_side.then(|| is_uplink(&iface)));
        let rules = policy.rules_of_iface(&iface).iter().map(|rule| rule.name.clone()).collect();
        all.push(Step { place: iface, does, rules, why });
    }
    let others = pinned_here().into_iter().filter(|iface| is_root() && !policy.is_of_iface(iface));
    all.extend(others.map(|place| {
        let why = Some("under control already, and no rule names it: it stays as it is".into());
        Step { place, does: "leave", rules: Vec::new(), why }
    }));
    Ok(all)
}

/// What becomes of one that is under control already; otherwise it is attached to.
fn of_pinned(iface: &str, options: &Options) -> (&'static str, Option<String>) {
    if !is_root() {
        return ("attach", None);
    }
    let pinned = match open_whole(iface) {
        Ok(Some(pinned)) if pinned.is_alive() => pinned,
        Ok(_) => return ("attach", None),
        Err(why) => return ("refuse", Some(why.to_string())),
    };
    match pinned.agent() {
        Err(why) => ("refuse", Some(why.to_string())),
        Ok(Some(agent)) => {
            ("refuse", Some(format!("under control of another agent ({agent}), until that ends")))
        }
        Ok(None) => {
            let kept = pinned.other_options(options).unwrap_or_default();
            ("take over", (!kept.is_empty()).then(|| format!("keeps {}", kept.join(" "))))
        }
    }
}

fn of_cgroup(policy: &Policy, cgroup: Option<&Path>) -> Step {
    let rules = policy.rules_of_cgroup(cgroup).iter().map(|rule| rule.name.clone()).collect();
    let (does, why) = match cgroup {
        Some(folder) if !folder.is_dir() => ("wait", Some("there is no such cgroup yet".into())),
        _ => ("choose", None),
    };
    let place = cgroup.map_or("all sockets".into(), |folder| folder.display().to_string());
    Step { place, does, rules, why }
}

impl Plan {
    fn print(&self, file: &Path) {
        if self.interfaces.is_empty() && self.cgroups.is_empty() {
            println!("no interface or cgroup matches the policy yet; an agent would wait for one");
        } else {
            let row = |step: &Step| {
                vec![
                    step.place.clone(),
                    step.does.into(),
                    if step.rules.is_empty() { "-".into() } else { step.rules.join(", ") },
                    step.why.clone().unwrap_or_default(),
                ]
            };
            let rows: Vec<_> = self.interfaces.iter().chain(&self.cgroups).map(row).collect();
            print::table(&["where", "would", "rules", ""], &rows);
        }
        if !self.is_complete {
            println!("what is under control already is not known: only root can see it");
        }
        print_warnings(file, &self.warnings);
        print::line(format_args!("{}: nothing was changed", printable_path(file)));
    }
}
