//! Whole transfers against numbers computed by hand. The link has a delay of 50 ms and no rate, so that nothing queues
//! and a round trip takes 100 ms to the nanosecond.
//!
//! What the server sends: its SYN-ACK (packet 1), the acknowledgement of the request (2), and data from packet 3 on,
//! 150 ms after connect(): a segment with the head of the response, then the file in full ones.

use crate::{
    Outcome, RunOptions,
    run::Sim,
    tcp::{Config, Ecn, SenderStats},
    time::MS,
};
use windlass_scenario::{Bytes, Dist, Parameters, Scenario, Span, Tcp};

const MSS_BYTES: u64 = 1448;

fn scenario(segs: u64, link: &str) -> Scenario {
    let text = format!(
        "name = \"t\"\ntime_limit = \"20 s\"\n[[host]]\nname = \"server\"\n[[host]]\nname = \"client\"\n\
         [[link]]\nbetween = [\"server\", \"client\"]\njitter = \"0 s\"\ndelay = \"50 ms\"\n{link}\n\
         [[flow]]\nfrom = \"server\"\nto = \"client\"\nalgorithm = \"reno\"\nsize = \"{} B\"\n",
        (segs - 1) * MSS_BYTES
    );
    Scenario::parse("t", &text).unwrap()
}

/// Transfers `segs` segments, the head among them, of which the network loses some, counted from 1.
fn transfer(segs: u64, loses: &[u64]) -> Outcome {
    let scenario = scenario(segs, "");
    let mut sim = Sim::new(&scenario, &RunOptions { traces_rounds: true, ..RunOptions::default() }).unwrap();
    sim.net.links[0].loses = loses.iter().map(|n| n + 2).collect();
    sim.run(None);
    sim.finish()
}

fn completion_ms(outcome: &Outcome) -> f64 {
    outcome.report.flows[0].completion_s.unwrap() * 1e3
}

/// 10 segments after two round trips, 20 more after three, 40 after four: windows count segments, and the head is one.
/// The client acknowledges 22 segments at once, 16 for the new connection and 6 while its window grows, then every second
/// one, so that of none of these flights a segment is left over.
#[test]
fn slow_start_doubles_each_round_trip() {
    for (segs, expected_ms) in
        [(2, 200.0), (10, 200.0), (11, 300.0), (30, 300.0), (31, 400.0), (70, 400.0), (71, 500.0)]
    {
        let outcome = transfer(segs, &[]);
        assert_eq!(completion_ms(&outcome), expected_ms, "{segs} segments");
        assert_eq!(outcome.report.flows[0].first_byte_s, Some(0.2));
        assert_eq!(outcome.report.sender_retrans_segs, 0);
    }
}

/// Through a send buffer of 30 kB, in which one sk_buff of 22 segments has its place, sixty go in three round trips, paced. With
/// room BBR sends them within one, and Reno's window takes all at once, whatever the buffer.
#[test]
fn a_full_send_buffer_holds_the_rest_back() {
    for (algorithm, buffer_bytes, expected_ms) in
        [("bbr", 30_000, 417.0), ("bbr", 200_000, 350.0), ("reno", 30_000, 200.0)]
    {
        let config = Config { snd_buffer_bytes: buffer_bytes, ..Config::default() };
        let mut scenario = scenario(60, "");
        scenario.flows[0].algorithm = algorithm.into();
        scenario.tcp.initial_window = Some(100);
        scenario.tcp.receive_window = Some(Bytes(1e6));
        let outcome = crate::run(&scenario, &RunOptions { config, ..RunOptions::default() }).unwrap();
        assert_eq!(completion_ms(&outcome).round(), expected_ms, "{algorithm}, {buffer_bytes} bytes");
    }
}

/// A receiver that never offers more than eight segments: forty and the head take five round trips of data, where slow start
/// by itself takes three.
#[test]
fn a_small_receive_window_holds_the_sender_back() {
    let mut scenario = scenario(40, "");
    scenario.tcp.delayed_ack = Some(Span(0.0));
    assert_eq!(completion_ms(&crate::run(&scenario, &RunOptions::default()).unwrap()), 400.0);
    scenario.flows[0].receive_window_max = Some(Bytes((8 * MSS_BYTES) as f64));
    assert_eq!(completion_ms(&crate::run(&scenario, &RunOptions::default()).unwrap()), 600.0);
}

