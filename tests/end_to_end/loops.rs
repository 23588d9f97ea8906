//! What happens to an agent in years, one after the other: killed, given another policy, interfaces that come and go. While a transfer
//! runs, whose every byte is checked; and nothing is left of it.

use crate::{
    control::{is_controlled, policy, put, release},
    net::{Net, shared_groups, with_transfer},
};
use libbpf_rs::libbpf_sys as sys;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::CString,
    fs,
    os::{fd::FromRawFd, unix::ffi::OsStrExt},
    path::Path,
    thread,
    time::{Duration, Instant},
};
use windlass_tests::{
    is_root_or_skip,
    process::{LIMIT, Process, until},
};

/// Enough to meet what is common.
const A_FEW: u32 = 5;
const MANY: u32 = 1000;
/// Of the transfers, which leave the processors to the rest.
const RATE: &str = "50mbit";

/// WINDLASS_LOOPS, or so many.
fn times(usual: u32) -> u32 {
    env::var("WINDLASS_LOOPS").map_or(usual, |text| text.parse().expect("WINDLASS_LOOPS is a number"))
}

/// Something that the kernel keeps: a map, a program or a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    /// As /proc names it.
    kind: String,
    id: u32,
}

impl Kept {
    /// What is pinned there; none: it is not of this kind, or gone.
    fn pinned_at(pin: &Path) -> Option<Kept> {
        let name = CString::new(pin.as_os_str().as_bytes()).expect("no NUL");
        // SAFETY: the path lives during the call.
        let fd = unsafe { sys::bpf_obj_get(name.as_ptr()) };
        // SAFETY: a descriptor that the kernel just made and nothing else owns.
        let _open = (fd >= 0).then(|| unsafe { fs::File::from_raw_fd(fd) })?;
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).expect("it is open");
        text.lines().find_map(|line| {
            let (kind, id) = line.split_once("_id:")?;
            ["map", "link"].contains(&kind).then_some(())?;
            Some(Kept { kind: kind.into(), id: id.trim().parse().ok()? })
        })
    }

    /// Does the kernel still keep it?
    fn is_there(&self) -> bool {
        // SAFETY: plain calls with a number.
        let fd = unsafe {
            match self.kind.as_str() {
                "map" => sys::bpf_map_get_fd_by_id(self.id),
                _ => sys::bpf_link_get_fd_by_id(self.id),
            }
        };
        // SAFETY: as above.
        drop((fd >= 0).then(|| unsafe { fs::File::from_raw_fd(fd) }));
        fd >= 0
    }
}

/// Maps and links that are pinned for an interface. Programs are those of links, and what is not pinned goes with them.
fn kept(net: &Net, iface: &str) -> BTreeSet<Kept> {
    let entries = fs::read_dir(net.pins_of(iface)).into_iter().flatten().flatten();
    entries.filter_map(|entry| Kept::pinned_at(&entry.path())).collect()
}

/// What the agent has open, by descriptor, without the kernel's list of programs: the first look at that opens it, whenever it comes,
/// and it is kept. Nor are the locks counted for which it waits just now, as for another agent of this machine, and what it reads
/// meanwhile: one that was left locked would stop all others.
fn open_files(agent: &Process) -> BTreeMap<String, String> {
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    let entries = fs::read_dir(format!("/proc/{}/fd", agent.id())).expect("our child").flatten();
    let is_list = |fd: &str| {
        let info = fs::read_to_string(format!("/proc/{}/fdinfo/{fd}", agent.id()));
        info.is_ok_and(|info| info.lines().any(|line| line.split_whitespace().eq(["link_type:", "iter"])))
    };
    // one may be closed meanwhile
    let open = entries.filter_map(|entry| Some((entry.path(), fs::read_link(entry.path()).ok()?)));
    let open = open.map(|(path, what)| (name(&path), what.to_string_lossy().into_owned()));
    let is_lock = |what: &str| what.ends_with(".lock") || what == "/proc/locks";
    open.filter(|(fd, what)| !is_lock(what) && !is_list(fd)).collect()
}

