//! A timer that is moved far more often than it fires. Moving it later costs nothing: the queue keeps the earlier
//! event, which finds the timer moved when it happens and goes back to the queue.

use crate::{
    engine::{EventQueue, Kind},
    time::NEVER,
};

/// One timer. Its owner is known by the kind and index of its events.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    deadline_ns: u64,
    /// Time of the one event in the queue that counts; others are stale.
    queued_ns: u64,
}

impl Default for Timer {
    fn default() -> Timer {
        Timer { deadline_ns: NEVER, queued_ns: NEVER }
    }
}

impl Timer {
    /// Whether it is armed.
    pub fn is_armed(&self) -> bool {
        self.deadline_ns != NEVER
    }

    /// Arms it, or moves it.
    pub fn arm(&mut self, events: &mut EventQueue, deadline_ns: u64, kind: Kind, index: u32) {
        self.deadline_ns = deadline_ns;
        if deadline_ns < self.queued_ns {
            self.queued_ns = deadline_ns;
            events.schedule(deadline_ns, kind, index);
        }
    }

    /// Arms it unless it is due before anyway.
    pub fn arm_by(&mut self, events: &mut EventQueue, deadline_ns: u64, kind: Kind, index: u32) {
        self.arm(events, deadline_ns.min(self.deadline_ns), kind, index);
    }

    /// Takes it back.
    pub fn disarm(&mut self) {
        self.deadline_ns = NEVER;
    }

    /// Its event happens. Returns whether the timer fires, which disarms it.
    pub fn fires(&mut self, events: &mut EventQueue, now_ns: u64, kind: Kind, index: u32) -> bool {
        if now_ns != self.queued_ns {
            return false;
        }
        self.queued_ns = NEVER;
        if self.deadline_ns > now_ns {
            if self.is_armed() {
                self.arm(events, self.deadline_ns, kind, index);
            }
            return false;
        }
        self.disarm();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times at which the timer fires.
    fn fired(events: &mut EventQueue, timer: &mut Timer) -> Vec<u64> {
        let mut times = Vec::new();
        while let Some(event) = events.pop() {
            if timer.fires(events, event.at_ns(), Kind::Xmit, 0) {
                times.push(event.at_ns());
            }
        }
        times
    }

    #[test]
    fn a_timer_moved_often_fires_once_at_its_last_deadline() {
        for deadlines in [vec![10, 20, 30], vec![30, 20, 10], vec![20, 10, 20], vec![5, 5, 5]] {
            let (mut events, mut timer) = (EventQueue::default(), Timer::default());
            for deadline_ns in &deadlines {
                timer.arm(&mut events, *deadline_ns, Kind::Xmit, 0);
            }
            assert_eq!(fired(&mut events, &mut timer), deadlines[2..], "{deadlines:?}");
        }
    }

    #[test]
    fn a_timer_taken_back_does_not_fire() {
        let (mut events, mut timer) = (EventQueue::default(), Timer::default());
        timer.arm(&mut events, 10, Kind::Xmit, 0);
        timer.disarm();
        assert!(fired(&mut events, &mut timer).is_empty());
    }

    #[test]
    fn a_thousand_moves_later_cost_one_event() {
        let (mut events, mut timer) = (EventQueue::default(), Timer::default());
        for deadline_ns in 10..1010 {
            timer.arm(&mut events, deadline_ns, Kind::Xmit, 0);
        }
        assert!(events.pop().is_some() && events.pop().is_none());
    }
}
