//! Groups in policies, and their places in the kernel. A group is known by its name and configuration.

use crate::{
    Error, Policy, PolicyError, Result,
    error::bpf,
    lock::Lock,
    object::fingerprint,
    pins,
    plain::{bytes_of, from_bytes},
    policy::Place,
    shared_groups,
};
use libbpf_rs::{MapCore, MapFlags};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};
use toml::Spanned;
use windlass_core::{
    Group, GroupRule,
    abi::{self, wl_group, wl_group_config, wl_member, wl_rule, wl_tenant_key},
};

/// What a rule says of its flows' group.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawGroup {
    name: Spanned<String>,
    rule: Spanned<String>,
    weight: Option<Spanned<i64>>,
    per: Option<Spanned<String>>,
    max_members: Option<Spanned<i64>>,
    idle_s: Option<Spanned<i64>>,
    aggressiveness: Option<Spanned<f64>>,
    #[serde(default)]
    join_adds: bool,
    ack_clock: Option<Spanned<bool>>,
    #[serde(default)]
    idle_grows: bool,
}

/// Whose weight a rule's weight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// Each flow's own.
    Flow,
    /// That of all flows of a server's address together.
    Server,
    /// That of all flows behind an interface together.
    Interface,
    /// That of all flows of the rule together.
    Rule,
}

/// A group's configuration: two groups of a name that differ in it are two groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupSpec {
    /// Its name.
    pub name: String,
    /// Name of its coupling rule.
    pub rule: String,
    /// Most members.
    pub max_members: u32,
    /// A member silent for so long is taken for gone.
    pub idle_s: u32,
    /// Of the rule "multcp", in flows; none: as many as there are members.
    pub aggressiveness: Option<f64>,
    /// A joiner's window is added to the group's.
    pub join_adds: bool,
    /// The others' ACKs release a joiner's share.
    pub ack_clock: bool,
    /// Growth of members that do not need their window counts.
    pub idle_grows: bool,
}

/// A rule's flows in their group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Membership {
    /// The group.
    #[serde(flatten)]
    pub group: GroupSpec,
    /// 1 to 65535.
    pub weight: u16,
    /// Whose it is.
    pub per: Per,
}

fn in_range(
    place: &Place,
    key: &str,
    value: Option<Spanned<i64>>,
    default: u32,
    most: u32,
) -> std::result::Result<u32, PolicyError> {
    let Some(value) = value else { return Ok(default) };
    let n = *value.get_ref();
    u32::try_from(n)
        .ok()
        .filter(|n| (1..=most).contains(n))
        .ok_or_else(|| place.error(value.span(), format!("{key} = {n}; allowed: 1 to {most}")))
}

/// Checks a rule's group. That of sockets has no ACK clock, and sockets stand behind no interface.
pub(crate) fn check(
    place: &Place,
    raw: Spanned<RawGroup>,
    is_of_sockets: bool,
) -> std::result::Result<Membership, PolicyError> {
    let span = raw.span();
    let raw = raw.into_inner();
    let name = raw.name.get_ref().clone();
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(place.error(raw.name.span(), "a group's name is not empty and has no control characters"));
    }
    let rule = raw.rule.get_ref().clone();
    if GroupRule::by_name(&rule).is_none() {
        let known: Vec<_> = GroupRule::all().map(|r| r.name()).collect();
        let what = format!("unknown group rule \"{rule}\"; known: {}", known.join(", "));
        return Err(place.error(raw.rule.span(), what));
    }
    let per = match raw.per {
        None => Per::Flow,
        Some(p) => match p.get_ref().as_str() {
            "flow" => Per::Flow,
            "server" => Per::Server,
            "interface" if is_of_sockets => {
                let what =
                    "per = \"interface\": sockets in mode \"native\" have none; allowed: flow, server, rule";
                return Err(place.error(p.span(), what));
            }
            "interface" => Per::Interface,
            "rule" => Per::Rule,
            other => {
                let what = format!("per = \"{other}\"; allowed: flow, server, interface, rule");
                return Err(place.error(p.span(), what));
            }
        },
    };
    let aggressiveness = match raw.aggressiveness {
        None => None,
        Some(a) if rule != "multcp" => {
            let what = format!("aggressiveness: only the rule \"multcp\" has one, not \"{rule}\"");
            return Err(place.error(a.span(), what));
        }
        Some(a) if !(0.01..=65_535.0).contains(a.get_ref()) => {
            return Err(place.error(span, "aggressiveness: 0.01 to 65535 flows"));
        }
        Some(a) => Some(a.into_inner()),
    };
    let ack_clock = match raw.ack_clock {
        None => !is_of_sockets,
        Some(a) if is_of_sockets => {
            let what = "ack_clock: sockets in mode \"native\" have none, they pace what they are given; leave it out";
            return Err(place.error(a.span(), what));
        }
        Some(a) => a.into_inner(),
    };
    let idle_default_s = abi::WL_GROUP_IDLE_US / 1_000_000;
    Ok(Membership {
        weight: in_range(place, "weight", raw.weight, 1, abi::WL_GROUP_WEIGHT_MAX)? as u16,
        per,
        group: GroupSpec {
            name,
            rule,
            max_members: in_range(
                place,
                "max_members",
                raw.max_members,
                abi::WL_GROUP_MEMBERS_MAX,
                abi::WL_GROUP_MEMBERS_MAX,
            )?,
            // the core's clock wraps after 71 minutes
            idle_s: in_range(place, "idle_s", raw.idle_s, idle_default_s, 1800)?,
            aggressiveness,
            join_adds: raw.join_adds,
            ack_clock,
            idle_grows: raw.idle_grows,
        },
    })
}

