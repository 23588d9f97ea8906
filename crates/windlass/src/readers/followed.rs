//! Flows that readers follow: their ledgers are kept until no reader has asked about them for a while.

use super::question::FlowName;
use crate::{
    flow_table::{self, Seen},
    info::open_whole,
};
use anyhow::Result;
use serde::Serialize;
use std::{
    collections::HashMap,
    slice,
    time::{Duration, Instant},
};
use windlass_agent::{Asked, Observed, Pinned, Why};

/// At once; another one is looked at without its ledger.
const MOST: usize = 32;
/// One about which there is no question for so long is followed no more.
const FOR: Duration = Duration::from_secs(5);

/// A flow, and why it is at its rate.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// Time since the agent began.
    t_us: u64,
    /// What is done with it now.
    word: &'static str,
    flow: Seen,
    why: Why,
}

#[derive(Debug, Default)]
pub struct Followed(HashMap<FlowName, (Option<Asked>, Instant)>);

impl Followed {
    /// The flow, which is followed from now on; none: there is none of that name. It is `t_us`.
    pub fn look(&mut self, name: &FlowName, t_us: u64) -> Result<Option<Answer>> {
        // by its name, and not as a part of a path
        let is_here = windlass_agent::pinned_here().contains(&name.iface);
        let pinned = if is_here { open_whole(&name.iface)? } else { None };
        let Some(pinned) = pinned else { return Ok(None) };
        let Some(observed) = pinned.observe_one(name.sender, name.receiver)? else {
            self.0.remove(name);
            return Ok(None);
        };
        self.ask(name, &pinned, &observed)?;
        let why = Why::of(&observed);
        let flow = Seen {
            iface: name.iface.clone(),
            rule_name: flow_table::rule_name(&observed.info, &pinned.rule_names()),
            flow: observed.info,
        };
        Ok(Some(Answer { t_us, word: flow.state(), flow, why }))
    }

    /// Has its ledger kept, if it is not.
    fn ask(&mut self, name: &FlowName, pinned: &Pinned, observed: &Observed) -> Result<()> {
        let is_kept = observed.ledger.is_some();
        let is_full = self.0.len() >= MOST;
        match self.0.get_mut(name) {
            Some((asked, at)) if asked.as_ref().map_or(is_kept, |asked| asked.is_of(observed)) => {
                *at = Instant::now();
                // the end of another reader may have ended it
                asked.as_ref().filter(|_| !is_kept).map_or(Ok(()), Asked::again)?;
            }
            None if is_full => {}
            _ => {
                self.0.remove(name);
                let asked = pinned.ask(slice::from_ref(observed))?;
                self.0.insert(name.clone(), (asked, Instant::now()));
            }
        }
        Ok(())
    }

    /// Follows those no more about which there are no questions. Returns whether others are left.
    pub fn rest(&mut self) -> bool {
        self.0.retain(|_, (_, at)| at.elapsed() < FOR);
        !self.0.is_empty()
    }

    /// Follows none any more.
    pub fn end(&mut self) {
        self.0.clear();
    }
}
