//! What `windlass flows` is limited to, in words as `ss` has them: `state controlled and dst 192.0.2.0/24 and sport 443`.

use crate::flow_table::Seen;
use anyhow::{Result, bail};
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use windlass_core::Algorithm;

/// What each term can begin with, and with what it goes on.
const TERMS: &str =
    "state WORD, rule NAME, iface NAME, alg NAME, src or dst PREFIX[:PORT], sport or dport PORT";

/// Words for `state`: those of the column, and those of the JSON document's `state` and `mode`.
const STATES: [&str; 9] =
    ["controlled", "bypass", "watched", "paces", "foreign", "off", "active", "transparent", "watch"];

/// All terms must hold.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Filter(Vec<Term>);

#[derive(Debug, PartialEq, Eq)]
struct Term {
    test: Test,
    /// It must not hold.
    is_not: bool,
}

/// Holds for any of what is listed.
#[derive(Debug, PartialEq, Eq)]
enum Test {
    State(Vec<String>),
    Rule(String),
    Iface(Vec<String>),
    Algorithm(Vec<String>),
    Sender(Vec<Host>),
    Receiver(Vec<Host>),
}

/// Addresses, a port, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Host {
    net: Option<IpNet>,
    port: Option<u16>,
}

impl Host {
    fn is_met_by(self, address: SocketAddr) -> bool {
        self.net.is_none_or(|net| net.contains(&address.ip()))
            && self.port.is_none_or(|port| port == address.port())
    }
}

impl Filter {
    /// The filter of these words, which may also be one that has them all.
    ///
    /// # Errors
    /// They are none; the message has what they can be.
    pub fn parse(words: &[String]) -> Result<Filter> {
        let split: Vec<String>;
        let mut words = match words {
            [all] if all.contains(char::is_whitespace) => {
                split = all.split_whitespace().map(String::from).collect();
                split.iter()
            }
            _ => words.iter(),
        };
        let mut terms = Vec::new();
        let mut is_due = false;
        while let Some(key) = words.next() {
            if key == "and" {
                if terms.is_empty() || is_due {
                    bail!("'and' stands between two terms: {TERMS}");
                }
                is_due = true;
                continue;
            }
            let mut value = words.next();
            let is_not = matches!(value.map(String::as_str), Some("!=" | "ne"));
            if is_not || matches!(value.map(String::as_str), Some("=" | "==" | "eq")) {
                value = words.next();
            }
            let test = test(key, value)?;
            terms.push(Term { test, is_not });
            is_due = false;
        }
        if is_due {
            bail!("nothing follows the last 'and'; a term can be: {TERMS}");
        }
        Ok(Filter(terms))
    }

    /// Does it let all flows through?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Does it let this flow through?
    pub fn is_met_by(&self, seen: &Seen) -> bool {
        self.0.iter().all(|term| term.test.is_met_by(seen) != term.is_not)
    }
}

fn test(key: &str, value: Option<&String>) -> Result<Test> {
    let has_key = ["state", "rule", "iface", "dev", "alg", "src", "dst", "sport", "dport"].contains(&key);
    if !has_key {
        bail!("'{key}' begins no term of a filter; a term can be: {TERMS}");
    }
    let Some(value) = value else { bail!("nothing follows '{key}'; a term can be: {TERMS}") };
    let list = || value.split(',').map(String::from).collect::<Vec<_>>();
    Ok(match key {
        "state" => Test::State(known("state", list(), &STATES)?),
        "rule" => Test::Rule(value.clone()),
        "iface" | "dev" => Test::Iface(list()),
        "alg" => Test::Algorithm(known(
            "algorithm",
            list(),
            &Algorithm::all().map(|a| a.name()).collect::<Vec<_>>(),
        )?),
        "src" => Test::Sender(each(&list(), host)?),
        "dst" => Test::Receiver(each(&list(), host)?),
        "sport" => Test::Sender(each(&list(), port)?),
        _ => Test::Receiver(each(&list(), port)?),
    })
}

fn each(list: &[String], parse: fn(&str) -> Option<Host>) -> Result<Vec<Host>> {
    let parse = |text: &String| match parse(text) {
        Some(host) => Ok(host),
        None => bail!(
            "'{text}' is none of these: 192.0.2.7, 192.0.2.0/24:443, [2001:db8::1]:443, :443; ports are 1 to 65535"
        ),
    };
    list.iter().map(parse).collect()
}

/// These words, each of which must be known.
fn known(what: &str, words: Vec<String>, all: &[&str]) -> Result<Vec<String>> {
    if let Some(unknown) = words.iter().find(|word| !all.contains(&word.as_str())) {
        bail!("unknown {what} '{unknown}'; known: {}", all.join(", "));
    }
    Ok(words)
}

/// `443` or, as `ss` prints it, `:443`.
fn port(text: &str) -> Option<Host> {
    let port = text.strip_prefix(':').unwrap_or(text).parse().ok().filter(|port| *port > 0)?;
    Some(Host { net: None, port: Some(port) })
}

