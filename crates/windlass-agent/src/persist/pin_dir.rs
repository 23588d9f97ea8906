//! Where the pinned datapath of one interface is kept.
//!
//! Layout: /sys/fs/bpf/windlass/<namespace inode>/<interface, : for .>/<map, program or link>. Interfaces of one datapath have the
//! same maps, programs and clock, and links and rules of their own. Beside it, under /run, what its state looks
//! like, which build its programs are of, the interface's index and the names of the rules in force. Should /run be
//! cleaned, a symbolic link among the pins still holds the first of these; the rest can do without.

use crate::{
    Policy, Result,
    attach::remove_filters,
    clock::Clock,
    error::io_error,
    image::CONFIG,
    netdev,
    persist::{
        bpffs::{self, iface_dir, make_dir, namespace_dir, pinned_in, remove_dir},
        ended_counters,
        pin_claim::Claim,
        private, released_iface,
        run_dir::{run_dir, run_file},
        run_file::{read_record, remove_first, write_record, write_text},
    },
    programs, shared_groups,
};
use libbpf_rs::{Link, Program, query::LinkTypeInfo};
use std::{
    cell::LazyCell,
    collections::BTreeSet,
    fs,
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, symlink},
    },
    path::PathBuf,
    thread,
};

/// What the map of constants is pinned as: bpffs takes no names with dots.
pub(crate) const PINNED_CONFIG: &str = "wl_config";
/// Likewise what the clock goes by, struct wl_clock_state.
const PINNED_CLOCK_STATE: &str = "wl_clock_state";

/// A symbolic link among the pins. What it leads to is no path but what the state looks like. A process that removes
/// pins can unlink it.
const STATE: &str = "state";

/// A symbolic link among the pins, too: to the number of the clock. Interfaces whose clock is the same have one datapath.
const CLOCK: &str = "clock";

/// The map of an interface's own rules.
pub(crate) const RULES: &str = "wl_rules";

/// Is what is pinned under this name the same for all interfaces of a datapath?
pub(crate) fn is_shared(pin: &str) -> bool {
    ![STATE, CLOCK, RULES].contains(&pin) && !LINKS_OF_IFACE.contains(&pin)
}

/// What the datapath's map of this name is pinned as; none: it is of one build, whose programs nothing of it outlives.
pub(crate) fn pinned_as(map: &str) -> Option<&str> {
    match map {
        CONFIG => Some(PINNED_CONFIG),
        ".bss.clock" => Some(PINNED_CLOCK_STATE),
        "wl_scratch" => None,
        _ => map.starts_with("wl_").then_some(map),
    }
}

/// The clock's program on its device, and the two on the interface itself, where links keep them there.
pub(crate) const CLOCK_LINK: &str = "link0";
pub(crate) const LINKS_OF_IFACE: [&str; 2] = ["link1", "link2"];

/// Where everything of one interface's datapath is kept.
#[derive(Clone, Debug)]
pub(crate) struct PinDir {
    /// Inode of the network namespace.
    pub(crate) namespace: u64,
    /// Name of the interface in it.
    pub(crate) iface: String,
}

/// Interfaces whose programs are detached in one grace period, each by some threads.
const DETACHED_AT_ONCE: usize = 16;

impl PinDir {
    pub(crate) fn here(iface: &str) -> PinDir {
        PinDir { namespace: netdev::namespace_inode(), iface: iface.to_string() }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        iface_dir(self.namespace, &self.iface)
    }

    /// What its state looks like, as is noted last, when it is whole; none: it is not.
    pub(crate) fn state(&self) -> Option<u64> {
        let of_link = || fs::read_link(self.dir().join(STATE)).ok()?.to_str()?.parse().ok();
        // builds that leave no link note it under /run alone
        of_link().or_else(|| read_record(&self.record()))
    }

    /// Notes what its state looks like: it is whole.
    pub(crate) fn note_state(&self, id: u64) -> Result<()> {
        let link = self.dir().join(STATE);
        symlink(id.to_string(), &link).map_err(io_error(&link))?;
        write_record(&self.record(), id)
    }

    /// Number of its clock; none: it is not noted, as of builds that had a clock for each interface.
    pub(crate) fn clock_number(&self) -> Option<u32> {
        fs::read_link(self.dir().join(CLOCK)).ok()?.to_str()?.parse().ok()
    }

    /// Notes which clock is its.
    pub(crate) fn note_clock(&self, number: u32) -> Result<()> {
        let link = self.dir().join(CLOCK);
        symlink(number.to_string(), &link).map_err(io_error(&link))
    }

