//! Interfaces that come and go, and others of the same name; and several agents, or `windlass attach`, at one interface.

use crate::{
    control::{attached, is_controlled, policy, put, release, stop, talker, with_agent, with_talker},
    net::{Net, with_transfer},
};
use windlass_tests::{
    is_root_or_skip,
    process::{Process, until},
    windlass_path,
};

#[test]
fn a_deleted_interface_ends_control_with_a_word() {
    if !is_root_or_skip("a_deleted_interface_ends_control_with_a_word") {
        return;
    }
    let net = Net::create("cubic");
    let mut attach = Process::start(&mut net.windlass(&["attach", "r1"]));
    attach.says("r1: ");
    net.middle.run(&["ip", "link", "del", "r1"]).expect("iproute2");
    attach.says("the interface is gone");
    assert!(attach.wait().success());
}

#[test]
fn what_is_attached_is_not_attached_twice() {
    if !is_root_or_skip("what_is_attached_is_not_attached_twice") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    let (mut first, _) = attached(&net);
    let clock = net.clocks();
    let who =
        format!("already under control, by a `windlass attach` or another agent (process {})", first.id());
    for (words, word) in [
        (&["attach", "r1"][..], who.as_str()),
        (&["agent", "--policy", file.to_str().expect("UTF-8")], &who),
        (&["flows"], "has r1"),
        (&["detach", "r1"], "under no agent's control"),
    ] {
        let out = net.windlass(words).output().expect("windlass runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(word) && said.lines().count() == 1, "{words:?}: {said}");
    }
    assert_eq!(net.clocks(), clock, "nobody touched the first one's clock");
    first.end(libc::SIGKILL);
    attached(&net).0.end(libc::SIGKILL);
    assert_eq!(net.clocks().len(), 2, "of one that was killed the clock is left");
    net.answer(&["detach", "r1"]);
    assert_eq!(net.clocks(), Vec::<String>::new());
    attached(&net).0.end(libc::SIGINT);
    assert!(!net.record(":agent").exists(), "nor is its claim");
}

#[test]
fn interfaces_that_come_and_go_do_not_end_the_agent() {
    if !is_root_or_skip("interfaces_that_come_and_go_do_not_end_the_agent") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[[rule]]\nname = \"all\"\nmatch.iface = \"r[17]\"\nalgorithm = \"bbr\"\n";
    let file = put(folder.path(), text);
    let mut agent = net.agent(&file, "under control");
    let mut pins_become = |are_there: bool| {
        until(&format!("pins: {are_there}"), || {
            assert!(agent.is_running(), "the agent goes on");
            net.pins_of("r7").exists() == are_there
        });
    };
    // deleted when the agent has begun to attach: there is something of its own
    for _ in 0..5 {
        net.middle.run(&["ip", "link", "add", "r7", "type", "veth", "peer", "name", "x7"]).expect("iproute2");
        pins_become(true);
        net.middle.run(&["ip", "link", "del", "r7"]).expect("iproute2");
        pins_become(false);
    }
    assert_eq!(net.clocks().len(), 2, "that of r1 goes on");
    is_controlled(&net);
    release(&net, agent);
}

/// Waits until the interface has another clock than these, and its datapath is pinned; the agent runs on.
fn is_controlled_anew(net: &Net, agent: &mut Process, clocks: &[String]) {
    until("control with another clock", || {
        assert!(agent.is_running(), "the agent goes on");
        net.is_controlled_anew(clocks)
    });
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn another_interface_of_the_same_name_is_controlled_anew() {
    if !is_root_or_skip("another_interface_of_the_same_name_is_controlled_anew") {
        return;
    }
    let (net, _folder, file, mut agent) = with_agent("bbr");
    is_controlled(&net);
    // while the agent is there
    let clocks = net.clocks();
    net.replace_interface("cubic");
    is_controlled_anew(&net, &mut agent, &clocks);
    is_controlled(&net);
    // and while it is not
    agent.end(libc::SIGKILL);
    net.replace_interface("cubic");
    agent = net.agent(&file, "under control");
    assert_eq!(net.clocks().len(), 2, "of the old interface none");
    is_controlled(&net);
    release(&net, agent);
}

/// A virtual machine's tap is made anew in the middle of a transfer. What was lost with it the server mends; to the new interface
/// the connection is an older one.
#[test]
fn a_transfer_goes_on_over_the_interface_that_replaces_its_own() {
    if !is_root_or_skip("a_transfer_goes_on_over_the_interface_that_replaces_its_own") {
        return;
    }
    let (net, _folder, _file, mut agent) = with_agent("bbr");
    with_transfer(&net, |progress| {
        let clocks = net.clocks();
        net.replace_interface("cubic");
        is_controlled_anew(&net, &mut agent, &clocks);
        progress();
        let flows = net.flows();
        assert!(flows.iter().all(|f| f["mode"] == "watch"), "{flows:?}");
    });
    release(&net, agent);
}

/// Any agent removes what is pinned for interfaces that are gone, also those of other namespaces, whose clocks it cannot reach; but
/// not what another one has that runs.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn the_clock_goes_though_another_namespace_removed_the_pins() {
    if !is_root_or_skip("the_clock_goes_though_another_namespace_removed_the_pins") {
        return;
    }
    let (net, _folder, file, mut agent) = with_agent("bbr");
    let other = Net::create("cubic");
    let clocks = net.clocks();
    // while the agent looks elsewhere
    stop(&agent);
    net.replace_interface("cubic");
    other.agent(&file, "under control").end(libc::SIGKILL);
    assert!(net.record("").exists(), "that is its own to look after");
    agent.signal(libc::SIGCONT);
    is_controlled_anew(&net, &mut agent, &clocks);
    // and while there is none
    agent.end(libc::SIGKILL);
    net.replace_interface("cubic");
    other.agent(&file, "taken over").end(libc::SIGKILL);
    assert!(!net.record("").exists(), "the other one removed it");
    agent = net.agent(&file, "under control");
    assert_eq!(net.clocks().len(), 2, "of the old interface none");
    is_controlled(&net);
    release(&net, agent);
    other.answer(&["detach", "--all"]);
}

/// Of two agents that are there, one is late to see that another interface has the name now.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_agent_leaves_alone_what_another_one_made_for_the_next_interface() {
    if !is_root_or_skip("an_agent_leaves_alone_what_another_one_made_for_the_next_interface") {
        return;
    }
    let (net, _folder, file, mut late) = with_talker("bbr");
    stop(&late);
    net.replace_interface("cubic");
    let next = net.agent(&file, "under control");
    let clocks = net.clocks();
    late.signal(libc::SIGCONT);
    late.says("gone");
    let complaint = late.complaint();
    assert!(complaint.contains("another agent (process "), "{complaint}");
    assert_eq!(net.clocks(), clocks, "nothing was made anew");
    is_controlled(&net);
    late.end(libc::SIGKILL);
    release(&net, next);
}

