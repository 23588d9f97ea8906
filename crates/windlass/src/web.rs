//! `windlass web`: pages in a browser that show live what an agent controls. A process of its own, without capabilities, so that what
//! reads HTTP is not what may load programs. docs/web.md has its paths.

mod agent;
mod events;
mod files;
mod site;

use crate::{
    args::WebArgs,
    event_log::{About, EventLog},
    http::{self, Hosts, Listening},
    memory,
    signals::{self, Wish},
};
use agent::Agent;
use anyhow::Result;
use serde_json::json;
use site::Pages;
use std::{process::ExitCode, sync::Arc};
use windlass_agent::{Duty, confine};

pub fn web(args: WebArgs) -> Result<ExitCode> {
    let log = EventLog::new(&args.log, args.json);
    let listening = Listening::at(args.listen, "--listen")?;
    confine(Duty::Pages).iter().for_each(|why| log.warn(why));
    let (_sender, wishes) = signals::wishes(Wish::Stop)?;
    let (address, is_local) = (listening.address, listening.is_local());
    if !is_local {
        log.warn(format_args!(
            "pages at {address} can be read by any host that reaches that address, and nothing is encrypted: let a proxy with a password \
             stand before it, or use `ssh -L`"
        ));
    }
    let hosts = Hosts::named(is_local, args.name);
    let agent = Agent::new(args.agent);
    // one may come later
    if let Some(why) = agent.complaint() {
        log.warn(why);
    }
    http::serve(listening, hosts, Arc::new(Pages::new(agent, args.notice, log)), log)?;
    let words = format!("pages at http://{address}/");
    log.event_with(
        "web",
        About::Command,
        &words,
        || json!({ "event": "web", "address": address.to_string() }),
    );
    memory::give_back();
    let _ = wishes.recv();
    Ok(ExitCode::SUCCESS)
}
