//! The `[[flow]]`s of a file, which may each stand for many flows: between rows of hosts, so many each.

use crate::{
    Bytes, Dist, Flow, Group, Host, Link, Rate, Span, Switch,
    capture::{self, Burst},
    flow::{Application, Connections, Load, Size, Train},
    group::check_membership,
    unitless,
};
use rand::{RngCore, SeedableRng};
use rand_xoshiro::SplitMix64;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::RangeInclusive, path::Path};
use toml::Spanned;

/// A `[[flow]]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a flow: a table with from, to, size and so on")]
pub(crate) struct RawFlow {
    from: String,
    to: String,
    #[serde(default = "one", deserialize_with = "unitless::whole")]
    count: i64,
    size: Option<Size>,
    pcap: Option<String>,
    #[serde(default)]
    train: Vec<Spanned<Train>>,
    #[serde(default = "at_once")]
    start: Dist<Span>,
    stop: Option<Span>,
    #[serde(default = "cubic")]
    algorithm: String,
    #[serde(default)]
    class: String,
    #[serde(default)]
    tenant: String,
    group: Option<String>,
    #[serde(default = "one", deserialize_with = "unitless::whole")]
    weight: i64,
    receive_window_max: Option<Bytes>,
    #[serde(default, deserialize_with = "unitless::whole_within::<0, 7, _>")]
    priority: Option<u32>,
    #[serde(default, deserialize_with = "unitless::some_word")]
    connections: Option<Connections>,
    #[serde(default, deserialize_with = "unitless::word")]
    application: Application,
}

fn one() -> i64 {
    1
}

fn at_once() -> Dist<Span> {
    Dist::Constant(Span(0.0))
}

fn cubic() -> String {
    "cubic".into()
}

/// A mistake: at which byte of the file, if not in the flow's own table, and what.
pub(crate) type Mistake = (Option<usize>, String);

/// What a receive window can be, in bytes.
const WINDOW_BYTES: RangeInclusive<f64> = 4096.0..=1e9;

/// Most flows of a scenario.
const FLOWS_MOST: usize = 1_000_000;

/// What flows are checked against.
pub(crate) struct Surroundings<'a> {
    pub seed: u64,
    pub time_limit: Span,
    pub hosts: &'a [Host],
    pub switches: &'a [Switch],
    /// Number of each host.
    pub names: &'a BTreeMap<String, usize>,
    /// For each host, the part of the network that it is in.
    pub parts: &'a [usize],
    pub groups: &'a [Group],
    pub links: &'a [Link],
    /// Where the scenario's file is.
    pub folder: &'a Path,
}

impl Surroundings<'_> {
    /// The hosts that a name means: "a" itself, "a-*" all that begin so, switches apart.
    fn hosts(&self, key: &str, name: &str) -> Result<Vec<&str>, String> {
        let is_switch = |name: &str| self.switches.iter().any(|s| s.name == name);
        let Some(begin) = name.strip_suffix('*') else {
            crate::net_builder::known(self.names, key, name)?;
            if is_switch(name) {
                return Err(format!("{key}: \"{name}\" is a switch, which only forwards; name a host"));
            }
            return Ok(vec![self.hosts[self.names[name]].name.as_str()]);
        };
        let all = self.hosts.iter().map(|h| h.name.as_str());
        let found: Vec<&str> = all.filter(|n| n.starts_with(begin) && !is_switch(n)).collect();
        if found.is_empty() {
            return Err(format!("{key}: no host's name begins with \"{begin}\""));
        }
        Ok(found)
    }

    /// The rate at which a host sends.
    fn link_rate(&self, host: &str) -> Result<Rate, String> {
        let sides = self.links.iter().filter_map(|link| {
            let side = link.between.iter().position(|end| end == host)?;
            Some(link.rate_of(side == 1))
        });
        match sides.collect::<Vec<_>>().as_slice() {
            [Some(rate)] => Ok(*rate),
            [] | [None] => Err(format!(
                "the link of \"{host}\" has no rate of which it could be a share; write it as a rate"
            )),
            _ => Err(format!("\"{host}\" has several links; write it as a rate, e.g. \"6 Gbit/s\"")),
        }
    }

    fn is_connected(&self, a: &str, b: &str) -> bool {
        self.parts[self.names[a]] == self.parts[self.names[b]]
    }
}

