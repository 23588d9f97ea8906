//! Scenarios: networks and workloads as data. The testbed runs them with real kernels, the simulator with its own hosts.
//! What both must agree on is here too: how a link treats a packet, and how a run is reported.

mod box_error;
mod capture;
mod cdf_file;
mod discipline;
mod dist;
mod draft;
mod file;
mod flow;
mod graph;
mod group;
mod impairments;
mod keys;
mod link;
mod location;
mod net;
mod net_builder;
mod page;
mod pair;
mod parameters;
mod printable;
mod queue_times;
mod rate_trace;
mod report;
mod rtt;
mod scenario;
mod schedule;
mod sending;
mod topology;
mod tunables;
mod unitless;
mod units;
mod workload;

pub use box_error::box_error;
pub use discipline::{
    CodelKeys, Codepoint, Discipline, DisciplineQueue, DualPi2Keys, FqCodelKeys, Label, PieKeys,
    PriorityKeys, RedKeys,
};
pub use dist::{Dist, Quantity};
pub use draft::Draft;
pub use file::{IN_REPORTS, is_name, line_at, read_file};
pub use flow::{After, Application, Connections, Flow, Load, Plan, Planned, Size, Train};
pub use graph::{Distances, Graph, Ways};
pub use group::{Group, Per};
pub use impairments::{Outage, Policer, RateStep};
pub use keys::{FoundKey, find_key, joined, with_key};
pub use link::{LATE_US, LinkModel, LinkStats, Queued, Verdict, times};
pub use location::{Location, Refusal, ScenarioFile};
pub use net::{Buffer, GilbertElliott, Host, Link, Ports, Switch};
pub use page::{Count, Page};
pub use parameters::Parameters;
pub use printable::{Printable, printable_message, printable_path};
pub use rate_trace::RateTrace;
pub use report::{
    FlowReport, Intervals, LinkReport, PageLoad, Response, ResponseTimes, RunReport, jain, late_us,
};
pub use rtt::mean_rtt_ms;
pub use scenario::{Mode, Scenario, ScenarioError, Windlass};
pub use schedule::{DuePage, Schedule};
pub use tunables::{Tunables, range as tunable_range, text as tunable_text};
pub use units::{Bytes, Fraction, Rate, Span, in_base_unit, split};
pub use workload::{Ecn, Tcp};
