//! One run of a scenario.

use crate::{
    boxed::BoxProcess,
    coupled, files,
    link_emulator::Emulator,
    native,
    netns::{self, Netns},
    panic_message::panic_message,
    parameters,
    player::{self, Stage, unplayed},
    policy,
    stop::{check_stopped, is_stopped},
    topology::{Family, Topology},
    traffic::{Capture, Client, Server, tcp_counters},
};
use anyhow::{Context, Result};
use std::{
    collections::BTreeMap,
    num::NonZeroU64,
    path::PathBuf,
    sync::atomic::AtomicBool,
    thread,
    time::{Duration, Instant},
};
use windlass_agent::raise_limits;
use windlass_scenario::{
    Flow, FlowReport, Intervals, LinkReport, Mode, RunReport, Scenario, Size, Train, Windlass, box_error,
    mean_rtt_ms,
};

/// How to run.
#[derive(Clone, Debug)]
pub struct RunOptions<'a> {
    /// The `windlass` binary, which the box runs.
    pub windlass: PathBuf,
    /// Set to stop early; flows that have not finished are reported as failed.
    pub cancel: Option<&'a AtomicBool>,
    /// Record in intervals of that length what arrived of each flow, and the queues of emulated links. All flows are then played as
    /// those of several responses are, for curl does not report when what arrived.
    pub interval_ns: Option<NonZeroU64>,
    /// Have Windlass report its flows so often.
    pub sample_ms: Option<u64>,
    /// Write captures of both sides of the box into this folder: servers.pcap, clients.pcap.
    pub captures: Option<PathBuf>,
    /// How much of each packet a capture keeps.
    pub capture_bytes: u32,
    /// How long emulators may spin before a packet is due, and whether they have precedence over the hosts (not with 0):
    /// exactness for CPU time, of a run that is alone on this machine. One at a time does.
    pub spin_us: u64,
    /// IPv4 or IPv6.
    pub family: Family,
    /// What plays the links; the kernel does not measure their queues.
    pub emulator: Emulator,
    /// More arguments for `windlass attach`.
    pub attach_args: Vec<String>,
    /// Have an agent be the box instead, and make this a link to the socket at which it answers readers. It reports no samples.
    pub readers: Option<PathBuf>,
}

impl RunOptions<'_> {
    /// Plain runs with that binary.
    pub fn new(windlass: PathBuf) -> Self {
        RunOptions {
            windlass,
            cancel: None,
            interval_ns: None,
            sample_ms: None,
            captures: None,
            capture_bytes: 128,
            spin_us: 0,
            family: Family::V4,
            emulator: Emulator::Own,
            attach_args: Vec::new(),
            readers: None,
        }
    }
}

/// Runs the scenario with real kernels. Needs root. Leaves nothing behind.
pub fn run(scenario: &Scenario, options: &RunOptions) -> Result<RunReport> {
    let result = run_once(scenario, options);
    // a terminal's Ctrl-C reaches the programs as well that hosts are made with: what fails then has not failed of itself
    if result.is_err() {
        check_stopped(options.cancel)?;
    }
    result
}

fn run_once(scenario: &Scenario, options: &RunOptions) -> Result<RunReport> {
    netns::check_root()?;
    raise_limits();
    // before Windlass' own algorithms are loaded, which takes as long as making namespaces
    options.emulator.check(scenario).with_context(|| scenario.name.clone())?;
    let named = native::with_own_names(&coupled::without_coupling(scenario), &options.windlass)?;
    let RunOptions { emulator, spin_us, family, cancel, .. } = *options;
    let topology = Topology::create_by(&named, emulator, spin_us, family, cancel)?;
    let senders = distinct(scenario.flows.iter().map(|f| f.from.as_str()));
    let receivers = distinct(scenario.flows.iter().map(|f| f.to.as_str()));
    let cgroups = coupled::cgroups(scenario)?;
    let mut servers = Vec::new();
    for sender in &senders {
        check_stopped(cancel)?;
        let connections = scenario.flows.iter().filter(|f| f.from == *sender).map(connections_at_once).sum();
        servers.push(Server::start_in(topology.host(sender), connections, cgroups.get(*sender))?);
    }
    let coupling = coupled::start(scenario, &cgroups, &options.windlass, &topology)?;
    let boxed = match &scenario.windlass {
        Some(w) => Some(start_box(&topology, scenario, w, options)?),
        None => None,
    };
    let captures = start_captures(&topology, scenario, options)?;
    let before = (sum_counters(&topology, &senders)?, sum_counters(&topology, &receivers)?);
    let began = Instant::now();
    let (mut flows, interval_bytes): (Vec<FlowReport>, Vec<Vec<u64>>) =
        transfer(&topology, scenario, options)?.into_iter().unzip();
    // before the box leaves: a server that is handed back to its own kernel sends all of that one's window
    for (report, flow) in flows.iter_mut().zip(&scenario.flows) {
        report.longest_burst_segs = topology.longest_burst_segs(&flow.from, &flow.to);
    }
    let ended_s = began.elapsed().as_secs_f64();
    let queues = topology.looks();
    let after = (sum_counters(&topology, &senders)?, sum_counters(&topology, &receivers)?);
    captures.into_iter().try_for_each(Capture::finish)?;
    let (mut windlass, samples) = match boxed {
        Some(b) => b.finish()?,
        None => Default::default(),
    };
    let box_error = scenario.windlass.as_ref().and_then(|w| box_error(w, &windlass));
    // one that was stopped may have had no flow yet
    let box_error = box_error.filter(|_| !is_stopped(cancel));
    if let Some(coupling) = coupling {
        windlass.extend(coupling.finish()?.0);
    }
    drop(servers);
    drop(cgroups);
    let sent = |name: &str| grown(&before.0, &after.0, name);
    let handshake_retrans_segs = sent("TCPSynRetrans");
    // a SYN-ACK goes again when a SYN comes again, or when its own timer runs out; the kernel counts that as a timeout
    let handshake_timeouts =
        handshake_retrans_segs.saturating_sub(grown(&before.1, &after.1, "TCPSynRetrans"));
    let links = link_reports(scenario, topology, options.emulator)?;
    let mean_rtt_ms = mean_rtt_ms(scenario, &links);
    Ok(RunReport {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
        flows,
        links,
        ended_s,
        intervals: options.interval_ns.map(|every_ns| intervals(every_ns, interval_bytes, queues)),
        mean_rtt_ms,
        sender_retrans_segs: sent("RetransSegs").saturating_sub(handshake_retrans_segs),
        sender_timeouts: sent("TCPTimeouts").saturating_sub(handshake_timeouts),
        sender_probes: sent("TCPLossProbes"),
        handshake_retrans_segs,
        windlass,
        box_error,
        samples,
    })
}

