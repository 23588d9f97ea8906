//! Members and tenants, bad input, lies, joining, and what a group costs.

use crate::*;
use windlass_core::{GroupError, abi::wl_decision};

// ------------------------------------------------------------- weights, tenants

/// A tenant that opens 500 flows gets what a tenant with one flow gets.
#[test]
fn a_tenants_weight_is_divided_among_its_flows() {
    let mut g = group("ccc");
    let (one, many) = (g.add_tenant(1), g.add_tenant(1));
    let (a, _) = g.register(Some(one), &slow_start(0, 2400.0)).unwrap();
    let flows: Vec<_> = (0..500).map(|_| g.register(Some(many), &slow_start(0, 10.0)).unwrap().0).collect();
    let of_many: f64 = flows.iter().map(|&m| ask(&mut g, m)).sum();
    assert_segs!(ask(&mut g, a), 1200.0);
    assert!((of_many - 1200.0).abs() < 0.1, "{of_many}");
    g.set_tenant_weight(many, 3).unwrap();
    let of_many: f64 = flows.iter().map(|&m| ask(&mut g, m)).sum();
    assert_segs!(ask(&mut g, a), 600.0);
    assert!((of_many - 1800.0).abs() < 0.1, "{of_many}");
    for m in flows {
        g.leave(m).unwrap();
    }
    assert_segs!(ask(&mut g, a), 2400.0);
}

/// A tenant's 500 flows have together what one flow would have had, as long as that is two segments each.
#[test]
fn a_tenant_that_opens_500_flows_gets_no_more_than_its_share_but_for_the_smallest_windows() {
    for (sum, of_many) in [(4000.0, 2000.0), (400.0, 2.0 * 500.0)] {
        let mut g = group("ccc");
        let (one, many) = (g.add_tenant(1), g.add_tenant(1));
        let (a, _) = g.register(Some(one), &slow_start(0, sum)).unwrap();
        let flows: Vec<_> =
            (0..500).map(|_| g.register(Some(many), &slow_start(0, 10.0)).unwrap().0).collect();
        assert_segs!(sum_segs(&g), sum);
        assert_segs!(ask(&mut g, a), sum / 2.0);
        let all: f64 = flows.iter().map(|f| ask(&mut g, *f)).sum();
        assert!((all - of_many).abs() < 1.0, "{all} of {of_many}");
        flows.into_iter().for_each(|f| g.leave(f).unwrap());
        assert_segs!(ask(&mut g, a), sum);
    }
}

#[test]
fn priorities_may_change_while_running() {
    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 2, 20.0);
    let reply = g.update(all[1], &wl_group_report { weight: 3, ..avoidance(1, 20.0) }).unwrap();
    assert_segs!(segs(reply), 30.0);
    assert_segs!(ask(&mut g, all[0]), 10.0);
    // 0 in a later report changes nothing
    assert_segs!(segs(g.update(all[1], &avoidance(2, 30.0)).unwrap()), 30.0);
}

#[test]
fn weight_zero_is_the_smallest_and_too_much_is_the_largest() {
    let mut g = group("ccc");
    let (a, _) = g.register(None, &wl_group_report { weight: 0, ..slow_start(0, 40.0) }).unwrap();
    let (b, _) = g.register(None, &wl_group_report { weight: 1, ..slow_start(0, 40.0) }).unwrap();
    assert_eq!(g.ask(a).unwrap().cwnd_bytes, g.ask(b).unwrap().cwnd_bytes);
    let (c, _) = g.register(None, &wl_group_report { weight: u32::MAX, ..slow_start(0, 40.0) }).unwrap();
    assert_eq!(g.member(c).unwrap().weight, abi::WL_GROUP_WEIGHT_MAX);
    let t = g.add_tenant(0);
    assert!(g.register(Some(t), &slow_start(0, 10.0)).is_ok());
}

// --------------------------------------------------------------------- bad input

