//! What is known of a segment in flight.

/// Bits of [`Seg::flags`].
pub(super) mod seg_flag {
    /// Delivered, not yet acknowledged cumulatively.
    pub const SACKED: u8 = 1 << 0;
    /// Found lost.
    pub const LOST: u8 = 1 << 1;
    /// Retransmitted, and that copy is not known to be lost.
    pub const RESENT: u8 = 1 << 2;
    /// Retransmitted at some time.
    pub const EVER_RESENT: u8 = 1 << 3;
    pub const APP_LIMITED: u8 = 1 << 4;
    /// Takes one more sequence number than its payload.
    pub const FIN: u8 = 1 << 5;
    /// First of a super-packet.
    pub const HEAD: u8 = 1 << 6;
    /// RACK has found its newest copy lost, and will not judge that again.
    pub const JUDGED: u8 = 1 << 7;
}
use seg_flag::*;

/// A segment in flight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seg {
    /// First sequence number.
    pub seq: u64,
    /// When its newest copy was sent.
    pub sent_at_ns: u64,
    /// Place of that copy among all that the sender ever sent: orders what was sent even at equal times.
    pub order: u32,
    /// See `rate.rs`.
    pub delivered_bytes: u32,
    /// See `rate.rs`.
    pub delivered_at_us: u32,
    /// See `rate.rs`.
    pub first_sent_at_us: u32,
    /// Payload.
    pub len_bytes: u16,
    pub(super) flags: u8,
}

impl Seg {
    /// A segment about to be sent.
    pub fn new(seq: u64, len_bytes: u16, is_fin: bool, now_ns: u64) -> Seg {
        Seg { seq, len_bytes, sent_at_ns: now_ns, flags: if is_fin { FIN } else { 0 }, ..Seg::default() }
    }

    /// One past its last sequence number.
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len_bytes) + u64::from(self.is_fin())
    }

    /// Whether it closes the stream.
    pub fn is_fin(&self) -> bool {
        self.flags & FIN != 0
    }

    /// Whether it was found lost, retransmitted since or not.
    pub fn is_lost(&self) -> bool {
        self.flags & LOST != 0
    }

    /// Whether it has arrived out of order.
    pub fn is_sacked(&self) -> bool {
        self.flags & SACKED != 0
    }

    /// Whether it waits to be retransmitted.
    pub fn is_waiting(&self) -> bool {
        self.flags & (SACKED | LOST | RESENT) == LOST
    }

    /// Whether its newest copy, a retransmission, is on its way.
    pub fn is_resent(&self) -> bool {
        self.flags & RESENT != 0
    }

    /// Whether more than one copy was sent.
    pub fn was_retransmitted(&self) -> bool {
        self.flags & EVER_RESENT != 0
    }

    /// Whether RACK has found its newest copy lost.
    pub fn is_judged(&self) -> bool {
        self.flags & JUDGED != 0
    }

    /// Whether the application was short of data when it was sent.
    pub fn is_app_limited(&self) -> bool {
        self.flags & APP_LIMITED != 0
    }

    /// Notes whether it is the first of a super-packet.
    pub fn set_head(&mut self, is_head: bool) {
        self.flags = self.flags & !HEAD | if is_head { HEAD } else { 0 };
    }

    /// Notes whether it is.
    pub fn set_app_limited(&mut self, is_limited: bool) {
        self.flags = self.flags & !APP_LIMITED | if is_limited { APP_LIMITED } else { 0 };
    }
}
