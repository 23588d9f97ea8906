//! Commands that control traffic: attach, agent, detach.

use crate::{
    algorithm,
    args::{AgentArgs, AttachArgs, ModeArg, PaceByArg, PacedArg, SetArgs, Sizes},
    info,
    native::NativeHome,
    signals::{self, Wish},
    voice::Voice,
    watched::Watched,
};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::{
    collections::BTreeMap,
    io,
    process::ExitCode,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};
use windlass_agent::{Datapath, Options, PaceBy, Pacing, Pinned, Policy, RunTimeStats, check_root};
use windlass_core::Algorithm;

/// How often the clock is looked after and files are looked at.
const WATCH: Duration = Duration::from_millis(500);
/// How soon the agent tries again to control an interface that it could not control.
const RETRY: Duration = Duration::from_secs(10);
/// After control ends, flows keep the programs for a moment, so that what was hidden from servers can be settled.
const HAND_BACK: Duration = Duration::from_millis(1500);

fn options(sizes: &Sizes) -> Result<Options> {
    Ok(Options {
        flows_max: sizes.flows,
        store_bytes: sizes.store_mib << 20,
        clock_hz: sizes.clock_hz,
        pace_by_fq: is_paced_by_fq(sizes)?,
        ..Options::default()
    })
}

/// Who paces, and a line if it is not who was asked for.
fn is_paced_by_fq(sizes: &Sizes) -> Result<bool> {
    let wanted = match sizes.pace_by {
        PaceByArg::Clock => PaceBy::Clock,
        PaceByArg::Fq => PaceBy::Fq,
        PaceByArg::Auto => PaceBy::Auto,
    };
    let pacing = Pacing::choose(wanted, sizes.uplink.as_deref())?;
    if let Some(why) = pacing.complaint {
        eprintln!("windlass: pacing by the clock: {why}");
    }
    Ok(pacing.by_fq)
}

fn simple_policy_in_words(algorithm: Algorithm, mode: windlass_agent::Mode, ports: &[u16]) -> String {
    let does = match mode {
        windlass_agent::Mode::Watch => "watching",
        _ => algorithm.name(),
    };
    match ports {
        [] => format!("{does} on all flows"),
        _ => {
            let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
            format!("{does} on flows of server port {}", ports.join(", "))
        }
    }
}

pub fn attach(args: AttachArgs) -> Result<ExitCode> {
    let algorithm = algorithm::asked_for(&args)?;
    let iface = args.iface.as_deref().context("an interface, or --native")?;
    let mode = match args.mode {
        ModeArg::Transparent => windlass_agent::Mode::Transparent,
        ModeArg::Watch => windlass_agent::Mode::Watch,
    };
    let policy = match &args.policy {
        Some(file) => Policy::from_file(file)?,
        None => {
            let control_paced = args.paced_servers == PacedArg::Control;
            let parameters = args.path.parameters();
            parameters.check().map_err(anyhow::Error::msg)?;
            Policy::simple(algorithm, mode, args.port.clone(), control_paced).with_parameters(parameters)
        }
    };
    let what = match &args.policy {
        Some(file) => format!("{} in force", file.display()),
        None => simple_policy_in_words(algorithm, mode, &args.port),
    };
    let (stop, wishes) = signals::wishes(Wish::Stop)?;
    signals::stop_when_closed(&io::stdout(), stop);
    let stats = args.stats.then(RunTimeStats::enable).transpose()?;
    let options = options(&args.sizes)?;
    let pace_by = if options.pace_by_fq { "fq" } else { "clock" };
    let mut datapath = Datapath::attach(iface, &policy, &options)?;
    if args.json {
        let memory = datapath.memory_bytes()?;
        println!(
            "{}",
            json!({
                "event": "attached", "iface": iface, "algorithm": args.policy.is_none().then(|| algorithm.name()),
                "flows_max": args.sizes.flows, "memory_bytes": memory, "pace_by": pace_by,
            })
        );
    } else {
        println!("{iface}: {what}, paced by {pace_by}; Ctrl-C releases it");
    }
    follow(&mut datapath, &wishes, args.sample_ms.map(Duration::from_millis))?;
    if datapath.is_alive() {
        datapath.let_go()?;
        wait_for(|| datapath.has_let_go())?;
    } else if args.json {
        println!("{}", json!({ "event": "gone", "iface": iface }));
    } else {
        println!("{iface}: the interface is gone");
    }
    report_end(&datapath, args.json, stats.is_some())?;
    Ok(ExitCode::SUCCESS)
}

