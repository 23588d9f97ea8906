//! One line of the log, in each of its formats.

use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, fmt};
use tracing::{
    Event, Level,
    field::{Field, Visit},
};
use windlass_scenario::{Printable, printable_message};

/// Fields that name what a line is about; its text begins with that.
const SUBJECTS: [&str; 5] = ["device", "cgroup", "policy", "file", "guest"];

/// What is logged.
#[derive(Debug, PartialEq)]
pub struct Line {
    pub level: Level,
    message: String,
    fields: BTreeMap<&'static str, Value>,
}

#[derive(Serialize)]
struct Document<'a> {
    time: &'a str,
    level: &'static str,
    message: &'a str,
    #[serde(flatten)]
    fields: &'a BTreeMap<&'static str, Value>,
}

impl Line {
    pub fn of(event: &Event<'_>) -> Line {
        let mut line =
            Line { level: *event.metadata().level(), message: String::new(), fields: BTreeMap::new() };
        event.record(&mut line);
        line
    }

    /// For people. Others may have chosen some of its words, so that what terminals would obey is shown by number. To journald, which
    /// has a field for it, the program's name is not repeated.
    pub fn text(&self, is_journal: bool) -> String {
        let subject = SUBJECTS.iter().find_map(|name| self.fields.get(name)?.as_str());
        let words = match subject {
            Some(subject) => format!("{subject}: {}", self.message),
            None => self.message.clone(),
        };
        let program = if is_journal { "" } else { "windlass: " };
        match self.level {
            Level::INFO => Printable(words).to_string(),
            Level::ERROR | Level::WARN => format!("{program}{}", printable_message(&words)),
            _ => format!("{program}debug: {}", printable_message(&words)),
        }
    }

    /// For programs: one JSON document.
    pub fn json(&self, time: &str) -> String {
        let level = match self.level {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            _ => "debug",
        };
        let document = Document { time, level, message: &self.message, fields: &self.fields };
        serde_json::to_string(&document).expect("plain data")
    }
}

/// The same for journald: each of its lines with the level as sd-daemon(3) has it.
pub fn with_priority(level: Level, text: &str) -> String {
    let priority = match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    };
    let lines: Vec<String> = text.lines().map(|line| format!("<{priority}>{line}")).collect();
    lines.join("\n")
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.into(),
            name => drop(self.fields.insert(name, value.into())),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.insert(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.insert(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.insert(field.name(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(level: Level, message: &str, fields: &[(&'static str, &str)]) -> Line {
        let fields = fields.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
        Line { level, message: message.into(), fields }
    }

    #[test]
    fn log_line_as_text_begins_with_what_it_is_about() {
        let attached = line(Level::INFO, "under control", &[("device", "tap0"), ("event", "attached")]);
        assert_eq!(attached.text(false), "tap0: under control");
        assert_eq!(line(Level::WARN, "odd", &[("device", "tap0")]).text(false), "windlass: tap0: odd");
        assert_eq!(line(Level::ERROR, "one\ntwo", &[]).text(false), "windlass: one\n  two");
        assert_eq!(line(Level::DEBUG, "looked", &[]).text(false), "windlass: debug: looked");
    }

    #[test]
    fn log_line_shows_what_a_terminal_would_obey() {
        let forged = line(Level::INFO, "under control", &[("device", "a\x1b[2J\nb")]);
        assert_eq!(forged.text(false), "a\\x1b[2J\\x0ab: under control");
        let document: Value = serde_json::from_str(&forged.json("now")).unwrap();
        assert_eq!(document["device"], "a\x1b[2J\nb", "JSON escapes by rules of its own");
        assert!(!forged.json("now").contains(['\n', '\x1b']));
    }

    #[test]
    fn log_line_for_journald_has_a_priority_in_each_of_its_lines_and_no_name() {
        let of = |level, message| {
            let line = line(level, message, &[]);
            with_priority(level, &line.text(true))
        };
        assert_eq!(of(Level::ERROR, "one\ntwo"), "<3>one\n<3>  two");
        assert_eq!(of(Level::WARN, "odd"), "<4>odd");
        assert_eq!(of(Level::INFO, "so"), "<6>so");
        assert_eq!(of(Level::DEBUG, "so"), "<7>debug: so");
    }

    #[test]
    fn log_line_as_json_is_a_document_with_time_and_level_first() {
        let attached = line(Level::INFO, "under \"control\"", &[("device", "tap0"), ("event", "attached")]);
        assert_eq!(
            attached.json("2026-11-27T21:40:00.000001Z"),
            r#"{"time":"2026-11-27T21:40:00.000001Z","level":"info","message":"under \"control\"","device":"tap0","event":"attached"}"#
        );
    }
}
