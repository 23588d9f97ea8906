//! The in-kernel clock: a private veth pair whose one end is shaped, so that a single small frame, sent round and
//! round by the `wl_clock` program, comes by at a steady rate. Once started it needs no user space.

use crate::{
    Error, Options, Result,
    attach::{Attached, Side, attach, has_program},
    error::bpf,
    link::{self, Link},
    load::random_key,
    map_value::u32_at,
    netdev::{self, run},
    persist::lock::Lock,
};
use libbpf_rs::{MapCore, MapFlags, libbpf_sys as sys};
use std::{collections::BTreeMap, io, mem, os::fd::BorrowedFd, path::PathBuf};
use windlass_core::abi::{WL_CLOCK_FRAME_BYTES, WL_CLOCK_REST_ROUNDS, WL_ETH_P_CLOCK, wl_config};

/// The longest frame: with nothing to do soon, the program pads it, so that it takes several rounds' time.
const LONGEST_FRAME_BYTES: u32 = WL_CLOCK_REST_ROUNDS * WL_CLOCK_FRAME_BYTES;

/// The program that sends the frame on.
pub(crate) const PROGRAM: &str = "wl_clock";

/// Written down of both devices, where `ip link` shows it: a name alone may be another program's choice.
const ALIAS: &str = "windlass clock";

/// Clocks of datapaths that may have several interfaces have numbers from here on, which the kernel gives no interface by itself.
const SHARED_FROM: u32 = 1 << 30;

/// A number for such a clock, or an index for any clock's shaped end.
fn random_number() -> Result<u32> {
    let [random, _] = random_key()?;
    Ok(SHARED_FROM | random as u32 & (SHARED_FROM - 1))
}

