//! Clocks that are deleted or changed from outside, or that cannot be made.

use crate::{
    control::{attached_with, release, with_agent},
    net::{Net, with_transfer},
};
use serde_json::Value;
use std::{
    cell::{Cell, RefCell},
    os::unix::fs::symlink,
};
use windlass_tests::{is_root_or_skip, process::until};

/// What is done to the two ends of a clock, which are named.
type Spoil<'a> = &'a dyn Fn(&str, &str);

/// Spoils the clock by hand in the middle of a transfer over a path that loses packets; control must go on with another.
fn with_spoilt_clocks(net: &Net, ways: &[Spoil<'_>], repaired: &dyn Fn() -> u64) {
    net.bottleneck();
    with_transfer(net, |progress| {
        for spoil in ways {
            let (before, _) = net.clock().expect("a clock");
            let [shaped, far] =
                ["a", "b"].map(|end| net.clocks().into_iter().find(|n| n.ends_with(end)).expect("two ends"));
            spoil(&shaped, &far);
            until("another clock that runs", || {
                progress();
                net.clock().is_some_and(|(index, frames)| index != before && frames >= 10)
            });
            let repairs = repaired();
            until("a repair", || {
                progress();
                repaired() != repairs
            });
        }
    });
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_clock_that_is_deleted_or_changed_is_made_anew() {
    if !is_root_or_skip("a_clock_that_is_deleted_or_changed_is_made_anew") {
        return;
    }
    let (net, _folder, file, agent) = with_agent("cubic");
    let agent = RefCell::new(agent);
    let ip = |words: &[&str]| drop(net.middle.run(words).expect("iproute2"));
    let delete = |shaped: &str, _: &str| ip(&["ip", "link", "del", shaped]);
    let unshape = |shaped: &str, _: &str| replace_shaper(&net, shaped);
    let take_down = |_: &str, far: &str| ip(&["ip", "link", "set", far, "down"]);
    let delete_without_agent = |shaped: &str, far: &str| {
        let mut agent = agent.borrow_mut();
        agent.end(libc::SIGKILL);
        delete(shaped, far);
        *agent = net.agent(&file, "taken over");
    };
    with_spoilt_clocks(&net, &[&delete, &take_down, &unshape, &delete_without_agent, &delete], &|| {
        net.repaired()
    });
    release(&net, agent.into_inner());
    assert!(net.clocks().is_empty(), "the last clock is gone");
}

/// As by a script that sets a qdisc on all devices.
fn replace_shaper(net: &Net, shaped: &str) {
    net.middle.run(&["tc", "qdisc", "replace", "dev", shaped, "root", "pfifo"]).expect("tc");
}

/// Its frame would circle half a million times a second.
#[test]
fn a_clock_without_its_shaper_stops_until_an_agent_mends_it() {
    if !is_root_or_skip("a_clock_without_its_shaper_stops_until_an_agent_mends_it") {
        return;
    }
    let (net, _folder, file, mut agent) = with_agent("cubic");
    let count = |name: &str| {
        let document: Value = serde_json::from_str(&net.answer(&["counters", "--json"])).expect("JSON");
        document["counters"]["r1"][name].as_u64().expect("a counter")
    };
    agent.end(libc::SIGKILL);
    let (before, _) = net.clock().expect("a clock");
    let shaped = net.clocks().into_iter().find(|n| n.ends_with('a')).expect("its shaped end");
    replace_shaper(&net, &shaped);
    // the frame that was queued went with the shaper: the agent sends another one first
    agent = net.agent(&file, "taken over");
    until("the clock stops", || count("clock_unshaped") != 0);
    assert!(agent.complains_of("its clock").contains("made anew"));
    until("another clock that runs", || {
        net.clock().is_some_and(|(index, frames)| index != before && frames >= 10)
    });
    assert_eq!(count("clock_unshaped"), 1, "with its shaper it goes on");
    release(&net, agent);
}

/// As on a kernel without tbf.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn of_a_clock_that_cannot_be_made_nothing_is_left() {
    if !is_root_or_skip("of_a_clock_that_cannot_be_made_nothing_is_left") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
    symlink("/bin/false", folder.path().join("tc")).expect("a writable folder");
    for (words, status, cure) in [
        (
            &["attach", "r1"][..],
            2,
            "needs iproute2, veth and sch_tbf: `modprobe -a veth sch_tbf`, or see `windlass doctor`",
        ),
        (&["doctor"], 1, "a kernel with veth and sch_tbf, built in or as modules"),
    ] {
        let out = net.windlass(words).env("PATH", &path).output().expect("windlass runs");
        let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        assert_eq!(out.status.code(), Some(status), "{words:?}: {said}");
        assert!(said.contains("`tc qdisc") && said.contains(cure), "{words:?}: {said}");
        assert_eq!(net.clocks(), Vec::<String>::new(), "{words:?}");
    }
}

/// No agent is there to send another frame for the clock: what is lost the server retransmits, as it would without a box.
#[test]
fn without_agent_and_clock_a_transfer_goes_on() {
    if !is_root_or_skip("without_agent_and_clock_a_transfer_goes_on") {
        return;
    }
    let (net, _folder, _file, mut agent) = with_agent("cubic");
    net.bottleneck();
    with_transfer(&net, |progress| {
        agent.end(libc::SIGKILL);
        net.delete_clock();
        (0..32).for_each(|_| progress());
    });
    net.answer(&["detach", "--all"]);
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn attach_makes_a_deleted_clock_anew_and_reports_it() {
    if !is_root_or_skip("attach_makes_a_deleted_clock_anew_and_reports_it") {
        return;
    }
    let net = Net::create("cubic");
    let (mut attach, _) = attached_with(&net, &["--alg", "cubic", "--sample-ms", "20"]);
    let delete = |shaped: &str, _: &str| {
        net.middle.run(&["ip", "link", "del", shaped]).expect("iproute2");
    };
    let (said, last_repaired) = (RefCell::new(Vec::new()), Cell::new(0));
    let listen = || {
        for event in attach.news() {
            match event["event"].as_str() {
                Some("complaint") => said.borrow_mut().push(event["why"].to_string()),
                _ => last_repaired.set(event["flows"][0]["repaired_segs"].as_u64().unwrap_or(0)),
            }
        }
        last_repaired.get()
    };
    with_spoilt_clocks(&net, &[&delete], &listen);
    attach.signal(libc::SIGINT);
    assert_eq!(attach.complaints(), Vec::<String>::new());
    listen();
    assert!(attach.wait().success());
    let said = said.into_inner();
    assert!(said.len() == 1 && said[0].contains("made anew"), "{said:?}");
    assert!(net.clocks().is_empty());
}
