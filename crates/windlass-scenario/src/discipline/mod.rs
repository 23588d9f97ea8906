//! Queue disciplines of links: which packet is sent next, and which are marked or dropped before the buffer is full. Each is a
//! file of its own, with its formula and source at the head; `queue.rs` is what a link does with one.

mod ack_filter;
mod codel;
mod dualpi2;
mod fifo;
mod fq_codel;
mod pie;
mod priority;
mod queue;
mod red;

pub use codel::CodelKeys;
pub use dualpi2::DualPi2Keys;
pub use fq_codel::FqCodelKeys;
pub use pie::PieKeys;
pub use priority::PriorityKeys;
pub use queue::DisciplineQueue;
pub use red::RedKeys;

use crate::{Buffer, Link, Span};
use serde::{Deserialize, Deserializer, Serialize, de};
use std::fmt;
use toml::Value;

/// The discipline of a queue, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Discipline {
    /// RFC 8289.
    Codel(CodelKeys),
    /// RFC 8290.
    FqCodel(FqCodelKeys),
    /// RFC 8033.
    Pie(PieKeys),
    /// Floyd and Jacobson 1993.
    Red(RedKeys),
    /// RFC 9332.
    #[serde(rename = "dualpi2")]
    DualPi2(DualPi2Keys),
    /// Packets of the lowest priority number first.
    Priority(PriorityKeys),
}

/// What can be written.
const KINDS: &str = "\"codel\", \"fq-codel\", \"pie\", \"red\", \"dualpi2\" or \"priority\"";

impl<'de> Deserialize<'de> for Discipline {
    /// A name, or a table with the name as `kind` and parameters.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let wrong = |what: &str| de::Error::custom(what.to_string());
        let write = format!("write {KINDS}, or {{ kind = \"codel\", target = \"5 ms\" }}");
        let (kind, keys) = match Value::deserialize(d)? {
            Value::String(kind) => (kind, toml::Table::new()),
            Value::Table(mut keys) => match keys.remove("kind") {
                Some(Value::String(kind)) => (kind, keys),
                _ => return Err(wrong(&format!("discipline: kind is missing; {write}"))),
            },
            _ => return Err(wrong(&format!("discipline: {write}"))),
        };
        fn read<'a, T: Deserialize<'a>, E: de::Error>(kind: &str, keys: toml::Table) -> Result<T, E> {
            T::deserialize(Value::Table(keys))
                .map_err(|e| E::custom(format!("discipline: {kind}: {}", e.message().replace('\n', " "))))
        }
        match kind.as_str() {
            "codel" => read(&kind, keys).map(Discipline::Codel),
            "fq-codel" => read(&kind, keys).map(Discipline::FqCodel),
            "pie" => read(&kind, keys).map(Discipline::Pie),
            "red" => read(&kind, keys).map(Discipline::Red),
            "dualpi2" => read(&kind, keys).map(Discipline::DualPi2),
            "priority" => read(&kind, keys).map(Discipline::Priority),
            _ => Err(wrong(&format!("discipline: there is no \"{kind}\"; {write}"))),
        }
    }
}

impl Discipline {
    /// The buffer of a link with this discipline that gives none: Linux' limit, where that has one.
    pub(crate) fn default_buffer(&self) -> Option<Buffer> {
        match self {
            Discipline::Codel(_) | Discipline::Pie(_) => Some(Buffer::Packets(1000)),
            Discipline::FqCodel(_) => Some(Buffer::Packets(10_240)),
            Discipline::DualPi2(_) => Some(Buffer::Packets(10_000)),
            Discipline::Red(_) | Discipline::Priority(_) => None,
        }
    }

    fn check(&self, link: &Link) -> Result<(), String> {
        match self {
            Discipline::Codel(keys) => keys.check(),
            Discipline::FqCodel(keys) => keys.check(),
            Discipline::Pie(keys) => keys.check(),
            Discipline::Red(keys) => keys.check(link),
            Discipline::DualPi2(keys) => keys.check(),
            Discipline::Priority(_) => Ok(()),
        }
    }

