//! The compiled transparent datapath, as it is built into this program.

use crate::object::fingerprint;

pub(crate) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/transparent.bpf.o"));

/// Map of the constants that the programs are loaded with, struct wl_config.
pub(crate) const CONFIG: &str = ".rodata.config";

/// Identifies this build's datapath: maps and programs of another build do not mix with it.
pub(crate) fn build_id() -> u64 {
    fingerprint(OBJECT)
}