/// No more files than before are open; those that differ are shown. There may be fewer, as an agent that has just begun is still at
/// work with some.
fn no_descriptor_is_left(agent: &Process, before: &BTreeMap<String, String>) {
    let mut now = BTreeMap::new();
    let end = Instant::now() + LIMIT;
    until("descriptors are closed", || {
        now = open_files(agent);
        now.len() <= before.len() || Instant::now() + Duration::from_secs(1) > end
    });
    assert!(now.len() <= before.len(), "open now:\n{now:#?}\nbefore:\n{before:#?}");
}

/// Devices of the box, without what comes and goes.
fn devices(net: &Net) -> usize {
    let links = net.middle.run(&["ip", "-o", "link"]).expect("iproute2").stdout;
    String::from_utf8_lossy(&links).lines().filter(|line| !line.contains(": r7")).count()
}

/// What is noted of the box's interfaces under /run.
fn notes(net: &Net) -> Vec<String> {
    let namespace = net.namespace().to_string();
    let all = fs::read_dir("/run/windlass").into_iter().flatten().flatten();
    let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains(&namespace)).collect()
}

/// After the agent has ended and its interfaces are released, nothing is left of what was there at some time.
fn nothing_is_left(net: &Net, ever: &BTreeSet<Kept>) {
    assert!(ever.len() > 20, "{ever:?}");
    assert_eq!((net.clocks(), notes(net)), (vec![], vec![]));
    assert!(!net.pins().parent().expect("a folder").exists());
    assert_eq!(shared_groups(net.namespace()), None);
    // the kernel frees them a moment later
    until("maps and links are gone", || !ever.iter().any(Kept::is_there));
}

/// An agent killed at any moment, also as it attaches.
fn killed(times: u32) {
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    net.bottleneck_of(RATE);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let start = || Process::start(&mut net.windlass(&["agent", "--policy", file.to_str().expect("UTF-8")]));
    let mut agent = net.agent(&file, "under control");
    let mut ever = kept(&net, "r1");
    let (before, noted) = (devices(&net), notes(&net).len());
    with_transfer(&net, |progress| {
        for _ in 0..times {
            agent.end(libc::SIGKILL);
            agent = start();
            // any moment of its start
            thread::sleep(Duration::from_millis(random.random_range(0..150)));
        }
        agent.end(libc::SIGKILL);
        agent = net.agent(&file, "taken over");
        net.repairs_go_on(progress);
        assert_eq!((devices(&net), notes(&net).len()), (before, noted));
        assert_eq!(kept(&net, "r1"), ever, "it is the same datapath");
        // one that was killed as it attached has left a part at most, which the next one removes
        for _ in 0..times.div_ceil(10) {
            agent.end(libc::SIGKILL);
            net.answer(&["detach", "--all"]);
            agent = start();
            thread::sleep(Duration::from_millis(random.random_range(0..2500)));
            ever.extend(kept(&net, "r1"));
        }
        agent.end(libc::SIGKILL);
        agent = start();
        agent.says("r1: ");
        progress();
    });
    is_controlled(&net);
    ever.extend(kept(&net, "r1"));
    release(&net, agent);
    nothing_is_left(&net, &ever);
}

