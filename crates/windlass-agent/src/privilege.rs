//! What a process must be allowed to do to load and attach programs.

use std::fs;

/// By their numbers in linux/capability.h: for programs, for their kernel pointers, for attaching them, for the clock's frame.
const NEEDED: [(u32, &str); 4] =
    [(39, "CAP_BPF"), (38, "CAP_PERFMON"), (12, "CAP_NET_ADMIN"), (13, "CAP_NET_RAW")];
/// Stands for the first two.
const CAP_SYS_ADMIN: u32 = 21;

/// Whether this process runs as root, as whoever loads programs must.
pub fn is_root() -> bool {
    // SAFETY: plain call without arguments.
    unsafe { libc::geteuid() == 0 }
}

/// Names of the capabilities that root itself may lack, as in a container; none: it has what is needed.
pub(crate) fn missing_capabilities() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    // where nothing tells, the kernel will
    missing(effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(u64::MAX))
}

fn missing(effective: u64) -> Option<String> {
    let has = |number: u32| effective >> number & 1 != 0;
    let is_covered = |number: u32| has(number) || (number >= 38 && has(CAP_SYS_ADMIN));
    let names: Vec<&str> = NEEDED.iter().filter(|(n, _)| !is_covered(*n)).map(|(_, name)| *name).collect();
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
