//! An agent of another build takes over: its programs go on with the flows, or, where they cannot, those that are there.

use crate::{
    control::{policy, put, release, talker, with_agent},
    net::{Net, with_transfer},
    random::{free, spare_chunks, split_chunks},
    site::tcx_programs,
};
use libbpf_rs::{
    Link, MapCore, MapHandle, Program, libbpf_sys as sys,
    query::{ProgInfoIter, ProgInfoQueryOptions},
};
use std::{collections::BTreeMap, fs, os::fd::AsRawFd};
use windlass_agent::Pinned;
use windlass_tests::{is_root_or_skip, process::until};

/// Two builds of the same state whose code differs.
static BUILDS: [&[u8]; 2] =
    [include_bytes!(concat!(env!("OUT_DIR"), "/another.bpf.o")), windlass_agent::OBJECT];
const LINKS: [&str; 3] = ["link0", "link1", "link2"];

/// Programs attached by links, by number; there must be one at each place, and that of the clock is the one that a clock made anew
/// would have. None: this kernel has no such links.
fn programs(net: &Net) -> Option<Vec<u32>> {
    if !net.pins().join(LINKS[1]).exists() {
        return None;
    }
    for side in [sys::BPF_TCX_INGRESS, sys::BPF_TCX_EGRESS] {
        assert_eq!(tcx_programs(&net.middle, "r1", side), 1);
    }
    let of_link =
        |link: &str| Link::open(net.pins().join(link)).expect("a link").info().expect("its program").prog_id;
    let all = LINKS.map(of_link);
    let clock = Program::fd_from_pinned_path(net.pins().join("wl_clock")).expect("a program");
    let mut info = sys::bpf_prog_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: the descriptor is open, and as many bytes are written at most.
    assert_eq!(unsafe { sys::bpf_prog_get_info_by_fd(clock.as_raw_fd(), &mut info, &mut bytes) }, 0);
    assert_eq!(info.id, all[0]);
    Some(all.to_vec())
}

/// Numbers of maps that the programs of links use and that hold more than one build's own: constants, and working memory. None: this
/// kernel has no such links.
fn maps(net: &Net) -> Option<Vec<Vec<u32>>> {
    let of_all = programs(net)?;
    let programs = ProgInfoIter::with_query_opts(ProgInfoQueryOptions::default().include_map_ids(true));
    let used: BTreeMap<u32, Vec<u32>> = programs.map(|p| (p.id, p.map_ids)).collect();
    let is_kept = |id: &u32| {
        let map = MapHandle::from_map_id(*id).expect("a map in use");
        !map.name().to_string_lossy().ends_with(".rodata") && map.name() != "wl_scratch"
    };
    let of_program = |id: &u32| {
        let mut ids: Vec<u32> = used[id].iter().copied().filter(is_kept).collect();
        ids.sort();
        assert!(!ids.is_empty());
        ids
    };
    Some(of_all.iter().map(of_program).collect())
}

fn counter(net: &Net, name: &str) -> u64 {
    let document: serde_json::Value =
        serde_json::from_str(&net.answer(&["counters", "--json"])).expect("JSON");
    document["counters"]["r1"][name].as_u64().expect("a number")
}

#[test]
fn another_build_of_the_same_state_takes_over() {
    if !is_root_or_skip("another_build_of_the_same_state_takes_over") {
        return;
    }
    let (net, _folder, file, mut agent) = with_agent("cubic");
    net.bottleneck();
    with_transfer(&net, |progress| {
        net.repairs_go_on(progress);
        let (programs_before, maps_before) = (programs(&net), maps(&net));
        agent.end(libc::SIGKILL);
        // as another build would have left it
        fs::write(net.record(":build"), "1").expect("which build it was");
        net.repaired();
        agent = net.agent(&file, "taken over, with this build's programs");
        assert_eq!(maps(&net), maps_before);
        if let (Some(before), Some(now)) = (programs_before, programs(&net)) {
            assert!(now.iter().all(|id| !before.contains(id)), "{before:?}, {now:?}");
        }
        (0..3).for_each(|_| net.repairs_go_on(progress));
        assert_eq!(counter(&net, "bypass_repair"), 0);
        assert_eq!(counter(&net, "flows_mid_stream"), 0);
        // of its own build now
        let programs_before = programs(&net);
        agent.end(libc::SIGKILL);
        agent = net.agent(&file, "taken over");
        assert_eq!(programs(&net), programs_before);
        net.repairs_go_on(progress);
    });
    release(&net, agent);
}

