//! Which commands have pages of 2 MiB: those that simulate. What waits most of the time has small ones.

use std::{
    fs,
    io::Write,
    process::{Child, Stdio},
};
use windlass_tests::windlass;

/// More than a pipe holds: once it is written, the command reads what it is given, and has read its arguments before.
const COMMENT_BYTES: usize = 100_000;

const SCENARIO: &str = "name = \"small\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\n\
    between = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n\
    [[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"50 kB\"\n";
const POLICY: &str = "[[rule]]\nname = \"all\"\nmatch = { iface = \"v0\" }\nalgorithm = \"bbr\"\n";

/// Whether the kernel may give it pages of 2 MiB; none: it does not report that (before Linux 5.0, or built without them).
fn has_huge_pages(process: &Child) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).expect("our child");
    let value = status.lines().find_map(|line| line.strip_prefix("THP_enabled:"))?;
    Some(value.trim() == "1")
}

/// The same of a command while it reads this text, which it must then take.
fn has_huge_pages_while_it_reads(words: &[&str], text: &str) -> Option<bool> {
    let mut command = windlass();
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("windlass runs");
    let mut input = child.stdin.take().expect("piped");
    let comment = format!("#{}\n", "-".repeat(COMMENT_BYTES));
    input.write_all(comment.as_bytes()).expect("it reads");
    let has = has_huge_pages(&child);
    input.write_all(text.as_bytes()).expect("it reads on");
    drop(input);
    assert!(child.wait().expect("our child").success(), "{words:?}");
    has
}

#[test]
fn only_commands_that_simulate_have_huge_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out").display().to_string();
    let Some(of_check) = has_huge_pages_while_it_reads(&["policy", "check", "/dev/stdin"], POLICY) else {
        println!("skipped: only_commands_that_simulate_have_huge_pages: this kernel has none");
        return;
    };
    assert!(!of_check, "policy check");
    for words in
        [&["run", "/dev/stdin", "--on", "sim"][..], &["sweep", "/dev/stdin", "--on", "sim", "--out", &out]]
    {
        assert_eq!(has_huge_pages_while_it_reads(words, SCENARIO), Some(true), "{words:?}");
    }
}
