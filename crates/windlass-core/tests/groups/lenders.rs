//! LISA: which member lends to a joiner, how much, and which pays.

use crate::*;

/// A group whose first member is in slow start with `segs` at 0.
fn lender(segs: f64) -> (Group, MemberId) {
    let mut g = group("lisa");
    let (lender, _) = g.register(None, &slow_start(0, 10.0)).unwrap();
    g.update(lender, &slow_start(0, segs)).unwrap();
    (g, lender)
}

fn join(g: &mut Group, now_us: u32) -> (MemberId, f64) {
    let (member, reply) = g.register(None, &slow_start(now_us, 10.0)).unwrap();
    (member, segs(reply))
}

fn says(g: &mut Group, member: MemberId, report: &wl_group_report) -> f64 {
    segs(g.update(member, report).unwrap())
}

/// What is lent already is of no other joiner, and is paid together.
#[test]
fn a_lender_lends_what_it_has_once() {
    let (mut g, old) = lender(40.0);
    for lent in [10.0, 10.0, 10.0, 5.0, 3.0] {
        assert_segs!(join(&mut g, 1).1, lent);
    }
    assert_segs!(says(&mut g, old, &slow_start(2, 40.0)), 5.0);
}

/// Only a member that has lent pays.
#[test]
fn no_lender_pays_for_another() {
    let (mut g, old) = lender(40.0);
    let (other, _) = join(&mut g, 1);
    says(&mut g, old, &slow_start(2, 40.0));
    join(&mut g, 3);
    assert_segs!(says(&mut g, other, &slow_start(4, 12.0)), 12.0);
    assert_segs!(says(&mut g, old, &slow_start(5, 30.0)), 20.0);
}

/// A loss has cut the lender's window: that is payment enough, also if it begins slowly again.
#[test]
fn a_loss_settles_what_was_lent() {
    let (mut g, old) = lender(40.0);
    join(&mut g, 1);
    g.update(old, &wl_group_report { inflight_bytes: 40 * MSS, ..recovery(2, 20.0) }).unwrap();
    for (now_us, window) in [(3, 20.0), (4, 21.0)] {
        let said = wl_group_report { acks: 1, ..slow_start(now_us, window) };
        assert_segs!(says(&mut g, old, &said), window);
    }
}

/// While something is owed the lender stays the same, however fast another becomes, unless it has been silent for two
/// rounds. The one that lends then owes nothing yet.
#[test]
fn a_silent_lender_is_replaced_and_a_slower_one_is_not_while_it_owes() {
    let (mut g, old) = lender(40.0);
    let (other, _) = join(&mut g, 1);
    says(&mut g, other, &slow_start(2, 50.0));
    assert_segs!(says(&mut g, old, &slow_start(3, 40.0)), 30.0);
    let (mut g, old) = lender(40.0);
    let (other, _) = join(&mut g, 1);
    for now_us in [3 * RTT_US, 3 * RTT_US + 1] {
        assert_segs!(says(&mut g, other, &slow_start(now_us, 24.0)), 24.0);
    }
    join(&mut g, 3 * RTT_US + 2);
    assert_segs!(says(&mut g, other, &slow_start(3 * RTT_US + 3, 24.0)), 14.0);
    assert_segs!(says(&mut g, old, &slow_start(3 * RTT_US + 4, 40.0)), 40.0);
}

/// The fastest lends: the member that has the most for each round trip, and not in all.
#[test]
fn the_fastest_lends_and_not_the_largest() {
    let mut g = group("lisa");
    let far = |report| wl_group_report { srtt_us: 4 * RTT_US, ..report };
    let (large, _) = g.register(None, &far(slow_start(0, 10.0))).unwrap();
    says(&mut g, large, &far(slow_start(0, 60.0)));
    let at_work = wl_group_report { inflight_bytes: 20 * MSS, ..slow_start(1, 30.0) };
    let (fast, _) = g.register(None, &at_work).unwrap();
    says(&mut g, fast, &slow_start(2, 30.0));
    join(&mut g, 3);
    assert_segs!(says(&mut g, large, &far(slow_start(4, 60.0))), 60.0);
    assert_segs!(says(&mut g, fast, &slow_start(5, 30.0)), 20.0);
}

/// While ACKs are ignored the window may fall; and after a loss no more are.
#[test]
fn ignored_acks_hold_back_growth_alone_and_end_with_a_loss() {
    let ack = |report| wl_group_report { acks: 1, inflight_bytes: 40 * MSS, ..report };
    let paid = || {
        let (mut g, old) = lender(40.0);
        join(&mut g, 1);
        assert_segs!(says(&mut g, old, &ack(slow_start(2, 40.0))), 30.0);
        assert_segs!(says(&mut g, old, &ack(slow_start(3, 31.0))), 30.0);
        (g, old)
    };
    let (mut g, old) = paid();
    assert_segs!(says(&mut g, old, &ack(slow_start(4, 25.0))), 25.0);
    let (mut g, old) = paid();
    g.update(old, &recovery(4, 30.0)).unwrap();
    assert_segs!(says(&mut g, old, &ack(avoidance(5, 31.0))), 31.0);
}

/// A member that has left lends nothing; when another leaves the lender is as before.
#[test]
fn a_lender_that_has_left_lends_nothing() {
    let (mut g, old) = lender(8.0);
    let (_, lent) = join(&mut g, 1);
    assert_segs!(lent, 4.0);
    g.leave(old).unwrap();
    assert_segs!(join(&mut g, 2).1, 10.0);
    let (mut g, old) = lender(40.0);
    let (other, _) = join(&mut g, 1);
    g.leave(other).unwrap();
    assert_segs!(says(&mut g, old, &slow_start(2, 40.0)), 30.0);
}
