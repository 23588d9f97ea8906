//! Scripts as text: README.md has the grammar.

use crate::{home::Mode, packet::Packet};
use anyhow::{Context, Result, bail, ensure};
use std::{collections::BTreeMap, fmt};
use windlass_oracle::programs::Setup;

const EXPECT_FAILURE: &str = "expect failure:";
/// Steps of a script, repetitions counted.
const STEPS_MAX: usize = 50_000;
/// Lines that a script's first comment may have.
const PURPOSE_LINES: usize = 3;

/// Where a packet is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It leaves the server, or reaches it.
    Server,
    /// It leaves the client, or reaches it.
    Client,
    /// The box sends it of its own accord.
    Box,
}

/// What is seen there, of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where.
    pub place: Place,
    /// Name of the connection; empty: the first.
    pub connection: String,
    /// It goes to the client, or to the server.
    pub is_to_client: bool,
    /// None: no packet is seen there.
    pub packet: Option<Packet>,
}

impl Seen {
    /// Does one of the ends send it?
    pub fn is_sent(&self) -> bool {
        matches!((self.place, self.is_to_client), (Place::Server, true) | (Place::Client, false))
    }

    /// Does one of the ends receive it, in place of what the other has sent?
    pub fn is_received(&self) -> bool {
        self.place != Place::Box && !self.is_sent()
    }
}

/// What happens in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A packet is seen, or must not be.
    Packet(Seen),
    /// Whatever the box sends to the client meanwhile, no line is about it.
    BoxSendsAnything,
    /// A whole handshake with this round trip.
    Open {
        /// Name of the connection.
        connection: String,
        /// From the SYN-ACK to the ACK.
        rtt_us: u64,
    },
    /// The box's clock goes on, or stands still.
    Clock(bool),
    /// How flows are treated from now on.
    Mode(Mode),
    /// Are servers that pace themselves controlled from now on?
    PacedServers(bool),
    /// Only time passes.
    Wait,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number in the file, from 1.
    pub line: usize,
    /// So long after the line before. Of what the box sends, and of what must not be seen: within so long.
    pub after_us: u64,
    /// What happens.
    pub action: Action,
}

/// The ends of a connection, and what its SYNs announce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// MSS that both announce.
    pub mss_bytes: u16,
    /// Window scale that both announce; none: no window scaling.
    pub wscale: Option<u8>,
    /// Both permit SACK.
    pub permits_sack: bool,
    /// Both offer timestamps.
    pub has_timestamps: bool,
    /// Both offer classic ECN.
    pub has_ecn: bool,
    /// Initial sequence number of the server.
    pub server_isn: u32,
    /// Last byte of the server's address.
    pub server: u8,
    /// Addresses are IPv6.
    pub is_ipv6: bool,
}

impl Default for Ends {
    fn default() -> Self {
        Ends {
            mss_bytes: 1460,
            wscale: Some(0),
            permits_sack: true,
            has_timestamps: false,
            has_ecn: false,
            server_isn: 1_000_000,
            server: 1,
            is_ipv6: false,
        }
    }
}

/// How the box is set up: with what is fixed while it runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoxSetup {
    /// Congestion control, by name.
    pub algorithm: String,
    /// Entries of the flow table.
    pub flows_max: u32,
    /// Room for bytes in flight.
    pub store_kib: u32,
}

impl Default for BoxSetup {
    fn default() -> Self {
        BoxSetup { algorithm: "reno".to_string(), flows_max: 64, store_kib: 1024 }
    }
}

impl BoxSetup {
    /// As the programs are loaded.
    pub fn of_programs(&self) -> Setup {
        Setup {
            algorithm: self.algorithm.clone(),
            flows_max: self.flows_max,
            store_bytes: u64::from(self.store_kib) << 10,
            idle_timeout_s: 300,
            pace_by_fq: false,
            controls_paced: true,
        }
    }
}

/// A whole script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// What stands in its first comment.
    pub purpose: Vec<String>,
    /// Name of the known fault that makes it fail.
    pub expected_failure: Option<String>,
    /// How the box is set up.
    pub setup: BoxSetup,
    /// Connections by name; the first has an empty one.
    pub connections: BTreeMap<String, Ends>,
    /// What happens, in this order, repetitions written out.
    pub steps: Vec<Step>,
}

