//! Flow groups: the worked numbers of the papers, bad input, and what a group costs.

use windlass_core::{
    Group, GroupError, GroupRule, MemberId,
    abi::{self, wl_group_config, wl_group_reply, wl_group_report},
};

const MSS: u32 = 10_000; // so that tenths and hundredths of a segment are whole bytes
const RTT_US: u32 = 100_000;

fn config(rule: &str) -> wl_group_config {
    wl_group_config {
        rule: GroupRule::by_name(rule).unwrap().id(),
        flags: abi::WL_GROUP_NO_ACK_CLOCK,
        ..wl_group_config::default()
    }
}

fn group(rule: &str) -> Group {
    Group::new(&config(rule)).unwrap()
}

/// A report of a member that needs its window, in segments.
fn report(now_us: u32, state: u32, cwnd_segs: f64) -> wl_group_report {
    wl_group_report {
        now_us,
        mss_bytes: MSS,
        cwnd_bytes: (cwnd_segs * f64::from(MSS)).round() as u32,
        ssthresh_bytes: abi::WL_CWND_MAX_BYTES,
        srtt_us: RTT_US,
        state: state as u8,
        is_cwnd_limited: 1,
        ..wl_group_report::default()
    }
}

fn slow_start(now_us: u32, segs: f64) -> wl_group_report {
    report(now_us, abi::WL_MEMBER_SLOW_START, segs)
}

fn avoidance(now_us: u32, segs: f64) -> wl_group_report {
    report(now_us, abi::WL_MEMBER_AVOIDANCE, segs)
}

fn recovery(now_us: u32, segs: f64) -> wl_group_report {
    report(now_us, abi::WL_MEMBER_RECOVERY, segs)
}

fn timeout(now_us: u32) -> wl_group_report {
    wl_group_report { is_timeout: 1, ..slow_start(now_us, 1.0) }
}

fn segs(reply: wl_group_reply) -> f64 {
    f64::from(reply.cwnd_bytes) / f64::from(MSS)
}

fn sum_segs(g: &Group) -> f64 {
    g.state().sum_cwnd_q16 as f64 / 65536.0 / f64::from(MSS)
}

fn ask(g: &mut Group, m: MemberId) -> f64 {
    segs(g.ask(m).unwrap())
}

fn close(got: f64, expected: f64) -> bool {
    (got - expected).abs() < 0.0005 * expected + 0.0003
}

macro_rules! assert_segs {
    ($got:expr, $expected:expr) => {
        let (got, expected) = ($got, $expected);
        assert!(close(got, expected), "{} = {got}, expected {expected}", stringify!($got));
    };
}

/// A group of `n` members in congestion avoidance with `each` segments.
fn in_avoidance(g: &mut Group, n: usize, each: f64) -> Vec<MemberId> {
    let (first, _) = g.register(None, &slow_start(0, each * n as f64)).unwrap();
    let mut all = vec![first];
    for _ in 1..n {
        all.push(g.register(None, &slow_start(0, 10.0)).unwrap().0);
    }
    for &m in &all {
        let share = ask(g, m);
        g.update(m, &avoidance(0, share)).unwrap();
    }
    all
}

// ------------------------------------------------------------------ rules by name

#[test]
fn rules_have_names_and_stable_ids() {
    let listed: Vec<_> = GroupRule::all().map(|r| (r.id(), r.name())).collect();
    assert_eq!(
        listed,
        [
            (1, "ccc"),
            (2, "lisa"),
            (3, "cm"),
            (4, "etcp"),
            (5, "efcm"),
            (6, "multcp"),
            (7, "fse"),
            (8, "fse-conservative")
        ]
    );
    for rule in GroupRule::all() {
        assert_eq!(GroupRule::by_id(rule.id()), Some(rule));
        assert!(!rule.description().is_empty());
    }
    assert_eq!(GroupRule::by_name("none"), None);
}

// -------------------------------------------------------------------------- ccc