    /// Where the other interfaces of its datapath are, whole or in part.
    pub(crate) fn others(&self) -> impl Iterator<Item = PinDir> {
        let number = self.clock_number();
        let others = pinned_in(self.namespace).into_iter().filter(|iface| *iface != self.iface);
        let of = |iface| PinDir { namespace: self.namespace, iface };
        others.map(of).filter(move |other| number.is_some() && other.clock_number() == number)
    }

    /// Where else than in the folder of pins that is noted.
    pub(crate) fn record(&self) -> PathBuf {
        run_file(&format!("{}-{}", self.namespace, self.iface))
    }

    /// Which build its programs are of, all of them.
    pub(crate) fn build_file(&self) -> PathBuf {
        run_file(&format!("{}-{}:build", self.namespace, self.iface))
    }

    /// The interface's index when it was attached. No interface has a colon in its name.
    pub(crate) fn index_file(&self) -> PathBuf {
        run_file(&format!("{}-{}:index", self.namespace, self.iface))
    }

    /// Where else it can be found that something is pinned, for processes that do not see the pins: the device of the bpffs that has
    /// them, and the number of a link, 0 without tcx.
    fn pinned_file(&self) -> PathBuf {
        run_file(&format!("{}-{}:pinned", self.namespace, self.iface))
    }

    /// Notes that.
    pub(crate) fn note_pinned(&self) -> Result<()> {
        let device = fs::metadata(self.dir()).map_err(io_error(&self.dir()))?.dev();
        let link = self.dir().join(LINKS_OF_IFACE[0]);
        // libbpf would complain of one that is not there, as with clsact
        let number =
            link.exists().then(|| Link::open(&link).ok()?.info().ok()).flatten().map_or(0, |info| info.id);
        write_text(&self.pinned_file(), &format!("{device} {number}"))
    }

    /// Is it pinned in a bpffs that is not seen from here, as of a container or under `ip netns exec`? `is_link`: is there a link of
    /// this number?
    fn is_pinned_elsewhere(&self, is_link: impl FnOnce(u32) -> bool) -> bool {
        let noted = private::read(&self.pinned_file()).ok();
        let noted = noted.as_deref().and_then(|text| text.split_once(' '));
        let numbers = |(device, link): (&str, &str)| Some((device.parse::<u64>().ok()?, link.parse().ok()?));
        let Some((device, link)) = noted.and_then(numbers) else { return false };
        match link {
            0 => fs::metadata(bpffs::root()).map_or(true, |here| here.dev() != device),
            link => is_link(link),
        }
    }

    /// Names of the policy's rules in their order, one a line: the kernel knows their numbers only.
    pub(crate) fn rule_names_file(&self) -> PathBuf {
        run_file(&format!("{}-{}:rules", self.namespace, self.iface))
    }

    /// Claimed by the agent that looks after it, or by an `attach`, whose datapath is not pinned.
    fn claim_file(&self) -> PathBuf {
        run_file(&format!("{}-{}:agent", self.namespace, self.iface))
    }

    /// Claims it for this process; in errors it is called `what`. With the lock of "pins" held.
    ///
    /// # Errors
    /// Another process has it.
    pub(crate) fn claim(&self, what: &str) -> Result<Claim> {
        let claim = Claim::take(&self.claim_file(), what)?;
        if !self.dir().is_dir() {
            return Ok(claim);
        }
        // an older version let others look into it
        make_dir(&self.dir())?;
        claim.with_folder(&self.dir(), what)
    }

    /// Removes the file that names its owner, if it is there. With the lock of "pins" held, or a process that just
    /// opened it could claim what no other sees.
    pub(crate) fn remove_claim(&self) {
        let _ = fs::remove_file(self.claim_file());
    }

    /// Does some process look after it? With the lock of "pins" held.
    pub(crate) fn is_claimed(&self) -> bool {
        Claim::is_taken(&self.claim_file()) || Claim::is_taken(&self.dir())
    }

    /// The process that looks after it, as its claim has it; none: there is none. With the lock of "pins" held.
    pub(crate) fn claimant(&self) -> Option<String> {
        let noted = || private::read(&self.claim_file()).unwrap_or_default();
        self.is_claimed().then(|| match noted().trim_matches([' ', '(', ')']) {
            "" => "a process that is not seen from here".into(),
            process => process.into(),
        })
    }

