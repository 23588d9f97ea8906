//! How many rules and groups there is room for.

use super::rule::Rule;
use std::collections::BTreeSet;
use windlass_core::abi;

/// Whether so many rules find room in the datapath of one interface or cgroup.
pub(crate) fn check_count(rules: usize, of: &str) -> Result<(), String> {
    if rules > abi::WL_MAX_RULES as usize {
        return Err(format!("{rules} rules for {of}; at most {}", abi::WL_MAX_RULES));
    }
    Ok(())
}

/// The first rule that finds no room in a datapath, as far as that is known without the interfaces, and why.
pub(super) fn check_room(rules: &[Rule]) -> Result<(), (usize, String)> {
    let most = abi::WL_POLICY_RULES as usize;
    if rules.len() > most {
        return Err((most, format!("more than {most} rules")));
    }
    let few = abi::WL_MAX_RULES.min(abi::WL_MAX_GROUPS) as usize;
    if rules.len() <= few {
        return Ok(());
    }
    for (of_sockets, what) in [(false, "behind interfaces"), (true, "of sockets")] {
        let mut groups = Vec::new();
        for (at, rule) in rules.iter().enumerate().filter(|(_, r)| r.is_of_sockets() == of_sockets) {
            match &rule.group {
                Some(m) if !groups.contains(&&m.group) => groups.push(&m.group),
                _ => continue,
            }
            if groups.len() > abi::WL_MAX_GROUPS as usize {
                return Err((at, format!("more than {} groups {what}", abi::WL_MAX_GROUPS)));
            }
        }
    }
    let check = |indices: Vec<usize>, of: &str| {
        let last = indices.get(abi::WL_MAX_RULES as usize).copied().unwrap_or(0);
        check_count(indices.len(), of).map_err(|what| (last, what))
    };
    let (sockets, flows): (Vec<_>, Vec<_>) = rules.iter().enumerate().partition(|(_, r)| r.is_of_sockets());
    let cgroups: BTreeSet<_> = sockets.iter().map(|(_, r)| r.cgroup.as_deref()).collect();
    for cgroup in cgroups {
        let speaks_of_it = |r: &Rule| r.cgroup.is_none() || r.cgroup.as_deref() == cgroup;
        check(sockets.iter().filter(|(_, r)| speaks_of_it(r)).map(|(at, _)| *at).collect(), "one cgroup")?;
    }
    let patterns: Vec<_> =
        flows.iter().map(|(at, r)| (*at, &r.iface, glob::Pattern::new(&r.iface))).collect();
    let names: BTreeSet<_> = flows.iter().map(|(_, r)| &r.iface).collect();
    for name in names {
        // some interface falls under a pattern and under those that match it as it is written
        let matching =
            patterns.iter().filter(|(_, text, p)| *text == name || p.as_ref().is_ok_and(|p| p.matches(name)));
        check(matching.map(|(at, ..)| *at).collect(), "one interface")?;
    }
    Ok(())
}
