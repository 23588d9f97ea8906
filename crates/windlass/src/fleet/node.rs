//! `windlass fleet node`: the process beside an agent.

use super::{runtime, store};
use crate::{
    args::NodeArgs,
    event_log::{About, EventLog},
    signals::{self, Wish},
};
use anyhow::{Result, bail};
use serde_json::json;
use std::process::ExitCode;
use windlass_agent::{Duty, Policy, confine};
use windlass_fleet::{
    driver::short,
    labels::{WORD, is_word},
    node::{Config, Event, Node},
    store::host_name,
};
use windlass_scenario::printable_path;

pub fn node(args: &NodeArgs) -> Result<ExitCode> {
    let log = EventLog::new(&args.log, args.json);
    let name = args.node.clone().unwrap_or_else(host_name);
    if !is_word(&name) {
        bail!("--node '{name}': {WORD}");
    }
    let store = store(&args.etcd)?;
    confine(Duty::Files).iter().for_each(|why| log.warn(why));
    let (_, wishes) = signals::wishes(Wish::Stop)?;
    let config = Config {
        name,
        labels: args.label.iter().cloned().collect(),
        policy: args.policy.clone(),
        agent: args.agent.clone(),
        lease_s: args.lease_s,
        version: env!("WINDLASS_VERSION").into(),
    };
    let file = printable_path(&args.policy).to_string();
    let check = |text: &str| Policy::parse(&file, text).map(drop).map_err(|why| why.to_string());
    let (labels, name) = (config.labels.to_string(), config.name.clone());
    let report = |event: Event| report(log, args, &name, &labels, &event);
    let mut node = Node::new(config, &store, &check, &report);
    runtime()?.block_on(async {
        tokio::select! {
            never = node.run() => match never {},
            () = signals::stopped(wishes) => {}
        }
        node.leave().await;
    });
    log.event("stopped", About::Command, "the node has left; the policy in force stays");
    Ok(ExitCode::SUCCESS)
}

fn report(log: EventLog, args: &NodeArgs, name: &str, labels: &str, event: &Event) {
    let file = About::Policy(&args.policy);
    let of_hash =
        |event: &str, hash: &str, words: String| {
            log.event_with(event, file, &words, || {
            json!({ "event": event, "policy": printable_path(&args.policy).to_string(), "hash": hash })
        });
        };
    match event {
        Event::Connected => {
            let words = format!("node {name} of fleet {} ({labels}): etcd answers", args.etcd.fleet);
            log.event_with(
                "connected",
                About::Command,
                &words,
                || json!({ "event": "connected", "node": name, "fleet": args.etcd.fleet }),
            );
        }
        Event::Written(hash) => of_hash("written", hash, format!("policy {} written", short(hash))),
        Event::PutBack => {
            log.of_policy("put_back", &args.policy, "what was there before the fleet is put back")
        }
        Event::InForce(hash) => of_hash("in_force", hash, format!("policy {} is in force", short(hash))),
        Event::Complaint(why) => log.warn(why),
    }
}
