//! The testbed: hosts in network namespaces with their real Linux stacks, real servers and clients, and a link emulator
//! between them. Runs the same scenario files as the simulator.

pub mod attacks;
mod boxed;
mod bursts;
mod cgroup;
mod coupled;
pub mod files;
mod groups;
mod leftovers;
mod limits;
mod link_emulator;
mod native;
mod netem;
pub mod netns;
mod own_prefix;
mod owner;
mod packet;
mod panic_message;
mod parameters;
mod player;
mod policy;
mod queue_looks;
mod run;
mod spin;
mod stop;
mod tcp;
pub mod tools;
mod topology;
mod traffic;
mod tun;
mod wan;

pub use boxed::BoxProcess;
pub use cgroup::Cgroup;
pub use leftovers::clean_leftovers;
pub use link_emulator::Emulator;
pub use own_prefix::own_prefix;
pub use run::{RunOptions, run};
pub use topology::{Family, Topology};
pub use traffic::{Client, Crowd, CrowdLoad, CrowdResult, Fetch, Server, tcp_counters};
pub use wan::{Wan, Wire};
pub use windlass_scenario::{FlowReport, LinkReport, LinkStats, RunReport};