/// Number of the clock that has this device at its end `end`, `a` or `b`; none: it is no clock's.
fn number_of(device: &str, end: char) -> Option<u32> {
    let digits = device.strip_prefix("wlc")?.strip_suffix(end)?;
    // parse() would take a sign
    digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Is this interface a device of some datapath's clock?
pub(crate) fn is_of_clock(link: &Link) -> bool {
    link.alias == ALIAS || other_end(&link.name).is_some_and(|other| is_paired_with(link, &other))
}

/// What the other end of a clock is called, one end of which has this name; none: it is no clock's name.
fn other_end(device: &str) -> Option<String> {
    let of = |end| number_of(device, end).map(Clock::existing);
    of('a').map(|clock| clock.program_end).or_else(|| of('b').map(|clock| clock.shaped))
}

/// Builds that wrote nothing down of their devices made such pairs.
fn is_paired_with(link: &Link, other: &str) -> bool {
    link.kind == "veth" && link.peer.and_then(netdev::name_of).as_deref() == Some(other)
}

/// Makes a clock and throws it away: does this kernel have what it needs?
pub(crate) fn try_make() -> Result<()> {
    // or an attaching process would take it for one that was left
    let _lock = Lock::take_for_attach(None)?;
    // no interface has this index
    let clock = Clock::of_iface(0)?;
    clock.make(clock.index, Options::default().clock_hz)?;
    clock.remove();
    Ok(())
}

/// The clock of one datapath.
#[derive(Debug)]
pub struct Clock {
    number: u32,
    /// Of the shaped end, of a clock that this process makes; else 0.
    index: u32,
    shaped: String,
    program_end: String,
    /// Rounds at the last look.
    ticks: u64,
    /// How often the program had stopped the frame then, as its shaper was gone; none: there was no look yet.
    stops: Option<u64>,
    /// It stood still then, and a new frame was sent.
    is_restarted: bool,
    /// It had gone round between the last two looks, by itself; none: there were no two looks yet.
    is_running: Option<bool>,
}

impl Clock {
    /// The clock that a datapath of interface `ifindex` alone will have.
    pub fn of_iface(ifindex: u32) -> Result<Clock> {
        Ok(Clock { index: random_number()?, ..Clock::existing(ifindex) })
    }

    /// The clock that a datapath will have which outlives its first interface.
    pub fn of_several() -> Result<Clock> {
        let number = random_number()?;
        Ok(Clock { index: number, ..Clock::existing(number) })
    }

    /// Makes the veth pair; `hz` rounds a second.
    pub fn create(&self, hz: u32) -> Result<()> {
        self.make(self.index, hz).map_err(|why| match why {
            Error::ClockNameTaken(_) => why,
            _ => Error::NoClock(Box::new(why)),
        })
    }

    /// Makes the veth pair in place of one that there may be; `index`: the shaped end's.
    fn make(&self, index: u32, hz: u32) -> Result<()> {
        let (a, b) = (self.shaped.as_str(), self.program_end.as_str());
        for device in [a, b] {
            match link::named(device) {
                Some(there) if !is_of_clock(&there) => return Err(Error::ClockNameTaken(device.into())),
                Some(_) => drop(run(&["ip", "link", "del", device])?),
                None => {}
            }
        }
        run(&["ip", "link", "add", a, "index", &index.to_string(), "type", "veth", "peer", "name", b])?;
        let is_ready = self.set_up(hz);
        if is_ready.is_err() {
            self.remove();
        }
        is_ready
    }

    /// Gives the pair, which is there, its rate.
    fn set_up(&self, hz: u32) -> Result<()> {
        let (a, b) = (self.shaped.as_str(), self.program_end.as_str());
        for dev in [a, b] {
            // the pair is for no other program: no addresses, no neighbour discovery
            run(&["ip", "link", "set", dev, "alias", ALIAS, "addrgenmode", "none", "arp", "off", "up"])?;
        }
        let rate = format!("{}bit", u64::from(hz) * u64::from(WL_CLOCK_FRAME_BYTES) * 8);
        // TBF passes nothing that is longer than its bucket
        let burst = (LONGEST_FRAME_BYTES + 20).to_string();
        run(&[
            "tc", "qdisc", "replace", "dev", a, "root", "tbf", "rate", &rate, "burst", &burst, "limit",
            "3000",
        ])
        .map(drop)
    }

    /// The clock of this number that was made before; that of a datapath of one interface has the interface's index.
    pub fn existing(number: u32) -> Clock {
        Clock {
            number,
            index: 0,
            shaped: format!("wlc{number}a"),
            program_end: format!("wlc{number}b"),
            ticks: 0,
            stops: None,
            is_restarted: false,
            is_running: None,
        }
    }

    /// Removes the clocks of interfaces that are gone from this namespace, and those of several interfaces that are not `in_use`.
    pub fn remove_gone(in_use: impl Fn(u32) -> bool) {
        for link in link::all().iter().filter(|link| link.alias == ALIAS) {
            let Some(number) = number_of(&link.name, 'a') else { continue };
            let clock = Clock::existing(number);
            let is_needed = match number < SHARED_FROM {
                true => netdev::has_index(number),
                // some pins cannot be seen from here
                false => in_use(number) || clock.has_program(),
            };
            if !is_needed {
                clock.remove();
            }
        }
    }

    /// Is a datapath's program attached to it? By tcx that goes with the datapath.
    ///
    /// # Errors
    /// Programs are attached, and what they are cannot be determined.
    pub(crate) fn is_used(&self) -> Result<bool> {
        let of = |end| has_program(end as i32, sys::BPF_TCX_INGRESS, PROGRAM);
        self.program_ifindex().map_or(Ok(false), of)
    }

    /// The same, and by filters, which stay where a datapath was killed; what cannot be determined is taken for one.
    fn has_program(&self) -> bool {
        let end = self.program_end.as_str();
        self.is_used().unwrap_or(true)
            || run(&["tc", "filter", "show", "dev", end, "ingress"]).is_ok_and(|list| list.contains(PROGRAM))
    }

    /// Are its devices there? One of another program may have a clock's name.
    pub(crate) fn is_there(&self) -> bool {
        link::named(&self.shaped).is_some_and(|link| link.alias == ALIAS)
    }

    /// By which it is known.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Index that the end will have which the frame is sent into.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Index of the end that the frame is sent into.
    pub fn shaped_ifindex(&self) -> Result<u32> {
        netdev::index(&self.shaped).ok_or_else(|| Error::NoInterface(self.shaped.clone()))
    }

    /// Index of the end where the program sees the frame; none: it is gone.
    pub(crate) fn program_ifindex(&self) -> Option<u32> {
        netdev::index(&self.program_end)
    }

    /// Attaches the program at the end where it sees the frame, and sends the frame on its way.
    pub fn start(&self, program: BorrowedFd<'_>) -> Result<Attached> {
        let end = self.program_ifindex().ok_or_else(|| Error::NoInterface(self.program_end.clone()))?;
        let attached = attach(program, PROGRAM, end, Side::Ingress)?;
        self.send()?;
        Ok(attached)
    }

    /// Has it stood still since the last look, or was its frame stopped? The counters are those of its datapath.
    pub fn stands(&mut self, counters: &BTreeMap<String, u64>) -> bool {
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        let (ticks, stops) = (count("clock_ticks"), count("clock_unshaped"));
        let stands = mem::replace(&mut self.ticks, ticks) == ticks;
        let before = self.stops.replace(stops);
        let is_stopped = before.is_some_and(|before| before != stops);
        // a new frame would be stopped as well: new devices are needed
        self.is_restarted = is_stopped || (self.is_restarted && stands);
        self.is_running = before.map(|_| !stands && !is_stopped);
        stands || is_stopped
    }

    /// Did it run at the last look? None: there were no two looks yet.
    pub fn is_running(&self) -> Option<bool> {
        self.is_running
    }

    /// Sets a clock going that stands still. Where a new frame does not help, its devices were deleted or changed:
    /// they are made anew, as the datapath of this `config` knows them, and the program's new attachment is returned.
    pub fn revive(&mut self, config: &impl MapCore, program: BorrowedFd<'_>) -> Result<Option<Attached>> {
        if !self.is_restarted && self.send().is_ok() {
            self.is_restarted = true;
            return Ok(None);
        }
        self.is_restarted = false;
        let config =
            config.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(bpf("reading the configuration"))?;
        let number = |at: usize| u32_at(config.as_deref().unwrap_or_default(), at);
        self.make(
            number(mem::offset_of!(wl_config, clock_ifindex)),
            number(mem::offset_of!(wl_config, clock_hz)),
        )?;
        self.start(program).map(Some)
    }

    /// Sends the frame on its way. Only one may circle.
    fn send(&self) -> Result<()> {
        let io = |_| Error::Io { path: PathBuf::from(&self.shaped), why: io::Error::last_os_error() };
        let frame = frame();
        let index = self.shaped_ifindex()?;
        // SAFETY: plain socket calls; every pointer is to a live local of the length given.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                return Err(io(()));
            }
            let mut to: libc::sockaddr_ll = mem::zeroed();
            to.sll_family = libc::AF_PACKET as u16;
            to.sll_ifindex = index as i32;
            let sent = libc::sendto(
                fd,
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const to).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            );
            let result = if sent < 0 { Err(io(())) } else { Ok(()) };
            libc::close(fd);
            result
        }
    }

    /// Removes the veth pair; the frame goes with it.
    pub fn remove(&self) {
        if link::named(&self.shaped).is_some_and(|there| is_of_clock(&there)) {
            // nothing to be done about a failure: the device is private and harmless
            let _ = run(&["ip", "link", "del", &self.shaped]);
        }
    }
}