/// Policies that differ in what they do with flows, and now and then in their interfaces.
fn swapped(times: u32) {
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let file = policy(folder.path(), "bbr");
    net.bottleneck_of(RATE);
    let agent = net.agent(&file, "under control");
    let mut ever = kept(&net, "r1");
    let (before, noted, files) = (devices(&net), notes(&net).len(), open_files(&agent));
    with_transfer(&net, |progress| {
        for time in 0..times {
            let does =
                ["algorithm = \"cubic\"", "mode = \"watch\"", "algorithm = \"bbr\""][time as usize % 3];
            let iface = if time % 10 == 9 { "r[12]" } else { "r1" };
            put(folder.path(), &format!("[[rule]]\nname = \"n{time}\"\nmatch.iface = \"{iface}\"\n{does}\n"));
            agent.signal(libc::SIGHUP);
            agent.says("in force");
            if iface != "r1" {
                agent.says("r2: under control");
                ever.extend(kept(&net, "r2"));
            }
        }
        policy(folder.path(), "bbr");
        agent.signal(libc::SIGHUP);
        agent.says("in force");
        progress();
        until("only r1 is left", || !net.pins_of("r2").exists());
        no_descriptor_is_left(&agent, &files);
        assert_eq!((devices(&net), notes(&net).len()), (before, noted));
    });
    is_controlled(&net);
    release(&net, agent);
    nothing_is_left(&net, &ever);
}

/// Interfaces that are deleted when they are under control, or at any moment before.
fn made_and_deleted(times: u32) {
    let net = Net::create("cubic");
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[[rule]]\nname = \"all\"\nmatch.iface = \"r[17]\"\nalgorithm = \"bbr\"\n";
    let file = put(folder.path(), text);
    net.bottleneck_of(RATE);
    let agent = net.agent(&file, "under control");
    let mut ever = kept(&net, "r1");
    let (before, noted, files) = (devices(&net), notes(&net).len(), open_files(&agent));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    with_transfer(&net, |progress| {
        for time in 0..times {
            let words = ["ip", "link", "add", "r7", "type", "veth", "peer", "name", "x7"];
            net.middle.run(&words).expect("iproute2");
            if time % 2 == 0 {
                until("r7 is under control", || net.record_of("r7", "").exists());
                ever.extend(kept(&net, "r7"));
            } else {
                thread::sleep(Duration::from_millis(random.random_range(0..60)));
            }
            net.middle.run(&["ip", "link", "del", "r7"]).expect("iproute2");
        }
        until("nothing is left of r7", || !net.pins_of("r7").exists() && notes(&net).len() == noted);
        no_descriptor_is_left(&agent, &files);
        assert_eq!(devices(&net), before);
        net.repairs_go_on(progress);
    });
    release(&net, agent);
    nothing_is_left(&net, &ever);
}

#[test]
fn an_agent_that_is_killed_again_and_again_harms_no_transfer_and_leaves_nothing() {
    if is_root_or_skip("an_agent_that_is_killed_again_and_again_harms_no_transfer_and_leaves_nothing") {
        killed(times(A_FEW));
    }
}

#[test]
fn policies_that_are_swapped_again_and_again_harm_no_transfer_and_leave_nothing() {
    if is_root_or_skip("policies_that_are_swapped_again_and_again_harm_no_transfer_and_leave_nothing") {
        swapped(times(A_FEW));
    }
}

#[test]
fn interfaces_made_and_deleted_again_and_again_harm_no_transfer_and_leave_nothing() {
    if is_root_or_skip("interfaces_made_and_deleted_again_and_again_harm_no_transfer_and_leave_nothing") {
        made_and_deleted(times(A_FEW));
    }
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn an_agent_that_is_killed_a_thousand_times_harms_no_transfer_and_leaves_nothing() {
    if is_root_or_skip("an_agent_that_is_killed_a_thousand_times_harms_no_transfer_and_leaves_nothing") {
        killed(times(MANY));
    }
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn policies_that_are_swapped_a_thousand_times_harm_no_transfer_and_leave_nothing() {
    if is_root_or_skip("policies_that_are_swapped_a_thousand_times_harm_no_transfer_and_leave_nothing") {
        swapped(times(MANY));
    }
}

#[test]
#[ignore = "long: `make test-long` runs it"]
fn interfaces_made_and_deleted_a_thousand_times_harm_no_transfer_and_leave_nothing() {
    if is_root_or_skip("interfaces_made_and_deleted_a_thousand_times_harm_no_transfer_and_leave_nothing") {
        made_and_deleted(times(MANY));
    }
}
