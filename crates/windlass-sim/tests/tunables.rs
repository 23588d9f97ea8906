//! Constants of algorithms: each that is declared changes what its algorithm does.

use windlass_core::{Algorithm, Tunable, Unit};
use windlass_scenario::{Scenario, tunable_text};
use windlass_sim::{RunOptions, run};

/// A path with losses, marks and a queue, of which the rate of the bottleneck is not known; two flows, one of which pauses.
fn scenario(algorithm: Algorithm, constant: &str) -> Scenario {
    let of = algorithm.name();
    let text = format!(
        "name = \"t\"\ntime_limit = \"300 s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[host]]\nname = \"c\"\n\
         [[link]]\nbetween = [\"a\", \"b\"]\n\
         [[link]]\nbetween = [\"b\", \"c\"]\nrate = \"8 Mbit/s\"\ndelay = \"60 ms\"\nbuffer = \"60 packets\"\n\
         ecn = \"8 packets\"\nloss = \"0.05 %\"\n\
         [[flow]]\nfrom = \"a\"\nto = \"c\"\nalgorithm = \"wl_{of}\"\nsize = \"14 MB\"\n\
         [[flow]]\nfrom = \"a\"\nto = \"c\"\nalgorithm = \"wl_{of}\"\nstart = \"2 s\"\nsize = \"1 MB\"\n\
         [parameters.{of}]\n{constant}\n"
    );
    Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn every_constant_changes_what_its_algorithm_does() {
    let outcome = |algorithm, constant: &str| {
        let outcome = run(&scenario(algorithm, constant), &RunOptions::default()).expect("it fits");
        serde_json::to_string(&outcome.report).expect("a report")
    };
    let check = |algorithm: Algorithm, t: Tunable| {
        let quotes = if t.unit == Unit::Number { "" } else { "\"" };
        let set = |parts| {
            let value = tunable_text(&t, parts);
            outcome(algorithm, &format!("{} = {quotes}{value}{quotes}", t.name))
        };
        assert!(set(t.least) != set(t.most), "{algorithm:?}: {} has no effect", t.name);
    };
    std::thread::scope(|scope| {
        for algorithm in Algorithm::all() {
            scope.spawn(move || algorithm.tunables().into_iter().for_each(|t| check(algorithm, t)));
        }
    });
}
