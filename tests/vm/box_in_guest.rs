//! The guest as the box: its kernel must load, attach and run the datapath, and be rid of it afterwards.

use crate::{
    PAYLOAD, counter,
    guest::{self, Guest, Image},
};
use serde_json::Value;
use windlass_lab::netns::{self, Netns};

/// server -- guest -- client, in namespaces of the guest; 20 ms and 50 Mbit/s towards the client, no loss.
const NETWORK: [&str; 15] = [
    "ip netns add server && ip netns add client",
    "ip link add v1 type veth peer name eth0 netns server",
    "ip link add v2 type veth peer name eth0 netns client",
    "ip addr add 10.80.1.1/24 dev v1",
    "ip addr add 10.80.2.1/24 dev v2",
    "ip link set v1 up",
    "ip link set v2 up",
    "ip -n server addr add 10.80.1.2/24 dev eth0",
    "ip -n client addr add 10.80.2.2/24 dev eth0",
    "ip -n server link set eth0 up",
    "ip -n client link set eth0 up",
    "ip -n server route add default via 10.80.1.1",
    "ip -n client route add default via 10.80.2.1",
    "echo 1 >/proc/sys/net/ipv4/ip_forward",
    "tc qdisc add dev v2 root netem delay 20ms rate 50mbit",
];

/// Another program's filters, where many attach theirs first.
const FOREIGN: &str = "tc qdisc add dev v1 clsact && \
    tc filter add dev v1 ingress prio 1 handle 1 bpf bytecode '1,6 0 0 0,'";

const FOREIGN_FIRST: &str = "tc qdisc add dev v1 clsact && \
    tc filter add dev v1 egress protocol ip prio 1 bpf bytecode '1,6 0 0 0,'";

/// Fetches the payload and makes sure that it arrived whole.
fn fetch(guest: &mut Guest) {
    let sent = guest.run("sha256sum </srv/payload");
    let got = guest.run("ip netns exec client curl -sS --fail http://10.80.1.2/payload | sha256sum");
    assert_eq!(sent, got);
}

/// Nothing of the datapath may be left on v1 or anywhere else.
fn assert_no_trace(guest: &mut Guest) {
    for looked_at in [
        "tc filter show dev v1 ingress",
        "tc filter show dev v1 egress",
        "tc qdisc show dev v1 clsact",
        "find /sys/fs/bpf -mindepth 2",
        "ip -br link | grep wlc || true",
    ] {
        assert_eq!(guest.run(looked_at), "", "{looked_at}");
    }
}

/// The testbed's own network, inside the guest.
const LOSSY: &str = r#"
name = "lossy"
host = [{ name = "server" }, { name = "box" }, { name = "client" }]
[[link]]
between = ["server", "box"]
[[link]]
between = ["box", "client"]
rate = "20 Mbit/s"
delay = "20 ms"
buffer = "1 BDP"
loss = "1 %"
[[flow]]
from = "server"
to = "client"
size = "2 MB"
algorithm = "cubic"
[windlass]
at = "box"
facing = "server"
algorithm = "bbr"
"#;

/// Sockets of two hosts in one group, one against two.
const COUPLED: &str = r#"
name = "coupled"
host = [{ name = "one" }, { name = "two" }, { name = "router" }, { name = "client" }]
[[link]]
between = ["one", "router"]
[[link]]
between = ["two", "router"]
[[link]]
between = ["router", "client"]
rate = "10 Mbit/s"
delay = "20 ms"
buffer = "1 BDP"
[[group]]
name = "both"
rule = "ccc"
per = "server"
[[flow]]
from = "one"
to = "client"
size = "2 MB"
algorithm = "reno"
group = "both"
[[flow]]
from = "two"
to = "client"
count = 2
size = "1 MB"
algorithm = "reno"
group = "both"
"#;

const POLICY: &str = r#"
[[rule]]
name = "all"
match = { iface = "v1" }
algorithm = "cubic"
"#;

