//! What the datapath costs: goodput of iperf3 over a plain cable with GSO, paired with no program at all.

use crate::{
    cable::{CLIENT, Cable},
    claim::Verdict,
    report::Outcome,
    runner::Settings,
    stats,
};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
    sync::atomic::Ordering,
};

/// Single rounds on a machine with neighbours scatter by a third: many short ones give a better median than few long ones.
const ROUNDS: usize = 15;
const SECONDS: &str = "1";

/// What is on the interface.
const WAYS: [(&str, Option<[&str; 4]>); 3] = [
    ("none", None),
    ("watch", Some(["--alg", "bbr", "--mode", "watch"])),
    ("enforce", Some(["--alg", "cubic", "--mode", "transparent"])),
];

/// Goodput from server to client in bit/s.
fn measure(cable: &Cable, flows: &str) -> Result<f64> {
    let mut server = cable
        .client
        .command("iperf3")
        .args(["-s", "-1", "--forceflush"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("iperf3 (Debian: apt-get install iperf3)")?;
    let mut said = String::new();
    if let Some(out) = server.stdout.as_mut() {
        let mut lines = BufReader::new(out);
        while !said.contains("listening") && lines.read_line(&mut said)? > 0 {}
    }
    let out =
        cable.server.command("iperf3").args(["-c", CLIENT, "-t", SECONDS, "-P", flows, "-J"]).output()?;
    server.wait()?;
    let value: Value = serde_json::from_slice(&out.stdout).context("what iperf3 prints")?;
    let rate = value["end"]["sum_received"]["bits_per_second"].as_f64();
    rate.with_context(|| format!("iperf3: {}", value["error"].as_str().unwrap_or("no result")))
}

/// Ratios to no program at all, round by round, for each way.
fn ratios(
    settings: &Settings,
    limit: Option<&str>,
    flows: &str,
) -> Result<Vec<(&'static str, Vec<f64>, f64)>> {
    let cable = Cable::create(limit)?;
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); WAYS.len()];
    for _ in 0..ROUNDS {
        for (index, (_, args)) in WAYS.iter().enumerate() {
            if settings.cancel.load(Ordering::Relaxed) {
                bail!("stopped");
            }
            let attachment = args.map(|a| cable.attach(settings, &a)).transpose()?;
            let rate = measure(&cable, flows);
            if let Some(attachment) = attachment {
                attachment.release()?;
            }
            rates[index].push(rate?);
        }
    }
    let (none, rest) = rates.split_at(1);
    Ok(WAYS[1..]
        .iter()
        .zip(rest)
        .map(|((name, _), own)| {
            let pairs = own.iter().zip(&none[0]).map(|(a, b)| a / b).collect();
            (*name, pairs, stats::median(own).unwrap_or(0.0))
        })
        .collect())
}

/// What each program costs per packet, and the whole per KiB of payload, by the kernel's own run-time statistics.
fn costs(settings: &Settings, flows: &str) -> Result<Vec<String>> {
    let cable = Cable::create(None)?;
    let mut lines = Vec::new();
    for (name, args) in WAYS {
        let Some(args) = args else { continue };
        let attachment = cable.attach(settings, &[&args[..], &["--stats"]].concat())?;
        measure(&cable, flows)?;
        let (end, _) = attachment.release()?;
        let time = |program: &str, what: &str| end["run_times"][program][what].as_f64().unwrap_or(0.0);
        let mean_ns = |program: &str| time(program, "run_ns") / time(program, "runs").max(1.0);
        let all_ns: f64 =
            ["wl_from_sender", "wl_to_sender", "wl_clock"].iter().map(|p| time(p, "run_ns")).sum();
        // what is only watched is not stored: its bytes are those delivered
        let stored = end["counters"]["stored_bytes"].as_f64().unwrap_or(0.0);
        let watched = end["counters"]["watched_bytes"].as_f64().unwrap_or(0.0);
        lines.push(format!(
            "{name}, {flows} flows: {:.0} ns per data packet, {:.0} ns per ACK, {:.0} ns per round of the clock; \
             {:.1} ns per KiB in all",
            mean_ns("wl_from_sender"),
            mean_ns("wl_to_sender"),
            mean_ns("wl_clock"),
            all_ns * 1024.0 / (stored + watched).max(1.0),
        ));
    }
    Ok(lines)
}

/// Runs the benchmark and judges its claims.
pub fn bench_datapath(settings: &Settings) -> Result<Outcome> {
    let mut verdicts = Vec::new();
    for (limit, flows) in [(None, "1"), (None, "8"), (None, "64"), (Some("2gbit"), "8")] {
        if limit.is_none() {
            costs(settings, flows)?.iter().for_each(|line| eprintln!("{line}"));
        }
        for (way, pairs, median_bps) in ratios(settings, limit, flows)? {
            let bound = match (limit, way) {
                (Some(_), _) => 0.99,
                (None, "watch") => 0.95,
                _ => 0.65,
            };
            let ours = stats::median(&pairs);
            let spread = (
                pairs.iter().copied().fold(f64::MAX, f64::min),
                pairs.iter().copied().fold(f64::MIN, f64::max),
            );
            verdicts.push(Verdict {
                id: format!("{way}-{}-{flows}-flows", limit.unwrap_or("unlimited")),
                paper: None,
                ours,
                bound: format!(">= {bound}"),
                holds: ours.is_some_and(|o| o >= bound),
                unit: "ratio".into(),
                runs: pairs.len(),
                note: format!("{:.2} to {:.2}; median {:.2} Gbit/s", spread.0, spread.1, median_bps / 1e9),
            });
            eprintln!("{}", verdicts.last().expect("just pushed"));
        }
    }
    let title = "goodput with the datapath, as a ratio to no program at all, paired".into();
    Ok(Outcome { name: "datapath".into(), title, verdicts, runs: Vec::new() })
}
