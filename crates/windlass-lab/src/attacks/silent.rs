//! Clients that request a file and never acknowledge any of it: the server retransmits, and a box that stores its data has no
//! reason to release them.

use super::clients::{Behaviour, Plan};

/// So many that a box of the default size cannot keep the first window of each: a chunk of 64 KiB for each, of 256 MiB.
pub struct Silent;

impl Behaviour for Silent {
    fn plan(&self) -> Plan {
        Plan::of(5000, 250, 2500)
    }
}
