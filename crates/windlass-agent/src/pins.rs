//! Pinned datapaths: programs and maps kept by the kernel under bpffs, so that control outlives the agent.
//!
//! What is pinned outlives its interface, too: a virtual machine that starts anew has another tap of the same name, and
//! numbers of namespaces come again. So names say nothing; where the programs are attached does.

use crate::{
    Error, FlowInfo, GroupInfo, Policy, Result,
    attach::{Attached, has_datapath, has_filters},
    clock::{self, Clock},
    counters::{clock_ticks, read_counters},
    datapath::{CONFIG, build_id},
    error::{bpf, io_error},
    exceptions::{Exceptions, Flows},
    flows::read_flows,
    group,
    in_force::{has_let_go, let_go, look_up_again, read_rules, write_policy},
    lock::Lock,
    netdev,
    object::pinned_map,
    pin_dir::{CLOCK_LINK, PinDir, namespace_dir},
    privilege::check_root,
    shared_groups,
};
use libbpf_rs::{MapCore, MapHandle, Object, Program};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::CString,
    fs, io,
    net::SocketAddr,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};
use windlass_core::Algorithm;

const BPFFS: &str = "/sys/fs/bpf";
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
/// As [`CONFIG`] is pinned: bpffs takes no names with dots.
const PINNED_CONFIG: &str = "wl_config";
const MAPS: [&str; 9] = [
    "wl_flows",
    "wl_flow_ids",
    "wl_places",
    "wl_exceptions",
    "wl_counters",
    "wl_rules",
    "wl_policy",
    "wl_groups",
    PINNED_CONFIG,
];

/// Folder of everything that is pinned.
pub(crate) fn root() -> PathBuf {
    Path::new(BPFFS).join("windlass")
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

/// Is what is pinned here gone with this process, or with the shell that started it? So it is under `ip netns exec`,
/// which mounts a /sys of its own: an ancestor then has another bpffs.
pub fn pins_are_private() -> bool {
    let device = |root: &str| fs::metadata(format!("{root}{BPFFS}")).map(|m| m.dev()).ok();
    let here = device("");
    // whose mounts may not be looked at says nothing
    ancestors()
        .into_iter()
        .filter_map(|pid| device(&format!("/proc/{pid}/root")))
        .any(|there| Some(there) != here)
}

/// Processes that this one descends from, as far as /proc shows them.
fn ancestors() -> Vec<u32> {
    let parent = |process: &str| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // the name, in brackets, may have brackets and spaces; state and parent come after it
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok().filter(|pid| *pid != 0)
    };
    std::iter::successors(parent("self"), |pid| parent(&pid.to_string())).collect()
}

/// Interfaces of this namespace with a datapath that is not pinned where it is seen from here. Only tcx tells.
pub fn attached_elsewhere() -> Vec<String> {
    let pinned = pinned_here();
    let is_attached = |name: &String| netdev::index(name).is_some_and(has_datapath);
    netdev::names().into_iter().filter(|n| !pinned.contains(n) && is_attached(n)).collect()
}

pub(crate) fn mount_bpffs() -> Result<()> {
    if has_bpffs() {
        return Ok(());
    }
    netdev::run(&["mount", "-t", "bpf", "bpf", BPFFS]).map(drop)
}

/// Has `iface` of this namespace, and not an earlier interface of that name, a pinned datapath? One that is not all there,
/// since who pinned it was killed meanwhile, is none.
pub(crate) fn is_controlled(iface: &str) -> bool {
    let pins = PinDir::here(iface);
    let index = netdev::index(iface);
    if index.is_none() || !pins.dir().is_dir() || read_record(&pins.record()).is_none() {
        return false;
    }
    match pins.linked_index() {
        Some(linked) => index == Some(linked),
        None => has_filters(iface),
    }
}

