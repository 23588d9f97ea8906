//! Looks at the queues of an emulator in equal intervals, for what is drawn over time.

use std::{
    num::NonZeroU64,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// No look is due.
const NEVER_NS: u64 = u64::MAX;

/// What was seen, shared by the emulator's thread and those that draw it.
#[derive(Debug)]
pub struct QueueLooks {
    /// When the next look is due.
    due_ns: AtomicU64,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    every_ns: u64,
    /// Of each direction, packets that queued or were being sent at each look.
    packets: Vec<Vec<u32>>,
}

impl Default for QueueLooks {
    fn default() -> QueueLooks {
        QueueLooks { due_ns: AtomicU64::new(NEVER_NS), seen: Mutex::default() }
    }
}

impl QueueLooks {
    /// Has them made from now on, at the end of each interval.
    pub fn begin(&self, every_ns: NonZeroU64, now_ns: u64) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Seen { every_ns: every_ns.get(), packets: Vec::new() };
        self.due_ns.store(now_ns + every_ns.get(), Ordering::Release);
    }

    /// When the next one is due; none: none is wanted.
    pub fn due_ns(&self) -> Option<u64> {
        Some(self.due_ns.load(Ordering::Acquire)).filter(|due_ns| *due_ns != NEVER_NS)
    }

    /// Makes those that are due by now; `queued` has the packets of each direction at that time.
    pub fn look(&self, now_ns: u64, queued: impl Fn(u64) -> Vec<u32>) {
        let Some(mut due_ns) = self.due_ns().filter(|due_ns| *due_ns <= now_ns) else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        while due_ns <= now_ns {
            let queued = queued(due_ns);
            seen.packets.resize(queued.len(), Vec::new());
            seen.packets.iter_mut().zip(queued).for_each(|(packets, queued)| packets.push(queued));
            due_ns += seen.every_ns;
        }
        self.due_ns.store(due_ns, Ordering::Release);
    }

    /// What was seen so far.
    pub fn packets(&self) -> Vec<Vec<u32>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).packets.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_made_up_for() {
        let looks = QueueLooks::default();
        looks.look(1000, |_| panic!("none is wanted"));
        looks.begin(NonZeroU64::new(10).expect("more than 0"), 1000);
        looks.look(1009, |_| panic!("none is due"));
        looks.look(1010, |at_ns| vec![at_ns as u32, 1]);
        // the emulator slept
        looks.look(1035, |at_ns| vec![at_ns as u32, 2]);
        assert_eq!(looks.packets(), [[1010, 1020, 1030], [1, 2, 2]]);
        assert_eq!(looks.due_ns(), Some(1040));
    }
}
