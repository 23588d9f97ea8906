//! ACK filtering (RFC 3449, section 5.2.1): when an ACK comes while an older one of its connection still waits, the older one is
//! taken out of the queue, as its acknowledgement is contained in the newer one's. So a slow way back thins ACKs out instead of
//! delaying them.
//!
//! Only plain ACKs are: without data, SACK blocks, echoed marks or other flags, and with a smaller acknowledgement number, so that
//! loss reports and window updates stay, as section 5.2.1 has it.
//!
//! Disciplines cannot take a packet out of their middle. What is filtered is noted, no longer counted as waiting, and left out when
//! the discipline gives it out.

use std::collections::{BTreeMap, BTreeSet};

/// The plain ACKs that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct AckFilter {
    /// Of each flow, the newest that waits: which packet, and its acknowledgement number.
    newest: BTreeMap<u32, (u64, u64)>,
    filtered: BTreeSet<u64>,
}

impl AckFilter {
    /// Packet `number`, a plain ACK of this flow, begins to wait. Returns whether it has an older one filtered.
    pub fn enter(&mut self, flow: u32, number: u64, ack: u64) -> bool {
        match self.newest.insert(flow, (number, ack)) {
            Some((older, older_ack)) if older_ack < ack => self.filtered.insert(older),
            _ => false,
        }
    }

    /// A packet of this flow does not wait any more. Returns whether it was filtered before.
    pub fn leave(&mut self, flow: u32, number: u64) -> bool {
        if self.newest.get(&flow).is_some_and(|(newest, _)| *newest == number) {
            self.newest.remove(&flow);
        }
        self.filtered.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ack_filter_takes_the_older_of_two_acks() {
        let mut filter = AckFilter::default();
        assert!(!filter.enter(7, 1, 1000));
        assert!(!filter.enter(8, 2, 5000), "of another flow");
        assert!(filter.enter(7, 3, 2000));
        assert!(!filter.enter(7, 4, 2000), "the same again reports a loss or a window");
        assert_eq!(
            [1, 2, 3, 4].map(|number| filter.leave(if number == 2 { 8 } else { 7 }, number)),
            [true, false, false, false]
        );
        assert!(!filter.enter(7, 5, 9000), "nothing waits");
        assert!(filter.newest.len() == 1 && filter.filtered.is_empty());
    }
}
