//! Hosts, links and queues, and the network that they make while a file is read.

use crate::{
    Bytes, Fraction, Rate, Span, Switch, pair,
    topology::{self, RawSwitch, RawTopology},
    units,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// A machine: end system or router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a host: a table with its name")]
pub struct Host {
    /// Its name.
    pub name: String,
}

/// A link between two hosts. Without a rate it is a plain cable, as fast as the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a link: a table with between, and rate, delay and so on")]
pub struct Link {
    /// The two hosts; "forward" is from the first to the second.
    #[serde(deserialize_with = "pair::array")]
    pub between: [String; 2],
    /// Rate in each direction.
    pub rate: Option<Rate>,
    /// One-way propagation delay.
    #[serde(default)]
    pub delay: Span,
    /// Drop-tail buffer in front of each direction; none: unlimited.
    pub buffer: Option<Buffer>,
    /// Random loss forward, behind the bottleneck.
    #[serde(default)]
    pub loss: Fraction,
    /// Random loss backward.
    #[serde(default)]
    pub loss_back: Fraction,
    /// Bursty loss forward, instead of `loss`.
    pub bursts: Option<GilbertElliott>,
    /// Additional random delay, uniform from 0.
    #[serde(default)]
    pub jitter: Span,
    /// Whether jitter may reorder packets.
    #[serde(default)]
    pub reorder: bool,
    /// ECN-capable packets are marked when the queue is longer than this.
    pub ecn: Option<Buffer>,
}

/// Two-state loss model (Gilbert 1960, Elliott 1963), judged per packet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "shares in braces, e.g. { to_bad = \"1 %\", to_good = \"25 %\", loss_bad = \"50 %\" }"
)]
pub struct GilbertElliott {
    /// Probability of turning bad.
    pub to_bad: Fraction,
    /// Probability of turning good again.
    pub to_good: Fraction,
    /// Loss while bad.
    pub loss_bad: Fraction,
    /// Loss while good.
    #[serde(default)]
    pub loss_good: Fraction,
}

impl GilbertElliott {
    /// Loss in the long run.
    pub fn mean(&self) -> f64 {
        let bad = self.to_bad.0 / (self.to_bad.0 + self.to_good.0);
        bad * self.loss_bad.0 + (1.0 - bad) * self.loss_good.0
    }
}

/// A length of queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Buffer {
    /// In packets.
    Packets(u64),
    /// In bytes.
    Bytes(u64),
    /// In bandwidth-delay products of the link (rate times twice its delay).
    Bdp(f64),
}

impl FromStr for Buffer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("\"{text}\": {what}; lengths of queues are {LENGTHS}");
        let (number, unit) = units::split(text).map_err(|what| wrong(&what))?;
        let most = match unit {
            "BDP" => BDP_MOST,
            "packets" => PACKETS_MOST,
            _ => {
                let bytes: Result<Bytes, _> = text.parse();
                return bytes
                    .map(|b| Buffer::Bytes(b.count()))
                    .map_err(|_| wrong("neither BDP nor packets nor bytes"));
            }
        };
        if number > most {
            return Err(wrong(&format!("at most {most} {unit}")));
        }
        match unit {
            "BDP" => Ok(Buffer::Bdp(number)),
            _ if number.fract() > 0.0 => Err(wrong("packets are whole")),
            _ => Ok(Buffer::Packets(number as u64)),
        }
    }
}

/// How one is written.
const LENGTHS: &str = "e.g. \"1 BDP\", \"100 packets\" or \"64 kB\"";
/// More than any queue has, and few enough to count with.
const PACKETS_MOST: f64 = 1e12;
const BDP_MOST: f64 = 1e6;

impl<'de> Deserialize<'de> for Buffer {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Buffer;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(f, "a length of queue in quotes, {LENGTHS}")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Buffer, E> {
                text.parse().map_err(E::custom)
            }
        }

        d.deserialize_str(Text)
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Buffer::Packets(n) => write!(f, "{n} packets"),
            Buffer::Bytes(n) => write!(f, "{n} B"),
            Buffer::Bdp(n) => write!(f, "{n} BDP"),
        }
    }
}

impl Serialize for Buffer {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl Link {
    /// A plain cable.
    pub fn cable(between: [String; 2]) -> Link {
        Link {
            between,
            rate: None,
            delay: Span(0.0),
            buffer: None,
            loss: Fraction(0.0),
            loss_back: Fraction(0.0),
            bursts: None,
            jitter: Span(0.0),
            reorder: false,
            ecn: None,
        }
    }

    /// A buffer of this link in bytes or packets; a BDP needs a rate and a delay, which check() has made sure of.
    pub fn resolve(&self, buffer: Buffer) -> Buffer {
        // drop-tail of less than ten packets cannot carry an initial window
        self.resolve_from(buffer, 10 * PACKET_BYTES)
    }

    /// The same of the length of queue from which it marks.
    pub fn resolve_ecn(&self, ecn: Buffer) -> Buffer {
        self.resolve_from(ecn, PACKET_BYTES)
    }

