//! Loads the transparent datapath: maps sized, constants set, free lists filled, rules written.

use crate::{
    Error, Options, Policy, Result,
    cost::{self, Verified},
    error::{bpf, io_error},
    group,
    image::{CONFIG, OBJECT},
    in_force::IfaceRules,
    libbpf_words::silence_libbpf,
    map_value::bytes_of,
    object::{map, raise_limits},
    persist::{bpffs::mount_bpffs, lock::Lock},
    shared_groups,
    uplink::kernel_has_departure_times,
};
use libbpf_rs::{ErrorKind, Map, MapCore, MapFlags, Object, ObjectBuilder, OpenMap, OpenObject};
use std::{
    fs::File,
    io::Read,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::Path,
};
use windlass_core::abi::{self, wl_config};

fn fill(queue: &Map, n: u32) -> Result<()> {
    for i in 0..n {
        queue.update(&[], &i.to_ne_bytes(), MapFlags::ANY).map_err(bpf("filling a free list"))?;
    }
    Ok(())
}

/// What its maps take at once; what belongs to one CPU is small, and ledgers come with the first reader.
fn memory_bytes(open: &OpenObject) -> u64 {
    let of = |map: OpenMap<'_>| u64::from(map.max_entries()) * u64::from(map.key_size() + map.value_size());
    open.maps().filter(|map| map.name() != "wl_ledgers").map(of).sum()
}

/// Why the kernel did not take what is to have these sizes.
fn not_loaded(why: libbpf_rs::Error, options: &Options, memory_bytes: u64) -> Error {
    match why.kind() {
        ErrorKind::OutOfMemory => Error::NoMemory {
            needed_mib: memory_bytes.div_ceil(1 << 20),
            store_mib: options.store_bytes >> 20,
            flows: options.flows_max,
        },
        _ => Error::Load(why),
    }
}

fn open(object: &[u8], options: &Options, config: &wl_config) -> Result<OpenObject> {
    silence_libbpf();
    let mut open = ObjectBuilder::default().open_memory(object).map_err(Error::Load)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match name.as_str() {
            "wl_flows" | "wl_flow_wheels" | "wl_places" | "wl_ledgers" | "wl_free_flows" | "wl_due" => {
                map.set_max_entries(options.flows_max).map_err(bpf(format!("sizing {name}")))?;
            }
            "wl_handshakes" => {
                map.set_max_entries(options.handshakes()).map_err(bpf("sizing wl_handshakes"))?;
            }
            "wl_flow_ids" => map.set_max_entries(options.flows_max).map_err(bpf("sizing wl_flow_ids"))?,
            "wl_store" => map.set_max_entries(options.banks()).map_err(bpf("sizing wl_store"))?,
            "wl_segs" | "wl_free_chunks" | "wl_tables" | "wl_free_tables" | "wl_splits"
            | "wl_split_chunks" => {
                map.set_max_entries(options.chunks()).map_err(bpf(format!("sizing {name}")))?;
            }
            CONFIG => {
                let mut image = bytes_of(config).to_vec();
                image.resize(map.initial_value().map_or(image.len(), |v| v.len()), 0);
                map.set_initial_value(&image).map_err(bpf("configuring the datapath"))?;
            }
            _ => {}
        }
    }
    Ok(open)
}

/// Mark of packets that a datapath injects: any value that no other program marks packets with, and no other datapath, for which
/// `number` is the clock's; it never leaves this host.
fn own_mark(number: u32) -> u32 {
    0x771d_0000 | (number & 0xffff)
}

/// A random key.
pub(crate) fn random_key() -> Result<[u64; 2]> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    File::open(source).and_then(|mut file| file.read_exact(&mut bytes)).map_err(io_error(source))?;
    Ok([&bytes[..8], &bytes[8..]].map(|half| u64::from_ne_bytes(half.try_into().expect("eight bytes"))))
}

/// Loads programs and maps for interface `ifindex` under `policy`, free lists filled, and attaches nothing: for tests
/// that hand packets to the programs themselves. The clock, if it is to run, is sent round through `clock_ifindex`.
pub fn load(
    iface: &str,
    ifindex: u32,
    policy: &Policy,
    options: &Options,
    clock_ifindex: u32,
) -> Result<Object> {
    load_object(OBJECT, iface, ifindex, policy, options, clock_ifindex)
}

