//! EFCM, E-TCP, FSE and MulTCP: what their members' growth, losses and coming and going make of the aggregate.

use crate::*;

fn threshold_segs(g: &Group) -> f64 {
    g.state().sum_ssthresh_q16 as f64 / 65536.0 / f64::from(MSS)
}

/// Of several flows of a tenant, which share its weight, each that comes or goes brings or takes an average one.
#[test]
fn efcms_tenants_grow_by_an_average_flow() {
    let mut g = group("efcm");
    let (small, large) = (g.add_tenant(1), g.add_tenant(4));
    g.register(Some(small), &avoidance(0, 20.0)).unwrap();
    g.register(Some(large), &slow_start(0, 10.0)).unwrap();
    assert_segs!(sum_segs(&g), 100.0);
    let (third, _) = g.register(Some(large), &slow_start(0, 10.0)).unwrap();
    assert_segs!(sum_segs(&g), 150.0);
    g.leave(third).unwrap();
    assert_segs!(sum_segs(&g), 100.0);
}

/// However heavy a joiner is, the group's window is within what is counted.
#[test]
fn efcms_aggregate_has_a_bound() {
    let mut g = group("efcm");
    g.register(None, &avoidance(0, 100_000.0)).unwrap();
    g.register(None, &wl_group_report { weight: 65_535, ..slow_start(0, 10.0) }).unwrap();
    assert_eq!(g.state().sum_cwnd_q16, 1 << 56);
}

/// A guest's flow that leaves while the group is being founded takes nothing of the threshold, of which it has brought its part by
/// itself.
#[test]
fn a_member_that_leaves_an_ensemble_that_is_being_founded_leaves_the_threshold() {
    let mut g = group("efcm");
    g.register(None, &slow_start(0, 10.0)).unwrap();
    g.prove(86 * MSS);
    let (second, _) = g.register(None, &slow_start(0, 10.0)).unwrap();
    g.prove(20 * MSS);
    g.leave(second).unwrap();
    assert_segs!(threshold_segs(&g), 106.0);
}

/// A window that shrinks because its flow has nothing to send is no loss, nor is one that shrinks while losses are repaired, until
/// they are. Slow start does not go on from what a loss leaves.
#[test]
fn only_the_end_of_a_recovery_reduces_an_ensemble() {
    for (rule, left) in [("efcm", 30.0), ("fse", 30.0), ("fse-conservative", 20.0)] {
        let mut g = group(rule);
        let all = in_avoidance(&mut g, 1, 20.0);
        let (other, _) = g.register(None, &slow_start(0, 20.0)).unwrap();
        g.update(other, &avoidance(0, 20.0)).unwrap();
        assert_segs!(sum_segs(&g), 40.0);
        g.update(all[0], &wl_group_report { is_cwnd_limited: 0, ..avoidance(1, 15.0) }).unwrap();
        assert_segs!(sum_segs(&g), 40.0);
        g.update(all[0], &recovery(RTT_US, 15.0)).unwrap();
        assert_segs!(sum_segs(&g), 40.0);
        g.update(all[0], &avoidance(RTT_US + 1, 10.0)).unwrap();
        assert_segs!(sum_segs(&g), left);
        if rule == "efcm" {
            assert_segs!(threshold_segs(&g), left);
        }
    }
    let mut g = group("etcp");
    let all = in_avoidance(&mut g, 2, 20.0);
    g.update(all[0], &recovery(RTT_US, 20.0)).unwrap();
    assert_segs!(sum_segs(&g), 20.0);
    assert_segs!(threshold_segs(&g), 20.0);
}

/// In slow start a window may double in a round, else grow by a half, however often and however much its flow claims.
#[test]
fn an_ensemble_grows_no_faster_than_a_flow_may() {
    for rule in ["efcm", "etcp"] {
        let mut g = group(rule);
        let (a, _) = g.register(None, &slow_start(0, 10.0)).unwrap();
        g.update(a, &slow_start(1, 20.0)).unwrap();
        assert_segs!(sum_segs(&g), 20.0);
        let mut g = group(rule);
        let all = in_avoidance(&mut g, 1, 20.0);
        g.update(all[0], &avoidance(RTT_US, 20.0)).unwrap();
        for i in 1..10 {
            g.update(all[0], &avoidance(RTT_US + i, 100.0)).unwrap();
        }
        assert_segs!(sum_segs(&g), 30.0);
    }
    let mut g = group("fse");
    let all = in_avoidance(&mut g, 1, 20.0);
    g.update(all[0], &avoidance(RTT_US, 100.0)).unwrap();
    assert_segs!(sum_segs(&g), 30.0);
}

