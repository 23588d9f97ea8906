//! What one of several interfaces of a datapath leaves in their maps when it is released.

use crate::{
    Result,
    error::bpf,
    object::{pinned, pinned_map},
    test_run::run_until_done,
};
use libbpf_rs::{ErrorKind, MapCore};
use std::{os::fd::AsFd, path::Path};
use windlass_core::abi;

/// The program that forgets the flows of an interface.
pub(crate) const END_FLOWS: &str = "wl_end_flows";

/// Forgets the rules and the flows of interface `ifindex`, whose programs are detached, in the datapath that is pinned in `dir`.
///
/// # Errors
/// Some of it stays, and the datapath forgets it when it has been idle for long.
pub(crate) fn forget(dir: &Path, ifindex: u32) -> Result<()> {
    forget_rules(dir, ifindex).and(end_flows(dir, ifindex))
}

/// Forgets the rules of interface `ifindex`, for which the kernel waits a grace period; no flow is controlled anew there then.
pub(crate) fn forget_rules(dir: &Path, ifindex: u32) -> Result<()> {
    // another version may have none
    let mut maps = ["wl_ifaces", "wl_iface_rules"].into_iter().filter(|name| dir.join(name).exists());
    maps.try_for_each(|name| match pinned_map(&dir.join(name))?.delete(&ifindex.to_ne_bytes()) {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
        deleted => deleted.map_err(bpf(format!("removing an interface from {name}"))),
    })
}

fn end_flows(dir: &Path, ifindex: u32) -> Result<()> {
    let program = pinned(&dir.join(END_FLOWS))?;
    let entries = pinned_map(&dir.join("wl_flows"))?.max_entries();
    (0..entries).step_by(abi::WL_END_ENTRIES as usize).try_for_each(|from| {
        run_until_done(program.as_fd(), ifindex, from, "forgetting an interface's flows")
    })
}
