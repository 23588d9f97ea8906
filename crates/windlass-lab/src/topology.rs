//! Namespaces, cables, emulated links, addresses and routes of a scenario.

use crate::{
    leftovers::clean_leftovers,
    link_emulator::Emulator,
    netem,
    netns::{self, Netns},
    stop::check_stopped,
    tcp,
    tun::Framing,
    wan::{Wan, Wire},
};
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    net::IpAddr,
    num::NonZeroU64,
    sync::atomic::AtomicBool,
};
use windlass_scenario::{Link, LinkModel, LinkStats, Scenario};

/// A network that is up.
#[derive(Debug)]
pub struct Topology {
    hosts: BTreeMap<String, Netns>,
    links: Vec<Link>,
    /// Which links are emulated, in the order in which the emulator has them.
    emulated: Vec<usize>,
    wan: Option<Wan>,
    family: Family,
    emulator: Emulator,
}

/// Which Internet Protocol the hosts have addresses of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Address of end `side` of link `link`.
    fn address(self, link: usize, side: usize) -> String {
        match self {
            Family::V4 => format!("10.77.{link}.{}", side + 1),
            Family::V6 => format!("fd77:0:0:{link:x}::{}", side + 1),
        }
    }

    /// Of `ip`.
    fn flag(self) -> &'static str {
        if self == Family::V4 { "-4" } else { "-6" }
    }

    fn forwarding(self) -> &'static str {
        match self {
            Family::V4 => "/proc/sys/net/ipv4/ip_forward",
            Family::V6 => "/proc/sys/net/ipv6/conf/all/forwarding",
        }
    }
}

/// Device of end `side` of link `link`; the same on both hosts unless it is a cable.
fn device(link: usize, side: usize) -> String {
    format!("l{link}{}", if side == 0 { "a" } else { "b" })
}

/// Congestion control of a host by peer: of what it sends, and of what it receives where that takes part. There is one for
/// each peer, which has been checked.
fn algorithms<'a>(scenario: &'a Scenario, host: &str) -> BTreeMap<&'a str, &'a str> {
    let mut algorithms = BTreeMap::new();
    for flow in &scenario.flows {
        let peer = match host {
            h if h == flow.from => flow.to.as_str(),
            h if h == flow.to && tcp::needs_ecn(&flow.algorithm) => flow.from.as_str(),
            _ => continue,
        };
        algorithms.entry(peer).or_insert(flow.algorithm.as_str());
    }
    algorithms
}

/// Whether no program measures round trips there: neither a sender nor Windlass.
fn is_timeless(scenario: &Scenario, host: &str) -> bool {
    let is_box = scenario.windlass.as_ref().is_some_and(|w| w.at == host);
    !is_box && scenario.flows.iter().all(|flow| flow.from != host)
}

/// What end `side` of an emulated link needs: Windlass' programs read Ethernet headers on the box's interface.
fn framing(scenario: &Scenario, link: &Link, side: usize) -> Framing {
    let [at, facing] = [&link.between[side], &link.between[1 - side]];
    let is_boxed = scenario.windlass.as_ref().is_some_and(|w| w.at == *at && w.facing == *facing);
    if is_boxed { Framing::Ethernet } else { Framing::Ip }
}

impl Topology {
    /// Builds the network. `spin_us`: how long emulators may spin for exactness.
    pub fn create(scenario: &Scenario, spin_us: u64, family: Family) -> Result<Topology> {
        Topology::create_by(scenario, Emulator::Own, spin_us, family, None)
    }

    /// The same with links by `emulator`; `spin_us` is for our own. Gives up once `cancel` is set.
    pub(crate) fn create_by(
        scenario: &Scenario,
        emulator: Emulator,
        spin_us: u64,
        family: Family,
        cancel: Option<&AtomicBool>,
    ) -> Result<Topology> {
        emulator.check(scenario).with_context(|| scenario.name.clone())?;
        clean_leftovers();
        let run = netns::next_run();
        let mut hosts = BTreeMap::new();
        for host in &scenario.hosts {
            check_stopped(cancel)?;
            hosts.insert(host.name.clone(), Netns::create(run, &host.name)?);
        }
        let links = scenario.links.clone();
        let mut topology = Topology { hosts, links, emulated: Vec::new(), wan: None, family, emulator };
        let mut wires = Vec::new();
        for index in 0..topology.links.len() {
            check_stopped(cancel)?;
            let models = [false, true].map(|backward| scenario.link_model(index, backward));
            let framings = [0, 1].map(|side| framing(scenario, &scenario.links[index], side));
            if let Some(wire) = topology.connect(index, models, framings)? {
                topology.emulated.push(index);
                let ends = &scenario.links[index].between;
                let ports = [false, true].map(|backward| {
                    (scenario.port(index, backward), scenario.discipline_seed(index, backward))
                });
                let wire = wire.with_disciplines(ports);
                wires.push(wire.with_timeless([0, 1].map(|side: usize| is_timeless(scenario, &ends[side]))));
            }
            if emulator == Emulator::Netem {
                topology.shape(index, [false, true].map(|backward| scenario.port(index, backward)))?;
            }
        }
        if !wires.is_empty() {
            topology.wan = Some(Wan::start(wires, spin_us)?);
        }
        for host in &scenario.hosts {
            check_stopped(cancel)?;
            let algorithms = algorithms(scenario, &host.name);
            topology.route(&host.name, &algorithms, &tcp::route_words(&scenario.tcp))?;
            topology.set(&host.name, &tcp::settings(&scenario.tcp))?;
        }
        topology.set_devices(&tcp::device_words(&scenario.tcp))?;
        Ok(topology)
    }

