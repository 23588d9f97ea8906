//! `windlass attach`: an interface under control as long as it runs.

use crate::{
    control::{attached, attached_with, is_controlled, policy},
    net::{Net, with_transfer},
};
use std::{fs, process::Stdio};
use windlass_tests::{
    is_root_or_skip,
    process::{Process, until},
};

#[test]
fn a_transfer_outlives_attach_killed_or_ended() {
    if !is_root_or_skip("a_transfer_outlives_attach_killed_or_ended") {
        return;
    }
    for signal in [libc::SIGKILL, libc::SIGINT] {
        let net = Net::create("cubic");
        let (mut attach, _) = attached(&net);
        with_transfer(&net, |progress| {
            attach.end(signal);
            progress();
        });
    }
}

/// Its output is not read any more: the reader was ended by the same Ctrl-C, or the disk is full.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_command_that_cannot_write_releases_all_the_same() {
    if !is_root_or_skip("a_command_that_cannot_write_releases_all_the_same") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    let agent = ["agent", "--detach-on-exit", "--policy", file.to_str().expect("UTF-8")];
    for words in [&["attach", "r1"][..], &agent] {
        let mut command = net.windlass(words);
        let (mut process, _) = Process::start_unheard(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        process.end(libc::SIGINT);
        assert!(net.clocks().is_empty() && !net.pins().exists(), "{words:?}");
    }
    // the process that started it through a pipe may be killed while there is nothing to write
    let (mut attach, _) = Process::start_unheard(net.windlass(&["attach", "r1"]).stdout(Stdio::piped()));
    assert_eq!(attach.wait().code(), Some(1));
    assert!(net.clocks().is_empty());
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").expect("it is everywhere");
    let mut attach = Process::start_as_is(net.windlass(&["attach", "r1"]).stdout(full()).stderr(full()));
    assert_eq!(attach.wait().code(), Some(1));
    assert!(net.clocks().is_empty());
    // an agent goes on without a word
    let mut agent = Process::start_as_is(net.windlass(&agent).stdout(full()).stderr(full()));
    until("an interface under control", || {
        assert!(agent.is_running(), "the agent goes on");
        net.record("").exists()
    });
    is_controlled(&net);
    assert!(agent.end(libc::SIGTERM).success());
    assert!(net.clocks().is_empty() && !net.pins().exists());
}

/// A `windlass detach` looks first, and removes once flows are handed back: another may have attached meanwhile.
#[test]
fn what_is_left_of_a_killed_attach_is_removed_and_not_what_runs() {
    if !is_root_or_skip("what_is_left_of_a_killed_attach_is_removed_and_not_what_runs") {
        return;
    }
    let net = Net::create("cubic");
    let (mut attach, _) = attached(&net);
    let (clocks, claim) = (net.clocks(), net.record(":agent"));
    let remove = || {
        net.middle
            .enter(|| Ok(windlass_agent::remove_left(&["r1".into()], |_| {})?))
            .expect("no process holds a lock")
    };
    remove();
    assert!(net.clocks() == clocks && claim.exists());
    attach.end(libc::SIGKILL);
    remove();
    assert!(net.clocks().is_empty() && !claim.exists());
}

/// The process that attached has another /run, for example: only the kernel shows it.
#[test]
fn an_attach_that_is_refused_leaves_no_claim() {
    if !is_root_or_skip("an_attach_that_is_refused_leaves_no_claim") {
        return;
    }
    let net = Net::create("cubic");
    let _attach = attached(&net);
    fs::remove_file(net.record(":agent")).expect("its claim");
    let out = net.windlass(&["attach", "r1"]).output().expect("windlass runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("'r1'"), "{said}");
    assert!(!net.record(":agent").exists(), "nor is anything claimed");
}

/// It looks at its clock more often than that.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn attach_samples_at_the_given_interval() {
    if !is_root_or_skip("attach_samples_at_the_given_interval") {
        return;
    }
    let net = Net::create("cubic");
    let (mut attach, _) = attached_with(&net, &["--sample-ms", "700"]);
    let times = [(); 2].map(|()| attach.event("sample")["t_ms"].as_u64().expect("a time"));
    assert!(times[0] >= 700 && times[1] >= 1400, "{times:?}");
    attach.end(libc::SIGINT);
}

/// Tables have places for flows that may never come: what each takes without stored data is bounded.
#[test]
fn a_flow_takes_twelve_hundred_bytes_at_most() {
    if !is_root_or_skip("a_flow_takes_twelve_hundred_bytes_at_most") {
        return;
    }
    let net = Net::create("cubic");
    // as many as an operator has
    let (mut attach, attached) = attached_with(&net, &["--flows", "32768"]);
    attach.end(libc::SIGINT);
    // nor are half-open connections flows
    let of_store = [
        "wl_store",
        "wl_segs",
        "wl_free_chunks",
        "wl_spare_chunks",
        "wl_splits",
        "wl_split_chunks",
        "wl_tables",
        "wl_free_tables",
        "wl_handshakes",
    ];
    let maps = attached["memory_bytes"].as_object().expect("by map");
    let bytes: u64 = maps
        .iter()
        .filter(|(name, _)| !of_store.contains(&name.as_str()))
        .map(|(_, bytes)| bytes.as_u64().expect("bytes"))
        .sum();
    let flows_max = attached["flows_max"].as_u64().expect("a number");
    assert!((500 * flows_max..=1200 * flows_max).contains(&bytes), "{} bytes a flow", bytes / flows_max);
    let of_handshakes = maps["wl_handshakes"].as_u64().expect("bytes");
    // with what the map itself takes
    assert!(of_handshakes <= 320 * flows_max + 1024, "{of_handshakes} bytes");
}

/// cron and Debian's `su` give such a PATH.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn attach_finds_iproute2_where_the_path_lacks_its_folder() {
    if !is_root_or_skip("attach_finds_iproute2_where_the_path_lacks_its_folder") {
        return;
    }
    let net = Net::create("cubic");
    let mut command = net.windlass(&["attach", "r1", "--json"]);
    let mut attach = Process::start(command.env_clear().env("PATH", "/usr/bin:/bin"));
    attach.event("attached");
    assert!(attach.end(libc::SIGINT).success());
}

/// The commonest mistake: the interface on the clients' side.
#[test]
fn an_interface_that_the_default_route_leaves_by_is_reported() {
    if !is_root_or_skip("an_interface_that_the_default_route_leaves_by_is_reported") {
        return;
    }
    let net = Net::create("cubic");
    net.middle.run(&["ip", "route", "add", "default", "via", "10.79.2.2"]).expect("iproute2");
    let mut attach = Process::start(&mut net.windlass(&["attach", "r2", "--json"]));
    let why = attach.event("complaint")["why"].to_string();
    assert!(why.contains("r2: the default route leaves by this interface"), "{why}");
    attach.end(libc::SIGINT);
    let folder = tempfile::tempdir().expect("a folder");
    let mut agent = net.agent(&policy(folder.path(), "bbr"), "r1: under control");
    agent.end(libc::SIGTERM);
    assert_eq!(agent.complaints(), Vec::<String>::new(), "of the servers' side");
    net.answer(&["detach", "--all"]);
}
