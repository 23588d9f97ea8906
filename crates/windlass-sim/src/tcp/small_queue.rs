//! TCP small queues: how much of a sender may wait in the queue of its own host (tcp_small_queue_check() in Linux). What is beyond
//! that stays in the send buffer until the host has sent something.
//!
//! A host's own queue is that of a link with a rate and without a buffer that begins there. A link with a buffer stands for a device
//! of the network, as the testbed's emulator is one: it takes what the host sends at once, and drops what it has no room for.

use super::{
    send_buffer::SKB_MEMORY_BYTES,
    sender::{Sender, Wire},
};
use crate::engine::Kind;
use std::collections::VecDeque;

/// A sender may have what its rate makes in 2^-10 s there (sk_pacing_shift) ...
const SHIFT: u32 = 10;
/// ... or so many super-packets, if that is more ...
const LEAST_SKBS: u64 = 2;
/// ... and no more than this (tcp_limit_output_bytes), both by so many bits more for a retransmission.
const MOST_BYTES: u64 = 4 << 20;
/// Doubles the limit for retransmissions.
pub(super) const OF_RETRANSMISSIONS: u32 = 1;

/// What a sender has in the queue of its host.
#[derive(Debug, Default)]
pub struct HostQueue {
    /// Of each sk_buff, when its last segment leaves, and the memory that it takes.
    skbs: VecDeque<(u64, u32)>,
    bytes: u64,
}

impl HostQueue {
    /// A segment of `len_bytes` was put there, which will have left at `departs_ns`; `is_head`: the first of its sk_buff.
    pub fn add(&mut self, is_head: bool, len_bytes: u16, departs_ns: u64) {
        let head_bytes = if is_head { SKB_MEMORY_BYTES as u32 } else { 0 };
        let bytes = head_bytes + u32::from(len_bytes);
        self.bytes += u64::from(bytes);
        match self.skbs.back_mut().filter(|_| !is_head) {
            Some(last) => *last = (departs_ns, last.1 + bytes),
            None => self.skbs.push_back((departs_ns, bytes)),
        }
    }

    /// Whether there is no more than `limit_bytes` at `now_ns`; if not, when there will be.
    pub fn check(&mut self, limit_bytes: u64, now_ns: u64) -> Result<(), u64> {
        while let Some(&(departs_ns, bytes)) = self.skbs.front()
            && departs_ns <= now_ns
        {
            self.skbs.pop_front();
            self.bytes -= u64::from(bytes);
        }
        let mut left_bytes = self.bytes;
        let mut skbs = self.skbs.iter();
        let mut due_ns = now_ns;
        while left_bytes > limit_bytes
            && let Some((departs_ns, bytes)) = skbs.next()
        {
            left_bytes -= u64::from(*bytes);
            due_ns = *departs_ns;
        }
        if due_ns == now_ns { Ok(()) } else { Err(due_ns) }
    }
}

/// The most that a sender at this rate may have there before it sends another super-packet of `payload_bytes`.
fn limit_bytes(rate_bytes_ps: u64, payload_bytes: u64, doublings: u32) -> u64 {
    let skb_bytes = payload_bytes + SKB_MEMORY_BYTES;
    (rate_bytes_ps >> SHIFT).max(LEAST_SKBS * skb_bytes).min(MOST_BYTES) << doublings
}

impl Sender {
    /// Whether the host's queue has room for another super-packet of `segs` segments; if not, the sender goes on when it has. While
    /// no more than one sk_buff is on its way, it always has.
    pub(super) fn may_queue(&mut self, segs: u32, doublings: u32, wire: &mut Wire) -> bool {
        let rate_bytes_ps = self.pacing_rate_bytes_ps();
        let payload_bytes = u64::from(segs) * u64::from(self.mss_bytes);
        let Some(queue) = self.host_queue.as_mut().filter(|_| self.board.super_packets() > 1) else {
            return true;
        };
        let room = queue.check(limit_bytes(rate_bytes_ps, payload_bytes, doublings), wire.now_ns());
        if let Err(due_ns) = room {
            self.pace.arm_by(&mut wire.net.events, due_ns, Kind::Pace, wire.id);
        }
        room.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 Gbit/s make 122 kB in 2^-10 s; at 10 Mbit/s two super-packets of two segments are more.
    #[test]
    fn the_limit_is_a_millisecond_of_the_rate_or_two_super_packets() {
        assert_eq!(limit_bytes(125_000_000, 2 * 1448, 0), 122_070);
        assert_eq!(limit_bytes(1_250_000, 2 * 1448, 0), 2 * (2 * 1448 + 832));
        assert_eq!(limit_bytes(1_250_000, 2 * 1448, OF_RETRANSMISSIONS), 4 * (2 * 1448 + 832));
        assert_eq!(limit_bytes(100_000_000_000, 45 * 1448, 0), 4 << 20);
    }

    #[test]
    fn an_sk_buff_counts_until_its_last_segment_has_left() {
        let mut queue = HostQueue::default();
        for (is_head, departs_ns) in [(true, 10), (false, 20), (true, 30), (false, 40)] {
            queue.add(is_head, 1000, departs_ns);
        }
        let skb_bytes = 2000 + SKB_MEMORY_BYTES;
        assert_eq!(queue.check(2 * skb_bytes, 0), Ok(()));
        assert_eq!(queue.check(2 * skb_bytes - 1, 10), Err(20));
        assert_eq!(queue.check(skb_bytes - 1, 10), Err(40));
        assert_eq!(queue.check(skb_bytes, 20), Ok(()));
        assert_eq!(queue.check(0, 40), Ok(()));
        assert_eq!(queue.bytes, 0);
    }
}
