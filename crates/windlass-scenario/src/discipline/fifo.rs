//! Packets in the order in which they came.

use super::{Schedule, Waiting};
use std::{collections::VecDeque, fmt};

/// A list of packets that knows its bytes.
#[derive(Debug)]
pub(super) struct Fifo<P> {
    packets: VecDeque<Waiting<P>>,
    bytes: u64,
}

impl<P> Default for Fifo<P> {
    fn default() -> Fifo<P> {
        Fifo { packets: VecDeque::new(), bytes: 0 }
    }
}

impl<P> Fifo<P> {
    pub fn push(&mut self, waiting: Waiting<P>) {
        self.bytes += waiting.label.bytes;
        self.packets.push_back(waiting);
    }

    pub fn pop(&mut self) -> Option<Waiting<P>> {
        let first = self.packets.pop_front()?;
        self.bytes -= first.label.bytes;
        Some(first)
    }

    /// Takes out what came last.
    pub fn pop_last(&mut self) -> Option<Waiting<P>> {
        let last = self.packets.pop_back()?;
        self.bytes -= last.label.bytes;
        Some(last)
    }

    /// How long the first one has waited; 0: there is none.
    pub fn wait_ns(&self, now_ns: u64) -> u64 {
        self.packets.front().map_or(0, |first| now_ns - first.arrived_ns)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn packets(&self) -> usize {
        self.packets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

/// A queue without a discipline, for what takes out of its middle (`ack_filter.rs`).
impl<P: fmt::Debug> Schedule<P> for Fifo<P> {
    fn enqueue(&mut self, _now_ns: u64, waiting: Waiting<P>) -> Option<Waiting<P>> {
        self.push(waiting);
        None
    }

    fn dequeue(&mut self, _now_ns: u64, _dropped: &mut Vec<Waiting<P>>) -> Option<Waiting<P>> {
        self.pop()
    }

    fn shed(&mut self, dropped: &mut Vec<Waiting<P>>) {
        dropped.extend(self.pop_last());
    }
}

#[cfg(test)]
impl<P> Fifo<P> {
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Waiting<P>> {
        self.packets.iter_mut()
    }
}
