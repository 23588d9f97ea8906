//! Plays all scripts below `scripts/` in the native core and in the programs of the datapath, and has random ends converse through both.

use std::{env, path::Path};
use windlass_conversations::{
    native::Native,
    pair::Pair,
    play::Stage,
    run::{Named, Outcome, play_in_both, play_native, read_scripts},
    script::BoxSetup,
};
use windlass_lab::netns::is_root;
use windlass_oracle::dice::Dice;

/// Part of the names of the scripts to play; unset: all.
const FILTER: &str = "WINDLASS_CONVERSATIONS";
/// Other random conversations, and more of them.
const SEED: &str = "WINDLASS_CONVERSATIONS_SEED";
const STEPS: &str = "WINDLASS_CONVERSATIONS_STEPS";

fn scripts() -> Vec<Named> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let filter = env::var(FILTER).unwrap_or_default();
    let scripts = read_scripts(&folder, &filter).unwrap_or_else(|e| panic!("{e:#}"));
    assert!(!scripts.is_empty(), "{FILTER}={filter}: no such script");
    scripts
}

fn judge(outcomes: &[Outcome]) {
    let reports: Vec<_> = outcomes.iter().map(Outcome::report).collect();
    reports.iter().for_each(|(text, _)| println!("{text}"));
    let failed = reports.iter().filter(|(_, is_right)| !is_right).count();
    assert_eq!(failed, 0, "of {} scripts {failed} did not go as they are written", reports.len());
}

fn is_root_or_skip(test: &str) -> bool {
    if !is_root() {
        println!("skipped: {test}: needs root");
    }
    is_root()
}

#[test]
fn conversations_go_as_they_are_written() {
    judge(&play_native(&scripts()).unwrap_or_else(|e| panic!("{e:#}")));
}

#[test]
fn conversations_go_through_the_programs_as_through_the_native_core() {
    let scripts = scripts();
    if is_root_or_skip("conversations_go_through_the_programs_as_through_the_native_core") {
        judge(&play_in_both(&scripts).unwrap_or_else(|e| panic!("{e:#}")));
    }
}

/// Homes of random conversations: algorithms, entries of the flow table, room in the store.
fn setups() -> [BoxSetup; 3] {
    [("reno", 64, 4096), ("cubic", 8, 512), ("bbr", 64, 4096)].map(|(algorithm, flows_max, store_kib)| {
        BoxSetup { algorithm: algorithm.to_string(), flows_max, store_kib }
    })
}

/// Of one run without programs.
const STEPS_NATIVELY: u32 = 40_000;
/// Random conversations of each setup through both homes, one after the other.
const RUNS: u64 = 8;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number")))
}

#[test]
fn random_conversations_leave_the_native_core_with_no_flow() {
    for setup in setups() {
        let mut stage = Stage::new(Native::new(&setup).unwrap_or_else(|e| panic!("{e:#}")));
        // it fails when a flow that has long been silent is still known
        let played = stage.converse(&mut Dice::new(number(SEED, 1), 0), STEPS_NATIVELY);
        played.unwrap_or_else(|e| panic!("{}: {e:#}", setup.algorithm));
    }
}

#[test]
fn random_conversations_are_the_same_to_the_byte_in_both_homes() {
    if !is_root_or_skip("random_conversations_are_the_same_to_the_byte_in_both_homes") {
        return;
    }
    let (seed, steps) = (number(SEED, 1), number(STEPS, 4000) as u32);
    for setup in setups() {
        let algorithm = setup.algorithm.clone();
        // in a thread of its own, which stays in the namespace of the programs
        let run = std::thread::spawn(move || {
            let mut stage = Stage::new(Pair::attach(&setup)?);
            (0..RUNS).try_fold(0, |packets, run| {
                let more = stage.converse(&mut Dice::new(seed, run), steps);
                more.map(|more| packets + more).map_err(|e| e.context(format!("{SEED}={seed}, run {run}")))
            })
        });
        let packets = run.join().expect("the thread ends").unwrap_or_else(|e| panic!("{algorithm}: {e:#}"));
        println!("{algorithm}: {packets} packets");
    }
}
