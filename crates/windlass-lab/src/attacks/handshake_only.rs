//! Clients that complete the handshake and say nothing more: each takes an entry wherever connections are listed.

use super::clients::{Behaviour, Plan};

/// More than the flow table of a box has entries by default.
pub struct HandshakeOnly;

impl Behaviour for HandshakeOnly {
    fn plan(&self) -> Plan {
        Plan { asks: false, ..Plan::of(40_000, 250, 12_000) }
    }
}
