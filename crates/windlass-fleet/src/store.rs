//! A fleet in etcd, under `windlass/FLEET/`:
//!
//! | key | value |
//! |---|---|
//! | `fleet` | [`Fleet`]: what nodes should have; each change is a transaction that fails if another one came first |
//! | `policies/SHA-256` | a policy's text |
//! | `history/GENERATION` | [`Change`], one for each generation |
//! | `nodes/NODE` | [`NodeStatus`]; it stays when the node is gone |
//! | `alive/NODE` | the node's process; under its lease, and gone with it |
//! | `driver` | [`Writer`]: the process that drives a rollout; under its lease |

use crate::{
    error::{Error, Result},
    etcd::{Etcd, If, Then, Watch},
    http::Endpoint,
    labels::{WORD, is_word},
    policy_file::hash,
    state::{Change, FORMAT, Fleet, NodeStatus, Writer, document},
    wall_clock::unix_s,
};
use std::{cell::Cell, collections::BTreeMap, env, fs};

/// Changes that are kept.
const HISTORY_MOST: u64 = 1000;

/// One fleet's part of etcd.
#[derive(Debug)]
pub struct Store {
    etcd: Etcd,
    prefix: String,
    writer: Writer,
    /// The lease under which this process drives a rollout.
    driving: Cell<Option<i64>>,
}

/// All of a fleet, as it was at one moment.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// What nodes should have.
    pub fleet: Fleet,
    /// Revision of its last change; 0: it was never changed.
    pub changed: i64,
    /// Of etcd as a whole.
    pub revision: i64,
    /// The process that drives the rollout.
    pub driver: Option<Writer>,
    /// What nodes have reported, with the revision in which they did.
    pub nodes: BTreeMap<String, (NodeStatus, i64)>,
    /// Nodes whose lease goes on.
    pub alive: Vec<String>,
}

/// What else a change does.
#[derive(Debug, Default)]
pub struct Besides<'a> {
    /// A policy's text that nodes will need.
    pub policy: Option<&'a str>,
    /// Only while this process drives the rollout.
    pub as_driver: bool,
    /// This process drives the rollout from now on, under this lease.
    pub lease: Option<i64>,
}

impl Store {
    /// Of this name, at one of these.
    ///
    /// # Errors
    /// It is no name.
    pub fn new(endpoints: Vec<Endpoint>, fleet: &str) -> Result<Store> {
        if !is_word(fleet) {
            return Err(Error::Invalid(format!("--fleet '{fleet}': {WORD}")));
        }
        let (etcd, prefix) = (Etcd::new(endpoints), format!("windlass/{fleet}/"));
        Ok(Store { etcd, prefix, writer: this_process(), driving: Cell::new(None) })
    }

