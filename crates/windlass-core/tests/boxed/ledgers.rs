//! Ledgers of flows and the records that are made of them (`core/ledger/`).

use super::*;

impl Bench {
    fn with_ledger() -> Bench {
        let mut bench = Bench::new();
        let now_ns = bench.now_ns;
        bench.flow.keep_ledger(&mut bench.notes, now_ns);
        bench
    }

    /// The record of the flow, which ends under this counter, or, 0, goes on.
    fn record(&mut self, counter: u32) -> wl_flow_record {
        self.flow.record_up_to(&mut self.notes, counter, self.now_ns).expect("a ledger is kept")
    }

    fn wait_ms(&mut self, ms: u64) {
        self.now_ns += ms * MS;
    }

    /// The window is used: as many segments as it has room for, from `seq` on. Returns where they end.
    fn fill(&mut self, seq: u32) -> u32 {
        let edge = self.flow.state().edge.wrapping_sub(BASE);
        let mut at = seq;
        while at + MSS <= edge {
            self.sender(at, MSS);
            at += MSS;
        }
        at
    }

    /// The window is used, its first segment is lost, and the box repairs that. Returns where the window ends.
    fn fill_and_lose_the_first(&mut self) -> u32 {
        let at = self.fill(0);
        self.wait_ms(20);
        self.receiver(BASE, 500, &[(BASE + MSS, BASE + at)]);
        self.wait_ms(20);
        self.tick();
        self.wait_ms(20);
        at
    }
}

fn limited_ms(record: &wl_flow_record, limit: u32) -> u64 {
    record.limited_us[limit as usize] / 1000
}

#[test]
fn a_record_counts_nine_gigabytes_on_one_connection() {
    const STEP: u32 = 1 << 20;
    const STEPS: u32 = 9_000_000_000u64.div_ceil(STEP as u64) as u32;
    let mut b = Bench::new();
    b.notes.mode = Some(abi::WL_MODE_WATCH);
    b.notes.is_rule_new = true;
    b.receiver(BASE, 500, &[]);
    let now_ns = b.now_ns;
    b.flow.keep_ledger(&mut b.notes, now_ns);
    for n in 0..STEPS {
        b.sender(n.wrapping_mul(STEP), STEP);
        b.wait_ms(1);
        b.receiver(BASE.wrapping_add((n + 1).wrapping_mul(STEP)), 500, &[]);
    }
    let record = b.record(abi::WL_C_FLOWS_EXPIRED);
    assert_eq!(record.delivered_bytes, u64::from(STEPS) * u64::from(STEP));
    assert_eq!(u32::from(record.end), abi::WL_END_IDLE);
    assert_eq!(record.controlled_bytes, 0, "it was only watched");
}

#[test]
fn a_record_divides_all_of_the_flows_time() {
    let mut b = Bench::with_ledger();
    let began_ns = b.now_ns;
    b.wait_ms(50);
    b.fill(0);
    b.wait_ms(20);
    b.receiver(BASE + 10 * MSS, 500, &[]);
    b.wait_ms(30);
    let record = b.record(0);
    assert_eq!(record.limited_us.iter().sum::<u64>(), (b.now_ns - began_ns) / 1000);
    assert_eq!(limited_ms(&record, abi::WL_LIMIT_IDLE), 80);
    assert_eq!(record.delivered_bytes, u64::from(10 * MSS));
    assert_eq!((record.delivered_segs, record.controlled_bytes), (10, u64::from(10 * MSS)));
    assert_eq!(u32::from(record.end), abi::WL_END_NONE);
}

#[test]
fn the_receivers_window_is_what_limits_when_it_is_the_smaller_one() {
    let mut b = Bench::with_ledger();
    // four segments
    let field = (4 * MSS / 128) as u16;
    b.receiver(BASE, field, &[]);
    let mut at = 0;
    for _ in 0..10 {
        for _ in 0..4 {
            b.sender(at, MSS);
            at += MSS;
        }
        b.wait_ms(20);
        b.receiver(BASE + at - MSS, field, &[]);
        b.receiver(BASE + at, field, &[]);
    }
    let record = b.record(0);
    let receiver_ms = limited_ms(&record, abi::WL_LIMIT_RECEIVER);
    // but for the first round trips, of which it is known only then that room was left unused
    assert!(receiver_ms >= 140, "{record:?}");
    assert!((0..abi::WL_LIMITS).all(|limit| limited_ms(&record, limit) <= receiver_ms), "{record:?}");
}

#[test]
fn what_is_in_flight_is_compared_with_the_intended_window() {
    let mut b = Bench::with_ledger();
    let mut at = b.fill(0);
    for _ in 0..5 {
        b.wait_ms(20);
        b.receiver(BASE + at - MSS, 5000, &[]);
        at = b.fill(at);
    }
    let record = b.record(0);
    assert!(record.flight_samples >= 4, "{record:?}");
    assert_eq!(record.flights_above_window, 0, "{record:?}");
    assert!(record.flight_max_bytes <= record.window_max_bytes + 2 * MSS, "{record:?}");
    assert!(record.rtt_samples >= 3 && record.rtt_min_us == 20_000, "{record:?}");
}

#[test]
fn losses_repairs_and_recoveries_are_recorded() {
    let mut b = Bench::with_ledger();
    let at = b.fill_and_lose_the_first();
    b.receiver(BASE + at, 500, &[]);
    let record = b.record(abi::WL_C_FLOWS_CLOSED);
    assert_eq!((record.lost_segs, record.recoveries), (1, 1));
    assert_eq!(u64::from(record.lost_segs), b.count(abi::WL_C_LOST_SEGS));
    assert_eq!(u64::from(record.repaired_segs), b.count(abi::WL_C_REPAIRED_SEGS));
    assert!(limited_ms(&record, abi::WL_LIMIT_RECOVERY) > 0, "{record:?}");
    assert_eq!(u32::from(record.end), abi::WL_END_RESET, "no FIN was seen");
}

