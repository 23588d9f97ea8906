//! What the echo of a timestamp times of retransmissions (core/flow/echo.h).

use super::{MSS, ack};
use windlass_core::{
    Flow,
    abi::{self, wl_ack},
};

/// The round trip with a full queue, and that of the same path when the queue is gone.
const FULL_US: u32 = 800_000;
const EMPTY_US: u32 = 200_000;

/// Without SACK, one segment timed; of the ten after it all are lost, and two of a newer timestamp, 20, that follow, too. Returns
/// the flow and when the first of the ten is found to be lost.
fn all_lost() -> (Flow, u32) {
    let mut f = Flow::new(0, MSS, abi::WL_FLOW_PACED_JUDGED | abi::WL_FLOW_TIMESTAMPS);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    f.state_mut().snd_tsval = 10;
    f.send(MSS, 0);
    f.ack(&ack(MSS, FULL_US, &[]));
    (2..=11).for_each(|i| f.send(i * MSS, FULL_US));
    let s = f.state_mut();
    (s.snd_tsval, s.echo_tsval, s.timed_at_us) = (20, 20, FULL_US + 1000);
    s.flags2 |= abi::WL_FLOW2_ECHO_TIMED as u16;
    (12..=13).for_each(|i| f.send(i * MSS, FULL_US + 1000));
    let mut now_us = FULL_US;
    while f.next_repair().is_none() {
        now_us += 10_000;
        f.on_silence(now_us);
    }
    assert_eq!(f.next_repair(), Some((MSS, MSS)));
    (f, now_us)
}

/// Acknowledges the first `segs` with the echo of `tsecr`; returns the round trip that this shows.
fn echo(f: &mut Flow, segs: u32, tsecr: u32, now_us: u32) -> u32 {
    f.ack(&wl_ack { has_ts: 1, tsecr, ..ack(segs * MSS, now_us, &[]) }).rtt_us
}

/// Else the copy would seem to be acknowledged sooner than any round trip takes, and so not to have been needed: one segment would be
/// retransmitted each time that the flow was silent for a round trip of a full queue.
#[test]
fn the_echo_of_the_first_copy_of_una_is_a_round_trip_and_shows_what_else_is_lost() {
    let (mut f, now_us) = all_lost();
    f.repaired(MSS, now_us);
    assert_eq!(echo(&mut f, 2, 20, now_us + EMPTY_US), EMPTY_US);
    assert_eq!(f.state().min_rtt_us, EMPTY_US);
    assert_eq!(f.next_repair(), Some((2 * MSS, MSS)), "the next one is known to be lost");
    assert_eq!(f.state().spurious_dupacks, 0, "the copy was needed");
}

/// Karn: an echo that could be of something else that left with the same timestamp is no sample.
#[test]
fn an_echo_that_may_be_of_new_data_times_no_copy() {
    let (mut f, now_us) = all_lost();
    f.repaired(MSS, now_us);
    assert_eq!(echo(&mut f, 13, 20, now_us + EMPTY_US), 0, "the last two left with it, too");
}

#[test]
fn an_echo_that_may_be_of_another_copy_times_none() {
    let (mut f, now_us) = all_lost();
    f.repaired(MSS, now_us);
    f.repaired(MSS, now_us + 1000);
    assert_eq!(echo(&mut f, 2, 20, now_us + EMPTY_US), 0, "una left twice with it");
    let (mut f, now_us) = all_lost();
    f.repaired(MSS, now_us);
    f.state_mut().snd_tsval = 30;
    f.repaired(MSS, now_us + EMPTY_US - 1000);
    assert_eq!(echo(&mut f, 2, 20, now_us + EMPTY_US), 0, "una left once more, 1 ms ago");
    let (mut f, now_us) = all_lost();
    f.repaired(MSS, now_us);
    f.repaired(2 * MSS, now_us + 1000);
    assert_eq!(echo(&mut f, 3, 20, now_us + EMPTY_US), 0, "the next one left with it, too");
}

/// The original was late, and the time since the copy left is no round trip.
#[test]
fn an_echo_of_the_original_times_no_copy() {
    let (mut f, now_us) = all_lost();
    f.repaired(MSS, now_us);
    assert_eq!(echo(&mut f, 2, 10, now_us + 1000), 0);
    // ... but new data that are acknowledged later are timed from when they left
    assert_eq!(echo(&mut f, 12, 20, now_us + 2000), now_us + 2000 - FULL_US - 1000);
}

/// One segment timed, then ten, the first of which three duplicate ACKs have retransmitted, with the timestamp of all. Returns the flow,
/// its window reduced, and when.
fn one_repaired(flags: u32) -> (Flow, u32) {
    let mut f = Flow::new(0, MSS, abi::WL_FLOW_PACED_JUDGED | abi::WL_FLOW_TIMESTAMPS | flags);
    f.state_mut().decision.cwnd_bytes = 20 * MSS;
    f.state_mut().snd_tsval = 10;
    f.send(MSS, 0);
    f.ack(&ack(MSS, EMPTY_US, &[]));
    (2..=11).for_each(|i| f.send(i * MSS, EMPTY_US));
    let now_us = 2 * EMPTY_US;
    let sack = [(2 * MSS, 5 * MSS)];
    for i in 0..3 {
        f.ack(&ack(MSS, now_us + i, if flags & abi::WL_FLOW_SACK == 0 { &[] } else { &sack }));
    }
    f.state_mut().decision.cwnd_bytes = 10 * MSS;
    assert_eq!(f.next_repair(), Some((MSS, MSS)));
    f.repaired(MSS, now_us);
    (f, now_us)
}

/// ... but where the box had no newer timestamp for the copy, echoes tell nothing. What is acknowledged in far less than a round trip
/// is the original, which was only late: the window of before is in force, and nothing behind it counts as lost.
#[test]
fn an_answer_in_far_less_than_a_round_trip_undoes_the_reduction() {
    for flags in [0, abi::WL_FLOW_SACK] {
        for (answer_us, is_undone) in
            [(200, true), (EMPTY_US / 2 - 1, true), (EMPTY_US / 2, false), (EMPTY_US, false)]
        {
            let (mut f, now_us) = one_repaired(flags);
            let s = f.ack(&wl_ack { has_ts: 1, tsecr: 10, ..ack(6 * MSS, now_us + answer_us, &[]) });
            let cwnd_segs = f.state().decision.cwnd_bytes / MSS;
            assert_eq!(s.events & abi::WL_EV_UNDO != 0, is_undone, "{flags} {answer_us}");
            assert_eq!(cwnd_segs, if is_undone { 20 } else { 10 }, "{flags} {answer_us}");
            if is_undone {
                assert_eq!((f.next_repair(), f.state().flags & abi::WL_FLOW_RECOVERY), (None, 0), "{flags}");
            }
        }
    }
}

/// ... but not a timeout: of what is behind the head it is not known whether it is only late as well, and the next one is backed off.
#[test]
fn an_answer_in_far_less_than_a_round_trip_undoes_no_timeout() {
    let (mut f, now_us) = all_lost();
    f.repaired(MSS, now_us);
    let mut at_us = now_us;
    while f.state().backoff == 0 {
        at_us += 10_000;
        f.on_silence(at_us);
    }
    f.repaired(MSS, at_us);
    let s = f.ack(&wl_ack { has_ts: 1, tsecr: 20, ..ack(2 * MSS, at_us + 1000, &[]) });
    assert_eq!(s.events & abi::WL_EV_UNDO, 0);
    assert_eq!(f.next_repair(), Some((2 * MSS, MSS)));
}
