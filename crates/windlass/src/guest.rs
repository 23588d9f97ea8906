//! Flows of virtual machines: the guest's agent and the host's controller.

use crate::{
    args::{ControllerArgs, GuestArgs, PortArg},
    event_log::{About, EventLog, print_json},
    native::give_up_privileges,
    print,
    sampler::Sampler,
    signals::{self, Wish},
    watched::Watched,
};
use anyhow::{Result, bail};
use serde_json::json;
use std::{
    mem,
    process::ExitCode,
    sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    time::Duration,
};
use windlass_agent::{Duty, GuestFlows, Mode, Policy, Selector, confine, root_cgroup};
use windlass_core::{Algorithm, GroupKey, GroupRule};
use windlass_guest::{
    Config, Controller, GuestInfo, agent,
    controller::Event as HostEvent,
    guests,
    port::{self, Port},
    serve::{Happening, Place, Service, happenings},
    session::Event,
};
use windlass_scenario::printable_path;

/// How often the controller looks whether to stop when nothing happens.
const LOOK: Duration = Duration::from_millis(100);

/// Whether an end is wanted.
fn is_told(stopped: &Receiver<Wish>) -> bool {
    !matches!(stopped.try_recv(), Err(TryRecvError::Empty))
}

pub fn guest(args: &GuestArgs) -> Result<ExitCode> {
    let Some(algorithm) = Algorithm::by_name(&args.alg) else {
        bail!("--alg {}: no such algorithm; there are {}", args.alg, Algorithm::names());
    };
    let policy = Policy::simple(algorithm, Mode::Native, args.server_port.clone(), false)?;
    let mut port = Port::new(&port::find(&args.port)?)?;
    let cgroup = match &args.cgroup {
        Some(folder) => folder.clone(),
        None => root_cgroup()?,
    };
    let log = EventLog::new(&args.log, args.json);
    give_up_privileges(&args.names.prefix, log);
    let (_, stopped) = signals::wishes(Wish::Stop)?;
    let mut flows = GuestFlows::load(&args.names.prefix)?;
    let selector = Selector::attach(&cgroup, &policy, &args.names.prefix, None)?;
    let name = format!("{}{}", args.names.prefix, algorithm.name());
    let words = format!(
        "{name} for all sockets that connect, coupled through {}; Ctrl-C ends it",
        printable_path(port.path())
    );
    log.event_with(
        "attached",
        About::Cgroup(&cgroup),
        &words,
        || json!({ "event": "attached", "cgroup": cgroup, "algorithm": name, "port": port.path() }),
    );
    let watch = flows.watch()?;
    let mut sampler = Sampler::new(args.sample_ms);
    let mut is_over = || {
        if let Some(t_ms) = sampler.due()
            && let Ok(stats) = watch.stats()
        {
            print_json(&json!({ "event": "sample", "t_ms": t_ms, "flows": stats }));
        }
        is_told(&stopped)
    };
    let mut tell = |event: &Event| match event {
        Event::Coupled => log.event("coupled", About::Command, "coupled: the host answers"),
        Event::Alone(why) => {
            let words = format!("alone: {why}; flows go on by themselves");
            log.event_with(
                "alone",
                About::Command,
                &words,
                || json!({ "event": "alone", "why": why.to_string() }),
            );
        }
        _ => {}
    };
    let counts = agent::run(&mut flows, &mut port, &mut is_over, &mut tell)?;
    let (sockets, stats) = (selector.info()?, watch.stats()?);
    drop(selector);
    drop(flows);
    let words = format!(
        "released: {} socket(s) had {name}; {} reports, {} answers taken, {} fallbacks, {} reports lost",
        sockets.chosen, stats.reports, stats.taken, stats.fallbacks, stats.lost
    );
    log.event_with(
        "detached",
        About::Command,
        &words,
        || json!({ "event": "detached", "sockets": sockets, "agent": counts, "flows": stats }),
    );
    Ok(ExitCode::SUCCESS)
}

/// Ports as places.
fn places(ports: &[PortArg]) -> Result<Vec<Place>> {
    let mut places: Vec<Place> = Vec::new();
    for port in ports {
        let place = Place::new(&port.path, port.name.clone(), port.weight);
        if let Some(other) = place.in_the_way(&places) {
            bail!(
                "--port {}: '{}' is there already, at {}; each guest has a port and a name of its own (name=...)",
                port.path,
                place.name,
                printable_path(&other.path)
            );
        }
        places.push(place);
    }
    Ok(places)
}

/// What a guest gains by a lie is bounded by its share, so that it needs one.
fn rule_of_guests(name: &str) -> Result<GroupRule> {
    let with_shares: Vec<_> = GroupRule::all().filter(GroupRule::has_shares).map(|r| r.name()).collect();
    let known = with_shares.join(", ");
    match GroupRule::by_name(name) {
        Some(rule) if rule.has_shares() => Ok(rule),
        Some(_) => bail!(
            "--rule {name}: it has no shares, so that guests have whatever windows they claim; take one of {known}"
        ),
        None => bail!("--rule {name}: no such rule; there are {known}"),
    }
}

