//! Where in a scenario's file something stands: mistakes are reported with their line, those too that only the home
//! finds in which the scenario is to run.

use crate::{Draft, Scenario, ScenarioError, line_at, read_file};
use std::path::Path;

/// What a scenario has a table for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// The network as a whole: `[topology]`, or the first `[[host]]`.
    Network,
    /// The flow of this number; its `[[flow]]` may stand for others as well.
    Flow(usize),
    /// The link of this number.
    Link(usize),
    /// The switch of this number.
    Switch(usize),
    /// The group of this number.
    Group(usize),
    /// `[tcp]`
    Tcp,
    /// `[windlass]`
    Windlass,
}

/// Why a home cannot run a scenario that is sound by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Refusal {
    /// Whose key is in the way.
    pub location: Location,
    /// The key.
    pub key: String,
    /// Of what, the key, what is wrong and the cure.
    pub what: String,
}

impl Refusal {
    /// For the sake of this key; `what`: of what, key and cure.
    pub fn new(location: Location, key: &str, what: String) -> Refusal {
        Refusal { location, key: key.into(), what }
    }
}

/// Bytes of a file at which the tables begin that things stand in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Starts {
    pub network: usize,
    pub flows: Vec<usize>,
    pub links: Vec<usize>,
    pub switches: Vec<usize>,
    pub groups: Vec<usize>,
    pub tcp: usize,
    pub windlass: usize,
}

impl Starts {
    fn begin(&self, location: Location) -> usize {
        let of = |list: &[usize], index: usize| list.get(index).copied().unwrap_or(0);
        match location {
            Location::Network => self.network,
            Location::Flow(index) => of(&self.flows, index),
            Location::Link(index) => of(&self.links, index),
            Location::Switch(index) => of(&self.switches, index),
            Location::Group(index) => of(&self.groups, index),
            Location::Tcp => self.tcp,
            Location::Windlass => self.windlass,
        }
    }
}

/// A scenario with the text that it was read from.
#[derive(Clone, Debug)]
pub struct ScenarioFile {
    /// Its message.
    pub scenario: Scenario,
    name: String,
    text: String,
    starts: Starts,
}

impl ScenarioFile {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<ScenarioFile, ScenarioError> {
        let name = path.display().to_string();
        let text =
            read_file(path).map_err(|e| ScenarioError::new(&name, 0, &format!("cannot be read: {e}")))?;
        let file = ScenarioFile::parse(&name, &text)?;
        file.scenario.check_sends().map_err(|what| ScenarioError::new(&name, 0, &what))?;
        Ok(file)
    }

    /// Checks the text of a scenario; `name` is only for messages.
    pub fn parse(name: &str, text: &str) -> Result<ScenarioFile, ScenarioError> {
        let (scenario, starts) = Scenario::parse_with_starts(name, text)?;
        Ok(ScenarioFile { scenario, name: name.into(), text: text.into(), starts })
    }

    /// The same with another seed, of which what is random of its flows hangs, too.
    pub fn with_seed(self, seed: u64) -> Result<ScenarioFile, ScenarioError> {
        let mut draft = Draft::parse(&self.name, &self.text)?;
        let wrong = |what: String| ScenarioError::new(&self.name, 0, &what);
        let number = i64::try_from(seed).map_err(|_| wrong(format!("seed {seed}: at most {}", i64::MAX)))?;
        draft.set("seed", &toml::Value::Integer(number)).map_err(wrong)?;
        let scenario = draft.scenario().map_err(wrong)?;
        Ok(ScenarioFile { scenario, ..self })
    }

    /// What a home refuses of its scenario, with file and line.
    pub fn refused(&self, refusal: &Refusal) -> ScenarioError {
        let line = line_of_key(&self.text, self.starts.begin(refusal.location), &refusal.key);
        ScenarioError::new(&self.name, line, &refusal.what)
    }
}

/// The line of the key with which `what` begins, in the table that begins at byte `start`; else that of the table.
pub(crate) fn line_of(text: &str, start: usize, what: &str) -> usize {
    let key = what.split(|c: char| !(c.is_ascii_lowercase() || c == '_')).next().unwrap_or("");
    line_of_key(text, start, key)
}

