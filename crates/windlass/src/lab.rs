//! Commands that make their own traffic: run, reproduce, demo, bench.

use crate::{
    args::{BenchWhat, Emulator, Home, ReproduceArgs, RunArgs, SweepArgs, SweepCommand},
    demo_pages::DemoPages,
    group_cost, print,
    signals::{self, Wish},
    sim_pages, speed,
};
use anyhow::{Context, Result, bail};
use serde_json::json;
use std::{
    net::SocketAddr,
    num::NonZeroU64,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use windlass_experiments::{Experiment, HarmPaths, Outcome, Settings, Sweep, Swept};
use windlass_lab::RunOptions;
use windlass_scenario::{RunReport, ScenarioFile, Span};
use windlass_sim::TraceOptions;

static CANCELLED: AtomicBool = AtomicBool::new(false);

/// Ctrl-C ends the run in hand; what has finished stays on disk.
fn cancel_on_signal() -> Result<&'static AtomicBool> {
    let (_, wishes) = signals::wishes(Wish::Stop)?;
    thread::spawn(move || wishes.iter().for_each(|_| CANCELLED.store(true, Ordering::Relaxed)));
    Ok(&CANCELLED)
}

/// What the user that stopped it should know; `rest`: what becomes of what has finished.
fn say_if_stopped(rest: &str) {
    if CANCELLED.load(Ordering::Relaxed) {
        tracing::warn!("stopped{rest}");
    }
}

fn this_binary() -> Result<PathBuf> {
    std::env::current_exe().context("the path of this program")
}

