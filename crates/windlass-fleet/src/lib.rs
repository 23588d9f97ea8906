//! Policies of many machines. What they should be is in etcd, where one writer after the other changes it; a process beside each agent
//! writes it into the agent's policy file and reports what is in force. Agents know nothing of it, and go on without it.
//!
//! [`state`] is what is in etcd, [`step`] the stages of a rollout and [`judge`] its guards, all three without clocks and sockets;
//! [`node`] and [`driver`] are the two processes. `docs/fleet.md` has the user's side.

pub mod agent_metrics;
pub mod driver;
mod error;
mod etcd;
pub mod guard;
mod http;
pub mod judge;
pub mod labels;
pub mod node;
pub mod overview;
mod policy_file;
pub mod share_or_count;
pub mod state;
pub mod step;
pub mod store;
mod wall_clock;

pub use error::{Error, Result};
pub use http::Endpoint;
pub use labels::{Labels, Selector};
pub use store::Store;