/// Three connections of priorities 1, 1 and 2; a growth of a tenth of a segment, a loss, a departure.
#[test]
fn ccc_follows_its_worked_example() {
    let mut g = group("ccc");
    let (c1, first) = g.register(None, &slow_start(0, 40.0)).unwrap();
    assert_segs!(segs(first), 40.0);
    let (c2, second) = g.register(None, &slow_start(0, 10.0)).unwrap();
    assert_segs!(segs(second), 20.0);
    assert_segs!(ask(&mut g, c1), 20.0);
    let (c3, third) = g.register(None, &wl_group_report { weight: 2, ..slow_start(0, 10.0) }).unwrap();
    assert_segs!(segs(third), 20.0);
    assert_segs!(ask(&mut g, c1), 10.0);
    assert_segs!(ask(&mut g, c2), 10.0);

    assert_segs!(segs(g.update(c1, &avoidance(1, 10.1)).unwrap()), 10.025);
    assert_segs!(sum_segs(&g), 40.1);
    assert_segs!(ask(&mut g, c2), 10.025);
    assert_segs!(ask(&mut g, c3), 20.05);

    let during = g.update(c1, &recovery(2, 10.025)).unwrap();
    assert_eq!(during.is_change, 0);
    assert_segs!(sum_segs(&g), 40.1);
    assert_segs!(g.state().sum_ssthresh_q16 as f64 / 65536.0 / f64::from(MSS), 20.05);

    let after = g.update(c1, &avoidance(RTT_US, 5.0125)).unwrap();
    assert_segs!(sum_segs(&g), 20.05);
    assert_segs!(segs(after), 5.0125);
    assert_segs!(f64::from(after.ssthresh_bytes) / f64::from(MSS), 5.0125);
    assert_segs!(ask(&mut g, c2), 5.0125);
    assert_segs!(ask(&mut g, c3), 10.025);

    g.leave(c3).unwrap();
    assert_segs!(sum_segs(&g), 20.05);
    assert_segs!(ask(&mut g, c1), 10.025);
    assert_segs!(ask(&mut g, c2), 10.025);
}

#[test]
fn ccc_doubles_the_aggregate_only_while_all_are_in_slow_start() {
    let mut g = group("ccc");
    let (c1, _) = g.register(None, &slow_start(0, 10.0)).unwrap();
    let (c2, joined) = g.register(None, &slow_start(0, 10.0)).unwrap();
    assert_eq!(joined.state, abi::WL_MEMBER_SLOW_START);
    assert_segs!(ask(&mut g, c1), 5.0);
    assert_segs!(segs(g.update(c1, &slow_start(RTT_US, 10.0)).unwrap()), 10.0);
    assert_segs!(sum_segs(&g), 20.0);
    assert_segs!(segs(g.update(c2, &slow_start(RTT_US, 17.0)).unwrap()), 10.0);
    // one leaves slow start: the other must as well
    g.update(c1, &avoidance(2 * RTT_US, 10.0)).unwrap();
    let told = g.update(c2, &slow_start(2 * RTT_US, 11.0)).unwrap();
    assert_eq!(told.state, abi::WL_MEMBER_AVOIDANCE);
    assert!(told.ssthresh_bytes <= told.cwnd_bytes);
    assert_segs!(sum_segs(&g), 20.0);
    let (_, third) = g.register(None, &slow_start(2 * RTT_US, 10.0)).unwrap();
    assert_eq!(third.state, abi::WL_MEMBER_AVOIDANCE);
}

#[test]
fn ccc_collapses_only_when_no_flow_gets_acks() {
    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 2, 20.0);
    g.update(all[0], &timeout(1000)).unwrap();
    assert_segs!(sum_segs(&g), 40.0);
    // the other still gets ACKs, and leads
    let share = segs(g.update(all[1], &avoidance(2000, 20.5)).unwrap());
    assert_segs!(sum_segs(&g), 40.5);
    assert_segs!(share, 20.25);
    g.update(all[1], &timeout(900_000)).unwrap();
    let after = g.ask(all[0]).unwrap();
    assert_segs!(sum_segs(&g), 40.5 / 20.25);
    assert_eq!(after.state, abi::WL_MEMBER_SLOW_START);
    assert_segs!(f64::from(after.ssthresh_bytes) / f64::from(MSS), 10.125);
    // and doubles again, up to half of what it had
    for i in 1..20 {
        let now_us = 900_000 + i * RTT_US;
        let cwnd = ask(&mut g, all[1]);
        let state = g.ask(all[1]).unwrap().state;
        g.update(all[1], &report(now_us, state, 2.0 * cwnd)).unwrap();
        if g.ask(all[1]).unwrap().state == abi::WL_MEMBER_AVOIDANCE {
            break;
        }
    }
    assert_segs!(sum_segs(&g), 20.25);
}