/// The fifth of ten is lost. At 250 ms the ACKs of 1 to 4 let out 11 to 17, and the SACKs of 6 to 8 are three: the
/// fifth leaves again at once and arrives at 300 ms. A timeout would have come at 450 ms.
#[test]
fn one_loss_costs_one_round_trip() {
    let outcome = transfer(17, &[5]);
    assert_eq!(completion_ms(&outcome), 300.0);
    let report = &outcome.report;
    assert_eq!((report.sender_retrans_segs, report.sender_timeouts, report.sender_probes), (1, 0, 0));
}

fn without_sack(segs: u64, loses: &[u64]) -> Outcome {
    by_duplicates(segs, loses, true)
}

fn by_duplicates(segs: u64, loses: &[u64], is_new_reno: bool) -> Outcome {
    // a receive window that is still growing: duplicates must not move it
    let tcp = Tcp {
        sack: Some(false),
        new_reno: Some(is_new_reno),
        receive_window: Some(Bytes(4e6)),
        ..Tcp::default()
    };
    let scenario = Scenario { tcp, ..scenario(segs, "") };
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    sim.net.links[0].loses = loses.iter().map(|n| n + 2).collect();
    sim.run(None);
    sim.finish()
}

/// The same without SACK: the third duplicate ACK, for the eighth, loses the fifth.
#[test]
fn three_duplicates_do_as_well() {
    let outcome = without_sack(17, &[5]);
    assert_eq!(completion_ms(&outcome), 300.0);
    assert_eq!((outcome.report.sender_retrans_segs, outcome.report.sender_timeouts), (1, 0));
}

/// The fifth, and the first one that was sent behind all that its recovery is about (packet 22, behind the fifth again): until
/// something beyond that is acknowledged, duplicates may be of what was sent twice, and count for nothing. So the timeout finds it,
/// and that nothing new leaves until then takes two round trips.
#[test]
fn duplicates_right_behind_a_recovery_count_for_nothing() {
    let outcome = without_sack(400, &[5, 22]);
    assert_eq!((outcome.report.sender_retrans_segs, outcome.report.sender_timeouts), (2, 1));
    assert_eq!(completion_ms(&outcome), 3300.0);
}

/// Of three that are lost each takes a round trip: the partial ACKs come at 350 and 450 ms. With SACK all leave at 250 ms:
/// the window of 12 halves, so that the SACKs of the eighth, ninth and tenth let out one each.
#[test]
fn partial_acknowledgements_lose_one_segment_each() {
    let lost = &[3, 4, 5];
    assert_eq!(completion_ms(&transfer(12, lost)), 300.0);
    let outcome = without_sack(12, lost);
    assert_eq!(completion_ms(&outcome), 500.0);
    assert_eq!((outcome.report.sender_retrans_segs, outcome.report.sender_timeouts), (3, 0));
}

/// Before NewReno one loss of a window does as well, and of three the first is repaired at once. Its partial ACK comes at 350 ms
/// and ends that; the timeout that it set, of srtt + 200 ms, finds the second, whose ACK lets out the third at 750 ms, and the
/// sixth, which is not known to be there. With NewReno it takes 500 ms.
#[test]
fn before_new_reno_a_second_loss_waits_for_the_timeout() {
    assert_eq!(completion_ms(&by_duplicates(17, &[5], false)), 300.0);
    let outcome = by_duplicates(12, &[3, 4, 5], false);
    assert_eq!((outcome.report.sender_retrans_segs, outcome.report.sender_timeouts), (4, 1));
    assert_eq!(completion_ms(&outcome), 800.0);
}

/// Two duplicates are none: the last but two of ten waits for the timeout of srtt + 200 ms, from 250 ms on.
#[test]
fn a_loss_near_the_tail_waits_for_the_timeout() {
    let outcome = without_sack(10, &[8]);
    assert_eq!(completion_ms(&outcome), 600.0);
    assert_eq!((outcome.report.sender_timeouts, outcome.report.sender_probes), (1, 0));
}

