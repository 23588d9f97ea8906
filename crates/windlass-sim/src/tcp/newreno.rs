//! Loss recovery without SACK (NewReno, RFC 6582, as in Linux where the peer permits no SACK): a duplicate ACK
//! reports that something has arrived, not what. Three of them lose the oldest segment; each partial acknowledgement
//! loses the next.

use super::{
    Config,
    rate::Delivery,
    sender::{CaState, Sender, Wire},
};

/// RFC 5681, section 3.2.
const DUPACK_THRESHOLD: u32 = 3;

impl Sender {
    /// Takes an ACK that moved una over `delivery`, or that is a duplicate (tcp_remove_reno_sacks(),
    /// tcp_add_reno_sack()). What duplicates have reported was counted as delivered then.
    pub(super) fn count_duplicates(&mut self, is_advance: bool, is_duplicate: bool, delivery: &mut Delivery) {
        let before = self.board.dup_segs();
        // what was never retransmitted had arrived before the timeout, behind a hole that a copy has filled now
        // (tcp_clean_rtx_queue())
        delivery.has_original &= !delivery.has_acked_retrans;
        if is_advance {
            // one of them filled the hole
            let told = before.min(delivery.segs.saturating_sub(1));
            delivery.segs -= told;
            let is_repairing = self.state == CaState::Recovery && self.una < self.high_seq;
            self.board.set_dup_segs(if is_repairing { before - told } else { 0 });
        } else if is_duplicate && self.takes_duplicates() {
            self.board.set_dup_segs(before + 1);
            delivery.segs += self.board.dup_segs().saturating_sub(before);
        }
    }

    /// With all of before acknowledged but nothing beyond, duplicates may be of spurious retransmissions
    /// (tcp_is_non_sack_preventing_reopen()); after a timeout those of new data count (tcp_process_loss()).
    fn takes_duplicates(&self) -> bool {
        match self.state {
            CaState::Open | CaState::Cwr => true,
            CaState::Recovery => self.una != self.high_seq,
            CaState::Loss => self.una != self.high_seq && self.nxt > self.high_seq,
        }
    }

    /// Before NewReno, a partial acknowledgement ended the recovery (RFC 5681, section 3.2, step 6).
    pub(super) fn is_given_up(&self, is_advance: bool, wire: &Wire) -> bool {
        let is_partial = is_advance && self.una < self.high_seq;
        let Config { has_sack, is_new_reno, .. } = *wire.config;
        !has_sack && !is_new_reno && self.state == CaState::Recovery && is_partial
    }

    /// Finds losses after an ACK (tcp_newreno_mark_lost()).
    pub(super) fn detect_by_duplicates(&mut self, is_advance: bool, wire: &Wire) {
        // one reduction for one window: what it has lost besides waits for the timeout (ns-2's bugfix_)
        let waits = !wire.config.is_new_reno && self.una < self.high_seq;
        let is_lost = match self.state {
            CaState::Open if waits => false,
            CaState::Open | CaState::Cwr => self.board.dup_segs() >= DUPACK_THRESHOLD,
            CaState::Recovery => is_advance && self.una < self.high_seq,
            CaState::Loss => false,
        };
        if is_lost && self.board.first().is_some_and(|head| !head.is_lost()) {
            self.board.mark_lost(self.board.first_id());
        }
    }
}
