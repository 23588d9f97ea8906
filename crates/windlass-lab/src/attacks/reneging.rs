//! Clients that report data by SACK and take it back (RFC 2018, section 8), over and over: what was counted as delivered
//! has to be retransmitted.

use super::{
    clients::{Behaviour, Connection, Data, Out, Pace, Plan},
    frame::sack,
};
use anyhow::Result;

const SEGMENT_BYTES: u32 = 1448;
const CONNECTIONS: usize = 20;
/// A cycle: SACK, reneging, acknowledgement of all.
const CYCLE_NS: u64 = 60_000_000;
const SACK_NS: u64 = 25_000_000;
const RENEGE_NS: u64 = 45_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Sack,
    Renege,
    Acknowledge,
}

fn phase(now_ns: u64) -> Phase {
    match now_ns % CYCLE_NS {
        at if at < SACK_NS => Phase::Sack,
        at if at < RENEGE_NS => Phase::Renege,
        _ => Phase::Acknowledge,
    }
}

/// Twenty of them, in step.
pub struct Reneging {
    acks: Pace,
}

impl Reneging {
    pub fn new() -> Reneging {
        Reneging { acks: Pace::new(500) }
    }
}

fn answer(connection: &mut Connection, now_ns: u64, out: &mut Out) -> Result<()> {
    match phase(now_ns) {
        Phase::Sack if connection.open_bytes() > SEGMENT_BYTES => {
            let block = [connection.acked.wrapping_add(SEGMENT_BYTES), connection.top];
            out.ack(connection, connection.acked, &sack(&[block]))
        }
        Phase::Acknowledge => {
            connection.acked = connection.top;
            out.ack(connection, connection.acked, &[])
        }
        _ => out.ack(connection, connection.acked, &[]),
    }
}

impl Behaviour for Reneging {
    fn plan(&self) -> Plan {
        Plan::of(CONNECTIONS, 1, 1000)
    }

    fn on_data(&mut self, connection: &mut Connection, _: Data, now_ns: u64, out: &mut Out) -> Result<()> {
        answer(connection, now_ns, out)
    }

    fn on_turn(&mut self, connections: &mut [Connection], now_ns: u64, out: &mut Out) -> Result<()> {
        if self.acks.due(now_ns) > 0 {
            for connection in connections.iter_mut().filter(|c| c.is_fed()) {
                answer(connection, now_ns, out)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_reported_then_taken_back_then_acknowledged() {
        let phases = [0, SACK_NS - 1, SACK_NS, RENEGE_NS, CYCLE_NS - 1, CYCLE_NS].map(phase);
        use Phase::*;
        assert_eq!(phases, [Sack, Sack, Renege, Acknowledge, Acknowledge, Sack]);
    }
}