/// Looks after the datapath until told to stop or its interface is gone.
fn follow(datapath: &mut Datapath, wishes: &Receiver<Wish>, sample: Option<Duration>) -> Result<()> {
    let started = Instant::now();
    let mut next_watch = Instant::now() + WATCH;
    loop {
        let pause = sample.unwrap_or(WATCH).min(next_watch.saturating_duration_since(Instant::now()));
        match wishes.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Ok(()),
        }
        if sample.is_some() {
            let t_ms = started.elapsed().as_millis() as u64;
            println!("{}", json!({ "event": "sample", "t_ms": t_ms, "flows": datapath.flows()? }));
        }
        if Instant::now() >= next_watch {
            next_watch += WATCH;
            if !datapath.is_alive() {
                return Ok(());
            }
            if datapath.watch_clock()? {
                eprintln!("windlass: {}", clock_is_new(datapath.iface()));
            }
        }
    }
}

fn clock_is_new(iface: &str) -> String {
    format!("{iface}: its clock was deleted or changed by somebody; made anew")
}

/// Ends control of these interfaces gently, all at a time.
fn hand_back(all: &[Pinned]) -> Result<()> {
    all.iter().try_for_each(Pinned::let_go)?;
    wait_for(|| all.iter().try_fold(true, |so_far, pinned| Ok(so_far && pinned.has_let_go()?)))
}

