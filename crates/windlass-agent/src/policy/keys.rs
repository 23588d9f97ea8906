//! The keys of a policy: what each may be, and whose a place in the text is. Keys are written with dots, from the root.

use super::{group::IDLE_MAX_S, text::SHARE_MAX};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};
use windlass_core::{Algorithm, GroupRule, abi};
use windlass_scenario::IN_REPORTS;

/// What a key may be, as it goes on after "allowed: "; none: it is a quantity, which names its units itself, or no key
/// of a policy.
pub(super) fn allowed(key: &str) -> Option<String> {
    let up_to = |most: u32| format!("a whole number from 1 to {most}");
    Some(match key {
        "rule.match.iface" => {
            format!(
                "an interface or a pattern in quotes, e.g. \"tap*\", of names of 1 to {IFACE_CHARS} characters"
            )
        }
        "rule.match.server_port" => {
            format!("a port from 1 to 65535, or up to {} in a list such as [80, 443]", abi::WL_RULE_PORTS)
        }
        "rule.algorithm" => format!(
            "the name of an algorithm in quotes, or a list of up to {} {{ algorithm = NAME, share = NUMBER }}",
            abi::WL_RULE_SPLITS
        ),
        "rule.algorithm.algorithm" => format!("the name of an algorithm in quotes: {}", Algorithm::names()),
        "rule.algorithm.share" => up_to(SHARE_MAX),
        "rule.group.rule" => format!("the name of a group rule in quotes: {}", GroupRule::names()),
        "rule.group.weight" => up_to(abi::WL_GROUP_WEIGHT_MAX),
        "rule.group.max_members" => up_to(abi::WL_GROUP_MEMBERS_MAX),
        "rule.group.idle_s" => up_to(IDLE_MAX_S),
        _ => in_words(key)?.into(),
    })
}

/// Most characters of an interface's name: in the kernel its end takes one.
pub(super) const IFACE_CHARS: usize = libc::IF_NAMESIZE - 1;

/// Of keys whose values have no bounds.
fn in_words(key: &str) -> Option<&'static str> {
    Some(match key {
        "rule" => "tables, each under [[rule]] in double brackets",
        "rule.name" | "rule.group.name" => IN_REPORTS,
        "rule.match" => "a table { iface, cgroup, client, server, server_port }",
        "rule.match.cgroup" => "the folder of a cgroup in quotes, from / on",
        "rule.match.client" | "rule.match.server" => {
            "a prefix in quotes, e.g. \"192.0.2.0/24\" or \"2001:db8::/32\""
        }
        "rule.mode" => "transparent, watch, off, native",
        "rule.paced_servers" => "stand-aside, control",
        "rule.parameters" => {
            "a table { bottleneck, buffer, threshold, gain, random_waits, first_train_probes }"
        }
        "rule.parameters.buffer" => "packets or bytes in quotes, e.g. \"100 packets\"",
        "rule.parameters.random_waits"
        | "rule.parameters.first_train_probes"
        | "rule.group.join_adds"
        | "rule.group.ack_clock"
        | "rule.group.idle_grows" => "true, false",
        "rule.group" => "a table { name, rule, weight, per, ... }",
        "rule.group.per" => "flow, server, interface, rule",
        "rule.group.aggressiveness" => "0.01 to 65535 flows",
        _ => return None,
    })
}

/// A key of the text and its value.
pub(super) type Found<'a, 'text> = (String, &'a Spanned<DeValue<'text>>);

/// The innermost key that byte `at` of the text belongs to; `path` leads to `table`.
pub(super) fn find<'a, 'text>(table: &'a DeTable<'text>, at: usize, path: &str) -> Option<Found<'a, 'text>> {
    table.iter().find_map(|(name, value)| {
        let key = joined(path, name.get_ref());
        let is_here = name.span().contains(&at) || value.span().contains(&at);
        find_inside(value, at, &key).or_else(|| is_here.then_some((key, value)))
    })
}

/// Tables of a list may stand anywhere in the text; what is found is the list.
fn find_inside<'a, 'text>(
    value: &'a Spanned<DeValue<'text>>,
    at: usize,
    key: &str,
) -> Option<Found<'a, 'text>> {
    match value.get_ref() {
        DeValue::Table(table) => find(table, at, key),
        DeValue::Array(list) => list.iter().find_map(|element| {
            let is_here = element.span().contains(&at);
            find_inside(element, at, key).or_else(|| is_here.then(|| (key.into(), value)))
        }),
        _ => None,
    }
}

/// A key in the table that `path` leads to.
pub(super) fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.into() } else { format!("{path}.{key}") }
}
