//! The testbed: hosts in network namespaces with their real Linux stacks, real servers and clients, and a link emulator
//! between them. Runs the same scenario files as the simulator.

pub mod files;
mod native;
pub mod netns;
mod packet;
mod run;
mod topology;
mod traffic;
mod wan;

pub use run::{RunOptions, run};
pub use topology::{Family, Topology};
pub use traffic::{Crowd, CrowdResult, Server};
pub use windlass_scenario::{FlowReport, LinkReport, LinkStats, RunReport};
