//! Clients that complete the handshake and send nothing more: each takes an entry in every flow table on the path.

use super::clients::{Behaviour, Plan};

/// More than a flow table of the default size has entries (32,768), from many addresses.
pub struct HandshakeOnly;

impl Behaviour for HandshakeOnly {
    fn plan(&self) -> Plan {
        Plan { asks: false, ..Plan::of(40_000, 250, 12_000) }
    }
}
