//! Where the box can stand: whatever is between it and its servers, it repairs what the WAN loses and leaves no trace.

use crate::site::{LOSSY, Nat, PLAIN, Place, Setup, site_or_skip};
use windlass_lab::Family;

const BYTES: u64 = 1_000_000;

/// Fetches through the box in each of the setups.
fn repairs_in(test: &str, setups: &[(&str, Setup)]) {
    for (what, setup) in setups {
        let name = format!("{test}: {what}");
        let Some(mut site) = site_or_skip(&name, *setup) else { continue };
        site.control("bbr");
        site.fetch(BYTES);
        if setup.nat != Nat::None || setup.bridge_filter {
            assert_eq!(
                site.invalid_packets(),
                0,
                "{name}: connection tracking takes repairs for what they are"
            );
        }
        let outcome = site.finish();
        outcome.assert_repaired(&name);
        assert_eq!(outcome.counter("flows_created"), setup.servers as u64, "{name}: {outcome:#?}");
    }
}

#[test]
fn a_containers_veth() {
    let setups = [
        ("routed", PLAIN),
        ("in a bridge with an address", Setup { place: Place::Bridged, ..PLAIN }),
        (
            "in a bridge, with translation and br_netfilter",
            Setup { place: Place::Bridged, nat: Nat::Server, bridge_filter: true, ..PLAIN },
        ),
    ];
    repairs_in("a_containers_veth", &setups);
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn two_servers_behind_one_port_of_a_router() {
    let setup = Setup { place: Place::Switched, servers: 2, ..PLAIN };
    repairs_in("two_servers_behind_one_port_of_a_router", &[("IPv4", setup)]);
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_port_of_a_bridge() {
    let setup = Setup { place: Place::Transparent, ..PLAIN };
    let setups = [
        ("without br_netfilter", setup),
        ("with br_netfilter", Setup { bridge_filter: true, ..setup }),
        ("IPv6 with br_netfilter", Setup { bridge_filter: true, family: Family::V6, ..setup }),
    ];
    repairs_in("a_port_of_a_bridge", &setups);
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn the_servers_side_of_a_nat() {
    let setups = [
        ("of the server's address", Setup { nat: Nat::Server, ..PLAIN }),
        ("of both addresses", Setup { nat: Nat::Both, ..PLAIN }),
        ("of both addresses, IPv6", Setup { nat: Nat::Both, family: Family::V6, ..PLAIN }),
    ];
    repairs_in("the_servers_side_of_a_nat", &setups);
}

#[test]
fn ipv6() {
    let setup = Setup { family: Family::V6, ..PLAIN };
    let setups = [
        ("routed", setup),
        ("two servers behind a switch", Setup { place: Place::Switched, servers: 2, ..setup }),
    ];
    repairs_in("ipv6", &setups);
}

#[test]
fn vlans() {
    let bridged = Setup { place: Place::TransparentTagged, ..PLAIN };
    let setups = [
        ("tagged frames on a bridge", bridged),
        ("tagged frames on a bridge, IPv6", Setup { family: Family::V6, ..bridged }),
        ("frames with service tags on a bridge", Setup { vlan_protocol: "802.1ad", ..bridged }),
        ("below a VLAN's device", Setup { place: Place::TaggedPort, ..PLAIN }),
        (
            "below a service VLAN's device",
            Setup { place: Place::TaggedPort, vlan_protocol: "802.1ad", ..PLAIN },
        ),
        ("a VLAN's device", Setup { place: Place::VlanDevice, ..PLAIN }),
    ];
    repairs_in("vlans", &setups);
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn frames_of_other_sizes() {
    let setups = [
        ("a client with small frames", Setup { wan_mtus: [1280, 1280], ..PLAIN }),
        ("a server with small frames", Setup { server_mtu: 1000, ..PLAIN }),
        ("a server with jumbo frames", Setup { server_mtu: 9000, ..PLAIN }),
        ("jumbo frames all the way", Setup { server_mtu: 9000, wan_mtus: [9000, 9000], ..PLAIN }),
        (
            "a server that has its packets cut on the way",
            Setup { server_sysctls: &[("net/ipv4/ip_no_pmtu_disc", "1")], wan_mtus: [1300, 1500], ..PLAIN },
        ),
        ("the smallest that IPv6 allows", Setup { family: Family::V6, wan_mtus: [1280, 1280], ..PLAIN }),
    ];
    repairs_in("frames_of_other_sizes", &setups);
}

/// Several segments begin in one KiB of the stream and share a record. The path may take none longer than these,
/// which the server has found out and was not announced: what is retransmitted must fit it, or it waits for the
/// server each time.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn segments_of_half_a_kib_one_by_one() {
    let small = Setup { is_without_gso: true, ..PLAIN };
    let setups = [
        ("a server with small frames", Setup { server_mtu: 600, ..small }),
        ("a client with small frames", Setup { wan_mtus: [600, 600], ..small }),
        ("a path that takes less than both ends believe", Setup { wan_mtus: [600, 1500], ..small }),
        ("a client with very small frames", Setup { wan_mtus: [256, 256], ..small }),
    ];
    for (what, setup) in setups {
        for algorithm in ["bbr", "cubic"] {
            let name = format!("segments_of_half_a_kib_one_by_one: {what}, {algorithm}");
            let Some(mut site) = site_or_skip(&name, setup) else { continue };
            site.control(algorithm);
            site.fetch(BYTES);
            let outcome = site.finish();
            assert!(outcome.counter("repaired_segs") > 0, "{name}: {outcome:#?}");
            assert!(outcome.counter("timeouts") < 5, "{name}: {outcome:#?}");
        }
    }
}

/// What the box retransmits it sends in pieces of less than 16 KiB.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn frames_longer_than_the_box_can_make() {
    let test = "frames_longer_than_the_box_can_make";
    let link = "rate = \"500 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"4 BDP\"\nloss = \"2 %\"";
    for (family, mtu) in [(Family::V4, 16_500), (Family::V4, 65_535), (Family::V6, 65_535)] {
        let setup = Setup { family, server_mtu: mtu, wan_mtus: [mtu, mtu], link, ..PLAIN };
        let name = format!("{test}: {family:?}, {mtu}");
        let Some(mut site) = site_or_skip(&name, setup) else { continue };
        site.control("cubic");
        site.fetch(20 * BYTES);
        let outcome = site.finish();
        outcome.assert_repaired(&name);
        assert_eq!(outcome.counter("repair_failed"), 0, "{name}: {outcome:#?}");
    }
}

/// BIG TCP: their length does not fit the header's field. Linux' routers count the header that has it instead, eight bytes, to each
/// segment and would drop them all if these left no room for it.
#[test]
fn super_packets_longer_than_64_kib() {
    let test = "super_packets_longer_than_64_kib";
    let link = "rate = \"500 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"4 BDP\"\nloss = \"0.2 %\"";
    let setup =
        Setup { family: Family::V6, server_gso_bytes: 200_000, wan_mtus: [1600, 1600], link, ..PLAIN };
    let Some(mut site) = site_or_skip(test, setup) else { return };
    site.control("bbr");
    site.fetch(100 * BYTES);
    let outcome = site.finish();
    outcome.assert_repaired(test);
    let passed = ["bypass_gap", "bypass_store_full", "bypass_store_error"].map(|name| outcome.counter(name));
    assert_eq!(passed, [0; 3], "{outcome:#?}");
    assert!(outcome.counter("stored_bytes") >= 100 * BYTES, "{outcome:#?}");
}

/// The gateway's way to the client takes less than either end believes: the server has to find out by itself.
#[test]
fn a_path_that_takes_less_than_both_ends_believe() {
    let test = "a_path_that_takes_less_than_both_ends_believe";
    for (what, family) in [("IPv4", Family::V4), ("IPv6", Family::V6)] {
        let setup = Setup { family, wan_mtus: [1300, 1500], link: LOSSY, ..PLAIN };
        let name = format!("{test}: {what}");
        let Some(mut site) = site_or_skip(&name, setup) else { continue };
        site.control("bbr");
        site.fetch(BYTES);
        let outcome = site.finish();
        assert!(outcome.counter("repaired_segs") > 0, "{name}: {outcome:#?}");
    }
}
