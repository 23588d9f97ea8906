//! What queue disciplines do to TCP: each holds the queue where its source has it, at a link that is always busy.

use std::num::NonZeroU64;
use windlass_scenario::{RunReport, Scenario};
use windlass_sim::{RunOptions, run};

/// A bottleneck of 20 Mbit/s, a round trip of 40 ms, and a buffer of half a second; what is added begins with keys of that link.
fn run_at_20(keys: &str) -> RunReport {
    run_with(keys, "20 Mbit/s")
}

fn run_with(keys: &str, rate: &str) -> RunReport {
    let text = format!(
        "name = \"t\"\ntime_limit = \"30 s\"\n[[host]]\nname = \"server\"\ncount = 2\n[[host]]\nname = \"router\"\n[[host]]\n\
         name = \"client\"\n[[link]]\nbetween = [\"server-*\", \"router\"]\nrate = \"1 Gbit/s\"\n[[link]]\n\
         between = [\"router\", \"client\"]\nrate = \"{rate}\"\ndelay = \"20 ms\"\nbuffer = \"826 packets\"\n{keys}"
    );
    let scenario = Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}"));
    run(&scenario, &RunOptions::default()).unwrap_or_else(|e| panic!("{e}")).report
}

fn flow(host: u32, more: &str) -> String {
    format!("[[flow]]\nfrom = \"server-{host}\"\nto = \"client\"\n{more}\n")
}

fn bulk(algorithm: &str, count: u32) -> String {
    flow(1, &format!("size = \"unlimited\"\ncount = {count}\nalgorithm = \"{algorithm}\""))
}

/// Mean wait in front of the bottleneck in ms, and how busy that is.
fn queue(report: &RunReport) -> (f64, f64) {
    let link = report.links.iter().find(|l| l.name == "router > client").expect("the bottleneck");
    println!("{:.2} ms, {:.3}, {:?}", link.stats.mean_queue_ms(), link.stats.utilisation, link.stats);
    (link.stats.mean_queue_ms(), link.stats.utilisation)
}

/// Marks and drops at the bottleneck.
fn marks_and_drops(report: &RunReport) -> (u64, u64) {
    let link = report.links.iter().find(|l| l.name == "router > client").expect("the bottleneck");
    (link.stats.marks, link.stats.drops_tail)
}

#[test]
fn codel_and_pie_keep_the_queue_of_bulk_flows_near_their_targets() {
    let (plain_ms, _) = queue(&run_at_20(&bulk("cubic", 4)));
    assert!(plain_ms > 200.0, "{plain_ms}");
    let (codel_ms, busy) = queue(&run_at_20(&format!("discipline = \"codel\"\n{}", bulk("cubic", 4))));
    assert!((3.0..15.0).contains(&codel_ms) && busy > 0.93, "{codel_ms} {busy}");
    let (pie_ms, busy) = queue(&run_at_20(&format!("discipline = \"pie\"\n{}", bulk("cubic", 4))));
    assert!((10.0..22.0).contains(&pie_ms) && busy > 0.93, "{pie_ms} {busy}");
    let keys = "discipline = { kind = \"red\", min = \"20 packets\", max = \"60 packets\", probability = \"10 %\" }\n";
    let (red_ms, busy) = queue(&run_at_20(&format!("{keys}{}", bulk("cubic", 4))));
    // 20 to 60 packets are 12 to 36 ms
    assert!((8.0..36.0).contains(&red_ms) && busy > 0.93, "{red_ms} {busy}");
}

#[test]
fn codel_and_pie_mark_what_understands_ecn_and_drop_none_of_it() {
    for discipline in ["codel", "pie", "fq-codel"] {
        let tcp = "[tcp]\necn = \"classic\"\n";
        let report = run_at_20(&format!("discipline = \"{discipline}\"\n{}{tcp}", bulk("cubic", 2)));
        let (marks, drops) = marks_and_drops(&report);
        assert!(marks > 20 && drops <= marks / 20, "{discipline}: {marks} {drops}");
    }
}

/// A small response every 100 ms beside four bulk flows: its flow is new each time.
#[test]
fn fq_codel_spares_what_sends_little() {
    let small = flow(
        2,
        "class = \"small\"\n[[flow.train]]\nuntil = \"29 s\"\nsize = \"1 kB\"\ninterval = \"100 ms\"",
    );
    let p99_s = |discipline: &str| {
        let report = run_at_20(&format!("discipline = \"{discipline}\"\n{}{small}", bulk("cubic", 4)));
        let small = report.flows.iter().find(|f| f.class == "small").expect("it is there");
        small.response_times.expect("some have come").p99_s
    };
    let (codel_s, fq_s) = (p99_s("codel"), p99_s("fq-codel"));
    println!("codel {codel_s}, fq-codel {fq_s}");
    // 40 ms there and back, and at most a packet of each of the others
    assert!(fq_s < 0.045 && codel_s > fq_s, "{codel_s} {fq_s}");
}

