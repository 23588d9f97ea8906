//! The link emulator: one thread between two TUN devices.

use crate::{netns::Netns, packet::Packet};
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
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};
use windlass_scenario::{LinkModel, LinkStats, Verdict, times};

const READS_AT_ONCE: usize = 32;
const LARGEST_READ: usize = 70_000;
const NICE: libc::c_int = -10;
const IDLE_NS: u64 = 50_000_000;
const TUN_QUEUE_PACKETS: &str = "20000";

/// A running emulator.
#[derive(Debug)]
pub struct Wan {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<[LinkStats; 2]>>,
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

impl Wan {
    /// Connects device `names[0]` on `hosts[0]` with `names[1]` on `hosts[1]` through a link with these models,
    /// forward and backward.
    pub fn start(models: [LinkModel; 2], hosts: [&Netns; 2], names: [&str; 2], spin_us: u64) -> Result<Wan> {
        let files = [open_tun(hosts[0], names[0])?, open_tun(hosts[1], names[1])?];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::Builder::new()
            .name("wan".into())
            .spawn(move || Loop::new(files, models, spin_us * 1000).run(&stopped))?;
        Ok(Wan { stop, thread: Some(thread) })
    }

    /// Stops it; returns what happened forward and backward.
    pub fn finish(mut self) -> [LinkStats; 2] {
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

struct Loop {
    files: [File; 2],
    models: [LinkModel; 2],
    due: [BinaryHeap<Reverse<Due>>; 2],
    order: u64,
    spin_ns: u64,
    buffer: Vec<u8>,
    out: Vec<u8>,
    lateness: [Histogram<u64>; 2],
}

impl Loop {
    fn new(files: [File; 2], models: [LinkModel; 2], spin_ns: u64) -> Loop {
        Loop {
            files,
            models,
            due: [BinaryHeap::new(), BinaryHeap::new()],
            order: 0,
            spin_ns,
            buffer: vec![0; LARGEST_READ],
            out: Vec::with_capacity(LARGEST_READ),
            lateness: [times(), times()],
        }
    }

    fn run(mut self, stop: &AtomicBool) -> [LinkStats; 2] {
        // SAFETY: exact timers, and precedence over the hosts that the emulated hardware serves, for this thread only;
        // no pointers.
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
            libc::setpriority(libc::PRIO_PROCESS, libc::gettid() as _, NICE);
        }
        while !stop.load(Ordering::Relaxed) {
            let mut is_busy = false;
            for direction in 0..2 {
                is_busy |= self.release(direction);
                is_busy |= self.accept(direction);
            }
            if !is_busy {
                self.wait();
            }
        }
        let mut lateness = self.lateness.iter();
        self.models.map(|model| {
            let mut stats = model.finish();
            if let Some(late) = lateness.next() {
                stats.late_p50_us = late.value_at_quantile(0.5) as f64 / 1e3;
                stats.late_p99_us = late.value_at_quantile(0.99) as f64 / 1e3;
            }
            stats
        })
    }

    /// Sends on everything that is due; neighbours of one super-packet go together.
    fn release(&mut self, direction: usize) -> bool {
        let now = now_ns();
        let mut is_busy = false;
        while let Some(Reverse(first)) = self.due[direction].peek()
            && first.at_ns <= now
        {
            let Some(Reverse(first)) = self.due[direction].pop() else { break };
            self.lateness[direction].saturating_record(now - first.at_ns);
            let mut last = first.segment;
            while let Some(Reverse(next)) = self.due[direction].peek()
                && next.at_ns <= now
                && next.segment == last + 1
                && next.mark == first.mark
                && Rc::ptr_eq(&next.packet, &first.packet)
            {
                last += 1;
                self.due[direction].pop();
            }
            first.packet.emit(first.segment, last, first.mark, &mut self.out);
            if !write(self.files[1 - direction].as_raw_fd(), &self.out) {
                self.models[direction].stats.drops_refused += (last - first.segment + 1) as u64;
            }
            is_busy = true;
        }
        is_busy
    }

    fn accept(&mut self, direction: usize) -> bool {
        for reads in 0..READS_AT_ONCE {
            let n = read(self.files[direction].as_raw_fd(), &mut self.buffer);
            if n == 0 {
                return reads > 0;
            }
            let now = now_ns();
            let Some(packet) = Packet::parse(&self.buffer[..n]) else {
                self.models[direction].stats.drops_foreign += 1;
                continue;
            };
            let packet = Rc::new(packet);
            for segment in 0..packet.segments {
                let verdict = self.models[direction].offer(now, packet.wire_bytes(segment), packet.is_ect);
                if let Verdict::Deliver { at_ns, mark } = verdict {
                    self.order += 1;
                    let due = Due { at_ns, order: self.order, packet: packet.clone(), segment, mark };
                    self.due[direction].push(Reverse(due));
                }
            }
        }
        true
    }

    fn wait(&self) {
        let next = self.due.iter().filter_map(|d| d.peek().map(|Reverse(d)| d.at_ns)).min();
        let now = now_ns();
        let wait_ns = next.map_or(IDLE_NS, |n| n.saturating_sub(now));
        if wait_ns <= self.spin_ns {
            std::hint::spin_loop();
            return;
        }
        let sleep_ns = (wait_ns - self.spin_ns).min(IDLE_NS);
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: sleep_ns as _ };
        let mut fds =
            [0, 1].map(|i| libc::pollfd { fd: self.files[i].as_raw_fd(), events: libc::POLLIN, revents: 0 });
        // SAFETY: two live pollfds and a live timespec.
        unsafe { libc::ppoll(fds.as_mut_ptr(), 2, &timeout, std::ptr::null()) };
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
