//! A box whose interface is an end of an emulated link: a TAP device, for its programs read Ethernet headers.

use crate::{LOSSY_BOX, WINDLASS, flow, scenario};
use std::path::Path;
use windlass_lab::{BoxProcess, Family, RunOptions, Topology};
use windlass_scenario::{Scenario, Span};
use windlass_tests::{is_root_or_skip, windlass_path};

/// A link that only delays hands super-packets on as they are, one with a rate cuts them into segments.
#[test]
fn flows_are_controlled_over_an_emulated_link_to_the_server() {
    if !is_root_or_skip("flows_are_controlled_over_an_emulated_link_to_the_server") {
        return;
    }
    for (name, family, rate) in [("delay", Family::V4, None), ("rate", Family::V6, Some("100 Mbit/s"))] {
        if family == Family::V6 && !Path::new("/proc/net/if_inet6").exists() {
            println!("skipped: flows_are_controlled_over_an_emulated_link_to_the_server: needs IPv6");
            continue;
        }
        let mut scenario = scenario(name, LOSSY_BOX.0, &(flow("1 MB", "cubic") + WINDLASS));
        scenario.links[0].delay = Span(1e-3);
        scenario.links[0].rate = rate.map(|rate| rate.parse().expect("a rate"));
        let options = RunOptions { family, ..RunOptions::new(windlass_path()) };
        let report = windlass_lab::run(&scenario, &options).unwrap_or_else(|e| panic!("{name}: {e:#}"));
        assert!(report.is_success(), "{name}: {report}");
        assert_eq!(report.counter("flows_created"), 1, "{name}: {:?}", report.windlass);
        assert_eq!(report.links.len(), 4, "both are emulated");
        assert!(report.links[2].stats.drops_random > 0, "{name}: {report}");
        assert!(report.counter("repaired_segs") > 0, "{name}: {report}");
        for link in &report.links {
            let s = &link.stats;
            assert_eq!((s.drops_device, s.drops_refused, s.drops_foreign), (0, 0, 0), "{name}: {s:?}");
        }
    }
}

/// A server whose link to the client passes the box by.
#[test]
fn a_run_whose_box_observes_no_packet_has_failed() {
    if !is_root_or_skip("a_run_whose_box_observes_no_packet_has_failed") {
        return;
    }
    let text = format!(
        "name = \"aside\"\ntime_limit = \"60 s\"\n\
         [[host]]\nname = \"server\"\n[[host]]\nname = \"box\"\n[[host]]\nname = \"client\"\n\
         [[link]]\nbetween = [\"server\", \"client\"]\n[[link]]\nbetween = [\"server\", \"box\"]\n{}{WINDLASS}",
        flow("1 kB", "cubic")
    );
    let scenario = Scenario::parse("aside", &text).expect("a sound scenario");
    let options = RunOptions::new(windlass_path());
    let report = windlass_lab::run(&scenario, &options).unwrap_or_else(|e| panic!("{e:#}"));
    assert!(report.is_complete() && !report.is_success(), "{report}");
    let error = report.box_error.expect("the box controlled nothing");
    assert!(error.contains("no packet passed between server and box"), "{error}");
}

/// In a namespace of its own /sys shows the interfaces of another, and only the kernel knows which kind this one is of.
#[test]
fn attaching_to_a_tun_device_is_refused_in_every_namespace() {
    if !is_root_or_skip("attaching_to_a_tun_device_is_refused_in_every_namespace") {
        return;
    }
    let scenario = scenario("tun", "delay = \"1 ms\"", &flow("1 kB", "cubic"));
    let topology = Topology::create(&scenario, 0, Family::V4).unwrap_or_else(|e| panic!("{e:#}"));
    let iface = topology.interface("box", "client").expect("a link");
    let args = ["--alg", "bbr"].map(String::from);
    let error = BoxProcess::start(topology.host("box"), &windlass_path(), &iface, &args);
    let error = format!("{:#}", error.expect_err("it has no Ethernet headers"));
    assert!(error.contains(&iface) && error.contains("carries no Ethernet frames"), "{error}");
}
