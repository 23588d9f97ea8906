//! What policies configure of groups. A group is known by its name and configuration.

use super::policy_error::{PolicyError, Source};
use crate::object::fingerprint;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use windlass_core::{
    GroupKey, GroupRule,
    abi::{self, wl_group_config, wl_rule},
};
use windlass_scenario::is_name;

/// What a rule configures of its flows' group.
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
    join_adds: Option<Spanned<bool>>,
    ack_clock: Option<Spanned<bool>>,
    idle_grows: Option<Spanned<bool>>,
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
    source: &Source,
    key: &str,
    value: Option<Spanned<i64>>,
    default: u32,
    most: u32,
) -> Result<u32, PolicyError> {
    let Some(value) = value else { return Ok(default) };
    let n = u32::try_from(*value.get_ref()).ok().filter(|n| (1..=most).contains(n));
    n.ok_or_else(|| source.refuse(value.span(), key))
}

/// Checks a rule's group. That of sockets has no ACK clock, and sockets stand behind no interface.
pub(super) fn check(source: &Source, raw: RawGroup, is_of_sockets: bool) -> Result<Membership, PolicyError> {
    if !is_name(raw.name.get_ref()) {
        return Err(source.refuse(raw.name.span(), "rule.group.name"));
    }
    let name = raw.rule.get_ref().clone();
    let Some(rule) = GroupRule::by_name(&name) else {
        let what = format!("unknown group rule \"{name}\"; known: {}", GroupRule::names());
        return Err(source.error(raw.rule.span(), what));
    };
    check_effects(source, &raw, rule)?;
    let members_max = abi::WL_GROUP_MEMBERS_MAX;
    let idle_default_s = abi::WL_GROUP_IDLE_US / 1_000_000;
    Ok(Membership {
        weight: in_range(source, "rule.group.weight", raw.weight, 1, abi::WL_GROUP_WEIGHT_MAX)? as u16,
        per: check_per(source, raw.per, is_of_sockets)?,
        group: GroupSpec {
            name: raw.name.into_inner(),
            max_members: in_range(
                source,
                "rule.group.max_members",
                raw.max_members,
                members_max,
                members_max,
            )?,
            idle_s: in_range(source, "rule.group.idle_s", raw.idle_s, idle_default_s, abi::WL_IDLE_MAX_S)?,
            aggressiveness: check_aggressiveness(source, raw.aggressiveness)?,
            rule: name,
            join_adds: raw.join_adds.is_some_and(Spanned::into_inner),
            ack_clock: check_ack_clock(source, raw.ack_clock, is_of_sockets)?,
            idle_grows: raw.idle_grows.is_some_and(Spanned::into_inner),
        },
    })
}

fn check_per(source: &Source, raw: Option<Spanned<String>>, is_of_sockets: bool) -> Result<Per, PolicyError> {
    let Some(raw) = raw else { return Ok(Per::Flow) };
    match raw.get_ref().as_str() {
        "flow" => Ok(Per::Flow),
        "server" => Ok(Per::Server),
        "interface" if is_of_sockets => {
            let what =
                "per = \"interface\": sockets in mode \"native\" have none; allowed: flow, server, rule";
            Err(source.error(raw.span(), what))
        }
        "interface" => Ok(Per::Interface),
        "rule" => Ok(Per::Rule),
        _ => Err(source.refuse(raw.span(), "rule.group.per")),
    }
}

/// Refuses what has no effect with the group's rule, unless it is what holds anyway.
fn check_effects(source: &Source, raw: &RawGroup, rule: GroupRule) -> Result<(), PolicyError> {
    let is = |raw: &Option<Spanned<bool>>, value| {
        raw.as_ref().filter(|is| *is.get_ref() == value).map(Spanned::span)
    };
    let said = [
        (GroupKey::Weight, raw.weight.as_ref().filter(|n| *n.get_ref() != 1).map(Spanned::span)),
        (GroupKey::Per, raw.per.as_ref().filter(|per| *per.get_ref() != "flow").map(Spanned::span)),
        (GroupKey::Aggressiveness, raw.aggressiveness.as_ref().map(Spanned::span)),
        (GroupKey::JoinAdds, is(&raw.join_adds, true)),
        (GroupKey::AckClock, is(&raw.ack_clock, false)),
        (GroupKey::IdleGrows, is(&raw.idle_grows, true)),
    ];
    for (key, span) in said {
        if let (Some(span), Some(what)) = (span, rule.ignores(key)) {
            return Err(source.error(span, what));
        }
    }
    Ok(())
}

fn check_aggressiveness(source: &Source, raw: Option<Spanned<f64>>) -> Result<Option<f64>, PolicyError> {
    let Some(raw) = raw else { return Ok(None) };
    if !(0.01..=65_535.0).contains(raw.get_ref()) {
        return Err(source.refuse(raw.span(), "rule.group.aggressiveness"));
    }
    Ok(Some(raw.into_inner()))
}

fn check_ack_clock(
    source: &Source,
    raw: Option<Spanned<bool>>,
    is_of_sockets: bool,
) -> Result<bool, PolicyError> {
    let Some(raw) = raw else { return Ok(!is_of_sockets) };
    if is_of_sockets {
        let what =
            "ack_clock: sockets in mode \"native\" have none, they pace what they are given; leave it out";
        return Err(source.error(raw.span(), what));
    }
    Ok(raw.into_inner())
}

impl GroupSpec {
    /// The core's configuration.
    pub(crate) fn config(&self) -> wl_group_config {
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
    pub(crate) fn key(&self) -> u64 {
        // all that groups of one name may differ in
        let wl_group_config { rule, max_members, flags, aggressiveness_q8, idle_us } = self.config();
        let numbers = [rule, max_members, flags, aggressiveness_q8, idle_us];
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn spec() -> GroupSpec {
        GroupSpec {
            name: "uplink".into(),
            rule: "ccc".into(),
            max_members: 65_535,
            idle_s: 60,
            aggressiveness: None,
            join_adds: false,
            ack_clock: true,
            idle_grows: false,
        }
    }

    fn other() -> GroupSpec {
        GroupSpec {
            name: "backup".into(),
            rule: "multcp".into(),
            max_members: 100,
            idle_s: 5,
            aggressiveness: Some(2.5),
            join_adds: true,
            ack_clock: false,
            idle_grows: true,
        }
    }

    /// Groups are found again by it after an upgrade: what one build has called so the next one has to.
    #[test]
    #[cfg(target_endian = "little")]
    fn a_group_keeps_its_key() {
        assert_eq!([spec(), other()].map(|s| s.key()), [0x1efc_9a30_3c7a_7314, 0xa3af_b639_3eb5_95e5]);
    }

    #[test]
    fn each_field_of_a_group_changes_its_key() {
        let GroupSpec { name, rule, max_members, idle_s, aggressiveness, join_adds, ack_clock, idle_grows } =
            other();
        // of one rule only
        let multcp = GroupSpec { rule, ..spec() };
        let keys = BTreeSet::from([
            spec().key(),
            GroupSpec { name, ..spec() }.key(),
            multcp.key(),
            GroupSpec { aggressiveness, ..multcp }.key(),
            GroupSpec { max_members, ..spec() }.key(),
            GroupSpec { idle_s, ..spec() }.key(),
            GroupSpec { join_adds, ..spec() }.key(),
            GroupSpec { ack_clock, ..spec() }.key(),
            GroupSpec { idle_grows, ..spec() }.key(),
        ]);
        assert_eq!(keys.len(), 9);
    }
}
