//! One datapath: the programs and maps of one interface.

use crate::{
    Error, FlowInfo, Interrupt, Options, Policy, Result,
    attach::{Attached, FROM_SENDER, Side, TO_SENDER, attach, has_datapath, remove_unused_clsact},
    clock::{self, Clock},
    cost::{self, RunTime},
    counters::read_counters,
    exceptions::Exceptions,
    flows::{has_let_go, read_flows},
    group,
    image::{CONFIG, OBJECT},
    in_force::IfaceRules,
    load::{load_idle, write_rules},
    netdev,
    object::{map, program},
    persist::{further_iface::Further, lock::Lock, pin_claim::Claim, pin_dir::PinDir, pinned::Pinned, pins},
    privilege::check_capable,
    shared_groups,
};
use libbpf_rs::{Map, MapCore, Object, Program};
use std::{collections::BTreeMap, mem, os::fd::AsFd};

/// How an agent came by a datapath.
#[derive(Debug)]
pub enum Start {
    /// There was none: it was loaded and attached.
    Attached,
    /// It was there, of the same build.
    TakenOver,
    /// It was there, of another build with the same state; the programs are those of this one now.
    Upgraded,
    /// It was there, of another build, whose programs stay: this one's could not take their place.
    NotUpgraded(Error),
}

impl Start {
    /// Takes over what is there.
    fn with(pinned: &mut Pinned, beside: Option<&Pinned>) -> Result<Start> {
        if pinned.is_of_this_build() {
            return Ok(Start::TakenOver);
        }
        match pinned.upgrade(beside) {
            Ok(()) => Ok(Start::Upgraded),
            // control goes on as it was
            Err(why @ (Error::Load(_) | Error::Bpf { .. } | Error::Io { .. })) => Ok(Start::NotUpgraded(why)),
            Err(why) => Err(why),
        }
    }
}

/// An interface that is to have a datapath with others.
enum Begun {
    /// It has one.
    TakenOver(Box<Pinned>, Start),
    /// It has none yet, and no other process attaches there.
    Claimed(Further, Claim),
}

/// Programs and maps of a datapath that is not attached yet.
#[derive(Debug)]
pub struct Loaded {
    object: Object,
    /// It is not made yet.
    clock: Clock,
    share: Option<shared_groups::Share>,
}

impl Loaded {
    /// Loads what [`Datapath::attach_or_take_over`] attaches, before there is an interface: it takes most of the time.
    pub fn for_several(policy: &Policy, options: &Options) -> Result<Loaded> {
        check_capable("attaching a datapath")?;
        Self::new(policy, options, Clock::of_several()?)
    }

    fn new(policy: &Policy, options: &Options, clock: Clock) -> Result<Loaded> {
        // here or in an earlier namespace of this number; in the way it is only of a process that shares groups, too
        let parted = shared_groups::part_killed();
        let shares = options.shares(policy);
        if shares {
            parted?;
        }
        let share = shares.then(shared_groups::Share::hold).transpose()?;
        let object = load_idle(OBJECT, shares, options, clock.number(), clock.index())?;
        Ok(Loaded { object, clock, share })
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
    /// No other process attaches there, also where the kernel does not report that one has (before tcx).
    claim: Option<Claim>,
    /// Its groups are those of the namespace; for as long as it is not pinned, this is what to do if it is killed.
    parting: Option<shared_groups::Parting>,
    _share: Option<shared_groups::Share>,
}

impl Datapath {
    /// Loads the programs and attaches them to `iface` under `policy`.
    pub fn attach(iface: &str, policy: &Policy, options: &Options) -> Result<Datapath> {
        let ifindex = Self::check(iface, options)?;
        if pins::is_controlled(iface)? {
            return Err(Error::Busy(iface.to_string()));
        }
        // loading takes a while, and is of no use if another process has the interface
        pins::check_free(iface, ifindex)?;
        let loaded = Loaded::new(policy, options, Clock::of_iface(ifindex)?)?;
        let _lock = Lock::take_for_attach(None)?;
        Self::attach_alone(loaded, iface, ifindex, policy, options)
    }

