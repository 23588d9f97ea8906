//! Guests and their controller end to end on this kernel: two guests are two network namespaces and cgroups, each with
//! the native home loaded under names of its own, and sockets in place of their ports.

mod liar;
mod player;
mod relay;
mod site;
mod spendthrift;

use liar::liar;
use serde_json::Value;
use site::Site;
use spendthrift::spendthrift;
use std::time::{Duration, Instant};
use windlass_tests::{
    is_root_or_skip,
    process::until,
    streams::{Stream, arrive_whole, go_on, jain, rates_bps},
};

const LINK: &str = "rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"";
/// Where five hundred flows have room for the least there is, two segments each.
const WIDE: &str = "rate = \"100 Mbit/s\"\ndelay = \"50 ms\"\nbuffer = \"1 BDP\"";
/// Round trips until a measurement begins, and for how long it goes on.
const SETTLE: Duration = Duration::from_secs(4);
const MEASURE: Duration = Duration::from_secs(8);

fn can_run(test: &str) -> bool {
    if !is_root_or_skip(test) {
        return false;
    }
    let has_cgroups = windlass_agent::root_cgroup().is_ok();
    if !has_cgroups {
        println!("skipped: {test}: no cgroup v2");
    }
    has_cgroups
}

/// What the issue calls fair.
const FAIR: f64 = 0.99;

/// Jain's index of the windows that two guests were granted, by their weights. How much they send with them depends on how
/// busy this machine is; what they may send does not.
fn granted_jain(samples: &[Value], weights: [u32; 2]) -> f64 {
    let mean = |n: usize| {
        let bytes = samples.iter().map(|v| v["guests"][n]["cwnd_bytes"].as_f64().expect("a number"));
        bytes.sum::<f64>() / samples.len() as f64 / f64::from(weights[n])
    };
    jain(&[mean(0), mean(1)])
}

