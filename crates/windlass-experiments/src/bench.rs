//! What the datapath costs: goodput of iperf3 over a plain cable with GSO, paired with no program at all.

use crate::{claim::Verdict, report::Outcome, runner::Settings, stats};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Stdio},
    sync::atomic::Ordering,
};
use windlass_lab::netns::{self, Netns};

const ROUNDS: usize = 5;
const SECONDS: &str = "2";

/// What is on the interface.
const WAYS: [(&str, Option<[&str; 4]>); 3] = [
    ("none", None),
    ("watch", Some(["--alg", "bbr", "--mode", "watch"])),
    ("enforce", Some(["--alg", "cubic", "--mode", "transparent"])),
];

struct Cable {
    server: Netns,
    client: Netns,
    router: Netns,
}

impl Cable {
    /// server -- router -- client over veth; the router limits its way to the client if `limit` is given.
    fn create(limit: Option<&str>) -> Result<Cable> {
        let run = netns::next_run();
        let cable = Cable {
            server: Netns::create(run, "server")?,
            router: Netns::create(run, "router")?,
            client: Netns::create(run, "client")?,
        };
        for (host, subnet) in [(&cable.server, 1), (&cable.client, 2)] {
            let (device, own, gateway) =
                (format!("r{subnet}"), format!("10.78.{subnet}.2/24"), format!("10.78.{subnet}.1"));
            let name = cable.router.name();
            host.run(&["ip", "link", "add", "eth0", "type", "veth", "peer", "name", &device, "netns", name])?;
            host.run(&["ip", "addr", "add", &own, "dev", "eth0"])?;
            host.run(&["ip", "link", "set", "eth0", "up"])?;
            cable.router.run(&["ip", "addr", "add", &format!("{gateway}/24"), "dev", &device])?;
            cable.router.run(&["ip", "link", "set", &device, "up"])?;
            host.run(&["ip", "route", "add", "default", "via", &gateway])?;
        }
        cable.router.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
        cable.server.run(&["ip", "route", "replace", "default", "via", "10.78.1.1", "congctl", "cubic"])?;
        if let Some(rate) = limit {
            let words = [
                "tc", "qdisc", "add", "dev", "r2", "root", "tbf", "rate", rate, "burst", "1m", "limit", "4m",
            ];
            cable.router.run(&words)?;
        }
        Ok(cable)
    }

    fn attach(&self, settings: &Settings, args: [&str; 4]) -> Result<Child> {
        let program = settings.windlass.to_str().context("the binary's path is no UTF-8")?;
        let mut child = self
            .router
            .command(program)
            .args(["attach", "r1", "--json"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().context("piped")?);
        out.read_line(&mut line)?;
        if !line.contains("attached") {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                stderr.read_to_string(&mut said)?;
            }
            bail!("`windlass attach` did not start: {}", said.trim());
        }
        // what follows is one line at the end, which the pipe holds
        child.stdout = Some(out.into_inner());
        Ok(child)
    }

    /// Goodput from server to client in bit/s.
    fn measure(&self, flows: &str) -> Result<f64> {
        let mut server = self
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
        let out = self
            .server
            .command("iperf3")
            .args(["-c", "10.78.2.2", "-t", SECONDS, "-P", flows, "-J"])
            .output()?;
        server.wait()?;
        let value: Value = serde_json::from_slice(&out.stdout).context("what iperf3 prints")?;
        let rate = value["end"]["sum_received"]["bits_per_second"].as_f64();
        rate.with_context(|| format!("iperf3: {}", value["error"].as_str().unwrap_or("no result")))
    }
}

fn stop(child: &mut Child) {
    // SAFETY: our own child, not yet waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let _ = child.wait();
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
            let mut child = args.map(|a| cable.attach(settings, a)).transpose()?;
            let rate = cable.measure(flows);
            if let Some(child) = &mut child {
                stop(child);
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

/// Runs the benchmark and judges its claims.
pub fn bench_datapath(settings: &Settings) -> Result<Outcome> {
    let mut verdicts = Vec::new();
    for (limit, flows) in [(None, "1"), (None, "8"), (None, "64"), (Some("2gbit"), "8")] {
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