/// The same of another build of the datapath, as a test has it whose time is not the kernel's.
pub fn load_object(
    object: &[u8],
    iface: &str,
    ifindex: u32,
    policy: &Policy,
    options: &Options,
    clock_ifindex: u32,
) -> Result<Object> {
    let object = load_idle(object, options.shares(policy), options, ifindex, clock_ifindex)?;
    write_rules(&object, iface, ifindex, policy)?;
    Ok(object)
}

/// Loads programs and maps for no interface yet; `number` is the clock's.
pub(crate) fn load_idle(
    object: &[u8],
    shares_groups: bool,
    options: &Options,
    number: u32,
    clock_ifindex: u32,
) -> Result<Object> {
    options.check()?;
    raise_limits();
    let config = wl_config {
        mark: own_mark(number),
        flows_max: options.flows_max,
        clock_ifindex,
        idle_timeout_s: options.idle_timeout_s,
        pace_by: if options.pace_by_fq { abi::WL_PACE_BY_FQ } else { abi::WL_PACE_BY_CLOCK },
        clock_hz: options.clock_hz,
        spare_chunks: options.spare_chunks()?,
        chunks_max: options.chunks(),
        share_key: random_key()?,
    };
    let mut open = open(object, options, &config)?;
    let memory_bytes = memory_bytes(&open);
    let load = |open: OpenObject| open.load().map_err(|why| not_loaded(why, options, memory_bytes));
    let object = if shares_groups {
        mount_bpffs()?;
        let _lock = Lock::take("groups")?;
        shared_groups::reuse(&mut open)?;
        let object = load(open)?;
        shared_groups::share(&object)?;
        object
    } else {
        load(open)?
    };
    fill(&map(&object, "wl_free_flows"), options.flows_max)?;
    fill(&map(&object, "wl_free_chunks"), options.chunks())?;
    fill(&map(&object, "wl_free_tables"), options.chunks())?;
    Ok(object)
}

/// Puts the rules of the first interface in force.
pub(crate) fn write_rules(object: &Object, iface: &str, ifindex: u32, policy: &Policy) -> Result<()> {
    let mut rules = policy.compile(iface, ifindex);
    group::resolve_here(&map(object, "wl_groups"), policy, &mut rules)?;
    let [own, ifaces, head] = ["wl_rules", "wl_ifaces", "wl_policy"].map(|name| map(object, name));
    IfaceRules { ifindex, rules: &own, ifaces: &ifaces, head: &head }.write(&rules)?;
    give_rules(&map(object, "wl_iface_rules"), ifindex, own.as_fd())
}

/// Makes the map `rules` that of the interface; `all` is wl_iface_rules.
pub(crate) fn give_rules(all: &impl MapCore, ifindex: u32, rules: BorrowedFd<'_>) -> Result<()> {
    let number = rules.as_raw_fd().to_ne_bytes();
    all.update(&ifindex.to_ne_bytes(), &number, MapFlags::ANY).map_err(bpf("giving an interface its rules"))
}

/// Loads the programs and throws them away: does this kernel take them?
pub(crate) fn try_load() -> Result<Vec<Verified>> {
    let options = Options { flows_max: 16, store_bytes: 1, ..Options::default() };
    let config = wl_config {
        flows_max: 16,
        idle_timeout_s: 1,
        // as much as can be taken
        pace_by: if kernel_has_departure_times() { abi::WL_PACE_BY_FQ } else { abi::WL_PACE_BY_CLOCK },
        ..Default::default()
    };
    raise_limits();
    cost::verified(&open(OBJECT, &options, &config)?.load().map_err(Error::Load)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn without_memory_the_cure_is_other_sizes() {
        let options = Options { flows_max: 1000, ..Options::default() };
        let refused = |number| {
            let why = libbpf_rs::Error::from(io::Error::from_raw_os_error(number));
            not_loaded(why, &options, 300 << 20).to_string()
        };
        let words = refused(libc::ENOMEM);
        assert!(words.contains("300 MiB") && words.contains("--store-mib 256 --flows 1000"), "{words}");
        assert!(refused(libc::EINVAL).contains("windlass doctor"));
    }

    #[test]
    fn the_memory_of_maps_follows_from_the_options() {
        let bytes = |options: &Options| memory_bytes(&open(OBJECT, options, &wl_config::default()).unwrap());
        let options = Options::default();
        let more = Options { store_bytes: 2 * options.store_bytes, ..options.clone() };
        let (before, after) = (bytes(&options), bytes(&more));
        assert!(after - before >= options.store_bytes && before > options.store_bytes, "{before} {after}");
    }
}