    fn resolve_from(&self, length: Buffer, least_bytes: u64) -> Buffer {
        match (length, self.rate) {
            (Buffer::Bdp(n), Some(rate)) => {
                Buffer::Bytes(((rate.0 / 8.0 * 2.0 * self.delay.0 * n) as u64).max(least_bytes))
            }
            (other, _) => other,
        }
    }

    /// A direction with the queue that it has there: the link's own, or else that of the switch which it leaves.
    pub(crate) fn port(&self, backward: bool, switches: &[Switch]) -> Link {
        let from = &self.between[usize::from(backward)];
        let mut port = self.clone();
        if let Some(switch) = switches.iter().find(|s| s.name == *from).filter(|_| self.rate.is_some()) {
            port.buffer = self.buffer.or(switch.ports.port_buffer);
            port.ecn = self.ecn.or(switch.ports.ecn);
        }
        port
    }

    /// Does the link need the emulator?
    pub fn is_emulated(&self) -> bool {
        let Link { rate, delay, loss, loss_back, bursts, jitter, .. } = self;
        rate.is_some()
            || bursts.is_some()
            || [delay.0, jitter.0, loss.0, loss_back.0].iter().any(|value| *value > 0.0)
    }
}

/// A full one, with its Ethernet header.
const PACKET_BYTES: u64 = 1514;
/// A bare acknowledgement with timestamps.
const SHORTEST_BYTES: u64 = 66;

/// Longest one-way delay and jitter: longer than any path on Earth, and short enough for TCP to connect.
const MAX_DELAY_S: f64 = 10.0;
const MAX_RATE_BPS: f64 = 1e13;
const MAX_NAME_CHARS: usize = 32;

/// Most names that a message lists.
const LISTED: usize = 12;

/// Whether there is a host of this name; an error begins with the key.
pub(crate) fn known(names: &BTreeMap<String, usize>, key: &str, name: &str) -> Result<(), String> {
    if names.contains_key(name) {
        return Ok(());
    }
    let mut list: Vec<_> = names.keys().take(LISTED).map(String::as_str).collect();
    if names.len() > LISTED {
        list.push("...");
    }
    Err(format!("{key}: unknown host \"{name}\"; hosts are {}", list.join(", ")))
}

/// Hosts, switches and links while they are read.
#[derive(Debug, Default)]
pub(crate) struct Net {
    /// Numbers of the hosts.
    pub names: BTreeMap<String, usize>,
    pub hosts: Vec<Host>,
    pub switches: Vec<Switch>,
    pub links: Vec<Link>,
}

impl Net {
    /// Adds a whole network.
    pub fn lay_out(&mut self, topology: &RawTopology) -> Result<(), String> {
        let plan = topology.plan()?;
        plan.hosts.into_iter().try_for_each(|name| self.add_host(name))?;
        for switch in plan.switches {
            self.add_host(switch.name.clone())?;
            self.switches.push(switch);
        }
        for (key, link) in plan.links {
            self.add_link(link).map_err(|what| format!("{key}: {what}"))?;
        }
        Ok(())
    }

    pub fn add_host(&mut self, name: String) -> Result<(), String> {
        check_host(&name)?;
        if self.names.insert(name.clone(), self.hosts.len()).is_some() {
            return Err(format!("name: host \"{name}\" is there twice; rename one"));
        }
        self.hosts.push(Host { name });
        Ok(())
    }

    pub fn add_switch(&mut self, switch: RawSwitch) -> Result<(), String> {
        self.add_host(switch.name.clone())?;
        self.switches.push(switch.into_switch()?);
        Ok(())
    }

    pub fn add_links(&mut self, link: Link) -> Result<(), String> {
        let links = topology::links_of(link, &self.names)?;
        links.into_iter().try_for_each(|link| self.add_link(link))
    }

