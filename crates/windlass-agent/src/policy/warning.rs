//! What a policy has that is no mistake, but never applies, or not as it is written.

use super::{
    keys::{IFACE_CHARS, LISTED_IFACE_CHARS},
    pattern,
    rule::{Rule, anyone, mapped_prefix},
};
use ipnet::{IpNet, Ipv6Net};
use serde::Serialize;
use std::fmt;

/// Something that its author hardly meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyWarning {
    /// Line of the rule, from 1.
    pub line: usize,
    /// Name of the rule.
    pub rule: String,
    /// What it is, and the cure.
    pub what: String,
}

impl fmt::Display for PolicyWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: rule \"{}\": {}", self.line, self.rule, self.what)
    }
}

/// All warnings of these rules, which begin in those lines.
pub(super) fn of(rules: &[Rule], lines: &[usize]) -> Vec<PolicyWarning> {
    let mut all = Vec::new();
    for (at, (rule, line)) in rules.iter().zip(lines).enumerate() {
        let about_it = [
            shadowed(&rules[..at], lines, rule),
            unmatchable(rule),
            host_bits("client", rule.client),
            host_bits("server", rule.server),
            two_families(rule),
        ];
        let warning = |what| PolicyWarning { line: *line, rule: rule.name.clone(), what };
        all.extend(about_it.into_iter().flatten().map(warning));
    }
    all
}

/// Is each flow that falls under the rule one of a rule before it?
fn shadowed(earlier: &[Rule], lines: &[usize], rule: &Rule) -> Option<String> {
    let covering: Vec<(usize, &Rule)> =
        earlier.iter().enumerate().filter(|(_, before)| covers_but_for_ports(before, rule)).collect();
    let first = match covering.iter().find(|(_, before)| before.server_ports.is_empty()) {
        Some((at, before)) => format!("rule \"{}\" on line {}", before.name, lines[*at]),
        None if rule.server_ports.is_empty() => return None,
        None => {
            let has = |port| covering.iter().find(|(_, before)| before.server_ports.contains(port));
            let names: Option<Vec<_>> = rule.server_ports.iter().map(has).collect();
            let mut names: Vec<String> = names?
                .into_iter()
                .map(|(at, before)| format!("rule \"{}\" on line {}", before.name, lines[*at]))
                .collect();
            names.dedup();
            names.join(" or ")
        }
    };
    Some(format!("never applies, as all that it names falls under {first}; put it before, or leave it out"))
}

fn covers_but_for_ports(before: &Rule, rule: &Rule) -> bool {
    let place = match (before.is_of_sockets(), rule.is_of_sockets()) {
        (true, true) => before.cgroup.is_none() || before.cgroup == rule.cgroup,
        (false, false) => pattern::covers(&before.iface, &rule.iface),
        _ => false,
    };
    let holds = |wide, narrow| mapped_prefix(wide).contains(&mapped_prefix(narrow));
    place && holds(before.client, rule.client) && holds(before.server, rule.server)
}

/// Can no interface be called so?
fn unmatchable(rule: &Rule) -> Option<String> {
    if rule.is_of_sockets() {
        return None;
    }
    let iface = &rule.iface;
    let fixed = pattern::fixed_chars(iface);
    if iface == "lo" {
        return Some("never applies: the loopback interface is not controlled".into());
    }
    if iface == "." || iface == ".." || fixed.iter().any(|c| *c == '/' || c.is_whitespace()) {
        return Some(format!(
            "never applies: no interface can be called {iface:?}; `ip link` lists those that there are"
        ));
    }
    if pattern::shortest_match(iface) > LISTED_IFACE_CHARS || fixed.contains(&':') {
        return Some(format!(
            "{iface:?} can only be an alternative name (`ip link property`): names have at most {LISTED_IFACE_CHARS} characters, \
             alternative ones {IFACE_CHARS}, and only those can have a colon"
        ));
    }
    None
}

/// Has a prefix bits that do not count?
fn host_bits(key: &str, net: IpNet) -> Option<String> {
    (net.addr() != net.network()).then(|| {
        format!(
            "{key} = \"{net}\" is all of {}; write that, or \"{}\" for the one host",
            net.trunc(),
            net.addr()
        )
    })
}