    /// The namespace of a host, which the scenario has been checked to have.
    pub fn host(&self, name: &str) -> &Netns {
        &self.hosts[name]
    }

    /// Where `to` can be reached.
    pub fn address_of(&self, host: &str) -> String {
        let (link, side) = self.first_end(host);
        self.family.address(link, side)
    }

    /// The interface of `at` that leads to its neighbour `facing`.
    pub fn interface(&self, at: &str, facing: &str) -> Result<String> {
        let link = self
            .links
            .iter()
            .position(|l| l.between.iter().any(|h| h == at) && l.between.iter().any(|h| h == facing))
            .with_context(|| format!("no link between {at} and {facing}"))?;
        Ok(device(link, usize::from(self.links[link].between[1] == at)))
    }

    /// The longest burst of a connection from one host to another, in segments, at whatever emulated link; 0: none has come to
    /// one, none: there is no such link.
    pub fn longest_burst_segs(&self, from: &str, to: &str) -> Option<u32> {
        let pair = [from, to].map(|host| self.address_of(host).parse::<IpAddr>().ok());
        let [Some(from), Some(to)] = pair else { return None };
        let longest = self.wan.as_ref()?.longest_bursts();
        Some(longest.get(&[from, to]).copied().unwrap_or(0))
    }

    /// Has the emulator look at all queues in intervals of this length from now on.
    pub fn begin_looks(&self, every_ns: NonZeroU64) {
        if let Some(wan) = &self.wan {
            wan.begin_looks(every_ns);
        }
    }

    /// Packets that queued or were being sent at each look, of each direction that is reported; none of links that the kernel plays.
    pub fn looks(&self) -> Vec<Vec<u32>> {
        self.wan.iter().flat_map(Wan::looks).flatten().collect()
    }

    /// Takes the network down; returns the statistics of the emulated links by their index.
    pub fn finish(mut self) -> Result<Vec<(usize, [LinkStats; 2])>> {
        let mut dropped = Vec::new();
        let mut by_netem = Vec::new();
        for &index in &self.emulated {
            let between = &self.links[index].between;
            let of = |side: usize| self.hosts[&between[side]].sending_drops(&device(index, side));
            dropped.push([of(0)?, of(1)?]);
            if self.emulator == Emulator::Netem {
                let stats = |side: usize| netem::stats(&self.hosts[&between[side]], &device(index, side));
                by_netem.push([stats(0)?, stats(1)?]);
            }
        }
        let mut all = self.wan.take().map_or(Ok(by_netem), Wan::finish)?;
        for (stats, dropped) in all.iter_mut().flatten().zip(dropped.into_iter().flatten()) {
            stats.drops_device = dropped;
        }
        Ok(self.emulated.iter().copied().zip(all).collect())
    }

    fn set_devices(&self, words: &[String]) -> Result<()> {
        if words.is_empty() {
            return Ok(());
        }
        for (index, link) in self.links.iter().enumerate() {
            for (side, host) in link.between.iter().enumerate() {
                let device = device(index, side);
                let words = words.iter().map(String::as_str);
                let all: Vec<&str> = ["ip", "link", "set", &device].into_iter().chain(words).collect();
                self.hosts[host].run(&all)?;
            }
        }
        Ok(())
    }

    fn first_end(&self, host: &str) -> (usize, usize) {
        self.links
            .iter()
            .enumerate()
            .find_map(|(i, l)| l.between.iter().position(|h| h == host).map(|side| (i, side)))
            .unwrap_or((0, 0))
    }

    /// Makes the ends of a link; the emulator is yet to connect those of an emulated one.
    fn connect(&self, index: usize, models: [LinkModel; 2], framings: [Framing; 2]) -> Result<Option<Wire>> {
        let link = &self.links[index];
        let ends = [&self.hosts[&link.between[0]], &self.hosts[&link.between[1]]];
        let names = [device(index, 0), device(index, 1)];
        let mut wire = None;
        if link.is_emulated() && self.emulator == Emulator::Own {
            wire = Some(Wire::open_framed(models, ends, [&names[0], &names[1]], framings)?);
        } else {
            ends[0].run(&[
                "ip",
                "link",
                "add",
                &names[0],
                "type",
                "veth",
                "peer",
                "name",
                &names[1],
                "netns",
                ends[1].name(),
            ])?;
        }
        for (side, name) in names.iter().enumerate() {
            let host = &self.hosts[&link.between[side]];
            host.run(&["ip", "link", "set", name, "up"])?;
            let (own, peer) = (self.family.address(index, side), self.family.address(index, 1 - side));
            match self.family {
                Family::V4 => {
                    host.run(&["ip", "addr", "add", &own, "peer", &format!("{peer}/32"), "dev", name])?;
                }
                // the address is unique by construction: there is no need to wait until that is detected
                Family::V6 => {
                    host.run(&["ip", "addr", "add", &format!("{own}/64"), "dev", name, "nodad"])?;
                }
            }
        }
        Ok(wire)
    }