/// Seventh and ninth of ten are lost: two duplicates, so the timeout comes at 550 ms. The ACK of 650 ms is for the
/// seventh, retransmitted, and for the eighth, which had arrived before. Without SACK that is no sign that the
/// timeout was not needed: the ninth leaves then, and the tenth, for it is not known to be there.
#[test]
fn after_a_timeout_one_hole_after_another_is_filled() {
    let outcome = without_sack(10, &[7, 9]);
    assert_eq!((outcome.report.sender_retrans_segs, outcome.report.sender_timeouts), (3, 1));
    assert_eq!(completion_ms(&outcome), 700.0);
}

/// The last of ten is lost. The last ACK comes at 250 ms. A probe would be due 2 srtt + 200 ms later, for the ACK of a
/// lone segment may be delayed; the timeout of srtt + 200 ms would come first, so the probe is sent then: at 550 ms.
#[test]
fn a_lost_tail_is_probed() {
    let outcome = transfer(10, &[10]);
    assert_eq!(completion_ms(&outcome), 600.0);
    let report = &outcome.report;
    assert_eq!((report.sender_retrans_segs, report.sender_timeouts, report.sender_probes), (1, 0, 1));
}

/// The same where no timeout is shorter than a second. The eleventh leaves at 250 ms, alone: 2 srtt and the second are more than the
/// timeout of srtt + 1 s, so the probe is sent then, at 1350 ms. With 200 ms it would be sent at 650.
#[test]
fn the_probe_of_a_lone_segment_waits_for_the_smallest_timeout() {
    let tcp = Tcp { rto_min: Some(Span(1.0)), ..Tcp::default() };
    let scenario = Scenario { tcp, ..scenario(11, "") };
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    sim.net.links[0].loses = vec![13];
    sim.run(None);
    let outcome = sim.finish();
    assert_eq!((outcome.report.sender_probes, outcome.report.sender_timeouts), (1, 0));
    assert_eq!(completion_ms(&outcome), 1400.0);
}

/// The last two of ten are lost: the probe is due 2 srtt + 2 ms after the last ACK, at 452 ms, and carries the tenth.
/// Its SACK comes back at 552 ms. The ninth is then older than a round trip and a quarter: lost, sent, there at 602 ms.
#[test]
fn a_probe_reports_the_loss_before_it() {
    let outcome = transfer(10, &[9, 10]);
    assert_eq!(completion_ms(&outcome), 602.0);
    let report = &outcome.report;
    assert_eq!((report.sender_retrans_segs, report.sender_timeouts, report.sender_probes), (2, 0, 1));
}

/// The probe is lost as well: the timeout counts from the probe on, 300 ms, so 850 ms.
#[test]
fn a_lost_probe_leaves_it_to_the_timeout() {
    let outcome = transfer(10, &[10, 11]);
    assert_eq!(completion_ms(&outcome), 900.0);
    let report = &outcome.report;
    assert_eq!((report.sender_retrans_segs, report.sender_timeouts, report.sender_probes), (2, 1, 1));
}

/// ... and doubles each time (RFC 6298, section 5.5): 550, 850, 850 + 600, + 1200.
#[test]
fn timeouts_back_off() {
    let outcome = transfer(10, &[10, 11, 12, 13]);
    assert_eq!(completion_ms(&outcome), 850.0 + 600.0 + 1200.0 + 50.0);
    assert_eq!(outcome.report.sender_timeouts, 3);
}

/// A retransmission that is lost is found by RACK, without a timeout: the fifth is retransmitted at 250 ms, then at
/// 350 ms, when segments sent after it have been SACKed.
#[test]
fn a_lost_retransmission_is_found() {
    // it is the 18th packet, behind the second flight of 11 to 17
    let outcome = transfer(30, &[5, 18]);
    let report = &outcome.report;
    assert_eq!((report.sender_retrans_segs, report.sender_timeouts), (2, 0));
    assert!(completion_ms(&outcome) <= 600.0, "{}", completion_ms(&outcome));
}

