//! The states of a flow and their transitions (`core/box/state.h`).

use super::*;

impl Bench {
    fn state(&self) -> u32 {
        self.flow.state().state.into()
    }

    /// The rule changes, and the next ACK has the flow look it up.
    fn rule(&mut self, mode: u32, ack: u32) {
        (self.notes.mode, self.notes.is_rule_new) = (Some(mode), true);
        self.receiver(ack, 500, &[]);
    }
}

/// Three segments in flight, of which the sender has retransmitted the first three times, and no ACK has come.
fn without_progress() -> Bench {
    let mut b = Bench::new();
    for i in 0..3 {
        b.sender(i * MSS, MSS);
    }
    for wait_ms in [1000, 1000, 20_000] {
        b.now_ns += wait_ms * MS;
        b.sender(0, MSS);
    }
    b
}

#[test]
fn state_of_a_flow_follows_its_rule() {
    let mut b = Bench::new();
    assert_eq!(b.state(), abi::WL_FLOW_ACTIVE);
    for i in 0..3 {
        b.sender(i * MSS, MSS);
    }
    b.rule(abi::WL_MODE_WATCH, BASE + MSS);
    assert_eq!(b.state(), abi::WL_FLOW_HANDING_BACK);
    // which ends when the server's own window is in force, or some time after the change
    b.now_ns += u64::from(abi::WL_HAND_BACK_US) * 1000;
    b.receiver(BASE + 2 * MSS, 500, &[]);
    assert_eq!(b.state(), abi::WL_FLOW_SETTLING);
    b.rule(abi::WL_MODE_OFF, BASE + 2 * MSS);
    assert_eq!(b.state(), abi::WL_FLOW_SETTLING);
    b.receiver(BASE + 3 * MSS, 500, &[]);
    assert_eq!(b.state(), abi::WL_FLOW_OFF);
    b.rule(abi::WL_MODE_WATCH, BASE + 3 * MSS);
    assert_eq!(b.state(), abi::WL_FLOW_WATCHED);
    b.sender(3 * MSS, MSS);
    b.rule(abi::WL_MODE_ENFORCE, BASE + 3 * MSS);
    assert_eq!(b.state(), abi::WL_FLOW_BYPASS);
    b.receiver(BASE + 4 * MSS, 500, &[]);
    assert_eq!(b.state(), abi::WL_FLOW_ACTIVE);
}

#[test]
fn state_without_progress_stores_nothing_until_una_moves() {
    let mut b = without_progress();
    assert_eq!(b.state(), abi::WL_FLOW_UNSTORED);
    assert_eq!(b.count(abi::WL_C_BYPASS_NO_PROGRESS), 1);
    let before = b.count(abi::WL_C_PASS_NOT_STORED);
    b.sender(3 * MSS, MSS);
    assert_eq!(b.count(abi::WL_C_PASS_NOT_STORED), before + 1);
    b.receiver(BASE, 500, &[(BASE + MSS, BASE + 2 * MSS)]);
    assert_eq!(b.state(), abi::WL_FLOW_UNSTORED, "SACK blocks are no progress");
    b.receiver(BASE + MSS, 500, &[]);
    assert_eq!(b.state(), abi::WL_FLOW_BYPASS);
    b.sender(4 * MSS, MSS);
    assert_eq!(b.count(abi::WL_C_PASS_NOT_STORED), before + 1);
    b.receiver(BASE + 4 * MSS, 500, &[]);
    assert_eq!(b.state(), abi::WL_FLOW_ACTIVE, "what is in flight is stored");
}

#[test]
fn state_of_a_flow_with_nothing_to_show_step_by_step_settles_at_once() {
    let mut b = Bench::new();
    b.sender(0, MSS);
    b.receiver(BASE + MSS, 500, &[]);
    // all in flight is acknowledged: nothing is left that the path could lose
    b.rule(abi::WL_MODE_OFF, BASE + MSS);
    assert_eq!(b.state(), abi::WL_FLOW_OFF);
    assert_eq!(b.count(abi::WL_C_BYPASS_ENDED), 1);
}

#[test]
fn state_transitions_that_the_table_does_not_have_are_counted() {
    let mut b = Bench::new();
    b.notes.expects_illegal = true;
    b.flow.state_mut().state = abi::WL_FLOW_FREE as u8;
    b.rule(abi::WL_MODE_ENFORCE, BASE);
    assert_eq!(b.count(abi::WL_C_STATE_ILLEGAL), 1);
}
