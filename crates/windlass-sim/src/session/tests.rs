//! Flows against times computed by hand. The link has a delay of 50 ms and no rate: a handshake takes 100 ms, and so
//! does a request with a response of at most ten segments.

use crate::{Outcome, RunOptions, run, run::Sim};
use std::num::NonZeroU64;
use windlass_scenario::Scenario;

fn outcome(flow: &str) -> Outcome {
    let text = format!(
        "name = \"t\"\ntime_limit = \"20 s\"\n[[host]]\nname = \"server\"\n[[host]]\nname = \"client\"\n\
         [[link]]\nbetween = [\"server\", \"client\"]\njitter = \"0 s\"\ndelay = \"50 ms\"\n\
         [[flow]]\nfrom = \"server\"\nto = \"client\"\nalgorithm = \"reno\"\n{flow}"
    );
    let scenario = Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}"));
    run(&scenario, &RunOptions::default()).unwrap()
}

/// When responses were requested and how long they took, in ms.
fn times(outcome: &Outcome) -> Vec<(f64, f64)> {
    let ms = |s: f64| (s * 1e6).round() / 1e3;
    outcome.report.flows[0].responses.iter().map(|r| (ms(r.asked_s), ms(r.took_s))).collect()
}

const TRAIN: &str = "[[flow.train]]\ncount = 3\nsize = \"2 kB\"\n";

#[test]
fn a_gap_begins_when_a_response_is_complete() {
    let outcome = outcome(&format!("{TRAIN}gap = \"30 ms\"\n"));
    assert_eq!(times(&outcome), [(0.0, 200.0), (230.0, 100.0), (360.0, 100.0)]);
    let flow = &outcome.report.flows[0];
    assert_eq!((flow.completion_s, flow.bytes, flow.checksum_ok), (Some(0.46), 6000, true));
    assert_eq!(flow.first_byte_s, Some(0.2));
    assert_eq!(flow.response_times.map(|t| (t.count, t.max_s)), Some((3, 0.2)));
}

#[test]
fn with_a_connection_for_each_response_there_is_a_handshake_for_each() {
    let outcome = outcome(&format!("connections = \"per-response\"\n{TRAIN}gap = \"30 ms\"\n"));
    assert_eq!(times(&outcome), [(0.0, 200.0), (230.0, 200.0), (460.0, 200.0)]);
    assert_eq!(outcome.report.flows[0].completion_s, Some(0.66));
}

/// Requests by the clock do not wait for responses: on one connection they queue behind each other.
#[test]
fn an_interval_does_not_wait() {
    let train = format!("{TRAIN}start = \"1 s\"\ninterval = \"10 ms\"\n");
    let expected = [(1000.0, 100.0), (1010.0, 100.0), (1020.0, 100.0)];
    assert_eq!(times(&outcome(&train)), expected);
    let apart = expected.map(|(at, took)| (at, took + 100.0));
    assert_eq!(times(&outcome(&format!("connections = \"per-response\"\n{train}"))), apart);
}

/// What is due before the handshake is over is requested then.
#[test]
fn a_request_waits_for_the_connection() {
    let outcome = outcome(&format!("{TRAIN}interval = \"60 ms\"\n"));
    assert_eq!(times(&outcome), [(0.0, 200.0), (60.0, 140.0), (120.0, 100.0)]);
}

/// 31 segments on an idle connection whose window has shrunk to ten: 10, then 20, then the last.
#[test]
fn trains_follow_each_other() {
    let outcome =
        outcome(&format!("{TRAIN}[[flow.train]]\nstart = \"5 s\"\ncount = 1\nsize = \"44000 B\"\n"));
    let times = times(&outcome);
    assert_eq!(times[..3], [(0.0, 200.0), (200.0, 100.0), (300.0, 100.0)]);
    assert_eq!(times[3].0, 5000.0);
    assert!((300.0..=360.0).contains(&times[3].1), "{times:?}");
}