impl RawFlow {
    /// Appends the flows that this one stands for.
    pub(crate) fn spread(self, around: &Surroundings, flows: &mut Vec<Flow>) -> Result<(), Mistake> {
        let own = |what: String| (None, what);
        let mut senders = around.hosts("from", &self.from).map_err(own)?;
        let receivers = around.hosts("to", &self.to).map_err(own)?;
        // a whole row to one of its own: that one is left out
        if let ([to], true) = (receivers.as_slice(), senders.len() > 1) {
            senders.retain(|from| from != to);
        }
        self.check(around).map_err(own)?;
        if let Some(file) = &self.pcap {
            let replayed = self.replay(file, [&senders, &receivers], around);
            flows.extend(replayed.map_err(|what| (None, format!("pcap: {what}")))?);
            return match flows.len() {
                0..=FLOWS_MOST => Ok(()),
                _ => Err(own(format!("pcap: more than {FLOWS_MOST} flows in all; cut the capture"))),
            };
        }
        let count = self.count as usize;
        if flows.len() + senders.len() * count > FLOWS_MOST {
            return Err(own(format!("count = {count}: more than {FLOWS_MOST} flows in all; take fewer")));
        }
        let trains = self.trains(around)?;
        let connections = self.connections_of(&trains).map_err(own)?;
        let places: BTreeMap<&str, usize> = receivers.iter().copied().zip(0..).collect();
        for from in senders {
            let own_place = places.get(from).copied();
            let trains = self.at_their_loads(&trains, from, around)?;
            for _ in 0..count {
                let place = (flows.len() as u64 + 1) << 1 | 1;
                let mut rng = SplitMix64::seed_from_u64(around.seed ^ place << 40);
                let start = self.start.draw(&mut rng);
                let to = receiver(from, own_place, &receivers, &mut rng).map_err(own)?;
                if !around.is_connected(from, to) {
                    return Err(own(format!("to: no path of links from \"{from}\" to \"{to}\"")));
                }
                let is_each = connections == Connections::PerResponse && receivers.len() > 1;
                flows.push(Flow {
                    to_each: is_each.then(|| self.to.clone()),
                    connections,
                    trains: trains.clone(),
                    ..self.flow(from, to, start)
                });
            }
        }
        Ok(())
    }

    /// When it begins at the latest, or, where that has no bound, at the earliest.
    fn latest_start(&self) -> Span {
        self.start.most().unwrap_or(self.start.least())
    }

    fn check(&self, around: &Surroundings) -> Result<(), String> {
        if !(1..=FLOWS_MOST as i64).contains(&self.count) {
            return Err(format!("count = {}: 1 to {FLOWS_MOST}", self.count));
        }
        let latest = self.latest_start();
        if latest >= around.time_limit {
            return Err(format!("start = \"{latest}\": the run ends before, at {}", around.time_limit));
        }
        if let Some(stop) = self.stop.filter(|stop| *stop <= latest) {
            return Err(format!("stop = \"{stop}\": the flow begins at {latest}; stop it later"));
        }
        // what stops at the very end has not failed
        if let Some(stop) = self.stop.filter(|stop| *stop > around.time_limit) {
            let limit = around.time_limit;
            return Err(format!(
                "stop = \"{stop}\": the run ends before, at {limit}; leave it out, or stop earlier"
            ));
        }
        let is_fine = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if self.algorithm.is_empty() || !self.algorithm.chars().all(is_fine) {
            let name = &self.algorithm;
            return Err(format!("algorithm = {name:?}: a congestion control of the kernel, e.g. \"cubic\""));
        }
        for (key, name) in [("class", &self.class), ("tenant", &self.tenant)] {
            if !name.chars().all(is_fine) {
                return Err(format!("{key} = {name:?}: letters, digits, - and _"));
            }
        }
        if self.application == Application::Udp {
            self.check_datagrams()?;
        }
        check_membership(self.group.as_deref(), self.weight, around.groups)?;
        if self.receive_window_max.is_some_and(|w| !WINDOW_BYTES.contains(&w.0)) {
            return Err("receive_window_max: 4 KiB to 1 GB".into());
        }
        if self.pcap.is_some() {
            return self.check_replay();
        }
        match (&self.size, self.train.is_empty()) {
            (None, true) => Err("size: how much? Give a size, [[flow.train]]s, or a pcap".into()),
            (Some(_), false) => {
                Err("size: a flow has either a size or trains; give each train its own".into())
            }
            _ => Ok(()),
        }
    }

