//! TCP-CCC where members leave, join, pause and time out: what is a loss of the group's, and which member leads it.

use crate::*;

/// The last report of a member that has left is no report of those that stay.
#[test]
fn ccc_does_not_collapse_for_a_timeout_of_one_that_has_left() {
    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 3, 20.0);
    g.update(all[2], &timeout(300_000)).unwrap();
    g.leave(all[2]).unwrap();
    g.update(all[1], &timeout(400_000)).unwrap();
    assert_segs!(sum_segs(&g), 60.0);
}

/// What a timeout leaves of a member's window is no loss of its own: the share that it is given next is where it starts from.
#[test]
fn ccc_takes_what_a_timeout_has_left_for_no_reduction() {
    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 2, 20.0);
    g.update(all[0], &timeout(300_000)).unwrap();
    let reply = g.update(all[0], &avoidance(400_000, 2.0)).unwrap();
    assert_segs!(sum_segs(&g), 40.0);
    assert_segs!(segs(reply), 20.0);
}

/// No window moves while the leader is in recovery, even if it does not need its own.
#[test]
fn ccc_grows_nothing_while_its_leader_is_in_recovery() {
    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 2, 20.0);
    g.update(all[0], &wl_group_report { is_cwnd_limited: 0, ..recovery(1_000_000, 20.0) }).unwrap();
    g.update(all[1], &avoidance(1_010_000, 21.0)).unwrap();
    assert_segs!(sum_segs(&g), 40.0);
    g.update(all[0], &avoidance(1_100_000, 10.0)).unwrap();
    assert_segs!(sum_segs(&g), 20.0);
}

/// A joiner whose share is still being let out could grow nothing as a leader: the lead stays where it is.
#[test]
fn ccc_is_not_led_by_a_joiner_before_its_share_is_out() {
    let mut g = Group::new(&wl_group_config { flags: 0, ..config("ccc") }).unwrap();
    let (a, _) = g.register(None, &avoidance(0, 40.0)).unwrap();
    g.update(a, &wl_group_report { acks: 20, ..avoidance(1, 40.0) }).unwrap();
    let leader = g.state().coco_id;
    let (b, reply) = g.register(None, &avoidance(2, 10.0)).unwrap();
    assert!(g.is_joining(b));
    g.update(a, &wl_group_report { is_cwnd_limited: 0, ..avoidance(3, 20.0) }).unwrap();
    g.update(b, &avoidance(4, segs(reply))).unwrap();
    assert!(g.is_joining(b));
    assert_eq!(g.state().coco_id, leader);
}

/// A leader whose window shrinks because it did not need it, as after a pause, has lost nothing.
#[test]
fn ccc_takes_no_unused_window_for_a_loss() {
    for (is_cwnd_limited, sum) in [(0, 40.0), (1, 20.0)] {
        let mut g = group("ccc");
        let all = in_avoidance(&mut g, 2, 20.0);
        g.update(all[0], &wl_group_report { is_cwnd_limited, ..avoidance(1_000_000, 10.0) }).unwrap();
        assert_segs!(sum_segs(&g), sum);
    }
}

/// A timeout within a round trip of the reduction is of what was lost then.
#[test]
fn ccc_does_not_collapse_for_a_loss_that_it_has_answered() {
    for (after_us, sum) in [(40_000, 20.0), (140_000, 1.0)] {
        let mut g = group("ccc");
        let all = in_avoidance(&mut g, 2, 20.0);
        g.update(all[0], &recovery(1_000_000, 20.0)).unwrap();
        g.update(all[0], &avoidance(1_100_000, 10.0)).unwrap();
        for m in &all {
            g.update(*m, &timeout(1_100_000 + after_us)).unwrap();
        }
        assert_segs!(sum_segs(&g), sum);
    }
}

/// A recovery that ends below the threshold, as a spurious one may, reports no reduction: the leader, in recovery
/// too, keeps the lead, and nothing grows meanwhile.
#[test]
fn ccc_keeps_its_leader_when_another_leaves_recovery_in_slow_start() {
    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 3, 20.0);
    g.update(all[0], &recovery(1000, 20.0)).unwrap();
    g.update(all[1], &recovery(1001, 20.0)).unwrap();
    g.update(all[1], &slow_start(2000, 10.0)).unwrap();
    g.update(all[2], &avoidance(3000, 21.0)).unwrap();
    assert_segs!(sum_segs(&g), 60.0);
}
