//! Captures as workloads: what one run has captured another plays.

use std::{fs, path::Path};
use windlass_scenario::{RunReport, Scenario};
use windlass_sim::{RunOptions, run};

const NET: &str = "name = \"t\"\ntime_limit = \"60 s\"\n[topology]\nshape = \"dumbbell\"\npairs = 2\n\
    edge = { rate = \"1 Gbit/s\", delay = \"1 ms\" }\n\
    bottleneck = { rate = \"20 Mbit/s\", delay = \"10 ms\", buffer = \"40 packets\" }\n";

/// Runs these flows, with captures in the folder.
fn traced(folder: &Path, flows: &str) -> RunReport {
    let scenario = Scenario::parse("t", &format!("{NET}{flows}")).unwrap_or_else(|e| panic!("{e}"));
    run(&scenario, &RunOptions { captures: Some(folder), ..RunOptions::default() }).unwrap().report
}

/// The scenario of a file in the folder with this flow.
fn replay(folder: &Path, flow: &str) -> Result<Scenario, String> {
    let file = folder.join("replay.toml");
    fs::write(&file, format!("{NET}[[flow]]\n{flow}\n")).unwrap();
    Scenario::from_file(&file).map_err(|e| e.to_string().replace(&*folder.to_string_lossy(), ""))
}

const ROWS: &str = "from = \"left-*\"\nto = \"right-*\"\npcap = \"servers.pcap\"\nclass = \"recorded\"";

/// A download with losses, responses with pauses, and a connection for each of three, of two pairs of hosts: the same bytes between as
/// many hosts, each from its recorded time on, a head of HTTP with each.
#[test]
fn a_run_that_was_captured_can_be_played() {
    let folder = tempfile::tempdir().unwrap();
    let flows = "[[flow]]\nfrom = \"left-1\"\nto = \"right-1\"\nsize = \"2 MB\"\nstart = \"100 ms\"\n\
        [[flow]]\nfrom = \"left-2\"\nto = \"right-2\"\nstart = \"200 ms\"\n[[flow.train]]\ncount = 5\nsize = \"30 kB\"\n\
        gap = \"500 ms\"\n[[flow]]\nfrom = \"left-2\"\nto = \"right-1\"\nconnections = \"per-response\"\nstart = \"2 s\"\n\
        [[flow.train]]\ncount = 3\nsize = \"10 kB\"\ngap = \"100 ms\"\n";
    let recorded = traced(folder.path(), flows);
    assert!(recorded.is_complete() && recorded.links.iter().any(|l| l.stats.drops_tail > 0), "{recorded}");
    let scenario = replay(folder.path(), ROWS).unwrap_or_else(|e| panic!("{e}"));
    let bytes = |flow: &windlass_scenario::Flow| {
        flow.trains
            .iter()
            .filter_map(|t| match &t.size {
                windlass_scenario::Size::Bytes(size) => Some(size.mean().count()),
                _ => None,
            })
            .collect::<Vec<u64>>()
    };
    let all: Vec<_> =
        scenario.flows.iter().map(|f| (f.name(), (f.start.0 * 10.0).round() as u64, bytes(f))).collect();
    let row =
        |from: u32, to: u32, at, bytes: &[u64]| (format!("left-{from} > right-{to}"), at, bytes.to_vec());
    // heads have 240 bytes; each connection of the last flow begins after the response before it and 100 ms
    assert_eq!(all[..2], [row(1, 1, 0, &[2_000_240]), row(2, 2, 1, &[30_240; 5])]);
    assert_eq!(
        all[2..].iter().map(|(name, _, bytes)| (name.as_str(), bytes.as_slice())).collect::<Vec<_>>(),
        [("left-2 > right-1", &[10_240][..]); 3]
    );
    assert_eq!(scenario.flows[1].class, "recorded");
    let played = run(&scenario, &RunOptions::default()).unwrap().report;
    assert!(played.is_complete(), "{played}");
    let sum = |report: &RunReport| report.flows.iter().map(|flow| flow.bytes).sum::<u64>();
    assert_eq!(sum(&played), sum(&recorded) + 9 * 240);
    // the pauses are those of the recording: it goes on for as long, but for what comes before the first connection
    assert!((played.ended_s + 0.1 - recorded.ended_s).abs() < 0.1, "{} {}", played.ended_s, recorded.ended_s);
    let again = run(&scenario, &RunOptions::default()).unwrap().report;
    assert_eq!(again.to_json(), played.to_json());
}

/// What the hosts upload goes the other way, `start` is when the capture begins, and an algorithm may be chosen.
#[test]
fn uploads_go_the_other_way() {
    let folder = tempfile::tempdir().unwrap();
    // the sender connects: it is the client of the capture
    traced(
        folder.path(),
        "[[flow]]\nfrom = \"left-1\"\nto = \"right-1\"\nsize = \"100 kB\"\napplication = \"upload\"\n",
    );
    let flow = format!("{}\nstart = \"3 s\"\nalgorithm = \"bbr\"", ROWS.replace("left-*", "left-2"));
    let scenario = replay(folder.path(), &flow).unwrap();
    let flow = &scenario.flows[0];
    assert_eq!(
        (flow.name().as_str(), flow.start.0, flow.algorithm.as_str()),
        ("right-1 > left-2", 3.0, "bbr")
    );
    assert!(run(&scenario, &RunOptions::default()).unwrap().report.is_complete());
}

#[test]
fn what_cannot_be_played_is_refused_with_file_and_cure() {
    let folder = tempfile::tempdir().unwrap();
    traced(
        folder.path(),
        "[[flow]]\nfrom = \"left-1\"\nto = \"right-1\"\n[[flow.train]]\ncount = 2\nsize = \"1 kB\"\ngap = \"2 s\"\n",
    );
    let error = |flow: &str| replay(folder.path(), flow).unwrap_err();
    let with = |more: &str| error(&format!("{ROWS}\n{more}"));
    assert!(with("size = \"1 kB\"").contains("size: the capture has its own"));
    assert!(with("count = 2").contains("count: the capture has its own"));
    assert!(with("connections = \"persistent\"").contains("connections: each of the capture"));
    assert!(with("application = \"udp\"").contains("TCP connections"));
    assert!(with("start = { uniform = [\"0 s\", \"1 s\"] }").contains("start: when the capture begins"));
    let late = with("start = \"58 s\"");
    assert!(
        late.contains("pcap: connection 1 sends at ")
            && late.contains("; raise time_limit, or cut the capture"),
        "{late}"
    );
    let none = error(&ROWS.replace("servers", "none"));
    assert!(
        none.contains("/replay.toml:") && none.contains("pcap: /none.pcap cannot be read: No such file"),
        "{none}"
    );
    let same = error(&ROWS.replace("right-*", "left-1").replace("left-*", "left-1"));
    assert!(same.contains("from \"left-1\" to itself"), "{same}");
    fs::write(folder.path().join("servers.pcap"), "no capture").unwrap();
    let text = error(ROWS);
    assert!(
        text.contains("pcap: /servers.pcap is no capture; name a file of tcpdump or Wireshark"),
        "{text}"
    );
    let missing = error("from = \"left-1\"\nto = \"right-1\"");
    assert!(missing.contains("size: how much? Give a size, [[flow.train]]s, or a pcap"), "{missing}");
}
