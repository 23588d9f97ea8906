//! Packets from hop to hop. A hop costs one event: when a packet comes to a link, the link's model says at once when
//! it will come out at the far end.
//!
//! The packets of a link stand in a list in order of arrival, and only the first one's arrival is in the event queue.

use crate::{
    engine::{Event, EventQueue, Kind},
    link::Link,
    packet::{NONE, Packet, Slab, flag},
    pool::Pool,
    topology::{Hop, Paths},
};
use windlass_scenario::Verdict;

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

/// Something that someone must deal with.
#[derive(Clone, Copy, Debug)]
pub enum Happening {
    /// A packet is at the end of its path.
    Arrived(Packet),
    /// A packet passes the box, on its way to the servers or from them, and is off the network until it is sent on.
    AtBox(bool, Packet),
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
    pools: Vec<Pool>,
    /// Where packets go.
    pub paths: Paths,
    /// What became of the packets.
    pub count: Count,
    packets: Slab,
}

impl Network {
    /// A silent network of these links, both directions of each, and the buffers that some of them share.
    pub fn new(mut links: Vec<Link>, pools: Vec<Pool>) -> Network {
        for (pool, number) in pools.iter().zip(0..) {
            pool.ports().iter().for_each(|&port| links[port as usize].pool = number);
        }
        Network { links, pools, ..Network::default() }
    }

    /// Puts a packet on the network at hop `hop` of its path.
    pub fn send(&mut self, hop: u32, mut packet: Packet) {
        self.count.sent += 1;
        packet.hop = hop;
        let place = self.packets.put(packet);
        match self.paths.at(hop) {
            Hop::Link(link) => self.cross(link, place),
            // paths begin with a link, and so does what is behind a box
            Hop::Box(_) | Hop::End => self.drop(place),
        }
    }

    /// Packets that are neither delivered nor dropped.
    pub fn in_flight(&self) -> u64 {
        self.packets.live()
    }

    /// Goes on to the next event that concerns someone, until the queue is empty or `until_ns` has come.
    pub fn next(&mut self, until_ns: u64) -> Option<Happening> {
        loop {
            let event = self.events.peek().filter(|e| e.at_ns() <= until_ns)?;
            self.now_ns = event.at_ns();
            let place = match event.kind() {
                Kind::Link => self.take_first(event.index()),
                Kind::Packet => {
                    self.events.pop();
                    event.index()
                }
                kind => {
                    self.events.pop();
                    return Some(Happening::Timer(kind, event.index()));
                }
            };
            let packet = &mut self.packets[place];
            packet.hop += 1;
            match self.paths.at(packet.hop) {
                Hop::Link(link) => self.cross(link, place),
                Hop::Box(side) => return Some(Happening::AtBox(side == 1, self.deliver(place))),
                Hop::End => return Some(Happening::Arrived(self.deliver(place))),
            }
        }
    }

    /// Takes the first packet off a link; the one behind it becomes the link's event.
    fn take_first(&mut self, index: u32) -> u32 {
        let link = &mut self.links[index as usize];
        let place = link.head;
        link.head = self.packets[place].next;
        if link.head == NONE {
            self.events.pop();
        } else {
            self.events.replace(self.packets[link.head].arrival);
        }
        place
    }

    /// Offers a packet to a link.
    fn cross(&mut self, index: u32, place: u32) {
        self.count.hops += 1;
        let link = &mut self.links[index as usize];
        let packet = &mut self.packets[place];
        let is_ect = packet.has(flag::ECT);
        let bytes = packet.wire_bytes();
        let verdict = match self.pools.get_mut(link.pool as usize) {
            None => link.model.offer(self.now_ns, bytes, is_ect),
            Some(pool) => {
                let has_room = pool.has_room(index, bytes, self.now_ns, &mut self.links);
                let model = &mut self.links[index as usize].model;
                let verdict = model.offer_if(has_room, self.now_ns, bytes, is_ect);
                // what is lost at random behind the queue has been in it
                if verdict != Verdict::DropTail {
                    pool.take(bytes);
                }
                verdict
            }
        };
        let Verdict::Deliver { at_ns, mark } = verdict else { return self.drop(place) };
        let link = &mut self.links[index as usize];
        #[cfg(test)]
        if link.loses.contains(&link.model.stats.packets) {
            return self.drop(place);
        }
        #[cfg(test)]
        let at_ns = at_ns + if link.late.0.contains(&link.model.stats.packets) { link.late.1 } else { 0 };
        if mark {
            packet.flags |= flag::CE;
        }
        packet.next = NONE;
        if link.reorders {
            return self.events.schedule(at_ns, Kind::Packet, place);
        }
        let arrival: Event = self.events.make(at_ns, Kind::Link, index);
        packet.arrival = arrival;
        if link.head == NONE {
            link.head = place;
            self.events.push(arrival);
        } else {
            self.packets[link.tail].next = place;
        }
        link.tail = place;
    }

    fn deliver(&mut self, place: u32) -> Packet {
        self.count.delivered += 1;
        let packet = self.packets[place];
        self.packets.release(place);
        packet
    }

    fn drop(&mut self, place: u32) {
        self.count.dropped += 1;
        self.packets.release(place);
    }
}
