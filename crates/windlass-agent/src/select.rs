//! Choosing the native home's algorithms by policy: a program on a cgroup gives its sockets the algorithm of the rule they
//! match, when they connect.
//!
//! Pinned under /sys/fs/bpf/windlass/select/<inode of the cgroup>/; beside it, under /run, the build that pinned it, the
//! cgroup's path and what the algorithms' names begin with.

use crate::{
    Coupling, Error, Policy, Result,
    attach::has_program,
    cost::{self, Verified},
    error::{bpf, io_error},
    in_force::write_policy,
    libbpf_words::silence_libbpf,
    map_value::u64_at,
    native::{self, NAME_MOST},
    object::{fingerprint, map, pinned_map, pinned_map_if_any, raise_limits},
    persist::{bpffs, lock::Lock, pin_claim::Claim, private, run_dir::run_file, run_file},
    privilege::check_root,
};
use libbpf_rs::{
    Link, Map, MapCore, MapFlags, Object, ObjectBuilder, libbpf_sys as sys,
    query::{LinkInfo, LinkTypeInfo},
};
use serde::Serialize;
use std::{
    ffi::CString,
    fs,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};
use windlass_core::{Algorithm, abi};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/select.bpf.o"));
/// The program's name in the kernel.
const PROGRAM: &str = "wl_select";
const CGROUP2_MAGIC: i64 = 0x6367_7270;
const MAPS: [&str; 4] = ["wl_rules", "wl_policy", "wl_names", "wl_select_stats"];

/// A cgroup whose sockets get their algorithms by policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SelectorInfo {
    /// Its folder, as it was given.
    pub cgroup: PathBuf,
    /// Sockets that got the algorithm of their rule.
    pub chosen: u64,
    /// Sockets that should have, but the algorithm was not loaded.
    pub refused: u64,
    /// Sockets that no rule matched, or for which one of ours had been chosen already.
    pub unmatched: u64,
}

/// Where the whole cgroup v2 hierarchy is mounted: the cgroup of all processes.
pub fn root_cgroup() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_v2 = |words: &[&str]| words.get(2) == Some(&"cgroup2");
    mounts
        .lines()
        .map(|l| l.split(' ').collect::<Vec<_>>())
        .find(|words| is_v2(words))
        .map(|words| PathBuf::from(words[1]))
        .ok_or_else(|| {
            Error::Invalid("no cgroup v2 is mounted; `mount -t cgroup2 none /sys/fs/cgroup`".into())
        })
}

fn is_cgroup2(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) else { return false };
    // SAFETY: an all-zero statfs is valid; both pointers are live for the call.
    unsafe {
        let mut fs: libc::statfs = std::mem::zeroed();
        libc::statfs(path.as_ptr(), &mut fs) == 0 && fs.f_type as i64 == CGROUP2_MAGIC
    }
}

/// The cgroup's number, which names it in pin paths.
fn inode(cgroup: &Path) -> Result<u64> {
    if !is_cgroup2(cgroup) {
        return Err(Error::NoCgroup(cgroup.to_path_buf()));
    }
    Ok(fs::metadata(cgroup).map_err(io_error(cgroup))?.ino())
}

fn select_dir() -> PathBuf {
    bpffs::root().join("select")
}

fn record(id: &str) -> PathBuf {
    run_file(&format!("select-{id}"))
}

/// Claimed by the agent that looks after it.
fn claim_file(id: &str) -> PathBuf {
    run_file(&format!("select-{id}:agent"))
}

/// Chooses for one cgroup. Dropped, it no longer does, unless it was pinned; sockets keep what they have.
#[derive(Debug)]
pub struct Selector {
    cgroup: PathBuf,
    prefix: String,
    object: Object,
    link: Link,
    /// The link's.
    number: u32,
    coupling: Option<Coupling>,
}

impl Selector {
    /// Starts choosing for the sockets of `cgroup`, by the policy's rules for it, among the algorithms under `prefix`;
    /// `coupling` is what those share of groups, without which rules must not name any.
    pub fn attach(
        cgroup: &Path,
        policy: &Policy,
        prefix: &str,
        coupling: Option<Coupling>,
    ) -> Result<Selector> {
        let id = inode(cgroup)?;
        check_root("choosing congestion control for a cgroup")?;
        let _lock = Lock::take("native")?;
        Self::attach_alone(cgroup, id, policy, prefix, coupling)
    }

