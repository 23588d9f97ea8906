//! Takes further interfaces into a datapath that is pinned for others: nothing is loaded, no table is made but that of their rules.
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
        own_programs::OwnPrograms,
        pin_dir::{LINKS_OF_IFACE, PinDir, is_shared},
        run_file::{remove_stale, write_record, write_text},
    },
};
use libbpf_rs::{MapHandle, MapType, libbpf_sys as sys};
use std::{
    ffi::OsString,
    fs,
    os::fd::{AsFd, OwnedFd},
    thread,
};
use windlass_core::abi::{self, wl_rule};

/// An interface that comes: where its datapath will be pinned, and its index. No other process attaches there.
#[derive(Debug)]
pub(crate) struct Further {
    pub(crate) pins: PinDir,
    pub(crate) ifindex: u32,
}

/// What is pinned for an interface of the datapath, and so for each of them.
struct Shared {
    clock: u32,
    all: Vec<(OsString, OwnedFd)>,
    programs: OwnPrograms,
    iface_rules: MapHandle,
    ifaces: MapHandle,
    head: MapHandle,
    groups: MapHandle,
}

impl Shared {
    fn open(of: &PinDir) -> Result<Shared> {
        let dir = of.dir();
        let mut all = Vec::new();
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_shared) {
                all.push((entry.file_name(), pinned(&entry.path())?));
            }
        }
        let open = |name: &str| pinned_map(&dir.join(name));
        Ok(Shared {
            clock: of.clock_number().unwrap_or_default(),
            all,
            programs: OwnPrograms::pinned_in(&dir)?,
            iface_rules: open("wl_iface_rules")?,
            ifaces: open("wl_ifaces")?,
            head: open("wl_policy")?,
            groups: open("wl_groups")?,
        })
    }
}

/// Attaches the datapath that is pinned in `of`, whose programs are of this build, to these interfaces as well, and pins that; for each
/// all of it, or nothing. With the locks of "attach" and "pins" held. What fails for one keeps the others from nothing.
///
/// # Errors
/// Nothing was attached.
pub(crate) fn add(of: &PinDir, all: &[Further], policy: &Policy) -> Result<Vec<Result<()>>> {
    let shared = Shared::open(of)?;
    let prepared = all.iter().map(|new| prepare(&shared, new, policy)).collect();
    let attached = attach_all(&shared, all, prepared);
    let added = attached.into_iter().zip(all).map(|(attached, new)| {
        let added = attached.and_then(|()| note(&new.pins, new.ifindex, policy));
        if added.is_err() {
            // the reason of the failure is more useful than that of this one
            let _ = new.pins.release(Some(new.ifindex));
        }
        added
    });
    Ok(added.collect())
}

/// Pins what the interface shares with others, and writes its rules, which are returned and not in force yet.
fn prepare(shared: &Shared, new: &Further, policy: &Policy) -> Result<MapHandle> {
    let (pins, dir) = (&new.pins, new.pins.dir());
    remove_stale(&pins.record())?;
    remove_stale(&pins.build_file())?;
    make_dir(&dir)?;
    // first of all, as it shows that there are others
    pins.note_clock(shared.clock)?;
    for (name, what) in &shared.all {
        pin(what.as_fd(), &dir.join(name))?;
    }
    let mut rules = policy.compile(&pins.iface, new.ifindex);
    group::resolve_here(&shared.groups, policy, &mut rules)?;
    let own = new_rules()?;
    pin(own.as_fd(), &dir.join("wl_rules"))?;
    let Shared { ifaces, head, .. } = shared;
    IfaceRules { ifindex: new.ifindex, rules: &own, ifaces, head }.write(&rules)?;
    Ok(own)
}

/// Puts the rules in force, attaches the programs, and pins that. The kernel waits a grace period in each of these: in one for all.
fn attach_all(shared: &Shared, all: &[Further], prepared: Vec<Result<MapHandle>>) -> Vec<Result<()>> {
    let attach_one = |new: &Further, name, side, link: &str| {
        attach(shared.programs.get(name), name, new.ifindex, side)?.pin(&new.pins.dir().join(link))
    };
    let [link1, link2] = LINKS_OF_IFACE;
    thread::scope(|scope| {
        let begun: Vec<_> = prepared
            .into_iter()
            .zip(all)
            .map(|(prepared, new)| {
                let own = prepared?;
                Ok([
                    scope.spawn(move || give_rules(&shared.iface_rules, new.ifindex, own.as_fd())),
                    scope.spawn(move || attach_one(new, FROM_SENDER, Side::Ingress, link1)),
                    scope.spawn(move || attach_one(new, TO_SENDER, Side::Egress, link2)),
                ])
            })
            .collect();
        let end = |begun: Result<[thread::ScopedJoinHandle<'_, Result<()>>; 3]>| {
            let ended = begun?.map(|one| one.join().expect("no panic"));
            ended.into_iter().collect()
        };
        begun.into_iter().map(end).collect()
    })
}

/// The record comes last: without it, no process takes what is pinned for a datapath.
fn note(pins: &PinDir, ifindex: u32, policy: &Policy) -> Result<()> {
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
