//! Algorithms that this process has loaded and registered.

use super::{
    image::{GUEST_OBJECT, OBJECT, build_id},
    name::{DEFAULT_PREFIX, NAME_MOST, check_prefix},
    pin_paths::{self, COUPLING_MAPS, dir, is_loaded, record},
};
use crate::{
    Error, Result, RunTime,
    cost::{self, Verified},
    error::bpf,
    libbpf_words::silence_libbpf,
    native::orphans,
    object::raise_limits,
    persist::{
        bpffs,
        lock::Lock,
        run_file::{remove_stale, write_record},
    },
    privilege::check_root,
};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject, ReferencesType,
    btf::{Btf, types},
};
use std::fs;
use windlass_core::{
    Algorithm,
    abi::{self, wl_native_config},
};
use windlass_scenario::Parameters;

/// `BPF_F_LINK`: the object is registered by a link (Linux 6.4), not by writing the map.
const BPF_F_LINK: u32 = 1 << 13;

/// What this kernel offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Features {
    cong_control_args: u32,
    pub(super) has_links: bool,
}

/// Reads the kernel's own description of itself.
pub(super) fn features() -> Option<Features> {
    // our own error explains a kernel without BTF better than libbpf's
    silence_libbpf();
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

pub(super) fn check_may_load(prefix: &str) -> Result<()> {
    check_prefix(prefix)?;
    check_root("loading congestion control")
}

/// Name in the C source, from the bytes of `struct tcp_congestion_ops`, whose first member it is.
fn algorithm_of(image: &[u8]) -> Option<Algorithm> {
    let name = image.split(|b| *b == 0).next().and_then(|n| std::str::from_utf8(n).ok())?;
    Algorithm::by_name(name.strip_prefix(DEFAULT_PREFIX)?)
}

fn tunables_by_id(parameters: &Parameters) -> [[u16; abi::WL_TUNABLES as usize]; abi::WL_ALG_IDS as usize] {
    let mut by_id = [[0; _]; _];
    for algorithm in parameters.tunables.algorithms() {
        by_id[algorithm.id() as usize] = parameters.tunables.of(algorithm);
    }
    by_id
}

fn open(object: &[u8], prefix: &str, features: Features, parameters: &Parameters) -> Result<OpenObject> {
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
                params: parameters.of_any(),
                tunables: tunables_by_id(parameters),
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
        Self::load_with(prefix, &Parameters::default())
    }

    /// As [`Native::load`]; all algorithms get these parameters of their paths.
    pub fn load_with(prefix: &str, parameters: &Parameters) -> Result<Native> {
        parameters.check().map_err(Error::Invalid)?;
        Self::load_object(OBJECT, prefix, parameters)
    }

    /// As [`Native::load`], but flows report to a group outside this kernel; see [`crate::GuestFlows`].
    pub(crate) fn load_in_guest(prefix: &str) -> Result<Native> {
        Self::load_object(GUEST_OBJECT, prefix, &Parameters::default())
    }

    fn load_object(object: &[u8], prefix: &str, parameters: &Parameters) -> Result<Native> {
        check_may_load(prefix)?;
        let features = features().ok_or(Error::NoStructOps)?;
        if is_loaded(prefix) {
            return Err(Error::NativeLoaded(prefix.to_string()));
        }
        pin_paths::forget_names_of_killed();
        raise_limits();
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

    /// How often its programs were called with an ACK, and how long they took in all, for whatever algorithm; see
    /// [`RunTimeStats`](crate::RunTimeStats).
    pub fn ack_run_time(&self) -> Result<RunTime> {
        let name = "wl_native_cong_control";
        cost::run_time(&self.object.progs().find(|p| p.name() == name).expect("a program of our own"))
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

    /// The record comes last: without it, no process takes them for loaded.
    pub(super) fn pin(mut self) -> Result<()> {
        bpffs::mount_bpffs()?;
        let dir = dir(&self.prefix);
        remove_stale(&record(&self.prefix))?;
        bpffs::make_dir(&dir)?;
        for mut map in self.object.maps_mut() {
            let pin = match map.name().to_str() {
                Some("wl_native_stats") => "stats",
                Some(".bss.retired") => "retired",
                Some(name) => match COUPLING_MAPS.iter().find(|(own, _)| *own == name) {
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
        write_record(&record(&self.prefix), build_id())?;
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
        let _ = fs::remove_file(pin_paths::group_names(&self.prefix));
    }
}

/// Has the sockets of algorithms go over to the kernel's own.
pub(super) fn retire(map: &impl MapCore) -> Result<()> {
    map.update(&0u32.to_ne_bytes(), &1u32.to_ne_bytes(), MapFlags::ANY)
        .map_err(bpf("retiring the algorithms"))
}

/// Loads the programs and throws them away: does this kernel take them?
pub(crate) fn try_load() -> Result<Vec<Verified>> {
    let features = features().ok_or(Error::NoStructOps)?;
    raise_limits();
    let object =
        open(OBJECT, DEFAULT_PREFIX, features, &Parameters::default())?.load().map_err(Error::Load)?;
    cost::verified(&object)
}
