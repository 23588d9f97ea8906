//! TCP endpoints that behave as Linux does: what they send, when, and what they make of what comes back. The congestion
//! window is not theirs: the algorithms of `core/alg` decide it.
//!
//! | file | what | after |
//! |---|---|---|
//! | `endpoint.rs` | handshake, data both ways, close | RFC 9293 |
//! | `sender.rs` | state, what the application does | RFC 9293, tcp.c |
//! | `transmit.rs` | what leaves when | RFC 9293, tcp_output.c |
//! | `send_buffer.rs` | what lies ready to be sent | tcp_sendmsg_locked(), tcp_sndbuf_expand() |
//! | `tso.rs` | segments that leave together | tcp_tso_should_defer() |
//! | `pacing.rs` | super-packets on a schedule | tcp_update_skb_after_send(), tcp_tso_autosize() |
//! | `small_queue.rs` | how much waits in the host's own queue | tcp_small_queue_check() |
//! | `ack.rs` | what an acknowledgement does | tcp_ack() |
//! | `timeout.rs` | RTO, F-RTO, tail loss probes, persist | RFC 6298, 5682, 8985 |
//! | `seg.rs`, `scoreboard.rs` | segments in flight | RFC 2018, 6675 |
//! | `rack.rs` | which of them are lost | RFC 8985 |
//! | `newreno.rs` | the same without SACK | RFC 6582 |
//! | `prr.rs` | how fast a reduction goes | RFC 6937 |
//! | `undo.rs` | reductions that were not needed | RFC 3522, 3708 |
//! | `control.rs` | an algorithm of the core, or one from outside it | tcp_congestion_ops |
//! | `usage.rs` | whether the window was in use | RFC 7661, tcp_cwnd_validate() |
//! | `rtt.rs`, `rate.rs` | round-trip time, delivery rate | RFC 6298 |
//! | `receiver.rs` | reassembly, SACK, ECN echo | RFC 2018, 2883, 3168 |
//! | `delack.rs` | when to acknowledge | RFC 1122, tcp_input.c |
//! | `window.rs` | the receive window grows as needed | tcp_rcv_space_adjust() |
//!
//! Not modelled: Nagle's algorithm (off), ACKs that wait while a client answers (ping-pong), SACK reneging, path MTU
//! discovery, quick ACKs for segments without ECT behind such with it, round-trip minima that expire after 300 s.

mod ack;
#[cfg(test)]
mod cable;
mod control;
mod delack;
mod endpoint;
mod newreno;
mod pacing;
mod prr;
mod rack;
mod rate;
mod receiver;
mod rtt;
mod scoreboard;
mod seg;
mod send_buffer;
mod sender;
mod small_queue;
mod timeout;
mod transmit;
mod tso;
mod undo;
mod usage;
mod window;

pub use control::{CongestionControl, Outside, Tally};
pub use endpoint::{Endpoint, Phase};
pub use receiver::ReceiverStats;
pub use send_buffer::WRITE_BYTES;
pub use sender::{Round, SenderStats};

use crate::{
    packet::{DATAGRAM_BYTES, MSS_BYTES},
    time::{MS, S},
};
use windlass_core::abi::WL_INIT_CWND_SEGS;
use windlass_scenario::{Parameters, Span, Tcp};

/// What a segment in flight costs its sender, in bytes of memory.
pub const SEGMENT_BYTES: usize = size_of::<seg::Seg>();

/// RFC 7323, section 2.3.
const WSCALE_MAX: u8 = 14;

/// How hosts are set up. The defaults are those of Linux 6.16 and newer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Payload of a full segment.
    pub mss_bytes: u32,
    /// Payload of a full datagram.
    pub datagram_bytes: u64,
    /// Smallest retransmission timeout.
    pub rto_min_ns: u64,
    /// Timeout before there is a round-trip time (RFC 6298, section 2.1).
    pub rto_initial_ns: u64,
    /// Largest timeout after back-off.
    pub rto_max_ns: u64,
    /// How long an acknowledgement may be delayed.
    pub delack_ns: u64,
    /// Initial congestion window; none: what the algorithm has.
    pub initial_window_segs: Option<u32>,
    /// Most segments acknowledged at once when a connection begins or after trouble.
    pub quick_acks: u32,
    /// Receive window at first, in bytes, of which whole segments are offered.
    pub rcv_window_bytes: u32,
    /// ... and the most it grows to.
    pub rcv_window_max_bytes: u32,
    /// The window field is in units of 2 to the power of this (RFC 7323, section 2), or larger ones: see [`Config::wscale`].
    pub rcv_wscale: u8,
    /// Memory for what a sender keeps, sent and not acknowledged or not sent yet (tcp_wmem), at first ...
    pub snd_buffer_first_bytes: u32,
    /// ... and the most it grows to.
    pub snd_buffer_bytes: u32,
    /// Segments leave several at a time (segmentation offload).
    pub has_offload: bool,
    /// Windows shrink while they are not used (tcp_slow_start_after_idle).
    pub is_restarting_after_idle: bool,
    /// Windows grow and last only as far as they are used (RFC 7661, tcp_cwnd_validate()).
    pub is_validating_window: bool,
    /// Tail loss probes (RFC 8985, section 7).
    pub is_probing_tails: bool,
    /// Connections agree on SACK (RFC 2018); without it, on duplicate ACKs only.
    pub has_sack: bool,
    /// Without SACK, a partial acknowledgement loses the next segment (RFC 6582); otherwise it ends the recovery.
    pub is_new_reno: bool,
    /// What is done with congestion marks, where the algorithm has no needs of its own.
    pub ecn: Ecn,
    /// What algorithms know of their paths, and their constants.
    pub parameters: Parameters,
}

