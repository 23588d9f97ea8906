//! The send buffer: how much of what the application has to send lies ready to be sent. It grows with the window
//! (tcp_sndbuf_expand(), tcp_sendmsg_locked() in Linux).

use super::{Config, sender::Sender};
use windlass_core::abi::WL_INIT_CWND_SEGS;

/// Memory of the send buffer that an sk_buff takes beside its payload (SKB_TRUESIZE() of its head).
pub(super) const SKB_MEMORY_BYTES: u64 = 832;
/// Longest payload of an sk_buff.
const SKB_MAX_BYTES: u64 = 65_536;
/// What the application writes at a time (sendfile_max_chunk of nginx).
pub const WRITE_BYTES: u64 = 2 << 20;
/// Room of an sk_buff for headers, and what of it lies behind its data (MAX_TCP_HEADER, struct skb_shared_info).
const SKB_ROOM_BYTES: u32 = 576;
/// The sk_buff itself.
const SKB_HEAD_BYTES: u32 = 256;

/// What Linux reckons that an sk_buff of one full segment takes, whose MSS was announced so (tcp_sndbuf_expand()).
fn lone_skb_bytes(announced_mss_bytes: u16) -> u32 {
    (u32::from(announced_mss_bytes) + SKB_ROOM_BYTES).next_power_of_two() + SKB_HEAD_BYTES
}

impl Sender {
    /// The application begins to write once a third of the send buffer is free (sk_stream_is_writeable() in Linux). If all of
    /// it had been sent by then, the application was the limit. What may leave leaves while it writes (`is_writing`); it goes
    /// on until the buffer is full. Returns whether it wrote something.
    pub(super) fn fill_buffer(&mut self, is_writing: bool, config: &Config) -> bool {
        if self.buffered == self.written {
            return false;
        }
        let room_segs = self.room_segs();
        if room_segs > 0 {
            self.grow_buffer(config);
        }
        let buffer_bytes = u64::from(self.buffer_bytes);
        let memory_bytes = self.memory_bytes(config);
        if memory_bytes >= buffer_bytes || (!is_writing && memory_bytes > buffer_bytes / 3 * 2) {
            return false;
        }
        if !is_writing {
            self.check_app_limited(self.buffered);
        }
        self.buffered = self.written.min(self.writes_until(memory_bytes, room_segs, config));
        true
    }

    /// The window has room while the application waits for room in the buffer: it grows with the window. Linux looks after each
    /// super-packet (tcp_check_space(), tcp_should_expand_sndbuf(), tcp_sndbuf_expand(), bbr_sndbuf_expand()).
    pub(super) fn grow_buffer(&mut self, config: &Config) {
        let windows = if self.is_pacing() { 3 } else { 2 };
        let segs = self.cwnd_segs().max(WL_INIT_CWND_SEGS).saturating_mul(windows);
        let wanted_bytes = segs.saturating_mul(lone_skb_bytes(config.announced_mss_bytes()));
        self.buffer_bytes = self.buffer_bytes.max(wanted_bytes.min(config.snd_buffer_bytes));
    }

    /// Up to where the application writes into a send buffer that holds `memory_bytes`, with room for `room_segs` in the window,
    /// before something leaves.
    ///
    /// Linux requires room for a new sk_buff only (tcp_sendmsg_locked()), and fills it and the one before it. While what is
    /// written leaves in super-packets that are shorter than an sk_buff, the last one is never full, so as much goes in as leaves,
    /// whatever the size of the buffer, and one more; but one write is of so much at most, and the next one requires room. Where
    /// sk_buffs leave whole, as at a high rate, each requires room.
    fn writes_until(&self, memory_bytes: u64, room_segs: u32, config: &Config) -> u64 {
        let skb_bytes = self.skb_bytes(config);
        let leave_segs = self.pacing.free_segs(self.algorithm.decision.rate_bytes_ps()).min(room_segs.into());
        let by_window = self.nxt + leave_segs * u64::from(self.mss_bytes) + skb_bytes;
        let leaves_whole =
            !config.has_offload || u64::from(self.longest_super_packet_segs() * self.mss_bytes) >= skb_bytes;
        if leave_segs > 0 && by_window > self.buffered && !leaves_whole {
            return by_window.min(self.buffered + WRITE_BYTES);
        }
        let last_bytes = self.buffered.saturating_sub(self.nxt).min(skb_bytes);
        let rest_bytes = if last_bytes > 0 { skb_bytes - last_bytes } else { 0 };
        let room_bytes = u64::from(self.buffer_bytes).saturating_sub(memory_bytes + rest_bytes);
        let skbs = room_bytes.div_ceil(skb_bytes + SKB_MEMORY_BYTES);
        self.buffered + rest_bytes + skbs * skb_bytes
    }

    /// Payload of an sk_buff that waits to be sent: at most half of the peer's window (tcp_xmit_size_goal()).
    fn skb_bytes(&self, config: &Config) -> u64 {
        let mss = u64::from(self.mss_bytes);
        if !config.has_offload {
            return mss;
        }
        let segs = (u64::from(self.wnd_bytes) / 2).min(SKB_MAX_BYTES) / mss;
        segs.max(1) * mss
    }

    /// What the send buffer holds: payload, and an sk_buff for each super-packet.
    fn memory_bytes(&self, config: &Config) -> u64 {
        let unsent_bytes = self.buffered.saturating_sub(self.nxt);
        let skbs = u64::from(self.board.super_packets()) + unsent_bytes.div_ceil(self.skb_bytes(config));
        self.buffered.saturating_sub(self.una) + skbs * SKB_MEMORY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        packet::MSS_BYTES,
        rng,
        tcp::{Ecn, cable::cable, receiver::Receiver, sender::Wire},
        time::MS,
    };
    use windlass_core::Algorithm;

    /// Memory of the send buffer after ten segments of many have left, and `more` when an ACK makes room for them at once.
    fn buffer_bytes_after(more: u32) -> u32 {
        let (mut net, hop) = cable();
        let config = Config::default();
        let mut receiver = Receiver::new(&config, Ecn::Off);
        let mut sender =
            Sender::new(Algorithm::by_name("reno").unwrap(), rng::of_endpoint(1, 0), config.mss_bytes, false);
        let mut wire = Wire { net: &mut net, config: &config, id: 0, peer: 1, hop, has_ecn: false };
        sender.on_established(Some(100 * MS), 64_000, false, &mut wire);
        sender.write(10_000_000, &mut wire, &mut receiver);
        assert_eq!(sender.inflight_segs(), 10);
        sender.algorithm.decision.cwnd_bytes += more * MSS_BYTES;
        sender.push(&mut wire, &mut receiver);
        assert_eq!(sender.inflight_segs(), 10 + more);
        sender.buffer_bytes
    }

    #[test]
    fn an_sk_buff_takes_a_power_of_two_and_its_head() {
        assert_eq!([1460, 8960].map(lone_skb_bytes), [2304, 16_640]);
    }

    /// Super-packets are of two segments here. After the only one the window has no room; after the first of two it has.
    #[test]
    fn it_grows_between_two_super_packets() {
        assert_eq!(buffer_bytes_after(2), 2 * 10 * 2304);
        assert_eq!(buffer_bytes_after(4), 2 * 14 * 2304);
    }
}