/// Waits until control has ended for all flows, or for the time that they have at most, and some for an ACK to come.
fn wait_for(is_over: impl Fn() -> windlass_agent::Result<bool>) -> Result<()> {
    let end = Instant::now() + HAND_BACK;
    while !is_over()? && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn report_end(datapath: &Datapath, as_json: bool, has_stats: bool) -> Result<()> {
    let counters = datapath.counters()?;
    let run_times = has_stats.then(|| datapath.run_times()).transpose()?;
    if as_json {
        let mut document = json!({ "event": "detached", "counters": counters, "flows": datapath.flows()? });
        if let Some(run_times) = run_times {
            document["run_times"] = json!(run_times);
        }
        println!("{document}");
        return Ok(());
    }
    for (name, time) in run_times.iter().flatten() {
        let mean_ns = time.run_ns.checked_div(time.runs).unwrap_or(0);
        println!("{name}: {} runs of {mean_ns} ns, {:.3} s in all", time.runs, time.run_ns as f64 / 1e9);
    }
    let get = |name: &str| counters.get(name).copied().unwrap_or(0);
    println!(
        "released: {} flows, {} segments lost and {} repaired, {} retransmissions by the servers",
        get("flows_created"),
        get("lost_segs"),
        get("repaired_segs"),
        get("sender_retrans")
    );
    Ok(())
}

pub fn agent(args: AgentArgs) -> Result<ExitCode> {
    let voice = Voice { as_json: args.json };
    let mut file = Watched::new(&args.policy);
    let policy = Policy::from_file(&args.policy)?;
    let (_, wishes) = signals::wishes(Wish::Reload)?;
    let mut controlled: Vec<Pinned> = Vec::new();
    let manner = Manner { options: Options { shares_groups: true, ..options(&args.sizes)? }, voice };
    let mut native = NativeHome::new(&args.names.prefix, voice);
    let detaches = args.detach_on_exit || windlass_agent::pins_are_private();
    if detaches && !args.detach_on_exit {
        voice.complain(
            "control ends with this agent: what it pins is seen from this shell only, whose mounts are its own, as under \
             `ip netns exec`; use `nsenter --net=/run/netns/NAME` instead",
        );
    }
    let gone = windlass_agent::remove_gone()?;
    if gone > 0 {
        voice.of_leftovers(gone);
    }
    windlass_agent::part_killed()?;
    let mut refused = Refused::default();
    let complaints = cover(&policy, &manner, &mut controlled, &mut refused);
    let sockets = native.cover(&policy);
    if controlled.is_empty() && native.is_empty() {
        if let Some(why) = complaints.first() {
            bail!("{why}");
        }
        sockets?;
    }
    // why sockets could not be is said when that is tried again, in a moment
    complaints.iter().for_each(|why| voice.complain(why));
    if controlled.is_empty() && native.is_empty() {
        voice.complain("no interface or cgroup matches the policy yet; waiting for one");
    }
    let ended = look_after(&mut file, policy, &manner, &wishes, &mut controlled, refused, &mut native);
    native.finish(detaches)?;
    if detaches {
        hand_back(&controlled)?;
        for pinned in controlled {
            let iface = pinned.iface().to_string();
            pinned.remove()?;
            voice.of_iface("detached", &iface, "released");
        }
    } else {
        for iface in controlled.iter().map(Pinned::iface) {
            let words = format!("stays under control; `windlass detach {iface}` releases it");
            voice.of_iface("stays", iface, &words);
        }
    }
    ended.map(|()| ExitCode::SUCCESS)
}

/// How the agent controls interfaces, and whom it tells.
struct Manner {
    options: Options,
    voice: Voice,
}

/// Looks after all that is under control until told to stop, and follows the policy's file.
fn look_after(
    file: &mut Watched<'_>,
    mut policy: Policy,
    manner: &Manner,
    wishes: &Receiver<Wish>,
    controlled: &mut Vec<Pinned>,
    mut refused: Refused,
    native: &mut NativeHome,
) -> Result<()> {
    let voice = manner.voice;
    let mut complaint = String::new();
    loop {
        let is_asked = match wishes.recv_timeout(WATCH) {
            Ok(Wish::Reload) => true,
            Err(RecvTimeoutError::Timeout) => false,
            _ => return Ok(()),
        };
        let (alive, gone): (Vec<_>, Vec<_>) = controlled.drain(..).partition(Pinned::is_alive);
        *controlled = alive;
        for pinned in gone {
            voice.of_iface("gone", pinned.iface(), "the interface is gone");
            pinned.remove()?;
        }
        if file.is_due(is_asked) {
            let read = Policy::from_file(file.path).map_err(anyhow::Error::from);
            match read.and_then(|new| replace(&policy, new, controlled, native)) {
                Ok(new) => {
                    policy = new;
                    refused = Refused::default();
                    voice.of_policy("in_force", file.path, "in force");
                }
                // a mistake must not take traffic out of control
                Err(e) => voice.complain(format!("{e:#}; the policy in force stays")),
            }
        }
        // right after another look a clock that has not moved yet is no clock that stands still
        for at in (0..controlled.len()).filter(|_| !is_asked) {
            match controlled[at].watch_clock() {
                Ok(true) => voice.complain(clock_is_new(controlled[at].iface())),
                Ok(false) => {}
                Err(why) => {
                    // what is there under its name, if anything, is not ours
                    controlled.remove(at);
                    return Err(why.into());
                }
            }
        }
        // the next look comes soon
        let _ = windlass_agent::part_killed();
        // what cannot be taken under control is tried again and again, and said once
        cover(&policy, manner, controlled, &mut refused).iter().for_each(|why| voice.complain(why));
        let now = native.cover(&policy).err().map_or(String::new(), |e| format!("{e:#}"));
        if now != complaint && !now.is_empty() {
            voice.complain(&now);
        }
        complaint = now;
    }
}

/// Puts a new policy in force everywhere, or, if that fails somewhere, nowhere.
fn replace(old: &Policy, new: Policy, controlled: &[Pinned], native: &mut NativeHome) -> Result<Policy> {
    let mut put = |policy: &Policy| {
        controlled.iter().try_for_each(|pinned| pinned.set_policy(policy))?;
        native.set_policy(policy)
    };
    match put(&new) {
        Ok(()) => Ok(new),
        Err(why) => {
            // where it was replaced already, it was in force a moment ago
            let _ = put(old);
            Err(why)
        }
    }
}

/// Brings every interface that the policy names under control: takes over what is pinned, attaches the rest. Returns why
/// some could not be, where that is news.
fn cover(
    policy: &Policy,
    manner: &Manner,
    controlled: &mut Vec<Pinned>,
    refused: &mut Refused,
) -> Vec<String> {
    let mut complaints = Vec::new();
    for iface in policy.interfaces() {
        let is_known = controlled.iter().any(|p| p.iface() == iface) || refused.is_recent(&iface);
        if is_known || iface.starts_with("wlc") {
            continue;
        }
        let index = windlass_agent::interface_index(&iface);
        match control(&iface, policy, manner) {
            Ok(pinned) => controlled.extend(pinned),
            // it went meanwhile; another one of its name is for the next look
            Err(_) if windlass_agent::interface_index(&iface) != index => {}
            Err(why) => complaints.extend(refused.note(iface, &why)),
        }
    }
    complaints
}

/// Brings one interface under control. None: it carries nothing that could be.
fn control(iface: &str, policy: &Policy, manner: &Manner) -> windlass_agent::Result<Option<Pinned>> {
    let (pinned, is_taken_over) = match Datapath::attach_or_take_over(iface, policy, &manner.options) {
        Err(windlass_agent::Error::NotEthernet(_)) => return Ok(None),
        other => other?,
    };
    // from here on control outlives the agent
    match is_taken_over {
        true => manner.voice.of_iface("taken_over", iface, "taken over"),
        false => manner.voice.of_iface("attached", iface, "under control"),
    }
    Ok(Some(pinned))
}

/// Interfaces that could not be controlled, when that was tried, and why.
#[derive(Default)]
struct Refused(BTreeMap<String, (Instant, String)>);

impl Refused {
    fn is_recent(&self, iface: &str) -> bool {
        self.0.get(iface).is_some_and(|(tried, _)| tried.elapsed() < RETRY)
    }

    /// Returns what is to be said of it, if that was not said before.
    fn note(&mut self, iface: String, why: &windlass_agent::Error) -> Option<String> {
        let why = format!("{iface} is not under control: {why}");
        let earlier = self.0.insert(iface, (Instant::now(), why.clone()));
        earlier.is_none_or(|(_, said)| said != why).then_some(why)
    }
}

pub fn set(args: &SetArgs) -> Result<ExitCode> {
    let algorithm = args.alg.as_deref().map(algorithm::named).transpose()?;
    let mut behind = Vec::new();
    for iface in info::controlled()? {
        if Pinned::open(&iface)?.set_algorithm(args.sender, args.receiver, algorithm)? {
            behind.push(iface);
        }
    }
    if behind.is_empty() {
        bail!("no flow from {} to {} is known; `windlass flows` lists them", args.sender, args.receiver);
    }
    let name = algorithm.map(|a| a.name());
    if args.json {
        println!("{}", json!({ "interfaces": behind, "algorithm": name }));
    } else {
        println!("{}: {}, from its next ACK on", behind.join(", "), name.unwrap_or("its rule's algorithm"));
    }
    Ok(ExitCode::SUCCESS)
}

pub fn detach(iface: Option<String>, all: bool, as_json: bool) -> Result<ExitCode> {
    check_root("releasing an interface")?;
    let mut here = windlass_agent::pinned_here();
    here.extend(windlass_agent::left_here()?);
    let targets = match (iface, all) {
        (Some(name), _) if here.contains(&name) => vec![name],
        (Some(name), _) => bail!("'{name}' is under no agent's control here; under control: {}", list(&here)),
        (None, true) => here,
        (None, false) => bail!("name an interface, or --all; under control: {}", list(&here)),
    };
    // what another build left can be removed, but not read
    let readable: Vec<_> = targets.iter().filter_map(|name| Pinned::open(name).ok()).collect();
    hand_back(&readable)?;
    for name in &targets {
        windlass_agent::force_remove(name)?;
        if !as_json {
            println!("{name}: released");
        }
    }
    if as_json {
        println!("{}", json!({ "released": targets }));
    }
    Ok(ExitCode::SUCCESS)
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}
