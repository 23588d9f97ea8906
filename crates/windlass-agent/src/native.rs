//! The native home: every algorithm as a congestion control of this kernel, `<prefix><name>`, by default `wl_bbr` and so
//! on, for any socket to choose.
//!
//! Pinned under /sys/fs/bpf/windlass/native/<prefix>/, one link per algorithm, they outlive whoever loaded them. A socket
//! keeps its algorithm's programs alive; so that unloading ends, sockets are told to go over to the kernel's own.

use crate::{
    Error, PinnedSelector, Result, coupled,
    error::{bpf, io_error},
    lock::Lock,
    object::{fingerprint, pinned_map, raise_memlock_limit},
    orphans, pins,
    plain::u64_at,
    privilege::check_root,
    run_dir::run_file,
};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject, PrintLevel,
    ReferencesType,
    btf::{Btf, types},
};
use serde::Serialize;
use std::{
    fs,
    mem::offset_of,
    path::{Path, PathBuf},
};
use windlass_core::{
    Algorithm, abi,
    abi::{wl_native_config, wl_native_stats},
};
use windlass_scenario::Parameters;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/native.bpf.o"));
static GUEST_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest.bpf.o"));

/// What names begin with unless another prefix is asked for.
pub const DEFAULT_PREFIX: &str = "wl_";
/// Length of a congestion control's name in the kernel, without the NUL.
pub(crate) const NAME_MOST: usize = abi::WL_CA_NAME_BYTES as usize - 1;
/// `BPF_F_LINK`: the object is registered by a link (Linux 6.4), not by writing the map.
const BPF_F_LINK: u32 = 1 << 13;

/// What this kernel offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Features {
    cong_control_args: u32,
    has_links: bool,
}

/// An algorithm that is registered, or was and is still in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NativeInfo {
    /// What to write where the kernel wants a congestion control.
    pub name: String,
    /// The algorithm behind it.
    pub algorithm: &'static str,
    /// Sockets that use it now.
    pub sockets: u64,
    /// Sockets that ever used it.
    pub started: u64,
    /// Sockets that went over to the kernel's own algorithm.
    pub handed_back: u64,
}

/// Asks the kernel's own description of itself.
fn features() -> Option<Features> {
    // what libbpf says of a kernel without BTF is said better by our own error
    libbpf_rs::set_print(Some((PrintLevel::Debug, |_, _| {})));
    let btf = Btf::from_vmlinux().ok()?;
    btf.type_by_name::<types::Struct>("bpf_struct_ops_tcp_congestion_ops")?;
    let ops: types::Struct = btf.type_by_name("tcp_congestion_ops")?;
    let member = ops.iter().find(|m| m.name.is_some_and(|n| n == "cong_control"))?;
    let pointer: types::Ptr = btf.type_by_id(member.ty)?;
    let function = types::FuncProto::try_from(pointer.referenced_type().skip_mods_and_typedefs()).ok()?;
    Some(Features {
        cong_control_args: function.len() as u32,
        has_links: btf.type_by_name::<types::Struct>("bpf_struct_ops_link").is_some(),
    })
}

fn check_may_load(prefix: &str) -> Result<()> {
    check_prefix(prefix)?;
    check_root("loading congestion control")
}

fn check_prefix(prefix: &str) -> Result<()> {
    let longest = Algorithm::all().map(|a| a.name().len()).max().unwrap_or(0);
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let room = NAME_MOST - longest;
    if prefix.is_empty() || prefix.len() > room || !prefix.chars().all(is_fine) {
        let what = format!("prefix '{prefix}': 1 to {room} lower-case letters, digits and underscores");
        return Err(Error::Invalid(what));
    }
    Ok(())
}

fn native_dir() -> PathBuf {
    pins::root().join("native")
}

pub(crate) fn dir(prefix: &str) -> PathBuf {
    native_dir().join(prefix)
}

fn record(prefix: &str) -> PathBuf {
    run_file(&format!("native-{prefix}"))
}

/// Name in the C source, from the bytes of `struct tcp_congestion_ops`, whose first member it is.
fn algorithm_of(image: &[u8]) -> Option<Algorithm> {
    let name = image.split(|b| *b == 0).next().and_then(|n| std::str::from_utf8(n).ok())?;
    Algorithm::by_name(name.strip_prefix(DEFAULT_PREFIX)?)
}

fn open(object: &[u8], prefix: &str, features: Features, parameters: Parameters) -> Result<OpenObject> {
    let mut open = ObjectBuilder::default().open_memory(object).map_err(Error::Load)?;
    for mut map in open.maps_mut() {
        if map.map_type() == MapType::StructOps {
            if !features.has_links {
                map.set_map_flags(map.map_flags() & !BPF_F_LINK).map_err(bpf("preparing an algorithm"))?;
            }
            let image = map.initial_value_mut().ok_or_else(|| Error::Invalid("an empty algorithm".into()))?;
            let algorithm = algorithm_of(image).expect("named after an algorithm of the list");
            image[..=NAME_MOST].fill(0);
            let name = format!("{prefix}{}", algorithm.name());
            image[..name.len()].copy_from_slice(name.as_bytes());
        } else if map.name() == ".rodata.native" {
            let config = wl_native_config {
                cong_control_args: features.cong_control_args,
                params: parameters.into(),
                ..Default::default()
            };
            // SAFETY: plain data without padding; the slice lives for the call.
            let bytes = unsafe {
                std::slice::from_raw_parts((&raw const config).cast::<u8>(), size_of::<wl_native_config>())
            };
            map.set_initial_value(bytes).map_err(bpf("configuring the native home"))?;
        }
    }
    Ok(open)
}

