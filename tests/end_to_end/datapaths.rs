//! One datapath for all interfaces of an agent: programs, tables and clock are shared, rules and flows are each interface's own.

use crate::{
    control::{put, release, talker},
    foreign::{accepting, attach_first},
    net::{Net, with_transfer},
};
use libbpf_rs::{Link, MapCore, MapHandle};
use serde_json::Value;
use std::{
    fs::{self, File},
    path::PathBuf,
    thread,
};
use tempfile::TempDir;
use windlass_agent::LinkNews;
use windlass_tests::{
    is_root_or_skip,
    process::{Process, until},
};

/// Controls the server's flows behind r1 with BBR, and the client's behind r2, and r7 should it come, with another algorithm.
fn rules(of_others: &str) -> String {
    format!(
        "[[rule]]\nname = \"one\"\nmatch.iface = \"r1\"\nalgorithm = \"bbr\"\n\
         [[rule]]\nname = \"others\"\nmatch.iface = \"r[27]\"\nalgorithm = \"{of_others}\"\n"
    )
}

/// A network whose box has both of its interfaces under an agent's control, the policy's folder, and the policy.
fn of_both() -> (Net, TempDir, PathBuf, Process) {
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = put(folder.path(), &rules("cubic"));
    let agent = net.agent(&file, "r2: under control");
    (net, folder, file, agent)
}

/// Number of what is pinned for an interface.
fn map(net: &Net, iface: &str, name: &str) -> u32 {
    let map = MapHandle::from_pinned_path(net.pins_of(iface).join(name)).expect("a map");
    map.info().expect("its number").info.id
}

/// Number of the program that a link of the interface keeps attached; none: this kernel has no such links.
fn program(net: &Net, iface: &str, link: &str) -> Option<u32> {
    let pin = net.pins_of(iface).join(link);
    pin.exists().then(|| Link::open(pin).expect("a link").info().expect("its program").prog_id)
}

/// The flows behind an interface.
fn flows_behind(net: &Net, iface: &str) -> Vec<Value> {
    net.flows().into_iter().filter(|flow| flow["iface"] == iface).collect()
}

/// Entries of the flow table that are in use.
fn flows_used(net: &Net) -> u64 {
    let document: Value = serde_json::from_str(&net.answer(&["counters", "--json"])).expect("JSON");
    document["use"]["r1"]["flows_used"].as_u64().expect("a number")
}

/// These interfaces have one datapath, with rules of their own.
fn are_one_datapath(net: &Net, interfaces: &[&str]) {
    assert_eq!(net.clocks().len(), 2, "one clock");
    for pair in interfaces.windows(2) {
        for name in ["wl_flows", "wl_store", "wl_counters", "wl_ifaces"] {
            assert_eq!(map(net, pair[0], name), map(net, pair[1], name), "{name}");
        }
        assert_ne!(map(net, pair[0], "wl_rules"), map(net, pair[1], "wl_rules"));
        for link in ["link0", "link1", "link2"] {
            assert_eq!(program(net, pair[0], link), program(net, pair[1], link), "{link}");
        }
    }
}

#[test]
fn interfaces_of_an_agent_are_one_datapath_whichever_agent_attached_them() {
    let test = "interfaces_of_an_agent_are_one_datapath_whichever_agent_attached_them";
    if !is_root_or_skip(test) {
        return;
    }
    let (net, _folder, file, mut agent) = of_both();
    are_one_datapath(&net, &["r1", "r2"]);
    agent.end(libc::SIGKILL);
    agent = net.agent(&file, "r2: taken over");
    net.middle.run(&["ip", "link", "add", "r7", "type", "veth", "peer", "name", "x7"]).expect("iproute2");
    agent.says("r7: under control");
    are_one_datapath(&net, &["r1", "r2", "r7"]);
    let table = net.answer(&["counters", "--all"]);
    assert!(table.contains("r1 and 2 more"), "{table}");
    release(&net, agent);
    assert!(net.clocks().is_empty());
}

#[test]
fn rules_are_those_of_the_flows_own_interface() {
    if !is_root_or_skip("rules_are_those_of_the_flows_own_interface") {
        return;
    }
    let (net, folder, _file, agent) = of_both();
    with_transfer(&net, |progress| {
        let algorithms = || ["r1", "r2"].map(|iface| flows_behind(&net, iface)[0]["algorithm"].clone());
        assert_eq!(algorithms(), ["bbr", "cubic"]);
        put(folder.path(), &rules("reno"));
        until("the other policy", || {
            progress();
            algorithms() == ["bbr", "reno"]
        });
    });
    release(&net, agent);
}

