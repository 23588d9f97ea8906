//! Runs in steps of virtual time: looking at flows changes nothing, and what is set from outside is in force.

use std::num::NonZeroU64;
use windlass_scenario::Scenario;
use windlass_sim::{
    CongestionControl, Outside, RunOptions, SimError, Stepping,
    abi::{wl_alg_params, wl_decision, wl_sample},
    check_window, run,
};

const MS: u64 = 1_000_000;

/// Two flows over 10 Mbit/s and 20 ms, with loss; the second begins later.
fn scenario(first: &str) -> Scenario {
    let text = format!(
        "name = \"t\"\nseed = 3\ntime_limit = \"5 s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
         [[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nbuffer = \"30 packets\"\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\n{first}\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\nstart = \"300 ms\"\nsize = \"300 kB\"\nalgorithm = \"bbr\"\n"
    );
    Scenario::parse("t", &text).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_run_in_steps_of_which_nothing_is_set_is_the_run() {
    for first in ["size = \"1 MB\"\nalgorithm = \"cubic\"", "size = \"unlimited\"\nalgorithm = \"bbr3\""] {
        let scenario = scenario(first);
        let interval_ns = NonZeroU64::new(30 * MS);
        let options = RunOptions { interval_ns, looks_ns: interval_ns, ..RunOptions::default() };
        let whole = run(&scenario, &options).unwrap();
        assert!(!whole.flow_rows.is_empty() && !whole.link_rows.is_empty());
        for step_ns in [MS, 30 * MS, 777 * MS] {
            let mut stepping = Stepping::new(&scenario, &options, &[0, 1]).unwrap();
            let mut now_ns = step_ns;
            while !stepping.step_to(now_ns, None) {
                let states = [0, 1].map(|flow| stepping.flow(flow));
                assert!(states[0].sent_bytes >= states[0].arrived_bytes);
                now_ns += step_ns;
            }
            let stepped = stepping.finish();
            assert_eq!(stepped.report.to_json(), whole.report.to_json(), "{step_ns}");
            assert_eq!((&stepped.flow_rows, &stepped.link_rows), (&whole.flow_rows, &whole.link_rows));
        }
    }
}

#[test]
fn what_is_held_is_in_force_until_it_is_set_anew() {
    let scenario = scenario("size = \"unlimited\"\nalgorithm = \"cubic\"");
    let mut stepping = Stepping::new(&scenario, &RunOptions::default(), &[0]).unwrap();
    stepping.step_to(200 * MS, None);
    let mss_bytes = stepping.flow(0).mss_bytes;
    assert!(stepping.flow(0).cwnd_bytes > 10 * mss_bytes);
    let mut now_ns = 200 * MS;
    for segs in [4, 30, 2] {
        stepping.hold(0, now_ns, Some(segs * mss_bytes), None);
        // what is in flight comes back first
        now_ns += 200 * MS;
        stepping.step_to(now_ns, None);
        for _ in 0..20 {
            now_ns += 7 * MS;
            stepping.step_to(now_ns, None);
            let state = stepping.flow(0);
            assert_eq!((state.cwnd_bytes, state.timeouts), (segs * mss_bytes, 0));
            assert!(state.inflight_bytes <= segs * mss_bytes);
        }
    }
    // 500 kB/s; the window no longer limits
    stepping.hold(0, now_ns, Some(100 * mss_bytes), Some(500_000));
    stepping.step_to(now_ns + 300 * MS, None);
    let before = stepping.flow(0);
    stepping.step_to(now_ns + 1300 * MS, None);
    let after = stepping.flow(0);
    let bytes = after.arrived_bytes - before.arrived_bytes;
    assert!((490_000..=510_000).contains(&bytes), "{bytes}");
    assert_eq!(after.pacing_bytes_ps, Some(500_000));
}

#[test]
fn a_window_that_lets_out_data_does_so_at_once() {
    let scenario = scenario("size = \"unlimited\"\nalgorithm = \"reno\"");
    let mut stepping = Stepping::new(&scenario, &RunOptions::default(), &[0]).unwrap();
    stepping.step_to(45 * MS, None);
    let before = stepping.flow(0);
    stepping.hold(0, 45 * MS, Some(before.cwnd_bytes + 10 * before.mss_bytes), None);
    let after = stepping.flow(0);
    assert_eq!(after.sent_bytes - before.sent_bytes, u64::from(10 * before.mss_bytes));
}

#[test]
fn a_flow_without_a_window_of_its_own_is_refused() {
    let each =
        "connections = \"per-response\"\nalgorithm = \"reno\"\n[[flow.train]]\ncount = 3\nsize = \"1 kB\"";
    let scenario = scenario(each);
    let error = Stepping::new(&scenario, &RunOptions::default(), &[1, 0]).unwrap_err();
    assert!(matches!(error, SimError::NoWindow { flow: 0, .. }), "{error}");
    assert!(Stepping::new(&scenario, &RunOptions::default(), &[1]).is_ok());
    assert_eq!([0, 1].map(|flow| check_window(&scenario, flow).is_ok()), [false, true]);
}

/// A window that never changes, as an algorithm from outside the core.
#[derive(Debug)]
struct Fixed(u32);

impl CongestionControl for Fixed {
    fn init(&mut self, _: &wl_alg_params, sample: &wl_sample, decision: &mut wl_decision) {
        decision.cwnd_bytes = self.0 * sample.mss_bytes;
    }

    fn on_ack(&mut self, _: &wl_sample, _: &mut wl_decision) {}
    fn on_congestion(&mut self, _: &wl_sample, _: &mut wl_decision, _: u32) {}
    fn on_timeout(&mut self, _: &wl_sample, _: &mut wl_decision) {}
    fn on_send_after_idle(&mut self, _: &wl_sample, _: &mut wl_decision, _: u32) {}
    fn on_timer(&mut self, _: &wl_sample, _: &mut wl_decision) {}
}

#[derive(Debug)]
struct OnlyFirst;

impl Outside for OnlyFirst {
    fn of_flow(&self, flow: usize) -> Option<Box<dyn CongestionControl>> {
        (flow == 0).then(|| Box::new(Fixed(5)) as Box<dyn CongestionControl>)
    }
}

#[test]
fn an_algorithm_from_outside_takes_the_place_of_the_one_that_is_named() {
    let scenario = scenario("size = \"unlimited\"\nalgorithm = \"bbr\"");
    let looks_ns = NonZeroU64::new(50 * MS);
    let options = RunOptions { looks_ns, outside: Some(&OnlyFirst), ..RunOptions::default() };
    let outcome = run(&scenario, &options).unwrap();
    let windows = |flow| {
        let rows = outcome.flow_rows.iter().filter(move |row| row.flow == flow);
        rows.filter_map(|row| row.window.map(|w| w.cwnd_segs)).collect::<Vec<_>>()
    };
    assert!(windows(0).len() > 50 && windows(0).iter().all(|segs| *segs == 5), "{:?}", windows(0));
    assert!(windows(1).iter().any(|segs| *segs > 10));
}
