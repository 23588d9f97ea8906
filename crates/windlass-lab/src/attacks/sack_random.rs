//! Clients of a long path, with much in flight, whose ACKs carry four random SACK blocks: a scoreboard without an index
//! is walked from end to end for each.

use super::{
    clients::{Behaviour, Connection, Out, Pace, Plan},
    frame::sack,
};
use anyhow::Result;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;

const CONNECTIONS: usize = 2;
/// What arrived is acknowledged after so long, as over a long path: several megabytes are in flight.
const RTT_NS: u64 = 200_000_000;
const RAMP_UP_NS: u64 = 3_000_000_000;
const ACKS_PS: u64 = 5000;
/// Acknowledgements while it ramps up, and with the attack.
const DELAYED_ACKS_PS: u64 = 1000;

/// Two of them, with 5000 such ACKs a second together.
pub struct SackRandom {
    acks: Pace,
    delayed: Pace,
    /// Ends of what had arrived of each connection, and when.
    arrived: Vec<VecDeque<(u64, u32)>>,
    random: Xoshiro256PlusPlus,
}

impl SackRandom {
    pub fn new() -> SackRandom {
        SackRandom {
            acks: Pace::new(ACKS_PS),
            delayed: Pace::new(DELAYED_ACKS_PS),
            arrived: vec![VecDeque::new(); CONNECTIONS],
            random: Xoshiro256PlusPlus::seed_from_u64(1),
        }
    }

    /// Acknowledges what arrived a round trip ago.
    fn acknowledge(&mut self, connections: &mut [Connection], now_ns: u64, out: &mut Out) -> Result<()> {
        for (connection, arrived) in connections.iter_mut().zip(&mut self.arrived) {
            if !connection.is_fed() {
                continue;
            }
            arrived.push_back((now_ns, connection.top));
            let before = connection.acked;
            while arrived.front().is_some_and(|(at_ns, _)| at_ns + RTT_NS <= now_ns) {
                connection.acked = arrived.pop_front().map_or(connection.acked, |(_, top)| top);
            }
            if connection.acked != before {
                out.ack(connection, connection.acked, &[])?;
            }
        }
        Ok(())
    }
}

/// Four blocks within what is open.
fn blocks(connection: &Connection, random: &mut impl Rng) -> [[u32; 2]; 4] {
    let open = connection.open_bytes().max(2);
    [(); 4].map(|()| {
        let from = random.random_range(1..open);
        let length = random.random_range(1..=open - from);
        [from, from + length].map(|offset| connection.acked.wrapping_add(offset))
    })
}

impl Behaviour for SackRandom {
    fn plan(&self) -> Plan {
        Plan { ramp_up_ns: RAMP_UP_NS, ..Plan::of(CONNECTIONS, 1, 1000) }
    }

    fn on_turn(&mut self, connections: &mut [Connection], now_ns: u64, out: &mut Out) -> Result<()> {
        if self.delayed.due(now_ns) > 0 {
            self.acknowledge(connections, now_ns, out)?;
        }
        if now_ns < RAMP_UP_NS {
            return Ok(());
        }
        for number in 0..self.acks.due(now_ns) {
            let connection = &connections[number as usize % connections.len()];
            if connection.is_fed() {
                out.ack(connection, connection.acked, &sack(&blocks(connection, &mut self.random)))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_blocks_are_of_data_that_arrived() {
        let connection = Connection::example(u32::MAX - 5000, 20_000);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for _ in 0..1000 {
            for [from, to] in blocks(&connection, &mut random) {
                let [from, to] = [from, to].map(|edge| edge.wrapping_sub(connection.acked));
                assert!(0 < from && from < to && to <= connection.open_bytes(), "{from} {to}");
            }
        }
    }
}