fn pinned_in(namespace: u64) -> Vec<String> {
    let Ok(entries) = fs::read_dir(namespace_dir(namespace)) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Is nothing pinned for any interface of that namespace?
pub(crate) fn has_none(namespace: u64) -> bool {
    pinned_in(namespace).is_empty()
}

/// Interfaces of this namespace with a pinned datapath.
pub fn pinned_here() -> Vec<String> {
    pinned_in(netdev::namespace_inode())
}

/// Removes what an earlier interface of the name left, or who was killed while pinning, and clocks that nobody knows any more.
/// With the lock of "attach" held.
pub(crate) fn remove_earlier(iface: &str) -> Result<()> {
    let pins = PinDir::here(iface);
    let _lock = Lock::take("pins")?;
    Clock::remove_gone();
    if is_controlled(iface) {
        // another agent was faster
        return Err(Error::Busy(iface.to_string()));
    }
    if pins.dir().is_dir() { pins.release(pins.index()) } else { Ok(()) }
}

/// Removes what is left of interfaces that went, with their namespaces or alone, while no agent watched; it would keep its
/// memory for ever. Only tcx says which those are. Returns how many there were.
pub fn remove_gone() -> Result<usize> {
    check_root("attaching a datapath")?;
    let _lock = Lock::take("pins")?;
    let mut gone = 0;
    for entry in fs::read_dir(root()).into_iter().flatten().flatten() {
        let Ok(namespace) = entry.file_name().to_string_lossy().parse() else { continue };
        for iface in pinned_in(namespace) {
            let pins = PinDir { namespace, iface };
            if pins.linked_index() == Some(0) {
                pins.release(pins.index())?;
                gone += 1;
            }
        }
    }
    Ok(gone)
}

/// Interfaces of this namespace on which an `attach` that was killed left something, though nothing is pinned: clsact
/// keeps the programs, and tcx no more than their clock. Where there is no tcx one that runs cannot be told from it.
pub fn left_here() -> Result<Vec<String>> {
    // one that is beginning has a clock before it has programs
    let _lock = Lock::take("attach")?;
    let pinned = pinned_here();
    let is_left = |name: &String| {
        netdev::index(name).is_some_and(|ifindex| {
            Clock::existing(ifindex).shaped_ifindex().is_ok() && !has_datapath(ifindex)
        })
    };
    Ok(netdev::names().into_iter().filter(|n| !pinned.contains(n) && is_left(n)).collect())
}

/// Numbers of the groups that rules in force on interfaces of this namespace name.
pub(crate) fn groups_named_here() -> Result<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for iface in pinned_here() {
        let pins = PinDir::here(&iface);
        // another build's groups are others
        if read_record(&pins.record()) != Some(build_id()) {
            continue;
        }
        let open = |name: &str| pinned_map(&pins.dir().join(name));
        let rules = read_rules(&open("wl_rules")?, &open("wl_policy")?)?;
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
    policy: &Policy,
) -> Result<()> {
    mount_bpffs()?;
    let _lock = Lock::take("pins")?;
    let pins = PinDir::here(iface);
    let pinned = pin_all(&pins, ifindex, object, attached, policy);
    if pinned.is_err() {
        // pinned links would keep the programs on the interface without a clock; why it failed says more than this
        let _ = pins.release(Some(ifindex));
    }
    pinned
}

/// The record comes last: without it, nobody takes what is pinned for a datapath.
fn pin_all(
    pins: &PinDir,
    ifindex: u32,
    object: &mut Object,
    attached: &[Attached],
    policy: &Policy,
) -> Result<()> {
    let dir = pins.dir();
    fs::create_dir_all(&dir).map_err(io_error(&dir))?;
    for name in [shared_groups::PART, clock::PROGRAM] {
        for mut program in object.progs_mut().filter(|p| p.name() == name) {
            program.pin(dir.join(name)).map_err(bpf(format!("pinning {name}")))?;
        }
    }
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let file = if name == CONFIG { PINNED_CONFIG } else { &name };
        // all of them, however internal: whoever takes over goes on with them
        if file.starts_with("wl_") {
            map.pin(dir.join(file)).map_err(bpf(format!("pinning {name}")))?;
        }
    }
    for (index, program) in attached.iter().enumerate() {
        program.pin(&dir.join(format!("link{index}")))?;
    }
    pins.write_rule_names(policy)?;
    write_text(&pins.index_file(), &ifindex.to_string())?;
    write_record(&pins.record(), build_id())
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
    pins: PinDir,
    /// Of the interface when it was attached.
    ifindex: u32,
    maps: BTreeMap<&'static str, MapHandle>,
    clock: Clock,
    clock_program: OwnedFd,
}

impl Pinned {
    /// Takes over the pinned datapath of `iface`.
    pub fn open(iface: &str) -> Result<Pinned> {
        let pins = PinDir::here(iface);
        let dir = pins.dir();
        if !dir.is_dir() {
            return Err(Error::Invalid(format!("no datapath is pinned on '{iface}'")));
        }
        let is_ours = read_record(&pins.record()) == Some(build_id());
        let Some(ifindex) = pins.index().filter(|_| is_ours) else { return Err(Error::OtherVersion(dir)) };
        let mut maps = BTreeMap::new();
        for name in MAPS {
            maps.insert(name, pinned_map(&dir.join(name))?);
        }
        let clock_program = Program::fd_from_pinned_path(dir.join(clock::PROGRAM))
            .map_err(bpf("opening the clock's program"))?;
        Ok(Pinned { pins, ifindex, maps, clock: Clock::existing(ifindex), clock_program })
    }

    /// Name of the interface.
    pub fn iface(&self) -> &str {
        &self.pins.iface
    }

