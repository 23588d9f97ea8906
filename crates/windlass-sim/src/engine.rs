//! The event queue: what happens next. Events of equal times happen in the order in which they were scheduled.
//!
//! 4-ary heaps of 128-bit keys. The key is the whole event, so that comparing is one subtraction and four children
//! share a cache line:
//!
//! | bits | what | holds |
//! |---|---|---|
//! | 52 | time in ns | 52 days |
//! | 44 | order of scheduling | 17 thousand milliard events |
//! | 32 | what happens | 16 kinds, 2^28 indices each |
//!
//! Links deliver in order, so only the first packet of each link is in the heap (see `network.rs`): it holds as many
//! entries as there are busy links and armed timers, however many packets are on their way.

use std::hint::select_unpredictable;

const TIME_SHIFT: u32 = 76;
/// The latest time that an event can have; what is due later is due then, long after any run.
const LAST_NS: u64 = (1 << (u128::BITS - TIME_SHIFT)) - 1;
const ORDER_SHIFT: u32 = 32;
const KIND_SHIFT: u32 = 28;
const CHILDREN: usize = 4;

/// What kind of thing happens; the index names its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first packet on a link direction arrives.
    Link,
    /// A packet arrives on its own: its link may reorder.
    Packet,
    /// A sender's retransmission, probe or reordering timer.
    Xmit,
    /// A sender's pacing timer.
    Pace,
    /// A receiver's delayed or compressed acknowledgement.
    Ack,
    /// A flow begins.
    Start,
    /// The clock of a Windlass box looks at a flow.
    Box,
    /// The others' ACKs let a member of a group send.
    Group,
    /// A link with a discipline has sent a packet, and takes the next one.
    Dequeue,
}

const KINDS: [Kind; 9] = [
    Kind::Link,
    Kind::Packet,
    Kind::Xmit,
    Kind::Pace,
    Kind::Ack,
    Kind::Start,
    Kind::Box,
    Kind::Group,
    Kind::Dequeue,
];

/// A scheduled event. Ordered by time, then by order of scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(u128);

impl Event {
    /// When it happens.
    pub fn at_ns(self) -> u64 {
        (self.0 >> TIME_SHIFT) as u64
    }

    /// What kind of event.
    pub fn kind(self) -> Kind {
        KINDS[(self.0 as u32 >> KIND_SHIFT) as usize]
    }

    /// The target.
    pub fn index(self) -> u32 {
        self.0 as u32 & ((1 << KIND_SHIFT) - 1)
    }
}

impl Default for Event {
    /// An event that is in no queue.
    fn default() -> Event {
        Event(u128::MAX)
    }
}

/// All events to come. Packets and timers stand in heaps of their own: packets come and go all the time but few are in
/// the heap at once; timers are there by the thousand, and are hardly touched.
#[derive(Debug, Default)]
pub struct EventQueue {
    packets: Heap,
    timers: Heap,
    scheduled: u64,
}

impl EventQueue {
    /// Makes an event, which takes its place among equal times now; it still has to be pushed.
    pub fn make(&mut self, at_ns: u64, kind: Kind, index: u32) -> Event {
        let at_ns = at_ns.min(LAST_NS);
        debug_assert!(index < 1 << KIND_SHIFT);
        self.scheduled += 1;
        let what = (kind as u32) << KIND_SHIFT | index;
        Event(u128::from(at_ns) << TIME_SHIFT | u128::from(self.scheduled) << ORDER_SHIFT | u128::from(what))
    }

    /// Puts an event into the queue.
    pub fn push(&mut self, event: Event) {
        self.heap_of(event).push(event);
    }

    /// Schedules something.
    pub fn schedule(&mut self, at_ns: u64, kind: Kind, index: u32) {
        let event = self.make(at_ns, kind, index);
        self.push(event);
    }

    /// The next event; none: nothing will ever happen again.
    pub fn peek(&self) -> Option<Event> {
        let next = self.packets.first().min(self.timers.first());
        (next != Event::default()).then_some(next)
    }

    /// Takes the next event out.
    pub fn pop(&mut self) -> Option<Event> {
        let next = self.peek()?;
        self.heap_of(next).pop();
        Some(next)
    }

    /// Takes the next event out, which is known to be that of a link or a packet.
    pub fn drop_first(&mut self) {
        self.packets.pop();
    }

