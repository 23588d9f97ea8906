//! A flow of the scenario as it goes: which responses it asks for when, on which connection, and how long they took.

use crate::{tcp::SenderStats, time::NEVER};
use windlass_core::Algorithm;
use windlass_scenario::{After, Flow, Plan, Planned, Response};

/// A flow in the course of a run.
#[derive(Debug)]
pub struct Session {
    plan: Plan,
    /// What is asked for next; none: that was all.
    next: Option<Planned>,
    /// When it is due; NEVER: when what is on its way has arrived.
    due_ns: u64,
    /// When the last request was due.
    asked_at_ns: u64,
    /// When the event is due that looks after it; NEVER: there was none.
    wakes_at_ns: u64,
    /// Responses that are on their way.
    waiting: u32,
    /// Congestion control of its senders.
    pub algorithm: Algorithm,
    /// Where the paths of its client and its server begin.
    pub hops: [u32; 2],
    /// Its connections that are open.
    pub open: u32,
    /// connect() of the first connection.
    pub started_at_ns: Option<u64>,
    /// First byte of the first response.
    pub first_byte_at_ns: Option<u64>,
    /// Last byte of the last response.
    pub completed_at_ns: Option<u64>,
    /// The scenario has stopped it.
    pub is_stopped: bool,
    /// Responses that arrived.
    pub responses: Vec<Response>,
    /// Payload of those.
    pub arrived_bytes: u64,
    /// Payload that was asked for.
    pub asked_bytes: u64,
    /// What its senders did whose connections are gone.
    pub past: SenderStats,
}

impl Session {
    /// Flow `index` of a scenario, which has not begun. `hops`: where the paths of its client and its server begin.
    pub fn new(scenario_seed: u64, index: usize, algorithm: Algorithm, hops: [u32; 2]) -> Session {
        Session {
            plan: Plan::new(scenario_seed, index),
            next: None,
            due_ns: NEVER,
            asked_at_ns: 0,
            wakes_at_ns: NEVER,
            waiting: 0,
            algorithm,
            hops,
            open: 0,
            started_at_ns: None,
            first_byte_at_ns: None,
            completed_at_ns: None,
            is_stopped: false,
            responses: Vec::new(),
            arrived_bytes: 0,
            asked_bytes: 0,
            past: SenderStats::default(),
        }
    }

    /// The flow begins, and so does its plan.
    pub fn start(&mut self, flow: &Flow, now_ns: u64) {
        self.started_at_ns = Some(now_ns);
        self.asked_at_ns = now_ns;
        self.next = self.plan.next(flow);
        self.set_due(flow, now_ns);
    }

    /// When somebody must look after it again; none: not before what is on its way has arrived, or somebody will.
    pub fn wake_at_ns(&mut self, now_ns: u64) -> Option<u64> {
        if self.due_ns == NEVER || self.due_ns <= now_ns || self.due_ns == self.wakes_at_ns {
            return None;
        }
        self.wakes_at_ns = self.due_ns;
        Some(self.due_ns)
    }

    /// Whether it has no connection and will never have one again.
    pub fn is_over(&self) -> bool {
        self.open == 0 && (self.completed_at_ns.is_some() || self.is_stopped)
    }

    /// The response that is due now: when it was due, and its length. Plans the one after it.
    pub fn take_due(&mut self, flow: &Flow, now_ns: u64) -> Option<(u64, Option<u64>)> {
        if self.due_ns > now_ns || self.is_stopped {
            return None;
        }
        let planned = self.next?;
        let due_ns = self.due_ns;
        self.asked_at_ns = due_ns;
        self.waiting += 1;
        self.asked_bytes += planned.size_bytes.unwrap_or(0);
        self.next = self.plan.next(flow);
        self.set_due(flow, now_ns);
        Some((due_ns, planned.size_bytes))
    }

    /// A response has arrived.
    pub fn on_response(&mut self, flow: &Flow, response: Response, now_ns: u64) {
        self.arrived_bytes += response.bytes;
        self.responses.push(response);
        self.waiting -= 1;
        if self.due_ns == NEVER {
            self.set_due(flow, now_ns);
        }
        if self.waiting == 0 && self.next.is_none() {
            self.completed_at_ns = Some(now_ns);
        }
    }

    /// Finds when the next one is due, if what it waits for has happened. Trains whose time is over are left out.
    fn set_due(&mut self, flow: &Flow, now_ns: u64) {
        self.due_ns = NEVER;
        while let Some(planned) = self.next {
            let after_ns = match planned.after {
                After::Response(_) if self.waiting > 0 => return,
                After::Response(gap_ns) => now_ns + gap_ns,
                After::Request(interval_ns) => self.asked_at_ns + interval_ns,
            };
            let due_ns = after_ns.max(planned.not_before_ns);
            if planned.until_ns.is_none_or(|until_ns| due_ns < until_ns) {
                self.due_ns = due_ns;
                return;
            }
            self.plan.skip_train();
            self.next = self.plan.next(flow);
        }
    }
}

#[cfg(test)]
mod tests;