/// A second flight, 11 to 29, that comes `late_ms` late, and of which a probe may be lost and some segments marked. Returns the
/// outcome, what the sender did, and whether its next segment would report that the window was reduced.
fn marked_delay_spike(late_ms: u64, loses: &[u64], marks: &[u64]) -> (Outcome, SenderStats, bool) {
    let tcp = Tcp { ecn: Some(windlass_scenario::Ecn::Classic), ..Tcp::default() };
    let scenario = Scenario { tcp, ..scenario(29, "") };
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    let link = &mut sim.net.links[0];
    link.reorders = true;
    link.late = (13..32, late_ms * MS);
    link.marks = marks.iter().map(|n| n + 2).collect();
    link.loses = loses.iter().map(|n| n + 2).collect();
    sim.run(None);
    let sender = &sim.fetches[0].ends[1].sender;
    let (stats, owes_cwr) = (sender.stats, sender.owes_cwr);
    (sim.finish(), stats, owes_cwr)
}

/// Returns the outcome, the reductions and how many of them were taken back; then the receiver need not learn of any.
fn delay_spike(late_ms: u64, loses: &[u64]) -> (Outcome, u64, u64) {
    let (outcome, stats, owes_cwr) = marked_delay_spike(late_ms, loses, &[]);
    assert!(!owes_cwr);
    (outcome, stats.reductions, stats.undos)
}

/// The probe at 452 ms arrives before the flight, and its SACK makes all of it seem lost at 552 ms. The flight arrives at 700 ms,
/// and the timestamps in its ACKs are older than the retransmissions: the reduction is taken back (RFC 3522). One left at 552 and
/// two at 652 ms; that the latter are still out when the flight is acknowledged is no reason for more of them.
#[test]
fn a_flight_that_was_only_late_is_no_loss() {
    let (outcome, reductions, undos) = delay_spike(400, &[]);
    assert_eq!((reductions, undos), (1, 1));
    assert_eq!(outcome.report.sender_timeouts, 0);
    assert_eq!(outcome.report.sender_retrans_segs, 4);
    assert!(completion_ms(&outcome) <= 700.0);
}

/// The probe is lost, and the timeout comes at 752 ms. The flight arrives at 780 ms: the timeout was not needed
/// (RFC 5682), and nothing but the head of the line and the probe was sent twice.
#[test]
fn a_timeout_that_was_not_needed_is_taken_back() {
    let (outcome, reductions, undos) = delay_spike(480, &[30]);
    assert_eq!((reductions, undos), (1, 1));
    let report = &outcome.report;
    assert_eq!((report.sender_timeouts, report.sender_probes, report.sender_retrans_segs), (1, 1, 2));
    assert_eq!(completion_ms(&outcome), 780.0);
}

/// The same two flights, of which the first segment is marked as well: nothing was lost, but the window stays as small as it has
/// become. As there is nothing new that could carry CWR, the echo goes on until all is closed, and reduces it further.
#[test]
fn what_a_mark_confirms_is_not_taken_back() {
    for (late_ms, loses, timeouts) in [(400, &[][..], 0), (480, &[30], 1)] {
        let (_, stats, owes_cwr) = marked_delay_spike(late_ms, loses, &[11]);
        assert_eq!((stats.undos, stats.timeouts, owes_cwr), (0, timeouts, true), "{late_ms} ms");
    }
}

/// How long the second of two responses takes, 70 segments and a head each, requested 2 s after the first.
fn second_response_ms(algorithm: &str, tcp: Tcp) -> f64 {
    let mut scenario = scenario(71, "");
    let flow = &mut scenario.flows[0];
    flow.algorithm = algorithm.into();
    flow.trains[0].count = Some(2);
    flow.trains[0].gap = Some(Dist::Constant(Span(2.0)));
    scenario.tcp = Tcp { receive_window: Some(Bytes(1e6)), delayed_ack: Some(Span(0.0)), ..tcp };
    let outcome = crate::run(&scenario, &RunOptions::default()).unwrap();
    outcome.report.flows[0].responses[1].took_s * 1e3
}

/// The first response leaves windows of 80 segments behind, which send the second at once. A window that began anew would
/// take three more round trips.
#[test]
fn hosts_decide_whether_windows_outlast_a_pause() {
    for algorithm in ["reno", "cubic", "kcubic", "dctcp", "l2dct"] {
        let kept = Tcp { restart_after_idle: Some(false), ..Tcp::default() };
        assert_eq!(second_response_ms(algorithm, kept), 100.0, "{algorithm}");
        // 10, 20 and 40 segments, and the rest
        assert_eq!(second_response_ms(algorithm, Tcp::default()), 400.0, "{algorithm}");
        let small = Tcp { initial_window: Some(2), ..Tcp::default() };
        assert_eq!(second_response_ms(algorithm, small), 600.0, "{algorithm}");
    }
}