    /// What is in a capture is not to be said.
    fn check_replay(&self) -> Result<(), String> {
        let own = "the capture has its own; leave it out";
        if self.size.is_some() || !self.train.is_empty() {
            return Err(format!("size: {own}"));
        }
        if self.count != 1 {
            return Err(format!("count: {own}"));
        }
        if self.connections.is_some() {
            return Err("connections: each of the capture is one flow; leave it out".into());
        }
        if self.application == Application::Udp {
            return Err("application: what is replayed are TCP connections; leave it out".into());
        }
        match self.start {
            Dist::Constant(_) => Ok(()),
            _ => Err("start: when the capture begins; give a time, as its flows have their own".into()),
        }
    }

    /// The connections of a capture as flows between hosts of these rows, senders and receivers: each of its servers is one of the
    /// senders, each of its clients one of the receivers, in the order in which they appear, and over again where the capture has
    /// more. What a client has sent, if that is more than its server has, goes the other way.
    fn replay(
        &self,
        file: &str,
        [senders, receivers]: [&[&str]; 2],
        around: &Surroundings,
    ) -> Result<Vec<Flow>, String> {
        let begin_ns = self.start.least().ns();
        let mut flows = Vec::new();
        for (transfer, number) in capture::load(around.folder, file)?.into_iter().zip(1..) {
            let server = senders[transfer.server % senders.len()];
            let client = receivers[transfer.client % receivers.len()];
            let (from, to) = if transfer.is_upload { (client, server) } else { (server, client) };
            if from == to {
                return Err(format!(
                    "connection {number} would be from \"{from}\" to itself; name other hosts"
                ));
            }
            if !around.is_connected(from, to) {
                return Err(format!("no path of links from \"{from}\" to \"{to}\" for connection {number}"));
            }
            let span = |ns: u64| Span((begin_ns + ns) as f64 / 1e9);
            let last = transfer.bursts.last().map_or(transfer.began_ns, |burst| burst.at_ns);
            if span(last) >= around.time_limit {
                return Err(format!(
                    "connection {number} sends at {}, and the run ends at {}; raise time_limit, or cut the capture",
                    span(last),
                    around.time_limit
                ));
            }
            let start = span(transfer.began_ns);
            if let Some(stop) = self.stop.filter(|stop| *stop <= start) {
                return Err(format!("connection {number} begins at {start}; stop it later than at {stop}"));
            }
            let train = |burst: &Burst| Train {
                start: Some(span(burst.at_ns)),
                ..Train::once(Size::Bytes(Dist::Constant(Bytes(burst.bytes as f64))))
            };
            let trains: Vec<Train> = transfer.bursts.iter().map(train).collect();
            for train in &trains {
                train.check(false).map_err(|what| format!("connection {number}: {what}"))?;
            }
            flows.push(Flow { trains, ..self.flow(from, to, start) });
        }
        Ok(flows)
    }

    /// A flow between these hosts with nothing to send.
    fn flow(&self, from: &str, to: &str, start: Span) -> Flow {
        Flow {
            from: from.into(),
            to: to.into(),
            to_each: None,
            start,
            stop: self.stop,
            algorithm: self.algorithm.clone(),
            class: self.class.clone(),
            tenant: self.tenant.clone(),
            group: self.group.clone(),
            weight: self.weight,
            receive_window_max: self.receive_window_max,
            priority: self.priority.unwrap_or(0) as u8,
            connections: Connections::default(),
            application: self.application,
            trains: Vec::new(),
        }
    }

    /// How many connections it makes. Pages have some of their own each, and are fetched over HTTP.
    fn connections_of(&self, trains: &[Train]) -> Result<Connections, String> {
        let pages = trains.iter().filter(|train| matches!(train.size, Size::Page(_))).count();
        if pages == 0 {
            return Ok(self.connections.unwrap_or_default());
        }
        if pages < trains.len() {
            return Err("size: a flow has either pages or other responses; make two flows of it".into());
        }
        if self.connections.is_some() {
            return Err(
                "connections: each page has its own, at most as many as its size names; leave it out".into(),
            );
        }
        match self.application {
            Application::Http => Ok(Connections::PerResponse),
            _ => Err("application: pages are fetched over HTTP; leave it out".into()),
        }
    }

