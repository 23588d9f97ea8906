//! The `windlass` command line.

mod agent;
mod algorithm;
mod args;
mod control;
mod counters;
mod demo_pages;
#[cfg(test)]
mod documented;
mod dry_run;
mod event_log;
mod fleet;
mod flow_table;
mod flows;
mod group_cost;
mod guest;
mod health;
mod http;
mod iface_doctor;
mod info;
mod interfaces;
mod lab;
mod links;
mod log;
mod manual;
mod memory;
mod metrics;
mod native;
mod policy;
mod print;
mod readers;
mod recorder;
mod records;
mod retries;
mod sampler;
mod service;
mod shares;
mod signals;
mod sim_pages;
mod speed;
mod status;
mod supervisors;
mod top;
mod watched;
mod web;
mod why;

use args::{Args, Command, FlowsArgs};
use clap::{CommandFactory, Parser};
use mimalloc::MiMalloc;
use std::{any::Any, panic, process::ExitCode};

/// Simulations of thousands of connections go through a hundred megabytes all the time. This one asks for pages of 2 MiB where
/// the kernel leaves them to programs (`madvise`), so that the processor knows where they are. Other commands do without (`memory.rs`).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Exit status of bad input: a wrong policy, scenario, interface, algorithm, or a missing privilege or kernel feature.
const BAD_INPUT: u8 = 2;

fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.command.is_about_agents() {
        windlass_agent::act_as_service_user()?;
    }
    match args.command {
        Command::Attach(a) if a.native => native::attach(&a),
        Command::Attach(a) => control::attach(a),
        Command::Agent(a) => agent::agent(a),
        Command::Detach { cgroup: Some(folder), json, .. } => native::detach(&folder, json),
        Command::Detach { iface, all, json, .. } => control::detach(iface, all, json),
        Command::Flows(FlowsArgs { by: Some(by), json, .. }) => shares::shares(by, json),
        Command::Flows(f) => flows::flows(&f),
        Command::Counters(c) => counters::counters(&c),
        Command::Status { json } => status::status(json),
        Command::Metrics { openmetrics } => metrics::metrics(openmetrics),
        Command::Records { folder, follow, json } => records::records(&folder, follow, json),
        Command::Why(w) => why::why(&w),
        Command::Web(w) => web::web(w),
        Command::Set(s) => control::set(&s),
        Command::Top(t) => top::top(t),
        Command::Algs { algorithm, json } => info::algs(algorithm.as_deref(), json),
        Command::Policy(p) => policy::policy(p),
        Command::Native(n) => native::native(n),
        Command::Fleet(f) => fleet::fleet(f),
        Command::Guest(g) => guest::guest(&g),
        Command::Controller(c) => guest::controller(&c),
        Command::Doctor(d) => match &d.iface {
            Some(iface) => iface_doctor::doctor(iface, &d),
            None => info::doctor(d.json),
        },
        Command::Run(r) => lab::run(r),
        Command::Sweep(s) => lab::sweep(s),
        Command::Reproduce(r) => lab::reproduce(r),
        Command::Demo { out, web, json } => lab::demo(out, web, json),
        Command::Bench { what, only, pairs, quick, json } => {
            lab::bench(what, &only, pairs.map(|n| n as usize), quick, json)
        }
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "windlass", &mut text);
            print!("{}", String::from_utf8_lossy(&text));
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { install: Some(folder), .. } => manual::install(&folder),
        Command::Man { command, .. } => manual::show(&command),
    }
}

fn main() -> ExitCode {
    // a reader that goes away (`windlass flows | head`) ends commands that have nothing to let go of:
    // signals::wishes() SAFETY: restores the default action of one signal before any thread exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let default = panic::take_hook();
    panic::set_hook(Box::new(move |info| match lost_output(info.payload()) {
        // what is not read is not missed; and a panic in here would end it all before anything is let go of
        Some(why) if !why.contains("Broken pipe") => tracing::error!("{why}"),
        Some(_) => {}
        None => default(info),
    }));
    windlass_agent::silence_libbpf();
    // unwinding lets go of interfaces, whatever was printed last
    let run = || {
        let args = Args::parse();
        if args.command.simulates() {
            memory::allow_huge_pages(true);
        }
        let (of_log, as_json) = args.command.log();
        log::start(&of_log, as_json);
        run(args)
    };
    match panic::catch_unwind(run) {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => {
            // the status reports it, too
            tracing::error!("{error:#}");
            ExitCode::from(BAD_INPUT)
        }
        Err(cause) if lost_output(cause.as_ref()).is_some() => ExitCode::FAILURE,
        Err(cause) => panic::resume_unwind(cause),
    }
}

/// The message of std's print macros when they panic, for example because a disk is full; none: another panic.
fn lost_output(cause: &(dyn Any + Send)) -> Option<&str> {
    cause.downcast_ref::<String>().filter(|what| what.starts_with("failed printing to ")).map(String::as_str)
}
