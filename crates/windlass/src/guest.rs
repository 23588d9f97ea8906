//! Flows of virtual machines: the guest's agent and the host's controller.

use crate::{
    args::{ControllerArgs, GuestArgs, PortArg},
    print,
    signals::{self, Wish},
};
use anyhow::{Result, bail};
use serde_json::json;
use std::{
    path::PathBuf,
    process::ExitCode,
    sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel},
    time::{Duration, Instant},
};
use windlass_agent::{GuestFlows, Mode, Policy, Selector, root_cgroup};
use windlass_core::{Algorithm, GroupRule};
use windlass_guest::{
    Config, Controller, GuestInfo, agent,
    controller::Event as HostEvent,
    port::{self, Port},
    serve::{Happening, Place, Service},
    session::Event,
};

/// How often the controller looks whether to stop when nothing happens.
const LOOK: Duration = Duration::from_millis(100);

/// Tells when the next sample is due.
struct Sampler {
    started: Instant,
    pause: Option<Duration>,
    next_at: Instant,
}

impl Sampler {
    /// None: never.
    fn new(pause_ms: Option<u64>) -> Sampler {
        let (started, pause) = (Instant::now(), pause_ms.map(Duration::from_millis));
        Sampler { started, pause, next_at: started + pause.unwrap_or_default() }
    }

    fn left(&self) -> Duration {
        self.pause.map_or(Duration::MAX, |_| self.next_at.saturating_duration_since(Instant::now()))
    }

    /// Milliseconds since the start, if a sample is due.
    fn due(&mut self) -> Option<u64> {
        let pause = self.pause?;
        if Instant::now() < self.next_at {
            return None;
        }
        self.next_at += pause;
        Some(self.started.elapsed().as_millis() as u64)
    }
}

/// Whether somebody wants an end.
fn is_told(stopped: &Receiver<Wish>) -> bool {
    !matches!(stopped.try_recv(), Err(TryRecvError::Empty))
}

pub fn guest(args: &GuestArgs) -> Result<ExitCode> {
    let Some(algorithm) = Algorithm::by_name(&args.alg) else {
        let known: Vec<&str> = Algorithm::all().map(|a| a.name()).collect();
        bail!("--alg {}: no such algorithm; there is {}", args.alg, known.join(", "));
    };
    let mut port = Port::new(&port::find(&args.port)?)?;
    let cgroup = match &args.cgroup {
        Some(folder) => folder.clone(),
        None => root_cgroup()?,
    };
    let policy = Policy::simple(algorithm, Mode::Native, args.server_port.clone(), false);
    let (_, stopped) = signals::wishes(Wish::Stop)?;
    let mut flows = GuestFlows::load(&args.names.prefix)?;
    let selector = Selector::attach(&cgroup, &policy, &args.names.prefix, None)?;
    let name = format!("{}{}", args.names.prefix, algorithm.name());
    if args.json {
        let (cgroup, port) = (&cgroup, port.path());
        println!("{}", json!({ "event": "attached", "cgroup": cgroup, "algorithm": name, "port": port }));
    } else {
        println!(
            "{}: {name} for all sockets that connect, coupled through {}; Ctrl-C ends it",
            cgroup.display(),
            port.path().display()
        );
    }
    let watch = flows.watch()?;
    let mut sampler = Sampler::new(args.sample_ms);
    let mut is_over = || {
        if let Some(t_ms) = sampler.due()
            && let Ok(stats) = watch.stats()
        {
            println!("{}", json!({ "event": "sample", "t_ms": t_ms, "flows": stats }));
        }
        is_told(&stopped)
    };
    let mut tell = |event: &Event| match (event, args.json) {
        (Event::Coupled, true) => println!("{}", json!({ "event": "coupled" })),
        (Event::Coupled, false) => println!("coupled: the host answers"),
        (Event::Alone(why), true) => println!("{}", json!({ "event": "alone", "why": why.to_string() })),
        (Event::Alone(why), false) => println!("alone: {why}; flows go on by themselves"),
        _ => {}
    };
    let counts = agent::run(&mut flows, &mut port, &mut is_over, &mut tell)?;
    let (sockets, stats) = (selector.info()?, watch.stats()?);
    drop(selector);
    drop(flows);
    if args.json {
        println!("{}", json!({ "event": "detached", "sockets": sockets, "agent": counts, "flows": stats }));
    } else {
        println!(
            "released: {} socket(s) had {name}; {} reports, {} answers taken, {} fallbacks, {} reports lost",
            sockets.chosen, stats.reports, stats.taken, stats.fallbacks, stats.lost
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Ports as places; names are theirs, or those of their files.
fn places(ports: &[PortArg]) -> Result<Vec<Place>> {
    let mut places: Vec<Place> = Vec::new();
    for port in ports {
        let path = PathBuf::from(&port.path);
        let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned());
        let name = port.name.clone().or(stem).unwrap_or_default();
        if let Some(other) = places.iter().find(|p| p.name == name || p.path == path) {
            bail!(
                "--port {}: '{}' is there already, at {}; each guest has a port and a name of its own (name=...)",
                port.path,
                name,
                other.path.display()
            );
        }
        places.push(Place { path, name, weight: port.weight });
    }
    Ok(places)
}

pub fn controller(args: &ControllerArgs) -> Result<ExitCode> {
    let Some(rule) = GroupRule::by_name(&args.rule) else {
        let known: Vec<&str> = GroupRule::all().map(|r| r.name()).collect();
        bail!("--rule {}: no such rule; there is {}", args.rule, known.join(", "));
    };
    let places = places(&args.port)?;
    let config = Config {
        aggressiveness_q8: (args.aggressiveness * 256.0) as u32,
        idle_us: args.idle_ms * 1000,
        mss_most_bytes: args.mss_most,
        flows_most: args.flows_most,
        ..Config::new(rule)
    };
    let (_, stopped) = signals::wishes(Wish::Stop)?;
    let (tell, happenings) = channel();
    let service = Service::start(Controller::new(config)?, &places, &tell)?;
    if args.json {
        let names: Vec<&str> = places.iter().map(|p| p.name.as_str()).collect();
        println!("{}", json!({ "event": "started", "rule": rule.name(), "guests": names }));
    } else {
        println!("{}: {} port(s); Ctrl-C ends it", rule.name(), places.len());
    }
    let mut sampler = Sampler::new(args.sample_ms);
    while !is_told(&stopped) {
        match happenings.recv_timeout(sampler.left().min(LOOK)) {
            Ok((at, what)) => say(&places[at].name, &what, args.json),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if let Some(t_ms) = sampler.due() {
            let (guests, sum) = service.look();
            println!("{}", json!({ "event": "sample", "t_ms": t_ms, "cwnd_bytes": sum, "guests": guests }));
        }
    }
    let (guests, _) = service.look();
    drop(service);
    if args.json {
        println!("{}", json!({ "event": "stopped", "guests": guests }));
    } else {
        summary(&guests);
    }
    Ok(ExitCode::SUCCESS)
}

fn say(name: &str, what: &Happening, json: bool) {
    let (event, why) = match what {
        Happening::Guest(HostEvent::Coupled) => ("coupled", None),
        Happening::Guest(HostEvent::Ended) => ("ended", None),
        Happening::Guest(HostEvent::Nonsense(what)) => ("nonsense", Some(what.to_string())),
        Happening::Gone => ("gone", None),
    };
    if json {
        println!("{}", json!({ "event": event, "guest": name, "why": why }));
        return;
    }
    match why {
        Some(why) => println!("{name}: {event}: {why}; its flows left the group"),
        None => println!("{name}: {event}"),
    }
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
