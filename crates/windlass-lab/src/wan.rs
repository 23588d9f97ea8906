//! The link emulator: one thread between pairs of TUN devices.

use crate::{
    bursts::{Bursts, Longest},
    netns::Netns,
    packet::Packet,
};
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::File,
    io,
    os::fd::{AsRawFd, RawFd},
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};
use windlass_scenario::{LinkModel, LinkStats, Verdict, times};

/// More of one link wait until what is due elsewhere has been sent.
const READS_AT_ONCE: usize = 8;
const LARGEST_READ: usize = 70_000;
/// Of a network that is alone and spins: above all that is not of real time; a tick of the scheduler spent waiting would be
/// forty round trips of a rack. Emulators side by side would take all processors from all hosts.
const PRIORITY: libc::c_int = 1;
/// ... of others, or where that is not allowed: above what is not as nice.
const NICE: libc::c_int = -10;
/// Whoever never rests at such a priority is stopped for 50 ms in each second (sched_rt_runtime_us): of each turn it has it
/// for so long, and is like others for the rest.
const TURN_NS: u64 = 20_000_000;
const PRIOR_MOST_NS: u64 = 18_000_000;
const IDLE_NS: u64 = 50_000_000;
const TUN_QUEUE_PACKETS: &str = "20000";

/// The devices of an emulated link; nothing carries their packets yet.
#[derive(Debug)]
pub struct Wire {
    files: [File; 2],
    models: [LinkModel; 2],
}

/// A running emulator. One thread has all of a network's links, so that what one link hands to a host that forwards is at
/// the next one without anybody having to wake up, and the hosts have the other processors for themselves.
#[derive(Debug)]
pub struct Wan {
    stop: Arc<AtomicBool>,
    longest: Arc<Mutex<Longest>>,
    thread: Option<JoinHandle<Vec<[LinkStats; 2]>>>,
}

fn open_tun(ns: &Netns, name: &str) -> Result<File> {
    let file = ns.enter(|| {
        let file = File::options().read(true).write(true).open("/dev/net/tun").context("/dev/net/tun")?;
        // SAFETY: an all-zero ifreq is valid; the name is shorter than its field and stays NUL-terminated.
        unsafe {
            let mut request: libc::ifreq = std::mem::zeroed();
            for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(15)) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as i16;
            if libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &request) != 0 {
                bail!("making TUN device {name}: {}", io::Error::last_os_error());
            }
            let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
            if libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(offloads)) != 0 {
                bail!("offloads of {name}: {}", io::Error::last_os_error());
            }
            let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
            libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
        Ok(file)
    })?;
    // without a link-local address the kernel sends nothing of its own (router solicitations, multicast reports),
    // which would take draws of the random loss at unpredictable times
    ns.run(&["ip", "link", "set", name, "addrgenmode", "none"])?;
    // the device's own queue must never drop what the model has not seen
    ns.run(&["ip", "link", "set", name, "txqueuelen", TUN_QUEUE_PACKETS, "up"])?;
    Ok(file)
}

fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

impl Wire {
    /// Makes device `names[0]` on `hosts[0]` and `names[1]` on `hosts[1]`, the ends of a link with these models, forward
    /// and backward.
    pub fn open(models: [LinkModel; 2], hosts: [&Netns; 2], names: [&str; 2]) -> Result<Wire> {
        Ok(Wire { files: [open_tun(hosts[0], names[0])?, open_tun(hosts[1], names[1])?], models })
    }
}

impl Wan {
    /// Connects the ends of these links. `spin_us`: how long it may spin before a packet is due, rather than sleep, and,
    /// unless 0, it has precedence over all hosts: for a network that is alone on this machine.
    pub fn start(wires: Vec<Wire>, spin_us: u64) -> Result<Wan> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let longest = Arc::<Mutex<Longest>>::default();
        let shared = longest.clone();
        let thread = thread::Builder::new()
            .name("wan".into())
            .spawn(move || Loop::new(wires, shared, spin_us * 1000).run(&stopped))?;
        Ok(Wan { stop, longest, thread: Some(thread) })
    }

    /// The longest bursts that have reached a link so far.
    pub fn longest_bursts(&self) -> Longest {
        self.longest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops it; returns what happened on each link, forward and backward.
    pub fn finish(mut self) -> Vec<[LinkStats; 2]> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(|t| t.join().unwrap_or_default()).unwrap_or_default()
    }
}