/// Idle members have no timers: they must not keep a group alive whose only active flow gets no ACKs.
#[test]
fn ccc_collapses_when_one_flow_times_out_twice_and_nothing_else_is_heard() {
    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 3, 20.0);
    g.update(all[1], &timeout(300_000)).unwrap();
    assert_segs!(sum_segs(&g), 60.0);
    g.update(all[1], &timeout(900_000)).unwrap();
    assert!(sum_segs(&g) < 4.0, "{}", sum_segs(&g));
}

#[test]
fn ccc_passes_the_lead_to_a_member_that_needs_its_window() {
    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 2, 20.0);
    let bored = wl_group_report { is_cwnd_limited: 0, ..avoidance(1000, 20.5) };
    g.update(all[0], &bored).unwrap();
    assert_segs!(sum_segs(&g), 40.0);
    g.update(all[1], &avoidance(2000, 20.5)).unwrap();
    assert_segs!(sum_segs(&g), 40.5);
}

#[test]
fn ccc_replaces_a_leader_that_fell_silent() {
    let mut g = group("ccc");
    let all = in_avoidance(&mut g, 2, 20.0);
    g.update(all[1], &avoidance(1000, 20.5)).unwrap();
    assert_segs!(sum_segs(&g), 40.0);
    g.update(all[1], &avoidance(10 * RTT_US, 20.5)).unwrap();
    assert_segs!(sum_segs(&g), 40.5);
}

/// With A1 on, every joiner adds its window, as the draft's pseudo-code does.
#[test]
fn ccc_adds_joiners_only_if_told_to() {
    let mut g = Group::new(&wl_group_config {
        flags: abi::WL_GROUP_JOIN_ADDS | abi::WL_GROUP_NO_ACK_CLOCK,
        ..config("ccc")
    })
    .unwrap();
    g.register(None, &slow_start(0, 40.0)).unwrap();
    g.register(None, &slow_start(0, 10.0)).unwrap();
    assert_segs!(sum_segs(&g), 50.0);
}

// --------------------------------------------------------------- other rules

/// A member with 40 segments lends ten and ignores ten ACKs.
#[test]
fn lisa_lends_an_initial_window() {
    let mut g = group("lisa");
    let (old, _) = g.register(None, &slow_start(0, 10.0)).unwrap();
    g.update(old, &slow_start(RTT_US, 20.0)).unwrap();
    g.update(old, &slow_start(2 * RTT_US, 40.0)).unwrap();
    let (_, new) = g.register(None, &slow_start(2 * RTT_US, 10.0)).unwrap();
    assert_segs!(segs(new), 10.0);
    let ack = |now_us, cwnd| wl_group_report {
        acks: 1,
        acked_bytes: MSS,
        inflight_bytes: 40 * MSS,
        ..slow_start(now_us, cwnd)
    };
    assert_segs!(segs(g.update(old, &ack(2 * RTT_US + 1, 40.0)).unwrap()), 30.0);
    for i in 0..10 {
        assert_segs!(segs(g.update(old, &ack(2 * RTT_US + 2 + i, 31.0)).unwrap()), 30.0);
    }
    assert_segs!(segs(g.update(old, &ack(2 * RTT_US + 20, 31.0)).unwrap()), 31.0);
}

#[test]
fn lisa_takes_half_of_a_small_window_and_nothing_of_a_tiny_one() {
    for (lender, joiner, left) in [(19.0, 9.0, 10.0), (6.0, 3.0, 3.0), (5.0, 3.0, 5.0)] {
        let mut g = group("lisa");
        let (old, _) = g.register(None, &slow_start(0, 10.0)).unwrap();
        g.update(old, &slow_start(0, lender)).unwrap();
        let (_, new) = g.register(None, &slow_start(0, 10.0)).unwrap();
        assert_segs!(segs(new), joiner);
        assert_segs!(segs(g.update(old, &slow_start(1, lender)).unwrap()), left);
    }
    let mut g = group("lisa");
    let (old, _) = g.register(None, &slow_start(0, 10.0)).unwrap();
    g.update(old, &avoidance(0, 40.0)).unwrap();
    let (_, new) = g.register(None, &slow_start(0, 10.0)).unwrap();
    assert_segs!(segs(new), 10.0);
    assert_segs!(segs(g.update(old, &avoidance(1, 40.0)).unwrap()), 40.0);
}

