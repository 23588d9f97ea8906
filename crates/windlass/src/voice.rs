//! What the agent and the controller say as they go on: lines for people, or one JSON document per event. Where nobody hears
//! it, as a disk is full or its reader gone, they go on without a word: interfaces, policies and guests are to be looked after
//! all the same.

use serde_json::{Value, json};
use std::{
    fmt::Display,
    io::{self, Write},
    path::Path,
};
use windlass_scenario::{Printable, printable_message, printable_path};

/// Who is spoken to.
#[derive(Clone, Copy, Debug)]
pub struct Voice {
    /// A program.
    pub as_json: bool,
}

/// A line for people; others may have chosen some of its words.
pub fn say(words: impl Display) {
    let _ = writeln!(io::stdout(), "{}", Printable(words));
}

/// A line for programs.
pub fn say_document(document: &Value) {
    let _ = writeln!(io::stdout(), "{document}");
}

impl Voice {
    /// Something happened to `whose`, an interface, say, whose name is `name`; `words` is what became of it.
    fn tell(self, event: &str, whose: &str, name: impl Display, words: &str) {
        if self.as_json {
            let mut document = json!({ "event": event });
            document[whose] = Value::String(name.to_string());
            say_document(&document);
        } else {
            say(format_args!("{name}: {words}"));
        }
    }

    /// Something happened to an interface.
    pub fn of_iface(self, event: &str, iface: &str, words: &str) {
        self.tell(event, "iface", iface, words);
    }

    /// Something happened to a cgroup.
    pub fn of_cgroup(self, event: &str, cgroup: &Path, words: &str) {
        self.tell(event, "cgroup", printable_path(cgroup), words);
    }

    /// Something happened to the policy.
    pub fn of_policy(self, event: &str, policy: &Path, words: &str) {
        self.tell(event, "policy", printable_path(policy), words);
    }

    /// What earlier agents left for interfaces that are gone was removed.
    pub fn of_leftovers(self, interfaces: usize) {
        if self.as_json {
            say_document(&json!({ "event": "removed", "interfaces": interfaces }));
        } else {
            say(format_args!(
                "removed what an earlier agent had pinned for {interfaces} interfaces that are gone"
            ));
        }
    }

    /// Something is not as it should be, and the command goes on.
    pub fn complain(self, why: impl Display) {
        if self.as_json {
            say_document(&json!({ "event": "complaint", "why": why.to_string() }));
        } else {
            let _ = writeln!(io::stderr(), "windlass: {}", printable_message(&why.to_string()));
        }
    }
}
