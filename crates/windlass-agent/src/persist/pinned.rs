//! A pinned datapath in use: whichever process loaded it, flows, groups and policy are read and changed through its pins.

use crate::{
    Error, FlowInfo, GroupInfo, Options, Policy, Result,
    attach::has_filters,
    clock::{self, Clock},
    counters::read_counters,
    error::bpf,
    exceptions::{Exceptions, Flows},
    flows::{FlowCounts, are_let_go, count_flows, read_flows},
    group,
    image::{OBJECT, build_id, state_id},
    in_force::{IfaceRules, look_up_again},
    map_value::from_bytes,
    netdev,
    object::{fingerprint, pinned_map},
    one_way::Packets,
    persist::{
        further_iface::{self, Further},
        lock::Lock,
        own_programs::OwnPrograms,
        pin_claim::Claim,
        pin_dir::{CLOCK_LINK, PINNED_CONFIG, PinDir, RULES},
        pins::is_clock_used,
        private,
        replace::{load_onto, replace_programs},
        run_file::{read_record, remove_stale, write_record, write_text},
    },
    shared_groups,
    usage::Usage,
};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Program};
use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    slice,
    sync::Arc,
    time::SystemTime,
};
use windlass_core::{
    Algorithm,
    abi::{self, wl_config},
};

const MAPS: [&str; 11] = [
    "wl_flows",
    "wl_flow_ids",
    "wl_places",
    "wl_exceptions",
    "wl_counters",
    RULES,
    "wl_ifaces",
    "wl_policy",
    "wl_groups",
    "wl_share_total",
    PINNED_CONFIG,
];

/// A pinned datapath, whichever process loaded it.
#[derive(Debug)]
pub struct Pinned {
    pub(crate) pins: PinDir,
    /// Of the interface when it was attached.
    pub(crate) ifindex: u32,
    /// All but those of its own rules may be open once for several interfaces of one datapath.
    pub(crate) maps: BTreeMap<&'static str, Arc<MapHandle>>,
    clock: Clock,
    clock_program: OwnedFd,
    /// None: it is looked at, not looked after.
    _claim: Option<Claim>,
}

/// The program that a clock made anew needs.
fn clock_program(pins: &PinDir) -> Result<OwnedFd> {
    Program::fd_from_pinned_path(pins.dir().join(clock::PROGRAM)).map_err(bpf("opening the clock's program"))
}

impl Pinned {
    /// Opens the pinned datapath of `iface`, whichever agent looks after it.
    ///
    /// # Errors
    /// [`Error::NotPinned`], [`Error::PinnedInPart`] and [`Error::OtherVersion`], if that is so.
    pub fn open(iface: &str) -> Result<Pinned> {
        Self::open_at_once(iface, None).or_else(|_| {
            // another process may have been just pinning or releasing it
            let _lock = Lock::take("pins")?;
            Self::open_at_once(iface, None)
        })
    }

    /// What it shares with `beside`, if that is of the same datapath, is not opened once more.
    fn open_at_once(iface: &str, beside: Option<&Pinned>) -> Result<Pinned> {
        let pins = PinDir::here(iface);
        let dir = pins.dir();
        if !dir.is_dir() {
            return Err(Error::NotPinned(iface.to_string()));
        }
        let Some(state) = pins.state() else {
            return Err(Error::PinnedInPart(iface.to_string()));
        };
        if state != state_id() {
            return Err(Error::OtherVersion(dir));
        }
        let linked = || pins.linked_index().filter(|index| *index != 0);
        let Some(ifindex) = pins.index().or_else(linked).or_else(|| netdev::index(iface)) else {
            return Err(Error::NotPinned(iface.to_string()));
        };
        let clock = Clock::existing(pins.clock_number().unwrap_or(ifindex));
        let beside = beside.filter(|other| other.clock.number() == clock.number());
        let mut maps = BTreeMap::new();
        for name in MAPS {
            let shared = beside.filter(|_| name != RULES).map(|other| other.maps[name].clone());
            maps.insert(name, shared.map_or_else(|| pinned_map(&dir.join(name)).map(Arc::new), Ok)?);
        }
        let clock_program = clock_program(&pins)?;
        Ok(Pinned { pins, ifindex, maps, clock, clock_program, _claim: None })
    }

