//! The guest as the server: an unchanged kernel, behind a tap that Windlass controls.

use crate::{
    PAYLOAD,
    guest::{Guest, Image},
};
use windlass_lab::{Family, Topology};
use windlass_scenario::Scenario;
use windlass_tests::{process::Process, windlass_path};

const NETWORK: &str = r#"
name = "guest"
seed = 1
[[host]]
name = "box"
[[host]]
name = "client"
[[link]]
between = ["box", "client"]
rate = "20 Mbit/s"
delay = "20 ms"
buffer = "1 BDP"
loss = "1 %"
"#;

/// A TCP counter of the guest.
fn tcp_counter(guest: &mut Guest, name: &str) -> u64 {
    let table = guest.run("grep ^Tcp: /proc/net/snmp");
    let (names, values) = table.split_once('\n').expect("names and values");
    let at = names.split_whitespace().position(|n| n == name).expect("a known name");
    values.split_whitespace().nth(at).and_then(|v| v.parse().ok()).expect("a number")
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn losses_towards_the_client_of_a_guest_are_repaired_behind_its_back() {
    let test = "losses_towards_the_client_of_a_guest_are_repaired_behind_its_back";
    let Some((image, _turn)) = Image::get_or_skip(test) else { return };
    let scenario = Scenario::parse("guest", NETWORK).expect("a sound scenario");
    let topology = Topology::create(&scenario, 0, Family::V4).expect("a network");
    let (middle, client) = (topology.host("box"), topology.host("client"));
    for words in [
        &["ip", "tuntap", "add", "dev", "tap0", "mode", "tap", "vnet_hdr"][..],
        &["ip", "addr", "add", "10.80.0.1/24", "dev", "tap0"],
        &["ip", "link", "set", "tap0", "up"],
        &["sysctl", "-qw", "net.ipv4.ip_forward=1"],
    ] {
        middle.run(words).expect("iproute2");
    }
    client
        .run(&["ip", "route", "add", "10.80.0.0/24", "via", &topology.address_of("box")])
        .expect("iproute2");

    let mut guest = Guest::boot(image, middle, Some("tap0"));
    guest.run(
        "ip addr add 10.80.0.2/24 dev eth0 && ip link set eth0 up && ip route add default via 10.80.0.1",
    );
    guest.run(PAYLOAD);
    guest.run("nginx -c /etc/nginx.conf");
    println!(
        "server: {} with {}",
        guest.run("uname -sr"),
        guest.run("cat /proc/sys/net/ipv4/tcp_congestion_control")
    );

    let mut attach = middle.command(windlass_path().to_str().expect("UTF-8"));
    let attach = Process::start(attach.args(["attach", "tap0", "--alg", "bbr", "--json"]));
    attach.event("attached");

    let sent = guest.run("sha256sum </srv/payload");
    let got =
        client.run(&["sh", "-c", "curl -sS --fail http://10.80.0.2/payload | sha256sum"]).expect("curl");
    assert_eq!(sent, String::from_utf8_lossy(&got.stdout).trim());

    let last = attach.finish("detached");
    let repaired = last["counters"]["repaired_segs"].as_u64().expect("a counter");
    let retransmitted = tcp_counter(&mut guest, "RetransSegs");
    println!("behind the tap: {repaired} repairs, RetransSegs of the guest {retransmitted}");
    drop(guest);
    let links = topology.finish().expect("statistics");
    let dropped = links[0].1[0].drops_random;
    assert!(dropped > 0 && repaired >= dropped, "{dropped} drops, {repaired} repairs");
    assert!(retransmitted * 20 <= repaired, "the guest should not notice: {last}");
}