    /// Datagrams have neither connections nor an end that depends on what arrives.
    fn check_datagrams(&self) -> Result<(), String> {
        let is_sized = |size: &Size| matches!(size, Size::Bytes(_) | Size::CdfFile(_) | Size::RestOf(_));
        let sizes = self.size.iter().chain(self.train.iter().map(|train| &train.get_ref().size));
        if !sizes.into_iter().all(is_sized) {
            return Err(
                "size: datagrams are sent at a rate; give a train a size, and rate, load or interval".into(),
            );
        }
        if self.connections == Some(Connections::PerResponse) {
            return Err("connections: datagrams have none; leave it out".into());
        }
        match self.group {
            Some(_) => Err("group: datagrams have no window to share; leave it out".into()),
            None => Ok(()),
        }
    }

    fn trains(&self, around: &Surroundings) -> Result<Vec<Train>, Mistake> {
        let time_limit = around.time_limit;
        if let Some(size) = &self.size {
            let mut train = Train::once(size.clone());
            train.load_size(around.folder).map_err(|what| (None, what))?;
            return train.check(true).map(|()| vec![train]).map_err(|what| (None, what));
        }
        let mut trains = Vec::with_capacity(self.train.len());
        for (index, train) in self.train.iter().enumerate() {
            let place = |what: String| (Some(train.span().start), what);
            let mut known = train.get_ref().clone();
            known.load_size(around.folder).map_err(place)?;
            known.check(index + 1 == self.train.len()).map_err(place)?;
            if let Some(start) = train.get_ref().start.filter(|start| *start >= time_limit) {
                return Err(place(format!("start = \"{start}\": the run ends before, at {time_limit}")));
            }
            let is_endless = |until: &Span| *until >= time_limit && self.stop.is_none();
            if let Some(until) = train.get_ref().until.filter(is_endless) {
                return Err(place(format!(
                    "until = \"{until}\": the run ends before, at {time_limit}, and cuts the flow short; end it earlier, \
                     or give the flow a stop"
                )));
            }
            if train.get_ref().until.is_some() && self.start.most().is_none() {
                return Err(place(
                    "until: the flow's start has no bound, and may be later; give it a uniform or fixed start".into(),
                ));
            }
            let begin = self.latest_start();
            if let Some(until) = train.get_ref().until.filter(|until| *until <= begin) {
                return Err(place(format!(
                    "until = \"{until}\": the flow begins at {begin}; end the train later"
                )));
            }
            trains.push(known);
        }
        Ok(trains)
    }

    /// The trains of one sender, whose loads may be shares of its link.
    fn at_their_loads(
        &self,
        trains: &[Train],
        from: &str,
        around: &Surroundings,
    ) -> Result<Vec<Train>, Mistake> {
        let mut trains = trains.to_vec();
        for (train, raw) in trains.iter_mut().zip(&self.train) {
            let link = match train.load {
                Some(Load::Share(_)) => around.link_rate(from),
                _ => Err(String::new()),
            };
            train.set_interval(link).map_err(|what| (Some(raw.span().start), what))?;
        }
        Ok(trains)
    }
}

/// One of the receivers at random, but not the sender itself, which is the one at `own_place`; none: it is not among them.
fn receiver<'a>(
    from: &str,
    own_place: Option<usize>,
    receivers: &[&'a str],
    rng: &mut SplitMix64,
) -> Result<&'a str, String> {
    let others = receivers.len() - usize::from(own_place.is_some());
    if others == 0 {
        return Err(format!("to: \"{from}\" cannot send to itself; name another host"));
    }
    // a few hosts out of 2^64 numbers: what that is unfair by is nothing
    let chosen = (rng.next_u64() % others as u64) as usize;
    Ok(receivers[chosen + usize::from(own_place.is_some_and(|own| own <= chosen))])
}

