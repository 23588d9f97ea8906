//! Hosts, switches, links and queues.

use crate::{Bytes, Discipline, Fraction, Outage, Policer, Rate, RateStep, RateTrace, Span, pair, units};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};
use std::{fmt, path::Path, str::FromStr};

/// A machine: end system or router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a host: a table with its name")]
pub struct Host {
    /// Its name.
    pub name: String,
}

/// The most jitter that what a host sends has in the simulator, where the link has none of its own ([`Link::host_jitter`]).
const HOST_JITTER: Span = Span(5e-6);

/// A link between two hosts. Without a rate it is a plain cable, as fast as the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a link: a table with between, and rate, delay and so on")]
pub struct Link {
    /// The two hosts; "forward" is from the first to the second.
    #[serde(deserialize_with = "pair::array")]
    pub between: [String; 2],
    /// Rate in each direction; of one with a trace, its mean.
    pub rate: Option<Rate>,
    /// Rate backward, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_back: Option<Rate>,
    /// When packets can be sent, instead of `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_trace: Option<RateTrace>,
    /// The same backward; none: `rate_back`, or the same as forward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_trace_back: Option<RateTrace>,
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
    /// Additional random delay, uniform from 0; none: in the simulator what leaves a host has
    /// [`Link::host_jitter`].
    pub jitter: Option<Span>,
    /// Whether jitter may reorder packets.
    #[serde(default)]
    pub reorder: bool,
    /// ECN-capable packets are marked when the queue is longer than this.
    pub ecn: Option<Buffer>,
    /// Which packet is sent next in each direction, and which are marked or dropped; none: the first, when the buffer is full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discipline: Option<Discipline>,
    /// Of the plain ACKs of a connection that wait, only the newest stays.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ack_filter: bool,
    /// Token bucket in front of the forward direction, without a queue.
    pub policer: Option<Policer>,
    /// When nothing gets through, in either direction.
    #[serde(default)]
    pub outages: Vec<Outage>,
    /// When the rate changes, in both directions.
    #[serde(default)]
    pub rate_steps: Vec<RateStep>,
    /// A full packet of the scenario's hosts, link-layer header included: [`crate::Tcp::packet_bytes`].
    #[serde(skip, default = "full_packet")]
    pub packet_bytes: u64,
}

/// A full packet of hosts without an `mtu`, with its Ethernet header.
fn full_packet() -> u64 {
    PACKET_BYTES
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// A switch forwards between its links, and spreads flows over ways that are equally short (equal-cost multipath, by a
/// hash of flow and seed). No flow begins or ends here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Switch {
    /// Its name, among those of the hosts.
    pub name: String,
    /// How its ports queue.
    #[serde(flatten)]
    pub ports: Ports,
}

/// How the ports of a switch queue: what leaves by a link that has a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "queues in braces, e.g. { port_buffer = \"512 KiB\", ecn = \"20 packets\" }"
)]
pub struct Ports {
    /// Memory that all ports share, in packets or bytes, each port's own limit apart; none: they share nothing.
    pub shared_buffer: Option<Buffer>,
    /// Drop-tail buffer of each port whose link names none; none: unlimited.
    pub port_buffer: Option<Buffer>,
    /// Marking threshold of each port whose link names none; none: no marks.
    pub ecn: Option<Buffer>,
    /// Discipline of each port whose link names none; none: first in, first out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discipline: Option<Discipline>,
}