/// Of 71 segments a window of 80 stays behind. A short response every 150 ms leaves nearly all of it unused, but as each is
/// acknowledged the window is not left alone for a timeout of 300 ms, and carries 71 segments at once 3 s later.
#[test]
fn a_window_of_which_little_is_used_stays_while_acknowledgements_come() {
    let mut scenario = scenario(72, "");
    let flow = &mut scenario.flows[0];
    flow.application = windlass_scenario::Application::Push;
    let large = flow.trains[0].clone();
    let mut small = large.clone();
    small.count = Some(20);
    small.interval = Some(Dist::Constant(Span(0.15)));
    small.size = windlass_scenario::Size::Bytes(Dist::Constant(Bytes(1000.0)));
    flow.trains = vec![large.clone(), small, large];
    scenario.tcp = Tcp { receive_window: Some(Bytes(1e6)), delayed_ack: Some(Span(0.0)), ..Tcp::default() };
    let outcome = crate::run(&scenario, &RunOptions::default()).unwrap();
    assert_eq!(outcome.report.flows[0].responses[21].took_s * 1e3, 50.0);
}

/// A new connection's window of ten goes at once, or if its first train is to probe: two segments, and the rest when they are
/// acknowledged, as the path is empty.
#[test]
fn first_trains_of_trim_probe_if_configured() {
    for (first_train_probes, expected_ms) in [(None, 200.0), (Some(false), 200.0), (Some(true), 300.0)] {
        let mut scenario = scenario(10, "");
        scenario.flows[0].algorithm = "trim".into();
        scenario.parameters =
            Parameters { random_waits: Some(false), first_train_probes, ..Parameters::default() };
        let outcome = crate::run(&scenario, &RunOptions::default()).unwrap();
        assert_eq!(completion_ms(&outcome), expected_ms, "{first_train_probes:?}");
    }
}

/// The last of forty segments is lost, and its probe mends that. What follows the next train's two probes takes a round trip more in half of
/// the window of then, which is put by meanwhile, and not six.
#[test]
fn a_lost_tail_leaves_trim_half_of_its_window() {
    for (loses, expected_ms) in [(vec![], 200.0), (vec![42], 300.0)] {
        let mut scenario = scenario(40, "");
        scenario.flows[0].algorithm = "trim".into();
        scenario.flows[0].trains[0].count = Some(2);
        scenario.flows[0].trains[0].gap = Some(Dist::Constant(Span(2.0)));
        scenario.parameters = Parameters { random_waits: Some(false), ..Parameters::default() };
        let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
        sim.net.links[0].loses = loses.clone();
        sim.run(None);
        assert_eq!(sim.fetches[0].ends[1].sender.stats.reductions, loses.len() as u64);
        let took_ms = sim.finish().report.flows[0].responses[1].took_s * 1e3;
        assert_eq!(took_ms, expected_ms, "{loses:?}");
    }
}

/// Ten segments, and ten more that are requested 150 ms after them.
fn two_responses_of_ten() -> Scenario {
    let mut scenario = scenario(10, "");
    scenario.flows[0].trains[0].count = Some(2);
    scenario.flows[0].trains[0].gap = Some(Dist::Constant(Span(0.15)));
    scenario
}

/// The last of ten comes 320 ms late, at 520 ms. So the probe of 550 ms was not needed: its report of a duplicate comes at 650 ms,
/// when nothing is in flight any more. Nothing was lost, and the response after it finds the window as it was.
#[test]
fn a_probe_that_was_not_needed_costs_nothing() {
    let scenario = two_responses_of_ten();
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    let link = &mut sim.net.links[0];
    link.reorders = true;
    link.late = (12..13, 320 * MS);
    sim.run(None);
    let stats = sim.fetches[0].ends[1].sender.stats;
    assert_eq!((stats.probes, stats.retrans_segs, stats.timeouts, stats.reductions), (1, 1, 0, 0));
    assert_eq!(sim.finish().report.flows[0].responses.len(), 2);
}

