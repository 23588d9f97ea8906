//! Scenarios: networks and workloads as data. The testbed runs them with real kernels, the simulator with its own hosts.
//! What both must agree on is here too: how a link treats a packet, and how a run is reported.

mod draft;
mod graph;
mod group;
mod link;
mod report;
mod scenario;
mod topology;
mod units;

pub use draft::Draft;
pub use graph::{Distances, Graph};
pub use group::{Group, Per};
pub use link::{LinkModel, LinkStats, Queued, Verdict, times};
pub use report::{FlowReport, Intervals, LinkReport, RunReport};
pub use scenario::{Buffer, Flow, GilbertElliott, Host, Link, Mode, Scenario, ScenarioError, Windlass};
pub use topology::{Ports, Switch};
pub use units::{Bytes, Fraction, Rate, Span};
