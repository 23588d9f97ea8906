//! A box between server and client: what it promises holds in the simulator as well.

use windlass_scenario::{RunReport, Scenario};
use windlass_sim::{RunOptions, run};

const WINDLASS: &str = "[windlass]\nat = \"box\"\nfacing = \"server\"\nalgorithm = \"bbr\"\n";

/// 10 MB from a server over a lossy WAN.
fn wan(loss: &str, algorithm: &str, windlass: &str) -> RunReport {
    let text = format!(
        "name = \"wan\"\nseed = 1\n[[host]]\nname = \"server\"\n[[host]]\nname = \"box\"\n[[host]]\nname = \"client\"\n\
         [[link]]\nbetween = [\"server\", \"box\"]\n\
         [[link]]\nbetween = [\"box\", \"client\"]\nrate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"\n{loss}\
         [[flow]]\nfrom = \"server\"\nto = \"client\"\nsize = \"10 MB\"\nalgorithm = \"{algorithm}\"\n{windlass}"
    );
    run(&Scenario::parse("wan", &text).unwrap(), &RunOptions::default()).unwrap().report
}

#[test]
fn a_cubic_server_behind_the_box_is_as_fast_as_bbr() {
    let loss = "loss = \"1 %\"\n";
    let seconds = |r: &RunReport| r.completion_s().unwrap();
    let alone = wan(loss, "cubic", "");
    let native = wan(loss, "bbr", "");
    let boxed = wan(loss, "cubic", WINDLASS);
    assert!(seconds(&boxed) < 1.1 * seconds(&native), "{} {}", seconds(&boxed), seconds(&native));
    assert!(seconds(&boxed) * 3.0 < seconds(&alone), "{} {}", seconds(&boxed), seconds(&alone));
}

/// Every loss is repaired from the box's store; the server's own stack never notices.
#[test]
fn the_server_sees_no_loss() {
    let report = wan("loss = \"1 %\"\n", "cubic", WINDLASS);
    assert_eq!((report.sender_retrans_segs, report.sender_timeouts), (0, 0));
    let lost = report.links[0].stats.drops_random + report.links[0].stats.drops_tail;
    // nearly: a probe of the box may be superfluous, and the last segments of the connection carry no data
    assert!(report.counter("repaired_segs").abs_diff(lost) < 10, "{lost} {:?}", report.windlass);
    assert_eq!(report.counter("flows_created"), 1);
}

#[test]
fn a_server_that_paces_itself_is_left_alone() {
    let report = wan("loss = \"1 %\"\n", "bbr", WINDLASS);
    assert_eq!(report.counter("flows_paced_sender"), 1, "{:?}", report.windlass);
    assert_eq!(report.counter("bypass_stand_aside"), 1);
}

/// Watching changes nothing at all.
#[test]
fn a_box_that_only_watches_might_as_well_not_be_there() {
    for algorithm in ["reno", "cubic", "bbr"] {
        let watch = format!("{WINDLASS}mode = \"watch\"\n");
        let (with, without) =
            (wan("loss = \"1 %\"\n", algorithm, &watch), wan("loss = \"1 %\"\n", algorithm, ""));
        assert_eq!(with.flows[0].completion_s, without.flows[0].completion_s, "{algorithm}");
        assert_eq!(with.sender_retrans_segs, without.sender_retrans_segs);
        assert_eq!(with.counter("repaired_segs"), 0);
    }
}

/// A path that reorders makes segments seem lost that are only late: the box finds out, and takes its reductions back.
#[test]
fn a_path_that_reorders_costs_the_box_little() {
    for algorithm in ["reno", "cubic"] {
        for seed in 1..=4 {
            let run = |windlass: &str| {
                let text = format!(
                    "name = \"reordered\"\nseed = {seed}\n[[host]]\nname = \"server\"\n[[host]]\nname = \"box\"\n\
                     [[host]]\nname = \"client\"\n[[link]]\nbetween = [\"server\", \"box\"]\n\
                     [[link]]\nbetween = [\"box\", \"client\"]\nrate = \"100 Mbit/s\"\ndelay = \"10 ms\"\n\
                     buffer = \"2 BDP\"\njitter = \"10 ms\"\nreorder = true\n\
                     [[flow]]\nfrom = \"server\"\nto = \"client\"\nsize = \"3 MB\"\nalgorithm = \"{algorithm}\"\n{windlass}"
                );
                run(&Scenario::parse("reordered", &text).unwrap(), &RunOptions::default()).unwrap().report
            };
            let windlass =
                format!("[windlass]\nat = \"box\"\nfacing = \"server\"\nalgorithm = \"{algorithm}\"\n");
            let (boxed, native) = (run(&windlass), run(""));
            let seconds = |r: &RunReport| r.completion_s().unwrap();
            assert!(boxed.counter("undos") > 0, "{algorithm}, seed {seed}: {:?}", boxed.windlass);
            let factor = seconds(&boxed) / seconds(&native);
            assert!(factor < 2.0, "{algorithm}, seed {seed}: {factor:.2} times as long");
        }
    }
}

/// What is granted may end within a segment, and so may what is too little to be granted: a window of three segments of which
/// only two can be sent is in use, and grows. The bottleneck has room for sixteen packets.
#[test]
fn small_windows_grow_though_segments_do_not_fit_them() {
    for seed in 1..=4 {
        let text = format!(
            "name = \"small\"\nseed = {seed}\n[[host]]\nname = \"server\"\n[[host]]\nname = \"box\"\n[[host]]\nname = \"client\"\n\
             [[link]]\nbetween = [\"server\", \"box\"]\n\
             [[link]]\nbetween = [\"box\", \"client\"]\nrate = \"1 Mbit/s\"\ndelay = \"50 ms\"\nbuffer = \"1 BDP\"\n\
             [[flow]]\nfrom = \"server\"\nto = \"client\"\nsize = \"5 MB\"\nstart = \"{} ms\"\nalgorithm = \"reno\"\n\
             [[flow]]\nfrom = \"server\"\nto = \"client\"\nsize = \"200 kB\"\nstart = \"5 s\"\nalgorithm = \"reno\"\n\
             [windlass]\nat = \"box\"\nfacing = \"server\"\nalgorithm = \"reno\"\n",
            130 * seed
        );
        let report = run(&Scenario::parse("small", &text).unwrap(), &RunOptions::default()).unwrap().report;
        let used = 5.2e6 * 8.0 / report.flows[0].completion_s.unwrap() / 1e6;
        assert!(used > 0.85, "seed {seed}: {used:.2} of the link");
    }
}
