//! Memory that the ports of a switch share: a packet is dropped when there is no room for it, whichever port fills it.

use crate::link::Link;
use windlass_scenario::{Buffer, Queued};

/// The shared buffer of one switch.
#[derive(Debug)]
pub struct Pool {
    limit: Buffer,
    /// Directions of links that leave the switch.
    ports: Vec<u32>,
    /// Those of them that may hold packets: the others need not be looked at.
    holding: Vec<u32>,
    /// What is queued or being sent. Ports forget what they have sent only when they are looked at, so this may be too
    /// much, never too little.
    used: Queued,
}

impl Pool {
    /// An empty buffer of the links numbered `ports`.
    pub fn new(limit: Buffer, ports: Vec<u32>) -> Pool {
        Pool { limit, ports, holding: Vec::new(), used: Queued::default() }
    }

    /// The ports that share it.
    pub fn ports(&self) -> &[u32] {
        &self.ports
    }

    /// Whether a packet of `bytes` finds room on link `index`, which leaves the switch.
    pub fn has_room(&mut self, index: u32, bytes: u64, now_ns: u64, links: &mut [Link]) -> bool {
        self.settle(index, now_ns, links);
        if self.is_full(bytes) {
            let mut holding = std::mem::take(&mut self.holding);
            holding.retain(|&port| {
                self.settle(port, now_ns, links);
                let link = &mut links[port as usize];
                link.is_held = link.model.has_queue();
                link.is_held
            });
            self.holding = holding;
        }
        !self.is_full(bytes)
    }

    /// A packet of `bytes` was queued on link `index`.
    pub fn take(&mut self, index: u32, bytes: u64, link: &mut Link) {
        self.used.packets += 1;
        self.used.bytes += bytes;
        if !std::mem::replace(&mut link.is_held, true) {
            self.holding.push(index);
        }
    }

    /// Gives back what a port has sent by now.
    fn settle(&mut self, index: u32, now_ns: u64, links: &mut [Link]) {
        let sent = links[index as usize].model.settle(now_ns);
        self.used.packets -= sent.packets;
        self.used.bytes -= sent.bytes;
    }

    fn is_full(&self, bytes: u64) -> bool {
        match self.limit {
            Buffer::Packets(n) => self.used.packets + 1 > n,
            Buffer::Bytes(n) => self.used.bytes + bytes > n,
            // the scenario has been checked: a switch has no bandwidth-delay product
            Buffer::Bdp(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        network::Network,
        packet::Packet,
        topology::{Router, Sender},
    };
    use proptest::prelude::*;
    use windlass_scenario::{Link as Wire, LinkModel, Rate, Scenario, Verdict};

    /// 1000 bits take 1 ms, 66 bytes of a pure ACK 528 us. Two senders' packets leave by one port each.
    fn network(ports: &str) -> Network {
        let text = format!(
            "name = \"t\"\n[[host]]\nname = \"h\"\ncount = 3\n[[switch]]\nname = \"sw\"\n{ports}\n\
             [[link]]\nbetween = [\"h-*\", \"sw\"]\nrate = \"1 Mbit/s\"\n"
        );
        let scenario = Scenario::parse("t", &text).unwrap();
        let links = (0..3).flat_map(|i| [false, true].map(|b| Link::new(scenario.link_model(i, b), false)));
        let pools = vec![Pool::new(scenario.switches[0].ports.shared_buffer.unwrap(), vec![1, 3, 5])];
        let mut router = Router::new(&scenario);
        // places 0 and 3 on the way from h-3 to h-1 and h-2, one step behind h-3's own link
        let mut net = Network::new(links.collect(), pools);
        for to in ["h-1", "h-2"] {
            assert!(router.path("h-3", to, Sender::first(0), &mut net.paths).is_some());
        }
        net
    }

    fn send(net: &mut Network, port: u32, n: u64) -> u64 {
        let before = net.count.dropped;
        (0..n).for_each(|_| {
            net.send(1 + 3 * port, &Packet::default());
        });
        net.count.dropped - before
    }

    #[test]
    fn one_port_may_fill_all_of_the_memory_and_the_other_finds_what_is_left() {
        let mut net = network("shared_buffer = \"10 packets\"");
        assert_eq!(send(&mut net, 0, 8), 0);
        assert_eq!(send(&mut net, 1, 5), 3);
        // a packet of each port has left after 528 us
        net.now_ns = 528_000;
        assert_eq!(send(&mut net, 0, 3), 1);
    }

    #[test]
    fn bytes_are_counted_and_the_limits_of_ports_hold_as_well() {
        let mut net = network("shared_buffer = \"2000 B\"\nport_buffer = \"20 packets\"");
        // 30 packets of 66 bytes are 1980
        assert_eq!(send(&mut net, 0, 25), 5);
        assert_eq!(send(&mut net, 1, 12), 2);
    }

    const PORTS: u32 = 8;

    fn ports() -> Vec<Link> {
        let wire = Wire { rate: Some(Rate(1e7)), ..Wire::cable(["a".into(), "b".into()]) };
        (0..PORTS).map(|_| Link::new(LinkModel::new(&wire, false, 1), false)).collect()
    }

    proptest! {
        /// Whichever ports packets come to and however long after each other, they find as much room as if all ports were looked at
        /// each time; and no port is looked at twice.
        #[test]
        fn ports_that_hold_nothing_need_not_be_looked_at(
            limit in prop_oneof![(1u64..20).prop_map(Buffer::Packets), (1514u64..20_000).prop_map(Buffer::Bytes)],
            arrivals in proptest::collection::vec((0..PORTS, 66u64..1514, 0u64..3000), 1..300),
        ) {
            let (mut links, mut plain) = (ports(), ports());
            let mut pool = Pool::new(limit, (0..PORTS).collect());
            let (mut now_ns, mut used) = (0, Queued::default());
            for (port, bytes, after_us) in arrivals {
                // most come at once, then a while nothing does
                now_ns += after_us.saturating_sub(2000) * 1000;
                let has_room = pool.has_room(port, bytes, now_ns, &mut links);
                for link in &mut plain {
                    let sent = link.model.settle(now_ns);
                    used.packets -= sent.packets;
                    used.bytes -= sent.bytes;
                }
                let expected = match limit {
                    Buffer::Packets(n) => used.packets < n,
                    Buffer::Bytes(n) => used.bytes + bytes <= n,
                    Buffer::Bdp(_) => false,
                };
                prop_assert_eq!(has_room, expected);
                let link = &mut links[port as usize];
                if link.model.offer_if(has_room, now_ns, bytes, false) != Verdict::DropTail {
                    pool.take(port, bytes, link);
                    plain[port as usize].model.offer(now_ns, bytes, false);
                    used.packets += 1;
                    used.bytes += bytes;
                }
                let mut holding = pool.holding.clone();
                holding.sort_unstable();
                let held = (0..PORTS).filter(|port| links[*port as usize].is_held);
                prop_assert_eq!(holding, held.collect::<Vec<_>>());
            }
        }
    }
}
