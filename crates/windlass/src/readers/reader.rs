//! Answers questions. What it has read is kept as long as there are questions.

use super::{
    followed::Followed,
    question::{Found, Question},
    snapshot::{Looker, Snapshot},
};
use crate::metrics::Published;
use anyhow::Result;
use serde_json::{Value, json};
use std::{
    process,
    sync::Arc,
    time::{Duration, Instant},
};

/// What was read is forgotten when there was no question for so long.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// How soon that is noticed.
const REST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Reader {
    published: Arc<Published>,
    began: Instant,
    looker: Looker,
    snapshot: Option<Snapshot>,
    followed: Followed,
    asked: Instant,
    /// The agent ends.
    is_over: bool,
}

impl Reader {
    pub fn new(published: Arc<Published>) -> Reader {
        Reader {
            published,
            began: Instant::now(),
            looker: Looker::default(),
            snapshot: None,
            followed: Followed::default(),
            asked: Instant::now(),
            is_over: false,
        }
    }

    pub fn answer(&mut self, question: &Question) -> (Found, String) {
        if self.is_over {
            return (Found::Failed, "the agent ends".into());
        }
        self.asked = Instant::now();
        match question {
            Question::Flow(name) => match self.followed.look(name, self.began.elapsed().as_micros() as u64) {
                Ok(Some(answer)) => (Found::Document, serde_json::to_string(&answer).expect("plain data")),
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
                let agent = self.agent();
                self.of_snapshot(|snapshot| {
                    let mut overview = snapshot.overview();
                    overview["agent"] = agent;
                    Ok(overview)
                })
            }
        }
    }

    /// How the agent is.
    fn agent(&self) -> Value {
        let readiness = self.published.readiness();
        json!({
            "process": process::id(),
            "version": env!("WINDLASS_VERSION"),
            "runs_for_s": self.began.elapsed().as_secs(),
            "is_ready": readiness.is_ok(),
            "words": readiness.unwrap_or_else(|why| why),
            "policy_hash": self.published.policy_hash(),
        })
    }

    fn of_snapshot(&mut self, answer: impl FnOnce(&Snapshot) -> Result<Value>) -> (Found, String) {
        let snapshot = match self.snapshot.take().filter(Snapshot::is_recent) {
            Some(snapshot) => snapshot,
            None => match self.looker.look(self.began.elapsed().as_micros() as u64) {
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
        let follows = self.followed.rest();
        if self.asked.elapsed() >= KEPT_FOR {
            self.snapshot = None;
            self.looker = Looker::default();
        }
        (follows || self.snapshot.is_some()).then_some(REST)
    }

    /// Answers no more, and lets go of what it had begun.
    pub fn end(&mut self) {
        self.is_over = true;
        self.snapshot = None;
        self.followed.end();
    }
}