    /// Removes what is noted of interfaces, of whatever namespace, for which nothing is pinned and that no process
    /// has. With the lock of "pins" held.
    pub(crate) fn forget_unpinned() {
        let links = LazyCell::new(|| programs::links().ok());
        // what cannot be listed may be there
        let is_link = |number| links.as_ref().is_none_or(|all| all.contains(&number));
        for entry in fs::read_dir(run_dir()).into_iter().flatten().flatten() {
            let Some(of) = entry.file_name().to_str().and_then(Self::noted_in) else { continue };
            if !of.dir().is_dir() && !of.is_claimed() && !of.is_pinned_elsewhere(is_link) {
                // what is left does no harm
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Of which interface a file under /run is; none: it is of something else.
    fn noted_in(file: &str) -> Option<PinDir> {
        let (namespace, rest) = file.split_once('-')?;
        let iface = rest.split(':').next()?.to_string();
        Some(PinDir { namespace: namespace.parse().ok()?, iface })
    }

    /// Notes the names of the rules in force. If that fails, people see numbers: no reason to put another policy in force.
    pub(crate) fn write_rule_names(&self, policy: &Policy) {
        let names: String = policy.rules.iter().map(|r| r.name.replace('\n', " ") + "\n").collect();
        if write_text(&self.rule_names_file(), &names).is_err() {
            // or the rules would have the names of others
            let _ = fs::remove_file(self.rule_names_file());
        }
    }

    /// Index of the interface that it was attached to; None: it is not noted.
    pub(crate) fn index(&self) -> Option<u32> {
        private::read(&self.index_file()).ok()?.trim().parse().ok()
    }

    /// By tcx: index of the interface that both programs are still attached to, 0 when that is gone. None: not by tcx.
    pub(crate) fn linked_index(&self) -> Option<u32> {
        let of = |name| {
            let info = Link::open(self.dir().join(name)).ok()?.info().ok()?;
            if let LinkTypeInfo::Tcx(tcx) = info.info { Some(tcx.ifindex) } else { None }
        };
        let [one, other] = LINKS_OF_IFACE.map(of);
        Some(if one? == other? { one? } else { 0 })
    }

    /// Is there an interface, in this namespace, of the index that it was attached to, or, if that is not noted, of its name?
    pub(crate) fn has_interface(&self) -> bool {
        self.index().or_else(|| netdev::index(&self.iface)).is_some_and(netdev::has_index)
    }

    /// Is it the interface's of this index, whatever that is called now?
    pub(crate) fn is_of(&self, ifindex: u32) -> bool {
        self.linked_index().or_else(|| self.index()) == Some(ifindex)
    }

    /// Is the interface of this name, which has the index that this one's had, another one with a datapath of its own? If it is
    /// this one, and has been renamed, there is none under that name.
    fn is_of_another(&self, name: &str) -> bool {
        let other = PinDir::here(name);
        name != self.iface && (other.dir().is_dir() || other.is_claimed())
    }

    /// Detaches it from the interface, whose index was `ifindex`, and removes all that is kept of it; first the
    /// record that it is whole. With the lock of "pins" held.
    pub(crate) fn release(&self, ifindex: Option<u32>) -> Result<()> {
        self.release_of(ifindex, false)
    }

    /// The same; `is_last`: the other interfaces of its datapath are released as well, so that nothing is to be forgotten there.
    fn release_of(&self, ifindex: Option<u32>, is_last: bool) -> Result<()> {
        remove_first(&self.record());
        remove_first(&self.dir().join(STATE));
        let goes_on = self.others().next().is_some();
        // filters go by the interface's index, whatever it is called now and whatever has its name
        let ifindex = ifindex.or_else(|| self.index()).or_else(|| netdev::index(&self.iface));
        if self.namespace == netdev::namespace_inode()
            && let Some(ifindex) = ifindex
        {
            let name = netdev::name_of(ifindex);
            if !name.as_deref().is_some_and(|name| self.is_of_another(name)) {
                if let Some(name) = name.filter(|_| !self.dir().join(LINKS_OF_IFACE[0]).exists()) {
                    remove_filters(&name);
                }
                if self.clock_number().is_none() {
                    Clock::existing(ifindex).remove();
                }
            }
            if let Some(number) = self.clock_number().filter(|_| !goes_on) {
                Clock::existing(number).remove();
            }
        }
        // nothing couples its flows any more, so that those that leave do not join again
        self.detach_links(if goes_on {
            &LINKS_OF_IFACE
        } else {
            &[CLOCK_LINK, LINKS_OF_IFACE[0], LINKS_OF_IFACE[1]]
        });
        if goes_on {
            if let Some(ifindex) = ifindex.filter(|_| !is_last) {
                // what stays goes when it has been idle for long
                let _ = released_iface::forget(&self.dir(), ifindex);
            }
        } else if let Ok(program) = Program::fd_from_pinned_path(self.dir().join(shared_groups::PART)) {
            // if it fails, they stay in groups that others share
            let _ = shared_groups::part(program.as_fd());
        }
        if let Some(number) = self.clock_number().filter(|_| !goes_on) {
            ended_counters::note(self.namespace, &self.dir(), number);
        }
        if self.dir().is_dir() {
            remove_dir(&self.dir())?;
        }
        // fails while other interfaces have theirs
        let _ = fs::remove_dir(namespace_dir(self.namespace));
        for file in [self.build_file(), self.index_file(), self.pinned_file(), self.rule_names_file()] {
            let _ = fs::remove_file(file);
        }
        self.remove_claim();
        shared_groups::remove_unused(self.namespace);
        Ok(())
    }

    /// Releases all of these, of this namespace, each with the index of its interface if that is known, and calls `then` with what came
    /// of each, in their order. With the lock of "pins" held.
    pub(crate) fn release_together(all: &[(PinDir, Option<u32>)], mut then: impl FnMut(usize, Result<()>)) {
        let are_last = Self::are_last(all);
        Self::detach_together(all, &are_last);
        for (at, ((pins, ifindex), is_last)) in all.iter().zip(are_last).enumerate() {
            then(at, pins.release_of(*ifindex, is_last));
        }
    }

    /// Detaches the programs of all of these, which are released next.
    pub(crate) fn detach_before_release(all: &[(PinDir, Option<u32>)]) {
        Self::detach_together(all, &Self::are_last(all));
    }

    /// Of which of these are all interfaces of their datapath among them?
    fn are_last(all: &[(PinDir, Option<u32>)]) -> Vec<bool> {
        let going: BTreeSet<&str> = all.iter().map(|(pins, _)| pins.iface.as_str()).collect();
        let stay = |(pins, _): &(PinDir, _)| {
            let others =
                pinned_in(pins.namespace).into_iter().filter(|iface| !going.contains(iface.as_str()));
            let of = |iface| PinDir { namespace: pins.namespace, iface };
            others.filter_map(|iface| of(iface).clock_number()).collect::<BTreeSet<u32>>()
        };
        let stay = all.first().map(stay).unwrap_or_default();
        all.iter().map(|(pins, _)| pins.clock_number().is_some_and(|own| !stay.contains(&own))).collect()
    }

    /// Detaches the programs of all of these, which are about to be released, from their interfaces: for each the kernel waits a grace
    /// period, and in one for all of them. What cannot be detached now is left for [`PinDir::release`].
    fn detach_together(all: &[(PinDir, Option<u32>)], are_last: &[bool]) {
        let all: Vec<_> = all.iter().zip(are_last).collect();
        for some in all.chunks(DETACHED_AT_ONCE) {
            thread::scope(|scope| {
                for ((pins, ifindex), is_last) in some {
                    scope.spawn(|| pins.detach_links(&LINKS_OF_IFACE));
                    if let Some(ifindex) = ifindex.filter(|_| !**is_last) {
                        scope.spawn(move || released_iface::forget_rules(&pins.dir(), ifindex));
                    }
                }
            });
        }
    }

    /// Detaches what these links keep attached.
    fn detach_links(&self, links: &[&str]) {
        // the kernel waits a grace period in each: in one for all
        thread::scope(|scope| {
            for link in links.iter().map(|link| self.dir().join(link)).filter(|link| link.exists()) {
                scope.spawn(move || {
                    // libbpf would complain of one that is not there, as with clsact; and it may be detached already, as its
                    // interface is gone
                    let _ = Link::open(&link).and_then(|link| link.detach());
                });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_names_its_interface() {
        let of = |file: &str| PinDir::noted_in(file).map(|pins| (pins.namespace, pins.iface));
        let pins = PinDir { namespace: 7, iface: "eth-0.100".into() };
        let files =
            [pins.record(), pins.build_file(), pins.index_file(), pins.claim_file(), pins.pinned_file()];
        for file in files {
            let name = file.file_name().unwrap().to_str().unwrap().to_string();
            assert_eq!(of(&name), Some((7, "eth-0.100".into())), "{name}");
            assert_eq!(of(&format!("{name}:new")), of(&name));
        }
        for other in ["pins.lock", "native-wl_", "native-7", "select-7:agent", "groups-7:names"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