/// A link that is gone with its device is none to hold an upgrade up; the clock made anew has the new program.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_upgrade_outlives_a_clock_that_was_deleted() {
    if !is_root_or_skip("an_upgrade_outlives_a_clock_that_was_deleted") {
        return;
    }
    let (net, _folder, file, mut agent) = with_agent("cubic");
    net.bottleneck();
    with_transfer(&net, |progress| {
        agent.end(libc::SIGKILL);
        fs::write(net.record(":build"), "1").expect("which build it was");
        net.delete_clock();
        agent = net.agent(&file, "taken over, with this build's programs");
        until("a clock that runs", || {
            progress();
            net.clock().is_some_and(|(_, frames)| frames >= 10)
        });
        // a process that makes a clock anew holds a lock until all of it is pinned
        let is_released = net.middle.enter(|| Ok(Pinned::open("r1")?.is_released()?));
        assert!(!is_released.expect("it can be told"));
        programs(&net);
        net.repairs_go_on(progress);
    });
    release(&net, agent);
}

/// Programs are replaced again and again under load, of flows in a group. Nothing of the store is lost by that, or given to two.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn builds_that_differ_replace_each_other_under_load() {
    if !is_root_or_skip("builds_that_differ_replace_each_other_under_load") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[[rule]]\nname = \"all\"\nmatch = { iface = \"r1\" }\nalgorithm = \"cubic\"\npaced_servers = \"control\"\n\
                group = { name = \"g\", rule = \"ccc\" }\n";
    let file = put(folder.path(), text);
    let mut agent = net.agent_with(&file, &["--store-mib", "16", "--flows", "64"], "under control");
    net.bottleneck();
    with_transfer(&net, |progress| {
        let maps_before = maps(&net);
        for at in 0..10 {
            let replace = || Ok(Pinned::open("r1")?.replace_programs(BUILDS[at % 2])?);
            net.middle.enter(replace).expect("the kernel takes the programs");
            progress();
        }
        assert_eq!(maps(&net), maps_before);
        net.repairs_go_on(progress);
        assert_eq!(net.group().members, 1);
        assert_eq!(counter(&net, "bypass_repair"), 0);
    });
    until("all flows end", || net.flows().is_empty());
    for doubt in ["pass_internal", "bypass_store_error", "pass_contended"] {
        assert_eq!(counter(&net, doubt), 0, "{doubt}");
    }
    assert_eq!(net.group().members, 0);
    agent.end(libc::SIGKILL);
    for (mut left, expected) in [
        ([free(&net, "wl_free_chunks"), spare_chunks(&net), split_chunks(&net)].concat(), 256),
        (free(&net, "wl_free_flows"), 64),
    ] {
        assert_eq!(left.len(), expected);
        left.sort();
        left.dedup();
        assert_eq!(left.len(), expected, "given twice");
    }
    net.answer(&["detach", "--all"]);
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn programs_that_cannot_be_replaced_stay_with_a_word() {
    if !is_root_or_skip("programs_that_cannot_be_replaced_stay_with_a_word") {
        return;
    }
    let (net, _folder, file, mut agent) = with_agent("cubic");
    net.bottleneck();
    with_transfer(&net, |progress| {
        agent.end(libc::SIGKILL);
        let before = programs(&net);
        let cannot = || Ok(Pinned::open("r1")?.replace_programs(b"no object").is_err());
        assert!(net.middle.enter(cannot).expect("entering a namespace"));
        fs::write(net.record(":build"), "1").expect("which build it was");
        fs::remove_file(net.pins().join("wl_due")).expect("a map that programs need");
        let mut next = talker(&net, &file);
        next.says("taken over, with another build's programs");
        let complaint = next.complaint();
        assert!(
            complaint.contains("r1 keeps the programs of another build") && complaint.contains("wl_due"),
            "{complaint}"
        );
        assert_eq!(programs(&net), before);
        net.repairs_go_on(progress);
        next.end(libc::SIGTERM);
        assert_eq!(next.complaints(), Vec::<String>::new(), "once is enough");
    });
    assert!(!net.pins().exists(), "released");
}

