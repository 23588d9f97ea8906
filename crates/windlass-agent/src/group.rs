//! Groups in the kernel: their places in the maps, which rules name by number, and what is read of them.

use crate::{
    Error, GroupSpec, Per, Policy, Result,
    error::bpf,
    map_value::{bytes_of, from_bytes},
    persist::{lock::Lock, pins, private, run_file},
    shared_groups,
};
use libbpf_rs::{MapCore, MapFlags};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use windlass_core::{
    Group, GroupRule,
    abi::{self, wl_group, wl_member, wl_rule, wl_tenant_key},
};

/// As struct wl_group_home in bpf/group/group.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct GroupHome {
    /// Not 0: some program is at it.
    pub lock: u32,
    /// Zero.
    pub reserved: u32,
    /// By which it is found; 0: no group is here.
    pub key: u64,
    /// Its state.
    pub group: wl_group,
}

/// As struct wl_place in bpf/group/group.h begins.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct FlowPlace {
    member: wl_member,
    group: u32,
    weight: u32,
    was_refused: u32,
    is_left: u32,
    tenant: wl_tenant_key,
}

/// A flow's part in its group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowGroup {
    /// The group's name, as in [`GroupInfo`].
    pub name: String,
    /// Its weight, or with a tenant the weight of all the tenant's flows together.
    pub weight: u32,
    /// Whose weight that is.
    pub per: Per,
    /// The window that the group gave it last; none: it is no member now.
    pub share_bytes: Option<u32>,
}

impl FlowPlace {
    /// What it reports of its flow; `groups` are in the order of their numbers.
    pub(crate) fn describe(&self, groups: &[GroupInfo]) -> Option<FlowGroup> {
        let group = groups.get(self.group.checked_sub(1)? as usize)?;
        Some(FlowGroup {
            name: group.name.clone(),
            weight: self.weight,
            per: match self.tenant.per {
                abi::WL_PER_SERVER => Per::Server,
                abi::WL_PER_INTERFACE => Per::Interface,
                abi::WL_PER_RULE => Per::Rule,
                _ => Per::Flow,
            },
            share_bytes: (self.member.id != 0).then_some(self.member.cwnd_bytes),
        })
    }
}

/// Replaces the groups' positions in the policy by their numbers in the kernel; makes those that are not there yet, all or
/// none. When places run out, those are used again that have no members and are not among the `named`, which rules in force
/// name. With the lock of "groups" held, until a process that looks for those sees these rules: another might give
/// their places away.
pub(crate) fn resolve(
    _lock: &Lock,
    groups: &impl MapCore,
    specs: &[GroupSpec],
    rules: &mut [wl_rule],
    named: impl FnOnce() -> Result<BTreeSet<u32>>,
) -> Result<()> {
    let wanted: BTreeSet<usize> =
        rules.iter().filter(|r| r.group != 0).map(|r| r.group as usize - 1).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let homes = homes(groups)?;
    let here = |at: &usize| Some((*at, homes.iter().position(|h| h.key == specs[*at].key())? as u32));
    let mut numbers: BTreeMap<usize, u32> = wanted.iter().filter_map(here).collect();
    let new: Vec<usize> = wanted.into_iter().filter(|at| !numbers.contains_key(at)).collect();
    let mut free: Vec<u32> = (homes.len() as u32..abi::WL_MAX_GROUPS).collect();
    if new.len() > free.len() {
        let mut kept = named()?;
        kept.extend(numbers.values());
        let is_empty = |(number, home): &(u32, &GroupHome)| home.group.members == 0 && !kept.contains(number);
        free.extend((0..).zip(&homes).filter(is_empty).map(|(number, _)| number));
    }
    if new.len() > free.len() {
        return Err(Error::Invalid(format!(
            "{} new groups, and room for {} more: of {} in all, the others have members or are those of rules in force; put \
             a policy with fewer groups in force first",
            new.len(),
            free.len(),
            abi::WL_MAX_GROUPS
        )));
    }
    for (at, number) in new.into_iter().zip(free) {
        let group = Group::new(&specs[at].config()).map_err(|e| Error::Invalid(e.to_string()))?;
        let home = GroupHome { key: specs[at].key(), group: *group.state(), ..GroupHome::default() };
        groups
            .update(&number.to_ne_bytes(), bytes_of(&home), MapFlags::ANY)
            .map_err(bpf("making a group"))?;
        numbers.insert(at, number);
    }
    for rule in rules.iter_mut().filter(|r| r.group != 0) {
        rule.group = numbers[&(rule.group as usize - 1)] + 1;
    }
    Ok(())
}

