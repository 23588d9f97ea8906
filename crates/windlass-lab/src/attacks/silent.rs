//! Clients that ask for a file and never acknowledge any of it: the server retransmits, and whatever keeps its data keeps them.

use super::clients::{Behaviour, Plan};

/// Five thousand of them, from many addresses.
pub struct Silent;

impl Behaviour for Silent {
    fn plan(&self) -> Plan {
        Plan::of(5000, 250, 2500)
    }
}