#[test]
fn cm_ignores_windows_and_follows_feedback() {
    let mut g = group("cm");
    let (a, first) = g.register(None, &slow_start(0, 77.0)).unwrap();
    assert_segs!(segs(first), 10.0);
    let (b, second) = g.register(None, &slow_start(0, 77.0)).unwrap();
    assert_segs!(segs(second), 5.0);
    let received =
        |now_us, received| wl_group_report { acked_bytes: received * MSS, ..avoidance(now_us, 77.0) };
    g.update(a, &received(1000, 5)).unwrap();
    g.update(b, &received(1000, 5)).unwrap();
    assert_segs!(sum_segs(&g), 20.0);
    g.update(a, &recovery(RTT_US, 77.0)).unwrap();
    assert_segs!(sum_segs(&g), 10.0);
    // the same event
    g.update(b, &recovery(RTT_US + 10, 77.0)).unwrap();
    assert_segs!(sum_segs(&g), 10.0);
    // avoidance: one segment for a window received
    for m in [a, b] {
        g.update(m, &received(2 * RTT_US, 5)).unwrap();
    }
    assert!((sum_segs(&g) - 11.0).abs() < 0.05, "{}", sum_segs(&g));
    g.update(a, &timeout(4 * RTT_US)).unwrap();
    assert_segs!(sum_segs(&g), 1.0);
}

/// One round of Reno: every member grows by a segment.
fn grow_all(g: &mut Group, all: &[MemberId], now_us: u32) {
    for (i, &m) in all.iter().enumerate() {
        let cwnd = ask(g, m);
        g.update(m, &avoidance(now_us + i as u32, cwnd + 1.0)).unwrap();
    }
}

/// One loss at each of the members named, in one event.
fn lose(g: &mut Group, all: &[MemberId], now_us: u32) {
    for &m in all {
        let cwnd = ask(g, m);
        assert_eq!(g.update(m, &recovery(now_us, cwnd)).unwrap().is_change, 0);
    }
    for &m in all {
        let cwnd = f64::from(g.member(m).unwrap().cwnd_bytes) / f64::from(MSS);
        g.update(m, &avoidance(now_us + RTT_US, cwnd / 2.0)).unwrap();
    }
}

/// What a round of growth adds, what a loss at one member leaves, what a loss at all leaves; of ten with ten segments.
fn aggressiveness(config: &wl_group_config) -> (f64, f64, f64) {
    let measure = |losers: usize| {
        let mut g = Group::new(config).unwrap();
        let all = in_avoidance(&mut g, 10, 10.0);
        if losers == 0 {
            let before = sum_segs(&g);
            grow_all(&mut g, &all, 2 * RTT_US);
            return sum_segs(&g) - before;
        }
        let before = sum_segs(&g);
        lose(&mut g, &all[..losers], 2 * RTT_US);
        sum_segs(&g) / before
    };
    (measure(0), measure(1), measure(10))
}

#[test]
fn rules_are_as_aggressive_as_they_say() {
    let near = |(a, b, c): (f64, f64, f64), (x, y, z): (f64, f64, f64)| {
        (a - x).abs() < 0.02 && (b - y).abs() < 0.002 && (c - z).abs() < 0.002
    };
    for (rule, aggressiveness_q8, expected) in [
        ("ccc", 0, (1.0, 0.5, 0.5)),
        ("etcp", 0, (1.0, 0.5, 0.5)),
        ("efcm", 0, (10.0, 0.95, 0.5)),
        ("multcp", 256, (1.0, 0.5, 0.5)),
        ("multcp", 512, (2.0, 0.75, 0.75)),
        ("multcp", 128, (0.5, 0.5, 0.5)),
        ("multcp", 0, (10.0, 0.95, 0.95)),
        ("fse", 0, (10.0, 0.95, 0.5)),
        ("fse-conservative", 0, (10.0, 0.5, 0.5)),
    ] {
        let got = aggressiveness(&wl_group_config { aggressiveness_q8, ..config(rule) });
        assert!(near(got, expected), "{rule} {aggressiveness_q8}: {got:?}, expected {expected:?}");
    }
}

