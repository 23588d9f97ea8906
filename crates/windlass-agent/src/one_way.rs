//! Interfaces that only one direction of the servers' traffic passes: flows there cannot be controlled. So it is where a container
//! network hands packets straight to the container (bpf_redirect_peer), or another program ends the chain before ours.

use std::fmt;
use windlass_core::abi::wl_iface;

/// Fewer packets are no evidence.
const PACKETS_LEAST: u32 = 64;
/// One packet for so many of the other direction, for example a reset of something else, is as good as none.
const PACKETS_PER_PACKET: u32 = 50;
/// So many packets of one direction may come for a flow before it is known and after it has ended.
const PACKETS_PER_FLOW: u32 = 8;

/// The direction that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneWay {
    /// Only packets from servers pass.
    NoneToServers,
    /// Only packets to servers pass.
    NoneFromServers,
}

/// What an interface counted so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packets {
    /// How often a flow was created or forgotten.
    flows: u32,
    /// Packets that belong to no flow.
    from_servers: u32,
    to_servers: u32,
}

impl Packets {
    pub(crate) fn of(facts: &wl_iface) -> Packets {
        Packets {
            flows: facts.flows_changed,
            from_servers: facts.unknown_from_servers,
            to_servers: facts.unknown_to_servers,
        }
    }

    /// What was counted since `before`.
    pub fn since(self, before: Packets) -> Packets {
        Packets {
            flows: self.flows.saturating_sub(before.flows),
            from_servers: self.from_servers.saturating_sub(before.from_servers),
            to_servers: self.to_servers.saturating_sub(before.to_servers),
        }
    }

    /// Are there enough to conclude something?
    pub fn is_enough(self) -> bool {
        self.flows > 0 || self.from_servers.max(self.to_servers) >= PACKETS_LEAST
    }

    /// Does one direction lack the other?
    pub fn one_way(self) -> Option<OneWay> {
        let (from, to) = (self.from_servers, self.to_servers);
        let (least, most) = (from.min(to), from.max(to));
        let of_no_flow = most.saturating_sub(self.flows.saturating_mul(PACKETS_PER_FLOW));
        if of_no_flow < PACKETS_LEAST || least.saturating_mul(PACKETS_PER_PACKET) >= most {
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
    fn one_way_traffic_is_packets_of_no_flow_that_lack_their_other_direction() {
        let packets = |flows, from_servers, to_servers| Packets { flows, from_servers, to_servers };
        assert_eq!(packets(0, 100, 1).one_way(), Some(OneWay::NoneToServers));
        assert_eq!(packets(0, 0, 100).one_way(), Some(OneWay::NoneFromServers));
        // super-packets and their ACKs, next to nothing, and late packets of connections that are over
        for both in [packets(0, 100, 10), packets(0, 20, 0), packets(100, 0, 500)] {
            assert_eq!(both.one_way(), None, "{both:?}");
        }
        assert_eq!(packets(2, 1000, 400).since(packets(2, 900, 300)).one_way(), None);
        assert_eq!(packets(2, 1000, 300).since(packets(2, 900, 300)).one_way(), Some(OneWay::NoneToServers));
    }

    #[test]
    fn one_way_traffic_is_over_with_a_flow() {
        let packets = |flows, from_servers| Packets { flows, from_servers, to_servers: 0 };
        assert!(packets(1, 0).is_enough() && packets(0, 64).is_enough());
        assert!(!packets(0, 63).is_enough(), "silence changes nothing");
    }
}