/// Whichever was attached first.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_interface_that_is_released_takes_its_flows_along_and_no_others() {
    if !is_root_or_skip("an_interface_that_is_released_takes_its_flows_along_and_no_others") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    // r2 is there first, and loads what r1 goes on with
    put(folder.path(), &rules("cubic").replace("\"r1\"", "\"r9\""));
    let agent = net.agent(&folder.path().join("policy.toml"), "r2: under control");
    put(folder.path(), &rules("cubic"));
    agent.says("r1: under control");
    are_one_datapath(&net, &["r1", "r2"]);
    net.bottleneck();
    with_transfer(&net, |progress| {
        assert_eq!((flows_behind(&net, "r1").len(), flows_behind(&net, "r2").len()), (1, 1));
        net.answer(&["detach", "r2"]);
        assert_eq!(flows_used(&net), 1);
        assert_eq!(net.clocks().len(), 2, "the clock goes on");
        net.repairs_go_on(progress);
        // and comes back
        put(folder.path(), &rules("reno"));
        agent.says("r2: under control");
        are_one_datapath(&net, &["r1", "r2"]);
        progress();
        assert_eq!(flows_behind(&net, "r1")[0]["mode"], "transparent");
    });
    release(&net, agent);
}

/// Both directions pass the other one.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn one_way_traffic_is_that_of_an_interface_not_of_its_datapath() {
    let test = "one_way_traffic_is_that_of_an_interface_not_of_its_datapath";
    if !is_root_or_skip(test) {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let mut agent = talker(&net, &put(folder.path(), &rules("cubic")));
    agent.says("r2: under control");
    are_one_datapath(&net, &["r1", "r2"]);
    let program = accepting();
    let Some(_link) = attach_first(&net, &program) else {
        println!("skipped: {test}: no tcx before Linux 6.6");
        return;
    };
    with_transfer(&net, |progress| {
        let complaint = agent.complaint();
        assert!(complaint.contains("r1: packets from servers pass here, and none to them"), "{complaint}");
        progress();
        let document: Value = serde_json::from_str(&net.answer(&["flows", "--json"])).expect("JSON");
        let one_way: Vec<&String> = document["one_way"].as_object().expect("by interface").keys().collect();
        assert_eq!(one_way, ["r1"]);
        // what has been counted goes on to be, under whatever rules
        put(folder.path(), &rules("reno"));
        agent.says("in force");
        assert!(net.answer(&["flows"]).contains("r1: packets from servers pass here"));
    });
    agent.end(libc::SIGTERM);
}

#[test]
fn status_shows_what_is_under_control_and_that_no_agent_runs() {
    if !is_root_or_skip("status_shows_what_is_under_control_and_that_no_agent_runs") {
        return;
    }
    let (net, _folder, file, mut agent) = of_both();
    let status = || -> Value { serde_json::from_str(&net.answer(&["status", "--json"])).expect("JSON") };
    with_transfer(&net, |progress| {
        let now = status();
        let r1 = &now["interfaces"][0];
        assert_eq!((&r1["iface"], &r1["flows"]["controlled"]), (&"r1".into(), &1.into()), "{now}");
        assert_eq!(r1["agent"], format!("process {}", agent.id()));
        assert!(r1["policy_since_unix_s"].is_u64(), "{now}");
        assert_eq!(now["datapaths"][0]["interfaces"], serde_json::json!(["r1", "r2"]));
        assert_eq!(now["warnings"].as_array().map(Vec::len), Some(0), "{now}");
        agent.end(libc::SIGKILL);
        assert!(net.answer(&["status"]).contains("warning: r1 and 1 more: no agent runs"));
        net.delete_clock();
        assert!(net.answer(&["status"]).contains("r1 and 1 more: the clock stands still"));
        agent = net.agent(&file, "r2: taken over");
        progress();
    });
    release(&net, agent);
    assert_eq!(status()["interfaces"], serde_json::json!([]));
    assert!(net.answer(&["status"]).contains("no interface"));
}

