//! etcd's JSON gateway (`/v3`), as far as a fleet needs it: ranges, transactions, leases, a watch. Keys and values are base64 there,
//! and numbers of 64 bits are strings.

use crate::{
    error::{Error, Result},
    http::{self, Answer, Endpoint},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::cell::Cell;

/// One or several members of a cluster; while one does not answer, the next one is tried.
#[derive(Debug)]
pub struct Etcd {
    endpoints: Vec<Endpoint>,
    current: Cell<usize>,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub value: String,
    /// Revision of the last change.
    pub changed: i64,
}

/// A condition of a transaction.
pub enum If<'a> {
    /// The key was last changed in this revision; 0: it is not there.
    Changed(&'a str, i64),
    /// The key has this value.
    Is(&'a str, &'a str),
}

/// A step of a transaction.
pub enum Then<'a> {
    /// With a lease other than 0 the key goes when that ends.
    Put(&'a str, &'a str, i64),
    Delete(&'a str),
    /// All keys that begin so and come before this one.
    DeleteBefore(&'a str, &'a str),
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

/// The first key that does not begin so any more.
fn end_of(prefix: &str) -> String {
    let mut end = prefix.as_bytes().to_vec();
    // prefixes end with '/'
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    STANDARD.encode(end)
}

/// A number of 64 bits. etcd leaves out what is 0.
fn number(value: &Value) -> i64 {
    value.as_str().and_then(|text| text.parse().ok()).or(value.as_i64()).unwrap_or(0)
}

fn text_of(value: &Value) -> Option<String> {
    let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).ok()?;
    String::from_utf8(bytes).ok()
}

fn entries(range: &Value) -> Vec<Entry> {
    let of = |kv: &Value| {
        let (key, value) = (text_of(&kv["key"])?, text_of(&kv["value"])?);
        Some(Entry { key, value, changed: number(&kv["mod_revision"]) })
    };
    range["kvs"].as_array().into_iter().flatten().filter_map(of).collect()
}

impl Etcd {
    /// At one of these, of which there is one at least.
    pub fn new(endpoints: Vec<Endpoint>) -> Etcd {
        Etcd { endpoints, current: Cell::new(0) }
    }

    fn away(&self, why: impl Into<String>) -> Error {
        let endpoint = self.endpoints[self.current.get()].to_string();
        // the next try is of the next one
        self.current.set((self.current.get() + 1) % self.endpoints.len());
        Error::Away { endpoint, why: why.into() }
    }

    async fn answer(&self, path: &str, request: &Value) -> Result<Answer> {
        let endpoint = &self.endpoints[self.current.get()];
        let answer = http::request(endpoint, path, Some(request.to_string())).await;
        let answer = answer.map_err(|why| self.away(why))?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        let status = answer.status;
        let text = answer.text().await.unwrap_or_default();
        let why: Value = serde_json::from_str(&text).unwrap_or_default();
        Err(self.away(why["error"].as_str().map_or_else(|| status.to_string(), String::from)))
    }

    async fn call(&self, path: &str, request: &Value) -> Result<Value> {
        let text = self.answer(path, request).await?.text().await.map_err(|why| self.away(why))?;
        // of a stream, the first message
        let line = text.lines().next().unwrap_or_default();
        serde_json::from_str(line).map_err(|why| self.away(format!("no JSON: {why}")))
    }

    /// All keys that begin so, or, without a '/' at its end, the key itself; several at one revision, which is returned, too.
    pub async fn ranges(&self, all: &[&str]) -> Result<(Vec<Vec<Entry>>, i64)> {
        let range = |prefix: &&str| {
            let mut range = json!({ "key": encoded(prefix) });
            if prefix.ends_with('/') {
                range["range_end"] = end_of(prefix).into();
            }
            json!({ "request_range": range })
        };
        let steps: Vec<Value> = all.iter().map(range).collect();
        let answer = self.call("/v3/kv/txn", &json!({ "success": steps })).await?;
        let responses = answer["responses"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found: Vec<_> = responses.iter().map(|response| entries(&response["response_range"])).collect();
        if found.len() != all.len() {
            return Err(self.away("an answer of another question"));
        }
        Ok((found, number(&answer["header"]["revision"])))
    }

    /// Does all of this, if all of that holds; returns whether it did.
    pub async fn change(&self, conditions: &[If<'_>], steps: &[Then<'_>]) -> Result<bool> {
        let condition = |condition: &If<'_>| match condition {
            If::Changed(key, revision) => json!({
                "key": encoded(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string(),
            }),
            If::Is(key, value) => json!({
                "key": encoded(key), "target": "VALUE", "result": "EQUAL", "value": encoded(value),
            }),
        };
        let step = |step: &Then<'_>| match step {
            Then::Put(key, value, lease) => json!({ "request_put": {
                "key": encoded(key), "value": encoded(value), "lease": lease.to_string(),
            }}),
            Then::Delete(key) => json!({ "request_delete_range": { "key": encoded(key) } }),
            Then::DeleteBefore(prefix, end) => json!({ "request_delete_range": {
                "key": encoded(prefix), "range_end": encoded(end),
            }}),
        };
        let request = json!({
            "compare": conditions.iter().map(condition).collect::<Vec<_>>(),
            "success": steps.iter().map(step).collect::<Vec<_>>(),
        });
        Ok(self.call("/v3/kv/txn", &request).await?["succeeded"] == true)
    }

    /// A lease that ends so long after the last time that it was renewed.
    pub async fn grant(&self, seconds: u64) -> Result<i64> {
        let answer = self.call("/v3/lease/grant", &json!({ "TTL": seconds.to_string() })).await?;
        match number(&answer["ID"]) {
            0 => Err(self.away("no lease")),
            lease => Ok(lease),
        }
    }

    /// Renews it; returns whether it had not ended before.
    pub async fn keep_alive(&self, lease: i64) -> Result<bool> {
        let answer = self.call("/v3/lease/keepalive", &json!({ "ID": lease.to_string() })).await?;
        Ok(number(&answer["result"]["TTL"]) > 0)
    }

    /// Ends it, and its keys.
    pub async fn revoke(&self, lease: i64) -> Result<()> {
        self.call("/v3/lease/revoke", &json!({ "ID": lease.to_string() })).await.map(drop)
    }

    /// Watches a key for changes from this revision on.
    pub async fn watch(&self, key: &str, from: i64) -> Result<Watch> {
        let create = json!({ "key": encoded(key), "start_revision": from.to_string() });
        Ok(Watch(self.answer("/v3/watch", &json!({ "create_request": create })).await?))
    }
}

/// Changes of a key.
pub struct Watch(Answer);

impl Watch {
    /// Waits until the key was changed, or the watch was created: then there may be a change, too. An error, also where it ends.
    pub async fn next(&mut self) -> std::result::Result<(), String> {
        let part = self.0.next_part().await?.ok_or("the watch has ended")?;
        // of one that is cancelled, as after a compaction, no more comes
        match String::from_utf8_lossy(&part).contains("\"canceled\":true") {
            true => Err("the watch was cancelled".into()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_prefix_end_where_it_does() {
        assert_eq!(STANDARD.decode(end_of("a/")).unwrap(), b"a0");
    }

    #[test]
    fn numbers_are_strings_and_left_out_where_they_are_0() {
        assert_eq!([json!("7"), json!(7), Value::Null, json!("x")].map(|v| number(&v)), [7, 7, 0, 0]);
    }

    #[test]
    fn entries_that_are_no_text_are_skipped() {
        let range = json!({ "kvs": [
            { "key": "YQ==", "value": "dg==", "mod_revision": "3" },
            { "key": "YQ==", "value": "/w==" },
            { "key": "YQ==" },
        ]});
        let entry = |value: &str, changed| Entry { key: "a".into(), value: value.into(), changed };
        assert_eq!(entries(&range), [entry("v", 3), entry("", 0)]);
    }
}