/// Steps that are repeated: where they begin, and how often.
type Repetition = Option<(usize, usize)>;

fn duration_us(word: &str) -> Result<u64> {
    let digits = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let (digits, unit) = word.split_at(digits);
    let unit_us = match unit {
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        _ => bail!("{word}: durations are written 500us, 20ms or 3s"),
    };
    let number: u64 = digits.parse().with_context(|| format!("{word}: no duration"))?;
    ensure!(number <= 3600, "{word}: a duration of more than 3600 {unit}");
    Ok(number * unit_us)
}

fn number<T: std::str::FromStr>(words: &[&str], at: usize) -> Result<T> {
    let word = words.get(at).with_context(|| format!("{}: of what?", words[at - 1]))?;
    word.parse().ok().with_context(|| format!("{word}: no number, or too large"))
}

fn setup(words: &[&str]) -> Result<BoxSetup> {
    let mut setup = BoxSetup::default();
    let mut at = 1;
    while at < words.len() {
        match words[at] {
            "algorithm" => {
                setup.algorithm = words.get(at + 1).context("algorithm: which?")?.to_string();
            }
            "flows" => setup.flows_max = number(words, at + 1)?,
            "store-kib" => setup.store_kib = number(words, at + 1)?,
            other => bail!("{other}: nothing that the box is set up with"),
        }
        at += 2;
    }
    Ok(setup)
}

fn ends(words: &[&str]) -> Result<Ends> {
    let mut ends = Ends::default();
    let mut at = 0;
    while at < words.len() {
        at += match words[at] {
            "no-sack" => {
                ends.permits_sack = false;
                1
            }
            "no-wscale" => {
                ends.wscale = None;
                1
            }
            "timestamps" => {
                ends.has_timestamps = true;
                1
            }
            "ecn" => {
                ends.has_ecn = true;
                1
            }
            "ipv6" => {
                ends.is_ipv6 = true;
                1
            }
            "mss" => {
                ends.mss_bytes = number(words, at + 1)?;
                ensure!(ends.mss_bytes >= 64, "mss: at least 64 bytes");
                2
            }
            "wscale" => {
                ends.wscale = Some(number(words, at + 1)?);
                2
            }
            "server-isn" => {
                ends.server_isn = number(words, at + 1)?;
                2
            }
            "server" => {
                ends.server = number(words, at + 1)?;
                2
            }
            other => bail!("{other}: nothing that a connection has"),
        };
    }
    Ok(ends)
}

/// A name, and what follows it; of a word like `server/b` the name is `b`.
fn named(word: &str) -> Result<(&str, String)> {
    let (word, name) = word.split_once('/').unwrap_or((word, ""));
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric());
    ensure!(is_name, "{name}: names of connections are letters and digits");
    Ok((word, name.to_string()))
}

fn seen(words: &[&str]) -> Result<Seen> {
    let (place, connection) = named(words[0])?;
    let place = match place {
        "server" => Place::Server,
        "client" => Place::Client,
        "box" => Place::Box,
        other => bail!("{other}: no step of a script"),
    };
    let is_to_client = match words.get(1) {
        Some(&">") => true,
        Some(&"<") => false,
        _ => bail!("{}: > (to the client) or < (to the server) is missing", words[0]),
    };
    let packet = match &words[2..] {
        ["nothing"] => None,
        others => Some(Packet::parse(others)?),
    };
    let seen = Seen { place, connection, is_to_client, packet };
    ensure!(!seen.is_sent() || seen.packet.is_some(), "what an end does not send needs no line");
    Ok(seen)
}

fn action(words: &[&str]) -> Result<Action> {
    let Some(first) = words.first() else { return Ok(Action::Wait) };
    let (word, connection) = named(first)?;
    match (word, &words[1..]) {
        ("open", []) => Ok(Action::Open { connection, rtt_us: 20_000 }),
        ("open", ["rtt", rtt]) => Ok(Action::Open { connection, rtt_us: duration_us(rtt)? }),
        ("clock", ["stops"]) => Ok(Action::Clock(false)),
        ("clock", ["goes-on"]) => Ok(Action::Clock(true)),
        ("paced-servers", ["control"]) => Ok(Action::PacedServers(true)),
        ("paced-servers", ["watch"]) => Ok(Action::PacedServers(false)),
        ("mode", ["control"]) => Ok(Action::Mode(Mode::Control)),
        ("mode", ["watch"]) => Ok(Action::Mode(Mode::Watch)),
        ("mode", ["off"]) => Ok(Action::Mode(Mode::Off)),
        ("box", [">", "anything"]) => Ok(Action::BoxSendsAnything),
        _ => Ok(Action::Packet(seen(words)?)),
    }
}

