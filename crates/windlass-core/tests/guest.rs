//! A guest's flows and their host: how long an answer counts, and what becomes of reports for which there is no room.

use windlass_core::{
    Group, GroupRule, MemberId,
    abi::{
        self, wl_group_config, wl_group_report, wl_guest_flow, wl_guest_report, wln_guest_counts,
        wln_guest_rto_us,
    },
};

fn counts(now_us: u32, at_us: u32, rto_us: u32) -> bool {
    // SAFETY: plain calls without pointers.
    unsafe { wln_guest_counts(now_us, at_us, rto_us) != 0 }
}

fn rto_us(srtt_us: u32, rttvar_us: u32) -> u32 {
    // SAFETY: as above.
    unsafe { wln_guest_rto_us(srtt_us, rttvar_us) }
}

/// The kernel keeps four mean deviations, 200 ms at least, in its rttvar.
#[test]
fn a_retransmission_timeout_is_that_of_the_kernel() {
    assert_eq!(rto_us(40_000, 200_000), 240_000);
    assert_eq!(rto_us(0, 250_000), abi::WL_GUEST_FIRST_RTO_US);
    assert_eq!(rto_us(u32::MAX, 1), u32::MAX);
}

/// To the microsecond, and across the wrap of the clock.
#[test]
fn an_answer_counts_for_one_retransmission_timeout_and_no_longer() {
    let rto_us = rto_us(40_000, 200_000);
    for at_us in [0, 1_000_000, u32::MAX - 100_000, u32::MAX] {
        // of a flow that rested for forty minutes, too
        let ages =
            [(0, true), (rto_us, true), (rto_us + 1, false), (10 * rto_us, false), (2_400_000_000, false)];
        for (age_us, expected) in ages {
            assert_eq!(counts(at_us.wrapping_add(age_us), at_us, rto_us), expected, "{age_us} after {at_us}");
        }
        // another processor's clock may be a little behind
        assert!(counts(at_us.wrapping_sub(100), at_us, rto_us));
    }
}

/// A flow's side of the dialogue, and the group that it has with its host.
struct Dialogue {
    flow: wl_guest_flow,
    group: Group,
    member: MemberId,
}

const MSS: u32 = 1000;
const SRTT_US: u32 = 40_000;
const RTO_US: u32 = 240_000;

impl Dialogue {
    /// Registered with a hundred segments.
    fn begin() -> Dialogue {
        let config = wl_group_config {
            rule: GroupRule::by_name("ccc").unwrap().id(),
            flags: abi::WL_GROUP_NO_ACK_CLOCK,
            ..wl_group_config::default()
        };
        let mut group = Group::new(&config).unwrap();
        let mut flow = wl_guest_flow { id: 1, ..wl_guest_flow::default() };
        let first =
            report(&mut flow, abi::WL_MEMBER_AVOIDANCE, abi::WL_GUEST_REGISTER, 100, 1_000_000, false, true);
        let (member, _) = group.register(None, &first.unwrap().said).unwrap();
        (flow.taken_seq, flow.is_coupled) = (flow.seq, 1);
        Dialogue { flow, group, member }
    }

    /// Reports something if there is room for it; the answer's window, in segments.
    fn tell(
        &mut self,
        state: u32,
        cwnd_segs: u32,
        at_us: u32,
        is_timeout: bool,
        has_room: bool,
    ) -> Option<u32> {
        let said =
            report(&mut self.flow, state, abi::WL_GUEST_UPDATE, cwnd_segs, at_us, is_timeout, has_room)?;
        let reply = self.group.update(self.member, &said.said).unwrap();
        Some(reply.cwnd_bytes / MSS)
    }

    fn is_due(&self, state: u32, at_us: u32) -> bool {
        // SAFETY: a valid pointer for the call.
        unsafe { abi::wln_guest_is_due(&self.flow, state, at_us, SRTT_US, RTO_US) != 0 }
    }

    fn is_answered(&self, seq: u32) -> bool {
        // SAFETY: a valid pointer for the call.
        unsafe { abi::wln_guest_is_answered(&self.flow, seq) != 0 }
    }
}

