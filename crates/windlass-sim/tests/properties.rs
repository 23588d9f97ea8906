//! What holds in any network: packets are conserved, streams arrive whole, and a run repeats itself. Debug builds look at
//! each sender after each of its steps besides (`Sender::assert_sound()`).

use proptest::prelude::*;
use windlass_core::Algorithm;
use windlass_scenario::Scenario;
use windlass_sim::{Config, Ecn, Outcome, RunOptions, run};

const LIMIT_S: u64 = 30;

/// Any algorithm of the core, by its name.
fn algorithm() -> impl Strategy<Value = &'static str> {
    prop::sample::select(Algorithm::all().map(|a| a.name()).collect::<Vec<_>>())
}

/// A chain of hosts with links of any kind, and flows between any two of them.
fn scenario() -> impl Strategy<Value = String> {
    let link = (
        prop_oneof![Just("".to_string()), (1u32..200).prop_map(|m| format!("rate = \"{m} Mbit/s\"\n"))],
        0u32..60_000,
        prop_oneof![
            Just(String::new()),
            (0u32..8).prop_map(|p| format!("loss = \"{p} %\"\nloss_back = \"{p} %\"\n")),
            Just("bursts = { to_bad = \"1 %\", to_good = \"30 %\", loss_bad = \"50 %\" }\n".to_string()),
        ],
        prop_oneof![
            Just(String::new()),
            (1u32..20).prop_map(|ms| format!("jitter = \"{ms} ms\"\n")),
            (1u32..20).prop_map(|ms| format!("jitter = \"{ms} ms\"\nreorder = true\n")),
        ],
        1u32..100,
        any::<bool>(),
    )
        .prop_map(|(rate, delay_us, loss, jitter, packets, marks)| {
            let buffer = match rate.is_empty() {
                true => String::new(),
                false if marks => {
                    format!("buffer = \"{} packets\"\necn = \"{packets} packets\"\n", packets + 10)
                }
                false => format!("buffer = \"{} packets\"\n", packets + 2),
            };
            format!("{rate}delay = \"{delay_us} us\"\n{loss}{jitter}{buffer}")
        });
    let flow = (0u32..4, 1u32..4, 1u32..400_000, 0u32..2000, algorithm());
    let flows = proptest::collection::vec(flow, 1..5);
    (any::<u32>(), proptest::collection::vec(link, 3), flows, any::<bool>()).prop_map(
        |(seed, links, flows, has_box)| {
            let mut text = format!("name = \"any\"\nseed = {seed}\ntime_limit = \"{LIMIT_S} s\"\n");
            (0..4).for_each(|h| text += &format!("[[host]]\nname = \"h{h}\"\n"));
            for (i, link) in links.iter().enumerate() {
                // what the box shows its server later goes further, even if it acknowledges less: it must not overtake
                let link =
                    if has_box && i == 0 { link.replace("reorder = true\n", "") } else { link.clone() };
                text += &format!("[[link]]\nbetween = [\"h{i}\", \"h{}\"]\n{link}", i + 1);
            }
            for (from, step, size, start_ms, algorithm) in flows {
                // a box stands between hosts that have flows, not on one
                let (from, to) =
                    if has_box { (from / 2 * 3, 3 - from / 2 * 3) } else { (from, (from + step) % 4) };
                text += &format!("[[flow]]\nfrom = \"h{from}\"\nto = \"h{to}\"\nsize = \"{size} B\"\n");
                text += &format!("start = \"{start_ms} ms\"\nalgorithm = \"{algorithm}\"\n");
            }
            if has_box {
                text += "[windlass]\nat = \"h1\"\nfacing = \"h0\"\n";
            }
            text
        },
    )
}

