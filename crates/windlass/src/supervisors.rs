//! Whatever an agent reports to of itself: a service manager, and readers of its metrics and of its flows.

use crate::{
    event_log::{About, EventLog},
    health::Health,
    http::{self, Hosts, Listening},
    interfaces::Interfaces,
    metrics::{Histograms, Publisher},
    readers::Readers,
    service::Service,
};
use anyhow::Result;
use serde_json::json;
use std::{path::Path, sync::Arc};
use windlass_agent::{Policy, ReaderSocket, keep_ended_counters};

/// All of them.
pub struct Supervisors {
    service: Service,
    publisher: Publisher,
    has_metrics: bool,
    /// None: there is no socket for them.
    _readers: Option<Readers>,
    /// Names of the rules in force.
    rules: Arc<[String]>,
}

impl Supervisors {
    /// From now on metrics are served, with these histograms if any, and readers answered, where there are sockets for them.
    pub fn start(
        listening: Option<Listening>,
        histograms: Option<Arc<Histograms>>,
        socket: Option<ReaderSocket>,
        log: EventLog,
    ) -> Result<Supervisors> {
        let publisher = Publisher::new(histograms);
        let has_metrics = listening.is_some();
        listening.map(|listening| publish(listening, &publisher, log)).transpose()?;
        let readers = socket.map(|socket| Readers::start(socket, publisher.published(), log)).transpose()?;
        let service = Service::new(log);
        Ok(Supervisors { service, publisher, has_metrics, _readers: readers, rules: Arc::new([]) })
    }

    /// This policy is in force, whose file has this hash.
    pub fn policy(&mut self, policy: &Policy, hash: String) {
        self.rules = policy.rules.iter().map(|rule| rule.name.clone()).collect();
        self.publisher.policy(hash);
    }

    /// The policy's file as it is now was refused.
    pub fn policy_refused(&mut self, file: &Path) {
        self.publisher.policy_refused(Policy::hash_of_file(file));
    }

    /// The agent has looked at everything.
    pub fn look(&mut self, health: Health, interfaces: &Interfaces) {
        self.service.look(&health);
        if self.has_metrics {
            interfaces.publish(&self.publisher, &self.rules);
        }
        self.publisher.health(health);
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
fn publish(listening: Listening, publisher: &Publisher, log: EventLog) -> Result<()> {
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
    let hosts = Hosts::of(listening.is_local());
    http::serve(listening, hosts, publisher.published(), log)?;
    let words = format!("metrics at http://{address}/metrics");
    log.event_with(
        "metrics",
        About::Command,
        &words,
        || json!({ "event": "metrics", "address": address.to_string() }),
    );
    Ok(())
}
