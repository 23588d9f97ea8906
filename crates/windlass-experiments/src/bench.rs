//! What the datapath costs: goodput of iperf3 over a plain cable with GSO, paired with no program at all.
//!
//! Where only two processors limit it, goodput has two states: either the receiver always finds more to read, or it is just
//! fast enough to fall asleep between packets, and the sender's processor, the busier one then, must wake it for each. Some
//! turns with nothing on the interface are in the slow state as well, and what makes the sender's side a little slower puts
//! more of them there, so that a ratio covers more than the programs' own time. Eight flows also have a state in which the
//! receivers' buffers are full: each read then lets data out on the reader's processor, which sends, stores and delivers them
//! besides (26 of 60 Gbit/s; 96 % of it busy, and half of the sender's).

use crate::{
    cable::{CLIENT, Cable},
    claim::Verdict,
    cpu_spinners::{CpuSpinners, allowed_cpus},
    report::Outcome,
    settings::Settings,
    stats,
    summary::{Filled, Row},
};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
};
use windlass_lab::{BoxProcess, netns::Netns, tools};

/// Turns of each way. Goodput that nothing but the CPU limits varies by a tenth from second to second.
const ROUNDS: usize = 12;
/// ... on a link that limits it.
const ROUNDS_LIMITED: usize = 4;
const SECONDS: &str = "1";

/// What is on the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Nothing,
    /// A program at both hooks that does nothing: what the hooks themselves cost.
    Empty,
    Windlass([&'static str; 4]),
    /// An agent that controls.
    Agent(Reading),
}

/// What reads what an agent's datapath does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Nothing,
    /// Metrics without histograms, and pages: no client asks for either.
    Idle,
    /// Records: ledgers are kept, and written.
    Records,
}

/// By agents: each beside one that nothing reads.
const AGENTS: [(&str, Way); 2] =
    [("idle", Way::Agent(Reading::Idle)), ("records", Way::Agent(Reading::Records))];
/// Flows of their loads, which nothing else limits.
const AGENTS_FLOWS: [&str; 2] = ["1", "8"];
const POLICY: &str = "[[rule]]\nname = \"all\"\nmatch = { iface = \"r1\" }\nalgorithm = \"cubic\"\n";

const WAYS: [(&str, Way); 4] = [
    // the control: nothing beside nothing must come out as 1, and how far around it shows what a ratio is worth
    ("none", Way::Nothing),
    ("empty", Way::Empty),
    ("watch", Way::Windlass(["--alg", "bbr", "--mode", "watch"])),
    ("enforce", Way::Windlass(["--alg", "cubic", "--mode", "transparent"])),
];

/// Limit of the link and flows of each load.
const LOADS: [(Option<&str>, &str); 4] = [(None, "1"), (None, "8"), (None, "64"), (Some("2gbit"), "8")];

/// The programs' names in the kernel's statistics; a run of each is for what stands in its place below.
const PROGRAMS: [&str; 3] = ["wl_from_sender", "wl_to_sender", "wl_clock"];
const COSTS: [&str; 4] = ["data packet", "ACK", "clock's round", "KiB in all"];

/// Return 0, in the classic BPF that tc takes as text: no match, the packet goes on.
const EMPTY_PROGRAM: &str = "1,6 0 0 0";

/// The bench: hosts on cables, and CPUs that are the same in every turn.
struct Bench<'a> {
    settings: &'a Settings,
    cable: Cable,
    /// Of the client and of the server of iperf3, as its option -A has them.
    cpus: String,
}