/// What a flow sends, after which nothing but its trains may stand: one response, trains of them on one connection or
/// each on its own, requested or pushed, or without end until it is stopped.
fn load() -> impl Strategy<Value = String> {
    let train = (
        1u32..20,
        1u32..40_000,
        prop_oneof![
            Just(String::new()),
            (0u32..50).prop_map(|ms| format!("gap = \"{ms} ms\"\n")),
            (1u32..50).prop_map(|ms| format!("interval = {{ exponential = \"{ms} ms\" }}\n")),
        ],
    )
        .prop_map(|(count, size, pause)| {
            format!(
                "[[flow.train]]\ncount = {count}\nsize = {{ uniform = [\"1 B\", \"{size} B\"] }}\n{pause}"
            )
        });
    let way =
        prop_oneof![Just(""), Just("connections = \"per-response\"\n"), Just("application = \"push\"\n")];
    let trains =
        (way, proptest::collection::vec(train, 1..4)).prop_map(|(way, t)| format!("{way}{}", t.concat()));
    let stopped = |(way, trains, stop_ms): (&str, String, u32)| {
        let end = "[[flow.train]]\ncount = 1\nsize = \"unlimited\"\n";
        format!("{way}stop = \"{stop_ms} ms\"\n{trains}{end}")
    };
    let train = || "[[flow.train]]\ncount = 3\nsize = \"9 kB\"\ngap = \"1 ms\"\n".to_string();
    prop_oneof![
        2 => (1u32..300_000).prop_map(|size| format!("size = \"{size} B\"\n")),
        2 => trains,
        1 => (prop_oneof![Just(""), Just("connections = \"per-response\"\n")], Just(train()), 201u32..2000)
            .prop_map(stopped),
    ]
}

/// A network of any shape, with switches that share their memory or do not, and flows between any two hosts.
fn topology() -> impl Strategy<Value = String> {
    let shape = prop_oneof![
        (1u32..4).prop_map(|n| format!("shape = \"dumbbell\"\npairs = {n}\n")),
        (2u32..12).prop_map(|n| format!("shape = \"many-to-one\"\nsenders = {n}\n")),
        (1u32..4).prop_map(|n| format!("shape = \"parking-lot\"\nhops = {n}\n")),
        Just("shape = \"leaf-spine\"\nleaves = 3\nspines = 2\nhosts_per_leaf = 2\n".to_string()),
        Just("shape = \"fat-tree\"\nk = 4\n".to_string()),
    ];
    let memory = prop_oneof![
        Just(String::new()),
        (2u32..60).prop_map(|n| format!("shared_buffer = \"{n} packets\", ")),
        (4u32..200).prop_map(|n| format!("shared_buffer = \"{n} kB\", ")),
    ];
    // with the longest queue in packets behind which something may be marked
    let port = prop_oneof![
        Just((String::new(), u32::MAX)),
        (3u32..60).prop_map(|n| (format!("port_buffer = \"{n} packets\", "), n - 2)),
        (4u32..200).prop_map(|n| (format!("port_buffer = \"{n} kB\", "), u32::MAX)),
    ];
    let port = (port, 1u32..20, any::<bool>()).prop_map(|((port, most), ecn, marks)| match marks {
        true => format!("{port}ecn = \"{} packets\"", ecn.min(most)),
        false => port,
    });
    let flow = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), load(), 0u32..200, algorithm());
    let flows = proptest::collection::vec(flow, 1..12);
    let rates = (1u32..100, 1u32..100, 0u32..5_000, 0u32..3);
    (any::<u32>(), shape, (memory, port), rates, flows).prop_map(
        |(seed, shape, (memory, port), (edge, core, delay_us, loss), flows)| {
            let core_key = if shape.contains("spine") || shape.contains("fat") { "fabric" } else { "bottleneck" };
            let mut text = format!(
                "name = \"any\"\nseed = {seed}\ntime_limit = \"{LIMIT_S} s\"\n[topology]\n{shape}\
                 edge = {{ rate = \"{edge} Mbit/s\", delay = \"{delay_us} us\" }}\n\
                 {core_key} = {{ rate = \"{core} Mbit/s\", delay = \"{delay_us} us\", loss = \"{loss} %\" }}\n\
                 switch = {{ {memory}{port} }}\n"
            )
            .replace(",  }", " }")
            .replace(", }", " }");
            let hosts = Scenario::parse("any", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            let hosts: Vec<&str> = hosts
                .hosts
                .iter()
                .map(|h| h.name.as_str())
                .filter(|name| hosts.switches.iter().all(|s| s.name != *name))
                .collect();
            for (from, to, load, start_ms, algorithm) in flows {
                let (from, to) = (from.index(hosts.len()), to.index(hosts.len() - 1));
                let to = if to == from { hosts.len() - 1 } else { to };
                text += &format!(
                    "[[flow]]\nfrom = \"{}\"\nto = \"{}\"\nstart = \"{start_ms} ms\"\n\
                     algorithm = \"{algorithm}\"\n{load}",
                    hosts[from], hosts[to]
                );
            }
            text
        },
    )
}

