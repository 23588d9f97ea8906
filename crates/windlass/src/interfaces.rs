//! The agent's interfaces: those that its policy names, and that are there.

use crate::{
    control::{CLOCK_IS_NEW, first_error, hand_back, is_uplink},
    event_log::{About, EventLog},
    health::Health,
    links::Links,
    metrics::Publisher,
    recorder::Recorder,
    retries::Retries,
    signals::Wish,
};
use anyhow::Result;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, mpsc::Sender},
    time::{Duration, Instant},
};
use windlass_agent::{
    Datapath, Error, Interrupt, Loaded, Noted, OneWay, Options, Packets, Pinned, Policy, Start,
};

/// So many interfaces are attached together. For each the kernel waits two grace periods, one after the other, with a lock of all of the
/// namespace's interfaces: signals, and other processes, wait for as many.
const COVERED_AT_ONCE: usize = 2;
/// In how many looks the programs of all interfaces are looked for, and at how many interfaces a look has at least.
const LOOKS_FOR_PROGRAMS: usize = 16;
const PROGRAMS_LEAST: usize = 16;
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
    /// What the first interface will have.
    loaded: Option<Loaded>,
    /// It could not be loaded, which was reported.
    is_not_loaded: bool,
    retries: Retries,
    /// Interfaces that another process released, by name and index: left alone until another policy is in force, or
    /// another interface has the name.
    released: Vec<(String, u32)>,
    /// One was, since the last call.
    is_newly_released: bool,
    /// When programs were found removed, by interface, not long ago.
    detached: BTreeMap<String, Instant>,
    /// Looks so far.
    looks: u32,
    /// Whose programs are looked for next.
    turn: Turn,
    /// None: not followed yet.
    links: Option<Links>,
    /// What the policy names may not be under control, for a reason other than that it was tried a moment ago.
    must_cover: bool,
    /// Packets at the last count, by index of the interface; and which of these were reported to lack a direction.
    packets: BTreeMap<u32, (Packets, Option<OneWay>)>,
    /// None: no records of flows are wanted.
    recorder: Option<Recorder>,
    /// Whose clocks stood still at the last look: one interface of each datapath.
    standing: Vec<String>,
    /// Interfaces that are not looked after any more as their clock could not be set going.
    stopped: BTreeSet<String>,
    /// Every clock was seen to go round.
    are_clocks_seen: bool,
    log: EventLog,
}

impl Interfaces {
    pub fn new(options: Options, recorder: Option<Recorder>, log: EventLog) -> Interfaces {
        Interfaces {
            options,
            controlled: Vec::new(),
            leaving: Vec::new(),
            new: Vec::new(),
            loaded: None,
            is_not_loaded: false,
            retries: Retries::default(),
            released: Vec::new(),
            is_newly_released: false,
            detached: BTreeMap::new(),
            looks: 0,
            turn: Turn::default(),
            links: None,
            must_cover: true,
            packets: BTreeMap::new(),
            recorder,
            standing: Vec::new(),
            stopped: BTreeSet::new(),
            are_clocks_seen: true,
            log,
        }
    }

    /// From now on interfaces are listed when the kernel has reported something of them; `sender` gets a wish to look then.
    pub fn follow_links(&mut self, sender: Sender<Wish>) {
        self.links = Some(Links::follow(sender));
    }

    /// When that wish should be attended to.
    pub fn next_look(&self) -> Instant {
        self.links.as_ref().map_or_else(Instant::now, Links::due)
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
        if !mem::take(&mut self.must_cover) && !self.retries.are_due() {
            return complaints;
        }
        let controlled: BTreeSet<String> = self.controlled.iter().map(|p| p.iface().to_string()).collect();
        let mut named = policy.interfaces();
        // one that is gone may come again, and is another one then
        self.retries.retain(&named);
        self.stopped.retain(|iface| named.contains(iface));
        named.retain(|iface| {
            let is_released = self.released.iter().any(|(name, _)| name == iface);
            !is_released && !controlled.contains(iface) && !self.retries.is_recent(iface)
        });
        if named.is_empty() {
            return complaints;
        }
        let noted = Noted::here();
        let mut named = named.as_slice();
        while !named.is_empty() && !interrupt.is_raised() {
            let some;
            (some, named) = named.split_at(self.count_next().min(named.len()));
            complaints.extend(self.cover_some(some, policy, &noted, interrupt));
        }
        self.must_cover |= !named.is_empty();
        if self.beside().is_some() {
            self.loaded = None;
        }
        complaints.extend(uplinks_among(&mem::take(&mut self.new)));
        complaints
    }

