//! What commands that go on report: to their log (`log.rs`), or for programs as one JSON document per event on standard output. Where
//! nothing can be written, as on a full disk or after the reader's end, they go on: interfaces, policies and guests must be served all
//! the same.

use crate::{args::LogArgs, log, print};
use serde_json::{Value, json};
use std::{
    fmt::Display,
    io::{self, Write},
    path::Path,
};
use tracing::Level;
use windlass_scenario::printable_path;

/// Where the events of a command go.
#[derive(Clone, Copy, Debug)]
pub struct EventLog {
    /// For programs: one JSON document a line.
    pub as_json: bool,
    /// Also, or only, to the log.
    is_logged: bool,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'a> {
    /// The command as a whole.
    Command,
    /// An interface.
    Device(&'a str),
    /// A cgroup's folder.
    Cgroup(&'a Path),
    /// The policy's file.
    Policy(&'a Path),
    /// Another file of settings.
    File(&'a Path),
    /// A virtual machine.
    Guest(&'a str),
}

impl About<'_> {
    /// Its field in documents, and its name.
    fn in_document(self) -> Option<(&'static str, String)> {
        match self {
            About::Command => None,
            About::Device(name) => Some(("iface", name.into())),
            About::Cgroup(folder) => Some(("cgroup", printable_path(folder).to_string())),
            About::Policy(file) => Some(("policy", printable_path(file).to_string())),
            About::File(file) => Some(("file", printable_path(file).to_string())),
            About::Guest(name) => Some(("guest", name.into())),
        }
    }
}

/// A line for programs.
pub fn print_json(document: &Value) {
    let _ = writeln!(io::stdout(), "{document}");
}

/// A line of the log.
fn write(level: Level, event: Option<&str>, about: About<'_>, words: &str) {
    let of = about.in_document();
    let field = |name| of.as_ref().filter(|(field, _)| *field == name).map(|(_, value)| value.as_str());
    // levels must be known when the program is built
    macro_rules! at {
        ($level:expr) => {
            tracing::event!(
                $level,
                event,
                device = field("iface"),
                cgroup = field("cgroup"),
                policy = field("policy"),
                file = field("file"),
                guest = field("guest"),
                "{words}"
            )
        };
    }
    match level {
        Level::ERROR => at!(Level::ERROR),
        Level::WARN => at!(Level::WARN),
        Level::INFO => at!(Level::INFO),
        _ => at!(Level::DEBUG),
    }
}

impl EventLog {
    /// Of a command with these options; `as_json`: documents on standard output, and with options of the log lines there, too.
    pub fn new(args: &LogArgs, as_json: bool) -> EventLog {
        let is_wanted = args.log_level.is_some() || args.log_format.is_some();
        EventLog { as_json, is_logged: !as_json || is_wanted }
    }

    /// Something happened; `words` is what became of it.
    pub fn event(self, event: &str, about: About<'_>, words: &str) {
        self.event_with(event, about, words, || {
            let mut document = json!({ "event": event });
            if let Some((field, name)) = about.in_document() {
                document[field] = Value::String(name);
            }
            document
        });
    }

    /// The same with another document for programs.
    pub fn event_with(self, event: &str, about: About<'_>, words: &str, document: impl FnOnce() -> Value) {
        if self.as_json {
            print_json(&document());
        }
        if self.is_logged {
            write(Level::INFO, Some(event), about, words);
        }
    }

    /// The same of a command whose end is to be wanted when this cannot be read any more, as print macros have it.
    pub fn must_reach(self, event: &str, about: About<'_>, words: &str, document: impl FnOnce() -> Value) {
        if self.as_json {
            println!("{}", document());
        }
        if !self.is_logged {
            return;
        }
        if !log::has_notices_on_output() {
            write(Level::INFO, Some(event), about, words);
        } else if tracing::enabled!(Level::INFO) {
            match about.in_document() {
                Some((_, name)) => print::line(format_args!("{name}: {words}")),
                None => print::line(words),
            }
        }
    }

    /// Something happened to an interface.
    pub fn of_iface(self, event: &str, iface: &str, words: &str) {
        self.event(event, About::Device(iface), words);
    }

    /// Something happened to a cgroup.
    pub fn of_cgroup(self, event: &str, cgroup: &Path, words: &str) {
        self.event(event, About::Cgroup(cgroup), words);
    }

    /// Something happened to the policy.
    pub fn of_policy(self, event: &str, policy: &Path, words: &str) {
        self.event(event, About::Policy(policy), words);
    }

    /// Something happened to the file that names guests.
    pub fn of_guests(self, file: &Path, words: &str) {
        self.event("in_force", About::File(file), words);
    }

    /// What earlier agents left for interfaces that are gone was removed.
    pub fn of_leftovers(self, interfaces: usize) {
        let words =
            format!("removed what an earlier agent had pinned for {interfaces} interfaces that are gone");
        self.event_with(
            "removed",
            About::Command,
            &words,
            || json!({ "event": "removed", "interfaces": interfaces }),
        );
    }

    /// Something is not as it should be, and the command goes on.
    pub fn warn(self, why: impl Display) {
        self.warn_of(About::Command, why);
    }

    /// The same of something that has a name.
    pub fn warn_of(self, about: About<'_>, why: impl Display) {
        if self.as_json {
            let why = match about.in_document() {
                Some((_, name)) => format!("{name}: {why}"),
                None => why.to_string(),
            };
            print_json(&json!({ "event": "complaint", "why": why }));
        }
        if self.is_logged {
            write(Level::WARN, Some("complaint"), about, &why.to_string());
        }
    }

    /// What is looked at and decided, for those who look for a fault.
    pub fn debug(self, about: About<'_>, words: impl Display) {
        if self.is_logged {
            write(Level::DEBUG, None, about, &words.to_string());
        }
    }
}