/// Removes the notes that are not among the pins, as if /run was cleaned.
fn clean(net: &Net) {
    for what in ["", ":build", ":index", ":rules", ":agent"] {
        fs::remove_file(net.record(what)).expect(what);
    }
}

/// /run is cleaned while an agent runs. A second one would put its own policy in force and look after the same clock.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn one_agent_has_what_is_pinned_whatever_becomes_of_its_notes() {
    if !is_root_or_skip("one_agent_has_what_is_pinned_whatever_becomes_of_its_notes") {
        return;
    }
    let (net, folder, file, mut agent) = with_agent("cubic");
    let others = tempfile::tempdir().expect("a folder");
    let other = policy(others.path(), "bbr");
    net.bottleneck();
    with_transfer(&net, |progress| {
        let is_of = |algorithm: &str| net.flows()[0]["algorithm"] == algorithm;
        let becomes = |algorithm: &str| {
            until(algorithm, || {
                progress();
                is_of(algorithm)
            });
        };
        net.repairs_go_on(progress);
        clean(&net);
        // the second time there are notes of the process that failed
        for _ in 0..2 {
            let words = ["agent", "--policy", other.to_str().expect("UTF-8")];
            let out = net.windlass(&words).output().expect("windlass runs");
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(said.contains("already under control") && said.contains("end that first"), "{said}");
            assert_eq!(out.status.code(), Some(2), "{said}");
        }
        net.repairs_go_on(progress);
        assert!(is_of("cubic"));
        // the first goes on, and others may look and change
        policy(folder.path(), "reno");
        becomes("reno");
        let flow = net.flows().remove(0);
        let [sender, receiver] =
            ["sender", "receiver"].map(|end| flow[end].as_str().expect("an address").to_string());
        net.answer(&["set", &sender, &receiver, "--alg", "bbr"]);
        becomes("bbr");
        // nothing is left of the lock of one that is killed
        agent.end(libc::SIGKILL);
        agent = net.agent(&file, "taken over");
        net.repairs_go_on(progress);
    });
    net.answer(&["detach", "--all"]);
    assert_eq!(agent.wait().code(), Some(2), "released by another process");
    assert!(!net.pins().exists());
}

/// /run is cleaned, and with it the notes on what is pinned.
#[test]
fn what_is_pinned_is_taken_over_without_its_notes() {
    if !is_root_or_skip("what_is_pinned_is_taken_over_without_its_notes") {
        return;
    }
    let (net, _folder, file, mut agent) = with_agent("cubic");
    net.bottleneck();
    with_transfer(&net, |progress| {
        let maps_before = maps(&net);
        agent.end(libc::SIGKILL);
        // builds that know of none remove whatever is there as files
        let pins = fs::read_dir(net.pins()).expect("pins").flatten();
        assert!(pins.into_iter().all(|pin| pin.file_type().is_ok_and(|t| !t.is_dir())));
        clean(&net);
        net.repaired();
        agent = net.agent(&file, "taken over");
        assert_eq!(maps(&net), maps_before);
        net.repairs_go_on(progress);
    });
    release(&net, agent);
    assert!(!net.pins().exists(), "released");
}
