//! A guest that claims what it likes, at its port.

use crate::player::Player;
use std::time::{Duration, Instant};
use windlass_guest::{
    Session,
    wire::{CWND_MAX_BYTES, Op, Report, State},
};

/// How often it claims something.
const PAUSE: Duration = Duration::from_millis(5);
const FLOWS: u64 = 10;

/// The largest of windows and segments, over a path that takes no time, and never a loss.
fn lie(flow: u64, seq: u32) -> Report {
    Report {
        flow,
        seq,
        op: if seq == 1 { Op::Register } else { Op::Update },
        state: State::Avoidance,
        is_timeout: false,
        is_cwnd_limited: true,
        cwnd_bytes: CWND_MAX_BYTES,
        ssthresh_bytes: CWND_MAX_BYTES,
        srtt_us: 1,
        mss_bytes: 0xffff,
        acked_bytes: u32::MAX,
        acks: u32::MAX,
        inflight_bytes: 0,
    }
}

/// Lies until dropped.
pub fn liar(port: &str) -> Player {
    let (mut session, mut seq) = (Session::default(), 0);
    let started = Instant::now();
    session.connected(0);
    Player::start(port, PAUSE, move |heard| {
        let now_us = started.elapsed().as_micros() as u64;
        drop(session.receive(heard, now_us));
        seq += 1;
        (0..FLOWS).for_each(|flow| session.report(lie(flow, seq), now_us));
        session.tick(now_us);
        session.flush(u64::MAX);
        let said = session.outgoing().to_vec();
        session.written(said.len());
        said
    })
}
