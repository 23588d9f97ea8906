//! Clients that read a byte every two seconds and announce a window of hardly more: the data of each stay unacknowledged for hours.

use super::clients::{Behaviour, Connection, Out, Pace, Plan};
use anyhow::Result;

const CONNECTIONS: usize = 5000;
const READ_EVERY_S: u64 = 2;
const WINDOW_BYTES: u16 = 12;

/// All of one address.
pub struct SlowReaders {
    reads: Pace,
    next: usize,
}

impl SlowReaders {
    pub fn new() -> SlowReaders {
        SlowReaders { reads: Pace::new(CONNECTIONS as u64 / READ_EVERY_S), next: 0 }
    }
}

impl Behaviour for SlowReaders {
    fn plan(&self) -> Plan {
        Plan { window: WINDOW_BYTES, wscale: 0, ..Plan::of(CONNECTIONS, 1, 2500) }
    }

    fn on_turn(&mut self, connections: &mut [Connection], now_ns: u64, out: &mut Out) -> Result<()> {
        for _ in 0..self.reads.due(now_ns) {
            self.next = (self.next + 1) % connections.len();
            let connection = &mut connections[self.next];
            if connection.is_fed() && connection.open_bytes() > 0 {
                connection.acked = connection.acked.wrapping_add(1);
                out.ack(connection, connection.acked, &[])?;
            }
        }
        Ok(())
    }
}
