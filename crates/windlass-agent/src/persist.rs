//! What outlives a process: programs and maps that the kernel keeps under bpffs, what is written beside them under /run, and the
//! locks with which processes share both.

pub(crate) mod bpffs;
pub(crate) mod ended_counters;
pub(crate) mod further_iface;
pub(crate) mod holder;
pub(crate) mod lock;
pub(crate) mod observed;
pub(crate) mod own_programs;
pub(crate) mod pin_claim;
pub(crate) mod pin_dir;
pub(crate) mod pinned;
pub(crate) mod pins;
pub(crate) mod private;
pub(crate) mod reader_socket;
pub(crate) mod record_ring;
pub(crate) mod released_iface;
pub(crate) mod replace;
pub(crate) mod run_dir;
pub(crate) mod run_file;
pub(crate) mod saved_sums;
pub(crate) mod view;
