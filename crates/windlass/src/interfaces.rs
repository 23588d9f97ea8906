//! The agent's interfaces: those that its policy names, and that are there.

use crate::{
    control::{clock_is_new, first_error, hand_back, is_uplink},
    event_log::EventLog,
    recorder::Recorder,
    retries::Retries,
};
use anyhow::Result;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::{Duration, Instant},
};
use windlass_agent::{Datapath, Error, Interrupt, OneWay, Options, Packets, Pinned, Policy, Start};

/// Every how many looks `tc` lists the programs of each interface, where it takes that.
const LOOKS_FOR_FILTERS: u32 = 10;
/// Every how many looks packets are counted in both directions.
const LOOKS_FOR_DIRECTIONS: u32 = 5;
/// Programs that are removed again so soon are attached no sooner than what could not be controlled.
const SOON: Duration = Duration::from_secs(60);

/// What is under control, and what could not be.
pub struct Interfaces {
    options: Options,
    controlled: Vec<Pinned>,
    /// To be released, as soon as the lock that was in the way is free; still claimed until then.
    leaving: Vec<Pinned>,
    /// Under control since the last call of `cover`.
    new: Vec<String>,
    retries: Retries,
    /// Interfaces that another process released, by name and index: left alone until another policy is in force, or
    /// another interface has the name.
    released: Vec<(String, u32)>,
    /// One was, since the last call.
    is_newly_released: bool,
    /// When programs were found removed, by interface, not long ago.
    detached: BTreeMap<String, Instant>,
    /// Looks since `tc` was run.
    looks: u32,
    /// Packets at the last count, by index of the interface; and which of these were reported to lack a direction.
    packets: BTreeMap<u32, (Packets, Option<OneWay>)>,
    /// None: no records of flows are wanted.
    recorder: Option<Recorder>,
    log: EventLog,
}

