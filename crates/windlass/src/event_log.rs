//! What the agent and the controller print while they run: lines for people, or one JSON document per event. Where nothing can be
//! written, as on a full disk or after the reader's end, they go on: interfaces, policies and guests must be served all the same.

use serde_json::{Value, json};
use std::{
    fmt::Display,
    io::{self, Write},
    path::Path,
};
use windlass_scenario::{Printable, printable_message, printable_path};

/// Events on standard output, errors on standard error.
#[derive(Clone, Copy, Debug)]
pub struct EventLog {
    /// For programs: one JSON document a line.
    pub as_json: bool,
}

/// A line for people; others may have chosen some of its words.
pub fn print_line(words: impl Display) {
    let _ = writeln!(io::stdout(), "{}", Printable(words));
}

/// A line for programs.
pub fn print_json(document: &Value) {
    let _ = writeln!(io::stdout(), "{document}");
}

impl EventLog {
    /// Something happened to `whose`, for example an interface, whose name is `name`; `words` is what became of it.
    fn print_event(self, event: &str, whose: &str, name: impl Display, words: &str) {
        if self.as_json {
            let mut document = json!({ "event": event });
            document[whose] = Value::String(name.to_string());
            print_json(&document);
        } else {
            print_line(format_args!("{name}: {words}"));
        }
    }

    /// Something happened to an interface.
    pub fn of_iface(self, event: &str, iface: &str, words: &str) {
        self.print_event(event, "iface", iface, words);
    }

    /// Something happened to a cgroup.
    pub fn of_cgroup(self, event: &str, cgroup: &Path, words: &str) {
        self.print_event(event, "cgroup", printable_path(cgroup), words);
    }

    /// Something happened to the policy.
    pub fn of_policy(self, event: &str, policy: &Path, words: &str) {
        self.print_event(event, "policy", printable_path(policy), words);
    }

    /// Something happened to the file that names guests.
    pub fn of_guests(self, file: &Path, words: &str) {
        self.print_event("in_force", "file", printable_path(file), words);
    }

    /// What earlier agents left for interfaces that are gone was removed.
    pub fn of_leftovers(self, interfaces: usize) {
        if self.as_json {
            print_json(&json!({ "event": "removed", "interfaces": interfaces }));
        } else {
            print_line(format_args!(
                "removed what an earlier agent had pinned for {interfaces} interfaces that are gone"
            ));
        }
    }

    /// Something is not as it should be, and the command goes on.
    pub fn warn(self, why: impl Display) {
        if self.as_json {
            print_json(&json!({ "event": "complaint", "why": why.to_string() }));
        } else {
            let _ = writeln!(io::stderr(), "windlass: {}", printable_message(&why.to_string()));
        }
    }
}