/// The groups that were ever made, by their numbers.
fn homes(groups: &impl MapCore) -> Result<Vec<GroupHome>> {
    let mut all = Vec::new();
    for number in 0..abi::WL_MAX_GROUPS {
        let bytes = groups.lookup(&number.to_ne_bytes(), MapFlags::ANY).map_err(bpf("reading the groups"))?;
        match bytes.and_then(|b| from_bytes::<GroupHome>(&b)) {
            Some(home) if home.key != 0 => all.push(home),
            _ => break,
        }
    }
    Ok(all)
}

/// Numbers of the groups that the rules of this namespace's interfaces name. Those of an `attach` that runs cannot be
/// read: then all are.
fn named_here() -> Result<BTreeSet<u32>> {
    if shared_groups::has_users_here() {
        return Ok((0..abi::WL_MAX_GROUPS).collect());
    }
    pins::groups_named_here()
}

/// What a group of this kernel is doing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupInfo {
    /// Its name; if it is not noted, the number it is known by.
    pub name: String,
    /// Name of its coupling rule.
    pub rule: &'static str,
    /// Its members now.
    pub members: u32,
    /// The window of all of them together, in bytes; 0: the rule has none, or there are no members.
    pub window_bytes: u64,
    /// Mean round trip of its members; 0: not measured.
    pub srtt_us: u32,
}

/// Gives the rules of an interface their groups.
pub(crate) fn resolve_here(groups: &impl MapCore, policy: &Policy, rules: &mut [wl_rule]) -> Result<()> {
    if rules.iter().all(|r| r.group == 0) {
        return Ok(());
    }
    // until they are in force that of "pins" is held, or the groups have a user
    let lock = Lock::take("groups")?;
    note_names(&lock, &shared_groups::names_here(), &policy.groups());
    resolve(&lock, groups, &policy.groups(), rules, named_here)
}

/// Notes names for [`read`]; those that are in the file already stay. If that fails, people see numbers: no reason to do without
/// the groups. With the lock of "groups" held: others note names, too.
pub(crate) fn note_names(_lock: &Lock, file: &Path, specs: &[GroupSpec]) {
    let mut text = private::read(file).unwrap_or_default();
    for spec in specs {
        let line = format!("{:016x} {}\n", spec.key(), spec.name);
        if !text.contains(&line) {
            text += &line;
        }
    }
    let _ = run_file::write_text(file, &text);
}

/// All groups of the map, in the order in which they were made; names are those noted in `file`.
pub(crate) fn read(groups: &impl MapCore, file: &Path) -> Result<Vec<GroupInfo>> {
    let names = private::read(file).unwrap_or_default();
    let mut all = Vec::new();
    for home in homes(groups)? {
        let key = format!("{:016x}", home.key);
        let name = names.lines().find_map(|l| l.strip_prefix(&key).map(str::trim_start));
        let rule = GroupRule::all().find(|r| r.id() == home.group.config.rule);
        all.push(GroupInfo {
            name: name.map_or(key.clone(), str::to_string),
            rule: rule.map_or("?", |r| r.name()),
            members: home.group.members,
            window_bytes: home.group.sum_cwnd_q16 >> abi::WL_GROUP_Q,
            srtt_us: home.group.srtt_us,
        });
    }
    Ok(all)
}
