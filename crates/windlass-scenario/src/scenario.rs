//! The scenario file.

use crate::{Bytes, Fraction, Rate, Span};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{collections::BTreeSet, fs, ops::Range, path::Path, str::FromStr};
use toml::Spanned;

/// A mistake in a scenario: where, what, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct ScenarioError {
    /// File name, as given.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Key, what is wrong and the cure.
    pub what: String,
}

/// A network with its traffic.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// Name in reports.
    pub name: String,
    /// Seeds every random choice.
    pub seed: u64,
    /// When a run is given up.
    pub time_limit: Span,
    /// Machines.
    pub hosts: Vec<Host>,
    /// Wires between them.
    pub links: Vec<Link>,
    /// Transfers.
    pub flows: Vec<Flow>,
    /// Where Windlass sits; none: nowhere.
    pub windlass: Option<Windlass>,
}

/// A machine: end system or router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name.
    pub name: String,
}

/// A link between two hosts. Without a rate it is a plain cable, as fast as the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The two hosts; "forward" is from the first to the second.
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
#[serde(deny_unknown_fields)]
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
        let number =
            |t: &str| t.trim().parse::<f64>().map_err(|_| format!("\"{text}\" does not begin with a number"));
        if let Some(n) = text.strip_suffix("BDP") {
            return Ok(Buffer::Bdp(number(n)?));
        }
        if let Some(n) = text.strip_suffix("packets") {
            return Ok(Buffer::Packets(number(n)? as u64));
        }
        let bytes: Result<Bytes, _> = text.parse();
        bytes
            .map(|b| Buffer::Bytes(b.count()))
            .map_err(|_| format!("\"{text}\": write e.g. \"1 BDP\", \"100 packets\" or \"64 kB\""))
    }
}

impl<'de> Deserialize<'de> for Buffer {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Buffer {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Buffer::Packets(n) => s.collect_str(&format_args!("{n} packets")),
            Buffer::Bytes(n) => s.collect_str(&format_args!("{n} B")),
            Buffer::Bdp(n) => s.collect_str(&format_args!("{n} BDP")),
        }
    }
}

/// A transfer: the receiver fetches `size` bytes from the sender over HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// How much.
    pub size: Bytes,
    /// When it begins.
    #[serde(default)]
    pub start: Span,
    /// Congestion control of the sender's own kernel.
    #[serde(default = "cubic")]
    pub algorithm: String,
}

fn cubic() -> String {
    "cubic".into()
}

/// What Windlass does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Controls.
    #[default]
    Transparent,
    /// Measures.
    Watch,
}

/// A box in the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Windlass {
    /// Host on which it runs.
    pub at: String,
    /// Neighbour that the controlled interface faces: the servers' side.
    pub facing: String,
    /// Algorithm.
    #[serde(default = "bbr")]
    pub algorithm: String,
    /// What it does.
    #[serde(default)]
    pub mode: Mode,
}

fn bbr() -> String {
    "bbr".into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    #[serde(default = "one")]
    seed: u64,
    time_limit: Option<Span>,
    host: Vec<Spanned<Host>>,
    #[serde(default)]
    link: Vec<Spanned<Link>>,
    #[serde(default)]
    flow: Vec<Spanned<Flow>>,
    windlass: Option<Spanned<Windlass>>,
}

fn one() -> u64 {
    1
}

impl Link {
    /// A buffer of this link in bytes or packets; a BDP needs a rate and a delay, which check() has made sure of.
    pub fn resolve(&self, buffer: Buffer) -> Buffer {
        match (buffer, self.rate) {
            // whole packets, and at least ten: drop-tail of less cannot carry an initial window
            (Buffer::Bdp(n), Some(rate)) => {
                Buffer::Bytes(((rate.0 / 8.0 * 2.0 * self.delay.0 * n) as u64).max(15_140))
            }
            (other, _) => other,
        }
    }

    /// Does the link need the emulator?
    pub fn is_emulated(&self) -> bool {
        self.rate.is_some() || self.delay.0 > 0.0 || self.loss.0 > 0.0 || self.bursts.is_some()
    }
}

