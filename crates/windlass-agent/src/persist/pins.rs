//! Pinned datapaths: programs and maps kept by the kernel under bpffs, so that control outlives the agent.
//!
//! What is pinned outlives its interface, too: a virtual machine that starts anew has another tap of the same name, and
//! numbers of namespaces come again. So names are no evidence; where the programs are attached is.

use crate::{
    Error, Interrupt, Policy, Result,
    attach::{Attached, has_datapath, has_filters},
    clock::{Clock, is_of_clock},
    error::bpf,
    image::{build_id, state_id},
    in_force::IfaceRules,
    link::{self, Link},
    netdev,
    object::pinned_map,
    persist::{
        bpffs::{make_dir, mount_bpffs, pinned_here, pinned_in, root},
        lock::Lock,
        own_programs::OwnPrograms,
        pin_claim::Claim,
        pin_dir::{PinDir, RULES, pinned_as},
        run_file::{remove_stale, write_record, write_text},
    },
};
use libbpf_rs::{MapCore, Object};
use std::{collections::BTreeSet, fs, mem};

/// Interfaces of this namespace with a datapath that is not pinned where it is seen from here. One whose claim is not
/// seen either shows only by tcx.
pub fn attached_elsewhere() -> Result<Vec<String>> {
    let _lock = Lock::take("pins")?;
    let pinned = pinned_here();
    let has_datapath = |ifindex| has_datapath(ifindex).unwrap_or(false);
    let is_attached = |name: &String| is_claimed(name) || netdev::index(name).is_some_and(has_datapath);
    Ok(netdev::names().into_iter().filter(|n| !pinned.contains(n) && is_attached(n)).collect())
}

/// Does some process look after `iface` of this namespace? With the lock of "pins" held.
fn is_claimed(iface: &str) -> bool {
    PinDir::here(iface).is_claimed()
}

/// Has `iface` of this namespace, and not an earlier interface of that name, a pinned datapath? One that is not all there,
/// since the process that pinned it was killed meanwhile, is none.
///
/// # Errors
/// That cannot be determined.
pub(crate) fn is_controlled(iface: &str) -> Result<bool> {
    let pins = PinDir::here(iface);
    let index = netdev::index(iface);
    if index.is_none() || !pins.dir().is_dir() || pins.state().is_none() {
        return Ok(false);
    }
    match pins.linked_index() {
        Some(linked) => Ok(index == Some(linked)),
        None => has_filters(iface),
    }
}

/// Interfaces of this namespace that are under the rules of an agent that has ended. While another process attaches, waits until
/// there is an `interrupt`.
pub fn unattended_here(interrupt: &Interrupt) -> Result<Vec<String>> {
    // or one that is just being attached would have no claim yet
    let _attach = Lock::take_for_attach(Some(interrupt))?;
    let _lock = Lock::take("pins")?;
    let is_unattended = |name: &String| is_controlled(name).unwrap_or(false) && !is_claimed(name);
    Ok(pinned_here().into_iter().filter(is_unattended).collect())
}

/// Removes clocks that no datapath uses any more. It has all links listed, which would take most of the time for a further interface
/// of many. With the lock of "attach" held.
pub(crate) fn remove_unused_clocks() -> Result<()> {
    let _lock = Lock::take("pins")?;
    Clock::remove_gone(is_clock_used);
    Ok(())
}

/// What is pinned for interfaces of this namespace, each with the interface's index if that is noted.
pub(crate) fn noted_here() -> Vec<(PinDir, Option<u32>)> {
    let namespace = netdev::namespace_inode();
    let of = |iface| {
        let pins = PinDir { namespace, iface };
        let index = pins.index();
        (pins, index)
    };
    pinned_in(namespace).into_iter().map(of).collect()
}

