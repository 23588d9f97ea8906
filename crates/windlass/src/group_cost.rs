//! `windlass bench groups`: what a member's report costs in a small group and in a large one.

use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::{hint::black_box, process::ExitCode, time::Instant};
use windlass_core::{Group, GroupRule, MemberId, abi, abi::wl_group_config, abi::wl_group_report};
use windlass_experiments::median;

const SMALL: usize = 10;
/// Of these the second is the one of the claim.
const LARGE: [usize; 3] = [100, 1000, 10_000];
const CLAIMED: usize = 1000;
/// A thousand flows cost at most this many times what ten do.
const BOUND: f64 = 2.0;
/// Small and large by turns, so that what disturbs one disturbs the other; medians count.
const PAIRS: usize = 31;
const REPORTS: usize = 20_000;
const MSS: u32 = 1448;
const RTT_US: u32 = 100_000;

#[derive(Debug, Serialize)]
struct Cost {
    rule: &'static str,
    members: usize,
    /// Of one report, the median over all pairs.
    ns: f64,
    /// Of the small group, measured by turns with it.
    small_ns: f64,
    /// The median of the pairs' ratios.
    ratio: f64,
}

/// A group whose members report one after the other, as ACKs come in.
struct Load {
    group: Group,
    members: Vec<(MemberId, u32)>,
    next: usize,
    now_us: u32,
}

impl Load {
    /// Half of the members are those of four tenants.
    fn new(rule: GroupRule, members: usize) -> Result<Load> {
        let config = wl_group_config { rule: rule.id(), ..Default::default() };
        let group = Group::new(&config).map_err(|e| anyhow::anyhow!("{}: {e}", rule.name()))?;
        let mut load = Load { group, members: Vec::new(), next: 0, now_us: 1 };
        let tenants: Vec<_> = (1..=4).map(|weight| load.group.add_tenant(weight)).collect();
        for i in 0..members {
            let report = load.report(10 * MSS, 1 + i as u32 % 3);
            let tenant = (i % 2 == 1).then(|| tenants[i / 2 % tenants.len()]);
            let joined = load.group.register(tenant, &report);
            let (member, reply) = joined.map_err(|e| anyhow::anyhow!("{}: {e}", rule.name()))?;
            load.members.push((member, reply.cwnd_bytes));
        }
        Ok(load)
    }

    fn report(&self, cwnd_bytes: u32, weight: u32) -> wl_group_report {
        wl_group_report {
            now_us: self.now_us,
            mss_bytes: MSS,
            weight,
            cwnd_bytes,
            ssthresh_bytes: 5 * MSS,
            srtt_us: RTT_US,
            acked_bytes: 2 * MSS,
            acks: 1,
            inflight_bytes: cwnd_bytes,
            state: abi::WL_MEMBER_AVOIDANCE as u8,
            is_cwnd_limited: 1,
            ..Default::default()
        }
    }

    /// Reports of members in turn, each with a window that has grown a little; one in a thousand has lost something.
    fn run(&mut self, reports: usize) -> f64 {
        let began = Instant::now();
        for _ in 0..reports {
            self.now_us = self.now_us.wrapping_add(RTT_US / 1000);
            let (member, cwnd_bytes) = self.members[self.next];
            let mut report = self.report(cwnd_bytes + MSS / 10, 0);
            if self.next % 1000 == 7 {
                report.state = abi::WL_MEMBER_RECOVERY as u8;
            }
            // nobody leaves, so nobody is unknown
            if let Ok(reply) = self.group.update(member, &report) {
                self.members[self.next].1 = black_box(reply).cwnd_bytes;
            }
            self.next = (self.next + 1) % self.members.len();
        }
        began.elapsed().as_secs_f64() * 1e9 / reports as f64
    }
}

fn measure(rule: GroupRule, members: usize) -> Result<Cost> {
    let (mut small, mut large) = (Load::new(rule, SMALL)?, Load::new(rule, members)?);
    // every member has spoken, and what is touched is in memory
    small.run(REPORTS);
    large.run(REPORTS.max(2 * members));
    let pairs: Vec<(f64, f64)> = (0..PAIRS).map(|_| (small.run(REPORTS), large.run(REPORTS))).collect();
    let median = |of: fn(&(f64, f64)) -> f64| {
        median(&pairs.iter().map(of).collect::<Vec<_>>()).context("nothing was measured")
    };
    Ok(Cost {
        rule: rule.name(),
        members,
        ns: median(|p| p.1)?,
        small_ns: median(|p| p.0)?,
        ratio: median(|p| p.1 / p.0)?,
    })
}

/// Measures the rules whose name begins with `only`, prints costs and the claim. Fails if it does not hold.
pub fn bench(only: &str, json: bool) -> Result<ExitCode> {
    let rules: Vec<GroupRule> = GroupRule::all().filter(|r| r.name().starts_with(only)).collect();
    if rules.is_empty() {
        bail!("--only {only}: no group rule is called so");
    }
    if !json {
        println!("{:<18} {:>8} {:>12} {:>14} {:>6}", "rule", "members", "per report", "with ten", "ratio");
    }
    let mut costs = Vec::new();
    for rule in rules {
        for members in LARGE {
            let cost = measure(rule, members)?;
            if !json {
                println!(
                    "{:<18} {:>8} {:>9.1} ns {:>11.1} ns {:>6.2}",
                    cost.rule, cost.members, cost.ns, cost.small_ns, cost.ratio
                );
            }
            costs.push(cost);
        }
    }
    let claimed = costs.iter().filter(|c| c.members == CLAIMED).map(|c| c.ratio);
    let worst = claimed.fold(0.0, f64::max);
    let holds = worst <= BOUND;
    if json {
        println!(
            "{}",
            serde_json::json!({ "costs": costs, "claims": [{
                "id": "a-thousand-flows-cost-as-ten", "ours": worst, "bound": BOUND, "holds": holds, "unit": "x",
                "runs": PAIRS,
            }] })
        );
    } else {
        let word = if holds { "holds" } else { "DOES NOT HOLD" };
        println!(
            "a-thousand-flows-cost-as-ten: {worst:.2} x, bound at most {BOUND} x, {PAIRS} pairs: {word}"
        );
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_takes_the_load() {
        for rule in GroupRule::all() {
            let mut load = Load::new(rule, 100).unwrap();
            load.run(1000);
            assert_eq!(load.group.len(), 100, "{}", rule.name());
        }
    }
}