    /// Has the kernel play a link, whose directions are these; a cable only gets packets as they are on a wire.
    fn shape(&mut self, index: usize, ports: [Link; 2]) -> Result<()> {
        let is_emulated = self.links[index].is_emulated();
        for (side, port) in ports.iter().enumerate() {
            let host = &self.hosts[&port.between[side]];
            netem::send_single_packets(host, &device(index, side))?;
            if is_emulated {
                netem::shape(host, &device(index, side), port, side == 1)?;
            }
        }
        if is_emulated {
            self.emulated.push(index);
        }
        Ok(())
    }

    /// Routes from `host` to every other end. A sender's routes carry its congestion control: the way to choose one
    /// without touching its servers or any global setting.
    /// `more`: further words for each of its routes.
    fn route(&self, host: &str, algorithms: &BTreeMap<&str, &str>, more: &[String]) -> Result<()> {
        let ns = &self.hosts[host];
        // end systems keep their defaults: only what has two links is a router
        if self.links.iter().filter(|l| l.between.iter().any(|h| h == host)).count() > 1 {
            ns.enter(|| fs::write(self.family.forwarding(), "1").context(self.family.forwarding()))?;
        }
        let hops = self.next_hops(host);
        for (link, ends) in self.links.iter().enumerate() {
            for (side, end) in ends.between.iter().enumerate() {
                let Some(&dev_link) = hops.get(end.as_str()) else { continue };
                let dev_side = usize::from(self.links[dev_link].between[1] == host);
                let dev = device(dev_link, dev_side);
                let target = self.family.address(link, side);
                let gateway = self.family.address(dev_link, 1 - dev_side);
                let mut words = vec!["ip", self.family.flag(), "route", "replace", &target];
                if target != gateway {
                    words.extend(["via", &gateway]);
                }
                let own = self.family.address(dev_link, dev_side);
                words.extend(["dev", &dev, "src", &own]);
                if let Some(algorithm) = algorithms.get(end.as_str()) {
                    words.extend(["congctl", algorithm]);
                }
                words.extend(more.iter().map(String::as_str));
                ns.run(&words).with_context(|| format!("routes of {host}"))?;
            }
        }
        Ok(())
    }

    fn set(&self, host: &str, settings: &[(&str, String)]) -> Result<()> {
        self.hosts[host].enter(|| {
            settings.iter().try_for_each(|(name, value)| {
                let file = format!("/proc/sys/net/ipv4/{name}");
                fs::write(&file, value).with_context(|| format!("{file}, which {host} is to have"))
            })
        })
    }

    /// For every other host: the link to leave by (breadth first).
    fn next_hops<'a>(&'a self, from: &'a str) -> BTreeMap<&'a str, usize> {
        let mut hops: BTreeMap<&str, usize> = BTreeMap::new();
        let mut open = VecDeque::from([from]);
        while let Some(at) = open.pop_front() {
            for (index, link) in self.links.iter().enumerate() {
                let Some(side) = link.between.iter().position(|h| h == at) else { continue };
                let next = link.between[1 - side].as_str();
                if next == from || hops.contains_key(next) {
                    continue;
                }
                let hop = if at == from { index } else { hops[at] };
                hops.insert(next, hop);
                open.push_back(next);
            }
        }
        hops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_box_has_a_tap_device_where_it_faces_the_servers() {
        let text = "name = \"t\"\n[[host]]\nname = \"server\"\n[[host]]\nname = \"box\"\n[[host]]\nname = \"client\"\n\
            [[link]]\nbetween = [\"server\", \"box\"]\ndelay = \"1 ms\"\n\
            [[link]]\nbetween = [\"box\", \"client\"]\ndelay = \"1 ms\"\n\
            [[flow]]\nfrom = \"server\"\nto = \"client\"\nsize = \"1 kB\"\n";
        let framings = |rest: &str| {
            let scenario = Scenario::parse("t", &format!("{text}{rest}")).unwrap_or_else(|e| panic!("{e}"));
            let of_link = |link: &Link| [0, 1].map(|side| framing(&scenario, link, side));
            scenario.links.iter().map(of_link).collect::<Vec<_>>()
        };
        let tun = [Framing::Ip; 2];
        assert_eq!(framings(""), [tun, tun]);
        let boxed = framings("[windlass]\nat = \"box\"\nfacing = \"server\"\n");
        assert_eq!(boxed, [[Framing::Ip, Framing::Ethernet], tun]);
    }
}
