//! The network that hosts, switches and links make while a file is read.

use crate::{
    Buffer, Host, Link, Span, Switch, discipline, impairments,
    net::check_length,
    topology::{self, RawSwitch, RawTopology},
};
use std::collections::BTreeMap;

/// Longest one-way delay and jitter: longer than any path on Earth, and short enough for TCP to connect.
const MAX_DELAY_S: f64 = 10.0;
const MAX_RATE_BPS: f64 = 1e13;
const MAX_NAME_CHARS: usize = 32;

/// A bare acknowledgement with timestamps.
const SHORTEST_BYTES: u64 = 66;

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
#[derive(Debug)]
pub(crate) struct NetBuilder {
    /// Numbers of the hosts.
    pub names: BTreeMap<String, usize>,
    pub hosts: Vec<Host>,
    pub switches: Vec<Switch>,
    pub links: Vec<Link>,
    /// A full packet of the hosts, link-layer header included.
    packet_bytes: u64,
}

impl NetBuilder {
    /// No network yet, for hosts whose full packets have `packet_bytes`, link-layer header included.
    pub fn new(packet_bytes: u64) -> NetBuilder {
        NetBuilder {
            names: BTreeMap::new(),
            hosts: Vec::new(),
            switches: Vec::new(),
            links: Vec::new(),
            packet_bytes,
        }
    }

    /// Adds a whole network.
    pub fn lay_out(&mut self, topology: &RawTopology) -> Result<(), String> {
        let plan = topology.plan(self.packet_bytes)?;
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
        self.switches.push(switch.into_switch(self.packet_bytes)?);
        Ok(())
    }

    pub fn add_links(&mut self, link: Link) -> Result<(), String> {
        let links = topology::links_of(link, &self.names)?;
        links.into_iter().try_for_each(|link| self.add_link(link))
    }

    fn add_link(&mut self, mut link: Link) -> Result<(), String> {
        link.packet_bytes = self.packet_bytes;
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
        let of_switch = |s: &Switch| s.ports.discipline.is_some();
        let has_discipline =
            link.discipline.is_some() || link.ack_filter || self.switches.iter().any(of_switch);
        for (backward, from) in [false, true].into_iter().zip(&link.between).filter(|_| has_discipline) {
            let of_switch = self.switches.iter().find(|s| s.name == *from);
            // of a switch, it is only for what has a rate
            let key = if link.ack_filter { "ack_filter" } else { "discipline" };
            let has_own = link.ack_filter || link.discipline.is_some();
            if has_own && of_switch.is_some_and(|s| s.ports.shared_buffer.is_some()) {
                return Err(format!(
                    "{key}: switch \"{from}\" has a shared_buffer, which its ports share without one; leave one of them out"
                ));
            }
            discipline::check(&link.port(backward, &self.switches))?;
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
    for (key, value) in [("delay", link.delay), ("jitter", link.jitter())] {
        if value.0 > MAX_DELAY_S {
            return Err(format!("{key} = \"{value}\": at most {}", Span(MAX_DELAY_S)));
        }
    }
    if link.reorder && link.jitter().0 <= 0.0 {
        return Err("reorder: only jitter reorders; give a jitter".into());
    }
    if link.rate_back.is_some() && link.rate.is_none() {
        return Err("rate_back without a rate: what is it forward? Give a rate".into());
    }
    if link.rate_back.is_some_and(|r| !(1e4..=MAX_RATE_BPS).contains(&r.0)) {
        return Err("rate_back: 10 kbit/s to 10000 Gbit/s".into());
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
    impairments::check(link)?;
    for (key, buffer) in [("buffer", link.buffer), ("ecn", link.ecn)] {
        check_buffer(key, buffer, link)?;
        if buffer.is_some() && link.rate.is_none() {
            return Err(format!("{key} without a rate: nothing ever queues; give a rate"));
        }
    }
    Ok(())
}

/// A length of queue on a link.
pub(crate) fn check_buffer(key: &str, buffer: Option<Buffer>, link: &Link) -> Result<(), String> {
    check_length(key, buffer, link.packet_bytes)?;
    match buffer {
        Some(Buffer::Bdp(_)) if link.rate.is_none() || link.delay.0 <= 0.0 => {
            Err(format!("{key} in BDP needs a rate and a delay; give both, or bytes or packets"))
        }
        _ => Ok(()),
    }
}
