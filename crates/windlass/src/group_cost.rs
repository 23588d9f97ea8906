//! `windlass bench groups`: what a member's report costs in a small group and in a large one, natively, in the transparent
//! programs and in sockets.

mod kernel;
mod sockets;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::{hint::black_box, process::ExitCode, time::Instant};
use windlass_agent::is_root;
use windlass_core::{Group, GroupRule, MemberId, abi, abi::wl_group_config, abi::wl_group_report};
use windlass_experiments::median;

const SMALL: usize = 10;
/// Of these the second is the one of the claim.
const LARGE: [usize; 3] = [100, 1000, 10_000];
const CLAIMED: usize = 1000;
/// In the kernel, where a policy has room for so many groups of ten.
const IN_KERNEL: [usize; 2] = [100, CLAIMED];
/// A thousand flows cost at most this many times what ten do.
const BOUND: f64 = 2.0;
/// Small and large by turns, so that what disturbs one disturbs the other; medians count.
const PAIRS: usize = 31;
/// ... in the kernel, where each packet is a system call.
const KERNEL_TURNS: usize = 15;
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
            // no member leaves, so none is unknown
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

/// What an acknowledgement costs in the kernel, of flows in groups of different sizes.
#[derive(Debug, Serialize)]
struct KernelCost {
    rule: &'static str,
    members: usize,
    /// Of one acknowledgement, the median over all turns.
    ns: f64,
    /// Of flows in groups of ten, measured by turns with it.
    small_ns: f64,
    /// Of flows without a group, likewise.
    alone_ns: f64,
    /// The median of the turns' ratios to groups of ten.
    ratio: f64,
}

fn measure_in_kernel(rule: GroupRule, members: usize) -> Result<KernelCost> {
    let load = |grouping| kernel::Load::new(rule, CLAIMED, grouping);
    let mut loads = [
        load(kernel::Grouping::None)?,
        load(kernel::Grouping::Of(SMALL))?,
        load(kernel::Grouping::Of(members))?,
    ];
    let mut turns = Vec::new();
    for _ in 0..KERNEL_TURNS {
        let mut turn = [0.0; 3];
        for (load, ns) in loads.iter_mut().zip(&mut turn) {
            *ns = load.mean_ns(CLAIMED)?;
        }
        turns.push(turn);
    }
    let median = |of: fn(&[f64; 3]) -> f64| {
        median(&turns.iter().map(of).collect::<Vec<_>>()).context("nothing was measured")
    };
    Ok(KernelCost {
        rule: rule.name(),
        members,
        ns: median(|t| t[2])?,
        small_ns: median(|t| t[1])?,
        alone_ns: median(|t| t[0])?,
        ratio: median(|t| t[2] / t[1])?,
    })
}

/// What an acknowledgement costs a socket, of a thousand unless given otherwise.
#[derive(Debug, Serialize)]
struct SocketCost {
    rule: &'static str,
    /// In one group, the median over all turns.
    ns: f64,
    /// In groups of ten, measured by turns with it.
    in_tens_ns: f64,
    /// Without a group, likewise.
    alone_ns: f64,
    /// Ten sockets in one group, with no others there, likewise.
    ten_ns: f64,
    /// The median of the turns' ratios to the last.
    ratio: f64,
}

fn measure_sockets(rule: GroupRule) -> Result<SocketCost> {
    let load = |sockets, grouping| sockets::Load::new(rule, sockets, grouping);
    let mut loads = [
        load(CLAIMED, kernel::Grouping::Of(CLAIMED))?,
        load(CLAIMED, kernel::Grouping::Of(SMALL))?,
        load(CLAIMED, kernel::Grouping::None)?,
        load(SMALL, kernel::Grouping::Of(SMALL))?,
    ];
    let mut turns = Vec::new();
    for _ in 0..KERNEL_TURNS {
        let mut turn = [0.0; 4];
        for (load, ns) in loads.iter_mut().zip(&mut turn) {
            *ns = load.mean_ns(CLAIMED)?;
        }
        turns.push(turn);
    }
    let median = |of: fn(&[f64; 4]) -> f64| {
        median(&turns.iter().map(of).collect::<Vec<_>>()).context("nothing was measured")
    };
    Ok(SocketCost {
        rule: rule.name(),
        ns: median(|t| t[0])?,
        in_tens_ns: median(|t| t[1])?,
        alone_ns: median(|t| t[2])?,
        ten_ns: median(|t| t[3])?,
        ratio: median(|t| t[0] / t[3])?,
    })
}

/// Whether a thousand flows cost as ten.
#[derive(Debug, Serialize)]
struct Claim {
    id: &'static str,
    ours: f64,
    bound: f64,
    holds: bool,
    unit: &'static str,
    runs: usize,
}

impl Claim {
    fn new(id: &'static str, ratios: impl Iterator<Item = f64>, runs: usize) -> Claim {
        let ours = ratios.fold(0.0, f64::max);
        Claim { id, ours, bound: BOUND, holds: ours <= BOUND, unit: "x", runs }
    }

    fn print(&self) {
        let word = if self.holds { "holds" } else { "DOES NOT HOLD" };
        println!("{}: {:.2} x, bound at most {BOUND} x, {} turns: {word}", self.id, self.ours, self.runs);
    }
}

