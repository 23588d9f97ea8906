//! What becomes of interfaces and cgroups that an agent controls or has controlled: under another policy, or when the
//! user releases them.

use crate::{
    control::{put, talker, talker_with, too_many_rules_and},
    native::{cgroup_or_skip, own_prefix},
    net::Net,
};
use std::fs;
use windlass_agent::PinnedSelector;
use windlass_tests::{
    is_root_or_skip,
    process::{OF_EARLIER, Process},
    windlass,
};

fn of_iface(iface: &str) -> String {
    format!("[[rule]]\nname = \"{iface}\"\nmatch.iface = \"{iface}\"\nalgorithm = \"reno\"\n")
}

fn of_cgroup(name: &str) -> String {
    format!(
        "[[rule]]\nname = \"sockets\"\nmode = \"native\"\nalgorithm = \"reno\"\nmatch.cgroup = \"{name}\"\n"
    )
}

/// A policy that fails changes nothing, for what the user had released either.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_released_cgroup_is_left_alone_until_another_policy_is_in_force() {
    let test = "a_released_cgroup_is_left_alone_until_another_policy_is_in_force";
    if !is_root_or_skip(test) {
        return;
    }
    let Some(cgroup) = cgroup_or_skip(test) else { return };
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let name = cgroup.path().to_str().expect("UTF-8");
    let of_cgroup = of_cgroup(name);
    let sound = put(folder.path(), &(of_iface("r1") + &of_cgroup));
    let prefix = own_prefix();
    let mut agent = talker_with(&net, &sound, &["--prefix", &prefix]);
    let under_control = format!("{name}: under control");
    agent.says(&under_control);
    let out = windlass().args(["detach", "--cgroup", name]).output().expect("windlass runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let complaint = agent.complaint();
    assert!(complaint.contains("was released by another process"), "{complaint}");
    too_many_rules_and(folder.path(), &of_cgroup);
    let complaint = agent.complaint();
    assert!(complaint.contains("289 rules") && complaint.contains("stays"), "{complaint}");
    // what is in force already changes nothing, another one does
    put(folder.path(), &(of_iface("r1").replace("reno", "cubic") + &of_cgroup));
    let so_far: Vec<String> =
        std::iter::from_fn(|| agent.line()).take_while(|line| !line.contains("in force")).collect();
    assert!(!so_far.contains(&under_control), "{so_far:?}");
    agent.says(&under_control);
    agent.end(libc::SIGTERM);
    assert!(PinnedSelector::of(cgroup.path()).is_none(), "released");
}

/// Whichever goes last: the agent ends, with the status that reports so, when nothing is left to it.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_agent_ends_with_the_last_of_its_interfaces_and_cgroups() {
    let test = "an_agent_ends_with_the_last_of_its_interfaces_and_cgroups";
    if !is_root_or_skip(test) {
        return;
    }
    let Some(cgroup) = cgroup_or_skip(test) else { return };
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let name = cgroup.path().to_str().expect("UTF-8");
    let prefix = own_prefix();
    let sockets = of_cgroup(name);
    let both = of_iface("r1") + &sockets;
    let (iface, cgroup) = (&["detach", "r1"][..], &["detach", "--cgroup", name][..]);
    for (policy, releases) in
        [(&sockets, &[cgroup][..]), (&both, &[iface, cgroup]), (&both, &[cgroup, iface])]
    {
        let mut agent = talker_with(&net, &put(folder.path(), policy), &["--prefix", &prefix]);
        agent.says(&format!("{name}: under control"));
        for words in releases {
            net.answer(words);
            let complaint = agent.complaint();
            assert!(complaint.contains("was released by another process"), "{words:?}: {complaint}");
        }
        let last = agent.complaint();
        assert!(last.contains("nothing is left under control"), "{releases:?}: {last}");
        assert_eq!(agent.wait().code(), Some(2), "{releases:?}");
    }
}

