//! The oracle at work: kept packet scripts first, then random runs. WINDLASS_ORACLE_SEED selects other runs,
//! WINDLASS_ORACLE_RUN for one alone, WINDLASS_ORACLE_PACKETS or WINDLASS_ORACLE_SECONDS for more, WINDLASS_ORACLE_TIMES for what
//! single packets take, WINDLASS_ORACLE_COUNTED for the counters that each packet of a report has raised.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};
use windlass_oracle::{Findings, Report, Run, planned_packets, run, run_script, times_in_deep_flows};

/// About a minute of two CPUs, with each of the sizes of store and table at least once.
const PACKETS: u64 = 5_000_000;
/// Many connections wait most of the time: a CPU has room for so many runs at once.
const RUNS_OF_CPU: usize = 2;

fn is_root_or_skip(test: &str) -> bool {
    let is_root = windlass_lab::netns::is_root();
    if !is_root {
        println!("skipped: {test}: needs root");
    }
    is_root
}

fn number(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value}: a whole number is needed")))
}

/// On a thread of its own, which stays in the namespace that it makes.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join()).expect("the run comes to its end")
}

#[test]
fn kept_packet_scripts_are_no_attacks() {
    if !is_root_or_skip("kept_packet_scripts_are_no_attacks") {
        return;
    }
    let mut findings = Findings::default();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut scripts: Vec<_> =
        fs::read_dir(corpus).expect("kept scripts").map(|e| e.expect("a name").path()).collect();
    scripts.sort();
    thread::scope(|scope| {
        let run = |path: &PathBuf| {
            let name = path.file_name().expect("a file").to_string_lossy().into_owned();
            run_script(&name, &fs::read_to_string(path).expect("a text")).expect("the script can be run")
        };
        let running: Vec<_> = scripts.iter().map(|path| scope.spawn(move || run(path))).collect();
        for script in running {
            findings.merge(script.join().expect("the script comes to its end"));
        }
    });
    assert!(findings.is_empty(), "\n{findings}");
}

#[test]
fn random_flows_get_their_servers_bytes() {
    if !is_root_or_skip("random_flows_get_their_servers_bytes") {
        return;
    }
    let seed = number("WINDLASS_ORACLE_SEED").unwrap_or(1);
    let has_times = number("WINDLASS_ORACLE_TIMES").is_some_and(|times| times != 0);
    let has_counted = number("WINDLASS_ORACLE_COUNTED").is_some_and(|counted| counted != 0);
    if has_times {
        for flows in [1, 8] {
            let table = apart(|| times_in_deep_flows(flows)).expect("it can be measured");
            println!("{flows} flows of 8 MiB in flight:\n{table}");
        }
    }
    let only = number("WINDLASS_ORACLE_RUN");
    let deadline = number("WINDLASS_ORACLE_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let packets = number("WINDLASS_ORACLE_PACKETS").unwrap_or(PACKETS);
    let next = Mutex::new((only.unwrap_or(0), 0));
    // the next run, if there is one
    let take = || {
        let mut next = next.lock().expect("no run panics");
        let (number, planned) = *next;
        let run = Run { seed, number };
        *next = (number + 1, planned + planned_packets(&run));
        let goes_on = match (only, deadline) {
            (Some(only), _) => number == only,
            (None, Some(deadline)) => Instant::now() < deadline,
            (None, None) => planned < packets,
        };
        goes_on.then_some(run)
    };
    let all = Mutex::new(Report::default());
    thread::scope(|scope| {
        for _ in 0..RUNS_OF_CPU * thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(|| {
                while let Some(one) = take() {
                    let report = apart(|| run(&one, has_times, has_counted)).expect("the run can be made");
                    println!("seed {seed} run {}: {}", one.number, report.summary());
                    all.lock().expect("no run panics").merge(report);
                }
            });
        }
    });
    let all = all.into_inner().expect("no run panics");
    println!("all: {}\n{}", all.summary(), all.times());
    assert!(
        all.findings.is_empty(),
        "\n{}\nonce more: WINDLASS_ORACLE_SEED={seed} WINDLASS_ORACLE_RUN=(the run) cargo test -p windlass-oracle random",
        all.findings
    );
}
