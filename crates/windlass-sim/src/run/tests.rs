use super::*;
use std::mem::size_of;
use windlass_scenario::{Span, Windlass};

/// Two hosts beside each other, and two with a router between them.
fn with_links(first: &str, second: &str, flow: &str) -> Scenario {
    let text = format!(
        "name = \"t\"\ntime_limit = \"1 s\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"r\"\n[[host]]\nname = \"b\"\n\
         [[link]]\nbetween = [\"a\", \"r\"]\n{first}\n[[link]]\nbetween = [\"r\", \"b\"]\n{second}\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
    );
    Scenario::parse("t", &text).unwrap()
}

/// Nothing would ever end such a run; what has an end needs no time.
#[test]
fn an_unlimited_flow_over_links_without_time_is_refused() {
    let scenario = with_links("", "loss = \"1 %\"", "size = \"unlimited\"\nstop = \"500 ms\"");
    let timeless = SimError::Timeless { flow: 0, from: "a".into(), to: "b".into() };
    assert_eq!(check(&scenario), Err(timeless.clone()));
    assert_eq!(run(&scenario, &RunOptions::default()).unwrap_err(), timeless);
    assert!(timeless.to_string().ends_with("give a link of its path a delay or a rate"));
    let train = "[[flow.train]]\ncount = 1\nsize = \"1 kB\"\n[[flow.train]]\ncount = 1\nsize = \"unlimited\"";
    assert!(check(&with_links("", "", train)).is_err());
    for link in ["rate = \"1 Mbit/s\"", "delay = \"1 us\"", "jitter = \"1 us\""] {
        assert_eq!(check(&with_links("", link, "size = \"unlimited\"")), Ok(()), "{link}");
    }
    let cable = "jitter = \"0 s\"";
    let finite = run(&with_links(cable, cable, "size = \"1 MB\""), &RunOptions::default()).unwrap();
    assert_eq!(finite.report.flows[0].completion_s, Some(0.0));
}

/// The window field in units of 2^10 ends at 67 MB, and without the scenario's word windows at 20 MiB. What one flow needs
/// makes no other's window coarser.
#[test]
fn windows_are_as_large_as_the_scenario_configures() {
    for (tcp_bytes, flow_bytes, wscales, most_bytes) in [
        (None, None, [10, 10], 20 << 20),
        (Some(30_000_000), None, [10, 10], 30_000_000),
        (Some(1_000_000_000), None, [14, 14], 1_000_000_000),
        (None, Some(100_000_000), [11, 10], 100_000_000),
        (Some(1_000_000_000), Some(67_000_000), [10, 14], 67_000_000),
    ] {
        let bytes = |n: Option<u32>| n.map(|n| Bytes(n.into()));
        let mut scenario = with_links("", "delay = \"1 ms\"", "size = \"1 MB\"");
        scenario.tcp.receive_window = bytes(tcp_bytes);
        scenario.flows.push(scenario.flows[0].clone());
        scenario.flows[0].receive_window_max = bytes(flow_bytes);
        let sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
        let of_ends = |fetch: &Fetch| fetch.ends.each_ref().map(|end| end.receiver.wscale());
        assert_eq!([0, 1].map(|i| of_ends(&sim.fetches[i])), wscales.map(|w| [w; 2]), "{most_bytes} bytes");
        assert_eq!(flow_bytes.unwrap_or(sim.config.rcv_window_max_bytes), most_bytes);
    }
}

/// The box shows windows of each flow in the units that its receiver has announced.
#[test]
fn the_box_learns_the_units_of_each_window() {
    let mut scenario = with_links("", "delay = \"1 ms\"", "size = \"1 MB\"");
    scenario.flows.push(scenario.flows[0].clone());
    scenario.flows[0].receive_window_max = Some(Bytes(1e8));
    scenario.windlass = Some(Windlass {
        at: "r".into(),
        facing: "a".into(),
        algorithm: "bbr".into(),
        mode: windlass_scenario::Mode::Transparent,
        group: None,
    });
    // the box forgets flows that are over
    scenario.time_limit = Span(0.01);
    let mut sim = Sim::new(&scenario, &RunOptions::default()).unwrap();
    sim.run(None);
    let boxed = sim.boxed.unwrap();
    assert_eq!([0, 1].map(|i| boxed.flow(i).unwrap().state().rcv_wscale()), [11, 10]);
}

/// Thousands of idle connections must fit: at most 4 KiB each, both ends and their scoreboards together.
#[test]
fn an_idle_connection_is_small() {
    assert!(size_of::<Fetch>() <= 2648, "{}", size_of::<Fetch>());
}