pub fn controller(args: &ControllerArgs) -> Result<ExitCode> {
    let rule = rule_of_guests(&args.rule)?;
    if let Some(what) = rule.ignores(GroupKey::Aggressiveness).filter(|_| args.aggressiveness.is_some()) {
        bail!("--{what}");
    }
    let mut file = args.guests.as_deref().map(Watched::new);
    let places = match &file {
        Some(file) => guests::read(file.path)?,
        None => places(&args.port)?,
    };
    let config = Config {
        aggressiveness_q8: args.aggressiveness.map_or(0, |flows| (flows * 256.0) as u32),
        idle_us: args.idle_ms * 1000,
        mss_most_bytes: args.mss_most,
        flows_most: args.flows_most as usize,
        ..Config::new(rule)
    };
    let log = EventLog::new(&args.log, args.json);
    confine(Duty::Ports).iter().for_each(|why| log.warn(why));
    let (_, wishes) = signals::wishes(if file.is_some() { Wish::Reload } else { Wish::Stop })?;
    let (tell, happenings) = happenings();
    let mut service = Service::start(Controller::new(config)?, &places, &tell)?;
    let words = format!("{}: {} port(s); Ctrl-C ends it", rule.name(), places.len());
    log.event_with("started", About::Command, &words, || {
        let names: Vec<&str> = places.iter().map(|p| p.name.as_str()).collect();
        json!({ "event": "started", "rule": rule.name(), "guests": names })
    });
    let mut sampler = Sampler::new(args.sample_ms);
    let mut is_refused = false;
    loop {
        let is_asked = match wishes.try_recv() {
            Ok(Wish::Reload) => true,
            Ok(Wish::Look) | Err(TryRecvError::Empty) => false,
            Ok(Wish::Stop) | Err(TryRecvError::Disconnected) => break,
        };
        if let Some(file) = &mut file
            && file.is_due(is_asked)
        {
            // the guests in force stay: a typo must not let them go
            let result = guests::read(file.path)
                .map_err(anyhow::Error::from)
                .and_then(|p| Ok(service.set_places(&p)?));
            let was_refused = mem::replace(&mut is_refused, result.is_err());
            match result {
                Err(e) => log.warn(format!("{e:#}; the guests in force stay")),
                Ok(()) if was_refused => {
                    log.of_guests(file.path, "in force; nothing is wrong with the file any more")
                }
                Ok(()) => {}
            }
        }
        match happenings.recv_timeout(sampler.left().min(LOOK)) {
            Ok((name, what)) => report(&name, &what, log),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if let Some(t_ms) = sampler.due() {
            let (guests, sum) = service.look();
            print_json(&json!({ "event": "sample", "t_ms": t_ms, "cwnd_bytes": sum, "guests": guests }));
        }
    }
    let (guests, _) = service.look();
    drop(service);
    if args.json {
        print_json(&json!({ "event": "stopped", "guests": guests }));
    } else {
        summary(&guests);
    }
    Ok(ExitCode::SUCCESS)
}

fn report(name: &str, what: &Happening, log: EventLog) {
    let (event, why) = match what {
        Happening::Guest(HostEvent::Coupled) => ("coupled", None),
        Happening::Guest(HostEvent::Ended) => ("ended", None),
        Happening::Guest(HostEvent::Nonsense(what)) => ("nonsense", Some(what.to_string())),
        Happening::Awaited(why) => ("awaited", Some(why.clone())),
        Happening::Gone => ("gone", None),
        Happening::Added => ("added", None),
        Happening::Removed => ("removed", None),
        Happening::Weight(_) => ("weight", None),
    };
    let words = match (what, &why) {
        (Happening::Weight(n), _) => format!("weight {n} from now on"),
        (Happening::Awaited(why), _) => format!("{event}: {why}"),
        (_, Some(why)) => format!("{event}: {why}; its flows left the group"),
        (_, None) => event.into(),
    };
    log.event_with(event, About::Guest(name), &words, || match what {
        Happening::Weight(n) => json!({ "event": event, "guest": name, "weight": n }),
        _ => json!({ "event": event, "guest": name, "why": why }),
    });
}

fn summary(guests: &[GuestInfo]) {
    let rows: Vec<Vec<String>> = guests
        .iter()
        .map(|g| {
            vec![
                g.name.clone(),
                g.weight.to_string(),
                g.flows.to_string(),
                g.reports.to_string(),
                g.batches.to_string(),
                g.refused.to_string(),
                g.nonsense.to_string(),
            ]
        })
        .collect();
    print::table(&["guest", "weight", "flows", "reports", "messages", "refused", "nonsense"], &rows);
}
