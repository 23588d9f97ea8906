//! Flows of unmodified servers in a group, behind two interfaces: one server has one flow, the other four.

use crate::{
    control::attached_with,
    downloads::Downloads,
    net::{Net, shared_groups},
    site::{Outcome, PLAIN, Place, Setup, nothing_is_left, site_or_skip},
};
use std::{
    fs,
    path::{Path, PathBuf},
};
use windlass_tests::{
    is_root_or_skip,
    process::{Process, until},
    windlass_path,
};

const LINK: &str = "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\nbuffer = \"1 BDP\"";
/// Of each server together, where it matters how much each gets: many times what is lost at once.
const BYTES: u64 = 12_000_000;
/// Where it does not.
const SHORT_BYTES: u64 = 1_500_000;
/// After so many of all, every transfer is long under way.
const SETTLE_BYTES: usize = 5_000_000;

fn policy(name: &str, group: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("windlass-{name}-{}.toml", std::process::id()));
    let text =
        format!("[[rule]]\nname = \"servers\"\nalgorithm = \"reno\"\npaced_servers = \"control\"\n{group}\n");
    fs::write(&path, text).expect("a policy");
    path
}

/// Jain's index of what the two servers got.
fn jain(rates: [f64; 2]) -> f64 {
    let [a, b] = rates;
    (a + b) * (a + b) / (2.0 * (a * a + b * b))
}

/// One flow of the first server and four of the second; rates of the two while both had something to send.
fn share(test: &str, group: &str, flows: &[(usize, u64)]) -> Option<(f64, Outcome)> {
    let mut site = site_or_skip(test, Setup { servers: 2, link: LINK, ..PLAIN })?;
    let policy = policy(test, group);
    site.control_all(&policy);
    let seconds = site.fetch_each(flows);
    let outcome = site.finish();
    fs::remove_file(policy).expect("it was there");
    let last = |server| {
        let own = flows.iter().zip(&seconds).filter(|((s, _), _)| *s == server).map(|(_, s)| *s);
        own.fold(0.0, f64::max)
    };
    let index = jain([BYTES as f64 / last(0), BYTES as f64 / last(1)]);
    println!("{test}: {seconds:.2?} s, Jain index {index:.4}");
    Some((index, outcome))
}