impl Bench<'_> {
    fn new<'a>(settings: &'a Settings, limit: Option<&str>) -> Result<Bench<'a>> {
        tools::check("iperf3", "iperf3")?;
        let cpus = allowed_cpus()?;
        let (first, last) = (cpus.first().context("no CPU")?, cpus.last().context("no CPU")?);
        Ok(Bench { settings, cable: Cable::create(limit)?, cpus: format!("{first},{last}") })
    }

    /// Goodput from server to client in bit/s.
    fn measure(&self, flows: &str) -> Result<f64> {
        let _server = Listening::start(&self.cable.client)?;
        let args = ["-c", CLIENT, "-t", SECONDS, "-P", flows, "-A", &self.cpus, "-J"];
        let out = self.cable.server.command("iperf3").args(args).output()?;
        goodput_bps(&out.stdout)
    }

    fn add_empty_programs(&self) -> Result<()> {
        self.cable.router.run(&["tc", "qdisc", "add", "dev", "r1", "clsact"])?;
        for side in ["ingress", "egress"] {
            let words = ["tc", "filter", "add", "dev", "r1", side, "bpf", "bytecode", EMPTY_PROGRAM];
            self.cable.router.run(&words)?;
        }
        Ok(())
    }

    /// One turn: goodput with that on the interface.
    fn turn(&self, way: Way, flows: &str) -> Result<f64> {
        self.settings.check_stopped()?;
        match way {
            Way::Nothing => self.measure(flows),
            Way::Empty => {
                self.add_empty_programs()?;
                let rate = self.measure(flows);
                self.cable.router.run(&["tc", "qdisc", "del", "dev", "r1", "clsact"])?;
                rate
            }
            Way::Windlass(args) => {
                let attachment = self.cable.attach(self.settings, &args)?;
                let rate = self.measure(flows);
                attachment.release()?;
                rate
            }
            Way::Agent(reading) => self.agent_turn(reading, flows),
        }
    }

    fn agent_turn(&self, reading: Reading, flows: &str) -> Result<f64> {
        let folder = tempfile::tempdir().context("a folder for a policy")?;
        let [policy, records] = ["policy.toml", "records"].map(|name| folder.path().join(name));
        fs::write(&policy, POLICY).context("a policy")?;
        let args: &[&str] = match reading {
            Reading::Nothing => &[],
            Reading::Idle => &["--metrics", "127.0.0.1:0", "--no-histograms"],
            Reading::Records => &["--records", records.to_str().context("a folder's name")?],
        };
        let (router, windlass) = (&self.cable.router, &self.settings.windlass);
        let agent = BoxProcess::start_agent_with(router, windlass, "r1", &policy, args)?;
        let pages = (reading == Reading::Idle).then(|| Pages::start(router, windlass)).transpose()?;
        let rate = self.measure(flows);
        drop(pages);
        agent.finish()?;
        rate
    }

    /// Pairs of goodput, without and with, for each of these ways. Each turn with one of them stands between two of the way
    /// `without`, whose mean it is paired with.
    fn pairs(
        &self,
        without: Way,
        ways: &[(&str, Way)],
        flows: &str,
        rounds: usize,
    ) -> Result<Vec<Vec<(f64, f64)>>> {
        let mut pairs = vec![Vec::new(); ways.len()];
        let mut before = self.turn(without, flows)?;
        for _ in 0..rounds {
            for ((_, way), pairs) in ways.iter().zip(&mut pairs) {
                let with = self.turn(*way, flows)?;
                let after = self.turn(without, flows)?;
                pairs.push((f64::midpoint(before, after), with));
                before = after;
            }
        }
        Ok(pairs)
    }
}

/// `windlass web`, whose pages no browser opens.
struct Pages(Child);