    /// The queue of a direction of a link, empty.
    fn schedule<P: fmt::Debug + 'static>(&self, port: &Link, seed: u64) -> Box<dyn Schedule<P>> {
        match *self {
            Discipline::Codel(keys) => Box::new(codel::Codel::new(keys, port)),
            Discipline::FqCodel(keys) => Box::new(fq_codel::FqCodel::new(keys, port, seed)),
            Discipline::Pie(keys) => Box::new(pie::Pie::new(keys, port, seed)),
            Discipline::Red(keys) => Box::new(red::Red::new(keys, port, seed)),
            Discipline::DualPi2(keys) => Box::new(dualpi2::DualPi2::new(keys, port)),
            Discipline::Priority(_) => Box::new(priority::Priority::default()),
        }
    }
}

/// Whether a direction of a link can have its discipline; an error begins with the key. `port`: with what a switch adds.
pub(crate) fn check(port: &Link) -> Result<(), String> {
    if port.ack_filter && port.rate.is_none() {
        return Err("ack_filter without a rate: nothing ever queues; give a rate".into());
    }
    if port.ack_filter && port.ecn.is_some() {
        return Err(
            "ecn: a link with an ack_filter marks by its discipline; give one, or leave ecn out".into()
        );
    }
    let Some(discipline) = port.discipline else { return Ok(()) };
    if port.rate.is_none() {
        return Err("discipline without a rate: nothing ever queues; give a rate".into());
    }
    if port.ecn.is_some() {
        return Err("ecn: the discipline decides which packets are marked; leave ecn out".into());
    }
    if port.buffer.is_none() && discipline.default_buffer().is_none() {
        return Err("discipline: its queue needs a limit; give a buffer, e.g. \"1000 packets\"".into());
    }
    discipline.check(port).map_err(|what| format!("discipline: {what}"))
}

/// A time of a discipline: from 1 us to 10 s.
fn check_span(key: &str, span: Span) -> Result<(), String> {
    if (1e-6..=10.0).contains(&span.0) {
        return Ok(());
    }
    Err(format!("{key} = \"{span}\": 1 us to 10 s"))
}

/// The ECN field of a packet (RFC 3168, RFC 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codepoint {
    /// Its sender does not understand ECN.
    #[default]
    NotEct,
    /// ECT(0): its sender does.
    Ect0,
    /// ECT(1): its congestion control is scalable.
    Ect1,
    /// Marked.
    Ce,
}

/// What disciplines need to know of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Its length, link-layer header included.
    pub bytes: u64,
    /// The same for all packets of one direction of a connection.
    pub flow: u32,
    /// Its ECN field.
    pub ecn: Codepoint,
    /// 0 is sent first.
    pub priority: u8,
    /// Of a plain ACK, without data or anything to report but this acknowledgement number.
    pub ack: Option<u64>,
}

/// A packet that waits.
#[derive(Clone, Debug)]
pub struct Waiting<P> {
    /// What is known of it.
    pub label: Label,
    /// When it came.
    pub arrived_ns: u64,
    /// How many had come to the queue before it.
    pub number: u64,
    /// The discipline has marked it.
    pub is_marked: bool,
    /// The packet.
    pub packet: P,
}

impl<P> Waiting<P> {
    /// Marks it, if its sender understands ECN. Returns whether it does.
    fn mark(&mut self) -> bool {
        let is_capable = self.label.ecn != Codepoint::NotEct;
        self.is_marked |= is_capable;
        is_capable
    }
}

/// A discipline at work. It has no clock: all times are those of its caller, which never go back.
pub(crate) trait Schedule<P>: fmt::Debug {
    /// A packet comes. Returns it if it is dropped at once.
    fn enqueue(&mut self, now_ns: u64, waiting: Waiting<P>) -> Option<Waiting<P>>;

    /// The packet to send now; none: nothing waits. What is dropped instead of being sent is added to `dropped`.
    fn dequeue(&mut self, now_ns: u64, dropped: &mut Vec<Waiting<P>>) -> Option<Waiting<P>>;

    /// Drops at least one of what waits, since the buffer has no room for what has come last.
    fn shed(&mut self, dropped: &mut Vec<Waiting<P>>);
}

#[cfg(test)]
mod tests;
