//! Guests and their controller end to end on this kernel: two guests are two network namespaces and cgroups, each with
//! the native home loaded under names of its own, and sockets in place of their ports.

mod liar;
mod relay;
mod site;

use liar::Liar;
use serde_json::Value;
use site::Site;
use std::time::{Duration, Instant};
use windlass_tests::{
    is_root_or_skip,
    process::Process,
    streams::{jain, rates_bps, received_bytes},
};

const LINK: &str = "rate = \"10 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"";
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

/// The guest's flows have been answered.
fn is_taken(sample: &Value) -> bool {
    sample["flows"]["taken"].as_u64() > Some(0)
}

#[test]
fn two_guests_share_a_bottleneck_whatever_the_number_of_their_flows() {
    if !can_run("two_guests_share_a_bottleneck_whatever_the_number_of_their_flows") {
        return;
    }
    let site = Site::create('f', LINK, 2, "reno");
    let mut alone = vec![site.streams(0, 1), site.streams(1, 4)];
    std::thread::sleep(SETTLE);
    let rates = rates_bps(&alone, MEASURE);
    println!("uncoupled: {:.2} and {:.2} Mbit/s, Jain {:.3}", rates[0] / 1e6, rates[1] / 1e6, jain(&rates));
    let uncoupled = jain(&rates);
    alone.drain(..).flatten().for_each(|s| assert!(s.finish().expect("whole payloads") > 0));

    for weights in [[1, 1], [1, 2]] {
        let controller = site.controller(&weights);
        let agents: Vec<Process> = site.guests.iter().map(|g| g.agent("reno")).collect();
        agents.iter().for_each(|a| drop(a.event("coupled")));
        let mut tenants = vec![site.streams(0, 1), site.streams(1, 4)];
        std::thread::sleep(SETTLE);
        let rates = rates_bps(&tenants, MEASURE);
        let fair: Vec<f64> = rates.iter().zip(weights).map(|(r, w)| r / f64::from(w)).collect();
        println!(
            "coupled, weights {weights:?}: {:.2} and {:.2} Mbit/s, Jain {:.3} of rate by weight",
            rates[0] / 1e6,
            rates[1] / 1e6,
            jain(&fair)
        );
        for (n, guest) in site.guests.iter().enumerate() {
            assert!(site.in_use(n).contains(&guest.prefix()), "{}", site.in_use(n));
        }
        tenants.drain(..).flatten().for_each(|s| assert!(s.finish().expect("whole payloads") > 0));
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
fn weights_change_while_flows_run() {
    if !can_run("weights_change_while_flows_run") {
        return;
    }
    let site = Site::create('w', LINK, 2, "reno");
    let file = site.list_guests(&[1, 1]);
    let controller = site.controller_of(&file);
    let agents: Vec<Process> = site.guests.iter().map(|g| g.agent("reno")).collect();
    agents.iter().for_each(|a| drop(a.event("coupled")));
    let tenants = vec![site.streams(0, 2), site.streams(1, 1)];
    let mut ratios = Vec::new();
    for weight in [1, 4, 2] {
        site.list_guests(&[1, weight]);
        if !ratios.is_empty() {
            controller.find("weight", |v| v["weight"] == weight);
        }
        std::thread::sleep(SETTLE);
        let rates = rates_bps(&tenants, MEASURE);
        println!(
            "weights 1:{weight}: {:.2} and {:.2} Mbit/s, 1 : {:.2}",
            rates[0] / 1e6,
            rates[1] / 1e6,
            rates[1] / rates[0]
        );
        ratios.push(rates[1] / rates[0]);
    }
    assert!(ratios[0] < ratios[2] && ratios[2] < ratios[1], "{ratios:?}");

    // a mistake changes nothing
    std::fs::write(&file, "[[guest]]\nweight = 0\n").expect("a writable folder");
    controller.signal(libc::SIGHUP);
    let said = controller.find("sample", |v| v["guests"][1]["flows"] == 1);
    assert_eq!(said["guests"][1]["weight"], 2, "{said}");
    tenants.into_iter().flatten().for_each(|s| assert!(s.finish().expect("whole payloads") > 0));
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
    let goes_on = || {
        let goal = received_bytes(&tenants)[0] + (1 << 20);
        let end = Instant::now() + Duration::from_secs(60);
        while received_bytes(&tenants)[0] < goal {
            assert!(Instant::now() < end, "the transfers stand still");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
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
    tenants.into_iter().flatten().chain(more).for_each(|s| assert!(s.finish().expect("whole payloads") > 0));
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
    let liar = Liar::start(site.guests[1].relay.guest_path());
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
    // shares are told when flows report, and between two reports the group may have moved by a half
    assert!(shares[shares.len() / 2] < 0.6, "{shares:?}");
    tenants.into_iter().flatten().for_each(|s| assert!(s.finish().expect("whole payloads") > 0));
    agent.finish("detached");
    controller.finish("stopped");
}
