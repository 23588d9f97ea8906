//! Clients that report all but the first segment by SACK and never move the cumulative acknowledgement: neither a
//! sender (RFC 2018, section 8) nor a box may release anything.

use super::{
    clients::{Behaviour, Connection, Data, Out, Plan},
    frame::sack,
};
use anyhow::Result;

const SEGMENT_BYTES: u32 = 1448;

/// Two hundred of them.
pub struct SackEverything;

impl Behaviour for SackEverything {
    fn plan(&self) -> Plan {
        Plan::of(200, 1, 1000)
    }

    fn on_data(&mut self, connection: &mut Connection, _: Data, _: u64, out: &mut Out) -> Result<()> {
        if connection.open_bytes() <= SEGMENT_BYTES {
            return Ok(());
        }
        let block = [connection.acked.wrapping_add(SEGMENT_BYTES), connection.top];
        out.ack(connection, connection.acked, &sack(&[block]))
    }
}