fn bench_natively(rules: &[GroupRule], json: bool) -> Result<Vec<Cost>> {
    if !json {
        println!("{:<18} {:>8} {:>12} {:>14} {:>6}", "rule", "members", "per report", "with ten", "ratio");
    }
    let mut costs = Vec::new();
    for rule in rules {
        for members in LARGE {
            let cost = measure(*rule, members)?;
            if !json {
                println!(
                    "{:<18} {:>8} {:>9.1} ns {:>11.1} ns {:>6.2}",
                    cost.rule, cost.members, cost.ns, cost.small_ns, cost.ratio
                );
            }
            costs.push(cost);
        }
    }
    Ok(costs)
}

fn bench_in_kernel(rules: &[GroupRule], json: bool) -> Result<Vec<KernelCost>> {
    if !json {
        println!(
            "in the kernel, an acknowledgement of one of {CLAIMED} flows:\n{:<18} {:>8} {:>12} {:>14} {:>14} {:>6}",
            "rule", "members", "per ACK", "in tens", "ungrouped", "ratio"
        );
    }
    let mut costs = Vec::new();
    for rule in rules {
        for members in IN_KERNEL {
            let cost = measure_in_kernel(*rule, members)?;
            if !json {
                println!(
                    "{:<18} {:>8} {:>9.0} ns {:>11.0} ns {:>11.0} ns {:>6.2}",
                    cost.rule, cost.members, cost.ns, cost.small_ns, cost.alone_ns, cost.ratio
                );
            }
            costs.push(cost);
        }
    }
    Ok(costs)
}

fn bench_sockets(rules: &[GroupRule], json: bool) -> Result<Vec<SocketCost>> {
    if !json {
        println!(
            "in the kernel, an acknowledgement of one of {CLAIMED} sockets:\n{:<18} {:>12} {:>14} {:>14} {:>14} {:>6}",
            "rule", "in one group", "in tens", "ungrouped", "ten in all", "ratio"
        );
    }
    let mut costs = Vec::new();
    for rule in rules {
        let cost = measure_sockets(*rule)?;
        if !json {
            println!(
                "{:<18} {:>9.0} ns {:>11.0} ns {:>11.0} ns {:>11.0} ns {:>6.2}",
                cost.rule, cost.ns, cost.in_tens_ns, cost.alone_ns, cost.ten_ns, cost.ratio
            );
        }
        costs.push(cost);
    }
    Ok(costs)
}

/// Measures the rules whose name begins with `only`, prints costs and claims. Fails if one does not hold. Without
/// root the kernel's part is left out, and reported as such.
pub fn bench(only: &str, json: bool) -> Result<ExitCode> {
    let rules: Vec<GroupRule> = GroupRule::all().filter(|r| r.name().starts_with(only)).collect();
    if rules.is_empty() {
        bail!("--only {only}: no group rule begins so; there are {}", GroupRule::names());
    }
    let costs = bench_natively(&rules, json)?;
    let claimed = costs.iter().filter(|c| c.members == CLAIMED).map(|c| c.ratio);
    let mut claims = vec![Claim::new("a-thousand-flows-cost-as-ten", claimed, PAIRS)];
    let (mut kernel_costs, mut socket_costs) = (Vec::new(), Vec::new());
    if is_root() {
        kernel_costs = bench_in_kernel(&rules, json)?;
        let claimed = kernel_costs.iter().filter(|c| c.members == CLAIMED).map(|c| c.ratio);
        claims.push(Claim::new("a-thousand-flows-cost-as-ten-in-the-kernel", claimed, KERNEL_TURNS));
        socket_costs = bench_sockets(&rules, json)?;
        let ratios = socket_costs.iter().map(|c| c.ratio);
        claims.push(Claim::new("a-thousand-sockets-cost-as-ten", ratios, KERNEL_TURNS));
    } else {
        eprintln!("what it costs in the kernel is left out: that needs root");
    }
    if json {
        let costs = serde_json::json!({
            "costs": costs, "kernel_costs": kernel_costs, "socket_costs": socket_costs, "claims": claims,
        });
        println!("{costs}");
    } else {
        claims.iter().for_each(Claim::print);
    }
    Ok(if claims.iter().all(|c| c.holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_members_of_their_groups_in_the_kernel() {
        if !is_root() {
            println!("skipped: flows_are_members_of_their_groups_in_the_kernel: needs root");
            return;
        }
        use kernel::Grouping::{None, Of};
        for (flows, grouping) in [(30, None), (30, Of(10)), (30, Of(30)), (CLAIMED, Of(CLAIMED))] {
            let rule = GroupRule::by_name("ccc").unwrap();
            let mut load = kernel::Load::new(rule, flows, grouping).unwrap_or_else(|e| panic!("{e:#}"));
            assert!(load.mean_ns(flows).unwrap() > 0.0);
        }
    }

    #[test]
    fn sockets_are_members_of_their_groups() {
        if !is_root() {
            println!("skipped: sockets_are_members_of_their_groups: needs root");
            return;
        }
        for grouping in [kernel::Grouping::None, kernel::Grouping::Of(10), kernel::Grouping::Of(30)] {
            let rule = GroupRule::by_name("ccc").unwrap();
            let mut load = sockets::Load::new(rule, 30, grouping).unwrap_or_else(|e| panic!("{e:#}"));
            assert!(load.mean_ns(30).unwrap() > 0.0);
        }
    }

    #[test]
    fn every_rule_takes_the_load() {
        for rule in GroupRule::all() {
            let mut load = Load::new(rule, 100).unwrap();
            load.run(1000);
            assert_eq!(load.group.len(), 100, "{}", rule.name());
        }
    }
}