#[test]
fn efcm_gives_a_joiner_the_average() {
    let mut g = group("efcm");
    let all = in_avoidance(&mut g, 1, 30.0);
    let (b, joined) = g.register(None, &slow_start(0, 10.0)).unwrap();
    assert_segs!(segs(joined), 30.0);
    assert_segs!(sum_segs(&g), 60.0);
    g.leave(b).unwrap();
    assert_segs!(sum_segs(&g), 30.0);
    assert_segs!(ask(&mut g, all[0]), 30.0);
}

#[test]
fn etcp_shares_a_timeout() {
    let mut g = group("etcp");
    let all = in_avoidance(&mut g, 4, 10.0);
    g.update(all[2], &timeout(RTT_US)).unwrap();
    assert_segs!(sum_segs(&g), 1.0);
    assert_eq!(g.ask(all[0]).unwrap().state, abi::WL_MEMBER_SLOW_START);
}

/// RFC 8699, appendix C.1: priorities 1 and 1/2 (here 2 and 1). The last numbers are those of the active algorithm: the
/// second flow gets all that the first leaves.
#[test]
fn fse_follows_the_numbers_of_the_rfc() {
    let mut g = group("fse");
    let with = |weight, desired, r: wl_group_report| wl_group_report {
        weight,
        desired_bytes: desired * MSS,
        // so that windows of less than a segment do not meet the floor
        mss_bytes: 1000,
        ..r
    };
    let (f1, _) = g.register(None, &with(2, 0, avoidance(0, 10.0))).unwrap();
    let (f2, _) = g.register(None, &with(1, 0, avoidance(0, 1.0))).unwrap();
    // the numbers start from windows of 10 and 1, and sum 11
    assert_segs!(sum_segs(&g), 11.0);
    assert_segs!(ask(&mut g, f1), 7.3333);
    let drop = 10.0 - 7.3333; // the RFC's FSE_R(1) is still 10; take as much away from what we answered
    g.update(f1, &with(2, 0, avoidance(1, 8.0 - drop))).unwrap();
    assert_segs!(sum_segs(&g), 9.0);
    assert_segs!(ask(&mut g, f1), 6.0);
    let cwnd2 = ask(&mut g, f2);
    g.update(f2, &with(1, 0, avoidance(2, cwnd2 + 1.0))).unwrap();
    assert_segs!(sum_segs(&g), 10.0);
    assert_segs!(ask(&mut g, f2), 3.3333);
    let cwnd1 = ask(&mut g, f1);
    assert_segs!(segs(g.update(f1, &with(2, 2, avoidance(3, cwnd1 + 1.0))).unwrap()), 2.0);
    assert_segs!(sum_segs(&g), 11.0);
    let cwnd2 = ask(&mut g, f2);
    assert_segs!(cwnd2, 9.0);
    assert_segs!(segs(g.update(f2, &with(1, 0, avoidance(4, cwnd2 + 1.0))).unwrap()), 10.0);
    assert_segs!(sum_segs(&g), 12.0);
    g.leave(f1).unwrap();
    assert_segs!(ask(&mut g, f2), 12.0);
    assert_eq!((g.state().fse.capped_bytes, g.state().fse.capped_q31), (0, 0));
}

#[test]
fn fse_conservative_freezes_for_two_round_trips() {
    let mut g = group("fse-conservative");
    let all = in_avoidance(&mut g, 2, 10.0);
    g.update(all[0], &recovery(1000, 10.0)).unwrap();
    let before = sum_segs(&g);
    g.update(all[0], &avoidance(2000, 5.0)).unwrap();
    let halved = sum_segs(&g);
    assert!(halved < 0.8 * before);
    let cwnd = ask(&mut g, all[1]);
    g.update(all[1], &avoidance(2000 + 2 * RTT_US - 1, cwnd + 1.0)).unwrap();
    assert_segs!(sum_segs(&g), halved);
    g.update(all[1], &avoidance(2000 + 2 * RTT_US, cwnd + 1.0)).unwrap();
    assert_segs!(sum_segs(&g), halved + 1.0);
}

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
fn clocks_that_differ_a_little_collect_nobody() {
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

/// A group that somebody joins in every round still grows.
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