/// A second timeout of one event, with another report in between, is answered.
#[test]
fn etcp_answers_timeouts_of_one_event_once() {
    let mut g = group("etcp");
    let all = in_avoidance(&mut g, 4, 10.0);
    g.update(all[2], &timeout(10 * RTT_US)).unwrap();
    let share = ask(&mut g, all[0]);
    g.update(all[0], &slow_start(10 * RTT_US + 1, share + 1.0)).unwrap();
    let before = sum_segs(&g);
    assert!(before > 1.0);
    g.update(all[1], &timeout(10 * RTT_US + 2)).unwrap();
    assert_segs!(sum_segs(&g), before);
    assert_segs!(threshold_segs(&g), 20.0);
}

/// A timeout takes all of a flow's window but a segment, where a loss takes half.
#[test]
fn fse_takes_what_a_timeout_takes() {
    let mut g = group("fse");
    let all = in_avoidance(&mut g, 1, 20.0);
    g.update(all[0], &timeout(RTT_US)).unwrap();
    assert_segs!(sum_segs(&g), 1.0);
}

/// Two round trips of the flow that has reduced the aggregate, not of the average one.
#[test]
fn fse_conservative_freezes_for_two_round_trips_of_the_flow_that_lost() {
    let mut g = group("fse-conservative");
    let all = in_avoidance(&mut g, 2, 10.0);
    let window = ask(&mut g, all[0]);
    let far = |report| wl_group_report { srtt_us: 5 * RTT_US, ..report };
    g.update(all[0], &far(recovery(1000, window))).unwrap();
    g.update(all[0], &far(avoidance(2000, window / 2.0))).unwrap();
    let halved = sum_segs(&g);
    for (rounds, growth) in [(9, 0.0), (11, 1.0)] {
        let cwnd = ask(&mut g, all[1]);
        g.update(all[1], &avoidance(2000 + rounds * RTT_US, cwnd + 1.0)).unwrap();
        assert_segs!(sum_segs(&g), halved + growth);
    }
}

/// Flows that want little were given their parts when they were the only ones: a flow that comes with much weight
/// gets what they leave.
#[test]
fn fse_gives_a_heavy_joiner_what_is_left() {
    let mut g = group("fse");
    let little = |segs| wl_group_report { desired_bytes: 10 * MSS, ..avoidance(0, segs) };
    let all = [30.0; 2].map(|window| g.register(None, &little(window)).unwrap().0);
    for member in all {
        let held = ask(&mut g, member);
        assert_segs!(segs(g.update(member, &little(held)).unwrap()), 10.0);
    }
    let (_, reply) = g.register(None, &wl_group_report { weight: 6, ..slow_start(0, 10.0) }).unwrap();
    assert_segs!(segs(reply), 70.0 - 20.0);
}

/// What flows want may be more than is left after losses: then nothing is left for others.
#[test]
fn fse_has_nothing_left_where_flows_want_more_than_there_is() {
    let mut g = group("fse");
    let some = |now_us, segs| wl_group_report { desired_bytes: 10 * MSS, ..avoidance(now_us, segs) };
    let all = [20.0; 2].map(|window| g.register(None, &some(0, window)).unwrap().0);
    let (third, _) = g.register(None, &slow_start(0, 1.0)).unwrap();
    for member in all {
        let held = ask(&mut g, member);
        g.update(member, &some(1, held)).unwrap();
    }
    for round in 1..60 {
        let held = ask(&mut g, all[0]);
        let said = wl_group_report { desired_bytes: 10 * MSS, ..recovery(round * 2 * RTT_US, held) };
        g.update(all[0], &said).unwrap();
        g.update(all[0], &some(round * 2 * RTT_US + 1, held / 2.0)).unwrap();
    }
    assert!(sum_segs(&g) < 10.0, "{}", sum_segs(&g));
    assert_segs!(ask(&mut g, third), 2.0);
}

/// However many flows a group is to be like, it doubles in a round at most, and does not overflow.
#[test]
fn multcp_is_like_no_more_flows_than_can_be_counted() {
    for aggressiveness_q8 in [65_535 << 8, u32::MAX] {
        let mut g = Group::new(&wl_group_config { aggressiveness_q8, ..config("multcp") }).unwrap();
        let with = |now_us, cwnd_bytes| wl_group_report { cwnd_bytes, ..avoidance(now_us, 1.0) };
        let before = (1 << 25) + 2;
        let (only, _) = g.register(None, &with(0, before)).unwrap();
        g.update(only, &with(RTT_US, before + before / 2)).unwrap();
        assert_eq!(g.state().sum_cwnd_q16 >> 16, 2 * u64::from(before));
    }
}
