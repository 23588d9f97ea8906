//! `windlass status`: in one screen what is under control here, since when, and what is wrong with it.

use crate::{info::open_whole, print};
use anyhow::Result;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    process::ExitCode,
    thread,
    time::{Duration, SystemTime},
};
use windlass_agent::{FlowCounts, Pinned, Usage, check_root};

/// Counters of what is not controlled for lack of room.
const REFUSED: [&str; 7] = [
    "pass_table_full",
    "pass_table_share",
    "bypass_store_full",
    "bypass_store_share",
    "bypass_flow_full",
    "bypass_records",
    "group_refused",
];

/// A clock that rests goes round 125 times a second.
const CLOCK_LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Serialize)]
struct Status {
    interfaces: Vec<Iface>,
    datapaths: Vec<Shared>,
    /// Interfaces with a datapath that is not seen from here, as `windlass attach` has one.
    elsewhere: Vec<String>,
    warnings: Vec<String>,
}

/// An interface under control.
#[derive(Debug, Serialize)]
struct Iface {
    iface: String,
    /// The process that looks after it.
    agent: Option<String>,
    /// When the policy in force was put there.
    policy_since_unix_s: Option<u64>,
    flows: FlowCounts,
    /// Of its datapath.
    #[serde(skip)]
    clock: u32,
}

/// What interfaces of one datapath share.
#[derive(Debug, Serialize)]
struct Shared {
    interfaces: Vec<String>,
    #[serde(rename = "use")]
    usage: Usage,
    /// Counters of what was not controlled for lack of room, since it was loaded; those that are zero are left out.
    refused: BTreeMap<String, u64>,
    #[serde(skip)]
    clock: u32,
    #[serde(skip)]
    counts: BTreeMap<u32, FlowCounts>,
    #[serde(skip)]
    clock_rounds: u64,
}

/// Prints it. That nothing is under control is an answer, too.
pub fn status(json: bool) -> Result<ExitCode> {
    check_root("looking at what is under control")?;
    let status = Status::read()?;
    if json {
        println!("{}", serde_json::to_string(&status)?);
    } else {
        status.print();
    }
    Ok(ExitCode::SUCCESS)
}

impl Status {
    fn read() -> Result<Status> {
        let mut status = Status {
            interfaces: Vec::new(),
            datapaths: Vec::new(),
            elsewhere: windlass_agent::attached_elsewhere()?,
            warnings: Vec::new(),
        };
        let mut one_of_each = Vec::new();
        for iface in windlass_agent::pinned_here() {
            match open_whole(&iface) {
                Ok(Some(pinned)) => {
                    if status.add(&pinned)? {
                        one_of_each.push(pinned);
                    }
                }
                // it was released since
                Ok(None) => {}
                Err(why) => status.warnings.push(format!("{iface}: {why}")),
            }
        }
        status.look_at_clocks(&one_of_each)?;
        status.look_for_agents();
        Ok(status)
    }

    /// Returns whether it is the first of its datapath.
    fn add(&mut self, pinned: &Pinned) -> Result<bool> {
        let (name, clock) = (pinned.iface().to_string(), pinned.clock_number());
        let known = self.datapaths.iter().position(|datapath| datapath.clock == clock);
        let at = known.unwrap_or(self.datapaths.len());
        if known.is_none() {
            let mut counters = pinned.counters()?;
            let clock_rounds = counters.get("clock_ticks").copied().unwrap_or(0);
            counters.retain(|name, count| *count > 0 && REFUSED.contains(&name.as_str()));
            self.datapaths.push(Shared {
                interfaces: Vec::new(),
                usage: pinned.usage()?,
                refused: counters,
                clock,
                counts: pinned.flow_counts()?,
                clock_rounds,
            });
        }
        let datapath = &mut self.datapaths[at];
        datapath.interfaces.push(name.clone());
        let flows = datapath.counts.get(&pinned.ifindex()).copied().unwrap_or_default();
        if let Some(what) = pinned.packets()?.one_way() {
            self.warnings.push(format!("{name}: {what}"));
        }
        if !pinned.is_alive() {
            self.warnings.push(format!("{name}: the interface is gone, or is called otherwise now"));
        } else if matches!(pinned.is_attached(true), Ok(false)) {
            self.warnings.push(format!("{name}: its programs were removed by another program"));
        }
        let since = pinned.policy_since().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        self.interfaces.push(Iface {
            iface: name,
            agent: pinned.agent()?,
            policy_since_unix_s: since.map(|since| since.as_secs()),
            flows,
            clock,
        });
        Ok(known.is_none())
    }