/// The last of ten is lost, which its probe repairs: that takes half of the window, and stays so. The last of the next response is
/// only late, and the report that its probe was spurious is no report of the first.
#[test]
fn what_a_probe_repaired_is_not_taken_back() {
    let scenario = two_responses_of_ten();
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    let link = &mut sim.net.links[0];
    link.reorders = true;
    link.loses = vec![12];
    // behind the probe and the ACK of the second request
    link.late = (24..25, 320 * MS);
    sim.run(None);
    let stats = sim.fetches[0].ends[1].sender.stats;
    assert_eq!((stats.probes, stats.timeouts, stats.reductions, stats.undos), (2, 0, 1, 0));
}

/// Two segments of a flow that pushes are lost at 1000 ms, and their probe at 1202; two more leave `later_s` after the first two.
fn with_a_lost_probe(later_s: f64) -> Outcome {
    let mut scenario = scenario(2, "");
    let flow = &mut scenario.flows[0];
    flow.application = windlass_scenario::Application::Push;
    let train = &mut flow.trains[0];
    train.start = Some(Span(1.0));
    train.count = Some(2);
    train.interval = Some(Dist::Constant(Span(later_s)));
    train.size = windlass_scenario::Size::Bytes(Dist::Constant(Bytes(2000.0)));
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    sim.net.links[0].loses = vec![2, 3, 4];
    sim.run(None);
    sim.finish()
}

/// With what leaves at 1250 ms a probe is due when the timeout of the first is: at 1300. There is one out already, so the timeout it
/// is, and not another 300 ms later.
#[test]
fn a_second_probe_does_not_put_the_timeout_off() {
    let outcome = with_a_lost_probe(0.25);
    assert_eq!((outcome.report.sender_probes, outcome.report.sender_timeouts), (1, 1));
}

/// At 1350 ms the first ones' timeout is past, and the one after the probe not yet due. What leaves now puts it off by as much as a
/// probe, and its SACK shows at 1450 what is lost.
#[test]
fn new_data_after_the_timeout_of_the_oldest_does_not_bring_it_about() {
    let outcome = with_a_lost_probe(0.35);
    assert_eq!((outcome.report.sender_probes, outcome.report.sender_timeouts), (1, 0));
}

/// There is no answer: SYNs at 0, 1, 2, 3, 4, 5, 7, 11 and 19 s, for four timeouts come before the first that doubles
/// (tcp_syn_linear_timeouts).
#[test]
fn a_lost_syn_is_retransmitted_every_second_then_less_often() {
    let scenario = scenario(2, "loss = \"100 %\"");
    let outcome = crate::run(&scenario, &RunOptions::default()).unwrap();
    assert_eq!(outcome.report.links[1].stats.packets, 9);
    assert!(outcome.report.flows[0].error.as_ref().unwrap().contains("not finished"));
}

/// The first SYN-ACK is lost, and the client's second SYN. At 1050 ms the server's timer brings another, and the server knows the
/// round trip from the timestamp that comes back at 1150 ms. So it probes for the response of two segments, both of which are
/// lost, after 202 ms, at 1352; the SACK of 1452 loses the first. Otherwise a timeout of a second would be the first to notice.
#[test]
fn a_handshake_of_which_a_packet_was_lost_shows_the_round_trip() {
    let scenario = scenario(2, "");
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    sim.net.links[0].loses = vec![1, 4, 5];
    sim.net.links[1].loses = vec![2];
    sim.run(None);
    let outcome = sim.finish();
    assert_eq!((outcome.report.sender_probes, outcome.report.sender_timeouts), (1, 0));
    assert_eq!(completion_ms(&outcome), 1502.0);
}

/// The SYN-ACK of 50 ms is lost; at 1050 ms the server's timer and the client's second SYN each bring one. The request is there at
/// 1150 ms, and as two had to be retransmitted the server begins with a window of one: 1, 2, 4 and the last of eight segments,
/// which leaves at 1450 ms. With ten all leave at once, as they do if the first SYN-ACK was only late: then its timestamp comes
/// back.
#[test]
fn after_a_hard_handshake_the_window_begins_with_one_segment() {
    for (late_ms, expected_ms) in [(0, 1500.0), (960, 1160.0)] {
        let mut scenario = scenario(8, "");
        scenario.tcp.delayed_ack = Some(Span(0.0));
        let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
        let link = &mut sim.net.links[0];
        link.reorders = true;
        link.loses = if late_ms == 0 { vec![1] } else { Vec::new() };
        link.late = (1..2, late_ms * MS);
        sim.run(None);
        assert_eq!(completion_ms(&sim.finish()), expected_ms, "{late_ms} ms late");
    }
}