impl Scenario {
    /// Reads and checks a file.
    pub fn from_file(path: &Path) -> Result<Scenario, ScenarioError> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|e| ScenarioError {
            file: file.clone(),
            line: 0,
            what: format!("cannot be read: {e}"),
        })?;
        Scenario::parse(&file, &text)
    }

    /// Checks the text of a scenario; `file` is only for messages.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let fail = |span: Range<usize>, what: String| {
            let line = text[..span.start.min(text.len())].matches('\n').count() + 1;
            ScenarioError { file: file.into(), line, what }
        };
        let raw: Raw = toml::from_str(text)
            .map_err(|e| fail(e.span().unwrap_or(0..0), e.message().replace('\n', " ")))?;
        let mut names = BTreeSet::new();
        for host in &raw.host {
            if !names.insert(host.get_ref().name.clone()) {
                return Err(fail(host.span(), format!("host \"{}\" is there twice", host.get_ref().name)));
            }
        }
        let known = |name: &str| match names.contains(name) {
            true => Ok(()),
            false => {
                let list: Vec<_> = names.iter().map(String::as_str).collect();
                Err(format!("unknown host \"{name}\"; hosts are {}", list.join(", ")))
            }
        };
        for link in &raw.link {
            check_link(link.get_ref(), &known).map_err(|what| fail(link.span(), what))?;
        }
        let links: Vec<Link> = raw.link.into_iter().map(Spanned::into_inner).collect();
        for flow in &raw.flow {
            check_flow(flow.get_ref(), &links, &known).map_err(|what| fail(flow.span(), what))?;
        }
        if let Some(w) = &raw.windlass {
            let (at, facing) = (&w.get_ref().at, &w.get_ref().facing);
            known(at).and(known(facing)).map_err(|what| fail(w.span(), what))?;
            if !links.iter().any(|l| l.between.contains(at) && l.between.contains(facing)) {
                let what = format!("windlass: no link between \"{at}\" and \"{facing}\" that it could face");
                return Err(fail(w.span(), what));
            }
        }
        Ok(Scenario {
            name: raw.name,
            seed: raw.seed,
            time_limit: raw.time_limit.unwrap_or(Span(300.0)),
            hosts: raw.host.into_iter().map(Spanned::into_inner).collect(),
            links,
            flows: raw.flow.into_iter().map(Spanned::into_inner).collect(),
            windlass: raw.windlass.map(Spanned::into_inner),
        })
    }

    /// Hosts that `from` can reach, itself included.
    pub fn reachable(links: &[Link], from: &str) -> BTreeSet<String> {
        let mut seen = BTreeSet::from([from.to_string()]);
        loop {
            let before = seen.len();
            for link in links {
                if link.between.iter().any(|h| seen.contains(h)) {
                    seen.extend(link.between.iter().cloned());
                }
            }
            if seen.len() == before {
                return seen;
            }
        }
    }
}

fn check_link(link: &Link, known: &impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
    let [a, b] = &link.between;
    known(a)?;
    known(b)?;
    if a == b {
        return Err(format!("between: a link from \"{a}\" to itself"));
    }
    if link.rate.is_some_and(|r| r.0 < 1e4) {
        return Err("rate: at least 10 kbit/s; leave it out for a plain cable".into());
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
        match buffer {
            Some(Buffer::Bdp(n)) if !n.is_finite() || n <= 0.0 => {
                return Err(format!("{key}: more than 0 BDP"));
            }
            Some(Buffer::Bdp(_)) if link.rate.is_none() || link.delay.0 <= 0.0 => {
                return Err(format!("{key} in BDP needs a rate and a delay; give both, or bytes or packets"));
            }
            Some(Buffer::Bytes(n)) if n < 1514 => {
                return Err(format!("{key}: at least one packet of 1514 B"));
            }
            Some(Buffer::Packets(0)) => return Err(format!("{key}: at least 1 packet")),
            _ => {}
        }
        if buffer.is_some() && link.rate.is_none() {
            return Err(format!("{key} without a rate: nothing ever queues; give a rate"));
        }
    }
    Ok(())
}

fn check_flow(
    flow: &Flow,
    links: &[Link],
    known: &impl Fn(&str) -> Result<(), String>,
) -> Result<(), String> {
    known(&flow.from)?;
    known(&flow.to)?;
    if !Scenario::reachable(links, &flow.from).contains(&flow.to) {
        return Err(format!("no path of links from \"{}\" to \"{}\"", flow.from, flow.to));
    }
    if flow.size.count() == 0 {
        return Err("size: at least 1 B".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
name = "wan"
[[host]]
name = "server"
[[host]]
name = "client"
[[link]]
between = ["server", "client"]
rate = "20 Mbit/s"
delay = "20 ms"
buffer = "1 BDP"
loss = "1 %"
[[flow]]
from = "server"
to = "client"
size = "10 MB"
"#;

    fn error(from: &str, to: &str) -> ScenarioError {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD);
        Scenario::parse("s.toml", &text).expect_err("a mistake")
    }

    #[test]
    fn a_bdp_counts_the_round_trip() {
        let s = Scenario::parse("s.toml", GOOD).unwrap();
        assert_eq!(s.links[0].resolve(s.links[0].buffer.unwrap()), Buffer::Bytes(100_000));
    }

    #[test]
    fn mistakes_name_line_key_and_cure() {
        let e = error("between = [\"server\", \"client\"]", "between = [\"server\", \"klient\"]");
        assert!(e.what.contains("klient") && e.what.contains("client"), "{e}");
        assert_eq!(e.line, 7);
        assert!(error("loss = \"1 %\"", "loss = \"150 %\"").what.contains("0 % to 100 %"));
        assert!(error("rate = \"20 Mbit/s\"", "rate = \"0 Mbit/s\"").what.contains("rate"));
        assert!(error("delay = \"20 ms\"\n", "").what.contains("BDP needs a rate and a delay"));
        assert!(error("size = \"10 MB\"", "size = \"10\"").what.contains("MB"));
        assert!(error("loss =", "los =").what.contains("los"));
        assert!(
            error(
                "[[link]]\nbetween = [\"server\", \"client\"]",
                "[[host]]\nname = \"x\"\n[[link]]\nbetween = [\"server\", \"x\"]"
            )
            .what
            .contains("no path")
        );
    }
}