    fn look_at_clocks(&mut self, one_of_each: &[Pinned]) -> Result<()> {
        if one_of_each.is_empty() {
            return Ok(());
        }
        thread::sleep(CLOCK_LOOK);
        for (datapath, pinned) in self.datapaths.iter().zip(one_of_each) {
            if pinned.counters()?.get("clock_ticks").copied().unwrap_or(0) == datapath.clock_rounds {
                self.warnings.push(format!(
                    "{}: the clock stands still, so that servers repair their losses themselves; an agent sets it going again",
                    print::together(&datapath.interfaces)
                ));
            }
        }
        Ok(())
    }

    fn look_for_agents(&mut self) {
        let alone = self.interfaces.iter().filter(|i| i.agent.is_none()).map(|i| i.iface.clone());
        let alone: Vec<String> = alone.collect();
        if !alone.is_empty() {
            self.warnings.push(format!(
                "{}: no agent runs, and the policy in force stays; `windlass agent --policy FILE` takes over, `windlass detach` \
                 releases",
                print::together(&alone)
            ));
        }
    }

    fn print(&self) {
        if self.interfaces.is_empty() {
            println!("no interface of this network namespace is under an agent's control");
        } else {
            print::table(
                &["iface", "agent", "policy for", "controlled", "watched", "off", "store", "flow table"],
                &self.rows(),
            );
        }
        if !self.elsewhere.is_empty() {
            print::line(format_args!(
                "under control, and not seen from here, as by `windlass attach`: {}",
                self.elsewhere.join(", ")
            ));
        }
        let meanings = windlass_core::counters();
        for datapath in &self.datapaths {
            let of = print::together(&datapath.interfaces);
            for counter in meanings.iter().filter(|c| datapath.refused.contains_key(&c.name)) {
                let count = datapath.refused[&counter.name];
                print::line(format_args!("refused: {of}: {} {count}: {}", counter.name, counter.meaning));
            }
        }
        for warning in &self.warnings {
            print::line(format_args!("warning: {warning}"));
        }
    }

    /// One for each agent of each datapath, so that many interfaces take no more than a screen.
    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows: BTreeMap<(u32, &Option<String>), Vec<&Iface>> = BTreeMap::new();
        for iface in &self.interfaces {
            rows.entry((iface.clock, &iface.agent)).or_default().push(iface);
        }
        let row = |((clock, agent), all): (&(u32, &Option<String>), &Vec<&Iface>)| {
            let names: Vec<String> = all.iter().map(|i| i.iface.clone()).collect();
            let sum =
                |count: fn(&FlowCounts) -> u32| all.iter().map(|i| count(&i.flows)).sum::<u32>().to_string();
            let usage =
                self.datapaths.iter().find(|d| d.clock == *clock).map(|d| d.usage).unwrap_or_default();
            vec![
                print::together(&names),
                agent.as_deref().unwrap_or("-").into(),
                all.iter().filter_map(|i| i.policy_since_unix_s).max().map_or("-".into(), ago),
                sum(|c| c.controlled),
                sum(|c| c.watched),
                sum(|c| c.off),
                format!("{} of {} MiB", usage.store_used_bytes >> 20, usage.store_bytes >> 20),
                format!("{} of {}", usage.flows_used, usage.flows_max),
            ]
        };
        rows.iter().map(row).collect()
    }
}

/// How long ago a time of the wall clock was.
pub fn ago(unix_s: u64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    span(now.as_secs().saturating_sub(unix_s))
}

/// A duration, in its largest unit of which there are two at least.
fn span(seconds: u64) -> String {
    match seconds {
        s if s < 120 => format!("{s} s"),
        s if s < 2 * 3600 => format!("{} min", s / 60),
        s if s < 48 * 3600 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_has_spans_in_their_largest_unit() {
        let spans = [0, 119, 120, 7200, 172_800].map(span);
        assert_eq!(spans, ["0 s", "119 s", "2 min", "2 h", "2 days"]);
    }

    #[test]
    fn status_names_counters_that_there_are() {
        let all = windlass_core::counters();
        for name in REFUSED {
            assert!(all.iter().any(|c| c.name == name), "{name}");
        }
    }

    #[test]
    fn status_of_many_interfaces_of_an_agent_is_one_row() {
        let iface = |number: u32, agent: Option<&str>| Iface {
            iface: format!("tap{number}"),
            agent: agent.map(String::from),
            policy_since_unix_s: None,
            flows: FlowCounts { controlled: number, watched: 1, off: 0 },
            clock: 7,
        };
        let mut interfaces: Vec<Iface> = (0..60).map(|n| iface(n, Some("process 1"))).collect();
        interfaces.push(iface(60, None));
        let status = Status { interfaces, datapaths: vec![], elsewhere: vec![], warnings: vec![] };
        let rows = status.rows();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0][..2], ["tap60", "-"]);
        assert_eq!(rows[1][..5], ["tap0 and 59 more", "process 1", "-", "1770", "60"]);
    }
}