/// The sender writes by its own clock: half a round trip to the receiver, once the handshake is over at 150 ms.
#[test]
fn a_push_needs_no_request() {
    let train = format!("application = \"push\"\n{TRAIN}start = \"1 s\"\ninterval = \"10 ms\"\n");
    assert_eq!(times(&outcome(&train)), [(1000.0, 50.0), (1010.0, 50.0), (1020.0, 50.0)]);
    assert_eq!(times(&outcome(&format!("application = \"push\"\n{TRAIN}")))[0], (0.0, 200.0));
}

/// A sender that connects may write one round trip later.
#[test]
fn an_upload_saves_half_a_round_trip() {
    for connections in ["persistent", "per-response"] {
        let flow = format!("application = \"upload\"\nconnections = \"{connections}\"\n{TRAIN}");
        let outcome = outcome(&format!("{flow}gap = \"30 ms\"\n"));
        let later = if connections == "persistent" { 50.0 } else { 150.0 };
        assert_eq!(times(&outcome), [(0.0, 150.0), (180.0, later), (210.0 + later, later)]);
        assert!(outcome.report.flows[0].checksum_ok);
    }
}

#[test]
fn a_train_ends_in_time() {
    let train =
        "[[flow.train]]\nuntil = \"1040 ms\"\nstart = \"1 s\"\nsize = \"1 kB\"\ninterval = \"10 ms\"\n";
    assert_eq!(times(&outcome(train)).last(), Some(&(1030.0, 100.0)));
    // ... and the next one begins when the last response is complete
    let with_next = format!("{train}[[flow.train]]\ncount = 1\nsize = \"1 kB\"\n");
    assert_eq!(times(&outcome(&with_next)).last(), Some(&(1130.0, 100.0)));
}

#[test]
fn an_unlimited_flow_ends_when_it_is_stopped() {
    let outcome = outcome("size = \"unlimited\"\nstop = \"2 s\"\n");
    let flow = &outcome.report.flows[0];
    assert!(flow.is_open_ended && flow.completion_s.is_none() && flow.error.is_none());
    assert!(flow.bytes > 100_000);
    assert_eq!(flow.goodput_bps, flow.bytes as f64 * 4.0);
    assert!(outcome.report.is_complete());
    assert!(outcome.ended_at_ns < 3_000_000_000, "{}", outcome.ended_at_ns);
    assert_eq!(outcome.in_flight, 0);
}

/// Responses arrive at 1100, 1110 and 1120 ms. One by one, each is requested 30 ms after the one before, and takes 100.
#[test]
fn a_flow_knows_what_its_stop_cut_off() {
    let by_the_clock = format!("{TRAIN}start = \"1 s\"\ninterval = \"10 ms\"\n");
    let one_by_one = format!("{TRAIN}start = \"1 s\"\ngap = \"30 ms\"\n");
    for (train, stop, is_cut) in [
        (&by_the_clock, "990 ms", false),
        (&by_the_clock, "1005 ms", true),
        (&by_the_clock, "1115 ms", true),
        (&one_by_one, "1090 ms", true),
        (&one_by_one, "1120 ms", false),
    ] {
        let report = outcome(&format!("stop = \"{stop}\"\n{train}")).report;
        assert_eq!(report.flows[0].is_cut, is_cut, "{stop} {train}");
        assert_eq!(report.flows[0].first_due_s, Some(1.0));
    }
    assert!(outcome("size = \"1 MB\"\nstop = \"190 ms\"\n").report.flows[0].is_cut);
    assert!(!outcome("size = \"unlimited\"\nstop = \"190 ms\"\n").report.flows[0].is_cut);
}

/// The first byte would have arrived at 200 ms. That nothing did is no wrong payload, and no error in the testbed either.
#[test]
fn a_flow_that_is_stopped_before_anything_arrives_is_not_wrong() {
    for size in ["1 MB", "unlimited"] {
        let report = outcome(&format!("size = \"{size}\"\nstop = \"190 ms\"\n")).report;
        let flow = &report.flows[0];
        assert_eq!((flow.bytes, flow.goodput_bps, flow.checksum_ok, &flow.error), (0, 0.0, true, &None));
        assert!(report.is_complete());
        let text = report.to_string();
        assert!(
            text.contains("    nothing arrived before it was stopped\n") && !text.contains("WRONG"),
            "{text}"
        );
    }
}

