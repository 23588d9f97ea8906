//! The native home: Windlass' algorithms as congestion control of the kernel's own sockets.

use crate::{
    flow,
    net::{Net, with_transfer},
    run_whole, scenario,
};
use serde_json::Value;
use windlass_tests::{is_root_or_skip, windlass};

/// Algorithms registered under names of a test's own; names are the same in all namespaces.
struct Loaded {
    prefix: String,
    is_loaded: bool,
}

impl Loaded {
    fn new(letter: char) -> Loaded {
        let prefix = format!("{letter}{:x}_", std::process::id());
        let out = windlass().args(["native", "load", "--prefix", &prefix]).output().expect("windlass runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Loaded { prefix, is_loaded: true }
    }

    fn name(&self, algorithm: &str) -> String {
        format!("{}{algorithm}", self.prefix)
    }

    /// What `windlass native list` says of one algorithm.
    fn number(&self, algorithm: &str, key: &str) -> u64 {
        let out = windlass().args(["native", "list", "--json"]).output().expect("windlass runs");
        let value: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let all = value["native"].as_array().expect("a list");
        let mine = all.iter().find(|i| i["name"] == self.name(algorithm).as_str()).expect("it is registered");
        mine[key].as_u64().expect("a number")
    }

    fn unload(&mut self) {
        self.is_loaded = false;
        let out =
            windlass().args(["native", "unload", "--prefix", &self.prefix]).output().expect("windlass runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if self.is_loaded {
            let _ = windlass().args(["native", "unload", "--prefix", &self.prefix]).output();
        }
    }
}

/// Congestion control of the sockets that the server has to its clients.
fn in_use(net: &Net) -> String {
    let out = net.server.run(&["ss", "-tinH", "state", "established"]).expect("iproute2");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn registered() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("the kernel's list")
}

#[test]
fn every_algorithm_carries_a_lossy_transfer_natively() {
    if !is_root_or_skip("every_algorithm_carries_a_lossy_transfer_natively") {
        return;
    }
    let loaded = Loaded::new('n');
    let lossy = "rate = \"50 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"2 BDP\"\nloss = \"2 %\"";
    for name in ["reno", "cubic", "bbr"] {
        let report = run_whole(&scenario(name, lossy, &flow("1 MB", &loaded.name(name))));
        assert!(report.links[0].stats.drops_random > 0, "{name}: {report}");
        assert!(loaded.number(name, "started") >= 1, "{name} was used");
        assert_eq!(loaded.number(name, "handed_back"), 0, "{name}");
    }
}

#[test]
fn scenarios_name_the_algorithms_of_the_native_home() {
    if !is_root_or_skip("scenarios_name_the_algorithms_of_the_native_home") {
        return;
    }
    let link = "rate = \"50 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"2 BDP\"";
    run_whole(&scenario("named", link, &flow("500 kB", "wl_bbr")));
    let own = format!("w{:x}_bbr", std::process::id());
    assert!(registered().contains(&own), "{}", registered());
}

#[test]
fn unloading_in_mid_transfer_hands_the_socket_back() {
    if !is_root_or_skip("unloading_in_mid_transfer_hands_the_socket_back") {
        return;
    }
    for algorithm in ["bbr", "cubic", "reno"] {
        let mut loaded = Loaded::new('u');
        let name = loaded.name(algorithm);
        let net = Net::create(&name);
        with_transfer(&net, |progress| {
            assert!(in_use(&net).contains(&name), "{}", in_use(&net));
            progress();
            loaded.unload();
            progress();
            let now = in_use(&net);
            assert!(!now.contains(&name) && now.contains(algorithm), "{now}");
            progress();
        });
        assert!(!registered().contains(&name), "{}", registered());
    }
}