#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_stock_kernel_controls_transfers_and_is_left_without_a_trace() {
    let test = "a_stock_kernel_controls_transfers_and_is_left_without_a_trace";
    let Some((image, _turn)) = Image::get_or_skip(test) else { return };
    let host = Netns::create(netns::next_run(), "guest").expect("a namespace");
    let mut guest = Guest::boot(image, &host, None);
    println!("guest: {}", guest.run("uname -sr"));
    let doctor = guest.run("windlass doctor");
    println!("{doctor}");
    for line in NETWORK {
        guest.run(line);
    }
    guest.run("mkfifo /run/said");
    guest.run(PAYLOAD);
    guest.run("ip netns exec server nginx -c /etc/nginx.conf");
    let has_tcx = !doctor.contains("clsact");
    assert!(!has_tcx || guest::has_other_kernel(), "Debian 12's kernel is without tcx");
    if !has_tcx {
        refused_halfway(&mut guest);
    }
    attached_until_stopped(&mut guest);
    left_by_a_killed_attach(&mut guest);
    left_by_a_killed_agent(&mut guest, has_tcx);
    if !has_tcx {
        detached_by_somebody(&mut guest);
    }
    for emulator in ["own", "netem"] {
        repairs(&mut guest, emulator);
    }
    native(&mut guest);
}

fn refused_halfway(guest: &mut Guest) {
    // on the side that comes last the priority is taken by filters for IPv4, and ours are for everything
    guest.run(FOREIGN_FIRST);
    let said = guest.run("windlass attach v1 --store-mib 16 2>&1 || echo ends with $?");
    println!("refused: {said}");
    assert!(said.contains("`tc filter show dev v1 egress`") && said.ends_with("ends with 2"), "{said}");
    guest.run("tc filter del dev v1 egress prio 1");
    assert_eq!(guest.run("tc filter show dev v1 ingress"), "");
    guest.run("tc qdisc del dev v1 clsact");
    assert_no_trace(guest);
}

fn attach(guest: &mut Guest) {
    guest.run("windlass attach v1 --alg bbr --store-mib 64 --json >/run/said & exec 3</run/said");
    let said = guest.run("read -r first <&3; echo $first");
    assert!(said.contains("\"attached\""), "{said}");
}

fn attached_until_stopped(guest: &mut Guest) {
    attach(guest);
    println!("{}", guest.run("tc filter show dev v1 ingress"));
    for (command, why) in [("attach", "already under control"), ("detach", "under no agent's control")] {
        let said = guest.run(&format!("! windlass {command} v1 2>&1"));
        assert!(said.contains(why), "{said}");
    }
    fetch(guest);
    let said = guest.run("kill -TERM $!; cat <&3; wait $!");
    for name in
        ["flows_created", "packets_from_sender", "packets_to_sender", "window_rewritten", "clock_ticks"]
    {
        let count = counter(&said, name);
        println!("attached: {name} {count}");
        assert!(count > 0, "{said}");
    }
    assert_no_trace(guest);
}

fn left_by_a_killed_attach(guest: &mut Guest) {
    attach(guest);
    guest.run("kill -KILL $!; wait $! || true");
    fetch(guest);
    println!("killed: {}", guest.run("windlass detach v1"));
    assert_no_trace(guest);
}

/// Our filters on the interface and on its clock, of which there must be one at each place.
fn filters(guest: &mut Guest) -> Vec<String> {
    let places = ["v1 ingress", "v1 egress", "$(ip -br link | grep -o 'wlc[0-9]*b' | head -n 1) ingress"];
    let of_place = |place: &&str| {
        let all = guest.run(&format!("tc filter show dev {place}"));
        let own: Vec<_> = all.lines().filter(|l| l.contains("handle 0x771d")).collect();
        assert_eq!(own.len(), 1, "{place}: {all}");
        // tc ends such a line in a space now and then
        own[0].trim_end().to_string()
    };
    places.iter().map(of_place).collect()
}

