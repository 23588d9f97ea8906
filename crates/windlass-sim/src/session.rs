//! A flow of the scenario as it goes: which responses it requests when, on which connection, and how long they took.

use crate::{
    tcp::{ReceiverStats, SenderStats},
    time::NEVER,
};
use windlass_core::Algorithm;
use windlass_scenario::{DuePage, Flow, PageLoad, Response, Schedule};

/// A flow in the course of a run.
#[derive(Debug)]
pub struct Session {
    /// What it requests when.
    pub schedule: Schedule,
    /// When the event is due that looks after it; NEVER: there was none.
    wakes_at_ns: u64,
    /// Congestion control of its senders.
    pub algorithm: Algorithm,
    /// Where the paths of its first connection begin: the client's and the server's.
    pub hops: [u32; 2],
    /// Its connections so far, where it has one for each response.
    pub connections: u64,
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
    /// Pages that were loaded.
    pub pages: Vec<PageLoad>,
    /// Payload of those.
    pub arrived_bytes: u64,
    /// Payload that was requested.
    pub asked_bytes: u64,
    /// Datagrams that it has sent.
    pub datagrams: u64,
    /// What its senders did whose connections are gone.
    pub past: SenderStats,
    /// What came to its clients on connections that are gone.
    pub past_arrivals: ReceiverStats,
}

impl Session {
    /// Flow `index` of a scenario, which has not begun. `hops`: where the paths of its client and its server begin.
    pub fn new(scenario_seed: u64, index: usize, algorithm: Algorithm, hops: [u32; 2]) -> Session {
        Session {
            schedule: Schedule::new(scenario_seed, index),
            wakes_at_ns: NEVER,
            algorithm,
            hops,
            connections: 0,
            open: 0,
            started_at_ns: None,
            first_byte_at_ns: None,
            completed_at_ns: None,
            is_stopped: false,
            responses: Vec::new(),
            pages: Vec::new(),
            arrived_bytes: 0,
            asked_bytes: 0,
            datagrams: 0,
            past: SenderStats::default(),
            past_arrivals: ReceiverStats::default(),
        }
    }

    /// The flow begins, and so does its plan.
    pub fn start(&mut self, flow: &Flow, now_ns: u64) {
        self.started_at_ns = Some(now_ns);
        self.schedule.start(flow, now_ns);
    }

    /// When the run must look after it again; none: not before what is on its way has arrived, or another event does.
    pub fn wake_at_ns(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns =
            self.schedule.due_ns().filter(|due_ns| *due_ns > now_ns && *due_ns != self.wakes_at_ns)?;
        self.wakes_at_ns = due_ns;
        Some(due_ns)
    }

    /// Whether it has no connection and will never have one again.
    pub fn is_over(&self) -> bool {
        self.open == 0 && (self.completed_at_ns.is_some() || self.is_stopped)
    }

    /// The response that is due now: when it was due, and its length. Plans the one after it.
    pub fn take_due(&mut self, flow: &Flow, now_ns: u64) -> Option<(u64, Option<u64>)> {
        if self.is_stopped {
            return None;
        }
        let due = self.schedule.take_due(flow, now_ns)?;
        self.asked_bytes += due.1.unwrap_or(0);
        Some(due)
    }

    /// The page that is due now. Plans the one after it.
    pub fn take_due_page(&mut self, flow: &Flow, now_ns: u64) -> Option<DuePage> {
        if self.is_stopped {
            return None;
        }
        let due = self.schedule.take_due_page(flow, now_ns)?;
        self.asked_bytes += due.objects.iter().sum::<u64>();
        Some(due)
    }

    /// A page is loaded, whose objects were counted as they arrived.
    pub fn on_page(&mut self, flow: &Flow, page: PageLoad, now_ns: u64) {
        self.pages.push(page);
        self.responses.push(page.into());
        if self.schedule.on_response(flow, now_ns) {
            self.completed_at_ns = Some(now_ns);
        }
    }

    /// Datagrams of a response were sent, which is all that its sender will ever know of it.
    pub fn on_datagrams_sent(&mut self, flow: &Flow, datagrams: u64, now_ns: u64) {
        self.datagrams += datagrams;
        if self.schedule.on_response(flow, now_ns) {
            self.completed_at_ns = Some(now_ns);
        }
    }

    /// A datagram has arrived.
    pub fn on_datagram(&mut self, response: Response, now_ns: u64) {
        self.first_byte_at_ns.get_or_insert(now_ns);
        self.arrived_bytes += response.bytes;
        self.responses.push(response);
    }

    /// A response has arrived.
    pub fn on_response(&mut self, flow: &Flow, response: Response, now_ns: u64) {
        self.arrived_bytes += response.bytes;
        self.responses.push(response);
        if self.schedule.on_response(flow, now_ns) {
            self.completed_at_ns = Some(now_ns);
        }
    }
}

#[cfg(test)]
mod tests;
