//! What answers are made from: what an agent controls, or whatever else is shown as that is.

use super::{
    followed::Followed,
    question::{FlowName, Question},
    snapshot::{Looker, Snapshot},
};
use crate::metrics::Published;
use anyhow::Result;
use serde_json::{Value, json};
use std::{process, sync::Arc, time::Instant};

/// What answers are made from.
pub trait Source {
    /// All flows, and what was counted.
    fn look(&mut self) -> Result<Snapshot>;

    /// A flow, and what holds it back; none: there is none of that name.
    fn flow(&mut self, name: &FlowName) -> Result<Option<Value>>;

    /// How it is.
    fn about(&self) -> Value;

    /// Why it has no answer to such a question; none: it has.
    fn lacks(&self, _question: &Question) -> Option<&'static str> {
        None
    }

    /// Remembers looks no more: there was no question for a while.
    fn forget(&mut self) {}

    /// Follows flows no more about which there was no question for a while. Returns whether others are left.
    fn rest(&mut self) -> bool {
        false
    }

    /// Lets go of all that it has begun.
    fn end(&mut self) {}
}

/// What this process, an agent, controls.
#[derive(Debug)]
pub struct Controlled {
    published: Arc<Published>,
    began: Instant,
    looker: Looker,
    followed: Followed,
}

impl Controlled {
    pub fn new(published: Arc<Published>) -> Controlled {
        Controlled {
            published,
            began: Instant::now(),
            looker: Looker::default(),
            followed: Followed::default(),
        }
    }

    fn t_us(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }
}

impl Source for Controlled {
    fn look(&mut self) -> Result<Snapshot> {
        self.looker.look(self.t_us())
    }

    fn flow(&mut self, name: &FlowName) -> Result<Option<Value>> {
        let answer = self.followed.look(name, self.t_us())?;
        Ok(answer.map(|answer| serde_json::to_value(answer).expect("plain data")))
    }

    fn about(&self) -> Value {
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

    fn forget(&mut self) {
        self.looker = Looker::default();
    }

    fn rest(&mut self) -> bool {
        self.followed.rest()
    }

    fn end(&mut self) {
        self.followed.end();
    }
}
