//! What this kernel can do for the datapath, and the cure for what it cannot.

use crate::{
    clock, confine,
    cost::Verified,
    image::{state_id, state_name},
    load, native, netdev,
    persist::{bpffs, pin_dir::PinDir},
    privilege::{is_capable, is_root, missing_capabilities},
    select,
    uplink::kernel_has_departure_times,
};
use serde::Serialize;
use std::{fs, path::Path};

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// Whether nothing is amiss.
    pub ok: bool,
    /// Whether it is there; what is not may not be needed.
    pub is_there: bool,
    /// What was found.
    pub found: String,
    /// What to do if it is not ok; empty otherwise.
    pub cure: &'static str,
    /// The programs that were loaded for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<Verified>,
}

fn check(name: &'static str, ok: bool, found: impl Into<String>, cure: &'static str) -> Check {
    let cure = if ok { "" } else { cure };
    Check { name, ok, is_there: ok, found: found.into(), cure, programs: Vec::new() }
}

impl Check {
    /// What is there; `found` describes it.
    pub fn is_there(name: &'static str, found: String) -> Check {
        check(name, true, found, "")
    }

    /// What is not there, which is no fault; `found` describes what does not work without it.
    pub fn not_needed(name: &'static str, found: String) -> Check {
        Check { name, ok: true, is_there: false, found, cure: "", programs: Vec::new() }
    }
}

fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_string()
}

/// Major and minor version of a kernel release string.
fn version(release: &str) -> (u32, u32) {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|p| p.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

/// What this build's state is, by which its agents know whose open connections they can take over; and of which interfaces not.
fn state() -> Check {
    let is_other = |iface: &String| PinDir::here(iface).state().is_some_and(|id| id != state_id());
    let others: Vec<_> = bpffs::pinned_here().into_iter().filter(is_other).collect();
    let found = match others.is_empty() {
        true => state_name(),
        false => format!("{}; another version's on {}", state_name(), others.join(", ")),
    };
    // that is a choice, and no fault
    check("state", true, found, "")
}

/// Looks at everything that the datapath needs. Changes nothing that lasts.
pub fn doctor() -> Vec<Check> {
    let release = kernel_release();
    let kernel = version(&release);
    let (is_root, is_capable) = (is_root(), is_capable());
    let mut checks = vec![
        check(
            "kernel",
            kernel >= (6, 1),
            release,
            "Linux 6.1 or newer, as in Debian 12; the verifier of 5.17 gives up",
        ),
        check(
            "btf",
            Path::new("/sys/kernel/btf/vmlinux").exists(),
            "/sys/kernel/btf/vmlinux",
            "a kernel built with CONFIG_DEBUG_INFO_BTF",
        ),
        match missing_capabilities() {
            Some(names) if is_root => check(
                "root",
                false,
                format!("yes, without {names}"),
                "run it on the host, or give it to the container",
            ),
            None if !is_root => check("root", true, "no, a user with the capabilities", ""),
            _ => check("root", is_root, if is_root { "yes" } else { "no" }, "run with sudo"),
        },
        check(
            "attachment",
            true,
            if kernel >= (6, 6) { "tcx" } else { "clsact (tcx is there from Linux 6.6)" },
            "",
        ),
        check(
            "bpffs",
            bpffs::has_bpffs() || is_root,
            if bpffs::has_bpffs() { "mounted" } else { "not mounted; the agent mounts it" },
            "mount -t bpf bpf /sys/fs/bpf",
        ),
    ];
    checks.push(match confine::in_words() {
        Some(words) => check("least privilege", true, words, ""),
        None => Check::not_needed("least privilege", "no seccomp: agents may make all system calls".into()),
    });
    for (name, command, cure) in [
        ("iproute2", ["ip", "-V"], "apt-get install iproute2"),
        ("tc", ["tc", "-V"], "apt-get install iproute2"),
    ] {
        let answer = netdev::run(&command);
        checks.push(check(name, answer.is_ok(), if answer.is_ok() { "found" } else { "missing" }, cure));
    }
    checks.push(state());
    if is_capable {
        let pacing = if kernel_has_departure_times() {
            "by fq on the uplink where it is, else by the clock"
        } else {
            "by the clock (fq on the uplink can do it from Linux 5.18)"
        };
        checks.push(check("pacing", true, pacing, ""));
        checks.push(match clock::try_make() {
            Ok(()) => check("clock", true, "tbf on a veth pair", ""),
            Err(e) => {
                check("clock", false, e.to_string(), "a kernel with veth and sch_tbf, built in or as modules")
            }
        });
        checks.push(match load::try_load() {
            Ok(programs) => {
                let list: Vec<String> =
                    programs.iter().map(|p| format!("{} {} insns", p.name, p.insns)).collect();
                Check { programs, ..check("programs", true, list.join(", "), "") }
            }
            Err(e) => check("programs", false, e.to_string(), "report this with the kernel's version"),
        });
        let cure = "a kernel with BPF struct_ops; the transparent home does without";
        checks.push(match native::try_load().and_then(|n| select::try_load().map(|s| (n, s))) {
            Ok((native, select)) => {
                let found = format!("struct_ops, {} programs; sockops", native.len());
                Check { programs: [native, select].concat(), ..check("native", true, found, "") }
            }
            Err(e) => check("native", false, e.to_string(), cure),
        });
        checks.push(match select::root_cgroup() {
            Ok(folder) => check("cgroup", true, folder.display().to_string(), ""),
            // only policies of mode native need it
            Err(_) => Check::not_needed("cgroup", "no version 2: no native policies".into()),
        });
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn kernel_versions_compare_as_numbers() {
        assert!(version("6.1.0-56-cloud-amd64") < version("6.18.44"));
        assert_eq!(version("5.17-rc1"), (5, 17));
    }
}