    /// All counters by name.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>> {
        read_counters(&self.maps["wl_counters"])
    }

    /// All flows in use.
    pub fn flows(&self) -> Result<Vec<FlowInfo>> {
        let [ids, flows, places] = ["wl_flow_ids", "wl_flows", "wl_places"].map(|name| &self.maps[name]);
        let exceptions = Exceptions::read(&self.maps["wl_exceptions"])?;
        read_flows(ids, flows, places, &exceptions, &self.groups()?)
    }

    /// Gives the flow from `sender` to `receiver` an algorithm of its own for as long as it lasts, or for none its rule's
    /// again. It follows at its next ACK. Returns whether there is such a flow.
    pub fn set_algorithm(
        &self,
        sender: SocketAddr,
        receiver: SocketAddr,
        algorithm: Option<Algorithm>,
    ) -> Result<bool> {
        let _lock = Lock::take("pins")?;
        let [ids, flows, exceptions] =
            ["wl_flow_ids", "wl_flows", "wl_exceptions"].map(|name| &self.maps[name]);
        let is_there = Flows { ids, flows, exceptions }.set(self.ifindex, sender, receiver, algorithm)?;
        if is_there {
            look_up_again(&self.maps["wl_policy"])?;
        }
        Ok(is_there)
    }

    /// The groups that its flows can be in, which are those of all interfaces of the namespace.
    pub fn groups(&self) -> Result<Vec<GroupInfo>> {
        group::read(&self.maps["wl_groups"], &shared_groups::names_here())
    }

    /// Names of the rules of the policy in force, by their numbers.
    pub fn rule_names(&self) -> Vec<String> {
        let text = fs::read_to_string(self.pins.rule_names_file()).unwrap_or_default();
        text.lines().map(String::from).collect()
    }

    /// Puts another policy in force; flows follow at their next ACK.
    pub fn set_policy(&self, policy: &Policy) -> Result<()> {
        let _lock = Lock::take("pins")?;
        let mut rules = policy.compile(self.iface(), self.ifindex);
        group::resolve_here(&self.maps["wl_groups"], policy, &mut rules)?;
        write_policy(&self.maps["wl_rules"], &self.maps["wl_policy"], &rules)?;
        self.pins.write_rule_names(policy)
    }

    /// Ends control gently, as [`Datapath::let_go`](crate::Datapath::let_go) does.
    pub fn let_go(&self) -> Result<()> {
        let _lock = Lock::take("pins")?;
        let_go(&self.maps["wl_rules"], &self.maps["wl_policy"])
    }

    /// Is control over for all flows that have data in flight?
    pub fn has_let_go(&self) -> Result<bool> {
        Ok(has_let_go(&self.flows()?))
    }

    /// Sets the clock going again if it stood still since the last look. Returns whether it had to be made anew.
    pub fn watch_clock(&mut self) -> Result<bool> {
        let counters = &self.maps["wl_counters"];
        if !self.clock.stands(clock_ticks(counters)?) {
            return Ok(false);
        }
        let _lock = Lock::take("pins")?;
        if !self.is_still_pinned() {
            return Err(Error::Released(self.iface().to_string()));
        }
        let Some(attached) = self.clock.revive(&self.maps[PINNED_CONFIG], self.clock_program.as_fd())? else {
            return Ok(false);
        };
        // of the link to the device that went nothing is left but its pin
        let pin = self.pins.dir().join(CLOCK_LINK);
        let _ = fs::remove_file(&pin);
        attached.pin(&pin)?;
        Ok(true)
    }

    /// Is it this datapath that is pinned under the interface's name, and not that of another interface of the name, or
    /// what another agent made since? With the lock held.
    fn is_still_pinned(&self) -> bool {
        let id = |map: &MapHandle| map.info().map(|i| i.info.id).ok();
        let now = pinned_map(&self.pins.dir().join("wl_counters")).ok();
        now.and_then(|map| id(&map)) == id(&self.maps["wl_counters"])
    }

    /// Is the interface still there, and not another one of its name?
    pub fn is_alive(&self) -> bool {
        netdev::index(self.iface()) == Some(self.ifindex)
    }

    /// Detaches: removes links, filters, maps and the clock, if nobody else has done so.
    pub fn remove(self) -> Result<()> {
        let _lock = Lock::take("pins")?;
        if self.is_still_pinned() {
            return self.pins.release(Some(self.ifindex));
        }
        // who removed it, from another namespace because the interface was gone, could not reach the clock
        if !netdev::has_index(self.ifindex) {
            self.clock.remove();
        }
        Ok(())
    }
}

/// Removes a folder of pins. Somebody else may be at it, too: what is gone is gone.
pub(crate) fn remove_dir(dir: &Path) -> Result<()> {
    let unless_gone = |path: &Path, result: io::Result<()>| match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(io_error(path)),
    };
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        unless_gone(&entry.path(), fs::remove_file(entry.path()))?;
    }
    unless_gone(dir, fs::remove_dir(dir))
}

/// Removes whatever is pinned for `iface`, of any version, its interface there or not.
pub fn force_remove(iface: &str) -> Result<()> {
    let pins = PinDir::here(iface);
    let _lock = Lock::take("pins")?;
    pins.release(pins.index())
}
