//! The example test cases of BBRv3's draft (appendix of draft-ietf-ccwg-bbr) that take a path: what a flow gets, and when. Those that
//! an algorithm shows by itself are in crates/windlass-core; docs/algorithms/bbr3.md lists all.

use std::num::NonZeroU64;
use windlass_scenario::Scenario;
use windlass_sim::{Outcome, RunOptions, run};

/// A flow of bbr3 for 30 s on a path of 40 ms; `link`: its bottleneck. What happened is recorded in seconds.
fn flow(link: &str, folder: Option<&std::path::Path>) -> Outcome {
    let text = format!(
        "name = \"t\"\ntime_limit = \"31 s\"\n[[host]]\nname = \"server\"\n[[host]]\nname = \"client\"\n[[link]]\n\
         between = [\"server\", \"client\"]\n{link}\n[[flow]]\nfrom = \"server\"\nto = \"client\"\nsize = \"unlimited\"\n\
         stop = \"30 s\"\nalgorithm = \"wl_bbr3\"\n"
    );
    let file = folder.map_or("t".into(), |folder| folder.join("t.toml").display().to_string());
    let scenario = Scenario::parse(&file, &text).unwrap_or_else(|e| panic!("{e}"));
    let second = NonZeroU64::new(1_000_000_000);
    let options =
        RunOptions { interval_ns: second, looks_ns: NonZeroU64::new(10_000_000), ..RunOptions::default() };
    run(&scenario, &options).unwrap()
}

