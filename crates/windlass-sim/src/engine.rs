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

use crate::prefetch::prefetch;
use std::{collections::BTreeMap, hint::select_unpredictable};

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

impl Kind {
    /// Whether the target is an endpoint.
    pub fn is_of_endpoint(self) -> bool {
        matches!(self, Kind::Xmit | Kind::Pace | Kind::Ack | Kind::Group)
    }
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
    /// One that is in no queue, and comes after all others.
    pub const NONE: Event = Event(u128::MAX);

    /// When it happens.
    pub fn at_ns(self) -> u64 {
        (self.0 >> TIME_SHIFT) as u64
    }

    /// What kind of event.
    pub fn kind(self) -> Kind {
        KINDS[(self.0 as u32 >> KIND_SHIFT) as usize]
    }

    fn is_packet(self) -> bool {
        matches!(self.kind(), Kind::Link | Kind::Packet)
    }

    /// The target.
    pub fn index(self) -> u32 {
        self.0 as u32 & ((1 << KIND_SHIFT) - 1)
    }
}

/// Timers that are due within about a millisecond of each other.
const NEAR_SHIFT: u32 = 20;

/// All events to come. Packets and timers stand in heaps of their own: packets come and go all the time but few are in
/// the heap at once. Timers are there by the hundred thousand, most of them for later: those lie in no order until their
/// millisecond comes, so that the heap stays small.
#[derive(Debug)]
pub struct EventQueue {
    packets: Heap,
    /// All that are due before `far_from`, and perhaps later ones.
    timers: Heap,
    /// The others, by their milliseconds.
    far: BTreeMap<u64, Vec<Event>>,
    /// The first time of those; the last of all if there are none.
    far_from: Event,
    /// What a millisecond has left of memory.
    spare: Vec<Event>,
    /// The millisecond that was last brought near.
    near: u64,
    scheduled: u64,
}

impl Default for EventQueue {
    fn default() -> EventQueue {
        EventQueue {
            packets: Heap::default(),
            timers: Heap::default(),
            far: BTreeMap::new(),
            far_from: Event::NONE,
            spare: Vec::new(),
            near: 0,
            scheduled: 0,
        }
    }
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
        if event.is_packet() {
            return self.packets.push(event);
        }
        let millisecond = event.at_ns() >> NEAR_SHIFT;
        if millisecond <= self.near {
            return self.timers.push(event);
        }
        let begin = Event(u128::from(millisecond << NEAR_SHIFT) << TIME_SHIFT);
        self.far_from = self.far_from.min(begin);
        self.far.entry(millisecond).or_insert_with(|| std::mem::take(&mut self.spare)).push(event);
    }

    /// Brings the first millisecond of timers near.
    #[cold]
    fn approach(&mut self) {
        if let Some((millisecond, mut events)) = self.far.pop_first() {
            self.near = millisecond;
            events.drain(..).for_each(|event| self.timers.push(event));
            self.spare = events;
        }
        let next = self.far.first_key_value().map(|(millisecond, _)| millisecond);
        self.far_from = next.map_or(Event::NONE, |next| Event(u128::from(next << NEAR_SHIFT) << TIME_SHIFT));
    }

    /// Schedules something.
    pub fn schedule(&mut self, at_ns: u64, kind: Kind, index: u32) {
        let event = self.make(at_ns, kind, index);
        self.push(event);
    }

    /// The next event; none: nothing will ever happen again.
    pub fn peek(&mut self) -> Option<Event> {
        let next = self.packets.first().min(self.timers.first());
        if next < self.far_from {
            return Some(next);
        }
        if self.far_from == Event::NONE {
            return None;
        }
        self.approach();
        self.peek()
    }

    /// The timer that is likely to be the next one.
    pub fn coming_timer(&self) -> Event {
        self.timers.first()
    }

    /// The events of packets that are likely to be the next two; those of timers may come before.
    pub fn coming(&self) -> [Event; 2] {
        [self.packets.first(), self.packets.second()]
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
        match event.is_packet() {
            true => &mut self.packets,
            false => &mut self.timers,
        }
    }
}

/// Siblings, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Four([Event; CHILDREN]);

/// Nothing stands there.
const EMPTY: Four = Four([Event::NONE; CHILDREN]);
/// Place of the first event. So the children of the event at place `p` are `fours[p - 2]`, and the parent of those in
/// `fours[i]` stands at `i + 2`.
const FIRST: usize = CHILDREN - 1;
/// From so many on, the last ones have left the caches.
const MANY_FOURS: usize = 512;

