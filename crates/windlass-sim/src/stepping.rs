//! A run in steps of virtual time: between them flows can be observed, and their windows set from outside. As long as nothing is
//! set, the run is the one that [`run`](crate::run) makes, to the byte.

use crate::{
    error::SimError,
    memory,
    run::{Connection, Outcome, RunOptions, Sim},
    tcp::{Phase, Tally},
};
use std::{collections::BTreeMap, sync::atomic::AtomicBool};
use windlass_scenario::{Application, Connections, Scenario};

/// A flow as its sender has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowState {
    /// It has come to its end.
    pub is_over: bool,
    /// Congestion window.
    pub cwnd_bytes: u32,
    /// Slow start threshold; none: there was no reason for one yet.
    pub ssthresh_bytes: Option<u32>,
    /// Rate at which it leaves; none: it is not paced.
    pub pacing_bytes_ps: Option<u64>,
    /// Payload of a full segment.
    pub mss_bytes: u32,
    /// Sent, not delivered and not lost.
    pub inflight_bytes: u32,
    /// Smoothed round-trip time; 0: none was measured yet.
    pub srtt_us: u64,
    /// Smallest round-trip time; 0: none was measured yet.
    pub min_rtt_us: u64,
    /// Payload sent so far, retransmissions too.
    pub sent_bytes: u64,
    /// Payload that the receiver has so far.
    pub arrived_bytes: u64,
    /// Retransmission timeouts so far.
    pub timeouts: u64,
    /// What ACKs have reported since the flow was looked at last.
    pub tally: Tally,
}

/// Whether a flow of the scenario has a window of its own, which can be set: one TCP connection that it keeps, in no group.
pub fn check_window(scenario: &Scenario, flow: usize) -> Result<(), SimError> {
    let spec = &scenario.flows[flow];
    let is_kept = spec.connections == Connections::Persistent && spec.application != Application::Udp;
    match is_kept && spec.group.is_none() {
        true => Ok(()),
        false => Err(SimError::NoWindow { flow, from: spec.from.clone(), to: spec.to.clone() }),
    }
}

/// A run in hand.
#[derive(Debug)]
pub struct Stepping<'a> {
    sim: Sim<'a>,
    is_over: bool,
}

impl<'a> Stepping<'a> {
    /// At the beginning of a run of `scenario`, of which these flows are observed and may be set.
    ///
    /// # Errors
    /// As for [`run`](crate::run); or one of these flows has no window of its own.
    pub fn new(
        scenario: &'a Scenario,
        options: &RunOptions<'a>,
        flows: &[usize],
    ) -> Result<Stepping<'a>, SimError> {
        flows.iter().try_for_each(|&flow| check_window(scenario, flow))?;
        memory::check(memory::needed_bytes(scenario, &options.config, options.interval_ns))?;
        let mut sim = Sim::new(scenario, options)?;
        flows.iter().for_each(|&flow| sim.fetches[flow].ends[1].sender.algorithm.observe());
        Ok(Stepping { sim, is_over: false })
    }

    /// Virtual time that the scenario allows.
    pub fn limit_ns(&self) -> u64 {
        self.sim.until_ns
    }

    /// Goes on to this time. Returns whether the run is over: all flows are, its time is, or the caller has it end.
    pub fn step_to(&mut self, until_ns: u64, cancel: Option<&AtomicBool>) -> bool {
        self.is_over |= self.sim.run_to(until_ns, cancel);
        self.is_over
    }

    /// Whether a flow's connection is established, so that there is a window.
    pub fn is_established(&self, flow: usize) -> bool {
        self.sim.fetches[flow].ends[1].phase() == Phase::Established
    }

    /// Looks at a flow.
    pub fn flow(&mut self, flow: usize) -> FlowState {
        let (session, fetch) = (&self.sim.sessions[flow], &mut self.sim.fetches[flow]);
        let arrived_bytes = session.arrived_bytes + fetch.partial_bytes();
        let end = &mut fetch.ends[1];
        let tally = end.sender.algorithm.take_tally().unwrap_or_default();
        let sender = &end.sender;
        FlowState {
            is_over: session.is_over(),
            cwnd_bytes: sender.cwnd_segs() * sender.mss_bytes(),
            ssthresh_bytes: sender.ssthresh_segs().map(|segs| segs * sender.mss_bytes()),
            pacing_bytes_ps: sender.algorithm.decision.rate_bytes_ps(),
            mss_bytes: sender.mss_bytes(),
            inflight_bytes: sender.inflight_segs() * sender.mss_bytes(),
            srtt_us: sender.srtt_us(),
            min_rtt_us: sender.min_rtt_us(),
            sent_bytes: sender.sent_bytes(),
            arrived_bytes,
            timeouts: sender.stats.timeouts,
            tally,
        }
    }

    /// Connections that are open.
    pub fn connections(&self) -> impl Iterator<Item = Connection<'_>> {
        self.sim.connections()
    }

    /// What the scenario's box has counted, by the names of the datapath's counters; none: there is no box.
    pub fn counters(&self) -> Option<BTreeMap<String, u64>> {
        self.sim.counters()
    }

    /// Payload that has arrived at all clients.
    pub fn arrived_bytes(&self) -> u64 {
        self.sim.all_arrived_bytes()
    }

    /// Segments of data that all senders have retransmitted.
    pub fn sender_retrans_segs(&self) -> u64 {
        self.sim.all_retrans_segs()
    }

    /// Has a flow's window and rate be these from `at_ns` on, the time that the run has come to; its algorithm is
    /// not called any more. None: as it is. Without effect before the connection is established.
    pub fn hold(&mut self, flow: usize, at_ns: u64, cwnd_bytes: Option<u32>, pacing_bytes_ps: Option<u64>) {
        let Sim { net, config, fetches, sessions, .. } = &mut self.sim;
        let end = &mut fetches[flow].ends[1];
        if end.phase() != Phase::Established || sessions[flow].is_over() {
            return;
        }
        net.now_ns = net.now_ns.max(at_ns);
        let least_bytes = end.sender.mss_bytes();
        end.sender.algorithm.hold(cwnd_bytes.map(|bytes| bytes.max(least_bytes)), pacing_bytes_ps);
        end.on_held(net, config);
    }

    /// Ends the run where it is; what has not finished is reported as failed.
    pub fn finish(mut self) -> Outcome {
        self.sim.look(self.sim.net.now_ns);
        self.sim.finish()
    }
}
