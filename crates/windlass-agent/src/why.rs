//! Why is a flow at this rate? What its ledger shows, and the cause that is most likely.
//!
//! ```text
//! state and rule   -->  the window is not the box's: rule, options, a server that paces itself, a bypass
//! shares of time   -->  application, server, client, group
//! ... mostly the window or recoveries:
//!    marks, losses in bursts or one by one, round trips against the least one  -->  the path
//! ```

use crate::{
    Limits, Observed, OnlyWatched,
    flow_record::{reason_word, rtt_quantile_us, state_word},
};
use serde::Serialize;
use windlass_core::{
    abi::{self, wl_flow, wl_ledger},
    counters,
};

/// Time over which the cause is judged.
const JUDGED_US: u64 = 10_000_000;
/// A queue that stands is this much of the least round trip, and so long at least.
const QUEUE_RATIO: u32 = 2;
const QUEUE_MIN_US: u32 = 15_000;
/// A buffer that runs over fills before: the median round trip is longer by a quarter of the least one, and by so much.
const FILLS_MIN_US: u32 = 5_000;
/// Losses that hold a flow back, of a thousand segments.
const LOSSES_PERMILLE: u64 = 2;
/// ... which come again and again.
const LOSS_RECOVERIES: u32 = 4;
/// Losses of a policer come many at a time.
const POLICER_LOSSES_PER_RECOVERY: u64 = 3;
const POLICER_PERMILLE: u64 = 5;
/// ... and again at each probe.
const POLICER_RECOVERIES: u32 = 3;
/// Marks that hold a flow back, of a thousand bytes.
const MARKS_PERMILLE: u64 = 2;
/// A server so far from the box is far, if the client is nearer.
const FAR_SERVER_US: u32 = 5_000;
/// A flow that is idle for so much of its time has nothing to send, however far its server is.
const IDLE_PERMILLE: u64 = 900;
/// Changes to a bypass within the time that is judged: one alone may be chance.
const BYPASSES: usize = 2;

/// What holds the flow back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Its rule leaves it alone.
    RuleOff,
    /// Its rule has it watched only.
    RuleWatch,
    /// The server paces itself.
    SelfPaced,
    /// Its timeouts came every few segments.
    FaresWorse,
    /// It had begun before the box.
    MidStream,
    /// Its options are not understood.
    Foreign,
    /// Control ends.
    HandingBack,
    /// Something in flight is not in the store.
    Bypass,
    /// The application sends too little.
    Application,
    /// The server's send buffer, or its own window.
    SendBuffer,
    /// The client's receive window.
    Receiver,
    /// The share of its group.
    Group,
    /// The server is farther from the box than the client.
    FarServer,
    /// Marks of the path (ECN).
    Marks,
    /// A policer on the path.
    Policer,
    /// Random losses on the path.
    Loss,
    /// A queue of the path that stands.
    Bufferbloat,
    /// The bottleneck is full.
    Bottleneck,
    /// Nothing was noted yet.
    Unknown,
}