    /// Loads, while there is no interface, what the first one will have. That takes most of the time until it is under control.
    pub fn load_ahead(&mut self, policy: &Policy) {
        let is_idle = self.is_empty() && self.retries.names().next().is_none();
        if !is_idle || self.loaded.is_some() || self.is_not_loaded || !policy.has_interfaces() {
            return;
        }
        match Loaded::for_several(policy, &self.options) {
            Ok(loaded) => self.loaded = Some(loaded),
            Err(why) => {
                self.is_not_loaded = true;
                self.log.warn(format_args!("no interface will be under control: {why}"));
            }
        }
    }

    /// The one of which further interfaces can have the datapath.
    fn beside(&self) -> Option<&Pinned> {
        self.controlled.iter().find(|p| p.has_room(&self.options))
    }

    /// How many interfaces are taken under control next: one at a time, of the first one's datapath several.
    fn count_next(&self) -> usize {
        if self.beside().is_some() { COVERED_AT_ONCE } else { 1 }
    }

    /// Brings these under control. Returns why some could not be, where that is new.
    fn cover_some(
        &mut self,
        ifaces: &[String],
        policy: &Policy,
        noted: &Noted,
        interrupt: &Interrupt,
    ) -> Vec<String> {
        let indices: Vec<_> = ifaces.iter().map(|iface| windlass_agent::interface_index(iface)).collect();
        let kept: Vec<_> = ifaces.iter().map(|iface| self.keep(iface, policy)).collect();
        let new: Vec<String> = ifaces
            .iter()
            .zip(&kept)
            .filter(|(_, kept)| kept.is_none())
            .map(|(iface, _)| iface.clone())
            .collect();
        let mut complaints = Vec::new();
        let mut controlled = match self.control(&new, policy, noted, interrupt) {
            Ok(all) => all.into_iter(),
            // they have their turn later, also where the one whose datapath they were to have has been released
            Err(Error::Interrupted(_) | Error::Released(_)) => {
                self.must_cover = true;
                return complaints;
            }
            Err(why) => {
                complaints.extend(new.iter().filter_map(|iface| self.retries.note(iface, &why)));
                return complaints;
            }
        };
        for ((iface, index), kept) in ifaces.iter().zip(indices).zip(kept) {
            match kept.unwrap_or_else(|| controlled.next().expect("one for each")) {
                Ok(()) => {}
                // it has its turn later
                Err(Error::Interrupted(_)) => self.must_cover = true,
                // a policy of all interfaces is of those that carry what could be controlled
                Err(Error::NotEthernet(_)) if !policy.names_iface(iface) => {}
                // it went meanwhile; another one of its name is for the next look
                Err(_) if windlass_agent::interface_index(iface) != index => {}
                Err(why) => complaints.extend(self.retries.note(iface, why)),
            }
        }
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

    /// Brings these interfaces, one or some that become one datapath with others, under control, which from then on outlives the agent.
    fn control(
        &mut self,
        ifaces: &[String],
        policy: &Policy,
        noted: &Noted,
        interrupt: &Interrupt,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let all = match (self.beside(), ifaces) {
            (_, []) => Vec::new(),
            (Some(beside), _) => {
                Datapath::attach_beside(beside, ifaces, policy, &self.options, noted, interrupt)?
            }
            (None, _) => {
                let (options, loaded) = (&self.options, &mut self.loaded);
                let control =
                    |iface| Datapath::attach_or_take_over(iface, policy, options, loaded, interrupt);
                ifaces.iter().map(String::as_str).map(control).collect()
            }
        };
        let note = |(one, iface): (Result<_, _>, &String)| {
            one.map(|(pinned, start)| self.note_controlled(iface, pinned, &start))
        };
        Ok(all.into_iter().zip(ifaces).map(note).collect())
    }

    /// Notes, and reports, that the interface is under control.
    fn note_controlled(&mut self, iface: &str, pinned: Pinned, start: &Start) {
        match start {
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
                let words = format!("records of its flows go on, and none are read: {why}");
                self.log.warn_of(About::Device(iface), words);
            }
        }
        self.controlled.push(pinned);
        self.new.push(iface.to_string());
        self.retries.forget(iface);
        self.stopped.remove(iface);
        self.are_clocks_seen = false;
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

    /// Notices what the kernel has reported of interfaces.
    pub fn notice_links(&mut self) {
        if self.links.as_mut().is_none_or(Links::take) {
            self.must_cover = true;
            self.notice_gone();
        }
    }

    /// Forgets interfaces that are gone, and with them that they were released; and releases those that have another name now:
    /// the policy may have other rules for that.
    fn notice_gone(&mut self) {
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
        self.end(ended);
        if let Err(why) = self.release(renamed) {
            self.log.warn(why);
        }
    }

    /// Notices what another process released, and makes room for what was detached from its interface: the clock, which goes on for
    /// others, does not show that.
    pub fn watch_programs(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        let (places, asks_tc) = self.turn.next(self.controlled.len(), self.looks);
        // what is gone is noticed when the kernel reports it
        let (mut detached, mut released) = (Vec::new(), Vec::new());
        for at in places.into_iter().rev() {
            let is_attached = self.controlled[at].is_attached(asks_tc);
            let list = match is_attached {
                Ok(false) => &mut detached,
                Err(Error::Released(_)) => &mut released,
                _ => continue,
            };
            if self.controlled[at].is_alive() {
                list.push(self.controlled.remove(at));
            }
        }
        released.iter().for_each(|pinned| self.note_released(pinned));
        self.must_cover |= !detached.is_empty();
        for pinned in detached {
            let iface = pinned.iface().to_string();
            self.end(vec![pinned]);
            self.detached.retain(|_, at| at.elapsed() < SOON);
            if self.detached.insert(iface.clone(), Instant::now()).is_some() {
                let news = self.retries.note(&iface, "another program removes its programs again and again");
                news.iter().for_each(|why| self.log.warn(why));
            } else {
                let what = "its programs were removed by another program; attached anew";
                self.log.warn_of(About::Device(&iface), what);
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
                self.log.warn_of(About::Device(pinned.iface()), what);
            }
            // without packets it is as it was
            let reported = if since.is_enough() { one_way } else { reported };
            self.packets.insert(pinned.ifindex(), (now, reported));
        }
    }

    /// Removes what is pinned for interfaces of which nothing is left to hand back.
    fn end(&mut self, all: Vec<Pinned>) {
        if all.is_empty() {
            return;
        }
        match self.remove(&all) {
            // the next agent that starts removes what stays
            Ok(removed) => removed.into_iter().filter_map(Result::err).for_each(|why| self.log.warn(why)),
            // they are removed later
            Err(_) => self.leaving.extend(all),
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
        self.standing.clear();
        self.are_clocks_seen = true;
        for at in (0..self.controlled.len()).rev() {
            // interfaces of one datapath have one clock
            if !watched.insert(self.controlled[at].clock_number()) {
                continue;
            }
            let ended = self.controlled[at].watch_clock();
            match self.controlled[at].is_clock_running() {
                Some(true) => {}
                Some(false) => self.standing.push(self.controlled[at].iface().to_string()),
                None => self.are_clocks_seen = false,
            }
            match ended {
                Ok(true) => self.log.warn_of(About::Device(self.controlled[at].iface()), CLOCK_IS_NEW),
                Ok(false) => {}
                // it is under control as before
                Err(why @ Error::Locked { .. }) => self.log.warn(why),
                Err(why) => {
                    // what is there under its name, if anything, is not ours
                    let pinned = self.controlled.remove(at);
                    if let Error::Released(_) = why {
                        self.note_released(&pinned);
                    } else {
                        self.stopped.insert(pinned.iface().to_string());
                        let news = self.retries.note(pinned.iface(), why);
                        news.iter().for_each(|why| self.log.warn(why));
                    }
                }
            }
        }
    }

    /// How they are, as of the last looks.
    pub fn health(&self) -> Health {
        let is_there = |iface: &&str| windlass_agent::interface_index(iface).is_some();
        let standing = self.standing.iter().chain(&self.stopped);
        Health {
            interfaces: self.controlled.len(),
            cgroups: 0,
            refused: self.retries.names().filter(is_there).map(String::from).collect(),
            released: self.released.iter().map(|(iface, _)| iface.clone()).collect(),
            standing: standing.collect::<BTreeSet<_>>().into_iter().cloned().collect(),
            are_clocks_seen: self.are_clocks_seen,
            is_covered: !self.must_cover,
        }
    }

    /// Publishes what is under control, by rules of these names.
    pub fn publish(&self, publisher: &Publisher, rules: &Arc<[String]>) {
        publisher.controlled(&self.controlled, rules);
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
        self.is_not_loaded = false;
        self.must_cover = true;
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
        if all.is_empty() {
            return Ok(());
        }
        let mut ended = hand_back(&all);
        // or it would be waited for the same lock once more
        if matches!(ended, Err(Error::Locked { .. })) {
            self.leaving.extend(all);
            return ended;
        }
        match self.remove(&all) {
            Ok(removed) => {
                for (pinned, removed) in all.iter().zip(removed) {
                    if removed.is_ok() {
                        self.log.of_iface("detached", pinned.iface(), "released");
                    }
                    ended = ended.and(removed);
                }
                ended
            }
            Err(why) => {
                self.leaving.extend(all);
                ended.and(Err(why))
            }
        }
    }

    /// Removes what is pinned, and keeps what its flows did: detached first, or some would go on after their last record.
    fn remove(&self, all: &[Pinned]) -> Result<Vec<Result<(), Error>>, Error> {
        if let Some(recorder) = &self.recorder {
            Pinned::detach_together(all)?;
            all.iter().for_each(|pinned| recorder.note_last(pinned));
        }
        Pinned::remove_together(all)
    }

    /// Looks after what an earlier agent left of the interfaces that the policy names, where an interrupt came before this one took them
    /// over, so that it is released with the rest. What could not be taken over stays, as was reported.
    pub fn take_unattended(&mut self, policy: &Policy) {
        if !self.must_cover {
            return;
        }
        for iface in policy.interfaces() {
            let is_known = self.controlled.iter().chain(&self.leaving).any(|p| p.iface() == iface);
            if is_known || self.retries.names().any(|name| name == iface) {
                continue;
            }
            match Pinned::take_unattended(&iface) {
                Ok(pinned) => self.leaving.extend(pinned),
                Err(why) => self.log.warn_of(
                    About::Device(&iface),
                    format!("stays under the rules of an earlier agent: {why}; `windlass detach {iface}` releases it"),
                ),
            }
        }
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

/// Whose programs a look is for: those of a few interfaces, or it would take the longer the more there are.
#[derive(Default)]
struct Turn {
    /// Place of the first one in the list.
    from: usize,
    /// In this turn of all `tc` lists programs, and in which look that last began.
    asks_tc: bool,
    asked_tc: u32,
}

impl Turn {
    /// Places, ascending, in a list of so many, for this look; and whether `tc` lists programs.
    fn next(&mut self, count: usize, look: u32) -> (Vec<usize>, bool) {
        if self.from >= count {
            self.from = 0;
        }
        if self.from == 0 {
            self.asks_tc = look.wrapping_sub(self.asked_tc) >= LOOKS_FOR_FILTERS;
            self.asked_tc = if self.asks_tc { look } else { self.asked_tc };
        }
        let share = count.div_ceil(LOOKS_FOR_PROGRAMS).max(PROGRAMS_LEAST);
        let to = count.min(self.from + share);
        let places = (mem::replace(&mut self.from, to)..to).collect();
        (places, self.asks_tc)
    }
}

/// What to report of interfaces that may be the wrong ones.
fn uplinks_among(new: &[String]) -> Vec<String> {
    // the routes are listed by other processes
    let uplinks = if new.is_empty() { Vec::new() } else { windlass_agent::default_uplinks() };
    new.iter().filter(|iface| uplinks.contains(iface)).map(|iface| is_uplink(iface)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks until all of so many interfaces have had their turn, and the most that one look had.
    fn turns_of(count: usize) -> (u32, usize) {
        let (mut turn, mut seen, mut most) = (Turn::default(), BTreeSet::new(), 0);
        let looks = (1..).find(|look| {
            let (places, _) = turn.next(count, *look);
            most = most.max(places.len());
            seen.extend(places);
            seen.len() == count
        });
        (looks.expect("at last"), most)
    }

    #[test]
    fn programs_of_all_interfaces_have_their_turn_in_some_looks_and_few_in_each() {
        assert_eq!([1, 16, 60, 1000].map(turns_of), [(1, 1), (1, 16), (4, 16), (16, 63)]);
    }

    #[test]
    fn tc_lists_programs_in_whole_turns_and_not_in_each() {
        let (mut turn, mut asked) = (Turn::default(), Vec::new());
        for look in 1..=40 {
            let (places, asks_tc) = turn.next(60, look);
            asked.extend(places.into_iter().filter(|_| asks_tc));
        }
        // which begin in the looks 13, 25 and 37
        assert_eq!(asked, (0..60).chain(0..60).chain(0..60).collect::<Vec<_>>());
        assert!(Turn::default().next(0, 1).0.is_empty());
    }
}