    /// Takes the next event out and puts another one of its kind in: cheaper than both apart.
    pub fn replace(&mut self, event: Event) {
        self.heap_of(event).sift_down(event);
    }

    fn heap_of(&mut self, event: Event) -> &mut Heap {
        match event.kind() {
            Kind::Link | Kind::Packet => &mut self.packets,
            _ => &mut self.timers,
        }
    }
}

/// A 4-ary heap.
#[derive(Debug, Default)]
struct Heap(Vec<Event>);

impl Heap {
    /// The first event, or the last of all if there is none.
    fn first(&self) -> Event {
        self.0.first().copied().unwrap_or_default()
    }

    fn push(&mut self, event: Event) {
        let mut hole = self.0.len();
        self.0.push(event);
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if self.0[parent] <= event {
                break;
            }
            self.0[hole] = self.0[parent];
            hole = parent;
        }
        self.0[hole] = event;
    }

    fn pop(&mut self) {
        if let Some(last) = self.0.pop()
            && !self.0.is_empty()
        {
            self.sift_down(last);
        }
    }

    /// Puts `event` in place of the first one.
    fn sift_down(&mut self, event: Event) {
        let heap = self.0.as_mut_slice();
        let mut hole = 0;
        loop {
            let first = hole * CHILDREN + 1;
            let (child, least) = match heap.get(first..) {
                Some(&[a, b, c, d, ..]) => {
                    // which of them it is cannot be predicted
                    let (ab, least_ab) = select_unpredictable(b < a, (1, b), (0, a));
                    let (cd, least_cd) = select_unpredictable(d < c, (3, d), (2, c));
                    select_unpredictable(least_cd < least_ab, (cd, least_cd), (ab, least_ab))
                }
                Some(few) if !few.is_empty() => {
                    let (child, least) = few.iter().enumerate().min_by_key(|(_, e)| **e).expect("not empty");
                    (child, *least)
                }
                _ => break,
            };
            if least >= event {
                break;
            }
            heap[hole] = least;
            hole = first + child;
        }
        heap[hole] = event;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_times_happen_in_the_order_of_scheduling() {
        let mut queue = EventQueue::default();
        for index in 0..1000 {
            queue.schedule(7, Kind::Xmit, index);
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop().map(Event::index)).collect();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn an_event_has_its_time_kind_and_target() {
        let mut queue = EventQueue::default();
        for kind in KINDS {
            let event = queue.make(LAST_NS, kind, (1 << 28) - 1);
            assert_eq!((event.at_ns(), event.kind(), event.index()), (LAST_NS, kind, (1 << 28) - 1));
        }
    }

    #[test]
    fn what_is_due_later_than_a_key_can_hold_stays_last() {
        let mut queue = EventQueue::default();
        for at_ns in [LAST_NS + 2, 1, u64::MAX] {
            queue.schedule(at_ns, Kind::Xmit, 0);
        }
        let times: Vec<u64> = std::iter::from_fn(|| queue.pop().map(Event::at_ns)).collect();
        assert_eq!(times, [1, LAST_NS, LAST_NS]);
    }

    proptest! {
        /// Whatever is pushed, popped and replaced in whatever order: as a sorted list would do it.
        #[test]
        fn events_come_in_order(steps in proptest::collection::vec((0u8..4, 0u64..50), 0..400)) {
            let mut queue = EventQueue::default();
            let mut sorted: Vec<Event> = Vec::new();
            for (act, at_ns) in steps {
                match act {
                    0 | 3 => {
                        let kind = if act == 0 { Kind::Link } else { Kind::Xmit };
                        let event = queue.make(at_ns, kind, 0);
                        queue.push(event);
                        sorted.push(event);
                    }
                    1 => {
                        let expected = (!sorted.is_empty()).then(|| sorted.remove(0));
                        prop_assert_eq!(queue.pop(), expected);
                    }
                    _ if !sorted.is_empty() => {
                        let event = queue.make(at_ns, sorted[0].kind(), 0);
                        sorted.remove(0);
                        queue.replace(event);
                        sorted.push(event);
                    }
                    _ => {}
                }
                sorted.sort();
                prop_assert_eq!(queue.peek(), sorted.first().copied());
            }
        }
    }
}