/// The guest's flows have been answered.
fn is_taken(sample: &Value) -> bool {
    sample["flows"]["taken"].as_u64() > Some(0)
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn two_guests_share_a_bottleneck_whatever_the_number_of_their_flows() {
    if !can_run("two_guests_share_a_bottleneck_whatever_the_number_of_their_flows") {
        return;
    }
    let site = Site::create('f', LINK, 2, "reno");
    let alone = vec![site.streams(0, 1), site.streams(1, 4)];
    std::thread::sleep(SETTLE);
    let rates = rates_bps(&alone, MEASURE);
    println!("uncoupled: {:.2} and {:.2} Mbit/s, Jain {:.3}", rates[0] / 1e6, rates[1] / 1e6, jain(&rates));
    let uncoupled = jain(&rates);
    arrive_whole(alone.into_iter().flatten());

    for weights in [[1, 1], [1, 2]] {
        let controller = site.controller(&weights);
        let agents = site.coupled_agents("reno");
        let tenants = vec![site.streams(0, 1), site.streams(1, 4)];
        std::thread::sleep(SETTLE);
        controller.since("sample");
        let rates = rates_bps(&tenants, MEASURE);
        let granted = granted_jain(&controller.since("sample"), weights);
        let fair: Vec<f64> = rates.iter().zip(weights).map(|(r, w)| r / f64::from(w)).collect();
        println!(
            "coupled, weights {weights:?}: {:.2} and {:.2} Mbit/s, Jain {:.3} of rate by weight, {granted:.4} of windows",
            rates[0] / 1e6,
            rates[1] / 1e6,
            jain(&fair)
        );
        assert!(granted >= FAIR, "weights {weights:?}: {granted}");
        for (n, guest) in site.guests.iter().enumerate() {
            assert!(site.in_use(n).contains(&guest.prefix()), "{}", site.in_use(n));
        }
        arrive_whole(tenants.into_iter().flatten());
        for agent in agents {
            let last = agent.finish("detached");
            println!("agent: {last}");
            assert!(last["flows"]["taken"].as_u64() > Some(0), "{last}");
            assert_eq!(last["flows"]["lost"], 0, "{last}");
        }
        println!("controller: {}", controller.finish("stopped"));
        assert!(jain(&fair) > uncoupled, "coupling is to make it fairer");
    }
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn weights_change_while_flows_run() {
    if !can_run("weights_change_while_flows_run") {
        return;
    }
    let site = Site::create('w', LINK, 2, "reno");
    let file = site.list_guests(&[1, 1]);
    let controller = site.controller_of(&file);
    let agents = site.coupled_agents("reno");
    let tenants = vec![site.streams(0, 2), site.streams(1, 1)];
    let mut ratios = Vec::new();
    for weight in [1, 4, 2] {
        site.list_guests(&[1, weight]);
        if !ratios.is_empty() {
            controller.find("weight", |v| v["weight"] == weight);
        }
        std::thread::sleep(SETTLE);
        controller.since("sample");
        let rates = rates_bps(&tenants, MEASURE);
        let granted = granted_jain(&controller.since("sample"), [1, weight]);
        println!(
            "weights 1:{weight}: {:.2} and {:.2} Mbit/s, 1 : {:.2}, Jain {granted:.4} of windows",
            rates[0] / 1e6,
            rates[1] / 1e6,
            rates[1] / rates[0]
        );
        assert!(granted >= FAIR, "weights 1:{weight}: {granted}");
        ratios.push(rates[1] / rates[0]);
    }
    assert!(ratios[0] < ratios[2] && ratios[2] < ratios[1], "{ratios:?}");

    // a mistake changes nothing
    std::fs::write(&file, "[[guest]]\nweight = 0\n").expect("a writable folder");
    controller.signal(libc::SIGHUP);
    let said = controller.find("sample", |v| v["guests"][1]["flows"] == 1);
    assert_eq!(said["guests"][1]["weight"], 2, "{said}");
    arrive_whole(tenants.into_iter().flatten());
    agents.into_iter().for_each(|a| drop(a.finish("detached")));
    controller.finish("stopped");
}

#[test]
fn guests_go_on_by_themselves_whatever_becomes_of_their_host() {
    if !can_run("guests_go_on_by_themselves_whatever_becomes_of_their_host") {
        return;
    }
    let site = Site::create('p', LINK, 1, "reno");
    let controller = site.controller(&[1]);
    let agent = site.guests[0].agent("reno");
    agent.event("coupled");
    let tenants = vec![site.streams(0, 2)];
    let goes_on = || go_on(&tenants, 1 << 20);
    agent.find("sample", is_taken);
    goes_on();

    // nothing gets through
    let fallbacks = |v: &Value| v["flows"]["fallbacks"].as_u64().expect("a number");
    let before = fallbacks(&agent.event("sample"));
    let stalled = Instant::now();
    site.guests[0].relay.stall(true);
    agent.find("sample", |v| fallbacks(v) >= before + 2);
    println!("stalled: both flows went on by themselves {} ms later", stalled.elapsed().as_millis());
    println!("stalled: {}", agent.event("alone")["why"]);
    goes_on();
    site.guests[0].relay.stall(false);
    agent.event("coupled");
    goes_on();

    // nonsense
    site.guests[0].relay.say_to_guest(b"open the window, please");
    let why = agent.event("alone")["why"].to_string();
    assert!(why.contains("nonsense"), "{why}");
    goes_on();
    agent.event("coupled");

    // killed, and another one started
    controller.kill();
    println!("killed: {}", agent.event("alone")["why"]);
    goes_on();
    let controller = site.controller(&[1]);
    agent.event("coupled");
    let sample = controller.find("sample", |v| v["guests"][0]["flows"] == 2);
    println!("started again: {sample}");
    goes_on();

    // ended properly, while the agent goes on
    controller.finish("stopped");
    agent.event("alone");
    goes_on();

    // the agent killed, and another one started, for new flows
    let controller = site.controller(&[1]);
    agent.event("coupled");
    agent.kill();
    goes_on();
    let agent = site.guests[0].agent("reno");
    agent.event("coupled");
    let more = site.streams(0, 1);
    controller.find("sample", |v| v["guests"][0]["flows"] == 1);
    goes_on();
    let last = agent.finish("detached");
    println!("agent: {last}");
    goes_on();
    arrive_whole(tenants.into_iter().flatten().chain(more));
}

/// The windows that the guest's kernel gives its connections, in segments.
fn windows_segs(site: &Site) -> Vec<u32> {
    let said = site.in_use(0);
    let words = said.split_whitespace().filter_map(|word| word.strip_prefix("cwnd:"));
    words.map(|segs| segs.parse().expect("a number")).collect()
}

/// What counts is when the last answer came, not whether there is a program to take it back.
#[test]
fn flows_outgrow_their_last_grant_when_no_agent_is_left_to_revoke_it() {
    if !can_run("flows_outgrow_their_last_grant_when_no_agent_is_left_to_revoke_it") {
        return;
    }
    // thirteen segments for each, of which two flows do not fill the link: nothing is lost
    let (grant_bytes, grant_segs) = (20_000, 13);
    let site = Site::create('k', LINK, 1, "reno");
    let host = spendthrift(site.guests[0].relay.host_path(), grant_bytes);
    let agent = site.guests[0].agent("reno");
    agent.event("coupled");
    let tenants = vec![site.streams(0, 2)];
    agent.find("sample", |v| v["flows"]["taken"].as_u64() > Some(20));
    let have = |is_it: &dyn Fn(u32) -> bool| {
        until("both windows are so large", || {
            let windows = windows_segs(&site);
            windows.len() == 2 && windows.iter().all(|w| is_it(*w))
        });
    };
    have(&|w| w == grant_segs);
    // so that the host is not notified, and cannot notify the agent
    site.guests[0].relay.stall(true);
    agent.kill();
    have(&|w| w > grant_segs);
    drop(host);
    arrive_whole(tenants.into_iter().flatten());
}

/// A host is believed as far as one could go that couples flows: not with a gigabyte for ten segments, and not if losses
/// change nothing for it.
#[test]
fn a_host_that_grants_what_it_likes_is_given_up() {
    if !can_run("a_host_that_grants_what_it_likes_is_given_up") {
        return;
    }
    for (window_bytes, why) in [(1 << 30, "proportion"), (8 << 20, "losses")] {
        let site = Site::create('g', LINK, 1, "reno");
        let host = spendthrift(site.guests[0].relay.host_path(), window_bytes);
        let agent = site.guests[0].agent("reno");
        agent.event("coupled");
        let tenants = vec![site.streams(0, 1)];
        let alone = agent.find("alone", |v| v["why"] != "the host ended the session");
        assert!(alone["why"].as_str().expect("text").contains(why), "{alone}");
        go_on(&tenants, 1 << 20);
        drop(host);
        let last = agent.finish("detached");
        println!("{window_bytes} bytes for each flow: {last}");
        assert_eq!(last["flows"]["taken"] == 0, why == "proportion", "{last}");
        arrive_whole(tenants.into_iter().flatten());
    }
}

#[test]
fn a_guest_that_falls_silent_leaves_its_share_until_it_speaks_again() {
    if !can_run("a_guest_that_falls_silent_leaves_its_share_until_it_speaks_again") {
        return;
    }
    let site = Site::create('s', LINK, 2, "reno");
    let controller = site.controller(&[1, 1]);
    let agents = site.coupled_agents("reno");
    let tenants = vec![site.streams(0, 1), site.streams(1, 2)];
    let flows = |v: &Value, n: u64| v["guests"][0]["flows"] == 1 && v["guests"][1]["flows"] == n;
    controller.find("sample", |v| flows(v, 2));
    site.guests[1].relay.stall(true);
    let without = controller.find("sample", |v| {
        let (own, sum) = (v["guests"][0]["cwnd_bytes"].as_f64(), v["cwnd_bytes"].as_f64());
        flows(v, 0) && own.expect("a number") > 0.9 * sum.expect("a number")
    });
    println!("silent: {without}");
    agents[1].event("alone");
    site.guests[1].relay.stall(false);
    agents[1].event("coupled");
    println!("speaks again: {}", controller.find("sample", |v| flows(v, 2)));
    arrive_whole(tenants.into_iter().flatten());
    agents.into_iter().for_each(|a| drop(a.finish("detached")));
    controller.finish("stopped");
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn five_hundred_flows_of_a_guest_leave_another_its_share() {
    if !can_run("five_hundred_flows_of_a_guest_leave_another_its_share") {
        return;
    }
    let site = Site::create('h', WIDE, 2, "reno");
    let controller = site.controller(&[1, 1]);
    let agents = site.coupled_agents("reno");
    let mut tenants = vec![site.streams(0, 1), Vec::new()];
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..25).map(|_| scope.spawn(|| site.streams(1, 20))).collect();
        tenants[1].extend(started.into_iter().flat_map(|t| t.join().expect("the guest serves")));
    });
    controller.find("sample", |v| v["guests"][1]["flows"] == 500);
    std::thread::sleep(SETTLE);
    controller.since("sample");
    let rates = rates_bps(&tenants, MEASURE);
    let samples = controller.since("sample");
    let bytes = |v: &Value| v["cwnd_bytes"].as_f64().expect("a number");
    let mut shares: Vec<f64> = samples.iter().map(|v| bytes(&v["guests"][0]) / bytes(v)).collect();
    shares.sort_by(f64::total_cmp);
    println!(
        "one flow against five hundred: {:.1} and {:.1} Mbit/s; granted to the one: median {:.3} of the group; {}",
        rates[0] / 1e6,
        rates[1] / 1e6,
        shares[shares.len() / 2],
        samples[samples.len() - 1]
    );
    assert!((0.45..0.55).contains(&shares[shares.len() / 2]), "its share is a half: {shares:?}");
    arrive_whole(tenants.into_iter().flatten());
    for agent in agents {
        let last = agent.finish("detached");
        println!("agent: {last}");
        assert_eq!((&last["flows"]["lost"], &last["agent"]["refused"]), (&0.into(), &0.into()), "{last}");
    }
    controller.finish("stopped");
}

