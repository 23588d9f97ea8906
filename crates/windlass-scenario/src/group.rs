//! Groups: flows that share one window.

use crate::{Span, unitless};
use serde::{Deserialize, Serialize};
use windlass_core::{
    GroupAblation, GroupKey, GroupRule,
    abi::{WL_GROUP_MEMBERS_MAX, WL_GROUP_WEIGHT_MAX, WL_IDLE_MAX_S},
};

/// Whose weight a flow's weight is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// Each flow's own.
    #[default]
    Flow,
    /// That of the sending host: all its flows together have it, whatever their number.
    Server,
}

/// Flows that share one window, by one of the core's rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a group: a table with its name and rule")]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Name of the rule.
    pub rule: String,
    /// Whose weights there are.
    #[serde(default, deserialize_with = "unitless::word")]
    pub per: Per,
    /// Most members; none: as many as a group can have. Further flows go on by themselves.
    #[serde(default, deserialize_with = "unitless::whole_within::<1, WL_GROUP_MEMBERS_MAX, _>")]
    pub max_members: Option<u32>,
    /// A member that is silent for so long is taken for gone; none: the core's default.
    pub idle: Option<Span>,
    /// Of the rule "multcp", in flows; none: as many as there are members.
    #[serde(default, deserialize_with = "unitless::some_number")]
    pub aggressiveness: Option<f64>,
    /// For comparison: a joiner's window is added to the group's (off in the core).
    #[serde(default)]
    pub join_adds: bool,
    /// Whether the others' ACKs release a joiner's share; for comparison, false lets it send all at once.
    #[serde(default = "yes")]
    pub ack_clock: bool,
    /// For comparison: growth also counts of members that do not need their window (off in the core).
    #[serde(default)]
    pub idle_grows: bool,
    /// For comparison: choices of the rule "ccc" that are left out (names of the core's ablations). Only simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}

fn yes() -> bool {
    true
}

pub(crate) fn check_group(group: &Group) -> Result<(), String> {
    let is_fine = |c: char| c.is_ascii_lowercase() || c == '-';
    if group.name.is_empty() {
        return Err("name: empty; flows name their group".into());
    }
    if group.rule.is_empty() || !group.rule.chars().all(is_fine) {
        return Err(format!("rule = {:?}: the name of a group rule, e.g. \"ccc\"", group.rule));
    }
    let Some(rule) = GroupRule::by_name(&group.rule) else {
        let known = GroupRule::names();
        return Err(format!("rule: no rule \"{}\" in the core; there are {known}", group.rule));
    };
    for (key, is_said) in [
        (GroupKey::Per, group.per != Per::Flow),
        (GroupKey::Aggressiveness, group.aggressiveness.is_some()),
        (GroupKey::JoinAdds, group.join_adds),
        (GroupKey::AckClock, !group.ack_clock),
        (GroupKey::IdleGrows, group.idle_grows),
    ] {
        if let Some(what) = rule.ignores(key).filter(|_| is_said) {
            return Err(what);
        }
    }
    let idle_max_s = f64::from(WL_IDLE_MAX_S);
    if group.idle.is_some_and(|s| s.0 < 0.001 || s.0 > idle_max_s) {
        return Err(format!("idle: 1 ms to {}", Span(idle_max_s)));
    }
    if group.aggressiveness.is_some_and(|n| !(0.01..=65_535.0).contains(&n)) {
        return Err("aggressiveness: 0.01 to 65535 flows".into());
    }
    if !group.without.is_empty() && group.rule != "ccc" {
        return Err(format!("without: these are choices of the rule \"ccc\", not of \"{}\"", group.rule));
    }
    if let Some(name) = group.without.iter().find(|name| GroupAblation::by_name(name).is_none()) {
        let known = GroupAblation::names();
        return Err(format!("without: the core has no ablation \"{name}\"; there are {known}"));
    }
    Ok(())
}

/// A flow's or the box's group and weight.
pub(crate) fn check_membership(group: Option<&str>, weight: i64, groups: &[Group]) -> Result<(), String> {
    if !(1..=i64::from(WL_GROUP_WEIGHT_MAX)).contains(&weight) {
        return Err(format!("weight = {weight}: 1 to {WL_GROUP_WEIGHT_MAX}"));
    }
    match group {
        Some(name) if !groups.iter().any(|g| g.name == name) => {
            let names: Vec<_> = groups.iter().map(|g| g.name.as_str()).collect();
            let known = if names.is_empty() {
                "there is no [[group]]".into()
            } else {
                format!("known: {}", names.join(", "))
            };
            Err(format!("group: unknown group \"{name}\"; {known}"))
        }
        _ => Ok(()),
    }
}
