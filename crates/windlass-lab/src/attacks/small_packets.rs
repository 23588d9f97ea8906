//! Clients with a tiny MSS that divide each acknowledgement into many, and send their own data a byte at a time: as many packets
//! as possible for as few bytes.

use super::clients::{Behaviour, Connection, Out, Pace, Plan};
use anyhow::Result;

const CONNECTIONS: usize = 4;
/// Linux sends no smaller segments than of 48 bytes with their options.
const MSS_BYTES: u16 = 64;
const WINDOW_BYTES: u16 = 8192;
/// What arrived is acknowledged so often, by an ACK for each segment.
const ROUNDS_PS: u64 = 100;
const ACKS_MOST: u32 = WINDOW_BYTES as u32 / MSS_BYTES as u32;
/// Segments of one byte, of all connections.
const BYTES_PS: u64 = 5000;

/// Four of them, with up to 50,000 ACKs and 5000 bytes a second.
pub struct SmallPackets {
    rounds: Pace,
    bytes: Pace,
}

impl SmallPackets {
    pub fn new() -> SmallPackets {
        SmallPackets { rounds: Pace::new(ROUNDS_PS), bytes: Pace::new(BYTES_PS) }
    }
}

/// By how much the acknowledgement moves with each of a round's ACKs.
fn steps(open_bytes: u32) -> impl Iterator<Item = u32> {
    let whole = open_bytes / u32::from(MSS_BYTES);
    let rest = open_bytes % u32::from(MSS_BYTES);
    let full = std::iter::repeat_n(u32::from(MSS_BYTES), whole as usize);
    full.chain((rest > 0).then_some(rest)).take(ACKS_MOST as usize)
}

impl Behaviour for SmallPackets {
    fn plan(&self) -> Plan {
        let plan = Plan::of(CONNECTIONS, 1, 1000);
        Plan { mss_bytes: MSS_BYTES, window: WINDOW_BYTES, wscale: 0, ..plan }
    }

    fn on_turn(&mut self, connections: &mut [Connection], now_ns: u64, out: &mut Out) -> Result<()> {
        if self.rounds.due(now_ns) > 0 {
            for connection in connections.iter_mut().filter(|c| c.is_fed()) {
                for step in steps(connection.open_bytes()) {
                    connection.acked = connection.acked.wrapping_add(step);
                    out.ack(connection, connection.acked, &[])?;
                }
            }
        }
        for number in 0..self.bytes.due(now_ns) {
            let connection = &mut connections[number as usize % CONNECTIONS];
            if connection.is_fed() {
                out.data(connection, b"a")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_packets_acknowledge_each_segment_by_itself() {
        assert_eq!(steps(150).collect::<Vec<_>>(), [64, 64, 22]);
        assert_eq!(steps(0).count(), 0);
        assert_eq!(steps(1 << 20).count() as u32, ACKS_MOST);
    }
}