/// Of starts that are drawn with a mean of 2 s, most come after a stop at 1 s. That is no failure, nor is it in the testbed.
#[test]
fn a_flow_that_would_begin_after_its_stop_sends_nothing() {
    let flow = "count = 20\nsize = \"1 kB\"\nstart = { exponential = \"2 s\" }\nstop = \"1 s\"\n";
    let report = outcome(flow).report;
    let (before, after): (Vec<_>, Vec<_>) = report.flows.iter().partition(|f| f.started_s < 1.0);
    assert!(before.len() > 2 && after.len() > 2, "{} {}", before.len(), after.len());
    for flow in after {
        assert!(flow.is_open_ended && flow.checksum_ok, "{flow:?}");
        assert_eq!((flow.bytes, flow.goodput_bps, &flow.error), (0, 0.0, &None));
    }
    assert!(report.is_complete());
}

/// At 80 ms the SYN-ACK is on its way. What was to come then is not requested any more: ends that have no connection
/// yet close it as soon as they have one, and send nothing else.
#[test]
fn a_flow_that_is_stopped_in_its_handshake_sends_nothing_after_it() {
    for application in ["http", "push", "upload"] {
        let outcome = outcome(&format!(
            "application = \"{application}\"\nconnections = \"per-response\"\nsize = \"1 MB\"\nstop = \"80 ms\"\n"
        ));
        let flow = &outcome.report.flows[0];
        assert_eq!((flow.bytes, outcome.in_flight), (0, 0), "{application}");
        let packets = outcome.report.links[0].stats.packets + outcome.report.links[1].stats.packets;
        assert!(packets < 10, "{application}: {packets}");
    }
}

