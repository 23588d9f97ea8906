//! One datapath: the programs and maps of one interface.

use crate::{
    Error, FlowInfo, Policy, Result,
    attach::{Attached, FROM_SENDER, Side, attach, has_datapath, remove_unused_clsact},
    clock::{self, Clock},
    cost::{self, RunTime},
    counters::{clock_ticks, read_counters},
    error::bpf,
    exceptions::Exceptions,
    flows::read_flows,
    group,
    in_force::{has_let_go, let_go, write_policy},
    lock::Lock,
    netdev,
    object::{fingerprint, map, program, raise_memlock_limit},
    pins::{self, Pinned},
    plain::bytes_of,
    privilege::check_capable,
    shared_groups,
    uplink::kernel_has_departure_times,
};
use libbpf_rs::{Map, MapCore, MapFlags, Object, ObjectBuilder, OpenObject, PrintLevel, Program};
use std::{collections::BTreeMap, mem, os::fd::AsFd};
use windlass_core::abi::{self, wl_config};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/transparent.bpf.o"));

/// Map of the constants that the programs are loaded with, struct wl_config.
pub(crate) const CONFIG: &str = ".rodata.config";

/// Identifies this build's datapath: maps and programs of another build do not mix with it.
pub(crate) fn build_id() -> u64 {
    fingerprint(OBJECT)
}

/// Sizes and rates, fixed when the datapath is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Flows at once; more pass unwatched. 1 to 2^20.
    pub flows_max: u32,
    /// Memory for stored data, allocated at once for this interface, in steps of 16 MiB. Less than 4 GiB.
    pub store_bytes: u64,
    /// Rounds of the clock per second, 250 to 20000: repairs and pacing are as fine as this.
    pub clock_hz: u32,
    /// A flow without packets for so long is forgotten, 1 to 3600 s.
    pub idle_timeout_s: u32,
    /// The uplink's `fq` spaces packets, by departure times, not the clock: see [`Pacing`](crate::Pacing). Without
    /// such an `fq`, or before Linux 5.18, where the programs are refused then, leave it false.
    pub pace_by_fq: bool,
    /// Flows of all interfaces of the namespace can be in one group, even if the first policy names none: the policy may
    /// change. Otherwise so it is if the first policy names groups.
    pub shares_groups: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            flows_max: 32768,
            store_bytes: 256 << 20,
            clock_hz: 2000,
            idle_timeout_s: 300,
            pace_by_fq: false,
            shares_groups: false,
        }
    }
}

impl Options {
    fn check(&self) -> Result<()> {
        let say = |what: &str| Err(Error::Invalid(what.to_string()));
        if !(1..=1 << 20).contains(&self.flows_max) {
            return say("flows: 1 to 1048576");
        }
        if self.store_bytes == 0 || self.store_bytes >= 4 << 30 {
            return say("store: more than 0 and less than 4 GiB");
        }
        if !(250..=20000).contains(&self.clock_hz) {
            return say("clock: 250 to 20000 rounds a second");
        }
        if !(1..=3600).contains(&self.idle_timeout_s) {
            return say("idle timeout: 1 to 3600 s");
        }
        Ok(())
    }

    fn shares(&self, policy: &Policy) -> bool {
        self.shares_groups || !policy.groups().is_empty()
    }

    fn banks(&self) -> u32 {
        self.store_bytes.div_ceil(u64::from(abi::WL_BANK_BYTES)) as u32
    }

    fn chunks(&self) -> u32 {
        // banks are the grain of what is allocated, chunks of what is used
        self.store_bytes.div_ceil(u64::from(abi::WL_CHUNK_BYTES)).min(u16::MAX.into()) as u32
    }

    /// What one CPU keeps others cannot have: a sixteenth of the store at most, all CPUs together.
    fn spare_chunks(&self) -> Result<u32> {
        let cpus = libbpf_rs::num_possible_cpus().map_err(bpf("counting CPUs"))? as u32;
        Ok((self.chunks() / 16 / cpus).min(abi::WL_SPARE_CHUNKS))
    }
}