/// Removes what an earlier interface of the name left, or this one under another name, or a process that was killed
/// while pinning; then claims the interface. `noted`: what [`noted_here`] has found. With the lock of "attach" held.
pub(crate) fn remove_earlier(iface: &str, ifindex: u32, noted: &[(PinDir, Option<u32>)]) -> Result<Claim> {
    let pins = PinDir::here(iface);
    let _lock = Lock::take("pins")?;
    if is_controlled(iface)? {
        // another agent was faster
        return Err(Error::Busy(iface.to_string()));
    }
    if pins.dir().is_dir() {
        // the process that had claimed that may not have noticed yet
        pins.release(pins.index())?;
    }
    let what = format!("'{iface}'");
    // of many interfaces each would have its links opened
    let has_programs = has_datapath(ifindex).unwrap_or(true);
    let may_be = |noted: &Option<u32>| has_programs || noted.is_none_or(|noted| noted == ifindex);
    let others = noted.iter().filter(|(other, noted)| other.iface != iface && may_be(noted));
    for (renamed, _) in others.filter(|(other, _)| other.dir().is_dir() && other.is_of(ifindex)) {
        // unless an agent has it that has not noticed yet
        renamed.claim(&what)?;
        renamed.release(Some(ifindex))?;
    }
    pins.claim(&what)
}

/// Has some interface of this namespace the clock of this number?
pub(crate) fn is_clock_used(number: u32) -> bool {
    pinned_here().iter().any(|name| PinDir::here(name).clock_number() == Some(number))
}

/// Can a datapath be attached to `iface`, as far as can be seen in a moment?
///
/// # Errors
/// Another process has it, or that cannot be determined.
pub(crate) fn check_free(iface: &str, ifindex: u32) -> Result<()> {
    let _lock = Lock::take("pins")?;
    let pins = PinDir::here(iface);
    // what is pinned under the name is of an earlier interface, and its process may not have noticed yet
    if !pins.dir().is_dir() {
        let claim = pins.claim(&format!("'{iface}'"))?;
        pins.remove_claim();
        drop(claim);
    }
    let is_renamed = || pinned_here().iter().any(|name| PinDir::here(name).is_of(ifindex));
    if has_datapath(ifindex)? && !is_renamed() {
        return Err(Error::AttachedElsewhere(iface.to_string()));
    }
    Ok(())
}

/// What is not pinned ends, and with it the claim.
pub(crate) fn unclaim(iface: &str, claim: Claim) {
    // or a process that just opened the file could claim what no other sees
    if let Ok(_lock) = Lock::take("pins") {
        PinDir::here(iface).remove_claim();
        drop(claim);
    }
}

/// Removes what is left of interfaces that went, with their namespaces or alone, while no agent watched; it would keep its
/// memory for ever. Before tcx that is seen of this namespace's only. And what is noted of others of which nothing is pinned, as
/// of an `attach` that was killed. Returns how many of the former there were. What cannot be removed keeps the rest from nothing; the
/// first error is returned.
pub fn remove_gone() -> Result<usize> {
    let _lock = Lock::take("pins")?;
    let mut gone = Vec::new();
    for entry in fs::read_dir(root()).into_iter().flatten().flatten() {
        let Ok(namespace) = entry.file_name().to_string_lossy().parse() else { continue };
        for iface in pinned_in(namespace) {
            let pins = PinDir { namespace, iface };
            let is_gone = match pins.linked_index() {
                Some(linked) => linked == 0,
                None => namespace == netdev::namespace_inode() && !pins.has_interface(),
            };
            // an agent that runs sees for itself what became of its own: a link that was detached looks as one that is gone
            if is_gone && !pins.is_claimed() {
                gone.push(pins.release(pins.index()));
            }
        }
    }
    PinDir::forget_unpinned();
    let number = gone.len();
    gone.into_iter().collect::<Result<()>>().map(|()| number)
}

/// Interfaces of this namespace on which an `attach` that was killed left something, though nothing is pinned: clsact
/// keeps the programs, and tcx no more than their clock.
pub fn left_here() -> Result<Vec<String>> {
    // one that is beginning has a clock before it has programs
    let _attach = Lock::take_for_attach(None)?;
    let _lock = Lock::take("pins")?;
    let pinned = pinned_here();
    let is_left = |link: &Link| {
        Clock::existing(link.index).is_there()
            && !is_claimed(&link.name)
            && has_datapath(link.index).is_ok_and(|is_running| !is_running)
    };
    // a clock's own device may have the index that is its number
    let is_wanted = |link: &Link| !pinned.contains(&link.name) && !is_of_clock(link) && is_left(link);
    Ok(link::all().into_iter().filter(is_wanted).map(|link| link.name).collect())
}