/// The line of a key in the table that begins at byte `start` or in a table of that, as are a flow's trains; else that of
/// the table.
fn line_of_key(text: &str, start: usize, key: &str) -> usize {
    let table = line_at(text, start) - 1;
    let mut lines = text.lines().enumerate().skip(table);
    let first = lines.next().map_or("", |(_, line)| line);
    let is_inner = |line: &str| name_of(line).is_some_and(|inner| is_in(inner, name_of(first)));
    let is_own = |line: &str| !line.trim_start().starts_with('[') || is_inner(line);
    let has_key =
        |line: &str| line.trim_start().strip_prefix(key).is_some_and(|l| l.trim_start().starts_with('='));
    let mut own = [(table, first)].into_iter().chain(lines.take_while(|(_, line)| is_own(line)));
    own.find(|(_, line)| !key.is_empty() && has_key(line)).map_or(table, |(i, _)| i) + 1
}

/// Of which table a line is the head: "flow.train" of `[[flow.train]]`.
fn name_of(line: &str) -> Option<&str> {
    let name = line.trim_start().strip_prefix('[')?.trim_start_matches('[');
    name.split(']').next()
}

fn is_in(inner: &str, outer: Option<&str>) -> bool {
    outer.and_then(|outer| inner.strip_prefix(outer)).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"name = "t"
[topology]
shape = "dumbbell"
pairs = 2
edge = {}
bottleneck = { rate = "1 Mbit/s" }
[[host]]
name = "a"
[[link]]
between = ["a", "switch-left"]
[[group]]
name = "g"
rule = "ccc"
[[flow]]
from = "left-*"
to = "a"
[[flow.train]]
count = 3
size = "1 kB"
interval = "1 ms"
[[flow]]
from = "a"
to = "left-1"
size = "1 kB"
[tcp]
sack = true
[windlass]
at = "switch-left"
facing = "a"
"#;

    #[test]
    fn another_seed_draws_anew() {
        let text = TEXT.replace("[[flow.train]]", "start = { uniform = [\"0 s\", \"1 s\"] }\n[[flow.train]]");
        let file = ScenarioFile::parse("s.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        let start = |file: &ScenarioFile| file.scenario.flows[0].start;
        let other = file.clone().with_seed(2).unwrap();
        assert_eq!((other.scenario.seed, other.scenario.flows.len()), (2, 3));
        assert_ne!(start(&other), start(&file));
        assert_eq!(other.with_seed(1).unwrap().scenario, file.scenario);
    }

    #[test]
    fn what_a_home_refuses_has_the_line_of_its_key() {
        let file = ScenarioFile::parse("s.toml", TEXT).unwrap_or_else(|e| panic!("{e}"));
        let line = |location, key: &str| {
            let error = file.refused(&Refusal::new(location, key, "what".into()));
            assert_eq!(error.to_string(), format!("s.toml:{}: what", error.line));
            TEXT.lines().nth(error.line - 1).unwrap()
        };
        // two flows of the first entry, and one of the second
        assert_eq!(line(Location::Flow(1), "to"), "to = \"a\"");
        assert_eq!(line(Location::Flow(1), "interval"), "interval = \"1 ms\"");
        assert_eq!(line(Location::Flow(2), "to"), "to = \"left-1\"");
        // what is not written has the line of its table
        assert_eq!(file.refused(&Refusal::new(Location::Flow(2), "algorithm", String::new())).line, 21);
        assert_eq!(line(Location::Link(0), "shape"), "shape = \"dumbbell\"");
        assert_eq!(line(Location::Link(5), "between"), "between = [\"a\", \"switch-left\"]");
        assert_eq!(line(Location::Switch(1), "edge"), "edge = {}");
        assert_eq!(line(Location::Group(0), "rule"), "rule = \"ccc\"");
        assert_eq!(line(Location::Tcp, "sack"), "sack = true");
        assert_eq!(line(Location::Windlass, "at"), "at = \"switch-left\"");
        assert_eq!(line(Location::Network, "hosts"), "[topology]");
    }
}
