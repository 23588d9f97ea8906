//! Transfers over good and bad paths.

use crate::{
    WINDLASS, flow, run_whole, scenario,
    site::{BUSY_US, HARDLY_ANY},
};
use windlass_core::Algorithm;
use windlass_experiments::{Untold, untold_in};
use windlass_lab::RunOptions;
use windlass_tests::{is_long, is_root_or_skip, windlass_path};

/// Packets of a server that carry no data, which the box does not repair: its ACKs of the request and of the client's FIN.
const WITHOUT_DATA: u64 = 2;

const LOSSY: &str = "rate = \"50 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"2 BDP\"\nloss = \"2 %\"";

#[test]
fn losses_are_repaired_without_the_server_noticing() {
    if !is_root_or_skip("losses_are_repaired_without_the_server_noticing") {
        return;
    }
    // a server probes its tail after two round trips in which a busy machine may not get round to anything
    let link = LOSSY.replace("5 ms", "40 ms");
    let report = run_whole(&scenario("repair", &link, &(flow("3 MB", "cubic") + WINDLASS)));
    assert!(report.links[0].stats.drops_random > 10, "{report}");
    let (probes, dropped) = (report.counter("tail_probes"), report.links[0].stats.drops_random);
    assert!(
        report.counter("repaired_segs") + WITHOUT_DATA >= dropped,
        "{probes} probes by the box; {report}"
    );
    assert_eq!(report.sender_retrans_segs, 0, "{} probes of its tail; {report}", report.sender_probes);
    assert_eq!(report.sender_timeouts, 0, "{report}");
}

#[test]
fn every_algorithm_carries_a_lossy_transfer() {
    if !is_root_or_skip("every_algorithm_carries_a_lossy_transfer") {
        return;
    }
    // the native path has them all, and parity compares the algorithms
    let is_tried = |name: &str| is_long() || ["bbr", "cubic", "trim"].contains(&name);
    for name in Algorithm::all().map(|a| a.name()).filter(|name| is_tried(name)) {
        let windlass = format!("{WINDLASS}algorithm = \"{name}\"\n");
        let report = run_whole(&scenario(name, LOSSY, &(flow("1 MB", "cubic") + &windlass)));
        assert!(report.counter("repaired_segs") > 0, "{name}: {report}");
    }
}

#[test]
fn a_watched_flow_is_left_alone() {
    if !is_root_or_skip("a_watched_flow_is_left_alone") {
        return;
    }
    let watch = format!("{WINDLASS}mode = \"watch\"\n");
    let report = run_whole(&scenario("watch", LOSSY, &(flow("500 kB", "cubic") + &watch)));
    assert!(report.counter("flows_created") >= 1, "{report}");
    assert!(report.sender_retrans_segs > 0, "{report}");
    for untouched in
        ["window_rewritten", "repaired_segs", "acks_absorbed", "acks_held", "sack_hidden", "stored_bytes"]
    {
        assert_eq!(report.counter(untouched), 0, "{untouched}");
    }
}

#[test]
fn a_server_that_paces_itself_is_left_alone() {
    if !is_root_or_skip("a_server_that_paces_itself_is_left_alone") {
        return;
    }
    let link = "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"\nloss = \"1 %\"";
    let report = run_whole(&scenario("paced", link, &(flow("2 MB", "bbr") + WINDLASS)));
    assert_eq!(report.counter("flows_paced_sender"), 1, "{report}");
    assert_eq!(report.counter("bypass_stand_aside"), 1, "{report}");
    // its losses are its own to mend again
    assert!(report.links[0].stats.drops_random > 0, "{report}");
    assert!(report.sender_retrans_segs > 0, "{report}");
    assert!(report.counter("watched_bytes") > report.counter("stored_bytes"), "{report}");
}

#[test]
fn reordering_is_not_taken_for_loss() {
    if !is_root_or_skip("reordering_is_not_taken_for_loss") {
        return;
    }
    // without loss and with a deep buffer, all retransmissions are spurious
    let link =
        "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"8 BDP\"\njitter = \"4 ms\"\nreorder = true";
    let windlass = format!("{WINDLASS}algorithm = \"cubic\"\n");
    let report = run_whole(&scenario("reorder", link, &(flow("3 MB", "cubic") + &windlass)));
    let stats = &report.links[0].stats;
    let repaired = report.counter("repaired_segs");
    // until the first reports of duplicates some are; a box that takes reordering for loss repairs every second packet
    assert!(repaired <= stats.drops_tail + stats.packets / 20, "{repaired} repairs: {report}");
}

#[test]
fn bursts_and_lost_acks_are_survived() {
    if !is_root_or_skip("bursts_and_lost_acks_are_survived") {
        return;
    }
    let link = "rate = \"50 Mbit/s\"\ndelay = \"5 ms\"\nbuffer = \"1 BDP\"\nloss_back = \"5 %\"\n\
                bursts = { to_bad = \"1 %\", to_good = \"20 %\", loss_bad = \"60 %\" }";
    let report = run_whole(&scenario("bursts", link, &(flow("2 MB", "cubic") + WINDLASS)));
    assert!(report.counter("repaired_segs") > 0, "{report}");
}

#[test]
fn many_flows_share_one_box() {
    if !is_root_or_skip("many_flows_share_one_box") {
        return;
    }
    let flows: String = (0..8).map(|_| flow("500 kB", "cubic")).collect();
    let report = run_whole(&scenario("many", LOSSY, &(flows + WINDLASS)));
    assert_eq!(report.counter("flows_created"), 8, "{report}");
    assert!(report.links[0].stats.drops_random > 10, "{report}");
    // the buffer overflows as well, and a flow whose head is lost twice may come to its server's timeout
    let lost = report.links[0].stats.drops_random + report.links[0].stats.drops_tail;
    assert!(report.counter("repaired_segs") >= lost * 4 / 5, "{report}");
    // a machine so busy that the link itself is late makes servers' timers run out
    let is_busy = report.links.iter().any(|l| l.stats.late_p99_us > BUSY_US);
    assert!(is_busy || report.sender_retrans_segs <= HARDLY_ANY.max(lost / 5), "{report}");
}

/// Above all an acknowledgement: what the box sends in the client's name the client had sent before, and the other
/// way round. `windlass reproduce transparency` has more runs of it.
#[test]
fn the_box_sends_nothing_that_neither_side_has_sent() {
    if !is_root_or_skip("the_box_sends_nothing_that_neither_side_has_sent") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = RunOptions::new(windlass_path());
    options.captures = Some(folder.path().into());
    // a super-packet and its headers: of longer ones fewer could wait for a busy machine to write them
    options.capture_bytes = (1 << 16) + 14;
    let text = scenario("captures", LOSSY, &(flow("1 MB", "cubic") + WINDLASS));
    let report = windlass_lab::run(&text, &options).unwrap_or_else(|e| panic!("{e:#}"));
    assert!(report.is_complete() && report.counter("repaired_segs") > 0, "{report}");
    for untold in untold_in(folder.path()).unwrap_or_else(|e| panic!("{e:#}")) {
        assert!(untold.packets > 100, "{untold:?}");
        assert_eq!(untold, Untold { packets: untold.packets, acks: 0, others: 0 });
    }
}