    /// ... and looks after it, as no agent does, beside another interface that this process may look after.
    ///
    /// # Errors
    /// An agent does, or it was released.
    pub(crate) fn take_over(iface: &str, beside: Option<&Pinned>) -> Result<Pinned> {
        let _lock = Lock::take("pins")?;
        let mut pinned = Self::open_at_once(iface, beside)?;
        if !pinned.is_still_pinned() {
            return Err(pinned.released());
        }
        pinned._claim = Some(pinned.pins.claim(&format!("'{iface}'"))?);
        if pinned.pins.index().is_none() {
            // by clsact nothing else distinguishes it from one that gets its name; if it cannot be noted, that is as it was
            let _ = write_text(&pinned.pins.index_file(), &pinned.ifindex.to_string());
        }
        Ok(pinned)
    }

    /// Looks after the datapath of `iface` that an agent left which has ended, to release it: its rules stay as they are. None: none is
    /// pinned, or an agent looks after it.
    ///
    /// # Errors
    /// As of [`Pinned::open`]; and [`Error::Locked`].
    pub fn take_unattended(iface: &str) -> Result<Option<Pinned>> {
        if !PinDir::here(iface).dir().is_dir() {
            return Ok(None);
        }
        match Self::take_over(iface, None) {
            Err(Error::Claimed { .. } | Error::NotPinned(_) | Error::Released(_)) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Are its programs those of this build, all of them?
    pub(crate) fn is_of_this_build(&self) -> bool {
        read_record(&self.pins.build_file()) == Some(build_id())
    }

    /// Puts this build's programs in the place of those that another one, of the same state, left: those of `beside`, if that is of
    /// the same datapath and has them, or new ones.
    ///
    /// # Errors
    /// Those that are there stay, or some of them, and flows are as well off as before.
    pub(crate) fn upgrade(&mut self, beside: Option<&Pinned>) -> Result<()> {
        match beside.filter(|other| other.clock.number() == self.clock.number()) {
            Some(other) => self.put_programs(&OwnPrograms::pinned_in(&other.pins.dir())?, build_id()),
            None => self.replace_programs(OBJECT),
        }
    }

    /// Can a further interface have its datapath, of an agent with these options?
    pub fn has_room(&self, options: &Options) -> bool {
        self.is_of_this_build()
            && self.pins.state().is_some()
            && self.pins.clock_number().is_some()
            && self.other_options(options).is_ok_and(|others| others.is_empty())
    }

    /// Takes these interfaces into its datapath. With the lock of "attach" held.
    ///
    /// # Errors
    /// As of [`further_iface::add`]; or it was released.
    pub(crate) fn add(&self, all: &[Further], policy: &Policy) -> Result<Vec<Result<()>>> {
        let _lock = Lock::take_for_pins()?;
        if !self.is_still_pinned() {
            return Err(self.released());
        }
        further_iface::add(&self.pins, all, policy)
    }

    /// The same with the programs of an object that is at hand, as tests have one. Flows keep what they have: `object` must have
    /// been built from sources of the same state.
    pub fn replace_programs(&mut self, object: &[u8]) -> Result<()> {
        // this takes a while, for which no other process need wait
        let loaded = load_onto(object, &self.pins.dir())?;
        self.put_programs(&OwnPrograms::of_object(&loaded)?, fingerprint(object))
    }

    /// Puts these programs, of that build, in the place of those that are there.
    fn put_programs(&mut self, programs: &OwnPrograms, build: u64) -> Result<()> {
        let _lock = Lock::take("pins")?;
        if !self.is_still_pinned() {
            return Err(self.released());
        }
        // until all are replaced they are of no one build
        remove_stale(&self.pins.build_file())?;
        replace_programs(programs, &self.pins, self.ifindex, self.clock.program_ifindex())?;
        self.clock_program = clock_program(&self.pins)?;
        // if it fails, the next agent replaces them once more
        let _ = write_record(&self.pins.build_file(), build);
        Ok(())
    }

    /// Name of the interface.
    pub fn iface(&self) -> &str {
        &self.pins.iface
    }

    /// Index of the interface.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// With what else than these options it was loaded, in words of the command line: that stays as long as it is there.
    pub fn other_options(&self, options: &Options) -> Result<Vec<String>> {
        let Some(config) = self.only_entry::<wl_config>(PINNED_CONFIG)? else {
            return Ok(Vec::new());
        };
        let chunks = pinned_map(&self.pins.dir().join("wl_segs"))?.max_entries();
        let store_mib = (u64::from(chunks) * u64::from(abi::WL_CHUNK_BYTES)) >> 20;
        let by_fq = config.pace_by == abi::WL_PACE_BY_FQ;
        let all = [
            (config.flows_max != options.flows_max, format!("--flows {}", config.flows_max)),
            (chunks != options.chunks(), format!("--store-mib {store_mib}")),
            (config.clock_hz != options.clock_hz, format!("--clock-hz {}", config.clock_hz)),
            (
                config.idle_timeout_s != options.idle_timeout_s,
                format!("--idle-timeout-s {}", config.idle_timeout_s),
            ),
            (by_fq != options.pace_by_fq, format!("--pace-by {}", if by_fq { "fq" } else { "clock" })),
        ];
        Ok(all.into_iter().filter(|(is_other, _)| *is_other).map(|(_, words)| words).collect())
    }

    pub(crate) fn map(&self, name: &str) -> &MapHandle {
        &self.maps[name]
    }

    /// What the only entry of one of the maps holds.
    fn only_entry<T: Copy>(&self, map: &str) -> Result<Option<T>> {
        let value = self.maps[map].lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        Ok(value.map_err(bpf(format!("reading {map}")))?.and_then(|bytes| from_bytes(&bytes)))
    }

    /// What is used of store and flow table.
    pub fn usage(&self) -> Result<Usage> {
        let config = self.only_entry::<wl_config>(PINNED_CONFIG)?.unwrap_or_default();
        Ok(Usage::of(&config, &self.only_entry("wl_share_total")?.unwrap_or_default()))
    }

    /// All counters by name.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>> {
        read_counters(self.map("wl_counters"))
    }

    /// What its interface has counted from which follows whether both directions pass.
    pub fn packets(&self) -> Result<Packets> {
        Ok(Packets::of(&self.rules_in_force().facts()?.unwrap_or_default()))
    }

    /// The flows in use behind its interface.
    pub fn flows(&self) -> Result<Vec<FlowInfo>> {
        self.flows_behind(|ifindex| ifindex == self.ifindex)
    }

    /// Those behind all interfaces of its datapath, which have one flow table.
    pub fn all_flows(&self) -> Result<Vec<FlowInfo>> {
        self.flows_behind(|_| true)
    }

    fn flows_behind(&self, is_behind: impl Fn(u32) -> bool) -> Result<Vec<FlowInfo>> {
        let [ids, flows, places] = ["wl_flow_ids", "wl_flows", "wl_places"].map(|name| self.map(name));
        let exceptions = Exceptions::read(self.map("wl_exceptions"))?;
        read_flows(is_behind, ids, flows, places, &exceptions, &self.groups()?)
    }

    /// How many flows its datapath has behind each interface, by index.
    pub fn flow_counts(&self) -> Result<BTreeMap<u32, FlowCounts>> {
        count_flows(self.map("wl_flow_ids"), self.map("wl_flows"))
    }

    /// The process of the agent that looks after it, in words; none: there is no such agent.
    pub fn agent(&self) -> Result<Option<String>> {
        let _lock = Lock::take("pins")?;
        Ok(self.pins.claimant())
    }

    /// Since when the policy in force there has been; none: it could not be noted.
    pub fn policy_since(&self) -> Option<SystemTime> {
        fs::metadata(self.pins.rule_names_file()).and_then(|file| file.modified()).ok()
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
            ["wl_flow_ids", "wl_flows", "wl_exceptions"].map(|name| self.map(name));
        let is_there = Flows { ids, flows, exceptions }.set(self.ifindex, sender, receiver, algorithm)?;
        if is_there {
            look_up_again(self.map("wl_policy"))?;
        }
        Ok(is_there)
    }

    /// The groups that its flows can be in, which are those of all interfaces of the namespace.
    pub fn groups(&self) -> Result<Vec<GroupInfo>> {
        group::read(self.map("wl_groups"), &shared_groups::names_here())
    }

    /// Names of the rules of the policy in force, by their numbers.
    pub fn rule_names(&self) -> Vec<String> {
        let text = private::read(&self.pins.rule_names_file()).unwrap_or_default();
        text.lines().map(String::from).collect()
    }

    /// Puts another policy in force; flows follow at their next ACK.
    pub fn set_policy(&self, policy: &Policy) -> Result<()> {
        let _lock = Lock::take("pins")?;
        if !self.is_still_pinned() {
            return Err(self.released());
        }
        let mut rules = policy.compile(self.iface(), self.ifindex);
        group::resolve_here(self.map("wl_groups"), policy, &mut rules)?;
        self.rules_in_force().write(&rules)?;
        self.pins.write_rule_names(policy);
        Ok(())
    }

    /// Ends control gently, as [`Datapath::let_go`](crate::Datapath::let_go) does.
    /// Of all of these; what fails for one keeps the rest from nothing, and the first error is returned.
    ///
    /// # Errors
    /// Among others [`Error::Locked`]: none of them does.
    pub fn let_go(all: &[&Pinned]) -> Result<()> {
        let _lock = Lock::take_for_pins()?;
        all.iter().map(|pinned| pinned.rules_in_force().let_go()).fold(Ok(()), Result::and)
    }

    fn rules_in_force(&self) -> IfaceRules<'_, MapHandle> {
        let [rules, ifaces, head] = [RULES, "wl_ifaces", "wl_policy"].map(|name| self.map(name));
        IfaceRules { ifindex: self.ifindex, rules, ifaces, head }
    }

