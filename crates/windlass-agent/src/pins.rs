//! Pinned datapaths: programs and maps kept by the kernel under bpffs, so that control outlives the agent.
//!
//! Layout: /sys/fs/bpf/windlass/<namespace inode>/<interface>/<map or link>. Beside it, under /run, the build that
//! pinned it and the names of the rules in force.

use crate::{
    Error, FlowInfo, Policy, Result,
    attach::{Attached, has_filters, remove_filters},
    clock::Clock,
    counters::read_counters,
    datapath::{build_id, write_policy},
    error::bpf,
    flows::read_flows,
    group, netdev,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object};
use std::{
    collections::BTreeMap,
    ffi::CString,
    fs, io,
    path::{Path, PathBuf},
};
use windlass_core::abi;

const BPFFS: &str = "/sys/fs/bpf";
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
const MAPS: [&str; 6] = ["wl_flows", "wl_flow_ids", "wl_counters", "wl_rules", "wl_policy", "wl_groups"];

/// Folder of everything that is pinned.
pub(crate) fn root() -> PathBuf {
    Path::new(BPFFS).join("windlass")
}

fn namespace_dir() -> PathBuf {
    root().join(netdev::namespace_inode().to_string())
}

fn dir(iface: &str) -> PathBuf {
    namespace_dir().join(iface)
}

fn record(iface: &str) -> PathBuf {
    PathBuf::from(format!("/run/windlass/{}-{iface}", netdev::namespace_inode()))
}

/// Names of the policy's rules in their order, one a line: the kernel knows their numbers only. No interface has a colon
/// in its name.
fn rule_names_file(iface: &str) -> PathBuf {
    PathBuf::from(format!("/run/windlass/{}-{iface}:rules", netdev::namespace_inode()))
}

fn write_rule_names(iface: &str, policy: &Policy) -> Result<()> {
    let names: String = policy.rules.iter().map(|r| r.name.replace('\n', " ") + "\n").collect();
    write_text(&rule_names_file(iface), &names)
}

pub(crate) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io { path, source }
}

/// Is bpffs mounted where it belongs?
pub(crate) fn has_bpffs() -> bool {
    let path = CString::new(BPFFS).expect("no NUL");
    // SAFETY: an all-zero statfs is valid; both pointers are live for the call.
    unsafe {
        let mut fs: libc::statfs = std::mem::zeroed();
        libc::statfs(path.as_ptr(), &mut fs) == 0 && fs.f_type as i64 == BPF_FS_MAGIC
    }
}

pub(crate) fn mount_bpffs() -> Result<()> {
    if has_bpffs() {
        return Ok(());
    }
    netdev::run(&["mount", "-t", "bpf", "bpf", BPFFS]).map(drop)
}

/// Is there a pinned datapath on `iface` of this namespace?
pub fn is_pinned(iface: &str) -> bool {
    dir(iface).is_dir()
}

/// Interfaces of this namespace with a pinned datapath.
pub fn pinned_here() -> Vec<String> {
    let Ok(entries) = fs::read_dir(namespace_dir()) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Interfaces of this namespace that were left under control though nothing is pinned: by an `attach` that was killed,
/// on a kernel where only clsact keeps the programs.
pub fn left_here() -> Vec<String> {
    let pinned = pinned_here();
    let has_clock = |name: &String| {
        netdev::index(name).is_some_and(|ifindex| Clock::existing(ifindex).shaped_ifindex().is_ok())
    };
    netdev::names().into_iter().filter(|n| !pinned.contains(n) && has_clock(n) && has_filters(n)).collect()
}

/// Pins everything of a loaded datapath. Programs stay through their links; clsact filters stay by themselves.
pub(crate) fn pin(
    iface: &str,
    object: &mut Object,
    attached: &mut [Attached],
    policy: &Policy,
) -> Result<()> {
    mount_bpffs()?;
    let dir = dir(iface);
    fs::create_dir_all(&dir).map_err(io_error(&dir))?;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        // all of them, however internal: whoever takes over goes on with them
        if name.starts_with("wl_") {
            map.pin(dir.join(&name)).map_err(bpf(format!("pinning {name}")))?;
        }
    }
    for (index, program) in attached.iter_mut().enumerate() {
        if let Attached::Tcx(link) = program {
            link.pin(dir.join(format!("link{index}"))).map_err(bpf("pinning a link"))?;
        }
    }
    write_rule_names(iface, policy)?;
    write_record(&record(iface), build_id())
}

/// Notes which build pinned something.
pub(crate) fn write_record(record: &Path, build: u64) -> Result<()> {
    write_text(record, &build.to_string())
}

