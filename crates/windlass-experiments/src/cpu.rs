//! Figure 7b of TCon: the CPU that a box takes for many concurrent connections, and the memory of a flow.

use crate::{
    cable::{Cable, SERVER},
    claim::Verdict,
    report::Outcome,
    runner::{RunRecord, Settings},
    stats,
};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{fs, sync::atomic::Ordering, time::Instant};
use windlass_lab::{Crowd, Server, files};

/// Its name among the experiments.
pub const NAME: &str = "tcon-cpu";

/// Every connection asks for this again and again: a page of the web.
const OBJECT_BYTES: u64 = 125_000;
/// 1.1 Gbit/s of payload, however many connections share it.
const REQUESTS_PS: f64 = 1100.0;
const PAPER_PERCENT: f64 = 15.0;
const BOUND_PERCENT: f64 = 5.0;
const BOUND_RATE_BPS: f64 = 1e9;
const BOUND_FLOW_BYTES: f64 = 1024.0;

/// One load, with or without the box.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// CPU time that the whole machine spent, in per cent of one core.
    busy_percent: f64,
    /// ... and Windlass' programs, by the kernel's statistics.
    programs_percent: f64,
    /// On the wire, towards the clients.
    rate_bps: f64,
    /// Connections that Windlass had under control.
    flows: f64,
    /// Kernel memory of all maps but the store, per flow.
    flow_bytes: f64,
    failed_requests: u64,
}

/// Seconds that all CPUs of this machine were busy.
fn busy_s() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|v| v.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq (proc_stat(5)); what a host took away is not ours
    let [user, nice, system, _, _, irq, softirq, ..] = ticks[..] else { bail!("/proc/stat: {line}") };
    // SAFETY: plain call.
    let per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    Ok((user + nice + system + irq + softirq) / per_s)
}

fn received_bytes(cable: &Cable) -> Result<f64> {
    let out = cable.client.run(&["cat", "/proc/self/net/dev"])?;
    let text = String::from_utf8_lossy(&out.stdout);
    let line =
        text.lines().find_map(|l| l.trim().strip_prefix("eth0:")).context("no eth0 in /proc/net/dev")?;
    line.split_whitespace()
        .next()
        .and_then(|v| v.parse().ok())
        .with_context(|| format!("/proc/net/dev: {line}"))
}

/// What the maps take for each flow that fits in, stored data apart.
fn flow_bytes(attached: &Value) -> f64 {
    let flows = attached["flows_max"].as_f64().unwrap_or(1.0);
    let maps = attached["memory_bytes"].as_object();
    let apart = ["wl_store", "wl_segs", "wl_free_chunks"];
    maps.into_iter()
        .flatten()
        .filter(|(n, _)| !apart.contains(&n.as_str()))
        .filter_map(|(_, v)| v.as_f64())
        .sum::<f64>()
        / flows
}

fn load(settings: &Settings, connections: usize, seconds: u32, with_box: bool) -> Result<Load> {
    let cable = Cable::create(None)?;
    cable.client.run(&["sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65535"])?;
    for name in ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"] {
        cable.server.run(&["sysctl", "-qw", &format!("{name}=65535")])?;
    }
    let file = files::file_of(OBJECT_BYTES)?;
    let server = Server::start(&cable.server, connections)?;
    let attachment =
        if with_box { Some(cable.attach(settings, &["--alg", "bbr", "--stats"])?) } else { None };
    let (began, busy, received) = (Instant::now(), busy_s()?, received_bytes(&cable)?);
    let crowd = Crowd::start(&cable.client, SERVER, &file, connections, REQUESTS_PS, seconds)?.finish()?;
    let (spent_s, busy) = (began.elapsed().as_secs_f64(), busy_s()? - busy);
    let mut load = Load {
        busy_percent: 100.0 * busy / spent_s,
        rate_bps: (received_bytes(&cable)? - received) * 8.0 / spent_s,
        failed_requests: crowd.failed,
        ..Load::default()
    };
    if let Some(attachment) = attachment {
        load.flow_bytes = flow_bytes(attachment.attached());
        let (end, _) = attachment.release()?;
        let run_ns =
            end["run_times"].as_object().into_iter().flatten().filter_map(|(_, t)| t["run_ns"].as_f64());
        load.programs_percent = 100.0 * run_ns.sum::<f64>() / 1e9 / spent_s;
        load.flows = end["counters"]["flows_created"].as_f64().unwrap_or(0.0);
    }
    drop(server);
    Ok(load)
}

