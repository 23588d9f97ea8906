//! A short search among options and events, guided by the coverage of the Rust and the C code, from nothing and the same at
//! every run. `make fuzz` searches longer, goes on where it was, and has the target `wire` too, for which much more must be
//! built. `make setup` installs what is needed besides Rust.

use std::process::Command;

/// Tries that many inputs, of any length up to `max_len`.
fn search(target: &str, runs: u32, max_len: u32) {
    let options = [format!("-runs={runs}"), format!("-max_len={max_len}")];
    let out = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/run.sh"))
        .args([target, "-seed=1", "-len_control=0", "-print_final_stats=1"])
        .args(options)
        .output()
        .expect("fuzz/run.sh runs");
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

#[test]
fn a_search_among_options_finds_nothing() {
    search("options", 50_000, 40);
}

#[test]
fn a_search_among_events_finds_nothing() {
    search("flow", 50_000, 500);
}
