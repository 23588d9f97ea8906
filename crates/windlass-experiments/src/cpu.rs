//! Figure 7b of TCon: the CPU that a box takes for many concurrent connections, and the memory of a flow.
//!
//! The paper puts 1,000 to 20,000 connections on a link of 1 Gbit/s. Here the load is the same for every number of
//! connections: pages, requested at an even rate by all connections in turn, a little more than 1 Gbit/s in all. It is
//! measured while all connections are open, in two ways: the busy time of the whole machine with the box less that
//! without it, and after that the time spent in Windlass' programs by the kernel's own clock, which is not free itself.
//! The former also counts what the box has others do (its clock's frames, more and smaller bursts); single differences
//! scatter as neighbours on the same machine do, so there are many pairs, in turn begun with and without, of which the
//! median counts. A pair of which other processes took a tenth of a core, or from one load more than from the other, is
//! measured again.
//!
//! Where it goes, of 20,000 connections on two cores of a shared machine (EPYC, Linux 6.18), in per cent of a core:
//!
//! - 2.9 to 3.8 in the programs: about 2.1 for data packets (9,900 a second), more than half of it copying 1.1 Gbit/s into the
//!   store, and 1.4 for ACKs (9,700 a second). In a profile no step stands out; eight calls of functions less made ACKs a
//!   tenth cheaper, as returns are dear where the processor needs the mitigation of SRSO. The machine's own speed differs by
//!   a third within an hour, and all this with it.
//! - 0.8 for the clock, most of it not in its program: a round costs 16 us, as each wakes an idle CPU of a virtual machine
//!   and programs its timer. It comes by 580 times a second for tails, nearly all of which are acknowledged in time: every
//!   2 ms, and once more where its rest, in whole rounds, ends before the slot of the wheel that it waits for.
//!
//! Nothing else is more with the box than without, as far as a profile shows it (0.3): packets, their sizes, context
//! switches and wake-ups are the same within a few per cent. What is left of a difference above these is the machine's: its
//! kernel's own threads (DAMON) alone take between 0.6 and 2.8, and the same load without the box between 22.5 and 26.2.

use crate::{
    cable::{Cable, SERVER},
    claim::{Origin, Side, Verdict},
    other_processes,
    record::RunRecord,
    report::Outcome,
    settings::Settings,
    stats,
};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    fs, thread,
    time::{Duration, Instant},
};
use windlass_agent::RunTimeStats;
use windlass_lab::{BoxProcess, Crowd, CrowdLoad, Server, files};

/// Its name among the experiments.
pub const NAME: &str = "tcon-cpu";
/// What it is about, in a line.
pub const TITLE: &str = "CPU and memory for many concurrent connections";

/// Every connection requests this again and again: a page of the web.
const OBJECT_BYTES: u64 = 125_000;
/// 1.1 Gbit/s of payload, however many connections share it.
const REQUESTS_PS: usize = 1100;
/// Measured for so long: each of 20,000 connections makes one request.
const WINDOW_S: f64 = 18.0;
/// ... of which at the end not the machine is, but the programs.
const PROGRAMS_S: f64 = 4.0;
/// A pair during which other processes took more than this is measured again,
const OTHERS_PERCENT: f64 = 10.0;
/// ... and one of whose loads they took more than the other by so much.
const OTHERS_DIFFER_PERCENT: f64 = 1.0;
/// ... at most so often for each that is wanted.
const TRIES: usize = 3;
const LOOK: Duration = Duration::from_millis(100);
const PAPER_PERCENT: f64 = 15.0;
const BOUND_PERCENT: f64 = 5.0;
const BOUND_RATE_BPS: f64 = 1e9;
const BOUND_FLOW_BYTES: f64 = 1024.0;

/// One load, with or without the box.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// CPU time that the whole machine spent, in per cent of one core.
    busy_percent: f64,
    /// ... of which other processes of this machine did.
    others_percent: f64,
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

/// Seconds that all CPUs of this machine were busy since some time in the past. From their idle time, which the kernel
/// measures; what it counts as user's or system's is sampled when its tick comes, often in step with what is measured.
fn busy_s() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|v| v.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal (proc_stat(5))
    let [_, _, _, idle, iowait, _, _, steal, ..] = ticks[..] else { bail!("/proc/stat: {line}") };
    // SAFETY: plain calls.
    let (per_s, cpus) =
        unsafe { (libc::sysconf(libc::_SC_CLK_TCK), libc::sysconf(libc::_SC_NPROCESSORS_ONLN)) };
    // what a host took away is not ours
    Ok(cpus as f64 * uptime_s() - (idle + iowait + steal) / per_s as f64)
}

