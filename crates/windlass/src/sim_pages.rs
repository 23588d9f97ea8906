//! A simulated run that pages show as it goes: it makes its steps as real time passes, and between them answers what `windlass web`
//! asks, in the words in which an agent answers.

use crate::{
    counters::watch::{self, Datapath},
    flow_table::Seen,
    readers::{FlowName, Question, Reader, Snapshot, Source, answer_one, is_reader_within},
    top::look::Watcher,
};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
    process,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use windlass_agent::{FlowInfo, Usage};
use windlass_scenario::Scenario;
use windlass_sim::{Connection, Outcome, RunOptions, Stepping};

/// Real time from one step to the next.
const STEP: Duration = Duration::from_millis(20);
/// A step that takes longer is followed by shorter ones, so that readers have their answers.
const STEP_TOOK_MOST: Duration = Duration::from_millis(100);

/// The box of a scenario has one rule, which has this name in the testbed, too.
const RULE: &str = "all";
/// Of flows that no box controls: what is shown is what their senders do.
const NO_RULE: &str = "(no box)";

const NO_WHY: &str = "Not known: a simulated run keeps no ledgers. With real kernels (--on lab) it is.";
const NO_COUNTERS: &str = "there are no counters: they are those of a box, and this scenario has none";
const NO_GROUPS: &str = "groups of a simulated run are not shown; its report has what each flow got";

/// Runs the scenario, `speed` times as fast as real time, or as fast as it can; readers connect at `socket`.
pub fn run_shown(
    scenario: &Scenario,
    options: &RunOptions<'_>,
    socket: &Path,
    speed: f64,
) -> Result<Outcome> {
    let listener = UnixListener::bind(socket).with_context(|| format!("a socket at {}", socket.display()))?;
    // the pages may be another user's process; all that is shown is simulated
    fs::set_permissions(socket, Permissions::from_mode(0o666)).context("a socket for readers")?;
    let mut reader = Reader::new(Simulated::new(Stepping::new(scenario, options, &[])?, speed));
    while !reader.source.step(options.cancel) {
        if is_reader_within(&listener, Some(reader.source.rest_until_due()))
            && let Ok((stream, _)) = listener.accept()
        {
            // one that goes away again is its own affair
            let _ = answer_one(&stream, |question| reader.answer(question));
        }
        reader.rest();
    }
    Ok(reader.source.run.finish())
}

/// A run in hand.
struct Simulated<'a> {
    run: Stepping<'a>,
    speed: f64,
    began: Instant,
    /// Virtual time.
    now_ns: u64,
    /// Virtual time of the next step.
    step_ns: u64,
    flows: Watcher,
    counters: watch::Watcher,
}

