//! Clients that acknowledge data before these arrive, so that the server sends faster than the path carries (Savage et al., "TCP
//! congestion control with a misbehaving receiver", 1999).

use super::clients::{Behaviour, Connection, Out, Pace, Plan};
use anyhow::Result;

/// Acknowledged at a time: eight full segments.
const STEP_BYTES: u32 = 8 * 1460;
/// 500 steps are 47 Mbit/s for each connection.
const STEPS_PS: u64 = 500;
/// Further ahead of what arrived it is more than the server can have sent, which it ignores.
const AHEAD_MOST_BYTES: u32 = 1 << 20;

/// Sixteen of them.
pub struct OptimisticAcks {
    steps: Pace,
}

impl OptimisticAcks {
    pub fn new() -> OptimisticAcks {
        OptimisticAcks { steps: Pace::new(STEPS_PS) }
    }
}

/// What is acknowledged next.
fn next_ack(connection: &Connection) -> u32 {
    let next = connection.acked.wrapping_add(STEP_BYTES);
    let ahead = next.wrapping_sub(connection.top) as i32;
    // data are missing: from what arrived on again
    if ahead > AHEAD_MOST_BYTES as i32 || ahead < -(AHEAD_MOST_BYTES as i32) { connection.top } else { next }
}

impl Behaviour for OptimisticAcks {
    fn plan(&self) -> Plan {
        Plan::of(16, 1, 1000)
    }

    fn on_turn(&mut self, connections: &mut [Connection], now_ns: u64, out: &mut Out) -> Result<()> {
        for _ in 0..self.steps.due(now_ns) {
            for connection in connections.iter_mut().filter(|c| c.is_fed()) {
                connection.acked = next_ack(connection);
                out.ack(connection, connection.acked, &[])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_run_ahead_of_what_arrived_and_come_back() {
        let ack = |acked, top| next_ack(&Connection::example(acked, top));
        assert_eq!(ack(u32::MAX, 5), STEP_BYTES - 1);
        assert_eq!(ack(100 + AHEAD_MOST_BYTES, 100), 100);
        assert_eq!(ack(100, 101 + AHEAD_MOST_BYTES + STEP_BYTES), 101 + AHEAD_MOST_BYTES + STEP_BYTES);
    }
}
