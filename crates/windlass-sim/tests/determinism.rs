//! A run is a pure function of scenario and seed: to the byte, whatever else runs beside it, and however it was compiled.

use std::{fs, path::Path, thread};
use windlass_scenario::Scenario;
use windlass_sim::{RunOptions, run};

/// Everything that could depend on random numbers or order: switches with shared memory and several ways, loss, jitter
/// that reorders, marks, all kinds of congestion control, trains of random sizes, a group, and a box behind which TRIM
/// waits at random.
fn scenario(seed: u64) -> Scenario {
    let mut text = format!(
        "name = \"any\"\nseed = {seed}\ntime_limit = \"20 s\"\n[tcp]\necn = \"classic\"\n\
         [topology]\nshape = \"fat-tree\"\nk = 4\nedge = {{ rate = \"100 Mbit/s\", delay = \"50 us\" }}\n\
         fabric = {{ rate = \"100 Mbit/s\", delay = \"500 us\", loss = \"0.2 %\" }}\n\
         switch = {{ shared_buffer = \"60 kB\", port_buffer = \"30 packets\", ecn = \"20 packets\" }}\n\
         [[host]]\nname = \"far\"\n[[link]]\nbetween = [\"far\", \"core-1\"]\nrate = \"20 Mbit/s\"\ndelay = \"10 ms\"\n\
         jitter = \"2 ms\"\nreorder = true\nbuffer = \"1 BDP\"\n\
         [[host]]\nname = \"server\"\n[[host]]\nname = \"box\"\n[[link]]\nbetween = [\"server\", \"box\"]\n\
         [[link]]\nbetween = [\"box\", \"core-2\"]\nrate = \"100 Mbit/s\"\ndelay = \"1 ms\"\n\
         [windlass]\nat = \"box\"\nfacing = \"server\"\nalgorithm = \"trim\"\n\
         [[group]]\nname = \"uplink\"\nrule = \"ccc\"\n"
    );
    for (from, to, algorithm, keys) in [
        ("host-1-*", "host-*", "reno", ""),
        ("host-1-*", "far", "cubic", ""),
        ("host-1-*", "host-*", "bbr", ""),
        ("host-1-*", "host-*", "dctcp", ""),
        ("host-1-*", "host-*", "l2dct", ""),
        ("host-1-*", "host-*", "trim", ""),
        ("host-2-1-1", "host-3-*", "reno", "group = \"uplink\"\ncount = 4\n"),
        ("server", "host-4-*", "cubic", "count = 4\n"),
    ] {
        text += &format!(
            "[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nalgorithm = \"{algorithm}\"\n{keys}\
             start = {{ uniform = [\"0 s\", \"1 s\"] }}\n\
             [[flow.train]]\ncount = 5\nsize = {{ exponential = \"100 kB\" }}\ngap = {{ exponential = \"10 ms\" }}\n"
        );
    }
    Scenario::parse("any", &text).unwrap_or_else(|e| panic!("{e}"))
}

fn report(seed: u64) -> String {
    let outcome = run(&scenario(seed), &RunOptions::default()).unwrap();
    serde_json::to_string_pretty(&outcome.report).unwrap() + "\n"
}

#[test]
fn runs_beside_others_give_what_they_give_alone() {
    let alone: Vec<String> = (1..=4).map(report).collect();
    for threads in [2, 4] {
        let beside: Vec<String> = thread::scope(|scope| {
            let seeds = |t| (1..=4u64).skip(t).step_by(threads);
            let run = |t| scope.spawn(move || seeds(t).map(|s| (s, report(s))).collect::<Vec<_>>());
            let running: Vec<_> = (0..threads).map(run).collect();
            let mut all: Vec<_> = running.into_iter().flat_map(|r| r.join().unwrap()).collect();
            all.sort_by_key(|(seed, _)| *seed);
            all.into_iter().map(|(_, report)| report).collect()
        });
        assert_eq!(alone, beside);
    }
    assert_ne!(alone[0], alone[1]);
    let adopted = run(&scenario(1), &RunOptions::default()).unwrap().report.counter("flows_created");
    assert_eq!(adopted, 4, "the box has a part in it");
}

/// Each build leaves its report for `tests/run.sh`, which compares those of debug and release.
#[test]
fn each_build_leaves_its_report() {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("determinism.{build}.json"));
    let reports: String = (1..=4).map(report).collect();
    fs::write(&file, &reports).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), reports);
}
