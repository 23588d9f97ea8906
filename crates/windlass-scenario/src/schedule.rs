//! When a flow requests its responses, as it goes: what the plan contains, and what has happened so far.

use crate::{After, Flow, Plan, Planned, Size};

/// A page that is to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuePage {
    /// When it was due.
    pub due_ns: u64,
    /// Lengths of its objects, in the order in which they are requested.
    pub objects: Vec<u64>,
    /// Most connections at a time.
    pub connections: u32,
}

/// A flow's plan in the course of a run. Times are in ns from the beginning of the run.
#[derive(Clone, Debug)]
pub struct Schedule {
    plan: Plan,
    /// What is requested next; none: that was all.
    next: Option<Planned>,
    /// When it is due; none: when what is on its way has arrived, or never.
    due_ns: Option<u64>,
    /// When the first one was; none: the flow has not begun, or has nothing to ask for.
    first_due_ns: Option<u64>,
    /// When the last request was due.
    asked_at_ns: u64,
    /// Responses that are on their way.
    waiting: u32,
}

impl Schedule {
    /// The plan of flow `index` of a scenario with this seed, before it begins: nothing is due.
    pub fn new(scenario_seed: u64, index: usize) -> Schedule {
        Schedule {
            plan: Plan::new(scenario_seed, index),
            next: None,
            due_ns: None,
            first_due_ns: None,
            asked_at_ns: 0,
            waiting: 0,
        }
    }

    /// The flow begins.
    pub fn start(&mut self, flow: &Flow, now_ns: u64) {
        self.asked_at_ns = now_ns;
        self.next = self.plan.next(flow);
        self.set_due(flow, now_ns);
        self.first_due_ns = self.due_ns;
    }

    /// When the first response was due; none: the flow has not begun, or has nothing to ask for.
    pub fn first_due_ns(&self) -> Option<u64> {
        self.first_due_ns
    }

    /// Whether a response that was due before this has not arrived.
    pub fn is_behind(&self, now_ns: u64) -> bool {
        self.waiting > 0 || self.due_ns.is_some_and(|due_ns| due_ns < now_ns)
    }

    /// When the next response is due; none: not before what is on its way has arrived, or never.
    pub fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// The response that is due by now: when it was due, and its payload; none: unlimited. Plans the one after it.
    pub fn take_due(&mut self, flow: &Flow, now_ns: u64) -> Option<(u64, Option<u64>)> {
        let due_ns = self.due_ns.filter(|due_ns| *due_ns <= now_ns)?;
        let planned = self.next?;
        self.asked_at_ns = due_ns;
        self.waiting += 1;
        self.next = self.plan.next(flow);
        self.set_due(flow, now_ns);
        Some((due_ns, planned.size_bytes))
    }

    /// The page that is due by now: when it was due, the lengths of its objects, and how many connections it may have. Plans the one
    /// after it.
    pub fn take_due_page(&mut self, flow: &Flow, now_ns: u64) -> Option<DuePage> {
        let (train, seed) = self.next?.page?;
        let Size::Page(page) = &flow.trains[train as usize].size else { return None };
        let (due_ns, _) = self.take_due(flow, now_ns)?;
        Some(DuePage { due_ns, objects: page.draw(seed), connections: page.connections })
    }

    /// A response has arrived. Returns whether that was the last one.
    pub fn on_response(&mut self, flow: &Flow, now_ns: u64) -> bool {
        self.waiting -= 1;
        if self.due_ns.is_none() {
            self.set_due(flow, now_ns);
        }
        self.waiting == 0 && self.next.is_none()
    }

    /// Finds when the next one is due, if what it waits for has happened. Trains whose time is over are left out.
    fn set_due(&mut self, flow: &Flow, now_ns: u64) {
        self.due_ns = None;
        while let Some(planned) = self.next {
            let after_ns = match planned.after {
                After::Response(_) if self.waiting > 0 => return,
                After::Response(gap_ns) => now_ns + gap_ns,
                After::Request(interval_ns) => self.asked_at_ns + interval_ns,
            };
            let due_ns = after_ns.max(planned.not_before_ns);
            if planned.until_ns.is_none_or(|until_ns| due_ns < until_ns) {
                self.due_ns = Some(due_ns);
                return;
            }
            self.plan.skip_train(&planned);
            self.next = self.plan.next(flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Dist, Size, Span, Train};

    /// One of 1 kB every 10 ms until 35 ms: at 0, 10, 20 and 30. That of 40 ms comes too late, and the rest is for the next train.
    #[test]
    fn what_is_left_out_belongs_to_the_rest() {
        let train = Train::once(Size::Bytes(Dist::Constant(Bytes(1e3))));
        let by_the_clock = Train {
            count: None,
            interval: Some(Dist::Constant(Span(0.01))),
            until: Some(Span(0.035)),
            ..train.clone()
        };
        let rest = Train { size: Size::RestOf(Bytes(1e4)), ..train };
        let flow = Flow { trains: vec![by_the_clock, rest], ..Flow::transfer("a", "b", Bytes(1.0)) };
        let mut schedule = Schedule::new(1, 0);
        schedule.start(&flow, 0);
        let mut sizes = Vec::new();
        for now_ns in (0..100_000_000).step_by(10_000_000) {
            if let Some((_, size_bytes)) = schedule.take_due(&flow, now_ns) {
                sizes.push(size_bytes.unwrap());
                schedule.on_response(&flow, now_ns);
            }
        }
        assert_eq!(sizes, [1000, 1000, 1000, 1000, 6000]);
    }

    /// The second one is due 10 ms after the first, arrived or not.
    #[test]
    fn what_is_due_and_not_there_is_behind() {
        let train = Train {
            start: Some(Span(0.005)),
            count: Some(2),
            interval: Some(Dist::Constant(Span(0.01))),
            ..Train::once(Size::Bytes(Dist::Constant(Bytes(1e3))))
        };
        let flow = Flow { trains: vec![train], ..Flow::transfer("a", "b", Bytes(1.0)) };
        let mut schedule = Schedule::new(1, 0);
        assert_eq!(schedule.first_due_ns(), None);
        schedule.start(&flow, 0);
        assert!(!schedule.is_behind(5_000_000));
        assert!(schedule.is_behind(5_000_001), "not even asked for");
        assert!(schedule.take_due(&flow, 5_000_000).is_some());
        assert!(schedule.is_behind(5_000_001), "on its way");
        schedule.on_response(&flow, 6_000_000);
        assert!(!schedule.is_behind(15_000_000));
        assert!(schedule.is_behind(15_000_001));
        assert_eq!(schedule.first_due_ns(), Some(5_000_000));
    }
}