/// Each would put its own policy in force, and it would not be known which it is.
#[test]
fn of_two_agents_one_has_an_interface_until_it_ends() {
    if !is_root_or_skip("of_two_agents_one_has_an_interface_until_it_ends") {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    for _ in 0..3 {
        let mut agents = [talker(&net, &file), talker(&net, &file)];
        // they may have removed what is left of other namespaces before
        let of_r1 =
            |agent: &Process| std::iter::from_fn(|| agent.line()).find(|line| line.starts_with("r1: "));
        let said = agents.each_ref().map(of_r1);
        let at = usize::from(said[0].is_none());
        assert_eq!((said[at].as_deref(), &said[1 - at]), (Some("r1: under control"), &None));
        let [first, second] = &mut agents;
        let (has_it, other) = if at == 0 { (first, second) } else { (second, first) };
        assert_eq!(other.wait().code(), Some(2));
        let complaint = other.complaint();
        let who = format!("another agent (process {})", has_it.id());
        assert!(complaint.contains(&who), "{complaint}");
        is_controlled(&net);
        has_it.end(libc::SIGKILL);
        net.agent(&file, "taken over").end(libc::SIGKILL);
        net.answer(&["detach", "--all"]);
    }
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn what_is_pinned_for_interfaces_that_are_gone_is_removed() {
    if !is_root_or_skip("what_is_pinned_for_interfaces_that_are_gone_is_removed") {
        return;
    }
    let [gone, alive, net] = [Net::create("cubic"), Net::create("cubic"), Net::create("cubic")];
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    for left in [&gone, &alive] {
        left.agent(&file, "under control").end(libc::SIGKILL);
    }
    gone.middle.run(&["ip", "link", "del", "r1"]).expect("iproute2");
    // of one that is not pinned there is a claim
    let mut attach = Process::start(&mut gone.windlass(&["attach", "r2", "--json"]));
    attach.event("attached");
    let claim = gone.record_of("r2", ":agent");
    assert!(claim.exists(), "{}", claim.display());
    attach.end(libc::SIGKILL);
    net.agent(&file, "under control").end(libc::SIGTERM);
    assert!(!gone.pins().exists() && !claim.exists());
    assert!(alive.pins().exists() && alive.record("").exists());
    is_controlled(&alive);
    for net in [&alive, &net] {
        net.answer(&["detach", "--all"]);
    }
}

/// As while another agent pins its datapath, or was killed meanwhile. What libbpf says of a pin that is not there is nothing to people.
#[test]
fn pins_of_others_that_are_not_all_there_are_passed_over_in_silence() {
    let test = "pins_of_others_that_are_not_all_there_are_passed_over_in_silence";
    if !is_root_or_skip(test) {
        return;
    }
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file =
        put(folder.path(), "[[rule]]\nname = \"all\"\nmatch.iface = \"nothing*\"\nalgorithm = \"bbr\"\n");
    std::fs::create_dir_all(net.pins_of("nothing0")).expect("a folder of pins");
    let agent = talker(&net, &file);
    let complaint = agent.complaint();
    assert!(complaint.contains("waiting for one"), "{complaint}");
}

/// As a container with /run of the host, or `ip netns exec`, has it: what is pinned for others is not seen there.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn notes_of_interfaces_whose_pins_are_in_another_bpffs_are_kept() {
    if !is_root_or_skip("notes_of_interfaces_whose_pins_are_in_another_bpffs_are_kept") {
        return;
    }
    let (net, folder, file, mut agent) = with_agent("bbr");
    agent.end(libc::SIGKILL);
    let notes = ["", ":build", ":index", ":rules", ":pinned"].map(|what| net.record(what));
    let other = Net::create("cubic");
    let other_file = folder.path().join("other.toml");
    let rule = "[[rule]]\nname = \"other\"\nmatch = { iface = \"nothing0\" }\nalgorithm = \"bbr\"\n";
    std::fs::write(&other_file, rule).expect("a policy");
    let mut command = std::process::Command::new("ip");
    command.args(["netns", "exec", other.middle.name()]).arg(windlass_path());
    let mut blind = Process::start(command.args(["agent", "--policy"]).arg(&other_file));
    blind.complains_of("no interface");
    blind.end(libc::SIGTERM);
    for note in &notes {
        assert!(note.exists(), "{}", note.display());
    }
    agent = net.agent(&file, "taken over");
    release(&net, agent);
    for note in &notes {
        assert!(!note.exists(), "{}", note.display());
    }
}

/// As VLANs' interfaces have them; a file system for BPF takes no names with dots.
#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_interface_with_a_dot_in_its_name_is_controlled() {
    if !is_root_or_skip("an_interface_with_a_dot_in_its_name_is_controlled") {
        return;
    }
    const IFACE: &str = "rvs1.100";
    let net = Net::create("cubic");
    let ip = |words: &[&str]| drop(net.middle.run(words).expect("iproute2"));
    ip(&["ip", "link", "set", "r1", "down"]);
    ip(&["ip", "link", "set", "r1", "name", IFACE]);
    ip(&["ip", "link", "set", IFACE, "up"]);
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("[[rule]]\nname = \"all\"\nmatch.iface = \"{IFACE}\"\nalgorithm = \"bbr\"\n");
    let file = put(folder.path(), &text);
    let mut agent = net.agent(&file, "rvs1.100: under control");
    with_transfer(&net, |progress| {
        progress();
        agent.end(libc::SIGKILL);
        agent = net.agent(&file, "rvs1.100: taken over");
        let flows = net.flows();
        assert!(flows[0]["iface"] == IFACE && flows[0]["mode"] == "transparent", "{flows:?}");
        let look = net.answer(&["top", "--json", "--count", "1"]);
        assert!(look.contains(IFACE), "{look}");
    });
    agent.end(libc::SIGKILL);
    assert_eq!(net.answer(&["detach", IFACE]), "rvs1.100: released\n");
    assert!(net.clocks().is_empty() && !net.pins_of("rvs1:100").exists(), "nothing is left");
    // and the next agent that starts, anywhere, removes what is left of one that is gone
    net.agent(&file, "under control").end(libc::SIGKILL);
    assert!(net.pins_of("rvs1:100").exists());
    ip(&["ip", "link", "del", IFACE]);
    let other = Net::create("cubic");
    other.agent(&policy(folder.path(), "bbr"), "under control").end(libc::SIGTERM);
    assert!(!net.pins_of("rvs1:100").exists());
    other.answer(&["detach", "--all"]);
}