impl<'a> Simulated<'a> {
    fn new(run: Stepping<'a>, speed: f64) -> Simulated<'a> {
        Simulated {
            run,
            speed,
            began: Instant::now(),
            now_ns: 0,
            step_ns: longest_step_ns(speed),
            flows: Watcher::default(),
            counters: watch::Watcher::default(),
        }
    }

    /// Goes on to where it should be now, or as far as one step goes. Returns whether the run is over.
    fn step(&mut self, cancel: Option<&AtomicBool>) -> bool {
        let due_ns = (self.began.elapsed().as_secs_f64() * self.speed * 1e9) as u64;
        let begin = Instant::now();
        self.now_ns = due_ns.min(self.now_ns + self.step_ns).min(self.run.limit_ns());
        let is_over = self.run.step_to(self.now_ns, cancel);
        self.step_ns = match begin.elapsed() > STEP_TOOK_MOST {
            true => self.step_ns / 2 + 1,
            false => (self.step_ns * 2).min(longest_step_ns(self.speed)),
        };
        is_over || cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }

    /// Real time until the next step is due.
    fn rest_until_due(&self) -> Duration {
        let due = Duration::from_secs_f64(self.now_ns as f64 / 1e9 / self.speed) + STEP;
        due.saturating_sub(self.began.elapsed())
    }

    fn t_us(&self) -> u64 {
        self.now_ns / 1000
    }

    /// What the box has counted; without one, what senders did, as of flows that a box only watches.
    fn datapath(&self) -> Datapath {
        let counters = self.run.counters().unwrap_or_else(|| {
            BTreeMap::from([
                ("watched_bytes".into(), self.run.arrived_bytes()),
                ("sender_retrans".into(), self.run.sender_retrans_segs()),
            ])
        });
        Datapath { interfaces: vec!["simulated".into()], counters, ..Datapath::default() }
    }
}

/// Virtual time that passes between two steps.
fn longest_step_ns(speed: f64) -> u64 {
    (STEP.as_nanos() as f64 * speed) as u64 + 1
}

/// What there is to be seen of a connection: the box's window and losses if it knows the flow, else the sender's own.
fn seen(connection: &Connection<'_>) -> Seen {
    let [sender, receiver] = connection.addresses;
    let of_box = connection.boxed.map(|flow| FlowInfo::of_state(flow.state()));
    let rule_name = if of_box.is_some() { RULE } else { NO_RULE };
    let own = || FlowInfo {
        mode: "off",
        algorithm: connection.algorithm,
        cwnd_bytes: connection.cwnd_bytes,
        pacing_bps: connection.pacing_bytes_ps.map(|bytes_ps| bytes_ps.saturating_mul(8)),
        srtt_us: connection.srtt_us as u32,
        min_rtt_us: connection.min_rtt_us as u32,
        inflight_bytes: connection.inflight_bytes,
        unacked_bytes: connection.inflight_bytes,
        mss_bytes: connection.mss_bytes as u16,
        delivered_bytes: connection.received_bytes as u32,
        sender_retrans_segs: connection.sender_retrans_segs as u32,
        ..FlowInfo::of_state(&windlass_core::abi::wl_flow::default())
    };
    let flow = FlowInfo {
        ifindex: connection.place,
        sender,
        receiver,
        first_seq: connection.since_us,
        ..of_box.unwrap_or_else(own)
    };
    Seen { iface: connection.hosts[0].into(), rule_name: rule_name.into(), flow }
}

impl Source for Simulated<'_> {
    fn look(&mut self) -> Result<Snapshot> {
        let (at, t_us) = (Instant::now(), self.t_us());
        let look = self.flows.look(t_us, self.run.connections().map(|one| seen(&one)).collect());
        let counted = self.counters.look(t_us, BTreeMap::from([(0, self.datapath())]));
        let datapaths = counted.datapaths.into_iter().map(|one| (one, Usage::default()));
        Ok(Snapshot::new(at, look, datapaths.collect()))
    }

    fn flow(&mut self, name: &FlowName) -> Result<Option<Value>> {
        let is_it = |one: &Connection<'_>| {
            one.hosts[0] == name.iface && one.addresses == [name.sender, name.receiver]
        };
        let found = self.run.connections().find(is_it);
        Ok(found.map(|one| {
            let flow = seen(&one);
            json!({
                "t_us": self.t_us(),
                "word": flow.state(),
                "flow": flow,
                "why": null,
                "no_why": NO_WHY,
                "between": one.hosts,
                "queued_packets": one.queued_packets,
            })
        }))
    }

    fn about(&self) -> Value {
        let real_s = self.began.elapsed().as_secs_f64();
        let (now_s, limit_s) = (self.now_ns as f64 / 1e9, self.run.limit_ns() as f64 / 1e9);
        let speed = now_s / real_s.max(1e-3);
        json!({
            "process": process::id(),
            "version": env!("WINDLASS_VERSION"),
            "runs_for_s": real_s as u64,
            "is_ready": true,
            "words": format!("simulated: {now_s:.1} s of at most {limit_s} s, {speed:.2} times as fast as real time"),
            "policy_hash": null,
        })
    }

    fn lacks(&self, question: &Question) -> Option<&'static str> {
        match question {
            Question::Counters if self.run.counters().is_none() => Some(NO_COUNTERS),
            Question::Groups => Some(NO_GROUPS),
            _ => None,
        }
    }

    fn forget(&mut self) {
        (self.flows, self.counters) = Default::default();
    }
}