#[test]
fn unknown_rules_and_reports_that_make_no_sense_are_refused() {
    for rule in [0, 99] {
        let bad = wl_group_config { rule, ..wl_group_config::default() };
        assert_eq!(Group::new(&bad).unwrap_err(), GroupError::NoRule);
    }
    let mut g = group("ccc");
    let good = slow_start(0, 10.0);
    for bad in [
        wl_group_report { mss_bytes: 0, ..good },
        wl_group_report { mss_bytes: 65536, ..good },
        wl_group_report { cwnd_bytes: 0, ..good },
        wl_group_report { cwnd_bytes: abi::WL_CWND_MAX_BYTES + 1, ..good },
        wl_group_report { state: 3, ..good },
        wl_group_report { is_timeout: 1, ..avoidance(0, 10.0) },
    ] {
        assert_eq!(g.register(None, &bad).unwrap_err(), GroupError::Nonsense);
        assert!(g.is_empty());
    }
    let (m, _) = g.register(None, &good).unwrap();
    assert_eq!(g.update(m, &wl_group_report { mss_bytes: 0, ..good }), Err(GroupError::Nonsense));
    g.leave(m).unwrap();
    assert_eq!(g.update(m, &good), Err(GroupError::NotMember));
    assert_eq!(g.leave(m), Err(GroupError::NotMember));
    let stranger = group("ccc").add_tenant(1);
    assert_eq!(g.register(Some(stranger), &good).unwrap_err(), GroupError::NoTenant);
}

#[test]
fn a_full_group_refuses_and_has_room_again_after_a_departure() {
    let mut g = Group::new(&wl_group_config { max_members: 2, ..config("ccc") }).unwrap();
    let (a, _) = g.register(None, &slow_start(0, 40.0)).unwrap();
    g.register(None, &slow_start(0, 10.0)).unwrap();
    assert_eq!(g.register(None, &slow_start(0, 10.0)).unwrap_err(), GroupError::Full);
    assert_eq!(g.len(), 2);
    g.leave(a).unwrap();
    let (c, _) = g.register(None, &slow_start(0, 10.0)).unwrap();
    assert_segs!(ask(&mut g, c), 20.0);
    assert_eq!(g.ask(a), Err(GroupError::NotMember));
}

/// Members that vanish are found by the others' reports alone, across the wrap of the clock.
#[test]
fn vanished_members_are_collected() {
    let start = u32::MAX - 5_000_000;
    let mut g = Group::new(&wl_group_config { idle_us: 10_000_000, ..config("ccc") }).unwrap();
    let (a, _) = g.register(None, &slow_start(start, 1000.0)).unwrap();
    let gone: Vec<_> = (0..99).map(|_| g.register(None, &slow_start(start, 10.0)).unwrap().0).collect();
    assert_segs!(ask(&mut g, a), 10.0);
    for i in 0..120 {
        let now_us = start.wrapping_add(i * RTT_US);
        let cwnd = ask(&mut g, a);
        g.update(a, &avoidance(now_us, cwnd)).unwrap();
        assert!(i > 100 || g.len() == 100);
    }
    for i in 0..60 {
        let now_us = start.wrapping_add((120 + i) * RTT_US);
        let cwnd = ask(&mut g, a);
        g.update(a, &avoidance(now_us, cwnd)).unwrap();
    }
    assert_eq!(g.len(), 1);
    assert_segs!(ask(&mut g, a), 1000.0);
    assert_eq!(g.ask(gone[7]), Err(GroupError::NotMember));
}

/// A reporter whose processor's clock is a little behind does not make others look ancient.
#[test]
fn clocks_that_differ_a_little_collect_no_member() {
    let mut g = group("ccc");
    let (a, _) = g.register(None, &slow_start(1_000_000, 40.0)).unwrap();
    let (b, _) = g.register(None, &slow_start(1_000_000, 10.0)).unwrap();
    g.update(b, &avoidance(999_000, 20.0)).unwrap();
    g.collect(990_000);
    assert_eq!(g.len(), 2);
    assert!(g.ask(a).is_ok());
}

// -------------------------------------------------------------------------- lies

