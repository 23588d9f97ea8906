//! Commands about interfaces that go by themselves: attach, set, detach.

use crate::{
    algorithm,
    args::{AttachArgs, ModeArg, PaceByArg, PacedArg, SetArgs, Sizes},
    event_log::{About, EventLog},
    info, print,
    sampler::Sampler,
    signals::{self, Wish},
};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;
use std::{
    io,
    process::ExitCode,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};
use windlass_agent::{
    Datapath, Duty, Error, Options, PaceBy, Pacing, Pinned, Policy, RunTimeStats, check_capable, check_root,
    confine,
};
use windlass_core::{Algorithm, abi};

/// How often the clock is looked after and files are looked at.
pub const WATCH: Duration = Duration::from_millis(500);
/// After control ends, flows keep the programs for a moment, so that what was hidden from servers can be settled.
const HAND_BACK: Duration = Duration::from_micros(abi::WL_HAND_BACK_US as u64);

/// What the command line sets of datapaths.
pub fn options(sizes: &Sizes) -> Result<Options> {
    Ok(Options {
        flows_max: sizes.flows,
        store_bytes: sizes.store_mib << 20,
        clock_hz: sizes.clock_hz,
        idle_timeout_s: sizes.idle_timeout_s,
        pace_by_fq: is_paced_by_fq(sizes)?,
        ..Options::default()
    })
}

/// What paces, and a line if it is not what was configured.
fn is_paced_by_fq(sizes: &Sizes) -> Result<bool> {
    let wanted = match sizes.pace_by {
        PaceByArg::Clock => PaceBy::Clock,
        PaceByArg::Fq => PaceBy::Fq,
        PaceByArg::Auto => PaceBy::Auto,
    };
    let pacing = Pacing::choose(wanted, sizes.uplink.as_deref())?;
    if let Some(why) = pacing.complaint {
        tracing::warn!("pacing by the clock: {why}");
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
    let algorithm = algorithm::named(&args.alg)?;
    let iface = &windlass_agent::listed_name(args.iface.as_deref().context("an interface, or --native")?);
    let mode = match args.mode {
        ModeArg::Transparent => windlass_agent::Mode::Transparent,
        ModeArg::Watch => windlass_agent::Mode::Watch,
    };
    let policy = match &args.policy {
        Some(file) => Policy::from_file(file)?,
        None => {
            let control_paced = args.paced_servers == PacedArg::Control;
            let parameters = args.path.parameters()?;
            parameters.check().map_err(anyhow::Error::msg)?;
            parameters
                .tunables
                .check_of_rule(&[algorithm.name()])
                .map_err(|what| anyhow!("--tune {what}"))?;
            Policy::simple(algorithm, mode, args.port.clone(), control_paced)?.with_parameters(parameters)
        }
    };
    let what = match &args.policy {
        Some(file) if !policy.is_of_iface(iface) => bail!(
            "no rule of {} applies to '{iface}'; `windlass policy show` lists what each applies to",
            file.display()
        ),
        Some(file) => format!("{} in force", file.display()),
        None => simple_policy_in_words(algorithm, mode, &args.port),
    };
    let stats = args.stats.then(RunTimeStats::enable).transpose()?;
    let options = options(&args.sizes)?;
    if !policy.groups().is_empty() && check_capable("attaching a datapath").is_ok() {
        windlass_agent::mount_bpffs()?;
    }
    let log = EventLog::new(&args.log, args.json);
    confine(Duty::Interfaces).iter().for_each(|why| log.warn(why));
    let (stop, wishes) = signals::wishes(Wish::Stop)?;
    signals::stop_when_closed(&io::stdout(), stop);
    let pace_by = if options.pace_by_fq { "fq" } else { "clock" };
    let mut datapath = Datapath::attach(iface, &policy, &options)?;
    let memory = args.json.then(|| datapath.memory_bytes()).transpose()?;
    let words = format!("{what}, paced by {pace_by}; Ctrl-C releases it");
    log.must_reach("attached", About::Device(iface), &words, || {
        json!({
            "event": "attached", "iface": iface, "algorithm": args.policy.is_none().then(|| algorithm.name()),
            "flows_max": args.sizes.flows, "memory_bytes": memory, "pace_by": pace_by,
        })
    });
    if windlass_agent::default_uplinks().iter().any(|uplink| uplink == iface) {
        log.warn(is_uplink(iface));
    }
    follow(&mut datapath, &wishes, Sampler::new(args.sample_ms), log)?;
    if datapath.name_now().is_some() {
        datapath.let_go()?;
        wait_for(|| datapath.has_let_go())?;
    } else {
        log.must_reach(
            "gone",
            About::Device(iface),
            "the interface is gone",
            || json!({ "event": "gone", "iface": iface }),
        );
    }
    report_end(&datapath, log, stats.is_some())?;
    Ok(ExitCode::SUCCESS)
}

/// Looks after the datapath until stopped or its interface is gone, or has another name: it is claimed by the one it had.
fn follow(
    datapath: &mut Datapath,
    wishes: &Receiver<Wish>,
    mut sampler: Sampler,
    log: EventLog,
) -> Result<()> {
    let mut next_watch = Instant::now() + WATCH;
    loop {
        let pause = sampler.left().min(next_watch.saturating_duration_since(Instant::now()));
        match wishes.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Ok(()),
        }
        if let Some(t_ms) = sampler.due() {
            println!("{}", json!({ "event": "sample", "t_ms": t_ms, "flows": datapath.flows()? }));
        }
        if Instant::now() >= next_watch {
            next_watch += WATCH;
            match datapath.name_now() {
                Some(name) if name == datapath.iface() => {}
                Some(name) => {
                    log.warn(format_args!("{} is called {name} now, and released", datapath.iface()));
                    return Ok(());
                }
                None => return Ok(()),
            }
            if datapath.watch_clock()? {
                log.warn_of(About::Device(datapath.iface()), CLOCK_IS_NEW);
            }
        }
    }
}