impl Cause {
    /// What it means.
    pub fn words(self) -> &'static str {
        match self {
            Cause::RuleOff => "its rule leaves it alone, or no rule names it",
            Cause::RuleWatch => "its rule has it watched only",
            Cause::SelfPaced => "the server paces itself, as one running BBR does, so it is only watched",
            Cause::FaresWorse => "it timed out every few segments, so it is only watched",
            Cause::MidStream => "it had begun before the box saw it, so its window scale is not known",
            Cause::Foreign => "its packets carry what the box cannot write, so it is only watched",
            Cause::HandingBack => "control of it has just ended",
            Cause::Bypass => "the server repairs its losses itself: something in flight is not in the store",
            Cause::Application => "the application sends less than the path takes",
            Cause::SendBuffer => {
                "the server's send buffer, or its own window, is smaller than the algorithm's"
            }
            Cause::Receiver => "the client's receive window is smaller than the algorithm's",
            Cause::Group => "it has the share of its group's window",
            Cause::FarServer => "most of the round trip is between server and box",
            Cause::Marks => "the path marks its packets (ECN)",
            Cause::Policer => "a policer on the path: many losses at a time, and no queue",
            Cause::Loss => "the path loses packets without a queue",
            Cause::Bufferbloat => "a queue of the path stands: round trips are far longer than the least one",
            Cause::Bottleneck => "the path is full: the algorithm has found what it carries",
            Cause::Unknown => "nothing was noted of it yet: it had no packets",
        }
    }

    /// What to try.
    pub fn cure(self) -> &'static str {
        match self {
            Cause::RuleOff | Cause::RuleWatch => "a rule with an algorithm: `windlass policy show`",
            Cause::SelfPaced => "nothing, or `paced_servers = \"control\"` in its rule",
            Cause::FaresWorse => "more room at the bottleneck: it holds hardly more than a segment",
            Cause::MidStream => "nothing: its next connection is controlled",
            Cause::Foreign => "switch MPTCP, TCP-MD5 or accurate ECN off at one end",
            Cause::HandingBack => "nothing: in a few round trips it is the server's",
            Cause::Bypass => "see the reason; if the store is full: --store-mib, or smaller shares",
            Cause::Application => "look at the application, or at what it waits for",
            Cause::SendBuffer => "raise net.ipv4.tcp_wmem, or SO_SNDBUF of the program, at the server",
            Cause::Receiver => "raise net.ipv4.tcp_rmem, or SO_RCVBUF of the program, at the client",
            Cause::Group => "another weight, or no group in its rule",
            Cause::FarServer => "put the box nearer to the server",
            Cause::Marks => "nothing: the algorithm answers them; another one may answer less",
            Cause::Policer => "bbr, which finds the policed rate; or pay for more",
            Cause::Loss => "bbr or bbr3, which do not take single losses for congestion",
            Cause::Bufferbloat => "bbr or bbr3, which keep queues short",
            Cause::Bottleneck => "nothing on this box: the path needs more capacity",
            Cause::Unknown => "look again when it sends",
        }
    }
}

/// Shares of time, of a thousand.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Shares {
    /// Over the last second.
    pub last_1s: Limits,
    /// Over the last ten.
    pub last_10s: Limits,
    /// Since its ledger began.
    pub life: Limits,
}

/// One decision about the flow.
#[derive(Clone, Debug, Serialize)]
pub struct Decision {
    /// How long ago.
    pub ago_us: u64,
    /// What was decided.
    pub what: String,
    /// The window since then.
    pub cwnd_bytes: u32,
}

/// Why a flow is at its rate.
#[derive(Clone, Debug, Serialize)]
pub struct Why {
    /// What holds it back most.
    pub cause: Cause,
    /// That in words.
    pub words: &'static str,
    /// What to try.
    pub cure: &'static str,
    /// Its state.
    pub state: &'static str,
    /// The counter that names why; none: as its rule wants.
    pub reason: Option<String>,
    /// What that counter counts.
    pub reason_words: Option<&'static str>,
    /// How long its ledger has been kept.
    pub noted_for_us: u64,
    /// It had begun before.
    pub is_partial: bool,
    /// What has held it back, of a thousand.
    pub limited_permille: Shares,
    /// The algorithm's window.
    pub window_bytes: u32,
    /// In flight now.
    pub flight_bytes: u32,
    /// The largest flight, while the window held it back; none: it did not.
    pub flight_max_bytes: Option<u32>,
    /// What the client offers beyond what it has acknowledged.
    pub receiver_window_bytes: u32,
    /// None: the algorithm does not pace.
    pub pacing_bps: Option<u64>,
    /// Of the last round trip; none: not known.
    pub delivery_bps: Option<u64>,
    /// Least round trip between box and client; 0: none yet.
    pub min_rtt_us: u32,
    /// Smoothed.
    pub srtt_us: u32,
    /// Half of the round trips are no longer; none: none was noted.
    pub rtt_p50_us: Option<u32>,
    /// Least round trip between server and box; 0: not known.
    pub sender_side_rtt_us: u32,
    /// Of the server's last packets, of a thousand: came with an ACK.
    pub prompted_permille: u32,
    /// Likewise: did not end with a full segment.
    pub short_permille: u32,
    /// Since its ledger began, like all that follows.
    pub delivered_bytes: u64,
    /// Found lost by the box.
    pub lost_segs: u32,
    /// Reductions of the window for losses or marks.
    pub recoveries: u32,
    /// Retransmitted by the box.
    pub repaired_segs: u32,
    /// Retransmitted by the server.
    pub sender_retrans_segs: u32,
    /// Of these, by its timeout.
    pub sender_timeouts: u32,
    /// The last twenty decisions, newest first.
    pub decisions: Vec<Decision>,
}