    /// With the lock held: two would both choose.
    fn attach_alone(
        cgroup: &Path,
        id: u64,
        policy: &Policy,
        prefix: &str,
        coupling: Option<Coupling>,
    ) -> Result<Selector> {
        if select_dir().join(id.to_string()).is_dir() {
            return Err(Error::CgroupBusy(cgroup.to_path_buf()));
        }
        // what cannot be removed of others does no harm
        let _ = remove_gone_cgroups();
        let folder = fs::File::open(cgroup).map_err(io_error(cgroup))?;
        if has_program(folder.as_raw_fd(), sys::BPF_CGROUP_SOCK_OPS, PROGRAM)? {
            return Err(Error::CgroupAttachedElsewhere(cgroup.to_path_buf()));
        }
        let object = load(coupling.as_ref())?;
        write_names(&map(&object, "wl_names"), prefix)?;
        let what = || format!("attaching to {}", cgroup.display());
        let program = object.progs_mut().next().ok_or_else(|| Error::Invalid("an empty object".into()))?;
        let link = program.attach_cgroup(folder.as_raw_fd()).map_err(bpf(what()))?;
        let number = link.info().map_err(bpf(what()))?.id;
        let selector = Selector {
            cgroup: cgroup.to_path_buf(),
            prefix: prefix.to_string(),
            object,
            link,
            number,
            coupling,
        };
        // until then it chooses for no socket
        set_rules(
            &map(&selector.object, "wl_rules"),
            &map(&selector.object, "wl_policy"),
            selector.coupling.as_ref().map(|coupling| (coupling, number)),
            id,
            cgroup,
            policy,
        )?;
        Ok(selector)
    }

    /// What it did so far.
    pub fn info(&self) -> Result<SelectorInfo> {
        read_info(&self.cgroup, &map(&self.object, "wl_select_stats"))
    }

    /// Pins it, so that it outlives this process. The record comes last: without it, no process takes over what is pinned.
    fn into_pinned(mut self) -> Result<()> {
        let _lock = Lock::take("select")?;
        bpffs::mount_bpffs()?;
        let id = inode(&self.cgroup)?.to_string();
        let dir = select_dir().join(&id);
        run_file::remove_stale(&record(&id))?;
        bpffs::make_dir(&dir)?;
        for mut map in self.object.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if MAPS.contains(&name.as_str()) {
                map.pin(dir.join(&name)).map_err(bpf(format!("pinning {name}")))?;
            }
        }
        self.link.pin(dir.join("link")).map_err(bpf("pinning a link"))?;
        self.coupling = None;
        let text = format!("{}\n{}\n{}\n", fingerprint(OBJECT), self.prefix, self.cgroup.display());
        run_file::write_text(&record(&id), &text)
    }
}

/// Compiles the policy's rules for the cgroup and puts them in force, their groups first. With the coupling goes the number
/// of the selector's link.
fn set_rules(
    rules_map: &impl MapCore,
    head_map: &impl MapCore,
    coupling: Option<(&Coupling, u32)>,
    id: u64,
    cgroup: &Path,
    policy: &Policy,
) -> Result<()> {
    let mut rules = policy.compile_cgroup(cgroup);
    match coupling {
        Some((coupling, link)) => coupling.set(id, link, policy, &mut rules)?,
        None if rules.iter().any(|r| r.group != 0) => {
            return Err(Error::Invalid("a group, where sockets are coupled from outside".into()));
        }
        None => {}
    }
    write_policy(rules_map, head_map, &rules)
}

impl Drop for Selector {
    fn drop(&mut self) {
        if let Some(coupling) = &self.coupling {
            // if it fails, the next one that looks does it
            let _ = coupling.remove(self.number);
        }
    }
}

fn load(coupling: Option<&Coupling>) -> Result<Object> {
    raise_limits();
    silence_libbpf();
    let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(Error::Load)?;
    if let Some(coupling) = coupling {
        coupling.share_with(&mut open)?;
    }
    open.load().map_err(Error::Load)
}

/// Loads the program and throws it away: does this kernel take it?
pub(crate) fn try_load() -> Result<Vec<Verified>> {
    cost::verified(&load(None)?)
}

fn write_names(names: &Map, prefix: &str) -> Result<()> {
    // entry 0 is what all of them begin with
    let all = Algorithm::all().map(|a| (a.id(), format!("{prefix}{}", a.name())));
    for (id, name) in all.chain([(0, prefix.to_string())]) {
        let mut bytes = [0; abi::WL_CA_NAME_BYTES as usize];
        debug_assert!(name.len() <= NAME_MOST);
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        names
            .update(&id.to_ne_bytes(), &bytes, MapFlags::ANY)
            .map_err(bpf("writing the algorithms' names"))?;
    }
    Ok(())
}

