//! What must not break traffic: tables that are full, and a second run beside. (A killed agent, a changed policy: agent.rs.)

use crate::{LOSSY_BOX, flow, scenario};
use windlass_lab::RunOptions;
use windlass_tests::{is_root_or_skip, windlass_path};

fn run_with(name: &str, args: &[&str], flows: &str) -> windlass_lab::RunReport {
    let mut options = RunOptions::new(windlass_path());
    options.attach_args = args.iter().map(|a| a.to_string()).collect();
    let report =
        windlass_lab::run(&scenario(name, LOSSY_BOX.0, &(flows.to_string() + LOSSY_BOX.1)), &options)
            .unwrap_or_else(|e| panic!("{name}: {e:#}"));
    assert!(report.is_complete(), "{report}");
    report
}

#[test]
fn a_full_flow_table_lets_flows_pass() {
    if !is_root_or_skip("a_full_flow_table_lets_flows_pass") {
        return;
    }
    // long enough for all to be there at once
    let flows: String = (0..3).map(|_| flow("2 MB", "cubic")).collect();
    let report = run_with("table", &["--flows", "1"], &flows);
    assert_eq!(report.counter("flows_created"), 1, "{report}");
    assert!(report.counter("pass_table_full") > 0, "{report}");
}

#[test]
fn a_full_store_lets_flows_pass() {
    if !is_root_or_skip("a_full_store_lets_flows_pass") {
        return;
    }
    // one MiB is sixteen chunks, and every flow needs at least one; long enough for all to be there at once
    let flows: String = (0..40).map(|_| flow("600 kB", "cubic")).collect();
    let report = run_with("store", &["--store-mib", "1"], &flows);
    assert_eq!(report.counter("flows_created"), 40, "{report}");
    assert!(report.counter("bypass_store_full") > 0, "{report}");
}

#[test]
fn two_runs_at_once_do_not_meet() {
    if !is_root_or_skip("two_runs_at_once_do_not_meet") {
        return;
    }
    std::thread::scope(|scope| {
        let runs: Vec<_> =
            (0..2).map(|_| scope.spawn(|| run_with("twin", &[], &flow("500 kB", "cubic")))).collect();
        for run in runs {
            assert_eq!(run.join().expect("it completes").counter("flows_created"), 1);
        }
    });
}
