//! The compiled native home, as it is built into this program.

use crate::object::fingerprint;
use std::sync::LazyLock;

pub(super) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/native.bpf.o"));
pub(super) static GUEST_OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guest.bpf.o"));

/// Identifies this build's algorithms.
pub(super) fn build_id() -> u64 {
    // it takes milliseconds, and an agent needs it at each look
    static ID: LazyLock<u64> = LazyLock::new(|| fingerprint(OBJECT));
    *ID
}
