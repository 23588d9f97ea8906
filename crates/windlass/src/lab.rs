//! Commands that make their own traffic: run, reproduce, demo, bench.

use crate::{
    args::{BenchWhat, Emulator, Home, ReproduceArgs, RunArgs, SweepArgs},
    group_cost,
    signals::{self, Wish},
    speed,
};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;
use std::{
    fs,
    num::NonZeroU64,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use windlass_experiments::{Experiment, Outcome, Settings, Sweep};
use windlass_lab::RunOptions;
use windlass_scenario::Scenario;
use windlass_sim::{SimError, TraceOptions};

static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Ctrl-C ends the run in hand; what has finished stays on disk.
fn cancel_on_signal() -> Result<&'static AtomicBool> {
    let (_, wishes) = signals::wishes(Wish::Stop)?;
    thread::spawn(move || wishes.iter().for_each(|_| CANCELLED.store(true, Ordering::Relaxed)));
    Ok(&CANCELLED)
}

/// What whoever stopped it should know; `rest`: what becomes of what has finished.
fn say_if_stopped(rest: &str) {
    if CANCELLED.load(Ordering::Relaxed) {
        eprintln!("windlass: stopped{rest}");
    }
}

fn this_binary() -> Result<PathBuf> {
    std::env::current_exe().context("the path of this program")
}

pub fn run(args: RunArgs) -> Result<ExitCode> {
    let scenario = Scenario::from_file(&args.file)?;
    if args.captures.is_some() && scenario.windlass.is_none() {
        bail!("{}: without a [windlass] there is no box to capture at", args.file.display());
    }
    if args.on == Home::Sim && (args.captures.is_some() || args.sample_ms.is_some()) {
        bail!("--captures and --sample-ms look at real kernels: they go with --on lab");
    }
    if args.on == Home::Sim && args.emulator == Emulator::Netem {
        bail!("--emulator is about real packets: it goes with --on lab");
    }
    if args.on == Home::Lab && args.trace.is_some() {
        bail!(
            "--trace looks into simulated hosts: it goes with --on sim; real packets are captured with --captures"
        );
    }
    let Some(interval_ns) = NonZeroU64::new(args.interval.ns()) else {
        bail!("--interval {}: more than 0", args.interval);
    };
    let cancel = Some(cancel_on_signal()?);
    let report = match args.on {
        Home::Lab => {
            let options = RunOptions {
                cancel,
                spin_us: 100,
                captures: args.captures,
                sample_ms: args.sample_ms,
                emulator: match args.emulator {
                    Emulator::Own => windlass_lab::Emulator::Own,
                    Emulator::Netem => windlass_lab::Emulator::Netem,
                },
                ..RunOptions::new(this_binary()?)
            };
            windlass_lab::run(&scenario, &options)?
        }
        Home::Sim => {
            let trace = args.trace.as_deref().map(|folder| TraceOptions { folder, interval_ns });
            let options = windlass_sim::RunOptions { cancel, trace, ..Default::default() };
            let outcome = windlass_sim::run(&scenario, &options);
            outcome.map_err(|e| anyhow!("{}: {e}", place(&args.file, &e)))?.report
        }
    };
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{report}");
    }
    say_if_stopped("");
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The file, with the line of the algorithm where that is what is wrong: which algorithms there are is the home's business,
/// so that a mistake there is found when the file has been read.
fn place(file: &Path, error: &SimError) -> String {
    let file_name = file.display();
    let (SimError::UnknownAlgorithm { name, .. } | SimError::UnknownBoxAlgorithm { name, .. }) = error else {
        return file_name.to_string();
    };
    let text = fs::read_to_string(file).unwrap_or_default();
    let is_it = |line: &str| line.contains("algorithm") && line.contains(&format!("\"{name}\""));
    let line = text.lines().position(is_it);
    line.map_or(file_name.to_string(), |line| format!("{file_name}:{}", line + 1))
}