/// As many decisions are shown.
const DECISIONS: u32 = 20;

/// Time of the last `window_us` by what held the flow back.
fn recent(ledger: &wl_ledger, window_us: u64) -> [u64; abi::WL_LIMITS as usize] {
    let limits = abi::WL_LIMITS as usize;
    let mut all = [0; abi::WL_LIMITS as usize];
    let mut left_us = window_us;
    for back in 0..abi::WL_LEDGER_SECONDS {
        let second = ledger.second.wrapping_sub(back) % abi::WL_LEDGER_SECONDS;
        let of_second = &ledger.recent_us[second as usize * limits..][..limits];
        let total_us: u64 = of_second.iter().map(|us| u64::from(*us)).sum();
        // more than a second's stands there if nothing was noted for long
        let taken_us = total_us.min(left_us);
        for (sum, us) in all.iter_mut().zip(of_second) {
            *sum += (u64::from(*us) * taken_us).checked_div(total_us).unwrap_or(0);
        }
        left_us -= taken_us;
    }
    all
}

fn permille(all: &[u64; abi::WL_LIMITS as usize]) -> Limits {
    let total: u64 = all.iter().sum();
    Limits::of(&all.map(|us| (us * 1000).checked_div(total).unwrap_or(0)))
}

/// What a decision is in words.
fn decision_words(note: &abi::wl_decision_note) -> String {
    let limit = Limits::default().named()[note.limit as usize % 8].0;
    match note.what.into() {
        abi::WL_DECIDED_STATE => match reason_word(note.reason) {
            Some(reason) => format!("{}: {reason}", state_word(note.state)),
            None => state_word(note.state).to_string(),
        },
        abi::WL_DECIDED_REDUCE_LOSS => "window reduced: a loss".into(),
        abi::WL_DECIDED_REDUCE_MARK => "window reduced: a mark".into(),
        abi::WL_DECIDED_TIMEOUT => "window reduced: a timeout".into(),
        abi::WL_DECIDED_UNDO => "reduction undone: it was spurious".into(),
        abi::WL_DECIDED_START_HELD => "start: the pipe seems full".into(),
        abi::WL_DECIDED_START_FULL => "start: the pipe is full".into(),
        _ => format!("held back by: {limit}"),
    }
}

fn decisions(ledger: &wl_ledger) -> Vec<Decision> {
    let kept = abi::WL_LEDGER_DECISIONS;
    let first = ledger.decisions_count.saturating_sub(DECISIONS.min(kept));
    (first..ledger.decisions_count)
        .rev()
        .map(|n| &ledger.decisions[(n % kept) as usize])
        .map(|note| Decision {
            ago_us: ledger.noted_us.saturating_sub(note.at_us),
            what: decision_words(note),
            cwnd_bytes: note.cwnd_bytes,
        })
        .collect()
}