fn check(scenario: &Scenario, outcome: &Outcome) -> Result<(), TestCaseError> {
    let count = outcome.count;
    prop_assert_eq!(count.sent, count.delivered + count.dropped + outcome.in_flight);
    let offered: u64 = outcome.report.links.iter().map(|l| l.stats.packets).sum();
    prop_assert!(count.hops >= offered);
    for (flow, report) in scenario.flows.iter().zip(&outcome.report.flows) {
        prop_assert!(flow.single_size().is_none_or(|size| report.bytes <= size));
        let whole: u64 = report.responses.iter().map(|r| r.bytes).sum();
        prop_assert!(whole <= report.bytes);
        if report.is_open_ended {
            prop_assert!(flow.stop.is_some() && report.error.is_none() && report.completion_s.is_none());
            continue;
        }
        prop_assert_eq!(report.checksum_ok, report.completion_s.is_some());
        prop_assert_eq!(report.error.is_none(), report.checksum_ok);
        prop_assert!(report.first_byte_s.unwrap_or(0.0) <= report.completion_s.unwrap_or(LIMIT_S as f64));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn packets_are_conserved_and_streams_arrive(
        text in prop_oneof![scenario(), topology()],
        ecn in 0usize..3,
        has_sack: bool,
    ) {
        let scenario = Scenario::parse("any", &text).unwrap();
        let config = Config { ecn: [Ecn::Off, Ecn::Classic, Ecn::Exact][ecn], has_sack, ..Config::default() };
        let options = RunOptions { config, ..RunOptions::default() };
        let outcome = run(&scenario, &options).unwrap();
        check(&scenario, &outcome)?;
        let again = run(&scenario, &options).unwrap();
        let json = |o: &Outcome| serde_json::to_string(&o.report).unwrap();
        prop_assert_eq!(json(&outcome), json(&again));
    }
}

/// A clean network: everything arrives, and nothing is ever sent twice.
#[test]
fn without_losses_nothing_is_retransmitted() {
    for algorithm in Algorithm::all().map(|a| a.name()) {
        let text = format!(
            "name = \"clean\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n\
             rate = \"50 Mbit/s\"\ndelay = \"10 ms\"\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"5 MB\"\nalgorithm = \"{algorithm}\"\n"
        );
        let outcome = run(&Scenario::parse("clean", &text).unwrap(), &RunOptions::default()).unwrap();
        let report = &outcome.report;
        assert!(report.is_complete());
        assert_eq!((report.sender_retrans_segs, report.sender_timeouts, outcome.in_flight), (0, 0, 0));
    }
}

/// Reordering alone, within a few ms, must not be taken for loss for long.
#[test]
fn reordering_is_tolerated_once_it_is_known() {
    let text = "name = \"reorder\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\n\
                rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\njitter = \"4 ms\"\nreorder = true\n\
                [[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"5 MB\"\n";
    let report = run(&Scenario::parse("reorder", text).unwrap(), &RunOptions::default()).unwrap().report;
    assert!(report.is_complete());
    assert!(report.sender_retrans_segs < 50, "{}", report.sender_retrans_segs);
    assert!(report.flows[0].goodput_bps > 15e6, "{}", report.flows[0].goodput_bps);
}