/// A member that claims the largest window there is gets its share, and the group grows no faster than an honest
/// controller might: by half of the member's window in a round.
#[test]
fn a_member_that_lies_about_its_window_is_bounded_by_its_share() {
    for rule in GroupRule::all().filter(|r| r.name() != "lisa") {
        let mut g = group(rule.name());
        let all = in_avoidance(&mut g, 4, 20.0);
        let start = sum_segs(&g);
        for i in 0..1000 {
            let lie = wl_group_report {
                cwnd_bytes: abi::WL_CWND_MAX_BYTES,
                acked_bytes: u32::MAX,
                ..avoidance(i, 1.0)
            };
            let reply = g.update(all[0], &lie).unwrap();
            assert!(segs(reply) <= sum_segs(&g) / 4.0 + 0.001, "{rule:?}");
        }
        assert!(sum_segs(&g) <= 2.0 * start, "{rule:?}: {start} to {}", sum_segs(&g));
        if rule.name() == "ccc" {
            assert!(sum_segs(&g) <= start + 10.0, "{}", sum_segs(&g));
        }
        let shares: Vec<_> = all.iter().map(|&m| ask(&mut g, m)).collect();
        assert!(shares.iter().all(|&s| close(s, shares[0])), "{rule:?}: {shares:?}");
    }
}

#[test]
fn a_member_that_claims_to_have_shrunk_costs_the_group_no_more_than_a_loss() {
    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 4, 20.0);
    for i in 0..1000 {
        g.update(all[0], &avoidance(RTT_US + i, 0.0001)).unwrap();
    }
    assert_segs!(sum_segs(&g), 40.0);
}

// ------------------------------------------------------------------------- joining

#[test]
fn a_joiner_is_clocked_out_within_about_a_round_and_growth_waits_for_it() {
    let mut g = Group::new(&wl_group_config { flags: 0, ..config("ccc") }).unwrap();
    let (a, _) = g.register(None, &slow_start(0, 40.0)).unwrap();
    let ack = |now_us, cwnd| wl_group_report { acks: 1, acked_bytes: MSS, ..avoidance(now_us, cwnd) };
    for i in 0..80 {
        g.update(a, &ack(i * RTT_US / 40, 40.0)).unwrap();
    }
    let join_us = 2 * RTT_US;
    let (b, joined) = g.register(None, &slow_start(join_us, 10.0)).unwrap();
    assert_segs!(segs(joined), 2.0);
    let before = sum_segs(&g);
    let mut clocked = Vec::new();
    for i in 1..=40 {
        let cwnd = ask(&mut g, a);
        g.update(a, &ack(join_us + i * RTT_US / 41, cwnd + 0.05)).unwrap();
        clocked.push(ask(&mut g, b));
    }
    assert_segs!(sum_segs(&g), before);
    assert!(clocked.windows(2).all(|w| w[1] - w[0] <= 2.0), "{clocked:?}");
    assert_segs!(clocked[20], 2.0 + 10.0);
    assert_segs!(*clocked.last().unwrap(), 20.0);
    let cwnd = ask(&mut g, a);
    g.update(a, &ack(join_us + 2 * RTT_US, cwnd + 0.05)).unwrap();
    assert_segs!(sum_segs(&g), before + 0.05);
}

#[test]
fn a_joiner_whose_donors_are_silent_starts_like_any_flow() {
    let mut g = Group::new(&wl_group_config { flags: 0, ..config("ccc") }).unwrap();
    g.register(None, &slow_start(0, 40.0)).unwrap();
    let (b, joined) = g.register(None, &slow_start(50 * RTT_US, 10.0)).unwrap();
    assert_segs!(segs(joined), 10.0);
    let reply = g.update(b, &wl_group_report { acks: 3, ..slow_start(51 * RTT_US, 13.0) }).unwrap();
    assert_segs!(segs(reply), 13.0);
}