/// How often the flow was bypassed in the time that is judged.
fn bypasses(ledger: &wl_ledger) -> usize {
    let kept = ledger.changes.len() as u32;
    let first = ledger.changes_count.saturating_sub(kept);
    let now_ms = (ledger.noted_us - ledger.began_us) / 1000;
    (first..ledger.changes_count)
        .map(|n| &ledger.changes[(n % kept) as usize])
        .filter(|c| now_ms.saturating_sub(c.at_ms.into()) * 1000 < JUDGED_US)
        .filter(|c| (abi::WL_FLOW_BYPASS..=abi::WL_FLOW_RECLAIMED).contains(&c.state.into()))
        .count()
}

/// The cause that state and rule are.
fn cause_of_state(flow: &wl_flow, only_watched: Option<OnlyWatched>, bypasses: usize) -> Option<Cause> {
    let state = u32::from(flow.state);
    match only_watched {
        Some(OnlyWatched::Paces) => return Some(Cause::SelfPaced),
        Some(OnlyWatched::FaresWorse) => return Some(Cause::FaresWorse),
        Some(OnlyWatched::Foreign) if u32::from(flow.flags2) & abi::WL_FLOW2_MID_STREAM != 0 => {
            return Some(Cause::MidStream);
        }
        Some(OnlyWatched::Foreign) => return Some(Cause::Foreign),
        None => {}
    }
    match state {
        abi::WL_FLOW_OFF => Some(Cause::RuleOff),
        abi::WL_FLOW_WATCHED => Some(Cause::RuleWatch),
        abi::WL_FLOW_HANDING_BACK | abi::WL_FLOW_SETTLING => Some(Cause::HandingBack),
        abi::WL_FLOW_ACTIVE if bypasses < BYPASSES => None,
        _ => Some(Cause::Bypass),
    }
}

/// What the path does, as the window or recoveries hold the flow back.
fn cause_of_path(flow: &wl_flow, ledger: &wl_ledger) -> Cause {
    let lost = u64::from(flow.lost_segs.wrapping_sub(ledger.lost_before_segs));
    let losses_permille = (lost * 1000).checked_div(ledger.delivered_segs).unwrap_or(0);
    let losses_per_recovery = lost.checked_div(ledger.recoveries.into()).unwrap_or(0);
    let marks_permille = (ledger.ce_bytes * 1000).checked_div(ledger.delivered_bytes).unwrap_or(0);
    let p50_us = rtt_quantile_us(&ledger.rtt_buckets, 500).unwrap_or(flow.srtt_us);
    let queue_us = p50_us.saturating_sub(flow.min_rtt_us);
    let has_queue = p50_us >= QUEUE_RATIO * flow.min_rtt_us && queue_us >= QUEUE_MIN_US;
    let fills = queue_us >= FILLS_MIN_US.max(flow.min_rtt_us / 4);
    if marks_permille >= MARKS_PERMILLE && ledger.marked_acks > 0 {
        return Cause::Marks;
    }
    if has_queue {
        return Cause::Bufferbloat;
    }
    // what is lost is what the buffer has no room for
    if fills {
        return Cause::Bottleneck;
    }
    let is_bursty = losses_per_recovery >= POLICER_LOSSES_PER_RECOVERY && losses_permille >= POLICER_PERMILLE;
    // an algorithm that finds the path's rate loses many packets at its start: all in one recovery or two
    if is_bursty && ledger.recoveries >= POLICER_RECOVERIES && queue_us < flow.min_rtt_us / 4 + 1_000 {
        return Cause::Policer;
    }
    if losses_permille >= LOSSES_PERMILLE && ledger.recoveries >= LOSS_RECOVERIES {
        return Cause::Loss;
    }
    Cause::Bottleneck
}