fn uptime_s() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live local; this clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
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
    let apart = [
        "wl_store",
        "wl_segs",
        "wl_free_chunks",
        "wl_spare_chunks",
        "wl_splits",
        "wl_split_chunks",
        "wl_tables",
        "wl_free_tables",
    ];
    maps.into_iter()
        .flatten()
        .filter(|(n, _)| !apart.contains(&n.as_str()))
        .filter_map(|(_, v)| v.as_f64())
        .sum::<f64>()
        / flows
}

/// What has been spent and moved so far.
struct Meter {
    at: Instant,
    busy_s: f64,
    others_s: f64,
    received_bytes: f64,
}

impl Meter {
    fn read(cable: &Cable) -> Result<Meter> {
        let (received_bytes, others_s) = (received_bytes(cable)?, other_processes::busy_s()?);
        Ok(Meter { at: Instant::now(), busy_s: busy_s()?, others_s, received_bytes })
    }
}

/// CPU time that the box's programs take, in per cent of one core.
fn programs_percent(settings: &Settings, attachment: &BoxProcess) -> Result<f64> {
    let _times = RunTimeStats::enable()?;
    let (at, before_ns) = (Instant::now(), attachment.run_time_ns()?);
    wait(settings, PROGRAMS_S)?;
    let spent_ns = attachment.run_time_ns()?.saturating_sub(before_ns);
    Ok(100.0 * spent_ns as f64 / 1e9 / at.elapsed().as_secs_f64())
}

fn wait(settings: &Settings, seconds: f64) -> Result<()> {
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        settings.check_stopped()?;
        thread::sleep(LOOK.min(end - Instant::now()));
    }
    Ok(())
}

fn load(settings: &Settings, connections: usize, with_box: bool) -> Result<Load> {
    let cable = Cable::create(None)?;
    cable.client.run(&["sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65535"])?;
    for name in ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"] {
        cable.server.run(&["sysctl", "-qw", &format!("{name}=65535")])?;
    }
    let file = files::file_of(OBJECT_BYTES)?;
    let server = Server::start(&cable.server, connections)?;
    let attachment = if with_box { Some(cable.attach(settings, &["--alg", "bbr"])?) } else { None };
    let wanted = CrowdLoad { clients: connections, requests_ps: REQUESTS_PS, seconds: WINDOW_S };
    let crowd = Crowd::start(&cable.client, SERVER, &file, &wanted)?;
    wait(settings, wanted.period_s())?;
    let before = Meter::read(&cable)?;
    wait(settings, WINDOW_S - PROGRAMS_S)?;
    let after = Meter::read(&cable)?;
    let spent_s = (after.at - before.at).as_secs_f64();
    let mut load = Load {
        busy_percent: 100.0 * (after.busy_s - before.busy_s) / spent_s,
        others_percent: 100.0 * (after.others_s - before.others_s) / spent_s,
        programs_percent: attachment.as_ref().map_or(Ok(0.0), |a| programs_percent(settings, a))?,
        rate_bps: (after.received_bytes - before.received_bytes) * 8.0 / spent_s,
        failed_requests: crowd.finish()?.failed,
        ..Load::default()
    };
    if let Some(attachment) = attachment {
        load.flow_bytes = flow_bytes(attachment.attached());
        let (end, _) = attachment.release()?;
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
    let origin = Origin::of(paper, if sign == "<=" { Side::AtMost } else { Side::AtLeast }, bound);
    let bound = format!("{sign} {bound}");
    Verdict { id, origin, paper, ours, bound, holds, unit: unit.into(), note, ..Verdict::default() }
}

/// The median of `of`, and in words from where to where the middle half of its values is.
fn middle(pairs: &[(Load, Load)], of: impl Fn(&(Load, Load)) -> f64) -> (Option<f64>, String) {
    let values: Vec<f64> = pairs.iter().map(of).collect();
    let at = |q| stats::quantile(&values, q).unwrap_or(0.0);
    (stats::median(&values), format!("middle half {:.1} to {:.1}", at(0.25), at(0.75)))
}