/// Nor does a newcomer count as a report, or as a donor of its own.
#[test]
fn a_joiner_is_clocked_only_by_members_that_report() {
    for (silent_rounds, first_segs) in [(0, 2.0), (10, 10.0)] {
        let mut g = Group::new(&wl_group_config { flags: 0, ..config("ccc") }).unwrap();
        let (a, _) = g.register(None, &slow_start(0, 66.0)).unwrap();
        for i in 1..=66 {
            g.update(a, &wl_group_report { acks: 1, ..avoidance(i * RTT_US / 67, 66.0) }).unwrap();
        }
        for _ in 0..3 {
            let (b, joined) = g.register(None, &slow_start((1 + silent_rounds) * RTT_US, 10.0)).unwrap();
            assert_segs!(segs(joined), first_segs);
            g.leave(b).unwrap();
        }
    }
}

/// What a joiner grows by while its share is let out is no growth of the group: the share was granted before.
#[test]
fn a_joiner_grows_the_group_only_when_its_share_is_out() {
    let mut g = Group::new(&wl_group_config { flags: 0, ..config("ccc") }).unwrap();
    g.register(None, &slow_start(0, 160.0)).unwrap();
    let (b, joined) = g.register(None, &slow_start(50 * RTT_US, 10.0)).unwrap();
    let (mut cwnd, mut rounds) = (segs(joined), 0);
    while cwnd < 79.9 {
        rounds += 1;
        assert!(rounds < 10, "{cwnd}");
        let acks = cwnd as u32;
        let said = slow_start((50 + rounds) * RTT_US, 2.0 * cwnd);
        cwnd = segs(g.update(b, &wl_group_report { acks, ..said }).unwrap());
        assert_segs!(sum_segs(&g), 160.0);
    }
    let said = slow_start((51 + rounds) * RTT_US, 2.0 * cwnd);
    g.update(b, &wl_group_report { acks: 80, ..said }).unwrap();
    assert_segs!(sum_segs(&g), 320.0);
}

/// A group with a joiner in every round still grows.
#[test]
fn constant_joining_does_not_stop_growth() {
    let mut g = Group::new(&wl_group_config { flags: 0, ..config("ccc") }).unwrap();
    let (a, _) = g.register(None, &slow_start(0, 40.0)).unwrap();
    let mut now_us = 0;
    for _ in 0..100 {
        let (b, _) = g.register(None, &slow_start(now_us, 10.0)).unwrap();
        for _ in 0..10 {
            now_us += RTT_US / 10;
            let cwnd = ask(&mut g, a);
            g.update(a, &wl_group_report { acks: 1, ..avoidance(now_us, cwnd + 0.1) }).unwrap();
        }
        g.leave(b).unwrap();
    }
    assert!(sum_segs(&g) > 40.0 + 30.0, "{}", sum_segs(&g));
}

// --------------------------------------------------------------------------- cost

/// The members that a report touches: its own, and two that might have vanished. Not one more in a larger group.
#[test]
fn a_report_costs_the_same_in_a_group_of_ten_and_of_ten_thousand() {
    for rule in GroupRule::all() {
        let cost = |members: usize| {
            let mut g = group(rule.name());
            let all: Vec<_> =
                (0..members).map(|_| g.register(None, &slow_start(0, 10.0)).unwrap().0).collect();
            let before = g.members_touched();
            for &m in all.iter().rev().take(10) {
                let cwnd = f64::from(g.member(m).unwrap().cwnd_bytes) / f64::from(MSS);
                g.update(m, &avoidance(1, cwnd + 0.1)).unwrap();
            }
            g.members_touched() - before
        };
        assert_eq!(cost(10), 30, "{rule:?}");
        assert_eq!(cost(10_000), 30, "{rule:?}");
    }
}

/// The core sees one member at a time and has no loop, so no report can depend on how many there are.
#[test]
fn the_group_rules_contain_no_loops() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core/group");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let mut code = String::new();
        for part in text.split("/*") {
            code.push_str(part.split_once("*/").map_or(part, |(_comment, rest)| rest));
        }
        for word in ["for (", "while (", "do {", "goto ", "wl_loop("] {
            assert!(!code.contains(word), "{}: {word}", path.display());
        }
        files += 1;
    }
    assert!(files >= 9, "{files}");
}