/// Of four flows two are stopped, each with all connections that it has, three at once of the first: these close, and no others.
#[test]
fn a_flow_is_stopped_with_its_connections_and_no_others() {
    let text = "name = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
                [[link]]\nbetween = [\"a\", \"b\"]\njitter = \"0 s\"\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nbuffer = \"50 packets\"\n";
    let flow = |keys: &str, train: &str| {
        format!("[[flow]]\nfrom = \"a\"\nto = \"b\"\n{keys}\n[[flow.train]]\nsize = \"1 MB\"\n{train}\n")
    };
    let timed = "count = 3\ninterval = \"10 ms\"";
    let flows = [
        flow("connections = \"per-response\"\nstop = \"500 ms\"", timed),
        flow("connections = \"per-response\"", timed),
        flow("stop = \"600 ms\"", "count = 1"),
        flow("", "count = 1"),
    ];
    let scenario = Scenario::parse("t", &format!("{text}{}", flows.concat())).unwrap();
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    sim.run(None);
    assert!(sim.fetches.iter().all(|f| f.is_over() || !f.is_begun()));
    let flows = sim.finish().report.flows;
    let is_complete: Vec<bool> = flows.iter().map(|f| f.completion_s.is_some()).collect();
    assert_eq!(is_complete, [false, true, false, true]);
    assert_eq!([1, 3].map(|i| flows[i].bytes), [3_000_000, 1_000_000]);
    assert!([0, 2].iter().all(|i| (1..1_000_000).contains(&flows[*i].bytes)));
}

#[test]
fn without_a_stop_it_goes_on_until_the_run_ends() {
    let text = "name = \"t\"\ntime_limit = \"2 s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\n\
                between = [\"a\", \"b\"]\njitter = \"0 s\"\nrate = \"12.112 Mbit/s\"\nbuffer = \"100 packets\"\ndelay = \"1 ms\"\n\
                [[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"unlimited\"\n";
    let outcome = run(&Scenario::parse("t", text).unwrap(), &RunOptions::default()).unwrap();
    // a segment of 1448 bytes a ms
    let flow = &outcome.report.flows[0];
    assert!((1448 * 1900..1448 * 2000).contains(&flow.bytes), "{}", flow.bytes);
    assert!(flow.is_open_ended && outcome.report.is_complete());
}

/// After 60 ms nothing gets through any more, and ever rarer timeouts are all that happens: the run ends at its limit all the
/// same, and so do its intervals.
#[test]
fn a_run_that_is_not_over_ends_at_its_limit() {
    let text = "name = \"t\"\ntime_limit = \"200500 ms\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\n\
                between = [\"a\", \"b\"]\njitter = \"0 s\"\ndelay = \"10 ms\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"unlimited\"\n";
    let scenario = Scenario::parse("t", text).unwrap();
    let options = RunOptions { interval_ns: NonZeroU64::new(1_000_000_000), ..RunOptions::default() };
    let mut sim = Sim::new(&scenario, &options).unwrap();
    sim.net.links[0].loses = (9..10_000).collect();
    sim.run(None);
    sim.look(sim.net.now_ns);
    let outcome = sim.finish();
    let (report, flow) = (&outcome.report, &outcome.report.flows[0]);
    assert_eq!((outcome.ended_at_ns, report.ended_s), (200_500_000_000, 200.5));
    assert!(flow.bytes > 0 && flow.goodput_bps == flow.bytes as f64 * 8.0 / 200.5);
    assert_eq!(report.intervals.as_ref().unwrap().flow_bytes[0].len(), 201);
}

/// A place is used again a second after its connection is over, not earlier.
#[test]
fn places_of_connections_are_used_again() {
    let text = "name = \"t\"\ntime_limit = \"60 s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\n\
                between = [\"a\", \"b\"]\njitter = \"0 s\"\ndelay = \"5 ms\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n\
                connections = \"per-response\"\n[[flow.train]]\ncount = 100\nsize = \"2 kB\"\ngap = \"80 ms\"\n";
    let scenario = Scenario::parse("t", text).unwrap();
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    sim.run(None);
    // one every 100 ms
    assert!((11..14).contains(&sim.fetches.len()), "{}", sim.fetches.len());
    let outcome = sim.finish();
    assert_eq!(outcome.report.flows[0].responses.len(), 100);
}

/// Responses of eleven segments, each on its own connection in the same place: at once ten, and the last a round trip later. That
/// of the first comes so late that it is retransmitted, and arrives itself while the second is on its way, as whose
/// last it would pass. A router between the hosts may have a box.
fn with_a_segment_of_the_past(windlass: &str) -> Vec<(f64, f64)> {
    let text = format!(
        "name = \"t\"\ntime_limit = \"20 s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"r\"\n[[host]]\nname = \"b\"\n\
         [[link]]\nbetween = [\"a\", \"r\"]\njitter = \"0 s\"\ndelay = \"25 ms\"\n[[link]]\nbetween = [\"r\", \"b\"]\njitter = \"0 s\"\ndelay = \"25 ms\"\n{windlass}\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\nalgorithm = \"reno\"\nconnections = \"per-response\"\n\
         [[flow.train]]\ncount = 2\ninterval = \"3 s\"\nsize = \"14480 B\"\n"
    );
    let scenario = Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}"));
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    // sent at 250 ms, behind the SYN-ACK, the acknowledgement of the request and ten others; there at 3170 ms
    sim.net.links[0].reorders = true;
    sim.net.links[0].late = (13..14, 2_870_000_000);
    sim.run(None);
    assert_eq!(sim.fetches.len(), 2, "the flow's own, and one place");
    times(&sim.finish())
}

#[test]
fn a_connection_gets_no_packets_of_the_one_that_had_its_place() {
    let times = with_a_segment_of_the_past("");
    assert!(times[0].1 > 500.0, "{times:?}");
    assert_eq!(times[1], (3000.0, 300.0));
}

