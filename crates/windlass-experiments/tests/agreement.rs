//! `experiments/agreement.toml` in a short form: its scenario, variants and bounds on completion times, and fewer points. As
//! root; skipped by name otherwise.
//!
//! Times of the simulator are virtual, those of the lab pass on the wall. They can be compared beside a build too, for at
//! 10 Mbit/s a transfer of two seconds keeps a processor busy for a few hundredths of one: what competes for it delays
//! packets by milliseconds, where the bounds leave hundreds. Where a single run may still go another way (which of several
//! flows is the faster one, what a lost packet costs, six runs that are set up at once in the beginning) the medians of several
//! are compared; most there are of the point that comes first. Paths are not shorter than 20 ms, as those milliseconds count
//! in each round trip. CUBIC is not compared over random loss, where it scatters too much for a few runs, nor at the longest
//! path, where its slow start ends early if packets are late (0.90 beside a build); queues are not, since late packets change
//! them. A machine with ten times more to do than it has processors holds hosts up for seconds; so when real transfers are
//! too slow, and only then, all is measured again, twice at most.

mod measured;

use measured::{again_if_busy, settings};
use toml::{Table, Value};
use windlass_experiments::{Experiment, Outcome};

const POINTS: &str = r#"
[[point]]
name = "lossy"
variants = ["reno-sim", "reno-lab", "bbr-sim", "bbr-lab"]
set = { "flow.0.size" = "2 MB", "link.0.delay" = "10 ms", "link.0.loss" = "0.5 %" }
runs = 7
quick_runs = 0

[[point]]
name = "four"
runs = 4
quick_runs = 0
[point.set]
"link.0.rate" = "20 Mbit/s"
flow = [
  { from = "server", to = "client", size = "3 MB" },
  { from = "server", to = "client", size = "3 MB" },
  { from = "server", to = "client", size = "3 MB" },
  { from = "server", to = "client", size = "3 MB" },
]

[[point]]
name = "two"
runs = 3
quick_runs = 0
[point.set]
flow = [
  { from = "server", to = "client", size = "2 MB" },
  { from = "server", to = "client", size = "2 MB" },
]

[[point]]
name = "single"
set = { "flow.0.size" = "2 MB", "link.0.delay" = "25 ms" }
runs = 3
quick_runs = 0

[[point]]
name = "long"
variants = ["reno-sim", "reno-lab", "bbr-sim", "bbr-lab"]
set = { "flow.0.size" = "2 MB", "link.0.delay" = "100 ms" }
runs = 3
quick_runs = 0
"#;

/// The points that CUBIC is compared at.
const OF_CUBIC: [&str; 3] = ["four", "two", "single"];

fn short_form() -> Experiment {
    let mut file: Table = include_str!("../../../experiments/agreement.toml").parse().expect("TOML");
    let points: Table = POINTS.parse().expect("TOML");
    file.extend(points);
    file.remove("plot");
    let claims = file["claim"].as_array_mut().expect("claims");
    claims.retain(|c| c["metric"].as_str() == Some("completion"));
    for claim in claims.iter_mut().filter_map(Value::as_table_mut) {
        if claim["of"].as_str() == Some("cubic-sim") {
            claim.insert("points".into(), OF_CUBIC.map(Value::from).to_vec().into());
        }
    }
    Experiment::parse("the short form", &file.to_string()).unwrap_or_else(|e| panic!("{e:#}"))
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn simulated_transfers_take_as_long_as_real_ones() {
    if !windlass_lab::netns::is_root() {
        println!("skipped: simulated_transfers_take_as_long_as_real_ones: needs root");
        return;
    }
    let out = tempfile::tempdir().expect("a folder");
    let settings = settings(out.path());
    let experiment = short_form();
    let measure = || experiment.run(&settings).unwrap_or_else(|e| panic!("{e:#}"));
    let outcome = again_if_busy(measure, may_be_held_up);
    assert_eq!(outcome.verdicts.len(), 6, "a claim for each side and algorithm");
    assert!(outcome.all_hold(), "{outcome}");
    assert!(outcome.runs.iter().all(|r| r.checksum_ok), "{outcome}");
}

/// Whether all that does not hold is that real transfers took longer. Nothing makes them faster than they can be.
fn may_be_held_up(outcome: &Outcome) -> bool {
    outcome.verdicts.iter().filter(|v| !v.holds).all(|v| v.id.ends_with("-completion-not-below"))
}