/// After a pause of all the window of the group is cut as that of the first to send: 50 segments to 10, so 100 to 20,
/// and up to three quarters it comes back fast. While others report the share holds.
#[test]
fn a_group_that_paused_begins_with_less() {
    for rule in ["ccc", "etcp", "multcp"] {
        for (is_heard, share) in [(true, 50.0), (false, 10.0)] {
            let mut g = group(rule);
            let all = in_avoidance(&mut g, 2, 50.0);
            let now_us = 5_000_000;
            if is_heard {
                g.update(all[1], &avoidance(now_us, 50.0)).unwrap();
            }
            let mut decision =
                wl_decision { cwnd_bytes: 10 * MSS, ssthresh_bytes: 37 * MSS, ..wl_decision::default() };
            g.resume(all[0], now_us, &mut decision).unwrap();
            assert_segs!(f64::from(decision.cwnd_bytes) / f64::from(MSS), share);
            assert_segs!(sum_segs(&g), 2.0 * share);
            if !is_heard {
                assert_segs!(f64::from(decision.ssthresh_bytes) / f64::from(MSS), 37.5);
            }
        }
    }
}

/// No member has cut anything: what rounding leaves of a share is not taken for it, and a share that has become less is in force.
#[test]
fn a_pause_by_itself_takes_nothing_from_a_group() {
    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 2, 2.49);
    let mut decision = wl_decision::default();
    g.refresh(all[0], &mut decision).unwrap();
    assert_eq!(decision.cwnd_bytes, 2 * MSS);
    g.resume(all[0], 5_000_000, &mut decision).unwrap();
    assert_eq!(decision.cwnd_bytes, 2 * MSS);
    assert_segs!(sum_segs(&g), 2.0 * 2.49);

    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 2, 50.0);
    let mut decision = wl_decision::default();
    g.refresh(all[0], &mut decision).unwrap();
    g.update(all[1], &recovery(1_000_000, 50.0)).unwrap();
    g.update(all[1], &avoidance(1_200_000, 25.0)).unwrap();
    g.resume(all[0], 5_000_000, &mut decision).unwrap();
    assert_eq!(decision.cwnd_bytes, (sum_segs(&g) / 2.0 * f64::from(MSS)).round() as u32);
    assert!(sum_segs(&g) < 100.0);
}

/// A flow that joins does not show what the path bears.
#[test]
fn a_group_that_paused_begins_with_less_after_a_flow_has_joined() {
    for rule in ["ccc", "etcp", "multcp"] {
        let mut g = group(rule);
        let all = in_avoidance(&mut g, 2, 50.0);
        let now_us = 5_000_000;
        g.register(None, &slow_start(now_us, 10.0)).unwrap();
        assert!(!g.is_live(now_us), "{rule}");
        let mut decision = wl_decision { cwnd_bytes: 10 * MSS, ..wl_decision::default() };
        g.resume(all[0], now_us, &mut decision).unwrap();
        assert_segs!(f64::from(decision.cwnd_bytes) / f64::from(MSS), 10.0);
        assert_segs!(sum_segs(&g), 30.0);
    }
}

/// Both connections of a pair are used again at once: that is one pause, and the group is cut once.
#[test]
fn all_that_resume_together_are_one_pause() {
    for n in [2, 30] {
        let mut g = group("ccc");
        let all = in_avoidance(&mut g, n, 50.0);
        for member in all {
            let mut decision =
                wl_decision { cwnd_bytes: 10 * MSS, ssthresh_bytes: 37 * MSS, ..wl_decision::default() };
            g.resume(member, 5_000_000, &mut decision).unwrap();
            assert_eq!(decision.cwnd_bytes, 10 * MSS);
        }
        assert_segs!(sum_segs(&g), 10.0 * n as f64);
    }
    // whatever a member reports as left, there is a window
    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 2, 50.0);
    g.resume(all[0], 5_000_000, &mut wl_decision { cwnd_bytes: 1, ..wl_decision::default() }).unwrap();
    assert_segs!(sum_segs(&g), 1.0);
}