/// How many connections of a flow are open at a time.
fn connections_at_once(flow: &Flow) -> usize {
    let of_train = |train: &Train| match &train.size {
        Size::Page(page) => page.connections as usize,
        _ => 1,
    };
    flow.trains.iter().map(of_train).max().unwrap_or(1)
}

/// Of flows some of which were over before others. What was seen of links after the last of them is left out; the last interval has not
/// ended then, and at its end nothing queues any more.
fn intervals(
    every_ns: NonZeroU64,
    mut flow_bytes: Vec<Vec<u64>>,
    mut link_packets: Vec<Vec<u32>>,
) -> Intervals {
    let most = flow_bytes.iter().map(Vec::len).max().unwrap_or(0);
    flow_bytes.iter_mut().for_each(|bytes| bytes.resize(most, 0));
    link_packets.iter_mut().for_each(|packets| packets.resize(most, 0));
    Intervals { every_s: every_ns.get() as f64 / 1e9, flow_bytes, link_packets }
}

fn start_box(
    topology: &Topology,
    scenario: &Scenario,
    w: &Windlass,
    options: &RunOptions,
) -> Result<BoxProcess> {
    let mode = if w.mode == Mode::Watch { "watch" } else { "transparent" };
    let group = scenario.groups.iter().find(|g| Some(&g.name) == w.group.as_ref());
    let folder = topology.host(&w.at).folder()?;
    let iface = topology.interface(&w.at, &w.facing)?;
    let address_of = |host: &str| topology.address_of(host);
    if let Some(readers) = &options.readers {
        let file = policy::write(scenario, w, group, Some(&iface), &folder, address_of)?;
        let host = topology.host(&w.at);
        return BoxProcess::start_agent(host, &options.windlass, &iface, file.path(), readers);
    }
    let policy = group.map(|_| policy::write(scenario, w, group, None, &folder, address_of)).transpose()?;
    let mut args: Vec<String> = match &policy {
        Some(file) => vec!["--policy".into(), file.path().display().to_string()],
        None => {
            let mut args: Vec<String> = ["--alg", &w.algorithm, "--mode", mode].map(String::from).into();
            args.extend(parameters::arguments(&scenario.parameters.for_rule_of(&w.algorithm)));
            args
        }
    };
    args.extend(options.attach_args.iter().cloned());
    if let Some(ms) = options.sample_ms {
        args.extend(["--sample-ms".into(), ms.to_string()]);
    }
    BoxProcess::start(topology.host(&w.at), &options.windlass, &iface, &args)
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn grown(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>, name: &str) -> u64 {
    after.get(name).unwrap_or(&0).saturating_sub(*before.get(name).unwrap_or(&0))
}

fn link_reports(scenario: &Scenario, topology: Topology, emulator: Emulator) -> Result<Vec<LinkReport>> {
    let (mut reports, names) = (Vec::new(), scenario.directions());
    for (index, stats) in topology.finish()? {
        for (stats, name) in stats.into_iter().zip(&names[index]) {
            let mean_queue_ms = (emulator == Emulator::Own).then(|| stats.mean_queue_ms());
            reports.push(LinkReport { name: name.clone(), stats, mean_queue_ms });
        }
    }
    Ok(reports)
}

fn sum_counters(topology: &Topology, hosts: &[&str]) -> Result<BTreeMap<String, u64>> {
    let mut sum = BTreeMap::new();
    for host in hosts {
        for (name, value) in tcp_counters(topology.host(host))? {
            *sum.entry(name).or_insert(0) += value;
        }
    }
    Ok(sum)
}

fn start_captures(topology: &Topology, scenario: &Scenario, options: &RunOptions) -> Result<Vec<Capture>> {
    let (Some(folder), Some(w)) = (&options.captures, &scenario.windlass) else { return Ok(Vec::new()) };
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let other = scenario
        .links
        .iter()
        .filter(|l| l.between.contains(&w.at) && !l.between.contains(&w.facing))
        .flat_map(|l| l.between.iter())
        .find(|h| **h != w.at)
        .with_context(|| format!("{} has no other side to capture", w.at))?;
    let facing = topology.interface(&w.facing, &w.at)?;
    let away = topology.interface(&w.at, other)?;
    Ok(vec![
        Capture::start(
            topology.host(&w.facing),
            &facing,
            &folder.join("servers.pcap"),
            options.capture_bytes,
        )?,
        Capture::start(topology.host(&w.at), &away, &folder.join("clients.pcap"), options.capture_bytes)?,
    ])
}

/// A flow, and its payload that arrived in each interval, if that is recorded.
type Played = (FlowReport, Vec<u64>);

/// Runs all transfers, each from its own start on.
fn transfer(topology: &Topology, scenario: &Scenario, options: &RunOptions) -> Result<Vec<Played>> {
    let mut files = Vec::new();
    for flow in &scenario.flows {
        // curl cannot be given a limit of its window, nor does it report when what arrived
        let is_for_curl = flow.receive_window_max.is_none() && options.interval_ns.is_none();
        let fetched = flow.single_size().filter(|_| is_for_curl);
        files.push(match fetched {
            Some(size_bytes) => {
                let name = files::file_unless(size_bytes, options.cancel)?;
                (Some(files::digest_unless(&name, options.cancel)?), name)
            }
            None => (None, player::file_for(flow, options.cancel)?),
        });
    }
    let begin = Instant::now();
    if let Some(every_ns) = options.interval_ns {
        topology.begin_looks(every_ns);
    }
    let limit = Duration::from_secs_f64(scenario.time_limit.0);
    thread::scope(|scope| {
        let running: Vec<_> = scenario
            .flows
            .iter()
            .zip(&files)
            .enumerate()
            .map(|(index, (flow, (digest, file)))| {
                let (client, server) = (topology.host(&flow.to), topology.address_of(&flow.from));
                scope.spawn(move || {
                    wait_until(begin + Duration::from_secs_f64(flow.start.0), options.cancel);
                    if let Some(digest) = digest {
                        let left = (begin + limit).saturating_duration_since(Instant::now());
                        let report = fetch(client, &server, flow, file, digest, left, options.cancel);
                        return (report, Vec::new());
                    }
                    let (seed, limit_ns) = (scenario.seed, scenario.time_limit.ns());
                    let RunOptions { cancel, interval_ns, .. } = *options;
                    let stage =
                        Stage { client, server: &server, seed, index, begin, limit_ns, interval_ns, cancel };
                    player::play(&stage, flow, file)
                })
            })
            .collect();
        let reports = running.into_iter().zip(&scenario.flows).map(|(r, flow)| {
            r.join().unwrap_or_else(|why| {
                let error = format!("its client panicked: {}", panic_message(&*why));
                (FlowReport { error: Some(error), ..unplayed(flow) }, Vec::new())
            })
        });
        Ok(reports.collect())
    })
}

/// Waits for a flow's start, or until the run is stopped.
fn wait_until(due: Instant, cancel: Option<&AtomicBool>) {
    let mut left = due.saturating_duration_since(Instant::now());
    while !left.is_zero() && !is_stopped(cancel) {
        thread::sleep(left.min(Duration::from_millis(100)));
        left = due.saturating_duration_since(Instant::now());
    }
}

fn fetch(
    client: &Netns,
    server: &str,
    flow: &Flow,
    file: &str,
    digest: &str,
    limit: Duration,
    cancel: Option<&AtomicBool>,
) -> FlowReport {
    let mut report = unplayed(flow);
    if is_stopped(cancel) {
        report.error = Some("stopped before it began".into());
        return report;
    }
    match Client::start(client, server, file, limit).and_then(|c| c.finish(cancel)) {
        Ok(fetched) => {
            report.completion_s = Some(fetched.completion_s);
            report.first_byte_s = Some(fetched.first_byte_s);
            report.first_due_s = Some(0.0);
            report.bytes = fetched.bytes;
            report.goodput_bps = fetched.bytes as f64 * 8.0 / fetched.completion_s.max(1e-9);
            report.checksum_ok = fetched.sha256 == digest;
        }
        Err(error) => report.error = Some(format!("{error:#}")),
    }
    report
}