impl Interfaces {
    pub fn new(options: Options, recorder: Option<Recorder>, log: EventLog) -> Interfaces {
        Interfaces {
            options,
            controlled: Vec::new(),
            leaving: Vec::new(),
            new: Vec::new(),
            retries: Retries::default(),
            released: Vec::new(),
            is_newly_released: false,
            detached: BTreeMap::new(),
            looks: 0,
            packets: BTreeMap::new(),
            recorder,
            log,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.controlled.is_empty() && self.leaving.is_empty()
    }

    /// Is one there that could not be controlled, and is tried again?
    pub fn are_refused(&self) -> bool {
        self.retries.names().any(|iface| windlass_agent::interface_index(iface).is_some())
    }

    /// Has another process released one since the last call?
    pub fn are_newly_released(&mut self) -> bool {
        mem::take(&mut self.is_newly_released)
    }

    /// Brings every interface that the policy names under control: takes over what is pinned, attaches the rest. After an interrupt,
    /// what is left is for the next call: with many interfaces this takes a while. Returns why some could not be, where that is new.
    pub fn cover(&mut self, policy: &Policy, interrupt: &Interrupt) -> Vec<String> {
        let mut complaints = Vec::new();
        let controlled: BTreeSet<String> = self.controlled.iter().map(|p| p.iface().to_string()).collect();
        for iface in policy.interfaces() {
            if interrupt.is_raised() {
                break;
            }
            let is_known = controlled.contains(&iface) || self.retries.is_recent(&iface);
            let is_released = self.released.iter().any(|(name, _)| *name == iface);
            if is_known || is_released {
                continue;
            }
            let index = windlass_agent::interface_index(&iface);
            let kept = self.keep(&iface, policy);
            match kept.unwrap_or_else(|| self.control(&iface, policy, interrupt)) {
                // or it has its turn later
                Ok(()) | Err(Error::Interrupted(_)) => {}
                // a policy of all interfaces is of those that carry what could be controlled
                Err(Error::NotEthernet(_)) if !policy.names_iface(&iface) => {}
                // it went meanwhile; another one of its name is for the next look
                Err(_) if windlass_agent::interface_index(&iface) != index => {}
                Err(why) => complaints.extend(self.retries.note(&iface, why)),
            }
        }
        complaints.extend(uplinks_among(&mem::take(&mut self.new)));
        complaints
    }

    /// Keeps an interface that was to be released, and that the policy names again; none: it is not one of these.
    fn keep(&mut self, iface: &str, policy: &Policy) -> Option<Result<(), Error>> {
        let at = self.leaving.iter().position(|p| p.iface() == iface)?;
        let pinned = self.leaving.remove(at);
        // what is left of one that is gone does no harm
        if !pinned.is_alive() {
            return None;
        }
        let kept = pinned.set_policy(policy);
        let list = if kept.is_ok() { &mut self.controlled } else { &mut self.leaving };
        list.push(pinned);
        Some(kept)
    }

    /// Brings one interface under control, which from then on outlives the agent.
    fn control(&mut self, iface: &str, policy: &Policy, interrupt: &Interrupt) -> Result<(), Error> {
        let beside = self.controlled.iter().find(|p| p.has_room(&self.options));
        let (pinned, start) = Datapath::attach_or_take_over(iface, policy, &self.options, beside, interrupt)?;
        match &start {
            Start::Attached => self.log.of_iface("attached", iface, "under control"),
            Start::TakenOver => self.log.of_iface("taken_over", iface, "taken over"),
            Start::Upgraded => {
                self.log.of_iface(
                    "taken_over",
                    iface,
                    "taken over, with this build's programs instead of those that were there",
                );
            }
            Start::NotUpgraded(why) => {
                self.log.of_iface("taken_over", iface, "taken over, with another build's programs");
                self.log.warn(format_args!("{iface} keeps the programs of another build: {why}"));
            }
        }
        if !matches!(start, Start::Attached) {
            self.tell_of_options(&pinned);
            if self.recorder.is_none()
                && let Err(why) = pinned.end_records()
            {
                self.log.warn(format_args!("{iface}: records of its flows go on, and none are read: {why}"));
            }
        }
        self.controlled.push(pinned);
        self.new.push(iface.to_string());
        self.retries.forget(iface);
        Ok(())
    }

    /// Complains of what stays as an earlier agent had it.
    fn tell_of_options(&self, pinned: &Pinned) {
        let (iface, kept) = (pinned.iface(), pinned.other_options(&self.options).unwrap_or_default());
        if !kept.is_empty() {
            let kept = kept.join(" ");
            self.log.warn(format_args!(
                "{iface} keeps {kept}, with which an earlier agent loaded it; `windlass detach {iface}` first changes that"
            ));
        }
    }

    /// Forgets interfaces that are gone, and with them that they were released; and releases those that have another name now:
    /// the policy may have other rules for that.
    pub fn notice_gone(&mut self) {
        self.released.retain(|(iface, index)| windlass_agent::interface_index(iface) == Some(*index));
        let (alive, gone): (Vec<_>, Vec<_>) = self.controlled.drain(..).partition(Pinned::is_alive);
        self.controlled = alive;
        let (mut renamed, mut ended) = (Vec::new(), Vec::new());
        for pinned in gone {
            if let Some(name) = pinned.name_now() {
                self.log.of_iface("gone", pinned.iface(), &format!("the interface is called {name} now"));
                renamed.push(pinned);
            } else {
                self.log.of_iface("gone", pinned.iface(), "the interface is gone");
                ended.push(pinned);
            }
        }
        // where a lock is in the way, they are removed later
        if !ended.is_empty() && Pinned::detach_together(&ended).is_ok() {
            ended.into_iter().for_each(|pinned| self.end(pinned));
        } else {
            self.leaving.append(&mut ended);
        }
        if let Err(why) = self.release(renamed) {
            self.log.warn(why);
        }
    }

    /// Notices what another process released, and makes room for what was detached from its interface: the clock, which goes on for
    /// others, does not show that.
    pub fn watch_programs(&mut self) {
        self.looks = (self.looks + 1) % LOOKS_FOR_FILTERS;
        let asks_tc = self.looks == 0;
        // what is gone is noticed at the next look
        let mut detached = Vec::new();
        for at in (0..self.controlled.len()).rev() {
            let is_attached = self.controlled[at].is_attached(asks_tc);
            if !matches!(is_attached, Ok(false) | Err(Error::Released(_))) || !self.controlled[at].is_alive()
            {
                continue;
            }
            let pinned = self.controlled.remove(at);
            match is_attached {
                Err(_) => self.note_released(&pinned),
                Ok(_) => detached.push(pinned),
            }
        }
        for pinned in detached {
            let iface = pinned.iface().to_string();
            self.end(pinned);
            self.detached.retain(|_, at| at.elapsed() < SOON);
            if self.detached.insert(iface.clone(), Instant::now()).is_some() {
                let news = self.retries.note(&iface, "another program removes its programs again and again");
                news.iter().for_each(|why| self.log.warn(why));
            } else {
                let what = "its programs were removed by another program; attached anew";
                self.log.warn(format_args!("{iface}: {what}"));
            }
        }
    }

    /// Reports interfaces that only one direction of traffic passes, once until both do.
    pub fn watch_directions(&mut self) {
        if !self.looks.is_multiple_of(LOOKS_FOR_DIRECTIONS) {
            return;
        }
        let mut before = mem::take(&mut self.packets);
        for pinned in &self.controlled {
            // what cannot be read is looked after elsewhere
            let Ok(now) = pinned.packets() else { continue };
            let (packets, reported) = before.remove(&pinned.ifindex()).unwrap_or_default();
            let since = now.since(packets);
            let one_way = since.one_way();
            if let Some(what) = one_way.filter(|_| one_way != reported) {
                self.log.warn(format_args!("{}: {what}", pinned.iface()));
            }
            // without packets it is as it was
            let reported = if since.is_enough() { one_way } else { reported };
            self.packets.insert(pinned.ifindex(), (now, reported));
        }
    }

    /// Removes what is pinned for an interface of which nothing is left to hand back.
    fn end(&mut self, pinned: Pinned) {
        match self.remove(&pinned) {
            Ok(()) => {}
            Err(Error::Locked { .. }) => self.leaving.push(pinned),
            // the next agent that starts removes what stays
            Err(why) => self.log.warn(why),
        }
    }

    /// Reads the records of flows, if they are wanted.
    pub fn follow_records(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.follow(&self.controlled);
        }
    }