fn step(line: usize, mut words: &[&str]) -> Result<Step> {
    let mut step = Step { line, after_us: 0, action: Action::Wait };
    if let Some(after) = words[0].strip_prefix('+') {
        step.after_us = duration_us(after)?;
        words = &words[1..];
    }
    step.action = action(words)?;
    Ok(step)
}

impl Script {
    /// Reads one; errors name the line.
    pub fn parse(text: &str) -> Result<Script> {
        let mut script = Script {
            purpose: Vec::new(),
            expected_failure: None,
            setup: BoxSetup::default(),
            connections: BTreeMap::new(),
            steps: Vec::new(),
        };
        let mut is_head = true;
        let mut repetition = None;
        for (at, line) in text.lines().enumerate() {
            let (code, comment) = line.split_once('#').unwrap_or((line, ""));
            let words: Vec<&str> = code.split_whitespace().collect();
            if words.is_empty() {
                is_head &= !comment.is_empty();
                if is_head {
                    script.purpose.push(comment.trim().to_string());
                }
                continue;
            }
            is_head = false;
            script
                .take(at + 1, code.trim(), &words, &mut repetition)
                .with_context(|| format!("line {}", at + 1))?;
        }
        ensure!(repetition.is_none(), "`repeat` without `end`");
        let lines = script.purpose.len();
        ensure!(
            (1..=PURPOSE_LINES).contains(&lines),
            "a script begins with one to {PURPOSE_LINES} lines of comment: mechanism, section of the RFC, what is right"
        );
        script.connections.entry(String::new()).or_default();
        for step in &script.steps {
            let name = match &step.action {
                Action::Packet(seen) => &seen.connection,
                Action::Open { connection, .. } => connection,
                _ => continue,
            };
            ensure!(
                script.connections.contains_key(name),
                "line {}: {name}: no such connection; `connection/{name}` makes it",
                step.line
            );
        }
        Ok(script)
    }

    fn take(&mut self, line: usize, code: &str, words: &[&str], repetition: &mut Repetition) -> Result<()> {
        if let Some(name) = code.strip_prefix(EXPECT_FAILURE) {
            ensure!(!name.trim().is_empty(), "{EXPECT_FAILURE} what fails?");
            self.expected_failure = Some(name.trim().to_string());
            return Ok(());
        }
        let (word, name) = named(words[0])?;
        match word {
            "setup" => {
                ensure!(self.steps.is_empty(), "the box is set up before anything happens");
                self.setup = setup(words)?;
            }
            "connection" => {
                let is_new = self.connections.insert(name, ends(&words[1..])?).is_none();
                ensure!(is_new, "{}: there is one of that name", words[0]);
            }
            "repeat" => {
                ensure!(repetition.is_none(), "a `repeat` within another");
                *repetition = Some((self.steps.len(), number(words, 1)?));
            }
            "end" => {
                let (from, times) = repetition.take().context("`end` without `repeat`")?;
                let steps = self.steps.split_off(from);
                let count = steps.len().saturating_mul(times).saturating_add(from);
                ensure!(count <= STEPS_MAX, "a script of {count} steps; at most {STEPS_MAX}");
                self.steps.extend(std::iter::repeat_n(steps, times).flatten());
            }
            _ => self.steps.push(step(line, words)?),
        }
        Ok(())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.place {
            Place::Server => "server",
            Place::Client => "client",
            Place::Box => "box",
        })?;
        if !self.connection.is_empty() {
            write!(f, "/{}", self.connection)?;
        }
        f.write_str(if self.is_to_client { " > " } else { " < " })?;
        match &self.packet {
            Some(packet) => packet.fmt(f),
            None => f.write_str("nothing"),
        }
    }
}