/// Is it of connections between IPv4 and IPv6?
fn two_families(rule: &Rule) -> Option<String> {
    let (client, server) = (rule.client, rule.server);
    if client == anyone() || server == anyone() {
        return None;
    }
    let ipv4 = Ipv6Net::new_assert("::ffff:0:0".parse().expect("an address"), 96);
    let family = |net: IpNet| {
        let mapped = mapped_prefix(net);
        // a prefix of both is of either
        if mapped.contains(&ipv4) { None } else { Some(ipv4.contains(&mapped)) }
    };
    let differ = family(client).is_some_and(|is_ipv4| family(server).is_some_and(|other| other != is_ipv4));
    differ.then(|| {
        format!(
            "never applies: there is no connection between client = \"{client}\" and server = \"{server}\""
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::Policy;

    /// Warnings of rules with these lines each, as the rule's number and what is said of it.
    fn warnings(rules: &[&str]) -> Vec<(String, String)> {
        let rule = |(n, text): (usize, &&str)| {
            let algorithm = if text.contains("mode") { "" } else { "algorithm = \"bbr\"\n" };
            format!("[[rule]]\nname = \"{n}\"\n{algorithm}{text}\n")
        };
        let text: String = rules.iter().enumerate().map(rule).collect();
        let (_, warnings) = Policy::parse_with_warnings("p.toml", &text).expect("sound");
        warnings.into_iter().map(|w| (w.rule, w.what)).collect()
    }

    fn shadowed(rules: &[&str]) -> Vec<String> {
        warnings(rules)
            .into_iter()
            .filter(|(_, what)| what.contains("falls under"))
            .map(|(rule, _)| rule)
            .collect()
    }

    #[test]
    fn a_rule_is_shadowed_by_one_before_it_that_has_all_of_its_flows() {
        for shadows in [
            ["match.iface = \"tap*\"", "match.iface = \"tap1\""],
            ["match.iface = \"tap*\"", "match.iface = \"tap[12]*\""],
            ["match = {}", "match.iface = \"tap*\""],
            [
                "match = { iface = \"t\", client = \"10.0.0.0/8\" }",
                "match = { iface = \"t\", client = \"10.1.0.0/16\" }",
            ],
            ["match.client = \"0.0.0.0/0\"", "match.client = \"2001:db8::/32\""],
            ["match.server_port = [80, 443]", "match.server_port = 443"],
            [
                "mode = \"native\"\nalgorithm = \"reno\"",
                "mode = \"native\"\nalgorithm = \"reno\"\nmatch.cgroup = \"/a\"",
            ],
        ] {
            assert_eq!(shadowed(&shadows), ["1"], "{shadows:?}");
        }
        for not in [
            ["match.iface = \"tap1\"", "match.iface = \"tap*\""],
            ["match.iface = \"tap*\"", "match.iface = \"ta*\""],
            ["match.client = \"10.0.0.0/8\"", "match.server = \"10.0.0.0/8\""],
            ["match.server_port = 80", "match = {}"],
            ["match = {}", "mode = \"native\"\nalgorithm = \"reno\""],
        ] {
            assert!(shadowed(&not).is_empty(), "{not:?}");
        }
        let ports = |ports| format!("match.server_port = {ports}");
        let [one, other, both] = ["80", "443", "[80, 443]"].map(ports);
        assert_eq!(shadowed(&[&one, &other, &both]), ["2"], "by both together");
        assert!(shadowed(&[&one, &both]).is_empty());
    }

    #[test]
    fn warnings_have_the_line_and_what_it_is_shadowed_by() {
        let text =
            "[[rule]]\nname = \"all\"\nalgorithm = \"bbr\"\n\n[[rule]]\nname = \"late\"\nmode = \"off\"\n";
        let (policy, warnings) = Policy::parse_with_warnings("p.toml", text).expect("sound");
        assert_eq!((policy.rules.len(), warnings.len()), (2, 1));
        let said = warnings[0].to_string();
        assert!(
            said.starts_with("line 5: rule \"late\": ") && said.contains("rule \"all\" on line 1"),
            "{said}"
        );
    }

    #[test]
    fn a_pattern_that_no_interface_can_have_is_a_warning() {
        for (iface, why) in [
            ("a/b", "no interface can be called"),
            ("tap *", "no interface can be called"),
            ("..", "no interface can be called"),
            ("lo", "loopback"),
            ("abcdefghijklmnop", "at most 15"),
            ("eth0:1", "colon"),
        ] {
            let said = warnings(&[&format!("match.iface = \"{iface}\"")]);
            assert!(said.len() == 1 && said[0].1.contains(why), "{iface}: {said:?}");
        }
        for iface in ["abcdefghijklmno", "abcdefghijklmno*", "[ab]cdefghijklmno", "*", "l?"] {
            assert_eq!(warnings(&[&format!("match.iface = \"{iface}\"")]), [], "{iface}");
        }
    }

    #[test]
    fn a_prefix_with_bits_of_a_host_is_a_warning() {
        let said = warnings(&["match = { client = \"192.0.2.7/24\", server = \"2001:db8::1/64\" }"]);
        let all: Vec<&str> = said.iter().map(|(_, what)| what.as_str()).collect();
        assert!(
            all[0].contains("all of 192.0.2.0/24") && all[0].contains("\"192.0.2.7\" for the one host"),
            "{all:?}"
        );
        assert!(all[1].contains("all of 2001:db8::/64"), "{all:?}");
        assert!(all[2].contains("no connection between"), "{all:?}");
        assert_eq!(warnings(&["match = { client = \"192.0.2.7\", server = \"10.0.0.0/8\" }"]), []);
        assert_eq!(warnings(&["match = { client = \"192.0.2.7\", server = \"::/1\" }"]), []);
    }
}