#[test]
fn fq_codel_shares_the_link_between_flows_however_they_are_controlled() {
    let report = run_at_20(&format!("discipline = \"fq-codel\"\n{}{}", bulk("reno", 1), bulk("cubic", 1)));
    let jain = report.jain().expect("two flows");
    assert!(jain > 0.99, "{jain}");
}

/// RFC 9332, section 2.1: about the same rate for both kinds. At 100 Mbit/s, so that the bursts of an unpaced sender are shorter
/// than the wait from which its queue marks.
#[test]
fn dualpi2_lets_scalable_and_classic_flows_coexist() {
    let scalable = flow(2, "size = \"unlimited\"\nalgorithm = \"dctcp\"\nclass = \"scalable\"\ncount = 2");
    let ratio = |keys: &str| {
        let report = run_with(&format!("{keys}{}{scalable}", bulk("cubic", 2)), "100 Mbit/s");
        queue(&report);
        let sum = |is_scalable: bool| -> f64 {
            let flows = report.flows.iter().filter(|f| (f.class == "scalable") == is_scalable);
            flows.map(|f| f.goodput_bps).sum()
        };
        sum(true) / sum(false)
    };
    let with = ratio("discipline = \"dualpi2\"\n");
    let without = ratio("ecn = \"20 packets\"\n");
    println!("scalable to classic: {with} with, {without} with one threshold");
    assert!((0.5..2.0).contains(&with) && without < 0.1, "{with} {without}");
}

#[test]
fn strict_priorities_send_the_urgent_first() {
    let urgent = flow(2, "class = \"urgent\"\nsize = \"5 MB\"\npriority = 0");
    let other = flow(1, "size = \"unlimited\"\npriority = 7");
    let took_s = |keys: &str| {
        let report = run_at_20(&format!("{keys}{urgent}{other}"));
        report
            .flows
            .iter()
            .find(|f| f.class == "urgent")
            .and_then(|f| f.completion_s)
            .expect("it is complete")
    };
    let alone_s = run_at_20(&urgent).completion_s().expect("it is complete");
    let with_s = took_s("discipline = \"priority\"\n");
    let without_s = took_s("");
    println!("alone {alone_s}, with priorities {with_s}, without {without_s}");
    assert!(with_s < 1.05 * alone_s && without_s > 1.3 * with_s);
}

/// The way back has a hundredth of the rate: with as many ACKs as there would be, it is what limits the transfer (RFC 3449, section 2).
#[test]
fn an_ack_filter_frees_a_slow_way_back() {
    let took_s = |keys: &str| {
        let report = run_at_20(&format!("rate_back = \"200 kbit/s\"\n{keys}{}", flow(1, "size = \"10 MB\"")));
        let back = report.links.iter().find(|l| l.name == "client > router").expect("it is emulated");
        println!(
            "{:?} {} filtered, {} ms",
            report.completion_s(),
            back.stats.acks_filtered,
            back.stats.mean_queue_ms()
        );
        report.completion_s().expect("it is complete")
    };
    let (with_s, without_s) = (took_s("ack_filter = true\n"), took_s(""));
    assert!(with_s < 0.9 * without_s, "{with_s} {without_s}");
}

/// 5 Mbit/s of datagrams take what is theirs; what TCP has is the rest.
#[test]
fn datagrams_are_sent_at_their_rate_whatever_is_lost() {
    let cbr = flow(
        2,
        "class = \"cbr\"\napplication = \"udp\"\n[[flow.train]]\nuntil = \"20 s\"\nsize = \"1250 B\"\nrate = \"5 Mbit/s\"",
    );
    let report = run_at_20(&format!("{}{cbr}", bulk("cubic", 1)));
    let cbr = report.flows.iter().find(|f| f.class == "cbr").expect("it is there");
    assert_eq!(cbr.datagrams_sent, Some(10_000));
    assert!(cbr.bytes > 9_800 * 1250 && cbr.bytes % 1250 == 0, "{cbr:?}");
    assert!((cbr.goodput_bps - 5e6).abs() < 0.1e6, "{}", cbr.goodput_bps);
    let delays = cbr.response_times.expect("they arrived");
    assert!(delays.count == cbr.bytes / 1250 && delays.mean_s > 0.02, "{delays:?}");
    assert!(report.is_success() && report.jain().is_none(), "{report}");
    assert!(
        report.to_string().contains(&format!("{} of 10000 datagrams arrived, one way: ", delays.count)),
        "{report}"
    );
    // faster than the link: the rest is lost
    let flood = flow(
        2,
        "application = \"udp\"\n[[flow.train]]\nuntil = \"10 s\"\nsize = \"1250 B\"\nrate = \"40 Mbit/s\"",
    );
    let report = run_at_20(&flood);
    let arrived = report.flows[0].bytes as f64 / (report.flows[0].datagrams_sent.unwrap() as f64 * 1250.0);
    assert!((arrived - 0.5).abs() < 0.05, "{arrived}");
}