/// Congestion control loaded by this process. Dropped, it is unloaded again.
#[derive(Debug)]
pub struct Native {
    prefix: String,
    object: Object,
    links: Vec<(Algorithm, Link)>,
    features: Features,
}

impl Native {
    /// Registers all algorithms under `prefix`. They stay until the value is dropped, or for good once it is pinned.
    pub fn load(prefix: &str) -> Result<Native> {
        Self::load_with(prefix, Parameters::default())
    }

    /// As [`Native::load`]; all algorithms are told this of their paths.
    pub fn load_with(prefix: &str, parameters: Parameters) -> Result<Native> {
        parameters.check().map_err(Error::Invalid)?;
        Self::load_object(OBJECT, prefix, parameters)
    }

    /// As [`Native::load`], but flows report to a group outside this kernel; see [`crate::GuestFlows`].
    pub(crate) fn load_in_guest(prefix: &str) -> Result<Native> {
        Self::load_object(GUEST_OBJECT, prefix, Parameters::default())
    }

    fn load_object(object: &[u8], prefix: &str, parameters: Parameters) -> Result<Native> {
        check_may_load(prefix)?;
        let features = features().ok_or(Error::NoStructOps)?;
        if is_loaded(prefix) {
            return Err(Error::NativeLoaded(prefix.to_string()));
        }
        coupled::forget_names_of_killed();
        raise_memlock_limit();
        let mut object = open(object, prefix, features, parameters)?.load().map_err(Error::Load)?;
        let mut links = Vec::new();
        for mut map in object.maps_mut().filter(|m| m.map_type() == MapType::StructOps) {
            let symbol = map.name().to_string_lossy().into_owned();
            let algorithm = algorithm_of(symbol.as_bytes()).expect("named after an algorithm of the list");
            let name = format!("{prefix}{}", algorithm.name());
            let is_taken = |e: &libbpf_rs::Error| e.kind() == libbpf_rs::ErrorKind::AlreadyExists;
            let mut link = map.attach_struct_ops();
            if link.as_ref().is_err_and(is_taken) && !features.has_links && orphans::unregister(&name)? {
                link = map.attach_struct_ops();
            }
            let link = link.map_err(|e| match is_taken(&e) {
                true => Error::NativeTaken(name.clone()),
                false => bpf(format!("registering {name}"))(e),
            })?;
            links.push((algorithm, link));
        }
        Ok(Native { prefix: prefix.to_string(), object, links, features })
    }

    /// What is registered.
    pub fn names(&self) -> Vec<String> {
        self.links.iter().map(|(a, _)| format!("{}{}", self.prefix, a.name())).collect()
    }

    /// What their names begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// One of its maps, to be kept.
    pub(crate) fn map(&self, name: &str) -> Result<MapHandle> {
        let map = self.object.maps().find(|m| m.name() == name).expect("a map of our own");
        MapHandle::try_from(&map).map_err(bpf(format!("keeping {name}")))
    }

    /// Pins the algorithms, so that they outlive this process.
    pub fn into_pinned(self) -> Result<()> {
        let _lock = Lock::take("native")?;
        self.pin()
    }

    /// The record comes last: without it, nobody takes them for loaded.
    fn pin(mut self) -> Result<()> {
        pins::mount_bpffs()?;
        let dir = dir(&self.prefix);
        fs::create_dir_all(&dir).map_err(io_error(&dir))?;
        for mut map in self.object.maps_mut() {
            let pin = match map.name().to_str() {
                Some("wl_native_stats") => "stats",
                Some(".bss.retired") => "retired",
                Some(name) => match coupled::MAPS.iter().find(|(own, _)| *own == name) {
                    Some((_, pin)) => pin,
                    None => continue,
                },
                None => continue,
            };
            map.pin(dir.join(pin)).map_err(bpf(format!("pinning {pin}")))?;
        }
        for (algorithm, link) in &mut self.links {
            link.pin(dir.join(algorithm.name())).map_err(bpf("pinning an algorithm"))?;
        }
        pins::write_record(&record(&self.prefix), build_id())?;
        for (_, mut link) in self.links.drain(..) {
            if !self.features.has_links {
                // without links, dropping would unregister
                link.disconnect();
            }
        }
        Ok(())
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        if self.links.is_empty() {
            return;
        }
        // before the maps are closed: without links in the kernel, a link's descriptor is that of its map
        self.links.clear();
        if let Some(map) = self.object.maps().find(|m| m.name() == ".bss.retired") {
            // after no new socket can choose them; if it fails, sockets keep what they have until they close
            let _ = retire(&map);
        }
        // there if some of their sockets were to have groups
        let _ = fs::remove_file(coupled::names(&self.prefix));
    }
}