/// A member that leaves is not counted among those in slow start any more: one that stays goes on with it.
#[test]
fn the_group_stays_in_slow_start_when_a_member_leaves() {
    let mut g = group("ccc");
    let [a, b] = [40.0, 10.0].map(|window| g.register(None, &slow_start(0, window)).unwrap().0);
    assert_eq!(g.state().in_slow_start, 2);
    g.leave(b).unwrap();
    assert_eq!(g.state().in_slow_start, 1);
    let reply = g.update(a, &slow_start(RTT_US, 80.0)).unwrap();
    assert_eq!(reply.state, abi::WL_MEMBER_SLOW_START);
    assert_segs!(segs(reply), 80.0);
}

/// There is an ACK for each segment of a window at most: more let no joiner's share out any sooner.
#[test]
fn acks_are_believed_as_far_as_the_window_goes() {
    let mut g = Group::new(&wl_group_config { flags: 0, ..config("ccc") }).unwrap();
    let (a, _) = g.register(None, &slow_start(0, 40.0)).unwrap();
    g.update(a, &wl_group_report { acks: u32::MAX, ..avoidance(1, 40.0) }).unwrap();
    assert_eq!(g.state().acks, 41);
}

/// A tenant without flows has no weight in the group, whatever it is to have.
#[test]
fn the_weight_of_a_tenant_without_flows_takes_nothing() {
    let mut g = group("ccc");
    let (one, other) = (g.add_tenant(1), g.add_tenant(1));
    let (a, _) = g.register(Some(one), &slow_start(0, 40.0)).unwrap();
    g.set_tenant_weight(other, 7).unwrap();
    assert_segs!(ask(&mut g, a), 40.0);
    let (b, _) = g.register(Some(other), &slow_start(0, 10.0)).unwrap();
    assert_segs!(ask(&mut g, b), 35.0);
    g.leave(b).unwrap();
    assert_segs!(ask(&mut g, a), 40.0);
}

/// The window of a member in recovery is its own, whatever the others do meanwhile, and whichever queries.
#[test]
fn a_member_in_recovery_is_answered_nothing() {
    for rule in GroupRule::all() {
        let mut g = group(rule.name());
        let all = in_avoidance(&mut g, 2, 20.0);
        let window = ask(&mut g, all[0]);
        assert_eq!(g.update(all[0], &recovery(RTT_US, window)).unwrap().is_change, 0, "{rule:?}");
        g.leave(all[1]).unwrap();
        let reply = g.ask(all[0]).unwrap();
        assert_eq!(reply.is_change, 0, "{rule:?}");
        assert_segs!(segs(reply), window);
    }
}

/// Nothing is known of the path when the last member has left: the next one is as the first of all, not of the last loss event.
#[test]
fn a_group_that_was_empty_begins_anew() {
    for rule in GroupRule::all() {
        let mut g = group(rule.name());
        let all = in_avoidance(&mut g, 2, 20.0);
        for m in &all {
            let window = ask(&mut g, *m);
            g.update(*m, &recovery(RTT_US, window)).unwrap();
            g.update(*m, &avoidance(RTT_US + 1, window / 2.0)).unwrap();
        }
        all.into_iter().for_each(|m| g.leave(m).unwrap());
        let mut fresh = group(rule.name());
        let answers = [&mut g, &mut fresh].map(|g| {
            let (m, reply) = g.register(None, &slow_start(RTT_US + 2, 30.0)).unwrap();
            g.update(m, &recovery(RTT_US + 3, 30.0)).unwrap();
            let left = g.update(m, &avoidance(RTT_US + 4, 15.0)).unwrap();
            (reply, left, g.state().sum_cwnd_q16, g.state().sum_ssthresh_q16, g.state().has)
        });
        assert_eq!(answers[0], answers[1], "{rule:?}");
    }
}

/// What guests report as their flows' windows is no more in all than a group may have.
#[test]
fn what_many_claim_to_have_had_is_bounded() {
    let mut g = group("ccc");
    let (m, _) = g.register(None, &slow_start(0, 10.0)).unwrap();
    (0..5000).for_each(|_| g.prove(abi::WL_CWND_MAX_BYTES));
    assert_eq!(g.state().sum_ssthresh_q16, 1 << 56, "proportions of more are not exact");
    assert_eq!(g.ask(m).unwrap().state, abi::WL_MEMBER_SLOW_START);
}