fn one_and_four(bytes: u64) -> Vec<(usize, u64)> {
    [(0, bytes)].into_iter().chain([(1, bytes / 4); 4]).collect()
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn servers_behind_two_interfaces_share_a_group() {
    let test = "servers_behind_two_interfaces_share_a_group";
    let Some((alone, _)) = share(test, "", &one_and_four(BYTES)) else { return };
    let group = "group = { name = \"uplink\", rule = \"ccc\", per = \"interface\" }";
    let (coupled, outcome) = share(test, group, &one_and_four(BYTES)).expect("root as before");
    assert!(coupled > alone && coupled >= 0.99, "{alone} alone, {coupled} coupled");
    assert_eq!(outcome.counter("group_joined"), 5, "{outcome:#?}");
    assert_eq!(outcome.counter("group_refused"), 0);
    assert_eq!(outcome.counter("pass_internal"), 0);
}

/// Behind one interface servers are distinguished by their addresses, and each has its own weight.
#[test]
fn servers_behind_one_interface_have_weights_of_their_own() {
    let test = "servers_behind_one_interface_have_weights_of_their_own";
    let setup = Setup { place: Place::Switched, servers: 2, link: LINK, ..PLAIN };
    let Some(mut site) = site_or_skip(test, setup) else { return };
    let rule = |server: usize, weight: u32| {
        format!(
            "[[rule]]\nname = \"server {server}\"\nmatch = {{ server = \"{}\" }}\nalgorithm = \"reno\"\n\
             paced_servers = \"control\"\n\
             group = {{ name = \"uplink\", rule = \"ccc\", per = \"server\", weight = {weight} }}\n",
            site.address_of(server)
        )
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.toml");
    fs::write(&file, rule(0, 1) + &rule(1, 2)).expect("a writable folder");
    site.control_all(&file);
    // the one that gets more has fewer flows
    let downloads = Downloads::start(&site, &[0, 0, 1]);
    downloads.shares(SETTLE_BYTES);
    let [one, two] = downloads.shares(BYTES as usize);
    drop(downloads);
    let outcome = site.finish();
    let ratio = two / one;
    println!("{test}: 1:{ratio:.2}");
    assert!((1.8..2.2).contains(&ratio), "1:2 became 1:{ratio:.2}");
    assert_eq!(outcome.counter("group_joined"), 3, "{outcome:#?}");
}

/// A group with room for two: the other flows are on their own, and everything arrives.
#[test]
fn a_full_group_refuses_and_the_flow_goes_on() {
    let test = "a_full_group_refuses_and_the_flow_goes_on";
    let group = "group = { name = \"uplink\", rule = \"ccc\", max_members = 2 }";
    let Some((_, outcome)) = share(test, group, &one_and_four(SHORT_BYTES)) else { return };
    assert!(outcome.counter("group_refused") >= 3, "{outcome:#?}");
    assert!(outcome.counter("group_joined") >= 2, "{outcome:#?}");
}

/// Every rule takes real flows through to their end.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn every_rule_couples_flows() {
    for rule in windlass_core::GroupRule::all() {
        let test = format!("every_rule_couples_flows-{}", rule.name());
        let per = if rule.has_shares() { ", per = \"server\"" } else { "" };
        let group = format!("group = {{ name = \"uplink\", rule = \"{}\"{per} }}", rule.name());
        let flows = [(0, SHORT_BYTES), (1, SHORT_BYTES / 2), (1, SHORT_BYTES / 2)];
        let Some((_, outcome)) = share(&test, &group, &flows) else { return };
        assert_eq!(outcome.counter("group_joined"), 3, "{}: {outcome:#?}", rule.name());
    }
}

/// Flows that are idle, or cut off in slow start, leave the group that other interfaces share when theirs is released or
/// deleted.
#[test]
fn members_leave_with_their_interface() {
    if !is_root_or_skip("members_leave_with_their_interface") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.toml");
    let text = "[[rule]]\nname = \"all\"\nmatch = { iface = \"r[12]\", server_port = [7000] }\n\
                algorithm = \"reno\"\npaced_servers = \"control\"\n\
                group = { name = \"g\", rule = \"ccc\", per = \"interface\" }\n";
    fs::write(&file, text).expect("a writable folder");
    type Way<'a> = (&'a str, &'a dyn Fn(&Net));
    let ways: [Way<'_>; 2] = [
        ("detached", &|net| drop(net.answer(&["detach", "r1"]))),
        ("deleted", &|net| drop(net.middle.run(&["ip", "link", "del", "r1"]).expect("iproute2"))),
    ];
    for (way, take_away) in ways {
        let net = Net::create("cubic");
        let mut agent = net.agent(&file, "r2: under control");
        let connections = net.idle_connections(3);
        let flows = net.flows();
        let flow = flows.iter().find(|f| f["iface"] == "r1").expect("a flow");
        let group = &flow["group"];
        assert_eq!(
            (&group["name"], &group["weight"], &group["per"]),
            (&"g".into(), &1.into(), &"interface".into())
        );
        assert!(group["share_bytes"].as_u64().is_some_and(|b| b > 0), "{flow}");
        let table = net.answer(&["flows"]);
        assert!(
            table.contains("1 per interface") && table.contains("group \"g\" (ccc): 3 member(s)"),
            "{table}"
        );
        let before = net.group();
        assert_eq!((before.members, before.sum_weight, before.in_slow_start), (3, 1, 3), "{way}");
        if way == "detached" {
            // or it would take it under control again
            agent.end(libc::SIGKILL);
        }
        take_away(&net);
        until("the group's members leave", || net.group().members == 0);
        let after = net.group();
        assert_eq!((after.members, after.sum_weight, after.in_slow_start), (0, 0, 0), "{way}");
        drop(connections);
        drop(agent);
        net.answer(&["detach", "--all"]);
    }
}

/// A policy of one interface, in that folder.
fn policy_of(folder: &Path, iface: &str) -> PathBuf {
    let file = folder.join(iface);
    let text = format!(
        "[[rule]]\nname = \"all\"\nmatch = {{ iface = \"{iface}\", server_port = [7000] }}\n\
         algorithm = \"reno\"\npaced_servers = \"control\"\n\
         group = {{ name = \"g\", rule = \"ccc\" }}\n"
    );
    fs::write(&file, text).expect("a writable folder");
    file
}

/// No process can have the flows of an `attach` that was killed leave the group that an agent's interfaces share:
/// their places went with it. The agent makes them leave.
#[test]
fn members_leave_when_attach_is_killed() {
    if !is_root_or_skip("members_leave_when_attach_is_killed") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let policy = |iface| policy_of(folder.path(), iface);
    let net = Net::create("cubic");
    let mut agent = net.agent(&policy("r2"), "r2: under control");
    let file = policy("r1");
    let (mut attach, _) = attached_with(&net, &["--policy", file.to_str().expect("UTF-8")]);
    let connections = net.idle_connections(3);
    let before = net.group();
    assert_eq!((before.members, before.sum_weight), (3, 3));
    // of one that was killed earlier, with nothing left in it yet
    let empty = shared_groups(net.namespace()).expect("groups are shared").join("leave999");
    fs::create_dir(&empty).expect("a folder");
    attach.end(libc::SIGKILL);
    until("the group's members and an empty folder leave", || net.group().members == 0 && !empty.exists());
    let after = net.group();
    drop(connections);
    agent.end(libc::SIGKILL);
    net.answer(&["detach", "--all"]);
    assert_eq!((after.members, after.sum_weight, after.in_slow_start), (0, 0, 0));
}

/// One that has another /run, as in a container, sees of an `attach` that lives what it left, and that it lives.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn members_stay_while_attach_lives_whatever_run_the_others_have() {
    if !is_root_or_skip("members_stay_while_attach_lives_whatever_run_the_others_have") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let policy = |iface| policy_of(folder.path(), iface);
    let net = Net::create("cubic");
    let file = policy("r1");
    let (mut attach, _) = attached_with(&net, &["--policy", file.to_str().expect("UTF-8")]);
    let connections = net.idle_connections(3);
    assert_eq!(net.group().members, 3);
    let (windlass, file) = (windlass_path(), policy("r2"));
    let line = format!(
        "mount -t tmpfs tmpfs /run && exec {} attach r2 --policy {}",
        windlass.display(),
        file.display()
    );
    let mut other = Process::start(net.middle.command("unshare").args(["--mount", "sh", "-c", &line]));
    let said = other.line().expect("it says that it controls");
    let members = net.group().members;
    other.end(libc::SIGINT);
    attach.end(libc::SIGINT);
    drop(connections);
    assert!(said.starts_with("r2:"), "{said}");
    assert_eq!(members, 3);
    assert!(!net.has_groups(), "nothing is left");
}

/// Nor does any process couple its groups. Its namespace may go with them, and its number come again.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn groups_of_a_killed_attach_go_with_the_next_one() {
    if !is_root_or_skip("groups_of_a_killed_attach_go_with_the_next_one") {
        return;
    }
    let net = Net::create("cubic");
    let file = policy("left", "group = { name = \"g\", rule = \"ccc\" }");
    for (words, signal) in [
        (&["--policy", file.to_str().expect("UTF-8")][..], libc::SIGKILL),
        (&["--alg", "reno"], libc::SIGINT),
    ] {
        let (mut attach, _) = attached_with(&net, words);
        assert_eq!(net.has_groups(), signal == libc::SIGKILL, "{words:?}");
        attach.end(signal);
    }
    nothing_is_left(&net.middle, "r1");
    fs::remove_file(file).expect("our own");
}
