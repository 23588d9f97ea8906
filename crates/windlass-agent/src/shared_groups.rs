//! All interfaces of a network namespace whose policies name groups share the maps of groups, pinned under
//! /sys/fs/bpf/windlass/groups-<namespace>-<state>/, so that flows behind several interfaces can be in one group. A
//! process that uses them holds a lock; one that ends has its flows leave, and so has, for one that was killed, the
//! next one that starts.
//!
//! The locks are on the folders themselves: a process that sees a folder sees whether it is locked, also with another /run.

use crate::{
    Result,
    error::bpf,
    image, netdev,
    persist::{
        bpffs,
        lock::{Lock, Locked, PATIENCE, flock, lock_folder},
        pin_claim::{Claim, lock_folder_alone},
        private,
        run_dir::run_file,
    },
    test_run::run_until_done,
};
use libbpf_rs::{ErrorKind, MapCore, MapHandle, Object, OpenObject, Program, ProgramMut};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::fd::{AsFd, BorrowedFd},
    path::{Path, PathBuf},
};

/// The program that makes all flows of a datapath leave their groups, which outlive it.
pub(crate) const PART: &str = "wl_part_all";

/// Has the flows of a datapath that is detached leave their groups: their places go with it, and no other process
/// could know that they are gone. Groups that stay locked keep them.
pub(crate) fn part(program: BorrowedFd<'_>) -> Result<()> {
    run_until_done(program, 0, 0, "leaving groups")
}

const SHARED: [&str; 2] = ["wl_groups", "wl_tenants"];

fn shared_dir() -> PathBuf {
    bpffs::root().join(format!("groups-{}-{}", netdev::namespace_inode(), image::state_name()))
}

/// Lets the object use the namespace's groups, if some are shared.
pub(crate) fn reuse(object: &mut OpenObject) -> Result<()> {
    let dir = shared_dir();
    for mut map in object.maps_mut() {
        let path = dir.join(map.name());
        if SHARED.iter().any(|name| map.name() == *name) && path.exists() {
            map.reuse_pinned_map(&path).map_err(bpf(format!("sharing {}", path.display())))?;
        }
    }
    Ok(())
}

/// Shares the object's groups with datapaths that are attached later, unless they are shared already.
pub(crate) fn share(object: &Object) -> Result<()> {
    let dir = shared_dir();
    bpffs::make_dir(&dir)?;
    for map in object.maps().filter(|m| SHARED.iter().any(|name| m.name() == *name)) {
        let path = dir.join(map.name());
        if !path.exists() {
            let mut handle = MapHandle::try_from(&map).map_err(bpf("sharing groups"))?;
            handle.pin(&path).map_err(bpf(format!("sharing {}", path.display())))?;
        }
    }
    Ok(())
}

/// Begins the name of the folder, beside the groups, in which a process that has pinned nothing else leaves [`PART`]. After it
/// comes its interface's index.
const LEAVING: &str = "leave";

/// A process that uses shared groups. The last one of a namespace that goes, with nothing left under control there, takes
/// them away.
#[derive(Debug)]
pub(crate) struct Share {
    folder: File,
    namespace: u64,
}

/// By which the others know what to do if this process is killed: its flows' places are gone then, and their group would
/// keep their shares for them.
#[derive(Debug)]
pub(crate) struct Parting {
    path: PathBuf,
    /// Locked as long as the process lives.
    _folder: Locked,
}

impl Parting {
    /// Leaves the program of a datapath on interface `ifindex` that is not pinned.
    pub(crate) fn leave(program: &mut ProgramMut<'_>, ifindex: u32) -> Result<Parting> {
        let _lock = Lock::take("groups")?;
        let path = shared_dir().join(format!("{LEAVING}{ifindex}"));
        let folder = folder(&path)?;
        let what = netdev::name_of(ifindex)
            .map_or_else(|| format!("interface {ifindex}"), |name| format!("'{name}'"));
        lock_folder_alone(&folder, &path, &what)?;
        let pin = path.join(PART);
        program.pin(&pin).map_err(bpf(format!("pinning {}", pin.display())))?;
        Ok(Parting { path, _folder: Locked(folder) })
    }
}

