//! The link emulator: one thread between pairs of TUN or TAP devices.

use crate::{
    bursts::{Bursts, Longest},
    netns::Netns,
    packet::Packet,
    panic_message::panic_message,
    queue_looks::QueueLooks,
    spin::Spin,
    tun::{Framing, Port, Tun},
};
use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    num::NonZeroU64,
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};
use windlass_scenario::{DisciplineQueue, Label, Link, LinkModel, LinkStats, Verdict, times};

/// More of one link wait until what is due elsewhere has been sent.
const READS_AT_ONCE: usize = 8;
/// Behind a host that measures no times: a packet leads to one, and where to more, these are found later.
const REPLIES_AT_ONCE: usize = 1;
/// More of what is due wait until what hosts send of themselves has been read.
const WRITES_AT_ONCE: usize = 32;
/// A thread that is later than that has more to do than there is time for: reading one reply after the other takes longest.
const BEHIND_NS: u64 = 200_000;
const LARGEST_READ: usize = 70_000;
/// Of a network that is alone and spins: above all that is not of real time; a tick of the scheduler spent waiting would be
/// forty round trips of a rack. Emulators side by side would take all processors from all hosts.
const PRIORITY: libc::c_int = 1;
/// ... of others, or where that is not allowed: above what is not as nice.
const NICE: libc::c_int = -10;
/// A thread that never rests at such a priority is stopped for 50 ms in each second (sched_rt_runtime_us): of each
/// turn it has it for so long, and is like others for the rest.
const TURN_NS: u64 = 20_000_000;
const PRIOR_MOST_NS: u64 = 18_000_000;
const IDLE_NS: u64 = 50_000_000;

/// The devices of an emulated link; nothing carries their packets yet.
#[derive(Debug)]
pub struct Wire {
    ends: [End; 2],
    models: [LinkModel; 2],
    /// Directions with a discipline, and the seeds of these.
    disciplines: [Option<(Link, u64)>; 2],
}

#[derive(Debug)]
struct End {
    device: Tun,
    host: String,
    is_timeless: bool,
}

/// A running emulator. One thread has all of a network's links, so that what one link hands to a host that forwards is at
/// the next one without a wake-up, and the hosts have the other processors for themselves.
#[derive(Debug)]
pub struct Wan {
    stop: Arc<AtomicBool>,
    longest: Arc<Mutex<Longest>>,
    looks: Arc<QueueLooks>,
    thread: Option<JoinHandle<Vec<[LinkStats; 2]>>>,
    _spin: Option<Spin>,
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
        Self::open_framed(models, hosts, names, [Framing::Ip; 2])
    }

    /// The same with devices whose packets have these headers.
    pub(crate) fn open_framed(
        models: [LinkModel; 2],
        hosts: [&Netns; 2],
        names: [&str; 2],
        framings: [Framing; 2],
    ) -> Result<Wire> {
        let end = |side: usize| -> Result<End> {
            let host = hosts[side].name().to_string();
            Ok(End { device: Tun::open(hosts[side], names[side], framings[side])?, host, is_timeless: false })
        };
        Ok(Wire { ends: [end(0)?, end(1)?], models, disciplines: [None, None] })
    }

    /// Has directions queue by the disciplines of these ports, whose random choices have these seeds.
    pub(crate) fn with_disciplines(mut self, ports: [(Link, u64); 2]) -> Wire {
        self.disciplines =
            ports.map(|(port, seed)| (port.discipline.is_some() || port.ack_filter).then_some((port, seed)));
        self
    }

    /// Lists which of its hosts measure no times: what such a host sends because of a packet that the emulator handed on
    /// late counts as sent as much earlier, so that lateness does not add up from link to link. The round trips of a host
    /// that measures them would be too short by that.
    pub fn with_timeless(mut self, timeless: [bool; 2]) -> Wire {
        for (end, is_timeless) in self.ends.iter_mut().zip(timeless) {
            end.is_timeless = is_timeless;
        }
        self
    }
}

impl Wan {
    /// Connects the ends of these links. `spin_us`: how long it may spin before a packet is due, rather than sleep, and,
    /// unless 0, it has precedence over all hosts: for a network that is alone on this machine. While another spins there, it
    /// sleeps.
    pub fn start(wires: Vec<Wire>, spin_us: u64) -> Result<Wan> {
        let spin = if spin_us > 0 { Spin::take()? } else { None };
        let spin_ns = if spin.is_some() { spin_us * 1000 } else { 0 };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let longest = Arc::<Mutex<Longest>>::default();
        let looks = Arc::<QueueLooks>::default();
        let shared = (longest.clone(), looks.clone());
        let thread = thread::Builder::new()
            .name("wan".into())
            .spawn(move || Loop::new(wires, shared.0, shared.1, spin_ns).run(&stopped))?;
        Ok(Wan { stop, longest, looks, thread: Some(thread), _spin: spin })
    }

