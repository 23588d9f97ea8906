//! Packets from hop to hop. A hop costs one event: when a packet comes to a link, the link's model computes at once
//! when it will come out at the far end.
//!
//! The packets of a link stand in a list in order of arrival, and only the first one's arrival is in the event queue.

use crate::{
    discipline::Class,
    engine::{Event, EventQueue, Kind},
    link::{Flight, Flights, Link},
    packet::{Packet, Slab},
    pool::Pool,
    prefetch::{prefetch, prefetch_all},
    tap::Tap,
    topology::{Hop, Paths},
};
use std::collections::BTreeMap;
use windlass_scenario::Verdict;

/// Directions of links that do not fit into the nearer caches.
const MANY_LINKS: usize = 512;

/// What became of the packets that hosts and boxes have sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Put on the network.
    pub sent: u64,
    /// Taken off it by hosts and boxes.
    pub delivered: u64,
    /// Dropped by full buffers or at random.
    pub dropped: u64,
    /// Links crossed, or died on.
    pub hops: u64,
}

/// Something that an endpoint or the run must deal with.
#[derive(Clone, Copy, Debug)]
pub enum Happening {
    /// The packet is at the end of its path.
    Arrived,
    /// The packet passes the box, on its way to the servers (`true`) or from them, and is off the network until it is
    /// sent on.
    AtBox(bool),
    /// A timer's event.
    Timer(Kind, u32),
}

/// Links, packets and the event queue.
#[derive(Debug, Default)]
pub struct Network {
    /// Virtual time.
    pub now_ns: u64,
    /// What happens next.
    pub events: EventQueue,
    /// Both directions of each link: 2 x link, plus 1 for backward.
    pub links: Vec<Link>,
    /// What is on them, by the same numbers.
    flights: Vec<Flights>,
    /// There are so many of them that they are far away.
    has_many_links: bool,
    pools: Vec<Pool>,
    /// Where packets go.
    pub paths: Paths,
    /// What became of the packets.
    pub count: Count,
    /// Captures of what hosts send and get, if configured.
    pub tap: Option<Box<Tap>>,
    packets: Slab,
    /// Some link has a discipline.
    has_disciplines: bool,
    /// By connection: how disciplines treat its packets; empty if no link has any.
    classes: Vec<Class>,
    /// By the hop at which a path begins: its least round-trip time that a sender has reported.
    least_rtts_ns: BTreeMap<u32, u64>,
}

impl Network {
    /// A silent network of these links, both directions of each, and the buffers that some of them share.
    pub fn new(mut links: Vec<Link>, pools: Vec<Pool>) -> Network {
        for (pool, number) in pools.iter().zip(0..) {
            pool.ports().iter().for_each(|&port| links[port as usize].pool = number);
        }
        let has_disciplines = links.iter().any(|link| link.queue.is_some());
        let flights = links.iter().map(|_| Flights::default()).collect();
        let has_many_links = links.len() >= MANY_LINKS;
        Network { links, flights, has_many_links, pools, has_disciplines, ..Network::default() }
    }

    /// Puts a packet on the network at hop `hop` of its path. Returns when it leaves the queue of its host; none: it waits in none.
    pub fn send(&mut self, hop: u32, packet: &Packet) -> Option<u64> {
        self.count.sent += 1;
        let place = self.packets.put(packet);
        match self.paths.at(hop) {
            Hop::Link(index) => {
                self.cross(index, Flight { hop, ..Flight::new(place, &self.packets[place]) });
                let link = &self.links[index as usize];
                link.is_host_queue.then(|| link.model.idle_from_ns())
            }
            // paths begin with a link, and so does what is behind a box
            Hop::Box(_) | Hop::End => {
                self.drop(place);
                None
            }
        }
    }

    /// How disciplines treat the packets of a connection from now on.
    pub fn classify(&mut self, connection: u32, class: Class) {
        if !self.has_disciplines {
            return;
        }
        let place = connection as usize;
        if self.classes.len() <= place {
            self.classes.resize(place + 1, Class::default());
        }
        self.classes[place] = class;
    }

    /// How disciplines treat the packets of a connection.
    pub(crate) fn class(&self, connection: u32) -> Class {
        self.classes.get(connection as usize).copied().unwrap_or_default()
    }

    /// The acknowledgement number of a packet on its way that is a plain ACK.
    pub(crate) fn plain_ack(&self, place: u32) -> Option<u64> {
        self.packets[place].plain_ack()
    }

    /// A sender has seen this round-trip time on the path at `hop`; returns the least that any ever has.
    pub fn tell_rtt(&mut self, hop: u32, rtt_ns: u64) -> u64 {
        let least_ns = self.least_rtts_ns.entry(hop).or_insert(rtt_ns);
        *least_ns = rtt_ns.min(*least_ns);
        *least_ns
    }

    /// Packets that are neither delivered nor dropped.
    pub fn in_flight(&self) -> u64 {
        self.packets.live()
    }