/// A running datapath. Dropping it detaches it, unless it was pinned.
#[derive(Debug)]
pub struct Datapath {
    object: Object,
    attached: Vec<Attached>,
    clock: Clock,
    iface: String,
    ifindex: u32,
    policy: Policy,
    is_pinned: bool,
    /// Its groups are those of the namespace; for as long as it is not pinned, this is what to do if it is killed.
    parting: Option<shared_groups::Parting>,
    _share: Option<shared_groups::Share>,
}

fn fill(queue: &Map, n: u32) -> Result<()> {
    for i in 0..n {
        queue.update(&[], &i.to_ne_bytes(), MapFlags::ANY).map_err(bpf("filling a free list"))?;
    }
    Ok(())
}

fn open(options: &Options, config: &wl_config) -> Result<OpenObject> {
    libbpf_rs::set_print(Some((PrintLevel::Debug, |_, _| {})));
    let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(Error::Load)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match name.as_str() {
            "wl_flows" | "wl_flow_wheels" | "wl_places" | "wl_free_flows" | "wl_due" => {
                map.set_max_entries(options.flows_max).map_err(bpf(format!("sizing {name}")))?;
            }
            "wl_flow_ids" => map.set_max_entries(options.flows_max).map_err(bpf("sizing wl_flow_ids"))?,
            "wl_store" => map.set_max_entries(options.banks()).map_err(bpf("sizing wl_store"))?,
            "wl_segs" | "wl_free_chunks" => {
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

impl Datapath {
    /// Loads the programs and attaches them to `iface` under `policy`.
    pub fn attach(iface: &str, policy: &Policy, options: &Options) -> Result<Datapath> {
        let ifindex = Self::check(iface, options)?;
        let _lock = Lock::take("attach")?;
        Self::attach_alone(iface, ifindex, policy, options)
    }

    /// Attaches to `iface` under `policy` and pins everything, so that it outlives this process; or, if that has been done,
    /// puts the policy in force there. Returns whether it had been done. Of several agents one attaches.
    pub fn attach_or_take_over(iface: &str, policy: &Policy, options: &Options) -> Result<(Pinned, bool)> {
        let ifindex = Self::check(iface, options)?;
        let _lock = Lock::take("attach")?;
        if pins::is_controlled(iface) {
            let pinned = Pinned::open(iface)?;
            pinned.set_policy(policy)?;
            return Ok((pinned, true));
        }
        let mut datapath = Self::attach_alone(iface, ifindex, policy, options)?;
        datapath.pin()?;
        drop(datapath);
        Ok((Pinned::open(iface)?, false))
    }

    /// Index of the interface.
    fn check(iface: &str, options: &Options) -> Result<u32> {
        options.check()?;
        let ifindex = netdev::ethernet_index(iface)?;
        check_capable("attaching a datapath")?;
        Ok(ifindex)
    }

    /// With the lock held: two would make the same clock.
    fn attach_alone(iface: &str, ifindex: u32, policy: &Policy, options: &Options) -> Result<Datapath> {
        if pins::is_controlled(iface) {
            return Err(Error::Busy(iface.to_string()));
        }
        pins::remove_earlier(iface)?;
        if has_datapath(ifindex) {
            return Err(Error::AttachedElsewhere(iface.to_string()));
        }
        let shares = options.shares(policy);
        if shares {
            shared_groups::part_killed()?;
        }
        let share = shares.then(shared_groups::Share::hold).transpose()?;
        let clock = Clock::create(ifindex, options.clock_hz)?;
        let started = Self::start(iface, ifindex, policy, options, &clock);
        if started.is_err() {
            clock.remove();
        }
        let (object, attached, parting) = started?;
        Ok(Datapath {
            object,
            attached,
            clock,
            iface: iface.to_string(),
            ifindex,
            policy: policy.clone(),
            is_pinned: false,
            parting,
            _share: share,
        })
    }

    fn start(
        iface: &str,
        ifindex: u32,
        policy: &Policy,
        options: &Options,
        clock: &Clock,
    ) -> Result<(Object, Vec<Attached>, Option<shared_groups::Parting>)> {
        let object = load(iface, ifindex, policy, options, clock.shaped_ifindex()?)?;
        let parting = if options.shares(policy) {
            let mut part =
                object.progs_mut().find(|p| p.name() == shared_groups::PART).expect("a program of our own");
            Some(shared_groups::Parting::leave(&mut part, ifindex)?)
        } else {
            None
        };
        let mut attached = vec![clock.start(program(&object, clock::PROGRAM).as_fd())?];
        let started = [(FROM_SENDER, Side::Ingress), ("wl_to_sender", Side::Egress)]
            .into_iter()
            .try_for_each(|(name, side)| {
                attached.push(attach(program(&object, name).as_fd(), name, ifindex, side)?);
                Ok(())
            });
        if let Err(why) = started {
            detach_all(attached, iface, ifindex);
            return Err(why);
        }
        Ok((object, attached, parting))
    }

    /// Name of the interface.
    pub fn iface(&self) -> &str {
        &self.iface
    }

    /// Puts another policy in force; flows follow at their next ACK.
    pub fn set_policy(&mut self, policy: &Policy) -> Result<()> {
        self.policy = policy.clone();
        let mut rules = policy.compile(&self.iface, self.ifindex);
        group::resolve_here(&map(&self.object, "wl_groups"), policy, &mut rules)?;
        write_policy(&map(&self.object, "wl_rules"), &map(&self.object, "wl_policy"), &rules)
    }

    /// Ends control gently: flows are only watched from their next ACK on, or once the losses that were hidden from their
    /// senders are mended, but at most a second later.
    pub fn let_go(&mut self) -> Result<()> {
        let_go(&map(&self.object, "wl_rules"), &map(&self.object, "wl_policy"))
    }

    /// Is control over for all flows that have data in flight?
    pub fn has_let_go(&self) -> Result<bool> {
        Ok(has_let_go(&self.flows()?))
    }

    /// All counters by name.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>> {
        read_counters(&map(&self.object, "wl_counters"))
    }

    /// All flows in use.
    pub fn flows(&self) -> Result<Vec<FlowInfo>> {
        let groups = group::read(&map(&self.object, "wl_groups"), &shared_groups::names_here())?;
        let [ids, flows, places] =
            ["wl_flow_ids", "wl_flows", "wl_places"].map(|name| map(&self.object, name));
        let exceptions = Exceptions::read(&map(&self.object, "wl_exceptions"))?;
        read_flows(&ids, &flows, &places, &exceptions, &groups)
    }

    /// What each program has cost while a [`RunTimeStats`](crate::RunTimeStats) lived.
    pub fn run_times(&self) -> Result<BTreeMap<String, RunTime>> {
        let name = |p: &Program| p.name().to_string_lossy().into_owned();
        self.object.progs().map(|p| Ok((name(&p), cost::run_time(&p)?))).collect()
    }

    /// Kernel memory of each map in bytes; what is stored of flows' data is in `wl_store` and `wl_segs`.
    pub fn memory_bytes(&self) -> Result<BTreeMap<String, u64>> {
        let name = |m: &Map| m.name().to_string_lossy().into_owned();
        self.object.maps().map(|m| Ok((name(&m), cost::memory_bytes(&m)?))).collect()
    }

    /// Sets the clock going again if it stood still since the last look. Returns whether it had to be made anew.
    pub fn watch_clock(&mut self) -> Result<bool> {
        if !self.clock.stands(clock_ticks(&map(&self.object, "wl_counters"))?) {
            return Ok(false);
        }
        let program = program(&self.object, clock::PROGRAM);
        let attached = self.clock.revive(&map(&self.object, CONFIG), program.as_fd())?;
        let is_new = attached.is_some();
        if let Some(attached) = attached {
            self.attached[0] = attached;
        }
        Ok(is_new)
    }

    /// Is the interface still there?
    pub fn is_alive(&self) -> bool {
        netdev::index(&self.iface) == Some(self.ifindex)
    }

    /// Pins programs and maps, so that the datapath outlives this process.
    fn pin(&mut self) -> Result<()> {
        // what is pinned has that program, too, in a place of its own
        self.parting = None;
        pins::pin(&self.iface, self.ifindex, &mut self.object, &self.attached, &self.policy)?;
        self.is_pinned = true;
        Ok(())
    }
}

impl Drop for Datapath {
    fn drop(&mut self) {
        if self.is_pinned {
            // links live on through their pins and clsact filters by themselves
            return;
        }
        detach_all(mem::take(&mut self.attached), &self.iface, self.ifindex);
        self.clock.remove();
        // if it fails, its flows stay in groups that others share
        let _ = shared_groups::part(program(&self.object, shared_groups::PART).as_fd());
    }
}

/// Detaches the programs of an interface, and clsact if it was there for them.
fn detach_all(attached: Vec<Attached>, iface: &str, ifindex: u32) {
    let has_clsact = attached.iter().any(|a| matches!(a, Attached::Clsact(_)));
    attached.into_iter().for_each(Attached::detach);
    if has_clsact && netdev::index(iface) == Some(ifindex) {
        remove_unused_clsact(iface);
    }
}

/// Mark of packets that the datapath on interface `ifindex` injects: any value that nobody else marks packets with; it
/// never leaves this host.
fn own_mark(ifindex: u32) -> u32 {
    0x771d_0000 | (ifindex & 0xffff)
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
    options.check()?;
    raise_memlock_limit();
    let config = wl_config {
        mark: own_mark(ifindex),
        flows_max: options.flows_max,
        clock_ifindex,
        idle_timeout_s: options.idle_timeout_s,
        pace_by: if options.pace_by_fq { abi::WL_PACE_BY_FQ } else { abi::WL_PACE_BY_CLOCK },
        clock_hz: options.clock_hz,
        spare_chunks: options.spare_chunks()?,
    };
    let object = if options.shares(policy) {
        pins::mount_bpffs()?;
        let _lock = Lock::take("groups")?;
        let mut open = open(options, &config)?;
        shared_groups::reuse(&mut open)?;
        let object = open.load().map_err(Error::Load)?;
        shared_groups::share(&object)?;
        object
    } else {
        open(options, &config)?.load().map_err(Error::Load)?
    };
    fill(&map(&object, "wl_free_flows"), options.flows_max)?;
    fill(&map(&object, "wl_free_chunks"), options.chunks())?;
    let mut rules = policy.compile(iface, ifindex);
    group::resolve_here(&map(&object, "wl_groups"), policy, &mut rules)?;
    write_policy(&map(&object, "wl_rules"), &map(&object, "wl_policy"), &rules)?;
    Ok(object)
}

/// Loads the programs and throws them away: does this kernel take them? Returns verified instructions per program.
pub(crate) fn try_load() -> Result<Vec<(String, u32)>> {
    let options = Options { flows_max: 16, store_bytes: 1, ..Options::default() };
    let config = wl_config {
        flows_max: 16,
        idle_timeout_s: 1,
        // as much as can be taken
        pace_by: if kernel_has_departure_times() { abi::WL_PACE_BY_FQ } else { abi::WL_PACE_BY_CLOCK },
        ..Default::default()
    };
    raise_memlock_limit();
    let object = open(&options, &config)?.load().map_err(Error::Load)?;
    Ok(object.progs().map(|p| (p.name().to_string_lossy().into_owned(), p.insn_cnt() as u32)).collect())
}