pub fn run(args: RunArgs) -> Result<ExitCode> {
    let file = ScenarioFile::read(&args.file)?;
    let file = match args.seed {
        Some(seed) => file.with_seed(seed)?,
        None => file,
    };
    if args.on == Home::Sim && args.sample_ms.is_some() {
        bail!("--sample-ms looks at real kernels: it goes with --on lab");
    }
    if args.on == Home::Lab && args.captures.is_some() && file.scenario.windlass.is_none() {
        bail!("{}: without a [windlass] there is no box to capture at", args.file.display());
    }
    if args.on == Home::Sim && args.emulator == Emulator::Netem {
        bail!("--emulator is about real packets: it goes with --on lab");
    }
    if args.on == Home::Lab && args.web.is_some() && file.scenario.windlass.is_none() {
        bail!(
            "{}: with --on lab, --web shows what the box reports, and without a [windlass] there is none; --on sim looks into hosts",
            args.file.display()
        );
    }
    if args.on == Home::Lab && args.speed.is_some() {
        bail!("--speed is about virtual time: it goes with --on sim; real kernels keep real time");
    }
    let report = match args.on {
        Home::Lab => run_in_lab(&args, &file)?,
        Home::Sim => simulate(&args, &file)?,
    };
    match args.json {
        true => println!("{}", report.to_json()),
        false => print!("{report}"),
    }
    say_if_stopped("");
    Ok(if report.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_in_lab(args: &RunArgs, file: &ScenarioFile) -> Result<RunReport> {
    let emulator = match args.emulator {
        Emulator::Own => windlass_lab::Emulator::Own,
        Emulator::Netem => windlass_lab::Emulator::Netem,
    };
    emulator.check(&file.scenario).map_err(|refusal| file.refused(&refusal))?;
    let cancel = cancel_on_signal()?;
    let notice = format!(
        "Demo: scenario {}, real Linux kernels and emulated links on one machine.",
        file.scenario.name
    );
    if args.web.is_some() {
        // which what is shown takes
        windlass_lab::netns::check_root()?;
    }
    let pages = args.web.map(|address| pages(address, &notice, cancel)).transpose()?;
    let interval_ns = interval(args)?;
    let options = RunOptions {
        cancel: Some(cancel),
        spin_us: 100,
        interval_ns: args.trace.as_ref().map(|_| interval_ns),
        readers: pages.as_ref().map(DemoPages::link),
        captures: args.captures.clone(),
        sample_ms: args.sample_ms.or(args.trace.as_ref().map(|_| sample_ms(args.interval))),
        emulator,
        ..RunOptions::new(this_binary()?)
    };
    let mut report = windlass_lab::run(&file.scenario, &options)?;
    if let Some(folder) = &args.trace {
        windlass_experiments::write_lab_trace(folder, &report)?;
        windlass_experiments::draw_trace(folder, &trace_title(&report, "real kernels"))?;
    }
    report.intervals = None;
    if args.sample_ms.is_none() {
        report.samples.clear();
    }
    Ok(report)
}

/// Time from one row of a trace to the next.
fn interval(args: &RunArgs) -> Result<NonZeroU64> {
    NonZeroU64::new(args.interval.ns()).with_context(|| format!("--interval {}: more than 0", args.interval))
}

/// Time from one sample of the flow table to the next, for a trace with rows in this interval: 10 ms at least.
fn sample_ms(interval: Span) -> u64 {
    (interval.ns() / 1_000_000).max(10)
}

/// Pages at this address that a browser shows, or none did for a while.
fn pages(address: SocketAddr, notice: &str, cancel: &AtomicBool) -> Result<DemoPages> {
    let pages = DemoPages::start(&this_binary()?, address, notice)?;
    pages.wait(cancel)?;
    Ok(pages)
}

fn simulate(args: &RunArgs, file: &ScenarioFile) -> Result<RunReport> {
    let interval_ns = interval(args)?;
    let home = windlass_experiments::Home::Sim;
    home.check(&file.scenario).map_err(|refusal| file.refused(&refusal))?;
    let trace = args.trace.as_deref().map(|folder| TraceOptions { folder, interval_ns });
    let cancel = cancel_on_signal()?;
    let captures = args.captures.as_deref();
    let options = windlass_sim::RunOptions { cancel: Some(cancel), trace, captures, ..Default::default() };
    let outcome = match args.web {
        Some(address) => simulate_shown(address, args.speed.unwrap_or(1.0), file, &options, cancel),
        None => windlass_sim::run(&file.scenario, &options).map_err(Into::into),
    };
    let report = outcome.with_context(|| args.file.display().to_string())?.report;
    if let Some(folder) = &args.trace {
        windlass_experiments::draw_trace(folder, &trace_title(&report, "simulated"))?;
    }
    Ok(report)
}

/// Simulates it as fast as it is to be seen.
fn simulate_shown(
    address: SocketAddr,
    speed: f64,
    file: &ScenarioFile,
    options: &windlass_sim::RunOptions<'_>,
    cancel: &AtomicBool,
) -> Result<windlass_sim::Outcome> {
    let name = &file.scenario.name;
    let notice = match speed {
        1.0 => format!("Demo: scenario {name}, simulated, in real time."),
        _ => format!("Demo: scenario {name}, simulated, {speed} times as fast as real time."),
    };
    let pages = pages(address, &notice, cancel)?;
    sim_pages::run_shown(&file.scenario, options, &pages.link(), speed)
}

/// The title of the page of a trace.
fn trace_title(report: &RunReport, how: &str) -> String {
    format!("Scenario {}, seed {}, {how}", report.scenario, report.seed)
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
        readers: None,
    })
}

pub fn sweep(args: SweepArgs) -> Result<ExitCode> {
    if let Some(SweepCommand::Merge { folders, out, json }) = args.command {
        let settings = settings(false, false, out, json)?;
        return Ok(print_sweep(&Sweep::merge(&folders, &settings)?, json, &settings));
    }
    let on = home(args.on);
    let sweep = Sweep::new(&args.file.context("name a scenario file")?, args.set, args.seeds, on)?;
    let at_once = args.jobs.map(usize::from);
    let settings = Settings { at_once, ..settings(false, args.resume, args.out, args.json)? };
    let Some(shard) = args.shard else {
        let swept = sweep.run(&settings)?;
        return Ok(print_sweep(&swept, args.json, &settings));
    };
    let swept = sweep.run_shard(shard, &settings)?;
    let (kept, expected, out) = (swept.kept(), swept.expected, settings.out.display());
    if args.json {
        println!(
            "{}",
            json!({ "shard": shard.to_string(), "runs": kept, "expected": expected, "out": settings.out })
        );
    } else {
        println!(
            "shard {shard}: {kept} of {expected} runs are in {out}; `windlass sweep merge` puts all shards together"
        );
    }
    Ok(end_of_sweep(&swept, &settings))
}