fn retire(map: &impl MapCore) -> Result<()> {
    map.update(&0u32.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf("retiring the algorithms"))
}

fn build_id() -> u64 {
    fingerprint(OBJECT)
}

/// Are algorithms pinned under `prefix`?
pub fn is_loaded(prefix: &str) -> bool {
    dir(prefix).is_dir()
}

/// Are they of this build?
pub(crate) fn is_current(prefix: &str) -> bool {
    pins::read_record(&record(prefix)) == Some(build_id())
}

/// Registers and pins all algorithms under `prefix`, unless they are there already. Returns whether they were not.
pub fn ensure_loaded(prefix: &str) -> Result<bool> {
    check_may_load(prefix)?;
    let _lock = Lock::take("native")?;
    if is_loaded(prefix) && pins::read_record(&record(prefix)).is_none() {
        // who pinned them was killed meanwhile; selectors leave their wishes with the algorithms that they were made for
        for selector in PinnedSelector::all().into_iter().filter(|s| s.prefix() == prefix) {
            selector.remove()?;
        }
        unload(prefix)?;
    }
    if !is_loaded(prefix) {
        Native::load(prefix)?.pin()?;
        return Ok(true);
    }
    if is_current(prefix) { Ok(false) } else { Err(Error::OtherNative(prefix.to_string())) }
}

/// What names of pinned algorithms begin with.
pub fn prefixes() -> Vec<String> {
    let entries = fs::read_dir(native_dir()).into_iter().flatten().flatten();
    let mut all: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    all.sort();
    all
}

/// All pinned algorithms, by prefix.
pub fn list() -> Result<Vec<NativeInfo>> {
    let mut all = Vec::new();
    for prefix in prefixes() {
        all.extend(list_prefix(&prefix)?);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn list_prefix(prefix: &str) -> Result<Vec<NativeInfo>> {
    let dir = dir(prefix);
    let stats = pinned_map(&dir.join("stats"))?;
    Algorithm::all()
        .filter(|a| dir.join(a.name()).exists())
        .map(|algorithm| {
            let value = stats
                .lookup(&algorithm.id().to_ne_bytes(), MapFlags::ANY)
                .map_err(bpf("reading the algorithms' statistics"))?
                .unwrap_or_default();
            let number = |at: usize| u64_at(&value, at);
            let started = number(offset_of!(wl_native_stats, started));
            let ended = number(offset_of!(wl_native_stats, ended));
            let handed_back = number(offset_of!(wl_native_stats, handed_back));
            let name = format!("{prefix}{}", algorithm.name());
            let sockets = started.saturating_sub(ended);
            Ok(NativeInfo { name, algorithm: algorithm.name(), sockets, started, handed_back })
        })
        .collect()
}

/// Unregisters what is pinned under `prefix`. Sockets that use it go over to the kernel's own algorithm when they next
/// send or are acknowledged. Returns what was unregistered.
pub fn unload(prefix: &str) -> Result<Vec<NativeInfo>> {
    if !is_loaded(prefix) {
        return Err(Error::NativeNotLoaded(prefix.to_string()));
    }
    let dir = dir(prefix);
    let had = list_prefix(prefix).unwrap_or_default();
    let has_links = features().is_none_or(|f| f.has_links);
    for algorithm in Algorithm::all().map(|a| dir.join(a.name())).filter(|p| p.exists()) {
        unregister(&algorithm, has_links)?;
    }
    // after no new socket can choose them
    if let Ok(map) = pinned_map(&dir.join("retired")) {
        retire(&map)?;
    }
    pins::remove_dir(&dir)?;
    // unless another prefix is loaded
    let _ = fs::remove_dir(native_dir());
    let _ = fs::remove_file(record(prefix));
    let _ = fs::remove_file(coupled::names(prefix));
    Ok(had)
}

fn unregister(pin: &Path, has_links: bool) -> Result<()> {
    if !has_links {
        // the pin is of the map; deleting its value unregisters
        let map = pinned_map(pin)?;
        map.delete(&0u32.to_ne_bytes()).map_err(bpf(format!("unregistering {}", pin.display())))?;
    }
    fs::remove_file(pin).map_err(io_error(pin))
}

/// Loads the programs and throws them away: does this kernel take them? Returns their number.
pub(crate) fn try_load() -> Result<usize> {
    let features = features().ok_or(Error::NoStructOps)?;
    raise_memlock_limit();
    let object =
        open(OBJECT, DEFAULT_PREFIX, features, Parameters::default())?.load().map_err(Error::Load)?;
    Ok(object.progs().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_that_leave_no_room_for_a_name_are_refused() {
        assert!(check_prefix(DEFAULT_PREFIX).is_ok());
        for bad in ["", "way_too_long_prefix", "a b", "../", "W"] {
            assert!(check_prefix(bad).is_err(), "{bad}");
        }
    }
}