/// A 4-ary heap.
#[derive(Debug, Default)]
struct Heap {
    /// No place behind the last event holds one, so that [`EMPTY`] places sort last by themselves.
    fours: Vec<Four>,
    len: usize,
}

impl Heap {
    /// The first event, or the last of all if there is none.
    fn first(&self) -> Event {
        self.fours.first().map_or(Event::NONE, |four| four.0[FIRST])
    }

    /// The one after it, likewise.
    fn second(&self) -> Event {
        self.fours.get(1).map_or(Event::NONE, |four| least(four).1)
    }

    fn set(&mut self, place: usize, event: Event) {
        self.fours[place / CHILDREN].0[place % CHILDREN] = event;
    }

    fn push(&mut self, event: Event) {
        let mut hole = FIRST + self.len;
        self.len += 1;
        if hole / CHILDREN == self.fours.len() {
            self.fours.push(EMPTY);
        }
        while hole > FIRST {
            let parent = hole / CHILDREN + 2;
            let above = self.fours[parent / CHILDREN].0[parent % CHILDREN];
            if above <= event {
                break;
            }
            self.set(hole, above);
            hole = parent;
        }
        self.set(hole, event);
    }

    fn pop(&mut self) {
        let Some(len) = self.len.checked_sub(1) else { return };
        self.len = len;
        let place = FIRST + len;
        let last = self.fours[place / CHILDREN].0[place % CHILDREN];
        self.set(place, Event::NONE);
        if place.is_multiple_of(CHILDREN) {
            self.fours.pop();
        }
        if len > 0 {
            self.sift_down(last);
        }
    }

    /// Puts `event` in place of the first one.
    fn sift_down(&mut self, event: Event) {
        let fours = self.fours.as_mut_slice();
        let mut hole = FIRST;
        while let Some(four) = fours.get(hole - 2) {
            let (child, least) = least(four);
            if least >= event {
                break;
            }
            // one of them comes next
            if fours.len() > MANY_FOURS {
                let grandchildren = CHILDREN * (hole - 2) - 2;
                fours.iter().skip(grandchildren).take(CHILDREN).for_each(prefetch);
            }
            fours[hole / CHILDREN].0[hole % CHILDREN] = least;
            hole = CHILDREN * (hole - 2) + child;
        }
        fours[hole / CHILDREN].0[hole % CHILDREN] = event;
    }
}

/// Which of four is the first, and itself.
#[inline(always)]
fn least(four: &Four) -> (usize, Event) {
    let Four([a, b, c, d]) = *four;
    // which of them it is cannot be predicted
    let (ab, least_ab) = select_unpredictable(b < a, (1, b), (0, a));
    let (cd, least_cd) = select_unpredictable(d < c, (3, d), (2, c));
    select_unpredictable(least_cd < least_ab, (cd, least_cd), (ab, least_ab))
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

    const MILLISECOND_NS: u64 = 1 << NEAR_SHIFT;

    /// More than are fetched ahead of their turn, of packets and of timers.
    #[test]
    fn thousands_of_events_come_in_order() {
        let mut queue = EventQueue::default();
        let count = 8 * (CHILDREN * MANY_FOURS) as u64;
        for i in 0..count {
            let kind = if i % 2 == 0 { Kind::Link } else { Kind::Xmit };
            queue.schedule(i * 7919 % count, kind, i as u32);
        }
        let times: Vec<u64> = std::iter::from_fn(|| queue.pop().map(Event::at_ns)).collect();
        assert_eq!(times, (0..count).collect::<Vec<_>>());
    }

    #[test]
    fn a_timer_for_later_is_not_in_the_heap() {
        let mut queue = EventQueue::default();
        let times = [3 * MILLISECOND_NS, 1, 200 * MILLISECOND_NS, 3 * MILLISECOND_NS + 1];
        times.iter().for_each(|at_ns| queue.schedule(*at_ns, Kind::Xmit, 0));
        let mut seen = Vec::new();
        while let Some(event) = queue.pop() {
            seen.push((event.at_ns(), queue.timers.len));
        }
        assert_eq!(seen, [(times[1], 0), (times[0], 1), (times[3], 0), (times[2], 0)]);
    }

    proptest! {
        /// Whatever is pushed, popped and replaced in whatever order, near or far: as a sorted list would do it.
        #[test]
        fn events_come_in_order(
            steps in proptest::collection::vec((0u8..4, prop_oneof![0u64..50, 0..50 * MILLISECOND_NS]), 0..400)
        ) {
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