/// Reported of an interface that the default route leaves by.
pub fn is_uplink(iface: &str) -> String {
    format!(
        "{iface}: the default route leaves by this interface, so it faces the clients; unless servers are behind it, control the \
         interface that faces them, as a tap, a container's veth, or a router's port on their side"
    )
}

/// Reported of an interface.
pub const CLOCK_IS_NEW: &str = "its clock was deleted or changed by another program; made anew";

/// Ends control of these interfaces gently, all at a time, of those that are there. What fails does not keep the rest from it;
/// the first error is returned.
pub fn hand_back(all: &[Pinned]) -> Result<(), Error> {
    let all: Vec<&Pinned> = all.iter().filter(|p| p.name_now().is_some()).collect();
    let ended = Pinned::let_go(&all);
    if matches!(ended, Err(Error::Locked { .. })) {
        // what was not stopped does not let go
        return ended;
    }
    ended.and(wait_for(|| Pinned::have_let_go(&all)))
}

/// Does all of this, whatever fails; the first error is returned. But a process that has a lock for so long has it for all.
pub fn first_error(all: impl Iterator<Item = Result<(), Error>>) -> Result<(), Error> {
    let mut so_far = Ok(());
    for one in all {
        let is_locked = matches!(one, Err(Error::Locked { .. }));
        so_far = so_far.and(one);
        if is_locked {
            break;
        }
    }
    so_far
}

