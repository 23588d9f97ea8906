//! Answers questions. What it has read is kept as long as there are questions.

use super::{
    question::{Found, Question},
    snapshot::Snapshot,
    source::Source,
};
use anyhow::Result;
use serde_json::Value;
use std::time::{Duration, Instant};

/// What was read is forgotten when there was no question for so long.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// How soon that is noticed.
const REST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Reader<S> {
    /// What answers are made from.
    pub source: S,
    snapshot: Option<Snapshot>,
    asked: Instant,
    /// The agent ends.
    is_over: bool,
}

impl<S: Source> Reader<S> {
    pub fn new(source: S) -> Reader<S> {
        Reader { source, snapshot: None, asked: Instant::now(), is_over: false }
    }

    pub fn answer(&mut self, question: &Question) -> (Found, String) {
        if self.is_over {
            return (Found::Failed, "the agent ends".into());
        }
        self.asked = Instant::now();
        if let Some(why) = self.source.lacks(question) {
            return (Found::Nothing, why.into());
        }
        match question {
            Question::Flow(name) => match self.source.flow(name) {
                Ok(Some(answer)) => (Found::Document, answer.to_string()),
                Ok(None) => (
                    Found::Nothing,
                    format!("no flow from {} to {} behind {}", name.sender, name.receiver, name.iface),
                ),
                Err(why) => (Found::Failed, format!("{why:#}")),
            },
            Question::Flows(page) => self.of_snapshot(|snapshot| snapshot.page(page)),
            Question::Groups => self.of_snapshot(|snapshot| Ok(snapshot.groups())),
            Question::Counters => self.of_snapshot(|snapshot| Ok(snapshot.counters())),
            Question::Overview => {
                let about = self.source.about();
                self.of_snapshot(|snapshot| {
                    let mut overview = snapshot.overview();
                    overview["agent"] = about;
                    Ok(overview)
                })
            }
        }
    }

    fn of_snapshot(&mut self, answer: impl FnOnce(&Snapshot) -> Result<Value>) -> (Found, String) {
        let snapshot = match self.snapshot.take().filter(Snapshot::is_recent) {
            Some(snapshot) => snapshot,
            None => match self.source.look() {
                Ok(snapshot) => snapshot,
                Err(why) => return (Found::Failed, format!("{why:#}")),
            },
        };
        let answered = answer(&snapshot);
        self.snapshot = Some(snapshot);
        match answered {
            Ok(document) => (Found::Document, document.to_string()),
            Err(why) => (Found::Refused, format!("{why:#}")),
        }
    }

    /// Forgets what no reader asks for any more. Returns how long there may be no question until the next call; none: for ever.
    pub fn rest(&mut self) -> Option<Duration> {
        let follows = self.source.rest();
        if self.asked.elapsed() >= KEPT_FOR {
            self.snapshot = None;
            self.source.forget();
        }
        (follows || self.snapshot.is_some()).then_some(REST)
    }

    /// Answers no more, and lets go of what it had begun.
    pub fn end(&mut self) {
        self.is_over = true;
        self.snapshot = None;
        self.source.end();
    }
}
