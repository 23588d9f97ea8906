//! Strict priorities: of all that waits, the packet of the lowest priority number is sent first, of several of it the one that
//! came first (Linux' prio has the same order). A full buffer drops what came last of the highest number that waits, so that no
//! packet is dropped for the sake of a less urgent one; Linux gives each class a buffer of its own instead.

use super::{Schedule, Waiting, fifo::Fifo};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Keys of `discipline = { kind = "priority" }`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriorityKeys {}

/// Priority numbers, from 0.
pub(crate) const PRIORITIES: usize = 8;

/// A queue for each number.
#[derive(Debug)]
pub(super) struct Priority<P> {
    classes: [Fifo<P>; PRIORITIES],
}

impl<P> Default for Priority<P> {
    fn default() -> Priority<P> {
        Priority { classes: std::array::from_fn(|_| Fifo::default()) }
    }
}

impl<P: fmt::Debug> Schedule<P> for Priority<P> {
    fn enqueue(&mut self, _now_ns: u64, waiting: Waiting<P>) -> Option<Waiting<P>> {
        self.classes[usize::from(waiting.label.priority).min(PRIORITIES - 1)].push(waiting);
        None
    }

    fn dequeue(&mut self, _now_ns: u64, _dropped: &mut Vec<Waiting<P>>) -> Option<Waiting<P>> {
        self.classes.iter_mut().find_map(Fifo::pop)
    }

    fn shed(&mut self, dropped: &mut Vec<Waiting<P>>) {
        dropped.extend(self.classes.iter_mut().rev().find_map(Fifo::pop_last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discipline::{Codepoint, tests::packet};

    fn of(priority: u8, number: u64) -> Waiting<u64> {
        let mut waiting = packet(1514, 0, Codepoint::NotEct);
        waiting.label.priority = priority;
        Waiting { packet: number, ..waiting }
    }

    #[test]
    fn strict_priorities_send_the_lowest_number_first_and_drop_the_highest() {
        let mut queue = Priority::default();
        for (number, priority) in [(1, 3), (2, 0), (3, 3), (4, 0), (5, 1)] {
            assert!(queue.enqueue(0, of(priority, number)).is_none());
        }
        let mut dropped = Vec::new();
        queue.shed(&mut dropped);
        let sent: Vec<u64> =
            std::iter::from_fn(|| queue.dequeue(0, &mut Vec::new())).map(|w| w.packet).collect();
        assert_eq!((sent, dropped[0].packet), (vec![2, 4, 5, 1], 3));
    }
}