fn read_info(cgroup: &Path, stats: &impl MapCore) -> Result<SelectorInfo> {
    let value = stats
        .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf("reading what was chosen"))?
        .unwrap_or_default();
    let number = |at: usize| u64_at(&value, at);
    use std::mem::offset_of;
    Ok(SelectorInfo {
        cgroup: cgroup.to_path_buf(),
        chosen: number(offset_of!(abi::wl_select_stats, chosen)),
        refused: number(offset_of!(abi::wl_select_stats, refused)),
        unmatched: number(offset_of!(abi::wl_select_stats, unmatched)),
    })
}

/// A pinned selector, whichever process pinned it.
#[derive(Debug)]
pub struct PinnedSelector {
    id: String,
    build: String,
    prefix: String,
    cgroup: PathBuf,
    /// None: it is looked at, not looked after.
    held: Option<Held>,
}

/// By which the process that looks after a selector knows that it is still that one which is pinned.
#[derive(Debug)]
struct Held {
    _claim: Claim,
    /// Its link's number.
    link: u32,
}

impl PinnedSelector {
    fn from_id(id: &str) -> PinnedSelector {
        let text = private::read(&record(id)).unwrap_or_default();
        let mut lines = text.lines().map(str::to_string);
        let mut next = || lines.next().unwrap_or_default();
        let (build, prefix, cgroup) = (next(), next(), PathBuf::from(next()));
        PinnedSelector { id: id.into(), build, prefix, cgroup, held: None }
    }

    /// All of this kernel.
    pub fn all() -> Vec<PinnedSelector> {
        let Ok(entries) = fs::read_dir(select_dir()) else { return Vec::new() };
        let mut ids: Vec<String> =
            entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        ids.sort();
        ids.iter().map(|id| Self::from_id(id)).collect()
    }

    /// Those of cgroups that are there, which an agent pinned that has ended.
    pub fn unattended() -> Result<Vec<PinnedSelector>> {
        // or one that is just being attached would have no claim yet
        let _native = Lock::take("native")?;
        let _lock = Lock::take("select")?;
        let is_unattended =
            |s: &PinnedSelector| s.is_alive() && !s.build.is_empty() && !Claim::is_taken(&claim_file(&s.id));
        Ok(Self::all().into_iter().filter(is_unattended).collect())
    }

    /// The one of that cgroup, if there is one.
    pub fn of(cgroup: &Path) -> Option<PinnedSelector> {
        let id = inode(cgroup).ok()?.to_string();
        select_dir().join(&id).is_dir().then(|| Self::from_id(&id))
    }

    /// Starts choosing for the sockets of `cgroup`, as [`Selector::attach`], so that it outlives this process; or, if
    /// the selector of a process that has ended is there, puts the policy in force there. Returns whether that is so.
    /// Of several agents one has it, as long as it runs.
    pub fn attach_or_take_over(
        cgroup: &Path,
        policy: &Policy,
        prefix: &str,
    ) -> Result<(PinnedSelector, bool)> {
        let id = inode(cgroup)?;
        check_root("choosing congestion control for a cgroup")?;
        let _lock = Lock::take("native")?;
        if let Some(selector) = Self::take_over(cgroup)? {
            selector.set_policy(policy)?;
            return Ok((selector, true));
        }
        Selector::attach_alone(cgroup, id, policy, prefix, Some(Coupling::pinned(prefix)?))?.into_pinned()?;
        let selector = Self::take_over(cgroup)?;
        // the cgroup went away meanwhile
        Ok((selector.ok_or_else(|| Error::NoCgroup(cgroup.to_path_buf()))?, false))
    }

    /// That of `cgroup`, of an agent that has ended, to look after it; its rules stay as they are. None: there is none, or an agent looks
    /// after it.
    pub fn take_unattended(cgroup: &Path) -> Result<Option<PinnedSelector>> {
        match Self::take_over(cgroup) {
            Err(Error::Claimed { .. }) => Ok(None),
            other => other,
        }
    }

    /// The one of that cgroup, if there is one, to look after it. What is not all there, since the process that
    /// pinned it was killed meanwhile, is removed.
    fn take_over(cgroup: &Path) -> Result<Option<PinnedSelector>> {
        let _lock = Lock::take("select")?;
        match Self::of(cgroup) {
            Some(part) if part.build.is_empty() => part.remove_locked().map(|()| None),
            Some(mut whole) => {
                let name = cgroup.display().to_string();
                let claim = Claim::take(&claim_file(&whole.id), &name)?;
                let link = whole.link()?.map_or(0, |(link, _)| link);
                whole.held = Some(Held { _claim: claim, link });
                Ok(Some(whole))
            }
            None => Ok(None),
        }
    }

    /// Its cgroup's folder, as it was given.
    pub fn cgroup(&self) -> &Path {
        &self.cgroup
    }

