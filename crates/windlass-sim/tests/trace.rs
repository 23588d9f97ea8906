//! What a trace writes can be read, and agrees with the run's report.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::pcap::PcapReader;
use std::{collections::BTreeSet, fs, fs::File, num::NonZeroU64, path::Path, process::Command};
use windlass_scenario::Scenario;
use windlass_sim::{Outcome, RunOptions, TraceOptions, run};

const SCENARIO: &str = "name = \"t\"\ntime_limit = \"20 s\"\n[tcp]\necn = \"classic\"\ninitial_window = 3\n[[host]]\nname = \"a\"\n\
    [[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n\
    buffer = \"20 packets\"\nloss = \"1 %\"\n\
    [[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"500 kB\"\nalgorithm = \"reno\"\n\
    [[flow]]\nfrom = \"a\"\nto = \"b\"\nconnections = \"per-response\"\n[[flow.train]]\ncount = 5\nsize = \"3 kB\"\n";

fn traced(folder: &Path) -> Outcome {
    traced_run(folder, SCENARIO)
}

fn traced_run(folder: &Path, text: &str) -> Outcome {
    let scenario = Scenario::parse("t", text).unwrap();
    let trace = TraceOptions { folder, interval_ns: NonZeroU64::new(10_000_000).unwrap() };
    let options = RunOptions { trace: Some(trace), captures: Some(folder), ..RunOptions::default() };
    run(&scenario, &options).unwrap()
}

fn column(csv: &str, name: &str) -> Vec<String> {
    let place = csv.lines().next().unwrap().split(',').position(|c| c == name).unwrap();
    csv.lines().skip(1).map(|l| l.split(',').nth(place).unwrap().to_string()).collect()
}

#[test]
fn a_trace_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = traced(folder.path());
    let plain = run(&Scenario::parse("t", SCENARIO).unwrap(), &RunOptions::default()).unwrap();
    assert_eq!(
        serde_json::to_string(&outcome.report).unwrap(),
        serde_json::to_string(&plain.report).unwrap()
    );
}

#[test]
fn tables_agree_with_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let report = traced(folder.path()).report;
    let flows = fs::read_to_string(folder.path().join("flows.csv")).unwrap();
    let of_first = |name| -> Vec<f64> {
        let rows = column(&flows, "flow").into_iter().zip(column(&flows, name));
        rows.filter(|(flow, v)| flow == "0" && !v.is_empty()).map(|(_, v)| v.parse().unwrap()).collect()
    };
    // throughput times length of each interval is what arrived; the last interval may be short
    let times = of_first("time_s");
    let lengths = times.iter().zip([0.0].iter().chain(&times)).map(|(end, begin)| end - begin);
    let bytes: f64 = of_first("throughput_bps").iter().zip(lengths).map(|(bps, s)| bps * s / 8.0).sum();
    assert!((bytes - report.flows[0].bytes as f64).abs() < 100.0, "{bytes}");
    // in the first interval there is only a handshake; then the window is the scenario's
    let cwnd = of_first("cwnd_segs");
    assert_eq!((cwnd.len(), cwnd[0]), (times.len() - 1, 3.0));
    assert!(cwnd.iter().all(|cwnd| *cwnd >= 1.0));
    assert!(of_first("srtt_us").iter().skip(2).all(|srtt| *srtt >= 10_000.0));
    let links = fs::read_to_string(folder.path().join("links.csv")).unwrap();
    let queue: Vec<u32> = column(&links, "queue_packets").iter().map(|q| q.parse().unwrap()).collect();
    assert!(queue.iter().all(|q| *q <= 20) && queue.iter().any(|q| *q > 5));
    let responses = fs::read_to_string(folder.path().join("responses.csv")).unwrap();
    assert_eq!(responses.lines().count(), 1 + 1 + 5);
    let first: Vec<&str> = responses.lines().nth(1).unwrap().split(',').collect();
    let took_s: f64 = first[3].parse().unwrap();
    assert_eq!((first[0], first[4]), ("0", "500000"));
    assert!((took_s - report.flows[0].completion_s.unwrap()).abs() < 1e-6, "{took_s}");
}