#[test]
fn another_build_takes_all_interfaces_of_a_datapath_over_with_one_load() {
    if !is_root_or_skip("another_build_takes_all_interfaces_of_a_datapath_over_with_one_load") {
        return;
    }
    let (net, _folder, file, mut agent) = of_both();
    let before = program(&net, "r1", "link1");
    with_transfer(&net, |progress| {
        agent.end(libc::SIGKILL);
        // as another build would have left them
        for iface in ["r1", "r2"] {
            fs::write(net.record_of(iface, ":build"), "1").expect("which build it was");
        }
        agent = net.agent(&file, "r2: taken over, with this build's programs");
        are_one_datapath(&net, &["r1", "r2"]);
        assert!(before.is_none() || program(&net, "r1", "link1") != before);
        progress();
        assert_eq!(flows_behind(&net, "r1")[0]["mode"], "transparent");
    });
    release(&net, agent);
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_clock_made_anew_is_that_of_all_interfaces() {
    if !is_root_or_skip("a_clock_made_anew_is_that_of_all_interfaces") {
        return;
    }
    let (net, _folder, _file, agent) = of_both();
    net.bottleneck();
    with_transfer(&net, |progress| {
        let (before, _) = net.clock().expect("a clock");
        net.delete_clock();
        until("another clock that runs", || {
            progress();
            net.clock().is_some_and(|(index, frames)| index != before && frames >= 10)
        });
        are_one_datapath(&net, &["r1", "r2"]);
        // whichever of them goes
        net.answer(&["detach", "r2"]);
        net.repairs_go_on(progress);
    });
    release(&net, agent);
    assert!(net.clocks().is_empty());
}

/// Numbers of the programs that a process has open.
fn programs_of(process: &Process) -> Vec<u32> {
    let files = fs::read_dir(format!("/proc/{}/fdinfo", process.id())).expect("our child").flatten();
    let number =
        |text: String| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    files.filter_map(|file| number(fs::read_to_string(file.path()).ok()?)).collect()
}

/// As when many containers start at once: verifying the programs would take most of the time.
#[test]
fn an_agent_that_waits_has_its_programs_loaded_and_attaches_interfaces_together() {
    let test = "an_agent_that_waits_has_its_programs_loaded_and_attaches_interfaces_together";
    if !is_root_or_skip(test) {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = put(folder.path(), "[[rule]]\nname = \"all\"\nmatch.iface = \"v*\"\nalgorithm = \"bbr\"\n");
    let agent = talker(&net, &file);
    let complaint = agent.complaint();
    assert!(complaint.contains("waiting for one"), "{complaint}");
    let mut loaded = Vec::new();
    until("the programs are loaded", || {
        loaded = programs_of(&agent);
        loaded.len() >= 5
    });
    let names: Vec<String> = (0..40).map(|number| format!("v{number}")).collect();
    let add = |name: &String| format!("link add {name} type veth peer name x{name}\n");
    fs::write(folder.path().join("links"), names.iter().map(add).collect::<String>()).expect("a file");
    let batch = folder.path().join("links");
    net.middle.run(&["ip", "-batch", batch.to_str().expect("UTF-8")]).expect("iproute2");
    (0..names.len()).for_each(|_| drop(agent.says("under control")));
    are_one_datapath(&net, &names.iter().map(String::as_str).collect::<Vec<_>>());
    if let Some(attached) = program(&net, "v0", "link1") {
        assert!(loaded.contains(&attached), "{attached} {loaded:?}");
    }
    // those that go are noticed as well
    net.middle.run(&["ip", "link", "del", "v7"]).expect("iproute2");
    agent.says("v7: the interface is gone");
    net.answer(&["detach", "--all"]);
    assert!(net.clocks().is_empty());
}

/// So that many that come at once are not listed twice a second ever after.
#[test]
fn links_that_come_and_go_are_reported_by_the_kernel() {
    if !is_root_or_skip("links_that_come_and_go_are_reported_by_the_kernel") {
        return;
    }
    let net = Net::create("cubic");
    for words in ["ip link add r7 type veth peer name x7", "ip link set r7 up", "ip link del r7"] {
        let news = net.middle.enter(|| Ok(LinkNews::subscribe()?)).expect("netlink");
        net.middle.run(&words.split(' ').collect::<Vec<_>>()).expect("iproute2");
        let waits = thread::spawn(move || news.wait());
        until(words, || waits.is_finished());
        waits.join().expect("no panic").expect("a report");
    }
}

/// Which may be attaching many interfaces one after the other.
#[test]
fn detach_waits_for_no_process_that_attaches() {
    if !is_root_or_skip("detach_waits_for_no_process_that_attaches") {
        return;
    }
    let (net, _folder, _file, mut agent) = of_both();
    let lock = File::open("/run/windlass/attach.lock").expect("the lock");
    windlass_agent::flock(&lock, libc::LOCK_EX).expect("the lock is free");
    with_transfer(&net, |progress| {
        assert_eq!(net.answer(&["detach", "r1"]), "r1: released\n");
        progress();
    });
    drop(lock);
    net.answer(&["detach", "--all"]);
    agent.end(libc::SIGTERM);
    assert!(net.clocks().is_empty());
}

/// As while many interfaces come at once, or other processes attach.
#[test]
fn an_agent_that_waits_to_attach_obeys_signals() {
    if !is_root_or_skip("an_agent_that_waits_to_attach_obeys_signals") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let mut agent = talker(&net, &put(folder.path(), &rules("cubic")));
    agent.says("r2: under control");
    // which any process could have
    let lock = File::open("/run/windlass/attach.lock").expect("the lock");
    windlass_agent::flock(&lock, libc::LOCK_EX).expect("the lock is free");
    net.middle.run(&["ip", "link", "add", "r7", "type", "veth", "peer", "name", "x7"]).expect("iproute2");
    agent.waits_for_attach_lock();
    agent.signal(libc::SIGTERM);
    assert!(agent.wait().success());
    assert!(!net.pins().exists() && net.clocks().is_empty());
}