/// Writes a file and the folder it stands in.
pub(crate) fn write_text(file: &Path, text: &str) -> Result<()> {
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent).map_err(io_error(parent))?;
    }
    fs::write(file, text).map_err(io_error(file))
}

/// Which build it was; none: nobody knows.
pub(crate) fn read_record(record: &Path) -> Option<u64> {
    fs::read_to_string(record).ok()?.trim().parse().ok()
}

/// A pinned datapath, whoever loaded it.
#[derive(Debug)]
pub struct Pinned {
    iface: String,
    maps: BTreeMap<&'static str, MapHandle>,
}

impl Pinned {
    /// Takes over the pinned datapath of `iface`.
    pub fn open(iface: &str) -> Result<Pinned> {
        let dir = dir(iface);
        if !dir.is_dir() {
            return Err(Error::Invalid(format!("no datapath is pinned on '{iface}'")));
        }
        if read_record(&record(iface)) != Some(build_id()) {
            return Err(Error::OtherVersion(dir));
        }
        let mut maps = BTreeMap::new();
        for name in MAPS {
            let path = dir.join(name);
            let map =
                MapHandle::from_pinned_path(&path).map_err(bpf(format!("opening {}", path.display())))?;
            maps.insert(name, map);
        }
        Ok(Pinned { iface: iface.to_string(), maps })
    }

    /// Name of the interface.
    pub fn iface(&self) -> &str {
        &self.iface
    }

    /// All counters by name.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>> {
        read_counters(&self.maps["wl_counters"])
    }

    /// All flows in use.
    pub fn flows(&self) -> Result<Vec<FlowInfo>> {
        read_flows(&self.maps["wl_flow_ids"], &self.maps["wl_flows"])
    }

    /// Names of the rules of the policy in force, by their numbers.
    pub fn rule_names(&self) -> Vec<String> {
        let text = fs::read_to_string(rule_names_file(&self.iface)).unwrap_or_default();
        text.lines().map(String::from).collect()
    }

    /// Puts another policy in force; flows follow at their next ACK.
    pub fn set_policy(&self, policy: &Policy) -> Result<()> {
        let ifindex = netdev::ethernet_index(&self.iface)?;
        let head = self.maps["wl_policy"]
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(bpf("reading the policy"))?
            .unwrap_or_default();
        let at = std::mem::offset_of!(abi::wl_policy_head, generation);
        let generation =
            head.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes(b.try_into().expect("four bytes")));
        let mut rules = policy.compile(&self.iface, ifindex);
        group::resolve(&self.maps["wl_groups"], &policy.groups(), &mut rules)?;
        write_rule_names(&self.iface, policy)?;
        write_policy(&self.maps["wl_rules"], &self.maps["wl_policy"], &rules, generation.wrapping_add(1))
    }

    /// Sends the clock's frame again if the clock stood still since `ticks_before`. Returns the rounds so far.
    pub fn watch_clock(&self, ticks_before: u64) -> Result<u64> {
        let ticks = self.counters()?.get("clock_ticks").copied().unwrap_or(0);
        if ticks == ticks_before
            && let Some(ifindex) = netdev::index(&self.iface)
        {
            Clock::existing(ifindex).start()?;
        }
        Ok(ticks)
    }

    /// Is the interface still there?
    pub fn is_alive(&self) -> bool {
        netdev::index(&self.iface).is_some()
    }

    /// Detaches: removes links, filters, maps and the clock.
    pub fn remove(self) -> Result<()> {
        let dir = dir(&self.iface);
        if let Some(ifindex) = netdev::index(&self.iface) {
            if !dir.join("link0").exists() {
                remove_filters(&self.iface);
            }
            Clock::existing(ifindex).remove();
        }
        if dir.is_dir() {
            remove_dir(&dir)?;
        }
        // fails while other interfaces have theirs
        let _ = fs::remove_dir(namespace_dir());
        let _ = fs::remove_file(record(&self.iface));
        let _ = fs::remove_file(rule_names_file(&self.iface));
        group::remove_unused();
        Ok(())
    }
}

pub(crate) fn remove_dir(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(io_error(dir))?.flatten() {
        fs::remove_file(entry.path()).map_err(io_error(&entry.path()))?;
    }
    fs::remove_dir(dir).map_err(io_error(dir))
}

/// Removes whatever is pinned for `iface`, of any version, its interface there or not.
pub fn force_remove(iface: &str) -> Result<()> {
    let pinned = Pinned { iface: iface.to_string(), maps: BTreeMap::new() };
    pinned.remove()
}
