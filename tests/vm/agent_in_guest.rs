//! The guest's agent on a kernel that knows no links for congestion control: what it registers stays unless it is taken
//! away.

use crate::guest::{Guest, Image};
use windlass_lab::netns::{self, Netns};

const REGISTERED: &str = "cat /proc/sys/net/ipv4/tcp_available_congestion_control";

/// Starts the agent; no program is at its port.
fn start(guest: &mut Guest) {
    guest.run("windlass guest --port /dev/null --json >/run/said 2>&1 & agent=$!; exec 3</run/said");
    let said = guest.run("read -r first <&3; echo $first");
    assert!(said.contains("\"attached\""), "{said}");
    assert!(guest.run(REGISTERED).contains("wl_reno"));
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn names_of_ended_and_of_killed_agents_are_free() {
    let Some((image, _turn)) = Image::get_or_skip("names_of_ended_and_of_killed_agents_are_free") else {
        return;
    };
    let host = Netns::create(netns::next_run(), "agent").expect("a namespace");
    let mut guest = Guest::boot(image, &host, None);
    guest.run("mkfifo /run/said");
    start(&mut guest);
    let second = guest.run("! windlass guest --port /dev/null 2>&1");
    assert!(second.contains("wl_reno") && second.contains("--prefix"), "{second}");
    guest.run("kill -INT $agent; wait $agent; exec 3<&-");
    assert!(!guest.run(REGISTERED).contains("wl_"), "an agent that ends leaves nothing");

    start(&mut guest);
    guest.run("kill -KILL $agent; wait $agent || true; exec 3<&-");
    println!("killed: {}", guest.run(REGISTERED));
    start(&mut guest);
    guest.run("kill -INT $agent; wait $agent; exec 3<&-");
    assert!(!guest.run(REGISTERED).contains("wl_"), "nor does one that came after a killed one");
}
