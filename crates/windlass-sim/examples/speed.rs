//! How fast the simulator is: `cargo run --release -p windlass-sim --example speed [FILE]`.
//!
//! Prints packet-hops (a packet crossing a link, or dying on it) per second of this machine's time on one core, for a
//! scenario file or for some built-in networks: the best of three runs.

use std::{env, path::Path, time::Instant};
use windlass_scenario::Scenario;
use windlass_sim::{RunOptions, run};

const RUNS: u32 = 3;

/// `senders` hosts with `flows` flows each, over one switch to one receiver.
fn incast(senders: u32, flows: u32, rate: &str, size: &str, algorithm: &str) -> Scenario {
    let mut text = format!("name = \"{senders} x {flows} {algorithm}\"\ntime_limit = \"300 s\"\n");
    text += "[[host]]\nname = \"switch\"\n[[host]]\nname = \"receiver\"\n[[link]]\n";
    text += &format!(
        "between = [\"switch\", \"receiver\"]\nrate = \"{rate}\"\ndelay = \"50 us\"\nbuffer = \"250 packets\"\n"
    );
    for s in 0..senders {
        text += &format!("[[host]]\nname = \"s{s}\"\n[[link]]\nbetween = [\"s{s}\", \"switch\"]\n");
        text += "rate = \"1 Gbit/s\"\ndelay = \"50 us\"\nbuffer = \"250 packets\"\n";
        for _ in 0..flows {
            text += &format!(
                "[[flow]]\nfrom = \"s{s}\"\nto = \"receiver\"\nsize = \"{size}\"\nalgorithm = \"{algorithm}\"\n"
            );
        }
    }
    Scenario::parse("speed", &text).expect("a sound scenario")
}

fn measure(scenario: &Scenario) {
    let mut best_s = f64::INFINITY;
    let mut hops = 0;
    for _ in 0..RUNS {
        let begin = Instant::now();
        let outcome = run(scenario, &RunOptions::default()).expect("it can be simulated");
        best_s = best_s.min(begin.elapsed().as_secs_f64());
        hops = outcome.count.hops;
    }
    let million_per_s = hops as f64 / best_s / 1e6;
    println!("{:<24} {hops:>12} {best_s:>10.3} {million_per_s:>12.2}", scenario.name);
}

fn main() {
    println!("{:<24} {:>12} {:>10} {:>12}", "scenario", "packet-hops", "seconds", "million/s");
    if let Some(file) = env::args().nth(1) {
        return measure(&Scenario::from_file(Path::new(&file)).expect("a sound scenario"));
    }
    for algorithm in ["reno", "cubic", "bbr"] {
        measure(&incast(5, 1, "1 Gbit/s", "40 MB", algorithm));
    }
    measure(&incast(1, 10, "1 Gbit/s", "20 MB", "cubic"));
    // the same bytes over ever more connections: the cost of a packet-hop should stay what it is
    for flows in [1, 10, 100] {
        measure(&incast(40, flows, "10 Gbit/s", &format!("{} kB", 10_000 / flows), "cubic"));
    }
}