    /// What the names of its algorithms begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Is its cgroup still there?
    pub fn is_alive(&self) -> bool {
        inode(&self.cgroup).is_ok_and(|id| id.to_string() == self.id)
    }

    /// Has another process ended it, maybe to begin with another one?
    pub fn is_released(&self) -> bool {
        match &self.held {
            // where that cannot be determined it is as it was
            Some(held) => self.link().is_ok_and(|now| now.is_none_or(|(link, _)| link != held.link)),
            None => !select_dir().join(&self.id).is_dir(),
        }
    }

    /// What to report of it then.
    pub fn released(&self) -> Error {
        Error::Released(self.cgroup.display().to_string())
    }

    fn pin(&self, name: &str) -> PathBuf {
        select_dir().join(&self.id).join(name)
    }

    /// The numbers of its link and of the cgroup that it is still attached to, 0 when that is gone; none: there is no link.
    fn link(&self) -> Result<Option<(u32, u64)>> {
        let pin = self.pin("link");
        // libbpf would complain of one that is not there
        if !pin.exists() {
            return Ok(None);
        }
        let info = Link::open(&pin).and_then(|link| link.info());
        match info.map_err(bpf(format!("opening {}", pin.display())))? {
            LinkInfo { id, info: LinkTypeInfo::Cgroup(cgroup), .. } => Ok(Some((id, cgroup.cgroup_id))),
            _ => Ok(None),
        }
    }

    /// Puts another policy in force; sockets that are connected keep what they have.
    pub fn set_policy(&self, policy: &Policy) -> Result<()> {
        let _lock = Lock::take("select")?;
        if self.is_released() {
            return Err(self.released());
        }
        let is_ours = self.build == fingerprint(OBJECT).to_string();
        let (Some((link, _)), Ok(id), true) = (self.link()?, self.id.parse(), is_ours) else {
            return Err(Error::OtherSelector(self.cgroup.clone()));
        };
        let (rules, head) = (pinned_map(&self.pin("wl_rules"))?, pinned_map(&self.pin("wl_policy"))?);
        let coupling = Coupling::pinned(&self.prefix)?;
        set_rules(&rules, &head, Some((&coupling, link)), id, &self.cgroup, policy)
    }

    /// What it did so far; none: it is not whole, as a process is just pinning or removing it, or was killed at that.
    pub fn info(&self) -> Result<Option<SelectorInfo>> {
        match pinned_map_if_any(&self.pin("wl_select_stats"))? {
            Some(stats) if !self.build.is_empty() => read_info(&self.cgroup, &stats).map(Some),
            _ => Ok(None),
        }
    }

    /// Ends it, if no other process has done so; sockets keep what they have, but for their groups, which they leave.
    pub fn remove(self) -> Result<()> {
        let _lock = Lock::take("select")?;
        if self.is_released() { Ok(()) } else { self.remove_locked() }
    }

    /// With the lock held, under which it is pinned.
    fn remove_locked(self) -> Result<()> {
        if let (Ok(Some((link, _))), Ok(coupling)) = (self.link(), Coupling::pinned(&self.prefix)) {
            coupling.remove(link)?;
        }
        run_file::remove_first(&record(&self.id));
        bpffs::remove_dir(&select_dir().join(&self.id))?;
        let _ = fs::remove_file(claim_file(&self.id));
        Ok(())
    }
}

/// Removes what is pinned for cgroups that are gone, whichever process pinned it, and has sockets leave their groups that an
/// `attach` had chosen which was killed: nothing couples them any more. Returns the cgroups. What cannot be removed
/// keeps the rest from nothing; the first error is returned.
pub fn remove_gone_cgroups() -> Result<Vec<PathBuf>> {
    let mut gone = Vec::new();
    let mut removed = Ok(());
    // or what a process is just pinning would look as if it was left in part
    let lock = Lock::take("select")?;
    for selector in PinnedSelector::all() {
        // of whose link that is not known it stays
        if selector.link().is_ok_and(|link| link.is_none_or(|(_, cgroup)| cgroup == 0)) {
            let cgroup = selector.cgroup.clone();
            match selector.remove_locked() {
                Ok(()) => gone.push(cgroup),
                Err(why) => removed = removed.and(Err(why)),
            }
        }
    }
    drop(lock);
    for prefix in native::prefixes() {
        // another build's are not ours to read
        if let Ok(coupling) = Coupling::pinned(&prefix) {
            removed = removed.and(coupling.remove_orphans());
        }
    }
    removed?;
    // a process that was killed while pinning has not noted whose it was
    gone.retain(|cgroup| !cgroup.as_os_str().is_empty());
    Ok(gone)
}