/// A receiver short of memory takes back what it has reported to have arrived (RFC 2018, section 8): the flow's count of what was
/// delivered falls, and the record's must not become 4 GiB larger.
#[test]
fn what_a_receiver_reneges_on_is_recorded_once() {
    let mut b = Bench::with_ledger();
    let at = b.fill_and_lose_the_first();
    b.receiver(BASE + MSS, 500, &[]);
    let reported_bytes = b.flow.state().delivered_bytes;
    for _ in 0..200 {
        b.wait_ms(10);
        b.tick();
    }
    b.receiver(BASE + 2 * MSS, 500, &[]);
    assert!(b.flow.state().delivered_bytes < reported_bytes);
    b.receiver(BASE + at, 500, &[]);
    assert_eq!(b.record(abi::WL_C_FLOWS_CLOSED).delivered_bytes, u64::from(at));
}

/// The timeout at which the box stands aside, and what it found lost, are recorded and counted like any other
/// (`core/flow/hardship.h`). With SACK it needs more than two silences.
#[test]
fn hardship_ends_control_with_a_timeout_that_is_counted() {
    let hard = |has_sack: bool| {
        let mut b = Bench::with_ledger();
        b.flow.state_mut().flags &= if has_sack { !0 } else { !abi::WL_FLOW_SACK };
        b.sender(0, MSS);
        b.wait_ms(20);
        b.receiver(BASE + MSS, 500, &[]);
        for n in 1..3 {
            b.sender(n * MSS, MSS);
            for _ in 0..100 {
                b.wait_ms(10);
                b.tick();
            }
            b.receiver(BASE + (n + 1) * MSS, 500, &[]);
        }
        b
    };
    assert_eq!(hard(true).count(abi::WL_C_BYPASS_FARES_WORSE), 0);
    let mut b = hard(false);
    assert_eq!(b.count(abi::WL_C_BYPASS_FARES_WORSE), 1);
    let record = b.record(abi::WL_C_FLOWS_CLOSED);
    assert!(record.timeouts >= 2, "{record:?}");
    assert_eq!(u64::from(record.timeouts), b.count(abi::WL_C_TIMEOUTS));
    assert_eq!(u64::from(record.lost_segs), b.count(abi::WL_C_LOST_SEGS));
}

#[test]
fn a_change_of_state_is_recorded_with_its_reason() {
    let mut b = Bench::with_ledger();
    b.fill(0);
    b.wait_ms(10);
    b.notes.refusal = abi::WL_C_BYPASS_STORE_FULL;
    b.receiver(BASE + 5 * MSS, 500, &[]);
    b.sender(10 * MSS, MSS);
    let record = b.record(0);
    assert_eq!(record.changes_count, 1, "{record:?}");
    let change = record.changes[0];
    assert_eq!(u32::from(change.state), abi::WL_FLOW_BYPASS);
    assert_eq!((u32::from(change.reason), change.at_ms), (abi::WL_C_BYPASS_STORE_FULL, 10));
    assert_eq!(u32::from(record.reason), abi::WL_C_BYPASS_STORE_FULL);
}

#[test]
fn responses_are_what_a_pause_of_more_than_a_round_trip_separates() {
    let mut b = Bench::with_ledger();
    b.wait_ms(5);
    for n in 0..3 {
        b.sender(n * 2 * MSS, 2 * MSS);
        b.wait_ms(20);
        b.receiver(BASE + (n + 1) * 2 * MSS, 500, &[]);
        b.wait_ms(200);
    }
    let record = b.record(abi::WL_C_FLOWS_CLOSED);
    assert_eq!((record.responses, record.response_max_us), (3, 20_000));
    assert_eq!(record.response_sum_us, 60_000);
    assert_eq!(record.first_data_us - record.began_us, 5_000, "the time to first byte");
}

#[test]
fn a_flow_with_traffic_is_recorded_each_minute() {
    let mut b = Bench::with_ledger();
    for n in 0..150 {
        b.sender(n * MSS, MSS);
        b.wait_ms(20);
        b.receiver(BASE + (n + 1) * MSS, 500, &[]);
        b.wait_ms(980);
    }
    assert_eq!(b.notes.records.len(), 2, "of two and a half minutes");
    let [first, second] = [0, 1].map(|n| b.notes.records[n]);
    assert!(first.delivered_bytes < second.delivered_bytes, "each is of the whole flow so far");
    assert_eq!(u32::from(first.end), abi::WL_END_NONE);
}

#[test]
fn without_a_ledger_nothing_is_recorded() {
    let mut b = Bench::new();
    b.fill(0);
    assert!(b.flow.ledger().is_none());
    let now_ns = b.now_ns;
    assert!(b.flow.record_up_to(&mut b.notes, abi::WL_C_FLOWS_CLOSED, now_ns).is_none());
}

#[test]
fn a_record_begins_with_its_size_and_its_version() {
    let mut b = Bench::with_ledger();
    let record = b.record(0);
    assert_eq!(usize::from(record.size_bytes), size_of::<wl_flow_record>());
    assert_eq!(u32::from(record.version), abi::WL_FLOW_RECORD_VERSION);
    assert_eq!((record.experiment, record.arm, record.period), (0, 0, 0), "of later versions");
}