    /// Goes on to the next event that concerns an endpoint or the run, until the queue is empty or `until_ns` has
    /// come. If it is about a packet, that is in `packet` then. `soon` is called with endpoints to which a packet
    /// will come before long.
    pub fn next(&mut self, until_ns: u64, packet: &mut Packet, soon: impl Fn(u32)) -> Option<Happening> {
        loop {
            let event = self.events.peek().filter(|e| e.at_ns() <= until_ns)?;
            self.now_ns = event.at_ns();
            let mut flight = match event.kind() {
                Kind::Link => self.take_first(event.index(), &soon)?,
                Kind::Packet => {
                    self.events.pop();
                    Flight::new(event.index(), &self.packets[event.index()])
                }
                Kind::Dequeue => {
                    self.events.pop();
                    self.take_next(event.index());
                    continue;
                }
                kind => {
                    self.events.pop();
                    let coming = self.events.coming_timer();
                    if coming != Event::NONE && coming.kind().is_of_endpoint() {
                        soon(coming.index());
                    }
                    return Some(Happening::Timer(kind, event.index()));
                }
            };
            flight.hop += 1;
            match self.paths.at(flight.hop) {
                Hop::Link(link) => {
                    // no packet comes before it whose arrival would bring it in
                    if self.flights[link as usize].is_empty() && !self.paths.leads_on(flight.hop + 1) {
                        soon(flight.to);
                    }
                    self.cross(link, flight);
                }
                Hop::Box(side) => {
                    self.deliver(&flight, packet);
                    return Some(Happening::AtBox(side == 1));
                }
                Hop::End => {
                    self.deliver(&flight, packet);
                    return Some(Happening::Arrived);
                }
            }
        }
    }

    /// Takes the first packet off a link; the one behind it becomes the link's event. There is one: only links with
    /// packets are in the queue.
    fn take_first(&mut self, index: u32, soon: impl Fn(u32)) -> Option<Flight> {
        let flights = &mut self.flights[index as usize];
        let first = flights.take();
        match flights.first() {
            Some(next) => {
                self.events.replace(next.arrival);
                if !self.paths.leads_on(next.hop + 1) {
                    prefetch(&self.packets[next.place]);
                    soon(next.to);
                }
            }
            None => self.events.drop_first(),
        }
        if self.has_many_links {
            self.prefetch_coming(soon);
        }
        first
    }

    /// Requests what the next two packets will touch: of the next but one all that can be found from here, of the next one what
    /// that leads to, which was requested one packet before.
    fn prefetch_coming(&self, soon: impl Fn(u32)) {
        let [next, after_next] = self.events.coming();
        if let Some(flight) = self.first_of(next) {
            self.flights[next.index() as usize].prefetch();
            if let Hop::Link(link) = self.paths.at(flight.hop + 1) {
                self.flights[link as usize].prefetch();
            }
        }
        if let Some(flight) = self.first_of(after_next) {
            match self.paths.at(flight.hop + 1) {
                Hop::Link(link) => {
                    prefetch_all(&self.links[link as usize]);
                    prefetch(&self.flights[link as usize]);
                }
                Hop::Box(_) | Hop::End => soon(flight.to),
            }
        }
    }

    /// The packet that an event is about, if it is the first of a link.
    fn first_of(&self, event: Event) -> Option<&Flight> {
        if event == Event::NONE || event.kind() != Kind::Link {
            return None;
        }
        self.flights[event.index() as usize].first()
    }

    /// Offers a packet to a link.
    fn cross(&mut self, index: u32, flight: Flight) {
        self.count.hops += 1;
        let bytes = u64::from(flight.wire_bytes);
        let link = &mut self.links[index as usize];
        if link.queue.is_some() {
            return self.enqueue(index, flight);
        }
        let verdict = match self.pools.get_mut(link.pool as usize) {
            None => link.model.offer(self.now_ns, bytes, flight.is_ect),
            Some(pool) => {
                let has_room = pool.has_room(index, bytes, self.now_ns, &mut self.links);
                let link = &mut self.links[index as usize];
                let verdict = link.model.offer_if(has_room, self.now_ns, bytes, flight.is_ect);
                // what is lost at random behind the queue has been in it
                if verdict != Verdict::DropTail {
                    pool.take(index, bytes, link);
                }
                verdict
            }
        };
        self.carry(index, flight, verdict);
    }

    /// Has a packet do what the link's model has decided.
    pub(crate) fn carry(&mut self, index: u32, mut flight: Flight, verdict: Verdict) {
        let Verdict::Deliver { at_ns, mark } = verdict else { return self.drop(flight.place) };
        let link = &self.links[index as usize];
        #[cfg(test)]
        if link.loses.contains(&link.model.stats.packets) {
            return self.drop(flight.place);
        }
        #[cfg(test)]
        let at_ns = at_ns + if link.late.0.contains(&link.model.stats.packets) { link.late.1 } else { 0 };
        #[cfg(test)]
        let mark = mark || (flight.is_ect && link.marks.contains(&link.model.stats.packets));
        flight.is_ce |= mark;
        if link.reorders {
            flight.keep(&mut self.packets[flight.place]);
            return self.events.schedule(at_ns, Kind::Packet, flight.place);
        }
        flight.arrival = self.events.make(at_ns, Kind::Link, index);
        let flights = &mut self.flights[index as usize];
        if flights.is_empty() {
            self.events.push(flight.arrival);
        }
        flights.push(flight);
    }

    fn deliver(&mut self, flight: &Flight, packet: &mut Packet) {
        self.count.delivered += 1;
        self.packets.take(flight.place, packet);
        flight.tell(packet);
    }

    pub(crate) fn drop(&mut self, place: u32) {
        self.count.dropped += 1;
        self.packets.release(place);
    }
}