/// Numbers of the groups that rules in force on interfaces of this namespace name.
pub(crate) fn groups_named_here() -> Result<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for iface in pinned_here() {
        let pins = PinDir::here(&iface);
        // those of another state are others
        if pins.state() != Some(state_id()) {
            continue;
        }
        let open = |name: &str| pinned_map(&pins.dir().join(name));
        let (rules, ifaces, head) = (open(RULES)?, open("wl_ifaces")?, open("wl_policy")?);
        let ifindex = pins.index().or_else(|| netdev::index(&iface)).unwrap_or_default();
        let rules = IfaceRules { ifindex, rules: &rules, ifaces: &ifaces, head: &head }.read()?;
        all.extend(rules.iter().filter_map(|r| r.group.checked_sub(1)));
    }
    Ok(all)
}

/// Pins everything of a loaded datapath, or nothing. Programs stay through their links; clsact filters stay by themselves.
pub(crate) fn pin(
    iface: &str,
    ifindex: u32,
    object: &mut Object,
    attached: &[Attached],
    clock: &Clock,
    policy: &Policy,
) -> Result<()> {
    mount_bpffs()?;
    let _lock = Lock::take("pins")?;
    let pins = PinDir::here(iface);
    let pinned = pin_all(&pins, ifindex, object, attached, clock, policy);
    if pinned.is_err() {
        // pinned links would keep the programs on the interface without a clock; the reason of the failure is more useful than this
        let _ = pins.release(Some(ifindex));
    }
    pinned
}

/// The record comes last: without it, no process takes what is pinned for a datapath.
fn pin_all(
    pins: &PinDir,
    ifindex: u32,
    object: &mut Object,
    attached: &[Attached],
    clock: &Clock,
    policy: &Policy,
) -> Result<()> {
    let dir = pins.dir();
    remove_stale(&pins.record())?;
    remove_stale(&pins.build_file())?;
    make_dir(&dir)?;
    pins.note_clock(clock.number())?;
    OwnPrograms::of_object(object)?.pin_in(&dir)?;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        // all of them, however internal: a process that takes over goes on with them
        if let Some(file) = pinned_as(&name) {
            map.pin(dir.join(file)).map_err(bpf(format!("pinning {name}")))?;
        }
    }
    for (index, program) in attached.iter().enumerate() {
        program.pin(&dir.join(format!("link{index}")))?;
    }
    pins.write_rule_names(policy);
    pins.note_pinned()?;
    write_text(&pins.index_file(), &ifindex.to_string())?;
    write_record(&pins.build_file(), build_id())?;
    pins.note_state(state_id())
}

/// Removes whatever is pinned for these interfaces, of any version, the interfaces there or not. Calls `released` after each.
pub fn force_remove(ifaces: &[String], mut released: impl FnMut(&str)) -> Result<()> {
    let _lock = Lock::take_for_pins()?;
    let of = |name: &String| {
        let pins = PinDir::here(name);
        let index = pins.index();
        (pins, index)
    };
    // another process may have released one since
    let all: Vec<_> = ifaces.iter().map(of).filter(|(pins, _)| pins.dir().is_dir()).collect();
    let mut ended = Ok(());
    PinDir::release_together(&all, |at, done| {
        if done.is_ok() {
            released(&all[at].0.iface);
        }
        // of several the first, and the rest is released all the same
        ended = mem::replace(&mut ended, Ok(())).and(done);
    });
    ended
}

/// Removes what an `attach` that was killed left of its own on these interfaces, not that of one that runs. Calls `released` after
/// each.
pub fn remove_left(ifaces: &[String], mut released: impl FnMut(&str)) -> Result<()> {
    // one that is beginning has a clock before it has a claim
    let _attach = Lock::take_for_attach(None)?;
    let _lock = Lock::take("pins")?;
    ifaces.iter().map(|name| PinDir::here(name)).try_for_each(|pins| {
        if !pins.is_claimed() && !pins.dir().is_dir() {
            pins.release(pins.index())?;
        }
        released(&pins.iface);
        Ok(())
    })
}
