//! What a link does with a discipline: packets wait in its queue, and one is taken out when the one before it has been sent.

use super::{Label, Schedule, Waiting, ack_filter::AckFilter, fifo::Fifo};
use crate::{Buffer, Link, LinkModel, Queued, Verdict};
use std::fmt;

/// The queue of one direction of a link with a discipline, or with an ACK filter. The link's [`LinkModel`] sends, counts and loses.
#[derive(Debug)]
pub struct DisciplineQueue<P> {
    schedule: Box<dyn Schedule<P>>,
    limit: Buffer,
    waiting: Queued,
    filter: Option<AckFilter>,
    /// Packets that have come.
    count: u64,
    dropped: Vec<Waiting<P>>,
}

impl<P: fmt::Debug + 'static> DisciplineQueue<P> {
    /// That of a direction of a link; none: the link has none, its model queues. `port`: with what a switch adds; `seed`: of its
    /// random choices ([`crate::Scenario::discipline_seed`]).
    pub fn new(port: &Link, seed: u64) -> Option<DisciplineQueue<P>> {
        let schedule: Box<dyn Schedule<P>> = match port.discipline {
            Some(discipline) => discipline.schedule(port, seed),
            None if port.ack_filter => Box::new(Fifo::default()),
            None => return None,
        };
        Some(DisciplineQueue {
            schedule,
            limit: port.buffer.map_or(Buffer::Packets(u64::MAX), |buffer| port.resolve(buffer)),
            waiting: Queued::default(),
            filter: port.ack_filter.then(AckFilter::default),
            count: 0,
            dropped: Vec::new(),
        })
    }

    /// A packet comes, not earlier than the one before. What is dropped, itself or others, is for
    /// [`DisciplineQueue::take_dropped`].
    pub fn offer(&mut self, model: &mut LinkModel, now_ns: u64, label: Label, packet: P) {
        let number = self.count;
        self.count += 1;
        let waiting = Waiting { label, arrived_ns: now_ns, number, is_marked: false, packet };
        if !model.admit(now_ns, label.bytes) {
            return self.dropped.push(waiting);
        }
        if let Some(dropped) = self.schedule.enqueue(now_ns, waiting) {
            model.count_drops(1, true);
            return self.dropped.push(dropped);
        }
        self.waiting.packets += 1;
        self.waiting.bytes += label.bytes;
        if let (Some(filter), Some(ack)) = (&mut self.filter, label.ack)
            && filter.enter(label.flow, number, ack)
        {
            model.stats.acks_filtered += 1;
            // an older one, of the same length
            self.waiting.packets -= 1;
            self.waiting.bytes -= label.bytes;
        }
        while self.is_full(model) {
            let before = self.dropped.len();
            self.schedule.shed(&mut self.dropped);
            let drops = self.settle(before);
            model.count_drops(drops, false);
        }
        model.set_waiting(self.waiting);
    }

    /// Takes the packet that is sent next, with what becomes of it; none: nothing waits. The link must have sent the one before
    /// ([`LinkModel::idle_from_ns`]).
    pub fn next(&mut self, model: &mut LinkModel, now_ns: u64) -> Option<(P, Verdict)> {
        loop {
            let before = self.dropped.len();
            let sent = self.schedule.dequeue(now_ns, &mut self.dropped);
            let drops = self.settle(before);
            model.count_drops(drops, true);
            model.set_waiting(self.waiting);
            let sent = sent?;
            if self.leave(&sent.label, sent.number) {
                model.set_waiting(self.waiting);
                let Waiting { label, arrived_ns, is_marked, packet, .. } = sent;
                let verdict = model.transmit(now_ns, arrived_ns, label.bytes, is_marked);
                return Some((packet, verdict));
            }
            self.dropped.push(sent);
        }
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.packets == 0
    }

    /// Takes one of those that were dropped and not taken yet.
    pub fn take_dropped(&mut self) -> Option<P> {
        self.dropped.pop().map(|waiting| waiting.packet)
    }

    /// Takes what was dropped behind the first `before` from what waits; returns how many had not been filtered.
    fn settle(&mut self, before: usize) -> u64 {
        let dropped: Vec<(Label, u64)> = self.dropped[before..].iter().map(|d| (d.label, d.number)).collect();
        dropped.iter().map(|(label, number)| u64::from(self.leave(label, *number))).sum()
    }

    /// A packet is not in the discipline's queue any more. Returns whether it counted as waiting: it was not filtered.
    fn leave(&mut self, label: &Label, number: u64) -> bool {
        if self.filter.as_mut().is_some_and(|filter| filter.leave(label.flow, number)) {
            return false;
        }
        self.waiting.packets -= 1;
        self.waiting.bytes -= label.bytes;
        true
    }

    /// Whether the buffer has too much in it: what waits, and what is being sent.
    fn is_full(&self, model: &LinkModel) -> bool {
        let sending = model.sending();
        match self.limit {
            _ if self.is_empty() => false,
            Buffer::Packets(n) => self.waiting.packets.saturating_add(sending.packets) > n,
            Buffer::Bytes(n) => self.waiting.bytes + sending.bytes > n,
            Buffer::Bdp(_) => false,
        }
    }
}
