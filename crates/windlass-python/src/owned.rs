//! A run in steps together with its scenario.

use ouroboros::self_referencing;
use windlass_scenario::{RunReport, Scenario};
use windlass_sim::{FlowState, RunOptions, SimError, Stepping};

#[self_referencing]
struct Inner {
    scenario: Scenario,
    #[borrows(scenario)]
    #[covariant]
    stepping: Option<Stepping<'this>>,
}

/// A run in steps. It does not leave the thread that has made it.
pub struct OwnedStepping(Inner);

impl OwnedStepping {
    /// At the beginning of a run of `scenario`, of which these flows are observed.
    pub fn new(scenario: Scenario, flows: &[usize]) -> Result<OwnedStepping, SimError> {
        Inner::try_new(scenario, |scenario| Stepping::new(scenario, &RunOptions::default(), flows).map(Some))
            .map(OwnedStepping)
    }

    /// Goes on to this time. Returns whether the run is over.
    pub fn step_to(&mut self, until_ns: u64) -> bool {
        self.0.with_stepping_mut(|s| s.as_mut().is_none_or(|s| s.step_to(until_ns, None)))
    }

    /// Whether a flow has a window by now.
    pub fn is_established(&self, flow: usize) -> bool {
        self.0.with_stepping(|s| s.as_ref().is_some_and(|s| s.is_established(flow)))
    }

    /// Looks at a flow; none: the run was ended.
    pub fn flow(&mut self, flow: usize) -> Option<FlowState> {
        self.0.with_stepping_mut(|s| s.as_mut().map(|s| s.flow(flow)))
    }

    /// See [`Stepping::hold`].
    pub fn hold(&mut self, flow: usize, at_ns: u64, cwnd_bytes: Option<u32>, pacing_bytes_ps: Option<u64>) {
        self.0.with_stepping_mut(|s| {
            s.iter_mut().for_each(|s| s.hold(flow, at_ns, cwnd_bytes, pacing_bytes_ps));
        });
    }

    /// Goes on to the end; none: the run was ended before.
    pub fn finish(&mut self) -> Option<RunReport> {
        self.0.with_stepping_mut(|s| {
            let mut stepping = s.take()?;
            stepping.step_to(u64::MAX, None);
            Some(stepping.finish().report)
        })
    }
}
