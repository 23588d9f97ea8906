//! Trajectories as text: a flow's window at the start of each of its round trips, in whole segments, for a bottleneck
//! of one bandwidth-delay product of buffer. A diff of `rounds/*.txt` shows a change of behaviour; the text is the same
//! in debug and release builds and on every machine.
//!
//! `WINDLASS_BLESS=1 cargo test -p windlass-sim --test rounds` writes the files anew.

use std::{env, fmt::Write, fs, path::PathBuf};
use windlass_scenario::Scenario;
use windlass_sim::{RunOptions, run};

const ROUNDS: usize = 120;

fn trajectory(algorithm: &str, link: &str) -> String {
    let text = format!(
        "name = \"rounds\"\nseed = 1\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nbetween = [\"a\", \"b\"]\njitter = \"0 s\"\n\
         rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"\n{link}\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\nsize = \"20 MB\"\nalgorithm = \"{algorithm}\"\n"
    );
    let options = RunOptions { traces_rounds: true, ..RunOptions::default() };
    let outcome = run(&Scenario::parse("rounds", &text).unwrap(), &options).unwrap();
    let mut lines = String::from("round  at_us  cwnd_segs  pipe_segs  srtt_us\n");
    for r in outcome.rounds[0].iter().take(ROUNDS) {
        let at_us = r.at_ns / 1000;
        writeln!(lines, "{}  {at_us}  {}  {}  {}", r.round, r.cwnd_segs, r.pipe_segs, r.srtt_us).unwrap();
    }
    let report = &outcome.report;
    let (packets, drops) = (report.links[0].stats.packets, report.links[0].stats.drops_tail);
    writeln!(lines, "end_us {}", outcome.ended_at_ns / 1000).unwrap();
    writeln!(lines, "packets {packets}  dropped {drops}  sent_again {}", report.sender_retrans_segs).unwrap();
    lines
}

fn check(name: &str, text: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/rounds").join(format!("{name}.txt"));
    if env::var_os("WINDLASS_BLESS").is_some() {
        fs::write(&file, text).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap();
    for (number, (got, wanted)) in text.lines().zip(expected.lines()).enumerate() {
        assert_eq!(got, wanted, "{}:{}", file.display(), number + 1);
    }
    assert_eq!(text.lines().count(), expected.lines().count(), "{}", file.display());
}

#[test]
fn reno_draws_its_sawtooth() {
    check("reno", &trajectory("reno", ""));
}

#[test]
fn cubic_follows_its_curve() {
    check("cubic", &trajectory("wl_cubic", ""));
}

#[test]
fn the_kernels_cubic_counts_its_growth() {
    check("kcubic", &trajectory("cubic", ""));
}

#[test]
fn bbr_finds_the_bandwidth_and_probes_it() {
    check("bbr", &trajectory("bbr", ""));
}

/// Marks begin at 20 packets; the BDP is 66.
#[test]
fn dctcp_stays_at_the_threshold() {
    check("dctcp", &trajectory("dctcp", "ecn = \"20 packets\"\n"));
}

#[test]
fn l2dct_grows_the_slower_the_more_it_has_sent() {
    check("l2dct", &trajectory("l2dct", "ecn = \"20 packets\"\n"));
}

#[test]
fn trim_stays_at_its_delay() {
    let path = "[parameters]\nbottleneck = \"20 Mbit/s\"\nbuffer = \"66 packets\"\n";
    check("trim", &trajectory("trim", path));
}

#[test]
fn bbr_is_not_moved_by_random_loss() {
    check("bbr-loss", &trajectory("bbr", "loss = \"1 %\"\n"));
}

/// As v1, but its startup does not overrun the buffer, and a probe that loses more than one in fifty is over.
#[test]
fn bbr3_probes_without_overrunning_the_buffer() {
    check("bbr3", &trajectory("bbr3", ""));
}

#[test]
fn bbr3_is_bounded_by_random_loss() {
    check("bbr3-loss", &trajectory("bbr3", "loss = \"1 %\"\n"));
}

#[test]
fn reno_is_moved_by_random_loss() {
    check("reno-loss", &trajectory("reno", "loss = \"1 %\"\n"));
}
