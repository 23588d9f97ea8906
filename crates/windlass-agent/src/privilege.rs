//! What a process must be allowed to do to load and attach programs.

use crate::{
    Error, Result,
    persist::{bpffs, private::check_folder, run_dir::run_dir},
};
use std::fs;

/// For programs, for their kernel pointers, for attaching them, for the clock's frame. Each with its number in
/// linux/capability.h and that of CAP_SYS_ADMIN where this stands for it.
const NEEDED: [(&str, &[u32]); 4] =
    [("CAP_BPF", &[39, 21]), ("CAP_PERFMON", &[38, 21]), ("CAP_NET_ADMIN", &[12]), ("CAP_NET_RAW", &[13])];

/// Whether this process runs as root, as a process that loads programs must.
pub fn is_root() -> bool {
    // SAFETY: plain call without arguments.
    unsafe { libc::geteuid() == 0 }
}

/// May this process do what root may, as far as it is needed here: is it root, or has it, of another user, the capabilities?
pub(crate) fn is_capable() -> bool {
    is_root() || missing_capabilities().is_none()
}

/// Refuses `what` to all but root and users who have the capabilities: the kernel would, with fewer words, and what is pinned is not
/// seen. And to these where what is noted or pinned may be another user's doing.
pub fn check_root(what: &'static str) -> Result<()> {
    if !is_capable() {
        return Err(Error::Privilege { what });
    }
    check_folder(run_dir())?;
    check_folder(&bpffs::root())
}

/// The same where programs are loaded and attached, for which root may lack capabilities.
pub fn check_capable(what: &'static str) -> Result<()> {
    check_root(what)?;
    missing_capabilities().map_or(Ok(()), |missing| Err(Error::Capabilities { what, missing }))
}

/// Names of the capabilities that this process lacks, as root itself may in a container; none: it has what is needed.
pub(crate) fn missing_capabilities() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    // where nothing shows that, the kernel will
    missing(effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(u64::MAX))
}

fn missing(effective: u64) -> Option<String> {
    let has = |numbers: &[u32]| numbers.iter().any(|n| effective >> n & 1 != 0);
    let names: Vec<&str> = NEEDED.iter().filter(|(_, any)| !has(any)).map(|(name, _)| *name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn what_is_missing_is_named() {
        let (net, bpf, sys_admin) = (1 << 12 | 1 << 13, 1 << 38 | 1 << 39, 1 << 21);
        assert_eq!(missing(u64::MAX), None);
        assert_eq!(missing(net | bpf), None);
        assert_eq!(missing(net | sys_admin), None);
        assert_eq!(missing(sys_admin).as_deref(), Some("CAP_NET_ADMIN, CAP_NET_RAW"));
        assert_eq!(missing(net | 1 << 39).as_deref(), Some("CAP_PERFMON"));
    }
}