/// Goodput of each second in Mbit/s.
fn mbps(outcome: &Outcome) -> Vec<f64> {
    let bytes = &outcome.report.intervals.as_ref().expect("recorded").flow_bytes[0];
    bytes.iter().map(|bytes| *bytes as f64 * 8.0 / 1e6).collect()
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// Payload of what the wire carries.
const SHARE: f64 = 1448.0 / 1514.0;

/// "Exiting STARTUP on Bandwidth Plateau": the bandwidth that it finds is within 2 % of the link's. It is what it paces by in CRUISE,
/// which is most of the time.
#[test]
fn the_bandwidth_of_a_plateau_is_the_links() {
    let outcome = flow("rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"4 BDP\"", None);
    let rates = mbps(&outcome);
    // one of each five seconds has 200 ms of PROBE_RTT
    let fast = rates[2..28].iter().filter(|rate| **rate > 20.0 * SHARE * 0.97).count();
    assert!(fast >= 18, "{rates:?}");
    assert!(rates[2..28].iter().all(|rate| *rate > 20.0 * SHARE * 0.85), "{rates:?}");
    assert_eq!(outcome.report.sender_retrans_segs, 0);
}

/// Two aggregation cases: ACKs come in clumps, 20 ms apart, as over a cellular link. The flow finds the link's rate in its startup, and
/// keeps it, with more in its window than twice the path holds.
#[test]
fn clumps_of_acks_leave_the_link_full() {
    let folder = tempfile::tempdir().unwrap();
    // five packets in 3 ms are 20.2 Mbit/s
    std::fs::write(folder.path().join("even.trace"), "1\n1\n2\n2\n3\n").unwrap();
    std::fs::write(folder.path().join("clumps.trace"), "20\n".repeat(200)).unwrap();
    let link = "rate_trace = \"even.trace\"\nrate_trace_back = \"clumps.trace\"\ndelay = \"20 ms\"\nbuffer = \"4 BDP\"";
    let outcome = flow(link, Some(folder.path()));
    let rates = mbps(&outcome);
    assert!(rates[1] > 20.0 * SHARE * 0.9, "the startup: {rates:?}");
    assert!(mean(&rates[2..29]) > 20.0 * SHARE * 0.93, "{rates:?}");
    let bdp_segs = 20e6 / 8.0 * 0.04 / 1514.0;
    let most = outcome
        .flow_rows
        .iter()
        .filter(|row| row.at_ns > 2_000_000_000)
        .map(|row| row.window.map_or(0, |w| w.cwnd_segs));
    assert!(f64::from(most.max().unwrap()) > 2.0 * bdp_segs);
}

/// "Correctly Managing Sub-Packet BDPs", as far as it passes: 128 kbit/s and 2 ms hold 32 bytes; the window is never less than four
/// segments, and the link is full. But it does not stay there, see docs/algorithms/bbr3.md.
#[test]
fn four_segments_fill_a_path_that_holds_none() {
    let outcome = flow("rate = \"128 kbit/s\"\ndelay = \"1 ms\"\nbuffer = \"200 packets\"", None);
    assert!(mbps(&outcome)[2..29].iter().all(|rate| *rate > 0.128 * SHARE * 0.9), "{:?}", mbps(&outcome));
    let windows = outcome.flow_rows.iter().filter_map(|row| Some(row.window?.cwnd_segs));
    assert_eq!(windows.min(), Some(4));
    assert_eq!((outcome.report.sender_timeouts, outcome.report.sender_retrans_segs), (0, 0));
}

/// "Increasing Bandwidth 10x": the bound of what is in flight grows by twice as much each round of a probe, so that ten times the
/// bandwidth takes a few probes, two to three seconds apart, and not sixty of a quarter more.
#[test]
fn ten_times_the_bandwidth_is_found() {
    let steps = "rate_steps = [{ at = \"8 s\", rate = \"100 Mbit/s\" }]";
    let outcome =
        flow(&format!("rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"500 packets\"\n{steps}"), None);
    let rates = mbps(&outcome);
    assert!(rates[3..8].iter().all(|rate| *rate < 10.0), "{rates:?}");
    let found = rates.iter().position(|rate| *rate > 100.0 * SHARE * 0.9);
    assert!(found.is_some_and(|second| second <= 14), "{found:?} {rates:?}");
}

/// "Decreasing Bandwidth 10x": losses bound the rate at once, and the largest bandwidth of two cycles of probing is that of the link.
#[test]
fn a_tenth_of_the_bandwidth_is_what_it_sends() {
    let steps = "rate_steps = [{ at = \"8 s\", rate = \"10 Mbit/s\" }]";
    let outcome =
        flow(&format!("rate = \"100 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"500 packets\"\n{steps}"), None);
    let rates = mbps(&outcome);
    assert!(mean(&rates[3..7]) > 100.0 * SHARE * 0.9, "{rates:?}");
    // what arrives behind a hole counts when that is filled
    assert!(mean(&rates[10..29]) > 10.0 * SHARE * 0.85, "{rates:?}");
    assert!(rates[23..29].iter().all(|rate| *rate > 10.0 * SHARE * 0.95), "{rates:?}");
    let mut before = outcome.link_rows.iter().filter(|row| row.link == 0 && row.at_ns < 23_000_000_000);
    assert_eq!(before.next_back().map(|row| row.drops_tail), Some(outcome.report.links[0].stats.drops_tail));
}

/// "Handling Token Bucket Policers": behind the burst it keeps to the tokens, and loses little.
#[test]
fn a_policers_rate_is_kept_to() {
    let policer = "policer = { rate = \"10 Mbit/s\", burst = \"250 kB\" }";
    let outcome =
        flow(&format!("rate = \"100 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"500 packets\"\n{policer}"), None);
    let rates = mbps(&outcome);
    assert!(mean(&rates[5..29]) > 10.0 * SHARE * 0.75, "{rates:?}");
    let drops = |at_s: u64| {
        let rows = outcome.link_rows.iter().filter(|row| row.link == 0 && row.at_ns <= at_s * 1_000_000_000);
        rows.map(|row| row.drops_tail).max().unwrap_or(0)
    };
    let lost = drops(30) - drops(5);
    // 25 s of 10 Mbit/s are 20,600 packets
    assert!(lost < 20_600 / 16, "{lost}");
    // they are those of probes: most of the time there is none
    let calm = (5..30).filter(|second| drops(second + 1) - drops(*second) < 10).count();
    assert!(calm >= 10, "{calm}");
}