fn settings(quick: bool, resume: bool, out: PathBuf, quiet: bool) -> Result<Settings> {
    Ok(Settings {
        windlass: this_binary()?,
        quick,
        resume,
        out,
        quiet,
        at_once: None,
        cancel: cancel_on_signal()?,
    })
}

pub fn sweep(args: SweepArgs) -> Result<ExitCode> {
    let on = match args.on {
        Home::Lab => windlass_experiments::Home::Lab,
        Home::Sim => windlass_experiments::Home::Sim,
    };
    let sweep = Sweep::new(&args.file, args.set, args.seeds, on)?;
    let at_once = args.jobs.map(usize::from);
    let settings = Settings { at_once, ..settings(false, args.resume, args.out, args.json)? };
    let swept = sweep.run(&settings)?;
    if args.json {
        println!("{}", swept.to_json());
    } else {
        print!("{swept}");
        println!("\nreport: {}", settings.out.join("report.html").display());
    }
    say_if_stopped(&format!(
        "; {} of {} runs are kept in {}: --resume goes on from there",
        swept.finished(),
        swept.expected,
        settings.out.display()
    ));
    Ok(if swept.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub fn reproduce(args: ReproduceArgs) -> Result<ExitCode> {
    let known: Vec<&str> =
        Experiment::names().chain([windlass_experiments::CPU, windlass_experiments::TRANSPARENCY]).collect();
    if args.list {
        match args.json {
            true => println!("{}", json!({ "experiments": known })),
            false => known.iter().for_each(|n| println!("{n}")),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let names = match (&args.name, args.all) {
        (Some(name), _) if known.contains(&name.as_str()) || name.ends_with(".toml") => vec![name.as_str()],
        (Some(name), _) => bail!("unknown experiment '{name}'; known: {}", known.join(", ")),
        (None, true) => known.clone(),
        (None, false) => bail!("name an experiment, or --all; known: {}", known.join(", ")),
    };
    let at_once = args.jobs.map(usize::from);
    let settings = Settings { at_once, ..settings(args.quick, args.resume, args.out.clone(), args.json)? };
    let mut all_hold = true;
    let mut documents = Vec::new();
    for name in names {
        if CANCELLED.load(Ordering::Relaxed) {
            break;
        }
        let result = match name {
            windlass_experiments::CPU => windlass_experiments::cpu(&settings)?,
            windlass_experiments::TRANSPARENCY => windlass_experiments::transparency(&settings)?,
            file if file.ends_with(".toml") => Experiment::from_file(file.as_ref())?.run(&settings)?,
            _ => Experiment::by_name(name)?.run(&settings)?,
        };
        all_hold &= result.all_hold();
        if args.json {
            documents.push(result.to_json());
        } else {
            print!("{result}");
        }
    }
    if args.json {
        // however many were done before somebody stopped it
        let document = if args.all { json!(documents) } else { json!(documents.first()) };
        println!("{document}");
    }
    let folder = settings.out.display();
    say_if_stopped(&format!("; what has finished is kept in {folder}: --resume goes on from there"));
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub fn demo(out: PathBuf) -> Result<ExitCode> {
    let complete = windlass_experiments::demo(&settings(true, false, out, false)?)?;
    say_if_stopped("");
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub fn bench(what: BenchWhat, only: &str, json: bool) -> Result<ExitCode> {
    let settings = || settings(true, false, "report".into(), json);
    match what {
        BenchWhat::Sim => speed::bench(only, json, cancel_on_signal()?),
        BenchWhat::Groups => group_cost::bench(only, json),
        BenchWhat::Emulator => Ok(show(&windlass_experiments::bench_emulator(only, &settings()?)?, json)),
        BenchWhat::Datapath if !only.is_empty() => {
            bail!("--only goes with bench sim, bench groups and bench emulator");
        }
        BenchWhat::Datapath => Ok(show(&windlass_experiments::bench_datapath(&settings()?)?, json)),
    }
}

fn show(result: &Outcome, json: bool) -> ExitCode {
    match json {
        true => println!("{}", result.to_json()),
        false => print!("{result}"),
    }
    if result.all_hold() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