fn frame() -> [u8; WL_CLOCK_FRAME_BYTES as usize] {
    let mut frame = [0; WL_CLOCK_FRAME_BYTES as usize];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&(WL_ETH_P_CLOCK as u16).to_be_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str) -> Link {
        Link { name: name.into(), kind: "veth".into(), ..Link::default() }
    }

    #[test]
    fn clocks_are_known_by_more_than_their_name() {
        assert_eq!((number_of("wlc12a", 'a'), number_of("wlc12a", 'b')), (Some(12), None));
        let longest = Clock::existing(SHARED_FROM | (SHARED_FROM - 1));
        assert_eq!(other_end(&longest.shaped).as_ref(), Some(&longest.program_end));
        assert!(longest.shaped.len() < libc::IF_NAMESIZE);
        for other in ["wlc", "wlca", "wlc12", "wlc12c", "wlc+1a", "wlc-lan", "wlcroom1a", "xwlc1a"] {
            assert_eq!(other_end(other), None, "{other}");
        }
        assert_eq!(other_end("wlc12a").as_deref(), Some("wlc12b"));
        assert_eq!(other_end("wlc0b").as_deref(), Some("wlc0a"));
        assert!(!is_of_clock(&link("wlc12a")), "another program's");
        assert!(is_of_clock(&Link { alias: ALIAS.into(), ..link("wlc12a") }));
    }

    #[test]
    fn a_clock_whose_frame_was_stopped_needs_new_devices() {
        let counters = |ticks, stops| {
            BTreeMap::from([("clock_ticks".to_string(), ticks), ("clock_unshaped".to_string(), stops)])
        };
        let mut clock = Clock::existing(7);
        // what was counted before the first look is of an earlier clock
        assert!(!clock.stands(&counters(5, 1)) && clock.is_running().is_none());
        assert!(!clock.stands(&counters(6, 1)) && clock.is_running() == Some(true));
        assert!(clock.stands(&counters(6, 1)) && !clock.is_restarted, "a new frame may do");
        assert!(clock.stands(&counters(300, 2)) && clock.is_restarted);
        assert_eq!(clock.is_running(), Some(false));
        assert!(!clock.stands(&counters(310, 2)) && !clock.is_restarted);
        assert_eq!(clock.is_running(), Some(true));
    }
}