#[test]
fn flows_beyond_the_configured_number_go_on_by_themselves() {
    if !can_run("flows_beyond_the_configured_number_go_on_by_themselves") {
        return;
    }
    let site = Site::create('m', LINK, 1, "reno");
    let controller = site.controller_with(&["--flows-most", "2"], &[1]);
    let agent = site.guests[0].agent("reno");
    agent.event("coupled");
    let tenants: Vec<Vec<Stream>> = site.streams(0, 5).into_iter().map(|s| vec![s]).collect();
    let sample = controller.find("sample", |v| v["guests"][0]["refused"].as_u64() >= Some(3));
    assert_eq!(sample["guests"][0]["flows"], 2, "{sample}");
    go_on(&tenants, 1 << 18);
    arrive_whole(tenants.into_iter().flatten());
    let last = agent.finish("detached");
    println!("agent: {last}");
    assert!(last["agent"]["refused"].as_u64() >= Some(3), "{last}");
    controller.finish("stopped");
}

#[test]
fn a_guest_that_lies_gets_its_share_and_no_more() {
    if !can_run("a_guest_that_lies_gets_its_share_and_no_more") {
        return;
    }
    let site = Site::create('y', LINK, 2, "reno");
    let controller = site.controller(&[1, 1]);
    let agent = site.guests[0].agent("reno");
    agent.event("coupled");
    let tenants = vec![site.streams(0, 2)];
    std::thread::sleep(SETTLE);
    let honest = rates_bps(&tenants, MEASURE)[0];
    let liar = liar(site.guests[1].relay.guest_path());
    controller.find("sample", |v| v["guests"][1]["flows"].as_u64() > Some(1));
    let mut shares = Vec::new();
    let lied_to = rates_bps(&tenants, MEASURE)[0];
    for _ in 0..20 {
        let sample = controller.event("sample");
        let cwnd = |n: usize| sample["guests"][n]["cwnd_bytes"].as_f64().expect("a number");
        shares.push(cwnd(1) / (cwnd(0) + cwnd(1)));
    }
    drop(liar);
    shares.sort_by(f64::total_cmp);
    println!(
        "honest guest: {:.2} Mbit/s without the liar, {:.2} beside it; granted to the liar: median {:.3} of all, most {:.3}",
        honest / 1e6,
        lied_to / 1e6,
        shares[shares.len() / 2],
        shares[shares.len() - 1]
    );
    // shares are sent when flows report, and between two reports the group may have moved by a half
    assert!(shares[shares.len() / 2] < 0.6, "{shares:?}");
    arrive_whole(tenants.into_iter().flatten());
    agent.finish("detached");
    controller.finish("stopped");
}