impl GroupSpec {
    /// The core's configuration.
    fn config(&self) -> wl_group_config {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        wl_group_config {
            rule: GroupRule::by_name(&self.rule).map_or(0, |r| r.id()),
            max_members: self.max_members,
            flags: flag(self.join_adds, abi::WL_GROUP_JOIN_ADDS)
                | flag(!self.ack_clock, abi::WL_GROUP_NO_ACK_CLOCK)
                | flag(self.idle_grows, abi::WL_GROUP_IDLE_GROWS),
            aggressiveness_q8: self.aggressiveness.map_or(0, |n| (n * 256.0) as u32),
            idle_us: self.idle_s * 1_000_000,
        }
    }

    /// What the group is known by in the kernel; never 0.
    fn key(&self) -> u64 {
        let c = self.config();
        let numbers = [c.rule, c.max_members, c.flags, c.aggressiveness_q8, c.idle_us];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
        bytes.extend(self.name.as_bytes());
        fingerprint(&bytes).max(1)
    }
}

impl Membership {
    /// Writes it into a compiled rule; `number` is the group's position in the policy, from 1.
    pub(crate) fn compile(&self, number: u32, rule_name: &str, rule: &mut wl_rule) {
        rule.group = number;
        rule.weight = self.weight;
        rule.per = match self.per {
            Per::Flow => abi::WL_PER_FLOW,
            Per::Server => abi::WL_PER_SERVER,
            Per::Interface => abi::WL_PER_INTERFACE,
            Per::Rule => abi::WL_PER_RULE,
        } as u8;
        rule.tenant = fingerprint(rule_name.as_bytes()) as u32;
    }
}

/// As struct wl_group_home in bpf/group.h.
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

/// As struct wl_place in bpf/group.h.
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
    /// What it says of its flow; `groups` are in the order of their numbers.
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
/// name.
pub(crate) fn resolve(
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
    let _lock = Lock::take("groups")?;
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

/// Numbers of the groups that the rules of this namespace's interfaces name. Those of an `attach` that runs nobody can read:
/// then all are.
fn named_here() -> Result<BTreeSet<u32>> {
    if shared_groups::has_users_here() {
        return Ok((0..abi::WL_MAX_GROUPS).collect());
    }
    pins::groups_named_here()
}

/// What a group of this kernel is doing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupInfo {
    /// Its name; if nobody has noted it, the number it is known by.
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
    if rules.iter().any(|r| r.group != 0) {
        note_names(&shared_groups::names_here(), &policy.groups())?;
    }
    resolve(groups, &policy.groups(), rules, named_here)
}

/// Notes names for [`read`]; those that are in the file already stay.
pub(crate) fn note_names(file: &Path, specs: &[GroupSpec]) -> Result<()> {
    let mut text = fs::read_to_string(file).unwrap_or_default();
    for spec in specs {
        let line = format!("{:016x} {}\n", spec.key(), spec.name);
        if !text.contains(&line) {
            text += &line;
        }
    }
    pins::write_text(file, &text)
}

/// All groups of the map, in the order in which they were made; names are those noted in `file`.
pub(crate) fn read(groups: &impl MapCore, file: &Path) -> Result<Vec<GroupInfo>> {
    let names = fs::read_to_string(file).unwrap_or_default();
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