/// Of 1 kB each at half of the link: about 1250 a second, with gaps whose standard deviation is their mean.
#[test]
fn requests_at_a_load_come_as_a_poisson_process() {
    let train =
        "connections = \"per-response\"\n[[flow.train]]\nuntil = \"20 s\"\nsize = \"1 kB\"\nload = \"0.2 %\"";
    let report = run_at_20(&flow(2, train));
    let mut asked: Vec<f64> = report.flows[0].responses.iter().map(|r| r.asked_s).collect();
    asked.sort_by(f64::total_cmp);
    // 0.2 % of 1 Gbit/s are 250 a second
    assert!((4700..5300).contains(&asked.len()), "{}", asked.len());
    let gaps: Vec<f64> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation =
        (gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / gaps.len() as f64).sqrt();
    assert!((deviation / mean - 1.0).abs() < 0.05, "{mean} {deviation}");
}

/// Four bulk flows of CUBIC over 10 Mbit/s and 40 ms, from the tenth second to the seventieth, through the disciplines of Linux 6.1 (tests/vm
/// measures them again): the mean queue in packets and how many were dropped. Red had a weight of 2^-5 from its burst. All are within
/// 15 %, but for the queue of fq-codel, which is a third longer; no cause is known.
#[test]
fn queues_and_drops_are_those_of_linux() {
    let red = "{ kind = \"red\", min = \"30280 B\", max = \"90840 B\", probability = \"10 %\", weight = \"3.125 %\" }";
    let real = [
        ("\"codel\"", 7.2, 0.15, 560.0),
        ("\"fq-codel\"", 4.2, 0.40, 473.0),
        ("\"pie\"", 13.0, 0.15, 386.0),
        (red, 20.5, 0.15, 334.0),
    ];
    for (discipline, real_packets, most, real_drops) in real {
        let seen: Vec<(f64, f64)> = (1..=5).map(|seed| queue_and_drops(discipline, seed)).collect();
        let mean = |of: fn(&(f64, f64)) -> f64| seen.iter().map(of).sum::<f64>() / seen.len() as f64;
        let (packets, drops) = (mean(|s| s.0), mean(|s| s.1));
        println!("{discipline}: {packets:.2} packets, real {real_packets}; {drops} drops, real {real_drops}");
        assert!((packets / real_packets - 1.0).abs() < most, "{discipline}: {packets} {real_packets}");
        assert!((drops / real_drops - 1.0).abs() < 0.15, "{discipline}: {drops} {real_drops}");
    }
}

/// Mean queue and drops between these two seconds.
fn queue_and_drops(discipline: &str, seed: u64) -> (f64, f64) {
    let run_until = |limit_s: u64| {
        let text = format!(
            "name = \"t\"\nseed = {seed}\ntime_limit = \"{limit_s} s\"\nhost = [{{ name = \"server\" }}, {{ name = \"router\" }}, \
             {{ name = \"client\" }}]\n[[link]]\nbetween = [\"server\", \"router\"]\n[[link]]\nbetween = [\"router\", \"client\"]\n\
             rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1000 packets\"\ndiscipline = {discipline}\n[tcp]\noffload = false\n\
             [[flow]]\nfrom = \"server\"\nto = \"client\"\nsize = \"unlimited\"\ncount = 4\nalgorithm = \"cubic\"\n"
        );
        let scenario = Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}"));
        let options = RunOptions { interval_ns: NonZeroU64::new(2_000_000), ..RunOptions::default() };
        run(&scenario, &options).unwrap_or_else(|e| panic!("{e}")).report
    };
    let (start, whole) = (run_until(10), run_until(70));
    let intervals = whole.intervals.as_ref().expect("recorded");
    let place = whole.links.iter().position(|l| l.name == "router > client").expect("the bottleneck");
    let looks = &intervals.link_packets[place][5000..];
    let mean = looks.iter().map(|n| f64::from(*n)).sum::<f64>() / looks.len() as f64;
    (mean, (whole.links[place].stats.drops_tail - start.links[place].stats.drops_tail) as f64)
}
