//! Clients that pretend a loss, and report the retransmission as a duplicate (DSACK, RFC 2883) although it was none: a sender that
//! undoes its reduction at each DSACK never slows down.

use super::{
    clients::{Behaviour, Connection, Data, Out, Pace, Plan},
    frame::sack,
};
use anyhow::Result;

const SEGMENT_BYTES: u32 = 1448;
const CONNECTIONS: usize = 20;
/// A cycle: honest but for a DSACK with each ACK, then a pretended loss until the retransmission, or the end of the cycle.
const CYCLE_NS: u64 = 80_000_000;
const HONEST_NS: u64 = 50_000_000;

/// Twenty of them.
pub struct DsackForgery {
    acks: Pace,
}

impl DsackForgery {
    pub fn new() -> DsackForgery {
        DsackForgery { acks: Pace::new(500) }
    }
}

/// The block of a DSACK: the segment before what is acknowledged.
fn duplicate(acked: u32) -> [u32; 2] {
    [acked.wrapping_sub(SEGMENT_BYTES), acked]
}

fn acknowledge(connection: &mut Connection, out: &mut Out) -> Result<()> {
    connection.acked = connection.top;
    out.ack(connection, connection.acked, &sack(&[duplicate(connection.acked)]))
}

impl Behaviour for DsackForgery {
    fn plan(&self) -> Plan {
        Plan::of(CONNECTIONS, 1, 1000)
    }

    fn on_data(&mut self, connection: &mut Connection, data: Data, now_ns: u64, out: &mut Out) -> Result<()> {
        let is_retransmission = data.seq == connection.acked && data.end != connection.top;
        if now_ns % CYCLE_NS < HONEST_NS || is_retransmission {
            return acknowledge(connection, out);
        }
        if connection.open_bytes() <= SEGMENT_BYTES {
            return Ok(());
        }
        let block = [connection.acked.wrapping_add(SEGMENT_BYTES), connection.top];
        out.ack(connection, connection.acked, &sack(&[block]))
    }

    fn on_turn(&mut self, connections: &mut [Connection], now_ns: u64, out: &mut Out) -> Result<()> {
        if self.acks.due(now_ns) > 0 && now_ns % CYCLE_NS < HONEST_NS {
            for connection in connections.iter_mut().filter(|c| c.is_fed()) {
                acknowledge(connection, out)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dsack_is_of_what_is_acknowledged() {
        assert_eq!(duplicate(1000), [1000u32.wrapping_sub(SEGMENT_BYTES), 1000]);
    }
}