    /// Sets clocks going again that stand still.
    pub fn watch_clocks(&mut self) {
        let mut watched = BTreeSet::new();
        for at in (0..self.controlled.len()).rev() {
            // interfaces of one datapath have one clock
            if !watched.insert(self.controlled[at].clock_number()) {
                continue;
            }
            match self.controlled[at].watch_clock() {
                Ok(true) => self.log.warn(clock_is_new(self.controlled[at].iface())),
                Ok(false) => {}
                // it is under control as before
                Err(why @ Error::Locked { .. }) => self.log.warn(why),
                Err(why) => {
                    // what is there under its name, if anything, is not ours
                    let pinned = self.controlled.remove(at);
                    if let Error::Released(_) = why {
                        self.note_released(&pinned);
                    } else {
                        let news = self.retries.note(pinned.iface(), why);
                        news.iter().for_each(|why| self.log.warn(why));
                    }
                }
            }
        }
    }

    /// Notices what another process released, whatever its clock does.
    pub fn notice_released(&mut self) {
        // a process that has the lock for long has it for all of them, and later looks notice, too
        let are_released: Vec<bool> = self.controlled.iter().map_while(|p| p.is_released().ok()).collect();
        let mut are_released = are_released.into_iter();
        let is_released = |_: &mut Pinned| are_released.next().unwrap_or(false);
        for pinned in self.controlled.extract_if(.., is_released).collect::<Vec<_>>() {
            self.note_released(&pinned);
        }
    }

    fn note_released(&mut self, pinned: &Pinned) {
        self.log.warn(pinned.released());
        self.released.push((pinned.iface().to_string(), pinned.ifindex()));
        self.is_newly_released = true;
    }

    /// Another policy is in force on those interfaces that it names. What fails does not keep the rest from it; the first error
    /// is returned.
    pub fn set_policy(&self, policy: &Policy) -> Result<(), Error> {
        let named = self.controlled.iter().filter(|p| policy.is_of_iface(p.iface()));
        first_error(named.map(|pinned| match pinned.set_policy(policy) {
            // it was a moment ago, and the next look notices
            Err(Error::Released(_)) => Ok(()),
            other => other,
        }))
    }

    /// Another policy is in force everywhere: what it names is tried again, whatever became of that before.
    pub fn begin_again(&mut self) {
        self.retries = Retries::default();
        self.released.clear();
        self.is_newly_released = false;
    }

    /// Releases the interfaces that the policy in force does not name.
    pub fn release_others(&mut self, policy: &Policy) {
        let (kept, dropped) = self.controlled.drain(..).partition(|p| policy.is_of_iface(p.iface()));
        self.controlled = kept;
        if let Err(why) = self.release(dropped) {
            self.log.warn(why);
        }
    }

    /// Tries again to release what a lock was in the way of.
    pub fn release_leaving(&mut self) {
        let all = mem::take(&mut self.leaving);
        match self.release(all) {
            // that was reported
            Ok(()) | Err(Error::Locked { .. }) => {}
            Err(why) => self.log.warn(why),
        }
    }

    /// Ends control of these, or, where a lock is in the way, has that done later. What fails does not keep the rest
    /// from it; the first error is returned.
    fn release(&mut self, all: Vec<Pinned>) -> Result<(), Error> {
        let mut ended = hand_back(&all).and_then(|()| Pinned::detach_together(&all));
        let mut is_locked = matches!(ended, Err(Error::Locked { .. }));
        for pinned in all {
            // or each would wait as long for the same lock
            if !is_locked {
                let removed = self.remove(&pinned);
                is_locked = matches!(removed, Err(Error::Locked { .. }));
                if removed.is_ok() {
                    self.log.of_iface("detached", pinned.iface(), "released");
                }
                ended = ended.and(removed);
            }
            if is_locked {
                self.leaving.push(pinned);
            }
        }
        ended
    }

    /// Removes what is pinned, and keeps what its flows did.
    fn remove(&self, pinned: &Pinned) -> Result<(), Error> {
        if let Some(recorder) = &self.recorder {
            recorder.note_last(pinned);
        }
        pinned.remove()
    }

    /// The agent ends. What fails does not keep the rest from it; the first error is returned.
    pub fn finish(mut self, is_detaching: bool) -> Result<()> {
        let mut all = mem::take(&mut self.leaving);
        if is_detaching {
            all.append(&mut self.controlled);
        }
        for iface in self.controlled.iter().map(Pinned::iface) {
            let words = format!("stays under control; `windlass detach {iface}` releases it");
            self.log.of_iface("stays", iface, &words);
        }
        let released = self.release(all);
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
        Ok(released?)
    }
}

/// What to report of interfaces that may be the wrong ones.
fn uplinks_among(new: &[String]) -> Vec<String> {
    // the routes are listed by other processes
    let uplinks = if new.is_empty() { Vec::new() } else { windlass_agent::default_uplinks() };
    new.iter().filter(|iface| uplinks.contains(iface)).map(|iface| is_uplink(iface)).collect()
}
