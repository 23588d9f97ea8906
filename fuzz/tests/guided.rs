//! A short search among options and events, guided by the coverage of the Rust and the C code, from nothing and the same at
//! every run. `make fuzz` searches longer, goes on where it was, and has the target `wire` too, for which much more must be
//! built. `make setup` installs what is needed besides Rust.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn run(target: &str, words: &[&str]) -> Output {
    let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/run.sh"));
    script.arg(target).args(words).output().expect("fuzz/run.sh runs")
}

/// Tries that many inputs, of any length up to `max_len`.
fn search(target: &str, runs: u32, max_len: u32) {
    let options = [format!("-runs={runs}"), format!("-max_len={max_len}")];
    let out = run(
        target,
        &[
            &["-seed=1", "-len_control=0", "-print_final_stats=1"],
            &options.each_ref().map(String::as_str)[..],
        ]
        .concat(),
    );
    let said = String::from_utf8_lossy(&out.stderr);
    let last: Vec<&str> = said.lines().collect();
    let last = last[last.len().saturating_sub(60)..].join("\n");
    assert!(out.status.success(), "{last}");
    // an input is kept when it reaches what none did before: without counters in the code, none but the first
    let kept = said.lines().find_map(|l| l.strip_prefix("stat::new_units_added:"));
    let kept: u32 = kept.and_then(|n| n.trim().parse().ok()).unwrap_or_else(|| panic!("{last}"));
    assert!(kept > 10, "coverage guides nothing:\n{last}");
    println!("{target}: {runs} inputs, {kept} of them reached something new");
}

/// `make test-long` tries more.
fn runs() -> u32 {
    if std::env::var_os("WINDLASS_TEST_LONG").is_some() { 50_000 } else { 5_000 }
}

#[test]
fn a_search_among_options_finds_nothing() {
    search("options", runs(), 40);
}

#[test]
fn a_search_among_events_finds_nothing() {
    search("flow", runs(), 500);
}

/// A minute of the same goes on beside the tests (`tests/run.sh`).
#[test]
fn a_search_among_segments_at_the_box_finds_nothing() {
    search("boxed", runs() / 5, 500);
}

/// A search that finds nothing and fails, as its corpus is not there, names no input that an earlier one found.
#[test]
fn a_search_names_only_what_it_found() {
    let finds = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts/options");
    fs::create_dir_all(&finds).expect("a folder");
    let earlier = finds.join("crash-of-a-test");
    fs::write(&earlier, "found earlier").expect("a file");
    let out = run("options", &["-runs=1", "no/such/corpus"]);
    fs::remove_file(&earlier).expect("it is there");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && said.contains("no/such/corpus"), "{said}");
    assert!(!said.contains("crash-of-a-test"), "{said}");
}