/// Marks instead of losses: the window is halved and nothing is retransmitted. 12112 kbit/s are a segment a ms.
#[test]
fn a_marked_queue_halves_the_window_without_a_loss() {
    let link = "rate = \"12.112 Mbit/s\"\nbuffer = \"500 packets\"\necn = \"20 packets\"";
    let scenario = scenario(1000, link);
    for ecn in [Ecn::Classic, Ecn::Exact] {
        let config = Config { ecn, ..Config::default() };
        let options = RunOptions { config, traces_rounds: true, ..RunOptions::default() };
        let outcome = crate::run(&scenario, &options).unwrap();
        let report = &outcome.report;
        assert_eq!((report.sender_retrans_segs, report.links[0].stats.drops_tail), (0, 0));
        assert!(report.links[0].stats.marks > 0);
        let windows: Vec<u32> = outcome.rounds[0].iter().map(|r| r.cwnd_segs).collect();
        let most = windows.iter().max().unwrap();
        assert!(windows.last().unwrap() * 2 <= most + most / 2, "{ecn:?} {windows:?}");
    }
}

/// Packets that are not capable of ECN go unmarked: it was not configured.
#[test]
fn without_ecn_nothing_is_marked() {
    let scenario = scenario(100, "rate = \"12.112 Mbit/s\"\necn = \"2 packets\"");
    let outcome = crate::run(&scenario, &RunOptions::default()).unwrap();
    assert_eq!(outcome.report.links[0].stats.marks, 0);
}

/// The windows of 32 flows, two segments each, are a queue that never drains: a flow that comes later learns from
/// others how long the way is without it.
#[test]
fn connections_share_the_round_trip_time_of_the_path() {
    let text = "name = \"t\"\ntime_limit = \"2 s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
        [[link]]\nbetween = [\"a\", \"b\"]\njitter = \"0 s\"\nrate = \"100 Mbit/s\"\ndelay = \"100 us\"\nbuffer = \"256 packets\"\n\
        [parameters]\nbottleneck = \"100 Mbit/s\"\nbuffer = \"256 packets\"\n\
        [[flow]]\nfrom = \"a\"\nto = \"b\"\nalgorithm = \"trim\"\nsize = \"unlimited\"\ncount = 32\n\
        start = { uniform = [\"0 s\", \"300 ms\"] }\nstop = \"1 s\"\n";
    let scenario = Scenario::parse("t", text).unwrap();
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    sim.run(None);
    let stats = sim.finish().report.links[0].stats.clone();
    assert!(stats.mean_queue_packets < 64.0, "{stats:?}");
    assert!(stats.utilisation > 0.98, "{stats:?}");
}

/// Behind the box a whole window of 38 is lost, the probe and what the first timeout retransmits: two timeouts for
/// one window of data. Slow start leads back to half of it, in 3.4 s; with half of the one segment left as threshold
/// it takes 6.5 s.
#[test]
fn a_further_timeout_of_the_box_leaves_the_threshold() {
    let text = "name = \"t\"\ntime_limit = \"60 s\"\n\
         [[host]]\nname = \"server\"\n[[host]]\nname = \"box\"\n[[host]]\nname = \"client\"\n\
         [[link]]\nbetween = [\"box\", \"client\"]\njitter = \"0 s\"\ndelay = \"50 ms\"\n[[link]]\nbetween = [\"server\", \"box\"]\njitter = \"0 s\"\n\
         [[flow]]\nfrom = \"server\"\nto = \"client\"\nsize = \"500 kB\"\n\
         [windlass]\nat = \"box\"\nfacing = \"server\"\nalgorithm = \"reno\"\n[tcp]\noffload = false\n";
    let scenario = Scenario::parse("t", text).unwrap();
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    sim.net.links[0].loses = (31..=70).collect();
    sim.run(None);
    let outcome = sim.finish();
    assert_eq!(outcome.report.counter("timeouts"), 2);
    assert!(completion_ms(&outcome) < 4500.0, "{} ms", completion_ms(&outcome));
}
