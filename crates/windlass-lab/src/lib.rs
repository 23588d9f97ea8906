//! The testbed: hosts in network namespaces with their real Linux stacks, real servers and clients, and a link emulator
//! between them. Runs the same scenario files as the simulator.

pub mod files;
mod model;
pub mod netns;
mod packet;
mod report;
mod run;
mod topology;
mod traffic;
mod wan;

pub use model::{LinkModel, LinkStats, Verdict};
pub use report::{FlowReport, LinkReport, RunReport};
pub use run::{RunOptions, run};
pub use topology::{Family, Topology};
pub use traffic::{Crowd, CrowdResult, Server};