#[test]
fn a_box_passes_packets_of_the_past() {
    let box_of = |algorithm| format!("[windlass]\nat = \"r\"\nfacing = \"a\"\nalgorithm = \"{algorithm}\"\n");
    assert_eq!(with_a_segment_of_the_past(&box_of("reno"))[1], (3000.0, 300.0));
}

#[test]
fn hosts_are_as_the_scenario_configures_them() {
    let text = |tcp: &str| {
        format!(
            "name = \"t\"\n[tcp]\n{tcp}\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\n\
             between = [\"a\", \"b\"]\njitter = \"0 s\"\ndelay = \"50 ms\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"14480 B\"\n"
        )
    };
    let took = |tcp: &str| {
        let scenario = Scenario::parse("t", &text(tcp)).unwrap();
        run(&scenario, &RunOptions::default()).unwrap().report.flows[0].completion_s
    };
    // the head and ten segments: one more than an initial window of Linux
    assert_eq!(took(""), Some(0.3));
    assert_eq!(took("initial_window = 20"), Some(0.2));
    // 2 + 4 + 8
    assert_eq!(took("initial_window = 2"), Some(0.4));
}

/// Links from the first leaf to its spines and from the other leaves to their hosts, with the packets that crossed each.
fn packets_by_link(flow: &str) -> Vec<(String, u64)> {
    let text = format!(
        "name = \"t\"\n[topology]\nshape = \"leaf-spine\"\nleaves = 3\nspines = 4\nhosts_per_leaf = 2\n\
         edge = {{ rate = \"1 Gbit/s\", delay = \"5 us\" }}\nfabric = {{ rate = \"1 Gbit/s\", delay = \"5 us\" }}\n\
         [[flow]]\nfrom = \"host-1-1\"\n{flow}\n"
    );
    let scenario = Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}"));
    let report = run(&scenario, &RunOptions::default()).unwrap().report;
    assert!(report.is_complete());
    report.links.into_iter().map(|link| (link.name, link.stats.packets)).collect()
}

/// Two hundred connections of ten segments each. The hash of a switch has ports in it: a quarter of them goes by each spine, where
/// all on one connection go by the same.
#[test]
fn connections_of_a_flow_are_spread_over_equal_ways() {
    let to_spines = |flow: &str| -> Vec<u64> {
        let links = packets_by_link(&format!("to = \"host-2-1\"\n{flow}"));
        links.into_iter().filter(|(name, _)| name.starts_with("leaf-1 > spine")).map(|(_, n)| n).collect()
    };
    let train = "[[flow.train]]\ncount = 200\nsize = \"14480 B\"";
    let each = to_spines(&format!("connections = \"per-response\"\n{train}"));
    let all: u64 = each.iter().sum();
    assert_eq!(each.len(), 4);
    assert!(each.iter().all(|n| (all * 15 / 100..all * 35 / 100).contains(n)), "{each:?}");
    assert_eq!(to_spines(train).iter().filter(|n| **n > 0).count(), 1);
}

/// Each of two hundred connections has one of the five other hosts, where all on one connection have the same.
#[test]
fn connections_of_a_flow_have_receivers_of_their_own() {
    let receivers = |flow: &str| -> Vec<u64> {
        let links = packets_by_link(&format!("to = \"host-*\"\n{flow}"));
        let to_host = |name: &str| name.contains(" > host-") && !name.ends_with("host-1-1");
        links.into_iter().filter(|(name, _)| to_host(name)).map(|(_, n)| n).collect()
    };
    let train = "[[flow.train]]\ncount = 200\nsize = \"14480 B\"";
    let each = receivers(&format!("connections = \"per-response\"\n{train}"));
    let all: u64 = each.iter().sum();
    assert_eq!(each.len(), 5);
    assert!(each.iter().all(|n| (all * 12 / 100..all * 28 / 100).contains(n)), "{each:?}");
    assert_eq!(receivers(train).iter().filter(|n| **n > 0).count(), 1);
}