    /// Is control over, behind all of these interfaces, for all flows that have unacknowledged data?
    pub fn have_let_go(all: &[&Pinned]) -> Result<bool> {
        let mut by_datapath: BTreeMap<u32, Vec<&Pinned>> = BTreeMap::new();
        for pinned in all {
            by_datapath.entry(pinned.clock_number()).or_default().push(pinned);
        }
        by_datapath.values().try_fold(true, |so_far, some| {
            let [ids, flows] = ["wl_flow_ids", "wl_flows"].map(|name| some[0].map(name));
            let is_behind = |ifindex| some.iter().any(|pinned| pinned.ifindex == ifindex);
            Ok(so_far && are_let_go(ids, flows, is_behind)?)
        })
    }

    /// Sets the clock going again if it stood still since the last look. Returns whether it had to be made anew.
    pub fn watch_clock(&mut self) -> Result<bool> {
        let counters = self.counters()?;
        if !self.clock.stands(&counters) {
            return Ok(false);
        }
        let _lock = Lock::take("pins")?;
        if !self.is_still_pinned() {
            return Err(self.released());
        }
        let Some(attached) = self.clock.revive(&*self.maps[PINNED_CONFIG], self.clock_program.as_fd())?
        else {
            return Ok(false);
        };
        for pins in self.pins.others().chain([self.pins.clone()]) {
            // of the link to the device that went nothing is left but its pin
            let pin = pins.dir().join(CLOCK_LINK);
            let _ = fs::remove_file(&pin);
            attached.pin(&pin)?;
        }
        Ok(true)
    }