/// It was not released: the agent waits for one of its name.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_agent_waits_for_a_cgroup_that_went() {
    let test = "an_agent_waits_for_a_cgroup_that_went";
    if !is_root_or_skip(test) {
        return;
    }
    let Some(cgroup) = cgroup_or_skip(test) else { return };
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let name = cgroup.path().to_str().expect("UTF-8");
    let file = put(folder.path(), &(of_iface("r1") + &of_cgroup(name)));
    let mut agent = talker_with(&net, &file, &["--prefix", &own_prefix()]);
    agent.says(&format!("{name}: under control"));
    // that one is the last that was released, and not the last that was there
    net.answer(&["detach", "r1"]);
    let complaint = agent.complaint();
    assert!(complaint.contains("'r1' was released by another process"), "{complaint}");
    let some_looks_later = |agent: &Process, text: &str| {
        put(folder.path(), text);
        let complaint = agent.complaint();
        assert!(complaint.contains("stays"), "{complaint}");
    };
    some_looks_later(&mut agent, "no policy");
    fs::remove_dir(cgroup.path()).expect("an empty cgroup");
    agent.says(&format!("{name}: the cgroup is gone"));
    some_looks_later(&mut agent, "none either");
    fs::create_dir(cgroup.path()).expect("a cgroup of the same name");
    agent.says(&format!("{name}: under control"));
    agent.end(libc::SIGTERM);
}

#[test]
fn to_release_nothing_is_reported_as_such() {
    if !is_root_or_skip("to_release_nothing_is_reported_as_such") {
        return;
    }
    let net = Net::create("cubic");
    assert!(net.answer(&["detach", "--all"]).contains("no interface"));
    assert_eq!(net.answer(&["detach", "--all", "--json"]).trim(), "{\"released\":[]}");
}

/// The last line of the log must not be a complaint of what is no longer so.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn a_policy_that_is_put_back_as_it_was_is_reported_as_in_force() {
    if !is_root_or_skip("a_policy_that_is_put_back_as_it_was_is_reported_as_in_force") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let mut agent = talker(&net, &put(folder.path(), &of_iface("r1")));
    agent.says("under control");
    put(folder.path(), "x");
    assert!(agent.complaint().contains("the policy in force stays"));
    put(folder.path(), &of_iface("r1"));
    agent.says("in force as before");
    agent.end(libc::SIGTERM);
}

#[test]
fn an_interface_that_no_rule_names_any_more_is_released() {
    if !is_root_or_skip("an_interface_that_no_rule_names_any_more_is_released") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let mut agent = talker(&net, &put(folder.path(), &of_iface("r[12]")));
    agent.says("r2: under control");
    put(folder.path(), &of_iface("r2"));
    agent.says("r1: released");
    let is_pinned = |iface| net.pins_of(iface).exists();
    assert!(!is_pinned("r1") && is_pinned("r2"));
    assert_eq!(net.clocks().len(), 2, "of r2");
    put(folder.path(), &of_iface("r[12]"));
    agent.says("r1: under control");
    agent.end(libc::SIGTERM);
}

#[test]
fn an_agent_names_what_an_earlier_one_left_and_its_policy_does_not_name() {
    let test = "an_agent_names_what_an_earlier_one_left_and_its_policy_does_not_name";
    if !is_root_or_skip(test) {
        return;
    }
    let Some(cgroup) = cgroup_or_skip(test) else { return };
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let name = cgroup.path().to_str().expect("UTF-8");
    let of_cgroup = of_cgroup(name);
    let file = put(folder.path(), &(of_iface("r[12]") + &of_cgroup));
    let prefix = own_prefix();
    let mut first = net.agent_with(&file, &["--prefix", &prefix], &format!("{name}: under control"));
    let smaller = folder.path().join("smaller");
    fs::create_dir(&smaller).expect("a writable folder");
    first.end(libc::SIGTERM);
    let mut agent = talker(&net, &put(&smaller, &of_iface("r2")));
    let of_r1 = agent.complains_of(&format!("r1 {OF_EARLIER}"));
    assert!(of_r1.contains("`windlass detach r1`"), "{of_r1}");
    agent.complains_of(&format!("`windlass detach --cgroup {name}`"));
    agent.end(libc::SIGTERM);
    net.answer(&["detach", "--all"]);
    net.answer(&["native", "unload", "--prefix", &prefix]);
}
