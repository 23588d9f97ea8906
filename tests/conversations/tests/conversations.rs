//! Plays all scripts below `scripts/` against the programs of the datapath.

use std::{env, path::Path};
use windlass_conversations::run::{Outcome, play_loaded, read_scripts};
use windlass_lab::netns::is_root;

/// Part of the names of the scripts to play; unset: all.
const FILTER: &str = "WINDLASS_CONVERSATIONS";

#[test]
fn conversations_go_as_they_are_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let filter = env::var(FILTER).unwrap_or_default();
    let scripts = read_scripts(&folder, &filter).unwrap_or_else(|e| panic!("{e:#}"));
    assert!(!scripts.is_empty(), "{FILTER}={filter}: no such script");
    if !is_root() {
        println!("skipped: conversations_go_as_they_are_written: needs root");
        return;
    }
    let outcomes = play_loaded(&scripts).unwrap_or_else(|e| panic!("{e:#}"));
    let reports: Vec<_> = outcomes.iter().map(Outcome::report).collect();
    reports.iter().for_each(|(text, _)| println!("{text}"));
    let failed = reports.iter().filter(|(_, is_right)| !is_right).count();
    assert_eq!(failed, 0, "of {} scripts {failed} did not go as they are written", reports.len());
}