/// The cause that is most likely; `judged`: time by what held the flow back.
fn cause(flow: &wl_flow, ledger: &wl_ledger, judged: &Limits) -> Cause {
    let total = judged.total();
    let by_application = judged.idle + judged.application;
    let by_path = judged.window + judged.recovery;
    let most = [by_application, judged.sender, judged.receiver, by_path, judged.group, judged.uncontrolled]
        .into_iter()
        .max()
        .unwrap_or(0);
    let is_far = ledger.sender_rtt_us >= FAR_SERVER_US && ledger.sender_rtt_us > flow.min_rtt_us;
    if total == 0 {
        return Cause::Unknown;
    }
    if most == judged.receiver {
        return Cause::Receiver;
    }
    if is_far && most != judged.group && judged.idle < total * IDLE_PERMILLE / 1000 {
        return Cause::FarServer;
    }
    if most == by_application {
        Cause::Application
    } else if most == judged.sender {
        Cause::SendBuffer
    } else if most == judged.group {
        Cause::Group
    } else if most == by_path {
        cause_of_path(flow, ledger)
    } else {
        Cause::Bypass
    }
}

impl Why {
    /// What is known of the flow now.
    pub fn of(observed: &Observed) -> Why {
        let (flow, info) = (&observed.flow, &observed.info);
        let nothing = wl_ledger::default();
        let ledger = observed.ledger.as_deref().unwrap_or(&nothing);
        let last_10s = permille(&recent(ledger, JUDGED_US));
        let cause = cause_of_state(flow, info.only_watched, bypasses(ledger))
            .unwrap_or_else(|| cause(flow, ledger, &last_10s));
        let reason = u32::from(flow.reason);
        let meaning = || counters().get(reason as usize).map(|counter| counter.meaning);
        Why {
            cause,
            words: cause.words(),
            cure: cause.cure(),
            state: state_word(flow.state),
            reason: reason_word(flow.reason),
            reason_words: (reason != abi::WL_NO_REASON).then(meaning).flatten(),
            noted_for_us: ledger.noted_us - ledger.began_us,
            is_partial: ledger.is_partial != 0,
            limited_permille: Shares {
                last_1s: permille(&recent(ledger, 1_000_000)),
                last_10s,
                life: permille(&ledger.limited_us),
            },
            window_bytes: info.cwnd_bytes,
            flight_bytes: info.inflight_bytes,
            flight_max_bytes: (ledger.flight_samples > 0).then_some(ledger.flight_max_bytes),
            receiver_window_bytes: (flow.rcv_edge.wrapping_sub(flow.una) as i32).max(0) as u32,
            pacing_bps: info.pacing_bps,
            delivery_bps: (u64::from(ledger.rate_bytes) * 8_000_000).checked_div(ledger.rate_us.into()),
            min_rtt_us: flow.min_rtt_us,
            srtt_us: flow.srtt_us,
            rtt_p50_us: rtt_quantile_us(&ledger.rtt_buckets, 500),
            sender_side_rtt_us: ledger.sender_rtt_us,
            prompted_permille: ledger.prompted_q8 * 1000 / 256,
            short_permille: ledger.short_q8 * 1000 / 256,
            delivered_bytes: ledger.delivered_bytes,
            lost_segs: flow.lost_segs.wrapping_sub(ledger.lost_before_segs),
            recoveries: ledger.recoveries,
            repaired_segs: flow.repaired_segs.wrapping_sub(ledger.repaired_before_segs),
            sender_retrans_segs: flow.sender_retrans_segs.wrapping_sub(ledger.retrans_before_segs),
            sender_timeouts: ledger.sender_timeouts,
            decisions: decisions(ledger),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(limit: u32) -> wl_ledger {
        let mut ledger = wl_ledger { began_us: 1, noted_us: 5_000_001, second: 5, ..Default::default() };
        ledger.recent_us[4 * abi::WL_LIMITS as usize + limit as usize] = 1_000_000;
        ledger
    }

    fn judged(ledger: &wl_ledger, flow: &wl_flow) -> Cause {
        cause(flow, ledger, &permille(&recent(ledger, JUDGED_US)))
    }

    #[test]
    fn what_holds_a_flow_back_most_is_the_cause() {
        let flow = wl_flow { min_rtt_us: 20_000, srtt_us: 21_000, ..Default::default() };
        let of = |limit| judged(&ledger(limit), &flow);
        assert_eq!(of(abi::WL_LIMIT_IDLE), Cause::Application);
        assert_eq!(of(abi::WL_LIMIT_APPLICATION), Cause::Application);
        assert_eq!(of(abi::WL_LIMIT_SENDER), Cause::SendBuffer);
        assert_eq!(of(abi::WL_LIMIT_RECEIVER), Cause::Receiver);
        assert_eq!(of(abi::WL_LIMIT_GROUP), Cause::Group);
        assert_eq!(of(abi::WL_LIMIT_WINDOW), Cause::Bottleneck);
    }

    #[test]
    fn a_path_is_judged_by_its_queue_its_losses_and_its_marks() {
        let mut flow = wl_flow { min_rtt_us: 20_000, srtt_us: 60_000, ..Default::default() };
        let mut noted = ledger(abi::WL_LIMIT_WINDOW);
        (noted.delivered_segs, noted.delivered_bytes, noted.recoveries) = (1000, 1_448_000, 10);
        assert_eq!(judged(&noted, &flow), Cause::Bufferbloat);
        flow.srtt_us = 21_000;
        flow.lost_segs = 10;
        assert_eq!(judged(&noted, &flow), Cause::Loss);
        flow.lost_segs = 100;
        assert_eq!(judged(&noted, &flow), Cause::Policer);
        (noted.ce_bytes, noted.marked_acks) = (100_000, 10);
        assert_eq!(judged(&noted, &flow), Cause::Marks);
    }

    /// Counters of BBR over 20 Mbit/s, 40 ms and a buffer of one BDP, and over a policer of 10 Mbit/s without a queue.
    #[test]
    fn many_losses_at_a_time_are_a_policers_only_without_a_queue() {
        let mut flow = wl_flow { min_rtt_us: 40_000, srtt_us: 66_000, lost_segs: 220, ..Default::default() };
        let mut noted = ledger(abi::WL_LIMIT_WINDOW);
        (noted.delivered_segs, noted.delivered_bytes, noted.recoveries) = (9_700, 14_000_000, 13);
        assert_eq!(judged(&noted, &flow), Cause::Bottleneck);
        flow.srtt_us = 41_000;
        assert_eq!(judged(&noted, &flow), Cause::Policer);
        // what is lost at the start alone comes once
        noted.recoveries = 2;
        assert_eq!(judged(&noted, &flow), Cause::Bottleneck);
    }

    #[test]
    fn losses_one_by_one_beside_a_queue_are_the_bottlenecks() {
        let mut flow = wl_flow { min_rtt_us: 40_000, srtt_us: 70_000, lost_segs: 20, ..Default::default() };
        let mut noted = ledger(abi::WL_LIMIT_WINDOW);
        (noted.delivered_segs, noted.delivered_bytes, noted.recoveries) = (2_000, 2_900_000, 19);
        assert_eq!(judged(&noted, &flow), Cause::Bottleneck);
        flow.srtt_us = 41_000;
        assert_eq!(judged(&noted, &flow), Cause::Loss);
    }

    #[test]
    fn only_the_last_seconds_are_judged() {
        let mut noted = ledger(abi::WL_LIMIT_WINDOW);
        // a long silence stands in one second
        noted.recent_us[5 * abi::WL_LIMITS as usize + abi::WL_LIMIT_IDLE as usize] = 30_000_000;
        let last = permille(&recent(&noted, 1_000_000));
        assert_eq!((last.idle, last.window), (1000, 0));
    }

    #[test]
    fn decisions_are_shown_newest_first() {
        let mut noted = ledger(abi::WL_LIMIT_WINDOW);
        noted.decisions_count = 40;
        for n in 8..40u64 {
            noted.decisions[(n % 32) as usize].at_us = n;
        }
        let ago: Vec<_> = decisions(&noted).iter().map(|d| noted.noted_us - d.ago_us).collect();
        assert_eq!((ago.len(), ago[0], ago[19]), (20, 39, 20));
    }
}