fn print_sweep(swept: &Swept, json: bool, settings: &Settings) -> ExitCode {
    if json {
        println!("{}", swept.to_json());
    } else {
        print!("{swept}");
        println!("\nreport: {}", settings.out.join("report.html").display());
    }
    end_of_sweep(swept, settings)
}

fn end_of_sweep(swept: &Swept, settings: &Settings) -> ExitCode {
    say_if_stopped(&format!(
        "; {} of {} runs are kept in {}: --resume goes on from there",
        swept.kept(),
        swept.expected,
        settings.out.display()
    ));
    if swept.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn home(on: Home) -> windlass_experiments::Home {
    match on {
        Home::Lab => windlass_experiments::Home::Lab,
        Home::Sim => windlass_experiments::Home::Sim,
    }
}

fn reproduce_one(name: &str, args: &ReproduceArgs, settings: &Settings) -> Result<Outcome> {
    match name {
        windlass_experiments::HARM_SURVEY => {
            let which = args.only.map_or(HarmPaths::Draw(args.draw.unwrap_or(1)), HarmPaths::Path);
            windlass_experiments::harm_survey(which, home(args.on.unwrap_or(Home::Sim)), settings)
        }
        _ if args.draw.is_some() => {
            bail!("--draw goes with {}, whose paths are drawn at random", windlass_experiments::HARM_SURVEY)
        }
        windlass_experiments::AGREEMENT_SURVEY if args.on.is_none() => {
            windlass_experiments::agreement_survey(args.only, args.shard, settings)
        }
        _ if args.only.is_some() => {
            bail!(
                "--only goes with {} and {}, whose paths and points have numbers",
                windlass_experiments::HARM_SURVEY,
                windlass_experiments::AGREEMENT_SURVEY
            )
        }
        _ if args.shard.is_some() => {
            bail!("--shard goes with {}, and with `windlass sweep`", windlass_experiments::AGREEMENT_SURVEY)
        }
        _ if args.on.is_some() => {
            bail!(
                "--on goes with {}; the files of other experiments name where each part of them runs",
                windlass_experiments::HARM_SURVEY
            )
        }
        windlass_experiments::CPU => windlass_experiments::cpu(settings),
        windlass_experiments::TRANSPARENCY => windlass_experiments::transparency(settings),
        file if file.ends_with(".toml") => {
            let experiment = Experiment::from_file(file.as_ref())?;
            experiment.check(settings.quick).with_context(|| file.to_string())?;
            experiment.run(settings)
        }
        _ => Experiment::by_name(name)?.run(settings),
    }
}

/// Experiments that are no files, and what they are about.
const BUILT_IN: [(&str, &str); 4] = [
    (windlass_experiments::CPU, windlass_experiments::CPU_TITLE),
    (windlass_experiments::TRANSPARENCY, windlass_experiments::TRANSPARENCY_TITLE),
    (windlass_experiments::HARM_SURVEY, windlass_experiments::HARM_SURVEY_TITLE),
    (windlass_experiments::AGREEMENT_SURVEY, windlass_experiments::AGREEMENT_SURVEY_TITLE),
];

/// All experiments, each with a line of what it is about.
fn list(json: bool) -> ExitCode {
    let mut all: Vec<(&str, String)> = Experiment::titles().collect();
    all.extend(BUILT_IN.map(|(name, title)| (name, title.to_string())));
    if json {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        let titles: serde_json::Map<_, _> =
            all.iter().map(|(name, title)| (name.to_string(), title.as_str().into())).collect();
        println!("{}", json!({ "experiments": names, "titles": titles }));
    } else {
        let rows: Vec<_> = all.into_iter().map(|(name, title)| vec![name.to_string(), title]).collect();
        print::table(&["experiment", "what it is about"], &rows);
    }
    ExitCode::SUCCESS
}

pub fn reproduce(args: ReproduceArgs) -> Result<ExitCode> {
    let known: Vec<&str> = Experiment::names().chain(BUILT_IN.map(|(name, _)| name)).collect();
    if args.list {
        return Ok(list(args.json));
    }
    let names = match (&args.name, args.all) {
        (Some(name), _) if known.contains(&name.as_str()) || name.ends_with(".toml") => vec![name.as_str()],
        (Some(name), _) => bail!("unknown experiment '{name}'; known: {}", known.join(", ")),
        (None, true) => known.clone(),
        (None, false) => bail!("name an experiment, or --all; known: {}", known.join(", ")),
    };
    let at_once = args.jobs.map(usize::from);
    let settings = Settings { at_once, ..settings(args.quick, args.resume, args.out.clone(), args.json)? };
    let (mut all_hold, mut unkept) = (true, 0);
    let mut documents = Vec::new();
    for name in names {
        if CANCELLED.load(Ordering::Relaxed) {
            break;
        }
        let result = match (reproduce_one(name, &args, &settings), args.all) {
            (Ok(result), _) => result,
            // hours of others do not hang on it
            (Err(why), true) => {
                tracing::warn!("{name}: {why:#}");
                all_hold = false;
                continue;
            }
            (Err(why), false) => return Err(why),
        };
        all_hold &= result.all_hold();
        unkept += result.unkept();
        if args.json {
            documents.push(result.to_json());
        } else {
            print!("{result}");
            println!("  report: {}", settings.folder(&result.name).join("report.html").display());
        }
    }
    if args.json {
        // however many were done before it was stopped
        let document = if args.all { json!(documents) } else { json!(documents.first()) };
        println!("{document}");
    }
    let folder = settings.out.display();
    let lost =
        if unkept > 0 { format!(", {unkept} runs apart that there was no room for") } else { String::new() };
    say_if_stopped(&format!("; what has finished is kept in {folder}{lost}: --resume goes on from there"));
    // claims of a part of the runs are none
    let is_whole = !CANCELLED.load(Ordering::Relaxed);
    Ok(if all_hold && is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

const DEMO_NOTICE: &str = "Demo: 10 MB over an emulated lossy WAN, three ways at once, with real Linux kernels on one machine. Shown is a box \
     whose server runs CUBIC; the other two ways have none.";

pub fn demo(out: PathBuf, web: Option<SocketAddr>, json: bool) -> Result<ExitCode> {
    let mut settings = settings(true, false, out, json)?;
    if web.is_some() {
        // which what is shown takes
        windlass_lab::netns::check_root()?;
    }
    let pages = web.map(|address| pages(address, DEMO_NOTICE, settings.cancel)).transpose()?;
    settings.readers = pages.as_ref().map(DemoPages::link);
    let demo = windlass_experiments::demo(&settings)?;
    match json {
        true => println!("{}", demo.to_json()),
        false => print!("{demo}\nreport: {}\n", settings.out.join("report.html").display()),
    }
    say_if_stopped("");
    Ok(if demo.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn bench_isolation(only: &str, quick: bool, json: bool) -> Result<ExitCode> {
    let settings = settings(quick, false, "report".into(), json)?;
    let shown = show(&windlass_experiments::bench_isolation(only, &settings)?, json);
    say_if_stopped("; what is above are the attacks that were made");
    // claims of a part of the attacks are none
    let is_whole = !CANCELLED.load(Ordering::Relaxed);
    Ok(if is_whole { shown } else { ExitCode::FAILURE })
}

pub fn bench(what: BenchWhat, only: &str, pairs: Option<usize>, quick: bool, json: bool) -> Result<ExitCode> {
    if quick && what != BenchWhat::Isolation {
        bail!("--quick goes with `bench isolation`; others are made smaller with --only");
    }
    if pairs.is_some() && what != BenchWhat::Datapath {
        bail!("--pairs goes with `bench datapath`");
    }
    let settings = || settings(true, false, "report".into(), json);
    match what {
        BenchWhat::Sim => speed::bench(only, json, cancel_on_signal()?),
        BenchWhat::Groups => group_cost::bench(only, json),
        BenchWhat::Isolation => bench_isolation(only, quick, json),
        BenchWhat::Emulator => Ok(show(&windlass_experiments::bench_emulator(only, &settings()?)?, json)),
        BenchWhat::Datapath => {
            Ok(show(&windlass_experiments::bench_datapath(only, pairs, &settings()?)?, json))
        }
    }
}

fn show(result: &Outcome, json: bool) -> ExitCode {
    match json {
        true => println!("{}", result.to_json()),
        false => print!("{result}"),
    }
    if result.all_hold() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
