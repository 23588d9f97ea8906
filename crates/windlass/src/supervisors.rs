//! Whatever an agent reports to of itself: a service manager, and readers of its metrics.

use crate::{
    event_log::{About, EventLog},
    health::Health,
    interfaces::Interfaces,
    metrics::{Listening, Publisher, serve},
    service::Service,
};
use anyhow::Result;
use serde_json::json;
use std::{path::Path, sync::Arc};
use windlass_agent::{Policy, keep_ended_counters};

/// All of them.
pub struct Supervisors {
    service: Service,
    /// None: no metrics are served.
    metrics: Option<Publisher>,
    /// Names of the rules in force.
    rules: Arc<[String]>,
}

impl Supervisors {
    /// From now on metrics are served, if there is a socket for them.
    pub fn start(listening: Option<Listening>, log: EventLog) -> Result<Supervisors> {
        let metrics = listening.map(|listening| publish(listening, log)).transpose()?;
        Ok(Supervisors { service: Service::new(log), metrics, rules: Arc::new([]) })
    }

    /// This policy is in force, whose file has this hash.
    pub fn policy(&mut self, policy: &Policy, hash: String) {
        self.rules = policy.rules.iter().map(|rule| rule.name.clone()).collect();
        if let Some(metrics) = &self.metrics {
            metrics.policy(hash);
        }
    }

    /// The policy's file as it is now was refused.
    pub fn policy_refused(&mut self, file: &Path) {
        if let Some(metrics) = &self.metrics {
            metrics.policy_refused(Policy::hash_of_file(file));
        }
    }

    /// The agent has looked at everything.
    pub fn look(&mut self, health: Health, interfaces: &Interfaces) {
        self.service.look(&health);
        if let Some(metrics) = &self.metrics {
            interfaces.publish(metrics, &self.rules);
            metrics.health(health);
        }
    }

    /// The policy is about to be read again, and the next look comes after that.
    pub fn reloading(&mut self) {
        self.service.reloading();
    }

    /// The agent ends, with this under control.
    pub fn stopping(&mut self, health: &Health) {
        self.service.stopping(health);
    }
}

/// Serves metrics from now on.
fn publish(listening: Listening, log: EventLog) -> Result<Publisher> {
    let address = listening.address;
    if !listening.is_local() {
        log.warn(format_args!(
            "metrics at {address} can be read by any host that reaches that address, and nothing is encrypted: let a firewall pass \
             your Prometheus only"
        ));
    }
    if let Err(why) = keep_ended_counters() {
        log.warn(format_args!("counters fall when the last interface of a datapath is released: {why}"));
    }
    let publisher = Publisher::default();
    serve(listening, publisher.published(), log)?;
    let words = format!("metrics at http://{address}/metrics");
    log.event_with(
        "metrics",
        About::Command,
        &words,
        || json!({ "event": "metrics", "address": address.to_string() }),
    );
    Ok(publisher)
}
