//! The log of an agent, as programs and journald read it.

use crate::{
    control::{policy, put, release},
    net::Net,
};
use serde_json::Value;
use std::{fs::File, os::unix::fs::MetadataExt, path::Path, process::Stdio};
use windlass_tests::{
    is_root_or_skip,
    process::{Process, until},
};

/// An agent with these words and environment, whose standard error is a file.
fn agent(net: &Net, words: &[&str], environment: &[(&str, &str)], errors: &Path) -> Process {
    let file = File::options().append(true).open(errors).expect("it was made");
    let mut command = net.windlass(words);
    command.envs(environment.iter().copied()).stdout(Stdio::piped()).stderr(file);
    Process::start_as_is(&mut command)
}

#[test]
fn every_line_of_an_agents_json_log_has_its_time_and_level() {
    if !is_root_or_skip("every_line_of_an_agents_json_log_has_its_time_and_level") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "cubic");
    let errors = folder.path().join("errors");
    let m = File::create(&errors).and_then(|file| file.metadata()).expect("a writable folder");
    let lines = || std::fs::read_to_string(&errors).expect("readable");
    let own = ["agent", "--policy", file.to_str().expect("UTF-8")];

    let words = [&own[..], &["--log-format", "json", "--log-level", "debug"]].concat();
    let mut one = agent(&net, &words, &[], &errors);
    until("r1 is under control", || lines().contains("under control"));
    put(folder.path(), "nonsense");
    until("the policy is refused", || lines().contains("the policy in force stays"));
    one.end(libc::SIGTERM);
    assert_eq!(one.line(), None, "nothing is on standard output");
    let documents: Vec<Value> =
        lines().lines().map(|line| serde_json::from_str(line).expect("each line is a document")).collect();
    for document in &documents {
        let time = document["time"].as_str().expect("a time");
        assert!(time.starts_with("20") && time.contains('T') && time.ends_with('Z'), "{document}");
        let level = document["level"].as_str().expect("a level");
        assert!(["error", "warn", "info", "debug"].contains(&level), "{document}");
        assert!(document["message"].is_string(), "{document}");
    }
    let events = documents.iter().filter(|d| d["device"] == "r1").map(|d| (&d["level"], &d["event"]));
    assert_eq!(
        events.collect::<Vec<_>>(),
        [(&"info".into(), &"attached".into()), (&"info".into(), &"stays".into())]
    );
    assert!(documents.iter().any(|d| d["level"] == "warn" && d["event"] == "complaint"));

    // the same file as the journal
    policy(folder.path(), "cubic");
    let stream = format!("{}:{}", m.dev(), m.ino());
    let mut other = agent(&net, &own, &[("JOURNAL_STREAM", &stream)], &errors);
    until("it takes over", || lines().contains("<6>r1: taken over"));
    other.end(libc::SIGTERM);
    let last = lines().lines().last().map(String::from).expect("a line");
    assert!(last.starts_with("<6>r1: stays under control"), "{last}");
    // only what is not as it should be
    let third = agent(&net, &own, &[("WINDLASS_LOG", "warn")], &errors);
    until("it takes over", || net.answer(&["status"]).contains(&format!("process {}", third.id())));
    release(&net, third);
    assert_eq!(lines().lines().last(), Some(last.as_str()));
}
