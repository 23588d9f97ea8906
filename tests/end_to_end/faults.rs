//! What must not break traffic: tables that are full, a second run beside, and attacks. (A killed agent, a changed policy:
//! agent.rs; a clock that goes: clocks.rs.)

use crate::{
    LOSSY_BOX, flow,
    hostile::{Listener, under_attack},
    peers::{receive, send},
    scenario,
    site::{PLAIN, Setup, site_or_skip},
};
use std::{
    io::{self, Read},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};
use windlass_lab::RunOptions;
use windlass_tests::{is_root_or_skip, windlass_path};

fn run_with(name: &str, args: &[&str], flows: &str) -> windlass_lab::RunReport {
    let mut options = RunOptions::new(windlass_path());
    options.attach_args = args.iter().map(|a| a.to_string()).collect();
    let report =
        windlass_lab::run(&scenario(name, LOSSY_BOX.0, &(flows.to_string() + LOSSY_BOX.1)), &options)
            .unwrap_or_else(|e| panic!("{name}: {e:#}"));
    assert!(report.is_complete(), "{report}");
    report
}

#[test]
fn a_full_flow_table_lets_flows_pass() {
    if !is_root_or_skip("a_full_flow_table_lets_flows_pass") {
        return;
    }
    // long enough for all to be there at once
    let flows: String = (0..3).map(|_| flow("2 MB", "cubic")).collect();
    let report = run_with("table", &["--flows", "1"], &flows);
    assert_eq!(report.counter("flows_created"), 1, "{report}");
    assert!(report.counter("pass_table_full") > 0, "{report}");
}

#[test]
fn a_full_store_lets_flows_pass() {
    if !is_root_or_skip("a_full_store_lets_flows_pass") {
        return;
    }
    // one MiB is sixteen chunks, and every flow needs at least one; long enough for all to be there at once
    let flows: String = (0..40).map(|_| flow("600 kB", "cubic")).collect();
    let report = run_with("store", &["--store-mib", "1"], &flows);
    assert_eq!(report.counter("flows_created"), 40, "{report}");
    assert!(report.counter("bypass_store_full") > 0, "{report}");
}

#[test]
fn two_runs_at_once_do_not_meet() {
    if !is_root_or_skip("two_runs_at_once_do_not_meet") {
        return;
    }
    std::thread::scope(|scope| {
        let runs: Vec<_> =
            (0..2).map(|_| scope.spawn(|| run_with("twin", &[], &flow("500 kB", "cubic")))).collect();
        for run in runs {
            assert_eq!(run.join().expect("it completes").counter("flows_created"), 1);
        }
    });
}

/// Counts what is read.
struct Counted<'a, R>(R, &'a AtomicU64);

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.read(block)?;
        self.1.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

#[test]
fn neither_a_flood_nor_forged_packets_take_a_transfer_out_of_control() {
    const BYTES: u64 = 4_000_000;
    /// With timestamps, of 1500 bytes.
    const MSS_BYTES: u64 = 1448;
    let test = "neither_a_flood_nor_forged_packets_take_a_transfer_out_of_control";
    // no SYN is kept, as Linux does in a flood anyway: of those with forged addresses nothing is left at the end
    let server_sysctls: &[_] = &[("net/ipv4/tcp_syncookies", "2")];
    let Some(mut site) = site_or_skip(test, Setup { server_sysctls, ..PLAIN }) else { return };
    site.control("cubic");
    let listener = Listener::new(&site.client);
    let (client, server) = site.connection();
    let victim = listener.victim(&client);
    let read_bytes = AtomicU64::new(0);
    under_attack(&site, victim, &read_bytes, || {
        thread::scope(|scope| {
            let sending = scope.spawn(|| send(&server, BYTES));
            let receiving = scope.spawn(|| receive(Counted(&client, &read_bytes), BYTES));
            // one that begins in the middle of it
            site.fetch(1_000_000);
            receiving.join().expect("whole");
            sending.join().expect("no panic").expect("sent");
        });
    });
    drop((client, server));
    let outcome = site.finish();
    // what is forged, and what answers it, crosses the WAN, too, and is lost as often
    let own_packets = outcome.counter("stored_bytes") / MSS_BYTES;
    outcome.assert_repaired_among(test, own_packets, &["pass_malformed"]);
    for reason in [
        "pass_malformed",
        "pass_bad_options",
        "pass_ack_outside",
        "pass_seq_outside",
        "pass_data_outside",
        "pass_rst_outside",
        "sack_outside",
    ] {
        assert!(outcome.counter(reason) > 0, "{reason}: {outcome:#?}");
    }
    // all payload was of flows under control
    assert_eq!(outcome.counter("flows_created"), 2, "{outcome:#?}");
    for uncontrolled in
        ["watched_bytes", "flows_mid_stream", "flows_watch_only", "flows_accecn", "pass_table_full"]
    {
        assert_eq!(outcome.counter(uncontrolled), 0, "{uncontrolled}: {outcome:#?}");
    }
}
