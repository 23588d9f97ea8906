//! Flow groups: the worked numbers of the papers, bad input, and what a group costs.

use windlass_core::{
    Group, GroupRule, MemberId,
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

mod ccc;
mod ensembles;
mod lenders;
mod losses;
mod members;
mod rules;