    /// Did its clock run between the last two looks of [`Pinned::watch_clock`]? None: there were no two yet.
    pub fn is_clock_running(&self) -> Option<bool> {
        self.clock.is_running()
    }

    /// Has another process released it, maybe to pin another one?
    pub fn is_released(&self) -> Result<bool> {
        let _lock = Lock::take("pins")?;
        Ok(!self.is_still_pinned())
    }

    /// What to report of it then.
    pub fn released(&self) -> Error {
        Error::Released(format!("'{}'", self.iface()))
    }

    /// Is it this datapath that is pinned under the interface's name, and not that of another interface of the name, or
    /// what another agent made since? With the lock held.
    fn is_still_pinned(&self) -> bool {
        let id = |map: &MapHandle| map.info().map(|i| i.info.id).ok();
        let now = pinned_map(&self.pins.dir().join(RULES)).ok();
        now.and_then(|map| id(&map)) == id(self.map(RULES))
    }

    /// Number of its clock, which it shares with the other interfaces of its datapath.
    pub fn clock_number(&self) -> u32 {
        self.clock.number()
    }

    /// Are its programs still on the interface? Before tcx it takes two processes to find out, and without `asks_tc` it is taken
    /// for granted.
    ///
    /// # Errors
    /// They are not since it was released; or that cannot be determined.
    pub fn is_attached(&self, asks_tc: bool) -> Result<bool> {
        let has_programs = || match self.pins.linked_index() {
            Some(linked) => Ok(linked == self.ifindex),
            None if !self.pins.dir().is_dir() => Ok(false),
            None if asks_tc => has_filters(self.iface()),
            None => Ok(true),
        };
        if has_programs()? {
            return Ok(true);
        }
        // once more when no process is at it
        let _lock = Lock::take("pins")?;
        if self.is_still_pinned() { has_programs() } else { Err(self.released()) }
    }