/// As wl_guest_report() in bpf/native/guest.h.
fn report(
    flow: &mut wl_guest_flow,
    state: u32,
    op: u32,
    cwnd_segs: u32,
    at_us: u32,
    is_timeout: bool,
    has_room: bool,
) -> Option<wl_guest_report> {
    // SAFETY: valid pointers for each call.
    unsafe {
        let state = abi::wln_guest_begin_report(flow, state, is_timeout.into());
        if !has_room {
            abi::wln_guest_drop_report(flow);
            return None;
        }
        let said = wl_group_report {
            now_us: at_us,
            mss_bytes: MSS,
            cwnd_bytes: cwnd_segs * MSS,
            ssthresh_bytes: 50 * MSS,
            srtt_us: SRTT_US,
            is_cwnd_limited: 1,
            ..wl_group_report::default()
        };
        let mut all = wl_guest_report { said, ..wl_guest_report::default() };
        abi::wln_guest_make_report(flow, state, op, &mut all);
        Some(all)
    }
}

/// Or the window from before the timeout would be in force again, and the group would never learn of it.
#[test]
fn a_timeout_that_there_was_no_room_to_report_goes_with_the_next_report() {
    let mut d = Dialogue::begin();
    assert_eq!(d.tell(abi::WL_MEMBER_AVOIDANCE, 100, 2_000_000, false, true), Some(100));
    let before = d.flow.seq;
    assert!(d.is_answered(before), "still on its way");
    assert_eq!(d.tell(abi::WL_MEMBER_SLOW_START, 1, 3_000_000, true, false), None);
    assert!(!d.is_answered(before), "an answer to what was said before the timeout");
    // at the next ACK, whatever became of it since
    assert!(d.is_due(abi::WL_MEMBER_SLOW_START, 3_010_000));
    let share = d.tell(abi::WL_MEMBER_SLOW_START, 2, 3_010_000, false, true);
    assert_eq!(share, Some(2), "all members have timed out");
    assert_eq!(d.group.state().sum_ssthresh_q16 >> abi::WL_GROUP_Q, u64::from(50 * MSS));
    assert!(d.is_answered(d.flow.seq));
    // once
    let more = d.tell(abi::WL_MEMBER_SLOW_START, 3, 3_050_000, false, true);
    assert_eq!((more, d.group.state().timed_out), (Some(3), 0));
}

/// In a recovery that is over before there is room again nothing was reported, and old answers are to windows of before.
#[test]
fn no_answer_from_before_a_recovery_counts_though_it_could_not_be_reported() {
    let mut d = Dialogue::begin();
    let before = d.flow.seq;
    assert_eq!(d.tell(abi::WL_MEMBER_RECOVERY, 50, 3_000_000, false, false), None);
    assert!(d.is_due(abi::WL_MEMBER_RECOVERY, 3_001_000), "as long as it lasts");
    assert!(!d.is_answered(before));
    assert_eq!(d.tell(abi::WL_MEMBER_AVOIDANCE, 50, 3_050_000, false, true), Some(50));
    assert!(d.is_answered(d.flow.seq));
}

/// A flow on its own makes no stale reports when it can report again.
#[test]
fn a_timeout_is_not_reported_by_a_flow_that_has_fallen_back() {
    for is_before in [false, true] {
        let mut d = Dialogue::begin();
        if is_before {
            d.tell(abi::WL_MEMBER_SLOW_START, 1, 3_000_000, true, false);
        }
        // SAFETY: a valid pointer for the call.
        unsafe { abi::wln_guest_fall_back(&mut d.flow) };
        if !is_before {
            d.tell(abi::WL_MEMBER_SLOW_START, 1, 3_000_000, true, false);
        }
        let said =
            report(&mut d.flow, abi::WL_MEMBER_AVOIDANCE, abi::WL_GUEST_UPDATE, 80, 60_000_000, false, true);
        assert_eq!(said.unwrap().said.is_timeout, 0);
    }
}