    /// Attaches to `iface` under `policy` and pins everything, so that it outlives this process; or, if that has been done,
    /// puts the policy, and the programs of this build, in force there. Of several agents one has it, as long as it runs.
    /// What is attached is taken out of `loaded`, if it is there. While another process attaches, waits until there is an `interrupt`.
    pub fn attach_or_take_over(
        iface: &str,
        policy: &Policy,
        options: &Options,
        loaded: &mut Option<Loaded>,
        interrupt: &Interrupt,
    ) -> Result<(Pinned, Start)> {
        let ifindex = Self::check(iface, options)?;
        if !pins::is_controlled(iface)? {
            pins::check_free(iface, ifindex)?;
            if loaded.is_none() {
                // this takes a while, for which no other process need wait
                *loaded = Some(Loaded::for_several(policy, options)?);
            }
        }
        let _lock = Lock::take_for_attach(Some(interrupt))?;
        if pins::is_controlled(iface)? {
            return Self::take_over(iface, policy, None);
        }
        // it was released a moment ago
        let loaded = loaded.take().ok_or_else(|| Error::Released(format!("'{iface}'")))?;
        Self::attach_alone(loaded, iface, ifindex, policy, options)?.pin()?;
        Ok((Pinned::take_over(iface, None)?, Start::Attached))
    }

    /// The same of several interfaces, beside one that this process looks after ([`Pinned::has_room`]): what is attached anew becomes one
    /// datapath with that, and nothing is loaded. For each what came of it, in their order.
    ///
    /// # Errors
    /// What keeps it from all of them.
    pub fn attach_beside(
        beside: &Pinned,
        ifaces: &[String],
        policy: &Policy,
        options: &Options,
        interrupt: &Interrupt,
    ) -> Result<Vec<Result<(Pinned, Start)>>> {
        let _lock = Lock::take_for_attach(Some(interrupt))?;
        options.check()?;
        check_capable("attaching a datapath")?;
        // once for all of them: with many it takes longer than the rest
        let noted = pins::noted_here();
        let begun: Vec<_> =
            ifaces.iter().map(|iface| Self::begin_beside(beside, iface, policy, &noted)).collect();
        let (mut further, mut claims) = (Vec::new(), Vec::new());
        let answers: Vec<Option<Result<(Pinned, Start)>>> = begun
            .into_iter()
            .map(|begun| match begun {
                Ok(Begun::Claimed(new, claim)) => {
                    further.push(new);
                    claims.push(claim);
                    None
                }
                Ok(Begun::TakenOver(pinned, start)) => Some(Ok((*pinned, start))),
                Err(why) => Some(Err(why)),
            })
            .collect();
        let added = match further.is_empty() {
            true => Ok(Vec::new()),
            false => beside.add(&further, policy),
        };
        let is_added = |at: usize| added.as_ref().is_ok_and(|all| all[at].is_ok());
        for (at, (new, claim)) in further.iter().zip(claims).enumerate() {
            if !is_added(at) {
                pins::unclaim(&new.pins.iface, claim);
            }
        }
        let mut added = added?.into_iter();
        let end = |(iface, answer): (&String, Option<_>)| match answer {
            Some(answer) => answer,
            None => {
                added.next().expect("one for each")?;
                Ok((Pinned::take_over(iface, Some(beside))?, Start::Attached))
            }
        };
        Ok(ifaces.iter().zip(answers).map(end).collect())
    }

    /// With the lock held.
    fn begin_beside(
        beside: &Pinned,
        iface: &str,
        policy: &Policy,
        noted: &[(PinDir, Option<u32>)],
    ) -> Result<Begun> {
        let ifindex = netdev::ethernet_index(iface)?;
        if pins::is_controlled(iface)? {
            let (pinned, start) = Self::take_over(iface, policy, Some(beside))?;
            return Ok(Begun::TakenOver(Box::new(pinned), start));
        }
        let claim = pins::remove_earlier(iface, ifindex, noted)?;
        let why = match is_taken(ifindex) {
            Ok(false) => return Ok(Begun::Claimed(Further { pins: PinDir::here(iface), ifindex }, claim)),
            Ok(true) => Error::AttachedElsewhere(iface.to_string()),
            Err(why) => why,
        };
        pins::unclaim(iface, claim);
        Err(why)
    }

    /// With the lock held.
    fn take_over(iface: &str, policy: &Policy, beside: Option<&Pinned>) -> Result<(Pinned, Start)> {
        let mut pinned = Pinned::take_over(iface, beside)?;
        let start = Start::with(&mut pinned, beside)?;
        pinned.set_policy(policy)?;
        Ok((pinned, start))
    }

    /// Index of the interface.
    fn check(iface: &str, options: &Options) -> Result<u32> {
        options.check()?;
        let ifindex = netdev::ethernet_index(iface)?;
        check_capable("attaching a datapath")?;
        Ok(ifindex)
    }

    /// With the lock held: two would make the same clock.
    fn attach_alone(
        loaded: Loaded,
        iface: &str,
        ifindex: u32,
        policy: &Policy,
        options: &Options,
    ) -> Result<Datapath> {
        if pins::is_controlled(iface)? {
            return Err(Error::Busy(iface.to_string()));
        }
        pins::remove_unused_clocks()?;
        let claim = pins::remove_earlier(iface, ifindex, &pins::noted_here())?;
        match Self::attach_claimed(loaded, iface, ifindex, policy, options) {
            Ok(mut datapath) => {
                datapath.claim = Some(claim);
                Ok(datapath)
            }
            Err(why) => {
                pins::unclaim(iface, claim);
                Err(why)
            }
        }
    }