    /// Is the interface still there under its name, and not another one?
    pub fn is_alive(&self) -> bool {
        netdev::index(self.iface()) == Some(self.ifindex)
    }

    /// What the interface is called now; none: it is gone.
    pub fn name_now(&self) -> Option<String> {
        netdev::name_of(self.ifindex)
    }

    /// Detaches the programs of these from their interfaces; what their flows did can be read until they are removed.
    ///
    /// # Errors
    /// [`Error::Locked`]: nothing was detached.
    pub fn detach_together(all: &[Pinned]) -> Result<()> {
        let _lock = Lock::take_for_pins()?;
        let pins: Vec<_> =
            all.iter().filter(|p| p.is_still_pinned()).map(|p| (p.pins.clone(), Some(p.ifindex))).collect();
        PinDir::detach_before_release(&pins);
        Ok(())
    }

    /// Detaches these: removes links, filters, maps and the clock, where no other process has done so. Returns what came of each.
    ///
    /// # Errors
    /// [`Error::Locked`]: nothing was removed.
    pub fn remove_together(all: &[Pinned]) -> Result<Vec<Result<()>>> {
        let _lock = Lock::take_for_pins()?;
        let mut removed: Vec<Result<()>> = all.iter().map(|_| Ok(())).collect();
        let (places, pins): (Vec<usize>, Vec<_>) = all
            .iter()
            .enumerate()
            .filter(|(_, pinned)| pinned.is_still_pinned())
            .map(|(at, pinned)| (at, (pinned.pins.clone(), Some(pinned.ifindex))))
            .unzip();
        PinDir::release_together(&pins, |at, released| removed[places[at]] = released);
        for (at, pinned) in all.iter().enumerate() {
            // the process that removed it, from another namespace because the interface was gone, could not reach the clock
            let is_elsewhere = !places.contains(&at) && !netdev::has_index(pinned.ifindex);
            if is_elsewhere && !is_clock_used(pinned.clock.number()) {
                pinned.clock.remove();
            }
        }
        Ok(removed)
    }

    /// The same of one.
    pub fn remove(&self) -> Result<()> {
        Self::remove_together(slice::from_ref(self))?.pop().unwrap_or(Ok(()))
    }
}
