//! A host that grants every flow the same window, whatever it reports.

use crate::player::Player;
use std::{mem, time::Duration};
use windlass_guest::{
    controller::goodbye,
    wire::{Message, Outcome, Reader, Reply, Report, State, encode},
};

/// How often it looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);

fn grant(report: &Report, window_bytes: u32) -> Reply {
    Reply {
        flow: report.flow,
        seq: report.seq,
        outcome: Outcome::Coupled,
        state: State::Avoidance,
        is_change: true,
        cwnd_bytes: window_bytes,
        ssthresh_bytes: window_bytes,
    }
}

/// Grants until dropped.
pub fn spendthrift(port: &str, window_bytes: u32) -> Player {
    let (mut reader, mut out) = (Reader::default(), goodbye());
    Player::start(port, LOOK, move |heard| {
        reader.push(heard);
        while let Some(frame) = reader.next_frame().expect("the agent says what makes sense") {
            let answer = match frame.message {
                Message::Hello => Message::Welcome,
                Message::Reports(all) => {
                    Message::Replies(all.iter().map(|r| grant(r, window_bytes)).collect())
                }
                _ => continue,
            };
            encode(frame.session, &answer, &mut out);
        }
        mem::take(&mut out)
    })
}