impl Pages {
    /// Returns when it listens.
    fn start(host: &Netns, windlass: &Path) -> Result<Pages> {
        let mut command = host.command(windlass.to_str().context("the binary's path is no UTF-8")?);
        command.args(["web", "--json", "--listen", "127.0.0.1:0"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut pages = Pages(child);
        let said = BufReader::new(pages.0.stdout.take().context("piped")?).lines().next();
        said.transpose()?.context("`windlass web` did not start")?;
        Ok(pages)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // one that has ended is only waited for
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server of iperf3. Dropped, it ends: by itself it does so only after a client that came through.
struct Listening(Child);

impl Listening {
    /// Returns when it listens.
    fn start(host: &Netns) -> Result<Listening> {
        let mut command = host.command("iperf3");
        command.args(["-s", "-1", "--forceflush"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut server = Listening(child);
        let mut said = String::new();
        if let Some(out) = server.0.stdout.as_mut() {
            let mut lines = BufReader::new(out);
            while !said.contains("listening") && lines.read_line(&mut said)? > 0 {}
        }
        Ok(server)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // one that has ended is only waited for
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What arrived, by what a client of iperf3 prints.
fn goodput_bps(said: &[u8]) -> Result<f64> {
    let value: Value = serde_json::from_slice(said).context("what iperf3 prints")?;
    // it may have results nevertheless, of the time before
    if let Some(error) = value["error"].as_str() {
        bail!("iperf3: {error}");
    }
    value["end"]["sum_received"]["bits_per_second"].as_f64().context("iperf3: no result")
}

/// What each program costs per packet, and the whole per KiB of payload, by the kernel's own run-time statistics.
fn costs(ways: &[(&str, Way)], settings: &Settings, flows: &str) -> Result<Vec<Row>> {
    let bench = Bench::new(settings, None)?;
    let mut rows = Vec::new();
    for (name, way) in ways {
        let Way::Windlass(args) = way else { continue };
        let attachment = bench.cable.attach(settings, &[&args[..], &["--stats"]].concat())?;
        bench.measure(flows)?;
        let (end, _) = attachment.release()?;
        let time = |program: &str, what: &str| end["run_times"][program][what].as_f64().unwrap_or(0.0);
        let all_ns: f64 = PROGRAMS.iter().map(|p| time(p, "run_ns")).sum();
        // what is only watched is not stored: its bytes are those delivered
        let stored = end["counters"]["stored_bytes"].as_f64().unwrap_or(0.0);
        let watched = end["counters"]["watched_bytes"].as_f64().unwrap_or(0.0);
        let means_ns = PROGRAMS.iter().map(|p| time(p, "run_ns") / time(p, "runs").max(1.0));
        let per_kib_ns = all_ns * 1024.0 / (stored + watched).max(1.0);
        rows.push(Row {
            point: format!("{flows}-flows"),
            variant: (*name).into(),
            values: means_ns.chain([per_kib_ns]).map(Some).collect(),
        });
    }
    Ok(rows)
}

/// What a measurement is called.
fn name(way: &str, limit: Option<&str>, flows: &str) -> String {
    format!("{way}-{}-{flows}-flows", limit.unwrap_or("unlimited"))
}

/// The verdict on one way, from its pairs without and with.
fn judge(way: &str, limit: Option<&str>, flows: &str, pairs: &[(f64, f64)]) -> Verdict {
    let bound = match (way, limit) {
        ("none" | "empty", _) => None,
        ("idle" | "records", _) => Some(0.98),
        (_, Some(_)) => Some(0.99),
        ("watch", None) => Some(0.95),
        _ => Some(0.65),
    };
    let ratios: Vec<f64> = pairs.iter().map(|(without, with)| with / without).collect();
    let (without, with): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let ours = stats::median(&ratios);
    let quartile = |q| stats::quantile(&ratios, q).unwrap_or(f64::NAN);
    let interval =
        stats::median_interval(&ratios).map_or("none".into(), |(low, high)| format!("{low:.3} to {high:.3}"));
    let gbps = |rates: &[f64]| stats::median(rates).unwrap_or(f64::NAN) / 1e9;
    Verdict {
        id: name(way, limit, flows),
        ours,
        bound: bound.map_or("none".into(), |b| format!(">= {b}")),
        holds: ours.is_some_and(|o| bound.is_none_or(|b| o >= b)),
        unit: "ratio".into(),
        runs: pairs.len(),
        note: format!(
            "95 % interval {interval}; quartiles {:.2} and {:.2}; medians {:.2} of {:.2} Gbit/s",
            quartile(0.25),
            quartile(0.75),
            gbps(&with),
            gbps(&without)
        ),
        ..Verdict::default()
    }
}

/// Runs the measurements whose name begins with `only`, with so many pairs of each, and judges their claims; `pairs`: none: as many as
/// tell what the datapath costs at all, of which a difference of a few hundredths wants some hundred.
///
/// # Errors
/// A name that no measurement has, a missing tool or privilege, and Ctrl-C.
pub fn bench_datapath(only: &str, pairs: Option<usize>, settings: &Settings) -> Result<Outcome> {
    let is_wanted = |way, (limit, flows)| name(way, limit, flows).starts_with(only);
    let of_agents = AGENTS_FLOWS.into_iter().flat_map(|flows| AGENTS.map(|(way, _)| (way, (None, flows))));
    let mut of_all = LOADS.into_iter().flat_map(|load| WAYS.map(|(way, _)| (way, load))).chain(of_agents);
    ensure!(
        of_all.any(|(way, load)| is_wanted(way, load)),
        "--only {only}: no load begins so; names begin with \"none-\", \"empty-\", \"watch-\", \"enforce-\", \
         \"idle-\" or \"records-\", as watch-unlimited-8-flows and watch-2gbit-8-flows"
    );
    let _spinners = CpuSpinners::start(&allowed_cpus()?)?;
    let (mut verdicts, mut rows) = (Vec::new(), Vec::new());
    for load @ (limit, flows) in LOADS {
        let ways: Vec<_> = WAYS.into_iter().filter(|(way, _)| is_wanted(way, load)).collect();
        if ways.is_empty() {
            continue;
        }
        if limit.is_none() {
            rows.extend(costs(&ways, settings, flows)?);
        }
        let rounds = pairs.unwrap_or(if limit.is_some() { ROUNDS_LIMITED } else { ROUNDS });
        let pairs = Bench::new(settings, limit)?.pairs(Way::Nothing, &ways, flows, rounds)?;
        for ((way, _), pairs) in ways.iter().zip(pairs) {
            verdicts.push(judge(way, limit, flows, &pairs));
            eprintln!("{}", verdicts.last().expect("just pushed"));
        }
    }
    for flows in AGENTS_FLOWS {
        let ways: Vec<_> = AGENTS.into_iter().filter(|(way, _)| is_wanted(way, (None, flows))).collect();
        if ways.is_empty() {
            continue;
        }
        let without = Way::Agent(Reading::Nothing);
        let pairs = Bench::new(settings, None)?.pairs(without, &ways, flows, pairs.unwrap_or(ROUNDS))?;
        for ((way, _), pairs) in ways.iter().zip(pairs) {
            verdicts.push(judge(way, None, flows, &pairs));
            eprintln!("{}", verdicts.last().expect("just pushed"));
        }
    }
    let title = "goodput with the datapath, as a ratio to no program at all, paired; of agents to one that nothing reads".into();
    let costs =
        Filled { title: "What the programs take (ns)".into(), columns: COSTS.map(String::from).into(), rows };
    Ok(Outcome { name: "datapath".into(), title, verdicts, tables: vec![costs], runs: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_could_not_finish_is_no_goodput() {
        let end = "\"end\": { \"sum_received\": { \"bits_per_second\": 1e9 } }";
        assert_eq!(goodput_bps(format!("{{ {end} }}").as_bytes()).unwrap(), 1e9);
        let error = goodput_bps(format!("{{ {end}, \"error\": \"refused\" }}").as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "iperf3: refused");
        assert_eq!(goodput_bps(b"{}").unwrap_err().to_string(), "iperf3: no result");
    }

    #[test]
    fn a_claim_is_judged_by_the_median_of_its_pairs() {
        let pairs = [(10.0, 9.0), (10.0, 9.6), (20.0, 19.4)];
        assert!(judge("watch", None, "1", &pairs).holds);
        assert!(!judge("watch", Some("2gbit"), "1", &pairs).holds);
        assert!(!judge("enforce", None, "1", &pairs[..0]).holds);
        assert_eq!(judge("enforce", None, "1", &pairs).ours, Some(0.96));
    }
}