    /// The longest bursts that have reached a link so far.
    pub fn longest_bursts(&self) -> Longest {
        self.longest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at all queues in intervals of this length from now on.
    pub fn begin_looks(&self, every_ns: NonZeroU64) {
        self.looks.begin(every_ns, now_ns());
    }

    /// Packets that queued or were being sent at each look so far, of each link forward and backward.
    pub fn looks(&self) -> Vec<[Vec<u32>; 2]> {
        let mut each = self.looks.packets().into_iter();
        let mut links = Vec::new();
        while let (Some(forward), Some(backward)) = (each.next(), each.next()) {
            links.push([forward, backward]);
        }
        links
    }

    /// Stops it; returns what happened on each link, forward and backward.
    ///
    /// # Errors
    /// It has panicked, so that its links have carried nothing since.
    pub fn finish(mut self) -> Result<Vec<[LinkStats; 2]>> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().context("an emulator ends once")?.join();
        ended.map_err(|why| anyhow!("the link emulator panicked: {}", panic_message(&*why)))
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

/// The ways out of the host to which the `index`-th way leads; not straight back, if there are others.
fn replies(ends: &[[End; 2]], index: usize) -> Vec<usize> {
    // of two ways of a link, the first leads from its first end to its second
    let host = |way: usize| &ends[way / 2][way % 2].host;
    let back = index ^ 1;
    let ways = (0..2 * ends.len()).filter(|&way| host(way) == host(back));
    let onward: Vec<usize> = ways.filter(|&way| way != back).collect();
    if onward.is_empty() { vec![back] } else { onward }
}

/// One direction of a link.
struct Way {
    from: Port,
    to: Port,
    model: LinkModel,
    /// Its discipline's queue, in front of the model; none: the model queues.
    queue: Option<DisciplineQueue<(Rc<Packet>, usize)>>,
    /// When something last entered or left that.
    queue_changed_ns: u64,
    bursts: Bursts,
    due: BinaryHeap<Reverse<Due>>,
    lateness: Histogram<u64>,
    /// When the last packet came in.
    last_in_ns: u64,
    /// What leaves the far host because of a packet comes in here.
    replies: Vec<usize>,
    /// Of each of these.
    polled: Vec<libc::pollfd>,
    /// Of the far host.
    is_timeless: bool,
    /// Whether it forwards: what it is handed together it forwards together, each segment as much later as it came later.
    forwards: bool,
}

struct Loop {
    /// Forward and backward of the first link, of the second ...
    ways: Vec<Way>,
    /// What `ways` read and write.
    _ends: Vec<[End; 2]>,
    /// Of each way; set up once.
    polled: Vec<libc::pollfd>,
    order: u64,
    looks: Arc<QueueLooks>,
    spin_ns: u64,
    turn: Turn,
    buffer: Vec<u8>,
    out: Vec<u8>,
    /// How late each segment of `out` is.
    late_ns: Vec<u64>,
}

impl Loop {
    fn new(wires: Vec<Wire>, longest: Arc<Mutex<Longest>>, looks: Arc<QueueLooks>, spin_ns: u64) -> Loop {
        let (mut ways, mut ends) = (Vec::new(), Vec::new());
        for wire in wires {
            for (side, (model, discipline)) in wire.models.into_iter().zip(&wire.disciplines).enumerate() {
                let [from, to] = [&wire.ends[side], &wire.ends[1 - side]];
                ways.push(Way {
                    from: from.device.port(),
                    to: to.device.port(),
                    model,
                    queue: discipline.as_ref().and_then(|(port, seed)| DisciplineQueue::new(port, *seed)),
                    queue_changed_ns: 0,
                    bursts: Bursts::new(longest.clone()),
                    due: BinaryHeap::new(),
                    lateness: times(),
                    last_in_ns: 0,
                    replies: Vec::new(),
                    polled: Vec::new(),
                    is_timeless: to.is_timeless,
                    forwards: false,
                });
            }
            ends.push(wire.ends);
        }
        let polled: Vec<_> =
            ways.iter().map(|w| libc::pollfd { fd: w.from.fd, events: libc::POLLIN, revents: 0 }).collect();
        for (index, way) in ways.iter_mut().enumerate() {
            way.replies = replies(&ends, index);
            way.polled = way.replies.iter().map(|&r| polled[r]).collect();
            way.forwards = way.replies != [index ^ 1];
        }
        Loop {
            ways,
            _ends: ends,
            polled,
            order: 0,
            looks,
            spin_ns,
            turn: Turn::default(),
            buffer: vec![0; LARGEST_READ],
            out: Vec::with_capacity(LARGEST_READ),
            late_ns: Vec::new(),
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
            self.dequeue();
            self.look();
            self.release();
            self.wait();
            for (way, polled) in self.ways.iter_mut().zip(&self.polled) {
                if polled.revents != 0 {
                    way.accept(READS_AT_ONCE, &[0], &mut self.buffer, &mut self.order);
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

    /// Has the links with disciplines send what they could have sent by now.
    fn dequeue(&mut self) {
        let Loop { ways, order, .. } = self;
        ways.iter_mut().filter(|way| way.queue.is_some()).for_each(|way| way.dequeue(now_ns(), order));
    }

    /// Looks at all queues, if it is time.
    fn look(&self) {
        if self.looks.due_ns().is_some() {
            let queued = |at_ns| self.ways.iter().map(|way| way.model.queued_packets(at_ns) as u32).collect();
            self.looks.look(now_ns(), queued);
        }
    }

    /// Hands on what is due, in the order of time, each with what it leads to.
    fn release(&mut self) {
        for _ in 0..WRITES_AT_ONCE {
            let first = |(i, w): (usize, &Way)| w.due.peek().map(|Reverse(d)| (d.key(), i));
            let Some((_, index)) = self.ways.iter().enumerate().filter_map(first).min() else { return };
            match self.ways[index].release(now_ns(), &mut self.out, &mut self.late_ns) {
                None => return,
                Some(late_ns) if late_ns <= BEHIND_NS => self.take_replies(index),
                Some(_) => {}
            }
        }
    }

    /// Reads what the host sends to which the `index`-th way has just handed on a packet.
    fn take_replies(&mut self, index: usize) {
        let way = &mut self.ways[index];
        let (reads, late_ns) = match way.is_timeless {
            true if way.forwards => (REPLIES_AT_ONCE, &self.late_ns[..]),
            // nothing can have left before the last of what it answers came
            true => (REPLIES_AT_ONCE, &self.late_ns[self.late_ns.len() - 1..]),
            false => (READS_AT_ONCE, &[0][..]),
        };
        if way.replies.len() > 1 {
            // SAFETY: as many live pollfds.
            unsafe { libc::poll(way.polled.as_mut_ptr(), way.polled.len() as libc::nfds_t, 0) };
        }
        for i in 0..self.ways[index].replies.len() {
            let way = &self.ways[index];
            let reply = way.replies[i];
            if way.replies.len() == 1 || way.polled[i].revents != 0 {
                self.ways[reply].accept(reads, late_ns, &mut self.buffer, &mut self.order);
            }
        }
    }

    /// Sleeps until a packet comes in or is due.
    fn wait(&mut self) {
        let now = now_ns();
        if self.spin_ns > 0 {
            self.turn.go_on(now);
        }
        let next = self.ways.iter().filter_map(Way::next_at_ns).chain(self.looks.due_ns()).min();
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
    /// Hands on what is due first; neighbours of one super-packet that are due, too, go together. `each_late_ns` is then how
    /// late each is. Returns that of the first; none: nothing is due.
    fn release(&mut self, now: u64, out: &mut Vec<u8>, each_late_ns: &mut Vec<u64>) -> Option<u64> {
        if self.due.peek().is_none_or(|Reverse(first)| first.at_ns > now) {
            return None;
        }
        let Reverse(first) = self.due.pop()?;
        let late_ns = now - first.at_ns;
        self.lateness.saturating_record(late_ns);
        each_late_ns.clear();
        each_late_ns.push(late_ns);
        let mut last = first.segment;
        while let Some(Reverse(next)) = self.due.peek()
            && next.at_ns <= now
            && next.segment == last + 1
            && next.mark == first.mark
            && Rc::ptr_eq(&next.packet, &first.packet)
        {
            last += 1;
            each_late_ns.push(now - next.at_ns);
            self.due.pop();
        }
        first.packet.emit(first.segment, last, first.mark, out);
        if !self.to.write(out) {
            self.model.stats.drops_refused += (last - first.segment + 1) as u64;
        }
        Some(late_ns)
    }

    /// Reads at most so many packets, which would have been sent earlier but for the emulator: the segments of one that has as
    /// many as there are in `late_ns` each by that, all others by the last.
    fn accept(&mut self, reads: usize, late_ns: &[u64], buffer: &mut [u8], order: &mut u64) {
        for _ in 0..reads {
            let Some(read) = self.from.read(buffer) else { return };
            let now = now_ns();
            let Some(packet) = Packet::parse(read) else {
                self.model.stats.drops_foreign += 1;
                continue;
            };
            let is_each = packet.segments == late_ns.len();
            let came_at = |segment| now - late_ns[if is_each { segment } else { late_ns.len() - 1 }];
            if let Some(segments) = packet.segments() {
                self.bursts.on_segments(&segments, self.last_in_ns.max(came_at(packet.segments - 1)));
            }
            let packet = Rc::new(packet);
            for segment in 0..packet.segments {
                self.last_in_ns = self.last_in_ns.max(came_at(segment));
                self.offer(&packet, segment, order);
            }
        }
    }

    /// A segment comes at `last_in_ns`.
    fn offer(&mut self, packet: &Rc<Packet>, segment: usize, order: &mut u64) {
        let (now, bytes) = (self.last_in_ns, packet.wire_bytes(segment));
        if self.queue.is_none() {
            let verdict = self.model.offer(now, bytes, packet.is_ect);
            return self.schedule(packet.clone(), segment, verdict, order);
        }
        // what the link had sent by then had left the queue
        self.dequeue(now, order);
        let now = self.queue_changed_ns.max(now);
        self.queue_changed_ns = now;
        let (flow, ecn, ack) = (packet.flow(), packet.codepoint, packet.plain_ack());
        let label = Label { bytes, flow, ecn, priority: 0, ack };
        if let Some(queue) = &mut self.queue {
            queue.offer(&mut self.model, now, label, (packet.clone(), segment));
        }
        self.dequeue(now, order);
    }

    /// Has the link send what it takes out of its discipline's queue by `until_ns`.
    fn dequeue(&mut self, until_ns: u64, order: &mut u64) {
        while let Some(queue) = &mut self.queue {
            while queue.take_dropped().is_some() {}
            // it takes one when it has sent the one before, or when one comes
            let at_ns = self.model.idle_from_ns().max(self.queue_changed_ns);
            if queue.is_empty() || at_ns > until_ns {
                return;
            }
            self.queue_changed_ns = at_ns;
            if let Some(((packet, segment), verdict)) = queue.next(&mut self.model, at_ns) {
                self.schedule(packet, segment, verdict, order);
            }
        }
    }

    /// Has a segment do what the link's model has decided.
    fn schedule(&mut self, packet: Rc<Packet>, segment: usize, verdict: Verdict, order: &mut u64) {
        if let Verdict::Deliver { at_ns, mark } = verdict {
            *order += 1;
            self.due.push(Reverse(Due { at_ns, order: *order, packet, segment, mark }));
        }
    }

    /// When there is something to do; none: not before a packet comes.
    fn next_at_ns(&self) -> Option<u64> {
        let due = self.due.peek().map(|Reverse(due)| due.at_ns);
        let waits = self.queue.as_ref().is_some_and(|queue| !queue.is_empty());
        due.into_iter().chain(waits.then(|| self.model.idle_from_ns())).min()
    }

    fn finish(self) -> LinkStats {
        let mut stats = self.model.finish();
        stats.late_p50_us = self.lateness.value_at_quantile(0.5) as f64 / 1e3;
        stats.late_p99_us = self.lateness.value_at_quantile(0.99) as f64 / 1e3;
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::VNET_HDR_BYTES;
    use std::os::{fd::AsRawFd, unix::net::UnixDatagram};
    use windlass_scenario::{CodelKeys, Discipline, Rate};

    const MSS_BYTES: usize = 1448;
    const NOW_NS: u64 = 1_000_000;

    /// As a TUN device gives it: a super-packet of IPv4 and TCP.
    fn super_packet(segments: usize) -> Vec<u8> {
        let mut read = vec![0; VNET_HDR_BYTES + 40 + segments * MSS_BYTES];
        read[..2].copy_from_slice(&[1, 1]);
        read[4..6].copy_from_slice(&(MSS_BYTES as u16).to_le_bytes());
        let ip = &mut read[VNET_HDR_BYTES..];
        (ip[0], ip[9], ip[32]) = (0x45, 6, 0x50);
        read
    }

    /// From and to what is at the other ends of these, without rate or delay.
    fn way(from: &UnixDatagram, to: &UnixDatagram) -> Way {
        let port = |end: &UnixDatagram| Port { fd: end.as_raw_fd(), framing: Framing::Ip };
        Way {
            from: port(from),
            to: port(to),
            model: LinkModel::new(&Link::cable(["a".into(), "b".into()]), false, 1),
            queue: None,
            queue_changed_ns: 0,
            bursts: Bursts::new(Arc::default()),
            due: BinaryHeap::new(),
            lateness: times(),
            last_in_ns: 0,
            replies: Vec::new(),
            polled: Vec::new(),
            is_timeless: true,
            forwards: true,
        }
    }

    /// Two ends that do not wait.
    fn pair() -> [UnixDatagram; 2] {
        let (a, b) = UnixDatagram::pair().expect("a pair of sockets");
        [a, b].map(|end| end.set_nonblocking(true).map(|()| end).expect("a socket"))
    }

    #[test]
    fn how_late_each_segment_is_is_known_of_what_goes_together() {
        let [to, host] = pair();
        let mut way = way(&to, &to);
        let packet = Rc::new(Packet::parse(&super_packet(4)).expect("a packet"));
        let due_at_ns = [NOW_NS - 150_000, NOW_NS - 100_000, NOW_NS - 10_000, NOW_NS + 1];
        for (segment, at_ns) in due_at_ns.into_iter().enumerate() {
            let due = Due { at_ns, order: segment as u64, packet: packet.clone(), segment, mark: false };
            way.due.push(Reverse(due));
        }
        let (mut out, mut late_ns) = (Vec::new(), Vec::new());
        assert_eq!(way.release(NOW_NS, &mut out, &mut late_ns), Some(150_000));
        assert_eq!(late_ns, [150_000, 100_000, 10_000]);
        let mut buffer = vec![0; LARGEST_READ];
        assert_eq!(host.recv(&mut buffer).expect("one write"), super_packet(3).len());
        assert_eq!(way.release(NOW_NS, &mut out, &mut late_ns), None);
    }

    /// What a switch forwards together came to it one by one; an ACK of several is not older than the last of them.
    #[test]
    fn nothing_is_sent_before_what_it_follows_from_was_due() {
        let [from, host] = pair();
        let came_at = |segments: usize| {
            let mut way = way(&from, &from);
            host.send(&super_packet(segments)).expect("room for it");
            let before = now_ns();
            way.accept(1, &[150_000, 100_000, 10_000], &mut vec![0; LARGEST_READ], &mut 0);
            let due: Vec<u64> =
                way.due.into_sorted_vec().into_iter().rev().map(|Reverse(d)| d.at_ns).collect();
            assert!(due.last().is_some_and(|last| *last >= before - 10_000));
            due
        };
        let forwarded = came_at(3);
        assert_eq!((forwarded[1] - forwarded[0], forwarded[2] - forwarded[1]), (50_000, 90_000));
        let answer = came_at(2);
        assert_eq!(answer[0], answer[1]);
    }
    /// Four segments of 1502 bytes at once over 12 Mbit/s: one leaves after the other, though all is looked at when that is over.
    #[test]
    fn a_discipline_sends_at_the_rate_of_its_link_however_late_it_is_looked_at() {
        let [from, host] = pair();
        let codel = Some(Discipline::Codel(CodelKeys::default()));
        let cable = Link::cable(["a".into(), "b".into()]);
        let port = Link { rate: Some(Rate(12e6)), discipline: codel, ..cable };
        let (model, queue) = (LinkModel::new(&port, false, 1), DisciplineQueue::new(&port, 1));
        let mut way = Way { model, queue, ..way(&from, &from) };
        host.send(&super_packet(4)).expect("room for it");
        way.accept(1, &[0], &mut vec![0; LARGEST_READ], &mut 0);
        assert!(way.next_at_ns().is_some(), "one is being sent");
        way.dequeue(u64::MAX, &mut 4);
        let due: Vec<u64> = way.due.into_sorted_vec().into_iter().rev().map(|Reverse(d)| d.at_ns).collect();
        let gaps_ns: Vec<u64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            gaps_ns.len() == 3 && gaps_ns.iter().all(|gap| (1_001_333..=1_001_334).contains(gap)),
            "{gaps_ns:?}"
        );
    }
}
