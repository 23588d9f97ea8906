//! Takes a further interface into a datapath that is pinned for others: nothing is loaded, no table is made but that of its rules.
//!
//! Everything that interfaces share is pinned in the folder of each, so that whichever is released last takes it away.

use crate::{
    Policy, Result,
    attach::{FROM_SENDER, Side, TO_SENDER, attach},
    error::bpf,
    group,
    image::{build_id, state_id},
    in_force::IfaceRules,
    load::give_rules,
    object::{pin, pinned, pinned_map},
    persist::{
        bpffs::make_dir,
        lock::Lock,
        own_programs::OwnPrograms,
        pin_dir::{LINKS_OF_IFACE, PinDir, is_shared},
        run_file::{remove_stale, write_record, write_text},
    },
};
use libbpf_rs::{MapHandle, MapType, libbpf_sys as sys};
use std::{fs, os::fd::AsFd, thread};
use windlass_core::abi::{self, wl_rule};

/// Attaches the datapath that is pinned in `of`, whose programs are of this build, to the interface of index `ifindex` as well, and
/// pins that in `pins`; all of it, or nothing. With the lock of "attach" held, and `pins` claimed.
pub(crate) fn add(of: &PinDir, pins: &PinDir, ifindex: u32, policy: &Policy) -> Result<()> {
    let _lock = Lock::take("pins")?;
    let added = add_all(of, pins, ifindex, policy);
    if added.is_err() {
        // the reason of the failure is more useful than that of this one
        let _ = pins.release(Some(ifindex));
    }
    added
}

/// The record comes last: without it, no process takes what is pinned for a datapath.
fn add_all(of: &PinDir, pins: &PinDir, ifindex: u32, policy: &Policy) -> Result<()> {
    let (from, dir) = (of.dir(), pins.dir());
    remove_stale(&pins.record())?;
    remove_stale(&pins.build_file())?;
    make_dir(&dir)?;
    // first of all, as it shows that there are others
    pins.note_clock(of.clock_number().unwrap_or_default())?;
    for entry in fs::read_dir(&from).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_shared) {
            pin(pinned(&entry.path())?.as_fd(), &dir.join(entry.file_name()))?;
        }
    }
    let mut rules = policy.compile(&pins.iface, ifindex);
    let open = |name: &str| pinned_map(&dir.join(name));
    group::resolve_here(&open("wl_groups")?, policy, &mut rules)?;
    let own = new_rules()?;
    pin(own.as_fd(), &dir.join("wl_rules"))?;
    let (ifaces, head, all) = (open("wl_ifaces")?, open("wl_policy")?, open("wl_iface_rules")?);
    IfaceRules { ifindex, rules: &own, ifaces: &ifaces, head: &head }.write(&rules)?;
    let programs = OwnPrograms::pinned_in(&dir)?;
    let attach_one =
        |name, side, link: &str| attach(programs.get(name), name, ifindex, side)?.pin(&dir.join(link));
    let [link1, link2] = LINKS_OF_IFACE;
    // the kernel waits a grace period in each of these: in one for all
    thread::scope(|scope| {
        let others = [
            scope.spawn(|| give_rules(&all, ifindex, own.as_fd())),
            scope.spawn(|| attach_one(FROM_SENDER, Side::Ingress, link1)),
        ];
        let own = attach_one(TO_SENDER, Side::Egress, link2);
        others.into_iter().fold(own, |so_far, other| so_far.and(other.join().expect("no panic")))
    })?;
    pins.write_rule_names(policy);
    pins.note_pinned()?;
    write_text(&pins.index_file(), &ifindex.to_string())?;
    write_record(&pins.build_file(), build_id())?;
    pins.note_state(state_id())
}

/// A map like `wl_rules`.
fn new_rules() -> Result<MapHandle> {
    let options = sys::bpf_map_create_opts {
        sz: size_of::<sys::bpf_map_create_opts>() as sys::size_t,
        ..Default::default()
    };
    let (key_bytes, value_bytes) = (size_of::<u32>() as u32, size_of::<wl_rule>() as u32);
    MapHandle::create(MapType::Array, Some("wl_rules"), key_bytes, value_bytes, abi::WL_MAX_RULES, &options)
        .map_err(bpf("making an interface's rules"))
}
