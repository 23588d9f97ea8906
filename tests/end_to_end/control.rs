//! Takes the interface of a [`Net`]'s box that faces the server under control: agents, their policies, and `windlass attach`.

use crate::net::{Net, with_transfer};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;
use windlass_tests::process::{Process, until};

/// Writes the policy.
pub fn put(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("policy.toml");
    // renamed into place: the agent must never read half a policy
    let draft = folder.join("draft.toml");
    fs::write(&draft, text).expect("a writable folder");
    fs::rename(&draft, &file).expect("the same folder");
    file
}

pub fn policy(folder: &Path, algorithm: &str) -> PathBuf {
    let text =
        format!("[[rule]]\nname = \"all\"\nmatch = {{ iface = \"r1\" }}\nalgorithm = \"{algorithm}\"\n");
    put(folder, &text)
}

/// Rules for r1 that the datapath has no room for, which shows only when the interface is there: their patterns differ. And
/// further rules.
pub fn too_many_rules_and(folder: &Path, more: &str) {
    let letters = || 'a'..='q';
    let pairs = letters().flat_map(|a| letters().map(move |b| (a, b)));
    let rule = |(a, b)| {
        format!("[[rule]]\nname = \"{a}{b}\"\nmatch = {{ iface = \"r[1{a}{b}]\" }}\nalgorithm = \"reno\"\n")
    };
    put(folder, &(pairs.map(rule).collect::<String>() + more));
}

/// Stops the agent where it has no lock for which others would wait until it goes on.
pub fn stop(agent: &Process) {
    let process = PathBuf::from(format!("/proc/{}", agent.id()));
    let is_stopped = || {
        let stat = fs::read_to_string(process.join("stat")).expect("our child");
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    };
    let has_lock = || {
        let files = fs::read_dir(process.join("fd")).expect("our child").flatten();
        let mut names = files.flat_map(|f| fs::read_link(f.path()));
        // what ran this test may have left it a lock of its own open, as flock(1) does
        names.any(|f| f.starts_with("/run/windlass") && f.extension().is_some_and(|e| e == "lock"))
    };
    until("the agent is stopped where it has no lock", || {
        agent.signal(libc::SIGSTOP);
        until("the agent is stopped", is_stopped);
        let is_in_the_way = has_lock();
        if is_in_the_way {
            agent.signal(libc::SIGCONT);
        }
        !is_in_the_way
    });
}

/// An agent that releases at its end what it controls.
pub fn talker(net: &Net, policy: &Path) -> Process {
    talker_with(net, policy, &[])
}

/// The same with further words.
pub fn talker_with(net: &Net, policy: &Path, words: &[&str]) -> Process {
    let own = ["agent", "--detach-on-exit", "--policy", policy.to_str().expect("UTF-8")];
    Process::start(&mut net.windlass(&[&own, words].concat()))
}

fn with_policy(algorithm: &str) -> (Net, TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), algorithm);
    (Net::create("cubic"), folder, file)
}

/// A network on whose box an agent runs, the folder of its policy, and the policy.
pub fn with_agent(algorithm: &str) -> (Net, TempDir, PathBuf, Process) {
    let (net, folder, file) = with_policy(algorithm);
    let agent = net.agent(&file, "under control");
    (net, folder, file, agent)
}

/// The same with an agent that releases at its end what it controls.
pub fn with_talker(algorithm: &str) -> (Net, TempDir, PathBuf, Process) {
    let (net, folder, file) = with_policy(algorithm);
    let agent = talker(&net, &file);
    agent.says("under control");
    (net, folder, file, agent)
}

/// Ends the agent, and then what it leaves under control.
pub fn release(net: &Net, mut agent: Process) {
    agent.end(libc::SIGTERM);
    net.answer(&["detach", "--all"]);
}

/// `windlass attach` of the interface that faces the server, once control is there, and what it reported then.
pub fn attached(net: &Net) -> (Process, Value) {
    attached_with(net, &[])
}

/// The same with more words on its command line.
pub fn attached_with(net: &Net, words: &[&str]) -> (Process, Value) {
    let attach = Process::start(&mut net.windlass(&[&["attach", "r1", "--json"], words].concat()));
    let said = attach.event("attached");
    (attach, said)
}

pub fn is_controlled(net: &Net) {
    with_transfer(net, |progress| {
        progress();
        assert_eq!(net.flows()[0]["mode"], "transparent");
    });
}
