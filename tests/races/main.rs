//! What two processors do at once to one socket's place in a group (bpf/group/group.h), in an order that the test chooses.

use std::{
    sync::{Mutex, PoisonError},
    thread,
};
use windlass_core::{GroupRule, abi};

#[link(name = "races", kind = "static")]
unsafe extern "C" {
    fn races_begin(rule: u32) -> i32;
    fn races_collect(now_us: u32) -> i32;
    fn races_move(now_us: u32) -> i32;
    fn races_meet();
    fn races_collect_slowly(now_us: u32) -> i32;
    fn races_quit_meanwhile() -> i32;
    fn races_resume_while_busy(now_us: u32, cut_bytes: u32) -> i32;
    fn races_join_while_busy(now_us: u32, first_inflight_bytes: u32) -> i32;
    fn races_undo_unheard(now_us: u32) -> i32;
    fn races_group_bytes() -> u32;
    fn races_window_bytes() -> u32;
    fn races_members(group: u32) -> u32;
    fn races_weight(group: u32) -> u32;
    fn races_members_of_tenant() -> u32;
}

/// The maps and the one place that the C side has are one test's at a time.
static ONE: Mutex<()> = Mutex::new(());

/// enum wl_talk_result of bpf/group/group.h
const JOINED: i32 = 1;
const CONTENDED: i32 = 3;

/// Another's ACK finds a socket silent for too long, at the moment at which it speaks again and its rule has another group:
/// the tenant that it has just made there, still empty, is not the collector's to drop.
#[test]
fn collecting_a_silent_member_does_not_touch_the_group_that_it_has_moved_to() {
    let rule = GroupRule::by_name("ccc").expect("it exists").id();
    let now_us = 2 * abi::WL_GROUP_IDLE_US;
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: two threads, as the functions expect them; what they share is locked as in the kernel.
    unsafe {
        assert_eq!(races_begin(rule), 0);
        assert_eq!((races_members(1), races_members_of_tenant()), (1, 1));
        let (has_left, moved) = thread::scope(|scope| {
            let collector = scope.spawn(|| races_collect(now_us));
            let mover = scope.spawn(|| races_move(now_us));
            races_meet();
            (collector.join().expect("it ends"), mover.join().expect("it ends"))
        });
        assert_eq!((has_left, moved), (0, JOINED), "it left by itself");
        assert_eq!((races_members(1), races_weight(1)), (0, 0));
        assert_eq!((races_members(2), races_weight(2)), (1, 3));
        assert_eq!(races_members_of_tenant(), 1, "the next of the rule's sockets shares its weight");
    }
}

/// While it is collected a socket is no member any more; its place, by which the collector finds the tenant to drop, is not
/// its own again before that is done.
#[test]
fn a_member_that_is_being_collected_keeps_its_place_until_that_is_done() {
    let rule = GroupRule::by_name("ccc").expect("it exists").id();
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: as above.
    unsafe {
        assert_eq!(races_begin(rule), 0);
        let (has_left, heard) = thread::scope(|scope| {
            let collector = scope.spawn(|| races_collect_slowly(2 * abi::WL_GROUP_IDLE_US));
            let mover = scope.spawn(|| races_quit_meanwhile());
            (collector.join().expect("it ends"), mover.join().expect("it ends"))
        });
        assert_eq!((has_left, heard), (1, -1));
        assert_eq!(races_members(1), 0);
    }
}

/// By some rules whatever a member's window shrinks by, but for pauses, is a loss of the whole group's.
#[test]
fn a_flow_that_resumes_while_its_group_is_busy_reports_no_loss() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for rule in GroupRule::all() {
        // SAFETY: as above; there is but this thread.
        unsafe {
            assert_eq!(races_begin(rule.id()), 0);
            let before = races_window_bytes();
            assert_eq!(races_resume_while_busy(1_000_000, before / 4), CONTENDED);
            assert_eq!(races_window_bytes(), before, "{rule:?}");
        }
    }
}

/// New flows bring no window to a group that is being founded, also if what they have sent meanwhile is in flight
/// when they report; those bring theirs that were at work before.
#[test]
fn a_flow_that_is_new_when_its_group_is_busy_brings_no_window() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for rule in ["ccc", "multcp", "etcp"] {
        let rule = GroupRule::by_name(rule).expect("it exists");
        for (first_inflight_bytes, is_new) in [(0, true), (4000, false)] {
            // SAFETY: as above; there is but this thread.
            unsafe {
                assert_eq!(races_begin(rule.id()), 0);
                let before = races_group_bytes();
                assert_eq!(races_join_while_busy(2, first_inflight_bytes), JOINED);
                let brought = races_group_bytes() - before;
                assert_eq!((brought, races_members(1)), (if is_new { 0 } else { 10_000 }, 2), "{rule:?}");
            }
        }
    }
}

/// Of two reductions that are undone together one was reported to the group. It has nothing to give back for certain,
/// and that the socket's own window is back is no growth.
#[test]
fn undoing_what_was_not_reported_to_a_busy_group_grows_nothing() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for rule in GroupRule::all() {
        // SAFETY: as above; there is but this thread.
        unsafe {
            assert_eq!(races_begin(rule.id()), 0);
            assert_eq!(races_undo_unheard(1_000_000), 0, "{rule:?}");
        }
    }
}