/// A row of what the box knows beside each of a flow's, once data has come by; without a box there is no such table.
#[test]
fn what_the_box_knows_is_traced() {
    let folder = tempfile::tempdir().unwrap();
    traced(folder.path());
    assert!(!folder.path().join("box.csv").exists());
    let boxed = SCENARIO.replace(
        "[[link]]\nbetween = [\"a\"",
        "[[host]]\nname = \"box\"\n[[link]]\nbetween = [\"a\", \"box\"]\n[[link]]\nbetween = [\"box\"",
    ) + "[windlass]\nat = \"box\"\nfacing = \"a\"\nalgorithm = \"bbr\"\n";
    let report = traced_run(folder.path(), &boxed).report;
    let table = fs::read_to_string(folder.path().join("box.csv")).unwrap();
    let numbers = |name| -> Vec<u64> { column(&table, name).iter().map(|v| v.parse().unwrap()).collect() };
    assert!(
        numbers("flow").iter().all(|flow| *flow == 0),
        "the other one has a connection for each response"
    );
    assert!(numbers("pacing_bps").iter().all(|bps| *bps > 0));
    assert!(numbers("cwnd_segs").iter().all(|cwnd| *cwnd >= 3));
    assert!(numbers("sacked_segs").iter().any(|sacked| *sacked > 0) && report.counter("repaired_segs") > 0);
    assert!(numbers("srtt_us").iter().skip(2).all(|srtt| *srtt >= 10_000));
}

#[test]
fn tables_and_captures_are_written_one_without_the_other() {
    let scenario = Scenario::parse("t", SCENARIO).unwrap();
    let files = |options: &RunOptions, folder: &Path| -> BTreeSet<String> {
        run(&scenario, options).unwrap();
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    };
    let (tables, captures) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trace = TraceOptions { folder: tables.path(), interval_ns: NonZeroU64::new(10_000_000).unwrap() };
    let found = files(&RunOptions { trace: Some(trace), ..RunOptions::default() }, tables.path());
    assert_eq!(found, ["flows.csv", "links.csv", "responses.csv"].map(String::from).into());
    let options = RunOptions { captures: Some(captures.path()), ..RunOptions::default() };
    assert_eq!(files(&options, captures.path()), ["clients.pcap", "servers.pcap"].map(String::from).into());
}

/// Headers, lengths and checksums of every packet are right; the payload is zeros, and is left out.
#[test]
fn captures_are_sound() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = traced(folder.path());
    let mut packets = [0, 0];
    let mut payload = 0;
    for (side, name) in ["clients.pcap", "servers.pcap"].into_iter().enumerate() {
        let mut reader = PcapReader::new(File::open(folder.path().join(name)).unwrap()).unwrap();
        let mut last = None;
        while let Some(packet) = reader.next_packet() {
            let packet = packet.unwrap();
            assert!(last <= Some(packet.timestamp), "in order");
            last = Some(packet.timestamp);
            let mut whole = packet.data.to_vec();
            let headers = whole.len();
            whole.resize(packet.orig_len as usize, 0);
            let sliced = SlicedPacket::from_ethernet(&whole).unwrap();
            let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Tcp(tcp))) = (sliced.net, sliced.transport)
            else {
                panic!("no TCP over IPv4");
            };
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(tcp.checksum(), tcp.calc_checksum_ipv4(header.source, header.destination).unwrap());
            assert_eq!(whole.len(), headers + tcp.payload().len());
            packets[side] += 1;
            payload += usize::from(side == 0 && tcp.source_port() == 80) * tcp.payload().len();
        }
    }
    // what clients got is what servers sent, but for what was lost; each packet that arrived is seen twice
    let count = outcome.count;
    assert_eq!(packets[0] + packets[1], count.sent + count.delivered);
    assert!(payload >= 515_000, "{payload}");
}