impl Drop for Wan {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Due {
    at_ns: u64,
    order: u64,
    packet: Rc<Packet>,
    segment: usize,
    mark: bool,
}

impl Due {
    fn key(&self) -> (u64, u64) {
        (self.at_ns, self.order)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// One direction of a link.
struct Way {
    from: RawFd,
    to: RawFd,
    model: LinkModel,
    bursts: Bursts,
    due: BinaryHeap<Reverse<Due>>,
    lateness: Histogram<u64>,
}

struct Loop {
    /// Forward and backward of the first link, of the second ...
    ways: Vec<Way>,
    /// What `ways` read and write.
    _files: Vec<[File; 2]>,
    /// Of each way; set up once.
    polled: Vec<libc::pollfd>,
    order: u64,
    spin_ns: u64,
    turn: Turn,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

impl Loop {
    fn new(wires: Vec<Wire>, longest: Arc<Mutex<Longest>>, spin_ns: u64) -> Loop {
        let (mut ways, mut files) = (Vec::new(), Vec::new());
        for wire in wires {
            for (side, model) in wire.models.into_iter().enumerate() {
                let [from, to] = [side, 1 - side].map(|i| wire.files[i].as_raw_fd());
                let bursts = Bursts::new(longest.clone());
                ways.push(Way { from, to, model, bursts, due: BinaryHeap::new(), lateness: times() });
            }
            files.push(wire.files);
        }
        Loop {
            polled: ways
                .iter()
                .map(|w| libc::pollfd { fd: w.from, events: libc::POLLIN, revents: 0 })
                .collect(),
            ways,
            _files: files,
            order: 0,
            spin_ns,
            turn: Turn::default(),
            buffer: vec![0; LARGEST_READ],
            out: Vec::with_capacity(LARGEST_READ),
        }
    }

    fn run(mut self, stop: &AtomicBool) -> Vec<[LinkStats; 2]> {
        // SAFETY: exact timers, and precedence over the hosts that the emulated hardware serves, for this thread only;
        // no pointers.
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
            libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as _, NICE);
        }
        while !stop.load(Ordering::Relaxed) {
            for way in &mut self.ways {
                way.release(&mut self.out);
            }
            self.wait();
            for (way, polled) in self.ways.iter_mut().zip(&self.polled) {
                if polled.revents != 0 {
                    way.accept(&mut self.buffer, &mut self.order);
                }
            }
        }
        let mut stats = self.ways.into_iter().map(Way::finish);
        let mut links = Vec::new();
        while let (Some(forward), Some(backward)) = (stats.next(), stats.next()) {
            links.push([forward, backward]);
        }
        links
    }

    /// Sleeps until a packet comes in or is due.
    fn wait(&mut self) {
        let now = now_ns();
        if self.spin_ns > 0 {
            self.turn.go_on(now);
        }
        let next = self.ways.iter().filter_map(|w| w.due.peek().map(|Reverse(d)| d.at_ns)).min();
        let wait_ns = next.map_or(IDLE_NS, |n| n.saturating_sub(now + self.spin_ns).min(IDLE_NS));
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: wait_ns as _ };
        let count = self.polled.len() as libc::nfds_t;
        // SAFETY: as many live pollfds, and a live timespec.
        unsafe { libc::ppoll(self.polled.as_mut_ptr(), count, &timeout, std::ptr::null()) };
        if wait_ns > 0 {
            self.turn.slept_ns += now_ns() - now;
        }
    }
}

/// A stretch of TURN_NS.
#[derive(Default)]
struct Turn {
    began_ns: u64,
    slept_ns: u64,
    is_prior: bool,
}

impl Turn {
    fn go_on(&mut self, now: u64) {
        let passed_ns = now - self.began_ns;
        if passed_ns > TURN_NS {
            *self = Turn { began_ns: now, slept_ns: 0, is_prior: self.is_prior };
            self.take_precedence(true);
        } else if passed_ns.saturating_sub(self.slept_ns) > PRIOR_MOST_NS {
            self.take_precedence(false);
        }
    }

    fn take_precedence(&mut self, is_prior: bool) {
        if self.is_prior == is_prior {
            return;
        }
        self.is_prior = is_prior;
        let (policy, sched_priority) =
            if is_prior { (libc::SCHED_FIFO, PRIORITY) } else { (libc::SCHED_OTHER, 0) };
        // SAFETY: of this thread, with a live sched_param. Where it is not allowed, its niceness is all there is.
        unsafe { libc::sched_setscheduler(0, policy, &libc::sched_param { sched_priority }) };
    }
}

impl Way {
    /// Sends on everything that is due; neighbours of one super-packet go together.
    fn release(&mut self, out: &mut Vec<u8>) {
        if self.due.is_empty() {
            return;
        }
        let now = now_ns();
        while let Some(Reverse(first)) = self.due.peek()
            && first.at_ns <= now
        {
            let Some(Reverse(first)) = self.due.pop() else { break };
            self.lateness.saturating_record(now - first.at_ns);
            let mut last = first.segment;
            while let Some(Reverse(next)) = self.due.peek()
                && next.at_ns <= now
                && next.segment == last + 1
                && next.mark == first.mark
                && Rc::ptr_eq(&next.packet, &first.packet)
            {
                last += 1;
                self.due.pop();
            }
            first.packet.emit(first.segment, last, first.mark, out);
            if !write(self.to, out) {
                self.model.stats.drops_refused += (last - first.segment + 1) as u64;
            }
        }
    }

    fn accept(&mut self, buffer: &mut [u8], order: &mut u64) {
        for _ in 0..READS_AT_ONCE {
            let n = read(self.from, buffer);
            if n == 0 {
                return;
            }
            let now = now_ns();
            let Some(packet) = Packet::parse(&buffer[..n]) else {
                self.model.stats.drops_foreign += 1;
                continue;
            };
            if let Some(segments) = packet.segments() {
                self.bursts.on_segments(&segments, now);
            }
            let packet = Rc::new(packet);
            for segment in 0..packet.segments {
                let verdict = self.model.offer(now, packet.wire_bytes(segment), packet.is_ect);
                if let Verdict::Deliver { at_ns, mark } = verdict {
                    *order += 1;
                    let due = Due { at_ns, order: *order, packet: packet.clone(), segment, mark };
                    self.due.push(Reverse(due));
                }
            }
        }
    }

    fn finish(self) -> LinkStats {
        let mut stats = self.model.finish();
        stats.late_p50_us = self.lateness.value_at_quantile(0.5) as f64 / 1e3;
        stats.late_p99_us = self.lateness.value_at_quantile(0.99) as f64 / 1e3;
        stats
    }
}

fn read(fd: RawFd, buffer: &mut [u8]) -> usize {
    // SAFETY: the buffer is live and of the length given.
    let n = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
    usize::try_from(n).unwrap_or(0)
}

/// Whether the device took the packet.
fn write(fd: RawFd, packet: &[u8]) -> bool {
    // SAFETY: the buffer is live and of the length given.
    unsafe { libc::write(fd, packet.as_ptr().cast(), packet.len()) == packet.len() as isize }
}