impl Drop for Parting {
    fn drop(&mut self) {
        // with the groups it may be gone already
        let _ = bpffs::remove_dir(&self.path);
    }
}

/// Opens the folder, and makes it if it is not there.
fn folder(path: &Path) -> Result<File> {
    bpffs::make_dir(path)?;
    private::open_folder(path)
}

/// Has the flows of processes that were killed leave their groups, in all namespaces, and takes away groups that no
/// process uses. Returns how many processes those were.
pub fn part_killed() -> Result<usize> {
    let mut parted = 0;
    let mut namespaces = BTreeSet::new();
    for folder in fs::read_dir(bpffs::root()).into_iter().flatten().flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let namespace = name.strip_prefix("groups-").and_then(|n| n.split('-').next()?.parse().ok());
        let Some(namespace) = namespace else { continue };
        namespaces.insert(namespace);
        if !has_leaving(&folder.path()) {
            continue;
        }
        let _lock = Lock::take("groups")?;
        for entry in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            if !is_leaving(&entry) || Claim::is_taken(&entry.path()) {
                continue;
            }
            let program = match Program::fd_from_pinned_path(entry.path().join(PART)) {
                // its process has just ended by itself, or was killed before it attached anything
                Err(why) if why.kind() == ErrorKind::NotFound => {
                    // or it has another /run, and is about to pin something there
                    let _ = fs::remove_dir(entry.path());
                    continue;
                }
                program => program.map_err(bpf("opening what flows part with"))?,
            };
            part(program.as_fd())?;
            bpffs::remove_dir(&entry.path())?;
            parted += 1;
        }
    }
    namespaces.into_iter().for_each(remove_unused);
    Ok(parted)
}

/// Has a process that uses the groups in this folder pinned nothing else? An agent looks twice a second, and takes no lock for it.
fn has_leaving(folder: &Path) -> bool {
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| is_leaving(&entry))
}

fn is_leaving(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with(LEAVING)
}

/// Where names of the groups of this namespace's interfaces are noted.
pub(crate) fn names_here() -> PathBuf {
    names(netdev::namespace_inode())
}

fn names(namespace: u64) -> PathBuf {
    run_file(&format!("groups-{namespace}:names"))
}

impl Share {
    pub(crate) fn hold() -> Result<Share> {
        bpffs::mount_bpffs()?;
        // or a process that removes them might not see it
        let _lock = Lock::take("groups")?;
        let dir = shared_dir();
        let folder = folder(&dir)?;
        lock_folder(&folder, &dir, libc::LOCK_SH, PATIENCE)?;
        Ok(Share { folder, namespace: netdev::namespace_inode() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // before it is asked whether some process uses them
        let _ = flock(&self.folder, libc::LOCK_UN);
        remove_unused(self.namespace);
    }
}

/// Does some process use the groups of this namespace?
pub(crate) fn has_users_here() -> bool {
    Claim::is_taken(&shared_dir())
}

/// Takes the namespace's groups away if no process uses them.
pub(crate) fn remove_unused(namespace: u64) {
    // mostly it is so, and then without a lock
    if !bpffs::has_none(namespace) {
        return;
    }
    let Ok(_lock) = Lock::take("groups") else { return };
    if !bpffs::has_none(namespace) {
        return;
    }
    let prefix = format!("groups-{namespace}-");
    let mut are_left = false;
    for entry in fs::read_dir(bpffs::root()).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            are_left |= Claim::is_taken(&entry.path()) || bpffs::remove_dir(&entry.path()).is_err();
        }
    }
    if !are_left {
        let _ = fs::remove_file(names(namespace));
    }
}
