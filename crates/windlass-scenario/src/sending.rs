//! What a link is sending or will send, in order. The first packet stands apart: a link that is not busy has one at most, and then
//! no other memory is touched.

use crate::link::Queued;
use std::collections::VecDeque;

/// When a packet will have been sent, in ns, and its length in bytes.
type Departure = (u64, u64);

/// Departs when nothing does.
const NONE: Departure = (u64::MAX, 0);

/// Departure times and lengths of what is queued or being sent.
#[derive(Clone, Debug)]
pub struct Sending {
    /// [`NONE`]: there is nothing.
    first: Departure,
    behind: VecDeque<Departure>,
    bytes: u64,
}

impl Default for Sending {
    fn default() -> Sending {
        Sending { first: NONE, behind: VecDeque::new(), bytes: 0 }
    }
}

impl Sending {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// How much there is.
    pub fn queued(&self) -> Queued {
        Queued { packets: self.packets(), bytes: self.bytes }
    }

    /// How many packets there are.
    pub fn packets(&self) -> u64 {
        u64::from(!self.is_empty()) + self.behind.len() as u64
    }

    /// How many of them will not have been sent by `now_ns`.
    pub fn packets_after(&self, now_ns: u64) -> usize {
        if self.is_empty() {
            return 0;
        }
        let sent = self.behind.partition_point(|(departs_ns, _)| *departs_ns <= now_ns);
        usize::from(self.first.0 > now_ns) + self.behind.len() - sent
    }

    /// A packet comes behind the others.
    pub fn push(&mut self, departs_ns: u64, bytes: u64) {
        self.bytes += bytes;
        match self.is_empty() {
            true => self.first = (departs_ns, bytes),
            false => self.behind.push_back((departs_ns, bytes)),
        }
    }

    /// Forgets what has been sent by `now_ns`, and returns it.
    pub fn settle(&mut self, now_ns: u64) -> Queued {
        let mut sent = Queued::default();
        while self.first.0 <= now_ns && !self.is_empty() {
            sent.packets += 1;
            sent.bytes += self.first.1;
            self.first = self.behind.pop_front().unwrap_or(NONE);
        }
        if sent.packets > 0 && self.behind.is_empty() {
            // what comes next takes the same place again, not one that has left the caches
            self.behind.clear();
        }
        self.bytes -= sent.bytes;
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever comes, in the order of its departure, and whenever it is looked at: what a plain list would say.
        #[test]
        fn what_a_link_sends_is_a_list(steps in proptest::collection::vec((0u64..40, 0u64..60, 60u64..1514), 1..200)) {
            let (mut sending, mut list) = (Sending::default(), Vec::<Departure>::new());
            let (mut now_ns, mut departs_ns) = (0, 0);
            for (passes_ns, takes_ns, bytes) in steps {
                now_ns += passes_ns;
                let later_ns = now_ns + takes_ns;
                let after = list.iter().filter(|(departs_ns, _)| *departs_ns > later_ns).count();
                prop_assert_eq!(sending.packets_after(later_ns), after);
                let sent: Vec<Departure> = list.extract_if(.., |(departs_ns, _)| *departs_ns <= now_ns).collect();
                let of = |list: &[Departure]| {
                    Queued { packets: list.len() as u64, bytes: list.iter().map(|(_, bytes)| bytes).sum() }
                };
                prop_assert_eq!(sending.settle(now_ns), of(&sent));
                departs_ns = now_ns.max(departs_ns) + takes_ns;
                sending.push(departs_ns, bytes);
                list.push((departs_ns, bytes));
                prop_assert_eq!(sending.queued(), of(&list));
                prop_assert!(!sending.is_empty());
            }
            sending.settle(departs_ns);
            prop_assert!(sending.is_empty());
            prop_assert_eq!(sending.packets_after(0), 0);
        }
    }
}