    /// What comes after the claim, which is the caller's to keep.
    fn attach_claimed(
        loaded: Loaded,
        iface: &str,
        ifindex: u32,
        policy: &Policy,
        options: &Options,
    ) -> Result<Datapath> {
        if is_taken(ifindex)? {
            return Err(Error::AttachedElsewhere(iface.to_string()));
        }
        let Loaded { object, clock, share } = loaded;
        write_rules(&object, iface, ifindex, policy)?;
        clock.create(options.clock_hz)?;
        let started = Self::start(&object, ifindex, share.is_some(), &clock);
        if started.is_err() {
            clock.remove();
        }
        let (attached, parting) = started?;
        Ok(Datapath {
            object,
            attached,
            clock,
            iface: iface.to_string(),
            ifindex,
            policy: policy.clone(),
            is_pinned: false,
            claim: None,
            parting,
            _share: share,
        })
    }

    fn start(
        object: &Object,
        ifindex: u32,
        shares_groups: bool,
        clock: &Clock,
    ) -> Result<(Vec<Attached>, Option<shared_groups::Parting>)> {
        let parting = if shares_groups {
            let mut part =
                object.progs_mut().find(|p| p.name() == shared_groups::PART).expect("a program of our own");
            Some(shared_groups::Parting::leave(&mut part, ifindex)?)
        } else {
            None
        };
        let mut attached = vec![clock.start(program(object, clock::PROGRAM).as_fd())?];
        let started = [(FROM_SENDER, Side::Ingress), (TO_SENDER, Side::Egress)].into_iter().try_for_each(
            |(name, side)| {
                attached.push(attach(program(object, name).as_fd(), name, ifindex, side)?);
                Ok(())
            },
        );
        if let Err(why) = started {
            detach_all(attached, ifindex);
            return Err(why);
        }
        Ok((attached, parting))
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
        self.with_rules(|in_force| in_force.write(&rules))
    }

    fn with_rules<T>(&self, f: impl FnOnce(&IfaceRules<'_, Map<'_>>) -> T) -> T {
        let [rules, ifaces, head] =
            ["wl_rules", "wl_ifaces", "wl_policy"].map(|name| map(&self.object, name));
        f(&IfaceRules { ifindex: self.ifindex, rules: &rules, ifaces: &ifaces, head: &head })
    }

    /// Ends control gently: flows are only watched from their next ACK on, or once the losses that were hidden from their
    /// senders are mended, but at most a second later.
    pub fn let_go(&mut self) -> Result<()> {
        self.with_rules(|in_force| in_force.let_go())
    }

    /// Is control over for all flows that have unacknowledged data?
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
        read_flows(|ifindex| ifindex == self.ifindex, &ids, &flows, &places, &exceptions, &groups)
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
        let counters = self.counters()?;
        if !self.clock.stands(&counters) {
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

    /// What the interface is called now; none: it is gone.
    pub fn name_now(&self) -> Option<String> {
        netdev::name_of(self.ifindex)
    }

    /// Pins programs and maps, so that the datapath outlives this process.
    fn pin(&mut self) -> Result<()> {
        // what is pinned has that program, too, in a place of its own
        self.parting = None;
        pins::pin(&self.iface, self.ifindex, &mut self.object, &self.attached, &self.clock, &self.policy)?;
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
        detach_all(mem::take(&mut self.attached), self.ifindex);
        self.clock.remove();
        // if it fails, its flows stay in groups that others share
        let _ = shared_groups::part(program(&self.object, shared_groups::PART).as_fd());
        self.claim.take().into_iter().for_each(|claim| pins::unclaim(&self.iface, claim));
    }
}

/// Has the interface a datapath, or the clock of one that has no other interface?
///
/// # Errors
/// Programs are attached, and what they are cannot be determined.
fn is_taken(ifindex: u32) -> Result<bool> {
    Ok(has_datapath(ifindex)? || Clock::existing(ifindex).is_used()?)
}

/// Detaches the programs of an interface, and clsact if it was there for them.
fn detach_all(attached: Vec<Attached>, ifindex: u32) {
    let has_clsact = attached.iter().any(|a| matches!(a, Attached::Clsact(_)));
    attached.into_iter().for_each(Attached::detach);
    if let Some(iface) = netdev::name_of(ifindex).filter(|_| has_clsact) {
        remove_unused_clsact(&iface);
    }
}