fn judge(connections: usize, pairs: &[(Load, Load)]) -> Vec<Verdict> {
    let failed: u64 =
        pairs.iter().map(|(without, with)| without.failed_requests + with.failed_requests).sum();
    let controlled = stats::quantile(&pairs.iter().map(|p| p.1.flows).collect::<Vec<_>>(), 0.0);
    let without = middle(pairs, |p| p.0.busy_percent).0.unwrap_or(0.0);
    let rate_without = middle(pairs, |p| p.0.rate_bps).0.unwrap_or(0.0);
    let (programs, programs_spread) = middle(pairs, |p| p.1.programs_percent);
    let others = pairs.iter().map(|p| p.0.others_percent.max(p.1.others_percent)).fold(0.0, f64::max);
    let (added, added_spread) = middle(pairs, |p| p.1.busy_percent - p.0.busy_percent);
    let mut verdicts = vec![
        verdict(
            format!("programs-{connections}"),
            Some(PAPER_PERCENT),
            programs,
            "<=",
            BOUND_PERCENT,
            "% core",
            format!("time in Windlass' programs, by the kernel's clock; {programs_spread}"),
        ),
        verdict(
            format!("cpu-added-{connections}"),
            Some(PAPER_PERCENT),
            added,
            "<=",
            BOUND_PERCENT,
            "% core",
            format!(
                "busy time of the whole machine, paired; {added_spread}; {without:.0} % without; other processes up to {others:.1} %"
            ),
        ),
        verdict(
            format!("rate-{connections}"),
            None,
            middle(pairs, |p| p.1.rate_bps).0,
            ">=",
            BOUND_RATE_BPS,
            "bit/s",
            format!(
                "towards the clients; {} requests of {} KB a second; {:.3} Gbit/s without",
                REQUESTS_PS,
                OBJECT_BYTES / 1000,
                rate_without / 1e9
            ),
        ),
        verdict(
            format!("controlled-{connections}"),
            None,
            controlled,
            ">=",
            connections as f64,
            "flows",
            "the fewest of any load".into(),
        ),
        verdict(
            format!("failed-requests-{connections}"),
            None,
            (!pairs.is_empty()).then_some(failed as f64),
            "<=",
            0.0,
            "",
            "of all loads, with and without the box".into(),
        ),
    ];
    for verdict in &mut verdicts {
        verdict.runs = pairs.len();
    }
    verdicts
}

/// The load without and with the box, in the order wanted. What other work on the machine spoils is measured again, a few times.
fn undisturbed_pair(settings: &Settings, connections: usize, box_first: bool) -> Result<(Load, Load)> {
    let mut tries = 1;
    loop {
        let first = load(settings, connections, box_first)?;
        let second = load(settings, connections, !box_first)?;
        let others_percent = first.others_percent.max(second.others_percent);
        let differ_percent = (first.others_percent - second.others_percent).abs();
        let is_disturbed = others_percent > OTHERS_PERCENT || differ_percent > OTHERS_DIFFER_PERCENT;
        if !is_disturbed || tries == TRIES {
            return Ok(if box_first { (second, first) } else { (first, second) });
        }
        tries += 1;
        if !settings.quiet {
            eprintln!(
                "other processes took {:.1} and {:.1} % of a core: this pair is measured again",
                first.others_percent, second.others_percent
            );
        }
    }
}

/// Puts more and more connections through the box and judges what it takes.
pub fn cpu(settings: &Settings) -> Result<Outcome> {
    let (counts, rounds): (&[usize], usize) =
        if settings.quick { (&[1000, 20_000], 2) } else { (&[1000, 5000, 10_000, 20_000], 9) };
    let mut verdicts = Vec::new();
    let mut flow_bytes = 0.0;
    for &connections in counts {
        let mut pairs = Vec::new();
        for round in 0..rounds {
            let pair = undisturbed_pair(settings, connections, round % 2 == 1)?;
            flow_bytes = pair.1.flow_bytes;
            pairs.push(pair);
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
    let title = TITLE.into();
    let outcome =
        Outcome { name: NAME.into(), title, verdicts, tables: Vec::new(), runs: Vec::<RunRecord>::new() };
    outcome.write(&settings.folder(NAME), settings.quick, &[], &[])?;
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
        let of = |busy_percent| Load { busy_percent, rate_bps: 2e9, flows: 10.0, ..Load::default() };
        let mut pairs = [(of(50.0), of(53.0)), (of(20.0), of(24.0)), (of(90.0), of(99.0))];
        let verdicts = judge(10, &pairs);
        assert_eq!(verdicts[1].ours, Some(4.0));
        assert!(verdicts.iter().all(|v| v.holds));
        // what is cheap as it does not take place shows nothing
        pairs[1].1.flows = 9.0;
        pairs[2].0.failed_requests = 1;
        let failing: Vec<String> = judge(10, &pairs).into_iter().filter(|v| !v.holds).map(|v| v.id).collect();
        assert_eq!(failing, ["controlled-10", "failed-requests-10"]);
    }
}