fn verdict(
    id: String,
    paper: Option<f64>,
    ours: Option<f64>,
    sign: &str,
    bound: f64,
    unit: &str,
    note: String,
) -> Verdict {
    let holds = ours.is_some_and(|o| if sign == "<=" { o <= bound } else { o >= bound });
    Verdict { id, paper, ours, bound: format!("{sign} {bound}"), holds, unit: unit.into(), runs: 0, note }
}

fn judge(connections: usize, pairs: &[(Load, Load)]) -> Vec<Verdict> {
    let median = |of: &dyn Fn(&(Load, Load)) -> f64| stats::median(&pairs.iter().map(of).collect::<Vec<_>>());
    let failed: u64 =
        pairs.iter().map(|(without, with)| without.failed_requests + with.failed_requests).sum();
    let flows = median(&|p| p.1.flows).unwrap_or(0.0);
    let without = median(&|p| p.0.busy_percent).unwrap_or(0.0);
    let mut verdicts = vec![
        verdict(
            format!("programs-{connections}"),
            Some(PAPER_PERCENT),
            median(&|p| p.1.programs_percent),
            "<=",
            BOUND_PERCENT,
            "% core",
            format!("time in Windlass' programs; {flows:.0} flows, {failed} failed requests"),
        ),
        verdict(
            format!("cpu-added-{connections}"),
            Some(PAPER_PERCENT),
            median(&|p| p.1.busy_percent - p.0.busy_percent),
            "<=",
            BOUND_PERCENT,
            "% core",
            format!("busy time of the whole machine, paired; {without:.0} % without"),
        ),
        verdict(
            format!("rate-{connections}"),
            None,
            median(&|p| p.1.rate_bps),
            ">=",
            BOUND_RATE_BPS,
            "bit/s",
            "towards the clients".into(),
        ),
    ];
    for verdict in &mut verdicts {
        verdict.runs = pairs.len();
    }
    verdicts
}

/// Puts more and more connections through the box and judges what it takes.
pub fn cpu(settings: &Settings) -> Result<Outcome> {
    let (counts, rounds, seconds): (&[usize], usize, u32) =
        if settings.quick { (&[1000, 20_000], 2, 20) } else { (&[1000, 5000, 10_000, 20_000], 7, 20) };
    let mut verdicts = Vec::new();
    let mut flow_bytes = 0.0;
    for &connections in counts {
        let mut pairs = Vec::new();
        for _ in 0..rounds {
            if settings.cancel.load(Ordering::Relaxed) {
                bail!("stopped");
            }
            let without = load(settings, connections, seconds, false)?;
            let with = load(settings, connections, seconds, true)?;
            flow_bytes = with.flow_bytes;
            pairs.push((without, with));
        }
        for verdict in judge(connections, &pairs) {
            if !settings.quiet {
                eprintln!("{verdict}");
            }
            verdicts.push(verdict);
        }
    }
    verdicts.push(verdict(
        "memory-per-flow".into(),
        None,
        Some(flow_bytes),
        "<=",
        BOUND_FLOW_BYTES,
        "bytes",
        "all maps but the store, by the number of flows they hold".into(),
    ));
    let title = "CPU and memory for many concurrent connections".into();
    let outcome = Outcome { name: NAME.into(), title, verdicts, runs: Vec::<RunRecord>::new() };
    outcome.write(&settings.out.join(NAME), settings.quick, &[], &[])?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_not_counted_as_memory_of_flows() {
        let attached = serde_json::json!({
            "flows_max": 100,
            "memory_bytes": { "wl_flows": 70_000, "wl_flow_ids": 10_000, "wl_store": 1_000_000 }
        });
        assert_eq!(flow_bytes(&attached), 800.0);
    }

    #[test]
    fn what_is_added_is_judged_pair_by_pair() {
        let of = |busy_percent| Load { busy_percent, rate_bps: 2e9, ..Load::default() };
        let verdicts = judge(10, &[(of(50.0), of(53.0)), (of(20.0), of(24.0)), (of(90.0), of(99.0))]);
        assert_eq!(verdicts[1].ours, Some(4.0));
        assert!(verdicts.iter().all(|v| v.holds));
    }
}
