//! The flows of this kernel, as the agent sees them.

use crate::{
    agent::Kernel,
    error::Result,
    wire::{CWND_MAX_BYTES, Op, Reply, Report, State},
};
use std::os::fd::RawFd;
use windlass_agent::GuestFlows;
use windlass_core::abi::{self, wl_guest_report};

/// None: not something that a flow can report.
fn report(raw: &wl_guest_report) -> Option<Report> {
    let op = match raw.op {
        abi::WL_GUEST_REGISTER => Op::Register,
        abi::WL_GUEST_UPDATE => Op::Update,
        abi::WL_GUEST_LEAVE => Op::Leave,
        _ => return None,
    };
    let state = match u32::from(raw.said.state) {
        abi::WL_MEMBER_SLOW_START => State::SlowStart,
        abi::WL_MEMBER_RECOVERY => State::Recovery,
        abi::WL_MEMBER_AVOIDANCE => State::Avoidance,
        _ => return None,
    };
    Some(Report {
        flow: raw.flow,
        seq: raw.seq,
        op,
        state,
        is_timeout: raw.said.is_timeout != 0,
        is_cwnd_limited: raw.said.is_cwnd_limited != 0,
        cwnd_bytes: raw.said.cwnd_bytes.clamp(1, CWND_MAX_BYTES),
        ssthresh_bytes: raw.said.ssthresh_bytes.clamp(1, CWND_MAX_BYTES),
        srtt_us: raw.said.srtt_us,
        // one that leaves reports nothing of it
        mss_bytes: raw.said.mss_bytes.clamp(1, 0xffff),
        acked_bytes: raw.said.acked_bytes,
        acks: raw.said.acks,
        inflight_bytes: raw.said.inflight_bytes,
    })
}

impl Kernel for GuestFlows {
    fn fd(&self) -> RawFd {
        self.fd()
    }

    fn reports(&mut self) -> Result<Vec<Report>> {
        Ok(self.reports()?.iter().filter_map(report).collect())
    }

    fn grant(&mut self, reply: &Reply) -> Result<bool> {
        let values = reply.is_change.then_some((reply.cwnd_bytes, reply.ssthresh_bytes));
        Ok(self.grant(reply.flow, reply.seq, values)?)
    }

    fn forget(&mut self, flow: u64) -> Result<()> {
        Ok(self.forget(flow)?)
    }

    fn revoke_all(&mut self) -> Result<()> {
        Ok(self.revoke_all()?)
    }
}
