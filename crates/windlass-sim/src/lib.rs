//! The simulator: the scenario files of the testbed in virtual time, with thousands of hosts and no privileges. Hosts
//! have full TCP endpoints that behave as Linux' do; congestion control is the C core's, the very text that the
//! kernel runs.
//!
//! A run is a pure function of scenario and seed: time is integer, events of equal times happen in the order in which
//! they were scheduled, and every source of random numbers has a generator of its own.

pub mod bench;
mod boxed;
mod discipline;
mod engine;
mod error;
mod fetch;
mod group;
mod link;
mod memory;
mod network;
mod packet;
mod pool;
mod prefetch;
mod rng;
mod run;
mod session;
mod stepping;
mod tap;
mod tcp;
#[cfg(test)]
mod tests;
mod time;
mod timer;
mod topology;
mod trace;

pub use error::SimError;
pub use memory::{available_bytes, needed_bytes};
pub use network::Count;
pub use run::{Connection, Outcome, RunOptions, check, run};
pub use stepping::{FlowState, Stepping, check_window};
pub use tcp::{Config, CongestionControl, Ecn, Outside, Round, SenderStats, Tally};
pub use trace::{FlowRow, LinkRow, TraceOptions, Window};
pub use windlass_core::{Algorithm, abi};