impl Ports {
    /// Limits that a switch can have by itself; whether there is a BDP is checked with each link.
    pub(crate) fn check(&self, packet_bytes: u64) -> Result<(), String> {
        if matches!(self.shared_buffer, Some(Buffer::Bdp(_))) {
            return Err(
                "shared_buffer: a switch has no bandwidth-delay product; give bytes or packets".into()
            );
        }
        let Ports { shared_buffer, port_buffer, ecn, discipline } = *self;
        if shared_buffer.is_some() && discipline.is_some() {
            return Err(
                "shared_buffer: the ports of a discipline have buffers of their own; give a port_buffer"
                    .into(),
            );
        }
        let all = [("shared_buffer", shared_buffer), ("port_buffer", port_buffer), ("ecn", ecn)];
        all.into_iter().try_for_each(|(key, buffer)| check_length(key, buffer, packet_bytes))
    }
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
            rate_back: None,
            rate_trace: None,
            rate_trace_back: None,
            delay: Span(0.0),
            buffer: None,
            loss: Fraction(0.0),
            loss_back: Fraction(0.0),
            bursts: None,
            jitter: None,
            reorder: false,
            ecn: None,
            discipline: None,
            ack_filter: false,
            policer: None,
            outages: Vec::new(),
            rate_steps: Vec::new(),
            packet_bytes: PACKET_BYTES,
        }
    }

    /// The rate of a direction.
    pub fn rate_of(&self, backward: bool) -> Option<Rate> {
        if backward { self.rate_back.or(self.rate) } else { self.rate }
    }

    /// The trace of a direction; none: it has a rate.
    pub(crate) fn trace(&self, backward: bool) -> Option<&RateTrace> {
        match backward {
            true if self.rate_trace_back.is_some() => self.rate_trace_back.as_ref(),
            true if self.rate_back.is_some() => None,
            _ => self.rate_trace.as_ref(),
        }
    }

    /// Reads its traces, whose names count from `folder`; their means become its rates. An error begins with the key.
    pub(crate) fn load_traces(&mut self, folder: &Path) -> Result<(), String> {
        let Link { rate, rate_back, rate_trace, rate_trace_back, .. } = self;
        if rate_trace.is_none() && rate_trace_back.is_some() {
            return Err("rate_trace_back: a rate_trace forward comes with it; give one".into());
        }
        for (key, rate, trace) in
            [("rate_trace", rate, rate_trace), ("rate_trace_back", rate_back, rate_trace_back)]
        {
            let Some(trace) = trace else { continue };
            if rate.is_some() {
                let of_rate = key.replace("_trace", "");
                return Err(format!("{of_rate}: {key} has it; leave one of them out"));
            }
            trace.load(folder).map_err(|what| format!("{key}: {what}"))?;
            *rate = Some(trace.mean_rate());
        }
        Ok(())
    }

    /// Its jitter; 0: none.
    pub fn jitter(&self) -> Span {
        self.jitter.unwrap_or(Span(0.0))
    }

    /// Jitter of what a host sends in the simulator, where the link has none of its own: 5 us, or what a full packet takes, if that
    /// is less. Real hosts are never as even as integers: without it, flows on equal paths stay in step, and the same one finds the
    /// full buffer each time (Floyd and Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways", 1992).
    pub fn host_jitter(&self) -> Span {
        let packet_s = self.rate.map_or(f64::INFINITY, |rate| self.packet_bytes as f64 * 8.0 / rate.0);
        Span(HOST_JITTER.0.min(packet_s))
    }

    /// A buffer of this link in bytes or packets; a BDP needs a rate and a delay, which check() has made sure of.
    pub fn resolve(&self, buffer: Buffer) -> Buffer {
        // drop-tail of less than ten packets cannot carry an initial window
        self.resolve_from(buffer, 10 * self.packet_bytes)
    }

    /// The same of the length of queue from which it marks.
    pub fn resolve_ecn(&self, ecn: Buffer) -> Buffer {
        self.resolve_from(ecn, self.packet_bytes)
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
        port.rate = self.rate_of(backward);
        if let Some(switch) = switches.iter().find(|s| s.name == *from).filter(|_| self.rate.is_some()) {
            port.buffer = self.buffer.or(switch.ports.port_buffer);
            port.ecn = self.ecn.or(switch.ports.ecn);
            port.discipline = self.discipline.or(switch.ports.discipline);
        }
        port.buffer = port.buffer.or(port.discipline.and_then(|discipline| discipline.default_buffer()));
        port
    }

    /// Does the link need the emulator?
    pub fn is_emulated(&self) -> bool {
        let Link { rate, delay, loss, loss_back, bursts, policer, outages, .. } = self;
        rate.is_some()
            || bursts.is_some()
            || policer.is_some()
            || !outages.is_empty()
            || [delay.0, self.jitter().0, loss.0, loss_back.0].iter().any(|value| *value > 0.0)
    }
}

/// A full packet of 1500 bytes, with its Ethernet header.
pub(crate) const PACKET_BYTES: u64 = 1514;

/// A length of queue by itself, where a full packet has `packet_bytes`.
pub(crate) fn check_length(key: &str, buffer: Option<Buffer>, packet_bytes: u64) -> Result<(), String> {
    match buffer {
        Some(Buffer::Bdp(n)) if !n.is_finite() || n <= 0.0 => Err(format!("{key}: more than 0 BDP")),
        Some(Buffer::Bytes(n)) if n < packet_bytes => {
            Err(format!("{key}: at least one packet of {packet_bytes} B"))
        }
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