/// The TCP of all end systems. What is not given is as Linux has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table with rto_min, initial_window and so on")]
pub struct Tcp {
    /// Smallest retransmission timeout.
    pub rto_min: Option<Span>,
    /// Initial congestion window in segments.
    #[serde(default, deserialize_with = "unitless::whole_within::<1, 1000, _>")]
    pub initial_window: Option<u32>,
    /// How long an acknowledgement may be delayed; "0 s": each segment is acknowledged at once.
    pub delayed_ack: Option<Span>,
    /// Explicit congestion notification.
    #[serde(default, deserialize_with = "unitless::some_word")]
    pub ecn: Option<Ecn>,
    /// Whether segments leave several at a time, which a network card cuts (segmentation offload).
    pub offload: Option<bool>,
    /// Whether windows shrink while they are not used.
    pub restart_after_idle: Option<bool>,
    /// Whether windows grow only as far as they are used, and last only so long.
    pub validate_window: Option<bool>,
    /// Whether a probe finds out about losses at the tail before a timeout does (RFC 8985, section 7).
    pub tail_probes: Option<bool>,
    /// Whether receivers report what has arrived beyond a hole (RFC 2018).
    pub sack: Option<bool>,
    /// Without SACK: whether a partial acknowledgement goes on with the repair (RFC 6582). As in ns-2's Reno, false ends the
    /// recovery there, and duplicates count again beyond what was sent before it; what else was lost waits for its timeout.
    pub new_reno: Option<bool>,
    /// Receive window at first; it grows as needed.
    pub receive_window: Option<Bytes>,
    /// Memory for what a sender keeps, sent and not acknowledged or not sent yet; without it, it grows with the window to 4 MiB.
    pub send_buffer: Option<Bytes>,
    /// The largest packet of all hosts and links (MTU), IP header included; without it, 1500 B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Bytes>,
}

/// MTU without a key.
const MTU_BYTES: u64 = 1500;
/// What an MTU can be: from IPv6's least to that of jumbo frames.
const MTUS_BYTES: RangeInclusive<f64> = 1280.0..=9000.0;
/// IPv4 and TCP headers, and timestamps (RFC 7323).
const SEGMENT_HEADERS_BYTES: u64 = 20 + 20 + 12;
/// IPv4 and UDP headers.
const DATAGRAM_HEADERS_BYTES: u64 = 20 + 8;
/// An Ethernet header, which a packet has on its link.
const LINK_HEADER_BYTES: u64 = 14;

/// Explicit congestion notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ecn {
    /// Not used.
    Off,
    /// As in RFC 3168.
    Classic,
    /// As in RFC 8257 (DCTCP): receivers echo exactly what was marked.
    Exact,
}

impl Tcp {
    /// The largest packet, IP header included.
    pub fn mtu_bytes(&self) -> u64 {
        self.mtu.map_or(MTU_BYTES, Bytes::count)
    }

    /// Payload of a full segment.
    pub fn mss_bytes(&self) -> u32 {
        (self.mtu_bytes() - SEGMENT_HEADERS_BYTES) as u32
    }

    /// Payload of a full datagram.
    pub fn datagram_bytes(&self) -> u64 {
        self.mtu_bytes() - DATAGRAM_HEADERS_BYTES
    }

    /// A full packet on a link, whose header is included.
    pub fn packet_bytes(&self) -> u64 {
        self.mtu_bytes() + LINK_HEADER_BYTES
    }

    /// Whether hosts can be so; an error begins with the key.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_within =
            |span: Option<Span>, low: f64, high: f64| span.is_none_or(|s| s.0 >= low && s.0 <= high);
        if !is_within(self.rto_min, 1e-3, 120.0) {
            return Err("rto_min: 1 ms to 120 s".into());
        }
        if !is_within(self.delayed_ack, 0.0, 0.5) {
            return Err("delayed_ack: 0 s to 500 ms (RFC 1122, section 4.2.3.2)".into());
        }
        if self.receive_window.is_some_and(|w| !WINDOW_BYTES.contains(&w.0)) {
            return Err("receive_window: 4 KiB to 1 GB".into());
        }
        if self.send_buffer.is_some_and(|b| !WINDOW_BYTES.contains(&b.0)) {
            return Err("send_buffer: 4 KiB to 1 GB".into());
        }
        if self.mtu.is_some_and(|mtu| !MTUS_BYTES.contains(&mtu.0)) {
            return Err("mtu: 1280 B to 9000 B, IP header included".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the sender is the first of them, the last, another or none: each of the others is as likely.
    #[test]
    fn receivers_are_all_but_the_sender() {
        let receivers = ["a", "b", "c", "d"];
        for from in ["a", "b", "d", "x"] {
            let others: Vec<&str> = receivers.into_iter().filter(|to| *to != from).collect();
            let own_place = receivers.iter().position(|to| *to == from);
            for seed in 0..100 {
                let rng = || SplitMix64::seed_from_u64(seed);
                let expected = others[(rng().next_u64() % others.len() as u64) as usize];
                assert_eq!(receiver(from, own_place, &receivers, &mut rng()), Ok(expected));
            }
        }
        let e = receiver("a", Some(0), &["a"], &mut SplitMix64::seed_from_u64(1)).unwrap_err();
        assert!(e.contains("cannot send to itself"), "{e}");
    }
}