/// An address or a prefix, with or without a port; IPv6 in brackets where a port follows.
fn host(text: &str) -> Option<Host> {
    let net = |text: &str| text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    if let Some(whole) = net(text) {
        return Some(Host { net: Some(whole), port: None });
    }
    let (address, rest) = text.rsplit_once(':')?;
    let port = match rest {
        "*" => None,
        _ => port(rest)?.port,
    };
    let net = match address {
        "" | "*" => None,
        // a prefix of IPv6 without brackets would be ambiguous
        _ if address.contains(':') => Some(net(&address.strip_prefix('[')?.replacen(']', "", 1))?),
        _ => Some(net(address)?),
    };
    Some(Host { net, port })
}

impl Test {
    fn is_met_by(&self, seen: &Seen) -> bool {
        let flow = &seen.flow;
        let meets = |hosts: &[Host], address| hosts.iter().any(|host| host.is_met_by(address));
        match self {
            Test::State(words) => words.iter().any(|word| is_in_state(seen, word)),
            Test::Rule(name) => seen.rule_name == *name,
            Test::Iface(names) => names.contains(&seen.iface),
            Test::Algorithm(names) => names.iter().any(|name| name == flow.algorithm),
            Test::Sender(hosts) => meets(hosts, flow.sender),
            Test::Receiver(hosts) => meets(hosts, flow.receiver),
        }
    }
}

fn is_in_state(seen: &Seen, word: &str) -> bool {
    match word {
        // whatever the reason is
        "watched" => seen.flow.mode == "watch",
        _ => [seen.state(), seen.flow.state, seen.flow.mode].contains(&word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_table::sample::{flow, seen};
    use windlass_agent::{FlowInfo, OnlyWatched};

    fn parse(text: &str) -> Result<Filter> {
        Filter::parse(&text.split(' ').map(String::from).collect::<Vec<_>>())
    }

    /// Does it let a controlled flow of rule "wan" from 192.0.2.1:80 to 198.51.100.1:40000 through?
    fn lets_through(text: &str) -> bool {
        parse(text).unwrap().is_met_by(&seen(flow(40_000)))
    }

    #[test]
    fn a_filter_is_met_where_all_of_its_terms_are() {
        for yes in [
            "state controlled",
            "state active and rule wan",
            "state bypass,controlled",
            "state != off",
            "iface tap0 and alg bbr,cubic",
            "src 192.0.2.1",
            "src 192.0.2.0/24:80 and dst 198.51.100.0/24",
            "dst :40000",
            "dst *:40000",
            "sport 80 dport = :40000",
            "sport eq 443,80",
            "dport != 443",
        ] {
            assert!(lets_through(yes), "{yes}");
        }
        for no in [
            "state bypass",
            "state watched",
            "state controlled and rule lan",
            "rule != wan",
            "iface tap1",
            "src 198.51.100.1",
            "dst 198.51.100.1:80",
            "sport 443",
            "dst 2001:db8::/32",
        ] {
            assert!(!lets_through(no), "{no}");
        }
        assert!(Filter::parse(&[]).unwrap().is_empty());
        let quoted = Filter::parse(&["state controlled and sport 80".into()]).unwrap();
        assert!(quoted.is_met_by(&seen(flow(1))));
    }

    #[test]
    fn a_filter_for_watched_flows_lets_them_through_whatever_the_reason() {
        let only = seen(FlowInfo { mode: "watch", only_watched: Some(OnlyWatched::Foreign), ..flow(1) });
        for word in ["watched", "watch", "foreign"] {
            assert!(parse(&format!("state {word}")).unwrap().is_met_by(&only), "{word}");
        }
        assert!(!parse("state paces").unwrap().is_met_by(&only));
    }

    #[test]
    fn a_filter_has_ipv6_in_brackets_where_a_port_follows() {
        let all: Vec<Option<Host>> =
            ["[2001:db8::1]:443", "[2001:db8::]/32:443", "2001:db8::/32", "fe80::1:443"].map(host).to_vec();
        let of = |net: &str, port| Some(Host { net: Some(net.parse().unwrap()), port });
        assert_eq!(all[..2], [of("2001:db8::1/128", Some(443)), of("2001:db8::/32", Some(443))]);
        assert_eq!(all[2..], [of("2001:db8::/32", None), of("fe80::1:443/128", None)]);
        assert_eq!(
            ["", "a", "1.2.3.4:0", "1.2.3.4:70000", "2001:db8::/32:443", "[1.2.3.4"].map(host),
            [None; 6]
        );
    }

    #[test]
    fn a_filter_that_is_none_is_refused_with_what_it_can_be() {
        for (text, why) in [
            ("tap0", "'tap0' begins no term"),
            ("state", "nothing follows 'state'"),
            ("state open", "unknown state 'open'; known: controlled"),
            ("alg vegas", "unknown algorithm 'vegas'; known: reno"),
            ("sport http", "'http' is none of these"),
            ("dst 192.0.2", "'192.0.2' is none of these"),
            ("and state off", "'and' stands between"),
            ("state off and", "nothing follows the last 'and'"),
            ("state off and and rule wan", "'and' stands between"),
        ] {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
