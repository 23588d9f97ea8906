//! `windlass fleet rollout`: drives a rollout to its end.

use super::{runtime, store};
use crate::{
    args::RolloutArgs,
    print,
    signals::{self, Wish},
};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::{process::ExitCode, time::Duration};
use windlass_agent::Policy;
use windlass_fleet::{
    driver::{self, End, Event, Plan},
    guard::Guard,
    state::Terms,
    step::Phase,
};
use windlass_scenario::{Span, printable_path, read_file};

pub fn rollout(args: &RolloutArgs) -> Result<ExitCode> {
    let store = store(&args.etcd)?;
    let plan = args.policy.is_some().then(|| plan(args)).transpose()?;
    let (_, wishes) = signals::wishes(Wish::Stop)?;
    let report = |event: Event| report(args, event);
    let ended = runtime()?.block_on(async {
        let drive = async {
            match &plan {
                Some(plan) => driver::start(&store, plan, &report).await,
                None => driver::resume(&store, &report).await,
            }
        };
        let ended = tokio::select! {
            ended = drive => Some(ended),
            () = signals::stopped(wishes) => None,
        };
        store.stop_driving().await;
        ended
    });
    match ended {
        Some(Ok(End::Done)) => Ok(ExitCode::SUCCESS),
        Some(Ok(End::RolledBack(_))) => Ok(ExitCode::FAILURE),
        Some(Err(why)) => Err(why.into()),
        None => {
            let words = "stopped: the rollout stands where it is; `windlass fleet rollout --resume` goes on, `windlass fleet \
                rollback` goes back";
            print_event(args, words, || json!({ "event": "stopped" }));
            Ok(ExitCode::FAILURE)
        }
    }
}

fn whole_seconds(name: &str, Span(seconds): Span, least: u64) -> Result<u64> {
    let whole = seconds.ceil() as u64;
    if !(least..=86_400).contains(&whole) {
        bail!("{name} {seconds}s: {least}s to 86400s");
    }
    Ok(whole)
}

fn plan(args: &RolloutArgs) -> Result<Plan> {
    let file = args.policy.as_deref().context("a policy, or --resume")?;
    Policy::from_file(file)?;
    let text = read_file(file).with_context(|| printable_path(file).to_string())?;
    let terms = Terms {
        wait_s: whole_seconds("--wait", args.wait, 1)?,
        apply_within_s: whole_seconds("--apply-within", args.apply_within, 1)?,
        unwell_for_s: whole_seconds("--unwell-for", args.unwell_for, 0)?,
        may_lag: args.may_lag,
    };
    let guards = match args.guard.is_empty() {
        true => Guard::usual(Duration::from_secs(terms.wait_s)),
        false => args.guard.clone(),
    };
    if let Some(guard) = guards.iter().find(|guard| guard.window.as_secs_f64() > terms.wait_s as f64) {
        bail!(
            "--guard {guard} needs longer than --wait {}s: give it a shorter time, as loss<2%,2x,10s, or wait longer",
            terms.wait_s
        );
    }
    let stages = [args.canary].into_iter().chain(args.steps.iter().copied()).collect();
    let selector = args.select.clone();
    Ok(Plan { text, file: printable_path(file).to_string(), selector, stages, guards, terms })
}

/// A line, or a document.
fn print_event(args: &RolloutArgs, words: &str, document: impl FnOnce() -> Value) {
    match args.json {
        true => println!("{}", document()),
        false => print::line(words),
    }
}

fn report(args: &RolloutArgs, event: Event) {
    match event {
        Event::Started { id, nodes, stages } => print_event(
            args,
            &format!("rollout {id}: {nodes} nodes in {stages} stages; Ctrl-C leaves it where it is"),
            || json!({ "event": "started", "id": id, "nodes": nodes, "stages": stages }),
        ),
        Event::Stage { stage, phase, nodes } => {
            let words = match phase {
                Phase::Before => "not yet",
                Phase::Apply => "get it",
                Phase::Watch => "have it, and are watched",
            };
            print_event(
                args,
                &format!("stage {}: {nodes} nodes {words}", stage + 1),
                || json!({ "event": "stage", "stage": stage + 1, "phase": phase, "nodes": nodes }),
            );
        }
        Event::Waits(why) => print_event(args, &why, || json!({ "event": "waits", "why": why })),
        Event::Complaint(why) => {
            print_event(args, &format!("warning: {why}"), || json!({ "event": "complaint", "why": why }));
        }
        Event::Done => print_event(args, "complete: all nodes have it", || json!({ "event": "done" })),
        Event::RolledBack(why) => {
            print_event(
                args,
                &format!("rolled back: {why}"),
                || json!({ "event": "rolled_back", "why": why }),
            );
        }
    }
}
