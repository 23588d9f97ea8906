//! Reductions that were not needed: the original segments had only been late. The ACK of an original shows it by its
//! timestamp (Eifel, RFC 3522), which counts milliseconds as in Linux (tcp_skb_timestamp_ts()), so that on the shortest paths it
//! shows nothing; reports of duplicates by accounting for every retransmission (RFC 3708). Then its
//! windows are in force again; what else an algorithm takes back is its own affair (wl_alg_undo() in core/alg/alg.h).

use crate::time::{MS, core_us};
use windlass_core::abi::wl_decision;

/// What a reduction in hand would be undone to.
#[derive(Clone, Debug, Default)]
pub struct Undo {
    /// Whether the reduction may turn out not to have been needed (undo_marker).
    is_armed: bool,
    /// What was in force before it; none: it stands whatever turns out (prior_ssthresh).
    saved: Option<wl_decision>,
    /// Retransmissions of this episode not reported as duplicates; -1: none yet.
    unexplained: i32,
    /// The millisecond of the first retransmission of this episode, or of one before it of which copies were out when it began; 0: none yet.
    resent_at_us: u32,
    /// `una` when the episode began.
    marker_seq: u64,
}

impl Undo {
    /// A reduction begins; `before` was in force, none if it is not to be so again. Of `copies_out` retransmitted
    /// segments nothing is known yet. `has_copies`: ACKs to come may be for copies of the episode before
    /// (tcp_retrans_stamp_cleanup()).
    pub fn begin(&mut self, before: Option<wl_decision>, una: u64, copies_out: u32, has_copies: bool) {
        *self = Undo {
            is_armed: true,
            saved: before,
            unexplained: if copies_out == 0 { -1 } else { copies_out as i32 },
            resent_at_us: if has_copies { self.resent_at_us } else { 0 },
            marker_seq: una,
        };
    }

    /// A congestion mark has come back: the reduction is needed, even if nothing was lost (tcp_fastretrans_alert(), step A).
    pub fn forbid(&mut self) {
        self.saved = None;
    }

    /// A segment is retransmitted.
    pub fn on_resend(&mut self, now_ns: u64) {
        self.unexplained = self.unexplained.max(0) + 1;
        if self.resent_at_us == 0 {
            self.resent_at_us = core_us(now_ns / MS * MS).max(1);
        }
    }

    /// `segs` that end at `end_seq` have arrived twice.
    pub fn on_dsack(&mut self, segs: u32, end_seq: u64) {
        if self.is_armed && self.unexplained > 0 && end_seq > self.marker_seq {
            self.unexplained = (self.unexplained - segs as i32).max(0);
        }
    }

    /// Has every retransmission been reported as a duplicate?
    pub fn is_all_duplicate(&self) -> bool {
        self.is_armed && self.unexplained == 0
    }

    /// Was an ACK that echoes `tsecr_us` sent for an original, before the first retransmission left (tcp_packet_delayed())?
    pub fn is_original(&self, tsecr_us: u32) -> bool {
        self.is_armed && self.resent_at_us != 0 && (tsecr_us.wrapping_sub(self.resent_at_us) as i32) < 0
    }

    /// What was in force, if it is to be so again; nothing is left to undo.
    pub fn take(&mut self) -> Option<wl_decision> {
        self.is_armed = false;
        self.saved.take()
    }

    /// The reduction stands.
    pub fn forget(&mut self) {
        self.is_armed = false;
        self.saved = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::US;

    /// Retransmitted at 10.9 ms, of which the timestamp keeps 10: so does that of an original of 10.1.
    #[test]
    fn within_a_millisecond_a_timestamp_proves_nothing() {
        let mut undo = Undo::default();
        undo.begin(None, 0, 0, false);
        undo.on_resend(10_900 * US);
        assert_eq!([9_999, 10_100].map(|tsecr_us| undo.is_original(tsecr_us)), [true, false]);
    }

    /// What was retransmitted at 10 ms is still out when the next recovery begins, and what its ACK echoes of 15 ms
    /// is of a copy as well. Once no copy is out, what was sent before 30 ms is an original.
    #[test]
    fn copies_of_the_recovery_before_are_no_originals() {
        let mut undo = Undo::default();
        undo.begin(None, 0, 0, false);
        undo.on_resend(10 * MS);
        undo.begin(None, 1, 1, true);
        undo.on_resend(20 * MS);
        assert_eq!([9_000, 15_000].map(|tsecr_us| undo.is_original(tsecr_us)), [true, false]);
        undo.begin(None, 2, 0, false);
        undo.on_resend(30 * MS);
        assert!(undo.is_original(25_000));
    }
}
