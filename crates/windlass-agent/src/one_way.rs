//! Interfaces that only one direction of the servers' traffic passes: flows there cannot be controlled. So it is where a container
//! network hands packets straight to the container (bpf_redirect_peer), or another program ends the chain before ours.

use std::{collections::BTreeMap, fmt};

/// Fewer packets are no evidence.
const PACKETS_LEAST: u64 = 64;
/// One packet for so many of the other direction, for example of ARP, is as good as none.
const PACKETS_PER_PACKET: u64 = 50;

/// The direction that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneWay {
    /// Only packets from servers pass.
    NoneToServers,
    /// Only packets to servers pass.
    NoneFromServers,
}

/// Packets of an interface that were counted so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packets {
    from_servers: u64,
    to_servers: u64,
    /// In whichever direction.
    not_tcp: u64,
}

impl Packets {
    /// From its counters.
    pub fn of(counters: &BTreeMap<String, u64>) -> Packets {
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        Packets {
            from_servers: count("packets_from_sender"),
            to_servers: count("packets_to_sender"),
            not_tcp: count("pass_not_tcp"),
        }
    }

    /// What was counted since `before`.
    pub fn since(self, before: Packets) -> Packets {
        Packets {
            from_servers: self.from_servers.saturating_sub(before.from_servers),
            to_servers: self.to_servers.saturating_sub(before.to_servers),
            not_tcp: self.not_tcp.saturating_sub(before.not_tcp),
        }
    }

    /// Are there enough of TCP to conclude something?
    pub fn is_enough(self) -> bool {
        self.from_servers.max(self.to_servers).saturating_sub(self.not_tcp) >= PACKETS_LEAST
    }

    /// Does one direction of their TCP lack the other?
    pub fn one_way(self) -> Option<OneWay> {
        let (from, to) = (self.from_servers, self.to_servers);
        if !self.is_enough() || from.min(to) * PACKETS_PER_PACKET >= from.max(to) {
            return None;
        }
        Some(if from > to { OneWay::NoneToServers } else { OneWay::NoneFromServers })
    }
}

impl fmt::Display for OneWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passes, missing) = match self {
            OneWay::NoneToServers => ("from servers", "to them"),
            OneWay::NoneFromServers => ("to servers", "from them"),
        };
        write!(
            f,
            "packets {passes} pass here, and none {missing}, so that no flow can be controlled: they take another way, as where a \
             container network redirects them (bpf_redirect_peer), or another program takes them first (`bpftool net` lists them)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_way_traffic_is_tcp_that_lacks_its_other_direction() {
        let packets = |from_servers, to_servers, not_tcp| Packets { from_servers, to_servers, not_tcp };
        assert_eq!(packets(100, 1, 2).one_way(), Some(OneWay::NoneToServers));
        assert_eq!(packets(0, 100, 0).one_way(), Some(OneWay::NoneFromServers));
        // super-packets and their ACKs, a stream over UDP, and next to nothing
        for both in [packets(100, 10, 0), packets(10_000, 0, 9_990), packets(20, 0, 0)] {
            assert_eq!(both.one_way(), None, "{both:?}");
        }
        assert_eq!(packets(1000, 400, 0).since(packets(900, 300, 0)).one_way(), None);
        assert_eq!(packets(1000, 300, 0).since(packets(900, 300, 0)).one_way(), Some(OneWay::NoneToServers));
    }
}
