//! What a reader asks an agent, and of what kind the answer is.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Rows of a page at most.
pub const PAGE_MOST: usize = 500;

/// One line of JSON, such as `{"ask":"counters"}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Question {
    /// Totals by rule, what is in use, and how the agent is.
    Overview,
    /// Some of the flows.
    Flows(Page),
    /// One flow, and why it is at its rate.
    Flow(FlowName),
    /// Groups, and what servers use.
    Groups,
    /// What was counted, and per second.
    Counters,
}

/// Which flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Page {
    /// As of `windlass flows`.
    pub filter: String,
    /// A column of `windlass flows`, or `rate`; none: in the order of their addresses.
    pub sort: Option<String>,
    pub reverse: bool,
    /// So many are left out.
    pub offset: usize,
    /// So many at most; [`PAGE_MOST`] is the most.
    pub limit: usize,
}

/// Which flow.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowName {
    /// Interface that faces its sender.
    pub iface: String,
    pub sender: SocketAddr,
    pub receiver: SocketAddr,
}

/// Of what kind an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A JSON document follows; else words for people.
    Document,
    /// There is nothing of that name.
    Nothing,
    /// The question is none, or cannot be answered.
    Refused,
    /// It could not be read.
    Failed,
}

impl Found {
    const ALL: [(Found, &str); 4] = [
        (Found::Document, "document"),
        (Found::Nothing, "nothing"),
        (Found::Refused, "refused"),
        (Found::Failed, "failed"),
    ];

    /// With which an answer begins.
    pub fn word(self) -> &'static str {
        Found::ALL.iter().find(|(found, _)| *found == self).map_or("failed", |(_, word)| word)
    }

    /// Of such a word.
    pub fn of(word: &str) -> Option<Found> {
        Found::ALL.iter().find(|(_, own)| *own == word).map(|(found, _)| *found)
    }
}