    fn add_link(&mut self, link: Link) -> Result<(), String> {
        check_link(&link, &|key, name| known(&self.names, key, name))?;
        let is_without_bdp = link.rate.is_some() && link.delay.0 <= 0.0;
        for switch in self.switches.iter().filter(|s| is_without_bdp && link.between.contains(&s.name)) {
            for (key, buffer) in [("port_buffer", switch.ports.port_buffer), ("ecn", switch.ports.ecn)] {
                if matches!(buffer, Some(Buffer::Bdp(_))) {
                    let name = &switch.name;
                    return Err(format!(
                        "delay: none, and {key} of switch \"{name}\" is in BDP; give one, or {key} in bytes or packets"
                    ));
                }
            }
        }
        check_marks(&link).map_err(|what| format!("ecn: {what}"))?;
        // what has a key about its queue may be a port that only drops
        if link.rate.is_some() && link.buffer.is_none() && link.ecn.is_none() {
            for (backward, from) in [false, true].into_iter().zip(&link.between) {
                check_marks(&link.port(backward, &self.switches))
                    .map_err(|what| format!("ecn of switch \"{from}\": {what}"))?;
            }
        }
        self.links.push(link);
        Ok(())
    }
}

/// Whether a queue can be longer than that from which a link marks when something still finds room behind it. Lengths in different
/// units are not compared.
fn check_marks(link: &Link) -> Result<(), String> {
    let (Some(ecn), Some(buffer)) = (link.ecn, link.buffer) else { return Ok(()) };
    let is_full = match (link.resolve_ecn(ecn), link.resolve(buffer)) {
        (Buffer::Packets(ecn), Buffer::Packets(buffer)) => ecn + 1 >= buffer,
        (Buffer::Bytes(ecn), Buffer::Bytes(buffer)) => ecn + SHORTEST_BYTES >= buffer,
        _ => false,
    };
    if is_full {
        return Err(format!(
            "nothing is ever marked behind {ecn} in a buffer of {buffer}, which is full by then; have ecn at least two packets \
             below the buffer"
        ));
    }
    Ok(())
}

pub(crate) type Known<'a> = &'a dyn Fn(&str, &str) -> Result<(), String>;

fn check_host(name: &str) -> Result<(), String> {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(is_fine) {
        return Err(format!("name = {name:?}: 1 to {MAX_NAME_CHARS} letters, digits and hyphens"));
    }
    Ok(())
}

fn check_link(link: &Link, known: Known) -> Result<(), String> {
    let [a, b] = &link.between;
    known("between", a)?;
    known("between", b)?;
    if a == b {
        return Err(format!("between: a link from \"{a}\" to itself"));
    }
    for (key, value) in [("delay", link.delay), ("jitter", link.jitter)] {
        if value.0 > MAX_DELAY_S {
            return Err(format!("{key} = \"{value}\": at most {}", Span(MAX_DELAY_S)));
        }
    }
    if link.reorder && link.jitter.0 <= 0.0 {
        return Err("reorder: only jitter reorders; give a jitter".into());
    }
    if link.rate.is_some_and(|r| r.0 < 1e4) {
        return Err("rate: at least 10 kbit/s; leave it out for a plain cable".into());
    }
    if link.rate.is_some_and(|r| r.0 > MAX_RATE_BPS) {
        return Err("rate: at most 10000 Gbit/s; leave it out for a plain cable".into());
    }
    for (key, value) in [("loss", link.loss), ("loss_back", link.loss_back)] {
        if !(0.0..=1.0).contains(&value.0) {
            return Err(format!("{key} = \"{value}\": 0 % to 100 %"));
        }
    }
    if let Some(g) = link.bursts {
        for (key, value) in [
            ("to_bad", g.to_bad),
            ("to_good", g.to_good),
            ("loss_bad", g.loss_bad),
            ("loss_good", g.loss_good),
        ] {
            if !(0.0..=1.0).contains(&value.0) {
                return Err(format!("bursts.{key} = \"{value}\": 0 % to 100 %"));
            }
        }
        if g.to_good.0 == 0.0 {
            return Err("bursts.to_good = 0 %: the link would never recover".into());
        }
        if link.loss.0 > 0.0 {
            return Err("loss and bursts exclude each other".into());
        }
    }
    for (key, buffer) in [("buffer", link.buffer), ("ecn", link.ecn)] {
        check_buffer(key, buffer, link)?;
        if buffer.is_some() && link.rate.is_none() {
            return Err(format!("{key} without a rate: nothing ever queues; give a rate"));
        }
    }
    Ok(())
}

/// A length of queue on a link.
fn check_buffer(key: &str, buffer: Option<Buffer>, link: &Link) -> Result<(), String> {
    check_length(key, buffer)?;
    match buffer {
        Some(Buffer::Bdp(_)) if link.rate.is_none() || link.delay.0 <= 0.0 => {
            Err(format!("{key} in BDP needs a rate and a delay; give both, or bytes or packets"))
        }
        _ => Ok(()),
    }
}

/// A length of queue by itself.
pub(crate) fn check_length(key: &str, buffer: Option<Buffer>) -> Result<(), String> {
    match buffer {
        Some(Buffer::Bdp(n)) if !n.is_finite() || n <= 0.0 => Err(format!("{key}: more than 0 BDP")),
        Some(Buffer::Bytes(n)) if n < PACKET_BYTES => Err(format!("{key}: at least one packet of 1514 B")),
        Some(Buffer::Packets(0)) => Err(format!("{key}: at least 1 packet")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_queues_are_written_as_other_quantities() {
        assert_eq!("1.5 BDP".parse(), Ok(Buffer::Bdp(1.5)));
        assert_eq!("100packets".parse(), Ok(Buffer::Packets(100)));
        assert_eq!("64 kB".parse(), Ok(Buffer::Bytes(64_000)));
        for (text, what) in [
            ("1e20 packets", "without an exponent"),
            ("1e3 BDP", "without an exponent"),
            ("1e3 kB", "without an exponent"),
            ("-1 packets", "below 0"),
            ("-1 BDP", "below 0"),
            ("inf BDP", "does not begin with a number"),
            ("nan packets", "does not begin with a number"),
            ("100000000000000000000 packets", "at most"),
            ("1.5 packets", "packets are whole"),
            ("7 frames", "neither BDP nor packets nor bytes"),
        ] {
            let e = text.parse::<Buffer>().unwrap_err();
            assert!(
                e.contains(text) && e.contains(what) && e.contains("\"100 packets\" or \"64 kB\""),
                "{e}"
            );
        }
    }
}