/// What tcpdump reports of the packets that the servers sent and got.
fn dump(folder: &Path) -> String {
    let dump = Command::new("tcpdump")
        .args(["-nn", "-v", "-r"])
        .arg(folder.join("servers.pcap"))
        .output()
        .expect("tcpdump (Debian: apt-get install tcpdump)");
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    String::from_utf8(dump.stdout).unwrap()
}

#[test]
fn tcpdump_reads_the_captures() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = traced(folder.path());
    let said = dump(folder.path());
    let is_complaint = |word: &str| word.starts_with("bad") || word == "incorrect";
    assert!(!said.split(|c: char| !c.is_alphanumeric()).any(is_complaint), "{said}");
    assert!(said.contains("Flags [SEW], ") && said.contains("mss 1460,sackOK,TS val"), "{said}");
    assert!(said.contains("sack 1 {"), "losses are reported");
    assert!(said.contains("tos 0x2,ECT(0)"));
    assert!(outcome.report.is_complete());
}

/// A window of 100 MB takes a shift of 11; that of the other flow is as fine as without it.
#[test]
fn each_connection_announces_the_units_of_its_own_window() {
    let folder = tempfile::tempdir().unwrap();
    traced_run(folder.path(), &SCENARIO.replace("reno\"\n", "reno\"\nreceive_window_max = \"100 MB\"\n"));
    let said = dump(folder.path());
    let shifts = |port: &str| -> BTreeSet<&str> {
        let syns = said.split("IP (").filter(|p| p.contains(port) && p.contains("Flags [S"));
        syns.filter_map(|p| p.split("wscale ").nth(1)?.split(']').next()).collect()
    };
    assert_eq!(
        [shifts(".1024 "), shifts(".1026 ")],
        [BTreeSet::from(["11"]), BTreeSet::from(["10"])],
        "{said}"
    );
}

/// RFC 3168 spares SYNs, pure ACKs and retransmissions; Linux does not where the algorithm lives on marks.
#[test]
fn dctcp_calls_all_of_its_packets_capable_of_ecn() {
    let text = SCENARIO.replace("algorithm = \"reno\"\n", "");
    for (algorithm, is_all) in [("dctcp", true), ("reno", false)] {
        let folder = tempfile::tempdir().unwrap();
        let flow = format!("[[flow]]\nalgorithm = \"{algorithm}\"\n");
        let outcome = traced_run(folder.path(), &text.replace("[[flow]]\n", &flow));
        assert!(outcome.report.sender_retrans_segs > 0);
        let said = dump(folder.path());
        assert_eq!(!said.contains("IP (tos 0x0,"), is_all, "{algorithm}: {said}");
        assert!(said.contains("IP (tos 0x2,ECT(0),"), "{algorithm}: {said}");
    }
}

/// RFC 3168, section 6.1.1: a SYN with ECE and CWR, and ECE in the answer, or analysers take the connection for one without ECN.
#[test]
fn a_handshake_agrees_on_ecn() {
    for (ecn, syn, answer) in
        [("classic", "[SEW]", "[S.E]"), ("exact", "[SEW]", "[S.E]"), ("off", "[S]", "[S.]")]
    {
        let folder = tempfile::tempdir().unwrap();
        traced_run(folder.path(), &SCENARIO.replace("\"classic\"", &format!("\"{ecn}\"")));
        let said = dump(folder.path());
        let flags: BTreeSet<&str> = said
            .split("Flags ")
            .filter(|packet| packet.starts_with("[S"))
            .filter_map(|packet| packet.split(',').next())
            .collect();
        assert_eq!(flags, BTreeSet::from([syn, answer]), "{ecn}");
    }
}

#[test]
fn a_trace_folder_that_cannot_be_written_is_reported() {
    let scenario = Scenario::parse("t", SCENARIO).unwrap();
    let folder = Path::new("/proc/nowhere");
    let trace = TraceOptions { folder, interval_ns: NonZeroU64::MIN };
    let trace = RunOptions { trace: Some(trace), ..RunOptions::default() };
    for options in [trace, RunOptions { captures: Some(folder), ..RunOptions::default() }] {
        let error = run(&scenario, &options).unwrap_err();
        assert!(error.to_string().contains("/proc/nowhere"), "{error}");
    }
}