fn left_by_a_killed_agent(guest: &mut Guest, has_tcx: bool) {
    let mut before = Vec::new();
    guest.run(FOREIGN);
    guest.write("/etc/policy.toml", POLICY);
    for expected in ["under control", "taken over", "taken over, with this build's programs"] {
        if expected.contains("build") {
            // as another build would have left it
            guest.run("for file in /run/windlass/*-v1:build; do echo 1 >$file; done");
        }
        guest.run("windlass agent --policy /etc/policy.toml --store-mib 64 >/run/said & exec 3</run/said");
        let said = guest.run("read -r first <&3; echo $first");
        assert!(said.contains(expected), "{said}");
        let now = if has_tcx { Vec::new() } else { filters(guest) };
        let is_replaced = before.iter().zip(&now).all(|(was, is)| was != is);
        assert_eq!(before == now, expected == "taken over" || has_tcx, "{before:?}, {now:?}");
        assert!(!expected.contains("build") || is_replaced, "{before:?}, {now:?}");
        before = now;
        guest.run("kill -KILL $!; wait $! || true");
        fetch(guest);
    }
    println!("agent: {}", guest.run("windlass detach --all"));
    let filters = guest.run("tc filter show dev v1 ingress");
    assert!(filters.contains("bytecode") && !filters.contains("wl_from_sender"), "{filters}");
    guest.run("tc qdisc del dev v1 clsact");
    assert_no_trace(guest);
}

fn detached_by_somebody(guest: &mut Guest) {
    guest.run("windlass agent --policy /etc/policy.toml --store-mib 64 >/run/said & exec 3</run/said");
    assert!(guest.run("read -r first <&3; echo $first").contains("under control"));
    guest.run("tc qdisc del dev v1 clsact");
    assert!(guest.run("read -r next <&3; echo $next").contains("under control"));
    fetch(guest);
    guest.run("kill -KILL $!; wait $! || true");
    println!("attached anew: {}", guest.run("windlass detach --all"));
    assert_no_trace(guest);
}

fn repairs(guest: &mut Guest, emulator: &str) {
    guest.write("/etc/lossy.toml", LOSSY);
    let line = format!("windlass run /etc/lossy.toml --emulator {emulator} --json");
    let report: Value = serde_json::from_str(&guest.run(&line)).expect("JSON");
    let link = report["links"].as_array().and_then(|l| l.iter().find(|l| l["name"] == "box > client"));
    let lost = link.map_or(&Value::Null, |l| &l["drops_random"]);
    println!("over a lossy link by {emulator}: {lost} lost, {} repairs", report["windlass"]["repaired_segs"]);
    assert!(lost.as_u64() > Some(0), "{report}");
    // the command fails unless the payload arrived whole
    assert!(report["windlass"]["repaired_segs"].as_u64() > Some(0), "{report}");
}

/// The other home: its programs have older verifiers to pass, too.
fn native(guest: &mut Guest) {
    println!("{}", guest.run("windlass native load"));
    guest.run("ip -n server route replace default via 10.80.1.1 congctl wl_bbr");
    fetch(guest);
    let list = guest.run("windlass native list");
    assert!(list.lines().any(|l| l.starts_with("wl_bbr") && !l.contains(" 0        0 ")), "{list}");
    guest.run("ip -n server route replace default via 10.80.1.1");
    println!("{}", guest.run("windlass native unload"));
    guest.write("/etc/coupled.toml", COUPLED);
    let report: Value =
        serde_json::from_str(&guest.run("windlass run /etc/coupled.toml --json")).expect("JSON");
    let counters = &report["windlass"];
    println!("sockets in a group: {counters}");
    assert!(counters["group_joined"].as_u64() >= Some(3), "{report}");
    assert_no_trace(guest);
}
