//! `windlass doctor IFACE`: is all well with one interface, and if not, why.

mod test_connection;
mod verdict;

use crate::{
    args::DoctorArgs,
    flow_table::{FlowTable, Seen},
    info::open_whole,
    print,
};
use anyhow::{Context, Result};
use serde::Serialize;
use std::{collections::BTreeMap, process::ExitCode, thread, time::Duration};
use test_connection::TestConnection;
use verdict::{Reason, Verdict};
use windlass_agent::{IfaceFacts, Pinned, check_root, default_uplinks};

/// A clock that rests goes round 125 times a second.
const CLOCK_LOOK: Duration = Duration::from_millis(100);

/// What is looked at.
#[derive(Debug, Default, Serialize)]
struct Findings {
    facts: IfaceFacts,
    /// Of the interfaces by which the default routes leave.
    uplinks: Vec<IfaceFacts>,
    /// None: it is under no agent's control that is seen from here.
    control: Option<Control>,
    /// Its flows by their state, as `windlass flows` has it.
    flows: BTreeMap<&'static str, usize>,
    /// By the shift that their receivers announce: how many flows; those whose handshake was not observed are left out.
    window_scales: BTreeMap<u8, usize>,
    test: Option<TestConnection>,
}

/// What an agent has there.
#[derive(Debug, Serialize)]
struct Control {
    /// The process that looks after it.
    agent: Option<String>,
    /// Names of the rules of the policy in force.
    rules: Vec<String>,
    is_attached: bool,
    clock_runs: bool,
    /// Which direction of traffic is missing, in words; none: both pass, or neither does.
    one_way: Option<String>,
}

/// Looks at the interface. Exit status 1: nothing can be controlled there.
pub fn doctor(iface: &str, args: &DoctorArgs) -> Result<ExitCode> {
    check_root("looking at an interface")?;
    let facts = IfaceFacts::of(iface)?;
    let pinned = open_whole(&facts.iface)?;
    let test = args.test.as_deref().map(|to| TestConnection::make(to, &facts.iface)).transpose()?;
    let flows: Vec<Seen> =
        FlowTable::read()?.flows.into_iter().filter(|seen| seen.iface == facts.iface).collect();
    let uplinks = default_uplinks().iter().map(|uplink| IfaceFacts::of(uplink)).collect::<Result<_, _>>()?;
    let control = pinned.as_ref().map(Control::of).transpose()?;
    let mut findings = Findings { facts, uplinks, control, test, ..Findings::default() };
    for seen in &flows {
        *findings.flows.entry(seen.state()).or_default() += 1;
        if let Some(shift) = seen.flow.rcv_wscale {
            *findings.window_scales.entry(shift).or_default() += 1;
        }
    }
    let reasons = verdict::reasons(&findings);
    let verdict = verdict::of(&reasons);
    if args.json {
        let mut document = serde_json::to_value(&findings)?;
        document["iface"] = findings.facts.iface.as_str().into();
        document["faces_servers"] = faces_servers(&findings).into();
        document["verdict"] = serde_json::to_value(verdict)?;
        document["reasons"] = serde_json::to_value(&reasons)?;
        println!("{document}");
    } else {
        print(&findings, verdict, &reasons);
    }
    Ok(if verdict == Verdict::Off { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Control {
    fn of(pinned: &Pinned) -> Result<Control> {
        let rounds = || -> Result<u64> { Ok(pinned.counters()?.get("clock_ticks").copied().unwrap_or(0)) };
        let before = rounds()?;
        thread::sleep(CLOCK_LOOK);
        Ok(Control {
            agent: pinned.agent()?,
            rules: pinned.rule_names(),
            is_attached: pinned.is_attached(true).context("looking for the programs")?,
            clock_runs: rounds()? != before,
            one_way: pinned.packets()?.one_way().map(|what| what.to_string()),
        })
    }
}

/// Hosts behind an interface that receive so much more than they send, and that much, are clients.
const RECEIVED_PER_SENT: u64 = 4;
const RECEIVED_LEAST_BYTES: u64 = 1 << 20;

/// Is it the side of the servers, as far as that shows?
fn faces_servers(findings: &Findings) -> bool {
    let IfaceFacts { iface, rx_bytes, tx_bytes, .. } = &findings.facts;
    let is_uplink = findings.uplinks.iter().any(|uplink| uplink.iface == *iface);
    let are_clients = *tx_bytes > RECEIVED_LEAST_BYTES && tx_bytes / RECEIVED_PER_SENT > *rx_bytes;
    !is_uplink && !are_clients
}

fn or_none(list: &[String], word: &str) -> String {
    if list.is_empty() { word.into() } else { list.join(", then ") }
}

fn print(findings: &Findings, verdict: Verdict, reasons: &[Reason]) {
    let Findings { facts, uplinks, control, flows, window_scales, test } = findings;
    let kind = if facts.kind.is_empty() { "network card" } else { &facts.kind };
    let is_up = if facts.is_up { "up" } else { "down" };
    let side = |programs: &Option<Vec<String>>| match programs {
        Some(list) => or_none(list, "none"),
        None => "not known before tcx (Linux 6.6)".into(),
    };
    let on_or_off = |(name, is_on): (&&str, &bool)| format!("{name} {}", if *is_on { "on" } else { "off" });
    let offloads: Vec<String> = facts.offloads.iter().map(on_or_off).collect();
    let uplink =
        |uplink: &IfaceFacts| format!("{}: MTU {}, {}", uplink.iface, uplink.mtu_bytes, uplink.qdisc);
    let counts: Vec<String> = flows.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let scales: Vec<String> =
        window_scales.iter().map(|(shift, count)| format!("{shift} ({count})")).collect();
    let list = |words: Vec<String>, word: &str| if words.is_empty() { word.into() } else { words.join(", ") };
    let xdp = if facts.has_xdp { "; XDP before them" } else { "" };
    let mut rows = vec![
        ("interface", format!("{kind}, {is_up}, MTU {}", facts.mtu_bytes)),
        ("programs in", side(&facts.ingress) + xdp),
        ("programs out", side(&facts.egress)),
        ("offloads", list(offloads, "not known")),
        ("qdisc", facts.qdisc.clone()),
        ("uplink", list(uplinks.iter().map(uplink).collect(), "no default route")),
        ("side", if faces_servers(findings) { "servers'" } else { "clients'" }.into()),
        ("traffic", format!("{} in, {} out", megabytes(facts.rx_bytes), megabytes(facts.tx_bytes))),
        ("control", control.as_ref().map_or("none".into(), Control::in_words)),
        ("flows", list(counts, "none")),
        ("window scale", list(scales, "not seen")),
    ];
    rows.extend(test.as_ref().map(|test| ("test", test.in_words())));
    rows.push(("verdict", verdict.word().into()));
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, found)| vec![name.into(), found]).collect();
    print::table(&[&facts.iface, ""], &rows);
    for reason in reasons {
        print::line(format_args!("{}: {}", reason.makes.word(), reason.why));
    }
}

impl Control {
    fn in_words(&self) -> String {
        let agent = self.agent.as_deref().unwrap_or("no agent runs");
        let rules = if self.rules.is_empty() { "none".into() } else { self.rules.join(", ") };
        format!("{agent}; rules: {rules}")
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
