//! Scenarios: networks and workloads as data. The testbed runs them with real kernels; a simulator runs the same files.

mod scenario;
mod units;

pub use scenario::{Buffer, Flow, GilbertElliott, Host, Link, Mode, Scenario, ScenarioError, Windlass};
pub use units::{Bytes, Fraction, Rate, Span};