/// Explicit congestion notification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Packets show that their sender does not understand it.
    #[default]
    Off,
    /// As in RFC 3168: a mark is echoed until the sender reports that it has reduced its window.
    Classic,
    /// As in RFC 8257 (DCTCP): each acknowledgement reports whether its segments were marked.
    Exact,
}

impl Config {
    /// MSS as hosts announce it: timestamps are part of it (RFC 6691).
    pub fn announced_mss_bytes(&self) -> u16 {
        (self.mss_bytes + 12) as u16
    }

    /// Initial congestion window.
    pub fn initial_segs(&self) -> u32 {
        self.initial_window_segs.unwrap_or(WL_INIT_CWND_SEGS)
    }

    /// What a connection announces: the units of its window field are as large as its largest window needs
    /// (tcp_select_initial_window()).
    pub fn wscale(&self) -> u8 {
        let fits = |wscale: &u8| self.rcv_window_max_bytes <= 0xffff << wscale;
        (self.rcv_wscale..WSCALE_MAX).find(fits).unwrap_or(WSCALE_MAX)
    }

    /// The same hosts as a scenario configures them.
    pub fn with(self, tcp: &Tcp, parameters: &Parameters) -> Config {
        let ecn = |ecn| match ecn {
            windlass_scenario::Ecn::Off => Ecn::Off,
            windlass_scenario::Ecn::Classic => Ecn::Classic,
            windlass_scenario::Ecn::Exact => Ecn::Exact,
        };
        let rcv_window_bytes = tcp.receive_window.map_or(self.rcv_window_bytes, |w| w.count() as u32);
        Config {
            mss_bytes: tcp.mss_bytes(),
            datagram_bytes: tcp.datagram_bytes(),
            rto_min_ns: tcp.rto_min.map_or(self.rto_min_ns, Span::ns),
            initial_window_segs: tcp.initial_window.or(self.initial_window_segs),
            delack_ns: tcp.delayed_ack.map_or(self.delack_ns, Span::ns),
            ecn: tcp.ecn.map_or(self.ecn, ecn),
            has_offload: tcp.offload.unwrap_or(self.has_offload),
            is_restarting_after_idle: tcp.restart_after_idle.unwrap_or(self.is_restarting_after_idle),
            is_validating_window: tcp.validate_window.unwrap_or(self.is_validating_window),
            is_probing_tails: tcp.tail_probes.unwrap_or(self.is_probing_tails),
            has_sack: tcp.sack.unwrap_or(self.has_sack),
            is_new_reno: tcp.new_reno.unwrap_or(self.is_new_reno),
            rcv_window_bytes,
            rcv_window_max_bytes: self.rcv_window_max_bytes.max(rcv_window_bytes),
            snd_buffer_first_bytes: tcp.send_buffer.map_or(self.snd_buffer_first_bytes, |b| b.count() as u32),
            snd_buffer_bytes: tcp.send_buffer.map_or(self.snd_buffer_bytes, |b| b.count() as u32),
            parameters: *parameters,
            ..self
        }
    }
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mss_bytes: MSS_BYTES,
            datagram_bytes: DATAGRAM_BYTES,
            rto_min_ns: 200 * MS,
            rto_initial_ns: S,
            rto_max_ns: 120 * S,
            delack_ns: 40 * MS,
            initial_window_segs: None,
            quick_acks: 16,
            rcv_window_bytes: 64 << 10,
            rcv_window_max_bytes: 20 << 20,
            rcv_wscale: 10,
            snd_buffer_first_bytes: 16 << 10,
            snd_buffer_bytes: 4 << 20,
            has_offload: true,
            is_restarting_after_idle: true,
            is_validating_window: true,
            is_probing_tails: true,
            has_sack: true,
            is_new_reno: true,
            ecn: Ecn::Off,
            parameters: Parameters::default(),
        }
    }
}
