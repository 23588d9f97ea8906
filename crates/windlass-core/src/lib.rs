//! The congestion core of Windlass, compiled natively, with safe Rust around it.
//!
//! The same C headers are compiled into the kernel programs under `bpf/`; see `core/` for what they do.

pub mod abi;
mod algorithm;
mod counter;
mod flow;
mod group;
mod handshake;
mod home;
mod ledger;
mod options;
mod seq;
pub mod share;
mod tunable;

pub use algorithm::{Algorithm, AlgorithmState};
pub use counter::{Counter, counters};
pub use flow::Flow;
pub use group::{Group, GroupAblation, GroupError, GroupKey, GroupRule, MemberId, TenantId};
pub use handshake::Handshake;
pub use home::{Home, Segment, begins, on_syn, settles_first};
pub use ledger::{ledger_up_to, record_of, rtt_quantile_us};
pub use options::tcp_options;
pub use seq::is_after;
pub use tunable::{Tunable, Unit};
