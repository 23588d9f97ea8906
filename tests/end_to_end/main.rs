//! Real transfers through the real datapath, each in namespaces of its own, payloads checked by SHA-256.

mod agent;
mod attach;
mod causes;
mod clocks;
mod comings;
mod containers;
mod control;
mod datapaths;
mod deployments;
mod downloads;
mod emulated_links;
mod faults;
mod fleet;
mod foreign;
mod groups;
mod hostile;
mod idle;
mod interfaces;
mod local_users;
mod logs;
mod looks;
mod loops;
mod metrics;
mod names;
mod native;
mod native_attach;
mod native_groups;
mod native_sockets;
mod net;
mod peers;
mod random;
mod records;
mod reloads;
mod service;
mod shares;
mod site;
mod terminals;
mod transfers;
mod tunnels;
mod unremovable;
mod upgrade;
mod vlans;
mod web;

use windlass_lab::{RunOptions, RunReport};
use windlass_scenario::Scenario;

/// Two hosts and a box between them; `link` are the settings of the emulated link, `rest` what follows.
fn scenario(name: &str, link: &str, rest: &str) -> Scenario {
    let text = format!(
        "name = \"{name}\"\ntime_limit = \"60 s\"\n\
         [[host]]\nname = \"server\"\n[[host]]\nname = \"box\"\n[[host]]\nname = \"client\"\n\
         [[link]]\nbetween = [\"server\", \"box\"]\n\
         [[link]]\nbetween = [\"box\", \"client\"]\n{link}\n{rest}\n"
    );
    Scenario::parse(name, &text).expect("a sound scenario")
}

/// A lossy link, and a box on it.
const LOSSY_BOX: (&str, &str) =
    ("rate = \"50 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"2 BDP\"\nloss = \"1 %\"", WINDLASS);

const WINDLASS: &str = "[windlass]\nat = \"box\"\nfacing = \"server\"\n";

fn flow(size: &str, algorithm: &str) -> String {
    format!("[[flow]]\nfrom = \"server\"\nto = \"client\"\nsize = \"{size}\"\nalgorithm = \"{algorithm}\"\n")
}

fn run(scenario: &Scenario) -> RunReport {
    let options = RunOptions::new(windlass_tests::windlass_path());
    windlass_lab::run(scenario, &options).unwrap_or_else(|e| panic!("{}: {e:#}", scenario.name))
}

/// Runs it and makes sure that every payload arrived whole.
fn run_whole(scenario: &Scenario) -> RunReport {
    let report = run(scenario);
    assert!(report.is_complete(), "{report}");
    report
}
