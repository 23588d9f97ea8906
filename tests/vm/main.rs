//! Windlass and a stock kernel of Debian in an emulated machine: Debian 12's Linux 6.1, without tcx, or the one that
//! WINDLASS_VM_KERNEL names. First its verifier must take every program; then it is the box, with and without `fq` on its uplink,
//! then the kernel of a server behind a tap, then those of two guests whose flows are coupled by their host.

mod agent_in_guest;
mod box_in_guest;
mod departures;
mod guest;
mod guest_as_server;
mod guests;
mod queue_disciplines;
mod verifier;

/// What the guest serves, made by itself.
const PAYLOAD: &str = "dd if=/dev/urandom of=/srv/payload bs=1M count=4 2>/dev/null";

/// The counter `name` of what `windlass attach --json` prints.
fn counter(printed: &str, name: &str) -> u64 {
    let last = printed.lines().find(|l| l.contains("\"detached\"")).expect("an event at the end");
    let event: serde_json::Value = serde_json::from_str(last).expect("JSON");
    event["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}: {last}"))
}