    /// This process.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    fn key(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix)
    }

    /// What nodes should have, and etcd's revision.
    pub async fn fleet(&self) -> Result<(Fleet, i64)> {
        let (found, revision) = self.etcd.ranges(&[&self.key("fleet")]).await?;
        let fleet = found[0].first().map(|entry| Fleet::parse(&entry.value)).transpose()?;
        Ok((fleet.unwrap_or_else(unwritten), revision))
    }

    /// All of it.
    pub async fn contents(&self) -> Result<Contents> {
        let keys = ["fleet", "driver", "nodes/", "alive/"].map(|rest| self.key(rest));
        let (found, revision) = self.etcd.ranges(&keys.each_ref().map(String::as_str)).await?;
        let [fleet, driver, nodes, alive] = &found[..] else {
            return Err(Error::Invalid("four answers of etcd".into()));
        };
        let name = |key: &str, under: &str| key.strip_prefix(under).map(String::from);
        let status = |value: &str| document::<NodeStatus>("node", value);
        let mut of_nodes = BTreeMap::new();
        for entry in nodes {
            // one that another build has written otherwise must not hide the rest
            let node = status(&entry.value).unwrap_or_default();
            of_nodes.extend(name(&entry.key, &keys[2]).map(|name| (name, (node, entry.changed))));
        }
        Ok(Contents {
            fleet: fleet
                .first()
                .map(|entry| Fleet::parse(&entry.value))
                .transpose()?
                .unwrap_or_else(unwritten),
            changed: fleet.first().map_or(0, |entry| entry.changed),
            revision,
            driver: driver.first().map(|entry| document("driver", &entry.value)).transpose()?,
            nodes: of_nodes,
            alive: alive.iter().filter_map(|entry| name(&entry.key, &keys[3])).collect(),
        })
    }

    /// Writes the next generation of what was read, unless another writer came first.
    pub async fn change(
        &self,
        read: &Contents,
        mut fleet: Fleet,
        what: &str,
        besides: &Besides<'_>,
    ) -> Result<Fleet> {
        fleet.format = FORMAT;
        fleet.generation = read.fleet.generation + 1;
        fleet.changed = Change {
            generation: fleet.generation,
            what: what.into(),
            writer: self.writer.clone(),
            at_unix_s: unix_s(),
        };
        let [of_fleet, of_driver] = ["fleet", "driver"].map(|rest| self.key(rest));
        let of_history = |generation: u64| self.key(&format!("history/{generation:020}"));
        let (text, change, writer) = (json(&fleet), json(&fleet.changed), json(&self.writer));
        let history = [
            of_history(fleet.generation),
            self.key("history/"),
            of_history(fleet.generation.saturating_sub(HISTORY_MOST)),
        ];
        let of_policy = besides.policy.map(|text| (self.key(&format!("policies/{}", hash(text))), text));
        let mut steps = vec![
            Then::Put(&of_fleet, &text, 0),
            Then::Put(&history[0], &change, 0),
            Then::DeleteBefore(&history[1], &history[2]),
        ];
        if let Some((key, text)) = &of_policy {
            steps.push(Then::Put(key, text, 0));
        }
        let mut conditions = vec![If::Changed(&of_fleet, read.changed)];
        if besides.as_driver {
            conditions.push(If::Is(&of_driver, &writer));
        }
        if let Some(lease) = besides.lease {
            conditions.push(If::Changed(&of_driver, 0));
            steps.push(Then::Put(&of_driver, &writer, lease));
        }
        match self.etcd.change(&conditions, &steps).await? {
            true => Ok(fleet),
            false => Err(Error::Lost(
                "another writer was faster; `windlass fleet status` shows what it has done".into(),
            )),
        }
    }

    /// A policy's text. None: it is not there.
    pub async fn policy(&self, hash_wanted: &str) -> Result<Option<String>> {
        let (found, _) = self.etcd.ranges(&[&self.key(&format!("policies/{hash_wanted}"))]).await?;
        Ok(found[0].first().map(|entry| entry.value.clone()).filter(|text| hash(text) == hash_wanted))
    }

    /// The changes that are kept, the first one first.
    pub async fn history(&self) -> Result<Vec<Change>> {
        let (found, _) = self.etcd.ranges(&[&self.key("history/")]).await?;
        found[0].iter().map(|entry| document("history", &entry.value)).collect()
    }

    /// Watches what nodes should have for changes after this revision.
    pub(crate) async fn watch(&self, revision: i64) -> Result<Watch> {
        self.etcd.watch(&self.key("fleet"), revision + 1).await
    }

    /// A lease of so many seconds.
    pub async fn grant(&self, seconds: u64) -> Result<i64> {
        self.etcd.grant(seconds).await
    }

    /// Renews it; returns whether it had not ended before.
    pub async fn keep_alive(&self, lease: i64) -> Result<bool> {
        self.etcd.keep_alive(lease).await
    }

    /// Ends it.
    pub async fn revoke(&self, lease: i64) -> Result<()> {
        self.etcd.revoke(lease).await
    }

    /// This process is that node from now on, under this lease; unless another one is, which is returned.
    pub async fn be_node(&self, name: &str, lease: i64) -> Result<Option<Writer>> {
        let (key, writer) = (self.key(&format!("alive/{name}")), json(&self.writer));
        let put = [Then::Put(&key, &writer, lease)];
        if self.etcd.change(&[If::Changed(&key, 0)], &put).await?
            || self.etcd.change(&[If::Is(&key, &writer)], &put).await?
        {
            return Ok(None);
        }
        let (found, _) = self.etcd.ranges(&[&key]).await?;
        let other = found[0].first().map(|entry| document("node", &entry.value)).transpose()?;
        // its lease may have ended just now
        Ok(Some(other.unwrap_or_default()))
    }

    /// What the node reports, which this process is.
    pub async fn report(&self, name: &str, status: &NodeStatus) -> Result<()> {
        let key = self.key(&format!("nodes/{name}"));
        self.etcd.change(&[], &[Then::Put(&key, &json(status), 0)]).await.map(drop)
    }

    /// A lease to drive a rollout under.
    pub(crate) async fn driving_lease(&self, seconds: u64) -> Result<i64> {
        let lease = self.grant(seconds).await?;
        self.driving.set(Some(lease));
        Ok(lease)
    }

    /// Renews it, or gets another one where it has ended; returns whether no other process drives the rollout.
    pub(crate) async fn keep_driving(&self, seconds: u64) -> Result<bool> {
        if let Some(lease) = self.driving.get()
            && self.keep_alive(lease).await?
        {
            return Ok(true);
        }
        let lease = self.driving_lease(seconds).await?;
        let (key, writer) = (self.key("driver"), json(&self.writer));
        let put = [Then::Put(&key, &writer, lease)];
        Ok(self.etcd.change(&[If::Changed(&key, 0)], &put).await?
            || self.etcd.change(&[If::Is(&key, &writer)], &put).await?)
    }

    /// This process drives no rollout any more; what becomes of it is for another one.
    pub async fn stop_driving(&self) {
        if let Some(lease) = self.driving.take() {
            // etcd that is away ends it by itself
            let _ = self.revoke(lease).await;
        }
    }

    /// Forgets what a node has reported, unless its lease goes on; returns whether it does not.
    pub async fn forget(&self, name: &str) -> Result<bool> {
        let [alive, status] = [format!("alive/{name}"), format!("nodes/{name}")].map(|rest| self.key(&rest));
        self.etcd.change(&[If::Changed(&alive, 0)], &[Then::Delete(&status)]).await
    }
}

fn unwritten() -> Fleet {
    Fleet { format: FORMAT, ..Fleet::default() }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("plain data")
}

/// The user, the machine and the process that write.
fn this_process() -> Writer {
    let user = ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(|name| env::var(name).ok());
    Writer { user: user.unwrap_or_else(|| "unknown".into()), host: host_name(), process: std::process::id() }
}

/// The name of this machine.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "unknown".into(),
        name => name.into(),
    }
}
