//! A payload oracle for the attached programs: random servers, clients and forgers, and a check of every packet that leaves.

mod capture;
mod client;
mod deep;
pub mod dice;
mod forger;
mod gate;
mod ledger;
mod peer;
pub mod programs;
mod report;
mod script;
mod server;
pub mod stream;
pub mod terms;
pub mod wire;
mod world;

pub use deep::times_in_deep_flows;
pub use gate::Findings;
pub use report::{Report, Run};
pub use script::run_script;
pub use world::{planned_packets, run};
