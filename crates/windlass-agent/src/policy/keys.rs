//! The keys of a policy: what each may be. Keys are written with dots, from the root.

use windlass_core::{Algorithm, GroupRule, abi};
use windlass_scenario::IN_REPORTS;
pub(super) use windlass_scenario::{find_key as find, joined};

/// Largest share: four of them add up in 32 bits.
pub(super) const SHARE_MAX: u32 = 1_000_000;

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
        "rule.group.idle_s" => up_to(abi::WL_IDLE_MAX_S),
        _ => in_words(key)?.into(),
    })
}

/// Most characters of an interface's alternative name, which may be longer than the one by which it is listed: in the kernel
/// (ALTIFNAMSIZ) its end takes one.
pub(super) const IFACE_CHARS: usize = 128 - 1;

/// Most characters of the name by which an interface is listed (IFNAMSIZ).
pub(super) const LISTED_IFACE_CHARS: usize = 16 - 1;

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
            "a table { bottleneck, buffer, threshold, gain, random_waits, first_train_probes, and tables of algorithms }"
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