/// Waits until control has ended for all flows, or for the time that they have at most, and some for an ACK to come.
fn wait_for(is_over: impl Fn() -> Result<bool, Error>) -> Result<(), Error> {
    let end = Instant::now() + HAND_BACK;
    while !is_over()? && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn report_end(datapath: &Datapath, log: EventLog, has_stats: bool) -> Result<()> {
    let counters = datapath.counters()?;
    let run_times = has_stats.then(|| datapath.run_times()).transpose()?;
    for (name, time) in run_times.iter().flatten().filter(|_| !log.as_json) {
        let mean_ns = time.run_ns.checked_div(time.runs).unwrap_or(0);
        print::line(format_args!(
            "{name}: {} runs of {mean_ns} ns, {:.3} s in all",
            time.runs,
            time.run_ns as f64 / 1e9
        ));
    }
    let get = |name: &str| counters.get(name).copied().unwrap_or(0);
    let words = format!(
        "released: {} flows, {} segments lost and {} repaired, {} retransmissions by the servers",
        get("flows_created"),
        get("lost_segs"),
        get("repaired_segs"),
        get("sender_retrans")
    );
    let flows = log.as_json.then(|| datapath.flows()).transpose()?;
    log.must_reach("detached", About::Command, &words, || {
        let mut document = json!({ "event": "detached", "counters": counters, "flows": flows });
        if let Some(run_times) = &run_times {
            document["run_times"] = json!(run_times);
        }
        document
    });
    Ok(())
}

pub fn set(args: &SetArgs) -> Result<ExitCode> {
    let algorithm = args.alg.as_deref().map(algorithm::named).transpose()?;
    let mut behind = Vec::new();
    info::with_controlled("setting a flow's algorithm", |pinned| {
        if pinned.set_algorithm(args.sender, args.receiver, algorithm)? {
            behind.push(pinned.iface().to_string());
        }
        Ok(())
    })?;
    if behind.is_empty() {
        bail!("no flow from {} to {} is known; `windlass flows` lists them", args.sender, args.receiver);
    }
    let name = algorithm.map(|a| a.name());
    if args.json {
        println!("{}", json!({ "interfaces": behind, "algorithm": name }));
    } else {
        print::line(format_args!(
            "{}: {}, from its next ACK on",
            behind.join(", "),
            name.unwrap_or("its rule's algorithm")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

pub fn detach(iface: Option<String>, all: bool, as_json: bool) -> Result<ExitCode> {
    check_root("releasing an interface")?;
    let pinned = windlass_agent::pinned_here();
    let iface = iface.map(|name| listed_if_not(&pinned, name));
    let is_meant = |name: &String| iface.as_ref().map_or(all, |iface| iface == name);
    let mut targets: Vec<String> = pinned.iter().filter(|name| is_meant(name)).cloned().collect();
    let released = |name: &str| {
        if !as_json {
            print::line(format_args!("{name}: released"));
        }
    };
    // what another build left can be removed, but not read
    let readable: Vec<_> = targets.iter().filter_map(|name| Pinned::open(name).ok()).collect();
    hand_back(&readable)?;
    windlass_agent::force_remove(&targets, released)?;
    windlass_agent::remove_stale_sockets();
    // no flow waits for this: other processes may be attaching something meanwhile
    if iface.is_none() || targets.is_empty() {
        let mut left = windlass_agent::left_here()?;
        let here = || list(&[&pinned[..], &left].concat());
        match &iface {
            Some(name) if !left.contains(name) => {
                bail!("'{name}' is under no agent's control here; under control: {}", here())
            }
            None if !all => bail!("name an interface, or --all; under control: {}", here()),
            _ => left.retain(is_meant),
        }
        windlass_agent::remove_left(&left, released)?;
        targets.append(&mut left);
    }
    if as_json {
        println!("{}", json!({ "released": targets }));
    } else if targets.is_empty() {
        print::line(format_args!("no interface of this network namespace is under control"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The name under which an interface is listed that is not among these; what is gone may be.
fn listed_if_not(here: &[String], name: String) -> String {
    if here.contains(&name) { name } else { windlass_agent::listed_name(&name) }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_keeps_the_rest_from_nothing_but_a_lock_does() {
        let done = |answers: Vec<Result<(), Error>>| {
            let mut done = 0;
            let ended = first_error(answers.into_iter().inspect(|_| done += 1));
            (done, ended.err().map(|e| e.to_string()))
        };
        let failed = |why: &str| Err(Error::Invalid(why.into()));
        let locked = || Err(Error::Locked { path: "/run".into(), process: 7 });
        assert_eq!(done(vec![Ok(()), failed("one"), failed("other"), Ok(())]), (4, Some("one".into())));
        assert_eq!(done(vec![Ok(()), locked(), Ok(())]).0, 2);
        assert_eq!(done(vec![failed("one"), locked(), Ok(())]), (2, Some("one".into())));
        assert_eq!(done(vec![Ok(())]), (1, None));
    }
}
