//! When the box's clock visits which flow. As in the kernel (`bpf/clock/wheel.h`), a visit may come before it is due, where the flow stands in
//! a list of the timing wheel from before; what the box does at a visit depends on its time, so the visits are the same here.
//!
//! ```text
//! arm(deadline) --- due at the next round ---> queue --- round ---> visit
//!       `--- later ---> wheel, one list a slot --- its slot has come ---> queue
//! ```

use std::collections::VecDeque;
use windlass_core::{abi, is_after};

const SLOT_SHIFT: u32 = 19;
const SLOTS: u32 = 1024;
/// Of a flow in lists: one for each distance.
const PLACES: usize = 4;
const NS_PER_S: u64 = 1_000_000_000;

/// For how long the clock rests, in slots, and since when no flow must have been armed for a nearer time.
const REST_SHORT: u32 = 4;
const REST_LONG: u32 = abi::WL_CLOCK_REST_ROUNDS;
const REST_AFTER_NEAR: u32 = 64;
const REST_AFTER_SOON: u32 = 2048;
/// Ends of silence are on a grid of so many slots.
const GRID_SLOTS: u32 = 1 << (abi::WL_SILENCE_GRAIN_SHIFT - SLOT_SHIFT);

/// Where a flow stands.
#[derive(Clone, Debug, Default)]
struct Armed {
    /// Slot of time for each place; 0: the place is free.
    at: [u32; PLACES],
    is_due: bool,
    is_wanted: bool,
}

/// The clock's lists.
#[derive(Debug)]
pub struct Wheel {
    flows: Vec<Armed>,
    /// Flow and place; the last one is looked at first.
    lists: Vec<Vec<(u32, usize)>>,
    /// Flow, and the round in which it was queued.
    due: VecDeque<(u32, u32)>,
    round: u32,
    /// All slots up to this one were looked at.
    done: u32,
    near_at: u32,
    off_grid_at: u32,
    soon_at: u32,
}

fn slot_of(ns: u64) -> u32 {
    (ns >> SLOT_SHIFT) as u32
}

/// Distance in slots that a place is for, exclusive.
fn reach(place: usize) -> u32 {
    8 << (2 * place)
}

fn grid_after(now: u32) -> u32 {
    (now.wrapping_add(GRID_SLOTS - 1) & !(GRID_SLOTS - 1)).wrapping_add(1)
}

fn is_before(a: u32, b: u32) -> bool {
    is_after(b, a)
}

impl Wheel {
    /// For that many flows, none of which is armed.
    pub fn new(flows: u32) -> Wheel {
        Wheel {
            flows: vec![Armed::default(); flows as usize],
            lists: vec![Vec::new(); SLOTS as usize],
            due: VecDeque::new(),
            round: 0,
            done: 0,
            near_at: 0,
            off_grid_at: 0,
            soon_at: 0,
        }
    }

    fn push_due(&mut self, id: u32) {
        let flow = &mut self.flows[id as usize];
        if !std::mem::replace(&mut flow.is_due, true) {
            self.due.push_back((id, self.round));
        }
    }

    /// Has the clock visit the flow at `deadline_ns`; 0: not needed.
    pub fn arm(&mut self, id: u32, now_ns: u64, deadline_ns: u64) {
        let flow = &mut self.flows[id as usize];
        flow.is_wanted = deadline_ns != 0;
        if deadline_ns == 0 {
            return;
        }
        let now = slot_of(now_ns);
        let mut at = slot_of(deadline_ns).wrapping_add(1);
        if is_before(at, now.wrapping_add(REST_LONG)) {
            self.soon_at = now;
        }
        if is_before(at, grid_after(now)) {
            self.off_grid_at = now;
            if is_before(at, now.wrapping_add(REST_SHORT)) {
                self.near_at = now;
            }
        }
        if is_before(at, now.wrapping_add(2)) {
            return self.push_due(id);
        }
        let is_armed = |armed: &u32| *armed != 0 && is_after(*armed, self.done) && !is_after(*armed, at);
        if flow.at.iter().any(is_armed) {
            return;
        }
        let distance = at.wrapping_sub(now);
        let is_free = |place: &usize| flow.at[*place] == 0 && (*place == 0 || distance >= reach(*place - 1));
        let Some(place) = (0..PLACES).rev().find(is_free) else {
            return self.push_due(id);
        };
        let span = if place < PLACES - 1 { reach(place) } else { SLOTS };
        let last = now.wrapping_add(span - 1);
        if is_after(at, last) {
            at = last;
        }
        at = at.max(1);
        flow.at[place] = at;
        self.lists[(at & (SLOTS - 1)) as usize].push((id, place));
        if !is_after(at, self.done) {
            self.push_due(id);
        }
    }

    /// A round begins: queues all flows whose time has come.
    pub fn turn(&mut self, now_ns: u64) {
        let now = slot_of(now_ns);
        let from = self.done.wrapping_add(1);
        let slots = now.wrapping_sub(self.done).min(SLOTS);
        if slots > 0 {
            self.done = now;
        }
        for i in 0..slots {
            let slot = from.wrapping_add(i) & (SLOTS - 1);
            for (id, place) in std::mem::take(&mut self.lists[slot as usize]).into_iter().rev() {
                self.flows[id as usize].at[place] = 0;
                if self.flows[id as usize].is_wanted {
                    self.push_due(id);
                }
            }
        }
        self.round = self.round.wrapping_add(1);
    }

    /// The flow to visit next in this round. Its visit must end with [`Wheel::visited`].
    pub fn next_due(&mut self) -> Option<u32> {
        self.due.front().filter(|(_, round)| *round != self.round)?;
        self.due.pop_front().map(|(id, _)| id)
    }

    /// The flow that was due is not any more, and may be queued again.
    pub fn visited(&mut self, id: u32) {
        self.flows[id as usize].is_due = false;
    }

    /// After how many rounds' time the clock comes by again.
    pub fn rest_rounds(&self, now_ns: u64) -> u32 {
        if !self.due.is_empty() {
            return 1;
        }
        let rounds = (self.rest_ns(now_ns) * u64::from(abi::WL_CLOCK_HZ)).div_ceil(NS_PER_S);
        (rounds as u32).clamp(1, abi::WL_CLOCK_REST_ROUNDS)
    }

    fn rest_ns(&self, now_ns: u64) -> u64 {
        let now = slot_of(now_ns);
        let was_armed = |at: u32, within: u32| now.wrapping_sub(at) < within;
        if was_armed(self.near_at, REST_AFTER_NEAR) {
            return 0;
        }
        let longest = if was_armed(self.off_grid_at, REST_AFTER_SOON) {
            REST_SHORT
        } else if was_armed(self.soon_at, REST_AFTER_SOON) {
            grid_after(now).wrapping_sub(now)
        } else {
            REST_LONG
        };
        let is_empty =
            |slots: &u32| self.lists[(self.done.wrapping_add(*slots) & (SLOTS - 1)) as usize].is_empty();
        let most = longest.clamp(1, REST_LONG);
        let slots = (1..most).find(|slots| !is_empty(slots)).unwrap_or(most);
        (u64::from(slots) << SLOT_SHIFT) - (now_ns & ((1 << SLOT_SHIFT) - 1))
    }
}
